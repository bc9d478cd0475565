"""Whether a file holds RAS reports, from its first bytes. A log of NCCL that holds one in passing is a log."""

from __future__ import annotations

import re

from tracelab.plugins import Match

__all__ = ["sniff_report"]

_TEXT = re.compile(
    rb"^[ \t]*(?:Job summary[ \t\r]*\n[ \t]*=====|Communicators\.\.\.[^\n]{0,80}\n[ \t]*=====|Group +Comms +Nodes +Ranks"
    rb"|#\d+-\d+ \([0-9a-f]{1,16}\) (?:INCOMPLETE|ERROR|MISMATCH)|RAS Monitor Mode"
    rb"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] (?:PEER_[A-Z]+|KEEPALIVE_TIMEOUT|TIMEOUT_DEAD|SEND_STUCK): )",
    re.MULTILINE,
)
_HEADER = re.compile(rb"^[ \t]*[NR]CCL version \S+ compiled with (?:CUDA|ROCm|HIP)", re.MULTILINE)
_STATUS = (re.compile(rb'"nccl_version"\s*:'), re.compile(rb'"(?:communicators_count|secondary_hash|missing_ranks_count)"\s*:'))
_EVENT = (re.compile(rb'"group"\s*:\s*"(?:LIFECYCLE|TRACE)"'), re.compile(rb'"event"\s*:\s*"[A-Z_]+"'))
_LOG_LINE = re.compile(rb":\d+:\d+ \[\d*\] [^\n]{0,200}?NCCL (?:INFO|WARN|TRACE|CALL) ")


def sniff_report(head: bytes) -> Match | None:
    """A match of 0.95 where a report is what the file is about, of 0.3 where it is in a log, None elsewhere."""
    marks = len(_TEXT.findall(head)) + sum(all(p.search(head) for p in pair) for pair in (_STATUS, _EVENT))
    if not marks and not (_HEADER.match(head) and len(head) < 4096):
        return None
    if len(_LOG_LINE.findall(head)) > marks:
        return Match(0.3, "a report of NCCL's RAS subsystem inside a log")
    return Match(0.95, "a report of NCCL's RAS subsystem")
