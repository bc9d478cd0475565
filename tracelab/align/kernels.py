"""What an operation on a GPU stream is, told from its name: compute, communication (which library, which operation), copy.

Communication is more than NCCL's kernels: expert-parallel dispatch and combine, one- and two-shot all-reduces of inference
engines, symmetric memory and copies between GPUs move as many bytes. Only unique names are classified; rows are joined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

__all__ = ["COMMUNICATION", "COMPUTE", "GpuClass", "classify", "name_classes", "normalise_operation", "unclamped", "with_class"]

COMPUTE, COMMUNICATION = "compute", "communication"


@dataclass(frozen=True)
class GpuClass:
    """`kind`: compute, communication, memcpy, memset, sync or annotation; library and operation for communication only."""

    kind: str
    library: str | None = None
    operation: str | None = None


_OPERATIONS = (
    # Order matters: the first that fits wins (reduce_scatter before reduce, all_gather before gather).
    ("reduce_scatter", "reduce_scatter"),
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("all_reduce", "all_reduce"),
    ("cross_device_reduce", "all_reduce"),
    ("quickreduce", "all_reduce"),
    ("quick_reduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("all_gather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("all_to_all", "all_to_all"),
    ("a2a", "all_to_all"),
    ("dispatch", "all_to_all"),
    ("combine", "all_to_all"),
    ("sendrecv", "send_recv"),
    ("send_recv", "send_recv"),
    ("isend_irecv", "send_recv"),
    ("broadcast", "broadcast"),
    ("bcast", "broadcast"),
    ("barrier", "barrier"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
    ("irecv", "recv"),
    ("recv", "recv"),
    ("isend", "send"),
    ("send", "send"),
)


@lru_cache(maxsize=4096)
def normalise_operation(name: str | None) -> str | None:
    """The standard name of a communication operation (`_allgather_base`, `all_to_allv`, `nccl:send 0->1` …), or None.

    Used on names that are known to speak of communication: metadata, annotations of a backend, communication kernels.
    """
    text = (name or "").lower().replace("-", "_")
    return next((op for part, op in _OPERATIONS if part in text), None)


# Library patterns, searched in order in the whole name. Compute kernels that contain words such as `reduce`, `gather` or
# `dispatch` (aten's reduce_kernel, MoE routing on one GPU) match none of them.
_LIBRARIES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("mscclpp", re.compile(r"mscclpp", re.IGNORECASE)),
    ("msccl", re.compile(r"mscclKernel", re.IGNORECASE)),
    ("rccl", re.compile(r"rccl|nccl(?:Dev)?Kernel_Generic", re.IGNORECASE)),
    ("nccl", re.compile(r"^(?:void )?nccl|nccl(?:Sym)?(?:Dev)?Kernel|ncclSymk|ncclLaunch|ncclKernel", re.IGNORECASE)),
    ("hccl", re.compile(r"^hccl|hcom_|hcclKernel", re.IGNORECASE)),
    ("oneccl", re.compile(r"oneccl|\bccl::|ccl_kernel|^ccl_", re.IGNORECASE)),
    (
        "deepep",
        re.compile(
            r"deep_?ep::|\b(?:internode(?:_ll)?|intranode)::(?:\w*dispatch|\w*combine|\w*notify|barrier)|(?:^|\W)ep::(?:\w+::)*(?:dispatch|combine|notify|barrier)",
            re.IGNORECASE,
        ),
    ),
    ("mori", re.compile(r"\bmori::|\bmori_|Ep(?:Dispatch|Combine)(?:Intra|Inter)Node", re.IGNORECASE)),
    ("nvshmem", re.compile(r"nvshmem", re.IGNORECASE)),
    (
        "symmetric-memory",
        re.compile(
            r"multimem_(?:all_|one_shot|two_shot|reduce)|symm(?:etric)?_?mem|(?:one|two)_shot_all_reduce|stream_write_value32|"
            r"^(?:void )?barrier_kernel|barrier_on_this_grid",
            re.IGNORECASE,
        ),
    ),
    (
        "custom",
        re.compile(
            r"cross_device_reduce_[12]stage|quick_?reduce|allreduce_prototype_twoshot|allreduce_fusion|moereduction_allreduce|moefinalize_allreduce|trtllm_\w*all_?reduce|"
            r"(?:one|two)_?shot_?all_?reduce|lamport|userbuffers|customallreduce|custom_all_?reduce|all_?reduce_kernel|all_?gather_kernel|reduce_?scatter_kernel|all_?to_?all_kernel|"
            r"moe(?:alltoall|_?a2a)|moeprepare.*alltoall",
            re.IGNORECASE,
        ),
    ),
    ("gloo", re.compile(r"^gloo:", re.IGNORECASE)),
)
_ATEN = re.compile(r"^(?:void )?(?:at::|aten::|c10::|cub::|thrust::|cutlass::)", re.IGNORECASE)
_NCCL_LIKE = frozenset({"nccl", "rccl", "mscclpp", "msccl", "hccl"})
_NOT_KERNELS = {"memcpy": "memcpy", "memset": "memset", "sync": "sync", "annotation": "annotation"}


@lru_cache(maxsize=65536)
def classify(name: str, kind: str = "kernel") -> GpuClass:
    """What the thing called `name` is; `kind` is the `gpu_spans` kind. Copies between GPUs need their devices: see `with_class`."""
    if kind in _NOT_KERNELS:
        return GpuClass(_NOT_KERNELS[kind])
    head = name[:512]
    library = next((lib for lib, pattern in _LIBRARIES if pattern.search(head)), None)
    if library is None or (library not in _NCCL_LIKE and library != "nvshmem" and _ATEN.match(head)):
        return GpuClass(COMPUTE)
    return GpuClass(COMMUNICATION, library, normalise_operation(_operation_part(head, library)) or "unknown")


def _operation_part(name: str, library: str) -> str:
    """The part of a kernel's name that tells the operation: the reduction operator (`_Sum_`), template and arguments do not."""
    short = name.replace("(anonymous namespace)", "").split("(", 1)[0]
    return short if library in ("deepep", "custom", "symmetric-memory", "mori", "nvshmem") else short.split("<", 1)[0]


