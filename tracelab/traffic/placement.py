"""Where a communicator's bytes can go: its links, its paths, and the hosts of its ranks, as schedules and volumes ask for them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from tracelab.traffic.edges import Communicator, Edges
from tracelab.traffic.parts import Ints, Links

__all__ = ["PATH", "Placement"]

PATH = ("transport", "nic", "proxy_rank")
"""What tells two ways between the same ranks apart."""


class Placement:
    """Links and paths of every communicator, made when first needed; collects what each step moved."""

    def __init__(self, edges: Edges, communicators: list[Communicator], hosts: Mapping[int, str]) -> None:
        self.communicators = communicators
        codes = {h: i for i, h in enumerate(sorted(set(hosts.values())))}
        last = max([-1, *hosts, *(r for c in communicators for r in c.ranks if r is not None)])
        self.node = np.full(last + 2, -1, np.int64)
        for rank, host in hosts.items():
            if rank >= 0:
                self.node[rank] = codes[host]
        self.edges = edges.frame.partition_by("comm_key", "group_id", as_dict=True, maintain_order=True)
        self.paths = edges.paths
        self.steps: list[pl.DataFrame] = []
        self._links: dict[int, Links] = {}

    def links(self, comm: int) -> Links:
        """What schedules need to know of the communicator of that number."""
        if comm not in self._links:
            self._links[comm] = self._make_links(self.communicators[comm])
        return self._links[comm]

    def _make_links(self, c: Communicator) -> Links:
        ranks = np.array([-1 if r is None else r for r in c.ranks], np.int64)
        nodes = np.where(ranks >= 0, self.node[ranks], -1)
        single = bool((nodes >= 0).all()) and len(set(nodes.tolist())) == 1
        links = Links(ranks, nodes, c.nodes == 1 or single, {}, {}, {})
        frame = self.edges.get((c.key, c.group_id))
        if frame is None:
            return links
        text = frame.with_columns(pl.col("kind", "rung").cast(pl.String))
        for (kind, channel), part in text.partition_by("kind", "channel", as_dict=True, maintain_order=True).items():
            src, dst = (part[n].to_numpy().astype(np.int64) for n in ("src_rank", "dst_rank"))
            rung = np.array(part["rung"].to_list())
            if kind == "ring":
                links.rings[channel] = (part["position"].to_numpy().astype(np.int64), src, dst, rung)
            elif kind == "tree" and part.height == c.size - 1 and part["src_rank"].n_unique() == part.height:
                links.trees[channel] = (src, dst, rung)
            elif kind == "nvls":
                links.switch_trees[channel] = (src, dst)
        return links

    def crossing(self, src: npt.NDArray[np.integer], dst: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_] | None:
        """Which pairs lie between hosts; null where the host of any rank is not known."""
        a, b = self.nodes(src), self.nodes(dst)
        return None if (a < 0).any() or (b < 0).any() else a != b

    def nodes(self, ranks: npt.NDArray[np.integer]) -> Ints:
        """Number of the host of each global rank, -1 where it is not known."""
        last = len(self.node) - 1
        return self.node[np.where((ranks >= 0) & (ranks < last), ranks, last)]

    def pair_paths(self, *, p2p: bool) -> pl.DataFrame:
        """One path per communicator and pair, those of the asked use first."""
        keys = ["comm_key", "src_rank", "dst_rank"]
        ordered = self.paths.sort(*keys, pl.col("p2p") != p2p, "channel")
        return ordered.unique(keys, keep="first", maintain_order=True).select(*keys, *PATH)
