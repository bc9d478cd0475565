from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.comms import Comms, Trace, comm, group, join, listed, logged, merge, message
from tracelab.traffic.traced import algorithm_of

WORLD = [0, 1, 2, 3]
GROUPS = [group(0, WORLD)]
AR, AG, RS = "all_reduce", "all_gather", "reduce_scatter"
STEP = [(AG, 4000), (AG, 8000), (AR, 64), (RS, 8000), (RS, 4000), (AR, 1000)]


def world(number: int = 0, ident: str = "0x1") -> Comms:
    return merge([comm(r, number, r, 4, ident) for r in WORLD], 4, GROUPS)


def traced(ops: list[tuple[str, int]], start: int = 1000, **more: Any) -> Trace:
    out = Trace()
    for n, (operation, size) in enumerate(ops):
        out.add(operation, size, WORLD, 0, start + 10 * n, **more)
    return out


def origins(table: pl.DataFrame) -> Counter[str]:
    return Counter(table["origin"].to_list())


def test_every_rank_logs_and_shows_the_same_operation_once() -> None:
    ops = STEP * 3
    lines = [row for r in WORLD for row in logged(r, 0, ops, 4)]
    table, codes = join(world(), lines, traced(ops[6:12]), GROUPS)
    assert origins(table) == {"both": 6, "log": 12}
    assert Counter(zip(table["operation"].to_list(), table["bytes"].to_list(), strict=True)) == Counter(ops)
    assert codes == set()
    both = table.filter(pl.col("origin") == "both")
    assert both["match_id"].to_list() == list(range(6))
    assert both["start_ns"].to_list() == [1000 + 10 * n for n in range(6)]
    assert both["step"].to_list() == [10] * 6
    assert table.filter(pl.col("origin") == "log")["start_ns"].null_count() == 12
    assert table["group_id"].to_list() == [0] * 18
    assert table["size"].to_list() == [4] * 18


def test_the_first_rank_of_the_communicator_says_how() -> None:
    lines = logged(0, 0, STEP, 4, algorithm="TREE", protocol="LL", channel_first=0, channel_last=3)
    # Rank 0's log lost its end: rank 2 tells how many there were, rank 0 how the first ones ran.
    lines = lines[:4] + logged(2, 0, STEP, 4)
    table, _ = join(world(), lines, traced(STEP, name="ncclDevKernel_AllReduce_Sum_f32_RING_SIMPLE(int)"), GROUPS)
    assert table.height == 6
    assert table["algorithm"].cast(pl.String).to_list() == ["TREE"] * 4 + ["RING"] * 2
    assert table["protocol"].cast(pl.String).to_list() == ["LL"] * 4 + ["SIMPLE"] * 2
    assert table["algorithm_origin"].to_list() == ["log"] * 4 + ["name"] * 2
    assert table["channel_last"].to_list() == [3] * 4 + [None] * 2


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ("RING", "LL")),
        ("ncclKernel_AllReduce_TREE_LL128_Sum_half(ncclDevComm*, unsigned long)", ("TREE", "LL128")),
        ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", ("RING", "LL")),
        ("ncclDevKernel_AllReduce_Sum_f32_NVLS_TREE_SIMPLE", ("NVLS_TREE", "SIMPLE")),
        ("ncclDevKernel_AllGather_PAT_SIMPLE", ("PAT", "SIMPLE")),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_COLLNET_DIRECT_SIMPLE", ("COLLNET_DIRECT", "SIMPLE")),
        ("ncclSymkDevKernel_AllGather_LL(int)", ("SYMMETRIC", None)),
        ("ncclDevKernel_SendRecv(ncclDevComm*)", (None, None)),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", (None, None)),
    ],
)
def test_kernel_names_hint_at_the_algorithm(name: str, want: tuple[str | None, str | None]) -> None:
    assert algorithm_of(name) == want


def test_traces_alone() -> None:
    table, codes = join(merge([], 4), [], traced(STEP), GROUPS)
    assert origins(table) == {"trace": 6}
    assert table["comm_key"].null_count() == 6
    assert table["operation_id"].to_list() == list(range(6))
    assert codes == set()


