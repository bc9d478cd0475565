"""Lines that scripts put above the output of a tool: when, on which machine, by which command.

`=== 2026-01-05T10:00:00.25Z node7 ethtool -S eth0`, `### 2026-01-05 10:00:00 leaf1 perfquery -x 100`, `# ethtool -S eth0`,
`root@node7:~# ethtool -S eth0`, a line of `date` alone, or the name of a device between marks.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from tracelab_parsers.counters.switch_moments import moment_in

__all__ = ["Heading", "heading_of"]

_TOOLS = r"(?:sudo +)?(?:/\S*/)?(?:ethtool|rdma|ibdev2netdev|perfquery|ibqueryerrors|ip|ibstat|ibnetdiscover|cat|grep|head|date|show)"
_PROMPT = re.compile(rf"(?:\[?[\w.-]+@(?P<node>[\w-]+)[^\s$#>]*(?: [^\]\s]*)?\]?[$#>] ?|\$ ?|\+ )(?P<command>{_TOOLS}\b.*)?")
_MARKED = re.compile(r"(?:[=#*-]{1,8}|==>) ?(?P<body>\S.*?)(?: ?[=#*-]{1,8}| ?<==)?")
_MOMENT = re.compile(
    r"(?P<moment>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
    r"|\d{10}(?:\.\d{1,9})?|\w{3} \w{3} +\d+ [\d:]{8} (?:\w+ )?\d{4})(?: +|$)"
)
_NODE = re.compile(r"(?P<node>[A-Za-z][\w-]*\d[\w.-]*|[A-Za-z][\w.-]+):?(?: +|$)")
_COMMAND = re.compile(rf"{_TOOLS}\b.*")


class Heading(NamedTuple):
    """What a heading states; None where it does not. `quality` is that of the moment."""

    ts_ns: int | None
    quality: Literal["file", "local"] | None
    node: str | None
    command: str | None


def heading_of(line: str) -> Heading | None:
    """The heading that `line` is; None where it is none."""
    line = line.strip()
    if not line or len(line) > 400:
        return None
    moment = moment_in(line)
    if moment is not None:
        return Heading(moment.ns, "file" if moment.zoned else "local", None, None)
    prompt = _PROMPT.fullmatch(line)
    if prompt is not None and (prompt["node"] or prompt["command"]):
        return Heading(None, None, prompt["node"], prompt["command"])
    marked = _MARKED.fullmatch(line)
    if marked is None:
        return None
    body = marked["body"]
    ts_ns: int | None = None
    quality: Literal["file", "local"] | None = None
    if (stamp := _MOMENT.match(body)) is not None and (told := moment_in(stamp["moment"])) is not None:
        ts_ns, quality, body = told.ns, "file" if told.zoned else "local", body[stamp.end() :]
    command = _COMMAND.search(body)
    before = body[: command.start()] if command is not None else body
    node = _NODE.fullmatch(before.strip() + " ") if before.strip() else None
    if ts_ns is None and command is None:
        return None
    return Heading(ts_ns, quality, node["node"] if node is not None else None, command.group() if command is not None else None)
