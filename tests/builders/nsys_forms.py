"""The other forms of an Nsight Systems export, from the rows of one: tables in a folder, JSON lines, CSV reports, a recipe's projection.

    write_parquet(export, tmp_path / "rank0_pqtdir")
    write_arrow(export, tmp_path / "rank0_arwdir")
    write_lines(export, tmp_path / "rank0.jsonl")
    write_events(export, tmp_path / "rank0.jsonl")       as versions before 2025.6 wrote them
    write_stats(export, tmp_path, "rank0")               what `nsys stats` says of it
    write_projection(export, tmp_path / "trace.parquet") what the recipe nvtx_gpu_proj_trace says of it

`python -m tests.builders.nsys_forms` writes the samples of these parsers again.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.collected import Read
from tests.builders.job import Job, Simulation
from tests.builders.nsys_sqlite import Export, rank_export

__all__ = [
    "Projected",
    "projected",
    "tables",
    "told",
    "write_arrow",
    "write_events",
    "write_lines",
    "write_parquet",
    "write_projection",
    "write_samples",
    "write_stats",
]

_TEXT = frozenset({"text", "jsonText", "utcTime", "localTime", "metricName", "typeName", "description", "devStateName"})
_TEXT_OF = {
    "name": "PROCESSES EXPORT_META_DATA META_DATA_EXPORT META_DATA_CAPTURE TARGET_INFO_SYSTEM_ENV "
    "NVTX_PAYLOAD_SCHEMAS NVTX_PAYLOAD_SCHEMA_ENTRIES TARGET_INFO_GPU"
}
_TEXT_OF["value"] = "EXPORT_META_DATA META_DATA_EXPORT META_DATA_CAPTURE TARGET_INFO_SYSTEM_ENV StringIds"
_UNSIGNED = frozenset({"globalPid", "globalTid", "endGlobalTid", "globalVid", "domainId", "schemaId", "correlationId"})
_NARROW = frozenset({"eventType", "deviceId", "eventClass", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "demangledName", "shortName", "nameId"})
_PUSH_POP = 59


def _type(table: str, column: str) -> pa.DataType:
    """Columns have their real widths in these forms; texts have long offsets."""
    if column in _TEXT or table in _TEXT_OF.get(column, "").split():
        return pa.large_string()
    if column == "binaryData":
        return pa.large_binary()
    return pa.uint64() if column in _UNSIGNED else pa.uint32() if column in _NARROW else pa.int64()


def tables(export: Export) -> dict[str, pa.Table]:
    """The tables of an export; blobs are called texts, which they are not."""
    found = {}
    for name, rows in export.rows.items():
        arrays = {}
        for column in export.columns(name):
            kind = _type(name, column)
            values = pa.array([row.get(column) for row in rows], kind)
            arrays[column] = values.view(pa.large_string()) if column == "binaryData" else values
        found[name + export.suffixes.get(name, "")] = pa.table(arrays)
    return found


def write_parquet(export: Export, folder: Path, *, group: int = 1000) -> Path:
    """`nsys export -t parquetdir`; `group` rows to a group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables(export).items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=group, compression="zstd")
    return folder


def write_arrow(export: Export, folder: Path, *, footer: bool = True, batch: int = 1000) -> Path:
    """`nsys export -t arrowdir`: Arrow files, or streams where there is to be no footer."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables(export).items():
        new = pa.ipc.new_file if footer else pa.ipc.new_stream
        with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file, new(file, table.schema) as writer:
            for start in range(0, table.num_rows, batch):
                writer.write_table(table.slice(start, batch))
    return folder


def write_lines(export: Export, path: Path, *, form: str = "key") -> Path:
    """Rows of tables, one per line, under the name of their table (`key`), or with it in a field (`field`)."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for name, rows in export.rows.items():
            for row in rows:
                kept = {c: row[c] for c in export.columns(name) if row.get(c) is not None and not isinstance(row[c], bytes)}
                line = {name: kept} if form == "key" else {"table": name, **kept}
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
    return path


