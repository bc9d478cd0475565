"""How far each member of a group came that stands still: what recorders, logs and traces tell of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from tracelab.analysis import Tables
from tracelab.results import Confidence, Evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DEFAULT", "Standing", "Stuck", "complete", "known", "was_awaited"]

DEFAULT = frozenset({"default_pg", "default", "0", ""})
"""Names and descriptions of the group of all ranks."""
_QUOTED = 160
_AS_LATE = 3
"""A rank is absent that was recorded for so many times longer than it ever was behind, while the others had launched."""

Witness = Literal["recorder", "log", "trace"]


@dataclass
class Standing:
    """Where one rank stands in a group: operations handed to the library and ended, where known; `waits`: it reported that it waits.

    `witnesses`: what shows that it did not enter the operation that never ended.
    """

    entered: int | None = None
    completed: int | None = None
    waits: bool = False
    origin: str = ""
    witnesses: set[Witness] = field(default_factory=set)


@dataclass
class Stuck:
    """A group in which an operation never ended: its number (from 1), what it was, and how far each member came.

    `name`, `desc`: what the group is called by the framework and by the user; both empty: the group of all ranks.
    `most`: how sure that is at best: a watchdog gave up (proven), captures end with it (likely), or dumps show a standstill, which may pass.
    `of_capture`: numbers count from the start of the capture. `sizes`, `operations`: what ranks gave to that number.
    """

    name: str
    desc: str
    seq: int
    operation: str
    members: tuple[int, ...]
    waited_ns: int = 0
    most: Confidence = "proven"
    of_capture: bool = False
    sizes: dict[int, int] = field(default_factory=dict)
    operations: dict[int, str] = field(default_factory=dict)
    standing: dict[int, Standing] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)

    @property
    def group(self) -> str:
        """The group in words."""
        if self.desc:
            return f"{self.desc} (group {self.name})" if self.desc not in DEFAULT and self.name else self.desc
        return f"group {self.name}" if self.name not in DEFAULT else "the default group"

    def is_of(self, name: str | None, desc: str | None) -> bool:
        """Whether a row speaks of this group: many groups share a description, names tell them apart."""
        desc = known(desc)
        if desc in DEFAULT and (name or "") in DEFAULT:
            return self.desc in DEFAULT and self.name in DEFAULT
        if name and self.name:
            return name == self.name and (not desc or not self.desc or desc == self.desc)
        return bool(desc) and desc == self.desc

    def of(self, rank: int) -> Standing:
        """Where a member stands; one that nothing tells of stands nowhere."""
        return self.standing.setdefault(rank, Standing())

    @property
    def waiting(self) -> list[int]:
        """Members that reported that they wait, in order."""
        return [r for r in self.members if self.of(r).waits]


def known(desc: str | None) -> str:
    """A group's description; empty where the user gave none."""
    return "" if desc is None or desc.lower() in ("undefined", "") else desc


def complete(tables: Tables, stuck: Stuck) -> None:
    """Adds to `stuck` what recorders, logs and traces tell of its members."""
    _from_recorders(tables, stuck)
    _from_logs(tables, stuck)
    _from_traces(tables, stuck)


def was_awaited(own: NDArray[np.int64], others: NDArray[np.int64], until: int | None) -> bool:
    """Whether a rank that launched at `own` (ns) was recorded long enough, `until`, to launch the next operation, which the `others` did.

    `others`: rank × operation, one operation more than `own` has. False where the captures do not begin with the same operation.
    """
    if until is None or not len(own) or own[0] >= others[:, 1].min() or (len(own) > 1 and others[:, 0].max() >= own[1]):
        return False
    behind = int(np.max(own - others[:, :-1].min(0), initial=0))
    return until - int(others[:, -1].max()) > _AS_LATE * behind


def _from_recorders(tables: Tables, stuck: Stuck) -> None:
    rows = tables["comm_progress"].filter((pl.col("origin") == "flight-recorder") & pl.col("last_enqueued").is_not_null())
    for r in rows.with_columns(pl.coalesce("subject_rank", "rank").alias("subject_rank")).collect().iter_rows(named=True):
        if r["subject_rank"] in stuck.members and stuck.is_of(r["group_name"], r["group_desc"]):
            standing = stuck.of(r["subject_rank"])
            standing.entered, standing.completed, standing.origin = r["last_enqueued"], r["last_completed"], "flight recorder"
            if r["last_enqueued"] < stuck.seq:
                standing.witnesses.add("recorder")


