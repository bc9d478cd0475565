"""One pass over a report of nccl-tests."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tracelab.plugins import Emitter, EventCount, Part, SourceFile, SourceInfo
from tracelab.tables import BANDWIDTH_BASELINES, LOG_SETTINGS
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.json_document import JsonDocument
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.nccl_json.values import LIST_DECODER, decode, mapping, nanoseconds, natural, number, text, whole
from tracelab_parsers.nccl_log import ops
from tracelab_parsers.nccl_tests.notices import TEXTS

__all__ = ["Reading", "version_text"]

_KEPT = frozenset({"version", "nccl_version", "config", "args"})
_FACTS = ("iterations", "warmup_iters", "aggregated_iterations", "graph")
_HALVES = (("out_of_place", False), ("in_place", True))
_OLD_VERSIONS = 10_000
_GIGA = Decimal(10**9)


def version_text(code: object) -> str | None:
    """NCCL's version number as text: 2804 is 2.8.4, and from 2.9 on 22807 is 2.28.7."""
    n = natural(code, 32)
    if not n:
        return None
    step = 1000 if n < _OLD_VERSIONS else 10_000
    return f"{n // step}.{n % step // 100}.{n % 100}"


def _same(value: object) -> object:
    return value


class Reading:
    """Reads `source` once and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(TEXTS)
        self._rows = RowBuffer(BANDWIDTH_BASELINES, emit)
        self._values: dict[str, Any] = {}
        self._results = 0
        self._stored = 0

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            document: JsonDocument[object] = JsonDocument(stream, "results", LIST_DECODER, _same, notices.add, keep=_KEPT)
            for chunk in document:
                config = mapping(self._value(document, "config"))
                operation, ranks = self._operation(document), _ranks(config)
                for element in chunk.elements:
                    self._results += 1
                    self._result(mapping(element), operation, ranks, chunk.offset)
                self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            return self._finish(document, torn=stream.torn or document.torn or "truncated" in notices)

    def _value(self, document: JsonDocument[object], key: str) -> Any:
        if key in document.values and key not in self._values:
            self._values[key] = decode(document.values[key], self._notices.add)
        return self._values.get(key)

    def _operation(self, document: JsonDocument[object]) -> str:
        args = self._value(document, "args")
        program = text(args[0]) if isinstance(args, list) and args else None
        return (ops.program_operation(program) if program is not None else None) or ops.UNKNOWN

    def _result(self, result: dict[str, Any], operation: str, ranks: int | None, offset: int) -> None:
        size = natural(result.get("size"))
        if size is None:
            self._notices.add("bad-result", offset)
            return
        self._notices.add("unknown-operation", offset, int(operation == ops.UNKNOWN))
        dtype = ops.element_type_named(text(result.get("type")) or "")
        for key, in_place in _HALVES:
            half = result.get(key)
            if not isinstance(half, dict):
                continue
            if "cpu_time" in half:
                self._notices.add("cpu-times", offset)
                continue
            time, errors = nanoseconds(half.get("time")), natural(half.get("nwrong"))
            if time is None or time < 0:
                self._notices.add("bad-time", offset)
                time = None
            self._notices.add("wrong-elements", offset, int(bool(errors)))
            self._stored += 1
            self._rows.add(
                part=0,
                line=self._results,
                operation=operation,
                ranks=ranks,
                bytes=size,
                count=natural(result.get("count")),
                dtype=dtype.name if dtype is not None else None,
                reduction=ops.reduction_named(text(result.get("redop")) or ""),
                root=natural(result.get("root"), 32),
                in_place=in_place,
                time_ns=time,
                algbw_bytes_per_s=_bandwidth(half.get("alg_bw")),
                busbw_bytes_per_s=_bandwidth(half.get("bus_bw")),
                errors=errors,
            )

    def _finish(self, document: JsonDocument[object], *, torn: bool) -> SourceInfo:
        self._rows.flush()
        config, facts = mapping(self._value(document, "config")), {}
        version = version_text(self._value(document, "nccl_version"))
        if version is not None:
            settings = RowBuffer(LOG_SETTINGS, self._emit)
            settings.add(part=0, line=1, name="version", value=version, origin="stated")
            settings.flush()
            facts["nccl_version"] = version
        facts |= {key: str(n) for key in _FACTS if (n := whole(config.get(key), 32)) is not None}
        if "no-json" not in self._notices:
            self._notices.add("no-results", count=int(not self._results))
        self._notices.emit(self._emit)
        writer = _devices(config)[0] if _devices(config) else {}
        part = Part(host=text(writer.get("hostname")), pid=natural(writer.get("pid")))
        counts = [EventCount("measurement", self._stored, stored=True)] if self._stored else []
        return SourceInfo([part], dict(sorted(facts.items())), counts, torn)


def _devices(config: dict[str, Any]) -> list[dict[str, Any]]:
    """One per process of the run, that which wrote the report first."""
    devices = config.get("devices")
    return [mapping(d) for d in devices] if isinstance(devices, list) else []


def _ranks(config: dict[str, Any]) -> int | None:
    """Ranks of a communicator: the report lists the first GPU of each process, and a run may be split into groups."""
    devices, threads, gpus = _devices(config), natural(config.get("nthreads"), 32), natural(config.get("ngpus"), 32)
    if not devices or not threads or not gpus:
        return None
    group = whole(devices[0].get("group"), 32)
    n = threads * gpus * sum(whole(d.get("group"), 32) == group for d in devices)
    return n if n < 1 << 31 else None


def _bandwidth(value: object) -> float | None:
    """GB/s as B/s."""
    n = number(value)
    return None if n is None or n < 0 else float(n * _GIGA)
