"""The pictures of links: load over time, mean to peak, and wiring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from tracelab_reports.figures import COLORS
from tracelab_reports.linkfigures import Guide, Levels, LoadLine, Loads, Wire, Wiring
from tracelab_reports.matrices import ends_of
from tracelab_reports.plots.common import finish, finish_axis, plain_label

__all__ = ["levels", "loads", "wiring"]

_GREY = "#808080"
"""Stands out from a light and from a dark page."""
_STILL = {"default_tools": [], "backend": "bokeh"}
_ZOOM = ["xbox_zoom", "reset"]
_JOINT = 1e-6
"""Intervals that are no further apart than this, beside their moment, follow on each other."""
_STEP_CHARS = 110
"""Characters along the axis of time."""
_MAX_NAME = 44
"""Characters of a name on an axis."""
_SLOT = 0.36
"""Half the room of a link among bars."""


def _add_guides(state: Any, guides: Sequence[Guide], *, upright: bool) -> None:
    """Bands and lines that can be dragged, and hidden by their name."""
    from bokeh.models.annotations import BoxAnnotation, Span

    for guide in guides:
        look: dict[str, Any] = {"name": guide.name, "line_color": _GREY, "editable": True, "level": "underlay"}
        if guide.low == guide.high:
            look |= {"dimension": "height" if upright else "width", "location": guide.low, "line_dash": [8, 4], "line_width": 2}
            state.add_layout(Span(**look))
        else:
            look |= {"movable": "x", "resizable": "x", "left": guide.low, "right": guide.high} if upright else {}
            look |= {} if upright else {"movable": "y", "resizable": "y", "bottom": guide.low, "top": guide.high}
            state.add_layout(BoxAnnotation(**look, fill_color=_GREY, fill_alpha=0.16, line_dash=[2, 3]))


def _label(state: Any, x: float, y: float, text: str, **more: Any) -> None:
    from bokeh.models.annotations import Label

    options = {"text_font": "system-ui, sans-serif", "text_font_size": "11px", "text_baseline": "middle"} | more
    state.add_layout(Label(x=x, y=y, text=plain_label(text), **options))


def _stepped(line: LoadLine) -> list[tuple[float, float, float, float, str]]:
    """Strokes of the stepped line: one per interval, and one between two that follow on each other."""
    flat = [(start, value, end, value, line.color) for start, end, value in line.spans]
    joints = [(b, v, b, w, line.color) for (_, b, v), (c, _, w) in pairwise(line.spans) if v != w and c - b <= _JOINT * max(1.0, abs(b))]
    return flat + joints


def loads(figure: Loads) -> Any:
    """A HoloViews overlay: band, stepped lines with a mark in the middle of each interval, and the steps above."""
    import holoviews as hv

    layers: list[Any] = []
    if figure.others:
        band = hv.Rectangles([(a, low, b, high) for a, b, low, high in figure.others], kdims=["x0", "y0", "x1", "y1"])
        layers.append(band.opts(hv.opts.Rectangles(color=COLORS[4], alpha=0.35, line_width=0, **_STILL)))
    for up, style in ((True, {"line_dash": "solid", "line_width": 2.4}), (False, {"line_dash": "dashed", "line_width": 1.6})):
        strokes = [stroke for line in figure.lines if line.up == up for stroke in _stepped(line)]
        if strokes:
            drawn = hv.Segments(strokes, kdims=["x0", "y0", "x1", "y1"], vdims=["color"])
            layers.append(drawn.opts(hv.opts.Segments(color="color", **style, **_STILL)))
    layers += [_marks(figure, mark) for mark in dict.fromkeys(line.mark for line in figure.lines)]
    if figure.steps:
        layers += _step_boxes(figure)
    ends = [x for line in figure.lines for a, b, _ in line.spans for x in (a, b)] + [x for step in figure.steps for x in (step.start, step.end)]
    room = 0.01 * (max(ends) - min(ends))
    return hv.Overlay(layers).opts(
        hv.opts.Overlay(
            responsive=True,
            height=figure.height,
            xlim=(min(ends) - room, max(ends) + room),
            ylim=(0, figure.top * (1.1 if figure.steps else 1.0)),
            xlabel=f"{figure.x_label} [{figure.x_unit}]",
            ylabel=f"{figure.y_label} [{figure.y_unit}]",
            show_legend=False,
            toolbar="above",
            hooks=[partial(_finish_loads, figure)],
            backend="bokeh",
        )
    )


def _marks(figure: Loads, mark: str) -> Any:
    """The marks of one link: filled on the way up, hollow on the way down."""
    import holoviews as hv

    lines = [line for line in figure.lines if line.mark == mark]
    rows = [
        ((a + b) / 2, v, plain_label(line.link), line.way, f"{a:.3f} to {b:.3f} {figure.x_unit}", 1.0 if line.up else 0.0)
        for line in lines
        for a, b, v in line.spans
    ]
    tips = [("link", "@link"), ("direction", "@way"), ("time", "@span"), (figure.y_label, f"@load{{0.00}} {figure.y_unit}")]
    return hv.Scatter(rows, ["time"], ["load", "link", "way", "span", "fill"]).opts(
        hv.opts.Scatter(
            color=lines[0].color,
            fill_alpha="fill",
            marker=mark,
            size=7 if len(rows) <= 120 else 3,
            tools=["hover"],
            hover_tooltips=tips,
            default_tools=_ZOOM,
            backend="bokeh",
        )
    )


def _step_boxes(figure: Loads) -> list[Any]:
    import holoviews as hv

    low, high = 1.02 * figure.top, 1.08 * figure.top
    rows = [(s.start, low, s.end, high, plain_label(s.label), f"{s.start:.3f} to {s.end:.3f} {figure.x_unit}") for s in figure.steps]
    boxes = hv.Rectangles(rows, kdims=["x0", "y0", "x1", "y1"], vdims=["step", "span"])
    boxes = boxes.opts(
        hv.opts.Rectangles(
            color=COLORS[4],
            alpha=0.35,
            line_color=COLORS[0],
            tools=["hover"],
            hover_tooltips=[("step", "@step"), ("time", "@span")],
            default_tools=_ZOOM,
            backend="bokeh",
        )
    )
    edges = sorted({x for s in figure.steps for x in (s.start, s.end)})
    lines = hv.Segments([(x, 0, x, low) for x in edges], kdims=["x0", "y0", "x1", "y1"])
    return [lines.opts(hv.opts.Segments(color=_GREY, alpha=0.35, line_width=1, **_STILL)), boxes]


def _finish_loads(figure: Loads, plot: Any, element: Any) -> None:
    from bokeh.models import BasicTicker

    finish(plot, element)
    state = plot.state
    state.xgrid[0].visible = False
    state.yaxis[0].ticker = state.ygrid[0].ticker = BasicTicker(desired_num_ticks=6)
    _add_guides(state, figure.guides, upright=False)
    longest = max((len(step.label) for step in figure.steps), default=0)
    every = max(1, math.ceil(len(figure.steps) * (longest + 2) / _STEP_CHARS))
    for step in figure.steps[::every]:
        _label(state, (step.start + step.end) / 2, 1.05 * figure.top, step.label, text_align="center", text_font_size="10px")


def levels(figure: Levels) -> Any:
    """A HoloViews overlay: a bar for the mean, a whisker to the peak with a tick at the 95th percentile."""
    import holoviews as hv

    place = {link: i for i, link in enumerate(figure.links)}
    rows, whiskers, ticks, peaks = [], [], [], []
    for bar in figure.bars:
        at = place[bar.link]
        top, bottom = (at - _SLOT, at) if bar.up else (at, at + _SLOT)
        middle, color = (top + bottom) / 2, COLORS[0] if bar.up else COLORS[1]
        texts = ("up" if bar.up else "down", *(_amount(v, figure.unit) for v in (bar.mean, bar.p95, bar.peak)))
        rows.append((0.0, top + 0.03, bar.mean, bottom - 0.03, color, plain_label(bar.link), *texts))
        if bar.peak is not None:
            whiskers.append((min(bar.mean, bar.peak), middle, max(bar.mean, bar.peak), middle, color))
            peaks.append((bar.peak, middle, color))
        if bar.p95 is not None:
            ticks.append((bar.p95, top + 0.03, bar.p95, bottom - 0.03, _GREY))
    tips = [("link", "@link"), ("direction", "@way"), ("mean", "@mean")]
    tips += [("95th percentile", "@p95"), ("peak", "@peak")] if peaks or ticks else []
    bars = hv.Rectangles(rows, kdims=["x0", "y0", "x1", "y1"], vdims=["color", "link", "way", "mean", "p95", "peak"])
    layers = [bars.opts(hv.opts.Rectangles(color="color", line_width=0, tools=["hover"], hover_tooltips=tips, **_STILL))]
    for segments, width in ((whiskers, 1.5), (ticks, 3.0)):
        if segments:
            drawn = hv.Segments(segments, kdims=["x0", "y0", "x1", "y1"], vdims=["color"])
            layers.append(drawn.opts(hv.opts.Segments(color="color", line_width=width, **_STILL)))
    if peaks:
        dots = hv.Scatter(peaks, "x", ["y", "color"])
        layers.append(dots.opts(hv.opts.Scatter(color="color", marker="diamond", size=9, line_color=_GREY, **_STILL)))
    reach = max([bar.peak or 0.0 for bar in figure.bars] + [bar.mean for bar in figure.bars] + [guide.high for guide in figure.guides])
    return hv.Overlay(layers).opts(
        hv.opts.Overlay(
            responsive=True,
            height=figure.height,
            xlim=(0, 1.05 * reach or 1.0),
            ylim=(-0.5, len(place) - 0.5),
            invert_yaxis=True,
            xlabel=f"{figure.value_label} [{figure.unit}]",
            ylabel="",
            show_legend=False,
            toolbar=None,
            hooks=[partial(_finish_levels, figure)],
            backend="bokeh",
        )
    )


def _amount(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:.3g} {unit}"


def _set_names(axis: Any, names: Sequence[tuple[float, str]]) -> None:
    from bokeh.models import FixedTicker

    axis.ticker = FixedTicker(ticks=[at for at, _ in names], minor_ticks=[])
    axis.major_label_overrides = {at: plain_label(ends_of(name, _MAX_NAME)) for at, name in names}
    axis.major_tick_line_color = None


def _finish_levels(figure: Levels, plot: Any, element: Any) -> None:
    from bokeh.models import BasicTicker

    finish(plot, element)
    state = plot.state
    _set_names(state.yaxis[0], [(float(i), link) for i, link in enumerate(figure.links)])
    state.xaxis[0].ticker = state.xgrid[0].ticker = BasicTicker(desired_num_ticks=6)
    state.ygrid[0].visible = False
    state.xgrid[0].visible = True
    _add_guides(state, figure.guides, upright=True)


_BOX, _RIGHT = (1.0, 1.8), 2.8
"""From and to of a switch's box, and where the links behind it end."""
_LOOKS = {
    "verdict": {"color": COLORS[3], "line_width": 4.0, "line_dash": "solid"},
    "signs": {"color": COLORS[1], "line_width": 3.0, "line_dash": "dashed"},
    "plain": {"color": COLORS[7], "line_width": 1.5, "line_dash": "solid"},
    "unused": {"color": COLORS[7], "line_width": 1.5, "line_dash": "dotted"},
}


