"""How far each rank came in each group: from watchdogs, recorders, logs and traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracelab.align.kernels import normalise_operation
from tracelab.analysis import Tables
from tracelab.results import Confidence, Evidence
from tracelab.units import format_duration

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Standing", "Stuck", "stuck_groups"]

_QUOTED = 160
_DEFAULT = frozenset({"default_pg", "default", "0", ""})


@dataclass
class Standing:
    """Where one rank stands in a group: operations handed to the library and ended, where known; `waits`: it reported that it waits."""

    entered: int | None = None
    completed: int | None = None
    waits: bool = False
    origin: str = ""


@dataclass
class Stuck:
    """A group in which an operation never ended: its number (from 1), what it was, and how far each member came.

    `most`: how sure that is at best: a watchdog gave up (proven), captures end with it (likely), or dumps show a standstill, which may pass.
    `of_capture`: numbers count from the start of the capture.
    """

    group: str
    seq: int
    operation: str
    members: tuple[int, ...]
    waited_ns: int = 0
    most: Confidence = "proven"
    of_capture: bool = False
    sizes: dict[int, int] = field(default_factory=dict)
    standing: dict[int, Standing] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)

    def of(self, rank: int) -> Standing:
        """Where a member stands; one that nothing tells of stands nowhere."""
        return self.standing.setdefault(rank, Standing())


def stuck_groups(tables: Tables, world: int) -> list[Stuck]:
    """Groups whose watchdogs gave up, or whose recorders hold operations that never ended, with all that is known of their members."""
    found = _from_watchdogs(tables, world) or _from_dumps(tables, world) or _from_captures(tables, world)
    for stuck in found.values():
        if stuck.of_capture:
            continue
        _from_recorders(tables, stuck)
        _from_logs(tables, stuck)
        _from_traces(tables, stuck)
    return [found[key] for key in sorted(found)]


def _members(tables: Tables, name: str | None, desc: str | None, reporters: set[int], world: int) -> tuple[int, ...]:
    """Members of a group as the job's tables list it; all ranks for the default group; else those that report."""
    if (desc or "").lower() in _DEFAULT and (name or "0") in _DEFAULT:
        return tuple(range(world))
    listed = tables["process_groups"].filter(pl.col("group_ranks").is_not_null() & (pl.col("group_name") == (name or "")))
    for ranks, text in listed.select("group_ranks", "group_desc").collect().iter_rows():
        if reporters <= set(ranks) and (desc is None or text is None or text == desc):
            return tuple(sorted(ranks))
    groups = tables["groups"].filter(pl.col("ranks").is_not_null()).select("ranks", "name").collect()
    fitting = [tuple(sorted(ranks)) for ranks, text in groups.iter_rows() if reporters <= set(ranks) and desc and desc in str(text)]
    return fitting[0] if len(fitting) == 1 else tuple(sorted(reporters))