def unclamped(spans: pl.LazyFrame) -> pl.LazyFrame:
    """`gpu_spans` or `host_spans` without what the source cut: a start of 0 or a missing length is no time of the hardware."""
    return spans.filter(~pl.col("clamped").fill_null(False))


def name_classes(gpu_spans: pl.LazyFrame) -> pl.DataFrame:
    """The unique (name, kind) of `gpu_spans` with op_class, library and op_hint; reads the whole table."""
    unique = gpu_spans.select("name", "kind").unique().collect(engine="streaming")
    known = [classify(n, k) for n, k in zip(unique["name"].cast(pl.String), unique["kind"].cast(pl.String), strict=True)]
    return unique.with_columns(
        pl.Series("op_class", [c.kind for c in known], pl.String),
        pl.Series("library", [c.library for c in known], pl.String),
        pl.Series("op_hint", [c.operation for c in known], pl.String),
    )


def with_class(gpu_spans: pl.LazyFrame, names: pl.DataFrame | None = None) -> pl.LazyFrame:
    """`gpu_spans` with the columns op_class, library and op_hint (strings; the last two null for anything but communication).

    Copies between two different GPUs count as communication by the library peer-copy. Rows and their number stay as they
    are. `names` are the table's `name_classes`, where they are known already.
    """
    names = name_classes(gpu_spans) if names is None else names
    peer = (pl.col("op_class") == "memcpy") & (pl.col("src_device") != pl.col("dst_device"))
    peer = peer.fill_null(False)
    return gpu_spans.join(names.lazy(), on=["name", "kind"], how="left", validate="m:1", maintain_order="left").with_columns(
        pl.when(peer).then(pl.lit(COMMUNICATION)).otherwise(pl.col("op_class")).alias("op_class"),
        pl.when(peer).then(pl.lit("peer-copy")).otherwise(pl.col("library")).alias("library"),
        pl.when(peer).then(pl.lit("unknown")).otherwise(pl.col("op_hint")).alias("op_hint"),
    )
