"""What traces say about communication: the arguments of collectives, and the process groups.

Lists of ranks longer than 30 are cut by the profiler (`[0, 1, ..., 29, ...]`). They are restored from the list of
groups, from a stated start, stride and size, or where a group is as large as the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tracelab.tables import COMM_RECORDS, PROCESS_GROUPS
from tracelab_parsers.torch_profiler.events import Details, Event
from tracelab_parsers.torch_profiler.times import Times
from tracelab_parsers.torch_profiler.values import as_int, as_text, coded, int_list, integers, positive, texts

__all__ = ["HOST_NAME", "CommRecords", "Groups", "Ranges", "process_group_batch", "states_operation"]

HOST_NAME = "record_param_comms"
RECORDED_ON = ("kernel", "cpu_op")
MAX_BUFFERED = 200_000
_MAX_RANKS = 1 << 22
_MAX_GROUP = 100_000
_RANKS_PER_BATCH = 4 << 20
_TRUE = frozenset({"true", "1"})
_FALSE = frozenset({"false", "0"})


class _GroupKey(NamedTuple):
    """All that one record says about the members of its group."""

    name: str | None
    shown: tuple[int, ...] | None
    prefix: tuple[int, ...]
    start: int | None
    stride: int | None
    size: int | None
    stated: bool


def states_operation(a: Details) -> bool:
    """Whether a host operator carries the arguments of a collective. Old traces record the call without any."""
    return not (a.collective is None and a.group_name is None and a.group_id is None and a.dtype is None and a.in_elements is None)


def _cut_list(value: object) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """The ranks of a list where it is whole, and as far as they are shown where it is cut."""
    whole = int_list(value)
    if whole is not None:
        return tuple(whole), ()
    text = ", ".join(map(str, value[:64])) if isinstance(value, list) else value
    if not isinstance(text, str) or "..." not in text:
        return None, ()
    return None, tuple(int_list(text.strip().removeprefix("[").partition("...")[0].strip().removesuffix(",")) or ())


def _is_cut(value: object) -> bool:
    return ("..." in value) if isinstance(value, (str, list)) else False


class Ranges:
    """Members of groups of one file that state but a start, a stride and a size: a few bytes may claim a billion ranks.

    A group has at most as many ranks as the job (100,000 where that is unknown), and all different groups together have
    at most 4 Mi. What is beyond is refused.
    """

    def __init__(self) -> None:
        self._found: dict[range, tuple[int, ...]] = {}
        self._refused: set[range] = set()
        self._left = _MAX_RANKS

    @property
    def refused(self) -> int:
        """How many different groups were refused."""
        return len(self._refused)

    def members(self, ranks: range, world_size: int | None) -> tuple[int, ...] | None:
        """The ranks of a group; None where they are too many."""
        if ranks in self._found:
            return self._found[ranks]
        if len(ranks) > min(self._left, world_size or _MAX_GROUP):
            self._refused.add(ranks)
            return None
        self._left -= len(ranks)
        return self._found.setdefault(ranks, tuple(ranks))


@dataclass
class Groups:
    """Members of the groups of one process, as its `distributedInfo` lists them. Empty until that was read."""

    world_size: int | None = None
    by_name: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=Ranges)

    def restore(self, key: _GroupKey) -> tuple[int, ...] | None:
        """The ranks of the group: stated in full, or by a rule that the stated part does not contradict."""
        if key.shown is not None:
            return key.shown
        named = self.by_name.get(key.name) if key.name is not None else None
        if named is not None and (key.size is None or len(named) == key.size) and named[: len(key.prefix)] == key.prefix:
            return named
        for ranks in self._ranges(key):
            if tuple(ranks[: len(key.prefix)]) == key.prefix:
                return self.ranges.members(ranks, self.world_size)
        return None

    def _ranges(self, key: _GroupKey) -> Iterator[range]:
        if key.size is None or key.size <= 0:
            return
        if key.start is not None and key.start >= 0 and key.stride is not None and key.stride > 0:
            yield range(key.start, key.start + key.stride * key.size, key.stride)
        if key.size == self.world_size:
            yield range(key.size)


def _flag(value: object) -> bool | None:
    text = str(value).lower()
    return True if text in _TRUE else False if text in _FALSE else None


def _rank(value: object) -> int | None:
    n = as_int(value, 32)
    return n if n is not None and n >= 0 else None


def _key(a: Details) -> _GroupKey:
    shown, prefix = _cut_list(a.group_ranks)
    name = as_text(a.group_name if a.group_name is not None else a.group_id)
    return _GroupKey(name, shown, prefix, as_int(a.rank_start, 32), as_int(a.rank_stride, 32), positive(a.group_size, 32), _is_cut(a.group_ranks))


@dataclass
class CommRecords:
    """Rows of `comm_records`, held back (up to 200,000 of them, about 60 MB) until the groups of the process are known.

    `cut` counts rows whose list of ranks was cut and could not be restored.
    """

    cut: int = 0
    cut_splits: int = 0
    buffered: int = 0
    _blocks: list[tuple[dict[str, pa.Array], list[_GroupKey]]] = field(default_factory=list)
    _keys: dict[_GroupKey, _GroupKey] = field(default_factory=dict)

    def add(self, events: Sequence[Event], args: Sequence[Details], times: Times, on: int) -> None:
        """Adds the records of `events` with the details `args`: all kernels (`on` 0) or all host operators (`on` 1)."""
        self.cut_splits += sum(_is_cut(a.in_split) or _is_cut(a.out_split) for a in args)
        n = len(events)
        columns = {
            "part": pa.array(np.zeros(n, np.int16)),
            "source_ts_ns": pa.array(times.ts),
            "dur_ns": pa.array(times.dur),
            "recorded_on": coded(np.full(n, on, np.int32), RECORDED_ON),
            "correlation": integers([(e.args.correlation or None) if on == 0 else None for e in events], pa.int64()),
            "external_id": integers([e.args.external_id or e.args.external_id_2021 or None for e in events], pa.int64()),
            "tid": integers([e.tid if on == 1 else None for e in events], pa.int64()),
            "operation": texts([a.collective for a in args]),
            "dtype": texts([a.dtype for a in args]),
            "in_elements": integers([a.in_elements for a in args], pa.int64()),
            "out_elements": integers([a.out_elements for a in args], pa.int64()),
            "in_split": pa.array([int_list(a.in_split) for a in args], pa.list_(pa.int64())),
            "out_split": pa.array([int_list(a.out_split) for a in args], pa.list_(pa.int64())),
            "group_name": texts([a.group_name if a.group_name is not None else a.group_id for a in args]),
            "group_desc": texts([a.group_desc for a in args]),
            "group_size": pa.array([positive(a.group_size, 32) for a in args], pa.int32()),
            "src_rank": pa.array([_rank(a.src_rank) for a in args], pa.int32()),
            "dst_rank": pa.array([_rank(a.dst_rank) for a in args], pa.int32()),
            "seq": integers([a.seq for a in args], pa.int64()),
            "comms_id": pa.array([as_text(a.comms_id) for a in args], pa.string()),
            "is_async": pa.array([None if a.is_async is None else _flag(a.is_async) for a in args], pa.bool_()),
        }
        self._blocks.append((columns, [self._keys.setdefault(k, k) for k in map(_key, args)]))
        self.buffered += n

    def drain(self, groups: Groups) -> Iterator[pa.RecordBatch]:
        """The rows held so far. Groups without a list of their own take that of their name from `groups` or from another record."""
        known = Groups(groups.world_size, dict(groups.by_name), groups.ranges)
        for key in self._keys:
            ranks = known.restore(key)
            if key.name is not None and ranks is not None:
                known.by_name.setdefault(key.name, ranks)
        restored = {key: _fitting(known.restore(key)) for key in self._keys}
        blocks, self._blocks, self._keys, self.buffered = self._blocks, [], {}, 0
        for columns, keys in blocks:
            self.cut += sum(restored[key] is None and key.stated for key in keys)
            yield from _batches(columns, [restored[key] for key in keys])


def _batches(columns: dict[str, pa.Array], ranks: Sequence[tuple[int, ...] | None]) -> Iterator[pa.RecordBatch]:
    """The rows with their ranks, in batches of a bounded number of ranks: groups may hold a whole job of ten thousand."""
    numbers = {group: i for i, group in enumerate(dict.fromkeys(ranks))}
    lists = pa.array(list(numbers), pa.list_(pa.int32()))
    longest = max(len(group or ()) for group in numbers)
    step = max(1, _RANKS_PER_BATCH // max(1, longest))
    codes = pa.array([numbers[group] for group in ranks], pa.int32())
    for begin in range(0, len(ranks), step):
        rows = {name: column.slice(begin, step) for name, column in columns.items()}
        rows["group_ranks"] = lists.take(codes.slice(begin, step))
        yield pa.RecordBatch.from_arrays([rows[c.name] for c in COMM_RECORDS.emitted], schema=COMM_RECORDS.arrow)


def _fitting(ranks: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return ranks if ranks is not None and all(-(1 << 31) <= r < 1 << 31 for r in ranks) else None


def process_group_batch(configs: object, world_size: int | None, ranges: Ranges) -> tuple[pa.RecordBatch | None, Groups, int]:
    """Rows of `process_groups` from `pg_config` (None where it lists no group), the groups by name, and how many lists of ranks were cut for good.

    `ranks` is a list, or its text in traces taken on demand.
    """
    groups = Groups(world_size, ranges=ranges)
    rows: list[tuple[str, str | None, str | None, int | None, tuple[int, ...] | None]] = []
    cut = 0
    for config in configs if isinstance(configs, list) else []:
        if not isinstance(config, dict):
            continue
        name = as_text(config.get("pg_name"))
        shown, prefix = _cut_list(config.get("ranks"))
        size = positive(config.get("pg_size"), 32)
        key = _GroupKey(None, shown, prefix, None, None, size, _is_cut(config.get("ranks")))
        ranks = _fitting(groups.restore(key))
        cut += ranks is None and key.stated
        rows.append((name or "", as_text(config.get("pg_desc")), as_text(config.get("backend_config")), size, ranks))
        if name is not None and ranks is not None:
            groups.by_name[name] = ranks
    return _group_batch(rows) if rows else None, groups, cut


def _group_batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = {
        "part": pa.array(np.zeros(len(rows), np.int16)),
        "group_name": pa.array([r[0] for r in rows], pa.string()),
        "group_desc": pa.array([r[1] for r in rows], pa.string()),
        "backend": pa.array([r[2] for r in rows], pa.string()),
        "size": pa.array([r[3] for r in rows], pa.int32()),
        "group_ranks": pa.array([r[4] for r in rows], pa.list_(pa.int32())),
    }
    return pa.RecordBatch.from_arrays([columns[c.name] for c in PROCESS_GROUPS.emitted], schema=PROCESS_GROUPS.arrow)
