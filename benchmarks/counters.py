"""How fast counters are read: 1,000 ports for an hour, once a second, as an answer of Prometheus and as a table.

`python -m benchmarks.counters --help`. The files are made in a folder of their own and removed. Every measurement is a
process of its own; medians of seconds and the highest peak of memory are shown.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_START = 1_785_000_000
_PORTS_OF_HOST = 8


def _bytes(port: int, second: int) -> int:
    """Bytes that a port has counted: 40 GB/s at most, never the same in two seconds."""
    return 10**15 + port * 10**12 + second * 30_000_000_000 + second * (port * 7_919 + 1) * 104_729 % 9_000_000_000


def write_json(path: Path, ports: int, seconds: int) -> int:
    """Writes one line, as the API answers; gives the numbers in it."""
    name = "node_infiniband_port_data_transmitted_bytes_total"
    with path.open("w") as f:
        f.write('{"status":"success","data":{"resultType":"matrix","result":[')
        for port in range(ports):
            host, device = divmod(port, _PORTS_OF_HOST)
            labels = {"__name__": name, "device": f"mlx5_{device}", "instance": f"node{host:03d}:9100", "job": "node", "port": "1"}
            values = [[_START + s, str(_bytes(port, s))] for s in range(seconds)]
            f.write(("," if port else "") + json.dumps({"metric": labels, "values": values}, separators=(",", ":")))
        f.write("]}}")
    return ports * seconds


def write_csv(path: Path, ports: int, seconds: int) -> int:
    """Writes a row for each port and second, with bytes of both directions; gives the numbers in it."""
    with path.open("w") as f:
        f.write("timestamp,host,device,port,port_xmit_data,port_rcv_data\n")
        for s in range(seconds):
            for port in range(ports):
                host, device = divmod(port, _PORTS_OF_HOST)
                n = _bytes(port, s)
                f.write(f"{_START + s}.25,node{host:03d},mlx5_{device},1,{n},{n + 4096}\n")
    return 2 * ports * seconds


_FORMATS: dict[str, tuple[str, Callable[[Path, int, int], int]]] = {
    "prometheus-json": ("counters.json", write_json),
    "counter-csv": ("counters.csv", write_csv),
}


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


def work(name: str, path: Path) -> dict[str, Any]:
    """One measurement: seconds without imports, the peak of memory, and what of it was there before."""
    import pyarrow.compute
    import pyarrow.csv  # noqa: F401 -- loaded before the clock starts

    from tracelab.plugins import Parser, SourceFile
    from tracelab_parsers.counters import csv_table, prometheus_json

    parsers: dict[str, Parser] = {"prometheus-json": prometheus_json.PARSER, "counter-csv": csv_table.PARSER}
    parser = parsers[name]
    for module in ("csv_table_reading", "prometheus_json_reading"):
        importlib.import_module(f"tracelab_parsers.counters.{module}")
    emit = _Counting()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    parser.parse(SourceFile(path, path.name), emit)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mib": peak, "before_mib": before, "rows": dict(emit.rows)}


def _measured(name: str, path: Path) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "benchmarks.counters", "--work", name, "--file", str(path)], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ports", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--work", choices=sorted(_FORMATS), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        print(json.dumps(work(args.work, args.file)))
        return
    table = Table("format", "MB", "rows", "seconds", "rows/s", "MB/s", "peak MiB", "imports", title=f"{args.ports} ports, {args.seconds} s")
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, write) in _FORMATS.items():
            path = Path(folder) / file
            rows = write(path, args.ports, args.seconds)
            runs = [_measured(name, path) for _ in range(args.repeat)]
            assert all(r["rows"]["counter_samples"] == rows for r in runs), runs
            seconds, size = statistics.median(r["seconds"] for r in runs), path.stat().st_size / 1e6
            peak, before = max(r["peak_mib"] for r in runs), max(r["before_mib"] for r in runs)
            table.add_row(name, f"{size:.0f}", f"{rows:,}", f"{seconds:.1f}", f"{rows / seconds:,.0f}", f"{size / seconds:.0f}", f"{peak:.0f}", f"{before:.0f}")
            path.unlink()
    Console().print(table)


if __name__ == "__main__":
    main()