def _from_watchdogs(tables: Tables, world: int) -> dict[tuple[str, str], Stuck]:
    watchdogs = tables["comm_progress"].filter((pl.col("origin") == "watchdog") & pl.col("subject_rank").is_between(0, world - 1))
    rows = watchdogs.sort("source_id", "line").collect()
    found: dict[tuple[str, str], Stuck] = {}
    gave_up = rows.filter((pl.col("status") == "timed-out") & pl.col("timed_out").is_not_null())
    # The line that names the operation seldom names the group; the one that follows it on the same rank does.
    naming = rows.filter(pl.col("group_desc").is_not_null() | pl.col("group_name").is_not_null())
    names = {(r["subject_rank"], r["timed_out"]): (r["group_name"], r["group_desc"]) for r in naming.iter_rows(named=True)}
    for r in gave_up.iter_rows(named=True):
        name, desc = r["group_name"], r["group_desc"]
        if name is None and desc is None:
            name, desc = names.get((r["subject_rank"], r["timed_out"]), (None, None))
        key = (name or "", desc or "")
        stuck = found.setdefault(key, Stuck(desc or (f"group {name}" if name else "the default group"), r["timed_out"], r["operation"] or "operation", ()))
        if r["timed_out"] < stuck.seq:
            stuck.seq, stuck.operation = r["timed_out"], r["operation"] or stuck.operation
        standing = stuck.of(r["subject_rank"])
        standing.waits, standing.origin = True, "watchdog"
        standing.entered = max(standing.entered or 0, r["timed_out"])
        stuck.waited_ns = max(stuck.waited_ns, r["waited_ns"] or 0)
        if r["in_elements"] is not None and r["timed_out"] == stuck.seq:
            stuck.sizes[r["subject_rank"]] = r["in_elements"]
        if len(stuck.evidence) < 2 and r["waited_ns"]:
            waited = f"rank {r['subject_rank']} waited {format_duration(r['waited_ns'])} for {stuck.operation} number {r['timed_out']}"
            stuck.evidence.append(tables.evidence(r["source_id"], r["subject_rank"], r["source_ts_ns"], r["ts_ns"], f"line {r['line']}: {waited}"))
    for r in rows.filter(pl.col("last_enqueued").is_not_null()).iter_rows(named=True):
        named = found.get((r["group_name"] or "", r["group_desc"] or ""))
        if named is not None:
            standing = named.of(r["subject_rank"])
            standing.entered, standing.completed = max(standing.entered or 0, r["last_enqueued"]), r["last_completed"]
            standing.origin = standing.origin or "watchdog"
    for (name, desc), stuck in found.items():
        stuck.members = _members(tables, name, desc, set(stuck.standing), world)
    return found


def _from_dumps(tables: Tables, world: int) -> dict[tuple[str, str], Stuck]:
    """Where no watchdog speaks: groups that stand still in the dumps of all their ranks, some of which did not enter the next operation.

    A dump of a job that runs holds operations on their way too; only that every rank ended the same last one tells a standstill.
    """
    rank = pl.coalesce("subject_rank", "rank")
    rows = tables["comm_progress"].filter((pl.col("origin") == "flight-recorder") & pl.col("last_enqueued").is_not_null() & (rank >= 0))
    frame = rows.with_columns(rank.alias("subject_rank")).sort("source_id", "line").collect()
    found: dict[tuple[str, str], Stuck] = {}
    for (name, desc), group in frame.group_by("group_name", "group_desc", maintain_order=True):
        ended = group["last_completed"].drop_nulls().unique().to_list()
        seen = set(group["subject_rank"])
        members = _members(tables, name and str(name), desc and str(desc), seen, world)
        if len(ended) != 1 or len(seen) < 3 or seen != set(members) or group["last_completed"].null_count():
            continue
        seq = int(ended[0]) + 1
        waiting = group.filter(pl.col("last_enqueued") >= seq)
        if waiting.height < 2 or waiting.height == group.height:
            continue
        label = str(desc or "") or (f"group {name}" if name else "the default group")
        operation = _recorded_operation(tables, seq, waiting["source_id"].to_list())
        stuck = found.setdefault((str(name or ""), str(desc or "")), Stuck(label, seq, operation, members, most="possible"))
        for r in waiting.iter_rows(named=True):
            standing = stuck.of(r["subject_rank"])
            standing.waits, standing.entered, standing.completed, standing.origin = True, r["last_enqueued"], r["last_completed"], "flight recorder"
        for r in group.filter(pl.col("last_enqueued") < seq).iter_rows(named=True):
            text = f"rank {r['subject_rank']} enqueued {r['last_enqueued']} operations of {label}; the others wait in number {seq}"
            stuck.evidence.append(tables.evidence(r["source_id"], r["subject_rank"], r["source_ts_ns"], r["ts_ns"], text))
    return found


