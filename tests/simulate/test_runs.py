"""Whole runs: what must hold of every one, and what faults cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tracelab.errors import UsageError
from tracelab.simulate import Cluster, Fault, Job, Outcome, Scenario, lost_ns, run
from tracelab.simulate.clocks import EPOCH_NS, Clock, Skew, clock_of
from tracelab.simulate.model import Layout
from tracelab.simulate.spec import check, fault_from

C = Cluster(hosts=2, gpus=2, nics=2)
LAYOUTS: tuple[Layout, ...] = ("ddp", "ddp_single_bucket", "fsdp", "tp_dp", "pp_dp", "moe")


def scenario(*faults: Fault, layout: Layout = "ddp", **job: object) -> Scenario:
    return Scenario(C, Job(**{"layout": layout, "steps": 4, "layers": 3, "pp": 2, **job}), faults, seed=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_holds_of_every_run(layout: Layout) -> None:
    out = run(scenario(layout=layout))
    assert not out.stalled
    assert [len(s) for s in out.steps] == [4] * 4
    for c in out.collectives:
        assert set(c.starts) == set(c.ends) == set(c.members)
        assert c.began == max(c.starts.values())
        assert c.began < c.ended < min(c.ends.values())
    for spans in out.gpu:
        for stream in {s.stream for s in spans}:
            mine = [s for s in spans if s.stream == stream]
            assert all(a.end < b.start for a, b in pairwise(mine)), "a stream does one thing at a time"
    for r, spans in enumerate(out.gpu):
        launched = {s.correlation: s.end for s in out.host[r] if s.kind == "runtime" and s.correlation}
        assert all(s.start > launched[s.correlation] for s in spans)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_links_carry_what_operations_move(layout: Layout) -> None:
    out = run(scenario(layout=layout))
    carried = sum(x.bytes_per_s * (x.end - x.start) / 1e9 for x in out.loads if x.link.endswith("tx"))
    moved = 0.0
    for c in out.collectives:
        n, hosts = len(c.members), {C.host_of(r) for r in c.members}
        if len(hosts) > 1:  # two hosts: a ring crosses once each way; of all pairs a quarter crosses each way
            once = {"all_reduce": 2 * (n - 1) / n, "all_to_all": n / 4, "send_recv": 0.5}.get(c.operation, (n - 1) / n)
            moved += 2 * once * c.bytes
    assert carried == pytest.approx(1.015 * moved, rel=1e-5), "whole nanoseconds"


def test_equal_scenarios_give_equal_runs() -> None:
    one, two = run(scenario(layout="fsdp")), run(scenario(layout="fsdp"))
    assert (one.gpu, one.host, one.loads) == (two.gpu, two.host, two.loads)
    assert run(replace(scenario(layout="fsdp"), seed=6)).gpu != one.gpu


def _forward(out: Outcome, rank: int) -> list[int]:
    return [s.end - s.start for s in out.gpu[rank] if s.name.startswith("forward")]


def test_a_fault_changes_nothing_of_what_is_drawn_for_others() -> None:
    healthy, ill = run(scenario()), run(scenario(Fault("slow_gpu", 1.5, ranks=(1,))))
    assert _forward(healthy, 0) == _forward(ill, 0)
    assert sum(_forward(ill, 1)) / sum(_forward(healthy, 1)) == pytest.approx(1.5, rel=1e-5)


def test_a_slow_gpu_costs_its_compute() -> None:
    """Per step 3 layers of 4 + 8 ms and 1.6 ms of optimizer, of which 30 % more; backward is slowed by up to 8 % beside transfers."""
    s = scenario(Fault("slow_gpu", 1.3, ranks=(1,)))
    (lost,) = lost_ns(s, run(s))
    assert lost is not None
    assert 4 * 0.3 * 37.6e6 <= lost <= 4 * 0.3 * (13.6 + 24 * 1.08) * 1e6 * 1.02


def test_a_slow_link_costs_what_it_does_not_hide() -> None:
    """One bucket of 300 MB: 2·3/4 of it over two rings, one of them at a tenth of 25 GB/s. 91 ms instead of 9.1, after compute."""
    s = scenario(Fault("slow_link", 0.1, hosts=(1,)), layout="ddp_single_bucket")
    (lost,) = lost_ns(s, run(s))
    assert lost is not None
    assert lost == pytest.approx(4 * 0.9 * 300e6 * 1.5 / 2 * 1.015 / 2.5e9 * 1e9, rel=0.01)


def test_losses_of_two_faults_are_told_apart() -> None:
    both = (Fault("input_stall", 0.05, ranks=(3,), every=2), Fault("slow_gpu", 1.5, ranks=(1,)))
    s = scenario(*both)
    stall, slow = lost_ns(s, run(s))
    assert stall is not None
    assert slow is not None
    assert stall <= 2 * 50e6 * 1.01
    assert slow > 0


def test_no_fault_no_loss_and_a_fault_of_size_one_neither() -> None:
    s = scenario(Fault("slow_gpu", 1.0, ranks=(1,)))
    assert lost_ns(s, run(s)) == [0]


def test_a_rank_that_stops_leaves_the_others_waiting() -> None:
    s = scenario(Fault("hang", ranks=(2,), onset=0.5))
    out = run(s)
    assert out.stalled
    assert lost_ns(s, out) == [None]
    assert [len(steps) for steps in out.steps] == [2] * 4
    open_ones = [c for c in out.collectives if not c.ends]
    assert min(open_ones, key=lambda c: c.number).starts.keys() == {0, 1, 3}


def test_clocks_by_hand() -> None:
    clock = Clock(1_000, 2.0, (0, 500, 500), ((3_000_000_000, -7_000),))
    assert clock.shows(0) == EPOCH_NS + 1_000
    assert clock.error(500_000_000) == 1_000 + 1_000 + 250
    assert clock.error(4_000_000_000) == 1_000 + 8_000 + 500 - 7_000
    assert clock_of(1, "a", Skew(), 10**9) == clock_of(1, "a", Skew(), 10**9) != clock_of(1, "b", Skew(), 10**9)


def test_faults_in_words() -> None:
    assert fault_from("slow_gpu:ranks=5+6,size=1.5,onset=0.2") == Fault("slow_gpu", 1.5, ranks=(5, 6), onset=0.2)
    assert fault_from("no_overlap") == Fault("no_overlap")


@pytest.mark.parametrize("text", ["slow", "slow_gpu:speed=1", "slow_gpu:size=x", "slow_gpu:ranks=1-3"])
def test_words_that_mean_no_fault(text: str) -> None:
    with pytest.raises(UsageError):
        fault_from(text)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("slow_gpu", 1.3, ranks=(4,)),
        Fault("slow_link", 0.3),
        Fault("slow_link", 0.3, hosts=(1,), nic=2),
        Fault("slow_gpu", 1.3, onset=0.6, end=0.4),
        Fault("hang"),
        Fault("periodic_jitter", 5.0),
        Fault("pipeline_imbalance", 1.2),
        Fault("ecmp_collision", hosts=(0,)),
    ],
)
def test_faults_that_cannot_be(fault: Fault) -> None:
    with pytest.raises(UsageError) as caught:
        check(scenario(fault))
    assert caught.value.hint
