"""Rows of `counter_samples`, gathered into batches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from tracelab.plugins import Notice
from tracelab.tables import COUNTER_SAMPLES
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.notices import no_number
from tracelab_parsers.counters.values import MAX_RAW

if TYPE_CHECKING:
    from tracelab.plugins import Emitter

__all__ = ["Samples", "Subject", "TimeQuality"]

TimeQuality = Literal["device", "collector", "file", "local"]
DeviceKind = Literal["rdma", "netdev", "switch-port", "gpu", "switch", "other"]
_BATCH = 50_000
_LONGEST_TEXT = 512


class Subject:
    """Who is counted: fixed for many rows. See the columns of `counter_samples`."""

    __slots__ = ("device", "kind", "node", "node_kind", "port", "uid")

    def __init__(
        self,
        kind: DeviceKind,
        device: str | None = None,
        *,
        node: str | None = None,
        node_kind: Literal["host", "switch"] | None = None,
        port: int | None = None,
        uid: str | None = None,
    ) -> None:
        self.kind, self.device, self.node, self.node_kind, self.port, self.uid = kind, device, node, node_kind, port, uid


class Samples:
    """Collects numbers and emits them in batches; `close` emits the rest. Counts what no row can hold."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        self._columns: dict[str, list[object]] = {c.name: [] for c in COUNTER_SAMPLES.emitted}
        self.count = 0

    def add(
        self,
        line: int,
        subject: Subject,
        raw_name: str,
        meaning: Meaning,
        number: float | None,
        *,
        ts_ns: int | None = None,
        quality: TimeQuality | None = None,
        interval_ns: int | None = None,
        priority: int | None = None,
        queue: str | None = None,
        flags: str | None = None,
    ) -> None:
        """One number, as printed; None where the source says that it has none. `priority` and `queue` replace those of the meaning."""
        whole = isinstance(number, int)
        if whole and meaning.stated_kind == "gauge" and -MAX_RAW <= number < 0:  # type: ignore[operator]
            whole = False  # levels below 0 are as good as others
        elif whole and not 0 <= number <= MAX_RAW:  # type: ignore[operator]
            self._emit.notice(
                Notice(
                    "counter-out-of-range",
                    "warning",
                    f"a counter below 0 or above 2**64 - 1: {raw_name[:80]!r}",
                    "its rounded value is kept, no rate uses it",
                    offset=None,
                )
            )
            whole = False
        value = None if number is None else float(number) * meaning.scale
        if value is not None and abs(value) == math.inf:
            self._emit.notice(no_number())
            number, value, whole = None, None, False
        if number is not None and abs(number) > MAX_RAW:
            flags = "+".join(dict.fromkeys((*(flags.split("+") if flags else ()), "rounded")))
        row = self._columns
        row["line"].append(line)
        row["source_ts_ns"].append(ts_ns)
        row["time_quality"].append(quality if ts_ns is not None else None)
        row["interval_ns"].append(interval_ns)
        row["node"].append(_text(subject.node))
        row["node_kind"].append(subject.node_kind)
        row["device"].append(_text(subject.device))
        row["device_kind"].append(subject.kind)
        row["port"].append(subject.port)
        row["uid"].append(_text(subject.uid))
        row["priority"].append(meaning.priority if priority is None else priority)
        row["queue"].append(_text(meaning.queue if queue is None else queue))
        row["direction"].append(meaning.direction)
        row["counter"].append(_text(meaning.counter))
        row["raw_name"].append(_text(raw_name))
        row["raw"].append(number if whole else None)
        row["scale"].append(meaning.scale)
        row["value"].append(value)
        row["unit"].append(meaning.stated_unit)
        row["kind"].append(meaning.stated_kind)
        row["width"].append(meaning.width)
        row["saturates"].append(meaning.saturates)
        row["flags"].append(flags)
        self.count += 1
        if len(row["line"]) >= _BATCH:
            self.close()

    def close(self) -> None:
        """Emits what is gathered."""
        import pyarrow as pa

        if self._columns["line"]:
            self._emit.batch(COUNTER_SAMPLES, pa.RecordBatch.from_pydict(self._columns, schema=COUNTER_SAMPLES.arrow))
            self._columns = {name: [] for name in self._columns}


def _text(value: str | None) -> str | None:
    return value if value is None or len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT]
