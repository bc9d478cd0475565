"""The sentence on top, against sentences written by hand."""

from __future__ import annotations

from tracelab.results import AnalysisStatus, Attribution, Cause, Finding, RankInfo, RunInfo
from tracelab.verdict import verdict


def info(ranks: int, world: int | None, steps: int = 8) -> RunInfo:
    return RunInfo("job", 0, 1, world, [RankInfo(r, "h", r, None, []) for r in range(ranks)], [], steps, None, [])


def finding(summary: str, severity: str = "major") -> Finding:
    return Finding(
        id="x",
        kind="compute_straggler",
        severity=severity,  # type: ignore[arg-type]
        summary=summary,
        confidence="likely",
        lost_s=1,
        lost_s_low=1,
        lost_s_high=1,
        lost_gpu_hours=1,
        next_step="",
    )


TIME = Attribution("s", 0.25, [Cause("idle", 0.05, 0.2, 0, 0), Cause("compute", 0.2, 0.8, 0, 0), Cause("memcpy", 0, 0, 0, 0)], 0, {})


def test_the_costliest_finding_with_what_was_seen() -> None:
    found = [finding("rank 3 is slow: 1 s lost."), finding("other"), finding("third"), finding("tiny", "info")]
    assert verdict(info(8, 8), found, TIME) == "Rank 3 is slow: 1 s lost (8 steps on 8 ranks). 2 more findings below."
    assert verdict(info(7, 8, 1), found[:2], TIME) == "Rank 3 is slow: 1 s lost (1 step on 7 of 8 ranks). 1 more finding below."


def test_nothing_found_says_where_the_time_goes() -> None:
    said = verdict(info(8, 8), [finding("tiny", "info")], TIME)
    assert said == "No cause of lost time stands out from noise: 8 steps on 8 ranks; a step takes 250 ms: 80.0 % compute, 20.0 % idle."
    assert verdict(info(8, None), [], None) == "No cause of lost time stands out from noise: 8 steps on 8 ranks."


def test_what_was_not_checked_is_not_called_healthy() -> None:
    broken = [AnalysisStatus("steps", "ok"), AnalysisStatus("stragglers", "error", "ValueError")]
    assert verdict(info(8, 8), [], TIME, broken) == "Whether time was lost could not be checked: the analyses stragglers failed (8 steps on 8 ranks)."
    assert verdict(info(8, 8, 0), [], None) == "Whether time was lost could not be checked: the files show no step of the job (0 steps on 8 ranks)."


def test_one_rank_is_not_called_healthy() -> None:
    assert verdict(info(1, 8), [], None) == "No cause of lost time can be seen from one rank alone: 8 steps on 1 of 8 ranks."


def test_transfers_may_be_waits_for_ranks_that_nobody_saw() -> None:
    open_ = Attribution("s", 0.25, [Cause("compute", 0.2, 0.8, 0, 0), Cause("exposed_transfer", 0.05, 0.2, 0, 0)], 0, {})
    start = "No cause of lost time stands out on the ranks that were seen; 1 unseen one can neither be blamed nor cleared: 8 steps on 7 of 8 ranks"
    spent = "a step takes 250 ms: 80.0 % compute, 20.0 % exposed transfer"
    assert verdict(info(7, 8), [], open_) == f"{start}; {spent} (may be waiting for 1 unseen rank)."
    assert verdict(info(8, 8), [], open_).endswith("20.0 % exposed transfer.")
    assert "2 unseen ranks" in verdict(info(6, 8), [], open_)
