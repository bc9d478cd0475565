"""Jobs that other people recorded, with what is known about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.builders.incidents import WHOLE, incident
from tests.builders.kineto import read_ranks
from tracelab.align import Aligned, align

US = 1_000
Data = Callable[[str], Path]


@pytest.fixture(scope="module")
def dlrm(test_data: Data) -> tuple[dict[str, pl.LazyFrame], dict[int, str]]:
    parsed, hosts, _ = read_ranks(test_data("torch/dlrm_8xV100").glob("*.json"))
    return parsed, hosts


def _facts(aligned: Aligned) -> list[tuple[int, int, int]]:
    matches = aligned.derived["matches"].sort("end_ns")
    return matches.select("last_rank", pl.col("last_start_ns") - pl.col("first_start_ns"), "end_spread_ns").rows()


def test_eight_ranks_of_one_host(dlrm: tuple[dict[str, pl.LazyFrame], dict[int, str]]) -> None:
    aligned = align(*dlrm, 8)
    starts, ends = (7624, 1101, 168, 125, 223, 534, 584, 885), (2, 2, 1, 2, 5, 3, 5, 7)
    assert _facts(aligned) == [(r, s * US, e * US) for r, s, e in zip((7, 7, 7, 7, 7, 5, 5, 4), starts, ends, strict=True)]
    assert aligned.derived["matches"]["present"].to_list() == [8] * 8


@pytest.mark.parametrize("shift_ns", [50 * US, -3_000_000_000, 86_400_000_000_000])
def test_a_shifted_clock_is_found_again(dlrm: tuple[dict[str, pl.LazyFrame], dict[int, str]], shift_ns: int) -> None:
    parsed, _ = dlrm
    moved = {
        name: frame.with_columns(pl.when(pl.col("rank") == 3).then(pl.col("source_ts_ns") + shift_ns).otherwise(pl.col("source_ts_ns")).alias("source_ts_ns"))
        if "source_ts_ns" in frame.collect_schema().names()
        else frame
        for name, frame in parsed.items()
    }
    aligned = align(moved, {r: "other" if r == 3 else "one" for r in range(8)}, 8)
    offsets = dict(aligned.clocks.select("host", "offset_ns").iter_rows())
    assert offsets["one"] - offsets["other"] == pytest.approx(shift_ns, abs=10 * US)
    assert [r for r, _, _ in _facts(aligned)] == [7, 7, 7, 7, 7, 5, 5, 4]


def test_the_delayed_rank_of_a_cpu_job(test_data: Data) -> None:
    parsed, hosts, _ = read_ranks(test_data("torch/gloo_4rank_cpu").glob("*.json.gz"))
    aligned = align(parsed, hosts, 4)
    groups = aligned.derived["groups"]
    # As process_groups lists them, though no operation names its group.
    assert groups["ranks"].to_list() == [[0, 1, 2, 3], [0, 1], [0, 2], [1, 3], [2, 3]]
    assert groups["name"].to_list() == ["default_pg", "tp", "dp", "dp", "tp"]
    matches = aligned.derived["matches"].join(groups.select("group_id", "ranks"), on="group_id")
    late = matches.filter((pl.col("operation") == "all_gather") & pl.col("ranks").list.contains(2))
    # Rank 2 sleeps 6 ms in each of four steps before the exchange with rank 0.
    assert late["last_rank"].to_list() == [2] * 4
    assert min(late["last_by_ns"].to_list()) > 3_000_000


def test_a_single_rank_of_a_larger_job_gets_no_transfer(test_data: Data) -> None:
    parsed, hosts, _ = read_ranks(test_data("torch/a100_rank0of2_pgconfig").glob("*.json.gz"))
    aligned = align(parsed, hosts, 2)
    matches = aligned.derived["matches"]
    assert (matches.height, matches["transfer_ns"].null_count(), set(matches["members"])) == (21, 21, {2})
    sizes = aligned.derived["collectives"].group_by("operation", "dtype", "in_bytes").len()
    # 53,120 floats and 53 longs of buffers are broadcast in each of three steps.
    broadcast = sizes.filter(pl.col("operation") == "broadcast").sort("in_bytes")
    assert broadcast.select("dtype", "in_bytes", "len").cast({"dtype": pl.String}).rows() == [("Long", 53 * 8, 3), ("Float", 53_120 * 4, 3)]


@pytest.mark.parametrize("name", WHOLE)
def test_incidents_clocks_and_matches(name: str) -> None:
    tables, truth = incident(name)
    matches = tables.aligned.derived["matches"]
    assert matches.height == truth["n_collectives"]
    assert (matches["present"] == matches["members"]).all()
    middle = (truth["trace_start_ns"] + truth["trace_end_ns"]) / 2
    true = {c["host"]: c for c in truth["clocks"] if c["kind"] == "host"}
    errors, claimed = [], []
    for c in tables.aligned.clocks.unique("host", keep="first", maintain_order=True).iter_rows(named=True):
        own = middle + true[c["host"]]["offset_ns_mid"]
        errors.append(c["offset_ns"] + c["drift_ppm"] * 1e-6 * (own - c["start_ns"]) + true[c["host"]]["offset_ns_mid"])
        claimed.append(c["uncertainty_ns"])
    centre = sorted(errors)[len(errors) // 2]
    assert max(abs(e - centre) for e in errors) < 20 * US
    assert all(abs(e - centre) <= u for e, u in zip(errors, claimed, strict=True))


@pytest.mark.parametrize("name", ["pp_imbalance_4x4", "slow_gpu_victim_fsdp_4x4", "healthy_pp_4x2", "clock_step_ddp_2x4", "packet_loss_moe_4x4"])
def test_groups_and_matches_survive_without_metadata(name: str) -> None:
    tables, truth = incident(name)
    silent = {n: f.filter(pl.lit(value=False)) if n in ("comm_records", "process_groups") else f for n, f in tables.frames.items()}
    aligned = align(silent, tables.aligned.hosts, truth["world"]["size"])
    true = {tuple(sorted(g["ranks"])) for g in truth["groups"]}
    assert sorted(tuple(r) for r in aligned.derived["groups"]["ranks"].to_list()) == sorted(true)
    assert aligned.derived["matches"].height == truth["n_collectives"]
    assert aligned.derived["arrivals"]["wait_ns"].sum() == pytest.approx(tables.aligned.derived["arrivals"]["wait_ns"].sum(), rel=1e-3)
