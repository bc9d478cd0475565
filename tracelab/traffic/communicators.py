"""One row per communicator of the job, from the rows that its processes print.

Addresses are no key: they are used again, and processes print equal ones. What identifies a communicator, best first: the
id that all its ranks print; for a split the parent, the number of the split and the colour; the members that a recorder
lists for a process group; else size, order of creation and ranks that complement each other. Where more than one reading
is possible, nothing is merged and a notice says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import polars as pl

from tracelab.plugins import Notice
from tracelab.tables import JOB_COMMUNICATORS
from tracelab.traffic.members import LARGEST, Comm, Known, Row, process_of

__all__ = ["COMM_MAP", "job_communicators"]

COMM_MAP: Mapping[str, pl.DataType] = {"source_id": pl.Int32(), "part": pl.Int16(), "comm": pl.Int32(), "comm_key": pl.Int32(), "comm_rank": pl.Int32()}
"""Schema of the map from a process's communicator to the job's, with the place of the process in it."""

_COLUMNS = (
    "source_id", "part", "rank", "comm", "pointer", "comm_id", "comm_rank", "size", "function", "parent", "parent_pointer", "split", "color", "split_key",
    "nodes", "channels", "state", "group_name", "group_desc", "version",
)  # fmt: skip
_Place = tuple[int, int, int]


def job_communicators(
    communicators: pl.LazyFrame,
    process_groups: pl.LazyFrame,
    groups: pl.DataFrame,
    ranks_hosts: Mapping[int, str],
    world_size: int | None,
) -> tuple[pl.DataFrame, pl.DataFrame, list[Notice]]:
    """JOB_COMMUNICATORS; the map (source_id, part, comm → comm_key, comm_rank) as `COMM_MAP`; and what could not be told.

    `communicators` and `process_groups` are parsed tables; `groups` the table of that name; `ranks_hosts` the host of every
    rank of the job. A process whose rank is negative counts as one that was not seen, but for what its lines share.
    """
    rows = _rows(communicators)
    if not rows:
        return JOB_COMMUNICATORS.empty(), pl.DataFrame(schema=COMM_MAP), []
    sets = {g: tuple(sorted(r)) for g, r in groups.select("group_id", "ranks").iter_rows() if r}
    stated = groups.filter(pl.col("origin") == "stated")["group_id"].to_list()
    known = Known(sets, {g: sets[g] for g in stated if g in sets}, world_size if world_size is not None else _world(rows, ranks_hosts))
    merger = _Merger(rows, known, _listed(process_groups))
    comms = merger.merged()
    table, of_place = _table(comms, known, dict(groups.select("group_id", "name").iter_rows()))
    return table, of_place, merger.notices(comms)


def _rows(communicators: pl.LazyFrame) -> list[dict[str, object]]:
    frame = communicators.select(_COLUMNS).collect(engine="streaming").with_columns(pl.col("function", "state").cast(pl.String))
    frame = frame.sort("source_id", "part", "comm").unique(["source_id", "part", "comm"], keep="first", maintain_order=True)
    rows = [dict(r) for r in frame.iter_rows(named=True)]
    by_place = {_place(r): r for r in rows}
    for row in rows:
        above = by_place.get((row["source_id"], row["part"], row["parent"]))
        row["parent_rank"] = above["comm_rank"] if above is not None else None
    return rows


def _world(rows: Sequence[Row], ranks_hosts: Mapping[int, str]) -> int | None:
    """The largest size that a communicator states, where it counts all ranks of the job that are known."""
    largest = max((r["size"] for r in rows if r["size"] is not None and r["size"] <= LARGEST), default=0)
    return largest if largest and largest > max(ranks_hosts, default=-1) else None


def _listed(process_groups: pl.LazyFrame) -> dict[tuple[int, int, str], tuple[int, ...]]:
    """The members of a process's groups, by name."""
    frame = process_groups.select("source_id", "part", "group_name", "group_ranks").filter(pl.col("group_ranks").is_not_null())
    return {(s, p, n): tuple(r) for s, p, n, r in frame.collect(engine="streaming").iter_rows()}


def _place(row: Row) -> _Place:
    return row["source_id"], row["part"], row["comm"]


