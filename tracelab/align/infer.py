"""Groups and peers of operations that carry no metadata, from operations that end together.

All ranks leave a synchronising operation within microseconds. So two ranks of one communicator have the same sequence of
operations, and the difference between their ends is constant but for the drift of their clocks; for ranks of different
communicators it wanders. No clock needs to be right for that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import polars as pl
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Members", "distance", "infer_groups", "infer_peers"]

Members = tuple[int, ...]
Entity = tuple[int, int]
Node = TypeVar("Node", int, Entity)
Ends = dict[tuple[int, int], int]
"""End by (step, position in the step)."""

FLOOR_NS = 30_000
"""Ends of one operation spread over 1 to 10 µs on one host; a network adds as much."""
TIGHT_NS = 3_000
"""Where the nearest ends are this close, so are those of all members: jitter of the clock readings on one host."""
MIN_COMMON = 4
MOST = 0.6
"""Share of operations that must end together: a lost kernel moves all that follow in its step."""
SAMPLE = 64
"""Operations that are compared: enough to tell, few enough for a thousand ranks."""
FEW = 64
"""Ranks that are compared pair by pair where they have no operation in common with all others."""


def distance(a: Ends, b: Ends) -> float:
    """60th percentile of the difference of ends after a straight line (offset, drift) is taken out, ns; infinite if too few."""
    common = sorted(a.keys() & b.keys())
    if len(common) < MIN_COMMON:
        return float("inf")
    first = a[common[0]]
    x = np.array([a[k] - first for k in common], dtype=np.float64)
    d = np.array([(b[k] - a[k]) - (b[common[0]] - first) for k in common], dtype=np.float64)
    keep = np.ones(len(d), dtype=bool)
    for _ in range(3):
        # A drift needs time to show: over less than a second only the offset is taken out.
        fit = np.polyfit(x[keep], d[keep], 1) if np.ptp(x) > 1e9 and keep.sum() > 8 else np.array([0.0, np.median(d[keep])])
        off = np.abs(d - np.polyval(fit, x))
        keep = off <= max(3.0 * float(np.median(off)), 1.0)
    return float(np.quantile(off, MOST))


@dataclass(frozen=True)
class _Distances:
    """`distance` of all pairs of `nodes`, infinite where they were not compared: condensed, in the order (0, 1), (0, 2) … (1, 2) and so on."""

    nodes: list[Entity]
    values: NDArray[np.float64]

    def row(self, i: int) -> NDArray[np.float64]:
        """Distances of node `i` to those after it (a view)."""
        n = len(self.nodes)
        first = i * n - i * (i + 1) // 2
        return self.values[first : first + n - 1 - i]

    def mean(self, clusters: list[list[Entity]]) -> float:
        """Mean over the pairs inside the clusters."""
        number = {e: i for i, e in enumerate(self.nodes)}
        pairs = (sorted((number[a], number[b])) for cluster in clusters for a, b in combinations(cluster, 2))
        return float(np.mean([self.row(i)[j - i - 1] for i, j in pairs]))

    def nearest(self) -> NDArray[np.float64]:
        """Per node the distance to the nearest other one."""
        out = np.full(len(self.nodes), np.inf)
        for i in range(len(self.nodes) - 1):
            row = self.row(i)
            out[i] = min(out[i], row.min())
            out[i + 1 :] = np.minimum(out[i + 1 :], row)
        return out

    def components(self, limit: float) -> list[list[Entity]]:
        """What pairs at most `limit` apart connect, where all parts are of one size; else nothing."""
        near = [(np.flatnonzero(self.row(i) <= limit) + i + 1).astype(np.int32) for i in range(len(self.nodes) - 1)]
        first = np.repeat(np.arange(len(near), dtype=np.int32), [len(x) for x in near])
        return _of_one_size(_labelled(self.nodes, first, np.concatenate([np.empty(0, np.int32), *near])))


def _distances(same: list[Entity], ends: list[Ends]) -> _Distances:
    """`distance` of all pairs of different ranks; on a sample of operations that all have in common, where there are enough."""
    far = _Distances(same, np.full(len(same) * (len(same) - 1) // 2, np.inf))
    common = sorted(set.intersection(*(set(e) for e in ends)))
    if len(common) < MIN_COMMON:
        for i, j in combinations(range(len(same)), 2) if len(same) <= FEW else ():
            if same[i][0] != same[j][0]:
                far.row(i)[j - i - 1] = distance(ends[i], ends[j])
        return far
    sample = [common[int(n)] for n in np.unique(np.linspace(0, len(common) - 1, SAMPLE).astype(np.int64))]
    times = np.array([[e[k] - e[sample[0]] for k in sample] for e in ends], dtype=np.float64)
    ranks = np.array([r for r, _ in same])
    x, half = times[0], len(sample) // 2
    drifts = np.ptp(x) > 1e9 and half >= MIN_COMMON
    for i in range(len(same) - 1):
        d = times[i + 1 :] - times[i]
        if drifts:  # the slope between the medians of both halves, which single late ends do not move
            rise = (np.median(d[:, half:], axis=1) - np.median(d[:, :half], axis=1)) / (np.median(x[half:]) - np.median(x[:half]))
            d = d - rise[:, None] * x
        off = np.quantile(np.abs(d - np.median(d, axis=1, keepdims=True)), MOST, axis=1)
        far.row(i)[:] = np.where(ranks[i + 1 :] == ranks[i], np.inf, off)
    return far


def _entities(rows: pl.DataFrame, key: list[str]) -> dict[tuple[int, ...], tuple[Ends, tuple[object, ...]]]:
    """Per entity the ends by (step, position), and the counts of its operations as a signature."""
    ordered = rows.sort("rank", "start_ns", "op_id").with_columns(pl.col("launch_step").fill_null(-1).alias("at"))
    ordered = ordered.with_columns(pl.int_range(pl.len()).over([*key, "at"]).alias("position"))
    out: dict[tuple[int, ...], tuple[Ends, tuple[object, ...]]] = {}
    for name, part in ordered.group_by(key, maintain_order=True):
        ends = {(int(s), int(p)): int(e) for s, p, e in part.select("at", "position", "end_ns").iter_rows()}
        typical = part.group_by("at").agg(pl.col("operation").str.join(",").alias("ops"))["ops"].mode().sort()[0]
        out[cast("tuple[int, ...]", name)] = (ends, (typical,))
    return out


def infer_groups(rows: pl.DataFrame, stated: list[set[Members]]) -> tuple[dict[Entity, tuple[Members, int]], set[Members]]:
    """Groups of channels of collectives without metadata.

    Members and number of the communicator by (rank, channel); and the groups that may have more members. A channel that
    fits no other is left out.
    """
    if not rows.height:
        return {}, set()
    entities = _entities(rows, ["rank", "channel"])
    by_signature: dict[tuple[object, ...], list[Entity]] = defaultdict(list)
    for entity, (_, signature) in sorted(entities.items()):
        by_signature[signature].append((entity[0], entity[1]))
    out: dict[Entity, tuple[Members, int]] = {}
    for same in by_signature.values():
        if len({r for r, _ in same}) < 2:
            continue
        far = _distances(same, [entities[e][0] for e in same])
        found = _stated_clusters(same, far, stated) or _merged(_clusters(same, far), entities)
        for number, cluster in enumerate(found, len(out)):
            ranks = tuple(sorted(r for r, _ in cluster))
            if len(set(ranks)) == len(ranks) > 1:
                out.update(dict.fromkeys(cluster, (ranks, number)))
    # A channel that does the same kind of things and fits no group may belong to one: it may have lost some of its rows.
    kinds = {e: _kinds(signature) for e, (_, signature) in entities.items()}
    loose = {kinds[e] for e in kinds if (e[0], e[1]) not in out}
    open_groups = {members for e, (members, _) in out.items() if kinds[e] in loose}
    return out, open_groups


def _kinds(signature: tuple[object, ...]) -> frozenset[str]:
    return frozenset(str(signature[0]).split(","))


def _stated_clusters(same: list[Entity], far: _Distances, stated: list[set[Members]]) -> list[list[Entity]]:
    """The stated partition into groups whose members end together best; of equally good ones the coarsest."""
    channel = {r: (r, c) for r, c in same}
    if not stated or len(channel) != len(same):
        return []
    options = []
    for partition in stated:
        clusters = [[channel[r] for r in members] for members in sorted(partition) if all(r in channel for r in members)]
        covered = [e for cluster in clusters for e in cluster]
        if len(covered) != len(same) or len(set(covered)) != len(covered):
            continue
        options.append((far.mean(clusters), clusters))
    if not options:
        return []
    best = min(score for score, _ in options)
    fitting = [clusters for score, clusters in options if score <= 1.5 * best + FLOOR_NS]
    return min(fitting, key=len)


def _clusters(same: list[Entity], far: _Distances) -> list[list[Entity]]:
    """Connected components of entities nearer than four times the usual distance to the nearest one; all of one size, or none."""
    nearest = far.nearest()
    finite = nearest[np.isfinite(nearest)]
    if not len(finite):
        # Too few operations to tell apart: with one channel per rank the only group that is sure to exist is the world.
        return [same] if len({r for r, _ in same}) == len(same) else []
    usual = 4.0 * float(np.median(finite))
    # Ranks of different groups that run in step can end within the floor too; the tighter limit then tells them apart.
    return far.components(max(usual, FLOOR_NS)) or far.components(max(usual, TIGHT_NS))


def _merged(clusters: list[list[Entity]], entities: dict[tuple[int, ...], tuple[Ends, tuple[object, ...]]]) -> list[list[Entity]]:
    """Clusters that differ by a clock that was set once are one: on either side of that moment their ends keep together."""
    if len(clusters) < 2 or len(clusters) > FEW:
        return clusters
    first = [entities[c[0]][0] for c in clusters]
    edges = [(clusters[i][0], clusters[j][0]) for i, j in combinations(range(len(clusters)), 2) if _distance_with_jump(first[i], first[j]) <= FLOOR_NS]
    if not edges:
        return clusters
    inside = [(c[0], e) for c in clusters for e in c[1:]]
    return _of_one_size(_components([e for c in clusters for e in c], inside + edges)) or clusters


def _distance_with_jump(a: Ends, b: Ends) -> float:
    """`distance` with one jump allowed, at the best place that leaves eight operations on either side."""
    common = sorted(a.keys() & b.keys(), key=lambda k: a[k])
    d = np.array([(b[k] - a[k]) - (b[common[0]] - a[common[0]]) for k in common], dtype=np.float64)
    best = float("inf")
    # From one operation to the next the difference stays, but for the one where the clock was set.
    if len(d) < 4 * MIN_COMMON or np.quantile(np.abs(np.diff(d)), MOST) > FLOOR_NS:
        return best
    d = d[np.unique(np.linspace(0, len(d) - 1, 2 * SAMPLE).astype(np.int64))]
    for at in range(2 * MIN_COMMON, len(d) - 2 * MIN_COMMON + 1):
        off = np.concatenate([np.abs(part - np.median(part)) for part in (d[:at], d[at:])])
        best = min(best, float(np.quantile(off, MOST)))
    return best


def _labelled(nodes: Sequence[Node], first: NDArray[np.int32], second: NDArray[np.int32]) -> list[list[Node]]:
    """Connected components of the edges between these positions of `nodes`, each in order, by their first node."""
    graph = coo_matrix((np.ones(len(first), dtype=np.int8), (first, second)), shape=(len(nodes), len(nodes)))
    _, labels = connected_components(graph, directed=False)
    found: dict[int, list[Node]] = defaultdict(list)
    for n, label in zip(nodes, labels.tolist(), strict=True):
        found[label].append(n)
    return sorted(sorted(c) for c in found.values())


def _components(nodes: Sequence[Node], edges: Sequence[tuple[Node, Node]]) -> list[list[Node]]:
    """Connected components, each in order, by their first node."""
    number = {n: i for i, n in enumerate(nodes)}
    pairs = np.array([(number[a], number[b]) for a, b in edges], dtype=np.int32).reshape(-1, 2)
    return _labelled(nodes, pairs[:, 0], pairs[:, 1])


def _of_one_size(found: list[list[Node]]) -> list[list[Node]]:
    """Components that are all of one size, else none: the groups of one kind of operation divide the ranks evenly."""
    return found if len({len(c) for c in found}) == 1 else []


def infer_peers(rows: pl.DataFrame) -> tuple[dict[int, int], dict[int, Members]]:
    """Peer by op_id and the members of its pipeline, for sends and receives whose annotation tells positions only.

    A send from position a to b and a receive at b from a belong together if each is the other's nearest by ends.
    """
    rows = rows.filter(pl.col("note_peer").is_not_null() & pl.col("note_self").is_not_null())
    if not rows.height:
        return {}, {}
    sends = _entities(rows.filter(pl.col("operation") == "send"), ["rank", "note_self", "note_peer"])
    receives = _entities(rows.filter(pl.col("operation") == "recv"), ["rank", "note_self", "note_peer"])
    near: dict[tuple[int, ...], list[tuple[float, tuple[int, ...]]]] = defaultdict(list)
    for s, (s_ends, _) in sends.items():
        for r, (r_ends, _) in receives.items():
            if s[1:] == (r[2], r[1]) and s[0] != r[0]:
                d = distance(s_ends, r_ends)
                near[0, *s].append((d, r))
                near[1, *r].append((d, s))
    pairs = [(s, min(near[0, *s])[1]) for s in sends if near[0, *s] and np.isfinite(min(near[0, *s])[0])]
    pairs = [(s, r) for s, r in pairs if min(near[1, *r])[1] == s]
    pipes = _pipes(pairs)
    peer = {**{("send", *s): r[0] for s, r in pairs}, **{("recv", *r): s[0] for s, r in pairs}}
    out: dict[int, int] = {}
    members: dict[int, Members] = {}
    for op_id, operation, rank, a, b in rows.select("op_id", "operation", "rank", "note_self", "note_peer").iter_rows():
        found = peer.get((operation, rank, a, b))
        if found is not None:
            out[op_id], members[op_id] = found, pipes[rank]
    return out, members


def _pipes(pairs: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> dict[int, Members]:
    """Per rank all ranks that it reaches through neighbours: its pipeline."""
    edges = [(s[0], r[0]) for s, r in pairs]
    return {rank: tuple(pipe) for pipe in _components(sorted({r for e in edges for r in e}), edges) for rank in pipe}
