"""Lines of the text that exporters print: Prometheus' exposition format, and OpenMetrics.

Formats: Prometheus documentation, exposition formats; OpenMetrics 1.0. Read line by line, since one damaged line is to cost
that line alone, and a file of many scrapes is larger than memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Sample", "describes", "labels_of", "sample_of"]

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_SAMPLE = re.compile(
    rf"(?P<name>{_NAME})?[ \t]*+(?:\{{(?P<labels>(?:[^\"{{}}]|{_QUOTED})*+)\}}[ \t]*+)?(?<=[\s}}])(?P<value>[^\s{{}}\"]+)"
    r"(?:[ \t]++(?P<stamp>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?))?[ \t]*+(?:#[ \t]*\{.*)?"
)
_LABEL = re.compile(rf"[ \t]*(?:(?P<name>[a-zA-Z_][a-zA-Z0-9_]*|{_QUOTED})[ \t]*=[ \t]*(?P<value>{_QUOTED})|(?P<metric>{_QUOTED}))[ \t]*(?:,|$)")
_DESCRIBES = re.compile(rf"#[ \t]*(?P<what>HELP|TYPE|UNIT)[ \t]+(?P<name>{_NAME}|{_QUOTED})(?:[ \t]+(?P<text>.*))?")
_ESCAPED = re.compile(r'\\([\\n"])')


class Sample(NamedTuple):
    """One line: the name, the labels as printed, the number and the moment as printed."""

    name: str
    labels: str
    value: str
    stamp: str | None


def sample_of(line: str) -> Sample | None:
    """The sample that a line is; None where it is none."""
    m = _SAMPLE.fullmatch(line)
    if m is None or (m["name"] is None and not m["labels"]):
        return None
    return Sample(m["name"] or "", m["labels"] or "", m["value"], m["stamp"])


def labels_of(text: str) -> Mapping[str, str] | None:
    """The labels between the braces; None where they are broken. A name that is written among them is `__name__`."""
    out: dict[str, str] = {}
    at = 0
    text = text.rstrip()
    while at < len(text):
        m = _LABEL.match(text, at)
        if m is None:
            return None
        if m["metric"] is not None:
            out["__name__"] = _plain(m["metric"])
        else:
            out[_plain(m["name"])] = _plain(m["value"])
        at = m.end()
    return out


def describes(line: str) -> tuple[str, str, str] | None:
    """What a line of HELP, TYPE or UNIT says: which of them, of what metric, and its text."""
    m = _DESCRIBES.fullmatch(line)
    return (m["what"], _plain(m["name"]), m["text"] or "") if m is not None else None


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], text[1:-1]) if text.startswith('"') else text
