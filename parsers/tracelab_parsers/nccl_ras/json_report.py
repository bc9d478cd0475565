"""Reads reports as JSON, communicator by communicator, and events of the monitor.

The text stands in documents of one report or event each, one after the other, on one line or on many, with other text
between them. A communicator is decoded as soon as it ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.values import identifier, natural, text
from tracelab_parsers.nccl_log.ops import RESULTS
from tracelab_parsers.nccl_ras.rows import DEAD, Rows, Subject, level_of_event, local_ns, operation_called

__all__ = ["JsonReports", "Pieces"]

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]')
_OPENS = re.compile(r'\s*\{\s*(?:$|")')
_VERSION = re.compile(r'"nccl_version"\s*:\s*"([^"]{1,64})"')
_NO_COMMA = re.compile(r'(?<=[\d"\]}el])(?=\s*\n\s*"[^"\n]*"\s*:)')
_RECORD_CHARS = 64 << 20
_DEPTH = 32
_ELEMENT = ["{", "["]
_SUCCESS, _IN_PROGRESS = 0, 7
_MOST_RANKS = 1_000_000
_MOST_OPERATIONS = 64
_SHOWN_RANKS = 16


class Piece(NamedTuple):
    """A piece of JSON: an object inside of a list of a document, or the document without these. `line` is where it begins."""

    line: int
    element: bool
    text: str


class Pieces:
    """Takes lines and gives out pieces as they end."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._depth: list[str] = []
        self._outer: list[str] = []
        self._inner: list[str] = []
        self._line = self._inner_line = self._size = self._outer_size = self._indent = 0
        self._inside = False

    @property
    def open(self) -> bool:
        """Whether a document has begun and not ended."""
        return bool(self._depth)

    def begins(self, line: str) -> bool:
        """Whether a document begins with this line, which is inside none, or inside one that was cut short."""
        if not _OPENS.match(line):
            return False
        return not self.open or (line.strip() == "{" and len(line) - len(line.lstrip()) <= self._indent)

    def drop(self) -> str:
        """Gives up the open document; what is there of it beside whole elements."""
        rest = "".join(self._outer)
        self._depth, self._outer, self._inner = [], [], []
        self._size, self._outer_size, self._inside = 0, 0, False
        return rest

    def take(self, number: int, line: str) -> Iterator[Piece]:
        """The pieces that end in this line."""
        at = 0
        for m in _TOKEN.finditer(line):
            mark = m.group()
            if mark in ("{", "["):
                if not self._depth:
                    at, self._line, self._indent = m.start(), number, len(line) - len(line.lstrip())
                elif mark == "{" and self._depth == _ELEMENT:
                    self._outer.append(line[at : m.start()])
                    at, self._inner_line, self._inside = m.start(), number, True
                self._depth.append(mark)
                if len(self._depth) > _DEPTH:
                    self._notices.add("bad-record")
                    self.drop()
                    return
            elif mark in ("}", "]") and self._depth:
                self._depth.pop()
                if self._inside and self._depth == _ELEMENT:
                    yield from self._element(line[at : m.end()])
                    at = m.end()
                elif not self._depth:
                    yield Piece(self._line, element=False, text="".join([*self._outer, line[at : m.end()]]))
                    self.drop()
                    at = m.end()
        if self._depth:
            self._keep(line[at:] + "\n")

    def _element(self, end: str) -> Iterator[Piece]:
        whole = "".join([*self._inner, end])
        if self._size > _RECORD_CHARS:
            self._notices.add("oversized-record")
        else:
            yield Piece(self._inner_line, element=True, text=whole)
        self._outer.append("null")
        self._outer_size += 4
        self._inner, self._size, self._inside = [], 0, False

    def _keep(self, text: str) -> None:
        if not self._inside:
            self._outer.append(text)
            self._outer_size += len(text)
            if self._outer_size > _RECORD_CHARS:
                self._notices.add("oversized-record")
                self.drop()
            return
        self._size += len(text)
        # What is too large is dropped as it comes; its brackets are followed all the same.
        if self._size <= _RECORD_CHARS:
            self._inner.append(text)
        else:
            self._inner.clear()