def _from_logs(tables: Tables, stuck: Stuck) -> None:
    """Operations that NCCL logged, of the communicators with exactly the group's ranks; only where the log begins with the communicator.

    The library may count otherwise than the framework (an all-to-all is many sends to it, a coalesced operation several): lines are
    compared only where the ranks that wait logged as many as they handed over. A log that was cut, or holds no operation, tells nothing.
    """
    comms = tables["job_communicators"].filter(pl.col("ranks").is_not_null()).select("comm_key", "ranks").collect()
    keys = [key for key, ranks in comms.iter_rows() if None not in ranks and tuple(sorted(ranks)) == stuck.members]
    if len(keys) != 1:
        return  # several communicators of the same ranks: which one the group uses is not known
    of_comm = tables["communicators"].filter((pl.col("state") != "seen") & (pl.col("size") == len(stuck.members)))
    of_comm = of_comm.filter(pl.len().over("source_id", "part") == 1).select("source_id", "part", "comm", "rank")
    whole = tables["sources"].filter(~pl.col("truncated").fill_null(False)).select("source_id", "part")
    logged = tables["logged_collectives"].filter((pl.col("origin") == "coll-line") & ~pl.col("operation").cast(pl.String).is_in(["send", "recv"]))
    lines = of_comm.join(whole, on=["source_id", "part"], how="semi").join(
        logged.select("source_id", "part", "comm", "line"), on=["source_id", "part", "comm"], how="inner"
    )
    counts = lines.group_by("rank", "source_id").agg(pl.len().alias("ops"), pl.col("line").max()).sort("rank").collect()
    of_rank = {rank: (source, ops, line) for rank, source, ops, line in counts.iter_rows() if rank in stuck.members}
    waiting = [r for r in stuck.waiting if r in of_rank]
    exact = [r for r in waiting if stuck.of(r).completed is not None]
    least = min((of_rank[r][1] for r in waiting), default=0)
    if least < stuck.seq or any(of_rank[r][1] != stuck.of(r).entered for r in exact):
        return
    for rank, (source, ops, line) in of_rank.items():
        standing = stuck.of(rank)
        if standing.entered is None:
            standing.entered, standing.origin = ops, "log"
        if ops < stuck.seq and not standing.waits:  # fewer than the least of those that wait
            standing.witnesses.add("log")
            text = f"line {line}: the last of {ops} operations that rank {rank} logged in this communicator; number {stuck.seq} never follows"
            stuck.evidence.append(tables.evidence(source, rank, None, None, text))


def _from_traces(tables: Tables, stuck: Stuck) -> None:
    """Launched operations of the group, counted against those of the ranks that wait."""
    ranks = tables["ranks"].filter(~pl.col("truncated")).select("rank", "end_ns").collect()
    recorded_until = dict(ranks.drop_nulls().iter_rows())
    rows = tables["comm_records"].filter(pl.col("recorded_on") == "cpu_op").with_columns(pl.col("group_name", "group_desc").cast(pl.String))
    rows = rows.filter((pl.col("group_size") == len(stuck.members)) & pl.col("rank").is_in(list(recorded_until)))
    per_rank = rows.sort("ts_ns").group_by("rank", "group_name", "group_desc").agg(pl.col("ts_ns"), pl.col("source_id").last()).sort("rank").collect()
    mine = [r for r in per_rank.iter_rows(named=True) if r["rank"] in stuck.members and stuck.is_of(r["group_name"], r["group_desc"])]
    waiting = [r["ts_ns"] for r in mine if stuck.of(r["rank"]).waits]
    if len(waiting) < 2 or len({len(launches) for launches in waiting}) > 1:
        return
    launched = np.array(waiting)
    for r in mine:
        standing, ops = stuck.of(r["rank"]), len(r["ts_ns"])
        if standing.waits or ops >= launched.shape[1] or not was_awaited(np.array(r["ts_ns"]), launched[:, : ops + 1], recorded_until[r["rank"]]):
            continue
        standing.witnesses.add("trace")
        if standing.entered is None:
            standing.entered, standing.origin = stuck.seq - 1, "trace"
        text = f"rank {r['rank']} launches {ops} operations of {stuck.group} in the capture, those that wait {launched.shape[1]}: this is its last"
        stuck.evidence.append(tables.evidence(r["source_id"], r["rank"], None, r["ts_ns"][-1], text[:_QUOTED]))
