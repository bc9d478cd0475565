"""One measured piece of work, in a process of its own: `python workers.py TASK CORES PATH...` prints seconds and peak memory as JSON.

Runs under the interpreter of the tool that it measures, so it imports nothing else at the top.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def load_json(paths: list[Path], _: int) -> int:
    """Every file through `json.load`, one after the other."""
    events = 0
    for path in paths:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as f:
            document = json.load(f)
        events += len(document["traceEvents"])
    return events


def tracelab_open(paths: list[Path], cores: int) -> int:
    """`tracelab.open` with an empty cache: recognise, hash, parse, write Parquet."""
    import tracelab

    with tempfile.TemporaryDirectory(dir=os.environ["BENCHMARK_WORK"]) as cache:
        run = tracelab.open(_place(paths), cache_dir=cache, jobs=cores)
        return int(run.sources["events"].sum())


def tracelab_parse(paths: list[Path], _: int) -> int:
    """The parser alone, its batches thrown away: what reading costs without Parquet."""
    from tracelab.plugins import SourceFile, parsers

    class Nothing:
        def batch(self, table: Any, batch: Any) -> None:
            """Drops the rows."""

        def notice(self, notice: Any) -> None:
            """Drops the notice."""

        def progress(self, bytes_read: int) -> None:
            """Tells nobody."""

    parser = parsers()["torch-profiler"]
    return sum(parser.parse(SourceFile(path, path.name), Nothing()).events for path in paths)


def decode_only(paths: list[Path], _: int) -> int:
    """The parser's own decoder alone: inflating, cutting into chunks, JSON to typed events, no columns."""
    from tracelab.plugins import SourceFile
    from tracelab_parsers.torch_profiler import decoded_chunks

    return sum(len(chunk.elements) for path in paths for chunk in decoded_chunks(SourceFile(path, path.name)))


def hta_load(paths: list[Path], _: int) -> int:
    """HTA's `TraceAnalysis` of the same files, with its own choice of processes."""
    import logging

    logging.disable(logging.CRITICAL)
    from hta.trace_analysis import TraceAnalysis

    named = {"trace_files": {0: str(paths[0])}} if len(paths) == 1 else {"trace_dir": str(_place(paths))}
    analysis = TraceAnalysis(**named)
    return sum(len(frame) for frame in analysis.t.traces.values())


def _place(paths: list[Path]) -> Path:
    return paths[0] if len(paths) == 1 else paths[0].parent


TASKS = {"json.load": load_json, "tracelab": tracelab_open, "tracelab parse": tracelab_parse, "decode": decode_only, "hta": hta_load}
_MINE = ("tracelab.run", "tracelab_parsers.torch_profiler", "numpy", "polars", "pyarrow.parquet", "scipy.sparse")
LIBRARIES = {"tracelab": _MINE, "tracelab parse": _MINE, "decode": _MINE, "hta": ("hta.trace_analysis",)}


def main() -> None:
    """Imports first, which is not measured; then the task."""
    task, cores, paths = sys.argv[1], int(sys.argv[2]), [Path(p) for p in sys.argv[3:]]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    for name in LIBRARIES.get(task, ()):
        importlib.import_module(name)
    began = time.perf_counter()
    events = TASKS[task](paths, cores)
    seconds = time.perf_counter() - began
    # kilobytes on Linux; of the children only the largest is known
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({"seconds": seconds, "peak_bytes": peak * 1024, "events": events}))


if __name__ == "__main__":
    main()
