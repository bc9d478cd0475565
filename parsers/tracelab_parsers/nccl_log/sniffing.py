"""Whether a file is a log in which NCCL may speak, from its name and first bytes."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Match

__all__ = ["sniff_log"]

_MESSAGE = re.compile(rb":\d{1,10}:\d{1,10} (?:\[-?\d{1,4}\] )?(?:\S+ ){0,3}NCCL (?:INFO|WARN|TRACE|CALL|VERSION|ABORT)\b")
_VERSION = re.compile(rb"(?:^|[\s:>])[NR]CCL version ?:? ?\d+\.\d+\.\d+[+-]", re.MULTILINE)
_WATCHDOG = re.compile(rb"ProcessGroupNCCL\.[ch]pp:\d+\]|Watchdog caught collective operation timeout|WorkNCCL\(SeqNum=")
_TESTS = re.compile(rb"#[ \t]+size[ \t]+count[ \t]+type[ \t]+|# Collective test starting:|#\s+Rank\s+\d+ (?:Group\s+\d+ )?Pid\s+\d+ on ")
_CERTAIN = ((_MESSAGE, "messages of NCCL"), (_WATCHDOG, "messages of torch's watchdog of process groups"), (_TESTS, "the header of an nccl-tests table"))

_LOG_NAME = re.compile(r"(?:\.(?:log|out|err|txt)(?:\.\d+)?|(?:^|[._-])std(?:out|err)(?:[._-].*)?|^[^.]*)(?:\.gz)?$", re.IGNORECASE)
_OTHERS = re.compile(
    rb"NIC statistics|^# ?Port (?:counters|extended counters)|^#\s*Topology file:|^vendid=|^switchguids=|^(?:Switch|Ca)\t\d|^# (?:HELP|TYPE) |^---\s|^#!|"
    rb"^diff --git|^LLDP neighbors|^Interface:\s+\S+, via: LLDP|^PortXmitData|^CounterSelect|^\S+ port \d+ ==> \S+|rdma (?:statistic|link)|^link \w+/\d+ |"
    rb"^[ |+]*-{3,}(?:[ |+]+-{3,})+|^Job summary\s*$|^Communicators\.\.\.|^NCCL version \S+ compiled with CUDA|"
    rb"^lldp\.[\w/.-]+\.\w|^CA '|^[ \t]*GPU0[ \t]+GPU1|"
    rb"^[\w./-]+,[\w./-]+=\S* [\w./-]+=|^\[\d+\] \(\S+ *\) ->|^(?:DR path|From) |port lid \d|^\S+ statistics:\s*$|"
    rb"^(?:CA|SW)\s+\d+\s+\d+ 0x[0-9a-f]+ |^\w+,\w+=(?:[^ \n\\]|\\.)* \w+=|^[A-Z][\w /-]+\.{5,} \d",
    re.MULTILINE,
)
_DOCUMENT = re.compile(rb"^(?:#{1,6} |```|=== *$|\.\. \w+::)", re.MULTILINE)
_YAML = re.compile(rb"^\s{0,8}[\w.-]+:(?: \S.*)?$")
_TABLE_LINES = 20
_SHORT_BYTES = 256
_SHORT_LINES = 4
_TEXT_BYTES = bytes(range(32, 127)) + b"\t\n\r\x1b\b\x0c\0"


def sniff_log(path: Path, head: bytes) -> Match | None:
    """A match of 0.9 where the content proves it, 0.35 for plain text with the name of a log that looks like nothing else, else None."""
    for pattern, what in _CERTAIN:
        if pattern.search(head):
            return None if _is_json(head) else Match(0.9, what)
    if _VERSION.search(head) and not _is_json(head) and path.suffix.lower() not in {".md", ".rst"}:
        return Match(0.9, "the version line of NCCL")
    if not _LOG_NAME.search(path.name) or not _is_text(head) or _is_other(head) or (not path.suffix and _is_short(head)):
        return None
    return Match(0.35, "plain text with the name of a log; messages may come later")


def _is_json(head: bytes) -> bool:
    return head.lstrip()[:1] == b"{" or re.match(rb"\s*\[\s*[\[{\"]", head) is not None


def _is_text(head: bytes) -> bool:
    """Text, with few bytes that text does not hold, and more than holes."""
    sample = head[:8192].strip(b"\0")
    if not sample.strip():
        return False
    odd = sample.translate(None, _TEXT_BYTES)
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as e:
        if e.end < len(sample) - 4:
            return False
    return len(odd) * 3 <= len(sample) and len([b for b in odd if b < 32]) * 50 <= len(sample)


def _is_short(head: bytes) -> bool:
    """Too little to be the output of a program that runs for long: settings and counters of a system are files of a line or two."""
    return len(head) < _SHORT_BYTES or head.count(b"\n") < _SHORT_LINES


def _is_other(head: bytes) -> bool:
    """Whether another kind of text is recognisable: counters, topologies, tables, documents, settings."""
    if _is_json(head) or head.lstrip()[:1] == b"<" or _OTHERS.search(head) or _DOCUMENT.search(head[:16384]):
        return True
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")[:_TABLE_LINES] if line.strip()]
    if len(lines) < 3:
        return False
    for separator in (b",", b";", b"\t"):
        counts = {line.count(separator) for line in lines[: -1 if len(lines) > 3 else None]}
        if len(counts) == 1 and counts.pop() >= 2:
            return True
    return sum(_YAML.match(line) is not None or line.lstrip().startswith(b"- ") for line in lines) >= len(lines) - 1
