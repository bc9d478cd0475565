"""Operations as numbers: the kinds and sizes by which a log's lines are compared with a trace's kernels."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracelab.traffic.sequences import KINDS

__all__ = ["ALL_TO_ALL", "KIND", "NAMES", "RECV", "SEND", "kind_of", "number_of", "size_of", "token_of"]

NAMES = (
    "unknown",
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send",
    "recv",
    "send_recv",
    "barrier",
)
"""Operations, by number."""
KIND = {name: number for number, name in enumerate(NAMES)}
ALL_TO_ALL, SEND, RECV = KIND["all_to_all"], KIND["send"], KIND["recv"]

_FULL = (KIND["all_gather"], KIND["reduce_scatter"])
_UNEVEN = (ALL_TO_ALL, KIND["gather"], KIND["scatter"])
"""Their ranks may contribute different sizes: only the kind is compared."""
_LARGEST = 2**58


def number_of(column: str, names: Sequence[str], default: int) -> pl.Expr:
    """The place of a categorical column's text in `names`; far quicker than comparing text row by row."""
    return pl.col(column).cast(pl.Categorical()).cast(pl.Enum(names), strict=False).to_physical().cast(pl.Int64).fill_null(default)


def kind_of(operation: str) -> pl.Expr:
    """The number of an operation's name."""
    return number_of(operation, NAMES, 0)


def size_of(kind: pl.Expr, ranks: pl.Expr | None = None) -> pl.Expr:
    """Bytes as `matches` has them, from in_bytes and out_bytes; with `ranks`, also where a full tensor's other side is not stated."""
    full = pl.max_horizontal("in_bytes", "out_bytes")
    if ranks is not None:
        share = pl.when(kind == KIND["all_gather"]).then(pl.col("in_bytes")).otherwise(pl.col("out_bytes"))
        other = pl.when(kind == KIND["all_gather"]).then(pl.col("out_bytes")).otherwise(pl.col("in_bytes"))
        full = pl.coalesce(other, share * ranks)
    rooted = kind.is_in([KIND["broadcast"], KIND["reduce"]])
    return (
        pl.when(kind.is_in(_FULL))
        .then(full)
        .when(rooted)
        .then(pl.max_horizontal("in_bytes", "out_bytes"))
        .when(kind == RECV)
        .then(pl.coalesce("out_bytes", "in_bytes"))
        .otherwise(pl.coalesce("in_bytes", "out_bytes"))
    )


def token_of(kind: pl.Expr, size: pl.Expr) -> pl.Expr:
    """What two rows of one operation share: size × KINDS + kind, or -1 - kind where only the kind is known.

    A barrier is an all-reduce of a size that nobody states; a kernel of grouped sends and receives may be an all-to-all.
    """
    same = pl.when(kind == KIND["barrier"]).then(KIND["all_reduce"]).when(kind == KIND["send_recv"]).then(ALL_TO_ALL).otherwise(kind)
    open_size = kind.is_in([KIND["barrier"], KIND["send_recv"]]) | (size.is_null() & ~kind.is_in(_UNEVEN))
    known = pl.when(kind.is_in(_UNEVEN)).then(0).otherwise(size.clip(0, _LARGEST))
    return pl.when(open_size).then(-1 - same).otherwise(known * KINDS + same).cast(pl.Int64)
