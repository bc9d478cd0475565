"""Which link cost the job time, and how much: simulated jobs whose true loss is the difference to the same job without the fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import polars as pl

from tests.builders.frames import frame
from tests.builders.slow_network import COMPUTE, US, Sim
from tracelab.analyses.network.faults import ANALYSIS, Params
from tracelab.analysis import AnalysisResult
from tracelab.results import Evidence, Finding
from tracelab.tables import TABLES

S = 1_000_000_000
HOSTS = 4
SPEED = 200 * 10**9
STEPS = 20
Row = dict[str, Any]
Rates = Mapping[tuple[int, str], Callable[[int], float]]


def _steady(per_s: float, _: int) -> float:
    return per_s


class Given:
    """The protocol `tracelab.analysis.Tables`: a simulated job of one rank per host, its links, and what their ports counted each 50 ms.

    `rates`: events per second as a function of the moment, by (link, counter), at the host's end, or at the switch's where the
    counter's name begins with `switch:`.
    """

    def __init__(self, sim: Sim, rates: Rates, *, speed: int | None = SPEED, speeds: Mapping[int, int] | None = None, at_least: bool = False) -> None:
        self.memo: dict[str, object] = {}
        self._rows: dict[str, list[Row]] = {name: [] for name in TABLES}
        self._job(sim)
        self._network(sim, rates, at_least=at_least)
        self.change("links", lambda row: {**row, "speed_bps": (speeds or {}).get(row["link"], speed)})

    def add(self, table: str, rows: list[Row]) -> None:
        self._rows[table] += rows

    def change(self, table: str, to: Callable[[Row], Row]) -> None:
        self._rows[table] = [to(row) for row in self._rows[table]]

    def _job(self, sim: Sim) -> None:
        rows, first = self._rows, 1_000_000_000
        self.window = (first, sim.steps[-1])
        for r in range(sim.ranks):
            rows["ranks"].append({"rank": r, "host": f"node{r}", "sources": "", "windows": 1, "truncated": False, "gpu": "NVIDIA A100"})
            rows["sources"].append({"source_id": r, "part": 0, "role": "analysed", "rank": r, "world_size": sim.ranks})
            bounds = [first, *sim.steps]
            rows["steps"] += [{"rank": r, "step": n, "start_ns": a, "end_ns": b, "origin": "annotation"} for n, (a, b) in enumerate(pairwise(bounds))]
            for n, (start, end, stream, launch, match, _) in enumerate(sorted(sim.rows[r])):
                at = {"source_id": r, "rank": r, "part": 0, "ts_ns": start, "source_ts_ns": start, "dur_ns": end - start, "clamped": False, "correlation": n}
                rows["gpu_spans"].append({**at, "kind": "kernel", "name": "gemm" if stream == COMPUTE else "ncclDevKernel_AllGather_RING_LL", "stream": stream})
                rows["host_spans"].append({**at, "kind": "runtime", "name": "cudaLaunchKernel", "ts_ns": launch, "source_ts_ns": launch, "dur_ns": 5 * US})
                if match >= 0:
                    op = {
                        "op_id": len(rows["collectives"]),
                        "source_id": r,
                        "rank": r,
                        "group_id": 0,
                        "operation": "all_gather",
                        "library": "nccl",
                        "stream": stream,
                    }
                    rows["collectives"].append({**op, "start_ns": start, "end_ns": end, "source_ts_ns": start, "match_id": match})
            for began, ended in sim.waits[r]:
                at = {"source_id": r, "rank": r, "part": 0, "ts_ns": began, "source_ts_ns": began, "dur_ns": ended - began, "clamped": False}
                rows["host_spans"].append({**at, "kind": "runtime", "name": "cudaStreamSynchronize"})
        self._matches(sim)

    def _matches(self, sim: Sim) -> None:
        """An operation's bytes are what a link of 200 Gb/s, at 90 % and with headers, carries in the time that it takes on a good network."""
        rows = self._rows
        by_match: dict[int, list[tuple[int, int]]] = {}
        for r in range(sim.ranks):
            for start, end, _, _, match, _ in sim.rows[r]:
                if match >= 0:
                    by_match.setdefault(match, []).append((start, end))
        for match, spans in sorted(by_match.items()):
            last, end = max(s for s, _ in spans), spans[0][1]
            scale = sim.scale(last) if callable(sim.scale) else sim.scale
            size = round((end - last) / scale * 1e-9 * SPEED / 8 * 0.9 / 1.015)
            step = sum(e < last for e in sim.steps)
            same = {"match_id": match, "group_id": 0, "operation": "all_gather", "bytes": size, "step": step}
            rows["matches"].append({**same, "last_start_ns": last, "end_ns": end, "transfer_ns": end - last, "members": HOSTS, "present": HOSTS})
            rows["operations"].append({**same, "operation_id": match, "origin": "trace", "size": HOSTS})
        total = sum(m["bytes"] for m in rows["matches"])
        for r in range(sim.ranks):  # a ring in the order of ranks: all of an operation's bytes leave each host once
            pair = {"src_rank": r, "dst_rank": (r + 1) % HOSTS, "src_host": f"node{r}", "dst_host": f"node{(r + 1) % HOSTS}", "group_id": 0}
            rows["traffic"].append({**pair, "operation": "all_gather", "algorithm": "RING", "window": "capture", "bytes": total, "rung": "assumed"})
            rows["endpoints"].append({"rank": r, "host": f"node{r}", "device": "mlx5_0", "link": r, "share": 1.0, "origin": "order"})

    def _network(self, sim: Sim, rates: Rates, *, at_least: bool) -> None:
        first, last = self.window
        tick = 50_000_000
        for n in range(sim.ranks):
            link = {"link": n, "a_node": f"node{n}", "a_device": "mlx5_0", "b_node": "leaf1", "b_port": f"Ethernet{n}", "tier": 0, "rail": 0}
            self._rows["links"].append({**link, "a_series": True, "b_series": True, "origin": "table"})
        series = 0
        names = sorted({name for _, name in rates} | {"bytes"})
        for name in names:
            for n in range(sim.ranks):
                rate = rates.get((n, name), partial(_steady, 3e9 if name == "bytes" else 0.0))
                here = {"node": "leaf1", "device": f"Ethernet{n}"} if name.startswith("switch:") else {"node": f"node{n}", "device": "mlx5_0"}
                base = {
                    **here,
                    "series": series,
                    "direction": "rx",
                    "counter": name.removeprefix("switch:"),
                    "gap": False,
                    "at_least": at_least and name != "bytes",
                }
                for start in range(first - 2 * tick, last + 2 * tick, tick):
                    per_s = rate(start)
                    self._rows["counter_rates"].append({**base, "start_ns": start, "end_ns": start + tick, "delta": per_s * tick / 1e9, "per_s": per_s})
                self._rows["counters"].append({**base, "source_id": 0, "line": series, "ts_ns": last, "source_ts_ns": last})
                series += 1

    def __getitem__(self, name: str) -> pl.LazyFrame:
        return frame(TABLES[name], self._rows[name]).lazy()

    def __contains__(self, name: object) -> bool:
        return bool(self._rows.get(str(name)))

    def evidence(self, source_id: int, rank: int | None, source_ts_ns: int | None, ts_ns: int | None, text: str) -> Evidence:
        return Evidence(f"file {source_id}", rank, source_ts_ns, ts_ns, text)