def write_events(export: Export, path: Path, *, together: bool = True) -> Path:
    """Events in the form before 2025.6: large numbers as text, names by the place of their text, which all lie in one line (`together`) or one in each."""
    texts = {row["id"]: row["value"] for row in export.rows["StringIds"]}
    listed = ["[Unknown]", *(texts[n] for n in sorted(texts))]
    assert sorted(texts) == list(range(1, len(listed)))
    found = [*_nvtx_events(export), *_api_events(export), *_gpu_events(export)]
    if together:
        found.append({"data": listed})
    else:
        found += [{"type": "String", "id": str(n), "value": text} for n, text in enumerate(listed)]
    path.write_text("".join(json.dumps(e, separators=(",", ":")) + "\n" for e in found), encoding="utf-8")
    return path


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None}


def _long(value: int | None) -> str | None:
    return None if value is None else str(value)


def _nvtx_events(export: Export) -> Iterator[dict[str, Any]]:
    for r in export.rows.get("NVTX_EVENTS", ()):
        event = {"Type": r["eventType"], "Timestamp": _long(r["start"]), "EndTimestamp": _long(r["end"]), "Text": r.get("text")}
        event |= {"TextId": _long(r.get("textId")), "GlobalTid": _long(r["globalTid"]), "DomainId": _long(r["domainId"]), "NsTime": True}
        yield {"Type": r["eventType"], "NvtxEvent": _known(event)}


def _api_events(export: Export) -> Iterator[dict[str, Any]]:
    for r in export.rows.get("CUPTI_ACTIVITY_KIND_RUNTIME", ()):
        event = {"startNs": _long(r["start"]), "endNs": _long(r["end"]), "correlationId": r["correlationId"], "eventClass": r["eventClass"]}
        yield {"Type": 48, "TraceProcessEvent": event | {"name": _long(r["nameId"]), "returnValue32": 0, "globalTid": _long(r["globalTid"])}}


def _gpu_events(export: Export) -> Iterator[dict[str, Any]]:
    details = {"KERNEL": (79, "kernel", ("demangledName", "shortName")), "MEMCPY": (80, "memcpy", ("copyKind",)), "SYNCHRONIZATION": (106, "sync", ())}
    for kind, (number, key, written) in details.items():
        for r in export.rows.get(f"CUPTI_ACTIVITY_KIND_{kind}", ()):
            event = {"startNs": _long(r["start"]), "endNs": _long(r["end"]), "correlationId": r["correlationId"], "deviceId": r["deviceId"]}
            event |= {"contextId": _long(r["contextId"]), "streamId": _long(r["streamId"]), "globalPid": _long(r["globalPid"]), "greenContextId": "0"}
            own = {k: v for k, v in r.items() if k not in {"start", "end", "correlationId", "deviceId", "contextId", "streamId", "globalPid"}}
            own |= {k: _long(own[k]) for k in written}
            if "bytes" in own:
                own["sizebytes"] = _long(own.pop("bytes"))
            if "syncType" in own:
                names = {1: "EVENT_SYNCHRONIZE", 2: "STREAM_WAIT_EVENT", 3: "STREAM_SYNCHRONIZE", 4: "CONTEXT_SYNCHRONIZE"}
                own["syncType"] = f"SYNCHRONIZATION_TYPE_{names[own['syncType']]}"
                event["deviceId"] = 0
            yield {"Type": number, "CudaEvent": event | {key: own}}


def _texts(export: Export) -> dict[int | None, str]:
    return {row["id"]: row["value"] for row in export.rows["StringIds"]}


def _thread(row: dict[str, Any]) -> tuple[int, int]:
    return row["globalTid"] >> 24 & 0xFFFFFF, row["globalTid"] & 0xFFFFFF


def _range_name(row: dict[str, Any], texts: dict[int | None, str]) -> str:
    """Reports put the domain before the text; that of the default domain is empty."""
    return ("NCCL:" if row["domainId"] == 1 else ":") + (row.get("text") or texts[row.get("textId")])


def write_stats(export: Export, folder: Path, stem: str, reports: Sequence[str] = ("cuda_gpu_trace", "cuda_api_trace", "nvtx_pushpop_trace")) -> list[Path]:
    """CSV reports of `nsys stats`."""
    makers = {"cuda_gpu_trace": _gpu_trace, "cuda_api_trace": _api_trace, "nvtx_pushpop_trace": _push_pop_trace, "cuda_kern_exec_trace": _exec_trace}
    found = []
    for report in reports:
        path = folder / f"{stem}_{report}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(makers[report](export))
        found.append(path)
    return found


