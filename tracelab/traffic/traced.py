"""The operations that traces show: one row per operation of the job, matched or not."""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from tracelab.traffic.kinds import KIND, RECV, SEND, kind_of, size_of, token_of

__all__ = ["algorithm_of", "hints", "traced_operations"]

_LOGGED_LIBRARIES = ("nccl", "rccl", "msccl", "mscclpp")
"""Libraries whose operations NCCL's or RCCL's log lists."""
_NAME = re.compile(r"(collnet_?direct|collnet_?chain|nvls_?tree|ring|tree|nvls|pat)_?(ll128|ll|simple)", re.IGNORECASE)
_ALGORITHMS = {"collnetdirect": "COLLNET_DIRECT", "collnetchain": "COLLNET_CHAIN", "nvlstree": "NVLS_TREE"}
_COLUMNS = (
    "group_id", "match_id", "kind", "bytes", "src_rank", "dst_rank", "step", "start_ns", "end_ns", "lane", "joins", "seq", "name", "paired_ends",
)  # fmt: skip


def algorithm_of(name: str) -> tuple[str | None, str | None]:
    """Algorithm and protocol that a kernel's name gives: a hint, for a kernel may run other work than it is named after."""
    if re.search(r"ncclSymk|ncclSym(?:metric)?(?:Dev)?Kernel", name):
        return "SYMMETRIC", None
    found = _NAME.search(name.split("(", 1)[0])
    if found is None:
        return None, None
    algorithm = found[1].lower().replace("_", "")
    return _ALGORITHMS.get(algorithm, algorithm.upper()), found[2].upper()


def traced_operations(collectives: pl.DataFrame, matches: pl.DataFrame) -> pl.DataFrame:
    """One row per operation: those of `matches`, then what was not matched, as often as the rank with most of it shows it.

    Columns: group_id, match_id, kind (number), bytes, src_rank, dst_rank, step, start_ns, end_ns, `lane` (rank and stream that
    it ran on), `joins` (a log of the library could list it), seq, name (of the kernel), token. Sorted by start.
    """
    kind = kind_of("operation")
    rows = collectives.with_columns(kind.alias("kind"), pl.col("library").cast(pl.String).is_in(_LOGGED_LIBRARIES).alias("joins"))
    rows = rows.with_columns(
        pl.when(pl.col("kind") == SEND).then("rank").when(pl.col("kind") == RECV).then("peer").alias("src_rank"),
        pl.when(pl.col("kind") == SEND).then("peer").when(pl.col("kind") == RECV).then("rank").alias("dst_rank"),
        pl.col("name").cast(pl.String),
        size_of(pl.col("kind")).alias("bytes"),
        (pl.col("rank").cast(pl.Int64) * 2**32 + pl.col("stream").fill_null(-1).rank("dense")).alias("lane"),
    )
    out = pl.concat([_matched(rows.filter(pl.col("match_id").is_not_null()), matches), _unmatched(rows.filter(pl.col("match_id").is_null()))])
    out = out.with_columns(token_of(pl.col("kind"), pl.col("bytes")).alias("token"))
    return out.sort("start_ns", "group_id", "match_id", "kind", "src_rank", "dst_rank", maintain_order=True)


def _matched(rows: pl.DataFrame, matches: pl.DataFrame) -> pl.DataFrame:
    order = rows.sort("match_id", "rank", "op_id")
    first = order.group_by("match_id", maintain_order=True).agg(pl.col("src_rank", "dst_rank", "lane", "joins", "seq", "name").first())
    found = matches.select(
        "group_id",
        "match_id",
        kind_of("operation").alias("kind"),
        "bytes",
        "step",
        pl.col("first_start_ns").alias("start_ns"),
        "end_ns",
    ).join(first, on="match_id", how="left", maintain_order="left", validate="1:1")
    ends = pl.col("src_rank").is_not_null() & pl.col("dst_rank").is_not_null()
    return _shaped(found.with_columns(pl.col("joins").fill_null(False), ends.alias("paired_ends")))


def _unmatched(rows: pl.DataFrame) -> pl.DataFrame:
    """Ranks of one group see the same operations; copies between GPUs are seen by nobody else."""
    what = ["group_id", "kind", "bytes", "src_rank", "dst_rank", "joins"]
    alone = pl.col("library").cast(pl.String) == "peer-copy"
    per_row = rows.filter(alone).with_columns(pl.col("rank").alias("src_rank"))
    shared = rows.filter(~alone).sort("rank", "start_ns", "op_id")
    shared = shared.with_columns(pl.len().over(*what, "rank").alias("count"))
    # Of a message between two ranks the sender's rows stand for it, where it shows as many.
    order = shared.sort("count", "kind", "rank", "start_ns", "op_id", descending=[True, False, False, False, False])
    order = order.with_columns(pl.when(pl.col("kind").is_in([SEND, RECV])).then(KIND["send_recv"]).otherwise("kind").alias("kind"))
    most = order.filter(pl.struct("rank", "count") == pl.struct("rank", "count").first().over(what))
    found = pl.concat([most.drop("count"), per_row])
    ends = pl.col("src_rank").is_not_null() & pl.col("dst_rank").is_not_null()
    return _shaped(found.with_columns(ends.alias("paired_ends")))


def _shaped(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(_COLUMNS)


def hints(names: Iterable[str | None]) -> pl.DataFrame:
    """`name`, `algorithm`, `protocol` of the unique names."""
    unique = sorted({n for n in names if n})
    told = [algorithm_of(n) for n in unique]
    return pl.DataFrame(
        {"name": unique, "hint_algorithm": [a for a, _ in told], "hint_protocol": [p for _, p in told]},
        schema={"name": pl.String, "hint_algorithm": pl.String, "hint_protocol": pl.String},
    )
