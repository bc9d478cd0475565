"""Bytes per pair of ranks: every algorithm against a play of its schedule, conservation, and independence of the numbering."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import comm_frames as make
from tests.traffic import simulated as play
from tracelab.traffic.edges import build_edges, communicators_of
from tracelab.traffic.volumes import Volumes, traffic_volumes

SIZES = st.one_of(st.sampled_from([0, 1, 2, 7, 13, 127, 4096, 1_000_003, 2**31 - 1, 10**12]), st.integers(0, 10**7))


@dataclass
class Job:
    """One communicator over `ranks` (global, in its order) with rings and trees (of its own ranks) per channel."""

    ranks: list[int]
    hosts: dict[int, str]
    rings: list[list[int]]
    trees: list[dict[int, int]] = field(default_factory=list)
    switch: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(self.ranks)

    def volumes(self, *operations: Mapping[str, object]) -> Volumes:
        links = [make.link(a, b, kind="tree", channel=c) for c, t in enumerate(self.trees) for a, b in t.items()]
        links += [make.link(a, b, kind="nvls_tree", channel=c) for c, pairs in self.switch.items() for a, b in pairs]
        orders = [make.order(r, channel=c) for c, r in enumerate(self.rings)]
        comms = communicators_of(make.job_comms(make.job_comm(self.ranks, channels=len(self.rings))), make.groups(sorted(self.ranks)), self.hosts)
        edges = build_edges(make.tables(links, orders), make.comm_map(), comms)
        return traffic_volumes(make.operations(*({"size": self.n} | dict(o) for o in operations)), edges, comms, self.hosts)

    def global_ring(self, channel: int) -> list[int]:
        return [self.ranks[r] for r in self.rings[channel]]


@st.composite
def jobs(draw: st.DrawFn, *, most_channels: int = 16, trees: bool = False) -> Job:
    hosts, gpus = draw(st.sampled_from([(1, 2), (1, 3), (1, 8), (2, 1), (2, 2), (2, 4), (3, 2), (3, 1), (4, 3), (5, 1), (7, 1)]))
    n = hosts * gpus
    rng = random.Random(draw(st.integers(0, 2**32)))
    channels = draw(st.integers(1, most_channels))
    ranks = rng.sample(range(2 * n), n)
    rings = [[0, *rng.sample(range(1, n), n - 1)] for _ in range(channels)]
    grown = [random_tree(n, rng) for _ in range(channels)] if trees else []
    return Job(ranks, {r: f"h{i // gpus}" for i, r in enumerate(ranks)}, rings, grown)


def random_tree(n: int, rng: random.Random) -> dict[int, int]:
    """Child: parent, over all ranks."""
    order = rng.sample(range(n), n)
    return {order[i]: order[rng.randrange(i)] for i in range(1, n)}


def matrix(volumes: Volumes) -> Counter[tuple[int, int]]:
    out: Counter[tuple[int, int]] = Counter()
    for src, dst, size in volumes.traffic.select("src_rank", "dst_rank", "bytes").iter_rows():
        out[src, dst] += size
    return out


def positive(moved: Counter[tuple[int, int]]) -> Counter[tuple[int, int]]:
    return Counter({k: v for k, v in moved.items() if v})


def expect(job: Job, operation: str, size: int, root: int | None = None) -> Counter[tuple[int, int]]:
    """The play of an operation over rings."""
    channels = range(len(job.rings))
    rings = [job.global_ring(c) for c in channels]
    if operation == "all_reduce":
        return play.over_channels(size, channels, lambda c, s: play.ring_all_reduce(rings[c], s))
    if operation in ("broadcast", "reduce"):
        assert root is not None
        one = play.ring_broadcast if operation == "broadcast" else play.ring_reduce
        return play.over_channels(size, channels, lambda c, s: one(rings[c], s, root))
    total: Counter[tuple[int, int]] = Counter()
    one_phase = play.ring_all_gather if operation == "all_gather" else play.ring_reduce_scatter
    by_channel = [play.cut(block, len(rings)) for block in play.cut(size, job.n)]
    for c in channels:
        total += one_phase(rings[c], [shares[c] for shares in by_channel])
    return total


@settings(max_examples=40)
@given(jobs(), SIZES, st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"]), st.randoms(use_true_random=False))
def test_rings_carry_what_a_play_of_the_schedule_hands_over(job: Job, size: int, operation: str, rng: random.Random) -> None:
    root = rng.choice(job.ranks)
    volumes = job.volumes({"operation": operation, "bytes": size, "root": root})
    assert matrix(volumes) == positive(expect(job, operation, size, root))
    total = {"all_reduce": 2 * (job.n - 1)}.get(operation, job.n - 1) * size
    assert volumes.traffic["bytes"].sum() == total == volumes.steps["bytes"].sum()
    assert set(volumes.traffic["rung"].to_list()) <= {"order"}


@settings(max_examples=40)
@given(jobs(trees=True), SIZES)
def test_trees_carry_what_a_play_of_the_schedule_hands_over(job: Job, size: int) -> None:
    volumes = job.volumes({"operation": "all_reduce", "bytes": size, "algorithm": "TREE"})
    trees = [{job.ranks[a]: job.ranks[b] for a, b in t.items()} for t in job.trees]
    assert matrix(volumes) == positive(play.over_channels(size, range(len(trees)), lambda c, s: play.tree_all_reduce(trees[c], s)))
    assert volumes.traffic["bytes"].sum() == 2 * (job.n - 1) * size
    assert set(volumes.traffic["algorithm"].to_list()) <= {"TREE"}


@settings(max_examples=40)
@given(jobs(trees=True), SIZES, st.randoms(use_true_random=False))
def test_channels_without_a_whole_tree_fall_back_to_their_rings(job: Job, size: int, rng: random.Random) -> None:
    broken = {c for c in range(len(job.trees)) if rng.random() < 0.5}
    for c in broken:
        job.trees[c].pop(rng.choice(sorted(job.trees[c])))
    volumes = job.volumes({"operation": "all_reduce", "bytes": size, "algorithm": "TREE"})
    trees = [{job.ranks[a]: job.ranks[b] for a, b in t.items()} for t in job.trees]

    def one(c: int, share: int) -> Counter[tuple[int, int]]:
        return play.ring_all_reduce(job.global_ring(c), share) if c in broken else play.tree_all_reduce(trees[c], share)

    assert matrix(volumes) == positive(play.over_channels(size, range(len(trees)), one))
    rungs = {a: set(f["rung"].to_list()) for (a,), f in volumes.traffic.with_columns(pl.col("algorithm").cast(pl.String)).group_by("algorithm")}
    assert rungs.get("RING", {"assumed"}) == {"assumed"}
    assert rungs.get("TREE", {"stated"}) == {"stated"}


@settings(max_examples=40)
@given(st.integers(2, 33), SIZES, st.booleans())
def test_pat_carries_what_a_play_of_its_binomial_trees_hands_over(n: int, size: int, gather: bool) -> None:
    ranks = random.Random(n).sample(range(2 * n), n)
    job = Job(ranks, {r: f"h{r}" for r in ranks}, [list(range(n))])
    volumes = job.volumes({"operation": "all_gather" if gather else "reduce_scatter", "bytes": size, "algorithm": "PAT"})
    expected = play.pat_all_gather(ranks, play.cut(size, n))
    assert matrix(volumes) == positive(expected if gather else play.backwards(expected))
    assert volumes.traffic["bytes"].sum() == (n - 1) * size


def test_pat_of_eight_sends_4_2_and_1_blocks() -> None:
    job = Job(list(range(8)), {r: f"h{r}" for r in range(8)}, [list(range(8))])
    moved = matrix(job.volumes({"operation": "all_gather", "bytes": 800, "algorithm": "PAT"}))
    assert (moved[7, 6], moved[7, 5], moved[7, 3]) == (400, 200, 100)


TOTALS: dict[tuple[str, str | None], Callable[[int, int, int], int]] = {
    ("all_to_all", None): lambda s, n, h: n * (s - play.cut(s, n)[0]),
    ("gather", None): lambda s, n, h: (n - 1) * s,
    ("all_reduce", "NVLS"): lambda s, n, h: (n + 1) * s if h == 1 else 2 * (n - 1) * s,
    ("all_gather", "NVLS"): lambda s, n, h: n * s if h == 1 else (n - 1) * s,
    ("reduce_scatter", "NVLS"): lambda s, n, h: n * s if h == 1 else (n - 1) * s,
    # Every host of g > 1 GPUs (g + 1)·S in its switch; up and down between the heads of all rails 2·(h - 1)·S.
    ("all_reduce", "NVLS_TREE"): lambda s, n, h: (n + 1) * s if h == 1 else ((n + h) * s if n > h else 0) + 2 * (h - 1) * s,
    # Chains up and down on every host, and S out of every head.
    ("all_reduce", "COLLNET_CHAIN"): lambda s, n, h: 2 * (n - 1) * s if h == 1 else 2 * (n - h) * s + h * s,
    ("all_reduce", "COLLNET_DIRECT"): lambda s, n, h: 2 * (n - 1) * s if h == 1 else 2 * (n - h) * s + h * s,
    ("all_reduce", "SYMMETRIC"): lambda s, n, h: 2 * (n - 1) * s,
    ("all_gather", "SYMMETRIC"): lambda s, n, h: (n - 1) * s,
    ("reduce_scatter", "COPY_ENGINE"): lambda s, n, h: (n - 1) * s,
    ("broadcast", "TREE"): lambda s, n, h: (n - 1) * s,
    ("all_reduce", "UNHEARD_OF"): lambda s, n, h: 2 * (n - 1) * s,
}


@settings(max_examples=40)
@given(jobs(most_channels=3), SIZES, st.sampled_from(sorted(TOTALS, key=str)))
def test_every_algorithm_moves_its_total_to_the_byte(job: Job, size: int, which: tuple[str, str | None]) -> None:
    operation, algorithm = which
    volumes = job.volumes({"operation": operation, "bytes": size, "algorithm": algorithm, "root": job.ranks[-1]})
    total = TOTALS[which](size, job.n, len(set(job.hosts.values())))
    assert volumes.traffic["bytes"].sum() == total
    assert volumes.steps["bytes"].sum() == total
    place = job.hosts
    assert volumes.steps["cross_host_bytes"].sum() == sum(v for (a, b), v in matrix(volumes).items() if place[a] != place[b])
    assert all(a != b and v > 0 for (a, b), v in matrix(volumes).items())


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter"])
def test_inside_a_switch_every_rank_sends_as_much_as_it_receives(operation: str) -> None:
    job = Job(list(range(8)), dict.fromkeys(range(8), "h"), [list(range(8))])
    volumes = job.volumes({"operation": operation, "bytes": 8 * 7 * 1000, "algorithm": "NVLS"})
    sent, received = (volumes.traffic.group_by(e).agg(pl.col("bytes").sum())["bytes"].to_list() for e in ("src_rank", "dst_rank"))
    # S + S/n out of and into every GPU for an all-reduce; S into (out of) each for the others.
    assert set(sent) == set(received) == {56_000 + (7_000 if operation == "all_reduce" else 0)}
    assert set(volumes.traffic["rung"].to_list()) == {"assumed"}


def test_trees_between_switches_carry_the_share_of_their_rail() -> None:
    ranks = list(range(6))
    job = Job(ranks, {r: f"h{r // 2}" for r in ranks}, [ranks], switch={0: [(2, 0), (4, 0)], 1: [(3, 1), (5, 3)]})
    moved = matrix(job.volumes({"operation": "all_reduce", "bytes": 1200, "algorithm": "NVLS_TREE"}))
    assert {k: v for k, v in moved.items() if k[0] // 2 != k[1] // 2} == dict.fromkeys([(2, 0), (0, 2), (4, 0), (0, 4), (3, 1), (1, 3), (5, 3), (3, 5)], 600)
    assert moved[0, 1] + moved[1, 0] == 3 * 1200


def test_collnet_direct_of_two_hosts_by_hand() -> None:
    ranks = list(range(4))
    job = Job(ranks, {r: f"h{r // 2}" for r in ranks}, [ranks])
    moved = matrix(job.volumes({"operation": "all_reduce", "bytes": 100, "algorithm": "COLLNET_DIRECT"}))
    # On a host both are heads of 50: each sends the other its share and gets it back reduced; each head 50 to its rail.
    assert moved == Counter({(0, 1): 100, (1, 0): 100, (2, 3): 100, (3, 2): 100, (0, 2): 50, (2, 0): 50, (1, 3): 50, (3, 1): 50})


@settings(max_examples=40)
@given(
    jobs(trees=True, most_channels=4),
    SIZES,
    st.sampled_from([("all_reduce", None), ("all_reduce", "TREE"), *sorted(TOTALS, key=str)]),
    st.randoms(use_true_random=False),
)
def test_other_rank_numbers_give_the_same_matrix_renumbered(job: Job, size: int, which: tuple[str, str | None], rng: random.Random) -> None:
    names = dict(zip(job.ranks, rng.sample(range(100, 100 + 3 * job.n), job.n), strict=True))
    other = replace(job, ranks=[names[r] for r in job.ranks], hosts={names[r]: h for r, h in job.hosts.items()})
    row = {"operation": which[0], "bytes": size, "algorithm": which[1]}
    first = matrix(job.volumes(row | {"root": job.ranks[0]}))
    second = matrix(other.volumes(row | {"root": other.ranks[0]}))
    assert {(names[a], names[b]): v for (a, b), v in first.items()} == second


def test_only_the_channels_that_an_operation_names_carry_it() -> None:
    job = Job([0, 1, 2], {0: "a", 1: "a", 2: "b"}, [[0, 1, 2], [0, 2, 1], [0, 1, 2]])
    volumes = job.volumes({"operation": "all_gather", "bytes": 300, "channel_first": 1, "channel_last": 1})
    assert matrix(volumes) == Counter({(0, 2): 200, (2, 1): 200, (1, 0): 200})
    # Channels that do not exist name nothing: all carry it.
    assert matrix(job.volumes({"operation": "all_gather", "bytes": 300, "channel_first": 7, "channel_last": 9})) == matrix(
        job.volumes({"operation": "all_gather", "bytes": 300})
    )


def test_point_to_point_goes_where_it_says_and_nowhere_else() -> None:
    job = Job([4, 5, 6], {4: "a", 5: "a", 6: "b"}, [[0, 1, 2]])
    rows = [
        {"operation": "send_recv", "bytes": 10, "src_rank": 4, "dst_rank": 6, "step": 1},
        {"operation": "send_recv", "bytes": 5, "src_rank": 4, "dst_rank": 6, "step": 2},
    ]
    rows += [{"operation": "send", "bytes": 7, "src_rank": 5, "dst_rank": 5}, {"operation": "recv", "bytes": 3, "src_rank": 5, "dst_rank": 4}]
    rows += [{"operation": "send_recv", "bytes": 10, "src_rank": 4}]
    volumes = job.volumes(*rows)
    got = volumes.traffic.select("src_rank", "dst_rank", "bytes", "operations", pl.col("rung", "transport").cast(pl.String)).rows()
    assert got == [(4, 6, 15, 2, "call", "network"), (5, 4, 3, 1, "call", "host")]
    steps = volumes.steps.filter(pl.col("operation").cast(pl.String) == "send_recv").select("step", "operations", "bytes", "cross_host_bytes").rows()
    assert steps == [(1, 1, 10, 10), (2, 1, 5, 5)]
    assert [(n.code, n.count) for n in volumes.notices] == [("unplaced-operation", 1)]


def test_what_cannot_be_placed_is_counted_and_nothing_is_invented() -> None:
    job = Job([0, 1], {0: "a", 1: "b"}, [[0, 1]])
    rows: list[Mapping[str, object]] = [
        {"operation": "all_reduce"},
        {"operation": "all_reduce", "bytes": 2**60},
        {"operation": "all_reduce", "bytes": -1},
        {"operation": "all_reduce", "bytes": 10, "comm_key": None, "group_id": None},
        {"operation": "all_reduce", "bytes": 10, "comm_key": None, "group_id": 99},
        {"operation": "unknown", "bytes": 10},
        {"operation": "barrier"},
    ]
    volumes = job.volumes(*rows)
    assert volumes.traffic.height == 0
    (notice,) = volumes.notices
    assert notice.count == 6
    assert "1 of unknown size" in notice.text
    assert "2 of impossible size" in notice.text
    assert "2 of a group" in notice.text


def test_the_group_of_a_trace_is_better_than_a_communicator_of_unknown_ranks() -> None:
    comms = communicators_of(make.job_comms(make.job_comm([0, None, None], group_id=None)), make.groups([0, 1, 2]), {})
    edges = build_edges(make.tables(), make.comm_map(), comms)
    assert [(n.code, n.count) for n in edges.notices] == [("communicators-of-unknown-ranks", 1)]
    rows = [{"operation": "all_reduce", "bytes": 6}, {"operation": "all_reduce", "bytes": 9, "group_id": None}]
    volumes = traffic_volumes(make.operations(*rows), edges, comms, {})
    assert matrix(volumes) == Counter({(0, 1): 8, (1, 2): 8, (2, 0): 8})
    (notice,) = volumes.notices
    assert "1 over links that are not known" in notice.text


def test_sums_beyond_int64_are_left_out_and_said_so() -> None:
    job = Job([0, 1], {0: "a", 1: "b"}, [[0, 1]])
    volumes = job.volumes(*({"operation": "all_reduce", "bytes": 2**48 - i} for i in range(4000)))
    assert 0 < volumes.traffic["bytes"].sum() < 2**63
    assert [n.code for n in volumes.notices] == ["unplaced-operation"]


def test_equal_operations_of_many_steps_add_up() -> None:
    job = Job([0, 1, 2, 3], {r: f"h{r // 2}" for r in range(4)}, [[0, 1, 2, 3]])
    rows = [{"operation": "all_reduce", "bytes": 40, "step": s} for s in (1, 1, 2, None)]
    volumes = job.volumes(*rows)
    assert volumes.traffic.select("bytes", "operations").unique().rows() == [(4 * 60, 4)]
    assert volumes.steps.select("step", "operations", "bytes", "cross_host_bytes").rows() == [(1, 2, 480, 240), (2, 1, 240, 120), (None, 1, 240, 120)]


def test_without_hosts_neither_transport_nor_crossing_is_claimed() -> None:
    volumes = Job([0, 1], {}, [[0, 1]]).volumes({"operation": "all_reduce", "bytes": 8})
    assert volumes.traffic["transport"].null_count() == volumes.traffic.height == 2
    assert volumes.steps["cross_host_bytes"].to_list() == [None]


def test_a_broadcast_without_a_root_is_assumed_to_start_at_the_first_rank() -> None:
    volumes = Job([3, 1, 2], dict.fromkeys((1, 2, 3), "a"), [[0, 1, 2]]).volumes({"operation": "broadcast", "bytes": 5})
    assert matrix(volumes) == Counter({(3, 1): 5, (1, 2): 5})
    assert set(volumes.traffic["rung"].to_list()) == {"assumed"}


def test_a_group_without_any_log_goes_around_in_rank_order_hosts_together() -> None:
    hosts = {0: "a", 1: "b", 2: "a", 3: "b"}
    comms = communicators_of(make.job_comms(), make.groups([0, 1, 2, 3]), hosts)
    edges = build_edges(make.tables(), make.comm_map((), ()), comms)
    volumes = traffic_volumes(make.operations({"operation": "all_reduce", "bytes": 4, "comm_key": None}), edges, comms, hosts)
    assert sorted(matrix(volumes)) == [(0, 2), (1, 3), (2, 1), (3, 0)]
    assert set(volumes.traffic["rung"].to_list()) == {"assumed"}


def test_scatter_and_gather_are_stars_around_the_root() -> None:
    job = Job([0, 1, 2], dict.fromkeys(range(3), "a"), [[0, 1, 2]])
    assert matrix(job.volumes({"operation": "gather", "bytes": 6, "root": 1})) == Counter({(0, 1): 6, (2, 1): 6})
    assert matrix(job.volumes({"operation": "scatter", "bytes": 6, "root": 1})) == Counter({(1, 0): 2, (1, 2): 2})


def test_an_all_to_all_gives_every_peer_its_part() -> None:
    moved = matrix(Job([0, 1, 2], dict.fromkeys(range(3), "a"), [[0, 1, 2]]).volumes({"operation": "all_to_all", "bytes": 9}))
    assert moved == Counter({(a, b): 3 for a in range(3) for b in range(3) if a != b})