def sim(scale: float | Callable[[int], float]) -> Sim:
    return Sim(HOSTS, 5, scale).run(STEPS, 4)


def true_loss_s(slow: Sim) -> float:
    return (slow.steps[-1] - sim(1.0).steps[-1]) / 1e9


def run(slow: Sim, rates: Rates, **more: Any) -> AnalysisResult:
    return ANALYSIS.run(Given(slow, rates, **more), Params())


def only(result: AnalysisResult) -> Finding:
    (finding,) = result.findings
    return finding


ERRORS: Rates = {(2, "symbol_errors"): lambda _: 120.0, (2, "switch:crc_errors"): lambda _: 40.0}
REPEATS: Rates = {(2, "packet_seq_err"): lambda _: 100.0}


def test_a_damaged_cable_is_named_with_what_it_cost() -> None:
    slow = sim(3.0)
    found = only(run(slow, {**ERRORS, **REPEATS}))
    (link,) = found.links
    assert (found.kind, found.confidence, found.hosts) == ("slow_link", "proven", ["node2"])
    assert (link.host, link.nic, link.switch, link.port) == ("node2", "mlx5_0", "leaf1", "Ethernet2")
    assert abs(found.lost_s - true_loss_s(slow)) <= 0.03 * true_loss_s(slow)
    assert found.lost_s_low <= found.lost_s <= found.lost_s_high
    assert len(found.steps) == STEPS
    assert all(e.source == "file 0" for e in found.evidence)


def test_errors_beside_counters_of_repeats_that_did_not_rise_cost_nothing() -> None:
    """Damaged packets are sent again: where no host repeated any, the errors were not on what the job sent."""
    assert run(sim(3.0), {**ERRORS, (2, "packet_seq_err"): lambda _: 0.0}).findings == ()


def test_errors_whose_effect_nothing_counted_are_likely_at_most() -> None:
    found = only(run(sim(3.0), ERRORS))
    assert found.confidence == "likely"
    assert "Nothing that was collected shows whether packets had to wait or be sent again there." in found.summary


