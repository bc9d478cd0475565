"""Counted bytes beside those that a job of known bytes sends."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.builders.network import G, Network, Row, S, answer, asked, counts, link, star, uses
from tracelab.analyses.network.accounting import ANALYSIS, Params
from tracelab.analyses.network.headers import headers_of
from tracelab.analyses.network.predicted import covered_of, predicted_of
from tracelab.analysis import AnalysisResult, run_analyses

ROCE = 1 + 62 / 4096
"""Wire bytes per byte of payload: 62 bytes of headers per packet."""
Spans = Sequence[tuple[float, float]]


def _flow(transfers: Spans, size: float) -> Callable[[float], float]:
    """Payload bytes until a moment: each transfer sends `size` evenly."""
    return lambda t: sum(size * min(max((t - start) / (end - start), 0.0), 1.0) for start, end in transfers)


def _job(transfers: Spans, size: int = G, hosts: int = 4, steps: Spans | None = None, **operation: Any) -> dict[str, list[Row]]:
    """One rank per host; each operation sends `size` from every host to the next one. Steps are as long as from one transfer to the next."""
    rows: dict[str, list[Row]] = {**star(hosts), "matches": [], "operations": [], "traffic": [], "steps": []}
    rows["groups"] = [{"group_id": 0, "name": "data", "size": hosts, "origin": "stated"}]
    for n, (start, end) in enumerate(transfers):
        same = {"match_id": n, "group_id": 0, "operation": "all_reduce", "bytes": size}
        # one rank comes half a transfer early: that is waiting, no data move before the last arrival
        times = {"first_start_ns": round((start - (end - start) / 2) * S), "last_start_ns": round(start * S), "end_ns": round(end * S)}
        rows["matches"].append({**same, **times, "transfer_ns": round((end - start) * S), "rung": "order", "present": hosts})
        rows["operations"].append({**same, "operation_id": n, "origin": "trace", "start_ns": times["first_start_ns"], "end_ns": times["end_ns"], **operation})
    for n in range(hosts):
        pair = {"src_rank": n, "dst_rank": (n + 1) % hosts, "src_host": f"h{n}", "dst_host": f"h{(n + 1) % hosts}"}
        rows["traffic"].append({**pair, "group_id": 0, "operation": "all_reduce", "window": "capture", "bytes": size * len(transfers), "rung": "order"})
    bounds = [*(start for start, _ in transfers), transfers[-1][1] + 0.1]
    for rank in range(hosts):
        spans = enumerate(steps if steps is not None else pairwise(bounds))
        rows["steps"] += [{"rank": rank, "step": n, "start_ns": round(a * S), "end_ns": round(b * S), "origin": "annotation"} for n, (a, b) in spans]
    return rows


def _read(series: int, node: str, port: str, way: str, flow: Callable[[float], float], stamps: Sequence[float], **more: Any) -> dict[str, list[Row]]:
    """A counter of bytes that is read at `stamps` of a clock that is `lag` ahead, each `jitter` late; `times` the bytes are counted."""
    lag, late, times, counter = more.get("lag", 0.0), more.get("late", [0.0] * len(stamps)), more.get("times", 1.0), more.get("counter", "bytes")
    seen = [times * flow(t - lag + d) for t, d in zip(stamps, late, strict=True)]
    odd: Mapping[int, str] = more.get("odd", {})
    rates: list[Row] = []
    for n, ((t0, v0), (t1, v1)) in enumerate(pairwise(zip(stamps, seen, strict=True))):
        (row,) = counts(series, node, port, counter, [v1 - v0], way, odd={0: odd[n]} if n in odd else {})
        rates.append({**row, "start_ns": round(t0 * S), "end_ns": round(t1 * S), "per_s": (v1 - v0) / (t1 - t0)})
    clock = more.get("clock", node)
    stamp: Row = {"series": series, "clock": clock, "time_quality": more.get("quality", "device"), "node": node, "device": port, "counter": counter}
    return {"counter_rates": rates, "counters": [{**stamp, "ts_ns": round(t * S) + 1, "source_ts_ns": round(t * S) + 1} for t in stamps]}


def _both(*parts: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = {}
    for part in parts:
        for name, rows in part.items():
            out.setdefault(name, []).extend(rows)
    return out


def _ports(
    flow: Callable[[float], float], stamps: Sequence[float], hosts: int = 4, odd_one: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, list[Row]]:
    """Both directions of the ports E0, E1 … of leaf1. `odd_one`: what is different at what E1 receives from h1."""
    known: dict[float, float] = {}

    def once(t: float) -> float:
        return known.setdefault(t, flow(t)) if t not in known else known[t]

    reads = []
    for n in range(hosts):
        for k, way in enumerate(("tx", "rx")):
            own = odd_one if odd_one is not None and (n, way) == (1, "rx") else {}
            reads.append(_read(10 + 2 * n + k, "leaf1", f"E{n}", way, once, stamps, **{**more, **own}))
    return _both(*reads)


def _regular(period: float, until: float, share: float = 0.4) -> list[tuple[float, float]]:
    return [(n * period, (n + share) * period) for n in range(int(until / period))]


def _irregular(until: float, seed: int = 1) -> list[tuple[float, float]]:
    """Steps of 1.3 s that vary by a few per cent, with pauses of some seconds now and then."""
    r, t, out = random.Random(seed), 0.0, []
    while t < until:
        out.append((t, t + 0.5))
        t += r.uniform(1.25, 1.35) + (r.uniform(2, 6) if r.random() < 0.08 else 0)
    return out


def _clocked(until: float, seed: int = 2, jitter: float = 0.01) -> tuple[list[float], list[float]]:
    """Stamps every second, and how late each sample is taken."""
    r = random.Random(seed)
    return [n + 0.5 for n in range(int(until))], [r.uniform(-jitter, jitter) for _ in range(int(until))]


def _bytes(result: AnalysisResult, node: str, port: str, direction: str) -> dict[str, Any]:
    return result.frames["link_bytes"].row(by_predicate=(pl.col("node") == node) & (pl.col("port") == port) & (pl.col("direction") == direction), named=True)


def _verdicts(result: AnalysisResult) -> dict[str, int]:
    return dict(result.frames["link_bytes"]["verdict"].value_counts().sort("verdict").iter_rows())


def test_ten_minutes_agree_within_one_per_cent_per_minute_and_within_their_error_bars() -> None:
    transfers = _irregular(600)
    stamps, late = _clocked(600)
    size = G
    result = answer(ANALYSIS, Params(windows=10), **_job(transfers, size), **_ports(_flow(transfers, size * ROCE), stamps, late=late))
    assert _verdicts(result) == {"agrees": 8}
    windows = result.frames["link_bytes_windows"].filter(node="leaf1", port="E2", direction="tx")
    assert windows.height in (10, 11)
    apart = (windows["counted_bytes"] / windows["predicted_bytes"] - 1).abs().to_list()
    assert 0 < max(apart) < 0.01, "a sample off by 10 ms is seen, and does not matter over a minute"
    assert ((windows["counted_bytes"] - windows["predicted_bytes"]).abs() <= windows["error_bytes"] * 1.001).all()
    # an error bar is no more than two edges of peak rate × uncertainty: 1 GB in 0.5 s, 10 ms and the standard error of the lag each
    assert max(windows["error_bytes"].to_list()) < 2 * (2 * G * ROCE) * 0.03
    total = _bytes(result, "leaf1", "E2", "tx")
    first, last = 0.5 + late[0], stamps[total["intervals"]] + late[total["intervals"]]
    flow = _flow(transfers, size * ROCE)
    assert total["counted_bytes"] == pytest.approx(flow(last) - flow(first), rel=1e-9)
    assert total["difference"] == pytest.approx(0, abs=1e-3)
    assert total["difference_high"] - total["difference_low"] < 0.001, "edges of ten minutes weigh a tenth of those of one"
    assert result.answer.startswith("8 of 8 counters of bytes agree with what the job sent (RoCE over IPv4 with an assumed 4,096 B per packet)")


@pytest.mark.parametrize("lag", [0.37, -0.37])
def test_a_lag_is_found_where_the_job_pauses_irregularly(lag: float) -> None:
    transfers = _irregular(150)
    stamps, late = _clocked(150)
    result = answer(ANALYSIS, **_job(transfers), **_ports(_flow(transfers, G * ROCE), stamps, late=late, lag=lag))
    row = result.frames["counter_clocks"].row(0, named=True)
    assert result.frames["counter_clocks"].height == 1
    assert (row["clock"], row["status"], row["accepted"], row["host"]) == ("leaf1", "found", True, False)
    assert row["lag_ns"] == pytest.approx(lag * S, abs=0.02 * S)
    assert abs(row["lag_ns"] - lag * S) < 5 * row["se_ns"] < 0.05 * S
    assert re.search(rf"leaf1 is 3[5-9]\d ms {'ahead of' if lag > 0 else 'behind'} the job's \(± [\d.]+ ms\)", result.answer)
    assert _verdicts(result) == {"agrees": 8}
    assert result.degraded == ""


def test_a_strictly_periodic_job_leaves_the_lag_ambiguous_by_whole_steps() -> None:
    transfers = _regular(1.3, 150)
    stamps, late = _clocked(150)
    result = answer(ANALYSIS, **_job(transfers), **_ports(_flow(transfers, G * ROCE), stamps, late=late, lag=0.37))
    rows = result.frames["counter_clocks"]
    assert rows["status"].unique().to_list() == ["ambiguous"]
    assert not rows["accepted"].any()
    lags = sorted(rows["lag_ns"] / S)
    # every shift by a step within the 10 s that are tried
    assert lags == pytest.approx([0.37 + 1.3 * k for k in range(-7, 8)], abs=0.03)
    assert "the job repeats itself" in result.answer
    assert "How far are the clocks of switches and collectors from the job's?" in asked(result)
    assert "leaf1 cannot be checked" in result.degraded
    assert _verdicts(result) == {"agrees": 8}, "totals do not need the lag"
    # nothing is shifted: the nearest of the shifts is in the error bar instead, with the 10 ms of a stamp
    assert 0.37 * S <= _bytes(result, "leaf1", "E0", "tx")["edge_ns"] <= 0.41 * S


def test_captures_too_short_to_try_a_shift_by_a_step_give_no_lag() -> None:
    """Half a minute with samples four times a second, but steps of 8 s: a quarter of the time is no step."""
    transfers = _regular(8.0, 32)
    result = answer(ANALYSIS, **_job(transfers), **_ports(_flow(transfers, G * ROCE), [0.25 * n for n in range(130)], lag=0.37))
    assert result.frames["counter_clocks"].select("status", "lag_ns", "accepted").rows() == [("few", None, False)]


def test_a_lag_also_moves_what_lies_inside_the_captures() -> None:
    """Captured from 20 to 130 s. The sample stamped 20.5 s by a clock that is 0.6 s ahead was taken before."""
    everything = _irregular(150)
    seen = [t for t in everything if t[0] >= 20 and t[1] <= 130]
    stamps, late = _clocked(150)
    job = _job(seen, steps=[(20, 130)])
    # one step as long as the captures would forbid any shift: the captures are marked by steps of 1.3 s
    bounds = [20 + 1.3 * n for n in range(84)] + [130.0]
    job["steps"] = [
        {"rank": r, "step": n, "start_ns": round(a * S), "end_ns": round(b * S), "origin": "annotation"}
        for r in range(4)
        for n, (a, b) in enumerate(pairwise(bounds))
    ]
    result = answer(ANALYSIS, **job, **_ports(_flow(everything, G * ROCE), stamps, late=late, lag=0.6))
    assert result.frames["counter_clocks"]["lag_ns"].to_list() == pytest.approx([0.6 * S], abs=0.02 * S)
    windows = result.frames["link_bytes_windows"].filter(port="E0", direction="tx")
    assert (windows["start_ns"].min(), windows["end_ns"].max()) == (round(21.5 * S), round(130.5 * S))


def test_the_clock_of_a_host_is_checked_too() -> None:
    transfers = _irregular(150)
    stamps, late = _clocked(150)
    flow = _flow(transfers, G * ROCE)
    clocks = [
        {"host": h, "start_ns": 0, "offset_ns": 0, "drift_ppm": 0.0, "uncertainty_ns": 5_000, "method": "collective-ends", "grade": "A"} for h in ("h0", "h1")
    ]
    reads = [_read(n, h, "ens1", "tx", flow, stamps, late=late, lag=lag, quality="file") for n, (h, lag) in enumerate([("h0", 0.0), ("h1", 0.2)])]
    result = answer(ANALYSIS, **_both(_job(transfers), *reads, {"clocks": clocks}))
    rows = {r["clock"]: r for r in result.frames["counter_clocks"].iter_rows(named=True)}
    assert all(r["host"] and r["accepted"] for r in rows.values())
    assert rows["h0"]["lag_ns"] == pytest.approx(0, abs=0.01 * S)
    assert rows["h1"]["lag_ns"] == pytest.approx(0.2 * S, abs=0.01 * S)
    assert "of h1 is" in result.answer
    assert "of h0 is" not in result.answer


def test_a_counter_that_stands_still() -> None:
    transfers = _irregular(60)
    stamps, late = _clocked(60)
    result = answer(ANALYSIS, **_job(transfers), **_ports(_flow(transfers, G * ROCE), stamps, late=late, odd_one={"times": 0.0}))
    assert _verdicts(result) == {"agrees": 7, "nothing": 1}
    row = _bytes(result, "leaf1", "E1", "rx")
    assert (row["counted_bytes"], row["difference"], row["verdict"]) == (0, -1, "nothing")
    assert "Counted nothing: leaf1 E1 rx instead of 31.8 GB" in result.answer


@pytest.mark.parametrize(("times", "verdict"), [(1.08, "more"), (0.9, "less"), (1.01, "agrees")])
def test_more_and_less_than_was_sent(times: float, verdict: str) -> None:
    transfers = _irregular(60)
    stamps, late = _clocked(60)
    result = answer(ANALYSIS, **_job(transfers), **_ports(_flow(transfers, G * ROCE), stamps, late=late, odd_one={"times": times}))
    row = _bytes(result, "leaf1", "E1", "rx")
    assert row["verdict"] == verdict
    assert row["difference_low"] <= times - 1 <= row["difference_high"]
    assert row["difference_high"] - row["difference_low"] < 0.04
    assert row["beside_peers"] == pytest.approx(times - 1, abs=1e-6)
    assert result.frames["link_bytes"].filter(pl.col("verdict") == "agrees").height == (8 if verdict == "agrees" else 7)
    assert (f"Counted {verdict}: leaf1 E1 rx {100 * (times - 1):+.1f} % (" in result.answer) == (verdict != "agrees")


def test_three_per_cent_more_show_beside_peers_where_the_moments_alone_hide_them() -> None:
    transfers = _regular(0.5, 6)
    result = answer(ANALYSIS, **_job(transfers), **_ports(_flow(transfers, G * ROCE), [0.1, 1.1, 2.1, 3.1, 4.1], odd_one={"times": 1.03}))
    row = _bytes(result, "leaf1", "E1", "rx")
    assert row["difference_low"] < 0 < row["difference_high"]
    assert (row["verdict"], row["peers"]) == ("more", 8)
    assert "leaf1 E1 rx +3.0 % beside 7 alike" in result.answer
    assert result.frames["counter_clocks"]["status"].to_list() == ["few"]


def test_resets_and_gaps_are_left_out_and_counted() -> None:
    transfers = _irregular(60)
    stamps, late = _clocked(60)
    odd = {5: "reset", 6: "gap", 30: "gap"}
    plain = answer(ANALYSIS, **_job(transfers), **_ports(_flow(transfers, G * ROCE), stamps, late=late))
    result = answer(ANALYSIS, **_job(transfers), **_ports(_flow(transfers, G * ROCE), stamps, late=late, odd_one={"odd": odd}))
    row, whole = _bytes(result, "leaf1", "E1", "rx"), _bytes(plain, "leaf1", "E1", "rx")
    assert (row["left_out_reset"], row["left_out_gap"], row["intervals"]) == (1, 2, whole["intervals"] - 3)
    assert row["seconds"] == pytest.approx(whole["seconds"] - 3)
    assert row["verdict"] == "agrees"
    assert row["error_bytes"] > whole["error_bytes"], "each piece has two edges"
    windows = result.frames["link_bytes_windows"].filter(port="E1", direction="rx")
    assert not windows.filter((pl.col("start_ns") < 7.5 * S) & (pl.col("end_ns") > 5.5 * S)).height


def test_samples_further_apart_than_the_captures_allow_totals_alone() -> None:
    """One reading before and one after. Eight operations of 1 GB are all that passed; at E1 other bytes are in it too."""
    transfers = _regular(1.0, 8)
    job = _job(transfers)
    result = answer(ANALYSIS, **job, **_ports(_flow(transfers, G * ROCE), [-10.0, 20.0], odd_one={"times": 1.5}))
    row = _bytes(result, "leaf1", "E2", "tx")
    assert (row["scope"], row["verdict"], row["intervals"]) == ("around", "agrees", 1)
    assert row["predicted_bytes"] == pytest.approx(8 * G * ROCE)
    assert _verdicts(result) == {"agrees": 7, "beyond": 1}
    assert "only totals can be compared" in result.answer
    assert "link_bytes_windows" not in result.frames
    assert result.frames["counter_clocks"]["status"].to_list() == ["few"]
    less = answer(ANALYSIS, **job, **_ports(_flow(transfers, G * ROCE), [-10.0, 20.0], odd_one={"times": 0.5}))
    assert _bytes(less, "leaf1", "E1", "rx")["verdict"] == "less", "less than the captures hold is a contradiction"


def test_between_two_captures_nothing_is_predicted_and_nothing_compared() -> None:
    """The job runs on for 60 s, but only the steps of 0 to 20 and of 40 to 60 s are captured."""
    everything = _regular(1.0, 60)
    seen = [t for t in everything if t[0] < 20 or t[0] >= 40]
    steps = [(n, n + 1) for n in (*range(20), *range(40, 60))]
    result = answer(ANALYSIS, **_job(seen, steps=steps), **_ports(_flow(everything, G * ROCE), [n + 0.7 for n in range(60)]))
    row = _bytes(result, "leaf1", "E2", "tx")
    assert (row["intervals"], row["left_out_outside"]) == (19 + 19, 21)
    assert row["difference"] == pytest.approx(0, abs=1e-6)
    assert _verdicts(result) == {"agrees": 8}


def test_a_switch_receives_what_a_host_sends() -> None:
    """Only h0 sends, to h1: E0 receives, E1 sends, nothing else."""
    transfers = _irregular(60)
    job = _job(transfers, hosts=2)
    job["traffic"] = [t for t in job["traffic"] if t["src_rank"] == 0]
    flow, stamps = _flow(transfers, G * ROCE), _clocked(60)[0]
    ends = [("leaf1", "E0", "rx", flow), ("leaf1", "E1", "tx", flow), ("leaf1", "E0", "tx", lambda t: 1e-4 * flow(t)), ("h0", "ens1", "tx", flow)]
    result = answer(ANALYSIS, **_both(job, *(_read(n, node, port, way, f, stamps) for n, (node, port, way, f) in enumerate(ends))))
    assert _verdicts(result) == {"agrees": 4}
    assert {(r["port"], r["direction"]) for r in result.frames["link_bytes"].filter(pl.col("predicted_bytes") > 0).iter_rows(named=True)} == {
        ("E0", "rx"),
        ("E1", "tx"),
        ("mlx5_0", "tx"),
    }


def test_bytes_that_take_the_other_adapter_of_the_host() -> None:
    """The map says mlx5_0 of h0; the bytes are in mlx5_1. Both together are right."""
    transfers = _irregular(60)
    job = _job(transfers, hosts=2)
    job["links"] = [*job["links"], link(2, "h0", "E9", device="mlx5_1", a_port="ens2", rail=1)]
    job["endpoints"] = [uses(0, "h0", 0), uses(1, "h1", 1)]
    flow, stamps = _flow(transfers, G * ROCE), _clocked(60)[0]
    reads = [_read(0, "h0", "ens1", "tx", lambda _: 0.0, stamps), _read(1, "h0", "ens2", "tx", flow, stamps), _read(2, "h1", "ens1", "tx", flow, stamps)]
    result = answer(ANALYSIS, **_both(job, *reads))
    # the port of no rank goes by the device that the wiring names
    assert [(r["node"], r["port"], r["verdict"]) for r in result.frames["link_bytes"].iter_rows(named=True)] == [
        ("h0", "mlx5_0", "nothing"),
        ("h1", "mlx5_0", "agrees"),
        ("h0", "mlx5_1", "unpredicted"),
    ]
    assert result.frames["link_bytes"].filter(host="h0")["host_difference"].to_list() == pytest.approx([0, 0], abs=1e-3)
    assert "the data take other ones than the map of ranks to adapters says" in result.answer


def test_rdma_bytes_count_where_nothing_else_does_and_may_leave_out_headers() -> None:
    transfers = _irregular(60)
    stamps = _clocked(60)[0]
    result = answer(ANALYSIS, **_both(_job(transfers), _read(0, "h0", "mlx5_0", "tx", _flow(transfers, G), stamps, counter="rdma_bytes")))
    row = _bytes(result, "h0", "mlx5_0", "tx")
    assert (row["counter"], row["verdict"]) == ("rdma_bytes", "agrees")
    assert row["difference"] == pytest.approx(1 / ROCE - 1, abs=1e-3)


@pytest.mark.parametrize(
    ("told", "factor"),
    [
        ({"protocol": "LL", "algorithm_origin": "log"}, 2),
        ({"protocol": "LL128", "algorithm_origin": "log"}, 128 / 120),
        ({"protocol": "Simple", "algorithm_origin": "log"}, 1),
        ({"protocol": "LL", "algorithm_origin": "name"}, 1),
    ],
)
def test_flags_of_a_protocol_count_where_a_log_states_it(told: Mapping[str, Any], factor: float) -> None:
    """NCCL's kernels are named after one protocol and run all of them."""
    transfers = _regular(1.0, 8)
    result = answer(ANALYSIS, **_job(transfers, **told), **_ports(_flow(transfers, G), [-1.0, 9.0]))
    assert _bytes(result, "leaf1", "E0", "tx")["captured_bytes"] == pytest.approx(8 * G * ROCE * factor)