def _from_captures(tables: Tables, world: int) -> dict[tuple[str, str], Stuck]:
    """Where nothing else speaks: captures that end while operations of a group, launched by some ranks, never ran, and others did not launch them.

    A capture that merely stops early ends with nothing launched in vain; one that stops in step with the others has launched as
    much; one that stops a little before the others has had no time to launch more, so a rank counts as absent only where its
    capture goes on for much longer after the others' launch than it ever was late.
    """
    records = tables["comm_records"].filter((pl.col("recorded_on") == "cpu_op") & (pl.col("rank") >= 0))
    if records.select((pl.col("external_id").is_null() | pl.col("group_size").is_null()).any()).collect().item():
        return {}
    ran = tables["gpu_spans"].filter(pl.col("kind") == "kernel").select("source_id", "part", "external_id").unique()
    key = ["source_id", "part", "external_id"]
    rows = records.join(ran.with_columns(pl.lit(1).alias("ran")), on=key, how="left").with_columns(
        pl.col("group_name", "group_desc", "operation").cast(pl.String)
    )
    counts = (
        rows.sort("ts_ns")
        .group_by("group_name", "group_desc", "group_size", "rank")
        .agg(
            pl.len().alias("launched"),
            pl.col("ran").count().alias("ran"),
            pl.col("operation").filter(pl.col("ran").is_null()).first().alias("operation"),
            pl.col("ts_ns"),
            pl.col("source_id").last(),
        )
    )
    ranks = tables["ranks"].select("rank", "truncated", "end_ns").collect()
    cut = ranks.filter("truncated")["rank"].to_list()
    recorded_until = dict(ranks.drop_nulls("end_ns").select("rank", "end_ns").iter_rows())
    whole = counts.filter(~pl.col("rank").is_in(cut)).sort("rank").collect()
    found: dict[tuple[str, str], Stuck] = {}
    for (name, desc, size), group in whole.group_by("group_name", "group_desc", "group_size", maintain_order=True):
        waiting, idle = group.filter(pl.col("launched") > pl.col("ran")), group.filter(pl.col("launched") == pl.col("ran"))
        one_end = group["ran"].n_unique() == 1 and waiting["launched"].n_unique() == 1
        if waiting.height < 2 or not idle.height or not one_end or group.height < int(str(size)) - len(cut):
            continue
        first = np.array([launches[: idle["launched"][0] + 1] for launches in waiting["ts_ns"]])  # waiting ranks × operations
        absent = [r for r in idle.iter_rows(named=True) if _was_awaited(np.array(r["ts_ns"]), first, recorded_until.get(r["rank"]))]
        if not absent:
            continue
        members = _members(tables, name and str(name), desc and str(desc), set(group["rank"]), world)
        seq = int(group["ran"][0]) + 1
        label = str(desc or "") or (f"group {name}" if name else "the default group")
        operation = normalise_operation(str(waiting["operation"][0])) or "operation"
        stuck = found.setdefault((str(name or ""), str(desc or "")), Stuck(label, seq, operation, members, most="likely", of_capture=True))
        for r in [*waiting.iter_rows(named=True), *absent]:
            standing = stuck.of(r["rank"])
            standing.waits, standing.entered, standing.completed, standing.origin = r["launched"] > r["ran"], r["launched"], r["ran"], "trace"
        for r in absent:
            after = format_duration(recorded_until[r["rank"]] - int(first[:, -1].max()))
            own = f"the last of {r['launched']} operations that rank {r['rank']} launches in {label}"
            text = f"{own}; its capture goes on for {after} after the others launch the next"
            stuck.evidence.append(tables.evidence(r["source_id"], r["rank"], None, r["ts_ns"][-1], text))
    return found


_AS_LATE = 3
"""A rank is absent that was recorded for so many times longer than it ever was behind, while the others had launched."""


def _was_awaited(own: NDArray[np.int64], others: NDArray[np.int64], until: int | None) -> bool:
    """Whether a rank that launched at `own` (ns) was recorded long enough, `until`, to launch the last of what the `others` (rank × operation) launched."""
    behind = int(np.max(own - others[:, :-1].min(0), initial=0))
    return until is not None and until - int(others[:, -1].max()) > _AS_LATE * behind


def _recorded_operation(tables: Tables, seq: int, sources: list[int]) -> str:
    rows = tables["logged_collectives"].filter((pl.col("origin") == "flight-recorder") & (pl.col("seq") == seq) & pl.col("source_id").is_in(sources))
    names = rows.filter(pl.col("state") != "completed").select(pl.col("operation").cast(pl.String)).unique().collect()["operation"].to_list()
    return str(names[0]) if len(names) == 1 else "operation"