def test_errors_that_cost_nothing_are_no_finding() -> None:
    result = run(sim(1.0), ERRORS)
    assert result.findings == ()
    assert "without a measurable cost: node2 mlx5_0 (leaf1 Ethernet2)" in result.answer


def test_slow_transfers_without_a_link_that_stands_out_are_no_finding() -> None:
    assert run(sim(3.0), {}).findings == ()


def test_the_same_errors_on_all_links_name_nobody() -> None:
    assert run(sim(3.0), {(n, "symbol_errors"): lambda _: 120.0 for n in range(HOSTS)}).findings == ()


def test_a_network_that_reaches_less_than_its_speed_is_no_fault() -> None:
    """85 % of what large transfers usually reach, throughout, and a cable with errors."""
    assert run(sim(1.15), ERRORS).findings == ()


def test_a_rise_that_a_reset_explains_is_none() -> None:
    assert run(sim(3.0), ERRORS, at_least=True).findings == ()


def test_a_link_that_loses_packets() -> None:
    """1,200 lost packets per second of 730,000 are one in 610: in flight are 610 after 100 µs at 200 Gb/s, so transfers take twice as long."""
    slow = sim(2.0)
    lost = 3e9 / 4096 / 610
    found = only(run(slow, {(1, "packet_seq_err"): lambda _: lost, (1, "switch:discards"): lambda _: lost}))
    assert (found.kind, [x.host for x in found.links]) == ("packet_loss", ["node1"])
    assert abs(found.lost_s - true_loss_s(slow)) <= 0.03 * true_loss_s(slow)