@pytest.mark.parametrize(
    ("facts", "share"),
    [
        ({"link_layer": "InfiniBand"}, 24 / 4096),
        ({"link_layer": "Ethernet", "mtu": 1500}, 62 / 1024),
        ({"link_layer": "Ethernet", "mtu": 9000}, 62 / 4096),
        ({"link_layer": "Ethernet", "mtu": 4200}, 62 / 4096),
        ({}, 62 / 4096),
    ],
)
def test_headers_by_link_layer_and_frame_size(facts: Mapping[str, Any], share: float) -> None:
    interfaces = [{"device": "mlx5_0", "node_kind": "host", **facts}, {"device": "Ethernet1", "mtu": 576}]
    assert headers_of(Network(**star(2), interfaces=interfaces), 4096).share == pytest.approx(share)


def test_until_is_the_sum_over_overlapping_transfers() -> None:
    r = random.Random(5)
    transfers = [(t := r.uniform(0, 10), t + r.choice([0.001, 0.5, 3.0])) for _ in range(50)]
    predicted = predicted_of(Network(**_job(sorted(transfers), 1_000_000)), headers_of(Network(**star(2)), 4096))
    flow = _flow(sorted(transfers), 1_000_000 * ROCE)
    moments = [-1.0, 0.0, *(r.uniform(0, 14) for _ in range(100)), 20.0]
    sent = predicted.share(0, "tx") @ predicted.until(np.array([round(t * S) for t in moments]))
    assert sent == pytest.approx([flow(t) for t in moments], abs=10)


