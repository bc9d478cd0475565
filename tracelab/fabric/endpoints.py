"""Which adapters a rank's data leave through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import polars as pl

from tracelab.fabric.adapters import Adapters
from tracelab.fabric.wiring import End, Link, natural
from tracelab.tables import ENDPOINTS

__all__ = ["endpoints_frame"]

_NEAREST = ("PIX", "PXB", "PHB", "NODE", "SYS")


def endpoints_frame(
    edges: pl.DataFrame,
    ranks: pl.DataFrame,
    paths: Sequence[Mapping[str, object]],
    links: Sequence[Link],
    adapters: Adapters,
    stated: Mapping[int, str] | None = None,
    idle: Collection[End] = (),
) -> pl.DataFrame:
    """The table `endpoints`.

    `edges`: the table of that name, whose rows name the adapters that a log states; `ranks`: columns rank, host, device;
    `paths`: rows of `adapter_paths` with resolved machine. The best source of each rank is used: a log, the topology, or
    else an even share of the host's adapters in order (with as many GPUs per adapter). What the user `stated` goes before all.
    Adapters that are `idle` are none of the job's, unless a log or the user names them.
    """
    number = {link.a: n for n, link in enumerate(links) if link.tier == 0}
    by_host: dict[str, list[End]] = defaultdict(list)
    for end in sorted(number.keys() - set(idle), key=natural):
        by_host[end[0]].append(end)
    logged, near = _logged(edges, ranks, adapters), _nearest(paths, ranks, adapters, by_host)
    local = _local_indices(ranks)
    rows = []
    for rank, host in ranks.select("rank", "host").sort("rank").iter_rows():
        told = {_end(host, stated[rank], adapters): 1.0} if stated and rank in stated else None
        for origin, found in (
            ("manifest", told),
            ("edges", logged.get(rank)),
            ("affinity", near.get(rank)),
            ("order", _in_order(local[rank], by_host.get(host, []))),
        ):
            if found:
                total = sum(found.values())
                for end, weight in sorted(found.items(), key=lambda kv: natural(kv[0])):
                    adapter = adapters.find(*end)
                    netdev = adapter.netdev if adapter is not None else None
                    rows.append((rank, host, end[1], netdev, number.get(end), weight / total, origin))
                break
    return ENDPOINTS.conform(pl.DataFrame(rows, schema=ENDPOINTS.polars, orient="row"))


def _end(host: str, device: str, adapters: Adapters) -> End:
    adapter = adapters.find(host, device)
    return (host, adapter.name if adapter is not None else device)


def _logged(edges: pl.DataFrame, ranks: pl.DataFrame, adapters: Adapters) -> dict[int, dict[End, float]]:
    """Channels that leave through each adapter, by sending rank (or the one whose interface it uses)."""
    out: dict[int, dict[End, float]] = defaultdict(lambda: defaultdict(float))
    hosts = dict(ranks.select("rank", "host").iter_rows())
    named = edges.filter(pl.col("nic").is_not_null() & (pl.col("kind").cast(pl.String) != "p2p"))
    for rank, nic, count in named.group_by("src_rank", "nic").len().sort("src_rank", "nic").iter_rows():
        if rank in hosts:
            out[rank][_end(hosts[rank], nic, adapters)] += count
    return out


def _nearest(paths: Sequence[Mapping[str, object]], ranks: pl.DataFrame, adapters: Adapters, by_host: Mapping[str, list[End]]) -> dict[int, dict[End, float]]:
    """The nearest of the host's adapters that have a link, for the GPU of each rank."""
    best: dict[tuple[str, int], list[tuple[int, End]]] = defaultdict(list)
    for row in paths:
        if row["gpu"] is None or row["device"] is None or row["machine"] is None:
            continue
        end = _end(str(row["machine"]), str(row["device"]), adapters)
        if end in by_host.get(end[0], ()):
            best[end[0], int(str(row["gpu"]))].append((_NEAREST.index(str(row["path"])), end))
    out: dict[int, dict[End, float]] = {}
    for rank, host, device in ranks.select("rank", "host", "device").iter_rows():
        found = best.get((host, device if device is not None else -1), [])
        if found:
            least = min(found)[0]
            out[rank] = {end: 1.0 for distance, end in found if distance == least}
    return out


def _local_indices(ranks: pl.DataFrame) -> dict[int, tuple[int, int]]:
    """Place of each rank among those of its host, and their number."""
    out: dict[int, tuple[int, int]] = {}
    for _, part in ranks.sort("rank").group_by("host", maintain_order=True):
        members = part["rank"].to_list()
        out |= {r: (n, len(members)) for n, r in enumerate(members)}
    return out


def _in_order(place: tuple[int, int], ends: list[End]) -> dict[End, float]:
    index, count = place
    if not ends:
        return {}
    if count % len(ends) == 0:
        return {ends[index * len(ends) // count]: 1.0}
    return dict.fromkeys(ends, 1.0)
