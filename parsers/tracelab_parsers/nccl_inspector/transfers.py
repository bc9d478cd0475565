"""Records of the network proxy (format 4.3, `NCCL_INSPECTOR_ENABLE_PROXY=1`) to rows of `net_transfers`."""

from __future__ import annotations

from typing import Any

from tracelab.plugins import Emitter
from tracelab.tables import NET_TRANSFERS
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.nccl_json.values import mapping, nanoseconds, natural

__all__ = ["WHOLE_TRANSFER", "Transfers"]

WHOLE_TRANSFER = "proxy_op"
"""The record type that sums up a transfer; others are of its parts."""
_DIRECTIONS = {"send": "send", "recv": "receive"}


class Transfers:
    """Gives rows of finished transfers to `emit`."""

    def __init__(self, emit: Emitter, notices: Notices) -> None:
        self._rows = RowBuffer(NET_TRANSFERS, emit)
        self._notices = notices

    def add(self, trace: dict[str, Any], part: int, comm: int | None, line: int, offset: int) -> bool:
        """The row of a transfer; False where the record does not tell its direction."""
        stated = trace.get("direction")
        direction = _DIRECTIONS.get(stated) if isinstance(stated, str) else None
        if direction is None:
            self._notices.add("bad-record", offset)
            return False
        self._notices.add("bytes-incomplete", offset, int(bool(natural(trace.get("n_steps_dropped")))))
        start, length = self._times(mapping(trace.get("event_trace_ts")), offset)
        steps = natural(trace.get("n_steps"))
        self._rows.add(
            part=part,
            line=line,
            source_ts_ns=start,
            dur_ns=length,
            comm=comm,
            channel=natural(trace.get("channel_id"), 32),
            peer=natural(trace.get("peer"), 32),
            direction=direction,
            bytes=natural(trace.get("trans_size_bytes")),
            steps=steps if steps is not None else natural(trace.get("n_steps_completed")),
            # Numbers of collectives count by function, and the function is not stated.
            operation={"send": "send", "receive": "recv"}[direction] if trace.get("parent_type") == "p2p" else None,
            seq=natural(trace.get("parent_sn")),
        )
        return True

    def _times(self, stamps: dict[str, Any], offset: int) -> tuple[int | None, int | None]:
        """When the proxy began to move data (else when it was told to), and for how long it did; None for moments that are 0."""
        begun, told, end = (_moment(stamps.get(f"proxy_op_{what}_ts")) for what in ("in_progress", "start", "stop"))
        start = begun if begun is not None else told
        if start is None or end is None:
            return start, None
        if end < start:
            self._notices.add("bad-time", offset)
            return start, None
        return start, end - start

    def flush(self) -> None:
        """Emits what is held."""
        self._rows.flush()


def _moment(value: object) -> int | None:
    ns = nanoseconds(value)
    return ns if ns is not None and ns > 0 else None
