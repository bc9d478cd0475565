"""What all pictures share."""

from __future__ import annotations

import re
from typing import Any

from tracelab_reports.words import clean

__all__ = ["finish", "finish_axis", "plain_label"]

_FONT = "system-ui, sans-serif"


def plain_label(text: str) -> str:
    """`text` as a label that Bokeh does not take for TeX (it would ask the network for MathJax)."""
    return re.sub(r"(\$|\\)(?=[$(\[])", "\\1\u2060", clean(text))


def finish(plot: Any, _element: Any) -> None:
    """What every picture has in common; the rest is the style sheet's."""
    figure = plot.state
    figure.toolbar.logo = None
    figure.toolbar.autohide = True
    # Whoever drags a finger or the wheel over a picture means to scroll the page.
    figure.toolbar.active_drag = figure.toolbar.active_scroll = None
    figure.background_fill_color = figure.border_fill_color = None
    figure.outline_line_color = None
    figure.min_border_right = 16
    for axis in (*figure.xaxis, *figure.yaxis):
        finish_axis(axis)


def finish_axis(axis: Any) -> None:
    """The look of an axis."""
    axis.major_tick_in = 0
    axis.axis_label_text_font_style = "normal"
    axis.axis_label_text_font = axis.major_label_text_font = _FONT
    axis.minor_tick_line_color = None