def test_logs_alone() -> None:
    table, _ = join(world(), [row for r in WORLD for row in logged(r, 0, STEP, 4)], Trace(), GROUPS)
    assert origins(table) == {"log": 6}
    assert table["bytes"].to_list() == [size for _, size in STEP]


def test_unmatched_rows_count_as_often_as_the_rank_with_most() -> None:
    trace = Trace()
    for n in range(3):
        trace.add(AR, 64, [0], 0, 100 + n, matched=False)
    for n in range(5):
        trace.add(AR, 64, [1], 0, 200 + n, matched=False)
    trace.add(AR, 128, [2], 0, 300, matched=False)
    table, _ = join(merge([], 4), [], trace, GROUPS)
    assert Counter(table["bytes"].to_list()) == {64: 5, 128: 1}
    assert table["match_id"].null_count() == 6


def test_the_longest_log_counts_and_ranks_that_died_early_add_nothing() -> None:
    ops = STEP * 4
    lines = [row for r, n in enumerate((20, 24, 11, 3)) for row in logged(r, 0, ops[:n], 4)]
    table, _ = join(world(), lines, Trace(), GROUPS)
    assert table.height == 24
    assert table["source_id"].unique().to_list() == [1]


def test_a_lost_head_and_a_lost_end_are_put_together() -> None:
    ops = [(AR, 4 * n) for n in range(1, 41)]
    lines = logged(0, 0, ops[:25], 4) + logged(1, 0, ops[15:], 4)
    table, _ = join(world(), lines, Trace(), GROUPS)
    assert sorted(table["bytes"].to_list()) == [size for _, size in ops]


def test_numbers_of_equal_operations_put_logs_together() -> None:
    ops = [(AR, 64)] * 40
    lines = logged(0, 0, ops[:25], 4) + logged(1, 0, ops[:25], 4)
    for n, row in enumerate(lines):
        row["op_count"] = n % 25 + (15 if row["rank"] else 0)
    assert join(world(), lines, Trace(), GROUPS)[0].height == 40


def test_frozen_numbers_say_nothing() -> None:
    lines = logged(0, 0, [(AR, 64)] * 25, 4, op_count=0) + logged(1, 0, [(AR, 64)] * 24, 4, op_count=0)
    assert join(world(), lines, Trace(), GROUPS)[0].height == 25


def test_a_line_lost_in_the_middle_is_taken_from_another_rank() -> None:
    ops = [(AR, 4 * n) for n in range(1, 31)]
    lines = logged(0, 0, ops[:10] + ops[11:], 4) + logged(1, 0, ops[:20] + ops[22:], 4)
    table, _ = join(world(), lines, Trace(), GROUPS)
    assert sorted(table["bytes"].to_list()) == [size for _, size in ops]


def test_a_kernel_that_the_trace_lost_is_not_counted_twice() -> None:
    ops = STEP * 5
    kept = ops[8:13] + ops[14:20]
    table, _ = join(world(), logged(0, 0, ops, 4), traced(kept), GROUPS)
    assert origins(table) == {"both": 11, "log": 19}


def test_a_log_that_ends_within_the_trace() -> None:
    ops = [(AR, 4 * n) for n in range(1, 31)]
    table, _ = join(world(), logged(0, 0, ops[:20], 4), traced(ops[10:]), GROUPS)
    assert origins(table) == {"both": 10, "log": 10, "trace": 10}


def test_numbers_of_the_framework_say_where_equal_operations_stand() -> None:
    ops = [(AR, 64)] * 30
    trace = Trace()
    for n in range(10):
        trace.add(AR, 64, WORLD, 0, 1000 + 10 * n, seq=16 + n)
    # The framework counts from 1: its 16th operation is line 15.
    table, _ = join(world(), logged(0, 0, ops, 4), trace, GROUPS)
    both = table.filter(pl.col("origin") == "both")
    assert both["line"].to_list() == [100 + n for n in range(16, 26)]


