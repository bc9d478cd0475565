"""What a dump states, from its loose values: the same for pickles and JSON, for all versions.

The two forms differ: JSON has no stacks, writes a missing time as 0 where the pickle has None, numbers of `pg_status` as
text, tuples as lists, and leaves `entries` out where there are none. Whatever has another type than it should is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tracelab_parsers.flight_recorder.names import ends
from tracelab_parsers.nccl_json.values import natural, text, whole

__all__ = ["Group", "Header", "Launch", "Progress", "Ranks", "Record", "read_header", "read_record"]

_MOST_RANKS = 4 << 20
_MOST_GROUPS = 65_536
_MOST_MS = 10**11
_WORLD = "default_pg"
_STATES = frozenset({"scheduled", "started", "completed"})


class Launch(NamedTuple):
    """What an entry shares with all others of one launch: the process group and its two counters."""

    pg_id: int | None
    collective_seq: int | None
    p2p_seq: int | None


@dataclass(frozen=True)
class Group:
    """A process group; `ranks` are global, in the order of the group, None where they are not stated in full."""

    name: str
    desc: str | None
    ranks: tuple[int, ...] | None

    @property
    def size(self) -> int | None:
        """Ranks in the group."""
        return len(self.ranks) if self.ranks else None


@dataclass(frozen=True)
class Progress:
    """Numbers of the last operations of a group; -1 where there was none yet."""

    pg_id: int
    enqueued: int | None
    started: int | None
    completed: int | None


@dataclass(frozen=True)
class Header:
    """All that a dump states beside its entries. `cut_groups` counts lists of ranks that are no lists of ranks."""

    version: str | None = None
    library: str | None = None
    rank: int | None = None
    groups: tuple[Group, ...] = ()
    progress: tuple[Progress, ...] = ()
    cut_groups: int = 0

    @property
    def world_size(self) -> int | None:
        """Ranks in the job: those of the group of all."""
        worlds = {g.size for g in self.groups if g.desc == _WORLD}
        return worlds.pop() if len(worlds) == 1 else None


@dataclass(frozen=True, slots=True)
class Record:
    """An entry. `retired`: the watchdog is done with it; if it is not completed then, the watchdog gave up."""

    record_id: int | None
    launch: Launch
    group: str | None
    group_desc: str | None
    seq: int
    op_id: int | None
    title: str
    point_to_point: bool
    created_ns: int | None
    duration_ns: int | None
    state: str
    stated: bool
    retired: bool
    values: Mapping[str, Any]


def read_header(top: Mapping[str, Any]) -> Header:
    """The header of a dump, from its top level; lists of ranks beyond 4 Mi ranks together are taken as not stated."""
    groups, cut = _groups(top.get("pg_config"))
    return Header(
        version=text(top.get("version")),
        library=text(top.get("comm_lib_version")) or text(top.get("nccl_version")),
        rank=natural(top.get("rank"), 32),
        groups=groups,
        progress=tuple(_progress(top.get("pg_status"))),
        cut_groups=cut,
    )


def _groups(config: object) -> tuple[tuple[Group, ...], int]:
    found: dict[str, Group] = {}
    left, cut = _MOST_RANKS, 0
    for key, value in config.items() if isinstance(config, Mapping) else ():
        if not isinstance(value, Mapping) or len(found) >= _MOST_GROUPS:
            cut += 1
            continue
        name = text(value.get("name")) or text(key)
        ranks = _ranks(value.get("ranks"), left)
        cut += ranks is None
        left -= len(ranks or ())
        if name is not None:
            found.setdefault(name, Group(name, text(value.get("desc")), ranks))
    return tuple(found.values()), cut


def _ranks(value: object, most: int) -> tuple[int, ...] | None:
    """Ranks from a list or its text (`[0, 1]`)."""
    if isinstance(value, str):
        inner = value.strip().removeprefix("[").removesuffix("]").strip()
        # A rank and its comma take two characters at least.
        value = inner.split(",") if inner and len(inner) < 12 * most else [] if not inner else None
    if not isinstance(value, list | tuple) or len(value) > most:
        return None
    ranks = tuple(natural(v, 32) for v in value)
    whole_ones = tuple(r for r in ranks if r is not None)
    return whole_ones if len(whole_ones) == len(ranks) and len(set(ranks)) == len(ranks) else None


def _progress(status: object) -> Iterator[Progress]:
    for key, value in status.items() if isinstance(status, Mapping) else ():
        pg_id = natural(key)
        if pg_id is None or not isinstance(value, Mapping):
            continue
        last = [whole(value.get(f"last_{what}_collective")) for what in ("enqueued", "started", "completed")]
        if any(n is not None for n in last):
            yield Progress(pg_id, *last)


def read_record(entry: object) -> Record | None:
    """An entry; None where it does not say which operation of its group it is."""
    if not isinstance(entry, Mapping):
        return None
    launch = Launch(natural(entry.get("pg_id")), natural(entry.get("collective_seq_id", entry.get("seq_id"))), natural(entry.get("p2p_seq_id")))
    title = text(entry.get("profiling_name")) or ""
    point_to_point = entry["is_p2p"] is True if "is_p2p" in entry else ends(title) is not None
    seq = launch.p2p_seq if point_to_point else launch.collective_seq
    if seq is None:
        return None
    pair = entry.get("process_group")
    names = [text(v) for v in pair[:2]] if isinstance(pair, list | tuple) else [text(pair)]
    state = entry.get("state")
    stated = isinstance(state, str) and state in _STATES
    return Record(
        record_id=natural(entry.get("record_id")),
        launch=launch,
        group=names[0] if names else None,
        group_desc=names[1] if len(names) > 1 else None,
        seq=seq,
        op_id=natural(entry.get("op_id")),
        title=title,
        point_to_point=point_to_point,
        created_ns=natural(entry.get("time_created_ns")) or None,
        duration_ns=_duration(entry.get("duration_ms")),
        state=state if stated and isinstance(state, str) else _state(entry),
        stated=stated,
        retired=entry.get("retired") is True,
        values=entry,
    )


def _state(entry: Mapping[str, Any]) -> str:
    """The state that the times of discovery show."""
    if natural(entry.get("time_discovered_completed_ns")):
        return "completed"
    return "started" if natural(entry.get("time_discovered_started_ns")) else "scheduled"


def _duration(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST_MS:
        return None
    return round(value * 1_000_000)


class Ranks:
    """Who wrote the dump. No version says so, but its groups and titles do.

    A process lists the groups that it is in: it is one of the ranks that are in all of them. The title of a send or recv
    names its own place in the group.
    """

    def __init__(self, header: Header) -> None:
        self._by_name = {g.name: g for g in header.groups}
        self._stated = header.rank
        self._common = _common(g.ranks for g in header.groups)
        self._named: set[int] = set()

    def see(self, record: Record) -> None:
        """Takes what the title of a record says."""
        group = self._by_name.get(record.group or "")
        pair = ends(record.title)
        if pair is not None and group is not None and group.ranks is not None and pair.mine < len(group.ranks):
            self._named.add(group.ranks[pair.mine])

    @property
    def contradictory(self) -> bool:
        """Whether what the dump says of its writer cannot be true together."""
        return len(self._named) > 1 or (self._common is not None and not self._common) or (self.found is None and bool(self._named))

    @property
    def found(self) -> int | None:
        """The rank of the writer; None where the dump does not tell, or contradicts itself."""
        if self._stated is not None:
            return self._stated
        if len(self._named) > 1:
            return None
        possible = self._common if not self._named else self._named if self._common is None else self._named & self._common
        return next(iter(possible)) if possible is not None and len(possible) == 1 else None


def _common(lists: Iterable[tuple[int, ...] | None]) -> set[int] | None:
    """The ranks that are in all lists; None where there is no list."""
    sets = [set(ranks) for ranks in lists if ranks]
    return set.intersection(*sets) if sets else None
