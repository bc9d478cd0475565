"""Dumps of NCCL's example profiler as text, event by event.

    from tests.builders.nccl_profiler import Dump

    dump = Dump("2.30")
    with dump.collective("AllReduce", seq=0, start="10.5", end="99.25"):
        dump.kernel(0, start_clock=1_000, stop_clock=61_000)
        dump.transfer("Send", peer=1, size=4096, start="20", end="60")
    data = dump.text()

Generations: "2.23" (transfers called Send and Recv), "2.26" (Schedule and Progress), "2.28" (calls, with values that lack
their quotes), "2.30" (the same with quotes). Times are texts of µs, written with six decimals as the plugin does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

__all__ = ["COMM", "SAMPLES", "Dump", "sample", "write_sample"]

COMM = 12_715_772_615_376_301_750


def _value(value: object, *, bare: bool = False) -> str:
    if isinstance(value, str):
        return value if bare else f'"{value}"'
    return str(value)


class Dump:
    """Collects lines; `text` gives the file."""

    def __init__(self, generation: str = "2.30", comm: int = COMM, rank: int = 0, pid: int = 4_000) -> None:
        self.generation, self.comm, self.rank, self.pid = generation, comm, rank, pid
        self.lines: list[str] = []
        self._ids: Counter[str] = Counter()

    def event(self, name: str, category: str, phase: str, number: int, ts: str, args: str = "") -> None:
        """One line, with its arguments as JSON text."""
        shown = f', "args": {{{args}}}' if args else ""
        self.lines.append(
            f'{{"name": "{name}", "cat": "{category}", "ph": "{phase}", "id": {number}, "pid": {self.pid}, "tid": 1, "ts": {Decimal(ts):.6f}{shown}}},'
        )

    def _next(self, category: str) -> int:
        self._ids[category] += 1
        return self._ids[category] - 1

    def _args(self, /, **args: object) -> str:
        return ", ".join(f'"{k}": {_value(v, bare=k in {"datatype", "Stream"} and self.generation == "2.28")}' for k, v in args.items())

    @contextmanager
    def span(self, name: str, category: str, start: str, end: str, args: str = "") -> Iterator[None]:
        """An event with what happens inside."""
        number = self._next(category)
        self.event(name, category, "b", number, start, args)
        yield
        self.event(name, category, "e", number, end)

    @contextmanager
    def call(self, function: str, *, count: int, dtype: str, root: int | None = None, stream: str = "0x4142e90") -> Iterator[None]:
        """What the program asked for (2.28 and later)."""
        category = "P2P_API" if root is None else "COLL_API"
        rooted = {} if root is None else {"root": root}
        args = self._args(count=count, datatype=dtype, **rooted, GraphCaptured=0, Stream=stream)
        with self.span(function, category, "0", "9", args):
            yield

    @contextmanager
    def collective(
        self, function: str, *, seq: int, start: str, end: str, count: int = 1024, dtype: str = "ncclFloat32", channels: int = 1, algorithm: str = "RING"
    ) -> Iterator[None]:
        """A collective."""
        last = "nChannels" if self.generation != "2.23" else "nMaxChannels"
        args = self._args(
            SeqNum=seq, CommHash=self.comm, Rank=self.rank, Count=count, Datatype=dtype, Algorithm=algorithm, Protocol="SIMPLE", **{last: channels}
        )
        with self.span(function, "COLL", start, end, args):
            yield

    @contextmanager
    def point_to_point(
        self, function: str, *, peer: int, start: str, end: str, count: int = 1024, dtype: str = "ncclFloat32", channels: int = 1
    ) -> Iterator[None]:
        """A send or recv."""
        more: dict[str, object] = {} if self.generation == "2.23" else {"nChannels": channels}
        with self.span(function, "P2P", start, end, self._args(CommHash=self.comm, Rank=self.rank, Peer=peer, Count=count, Datatype=dtype, **more)):
            yield

    def kernel(self, channel: int, *, start_clock: int = 0, stop_clock: int = 0, start: str = "0", end: str = "0") -> None:
        """A channel of the kernel; all have id 0."""
        self.event("KernelCh", "GPU", "b", 0, start, self._args(Channel=channel, StartGpuClk=start_clock, StopGpuClk=stop_clock))
        self.event("KernelCh", "GPU", "e", 0, end)

    def transfer(self, direction: str, *, peer: int, size: int, start: str, end: str, channel: int = 0, scheduled: str = "1") -> None:
        """A transfer (`Send` or `Recv`) with one step on the network."""
        number = self._next("PROXY")
        args = self._args(Channel=channel, Peer=peer, Steps=4, ChunkSize=524288, transSize=size)
        name = direction
        if self.generation == "2.23":
            args += ', "POSTED": {"step": 4, "ts": 3.500000}, "DONE": {"step": 4, "ts": 5.250000}'
        else:
            name = f"Progress{direction}"
            self.event(f"Schedule{direction}", "PROXY", "b", number, scheduled, args)
            self.event(f"Schedule{direction}", "PROXY", "e", number, start)
        self.event(name, "PROXY", "b", number, start, args)
        with self.span(f"{direction}Wait", "NET", start, end, self._args(Step=0)):
            pass
        self.event(name, "PROXY", "e", number, end)

    def text(self, end: str = "{}]\n") -> bytes:
        """The file; a process that was killed leaves another end."""
        return ("[\n" + "".join(line + "\n" for line in self.lines) + end).encode()


SAMPLES = {"2.28": 1, "2.30": 2}
"""Ranks of the samples, by generation."""


def sample(generation: str) -> bytes:
    """A dump of a rank between two others of its communicator, all on hosts of their own."""
    rank = SAMPLES.get(generation, 0)
    dump = Dump(generation, rank=rank, pid=4_000 + rank)
    for step in range(6):
        at = 1_000 * step
        with (
            dump.call("AllReduce", count=1_048_576, dtype="ncclBfloat16", root=0),
            dump.collective("AllReduce", seq=step, start=f"{at}.125", end=f"{at + 420}.5", count=1_048_576, dtype="ncclBfloat16", channels=2),
        ):
            for channel in range(2):
                dump.kernel(channel, start_clock=10**18 + at * 1_000, stop_clock=10**18 + at * 1_000 + 388_000, start=f"{at + 10}", end=f"{at + 400}")
                dump.transfer("Send", channel=channel, peer=rank + 1, size=1_572_864, start=f"{at + 12}.75", end=f"{at + 390}")
                dump.transfer("Recv", channel=channel, peer=rank - 1, size=1_572_864, start=f"{at + 12}.5", end=f"{at + 391}")
    return dump.text()


def write_sample(directory: Path) -> None:
    """Writes the samples of this format."""
    directory.mkdir(parents=True, exist_ok=True)
    for generation, rank in SAMPLES.items():
        (directory / f"nccl-{generation}_{COMM}_{rank}.json").write_bytes(sample(generation))
