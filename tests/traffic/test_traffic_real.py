"""A real job of 32 GPUs of which only rank 0 speaks, and simulated incidents whose true bytes per pair are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.builders import comm_frames as make
from tests.builders.incidents import DIRECTORY, incident
from tests.builders.nccl_lines import read_lines
from tests.builders.parsed_logs import parse_logs
from tests.traffic import simulated as play
from tests.traffic.test_edges import FIRST_HOST
from tracelab.traffic.build import Traffic, traffic_tables
from tracelab.traffic.edges import PATHS, Edges, communicators_of
from tracelab.traffic.volumes import traffic_volumes

Pairs = Counter[tuple[int, int]]


@pytest.fixture(scope="module")
def llama(test_data: Callable[[str], Path]) -> Traffic:
    log = test_data("jobs/llama2_7b_32xA100") / "logs" / "llama2-7b-new-5b-2b1ef-master.log.gz"
    tables, _ = read_lines([log])
    return traffic_tables(tables, {}, dict.fromkeys(range(8), "NH-DC-NM129-B01-28U-GPU-31"), 32)


def test_three_communicators_of_32_ranks_have_19_stated_edges_a_channel_and_the_rest_completed(llama: Traffic) -> None:
    comms = llama.frames["job_communicators"]
    assert comms.select("size", "channels").rows() == [(32, 8)] * 3
    rings = llama.frames["edges"].with_columns(pl.col("kind", "rung").cast(pl.String)).filter(pl.col("kind") == "ring")
    for (_, channel), rows in rings.group_by("comm_key", "channel"):
        assert isinstance(channel, int)
        net = channel in (0, 4)  # the line that says 25 -> 0
        assert Counter(rows["rung"].to_list()) == {"stated": 19 + net, "completed": 13 - net}
        order = rows.sort("position")["src_rank"].to_list()
        assert order == [(p + k) % 32 for k in range(0, 32, 8) for p in FIRST_HOST[channel % 4]]
        assert ((25, 0) in rows.select("src_rank", "dst_rank").rows()) == net
    assert rings.height == 3 * 8 * 32


def test_net_ib_0_is_mlx5_2_with_gpudirect(llama: Traffic) -> None:
    sent = llama.frames["edges"].filter((pl.col("src_rank") == 0) & pl.col("net_device").is_not_null())
    assert sent.select(pl.col("transport").cast(pl.String), "net_device", "nic", "gdr", "dst_rank").unique().rows() == [("NET/IB", 0, "mlx5_2", True, 8)]


def test_one_all_reduce_puts_the_same_on_every_edge_and_loses_no_byte(llama: Traffic) -> None:
    size = 6_738_415_616 * 2  # the gradients of the model
    comms = communicators_of(llama.frames["job_communicators"], make.groups(), {})
    ops = make.operations({"operation": "all_reduce", "bytes": size, "group_id": None})
    edges = llama.frames["edges"]
    traffic = traffic_volumes(ops, _as_edges(edges), comms, {}).traffic
    assert traffic["bytes"].sum() == 2 * 31 * size
    rings = edges.filter((pl.col("comm_key") == 0) & (pl.col("kind").cast(pl.String) == "ring"))
    channels = Counter(rings.select("src_rank", "dst_rank").rows())
    for src, dst, moved in traffic.group_by("src_rank", "dst_rank").agg(pl.col("bytes").sum()).iter_rows():
        # A chunk is size/8/32 with a remainder of less than a byte; two phases.
        assert abs(moved - channels[src, dst] * 2 * 31 * size / 32 / 8) <= 2 * channels[src, dst]


def test_where_all_of_32_ranks_speak_every_ring_edge_is_stated_and_both_trees_are_whole(test_data: Callable[[str], Path]) -> None:
    tables, ranks = read_lines([test_data("nccl/full/bigscience_allreduce_bench_32rank_nccl2.10.log.gz")])
    hosts = {rank: host for (host, _), rank in ranks.items()}
    traffic = traffic_tables(tables, {}, hosts, 32)
    edges = traffic.frames["edges"].with_columns(pl.col("kind", "rung").cast(pl.String))
    assert Counter(edges.select("kind", "channel", "rung").rows()) == {("ring", c, "stated"): 32 for c in (0, 1)} | {("tree", c, "stated"): 31 for c in (0, 1)}
    assert [edges.filter(pl.col("kind") == "tree").filter(pl.col("position") == t).height for t in (0, 1)] == [31, 31]
    comms = communicators_of(traffic.frames["job_communicators"], make.groups(), hosts)
    ops = make.operations({"operation": "all_reduce", "bytes": 2_000_001, "group_id": None, "algorithm": "TREE"})
    found = traffic_volumes(ops, _as_edges(traffic.frames["edges"]), comms, hosts).traffic
    trees = [dict(edges.filter((pl.col("kind") == "tree") & (pl.col("channel") == c)).select("src_rank", "dst_rank").rows()) for c in (0, 1)]
    expected = play.over_channels(2_000_001, (0, 1), lambda c, s: play.tree_all_reduce(trees[c], s))
    assert dict(expected) == {(a, b): n for a, b, n in found.select("src_rank", "dst_rank", "bytes").rows()}
    # The log's own words: over hosts the first tree links 24 to 16, 16 to 0 and 8 to 17, the second 8 to 24, 16 to 9 and 0 to 8.
    crossing = [{(a, b) for a, b in t.items() if hosts[a] != hosts[b]} for t in trees]
    assert crossing == [{(24, 16), (16, 0), (8, 17)}, {(8, 24), (16, 9), (0, 8)}]


def _as_edges(frame: pl.DataFrame) -> Edges:
    return Edges(frame, pl.DataFrame(schema=PATHS), ())


def measured(traffic: Traffic) -> Pairs:
    out: Pairs = Counter()
    for src, dst, size in traffic.frames["traffic"].select("src_rank", "dst_rank", "bytes").iter_rows():
        out[src, dst] += size
    return out


def error(found: Pairs, truth: Mapping[str, Any]) -> float:
    """Relative L1 error over all pairs."""
    true = {(a, b): n for a, b, n in truth["traffic"]["pairs"]}
    return float(sum(abs(found[k] - true.get(k, 0)) for k in found.keys() | true.keys()) / sum(true.values()))


def with_logs(name: str) -> tuple[Traffic, Mapping[str, Any]]:
    """Operations from the traces, rings from the lines of the logs."""
    aligned, truth = incident(name)
    files = sorted(f for f in (DIRECTORY / name).rglob("*") if f.is_file() and (f.name.startswith("nccl") or f.suffix == ".log"))
    tables, ranks = read_lines([f for f in files if "ethtool" not in f.name])
    assert ranks == {(r["host"], r["pid"]): r["rank"] for r in truth["ranks"] if (r["host"], r["pid"]) in ranks}
    return traffic_tables(tables, aligned.aligned.derived, aligned.aligned.hosts, truth["world"]["size"]), truth


def test_the_parser_of_logs_leads_to_the_same_edges_as_a_second_reader(llama: Traffic, test_data: Callable[[str], Path]) -> None:
    log = test_data("jobs/llama2_7b_32xA100") / "logs" / "llama2-7b-new-5b-2b1ef-master.log.gz"
    parsed = traffic_tables(parse_logs([log], lambda p: p.rank), {}, dict.fromkeys(range(8), "NH-DC-NM129-B01-28U-GPU-31"), 32)
    assert parsed.frames["edges"].equals(llama.frames["edges"])


@pytest.mark.parametrize("name", ["healthy_ddp_2x4", "packet_loss_moe_4x4"])
def test_logs_and_traces_together_count_the_captured_steps_once_and_the_rest_apart(name: str) -> None:
    aligned, truth = incident(name)
    ranks = {(r["host"], r["pid"]): r["rank"] for r in truth["ranks"]}
    tables = parse_logs(sorted((DIRECTORY / name / "nccl").iterdir()), lambda p: ranks[str(p.host), int(p.pid or 0)])
    traffic = traffic_tables(tables, aligned.aligned.derived, aligned.aligned.hosts, truth["world"]["size"])
    ops = traffic.frames["operations"]
    outside = ops.filter(pl.col("origin") == "log")
    assert outside.height
    assert [n.count for n in traffic.notices if n.code == "operations-outside-captures"] == [outside.height]
    assert outside["step"].null_count() == outside.height
    # The truth counts the captured steps alone: what stands under a step is its total, to what a rounded double holds.
    captured = traffic.frames["traffic_steps"].filter(pl.col("step").is_not_null())["bytes"].sum()
    true = sum(n for _, _, n in truth["traffic"]["pairs"])
    assert abs(captured - true) <= 1e-7 * true
    assert sum(measured(traffic).values()) == traffic.frames["traffic_steps"]["bytes"].sum() > captured


LOGGED = ("healthy_ddp_2x4", "healthy_pp_4x2", "packet_loss_moe_4x4", "slow_gpu_victim_fsdp_4x4", "two_slow_gpu_and_link_4x4")


@pytest.mark.parametrize("name", LOGGED)
def test_with_rings_from_logs_the_matrix_is_that_of_the_truth(name: str) -> None:
    traffic, truth = with_logs(name)
    assert error(measured(traffic), truth) < 1e-7


@pytest.mark.parametrize("name", ["clock_step_ddp_2x4", "ecmp_fsdp_8x2"])
def test_without_logs_the_total_is_right_and_its_place_is_called_assumed(name: str) -> None:
    aligned, truth = incident(name)
    traffic = traffic_tables({}, aligned.aligned.derived, aligned.aligned.hosts, truth["world"]["size"])
    found = measured(traffic)
    assert abs(sum(found.values()) - sum(n for _, _, n in truth["traffic"]["pairs"])) <= 1e-6 * sum(found.values())
    assert set(traffic.frames["traffic"]["rung"].cast(pl.String).to_list()) <= {"assumed", "call"}
    # Half of the channels start at another interface: what the truth's second ring carries stands elsewhere.
    assert error(found, truth) <= 0.5
