"""The picture of who sends how much to whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tracelab.units import format_share
from tracelab_reports.figures import byte_scale
from tracelab_reports.matrices import BOTH, DIRECTED, Cell, Matrix, Tick, amount_text
from tracelab_reports.plots.common import finish, finish_axis, plain_label

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["matrix"]

_OWN_CELLS = 8_192
"""Up to this many cells each is a mark of its own, of which the pointer shows all; above, they are one image."""
_TEXT_PIXELS = 36_864
"""Up to this many pixels an image carries a text for each."""
_SIGNED = ("#6a51d6", "#7869d2", "#8580cd", "#9196c8", "#9ca7bf", "#a8b0b6", "#b7a893", "#c4996f", "#ce8a4d", "#d4782b", "#d8650a")
"""Purple, grey, orange: every step stands out from a light and from a dark page."""


def matrix(figure: Matrix) -> Any:
    """A HoloViews overlay: cells, in one picture or one each, borders between blocks, names on both axes."""
    import holoviews as hv

    layers = _layers(figure, figure.cells, DIRECTED)
    if figure.both:
        layers += _layers(figure, figure.both, BOTH)
    side, limits = len(figure.names), (-0.5, figure.side * figure.together - 0.5)
    lines = [line for at in figure.borders for line in ((at, -0.5, at, side - 0.5), (-0.5, at, side - 0.5, at))]
    grid = hv.Segments(lines, kdims=["x0", "y0", "x1", "y1"])
    grid = grid.opts(hv.opts.Segments(color="#808080", line_width=0.8, alpha=0.4 if len(figure.borders) > 32 else 0.8, default_tools=[], backend="bokeh"))
    return hv.Overlay([*layers, grid]).opts(
        hv.opts.Overlay(
            responsive=True,
            height=figure.height,
            xlim=limits,
            ylim=limits,
            invert_yaxis=True,
            xlabel="",
            ylabel="",
            toolbar="above",
            hooks=[partial(_finish, figure)],
            backend="bokeh",
        )
    )


def _layers(figure: Matrix, cells: Sequence[Cell], name: str) -> list[Any]:
    """The cells and the hatch over those that no file states."""
    import holoviews as hv

    out = [_marks(figure, cells, name) if len(cells) <= _OWN_CELLS else _image(figure, cells, name)]
    if figure.hatched:
        low, high = figure.span(cells)
        # Light strokes on the dark half of the colours, dark ones on the light half.
        middle = 0.0 if figure.signed else (low * high) ** 0.5
        for ink, of in (("#ffffff", [c for c in cells if c.value <= middle]), ("#101418", [c for c in cells if c.value > middle])):
            strokes = [(c.dst - 0.5, c.src + 0.5, c.dst + 0.5, c.src - 0.5) for c in of if c.stated < 1]
            hatch = hv.Segments(strokes, kdims=["x0", "y0", "x1", "y1"])
            out += (
                [hatch.opts(hv.opts.Segments(color=ink, line_width=1.2, default_tools=[], hooks=[partial(_named, name)], backend="bokeh"))] if strokes else []
            )
    return out


def _named(name: str, plot: Any, _element: Any) -> None:
    renderer = plot.handles["glyph_renderer"]
    renderer.name, renderer.visible = name, name == DIRECTED


def _finish(figure: Matrix, plot: Any, element: Any) -> None:
    finish(plot, element)
    state = plot.state
    state.xgrid[0].visible = state.ygrid[0].visible = False
    before, behind = figure.margins
    state.min_border_left = state.min_border_bottom = before
    state.min_border_right = state.min_border_top = behind
    state.sizing_mode, state.height, state.width, state.aspect_ratio, state.max_width = "stretch_width", None, None, 1, figure.width
    _set_axes(figure, state)


def _set_axes(figure: Matrix, state: Any) -> None:
    """From the cells outwards: names of places, names of hosts, what the axis is; on the far side the inner names."""
    from bokeh.models import LinearAxis

    places, hosts = figure.place_ticks, figure.host_ticks
    short = all(len(name) <= 2 for _, name in places)
    for side, axis, label in (("below", state.xaxis[0], figure.x_label), ("left", state.yaxis[0], figure.y_label)):
        _set_ticks(axis, places or hosts, upright=side == "below" and not (places and short))
        outer = axis
        if places and hosts:
            outer = LinearAxis(axis_line_alpha=0.0, major_tick_line_alpha=0.0)
            _set_ticks(outer, hosts, upright=(side == "left") == figure.hosts_along)
            finish_axis(outer)
            state.add_layout(outer, side)
        outer.axis_label = label
    if inner := figure.inner_ticks:
        for side in ("above", "right"):
            axis = LinearAxis(axis_line_alpha=0.0, major_tick_line_alpha=0.0, major_label_text_font_size="9px")
            _set_ticks(axis, inner)
            finish_axis(axis)
            state.add_layout(axis, side)


def _set_ticks(axis: Any, ticks: Sequence[Tick], *, upright: bool = False) -> None:
    from bokeh.models import FixedTicker, NoOverlap

    axis.ticker = FixedTicker(ticks=[at for at, _ in ticks], minor_ticks=[])
    axis.major_label_overrides = {at: plain_label(name) for at, name in ticks}
    axis.major_label_orientation = math.pi / 2 if upright else 0.0
    axis.major_label_policy = NoOverlap(min_distance=2)


def _colors(figure: Matrix, cells: Sequence[Cell]) -> dict[str, Any]:
    from bokeh.palettes import Cividis256, interp_palette

    # The ends of Cividis would vanish before a dark and before a light page.
    palette = interp_palette(_SIGNED, 255) if figure.signed else Cividis256[48:244]
    return {
        "cmap": list(palette),
        "clim": figure.span(cells),
        "logz": not figure.signed,
        "tools": ["hover"],
        "default_tools": ["box_zoom", "reset"],
        "backend": "bokeh",
    }


def _marks(figure: Matrix, cells: Sequence[Cell], name: str) -> Any:
    import holoviews as hv

    size, reach = figure.together, len(figure.names) - 0.5
    rows = []
    for c in cells:
        box = (c.dst - 0.5, c.src - 0.5, min(c.dst - 0.5 + size, reach), min(c.src - 0.5 + size, reach))
        texts = (figure.name_of(c.src), figure.name_of(c.dst), amount_text(c.value), format_share(c.share), *c.facts)
        rows.append((*box, c.value, *(plain_label(t) for t in texts)))
    facts = [f"fact{i}" for i in range(len(figure.facts))]
    marks = hv.Rectangles(rows, kdims=["x0", "y0", "x1", "y1"], vdims=["value", "src", "dst", "amount", "share", *facts])
    tips = [*zip(_ends(figure, name), ("@src", "@dst"), strict=True), (figure.value_label, "@amount")]
    tips += [("share of all", "@share"), *((label, f"@{fact}") for label, fact in zip(figure.facts, facts, strict=True))]
    return marks.opts(
        hv.opts.Rectangles(color="value", line_width=1, hover_tooltips=tips, hooks=[partial(_named, name), _close_seams], **_colors(figure, cells))
    )


def _close_seams(plot: Any, _element: Any) -> None:
    """A line of the cell's own colour covers the seams that smoothing leaves between neighbours."""
    plot.handles["glyph"].line_color = plot.handles["glyph"].fill_color