def test_covered_is_what_all_ranks_captured() -> None:
    steps = [
        {"rank": r, "step": n, "start_ns": a, "end_ns": b, "origin": "annotation"}
        for r, n, a, b in [(0, 0, 0, 10), (0, 1, 10, 20), (0, 5, 50, 60), (1, 0, 3, 18)]
    ]
    start, end = covered_of(Network(steps=steps))
    assert (start.tolist(), end.tolist()) == ([3], [18])
    start, end = covered_of(Network(steps=[{**steps[0]}, {**steps[3], "start_ns": 30, "end_ns": 40}]))
    assert (start.tolist(), end.tolist()) == ([0, 30], [10, 40]), "ranks that never overlap"


@pytest.mark.parametrize(("every", "rising", "steps", "fine"), [(1, range(80, 100), "40–49", True), (10, [4], "20–24", False)])
def test_steps_that_coincide_with_a_rise(every: int, rising: Sequence[int], steps: str, fine: bool) -> None:
    """Steps of 2 s; symbol errors in the seconds 80 to 100, or in one sample of 10 s, at one of four ports."""
    transfers = _regular(2.0, 120)
    samples = 120 // every
    errors = [1000.0 if n in rising else 0.0 for n in range(samples)]
    rates = [counts(50 + n, f"h{n}", "ens1", "symbol_errors", errors if n == 1 else [0.0] * samples, "rx", every=every) for n in range(4)]
    job = _job(transfers)
    ports = _ports(_flow(transfers, G * ROCE), _clocked(120)[0])
    stamps = {"counters": [{"series": 50 + n, "clock": f"h{n}", "ts_ns": 1, "source_ts_ns": 1, "time_quality": "device"} for n in range(4)]}
    clocks = [
        {"host": f"h{n}", "start_ns": 0, "offset_ns": 0, "drift_ppm": 0.0, "uncertainty_ns": 0, "method": "collective-ends", "grade": "A"} for n in range(4)
    ]
    result = answer(
        ANALYSIS,
        Params(device_jitter_s=0),
        **_both(job, ports, stamps, {"counter_rates": [r for s in rates for r in s], "clocks": clocks}),
    )
    (row,) = result.frames["counter_rises"].iter_rows(named=True)
    assert (row["node"], row["counter"], row["class"], row["stands_out"]) == ("h1", "symbol_errors", "all_reduce of data", True)
    assert (row["steps"], row["shows_steps"], row["rising"], row["intervals"]) == (steps, fine, len(rising), samples - (every == 1))
    assert row["resolution_ns"] == pytest.approx(every * S)
    assert row["times"] == pytest.approx(1, abs=0.15), "the class moves as much at other times"
    assert f"symbol errors {'in' if fine else 'in samples that hold'} steps {steps}" in result.answer
    assert "Which single operation made a counter rise?" in asked(result)


