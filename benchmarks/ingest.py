"""How fast traces are read, against `json.load` and HTA 0.5.0, in one run: `python -m benchmarks.ingest --help`.

Every measurement is a process of its own, without its imports. The tools take turns, so that a busy moment of the
machine hits all of them; medians are shown. The files are in the page cache, tracelab's own cache is empty.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.inputs import Input, repeated

WORKER = Path(__file__).with_name("workers.py")
HTA_REQUIREMENTS = ("HolisticTraceAnalysis==0.5.0", "pandas<2.3")
MEMORY_PER_BYTE = {"json.load": 8, "hta": 12}
"""Rough need of tools that hold a whole file: a set is left out for them where the machine has less."""


@dataclass(frozen=True)
class Contender:
    """A tool with a number of cores; `label` is its row."""

    label: str
    task: str
    cores: int
    python: str


def contenders(cores: int, hta_python: str | None) -> list[Contender]:
    """All rows: one core for what runs on one, all cores where a tool can use them."""
    mine = sys.executable
    rows = [
        Contender("json.load", "json.load", 1, mine),
        Contender("tracelab, 1 core", "tracelab", 1, mine),
        Contender("  its parser alone", "tracelab parse", 1, mine),
        Contender("  decoding alone", "decode", 1, mine),
    ]
    if cores > 1:
        rows.append(Contender(f"tracelab, {cores} cores", "tracelab", cores, mine))
    if hta_python is not None:
        rows.append(Contender(f"HTA 0.5.0, {cores} core{'s' if cores > 1 else ''}", "hta", cores, hta_python))
    return rows


def hta_environment(folder: Path) -> str:
    """The interpreter of an environment that holds HTA alone; made on first use."""
    python = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *HTA_REQUIREMENTS], check=True)
        (folder / ".complete").touch()
    return str(python)


def measure(who: Contender, data: Input, work: Path) -> dict[str, Any]:
    """Seconds, peak memory and events of one run; an entry `error` where it failed."""
    command = [who.python, str(WORKER), who.task, str(who.cores), *map(str, data.files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "BENCHMARK_WORK": str(work), "PYTHONWARNINGS": "ignore"})
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def fits(who: Contender, data: Input) -> bool:
    """Whether the machine has the memory that the tool needs for the largest file."""
    available = int(next(line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))) * 1024
    return MEMORY_PER_BYTE.get(who.task, 0) * data.megabytes * 1e6 / len(data.files) < available


def run_set(data: Input, rows: list[Contender], repeats: int, work: Path, console: Console) -> list[dict[str, Any]]:
    """All measurements of a set, turn by turn."""
    found: dict[str, list[dict[str, Any]]] = {who.label: [] for who in rows}
    for turn in range(repeats):
        for who in rows:
            if fits(who, data):
                load = os.getloadavg()[0]
                found[who.label].append({**measure(who, data, work), "load": load})
                console.print(f"{data.name} {turn + 1}/{repeats} {who.label.strip()}: {found[who.label][-1]}", highlight=False)
    return [_median(data, who, found[who.label]) for who in rows]


def _median(data: Input, who: Contender, runs: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"set": data.name, "mb": data.megabytes, "tool": who.label, "task": who.task, "cores": who.cores}
    good = [r for r in runs if "error" not in r]
    if not good:
        return {**row, "error": runs[0]["error"] if runs else "not run: needs more memory than is free"}
    seconds = statistics.median(r["seconds"] for r in good)
    spread = max(r["seconds"] for r in good) / min(r["seconds"] for r in good)
    peak = max(r["peak_bytes"] for r in good)
    return {
        **row,
        "seconds": seconds,
        "spread": spread,
        "peak_bytes": peak,
        "events": good[0]["events"],
        "load": max(r["load"] for r in good),
        "runs": len(good),
    }


def show(rows: list[dict[str, Any]], console: Console) -> None:
    """The table: one row per set and tool."""
    table = Table(title="Reading traces (medians; MB are 10^6 bytes of uncompressed text)")
    for name in ("set", "MB", "tool", "s", "max/min", "MB/s", "× json.load", "× HTA", "peak MB", "events", "load"):
        table.add_column(name, justify="left" if name in {"set", "tool"} else "right")
    for row in rows:
        base = {r["task"]: r["seconds"] for r in rows if r["set"] == row["set"] and "seconds" in r and r["task"] in {"json.load", "hta"}}
        shown = [row["set"], f"{row['mb']:.0f}", row["tool"]]
        if "error" in row:
            table.add_row(*shown, row["error"][:40])
            continue
        ratios = [f"{base[task] / row['seconds']:.1f}" if task in base else "" for task in ("json.load", "hta")]
        s = row["seconds"]
        numbers = [
            f"{s:.2f}",
            f"{row['spread']:.2f}",
            f"{row['mb'] / s:.0f}",
            *ratios,
            f"{row['peak_bytes'] / 1e6:.0f}",
            f"{row['events']:,}",
            f"{row['load']:.1f}",
        ]
        table.add_row(*shown, *numbers)
    console.print(table)


def make_inputs(data: Path, work: Path, args: argparse.Namespace) -> list[Input]:
    """The wanted sets; the large copies are made on first use."""
    torch = data / "torch"
    known = {
        "dlrm": lambda: repeated("dlrm_8xV100", sorted((torch / "dlrm_8xV100").glob("*.json")), work, args.mb),
        "owlv2": lambda: Input("h100_owlv2_large", sorted((torch / "h100_owlv2_large").glob("*.json.gz"))),
        "single": lambda: repeated("a100_rank0of2", sorted((torch / "a100_rank0of2_pgconfig").glob("*.json.gz")), work, args.single_mb),
    }
    return [known[name]() for name in args.sets]


def main() -> None:
    """Makes inputs and HTA's environment, measures, prints the table."""
    root = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description="Compares the speed of reading PyTorch-profiler traces.")
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("TRACELAB_TEST_DATA", root.parent / "shared" / "data")), help="folder of the real traces"
    )
    parser.add_argument("--work", type=Path, default=root / "build" / "benchmark", help="folder for large copies, caches and HTA's environment")
    parser.add_argument("--sets", nargs="+", choices=("dlrm", "owlv2", "single"), default=("dlrm", "owlv2", "single"))
    parser.add_argument("--mb", type=float, default=400, help="size of the repeated 8-rank set in MB")
    parser.add_argument("--single-mb", type=float, default=2048, help="size of the one large trace in MB")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-hta", action="store_true", help="leave HTA out")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    args = parser.parse_args()
    if not (args.data / "torch").is_dir():
        parser.error(f"there are no traces in {args.data}; name their folder with --data or TRACELAB_TEST_DATA")
    console = Console(width=max(160, Console().width))
    args.work.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    rows = contenders(cores, None if args.no_hta else hta_environment(args.work / "hta"))
    results = [row for data in make_inputs(args.data, args.work, args) for row in run_set(data, rows, args.repeats, args.work, console)]
    show(results, console)
    if args.json:
        args.json.write_text(json.dumps({"cores": cores, "python": sys.version, "load": os.getloadavg(), "rows": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
