"""Logs of a small job as NCCL writes them, and a collector of what the parser makes of a text: `python -m tests.builders.nccl_log` writes the sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracelab.plugins import Notice, SourceFile, SourceInfo
from tracelab.tables import TableSpec
from tracelab_parsers.nccl_log.reading import Reading

SAMPLE = Path(__file__).resolve().parents[2] / "sample_traces" / "formats" / "nccl-log"
GPUS_PER_HOST = 2


@dataclasses.dataclass
class Collected:
    """An emitter that keeps everything; `rows` gives a table as dictionaries, in the order of lines."""

    info: SourceInfo
    batches: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    notices: list[Notice] = dataclasses.field(default_factory=list)

    def batch(self, table: TableSpec, batch: Any) -> None:
        assert batch.schema.equals(table.arrow), table.name
        batch.validate(full=True)
        assert [f.name for f, c in zip(batch.schema, batch.columns, strict=True) if not f.nullable and c.null_count] == []
        self.batches.setdefault(table.name, []).append(batch)

    def notice(self, notice: Notice) -> None:
        self.notices.append(notice)

    def progress(self, bytes_read: int) -> None:
        assert bytes_read >= 0

    def rows(self, table: str) -> list[dict[str, Any]]:
        batches = self.batches.get(table, [])
        rows: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist() if batches else []
        return sorted(rows, key=lambda r: r["line"])

    @property
    def codes(self) -> set[str]:
        return {n.code for n in self.notices}


def parse(path: Path, **options: Any) -> Collected:
    """What the parser makes of a file."""
    emit = Collected(SourceInfo([]))
    emit.info = Reading(SourceFile(path, path.name), emit, **options).run()
    return emit


def parse_text(text: str | bytes, folder: Path, **options: Any) -> Collected:
    """What the parser makes of a text."""
    path = folder / "out.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return parse(path, **options)


def operation(
    name: str = "AllReduce", *, comm: str = "0x55aa0001", count: int = 1000, datatype: int = 7, op: int = 0, root: int = 0, size: int = 4, n: int = 0
) -> str:
    """The text of a COLL line."""
    return (
        f"{name}: opCount {n:x} sendbuff 0x7f{n:06x}00 recvbuff 0x7f{n:06x}80 count {count} datatype {datatype} op {op} root {root} "
        f"comm {comm} [nranks={size}] stream 0x55bb0010"
    )


@dataclasses.dataclass(frozen=True)
class Rank:
    """A process of the job and how its lines begin."""

    rank: int

    @property
    def host(self) -> str:
        return f"node-{self.rank // GPUS_PER_HOST}"

    @property
    def device(self) -> int:
        return self.rank % GPUS_PER_HOST

    @property
    def pid(self) -> int:
        return 4000 + self.rank

    @property
    def comm(self) -> str:
        return f"0x55aa000{self.rank + 1}"

    def line(self, text: str, second: float, *, main: bool = False) -> str:
        tid = self.pid if main else self.pid + 100
        stamp = f"2026-01-31 04:05:{second:09.6f} +0000"
        return f"[rank{self.rank}]: [{stamp}] {self.host}:{self.pid}:{tid} [{self.device}] NCCL INFO {text}\n"


def _init(rank: Rank, size: int) -> Iterator[tuple[str, bool]]:
    r = rank.rank
    before, after = (r - 1) % size, (r + 1) % size
    identity = f"ncclCommInitRankConfig comm {rank.comm} rank {r} nranks {size} cudaDev {rank.device} nvmlDev {rank.device} busId {rank.device + 1}b000"
    yield "NCCL version 2.27.5+cuda12.8", True
    yield "Bootstrap: Using eth0:10.0.0.1<0>", True
    yield "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>", False
    yield "Using network IB", False
    yield f"{identity} commId 0x1f2e3d4c5b6a7988 - Init START", False
    yield f"comm {rank.comm} rank {r} nRanks {size} nNodes 2 localRanks 2 localRank {rank.device} MNNVL 0", False
    if r == 0:
        for channel in range(2):
            yield f"Channel {channel:02d}/02 : {' '.join(map(str, range(size)))}", False
    yield "Trees " + " ".join(f"[{c}] {after or -1}/-1/-1->{r}->{before if r else -1}" for c in range(2)), False
    for channel in range(2):
        yield f"Ring {channel:02d} : {before} -> {r} -> {after}", False
    yield "2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer", False
    yield f"{identity} commId 0x1f2e3d4c5b6a7988 - Init COMPLETE", False
    yield f"Init timings - ncclCommInitRankConfig: rank {r} nranks {size} total 0.{37 + r} (kernels 0.28, alloc 0.05, bootstrap 0.00, rest 0.00)", False


def _work(rank: Rank, size: int) -> Iterator[tuple[str, bool]]:
    after = (rank.rank + 1) % size
    via = "P2P/CUMEM" if rank.rank // GPUS_PER_HOST == after // GPUS_PER_HOST else f"NET/IB/{rank.device}/GDRDMA"
    end = "" if via.startswith("P2P") else " [send]"
    for channel in range(2):
        yield f"Channel {channel:02d}/0 : {rank.rank}[{rank.device}] -> {after}[{after % GPUS_PER_HOST}]{end} via {via}", False
    yield "Connected all rings, use ring PXN 0 GDR 1", False
    for n, name in enumerate(("AllReduce", "AllGather", "ReduceScatter") * 4):
        yield operation(name, comm=rank.comm, n=n, size=size, count=4096), True
        if rank.rank == 0:
            yield f"{name}: 16384 Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..1}}", True


def sample_lines(size: int = 4) -> list[str]:
    """The standard output of a job: every rank's lines, taking turns."""
    lines: list[str] = ["Starting the job on 2 hosts\n"]
    for phase in (_init, _work):
        streams = [list(phase(Rank(r), size)) for r in range(size)]
        for n in range(max(map(len, streams))):
            for r, stream in enumerate(streams):
                if n < len(stream):
                    lines.append(Rank(r).line(stream[n][0], len(lines) / 50, main=stream[n][1]))
    lines += [f"[rank0]: step {n} | loss {2 - n / 10:.3f}\n" for n in range(3)]
    return lines


def write_sample(folder: Path) -> None:
    """Writes the log of a job of four ranks on two hosts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.log").write_text("".join(sample_lines()))


if __name__ == "__main__":
    write_sample(SAMPLE)