class _Merger:
    """Finds the rows that describe one communicator."""

    def __init__(self, rows: Sequence[Row], known: Known, listed: Mapping[tuple[int, int, str], tuple[int, ...]]) -> None:
        self.rows, self.known, self.listed = rows, known, listed
        self.of: dict[_Place, Comm] = {}
        self.unmerged = 0
        self.doubtful = 0
        # Of a job that was seen in part, two halves may belong to two communicators.
        self.all_seen = known.world_size is not None and len({process_of(r) for r in rows}) >= known.world_size

    def merged(self) -> list[Comm]:
        """The communicators of the job."""
        identified, recorded, splits, plain, headless = self._sorted_out()
        comms = self._by_id(identified)
        comms += self._by_init(plain)
        comms += self._by_split(splits)
        for comm in comms:
            comm.settle(self.known)
        comms += self._attach(headless, comms)
        return self._with_recorders(comms, self._by_group(recorded))

    def notices(self, comms: Sequence[Comm]) -> list[Notice]:
        """What could not be told, and what was filled in."""
        out = []
        if self.unmerged:
            text = (
                "communicators that several processes print could not be told apart: each stands for itself, and operations that only they log may count twice"
            )
            out.append(
                Notice("ambiguous-communicator", "warning", text, "NCCL 2.16 or later prints an id (NCCL_DEBUG=INFO from the start of the job)", self.unmerged)
            )
        if self.doubtful:
            text = "process groups of a recorder could be any of several communicators of the same ranks; they are told apart by their operations"
            out.append(Notice("ambiguous-process-group", "info", text, "", self.doubtful))
        broken = sum(c.contradicted for c in comms)
        if broken:
            out.append(Notice("contradicting-communicator", "warning", "two processes claim the same rank of a communicator; neither is believed", "", broken))
        sizeless = sum(c.size is None for c in comms)
        if sizeless:
            text = "communicators whose size no line states are left out"
            out.append(Notice("communicator-without-size", "warning", text, "log from the start of the job, with NCCL_DEBUG=INFO", sizeless))
        filled = sum(c.completed for c in comms)
        if filled:
            text = "communicators whose processes were not all seen: their other ranks are those of the job in order, or of the group with the same ranks"
            out.append(Notice("completed-communicator", "info", text, "collect the logs of all ranks", filled))
        return out

    def _sorted_out(self) -> tuple[list[Row], ...]:
        identified: list[Row] = []
        recorded: list[Row] = []
        splits: list[Row] = []
        plain: list[Row] = []
        headless: list[Row] = []
        for row in self.rows:
            if row["comm_id"] is not None:
                identified.append(row)
            elif row["group_name"] is not None:
                recorded.append(row)
            elif row["parent"] is not None and row["parent"] != row["comm"]:
                splits.append(row)
            elif row["comm_rank"] is not None and row["size"] is not None and row["parent_pointer"] is None:
                plain.append(row)
            else:
                headless.append(row)
        return identified, recorded, splits, plain, headless

    def _new(self, rows: list[Row], origin: str, parent: Comm | None = None) -> Comm:
        comm = Comm(rows, origin, parent)
        for row in rows:
            self.of[_place(row)] = comm
        return comm

    def _alone(self, rows: Sequence[Row], origin: str, parent: Comm | None = None) -> list[Comm]:
        self.unmerged += len(rows) if len(rows) > 1 else 0
        return [self._new([row], origin, parent) for row in rows]

    def _by_id(self, rows: Sequence[Row]) -> list[Comm]:
        """One id is one communicator; where its lines differ in size, one for each size."""
        by_id: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            by_id[row["comm_id"]].append(row)
        out = []
        for _, same in sorted(by_id.items()):
            sizes = Counter(r["size"] for r in same if r["size"] is not None)
            usual = max(sizes, key=lambda s: (sizes[s], s), default=None)
            parts: dict[object, list[Row]] = defaultdict(list)
            for row in same:
                parts[row["size"] if row["size"] is not None else usual].append(row)
            out += [self._new(part, "comm-id") for _, part in sorted(parts.items(), key=lambda kv: str(kv[0]))]
        return out

    def _by_init(self, rows: Sequence[Row]) -> list[Comm]:
        """Communicators without an id: those that processes made as their n-th of one size, if their ranks complement each other."""
        launch = _launches(rows)
        count: Counter[tuple[object, ...]] = Counter()
        classes: dict[tuple[int, ...], list[Row]] = defaultdict(list)
        by_group: dict[tuple[object, ...], list[Row]] = defaultdict(list)
        for row in rows:
            where = (row["source_id"], row["part"])
            fits = self.known.fitting(row["size"], {row["comm_rank"]: row["rank"]}) if row["rank"] >= 0 and row["size"] != self.known.world_size else []
            if len(fits) == 1:
                count[(*where, fits[0])] += 1
                by_group[launch[where], fits[0], count[(*where, fits[0])]].append(row)
            else:
                count[(*where, row["size"])] += 1
                classes[launch[where], row["size"], count[(*where, row["size"])]].append(row)
        out = [self._new(same, "init-lines") for _, same in sorted(by_group.items(), key=lambda kv: str(kv[0]))]
        for (_, size, _), same in sorted(classes.items()):
            for part in self._complementary(size, same):
                out += [self._new(part, "init-lines")] if part else []
            out += self._alone([r for r in same if _place(r) not in self.of], "init-lines")
        return out

    def _complementary(self, size: int, rows: Sequence[Row]) -> list[list[Row]]:
        """Rows that must be one communicator: all its ranks, each once; of the size of the job any, since all ranks are in it."""
        world = size == self.known.world_size
        by_channels: dict[object, list[Row]] = defaultdict(list)
        for row in rows:
            by_channels[row["channels"]].append(row)
        for parts in ([list(rows)], [p for _, p in sorted(by_channels.items(), key=lambda kv: str(kv[0]))]):
            fit = [p for p in parts if len({r["comm_rank"] for r in p}) == len(p) and (world or (self.all_seen and len(p) == size))]
            if len(fit) == len(parts):
                return fit
        return []

    def _by_split(self, rows: Sequence[Row]) -> list[Comm]:
        """Splits without an id: ranks of one parent, one split of it, and one colour."""
        out: list[Comm] = []
        waiting = list(rows)
        while waiting:
            ready = [r for r in waiting if self._parent(r) is not None]
            if not ready:
                return out + self._alone(waiting, "split")
            rest = [r for r in waiting if self._parent(r) is None]
            out += self._splits_of(ready)
            waiting = rest
        return out

    def _parent(self, row: Row) -> Comm | None:
        return self.of.get((row["source_id"], row["part"], row["parent"]))

    def _splits_of(self, rows: Sequence[Row]) -> list[Comm]:
        nth: Counter[_Place] = Counter()
        found: dict[tuple[int, str, object, object], list[Row]] = defaultdict(list)
        parents: dict[int, Comm] = {}
        for row in rows:
            parent = self._parent(row)
            assert parent is not None
            place = (row["source_id"], row["part"], row["parent"])
            nth[place] += 1
            # NCCL 2.23 prints no number: the order of the splits of one parent stands for it.
            number = row["split"] if row["split"] is not None else ("order", nth[place])
            parents[id(parent)] = parent
            found[id(parent), row["function"] or "", number, row["color"]].append(row)
        out = []
        for (above, *_), same in found.items():
            sizes = {r["size"] for r in same if r["size"] is not None}
            trial = Comm(list(same), "split")
            crowded = bool(sizes) and len(trial.processes) > max(sizes)
            if len(sizes) > 1 or trial.contradicted or crowded:
                out += self._alone(same, "split", parents[above])
            else:
                out.append(self._new(list(same), "split", parents[above]))
        return out

    def _attach(self, rows: Sequence[Row], comms: list[Comm]) -> list[Comm]:
        """Communicators whose beginning the log lost: told by their size, if nothing else of that size could be meant."""
        per_process = Counter((process_of(r), r["size"]) for r in rows)
        new: dict[object, list[Row]] = defaultdict(list)
        alone = []
        for row in rows:
            size, process = row["size"], process_of(row)
            if size is None or per_process[process, size] > 1:
                alone.append(row)
                continue
            free = [c for c in comms if c.size == size and process not in c.processes and self._has_room(c, row)]
            fits = self.known.fitting(size, {}, {row["rank"]} if row["rank"] >= 0 else {-1}) if size != self.known.world_size else []
            if len(fits) == 1:
                free = [c for c in free if None in c.ranks or tuple(sorted(r for r in c.ranks if r is not None)) == fits[0]]
            if len(free) == 1:
                free[0].rows.append(row)
                self.of[_place(row)] = free[0]
            elif not free and (size == self.known.world_size or len(fits) == 1):
                new[size, fits[0] if len(fits) == 1 else None].append(row)
            else:
                alone.append(row)
        out = [self._new(same, "assumed") for _, same in sorted(new.items(), key=lambda kv: str(kv[0]))]
        self.unmerged += len(alone)
        out += [self._new([row], "assumed") for row in alone]
        for comm in [*comms, *out]:
            comm.settle(self.known)
        return out

    def _has_room(self, comm: Comm, row: Row) -> bool:
        """The process could be one of the communicator's that were not seen."""
        if len(comm.processes) >= (comm.size or 0):
            return False
        return row["rank"] < 0 or None in comm.ranks or row["rank"] in comm.ranks

    def _by_group(self, rows: Sequence[Row]) -> list[Comm]:
        """Process groups of recorders: those of the same members and description; names are no namespace over ranks."""
        nth: Counter[tuple[object, ...]] = Counter()
        found: dict[tuple[object, ...], list[Row]] = defaultdict(list)
        for row in rows:
            ranks = self.listed.get((row["source_id"], row["part"], row["group_name"]))
            if ranks is None and row["size"] is not None and row["size"] == self.known.world_size:
                ranks = tuple(range(row["size"]))
            key: tuple[object, ...] = (ranks, row["group_desc"]) if ranks is not None else (row["group_name"], row["group_desc"], row["size"])
            where = (row["source_id"], row["part"], *key)
            nth[where] += 1
            found[(*key, nth[where])].append(row)
        out = []
        for key, same in sorted(found.items(), key=lambda kv: str(kv[0])):
            comm = self._new(same, "process-group")
            comm.stated_ranks = key[0] if isinstance(key[0], tuple) else None
            comm.settle(self.known)
            out.append(comm)
        return out

    def _with_recorders(self, comms: list[Comm], recorded: list[Comm]) -> list[Comm]:
        """Adds process groups to the communicators of the same ranks, where there is one of each."""
        by_size: dict[int | None, list[Comm]] = defaultdict(list)
        for comm in comms:
            by_size[comm.size].append(comm)
        fits = {id(g): [c for c in by_size[g.size] if _compatible(c, g)] for g in recorded}
        wanted = Counter(id(c) for found in fits.values() for c in found)
        rest = []
        for group in recorded:
            found = fits[id(group)]
            if len(found) == 1 and wanted[id(found[0])] == 1:
                comm = found[0]
                comm.stated_ranks = group.stated_ranks
                comm.rows += group.rows
                for row in group.rows:
                    self.of[_place(row)] = comm
                comm.settle(self.known)
            else:
                self.doubtful += bool(found)
                rest.append(group)
        return comms + rest