class JsonReports:
    """Takes pieces. `reports` counts communicators and events."""

    def __init__(self, rows: Rows, notices: Notices) -> None:
        self._rows = rows
        self._notices = notices
        self.version: str | None = None
        self.reports = 0

    def take(self, piece: Piece) -> None:
        """Takes a piece; what is no part of a report is counted."""
        value = self._decoded(piece.text)
        if isinstance(value, dict):
            if piece.element and isinstance(value.get("ranks"), list):
                self._communicator(piece.line, value)
                return
            if not piece.element and ("communicators" in value or "nccl_version" in value):
                self._status(piece.line, value)
                return
            if not piece.element and isinstance(value.get("event"), str):
                self._event(piece.line, value)
                return
        self._notices.add("bad-record")

    def cut(self, line: int, rest: str) -> None:
        """Takes what is left of a document that does not end."""
        m = _VERSION.search(rest)
        if m is not None:
            self._state_version(line, m[1])

    def _decoded(self, raw: str) -> Any:
        for attempt in (raw, _NO_COMMA.sub(",", raw)):
            try:
                value = msgspec.json.decode(attempt)
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                continue
            self._notices.add("missing-comma", count=int(attempt is not raw))
            return value
        return None

    def _state_version(self, line: int, version: str) -> None:
        self.version = version
        self._rows.setting(line, "version", version)

    def _status(self, line: int, top: Mapping[str, Any]) -> None:
        self.reports += 1
        version, driver = text(top.get("nccl_version")), natural(top.get("cuda_driver_version"))
        if version is not None:
            self._state_version(line, version)
        if driver is not None:
            self._rows.setting(line, "cuda_driver", str(driver))
        ras = top.get("ras")
        timeouts = natural(ras.get("timeouts_count")) if isinstance(ras, dict) else None
        if timeouts:
            stamp = local_ns(text(top.get("timestamp")))
            self._rows.event(
                line, "WARN", f"TIMEOUT\nEncountered {timeouts} communication timeout{'s' if timeouts > 1 else ''} while gathering communicator data", stamp
            )

    def _event(self, line: int, top: Mapping[str, Any]) -> None:
        self.reports += 1
        name = (text(top.get("event")) or "")[:64]
        peer = top.get("peer")
        peer = peer if isinstance(peer, dict) else {}
        host, pid = text(peer.get("host")), natural(peer.get("pid"))
        devices = _devices(peer.get("nvml_devs")) or _devices(peer.get("cuda_devs"))
        where = f" process {pid} on node {host} managing GPU {','.join(map(str, devices))}" if host is not None else f" {text(peer.get('addr')) or ''}"
        words = f"{name}:{where} {text(top.get('details')) or ''}".strip()
        self._rows.event(line, level_of_event(name), words, local_ns(text(top.get("timestamp"))))
        if name in DEAD and host is not None:
            subjects: list[int | None] = [*devices] or [None]
            for device in subjects:
                self._rows.state(line, Subject(None, host, pid, device), "missing", words)

    def _communicator(self, line: int, comm: Mapping[str, Any]) -> None:
        self.reports += 1
        comm_id = identifier(comm.get("hash"))
        self._notices.add("bad-number", count=int(comm_id is None))
        shared = {"comm_id": comm_id, "size": natural(comm.get("size"), 32)}
        known = [r for r in map(_Rank.of, self._listed(comm.get("ranks"))) if r is not None]
        missing = [r for r in map(_Rank.of, self._listed(comm.get("missing_ranks"))) if r is not None]
        self._notices.add("bad-number", count=len(self._listed(comm.get("ranks"))) + len(self._listed(comm.get("missing_ranks"))) - len(known) - len(missing))
        counted = list(dict.fromkeys(name for r in known for name, n in r.counts.items() if n))[:_MOST_OPERATIONS]
        differ = {name for name in counted if len({r.counts.get(name, 0) for r in known}) > 1}
        for r in known:
            for name in counted:
                status = r.trouble or ("mismatch" if name in differ else "ok")
                n = r.counts.get(name, 0)
                self._rows.state(line, r.subject, status, f"{name}: {n}", operation=operation_called(name), last_enqueued=n, **shared)
            if not counted:
                self._rows.state(line, r.subject, r.trouble or "ok", r.words or "no operation launched", last_enqueued=0, **shared)
        for r in missing:
            self._rows.state(line, r.subject, "missing" if r.unreachable else "mismatch", r.words, **shared)
        self._tell(line, comm_id or "?", known, missing, differ)

    def _tell(self, line: int, comm_id: str, known: list[_Rank], missing: list[_Rank], differ: set[str]) -> None:
        """Messages as a report in text has them."""
        away = [r for r in missing if r.unreachable]
        absent = [r for r in missing if not r.unreachable]
        failed = [r for r in known if r.trouble == "error"]
        for level, kind, what, ranks in (
            ("ERROR", "INCOMPLETE", "no data from", away),
            ("ERROR", "ERROR", "errors reported by", failed),
            ("WARN", "MISMATCH", "no such communicator on", absent),
        ):
            if ranks:
                self._rows.event(line, level, f"({comm_id}) {kind}: {what} {_shown(ranks)}")
        if differ:
            self._rows.event(line, "WARN", f"({comm_id}) MISMATCH: ranks have launched different numbers of {', '.join(sorted(differ))}")

    def _listed(self, value: object) -> list[Any]:
        if not isinstance(value, list):
            return []
        self._notices.add("too-many-ranks", count=int(len(value) > _MOST_RANKS))
        return value[:_MOST_RANKS]