def _gpu_trace(export: Export) -> Iterator[list[Any]]:
    numbers = (
        "CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
    )
    yield ["Start (ns)", "Duration (ns)", *numbers.split(",")]
    texts = _texts(export)
    for r in export.rows["CUPTI_ACTIVITY_KIND_KERNEL"]:
        grid = [r[k] for k in ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")]
        place = [f"NVIDIA H100 80GB HBM3 ({r['deviceId']})", r["contextId"], "", r["streamId"]]
        yield [r["start"], r["end"] - r["start"], r["correlationId"], *grid, 32, "0.000", "0.000", "", "", "", "", *place, texts[r["demangledName"]]]
    for r in export.rows.get("CUPTI_ACTIVITY_KIND_MEMCPY", ()):
        place = [f"NVIDIA H100 80GB HBM3 ({r['deviceId']})", r["contextId"], "", r["streamId"]]
        size = f"{r['bytes'] / 1e6:.3f}"
        yield [r["start"], r["end"] - r["start"], r["correlationId"], *[""] * 9, size, "1000.000", "Pinned", "Device", *place, "[CUDA memcpy Host-to-Device]"]


def _api_trace(export: Export) -> Iterator[list[Any]]:
    yield ["Start (ns)", "Duration (ns)", "Name", "Result", "CorrID", "Pid", "Tid", "T-Pri", "Thread Name"]
    texts = _texts(export)
    for r in export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]:
        yield [r["start"], r["end"] - r["start"], texts[r["nameId"]], 0, r["correlationId"], *_thread(r), 20, "python3"]


def _push_pop_trace(export: Export) -> Iterator[list[Any]]:
    yield ["Start (ns)", "End (ns)", "Duration (ns)", "DurChild (ns)", "DurNonChild (ns)", "Name", "PID", "TID", "Lvl", "NumChild", "RangeId", "ParentId"]
    texts = _texts(export)
    for n, r in enumerate(_ranges(export), 1):
        length = r["end"] - r["start"]
        yield [r["start"], r["end"], length, 0, length, _range_name(r, texts), *_thread(r), 0, 0, n, ""]


def _exec_trace(export: Export) -> Iterator[list[Any]]:
    times = ["API Start (ns)", "API Dur (ns)", "Queue Start (ns)", "Queue Dur (ns)", "Kernel Start (ns)", "Kernel Dur (ns)", "Total Dur (ns)"]
    yield [*times, "PID", "TID", "DevId", "API Function", "GridXYZ", "BlockXYZ", "Kernel Name"]
    texts = _texts(export)
    calls = {r["correlationId"]: r for r in export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]}
    for k in export.rows["CUPTI_ACTIVITY_KIND_KERNEL"]:
        c = calls[k["correlationId"]]
        sizes = [f"{k[f'{kind}X']:>4}  {k[f'{kind}Y']:>4}  {k[f'{kind}Z']:>4}" for kind in ("grid", "block")]
        queue = [c["end"], k["start"] - c["end"], k["start"], k["end"] - k["start"], k["end"] - c["start"]]
        yield [c["start"], c["end"] - c["start"], *queue, *_thread(c), k["deviceId"], texts[c["nameId"]], *sizes, texts[k["demangledName"]]]


def _ranges(export: Export) -> list[dict[str, Any]]:
    return [r for r in export.rows["NVTX_EVENTS"] if r["eventType"] == _PUSH_POP and r["end"] is not None]


Projected = dict[str, Any]


