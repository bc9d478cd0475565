"""How fast exports of Nsight Systems are read, beside pandas in one run: `python -m benchmarks.nsys --help`.

The export is made here: by default 2 million kernels, 4 million calls of the CUDA API and 1 million NVTX ranges with
names that hardly repeat, 420 MB. Every measurement is a process of its own; the tools take turns; medians are shown.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_PROCESS = (1 << 48) + (4000 << 24)
_KERNEL = """
    start end deviceId contextId greenContextId streamId correlationId globalPid demangledName shortName mangledName launchType cacheConfig
    registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId
    sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig qmdBulkReleaseDone qmdPreexitDone qmdLastCtaDone graphId clusterX clusterY clusterZ
    clusterSchedulingPolicy maxPotentialClusterSize maxActiveClusters sharedMemoryRequestedPercentage
"""
_RUNTIME = "start end eventClass globalTid correlationId nameId returnValue callchainId"
_NVTX = """
    start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value int64Value doubleValue uint32Value
    int32Value floatValue jsonTextId jsonText binaryData
"""
_READ = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, "
    "gridX * gridY * gridZ, blockX * blockY * blockZ, graphId, graphNodeId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, eventClass, globalTid, correlationId, nameId",
    "NVTX_EVENTS": "start, end, eventType, globalTid, domainId, textId, jsonTextId, text, jsonText, binaryData",
}
"""What tracelab reads of each table, for a fair comparison."""


def _kernels(count: int) -> Iterator[tuple[Any, ...]]:
    at = 10**9
    for n in range(count):
        length = 2_000 + n * 7_919 % 88_000
        row: dict[str, Any] = dict.fromkeys(_KERNEL.split(), 0) | {
            "start": at,
            "end": at + length,
            "streamId": 7 + n % 3,
            "correlationId": 2 * n + 1,
            "globalPid": _PROCESS,
        }
        row |= {"contextId": 1, "demangledName": 1 + n % 300, "shortName": 1 + n % 300, "registersPerThread": 96, "gridX": 132, "gridY": 4, "gridZ": 1}
        row |= {"blockX": 256, "blockY": 1, "blockZ": 1, "dynamicSharedMemory": 81_920, "gridId": n}
        row |= dict.fromkeys(("graphNodeId", "graphId", "greenContextId", "mangledName"))
        yield tuple(row.values())
        at += length + 1_000


def _calls(count: int) -> Iterator[tuple[Any, ...]]:
    for n in range(count):
        yield (10**9 + 25_000 * n, 10**9 + 25_000 * n + 4_000, 0, _PROCESS + 4000, n + 1, 400 + n % 40, 0, None)


def _ranges(count: int) -> Iterator[tuple[Any, ...]]:
    for n in range(count):
        text = f"aten::op_{n % 60}, op_id = {n}" if n % 10 else "forward"
        yield (10**9 + 100_000 * n, 10**9 + 100_000 * n + 90_000, 59, None, None, None, text, _PROCESS + 4000, None, None, 0, *[None] * 9)


def build(path: Path, scale: float) -> None:
    """Writes the export. `scale` 1 is the full size."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("BEGIN")
    kernels = int(2_000_000 * scale)
    for table, columns, rows in (
        ("CUPTI_ACTIVITY_KIND_KERNEL", _KERNEL, _kernels(kernels)),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", _RUNTIME, _calls(2 * kernels)),
        ("NVTX_EVENTS", _NVTX, _ranges(kernels // 2)),
        ("StringIds", "id value", ((n, f"{'kernel' if n < 400 else 'cudaCall'}_{n}" + "_v7000" * (n >= 400)) for n in range(1, 440))),
        ("TARGET_INFO_SESSION_START_TIME", "utcEpochNs", iter([(1_785_000_000_000_000_000,)])),
    ):
        names = columns.split()
        declared = ", ".join(c + (" TEXT" if c in ("text", "jsonText", "binaryData", "value") else " INTEGER") for c in names)
        connection.execute(f"CREATE TABLE {table} ({declared.replace('id INTEGER', 'id INTEGER PRIMARY KEY') if table == 'StringIds' else declared})")
        connection.executemany(" ".join(("INSERT INTO", table, "VALUES (", ",".join("?" * len(names)), ")")), rows)
    connection.execute("COMMIT")
    connection.close()


class _Counting:
    """An emitter that counts rows."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()

    def batch(self, table: Any, batch: Any) -> None:
        self.rows[table.name] += batch.num_rows

    def notice(self, notice: Any) -> None:
        self.rows[f"notice {notice.code}"] += notice.count

    def progress(self, bytes_read: int) -> None:
        self.rows["bytes"] = bytes_read


def work(task: str, path: Path) -> dict[str, Any]:
    """One measurement: seconds and CPU seconds without imports, and the peak of memory."""
    rows: Counter[str] = Counter()
    if task == "pandas":
        pd = importlib.import_module("pandas")

        start, used = time.perf_counter(), time.process_time()
        connection = sqlite3.connect(path)
        for table, columns in _READ.items():
            sql = f"SELECT {columns} FROM {table}"  # noqa: S608 -- all of it stands above
            rows[table] = len(pd.read_sql_query(sql, connection))
    else:
        import pyarrow.compute
        import pyarrow.csv  # noqa: F401 -- loaded before the clock starts

        import tracelab_parsers.nsys.pages
        import tracelab_parsers.nsys.reading  # noqa: F401
        from tracelab.plugins import SourceFile
        from tracelab_parsers.nsys import PARSER

        emit = _Counting()
        start, used = time.perf_counter(), time.process_time()
        PARSER.parse(SourceFile(path, path.name), emit)
        rows = emit.rows
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu": cpu, "peak_mib": peak, "rows": dict(rows)}


def _measured(task: str, cores: int, path: Path) -> dict[str, Any]:
    prefix = ["taskset", "-c", ",".join(map(str, range(cores)))]
    done = subprocess.run([*prefix, sys.executable, "-m", "benchmarks.nsys", "--work", task, "--file", str(path)], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=Path("build/benchmark_nsys.sqlite"), help="the export; made where it does not exist")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the export: 1 is 420 MB")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--work", choices=["tracelab", "pandas"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        print(json.dumps(work(args.work, args.file)))
        return
    if not args.file.exists():
        args.file.parent.mkdir(parents=True, exist_ok=True)
        build(args.file, args.scale)
    cores = len(os.sched_getaffinity(0))
    who = [("tracelab, 1 core", "tracelab", 1), *([(f"tracelab, {cores} cores", "tracelab", cores)] if cores > 1 else [])]
    if importlib.util.find_spec("pandas") is not None:
        who.append(("pandas.read_sql_query, the same columns", "pandas", 1))
    results: dict[str, list[dict[str, Any]]] = {label: [] for label, _, _ in who}
    for _ in range(args.repeat):
        for label, task, n in who:
            results[label].append(_measured(task, n, args.file))
    megabytes = args.file.stat().st_size / 1e6
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    columns = ("reader", "seconds", "CPU seconds", "MB of file/s", "MB/s of CPU time", "peak MiB")
    table = Table(*columns, title=f"{megabytes:.0f} MB; load average after all runs {load}")
    for label, runs in results.items():
        seconds = statistics.median(r["seconds"] for r in runs)
        cpu = statistics.median(r["cpu"] for r in runs)
        peak = max(r["peak_mib"] for r in runs)
        table.add_row(label, f"{seconds:.1f}", f"{cpu:.1f}", f"{megabytes / seconds:.0f}", f"{megabytes / cpu:.0f}", f"{peak:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
