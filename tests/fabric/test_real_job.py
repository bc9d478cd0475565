"""A production job's log beside its cluster's tables: the host that the log names, tied to its adapters and through them to ports of four leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

import tracelab

HOST = "NH-DC-NM129-B01-28U-GPU-31"


def test_the_host_of_the_log_is_tied_to_its_ports(test_data: Callable[[str], Path]) -> None:
    """The log names the host and its address, one table the adapters by address, the other the ports by name (known truth of the set)."""
    run = tracelab.open(test_data("jobs/llama2_7b_32xA100"))
    links = run.tables["links"].filter(pl.col("a_node") == HOST).sort("a_device").collect()
    leaves = [b.split("-Leaf-")[1][0] for b in links["b_node"]]
    assert list(zip(links["a_device"], links["a_port"], leaves, strict=True)) == [
        ("mlx5_2", "ens10np0", "2"),
        ("mlx5_3", "ens11np0", "1"),
        ("mlx5_8", "ens18np0", "4"),
        ("mlx5_9", "ens19np0", "3"),
    ]
    assert links["b_port"].unique().to_list() == ["TwoHundredGigE1/0/16:1"]
    assert links["speed_bps"].unique().to_list() == [200_000_000_000]
    used = run.tables["endpoints"].filter(pl.col("rank") == 0).collect()
    assert used.select("host", "device", "origin").rows() == [(HOST, "mlx5_2", "edges")]


def test_the_ports_of_a_leaf_in_half_seconds(test_data: Callable[[str], Path]) -> None:
    """The switch refreshes about once a second, so that half of the samples are zero: rates are those of whole seconds (known truth of the set)."""
    run = tracelab.open(test_data("jobs/llama2_7b_32xA100"))
    rates = run.tables["counter_rates"].filter((pl.col("counter") == "bytes") & (pl.col("device") == "TwoHundredGigE1/0/25:2")).collect()
    sent = rates.filter(pl.col("direction") == "tx").sort("start_ns")
    told = run.tables["counters"].filter(pl.col("counter") == "utilisation").collect()
    assert told["value"].max() == 99.84
    assert 0.98 <= max(sent["per_s"].to_list()) * 8 / 200e9 <= 1.0
    spent = sum((sent["end_ns"] - sent["start_ns"]).to_list()) / 1e9
    assert abs(sum(sent["delta"].to_list()) / spent / 1e9 - 8.6) <= 0.3
    longest = sent.filter(pl.col("gap")).with_columns(((pl.col("end_ns") - pl.col("start_ns")) / 1e9).alias("s")).sort("s", descending=True)["s"].to_list()
    assert 252.0 <= longest[0] <= 254.5
