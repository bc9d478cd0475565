"""Pictures for a notebook, as HoloViews elements that can be composed; nothing is shown by itself."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracelab.errors import NoUsableInputError
from tracelab.results import DataColumn, DataTable, RunResult, Section
from tracelab_reports.plots import element_of
from tracelab_reports.sections.pairs import MAX_SIDE, pair_matrix

if TYPE_CHECKING:
    import polars as pl

__all__ = ["pair_heatmap"]

_ENDS = ("src", "dst")


def pair_heatmap(source: RunResult | Section | pl.DataFrame, *, symmetric: bool = False, difference: bool = False, expected: pl.DataFrame | None = None) -> Any:
    """Bytes per directed pair of GPUs, as a HoloViews overlay on the Bokeh backend.

    `source` is a result document, its section `traffic`, or rows of the table `traffic`, filtered as one likes: all their
    bytes are added up. `symmetric`: both directions added. `difference`: bytes minus what rings in rank order, host by host,
    would carry, which a document knows; beside rows, `expected` tells it: rows of the table `traffic_expected`.

    Raises `NoUsableInputError` where there are no bytes to show, nothing to compare them with, or no difference.
    """
    section = source.section("traffic") if isinstance(source, RunResult) else source if isinstance(source, Section) else _section(source, expected)
    figure = pair_matrix(section, difference=difference, symmetric=symmetric) if section is not None else None
    if figure is None:
        nothing = section is None or not difference or pair_matrix(section) is None
        what = "the result holds no traffic between GPUs" if nothing else "no difference to show: rings in rank order carry the same, or are not known"
        raise NoUsableInputError(what, hint="`result.section('traffic')` and `result.analyses` say why")
    legend = figure.legends[0]
    scale = f", {legend.scale}" if legend.scale else ""
    # Without the page's script nothing switches to the second layer, and without its legend nothing says what colours mean.
    return element_of(replace(figure, both=())).opts(title=f"{legend.label}, from {legend.low} to {legend.high}{scale}")


def _section(traffic: pl.DataFrame, expected: pl.DataFrame | None) -> Section:
    """The tables of the section that the pair matrix needs, of rows of the table `traffic`."""
    import polars as pl

    rows = _with_columns(traffic, src_host=pl.String, dst_host=pl.String, transport=pl.String, nic=pl.String, rung=pl.String)
    ends = [rows.select(rank=f"{end}_rank", host=f"{end}_host") for end in _ENDS]
    if expected is not None:
        ends += [expected.select(pl.col(f"{end}_rank").alias("rank"), pl.lit(None, pl.String).alias("host")) for end in _ENDS]
    places = pl.concat(ends, how="vertical_relaxed").group_by("rank").agg(pl.col("host").drop_nulls().sort().first())
    places = places.with_columns(pl.col("rank").min().over("host").alias("first")).sort("first", "rank").with_row_index("position")
    places = places.with_columns(pl.int_range(pl.len()).over("host").alias("local"))
    together = max(1, math.ceil(places.height / MAX_SIDE))
    pairs = _pairs(rows, expected, places, together)
    return Section("traffic", "", "", "", [_table("traffic_pairs", pairs), _table("traffic_places", places.select("position", "rank", "host", "local"))])


def _with_columns(frame: pl.DataFrame, **types: Any) -> pl.DataFrame:
    """The frame with each of the named columns in its type; of null where it is absent."""
    import polars as pl

    return frame.with_columns((pl.col(name) if name in frame.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in types.items())


def _pairs(rows: pl.DataFrame, expected: pl.DataFrame | None, places: pl.DataFrame, together: int) -> pl.DataFrame:
    import polars as pl

    at = [
        (pl.col(f"{end}_rank").replace_strict(places["rank"], places["position"], return_dtype=pl.Int64) // together * together).alias(f"{end}_position")
        for end in _ENDS
    ]
    keys = [f"{end}_position" for end in _ENDS]
    # The heaviest row of a pair comes first: transport, device and rung are its.
    pairs = rows.sort("bytes", "transport", "nic", "rung", descending=[True, False, False, False], nulls_last=True).with_columns(at)
    pairs = pairs.group_by(keys, maintain_order=True).agg(pl.col("bytes").sum(), pl.col("transport", "nic", "rung").first())
    if expected is not None:
        plain = expected.with_columns(at).group_by(keys).agg(pl.col("bytes").sum().alias("expected_bytes"))
        pairs = pairs.join(plain, on=keys, how="full", coalesce=True).with_columns(pl.col("bytes", "expected_bytes").fill_null(0))
    share = (pl.col("bytes") / pl.col("bytes").sum().clip(1)).alias("share")
    return pairs.with_columns(share, pl.lit(together).alias("ranks")).sort(keys)


def _table(name: str, frame: pl.DataFrame) -> DataTable:
    return DataTable(name, "", [DataColumn(c, "", "", frame[c].to_list()) for c in frame.columns])
