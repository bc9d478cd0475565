"""Rows of `host_spans`: calls of the CUDA API, NVTX ranges, MPI and UCX, the profiler's own overhead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.tables import HOST_SPANS
from tracelab_parsers.nsys.columns import Flags, Ints, Timed, coded, distinct, encoded, filled, int_column, table_batch
from tracelab_parsers.nsys.context import Context
from tracelab_parsers.nsys.joins import Joins
from tracelab_parsers.nsys.names import api_name, split_operator
from tracelab_parsers.nsys.nccl import Nccl
from tracelab_parsers.nsys.payload import Payloads
from tracelab_parsers.nsys.processes import pid_of, process_key, thread_of
from tracelab_parsers.nsys.ranges import RELEVANT, Call, base_name
from tracelab_parsers.nsys.source import Field, newest

__all__ = ["Ranges", "api_rows", "other_rows"]

KINDS = ("cpu_op", "annotation", "runtime", "driver", "overhead", "other")
_DRIVER_CLASS = 1
_API = tuple(map(Field, ("start", "end", "eventClass", "globalTid", "correlationId", "nameId")))
_OTHERS = (
    ("MPI_P2P_EVENTS", "textId", "other"),
    ("MPI_COLLECTIVES_EVENTS", "textId", "other"),
    ("MPI_START_WAIT_EVENTS", "textId", "other"),
    ("MPI_OTHER_EVENTS", "textId", "other"),
    ("UCP_EVENTS", "textId", "other"),
    ("UCP_SUBMIT_EVENTS", "textId", "other"),
    ("UCP_PROGRESS_EVENTS", "textId", "other"),
    ("CUPTI_ACTIVITY_KIND_OVERHEAD", "nameId", "overhead"),
    ("PROFILER_OVERHEAD", "nameId", "overhead"),
)
_NVTX = (
    *map(Field, ("start", "end", "eventType", "globalTid", "domainId", "textId", "jsonTextId")),
    Field("text", "text"),
    Field("jsonText", "text"),
    Field("binaryData", "blob"),
)
_MARK, _PUSH_POP, _START_END, _DOMAIN = 34, 59, 60, 75
_NCCL = "NCCL"


def _spans(context: Context, rows: Timed, parts: Ints, kinds: pa.DictionaryArray, names: pa.DictionaryArray) -> dict[str, pa.Array]:
    ids, known = filled(rows.batch, "globalTid")
    return {
        "part": pa.array(parts.astype(np.int16)),
        "source_ts_ns": pa.array(rows.ts + context.session.base_ns),
        "dur_ns": pa.array(rows.dur),
        "kind": kinds,
        "name": names,
        "pid": int_column(pid_of(process_key(ids)), known),
        "tid": int_column(thread_of(ids), known),
        "clamped": pa.array(rows.clamped),
    }


def api_rows(context: Context, joins: Joins, nccl: Nccl) -> Iterator[pa.RecordBatch]:
    """Calls of the runtime and the driver API; tells `joins` and `nccl` of them."""
    name = "CUPTI_ACTIVITY_KIND_RUNTIME"
    table = newest(context.source.tables, name)
    for batch in context.source.batches(table, _API) if table is not None else ():
        rows = context.timed(batch, name)
        parts = context.processes.parts(*filled(rows.batch, "globalTid"), gpu=False)
        rows, parts = context.kept(rows, parts, "api call")
        if not len(parts):
            continue
        names = context.names.or_unnamed(context.names.of(*filled(rows.batch, "nameId"), api_name), name)
        entries, of_row = names.dictionary.to_pylist(), names.indices.to_numpy(zero_copy_only=False)
        classes, stated = filled(rows.batch, "eventClass")
        by_name = np.array([not n.startswith("cuda") and n.startswith("cu") for n in entries], np.bool_)[of_row]
        driver = np.where(stated & ((classes == 0) | (classes == _DRIVER_CLASS)), classes == _DRIVER_CLASS, by_name)
        correlation, known = filled(rows.batch, "correlationId")
        columns = _spans(context, rows, parts, coded(np.where(driver, KINDS.index("driver"), KINDS.index("runtime")).astype(np.int32), KINDS), names)
        columns["correlation"] = int_column(correlation, known & (correlation != 0))
        launches = np.array(["LaunchKernel" in n or "GraphLaunch" in n for n in entries], np.bool_)[of_row]
        joins.calls(parts, correlation, int(np.count_nonzero(launches)))
        nccl.launches(parts, correlation, thread_of(filled(rows.batch, "globalTid")[0]), rows.ts + context.session.base_ns)
        yield table_batch(HOST_SPANS, columns)


def other_rows(context: Context) -> Iterator[pa.RecordBatch]:
    """Ranges of MPI and UCX, and the profiler's overhead."""
    for name, label, kind in _OTHERS:
        table = newest(context.source.tables, name)
        fields = (Field("start"), Field("end"), Field("globalTid"), Field(label))
        for batch in context.source.batches(table, fields) if table is not None else ():
            rows = context.timed(batch, name, to_end=True)
            parts = context.processes.parts(*filled(rows.batch, "globalTid"), gpu=False)
            rows, parts = context.kept(rows, parts, name.lower())
            if len(parts):
                names = context.names.or_unnamed(context.names.of(*filled(rows.batch, label)), name)
                yield table_batch(HOST_SPANS, _spans(context, rows, parts, coded(np.full(len(parts), KINDS.index(kind), np.int32), KINDS), names))


