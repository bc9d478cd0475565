"""One row per rank and communication operation: kernels and copies of GPUs, or a CPU backend's annotations.

What an operation is comes from metadata on the kernel; else from the host operator that launched it; else from the
backend's annotation around its launch (`nccl:send 0->1`); else from the kernel's name.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracelab.align.kernels import COMMUNICATION, normalise_operation, with_class
from tracelab.align.steps import step_of

__all__ = ["DTYPE_BYTES", "communication_rows", "members_text"]

DTYPE_BYTES: Mapping[str, int] = {
    "bool": 1, "byte": 1, "char": 1, "short": 2, "int": 4, "long": 8, "half": 2, "bfloat16": 2, "float": 4, "double": 8,
    "complexhalf": 4, "complexfloat": 8, "complexdouble": 16, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16, "quint8": 1, "qint8": 1, "qint32": 4,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip
"""Bytes of one element of PyTorch's scalar types, lower case (c10/core/ScalarType.h); types of less than a byte have no size here."""

_RECORD = (
    "operation",
    "dtype",
    "in_elements",
    "out_elements",
    "group_name",
    "group_desc",
    "group_size",
    "group_ranks",
    "src_rank",
    "dst_rank",
    "seq",
    "comms_id",
)
_JOB = ("source_id", "part")
_GLOO = r"^gloo:"
_POOL_GAP = 6
"""Thread numbers further apart than this belong to different pools: other processes start threads at the same time."""


def communication_rows(parsed: Mapping[str, pl.LazyFrame], steps: pl.DataFrame) -> pl.DataFrame:
    """Rows in the shape of COLLECTIVES, in source time, before grouping and matching.

    Beside those columns: `channel` (stream, or thread pool of a CPU backend), `launch_step` (step whose host code launched
    it: the same on all ranks, whatever their clocks say) and the group columns as stated (`group_name`, `group_desc`,
    `group_size`, `group_ranks` as `members_text`), `stated` (whether any metadata was found).
    """
    kernels = _gpu_rows(parsed["gpu_spans"])
    count = kernels.height
    kernels = _with_records(
        kernels,
        parsed["comm_records"].select(*_JOB, "recorded_on", "source_ts_ns", "correlation", "external_id", *_RECORD).with_columns(members_text("group_ranks")),
    )
    kernels = _with_launch(kernels, parsed["host_spans"])
    if kernels.height != count:
        raise AssertionError(f"joining metadata changed the number of communication kernels from {count} to {kernels.height}")
    gloo = _cpu_rows(parsed["host_spans"], kernels)
    rows = pl.concat([kernels, gloo], how="diagonal_relaxed") if gloo.height else kernels
    rows = _normalised(rows).sort("rank", "source_ts_ns", "end_ns", "channel", "source_id")
    rows = step_of(rows, steps, "source_ts_ns", "step")
    rows = step_of(rows, steps, "launch_ts", "launch_step")
    return (
        rows.with_columns(pl.coalesce("launch_step", pl.when(pl.col("launch_ts").is_null()).then(pl.col("step"))).alias("launch_step"))
        .with_row_index("op_id")
        .with_columns(pl.col("op_id").cast(pl.Int64))
    )


def members_text(column: str) -> pl.Expr:
    """A list of ranks as categorical text (`0,1,2`): four bytes a row, where every row of a large group would hold all its ranks."""
    return pl.col(column).list.sort().cast(pl.List(pl.String)).list.join(",").cast(pl.Categorical).alias(column)


def _gpu_rows(gpu_spans: pl.LazyFrame) -> pl.DataFrame:
    return (
        with_class(gpu_spans)
        .filter(pl.col("op_class") == COMMUNICATION)
        .select(
            *_JOB,
            "rank",
            "source_ts_ns",
            "dur_ns",
            pl.col("name").cast(pl.String),
            "library",
            "op_hint",
            "stream",
            "correlation",
            "external_id",
            "bytes",
            "dst_device",
        )
        .collect(engine="streaming")
        .with_columns(pl.col("stream").fill_null(-1).alias("channel"))  # a source without streams shows each process as one
        .with_row_index("_op")
    )