def _look(wire: Wire) -> str:
    return "verdict" if wire.verdict else "signs" if wire.signs else "plain" if wire.used else "unused"


def wiring(figure: Wiring) -> Any:
    """A HoloViews overlay: a box per switch, a line per link; names stand on the axes, ports in the boxes."""
    import holoviews as hv

    boxes: list[tuple[float, ...]] = []
    lines: dict[str, list[tuple[float, ...]]] = {look: [] for look in reversed(_LOOKS)}
    for block, top in zip(figure.blocks, figure.tops, strict=True):
        boxes.append((_BOX[0], top - 0.5, _BOX[1], top + block.rows - 0.5))
        for wires, (start, end) in ((block.below, (0.0, _BOX[0])), (block.above, (_BOX[1], _RIGHT))):
            for row, wire in enumerate(wires, 1):
                lines[_look(wire)].append((start, top + row, end, top + row))
    frames = hv.Rectangles(boxes, kdims=["x0", "y0", "x1", "y1"])
    layers = [frames.opts(hv.opts.Rectangles(color=COLORS[4], alpha=0.15, line_color=_GREY, **_STILL))]
    for look, segments in lines.items():
        if segments:
            layers.append(hv.Segments(segments, kdims=["x0", "y0", "x1", "y1"]).opts(hv.opts.Segments(**_LOOKS[look], **_STILL)))
    return hv.Overlay(layers).opts(
        hv.opts.Overlay(
            responsive=True,
            height=figure.height,
            xlim=(0, _RIGHT if any(block.above for block in figure.blocks) else _BOX[1]),
            ylim=(-0.6, figure.size - 0.4),
            invert_yaxis=True,
            xlabel="",
            ylabel="",
            show_legend=False,
            toolbar=None,
            hooks=[partial(_finish_wiring, figure)],
            backend="bokeh",
        )
    )


def _finish_wiring(figure: Wiring, plot: Any, element: Any) -> None:
    from bokeh.models import LinearAxis

    finish(plot, element)
    state = plot.state
    state.xaxis[0].visible = state.xgrid[0].visible = state.ygrid[0].visible = False
    left: list[tuple[float, str]] = []
    right: list[tuple[float, str]] = []
    for block, top in zip(figure.blocks, figure.tops, strict=True):
        _label(state, sum(_BOX) / 2, top, block.switch, text_align="center", text_font_style="bold")
        for wires, names, more, x, align in (
            (block.below, left, block.below_left_out, _BOX[0] + 0.02, "left"),
            (block.above, right, block.above_left_out, _BOX[1] - 0.02, "right"),
        ):
            for row, wire in enumerate(wires, 1):
                names.append((top + row, wire.text))
                _label(state, x, top + row, wire.port, text_align=align)
            if more:
                names.append((top + len(wires) + 1, f"and {more:,} more"))
    _set_names(state.yaxis[0], left)
    state.yaxis[0].axis_line_color = None
    if right:
        axis = LinearAxis(axis_line_color=None)
        _set_names(axis, right)
        finish_axis(axis)
        state.add_layout(axis, "right")
