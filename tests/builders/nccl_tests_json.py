"""Reports of nccl-tests (`-J`) as text: `report([result(8, time="12.5", ...)])`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

__all__ = ["SECRET", "half", "members", "report", "result", "sample", "write_sample"]

SECRET = "hunter2-of-the-environment"


def half(time: str, algbw: str = "10.5", busbw: str = "18.375", nwrong: str | None = "0", key: str = "time") -> str:
    """One half of a result; numbers with six decimals as the program prints them."""
    wrong = "null" if nwrong is None else f"{Decimal(nwrong):.6f}"
    return f'{{"{key}":{Decimal(time):.6f},"alg_bw":{Decimal(algbw):.6f},"bus_bw":{Decimal(busbw):.6f},"nwrong":{wrong}}}'


def result(size: int, out_of_place: str, in_place: str, *, dtype: str = "float", redop: str = "sum", root: int = -1, width: int = 4) -> str:
    """One row of the table."""
    head = f'{{"size":{size},"count":{size // width},"type":"{dtype}","redop":"{redop}","root":"{root:6d}"'
    return f'{head},"out_of_place":{out_of_place},"in_place":{in_place},"actual_iterations":20,"experiment_name":""}}'


def members(
    results: Sequence[str], *, program: str = "./build/all_reduce_perf", version: int = 22807, processes: int = 2, gpus: int = 4, groups: int = 1
) -> dict[str, str]:
    """The top level of a report, each value as text."""
    devices = [
        {"rank": p * gpus, "group": p % groups, "pid": 900 + p, "hostname": f"node-{p}", "device": 0, "device_hex": "0000:17:00", "device_info": "NVIDIA H100"}
        for p in range(processes)
    ]
    config: dict[str, Any] = {"nthreads": 1, "ngpus": gpus, "minimum_bytes": 8, "maximum_bytes": 128, "step_factor": 2, "warmup_iters": 5, "iterations": 20}
    config |= {"aggregated_iterations": 1, "validation": 1, "graph": 0, "blocking_collectives": "false", "parallel_init": "false", "devices": devices}
    return {
        "version": "2",
        "start_time": '"2026-07-01 12:00:00"',
        "args": json.dumps([program, "-J", "/home/someone/out.json"]).replace("/", "\\/"),
        "env": json.dumps([f"AWS_SECRET_ACCESS_KEY={SECRET}", 'PS1="\\u'], separators=(",", ":")),
        "nccl_version": str(version),
        "config": json.dumps(config, separators=(",", ":")),
        "results": f"[{','.join(results)}]",
        "out_of_bounds": '{"count":0,"okay":"true"}',
        "average_bus_bandwidth": '{"bandwidth":18.375000,"okay":"unchecked"}',
        "errors": "[]",
        "end_time": '"2026-07-01 12:00:09"',
    }


def report(results: Sequence[str], **more: Any) -> bytes:
    """The whole report, without an end of line, as the program writes it."""
    return ("{" + ",".join(f'"{k}":{v}' for k, v in members(results, **more).items()) + "}").encode()


def sample() -> bytes:
    """Five sizes of an all_reduce over two hosts of four GPUs."""
    rows = []
    for n in range(5):
        size, us = 1 << 20 + 2 * n, Decimal(40 * 4**n) + Decimal("13.25")
        algbw = Decimal(size) / us / 1000
        busbw = algbw * 14 / 8
        rows.append(result(size, half(str(us), str(algbw), str(busbw)), half(str(us + 1), str(algbw), str(busbw), nwrong=None)))
    return report(rows)


def write_sample(directory: Path) -> None:
    """Writes the sample of this format."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "all_reduce_2x4.json").write_bytes(sample())