def test_moments_of_whole_seconds_and_unaligned_clocks_widen_the_error_bar() -> None:
    transfers = _regular(0.5, 6)
    rows = _both(_job(transfers), _read(0, "leaf1", "E0", "tx", _flow(transfers, G * ROCE), [1.0, 2.0, 3.0, 4.0], quality="path"))
    fine = answer(ANALYSIS, **rows)
    rows["counters"] = [{**c, "source_ts_ns": c["ts_ns"] - 1} for c in rows["counters"]]
    whole = answer(ANALYSIS, **rows)
    edges = [_bytes(r, "leaf1", "E0", "tx")["edge_ns"] for r in (fine, whole)]
    assert edges == [150_000_000, 1_150_000_000], "50 ms of reading, 100 ms of a clock that nothing checks, and the second that the moment is rounded to"
    assert [_bytes(r, "leaf1", "E0", "tx")["verdict"] for r in (fine, whole)] == ["agrees", "unclear"]


def test_without_steps_nothing_is_compared() -> None:
    transfers = _regular(1.0, 8)
    job = {**_job(transfers), "steps": []}
    result = answer(ANALYSIS, **job, **_ports(_flow(transfers, G), [0.5, 1.5, 2.5]))
    assert _verdicts(result) == {"not compared": 8}
    assert result.answer.startswith("Whether the counters agree with what the job sent cannot be told")
    assert asked(result)[0] == "Do the counters agree with what the job sent?"