def _compatible(comm: Comm, group: Comm) -> bool:
    ranks = group.ranks
    if None in ranks or comm.size != len(ranks):
        return False
    loose = comm.seen - set(comm.placed.values())
    return loose <= set(ranks) and all(have is None or have == want for have, want in zip(comm.ranks, ranks, strict=True)) and bool(comm.seen)


def _launches(rows: Sequence[Row]) -> dict[tuple[int, int], int]:
    """Number of the launch that a process belongs to: the n-th process of its rank."""
    places = sorted({(r["rank"], r["source_id"], r["part"]) for r in rows})
    count: Counter[int] = Counter()
    out = {}
    for rank, source, part in places:
        out[source, part] = count[rank] if rank >= 0 else 0
        count[rank] += 1
    return out


def _table(comms: Sequence[Comm], known: Known, names: Mapping[int, str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    def order(comm: Comm) -> tuple[object, ...]:
        return -(comm.size or 0), [r if r is not None else LARGEST for r in comm.ranks], comm.first("comm_id") or "", min(_place(r) for r in comm.rows)

    kept = sorted((c for c in comms if c.size is not None), key=order)
    key = {id(c): k for k, c in enumerate(kept)}
    group_of = {members: g for g, members in sorted(known.groups.items(), reverse=True)}
    records, places = [], []
    for k, comm in enumerate(kept):
        complete = tuple(sorted(r for r in comm.ranks if r is not None)) if None not in comm.ranks else None
        group = group_of.get(complete) if complete is not None else None
        desc = comm.first("group_desc") or comm.first("group_name") or (names.get(group) if group is not None else None)
        records.append(
            {
                "comm_key": k,
                "group_id": group,
                "comm_id": comm.first("comm_id"),
                "size": comm.size,
                "ranks": comm.ranks,
                "seen": len(comm.seen),
                "origin": comm.origin,
                "parent_key": key.get(id(comm.parent)) if comm.parent is not None else None,
                "nodes": comm.first("nodes"),
                "channels": comm.first("channels"),
                "version": comm.first("version"),
                "name": desc or f"{comm.size} ranks",
            }
        )
        spot = {r: p for p, r in enumerate(comm.ranks) if r is not None}
        places += [(*_place(r), k, r["comm_rank"] if r["comm_rank"] is not None else spot.get(r["rank"])) for r in comm.rows]
    table = JOB_COMMUNICATORS.conform(pl.DataFrame(records, schema=JOB_COMMUNICATORS.polars, orient="row"))
    return table, pl.DataFrame(places, schema=COMM_MAP, orient="row").sort("source_id", "part", "comm")
