"""The tables of the review: settings, transports and complaints, so that a reader can go down to the line."""

from __future__ import annotations

import polars as pl

from tracelab.analyses.configuration.issue import clean
from tracelab.analyses.configuration.rules import AGREE
from tracelab.analyses.configuration.setup import Setup
from tracelab.analysis import Tables
from tracelab.tables import Column, TableSpec

__all__ = ["LOG_WARNINGS", "SETTINGS_REVIEW", "TRANSPORTS", "log_warnings", "settings_review", "transports"]

_RANKS = Column("ranks", "list<int32>", "global ranks; processes of unknown rank are counted only", nullable=False)
_COUNT = Column("processes", "int64", "processes that state it", nullable=False)
_WHERE = (Column("source", "string", "file of the first line", nullable=False), Column("line", "int64", "first line, from 1", nullable=False))

SETTINGS_REVIEW = TableSpec(
    "settings_review",
    "Settings, versions and properties that the logs state, by value",
    (
        Column("name", "string", "setting or property", nullable=False, key=True),
        Column("value", "string", "value", nullable=False, key=True),
        Column("origin", "string", "environment, file, or stated", nullable=False),
        _COUNT,
        _RANKS,
        Column("differs", "bool", "other processes state another value", nullable=False),
        Column("must_agree", "bool", "ranks should share one value", nullable=False),
        *_WHERE,
    ),
    ("name", "processes", "value"),
)

TRANSPORTS = TableSpec(
    "transports",
    "Connections that the logs state, by what they run over",
    (
        Column("scope", "string", "host: between GPUs of one host; network: between hosts", nullable=False, key=True),
        Column("transport", "string", "as printed", nullable=False, key=True),
        Column("gdr", "bool", "GPUDirect RDMA; null where no network is used", key=True),
        Column("connections", "int64", "connections, one per channel, pair and communicator", nullable=False),
        _COUNT,
        _RANKS,
        *_WHERE,
    ),
    ("scope", "transport", "gdr"),
)

LOG_WARNINGS = TableSpec(
    "log_warnings",
    "What the library and the framework complain about, by shape of the message",
    (
        Column("level", "string", "WARN, ERROR, ABORT, or INFO for telling messages that some versions print so", nullable=False, key=True),
        Column("kind", "string", "kind of message", nullable=False, key=True),
        Column("shape", "string", "text with numbers and addresses blanked", nullable=False, key=True),
        Column("text", "string", "first such message", nullable=False),
        Column("count", "int64", "messages", nullable=False),
        _COUNT,
        _RANKS,
        *_WHERE,
    ),
    ("count", "level", "kind", "shape"),
)


def _paths(tables: Tables) -> pl.DataFrame:
    return tables["sources"].select("source_id", pl.col("path").alias("source")).collect().unique("source_id", keep="first", maintain_order=True)


def _summed(frame: pl.DataFrame, by: list[str], tables: Tables, *extra: pl.Expr) -> pl.DataFrame:
    """`frame` by the columns `by`: processes, their ranks, the first line; with `extra` aggregates."""
    first = frame.sort("source_id", "line").group_by(by, maintain_order=True)
    known = pl.col("unit").filter(pl.col("unit") >= 0).unique().sort().alias("ranks")
    out = first.agg(pl.col("unit").n_unique().alias("processes"), known, pl.col("source_id").first(), pl.col("line").first(), *extra)
    out = out.join(_paths(tables), on="source_id", how="left", maintain_order="left").with_columns(pl.col("source").fill_null(""))
    texts = [pl.col(c).map_elements(clean, return_dtype=pl.String) for c in ("value", "transport", "shape", "text") if c in out.columns]
    return out.with_columns(texts)


def _ordered(frame: pl.DataFrame, spec: TableSpec) -> pl.DataFrame:
    return frame.select(spec.names)


def settings_review(tables: Tables, s: Setup) -> pl.DataFrame:
    """Rows of SETTINGS_REVIEW: one per name, value and origin."""
    out = _summed(s.settings, ["name", "value", "origin"], tables)
    out = out.with_columns((pl.col("value").n_unique().over("name") > 1).alias("differs"), pl.col("name").is_in(list(AGREE)).alias("must_agree"))
    return _ordered(out, SETTINGS_REVIEW)


def transports(tables: Tables, s: Setup) -> pl.DataFrame:
    """Rows of TRANSPORTS: one per scope, transport and use of GPUDirect."""
    return _ordered(_summed(s.connections, ["scope", "transport", "gdr"], tables, pl.col("count").sum().alias("connections")), TRANSPORTS)


def log_warnings(tables: Tables, messages: pl.DataFrame) -> pl.DataFrame:
    """Rows of LOG_WARNINGS: one per level, kind and shape."""
    extra = (pl.col("count").sum(), pl.col("text").first())
    return _ordered(_summed(messages, ["level", "kind", "shape"], tables, *extra), LOG_WARNINGS)