def _ends(figure: Matrix, name: str) -> tuple[str, str]:
    """What the pointer calls the two ends of a pair."""
    return ("one end", "other end") if name == BOTH else (figure.y_label, figure.x_label)


def _short_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Single-precision numbers cut to 11 bits of their fraction, three digits: the rest is noise that cannot be compressed."""
    return (values.view("uint32") & 0xFFFFF000).view("float32")


def _image(figure: Matrix, cells: Sequence[Cell], name: str) -> Any:
    import holoviews as hv
    import numpy as np

    at = np.array([(c.src // figure.together, c.dst // figure.together) for c in cells])

    def grid(values: Sequence[Any], fill: Any, dtype: str = "float32") -> npt.NDArray[Any]:
        out = np.full((figure.side, figure.side), fill, dtype=dtype)
        out[at[:, 0], at[:, 1]] = values
        return out

    size, unit = byte_scale(figure.span(cells)) if figure.signed else (1.0, "B")
    values = [c.value / size for c in cells]
    places = np.array(figure.numbers[:: figure.together], dtype="int32")
    columns: dict[str, Any] = {
        "src": np.repeat(places[:, None], figure.side, axis=1),
        "dst": np.repeat(places[None, :], figure.side, axis=0),
        "stated": np.floor(100 * grid([c.stated for c in cells], 0.0)).astype("uint8"),
    }
    first = f"first {figure.place_word}" if figure.together > 1 else figure.place_word
    # Of Bokeh's ways to write a number, `d` is that of decimal bytes; it knows no sign.
    amount = f"@image{{0,0.000}} {unit}" if figure.signed else "@image{0.00 d}"
    tips = [*zip(_ends(figure, name), (f"{first} @src", f"{first} @dst"), strict=True), (figure.value_label, amount)]
    if figure.side**2 <= _TEXT_PIXELS:
        columns["share"] = _short_floats(grid([c.share for c in cells], 0.0))
        tips.append(("share of all", "@share{0.000 %}"))
    tips.append(("stated by files", "@stated %"))
    if figure.side**2 <= _TEXT_PIXELS:
        texts = grid([plain_label("; ".join(c.facts)) for c in cells], "", "object")
        columns["text"] = texts.ravel().tolist()
        tips.append((", ".join(figure.facts), "@text"))
    low, high = (v / size for v in figure.span(cells))
    # Pixels are cut short, and must not fall below the scale for that.
    colors = _colors(figure, cells) | {"clim": (low if figure.signed else 0.999 * low, high), "clipping_colors": {"min": "rgba(0, 0, 0, 0)"}}

    def add_columns(plot: Any, _element: Any) -> None:
        source = plot.handles["source"]
        source.data = {**source.data, **{key: [values] for key, values in columns.items()}}

    reach = figure.side * figure.together - 0.5
    pixels = _short_floats(grid(values, np.nan if figure.signed else 0.0))
    # hv.Image puts the first row on top of an axis that points upwards; Bokeh, whose the other columns are, at its start.
    picture = hv.Image(np.flipud(pixels), bounds=(-0.5, -0.5, reach, reach), kdims=["x", "y"], vdims=["value"])
    return picture.opts(hv.opts.Image(hover_tooltips=tips, hooks=[partial(_named, name), add_columns], **colors))
