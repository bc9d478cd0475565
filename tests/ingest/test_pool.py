"""Several processes: the same tables as one, and the death of a worker costs the guilty file alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.kineto_writer import Job, write_job
from tracelab import plugins
from tracelab.ingest import pipeline
from tracelab.ingest.discovery import Candidate, discover
from tracelab.ingest.pipeline import ProgressState, ingest

DEADLY = """
import os, signal
from tracelab.plugins import Match, Part, SourceInfo, EventCount

class Deadly:
    name, version, title, tables, option_names = "deadly", 1, "deadly", (), ()
    def sniff(self, path, head):
        return Match(1.0, "deadly")
    def parse(self, source, emit):
        text = source.path.read_text()
        if "die" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        for n in range(100_000):
            emit.progress(n)
        return SourceInfo([Part(rank=0)], event_counts=[EventCount("line", len(text), True)])

PARSER = Deadly()
"""


@pytest.fixture
def deadly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs a third party's parser that kills its process when the file says so."""
    info = tmp_path / "site" / "deadly-1.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site" / "deadly_plugin.py").write_text(DEADLY)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tracelab.parsers]\ndeadly = deadly_plugin:PARSER\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    plugins.parsers.cache_clear()
    yield
    plugins.parsers.cache_clear()


def test_a_dead_worker_costs_the_guilty_file_alone(deadly: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_POOL_PAYS_BYTES", 0)
    candidates = []
    for name, text in {"a": "fine", "b": "die", "c": "good", "d": "well"}.items():
        (tmp_path / name).write_text(text)
        candidates.append(Candidate(tmp_path / name, name, len(text), gzipped=False, parser="deadly", looks_like=""))
    seen: list[ProgressState] = []
    items = ingest(candidates, tmp_path / "store", jobs=2, on_progress=seen.append)
    assert {i.candidate.name: i.notice.code for i in items if i.notice is not None} == {"b": "worker-died"}
    assert [i.candidate.name for i in items if i.source is not None] == ["a", "c", "d"]
    assert (seen[-1].files_done, seen[-1].bytes_done) == (4, 15)


def _bytes(store: Path) -> dict[str, str]:
    return {f.relative_to(store).as_posix(): hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(store.rglob("*")) if f.is_file()}


def test_several_processes_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(tmp_path / "traces", Job(world=3, hosts=1, tp=1, steps=2))
    candidates = discover(tmp_path / "traces")
    ingest(candidates, tmp_path / "one", jobs=1)
    monkeypatch.setattr(pipeline, "_POOL_PAYS_BYTES", 0)
    ingest(candidates, tmp_path / "two", jobs=2)
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")
    assert len(_bytes(tmp_path / "one")) >= 3 * 4
