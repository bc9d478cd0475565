"""What every registered parser must do, checked on every sample: a new format is tested by adding a sample directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tracelab.errors import TracelabError
from tracelab.ingest.discovery import discover
from tracelab.ingest.heads import HEAD_BYTES, read_head
from tracelab.plugins import Notice, Parser, SourceFile, SourceInfo, WithCompanions, parsers
from tracelab.tables import FABRIC_TABLES, PARSED_TABLES, TableSpec

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
CERTAIN_ENOUGH = 0.5
SPANS = ("gpu_spans", "host_spans", "memory_events", "gpu_counters")


@dataclasses.dataclass
class Collected:
    """An emitter that keeps everything."""

    batches: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    notices: list[Notice] = dataclasses.field(default_factory=list)
    read: list[int] = dataclasses.field(default_factory=list)

    def batch(self, table: TableSpec, batch: Any) -> None:
        self.batches.setdefault(table.name, []).append(batch)

    def notice(self, notice: Notice) -> None:
        self.notices.append(notice)

    def progress(self, bytes_read: int) -> None:
        self.read.append(bytes_read)

    def table(self, name: str) -> Any:
        return pa.Table.from_batches(self.batches[name]).combine_chunks()


def _traces() -> list[Path]:
    """All samples, without what is read as a part of another one."""
    found = [c.path for c in discover(SAMPLES) if c.companion_of is None]
    return sorted(f for f in found if f.name not in {"README.md", "truth.json", "tracelab.toml"})


def _claims(path: Path) -> dict[str, float]:
    matches = {name: parser.sniff(path, read_head(path).data) for name, parser in parsers().items()}
    return {name: match.confidence for name, match in matches.items() if match is not None}


def _owner(path: Path) -> Parser:
    (name,) = _claims(path)
    return parsers()[name]


def _parse(path: Path) -> tuple[Collected, SourceInfo]:
    emit = Collected()
    return emit, _owner(path).parse(SourceFile(path, path.name), emit)


def _cut_copies(path: Path, folder: Path) -> Iterator[Path]:
    data = path.read_bytes()
    for part in (1, 10, len(data) // 3, len(data) * 9 // 10, len(data) - 1):
        copy = folder / f"{part}-{path.name}"
        copy.write_bytes(data[:part])
        yield copy


TRACES = pytest.mark.parametrize("path", _traces(), ids=lambda p: str(p.relative_to(SAMPLES)))


def test_every_parser_has_a_sample() -> None:
    owners = {name for path in _traces() for name in _claims(path)}
    assert owners == set(parsers())


@TRACES
def test_one_parser_claims_a_sample(path: Path) -> None:
    ((_, confidence),) = _claims(path).items()
    assert CERTAIN_ENOUGH <= confidence <= 1


@pytest.mark.parametrize("path", [*SAMPLES.glob("*/README.md"), *SAMPLES.glob("*/truth.json")], ids=lambda p: str(p.relative_to(SAMPLES)))
def test_no_parser_claims_what_is_no_trace(path: Path) -> None:
    assert _claims(path) == {}


@pytest.mark.parametrize("name", sorted(parsers()))
def test_parsers_describe_themselves(name: str) -> None:
    parser = parsers()[name]
    assert parser.name == name
    assert parser.version >= 1
    assert parser.title
    assert set(parser.tables) <= {*PARSED_TABLES, *FABRIC_TABLES}
    assert parser.kind != "fabric" or set(parser.tables) <= set(FABRIC_TABLES)
    assert len(parser.tables) == len(set(parser.tables)) > 0


@TRACES
def test_batches_have_exactly_the_schema_of_their_table(path: Path) -> None:
    emit, _ = _parse(path)
    specs = {t.name: t for t in _owner(path).tables}
    assert emit.batches
    for name, batches in emit.batches.items():
        for batch in batches:
            assert batch.schema.equals(specs[name].arrow), name
            batch.validate(full=True)
            empty = [f.name for f, column in zip(batch.schema, batch.columns, strict=True) if not f.nullable and column.null_count]
            assert empty == []


@TRACES
def test_every_event_is_accounted_for(path: Path) -> None:
    emit, info = _parse(path)
    kinds = [c.kind for c in info.event_counts]
    assert len(kinds) == len(set(kinds))
    assert all(c.count > 0 for c in info.event_counts)
    assert not info.truncated
    stored = sum(c.count for c in info.event_counts if c.stored)
    if _owner(path).kind == "timeline":
        assert stored == sum(batch.num_rows for name in SPANS for batch in emit.batches.get(name, ()))
    else:  # a message of a log, a number of a machine may give several rows, or be part of one
        assert 0 < stored <= sum(batch.num_rows for batches in emit.batches.values() for batch in batches)


@TRACES
def test_the_source_is_described(path: Path) -> None:
    emit, info = _parse(path)
    parts = {p.part for p in info.parts}
    if _owner(path).kind == "fabric":
        assert info.parts == []
    else:
        assert len(parts) == len(info.parts) > 0
    for name, batches in emit.batches.items():
        for batch in batches:
            assert name in {t.name for t in FABRIC_TABLES} or set(batch.column("part").to_pylist()) <= parts
    for part in info.parts:
        if _owner(path).kind == "log" and part.start_ns is None:
            assert part.end_ns is None
            continue
        assert part.start_ns is not None
        assert part.end_ns is not None
        assert part.start_ns <= part.end_ns
    assert emit.read == sorted(emit.read)
    owner: object = _owner(path)
    gathered = owner.companions(path) if isinstance(owner, WithCompanions) else None
    assert not emit.read or emit.read[-1] <= path.stat().st_size + sum(p.stat().st_size for p in (gathered.files if gathered else ()))


@TRACES
def test_notices_are_whole(path: Path) -> None:
    emit, _ = _parse(path)
    for notice in emit.notices:
        assert isinstance(notice, Notice)
        assert notice.severity in {"error", "warning", "info"}
        assert notice.code == notice.code.lower().replace("_", "-").replace(" ", "-")
        assert notice.text
        assert notice.count > 0


@TRACES
def test_parsing_twice_gives_the_same(path: Path) -> None:
    (first, info), (second, again) = _parse(path), _parse(path)
    assert info == again
    assert first.notices == second.notices
    assert first.batches.keys() == second.batches.keys()
    assert all(first.table(name).equals(second.table(name)) for name in first.batches)


@TRACES
def test_a_cut_file_gives_its_beginning_or_an_error_never_silence(path: Path, tmp_path: Path) -> None:
    parser = _owner(path)
    # A text of lines may end after any of them: only a line that is cut itself can be told.
    lines = parser.kind != "timeline" and path.suffix not in {".json", ".xml", ".db_csv"}
    for copy in _cut_copies(path, tmp_path):
        emit = Collected()
        try:
            info = parser.parse(SourceFile(copy, copy.name), emit)
        except (TracelabError, OSError):
            continue
        assert info.truncated or emit.notices or lines, copy.name
        for name, batches in emit.batches.items():
            assert all(batch.schema.equals(next(t for t in parser.tables if t.name == name).arrow) for batch in batches)


@pytest.mark.parametrize("name", sorted(parsers()))
@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 100_000, b"{", b"[[[[" * 50_000, b"\x1f\x8b", b"not a trace at all\n" * 100],
    ids=["empty", "zeros", "brace", "nested", "gzip magic", "text"],
)
def test_what_is_no_trace_is_an_error_or_a_notice(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    emit = Collected()
    try:
        parsers()[name].parse(SourceFile(path, path.name), emit)
    except (TracelabError, OSError):
        return
    assert emit.notices


@pytest.mark.parametrize("filler", [b"\n", b" ", b"\t", b"\r\n", b"\n ", b"- ", b"/", b'"', b"\\", b"a.", b"0x", b"[[", b"{ "], ids=repr)
def test_nobody_claims_what_repeats_itself(filler: bytes, tmp_path: Path) -> None:
    """Each is looked at by every parser: patterns that try all ways to part such a text would never end."""
    head = filler * (HEAD_BYTES // len(filler))
    assert [name for name, parser in parsers().items() if parser.sniff(tmp_path / "x", head) is not None] == []


@TRACES
def test_a_run_of_one_character_anywhere_in_the_head_ends(path: Path, tmp_path: Path) -> None:
    """A sample with a long run inside is claimed by its own parser, or by none that reads another kind of text."""
    head = read_head(path).data
    for at, filler in ((0, b"\n"), (len(head) // 3, b" "), (len(head) // 2, b'","'), (len(head) * 2 // 3, b"\n ")):
        text = head[:at] + filler * (32_000 // len(filler)) + head[at:]
        claims = {name for name, parser in parsers().items() if parser.sniff(path, text[:HEAD_BYTES]) is not None}
        assert claims <= {_owner(path).name, "nccl-log"}
