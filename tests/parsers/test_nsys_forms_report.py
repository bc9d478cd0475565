"""Reports that were not exported: by the export beside them, by `nsys`, or an error that says what to do."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.builders.collected import read
from tests.builders.job import Job, Simulation
from tests.builders.nsys_forms import told, write_lines, write_parquet
from tests.builders.nsys_sqlite import Export, rank_export
from tracelab.errors import TracelabError
from tracelab.ingest.discovery import discover
from tracelab_parsers.nsys import PARSER
from tracelab_parsers.nsys_forms import REPORT, exporting

Nsys = Callable[[str], Path]
COPY = "shutil.copyfile(DATA, target)"


@pytest.fixture(scope="module")
def export() -> Export:
    return rank_export(Simulation(Job(world=2, hosts=1, steps=2, layers=1, seed=3)), 1)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "in put" / "rank1.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(b"a report\n")
    return path


@pytest.fixture
def nsys(tmp_path: Path, export: Export, monkeypatch: pytest.MonkeyPatch) -> Nsys:
    """Makes a program `nsys` that notes its arguments and then does what it is told, and is the only one on the PATH."""
    (tmp_path / "bin").mkdir()
    export.write(tmp_path / "data.sqlite")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def make(body: str) -> Path:
        program = tmp_path / "bin" / "nsys"
        lines = [f"#!{sys.executable}", "import shutil, sys, time", f"DATA = {str(tmp_path / 'data.sqlite')!r}", "target = sys.argv[sys.argv.index('-o') + 1]"]
        lines += [f"print(*sys.argv[1:], sep=chr(31), file=open({str(tmp_path / 'calls')!r}, 'a'))", body]
        program.write_text("\n".join(lines) + "\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return tmp_path / "calls"

    return make


def _calls(path: Path) -> list[list[str]]:
    return [line.split("\x1f") for line in path.read_text().splitlines()]


def _leftovers(folder: Path) -> Sequence[str]:
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("tracelab-"))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_report_is_exported_with_its_payloads(report: Path, nsys: Nsys, export: Export, tmp_path: Path, temporary: Path) -> None:
    calls = nsys(COPY)
    found, expected = read(REPORT, report), read(PARSER, export.write(tmp_path / "expected.sqlite"))
    assert found.info == expected.info
    assert found.notices == expected.notices
    assert told(found) == told(expected)
    ((*before, target, blobs, texts, source),) = _calls(calls)
    assert before == ["export", "-t", "sqlite", "--force-overwrite=true", "-o"]
    assert (blobs, texts, source) == ("--include-blobs=true", "--include-json=true", str(report))
    assert Path(target).parent.parent == temporary
    assert _leftovers(temporary) == []
    assert [p.name for p in report.parent.iterdir()] == ["rank1.nsys-rep"]


def test_without_nsys_the_error_says_what_to_run(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    hostile = report.rename(report.with_name("$(touch x);rank1.nsys-rep"))
    with pytest.raises(TracelabError, match="only be read by nsys") as caught:
        read(REPORT, hostile)
    hint = caught.value.hint
    assert "sizes and communicators" in hint
    command = hint[hint.index("nsys export") : hint.index(" (without")]
    assert shlex.split(command) == [
        *("nsys", "export", "-t", "sqlite", "--include-blobs=true", "--include-json=true"),
        *("-o", "$(touch x);rank1.sqlite", "$(touch x);rank1.nsys-rep"),
    ]


def test_an_older_nsys_exports_without_payloads(report: Path, nsys: Nsys) -> None:
    calls = nsys(f"if '--include-blobs=true' in sys.argv:\n    sys.exit('unrecognised option')\n{COPY}")
    found = read(REPORT, report)
    assert len(_calls(calls)) == 2
    assert found.rows("gpu_spans")
    assert found.notices["export-without-payloads"].severity == "warning"


def test_what_a_failing_nsys_says_is_told(report: Path, nsys: Nsys, temporary: Path) -> None:
    nsys("print('x' * 100_000)\nprint('Importer error:\\x1b[31m the report is damaged')\nsys.exit(3)")
    with pytest.raises(TracelabError, match=r"status 3: Importer error:\[31m the report is damaged\n"):
        read(REPORT, report)
    assert _leftovers(temporary) == []


def test_an_nsys_that_writes_nothing(report: Path, nsys: Nsys) -> None:
    nsys("pass")
    with pytest.raises(TracelabError, match="without a file: it said nothing"):
        read(REPORT, report)


def test_an_nsys_that_cannot_be_run(report: Path, nsys: Nsys, tmp_path: Path) -> None:
    nsys("pass")
    program = tmp_path / "bin" / "nsys"
    program.write_text("#!/nowhere/python\n")
    with pytest.raises(TracelabError, match="cannot be run"):
        read(REPORT, report)


def test_an_nsys_that_hangs_is_stopped_with_what_it_started(report: Path, nsys: Nsys, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "TIMEOUT_S", 1.0)
    child = f"import subprocess\nchild = subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(600)'])"
    nsys(f"{child}\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\ntime.sleep(600)")
    with pytest.raises(TracelabError, match="did not end within"):
        read(REPORT, report)
    state = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    assert not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z"
    assert _leftovers(temporary) == []


def test_an_export_without_end_is_stopped(report: Path, nsys: Nsys, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_FREE_BYTES", 1 << 20)
    nsys("f = open(target, 'wb')\nwhile True:\n    f.write(bytes(1 << 20))\n    f.flush()\n    time.sleep(0.05)")
    with pytest.raises(TracelabError, match="more than any export"):
        read(REPORT, report)
    assert _leftovers(temporary) == []


def test_a_disk_that_fills_is_left_alone(report: Path, nsys: Nsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_SPARE_BYTES", 1 << 62)
    nsys("time.sleep(600)")
    with pytest.raises(TracelabError, match="fills the folder") as caught:
        read(REPORT, report)
    assert "TMPDIR" in caught.value.hint


def test_the_export_beside_a_report_is_read_instead(report: Path, nsys: Nsys, export: Export) -> None:
    calls = nsys("sys.exit(1)")
    beside = export.write(report.with_suffix(".sqlite"))
    found, expected = read(REPORT, report), read(PARSER, beside)
    assert not calls.exists()
    assert found.rows("gpu_spans") == expected.rows("gpu_spans")
    assert found.notices.keys() - expected.notices.keys() == {"exported-beside"}
    old = report.stat().st_mtime - 3600
    os.utime(beside, (old, old))
    assert read(REPORT, report).notices["stale-export"].severity == "warning"


def test_a_report_and_its_export_are_one_source(report: Path, export: Export) -> None:
    export.write(report.with_suffix(".sqlite"))
    found = discover(report.parent)
    assert [(c.name, c.parser, c.companion_of) for c in found] == [
        ("rank1.nsys-rep", "nsys-report", None),
        ("rank1.sqlite", None, "rank1.nsys-rep"),
    ]


@pytest.mark.parametrize("form", ["folder", "lines"])
def test_other_exports_beside_a_report_stand_for_it(report: Path, export: Export, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    if form == "folder":
        write_parquet(export, report.with_name("rank1_pqtdir"))
    else:
        write_lines(export, report.with_suffix(".jsonl"))
    assert sorted(c.parser for c in discover(report.parent) if c.parser) == sorted(["nsys-report", "nsys-parquet" if form == "folder" else "nsys-jsonlines"])
    found = read(REPORT, report)
    assert found.info.parts == []
    assert set(found.notices) == {"exported-beside"}


def test_an_unfinished_capture_says_so(tmp_path: Path, nsys: Nsys) -> None:
    calls = nsys(COPY)
    path = tmp_path / "rank1.qdstrm"
    path.write_bytes(b"a stream\n")
    assert REPORT.sniff(path, b"a stream\n") is not None
    with pytest.raises(TracelabError, match="not finished"):
        read(REPORT, path)
    assert not calls.exists()


def test_a_database_that_is_called_a_report_is_none(tmp_path: Path, export: Export) -> None:
    path = export.write(tmp_path / "rank1.nsys-rep")
    head = path.read_bytes()[:65536]
    assert REPORT.sniff(path, head) is None
    assert PARSER.sniff(path, head) is not None


def test_the_environment_of_the_export_reaches_no_row(report: Path, nsys: Nsys) -> None:
    nsys(COPY)
    found = read(REPORT, report)
    assert "hf_not_to_be_shown" not in repr((found.info, found.notices, told(found)))


def test_a_pipe_beside_a_report_is_not_opened(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    os.mkfifo(report.with_suffix(".sqlite"))
    with pytest.raises(TracelabError, match="there is none on the PATH"):
        read(REPORT, report)
