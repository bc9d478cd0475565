"""Inside a host: pairs of GPUs that exchange data through host memory or the network although they could do so directly."""

from __future__ import annotations

import polars as pl

from tracelab.analyses.configuration.issue import Issue, Proof, proofs
from tracelab.analyses.configuration.setup import HOST, Setup, hosts_named, off, on, ranks_of, troubled, who
from tracelab.results import Confidence, FindingSeverity

__all__ = ["bus_number", "not_direct"]

_FABRIC = ["NVL"]
"""Not NVB: over the links of a third GPU there is no direct access."""
_NEAR = ["PIX", "PXB"]


def bus_number(text: pl.Expr) -> pl.Expr:
    """The PCI address as a number, from 0000:2a:00.0, 2a000 or GPU/0-2A000: what all versions print, in any form."""
    digits = text.str.extract(r"([0-9A-Fa-f:.]+)$").str.replace_all(r"[:.]", "")
    return digits.str.slice(-14).str.to_integer(base=16, dtype=pl.Int64, strict=False)


def not_direct(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """GPU pairs over shared memory or the network, where a path, the same pair of another host or a setting says that direct access exists.

    Boxes whose GPUs sit behind two sockets connect some pairs through shared memory on every host: that is how they are built.
    """
    local = s.connections.filter((pl.col("scope") == HOST) & pl.col("src_device").is_not_null() & pl.col("dst_device").is_not_null())
    way = pl.when(pl.col("transport").str.starts_with("P2P")).then(0).when(pl.col("transport").str.starts_with("NET")).then(2).otherwise(1)
    low, high = pl.min_horizontal("src_device", "dst_device"), pl.max_horizontal("src_device", "dst_device")
    local = local.with_columns(way.alias("way"), low.alias("a"), high.alias("b"))
    best = pl.col("way").min()
    pairs = local.with_columns(best.over("host", "a", "b").alias("best"))
    slow = pairs.filter(pl.col("best") > 0)
    if not slow.height:
        return []
    direct = pairs.filter(pl.col("best") == 0).group_by("a", "b").agg(pl.col("host").n_unique().alias("direct_hosts"))
    shared = pairs.filter(pl.col("best") == 1).group_by("a", "b").agg(pl.col("host").n_unique().alias("shared_hosts"))
    slow = slow.join(direct, on=["a", "b"], how="left", maintain_order="left").join(shared, on=["a", "b"], how="left", maintain_order="left")
    slow = slow.join(_paths(s), on=["host", "a", "b"], how="left", maintain_order="left")
    disabled = _disabled(s)
    no_direct = disabled.filter(pl.col("name") != "NCCL_SHM_DISABLE")["host"].to_list()
    no_shared = disabled.filter(pl.col("name") == "NCCL_SHM_DISABLE")["host"].to_list()
    shut = pl.col("host").is_in(no_direct) | (pl.col("host").is_in(no_shared) & (pl.col("best") == 2))
    slow_hosts = pl.col("host").n_unique().over("a", "b")
    reason = (
        pl.when(pl.col("path").is_in(_FABRIC))
        .then(pl.lit("fabric"))
        .when(pl.col("direct_hosts") >= slow_hosts)
        .then(pl.lit("peers"))
        .when(pl.col("direct_hosts") > 0)
        .then(pl.lit("some-peers"))
        .when((pl.col("best") == 2) & (pl.col("shared_hosts") > 0))
        .then(pl.lit("shared-peers"))
        .when(shut)
        .then(pl.lit("setting"))
        .when(pl.col("path").is_in(_NEAR) & (pl.col("best") == 1))
        .then(pl.lit("near"))
    )
    slow = slow.with_columns(reason.alias("reason")).filter(pl.col("reason").is_not_null())
    return [_issue(s, r, slow.filter(pl.col("reason") == r), pairs, disabled) for r in _GRADES if slow.filter(pl.col("reason") == r).height]


_GRADES: dict[str, tuple[FindingSeverity, Confidence, str]] = {
    "fabric": ("major", "proven", "although the library found {path} between them"),
    "peers": ("major", "likely", "while the same pairs of other hosts reach each other's memory directly"),
    "some-peers": ("major", "possible", "while the same pairs of some other hosts reach each other's memory directly"),
    "shared-peers": ("minor", "likely", "while the same pairs of other hosts use shared memory"),
    "setting": ("minor", "possible", "whether these GPUs could reach each other's memory directly cannot be seen"),
    "near": ("info", "possible", "although they share a PCIe switch ({path}); not all GPUs can reach a peer over it"),
}


def _issue(s: Setup, reason: str, rows: pl.DataFrame, pairs: pl.DataFrame, disabled: pl.DataFrame) -> Issue:
    severity, confidence, sign = _GRADES[reason]
    hosts = tuple(sorted(set(rows["host"].to_list())))
    count = rows.select("host", "a", "b").n_unique()
    through = "the network" if (rows["best"] == 2).any() else "shared memory of the host"
    means = disabled.filter(pl.col("host").is_in(hosts))
    named = sorted({f"{n}={v}" for n, v in means.select("name", "value").iter_rows()})
    why = f" because of {', '.join(named)}" if named else ""
    path = ", ".join(sorted({p for p in rows["path"].to_list() if p}))
    direct = pairs.filter(pl.col("best").lt(rows["best"].max()) & pl.col("a").is_in(rows["a"].to_list()) & pl.col("b").is_in(rows["b"].to_list()))
    elsewhere = proofs(direct, "connection via {transport}", 1) if reason.endswith("peers") else []
    lines = _path_proofs(s, rows) if path else []
    fix = f"unset {' and '.join(m.split('=')[0] for m in named)}" if named else "check nvidia-smi topo -p2p r and topo -m on these hosts"
    return Issue(
        check=f"not-direct-{reason}",
        subject=hosts,
        kind="transport_fallback",
        severity=severity,
        confidence=confidence,
        says=f"{who(rows['unit'])} on {hosts_named(hosts)}: {count} pair{'s' if count > 1 else ''} of GPUs of one host exchange data through {through}{why}, "
        + sign.format(path=path),
        next_step=f"{fix}; look for NVLink errors (nvidia-smi nvlink -s), ACS or IOMMU that keep PCIe peers apart, and containers that hide GPUs or /dev/shm",
        ranks=ranks_of(rows),
        hosts=hosts,
        proofs=(*proofs(rows, "connection via {transport}"), *proofs(means, "{name}={value}"), *elsewhere, *lines),
        explains=frozenset(means["name"].to_list()) | troubled(hosts),
    )


def _disabled(s: Setup) -> pl.DataFrame:
    """Settings that keep GPUs from direct access or from shared memory."""
    switched = pl.col("name").is_in(["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"]) & on(pl.col("value"))
    level = (pl.col("name") == "NCCL_P2P_LEVEL") & (off(pl.col("value")) | (pl.col("value").str.strip_chars(" .").str.to_lowercase() == "loc"))
    return s.settings.filter(switched | level)


def _addresses(s: Setup) -> pl.DataFrame:
    """host, device (as a connection prints it) and bus: bus ids stand for themselves, indices are looked up."""
    listed = s.comms.select("host", pl.col("nvml_device").cast(pl.String).alias("device"), bus_number(pl.col("bus_id")).alias("bus")).drop_nulls()
    printed = pl.concat([s.connections.select("host", pl.col(c).alias("device")) for c in ("src_device", "dst_device")]).drop_nulls().unique()
    # A bus id in brackets has at least four digits, an index at most two.
    direct = printed.filter(pl.col("device").str.len_chars() > 3).with_columns(bus_number(pl.col("device")).alias("bus"))
    return pl.concat([listed, direct]).drop_nulls().unique(["host", "device"], keep="first", maintain_order=True)


def _paths(s: Setup) -> pl.DataFrame:
    """host, a, b and path: what the library measured between two GPUs of a host."""
    between = s.paths.filter(pl.col("src").str.starts_with("GPU/") & pl.col("dst").str.starts_with("GPU/"))
    rows = between.select("host", bus_number(pl.col("src")).alias("s"), bus_number(pl.col("dst")).alias("d"), "path")
    address = _addresses(s)
    rows = rows.join(address.rename({"bus": "s", "device": "one"}), on=["host", "s"]).join(address.rename({"bus": "d", "device": "two"}), on=["host", "d"])
    ends = rows.select("host", pl.min_horizontal("one", "two").alias("a"), pl.max_horizontal("one", "two").alias("b"), "path")
    return ends.sort("host", "a", "b", "path").unique(["host", "a", "b"], keep="first", maintain_order=True)


def _path_proofs(s: Setup, rows: pl.DataFrame) -> list[Proof]:
    hosts = rows["host"].to_list()
    found = s.paths.filter(pl.col("src").str.starts_with("GPU/") & pl.col("dst").str.starts_with("GPU/") & (pl.col("src") != pl.col("dst")))
    return proofs(found.filter(pl.col("host").is_in(hosts) & pl.col("path").is_in(rows["path"].to_list())), "{src} to {dst}: {path}", 1)
