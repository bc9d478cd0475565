"""The picture of who sends how much to whom."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tracelab_reports.figures import Matrix
from tracelab_reports.plots.common import finish, plain_label

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["matrix"]

_OWN_CELLS = 4_096
"""Up to this many cells each is a mark of its own, which the pointer can ask; above, they are one image."""
_EXACT_PIXELS = 262_144
"""Up to this many pixels an image holds values; above, steps of 1/254 of the colour scale (a quarter of the size)."""
_MOST_TICKS = 32
_MOST_BORDERS = 64
_LONGEST_NAME = 16


def matrix(figure: Matrix) -> Any:
    """A HoloViews overlay: cells, borders between blocks, names on both axes."""
    import holoviews as hv

    side = len(figure.names)
    cells = _marks(figure) if len(figure.cells) <= _OWN_CELLS else _image(figure)
    starts = [first for first, _ in figure.blocks if first > 0]
    borders = [line(x - 0.5) for x in starts for line in (hv.VLine, hv.HLine)] if len(starts) <= _MOST_BORDERS else []
    overlay = hv.Overlay([cells, *borders])
    ticks = _ticks(figure)
    line = {"color": "#808080", "line_width": 0.8, "alpha": 0.7, "backend": "bokeh"}
    return overlay.opts(
        hv.opts.VLine(**line),
        hv.opts.HLine(**line),
        hv.opts.Overlay(
            responsive=True,
            height=figure.height,
            xlim=(-0.5, side - 0.5),
            ylim=(-0.5, side - 0.5),
            invert_yaxis=True,
            xlabel=figure.x_label,
            ylabel=figure.y_label,
            xticks=ticks,
            yticks=ticks,
            xrotation=90 if any(len(name) > 3 for _, name in ticks) else 0,
            hooks=[_finish],
            backend="bokeh",
        ),
    )


def _finish(plot: Any, element: Any) -> None:
    finish(plot, element)
    plot.state.xgrid[0].visible = plot.state.ygrid[0].visible = False


def _ticks(figure: Matrix) -> list[tuple[float, str]]:
    """The names of all places where they fit; else those of the blocks, at their middle; else of some."""
    side = len(figure.names)
    if side <= _MOST_TICKS:
        return [(float(i), plain_label(name)) for i, name in enumerate(figure.names)]
    ends = [*(first for first, _ in figure.blocks), side]
    middles = [((a + b - 1) / 2, name) for (a, b), (_, name) in zip(pairwise(ends), figure.blocks, strict=True)]
    if 1 < len(middles) <= 2 * _MOST_TICKS:
        step = -(-len(middles) // _MOST_TICKS)
        return [(at, plain_label(_short(name))) for at, name in middles[::step]]
    return [(float(i), plain_label(figure.names[i])) for i in range(0, side, -(-side // _MOST_TICKS))]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]


def _colors(figure: Matrix) -> dict[str, Any]:
    from bokeh.palettes import Cividis256, PuOr11

    low, high = figure.span
    return {
        "cmap": list(PuOr11) if figure.signed else list(Cividis256),
        "clim": (low, high),
        "logz": not figure.signed,
        "default_tools": ["box_zoom", "reset"],
        "backend": "bokeh",
    }


def _marks(figure: Matrix) -> Any:
    import holoviews as hv

    half = figure.together / 2
    rows = []
    for c in figure.cells:
        x, y = c.dst - 0.5 + half, c.src - 0.5 + half
        names = plain_label(figure.names[c.src]), plain_label(figure.names[c.dst])
        rows.append((x - half, y - half, x + half, y + half, c.value, *names, plain_label(c.text)))
    marks = hv.Rectangles(rows, kdims=["x0", "y0", "x1", "y1"], vdims=["value", "src", "dst", "text"])
    tips = [(figure.y_label, "@src"), (figure.x_label, "@dst"), (figure.value_label, f"@value{{0,0.000}} {figure.unit}"), ("", "@text")]
    return marks.opts(hv.opts.Rectangles(color="value", line_width=0, tools=["hover"], hover_tooltips=tips, **_colors(figure)))


def _grid(figure: Matrix) -> npt.NDArray[np.float32]:
    import numpy as np

    side = -(-len(figure.names) // figure.together)
    grid = np.full((side, side), np.nan, dtype="float32")
    at = np.array([(c.src // figure.together, c.dst // figure.together) for c in figure.cells])
    grid[at[:, 0], at[:, 1]] = [c.value for c in figure.cells]
    return grid


def _image(figure: Matrix) -> Any:
    import holoviews as hv
    import numpy as np

    grid = _grid(figure)
    reach = grid.shape[0] * figure.together - 0.5
    colors = _colors(figure)
    tip = f"@image{{0,0.000}} {figure.unit}"
    if grid.size > _EXACT_PIXELS:
        low, high = figure.span
        share = (grid - low) / (high - low) if figure.signed else np.log(grid / low) / np.log(high / low)
        # Level 0 is a cell without a value.
        grid = np.nan_to_num(1 + np.clip(share, 0, 1) * 254, nan=0.0).astype("uint8")
        scale = "even steps" if figure.signed else "even steps of its logarithm"
        tip = f"level @image{{0}} of 255: {scale} from {low:.3g} to {high:.3g} {figure.unit}"
        colors |= {"clim": (1, 255), "logz": False, "clipping_colors": {"min": "rgba(0, 0, 0, 0)"}}
    tips = [(figure.y_label, "$y{0}"), (figure.x_label, "$x{0}"), (figure.value_label, tip)]
    # hv.Image puts the first row on top of an axis that points upwards.
    picture = hv.Image(np.flipud(grid), bounds=(-0.5, -0.5, reach, reach), kdims=["x", "y"], vdims=["value"])
    return picture.opts(hv.opts.Image(tools=["hover"], hover_tooltips=tips, **colors))