def _with_records(kernels: pl.DataFrame, records: pl.LazyFrame) -> pl.DataFrame:
    """Adds metadata to each kernel once, whatever the number of records that would fit it."""
    found = records.filter(pl.col("operation").is_not_null() | pl.col("group_name").is_not_null()).collect(engine="streaming")
    text = [pl.col(c).cast(pl.String) for c in ("recorded_on", "operation", "dtype", "group_name", "group_desc")]
    found = found.with_columns(text)
    if not found.height:
        return kernels.with_columns(pl.lit(None, found.schema[c]).alias(c) for c in _RECORD).with_columns(
            pl.lit(False).alias("stated"), pl.lit(None, pl.Int64).alias("record_ts")
        )
    # Kernels of a CUDA graph share one correlation: the start tells them apart.
    on_kernel = found.filter(pl.col("recorded_on") == "kernel").unique([*_JOB, "correlation", "source_ts_ns"], keep="first", maintain_order=True)
    on_host = found.filter((pl.col("recorded_on") == "cpu_op") & pl.col("external_id").is_not_null())
    on_host = on_host.unique([*_JOB, "external_id"], keep="first", maintain_order=True)
    first = kernels.join(
        on_kernel.select(*_JOB, "correlation", "source_ts_ns", *_RECORD),
        on=[*_JOB, "correlation", "source_ts_ns"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
        validate="m:1",
    )
    second = kernels.select(*_JOB, "external_id").join(
        on_host.select(*_JOB, "external_id", pl.col("source_ts_ns").alias("record_ts"), *_RECORD),
        on=[*_JOB, "external_id"],
        how="left",
        maintain_order="left",
        validate="m:1",
    )
    use = pl.Series("use", first["operation"].is_not_null() | first["group_name"].is_not_null())
    merged = first.with_columns(second.select(pl.col(c).alias(f"{c}_host") for c in (*_RECORD, "record_ts"))).with_columns(use)
    columns = [pl.when("use").then(pl.col(c)).otherwise(pl.col(f"{c}_host")).alias(c) for c in _RECORD]
    merged = merged.with_columns(columns).with_columns(pl.col("record_ts_host").alias("record_ts"))
    merged = merged.with_columns((pl.col("operation").is_not_null() | pl.col("group_name").is_not_null()).alias("stated"))
    return merged.drop("use", *(f"{c}_host" for c in (*_RECORD, "record_ts")))


def _with_launch(kernels: pl.DataFrame, host_spans: pl.LazyFrame) -> pl.DataFrame:
    """Adds `launch_ts` (the runtime call, else the recorded operator) and, for kernels without metadata, the annotation around it."""
    keys = kernels.select(*_JOB, "correlation").drop_nulls().unique()
    calls = (
        host_spans.filter(pl.col("kind").is_in(["runtime", "driver"]))
        .select(*_JOB, "correlation", pl.col("source_ts_ns").alias("call_ts"), "tid")
        .join(keys.lazy(), on=[*_JOB, "correlation"], how="semi")
        .collect(engine="streaming")
        .unique([*_JOB, "correlation"], keep="first", maintain_order=True)
    )
    out = kernels.join(calls, on=[*_JOB, "correlation"], how="left", maintain_order="left", validate="m:1")
    out = out.with_columns(pl.coalesce("call_ts", "record_ts").alias("launch_ts"))
    silent = out.filter(~pl.col("stated") & pl.col("call_ts").is_not_null()).select("_op", *_JOB, "tid", "call_ts").sort("call_ts")
    if not silent.height:
        return out.with_columns(pl.lit(None, pl.String).alias("note")).drop("call_ts", "tid", "record_ts")
    notes = (
        host_spans.filter((pl.col("kind") == "annotation") & pl.col("name").cast(pl.String).str.contains(r"(?i)^(?:nccl|rccl|hccl|xccl|ccl):"))
        .select(
            *_JOB,
            "tid",
            pl.col("source_ts_ns").alias("note_ts"),
            (pl.col("source_ts_ns") + pl.col("dur_ns")).alias("note_end"),
            pl.col("name").cast(pl.String).alias("note"),
        )
        .collect(engine="streaming")
        .sort("note_ts")
    )
    near = silent.join_asof(notes, left_on="call_ts", right_on="note_ts", by=[*_JOB, "tid"], strategy="backward", check_sortedness=False)
    near = near.select("_op", pl.when(pl.col("call_ts") <= pl.col("note_end")).then(pl.col("note")).alias("note"))
    return out.join(near, on="_op", how="left", maintain_order="left", validate="1:1").drop("call_ts", "tid", "record_ts")


def _cpu_rows(host_spans: pl.LazyFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Operations of a CPU backend, from its annotations, for sources that moved nothing with their GPUs.

    The same operation also appears as `c10d::…` (its launch): only the annotation spans its work. Threads that the system
    numbered almost in a row belong to one pool, and a pool to one process group.
    """
    rows = (
        host_spans.filter((pl.col("kind") == "annotation") & pl.col("name").cast(pl.String).str.contains(_GLOO))
        .join(kernels.lazy().select(_JOB).unique(), on=list(_JOB), how="anti")
        .select(*_JOB, "rank", "source_ts_ns", "dur_ns", pl.col("name").cast(pl.String), "tid")
        .collect(engine="streaming")
    )
    if not rows.height:
        return rows
    threads = _pools(rows.select(*_JOB, "tid").unique().sort(*_JOB, "tid"))
    rows = rows.join(threads, on=[*_JOB, "tid"], how="left", maintain_order="left", validate="m:1")
    return rows.with_columns(
        pl.lit("gloo").alias("library"),
        pl.lit("unknown").alias("op_hint"),
        pl.lit(False).alias("stated"),
        pl.col("source_ts_ns").alias("launch_ts"),
        pl.col("name").alias("note"),
        pl.lit(None, pl.Int64).alias("stream"),
    ).drop("tid")


def _pools(threads: pl.DataFrame) -> pl.DataFrame:
    """Sorted (source_id, part, tid) with the number of the pool: PyTorch gives every gloo process group a pool of two threads."""
    pools: list[int] = []
    open_pool: tuple[object, int] | None = None
    for source, part, tid in threads.iter_rows():
        joins = open_pool is not None and open_pool[0] == (source, part) and tid is not None and tid - open_pool[1] < _POOL_GAP
        pools.append(pools[-1] if joins else len(pools))
        open_pool = None if joins or tid is None else ((source, part), tid)
    return threads.with_columns(pl.Series("channel", pools, pl.Int64))


def _elements(column: str) -> pl.Expr:
    """A number of elements, null where it is no possible one (a byte count would not fit int64)."""
    return pl.when(pl.col(column).is_between(0, 2**55)).then(pl.col(column))


def _normalised(rows: pl.DataFrame) -> pl.DataFrame:
    """Standard operation names, sizes in bytes, the peer of point-to-point operations."""

    def mapped(column: str) -> pl.Expr:
        values = rows[column].unique().drop_nulls().to_list()
        return pl.col(column).replace_strict({v: normalise_operation(v) for v in values}, default=None, return_dtype=pl.String)

    from_record, from_note, from_name = mapped("operation"), mapped("note"), pl.col("op_hint")
    size = pl.col("dtype").str.to_lowercase().str.replace(r"^c10::", "").replace_strict(dict(DTYPE_BYTES), default=None, return_dtype=pl.Int64)
    copy = pl.col("library") == "peer-copy"
    out = rows.with_columns(
        pl.coalesce(from_record, from_note, from_name, pl.lit("unknown")).alias("operation"),
        pl.when(from_record.is_not_null()).then(pl.lit("metadata")).otherwise(pl.lit("name")).alias("operation_origin"),
        pl.when(copy).then(pl.col("bytes")).otherwise(_elements("in_elements") * size).alias("in_bytes"),
        (_elements("out_elements") * size).alias("out_bytes"),
        (pl.col("source_ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        pl.col("source_ts_ns").alias("start_ns"),
        pl.col("note").str.extract(r"^\w+:(?:send|recv) \d+(?:->|<-)(\d{1,9})", 1).cast(pl.Int32, strict=False).alias("note_peer"),
        pl.col("note").str.extract(r"^\w+:(?:send|recv) (\d{1,9})(?:->|<-)\d+", 1).cast(pl.Int32, strict=False).alias("note_self"),
    )
    peer = pl.when(pl.col("operation") == "send").then(pl.col("dst_rank")).when(pl.col("operation") == "recv").then(pl.col("src_rank"))
    return out.with_columns(peer.alias("peer")).drop(
        "dst_device", "src_rank", "dst_rank", "bytes", "in_elements", "out_elements", "op_hint", "_op", "dur_ns", strict=False
    )
