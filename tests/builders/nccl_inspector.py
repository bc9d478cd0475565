"""Records of NCCL Inspector as text, each field at the hand of the test.

from tests.builders.nccl_inspector import collective, point_to_point, text

data = text([collective("AllReduce", 0, 8192, 61), point_to_point("Send", 1, 8192, 40, peer=3)])
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["DUMP_US", "bare", "collective", "dump_stats", "point_to_point", "proxy", "sample", "text", "write_sample"]

DUMP_US = 1_785_000_000_000_000
WORLD = "0x7f8c496ae9f661"
ROW = "0x00e62dedaa97644a"


def _frame(comm: str, rank: int, ranks: int, *, host: str, pid: int, dump_us: int, nodes: int, name: str | None) -> dict[str, Any]:
    named = {"comm_name": name} if name is not None else {}
    return {
        "header": {"id": comm, **named, "rank": rank, "n_ranks": ranks, "nnodes": nodes},
        "metadata": {
            "inspector_output_format_version": "v4.1" if named else "v4.0",
            "git_rev": "",
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": dump_us,
            "hostname": host,
            "pid": pid,
        },
    }


def _trace(kind: str, start_us: int, channels: int) -> dict[str, Any]:
    def stamps(first: int, what: str) -> dict[str, Any]:
        kernels = [
            {"channel_id": c, f"kernel_start_{what}": first + 9, f"kernel_stop_{what}": first + 50, f"kernel_record_{what}": first + 50}
            for c in range(channels)
        ]
        return {f"{kind}_start_{what}": first, f"{kind}_stop_{what}": first + 5, "kernel_events": kernels}

    return {"event_trace_sn": stamps(1, "sn"), "event_trace_ts": stamps(start_us, "ts")}


def collective(
    function: str,
    sn: int,
    size: int,
    us: object,
    *,
    comm: str = WORLD,
    rank: int = 2,
    ranks: int = 8,
    host: str = "node-0",
    pid: int = 4002,
    dump_us: int = DUMP_US,
    nodes: int = 1,
    name: str | None = None,
    start_us: int | None = None,
    **more: object,
) -> dict[str, Any]:
    """The record of a collective that took `us` µs; verbose where it has a start. `more` are further fields of its performance."""
    perf: dict[str, Any] = {"coll": function, "coll_sn": sn, "coll_msg_size_bytes": size, "coll_exec_time_us": us, "coll_timing_source": "kernel_gpu"}
    perf |= {"coll_algobw_gbs": 277.210914, "coll_busbw_gbs": 485.119099, **more}
    if start_us is not None:
        perf |= _trace("coll", start_us, 2)
    return _frame(comm, rank, ranks, host=host, pid=pid, dump_us=dump_us, nodes=nodes, name=name) | {"coll_perf": perf}


def point_to_point(
    function: str,
    sn: int,
    size: int,
    us: object,
    *,
    peer: int,
    comm: str = WORLD,
    rank: int = 2,
    ranks: int = 8,
    dump_us: int = DUMP_US,
    start_us: int | None = None,
) -> dict[str, Any]:
    """The record of a send or recv that took `us` µs."""
    perf: dict[str, Any] = {"p2p": function, "p2p_sn": sn, "p2p_peer": peer, "p2p_msg_size_bytes": size, "p2p_exec_time_us": us}
    perf |= {"p2p_timing_source": "kernel_gpu", "p2p_algobw_gbs": 21.5, "p2p_busbw_gbs": 21.5}
    if start_us is not None:
        perf |= _trace("p2p", start_us, 1)
    return _frame(comm, rank, ranks, host="node-0", pid=4002, dump_us=dump_us, nodes=1, name=None) | {"p2p_perf": perf}


def dump_stats(collectives_lost: int = 0, p2p_lost: int = 0, *, comm: str = WORLD, collectives: int = 0, p2p: int = 0, **more: int) -> dict[str, Any]:
    """The record that newer versions write before those of a dump, with the numbers of those that follow."""
    stats = {"coll_records": collectives, "coll_dropped_total": 9, "coll_dropped_since_last_dump": collectives_lost}
    stats |= {"p2p_records": p2p, "p2p_dropped_total": 9, "p2p_dropped_since_last_dump": p2p_lost, **more}
    return _frame(comm, 2, 8, host="node-0", pid=4002, dump_us=DUMP_US, nodes=1, name="unknown") | {"dump_stats": stats}


def bare(record: dict[str, Any]) -> dict[str, Any]:
    """A record of format 4.3, which leaves header and metadata to the first of its dump."""
    return {k: v for k, v in record.items() if k not in {"header", "metadata"}}


def proxy(
    record_type: str = "proxy_op",
    *,
    direction: str = "send",
    peer: int = 3,
    size: int = 1 << 20,
    parent: str = "coll",
    stamps: Sequence[int] = (80, 90, 150),
    **more: object,
) -> dict[str, Any]:
    """A record of the network proxy; `stamps` are µs after the dump at which it was told to move data, began and ended."""
    times = {f"proxy_op_{what}_ts": DUMP_US + us if us else 0 for what, us in zip(("start", "in_progress", "stop"), stamps, strict=True)}
    trace = {"record_type": record_type, "record_sn": 42, "parent_type": parent, "parent_sn": 1407, "proxy_op_sn": 12, "rank": 2, "channel_id": 5}
    trace |= {"peer": peer, "direction": direction, "n_steps": 4, "chunk_size_bytes": 1 << 20, "n_steps_completed": 4, "n_steps_dropped": 0}
    return {"proxy_trace": trace | {"trans_size_bytes": size, "event_trace_ts": times, **more}}


def text(records: Iterable[object]) -> bytes:
    """One record a line, as the plugin writes them."""
    return b"".join(json.dumps(r, separators=(",", ":")).encode() + b"\n" for r in records)


def sample() -> bytes:
    """A verbose dump of one process with two communicators."""
    records = []
    for step in range(12):
        at = DUMP_US + step * 20_000
        common: dict[str, Any] = {"dump_us": at + 9_000, "name": "default_pg", "nodes": 2}
        records += [
            collective("AllReduce", step, 33_554_432, 1_480 + step % 3, start_us=at, coll_algo="RING", coll_proto="SIMPLE", **common),
            collective(
                "AllGather", step, 1_048_576, 310, comm=ROW, rank=0, ranks=4, start_us=at + 2_000, coll_algo="NVLS", coll_proto="SIMPLE", dump_us=at + 9_001
            ),
            point_to_point("Send", 2 * step + 1, 2_097_152, 95, peer=3, start_us=at + 4_000, dump_us=at + 9_002),
            point_to_point("Recv", 2 * step + 2, 2_097_152, 97, peer=1, start_us=at + 4_100, dump_us=at + 9_003),
        ]
    return text(records)


def write_sample(directory: Path) -> None:
    """Writes the sample of this format."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "node-0-pid4002.log").write_bytes(sample())
