"""Draws figures with HoloViews on Bokeh. The only package that imports either, and late: they take a second.

Colours of text, axes and grid are left to the page's style sheet (Bokeh reads `--bk-…` variables), so that pictures
follow the page's light or dark theme.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tracelab_reports.figures import COLORS, Bars, Figure, Heatmap, Line
from tracelab_reports.linkfigures import Levels, Loads, Wiring
from tracelab_reports.matrices import Matrix
from tracelab_reports.plots.common import finish, plain_label
from tracelab_reports.plots.matrix import matrix
from tracelab_reports.plots.network import levels, loads, wiring
from tracelab_reports.words import rank_label

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Drawing", "bokeh_js", "draw", "element_of", "plain_label"]

_EXACT_CELLS = 65_536
"""Up to this many cells a heatmap holds exact values; above, steps of 1/254 of its range (a quarter of the size)."""


@dataclass(frozen=True)
class Drawing:
    """Pictures ready for a page: the Bokeh documents, and per figure id the element id that its root is drawn into."""

    docs_json: str
    roots: Mapping[str, str]


@cache
def bokeh_js() -> str:
    """BokehJS without its optional parts, for a script element."""
    from bokeh.resources import Resources

    return str(Resources(mode="inline", components=["bokeh"]).js_raw[0])


def draw(figures: Sequence[Figure]) -> Drawing:
    """All figures as one Bokeh document with ids that depend on nothing but the figures."""
    from bokeh.document import Document

    document = Document()
    models = [_model(figure) for figure in figures]
    for model in models:
        document.add_root(model)
    ids: dict[str, str] = {}
    content = _renamed(document.to_json(deferred=False), ids)
    text = json.dumps({"charts": content}, separators=(",", ":"), ensure_ascii=False)
    return Drawing(text, {figure.id: ids[str(model.id)] for figure, model in zip(figures, models, strict=True)})


def _renamed(node: Any, ids: dict[str, str]) -> Any:
    """The document with its counted ids (`p1042`) replaced by their order of appearance."""
    if isinstance(node, dict):
        return {k: ids.setdefault(v, f"m{len(ids)}") if k == "id" and isinstance(v, str) else _renamed(v, ids) for k, v in node.items()}
    if isinstance(node, list):
        return [_renamed(v, ids) for v in node]
    return node


def element_of(figure: Figure) -> Any:
    """The figure as a HoloViews element with its options for Bokeh; makes Bokeh the current backend."""
    import holoviews as hv
    import holoviews.plotting.bokeh

    hv.Store.set_current_backend("bokeh")
    match figure:
        case Bars():
            return _bars(figure)
        case Line():
            return _line(figure)
        case Heatmap():
            return _heatmap(figure)
        case Matrix():
            return matrix(figure)
        case Loads():
            return loads(figure)
        case Levels():
            return levels(figure)
        case Wiring():
            return wiring(figure)
        case _:
            raise TypeError(f"no drawing for figures of type {type(figure).__name__}")


def _model(figure: Figure) -> Any:
    from holoviews.plotting.bokeh import BokehRenderer

    return BokehRenderer.instance().get_plot(element_of(figure)).state


def _finish_bars(plot: Any, element: Any) -> None:
    from bokeh.models import BasicTicker

    finish(plot, element)
    plot.state.xaxis[0].ticker = plot.state.xgrid[0].ticker = BasicTicker(desired_num_ticks=5)
    plot.state.xgrid[0].visible = True
    plot.state.ygrid[0].visible = False
    plot.state.yaxis[0].major_tick_line_color = None


def _bars(figure: Bars) -> Any:
    import holoviews as hv

    names = _distinct([plain_label(c) for c in figure.categories])
    rows = [(names[i], s.name, s.values[i] or 0.0) for s in figure.series for i in range(len(names))]
    bars = hv.Bars(rows, kdims=["category", "part"], vdims=["value"])
    return bars.opts(
        hv.opts.Bars(
            stacked=True,
            invert_axes=True,
            invert_yaxis=True,
            color="part",
            cmap={s.name: s.color for s in figure.series},
            line_width=0,
            bar_width=0.78,
            responsive=True,
            height=figure.height,
            xlabel="",
            ylabel=f"{figure.value_label} [{figure.unit}]",
            show_legend=False,
            tools=["hover"],
            default_tools=[],
            hover_tooltips=[(figure.category_label, "@category"), ("part", "@part"), ("value", f"@value{{0.000}} {figure.unit}")],
            toolbar=None,
            hooks=[_finish_bars],
            backend="bokeh",
        )
    )


def _distinct(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return out


def _finish_line(plot: Any, element: Any) -> None:
    from bokeh.models import BasicTicker

    finish(plot, element)
    plot.state.xaxis[0].ticker = BasicTicker(min_interval=1, desired_num_ticks=8)


def _line(figure: Line) -> Any:
    import holoviews as hv
    import numpy as np

    y = np.array([np.nan if v is None else v for v in figure.y], dtype="float64")
    curve = hv.Curve((np.array(figure.x), y), "x", "y")
    dots = hv.Scatter((np.array(figure.x), y), "x", "y")
    top = float(np.nanmax(y)) * 1.08 or 1.0
    width = max(figure.x) - min(figure.x) or 1
    xlim = (min(figure.x) - 0.02 * width, max(figure.x) + 0.02 * width)
    common = {"xlim": xlim, "responsive": True, "height": figure.height, "hooks": [_finish_line], "backend": "bokeh", "ylim": (0, top), "show_grid": True}
    y_label = f"{figure.y_label} [{figure.unit}]"
    curve = curve.opts(hv.opts.Curve(color=COLORS[0], line_width=1.5, xlabel=figure.x_label, ylabel=y_label, default_tools=["xbox_zoom", "reset"], **common))
    dots = dots.opts(
        hv.opts.Scatter(
            color=COLORS[0],
            size=5 if len(figure.x) <= 200 else 2,
            tools=["hover"],
            hover_mode="vline",
            default_tools=["xbox_zoom", "reset"],
            hover_tooltips=[(figure.x_label, "@x"), (figure.y_label, f"@y{{0.000}} {figure.unit}")],
            **common,
        )
    )
    return (curve * dots).opts(hv.opts.Overlay(**common))


@dataclass(frozen=True)
class _Grid:
    """Values in rows (y) and columns (x); each stands for `x_bin` × `y_bin` cells of the figure."""

    values: npt.NDArray[np.float32]
    x_first: int
    y_first: int
    x_bin: int
    y_bin: int


def _grid(figure: Heatmap) -> _Grid:
    import numpy as np

    x, y = np.array(figure.x, dtype="int64"), np.array(figure.y, dtype="int64")
    values = np.array([np.nan if v is None else v for v in figure.values], dtype="float32")
    x_first, y_first = int(x.min()), int(y.min())
    x_bin, y_bin = figure.bins
    cells = np.full(((int(y.max()) - y_first) // y_bin + 1, (int(x.max()) - x_first) // x_bin + 1), np.nan, dtype="float32")
    extreme = np.fmin if figure.keep_low else np.fmax
    extreme.at(cells, ((y - y_first) // y_bin, (x - x_first) // x_bin), values)
    return _Grid(cells, x_first, y_first, x_bin, y_bin)


def _heatmap(figure: Heatmap) -> Any:
    import holoviews as hv
    import numpy as np
    from bokeh.models import BasicTicker
    from bokeh.palettes import Cividis256

    grid = _grid(figure)
    low, high = figure.span
    exact = grid.values.size <= _EXACT_CELLS
    # Level 0 is a cell without a value.
    image = grid.values if exact else np.nan_to_num(1 + np.clip((grid.values - low) / (high - low), 0, 1) * 254, nan=0.0).astype("uint8")
    rows, cols = image.shape
    bounds = (
        grid.x_first - 0.5,
        grid.y_first - 0.5,
        grid.x_first - 0.5 + cols * grid.x_bin,
        grid.y_first - 0.5 + rows * grid.y_bin,
    )

    def finish_grid(plot: Any, element: Any) -> None:
        finish(plot, element)
        mapper = plot.handles["glyph"].color_mapper
        mapper.low, mapper.high = (low, high) if exact else (1, 255)
        mapper.nan_color = mapper.low_color = "rgba(0, 0, 0, 0)"
        for axis in (plot.state.xaxis[0], plot.state.yaxis[0]):
            axis.ticker = BasicTicker(min_interval=1, desired_num_ticks=8)
        plot.state.yaxis[0].major_label_overrides = {r: rank_label(r) for r in range(max(grid.y_first, -1_000), 0)}

    value = f"@image{{0.000}} {figure.unit}" if exact else f"level @image{{0}}; 1 is {low:.3g} {figure.unit}, 255 is {high:.3g} {figure.unit}"
    # hv.Image puts the first row on top.
    picture = hv.Image(np.flipud(image), bounds=bounds, kdims=["x", "y"], vdims=["value"])
    return picture.opts(
        hv.opts.Image(
            cmap=list(Cividis256),
            invert_yaxis=True,
            responsive=True,
            height=figure.height,
            xlabel=figure.x_label,
            ylabel=figure.y_label,
            tools=["hover"],
            default_tools=["box_zoom", "reset"],
            hover_tooltips=[(figure.x_label, "$x{0}"), (figure.y_label, "$y{0}"), (figure.value_label, value)],
            hooks=[finish_grid],
            backend="bokeh",
        )
    )
