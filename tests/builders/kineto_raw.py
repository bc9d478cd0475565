"""Hand-made traces, byte by byte, and what the parser makes of them as plain rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracelab.plugins import Notice, SourceFile, SourceInfo
from tracelab.tables import TableSpec
from tracelab_parsers.json_chunks import Limits
from tracelab_parsers.torch_profiler.reading import Reading

BASE_NS = 1_727_743_122_000_000_000


@dataclass
class Parsed:
    """An emitter that keeps rows, and what the parser returned."""

    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    notices: dict[str, Notice] = field(default_factory=dict)
    info: SourceInfo = field(default_factory=lambda: SourceInfo([]))

    def batch(self, table: TableSpec, batch: pa.RecordBatch) -> None:
        assert batch.schema.equals(table.arrow), table.name
        batch.validate(full=True)
        assert [f.name for f, c in zip(batch.schema, batch.columns, strict=True) if not f.nullable and c.null_count] == []
        self.tables.setdefault(table.name, []).extend(batch.to_pylist())

    def notice(self, notice: Notice) -> None:
        assert notice.code not in self.notices
        self.notices[notice.code] = notice

    def progress(self, bytes_read: int) -> None:
        assert bytes_read >= 0

    def __getitem__(self, name: str) -> list[dict[str, Any]]:
        return self.tables.get(name, [])

    @property
    def counts(self) -> dict[str, int]:
        return {n.code: n.count for n in self.notices.values()}

    def names(self, table: str) -> list[str]:
        return [row["name"] for row in self[table]]

    def everything(self) -> str:
        """All that leaves the parser, as text."""
        return repr((self.tables, self.notices, self.info))


def parse(path: Path, *, limits: Limits | None = None, **options: bool) -> Parsed:
    """Parses a file as the product does."""
    parsed = Parsed()
    parsed.info = Reading(SourceFile(path, path.name, options), parsed, limits).run()
    return parsed


def kernel(name: object = "gemm", ts: object = 10, dur: object = 5, **args: object) -> dict[str, Any]:
    """A kernel on device 0, stream 7; underscores in argument names stand for spaces."""
    plain: dict[str, object] = {"device": 0, "stream": 7, "correlation": 1, **{k.replace("_", " "): v for k, v in args.items()}}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": plain}


def host(name: object = "aten::mm", cat: str = "cpu_op", ts: object = 1, dur: object = 5, **args: object) -> dict[str, Any]:
    """A span of thread 12 of process 11."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 11, "tid": 12, "ts": ts, "dur": dur, "args": {k.replace("_", " "): v for k, v in args.items()}}


def launch(correlation: int = 1, name: str = "cudaLaunchKernel", ts: object = 2) -> dict[str, Any]:
    """A runtime call."""
    return host(name, "cuda_runtime", ts, 1, correlation=correlation)


def end_mark() -> dict[str, Any]:
    """The last event of a whole trace."""
    return {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 100}


def document(events: Iterable[object], *, base: int | None = BASE_NS, base_first: bool = True, indent: int | None = 1, **metadata: object) -> bytes:
    """A trace with these events, the base time before or after them."""
    stated = {} if base is None else {"baseTimeNanoseconds": base}
    members = {"schemaVersion": 1, **metadata, **(stated if base_first else {}), "traceEvents": list(events), **({} if base_first else stated)}
    return json.dumps(members, indent=indent).encode()


def write(folder: Path, data: bytes, name: str = "trace.json") -> Path:
    """`data` as a file."""
    path = folder / name
    path.write_bytes(data)
    return path


def parse_events(folder: Path, *events: object, **metadata: Any) -> Parsed:
    """The rows of a trace of these events."""
    return parse(write(folder, document(events, **metadata)))