class _Rank(NamedTuple):
    """One rank. `trouble` is its status where that is not for its counts to say, `words` say why."""

    subject: Subject
    counts: dict[str, int]
    trouble: str | None
    words: str
    unreachable: bool

    @classmethod
    def of(cls, value: object) -> _Rank | None:
        if not isinstance(value, dict):
            return None
        rank = natural(value.get("rank"), 32)
        if rank is None:
            return None
        device = natural(value.get("nvml_dev"), 32)
        device = natural(value.get("cuda_dev"), 32) if device is None else device
        status = value.get("status")
        # In some versions the state of a missing rank stands beside its number.
        status = status if isinstance(status, dict) else value
        counts = value.get("collective_counts")
        named = {str(k)[:64]: n for k, v in counts.items() if (n := natural(v)) is not None} if isinstance(counts, dict) else {}
        trouble, words = _trouble(status)
        dead, away = status.get("considered_dead") is True, status.get("unresponsive") is True
        if dead or away:
            words = "considered dead" if dead else "unresponsive"
        elif not words and "collective_counts" not in value:
            words = "is not in the communicator"
        return cls(Subject(rank, text(value.get("host")), natural(value.get("pid")), device), named, trouble, words, dead or away)


def _trouble(status: Mapping[str, Any]) -> tuple[str | None, str]:
    for name in ("init_state", "async_error"):
        code = natural(status.get(name))
        if code is not None and code not in (_SUCCESS, _IN_PROGRESS):
            return "error", f"{name} {code}: {RESULTS[code] if code < len(RESULTS) else 'unknown'}"
    if status.get("abort_flag") is True:
        return "aborted", "aborted"
    if status.get("finalize_called") is True or status.get("destroy_flag") is True:
        return "finalized", "finalized"
    return ("running", "is initialising") if natural(status.get("init_state")) == _IN_PROGRESS else (None, "")


def _devices(value: object) -> list[int]:
    return [n for v in value[:64] if (n := natural(v, 32)) is not None] if isinstance(value, list) else []


def _shown(ranks: list[_Rank]) -> str:
    shown = ", ".join(f"{r.subject.rank} ({r.words})" if r.words else str(r.subject.rank) for r in ranks[:_SHOWN_RANKS])
    more = f" and {len(ranks) - _SHOWN_RANKS} more" if len(ranks) > _SHOWN_RANKS else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