def test_metadata_without_sizes_pairs_by_kind() -> None:
    table, _ = join(world(), logged(0, 0, STEP * 2, 4), Trace(), GROUPS)
    assert table.height == 12
    trace = Trace()
    for n, (operation, _) in enumerate(STEP):
        trace.add(operation, None, WORLD, 0, 1000 + n)
    table, _ = join(world(), logged(0, 0, STEP * 2, 4), trace, GROUPS)
    assert origins(table) == {"both": 6, "log": 6}
    assert table["bytes"].null_count() == 0


def test_a_barrier_is_an_all_reduce_in_the_log() -> None:
    ops = [*STEP[:3], (AR, 4), *STEP[3:]]
    trace = traced([*STEP[:3], ("barrier", 0), *STEP[3:]])
    table, _ = join(world(), logged(0, 0, ops, 4), trace, GROUPS)
    assert origins(table) == {"both": 7}
    assert "barrier" in table["operation"].cast(pl.String).to_list()


def test_two_communicators_of_the_same_ranks_have_a_stream_each() -> None:
    comms = merge([comm(r, n, r, 4, f"0x{n + 1}") for r in WORLD for n in range(2)], 4, GROUPS)
    first, second = [(AR, 4 * (n % 5 + 1)) for n in range(40)], [(AR, 4 * (n % 3 + 1)) for n in range(40)]
    lines = logged(0, 0, first, 4) + logged(0, 1, second, 4)
    trace = Trace()
    for n in range(10, 20):
        trace.add(*first[n], WORLD, 0, 1000 + 20 * n, stream=7)
        trace.add(*second[n], WORLD, 0, 1010 + 20 * n, stream=9)
    table, _ = join(comms, lines, trace, GROUPS)
    assert origins(table) == {"both": 20, "log": 60}
    both = table.filter(pl.col("origin") == "both").sort("start_ns")
    assert both["comm_key"].to_list() == [comms.key(0, 0), comms.key(0, 1)] * 10


def test_one_stream_of_two_communicators_is_shared_out() -> None:
    comms = merge([comm(r, n, r, 4, f"0x{n + 1}") for r in WORLD for n in range(2)], 4, GROUPS)
    first, second = [(AR, 4 * n) for n in range(1, 21)], [(AG, 4 * n) for n in range(1, 21)]
    trace = Trace()
    for n in range(5, 15):
        trace.add(*first[n], WORLD, 0, 1000 + 20 * n)
        trace.add(*second[n], WORLD, 0, 1010 + 20 * n)
    table, _ = join(comms, logged(0, 0, first, 4) + logged(0, 1, second, 4), trace, GROUPS)
    assert origins(table) == {"both": 20, "log": 20}


def test_one_communicator_on_two_streams_stays_one() -> None:
    ops = STEP * 4
    trace = Trace()
    for n, (operation, size) in enumerate(ops[6:18]):
        trace.add(operation, size, WORLD, 0, 1000 + 10 * n, stream=7 if operation == AR else 9)
    table, _ = join(world(), logged(0, 0, ops, 4), trace, GROUPS)
    assert origins(table) == {"both": 12, "log": 12}


def test_several_kinds_of_logs_of_one_process_are_one_list() -> None:
    rows = [comm(r, 0, r, 4, "0x1") for r in WORLD]
    rows += [comm(r, 0, r, 4, "0x1", source_id=20 + r) for r in WORLD]
    rows += [comm(r, 0, None, 4, source_id=40 + r, group_name="0", group_desc="default_pg", state="seen") for r in WORLD]
    lists = [{**listed(r, "0", WORLD), "source_id": 40 + r} for r in WORLD]
    comms = merge(rows, 4, GROUPS, lists)
    assert comms.table.height == 1
    lines = [x for r in WORLD for x in logged(r, 0, STEP, 4)]
    lines += [x for r in WORLD for x in logged(r, 0, STEP, 4, origin="inspector", source_id=20 + r, algorithm="NVLS", protocol="SIMPLE")]
    lines += [x for r in WORLD for x in logged(r, 0, STEP[2:], 4, first=3, origin="flight-recorder", source_id=40 + r, ts_ns=77, dur_ns=2)]
    table, codes = join(comms, lines, Trace(), GROUPS)
    assert table.height == 6
    assert set(table["algorithm"].cast(pl.String)) == {"NVLS"}
    assert table["start_ns"].to_list() == [77] * 4 + [None] * 2
    assert table["end_ns"].to_list() == [79] * 4 + [None] * 2
    assert max(table["source_id"]) < 20
    assert codes == set()