def projected(export: Export) -> list[Projected]:
    """Every range of the host with the first start and the last end of the GPU work launched inside it on its thread, those without any left out."""
    texts = _texts(export)
    work = {r["correlationId"]: r for kind in ("KERNEL", "MEMCPY") for r in export.rows.get(f"CUPTI_ACTIVITY_KIND_{kind}", ())}
    calls = [r for r in export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"] if r["correlationId"] in work]
    ranges = sorted(_ranges(export), key=lambda r: (r["start"], -r["end"]))
    found = []
    for n, r in enumerate(ranges, 1):
        mine = [work[c["correlationId"]] for c in calls if c["globalTid"] == r["globalTid"] and r["start"] <= c["start"] <= c["end"] <= r["end"]]
        around = [m for m, q in enumerate(ranges, 1) if q["globalTid"] == r["globalTid"] and q["start"] <= r["start"] and r["end"] <= q["end"] and m < n]
        if mine:
            start = min(w["start"] for w in mine)
            found.append({"id": n, "name": _range_name(r, texts), "start": start, "duration": max(w["end"] for w in mine) - start, "row": r})
            found[-1] |= {"operations": len(mine), "level": len(around), "parent": around[-1] if around else None}
    for entry in found:
        entry["children"] = sum(other["parent"] == entry["id"] for other in found)
    return found


def write_projection(exports: Export | Sequence[Export], path: Path, *, files: Sequence[str] = ()) -> Path:
    """The recipe's Parquet file of one or several reports, and the table of their names beside it."""
    several = [exports] if isinstance(exports, Export) else exports
    rows = [(number, entry) for number, export in enumerate(several) for entry in projected(export)]
    # work outside of all ranges is one row without a name
    columns: dict[str, pa.Array] = {
        "Name": pa.array([None, *(e["name"] for _, e in rows)], pa.string()),
        "Projected Start": pa.array([1, *(e["start"] for _, e in rows)], pa.int64()),
        "Projected Duration": pa.array([5, *(e["duration"] for _, e in rows)], pa.int64()),
        "Orig Start": pa.array([None, *(float(e["row"]["start"]) for _, e in rows)], pa.float64()),
        "Orig Duration": pa.array([None, *(float(e["row"]["end"] - e["row"]["start"]) for _, e in rows)], pa.float64()),
        "Style": pa.array([None, *("PushPop" for _ in rows)], pa.string()),
        "PID": pa.array([several[0].pid, *(_thread(e["row"])[0] for _, e in rows)], pa.int64()),
        "TID": pa.array([several[0].pid, *(_thread(e["row"])[1] for _, e in rows)], pa.int64()),
        "NumGPUOps": pa.array([3, *(e["operations"] for _, e in rows)], pa.int64()),
        "Lvl": pa.array([None, *(float(e["level"]) for _, e in rows)], pa.float64()),
        "NumChild": pa.array([0, *(e["children"] for _, e in rows)], pa.int64()),
        "RangeId": pa.array([None, *(float(e["id"]) for _, e in rows)], pa.float64()),
        "ParentId": pa.array([None, *(None if e["parent"] is None else float(e["parent"]) for _, e in rows)], pa.float64()),
        "RangeStack": pa.array([None, *(f":{e['id']}" for _, e in rows)], pa.string()),
        "Rank": pa.array([0, *(n for n, _ in rows)], pa.int64()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    if files:
        pq.write_table(pa.table({"File": list(files)}), path.parent / "files.parquet")
    return path


def told(found: Read) -> dict[str, list[str]]:
    """All rows that a parser emitted, as texts in order, by table."""
    return {name: sorted(map(repr, pa.Table.from_batches(batches).to_pylist())) for name, batches in found.batches.items() if batches}


def write_samples(samples: Path) -> None:
    """Writes the samples into `samples`/formats. What lies there besides their READMEs is replaced."""
    run = Simulation(Job(world=2, hosts=1, tp=2, steps=2, layers=1, seed=21))
    exports = [rank_export(run, rank, payloads="json" if rank else "blob") for rank in range(2)]
    for name in ("nsys-parquet", "nsys-jsonlines", "nsys-stats", "nsys-recipe", "nsys-report"):
        home = samples / "formats" / name
        home.mkdir(parents=True, exist_ok=True)
        for old in home.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
            elif old.name != "README.md":
                old.unlink()
    formats = samples / "formats"
    write_parquet(exports[0], formats / "nsys-parquet" / "rank0_pqtdir")
    write_arrow(exports[1], formats / "nsys-parquet" / "rank1_arwdir")
    write_lines(exports[0], formats / "nsys-jsonlines" / "rank0.jsonl")
    write_events(exports[1], formats / "nsys-jsonlines" / "rank1.json")
    write_stats(exports[0], formats / "nsys-stats", "rank0")
    write_stats(exports[1], formats / "nsys-stats", "rank1", ["cuda_kern_exec_trace"])
    write_projection(exports, formats / "nsys-recipe" / "nvtx_gpu_proj_trace" / "trace.parquet", files=["rank0", "rank1"])
    (formats / "nsys-report" / "rank0.nsys-rep").write_bytes(b"what stands for a report, whose export lies beside it\n")
    exports[0].write(formats / "nsys-report" / "rank0.sqlite")


if __name__ == "__main__":
    write_samples(Path(__file__).resolve().parents[2] / "sample_traces")
