"""Incomplete captures: a rank without a trace, a cut trace, lost kernels. Nobody is named for what is only missing."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.builders.ddp import MS, Job
from tests.builders.frames import Parsed
from tests.builders.run import AlignedTables, findings, outcomes


def _job(*, metadata: bool, slow: int | None) -> tuple[Parsed, dict[int, str]]:
    job = Job(metadata=metadata, slow=lambda rank, step: 1.2 if rank == slow else 1.0)
    return job.build(), job.hosts()


def _without(parsed: Parsed, rank: int) -> Parsed:
    return {name: frame.filter(pl.col("rank") != rank) for name, frame in parsed.items()}


def _thinned(parsed: Parsed) -> Parsed:
    """One in twenty GPU rows lost, as full buffers lose them."""
    gpu = parsed["gpu_spans"].collect()
    kept = np.random.default_rng(1).random(gpu.height) > 0.05
    return {**parsed, "gpu_spans": gpu.filter(pl.Series(kept)).lazy()}


@pytest.mark.parametrize("metadata", [True, False])
def test_a_culprit_without_a_trace_makes_no_victim_a_suspect(metadata: bool) -> None:
    parsed, hosts = _job(metadata=metadata, slow=4)
    del hosts[4]
    results = outcomes(_without(parsed, 4), hosts, 8)
    assert findings(results) == []
    assert results["breakdown"].status.status == "degraded"
    result = results["exposure"].result
    assert result is not None
    assert len(result.not_observable) == 1


@pytest.mark.parametrize("metadata", [True, False])
def test_the_culprit_is_found_though_another_trace_is_missing(metadata: bool) -> None:
    parsed, hosts = _job(metadata=metadata, slow=4)
    del hosts[2]
    (f,) = findings(outcomes(_without(parsed, 2), hosts, 8))
    assert (f.kind, f.ranks) == ("compute_straggler", [4])


def test_a_trace_that_ends_early_counts_for_the_steps_that_it_has() -> None:
    parsed, hosts = _job(metadata=True, slow=4)
    cut = 1_700_000_000 * 10**9 + 600 * MS
    short = {
        name: frame.filter((pl.col("rank") != 1) | (pl.col("source_ts_ns") < cut)) if "source_ts_ns" in frame.collect_schema().names() else frame
        for name, frame in parsed.items()
    }
    results = outcomes(short, hosts, 8)
    (f,) = findings(results)
    assert (f.kind, f.ranks) == ("compute_straggler", [4])
    result = results["breakdown"].result
    assert result is not None
    steps = dict(result.frames["rank_times"].select("rank", "steps").iter_rows())
    assert steps == {r: 5 if r == 1 else 10 for r in range(8)}


@pytest.mark.parametrize("metadata", [True, False])
def test_lost_kernels_shift_no_match(metadata: bool) -> None:
    parsed, hosts = _job(metadata=metadata, slow=None)
    thin = _thinned(parsed)
    kept = thin["gpu_spans"].filter(pl.col("stream") == 20).select(pl.len()).collect().item()
    matches = AlignedTables(thin, hosts, 8).aligned.derived["matches"]
    assert matches.height == 20
    assert matches["present"].sum() == kept < 160
    # Parts of different operations would end tens of milliseconds apart.
    assert matches["end_spread_ns"].max() < 5_000  # type: ignore[operator]


@pytest.mark.parametrize("metadata", [True, False])
def test_lost_kernels_name_nobody(metadata: bool) -> None:
    parsed, hosts = _job(metadata=metadata, slow=None)
    assert findings(outcomes(_thinned(parsed), hosts, 8)) == []


def test_without_steps_and_metadata_lost_kernels_leave_the_group_open() -> None:
    parsed, hosts = _job(metadata=False, slow=None)
    thin = _thinned(parsed)
    silent = {**thin, "host_spans": thin["host_spans"].filter(pl.col("kind") != "annotation")}
    derived = AlignedTables(silent, hosts, 8).aligned.derived
    assert derived["groups"]["size"].to_list() == [None]
    assert derived["matches"]["transfer_ns"].null_count() == derived["matches"].height > 0
