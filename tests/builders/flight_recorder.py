"""Dumps of the flight recorder as PyTorch writes them, version by version, and as other tools write them again.

`cpp_pickle` is the writer of C++ over again: protocol 2, dictionaries and lists filled between a mark and one instruction,
equal texts written once, what is shared written once, integers in the smallest of four widths, no names at all.
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.builders.kineto_raw import Parsed
from tracelab.plugins import SourceFile
from tracelab_parsers.flight_recorder import PARSER

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces" / "formats" / "flight-recorder"
BASE_NS = 1_785_000_000_000_000_000
VERSIONS = ("2.3", "2.4", "2.5", "2.7", "2.10")
WORLD = ("0", "default_pg")

Value = Any


def frame(name: str, file: str, line: int) -> dict[str, Value]:
    return {"name": name, "filename": file, "line": line}


TRAIN = [frame("all_reduce", "torch/distributed/distributed_c10d.py", 2806), frame("step", "train.py", 88), frame("<module>", "train.py", 140)]


def entry(
    record_id: int,
    seq: int,
    *,
    p2p_seq: int = 0,
    op_id: int | None = None,
    group: tuple[str, str] = WORLD,
    pg_id: int = 0,
    title: str = "nccl:all_reduce",
    state: str = "completed",
    p2p: bool = False,
    sizes: Sequence[Sequence[int]] = ((1024, 256),),
    out: Sequence[Sequence[int]] | None = None,
    dtype: str = "Float",
    duration_ms: float | None = None,
    retired: bool | None = None,
    frames: list[dict[str, Value]] | None = None,
    created_ns: int | None = None,
) -> dict[str, Value]:
    """An entry as the newest version pickles it; created 10 ms after the one before."""
    created = BASE_NS + 10_000_000 * record_id if created_ns is None else created_ns
    taken = sizes if out is None else out
    return {
        **({} if frames is None else {"frames": frames}),
        "record_id": record_id,
        "pg_id": pg_id,
        "process_group": group,
        "thread_name": "pt_main_thread",
        "thread_id": "139872",
        "collective_seq_id": seq,
        "p2p_seq_id": p2p_seq,
        "op_id": seq if op_id is None else op_id,
        "profiling_name": title,
        "time_created_ns": created,
        **({} if duration_ms is None else {"duration_ms": duration_ms}),
        "input_sizes": [list(s) for s in sizes],
        "input_dtypes": [dtype] * len(sizes),
        "output_sizes": [list(s) for s in taken],
        "output_dtypes": [dtype] * len(taken),
        "state": state,
        "time_discovered_started_ns": created + 1_000_000 if state != "scheduled" else None,
        "time_discovered_completed_ns": created + 4_000_000 if state == "completed" else None,
        "retired": state == "completed" if retired is None else retired,
        "timeout_ms": 600_000,
        "is_p2p": p2p,
    }


def status(enqueued: int, started: int, completed: int) -> dict[str, int]:
    return {"last_enqueued_collective": enqueued, "last_started_collective": started, "last_completed_collective": completed}


def dump(
    entries: Iterable[Mapping[str, Value]],
    *,
    version: str = "2.10",
    groups: Mapping[tuple[str, str], Sequence[int]] | None = None,
    progress: Mapping[int, dict[str, int]] | None = None,
    library: str = "2.27.7",
    comm_state: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Value]:
    """The top level of a dump, with the keys in the order of C++; without those that came after `version`."""
    minor = int(version.partition(".")[2])
    groups = {WORLD: range(4)} if groups is None else groups
    newer = {"thread_name", "thread_id"} if minor < 10 else set()
    config = {name: {"name": name, "desc": desc, "ranks": f"[{', '.join(map(str, ranks))}]"} for (name, desc), ranks in groups.items()}
    stated = {} if minor < 7 else {"comm_lib_version" if minor >= 10 else "nccl_version": library}
    return {
        "version": version,
        "pg_config": config,
        **stated,
        "pg_status": {str(k): v for k, v in (progress or {}).items()},
        "entries": [{k: v for k, v in e.items() if k not in newer} for e in entries],
        **({} if comm_state is None else {"nccl_comm_state": comm_state}),
    }


def as_json(top: Mapping[str, Value]) -> bytes:
    """The dump as `_dump_nccl_trace_json` writes it: keys sorted, no stacks, times that are missing 0, numbers of the status as text."""
    out = dict(top)
    out["pg_status"] = {k: {name: str(n) for name, n in v.items()} for k, v in top["pg_status"].items()}
    entries = [{k: 0 if v is None else v for k, v in e.items() if k != "frames"} for e in top["entries"]]
    out.pop("entries")
    return json.dumps(out | ({"entries": entries} if entries else {}), sort_keys=True, separators=(",", ":")).encode()


def python_pickle(top: Mapping[str, Value], protocol: int = 2) -> bytes:
    """The dump, read and pickled again by a tool."""
    return pickle.dumps(dict(top), protocol)


def cpp_pickle(value: Value) -> bytes:
    """The dump as PyTorch pickles it."""
    writer = _Writer()
    writer.out += b"\x80\x02"
    writer.push(value)
    return bytes(writer.out + b".")


class _Writer:
    def __init__(self) -> None:
        self.out = bytearray()
        self._texts: dict[str, int] = {}
        self._shared: dict[int, int] = {}
        self._next = 0

    def push(self, value: Value) -> None:
        if value is None:
            self.out += b"N"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            self._integer(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            self._text(value)
        else:
            self._container(value)

    def _integer(self, n: int) -> None:
        if 0 <= n < 1 << 8:
            self.out += b"K" + struct.pack("<B", n)
        elif 0 <= n < 1 << 16:
            self.out += b"M" + struct.pack("<H", n)
        elif -(1 << 31) <= n < 1 << 31:
            self.out += b"J" + struct.pack("<i", n)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", n)

    def _text(self, value: str) -> None:
        if value in self._texts:
            self._get(self._texts[value])
            return
        raw = value.encode("utf-8", "surrogateescape")
        self.out += b"X" + struct.pack("<I", len(raw)) + raw
        self._texts[value] = self._put()

    def _container(self, value: Value) -> None:
        # Frames are shared by all stacks that they are in; entries and their lists are in two places while they are written.
        if id(value) in self._shared:
            self._get(self._shared[id(value)])
            return
        if isinstance(value, tuple):
            assert len(value) == 2
            for item in value:
                self.push(item)
            self.out += b"\x86"
            return
        pairs = isinstance(value, Mapping)
        self.out += b"}(" if pairs else b"]("
        for item in [part for pair in value.items() for part in pair] if pairs else value:
            self.push(item)
        self.out += b"u" if pairs else b"e"
        if pairs:
            self._shared[id(value)] = self._put()

    def _get(self, index: int) -> None:
        self.out += b"h" + struct.pack("<B", index) if index < 256 else b"j" + struct.pack("<I", index)

    def _put(self) -> int:
        self.out += b"q" + struct.pack("<B", self._next) if self._next < 256 else b"r" + struct.pack("<I", self._next)
        self._next += 1
        return self._next - 1


def parse(path: Path) -> Parsed:
    """The rows of a dump."""
    parsed = Parsed()
    parsed.info = PARSER.parse(SourceFile(path, path.name), parsed)
    return parsed


def parse_bytes(folder: Path, data: bytes, name: str = "nccl_trace_rank_0") -> Parsed:
    """The rows of a dump with these bytes."""
    path = folder / name
    path.write_bytes(data)
    return parse(path)


def hang(rank: int) -> dict[str, Value]:
    """Rank 2 of four never calls the fifth all_reduce; a pair of sends before was grouped."""
    groups = {WORLD: range(4), ("1", "tensor_parallel"): (rank // 2 * 2, rank // 2 * 2 + 1)}
    peer = rank ^ 1
    place, there = rank % 2, peer % 2
    own: dict[str, Any] = {"group": ("1", "tensor_parallel"), "pg_id": 1, "p2p": True, "p2p_seq": 1, "sizes": ((64, 32),), "dtype": "BFloat16"}
    entries = [entry(n, n - 9, duration_ms=0.75 + n / 128, frames=TRAIN) for n in range(10, 14)]
    entries += [
        entry(14, 0, op_id=1, title=f"nccl:send {place}->{there}", state="scheduled", frames=TRAIN[1:], **own),
        entry(15, 0, op_id=2, title=f"nccl:recv {place}<-{there}", state="scheduled", frames=TRAIN[1:], **own),
        entry(16, 0, op_id=2, title="nccl:coalesced", frames=TRAIN[1:], **{**own, "sizes": ()}),
    ]
    late = rank == 2
    if not late:
        entries.append(entry(17, 5, state="started", frames=TRAIN))
    return dump(entries, groups=groups, progress={0: status(4, 4, 4) if late else status(5, 5, 4), 1: status(1, 1, 1)})


def main() -> None:
    """Writes the samples again."""
    SAMPLES.mkdir(parents=True, exist_ok=True)
    for rank in range(4):
        data = as_json(hang(rank)) if rank == 3 else cpp_pickle(hang(rank))
        (SAMPLES / f"nccl_trace_rank_{rank}").write_bytes(data)


if __name__ == "__main__":
    main()