def test_a_recorder_that_could_be_either_communicator_is_told_by_its_operations() -> None:
    rows = [comm(r, n, r, 4, f"0x{n + 1}") for r in WORLD for n in range(2)]
    rows += [comm(r, 0, None, 4, source_id=40 + r, group_name="1", state="seen") for r in WORLD]
    comms = merge(rows, 4, GROUPS, [{**listed(r, "1", WORLD), "source_id": 40 + r} for r in WORLD])
    assert comms.table.height == 3
    lines = logged(0, 0, STEP, 4) + logged(0, 1, [(AR, 12)] * 9, 4) + logged(0, 0, [(AR, 12)] * 9, 4, first=1, origin="flight-recorder", source_id=40)
    table, codes = join(comms, lines, Trace(), GROUPS)
    assert table.height == 15
    assert "copied-operations" in codes


def test_recorders_are_put_together_by_their_numbers() -> None:
    rows = [comm(r, 0, r, 4, "0x1") for r in WORLD]
    ops = [(AR, 64)] * 100
    lines = [x for r, first in enumerate((1, 31, 21, 41)) for x in logged(r, 0, ops[:50], 4, first=first, origin="flight-recorder")]
    assert join(merge(rows, 4, GROUPS), lines, Trace(), GROUPS)[0].height == 90


def test_processes_that_could_not_be_merged_count_once_where_a_trace_shows_it() -> None:
    groups = [group(0, [0, 1], "inferred"), group(1, [2, 3], "inferred")]
    comms = merge([comm(r, 0, r % 2, 2) for r in range(4)], 4, groups)
    assert comms.table.height == 4
    first, second = [(AR, 4 * n) for n in range(1, 13)], [(AR, 1000 * n) for n in range(1, 13)]
    lines = logged(0, 0, first, 2) + logged(1, 0, first[:11], 2) + logged(2, 0, second, 2) + logged(3, 0, second[:10], 2)
    trace = Trace()
    for n in range(3, 9):
        trace.add(*first[n], [0, 1], 0, 100 * n)
        trace.add(*second[n], [2, 3], 1, 100 * n + 50)
    table, codes = join(comms, lines, trace, groups)
    assert origins(table) == {"both": 12, "log": 12}
    assert "copied-operations" in codes


def test_a_group_that_is_not_known_is_found_by_its_operations() -> None:
    groups = [group(0, [0, 1]), group(1, [0, 2])]
    comms = merge([comm(0, 0, 0, 2, "0x1")], 4, groups)
    assert comms.table["group_id"].item() is None
    ops = [(AR, 4 * n) for n in range(1, 11)]
    trace = Trace()
    for n, (operation, size) in enumerate(ops[:6]):
        trace.add(operation, size, [0, 2], 1, 100 * n)
        trace.add(operation, size * 1000, [0, 1], 0, 100 * n)
    table, _ = join(comms, logged(0, 0, ops, 2), trace, groups)
    assert origins(table) == {"both": 6, "trace": 6, "log": 4}
    assert table.filter(pl.col("origin") == "both")["group_id"].unique().to_list() == [1]


def test_messages_count_once_from_the_sender() -> None:
    lines = [message(0, 0, "send", 1, 64, 1), message(1, 0, "recv", 0, 64, 1), message(1, 0, "recv", 2, 32, 2), message(2, 0, "send", 1, 32, 5)]
    table, _ = join(world(), lines, Trace(), GROUPS)
    found = table.select("operation", "src_rank", "dst_rank", "bytes", "source_id").rows()
    assert sorted(found, key=str) == [("send_recv", 0, 1, 64, 0), ("send_recv", 2, 1, 32, 2)]


