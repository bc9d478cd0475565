"""Pictures of links, free of any plotting library: how full they were over time, how full each was, and how they are wired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracelab_reports.figures import COLORS, Figure, Key, Switch

__all__ = ["MARKS", "MEAN_LINES", "PEAK_LINE", "Guide", "Levels", "LinkBar", "LoadLine", "Loads", "StepMark", "Wire", "WireBlock", "Wiring"]

MARKS = (("circle", "●"), ("square", "■"), ("triangle", "▲"), ("diamond", "◆"), ("inverted_triangle", "▼"), ("star", "★"))
"""Marks of lines: their name in Bokeh and as text."""
MEAN_LINES, PEAK_LINE = "mean-lines", "peak-line"
"""Names of the guides, by which a page can hide them."""
_BLOCK_GAP = 1.0
_ROW = 22
_NAMES_WIDTH = 620


@dataclass(frozen=True)
class Guide:
    """A band (`low` to `high`) or a line (both equal) to compare with; the reader can move it or hide it by its `name`."""

    name: str
    label: str
    low: float
    high: float


@dataclass(frozen=True)
class StepMark:
    """A step of the job, or several neighbours, on the axis of time."""

    label: str
    start: float
    end: float


@dataclass(frozen=True)
class LoadLine:
    """What one link carried in one direction: intervals (start, end, value), in order."""

    link: str
    way: str
    up: bool
    color: str
    mark: str
    spans: Sequence[tuple[float, float, float]]


@dataclass(frozen=True)
class Loads(Figure):
    """Load over time: a stepped line per link and direction, those of the other links as a band from the lowest to the highest.

    `others` are (start, end, low, high). Solid lines lead up, dashed ones down. `steps` stand above the lines, on the same axis.
    """

    lines: Sequence[LoadLine]
    others: Sequence[tuple[float, float, float, float]]
    others_label: str
    steps: Sequence[StepMark]
    guides: Sequence[Guide]
    x_label: str
    x_unit: str
    y_label: str
    y_unit: str

    @property
    def height(self) -> int:
        """Room for the steps above the lines."""
        return 340

    @property
    def top(self) -> float:
        """The highest value that must be seen; the steps stand above it."""
        values = [v for line in self.lines for *_, v in line.spans]
        values += [high for *_, high in self.others] + [guide.high for guide in self.guides]
        return 1.05 * max(values, default=0.0) or 1.0

    @property
    def keys(self) -> Sequence[Key]:
        """A colour and a mark per link, and the band."""
        signs = dict(MARKS)
        of_link = {line.link: Key(line.link, line.color, signs[line.mark]) for line in self.lines}
        band = [Key(self.others_label, COLORS[4], "▒")] if self.others else []
        return [*of_link.values(), *band, *_DASHES]

    @property
    def switches(self) -> Sequence[Switch]:
        """One per guide."""
        return [Switch(guide.name, guide.label) for guide in self.guides]


_DASHES = (Key("up: the host, or lower switch, sends", "", "──"), Key("down: it receives", "", "╌╌"))


@dataclass(frozen=True)
class LinkBar:
    """How full one link was in one direction; p95 and peak are None where they are not known."""

    link: str
    up: bool
    mean: float
    p95: float | None
    peak: float | None


@dataclass(frozen=True)
class Levels(Figure):
    """A bar for the mean, a tick for the 95th percentile and a diamond for the peak, per link and direction; the first on top."""

    bars: Sequence[LinkBar]
    guides: Sequence[Guide]
    value_label: str
    unit: str

    @property
    def links(self) -> list[str]:
        """Their names in order."""
        return list(dict.fromkeys(bar.link for bar in self.bars))

    @property
    def height(self) -> int:
        """Room for two bars per link and the axis."""
        return 70 + max(40, 30 * len(self.links))

    @property
    def least_width(self) -> int:
        """Room for names beside the picture."""
        return _NAMES_WIDTH

    @property
    def keys(self) -> Sequence[Key]:
        """Directions, and the marks that there are."""
        marks = [Key("95 % of the intervals are below", "", "┃")] if any(bar.p95 is not None for bar in self.bars) else []
        marks += [Key("fullest interval", "", "◆")] if any(bar.peak is not None for bar in self.bars) else []
        ways = [Key("up: the host, or lower switch, sends (upper bar)", COLORS[0], "■"), Key("down: it receives (lower bar)", COLORS[1], "■")]
        return [*ways, *marks]

    @property
    def switches(self) -> Sequence[Switch]:
        """One per guide."""
        return [Switch(guide.name, guide.label) for guide in self.guides]


@dataclass(frozen=True)
class Wire:
    """A link of a switch: `far` is what it leads to, `port` that of the switch; `verdict` is what a finding calls it, `signs` what stands out."""

    far: str
    port: str
    verdict: str = ""
    signs: str = ""
    used: bool = True

    @property
    def text(self) -> str:
        """What it leads to, with its mark."""
        return f"▲ {self.far} – {self.verdict}" if self.verdict else f"△ {self.far} – {self.signs}" if self.signs else self.far


@dataclass(frozen=True)
class WireBlock:
    """A switch: what hangs below it, what it hangs on, and how many of either are not shown."""

    switch: str
    below: Sequence[Wire]
    above: Sequence[Wire]
    below_left_out: int = 0
    above_left_out: int = 0

    @property
    def rows(self) -> int:
        """Rows, with that of the name and those that count what is not shown."""
        return 1 + max(len(self.below) + (self.below_left_out > 0), len(self.above) + (self.above_left_out > 0))


@dataclass(frozen=True)
class Wiring(Figure):
    """Switches as boxes one below the other, with the links to hosts on their left and those to other switches on their right."""

    blocks: Sequence[WireBlock]

    @property
    def tops(self) -> list[float]:
        """Row at which each box begins."""
        out, at = [], 0.0
        for block in self.blocks:
            out.append(at)
            at += block.rows + _BLOCK_GAP
        return out

    @property
    def size(self) -> float:
        """Rows together."""
        return sum(block.rows + _BLOCK_GAP for block in self.blocks) - _BLOCK_GAP

    @property
    def height(self) -> int:
        """Room for each row."""
        return 40 + int(_ROW * max(self.size, 2.0))

    @property
    def least_width(self) -> int:
        """Room for names beside the picture."""
        return _NAMES_WIDTH

    @property
    def keys(self) -> Sequence[Key]:
        """The kinds of lines that there are."""
        wires = [w for block in self.blocks for w in (*block.below, *block.above)]
        found = [Key("named in a finding", COLORS[3], "▲━")] if any(w.verdict for w in wires) else []
        found += [Key("counters stand out", COLORS[1], "△╍")] if any(w.signs and not w.verdict for w in wires) else []
        found += [Key("not known to be used by the job", COLORS[7], "┈")] if any(not w.used for w in wires) else []
        return [*found, Key("other links", COLORS[7], "─")] if found else []
