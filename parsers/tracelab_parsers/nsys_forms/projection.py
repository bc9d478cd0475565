"""The report nvtx_gpu_proj_trace, of a recipe (Parquet) or of `nsys stats` (CSV): NVTX ranges with the time of the GPU work that they launched.

A range that launched a single operation and holds no other range gives that operation's exact time. NCCL's ranges do so
for collectives, and the range around them says which operation it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.plugins import Emitter, EventCount, Part, SourceInfo
from tracelab.tables import GPU_SPANS, HOST_SPANS
from tracelab_parsers.nsys.columns import Flags, Ints, coded, encoded, filled, int32_column, int_column, no_texts, table_batch, usable_times
from tracelab_parsers.nsys.ranges import OPERATIONS, base_name
from tracelab_parsers.nsys.source import Field
from tracelab_parsers.nsys_forms.columnar import ColumnarSource
from tracelab_parsers.nsys_forms.notices import FormNotices

__all__ = ["TABLE", "Identity", "Projection", "columns_of"]

TABLE = "PROJECTION"
_GPU_KINDS = ("kernel", "annotation")
_NCCL = "NCCL:"
_HLO = re.compile(r"hlo_op=([\w.-]{1,100})")
_BACKEND = re.compile(r"^(?:\w+:)?(?:nccl|c10d)::?\w+", re.IGNORECASE)
_MOST = (1 << 63) - 1
_MOST_PARTS = 4096
_MOST_PARENTS = 1_000_000
_NAMES = ("name", "projstart", "projduration", "origstart", "origduration", "pid", "tid", "operations", "children", "range", "parent", "rank")
_TEXTS = frozenset({"name"})


def columns_of(names: Mapping[str, str]) -> dict[str, Field] | None:
    """The field for each thing a projection says, from columns by alias; None where it is none."""
    alias = dict(names)
    for wanted, other in (("projstart", "start"), ("projduration", "duration")):
        if wanted not in alias and other in alias:
            alias[wanted] = alias[other]
    if not {"name", "projstart", "projduration"} <= alias.keys() or not {"operations", "origstart"} & alias.keys():
        return None
    return {n: Field(alias[n], "text" if n in _TEXTS else "int") for n in _NAMES if n in alias}


@dataclass(frozen=True)
class Identity:
    """What is known of the processes from beside the report. `ranks` by number of the input file."""

    ranks: Mapping[int, int] = field(default_factory=dict)
    device: int | None = None
    gpu: str | None = None


@dataclass
class Projection:
    """Reads one report. `units` are factors to ns by column; with `host_elsewhere` ranges of the host come from another report."""

    source: ColumnarSource
    fields: Mapping[str, Field]
    units: Mapping[str, int]
    identity: Identity
    notices: FormNotices
    host_elsewhere: bool = False
    parts: dict[tuple[int, int | None], Part] = field(default_factory=dict)
    stored: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)

    def read(self, emit: Emitter) -> None:
        """Emits all rows."""
        parents = self._parent_names()
        for batch in self._batches(_NAMES):
            self._rows(batch, parents, emit)

    def info(self) -> SourceInfo:
        """What was read."""
        counts = [EventCount(k, n, stored=True) for k, n in sorted(self.stored.items()) if n]
        counts += [EventCount(k, n, stored=False) for k, n in sorted(self.lost.items()) if n]
        self.notices.add("no-time-base")
        self.notices.add("no-rank", sum(p.rank is None for p in self.parts.values()))
        return SourceInfo(list(self.parts.values()) or [Part(time_base_lost=True)], {}, counts, self.source.cut_short)

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        chosen = {n: self.fields[n] for n in names if n in self.fields}
        for batch in self.source.batches(TABLE, list(chosen.values())):
            yield pa.RecordBatch.from_arrays(batch.columns, names=list(chosen))

    def _parent_names(self) -> dict[tuple[int, int], str]:
        """The names of the ranges around NCCL's, by input file and range."""
        wanted: set[tuple[int, int]] = set()
        if not {"range", "parent"} <= self.fields.keys():
            return {}
        for batch in self._batches(("name", "parent", "rank")):
            mine = batch.filter(pc.fill_null(pc.starts_with(batch.column("name"), _NCCL), False))
            (files, _), (parent, stated) = _ints(mine, "rank"), _ints(mine, "parent")
            if len(wanted) < _MOST_PARENTS:
                wanted.update(zip(files[stated].tolist(), parent[stated].tolist(), strict=True))
        numbers = pa.array(sorted({p for _, p in wanted}), pa.int64())
        found: dict[tuple[int, int], str] = {}
        for batch in self._batches(("name", "range", "rank")):
            mine = batch.filter(pc.is_in(batch.column("range"), numbers))
            keys = zip(_ints(mine, "rank")[0].tolist(), _ints(mine, "range")[0].tolist(), strict=True)
            found |= {key: name for key, name in zip(keys, mine.column("name").to_pylist(), strict=True) if key in wanted and name}
        return found

    def _rows(self, batch: pa.RecordBatch, parents: Mapping[tuple[int, int], str], emit: Emitter) -> None:
        start, has_start = _ints(batch, "projstart", self.units)
        original, has_original = _ints(batch, "origstart", self.units)
        anonymous = batch.column("name").is_null().to_numpy(zero_copy_only=False) | ("origstart" in self.fields) & ~has_original
        self.notices.add("unattributed-work", int(np.count_nonzero(anonymous)))
        self.lost["gpu work outside ranges"] += int(np.count_nonzero(anonymous))
        usable = usable_times(start, has_start) & (usable_times(original, has_original) | ~has_original)
        bad = ~usable & ~anonymous
        self.notices.add("bad-time", int(np.count_nonzero(bad)), TABLE.lower())
        self.lost["projected range"] += int(np.count_nonzero(bad))
        keep = usable & ~anonymous
        batch = batch.filter(pa.array(keep))
        parts = self._parts(batch, batch.num_rows)
        known = parts >= 0
        self.lost["projected range"] += int(np.count_nonzero(~known))
        batch, parts = batch.filter(pa.array(known)), parts[known]
        if not batch.num_rows:
            return
        texts = batch.column("name")
        colon = pc.starts_with(texts, ":")
        texts = pc.if_else(colon, pc.utf8_slice_codeunits(texts, 1), texts)
        self._gpu(batch, parts, texts, parents, emit)
        if not self.host_elsewhere and "origstart" in self.fields:
            self._host(batch, parts, texts, emit)

    def _parts(self, batch: pa.RecordBatch, n: int) -> Ints:
        """The part of each row: one for each process of each input file."""
        files, (pids, stated) = _ints(batch, "rank")[0], _ints(batch, "pid")
        pids = np.where(stated, pids, -1)
        unique, positions = (
            np.unique(np.stack([files, pids], axis=1), axis=0, return_inverse=True) if n else (np.zeros((0, 2), np.int64), np.zeros(0, np.int64))
        )
        numbers = []
        for file, pid in unique.tolist():
            key = (file, pid if pid >= 0 else None)
            if key not in self.parts:
                if len(self.parts) >= _MOST_PARTS:
                    self.notices.add("too-many-processes")
                    numbers.append(-1)
                    continue
                rank = self.identity.ranks.get(file)
                # neither host nor device: every input file has a clock of its own, and ranks of one host are taken to share one
                self.parts[key] = Part(part=len(self.parts), rank=rank, pid=key[1], gpu=self.identity.gpu, time_base_lost=True)
            numbers.append(self.parts[key].part)
        return np.array(numbers, np.int64)[positions.ravel()] if n else np.zeros(0, np.int64)

    def _widen(self, parts: Ints, ts: Ints, dur: Ints) -> None:
        for part in self.parts.values():
            mine = parts == part.part
            if mine.any():
                first, last = int(ts[mine].min()), int((ts + dur)[mine].max())
                part.start_ns = first if part.start_ns is None else min(part.start_ns, first)
                part.end_ns = last if part.end_ns is None else max(part.end_ns, last)

    def _timed(self, batch: pa.RecordBatch, prefix: str) -> tuple[Ints, Ints, Flags]:
        ts, _ = _ints(batch, f"{prefix}start", self.units)
        dur, stated = _ints(batch, f"{prefix}duration", self.units)
        fits = usable_times(dur, stated & (dur >= 0))
        self.notices.add("inverted-time", int(np.count_nonzero(stated & ~fits)), TABLE.lower())
        return ts, np.where(fits, dur, 0), ~fits

    def _gpu(self, batch: pa.RecordBatch, parts: Ints, texts: pa.Array, parents: Mapping[tuple[int, int], str], emit: Emitter) -> None:
        ts, dur, clamped = self._timed(batch, "proj")
        n = len(parts)
        operations, counted = _ints(batch, "operations")
        children, stated = _ints(batch, "children")
        nccl: Flags = pc.fill_null(pc.starts_with(texts, _NCCL), False).to_numpy(zero_copy_only=False)
        leaf = ~stated | (children == 0)
        single = leaf & ((counted & (operations == 1)) | nccl)
        self.notices.add("several-operations", int(np.count_nonzero(leaf & ~single)))
        texts = self._with_operations(batch, texts, np.flatnonzero(nccl & single), parents)
        columns = {
            "part": pa.array(parts.astype(np.int16)),
            "source_ts_ns": pa.array(ts),
            "dur_ns": pa.array(dur),
            "kind": coded(np.where(single, 0, 1).astype(np.int32), _GPU_KINDS),
            "name": encoded(texts),
            "device": int32_column(np.full(n, self.identity.device or 0), np.full(n, self.identity.device is not None)),
            "clamped": pa.array(clamped),
            "copy_kind": no_texts(n),
        }
        self._widen(parts, ts, dur)
        self.stored["gpu operation of a range"] += int(np.count_nonzero(single))
        self.stored["range over gpu work"] += int(np.count_nonzero(~single))
        emit.batch(GPU_SPANS, table_batch(GPU_SPANS, columns))

    def _with_operations(self, batch: pa.RecordBatch, texts: pa.Array, at: Ints, parents: Mapping[tuple[int, int], str]) -> pa.Array:
        """The names, with the operation behind those of NCCL's calls that do not tell it (`NCCL:ncclGroupEnd [all-gather-start.1]`)."""
        if not len(at) or not parents:
            return texts
        names = texts.to_pylist()
        files, parent = _ints(batch, "rank")[0].tolist(), _ints(batch, "parent")[0].tolist()
        for n in at.tolist():
            found = _operation(names[n], parents.get((files[n], parent[n]), ""))
            if found is not None:
                names[n] = f"{names[n]} [{found}]"
        return pa.array(names, pa.string())

    def _host(self, batch: pa.RecordBatch, parts: Ints, texts: pa.Array, emit: Emitter) -> None:
        ts, dur, clamped = self._timed(batch, "orig")
        columns = {
            "part": pa.array(parts.astype(np.int16)),
            "source_ts_ns": pa.array(ts),
            "dur_ns": pa.array(dur),
            "kind": coded(np.zeros(len(parts), np.int32), ["annotation"]),
            "name": encoded(texts),
            "pid": int_column(*_ints(batch, "pid")),
            "tid": int_column(*_ints(batch, "tid")),
            "clamped": pa.array(clamped),
        }
        self._widen(parts, ts, dur)
        self.stored["nvtx range"] += len(parts)
        emit.batch(HOST_SPANS, table_batch(HOST_SPANS, columns))


def _ints(batch: pa.RecordBatch, name: str, units: Mapping[str, int] | None = None) -> tuple[Ints, Flags]:
    """The numbers of a column and where there are any; nothing where the report has no such column. What is beyond 64 bits in ns, is the largest number."""
    if name not in batch.schema.names:
        return np.zeros(batch.num_rows, np.int64), np.zeros(batch.num_rows, np.bool_)
    values, known = filled(batch, name)
    unit = (units or {}).get(name, 1)
    most = _MOST // unit
    return np.where((values >= -most) & (values <= most), values * unit, _MOST), known


def _operation(name: str, parent: str) -> str | None:
    """The operation that a range of NCCL launched, as the range around it names it; None where its own name tells it."""
    if base_name(name) in OPERATIONS:
        return None
    hlo = _HLO.search(parent)
    if hlo is not None:
        return hlo[1]
    m = _BACKEND.match(parent)
    return m[0] if m is not None else None
