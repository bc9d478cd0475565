"""One job seen twice: by its traces and by the logs of the library. Its operations must count once, with what each side knows."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import polars as pl
import pytest

import tracelab
from tests.builders.kineto_writer import Job, write_job

JOB = Job(world=4, hosts=2, steps=3, seed=3, generation="2025", clock_offsets_ns=[0, 2_000_000])
GROUPS = ([0, 1, 2, 3], [0, 1], [2, 3], [0, 2], [1, 3])
NAMES = {"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter"}
BEFORE, AFTER = 2, 3
"""Operations of each group that the log holds before and after the captured ones."""
CHOICE = {"AllReduce": (0, 0, "TREE", "LL"), "AllGather": (1, 2, "RING", "SIMPLE"), "ReduceScatter": (1, 1, "RING", "LL128")}


class Case(NamedTuple):
    truth: dict[str, Any]
    run: tracelab.Run


def _calls(truth: dict[str, Any], group: list[int]) -> list[tuple[str, int]]:
    """Name and full size of the operations of a group, as the job issued them, with some before and after."""
    mine = [(NAMES[c["operation"]], c["bytes"]) for c in sorted(truth["collectives"], key=lambda c: min(c["start_ns"].values())) if c["group"] == group]
    return [("AllReduce", 512)] * BEFORE + mine + [("AllReduce", 1024)] * AFTER


def _log(truth: dict[str, Any], rank: int) -> str:
    host, pid, device = truth["hosts"][str(rank)], 4_000 + rank, rank % 2
    lines = ["NCCL version 2.21.5+cuda12.4"]
    for number, group in enumerate(GROUPS):
        if rank not in group:
            continue
        at, size = group.index(rank), len(group)
        pointer = f"0x7f00{number}a0"  # the same in every process
        place = f"rank {at} nranks {size} cudaDev {device} nvmlDev {device} busId {device + 1}b000"
        say = f"ncclCommInitRank comm {pointer} {place} commId 0x{number + 1}{min(group)}f"
        lines += [f"{say} - Init START"]
        lines += ["2 coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 1 p2p channels per peer", f"{say} - Init COMPLETE"]
    for number, group in enumerate(GROUPS):
        if rank not in group:
            continue
        for n, (name, size) in enumerate(_calls(truth, group)):
            count = size // 4 // (len(group) if name != "AllReduce" else 1)
            call = f"sendbuff 0x10 recvbuff 0x20 count {count} datatype 7 op 0 root 0 comm 0x7f00{number}a0 [nranks={len(group)}] stream 0x30"
            lines.append(f"{name}: opCount {n:x} {call}")
            if rank == group[0]:
                algorithm, protocol, *_ = CHOICE[name]
                lines.append(f"{size} Bytes -> Algo {algorithm} proto {protocol} time 31.500000")
    return "".join(f"{host}:{pid}:{pid} [{device}] NCCL INFO {text}\n" for text in lines)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("both")
    truth = write_job(folder, JOB)
    for rank in range(JOB.world):
        (folder / f"nccl.{rank}.log").write_text(_log(truth, rank))
    return Case(truth, tracelab.open(folder))


def _operations(case: Case) -> pl.DataFrame:
    return case.run.tables["operations"].with_columns(pl.col("operation", "algorithm", "protocol").cast(pl.String)).collect()


def test_every_operation_counts_once(case: Case) -> None:
    origins = Counter(_operations(case)["origin"])
    assert origins == {"both": len(case.truth["collectives"]), "log": len(GROUPS) * (BEFORE + AFTER)}


def test_communicators_are_told_apart_though_all_print_one_pointer(case: Case) -> None:
    comms = case.run.tables["job_communicators"].join(case.run.tables["groups"].select("group_id", group_ranks="ranks"), on="group_id").collect()
    assert sorted(comms["ranks"].to_list()) == sorted(GROUPS)
    assert comms["ranks"].to_list() == comms["group_ranks"].to_list()


def test_an_operation_has_the_traces_times_and_the_logs_algorithm(case: Case) -> None:
    groups = case.run.tables["groups"].select("group_id", "ranks").collect()
    found = _operations(case).filter(pl.col("origin") == "both").join(groups, on="group_id").sort("start_ns")
    for group in GROUPS:
        truth = sorted((c for c in case.truth["collectives"] if c["group"] == group), key=lambda c: min(c["start_ns"].values()))
        mine = [r for r in found.iter_rows(named=True) if r["ranks"] == group]
        assert [(r["operation"], r["bytes"], r["step"]) for r in mine] == [(c["operation"], c["bytes"], c["step"]) for c in truth]
        assert [(r["algorithm"], r["protocol"]) for r in mine] == [CHOICE[NAMES[c["operation"]]][2:] for c in truth]
        # Both clocks are off by up to a millisecond in one direction each: only lengths compare.
        starts = [r["start_ns"] - mine[0]["start_ns"] for r in mine]
        expected = [min(c["start_ns"].values()) - min(truth[0]["start_ns"].values()) for c in truth]
        assert max(abs(a - b) for a, b in zip(starts, expected, strict=True)) < 20_000


def test_operations_outside_the_capture_have_no_times(case: Case) -> None:
    rest = _operations(case).filter(pl.col("origin") == "log")
    assert Counter(rest["bytes"]) == {512: len(GROUPS) * BEFORE, 1024: len(GROUPS) * AFTER}
    assert rest["start_ns"].null_count() == rest.height
    assert rest["algorithm"].to_list() == ["TREE"] * rest.height


def test_bytes_of_the_capture_are_those_of_its_operations(case: Case) -> None:
    sums = dict(case.run.tables["traffic"].group_by(pl.col("window").cast(pl.String)).agg(pl.col("bytes").sum()).collect().iter_rows())
    factor = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
    assert sums["capture"] == sum(factor[c["operation"]] * (len(c["group"]) - 1) * c["bytes"] for c in case.truth["collectives"])
    assert sums["log"] == sum(2 * (len(g) - 1) * (BEFORE * 512 + AFTER * 1024) for g in GROUPS)
