"""How fast logs are read, and how much of real ones is understood: `python -m benchmarks.nccl_log [--megabytes 200]`.

The log is made: 16 processes, 85 % of its lines operations, the rest lines of a training program and some other messages.
Each measurement is a process of its own, bound to one core.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

DATA = Path(os.environ.get("TRACELAB_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
REAL = ("nccl/*/*", "jobs/*/logs/*")
OPERATIONS = (("AllReduce", 7), ("AllGather", 9), ("ReduceScatter", 9), ("Broadcast", 7), ("Send", 6))
PROCESSES = 16


class Sink:
    """An emitter that only counts rows."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    def batch(self, table: Any, batch: Any) -> None:
        """Counts the rows."""
        self.rows[table.name] = self.rows.get(table.name, 0) + batch.num_rows

    def notice(self, notice: Any) -> None:
        """Passes over it."""
        del notice

    def progress(self, bytes_read: int) -> None:
        """Passes over it."""
        del bytes_read


def _line(n: int, share: float, messages: float, draw: random.Random) -> str:
    rank = n % PROCESSES
    head = f"node{rank // 8:02d}:{3000 + 17 * rank}:{3300 + 17 * rank} [{rank % 8}] NCCL INFO "
    kind = draw.random()
    if kind < share:
        name, datatype = OPERATIONS[n // PROCESSES % len(OPERATIONS)]
        comm = f"0x55cc{n // PROCESSES % 3}{rank:04x}c620"
        buffers = f"sendbuff 0x7f{draw.getrandbits(36):010x} recvbuff 0x7f{draw.getrandbits(36):010x}"
        count = draw.choice((25_000_000, 4096, 123_456))
        what = f"{name}: opCount {n // PROCESSES:x} {buffers} count {count} datatype {datatype} op 0 root 0"
        return f"{head}{what} comm {comm} [nranks=16] stream 0x55b0000{rank:04x}\n"
    if kind < share + messages:
        return f"{head}Channel {n % 8:02d}/1 : {rank}[{rank % 8}] -> {(rank + 1) % PROCESSES}[{(rank + 1) % 8}] via P2P/IPC/read\n"
    return f"[2026-01-31 06:15:14,{n % 1000:03d}] [INFO] [train.py:216:main] step {n} | loss {draw.random():.4f} | lr 0.0001 | tokens per second 12345\n"


def write_log(path: Path, megabytes: float, share: float = 0.85, messages: float = 0.01) -> None:
    """Writes a log of so many operations and other messages, each a share of the lines."""
    draw, n, size = random.Random(1), 0, 0  # noqa: S311 -- no secret, the same log every time
    with path.open("w") as f:
        for rank in range(PROCESSES):
            for comm in range(3):
                identity = f"comm 0x55cc{comm}{rank:04x}c620 rank {rank} nranks 16 cudaDev {rank % 8} nvmlDev {rank % 8} busId f000 commId 0x55{comm}"
                for what in ("START", "COMPLETE"):
                    f.write(f"node{rank // 8:02d}:{3000 + 17 * rank}:{3100 + rank} [{rank % 8}] NCCL INFO ncclCommInitRank {identity} - Init {what}\n")
        while size < megabytes * 1e6:
            text = "".join(_line(n + i, share, messages, draw) for i in range(2000))
            size += f.write(text)
            n += 2000


def read(path: Path) -> dict[str, Any]:
    """Reads a file in this process: seconds of processor time, peak memory in MiB and the counts of messages."""
    from tracelab.plugins import SourceFile
    from tracelab_parsers.nccl_log import reading

    sink = Sink()
    with tempfile.NamedTemporaryFile() as small:
        # What is loaded at first use is no part of reading.
        write_log(Path(small.name), 0.01)
        reading.Reading(SourceFile(Path(small.name), "small"), Sink()).run()
    begin = time.process_time()
    info = reading.Reading(SourceFile(path, path.name), sink).run()
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mib": peak, "rows": sink.rows, **{k: int(v) for k, v in info.metadata.items() if k.startswith("messages")}}


def measured(path: Path) -> dict[str, Any]:
    """`read` in a process of its own, on one core."""
    command = [sys.executable, "-m", "benchmarks.nccl_log", "--read", str(path)]
    env = {**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=env, preexec_fn=lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def speed(megabytes: float, repeats: int, console: Console) -> None:
    """Prints how fast made logs are read."""
    table = Table(title="Reading (processor time of one core, the best run)")
    for name in ("operations", "other messages", "MB", "MB/s", "peak MiB", "rows"):
        table.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for share, messages in ((0.85, 0.01), (0.85, 0.15), (0.0, 0.0)):
            path = Path(folder) / "out.log"
            write_log(path, megabytes, share, messages)
            size = path.stat().st_size / 1e6
            runs = [measured(path) for _ in range(repeats)]
            best = min(r["seconds"] for r in runs)
            rows = sum(runs[0]["rows"].values())
            table.add_row(f"{share:.0%}", f"{messages:.0%}", f"{size:.0f}", f"{size / best:.0f}", f"{max(r['peak_mib'] for r in runs):.0f}", f"{rows}")
    console.print(table)


def understood(console: Console) -> None:
    """Prints which share of the messages of real files is of a known kind, and of which share fields were read."""
    table = Table(title=f"Real files of {DATA.name}")
    for name in ("file", "messages", "known kind", "fields read"):
        table.add_column(name, justify="left" if name == "file" else "right")
    total = [0, 0, 0]
    for path in sorted(p for pattern in REAL for p in DATA.glob(pattern) if p.is_file()):
        found = read(path)
        counts = [found["messages"], found["messages_classified"], found["messages_with_fields"]]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        if counts[0]:
            table.add_row(path.name, str(counts[0]), f"{counts[1] / counts[0]:.2%}", f"{counts[2] / counts[0]:.1%}")
    if total[0]:
        table.add_row("all", str(total[0]), f"{total[1] / total[0]:.2%}", f"{total[2] / total[0]:.1%}")
    console.print(table)


def main() -> None:
    """Runs both, or reads one file where told to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--read", type=Path, help="read this file and print the figures as JSON")
    options = parser.parse_args()
    console = Console()
    if options.read is not None:
        sys.stdout.write(json.dumps(read(options.read)))
        return
    speed(options.megabytes, options.repeats, console)
    understood(console)


if __name__ == "__main__":
    main()