def test_receives_stand_for_a_sender_that_was_not_seen() -> None:
    lines = [message(1, 0, "recv", 3, 64, n) for n in range(5)]
    table, _ = join(world(), lines, Trace(), GROUPS)
    assert table.select("src_rank", "dst_rank").unique().rows() == [(3, 1)]
    assert table.height == 5


def test_messages_have_the_ranks_of_the_job() -> None:
    comms = merge([comm(r, 0, r // 2, 2, f"0x{r % 2}") for r in range(4)], 4)
    table, _ = join(comms, [message(1, 0, "send", 1, 64, 1), message(2, 0, "send", 0, 32, 1)], Trace(), [])
    assert sorted(table.select("src_rank", "dst_rank", "bytes").rows()) == [(1, 3, 64), (2, 0, 32)]


def test_messages_meet_their_kernels_by_their_ends_and_size() -> None:
    # The framework makes a communicator of two for plain sends; the trace names the pipeline's group.
    comms = merge([comm(r, 0, r - 1, 2, "0x9") for r in (1, 2)], 4, GROUPS)
    sizes = [64, 64, 128, 64, 32, 64]
    lines = [message(1, 0, "send", 1, size, n) for n, size in enumerate(sizes)]
    trace = Trace()
    for n, size in enumerate(sizes[2:5]):
        trace.pair(1, 2, size, 0, 1000 + 10 * n)
    trace.pair(2, 1, 64, 0, 5000)
    table, _ = join(comms, lines, trace, GROUPS)
    assert origins(table) == {"both": 3, "log": 3, "trace": 1}
    both = table.filter(pl.col("origin") == "both")
    assert both.select("group_id", "src_rank", "dst_rank", "bytes").rows() == [(0, 1, 2, 128), (0, 1, 2, 64), (0, 1, 2, 32)]


def test_kernels_of_grouped_messages_give_way_to_lines_that_name_both_ends() -> None:
    trace = Trace()
    for n in range(4):
        trace.add("send_recv", None, [0], 0, 1000 + n, matched=False)
    lines = [message(0, 0, "send", 1, 64, n) for n in range(6)]
    table, codes = join(world(), lines, trace, GROUPS)
    assert origins(table) == {"log": 6}
    assert "send-recv-not-comparable" in codes
    table, codes = join(world(), [], trace, GROUPS)
    assert origins(table) == {"trace": 4}
    assert codes == set()


def exchange(rank: int, size: int, line: int, *, ranks: int = 4, to_self: bool = True, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    out = []
    for n in range(ranks):
        peer = (first + n) % ranks
        if to_self or peer != rank:
            out += [message(rank, 0, "send", peer, size, line + 2 * n, **more), message(rank, 0, "recv", peer, size, line + 2 * n + 1, **more)]
    return out


@pytest.mark.parametrize("to_self", [True, False])
@pytest.mark.parametrize("rotated", [True, False])
def test_an_exchange_of_sends_and_receives_is_one_all_to_all(to_self: bool, rotated: bool) -> None:
    lines = [row for r in WORLD for n in range(5) for row in exchange(r, 16, 100 * n, to_self=to_self, first=r if rotated else 0)]
    lines += [row for r in WORLD for row in logged(r, 0, [(AR, 8)], 4, first=60)]
    trace = traced([("all_to_all", 64)] * 3)
    table, _ = join(world(), lines, trace, GROUPS)
    found = Counter(zip(table["operation"].to_list(), table["origin"].to_list(), table["bytes"].to_list(), strict=True))
    assert found == {("all_to_all", "both", 64): 3, ("all_to_all", "log", 64): 2, (AR, "log", 8): 1}


def test_a_group_number_parts_exchanges_with_nothing_for_some() -> None:
    lines = [x for n in range(3) for x in exchange(0, 16, 100 * n, op_count=n) if x["peer"] != n]
    table, _ = join(world(), lines, traced([("all_to_all", 64)] * 3), GROUPS)
    assert Counter(table["operation"].to_list()) == {"all_to_all": 3}


def test_two_ranks_that_swap_exchange_only_where_a_trace_says_so() -> None:
    comms = merge([comm(r, 0, r, 2, "0x1") for r in range(2)], 2, [group(0, [0, 1])])
    lines = [row for r in range(2) for n in range(3) for row in exchange(r, 16, 100 * n, ranks=2, to_self=False)]
    table, _ = join(comms, lines, Trace(), [group(0, [0, 1])])
    assert Counter(table["operation"].to_list()) == {"send_recv": 6}
    trace = Trace()
    trace.add("all_to_all", 32, [0, 1], 0, 100)
    table, _ = join(comms, lines, trace, [group(0, [0, 1])])
    assert Counter(zip(table["operation"].to_list(), table["origin"].to_list(), strict=True)) == {("all_to_all", "both"): 1, ("all_to_all", "log"): 2}


def test_a_pipeline_is_no_exchange() -> None:
    lines = []
    for n in range(10):
        lines += [message(1, 0, "send", 2, 16, 4 * n), message(1, 0, "recv", 0, 16, 4 * n + 1)]
        lines += [message(1, 0, "send", 0, 16, 4 * n + 2), message(1, 0, "recv", 2, 16, 4 * n + 3)]
    table, _ = join(world(), lines, Trace(), GROUPS)
    assert Counter(table["operation"].to_list()) == {"send_recv": 40}


def test_operations_that_one_kernel_ran_together_keep_their_sizes() -> None:
    ops = [(AR, 8), (AG, 400), (AG, 800), (AG, 1200), (RS, 4)]
    table, _ = join(world(), logged(0, 0, ops, 4), traced([(AR, 8), (AG, 2400), (RS, 4)]), GROUPS)
    assert origins(table) == {"both": 5}
    assert sorted(table["bytes"].to_list()) == [4, 8, 400, 800, 1200]


def test_the_root_is_a_rank_of_the_job() -> None:
    comms = merge([comm(r, 0, 3 - r, 4, "0x1") for r in WORLD], 4, GROUPS)
    lines = logged(0, 0, [("broadcast", 64)], 4, root=1) + logged(0, 0, [(AR, 64)], 4, first=2, root=0)
    table, _ = join(comms, lines, Trace(), GROUPS)
    assert table.select("operation", "root").rows() == [("broadcast", 2), (AR, None)]


def test_lines_without_a_communicator_are_left_out_and_said() -> None:
    table, codes = join(world(), logged(0, 7, STEP, 4) + logged(0, 0, STEP, 4, comm=None), traced(STEP), GROUPS)
    assert origins(table) == {"trace": 6}
    assert "operation-without-communicator" in codes


def test_other_libraries_are_not_in_the_log() -> None:
    trace = Trace()
    for n in range(6):
        trace.add(AR, 64, WORLD, 0, 100 + n, library="custom", stream=3)
    table, _ = join(world(), logged(0, 0, [(AR, 64)] * 6, 4), trace, GROUPS)
    assert origins(table) == {"trace": 6, "log": 6}


def test_copies_between_gpus_are_each_their_own() -> None:
    trace = Trace()
    for rank in (0, 1):
        for n in range(3):
            trace.add("unknown", 64, [rank], None, 100 + n, matched=False, library="peer-copy")
    table, _ = join(merge([], 4), [], trace, GROUPS)
    assert Counter(table["src_rank"].to_list()) == {0: 3, 1: 3}


def test_numbers_say_that_one_log_ends_before_the_other_begins() -> None:
    ops = [(AR, 64)] * 30
    lines = logged(0, 0, ops[:12], 4) + logged(1, 0, ops[:10], 4)
    for n, row in enumerate(lines):
        row["op_count"] = n if row["rank"] == 0 else n + 100
    table, codes = join(world(), lines, Trace(), GROUPS)
    assert table.height == 22
    assert codes == set()


def test_logs_that_have_nothing_in_common_and_no_numbers_are_said() -> None:
    lines = logged(0, 0, [(AR, 64)] * 12, 4) + logged(1, 0, [(AR, 32)] * 10, 4)
    table, codes = join(world(), lines, Trace(), GROUPS)
    assert table.height == 12
    assert "logs-without-overlap" in codes


def test_sizes_that_no_memory_holds_are_none() -> None:
    table, _ = join(world(), logged(0, 0, [(AR, 2**62)], 4), Trace(), GROUPS)
    assert table["bytes"].to_list() == [None]


def test_streams_of_one_number_in_two_groups_are_kept_apart() -> None:
    groups = [group(0, [0, 1]), group(1, [0, 2])]
    comms = merge([comm(0, 0, 0, 2, "0x1"), comm(0, 1, 0, 2, "0x2")], 4, groups)
    first, second = [(AR, 4 * n) for n in range(1, 11)], [(AR, 4000 * n) for n in range(1, 11)]
    trace = Trace()
    for n in range(2, 8):
        trace.add(*first[n], [0, 1], 0, 100 * n)
        trace.add(*second[n], [0, 2], 1, 100 * n + 50)
    table, _ = join(comms, logged(0, 0, first, 2) + logged(0, 1, second, 2), trace, groups)
    assert origins(table) == {"both": 12, "log": 8}


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[tuple[str, int]], dict[int, tuple[int, int]], tuple[int, int]]:
    """Operations, the part of them that each logging rank's file holds, and the part that the trace shows."""
    n = draw(st.integers(3, 40))
    kinds = draw(st.lists(st.sampled_from([AR, AG, RS]), min_size=n, max_size=n))
    ops = [(kind, 4 * (k + 1)) for k, kind in enumerate(kinds)]
    ranks = draw(st.sets(st.integers(0, 3), max_size=4))
    # What the files hold overlaps in the middle of the job: what lies between two files that do not, nobody saw.
    parts = {r: (draw(st.integers(0, n // 3)), draw(st.integers(n - n // 3, n))) for r in sorted(ranks)}
    first = draw(st.integers(0, n - 1))
    return ops, parts, (first, draw(st.integers(first, n)))


@settings(deadline=None, max_examples=60)
@given(jobs(), st.booleans())
def test_every_operation_that_anyone_saw_counts_once(job: tuple[list[tuple[str, int]], dict[int, tuple[int, int]], tuple[int, int]], numbered: bool) -> None:
    ops, parts, (first, last) = job
    lines = []
    for rank, (start, end) in parts.items():
        rows = logged(rank, 0, ops[start:end], 4)
        lines += [{**row, "op_count": start + n if numbered else 0} for n, row in enumerate(rows)]
    table, _ = join(world(), lines, traced(ops[first:last]), GROUPS)
    in_logs = {k for start, end in parts.values() for k in range(start, end)}
    in_trace = set(range(first, last))
    found = Counter(zip(table["bytes"].to_list(), table["origin"].to_list(), strict=True))
    want = {k: "both" if k in in_logs and k in in_trace else "log" if k in in_logs else "trace" for k in in_logs | in_trace}
    assert found == Counter((ops[k][1], origin) for k, origin in want.items())
    assert table["operation_id"].to_list() == list(range(table.height))
    assert table["match_id"].drop_nulls().is_unique().all()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(STEP), min_size=1, max_size=12), st.integers(1, 5), st.data())
def test_a_window_of_repeated_steps_adds_nothing_to_a_whole_log(step: list[tuple[str, int]], times: int, data: st.DataObject) -> None:
    ops = step * times
    first = data.draw(st.integers(0, len(ops)))
    last = data.draw(st.integers(first, len(ops)))
    lost = data.draw(st.sets(st.integers(first, max(first, last - 1)), max_size=2))
    shown = [op for n, op in enumerate(ops[first:last], first) if n not in lost]
    lines = logged(1, 0, ops, 4) + logged(3, 0, ops[: len(ops) // 2], 4)
    table, _ = join(world(), lines, traced(shown), GROUPS)
    assert Counter(zip(table["operation"].to_list(), table["bytes"].to_list(), strict=True)) == Counter(ops)
    # One distance at which all agrees may be preferred; nothing of the trace may be left over.
    assert origins(table)["trace"] == 0
    assert origins(table)["both"] == len(shown)