def _from_middle(slow: float) -> tuple[Callable[[int], float], int]:
    half = sim(1.0).steps[STEPS // 2]
    return (lambda t: slow if t >= half else 1.0), half


def test_a_fault_that_begins_later_is_found_where_it_is() -> None:
    scale, half = _from_middle(3.0)
    slow = sim(scale)
    found = only(run(slow, {(2, "symbol_errors"): lambda t: 120.0 if t >= half else 0.0}))
    assert abs(found.lost_s - true_loss_s(slow)) <= 0.05 * true_loss_s(slow)
    assert set(found.steps) == set(range(STEPS // 2 + 1, STEPS))


def test_a_later_fault_needs_no_speed() -> None:
    """What the same transfers took before is measured."""
    scale, half = _from_middle(3.0)
    slow = sim(scale)
    found = only(run(slow, {(2, "symbol_errors"): lambda t: 120.0 if t >= half else 0.0}, speed=None))
    assert abs(found.lost_s - true_loss_s(slow)) <= 0.1 * true_loss_s(slow)


def test_a_link_that_goes_down_for_a_while() -> None:
    """Transfers between two moments take until the link is back."""
    down = sim(1.0).steps[8]
    back = down + 300_000_000
    slow = sim(lambda t: max(1.0, (back - t) / 2.5e6) if down <= t < back else 1.0)
    found = only(run(slow, {(3, "link_down_events"): lambda t: 20.0 if down <= t < down + 50_000_000 else 0.0}))
    assert (found.kind, [x.host for x in found.links], found.steps) == ("link_flap", ["node3"], [9])
    assert abs(found.lost_s - true_loss_s(slow)) <= 0.1 * true_loss_s(slow)


def test_marks_alone_are_how_congestion_control_works() -> None:
    """One port marks many packets throughout, transfers never ran at full speed, and it carries no more than its equals."""
    assert run(sim(2.0), {(0, "switch:ecn_marked_packets"): lambda _: 30_000.0}).findings == ()


def test_a_port_that_carries_more_than_its_equals_and_marks_is_congested() -> None:
    slow = sim(2.0)
    rates: Rates = {(0, "switch:ecn_marked_packets"): lambda _: 30_000.0, (0, "bytes"): lambda _: 9e9}
    found = only(run(slow, rates))
    assert (found.kind, [x.port for x in found.links]) == ("congestion", ["Ethernet0"])


def test_marks_that_come_and_go_with_slow_transfers_are_congestion() -> None:
    scale, half = _from_middle(2.5)
    slow = sim(scale)
    found = only(run(slow, {(0, "pfc_pause_frames"): lambda t: 4_000.0 if t >= half else 0.0}))
    assert found.kind == "congestion"
    assert abs(found.lost_s - true_loss_s(slow)) <= 0.1 * true_loss_s(slow)


def test_marks_beside_transfers_that_are_now_quick_and_now_slow_are_congestion() -> None:
    """Every 20 ms the network is another one: between 1.3 and 4 times as slow as it should be."""
    slow = sim(lambda t: (1.3, 4.0, 2.0, 3.0)[t // 20_000_000 % 4])
    found = only(run(slow, {(0, "switch:ecn_marked_packets"): lambda _: 30_000.0}))
    assert found.kind == "congestion"
    assert abs(found.lost_s - true_loss_s(slow)) <= 0.1 * true_loss_s(slow)


def test_the_cable_is_told_before_the_queue_behind_it() -> None:
    found = only(run(sim(3.0), {**ERRORS, (0, "pfc_pause_frames"): lambda _: 4_000.0, (1, "pfc_pause_frames"): lambda _: 4_000.0}))
    assert (found.kind, [x.host for x in found.links]) == ("slow_link", ["node2"])


def test_loss_is_told_from_damage_elsewhere_that_made_nobody_repeat() -> None:
    """Damaged packets on one cable are few beside the packets sent again, which another link dropped; both counted for the whole run."""
    slow = sim(2.0)
    lost = 3e9 / 4096 / 610
    rates: Rates = {
        (1, "packet_seq_err"): lambda _: lost,
        (1, "switch:discards"): lambda _: lost,
        (3, "switch:crc_errors"): lambda _: 0.05 * lost,
    }
    found = only(run(slow, rates))
    assert (found.kind, [x.host for x in found.links]) == ("packet_loss", ["node1"])


def test_links_that_cannot_be_told_apart_are_both_named() -> None:
    """Two cables count the same errors at the same time: one of them is the reason, or both."""
    both: Rates = {(n, name): rate for n in (1, 2) for (_, name), rate in {**ERRORS, **REPEATS}.items()}
    result = run(sim(3.0), both)
    found = only(result)
    assert found.confidence == "likely"
    assert "node1" in found.summary
    assert "It may as well be" in found.summary
    assert "node2" in found.summary


def test_a_flap_does_not_explain_a_run_that_was_slow_throughout() -> None:
    """A link was down for a moment; transfers were as slow before and long after."""
    down = sim(3.0).steps[8]
    flap: Rates = {(3, "link_down_events"): lambda t: 20.0 if down <= t < down + 50_000_000 else 0.0}
    assert run(sim(3.0), flap).findings == ()


def test_a_flap_seen_by_one_sample_over_the_whole_run_needs_few_slow_transfers() -> None:
    """Coarse samples: the event lies somewhere in the run. Transfers that are all equally slow were not held up by it, a few may have been."""
    always: Rates = {(3, "link_down_events"): lambda _: 3.0}
    assert run(sim(2.0), always).findings == ()
    down = sim(1.0).steps[8]
    back = down + 300_000_000
    slow = sim(lambda t: max(1.0, (back - t) / 2.5e6) if down <= t < back else 1.0)
    found = only(run(slow, always))
    assert (found.kind, [x.host for x in found.links], found.steps) == ("link_flap", ["node3"], [9])


def test_faster_links_that_carry_nothing_of_the_job_slow_nobody() -> None:
    """Six storage ports of 400 Gb/s beside four of 200: the job's are not below the others' speed."""
    given = Given(sim(1.0), {(0, "symbol_errors"): lambda _: 0.0})
    spare = [{"link": 10 + n, "a_node": f"node{n % 4}", "a_device": f"mlx5_{8 + n // 4}", "tier": 0, "rail": 1, "speed_bps": 400 * 10**9} for n in range(6)]
    given.add("links", [{**row, "a_series": False, "b_series": False, "origin": "table"} for row in spare])
    result = ANALYSIS.run(given, Params())
    assert result.findings == ()
    assert result.answer == "No link's counters stand out beside those of its peers."


def test_a_link_below_the_speed_of_those_that_the_job_uses_is_named() -> None:
    """One of four runs at 50 Gb/s: transfers take four times as long."""
    given = Given(sim(4.0), {(0, "symbol_errors"): lambda _: 0.0}, speeds={1: 50 * 10**9})
    found = only(ANALYSIS.run(given, Params()))
    assert (found.kind, [x.host for x in found.links]) == ("slow_link", ["node1"])
    assert "it runs at 50 Gb/s, most others at 200" in found.summary


def test_adapters_that_nobody_counted_are_said() -> None:
    given = Given(sim(3.0), {(0, "symbol_errors"): lambda _: 0.0})
    given.change("links", lambda row: {**row, "a_series": False, "b_series": False} if row["link"] == 2 else row)
    result = ANALYSIS.run(given, Params())
    assert result.findings == ()
    assert result.answer.endswith("Nothing counted 1 of the job's 4 adapters (node2 mlx5_0): a fault there would not show.")
    (unseen,) = result.not_observable
    assert unseen.question == "Did 1 of the job's 4 adapters lose, damage or hold up packets?"


def test_equal_input_gives_equal_findings() -> None:
    assert run(sim(3.0), ERRORS).findings == run(sim(3.0), ERRORS).findings