def _from_recorders(tables: Tables, stuck: Stuck) -> None:
    rows = tables["comm_progress"].filter((pl.col("origin") == "flight-recorder") & pl.col("last_enqueued").is_not_null())
    for r in rows.with_columns(pl.coalesce("subject_rank", "rank").alias("subject_rank")).collect().iter_rows(named=True):
        if r["subject_rank"] in stuck.members and _same_group(stuck, r["group_name"], r["group_desc"]):
            standing = stuck.of(r["subject_rank"])
            standing.entered, standing.completed, standing.origin = r["last_enqueued"], r["last_completed"], "flight recorder"


def _same_group(stuck: Stuck, name: str | None, desc: str | None) -> bool:
    return stuck.group in {desc, f"group {name}"} or (stuck.group == "the default group" and (desc or "").lower() in _DEFAULT)


def _from_logs(tables: Tables, stuck: Stuck) -> None:
    """Operations that NCCL logged, of the communicators with exactly the group's ranks; only where the log begins with the communicator."""
    comms = tables["job_communicators"].filter(pl.col("ranks").is_not_null()).select("comm_key", "ranks").collect()
    keys = [key for key, ranks in comms.iter_rows() if None not in ranks and tuple(sorted(ranks)) == stuck.members]
    if len(keys) != 1:
        return  # several communicators of the same ranks: which one the group uses is not known
    of_comm = tables["communicators"].filter((pl.col("state") != "seen") & (pl.col("size") == len(stuck.members)))
    of_comm = of_comm.filter(pl.len().over("source_id", "part") == 1).select("source_id", "part", "comm", "rank")
    logged = tables["logged_collectives"].filter((pl.col("origin") == "coll-line") & ~pl.col("operation").cast(pl.String).is_in(["send", "recv"]))
    lines = of_comm.join(logged.select("source_id", "part", "comm", "line"), on=["source_id", "part", "comm"], how="left")
    counts = lines.group_by("rank", "source_id").agg(pl.col("line").count().alias("ops"), pl.col("line").max()).sort("rank").collect()
    if not counts["ops"].sum():
        return
    for rank, source, ops, line in counts.iter_rows():
        if rank not in stuck.members:
            continue
        standing = stuck.of(rank)
        if standing.entered is None:
            standing.entered, standing.origin = ops, "log"
        if standing.entered < stuck.seq:
            text = f"line {line}: the last of {ops} operations that rank {rank} logged in this communicator; number {stuck.seq} never follows"
            stuck.evidence.append(tables.evidence(source, rank, None, None, text if line is not None else f"rank {rank} logged no operation"))


def _from_traces(tables: Tables, stuck: Stuck) -> None:
    """Ranks that nothing else tells of: launched operations of the group, counted against those of the ranks that wait."""
    truncated = set(tables["ranks"].filter(pl.col("truncated")).select("rank").collect()["rank"])
    rows = tables["comm_records"].filter(pl.col("recorded_on") == "cpu_op").with_columns(pl.col("group_name", "group_desc").cast(pl.String))
    rows = rows.filter(pl.col("group_size") == len(stuck.members)) if len(stuck.members) else rows
    counts = rows.group_by("rank", "group_name", "group_desc").agg(pl.len().alias("ops"), pl.col("ts_ns").max(), pl.col("source_id").last()).collect()
    mine = [r for r in counts.iter_rows(named=True) if r["rank"] in stuck.members and _same_group(stuck, r["group_name"], r["group_desc"])]
    waiting = [r["ops"] for r in mine if stuck.of(r["rank"]).waits and r["rank"] not in truncated]
    if len(waiting) < 2 or len(set(waiting)) > 1:
        return
    for r in mine:
        standing = stuck.of(r["rank"])
        if standing.entered is None and r["rank"] not in truncated and r["ops"] < waiting[0]:
            standing.entered, standing.origin = stuck.seq - 1, "trace"
            text = f"rank {r['rank']} launches {r['ops']} operations of {stuck.group} in the capture, those that wait {waiting[0]}: this is its last"
            stuck.evidence.append(tables.evidence(r["source_id"], r["rank"], None, r["ts_ns"], text[:_QUOTED]))