def test_without_counters_or_traffic_it_does_not_apply() -> None:
    transfers = _regular(1.0, 8)
    for missing, words in (("counter_rates", "no counter of a link was read twice"), ("traffic", "no operation with bytes")):
        rows = _both(_job(transfers), _ports(_flow(transfers, G), [0.5, 1.5]))
        del rows[missing]
        (outcome,) = run_analyses([ANALYSIS], Network(**rows), raise_errors=True)
        assert outcome.status.status == "not_applicable"
        assert words in outcome.status.reason


def test_a_job_inside_one_host_sends_nothing() -> None:
    transfers = _regular(1.0, 8)
    job = _job(transfers)
    job["traffic"] = [{**t, "dst_host": t["src_host"]} for t in job["traffic"]]
    result = answer(ANALYSIS, **job, **_ports(_flow(transfers, G), [0.5, 1.5]))
    assert result.answer == "Nothing that the job sent is known to cross its links."
    assert not result.frames


def test_counters_of_other_machines_are_no_answer() -> None:
    transfers = _regular(1.0, 8)
    result = answer(ANALYSIS, **_both(_job(transfers), _read(1, "elsewhere", "eth0", "tx", _flow(transfers, G), [0.5, 1.5])))
    assert result.answer.startswith("Not collected")
