"""Groups with an operation that never ended: watchdogs that gave up, dumps and captures that show a standstill."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracelab.align.kernels import normalise_operation
from tracelab.analyses.hang_standing import DEFAULT, Stuck, complete, known, was_awaited
from tracelab.analysis import Tables
from tracelab.units import format_duration

__all__ = ["stuck_groups"]


def stuck_groups(tables: Tables, world: int) -> list[Stuck]:
    """Groups whose watchdogs gave up, or whose recorders hold operations that never ended, with all that is known of their members."""
    found = _from_watchdogs(tables, world) or _from_dumps(tables, world) or _from_captures(tables, world)
    for stuck in found.values():
        if stuck.of_capture:
            continue
        complete(tables, stuck)
    return [found[key] for key in sorted(found)]


def _members(tables: Tables, name: str | None, desc: str | None, reporters: set[int], world: int) -> tuple[int, ...]:
    """Members of a group as the job's tables list it; all ranks for the default group; else those that report."""
    if known(desc).lower() in DEFAULT and (name or "0") in DEFAULT:
        return tuple(range(world))
    listed = tables["process_groups"].filter(pl.col("group_ranks").is_not_null() & (pl.col("group_name") == (name or "")))
    for ranks, text in listed.select("group_ranks", "group_desc").collect().iter_rows():
        if reporters <= set(ranks) and (desc is None or text is None or text == desc):
            return tuple(sorted(ranks))
    groups = tables["groups"].filter(pl.col("ranks").is_not_null()).select("ranks", "name").collect()
    fitting = [tuple(sorted(ranks)) for ranks, text in groups.iter_rows() if reporters <= set(ranks) and desc and desc in str(text)]
    return fitting[0] if len(fitting) == 1 else tuple(sorted(reporters))


def _from_watchdogs(tables: Tables, world: int) -> dict[tuple[str, str], Stuck]:
    alone = tables["sources"].filter(pl.len().over("source_id") == 1).select("source_id", pl.lit(True).alias("alone"))
    said = tables["comm_progress"].filter(pl.col("origin") == "watchdog").join(alone, on="source_id", how="left")
    # a line that names no rank of the job is of the process whose file it is, where the file is of one
    said = said.with_columns(pl.coalesce("subject_rank", pl.when("alone").then("rank")).alias("subject_rank"))
    watchdogs = said.filter(pl.col("subject_rank").is_between(0, world - 1))
    rows = watchdogs.sort("source_id", "line").collect()
    found: dict[tuple[str, str], Stuck] = {}
    given: dict[tuple[str, str], list[tuple[int, int, str | None, int | None]]] = {}
    gave_up = rows.filter((pl.col("status") == "timed-out") & pl.col("timed_out").is_not_null())
    # The line that names the operation seldom names the group; the one that follows it on the same rank does.
    naming = rows.filter(pl.col("group_desc").is_not_null() | pl.col("group_name").is_not_null())
    names = {(r["subject_rank"], r["timed_out"]): (r["group_name"], r["group_desc"]) for r in naming.iter_rows(named=True)}
    for r in gave_up.iter_rows(named=True):
        name, desc = r["group_name"], r["group_desc"]
        if name is None and desc is None:
            name, desc = names.get((r["subject_rank"], r["timed_out"]), (None, None))
        key = (name or "", known(desc))
        stuck = found.setdefault(key, Stuck(*key, r["timed_out"], r["operation"] or "operation", ()))
        if r["timed_out"] < stuck.seq:
            stuck.seq, stuck.operation = r["timed_out"], r["operation"] or stuck.operation
        standing = stuck.of(r["subject_rank"])
        standing.waits, standing.origin = True, "watchdog"
        standing.entered = max(standing.entered or 0, r["timed_out"])
        stuck.waited_ns = max(stuck.waited_ns, r["waited_ns"] or 0)
        if len(stuck.evidence) < 2 and r["waited_ns"]:
            waited = f"rank {r['subject_rank']} waited {format_duration(r['waited_ns'])} for {stuck.operation} number {r['timed_out']}"
            stuck.evidence.append(tables.evidence(r["source_id"], r["subject_rank"], r["source_ts_ns"], r["ts_ns"], f"line {r['line']}: {waited}"))
        given.setdefault(key, []).append((r["subject_rank"], r["timed_out"], r["operation"], r["in_elements"]))
    for key, works in given.items():
        for rank, seq, operation, elements in works:
            if seq == found[key].seq and operation:
                found[key].operations[rank] = operation
            if seq == found[key].seq and elements is not None:
                found[key].sizes[rank] = elements
    for r in rows.filter(pl.col("last_enqueued").is_not_null()).iter_rows(named=True):
        named = found.get((r["group_name"] or "", known(r["group_desc"])))
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
        operation = _recorded_operation(tables, seq, waiting["source_id"].to_list())
        key = (str(name or ""), known(desc and str(desc)))
        stuck = found[key] = Stuck(*key, seq, operation, members, most="possible")
        for r in waiting.iter_rows(named=True):
            standing = stuck.of(r["subject_rank"])
            standing.waits, standing.entered, standing.completed, standing.origin = True, r["last_enqueued"], r["last_completed"], "flight recorder"
        for r in group.filter(pl.col("last_enqueued") < seq).iter_rows(named=True):
            text = f"rank {r['subject_rank']} enqueued {r['last_enqueued']} operations of {stuck.group}; the others wait in number {seq}"
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
        absent = [r for r in idle.iter_rows(named=True) if was_awaited(np.array(r["ts_ns"]), first, recorded_until.get(r["rank"]))]
        if not absent:
            continue
        members = _members(tables, name and str(name), desc and str(desc), set(group["rank"]), world)
        seq = int(group["ran"][0]) + 1
        operation = normalise_operation(str(waiting["operation"][0])) or "operation"
        called = (str(name or ""), known(desc and str(desc)))
        stuck = found[called] = Stuck(*called, seq, operation, members, most="likely", of_capture=True)
        for r in [*waiting.iter_rows(named=True), *absent]:
            standing = stuck.of(r["rank"])
            standing.waits, standing.entered, standing.completed, standing.origin = r["launched"] > r["ran"], r["launched"], r["ran"], "trace"
        for r in absent:
            after = format_duration(recorded_until[r["rank"]] - int(first[:, -1].max()))
            own = f"the last of {r['launched']} operations that rank {r['rank']} launches in {stuck.group}"
            text = f"{own}; its capture goes on for {after} after the others launch the next"
            stuck.evidence.append(tables.evidence(r["source_id"], r["rank"], None, r["ts_ns"][-1], text))
    return found


def _recorded_operation(tables: Tables, seq: int, sources: list[int]) -> str:
    rows = tables["logged_collectives"].filter((pl.col("origin") == "flight-recorder") & (pl.col("seq") == seq) & pl.col("source_id").is_in(sources))
    names = rows.filter(pl.col("state") != "completed").select(pl.col("operation").cast(pl.String)).unique().collect()["operation"].to_list()
    return str(names[0]) if len(names) == 1 else "operation"
