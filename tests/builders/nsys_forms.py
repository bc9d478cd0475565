"""The other forms of an Nsight Systems export, made from a small SQLite export table by table; and what `nsys stats` and a recipe say of one."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["STATS_KERNELS", "write_arrow", "write_json_lines", "write_parquet", "write_projection", "write_samples"]

STATS_KERNELS = """\
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),\
SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
1000000,5000,11,8,1,1,256,1,1,32,0.000,0.000,,,,,NVIDIA A100-SXM4-40GB (0),1,,7,void gemm<float>(int)
1006000,9000,12,2,1,1,512,1,1,96,0.000,0.000,,,,,NVIDIA A100-SXM4-40GB (0),1,,20,ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)
1016000,2000,13,,,,,,,,,,0.524,262144.000,Pinned,Device,NVIDIA A100-SXM4-40GB (0),1,,7,[CUDA memcpy Host-to-Device]
"""


def _tables(export: Path) -> dict[str, pa.Table]:
    """All tables of an SQLite export. Columns hold one type each, as SQLite's rows happen to have it."""
    with sqlite3.connect(export) as database:
        names = [n for (n,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        out = {}
        for name in names:
            cursor = database.execute(f'SELECT * FROM "{name}"')
            columns = [d[0] for d in cursor.description]
            rows = cursor.fetchall()
            out[name] = pa.table({c: pa.array([r[n] for r in rows]) for n, c in enumerate(columns)})
    return out


def write_parquet(export: Path, folder: Path) -> Path:
    """`nsys export -t parquetdir`: one file per table."""
    folder.mkdir(parents=True)
    for name, table in _tables(export).items():
        pq.write_table(table, folder / f"{name}.parquet")
    return folder


def write_arrow(export: Path, folder: Path) -> Path:
    """`nsys export -t arrowdir`: one stream of record batches per table."""
    folder.mkdir(parents=True)
    for name, table in _tables(export).items():
        with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as f, pa.ipc.new_stream(f, table.schema) as writer:
            writer.write_table(table)
    return folder


def write_json_lines(export: Path, path: Path) -> Path:
    """One row of a table per line, texts by their ids."""
    with path.open("w", encoding="utf-8") as f:
        for name, table in _tables(export).items():
            for row in table.to_pylist():
                known: dict[str, Any] = {k: v for k, v in row.items() if v is not None and not isinstance(v, bytes)}
                f.write(json.dumps({name: known}) + "\n")
    return path


def write_samples(samples: Path) -> None:
    """Writes the samples into `samples`/formats, from the SQLite sample that lies there."""
    formats = samples / "formats"
    export = formats / "nsys-sqlite" / "rank0.sqlite"
    write_parquet(export, formats / "nsys-parquet" / "rank0")
    (formats / "nsys-jsonlines").mkdir()
    write_json_lines(export, formats / "nsys-jsonlines" / "rank0.jsonl")
    (formats / "nsys-stats").mkdir()
    (formats / "nsys-stats" / "rank0_cuda_gpu_trace.csv").write_text(STATS_KERNELS, encoding="utf-8")
    (formats / "nsys-report").mkdir()
    (formats / "nsys-report" / "rank0.nsys-rep").write_bytes(b"no report, for there is an export beside it\n")
    shutil.copyfile(export, formats / "nsys-report" / "rank0.sqlite")
    (formats / "nsys-recipe" / "rank0").mkdir(parents=True)
    write_projection(formats / "nsys-recipe" / "rank0" / "trace.parquet")


def write_projection(path: Path) -> Path:
    """A recipe's projection of three ranges of one process on its GPU."""
    rows = [("TSL:all-reduce.1", 1_000_000, 40_000), ("TSL:gemm", 1_050_000, 90_000), ("TSL:all-gather.2", 1_150_000, 30_000)]
    table = pa.table(
        {
            "Name": [n for n, _, _ in rows],
            "Projected Start": pa.array([s for _, s, _ in rows], pa.int64()),
            "Projected Duration": pa.array([d for _, _, d in rows], pa.int64()),
            "Orig Start": pa.array([float(s - 5_000) for _, s, _ in rows], pa.float64()),
            "Orig Duration": pa.array([float(d) for _, _, d in rows], pa.float64()),
            "Style": ["PushPop"] * 3,
            "PID": pa.array([42] * 3, pa.int64()),
            "TID": pa.array([43] * 3, pa.int64()),
            "NumGPUOps": pa.array([1] * 3, pa.int64()),
            "Lvl": pa.array([0.0] * 3, pa.float64()),
            "NumChild": pa.array([0] * 3, pa.int64()),
            "RangeId": pa.array([1.0, 2.0, 3.0], pa.float64()),
            "ParentId": pa.array([None] * 3, pa.float64()),
            "RangeStack": [":1", ":2", ":3"],
            "Rank": pa.array([0] * 3, pa.int64()),
        }
    )
    pq.write_table(table, path)
    return path


if __name__ == "__main__":
    write_samples(Path(__file__).resolve().parents[2] / "sample_traces")