class Ranges:
    """NVTX ranges and marks. Names carry their domain (`NCCL:ncclAllReduce`), as Nsight Systems shows them."""

    def __init__(self, context: Context, nccl: Nccl) -> None:
        self._context = context
        self._nccl = nccl
        self._table = newest(context.source.tables, "NVTX_EVENTS")
        self._domains: dict[tuple[int, int], str] = {}
        self.payloads = Payloads.read(context.source)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All of them; tells `nccl` of those that are NCCL's."""
        if self._table is None:
            return
        self._read_domains(self._table)
        for batch in self._context.source.batches(self._table, _NVTX):
            kinds, stated = filled(batch, "eventType", _PUSH_POP)
            ranges = ~stated | np.isin(kinds, (_MARK, _PUSH_POP, _START_END))
            self._context.lost["nvtx other"] += int(np.count_nonzero(~ranges))
            marks = stated & (kinds == _MARK)
            for chosen, points in ((ranges & ~marks, False), (marks, True)):
                if chosen.any():
                    yield from self._rows(batch.filter(pa.array(chosen)), points=points)

    def _read_domains(self, table: str) -> None:
        fields = (Field("text", "text"), Field("textId"), Field("globalTid"), Field("domainId"))
        for batch in self._context.source.batches(table, fields, ("eventType", _DOMAIN)):
            texts = self._texts(batch).to_pylist()
            for text, tid, domain in zip(texts, *(batch.column(c).to_pylist() for c in ("globalTid", "domainId")), strict=True):
                if text and tid is not None and domain is not None:
                    self._domains[process_key(tid), domain] = text[:100]

    def _texts(self, batch: pa.RecordBatch) -> pa.Array:
        """Texts, written in place or registered."""
        ids, known = filled(batch, "textId")
        text = batch.column("text")
        absent = text.is_null().to_numpy(zero_copy_only=False)
        if not (known & absent).any():
            return text
        return pc.coalesce(text, self._context.names.of(np.where(known & absent, ids, 0), known & absent).cast(pa.string()))

    def _rows(self, batch: pa.RecordBatch, *, points: bool) -> Iterator[pa.RecordBatch]:
        context = self._context
        rows = context.timed(batch, "NVTX_EVENTS", to_end=True, points=points)
        parts = context.processes.parts(*filled(rows.batch, "globalTid"), gpu=False)
        rows, parts = context.kept(rows, parts, "nvtx mark" if points else "nvtx range")
        if not len(parts):
            return
        texts, numbers, operators = split_operator(self._texts(rows.batch))
        names = self._with_domains(rows.batch, encoded(texts))
        codes = np.where(operators, KINDS.index("cpu_op"), KINDS.index("annotation")).astype(np.int32)
        columns = _spans(context, rows, parts, coded(codes, KINDS), context.names.or_unnamed(names, "NVTX_EVENTS"))
        columns["sequence_number"] = numbers
        if not points:
            self._tell(rows, parts, names)
        yield table_batch(HOST_SPANS, columns)

    def _with_domains(self, batch: pa.RecordBatch, names: pa.DictionaryArray) -> pa.DictionaryArray:
        """The names behind the names of their domains. Where a domain was never named, NCCL's calls betray theirs."""
        domains, stated = filled(batch, "domainId")
        tids, _ = filled(batch, "globalTid")
        named = stated & (domains != 0)
        for key, domain in self._domains if named.any() else ():
            mine = named & (domains == domain) & (process_key(tids) == key)
            if mine.any():
                names = _prefixed(names, mine, self._domains[key, domain])
        bare = _of_entries(names, pc.match_substring_regex(names.dictionary, "^nccl[A-Z]"))
        return _prefixed(names, bare, _NCCL) if bare.any() else names

    def _tell(self, rows: Timed, parts: Ints, texts: pa.DictionaryArray) -> None:
        at = np.flatnonzero(_of_entries(texts, pc.starts_with(texts.dictionary, f"{_NCCL}:")))
        if not len(at):
            return
        chosen = rows.batch.take(pa.array(at))
        ids, known = filled(chosen, "jsonTextId")
        written = chosen.column("jsonText")
        json = pc.coalesce(written, self._context.names.of(ids, known).cast(pa.string())) if known.any() else written
        starts = rows.ts[at] + self._context.session.base_ns
        columns = (parts[at], thread_of(filled(chosen, "globalTid")[0]), starts, starts + rows.dur[at], rows.clamped[at])
        names = texts.take(pa.array(at)).to_pylist()
        blobs, jsons = chosen.column("binaryData").to_pylist(), json.to_pylist()
        for part, tid, start, end, is_open, name, blob, text in zip(*(c.tolist() for c in columns), names, blobs, jsons, strict=True):
            facts = self.payloads.facts(blob, text)
            if facts is not None or base_name(name) in RELEVANT:
                self._nccl.range(part, tid, Call(name, start, end, facts, is_open))


def _of_entries(names: pa.DictionaryArray, flags: pa.Array) -> Flags:
    """Which rows have an entry that is flagged."""
    flagged = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    if not flagged.any():
        return np.zeros(len(names), np.bool_)
    codes = names.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    chosen: Flags = flagged[codes] & (codes >= 0)
    return chosen


def _prefixed(names: pa.DictionaryArray, where: Flags, prefix: str) -> pa.DictionaryArray:
    """The names, those of some rows behind `prefix`; every entry of the dictionary once."""
    codes = names.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    chosen = where & (codes >= 0)
    used, positions = distinct(codes[chosen].astype(np.int64))
    entries = names.dictionary
    more = pc.binary_join_element_wise(prefix, entries.take(pa.array(used)), ":")
    every = encoded(pa.concat_arrays([entries, more]))
    codes = codes.copy()
    codes[chosen] = len(entries) + positions
    indices = every.indices.take(pa.array(codes, mask=codes < 0))
    return pa.DictionaryArray.from_arrays(indices, every.dictionary)
