"""A small strict reader of Kineto JSON, independent of the product's parser: whole files through `json`, nothing tolerated."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.builders.frames import parsed

if TYPE_CHECKING:
    import polars as pl

GPU_KIND = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset", "gpu_user_annotation": "annotation", "cuda_sync": "sync"}
HOST_KIND = {
    "cpu_op": "cpu_op",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "cuda_driver": "driver",
    "operator": "cpu_op",
    "runtime": "runtime",
}


def load_document(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    document: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return document


def _ns(value: int | Decimal) -> int:
    return round(value * 1000)


def _ranks(text: object) -> list[int] | None:
    values = json.loads(text) if isinstance(text, str) and "..." not in text else text
    return [int(v) for v in values] if isinstance(values, list) and values else None


def _positive(value: object) -> int | None:
    return int(str(value)) if value is not None and int(str(value)) > 0 else None


def _identity(args: dict[str, Any]) -> dict[str, Any]:
    return {"correlation": _positive(args.get("correlation")), "external_id": _positive(args.get("External id", args.get("external id")))}


def _record(event: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    a = event["args"]
    return {
        **row,
        **_identity(a),
        "recorded_on": "kernel" if event["cat"].lower() == "kernel" else "cpu_op",
        "tid": event["tid"] if isinstance(event["tid"], int) else None,
        "operation": a.get("Collective name"),
        "dtype": a.get("dtype"),
        "in_elements": a.get("In msg nelems"),
        "out_elements": a.get("Out msg nelems"),
        "group_name": a.get("Process Group Name"),
        "group_desc": a.get("Process Group Description"),
        "group_size": a.get("Group size"),
        "group_ranks": _ranks(a.get("Process Group Ranks")),
        "src_rank": a.get("Src Rank"),
        "dst_rank": a.get("Dst Rank"),
        "seq": a.get("Seq"),
        "comms_id": None if a.get("Comms Id") is None else str(a["Comms Id"]),
    }


def read_ranks(files: Iterable[Path]) -> tuple[dict[str, pl.LazyFrame], dict[int, str], dict[int, dict[str, Any]]]:
    """Parsed tables, host per rank (`host_name`, else the part of the file's or folder's name) and distributedInfo per rank."""
    rows: dict[str, list[dict[str, Any]]] = {"gpu_spans": [], "host_spans": [], "comm_records": [], "process_groups": []}
    hosts: dict[int, str] = {}
    info: dict[int, dict[str, Any]] = {}
    for source, path in enumerate(sorted(files)):
        d = load_document(path)
        dist = d.get("distributedInfo") or {}
        rank = int(dist.get("rank", -1 - source))
        info[rank] = dist
        hosts[rank] = str(d.get("host_name") or (path.name.split("_")[0] if path.name.startswith("node") else "host"))
        base = int(d.get("baseTimeNanoseconds") or 0)
        for pg in dist.get("pg_config") or []:
            common = {"source_id": source, "rank": rank, "part": 0, "group_name": pg["pg_name"], "group_desc": pg.get("pg_desc"), "size": pg.get("pg_size")}
            rows["process_groups"].append({**common, "backend": pg.get("backend_config"), "group_ranks": _ranks(pg.get("ranks"))})
        for event in d["traceEvents"]:
            cat = str(event.get("cat", "")).lower()
            if event.get("ph") != "X" or (cat not in GPU_KIND and cat not in HOST_KIND):
                continue
            args = event.get("args") or {}
            event["args"] = args
            start = base + _ns(event["ts"])
            row = {"source_id": source, "rank": rank, "part": 0, "ts_ns": start, "source_ts_ns": start, "dur_ns": _ns(event.get("dur", 0))}
            if "Collective name" in args:
                rows["comm_records"].append(_record(event, row))
            if cat in GPU_KIND:
                stream = args.get("stream", event["tid"])
                gpu = {
                    "kind": GPU_KIND[cat],
                    "name": event["name"],
                    "device": args.get("device"),
                    "stream": int(str(stream).split()[-1]),
                    "bytes": args.get("bytes"),
                }
                rows["gpu_spans"].append({**row, **_identity(args), **gpu, "clamped": False})
            else:
                pid, tid = (v if isinstance(v, int) else None for v in (event["pid"], event["tid"]))
                rows["host_spans"].append({**row, **_identity(args), "kind": HOST_KIND[cat], "name": event["name"], "pid": pid, "tid": tid, "clamped": False})
    return parsed(**rows), hosts, info
