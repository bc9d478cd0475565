"""Between hosts: sockets where an RDMA adapter is there, and adapters that cannot reach the memory of the GPU."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from tracelab.analyses.configuration.issue import Issue, Proof, proofs
from tracelab.analyses.configuration.messages import plugin_failures
from tracelab.analyses.configuration.setup import RDMA, Setup, hosts_named, off, on, ranks_of, troubled, who
from tracelab.results import Confidence, FindingSeverity

__all__ = ["no_gpudirect", "sockets"]

_FABRIC_INTERFACE = r"^(?:ib(?:\d|[ps]\d)|hsn\d|opa\d)"
"""Names of IP interfaces that only InfiniBand, Omni-Path or Slingshot adapters have."""
_NEVER = ["loc", "0"]
"""Distances that no network adapter is at."""


class Sign(NamedTuple):
    """What tells that the hardware offers more, and how sure that makes the issue. `text` follows the sentence."""

    severity: FindingSeverity
    confidence: Confidence
    text: str
    lines: list[Proof]


def sockets(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """TCP between hosts, graded by what the logs say of better hardware: nothing said is no fault, a cloud machine may have none."""
    users = _socket_users(s)
    if not s.spans_hosts or not users.height:
        return []
    hosts = tuple(sorted(set(users["host"].to_list())))
    forced = users.select("unit").unique().join(_forced(s), on="unit", how="inner")
    broken = plugin_failures(messages).filter(pl.col("host").is_in(hosts))
    sign = _adapter_sign(s, hosts, forced, broken)
    means = _means(forced)
    return [
        Issue(
            check="sockets",
            subject=hosts,
            kind="transport_fallback",
            severity=sign.severity,
            confidence=sign.confidence,
            says=f"{who(users['unit'])} on {hosts_named(hosts)}: data between hosts goes over TCP sockets{_because(means)}{sign.text}",
            next_step=_socket_step(means, bool(broken.height)),
            ranks=ranks_of(users),
            hosts=hosts,
            proofs=(*proofs(users, "{said}"), *proofs(forced, "{name}={value}"), *sign.lines, *proofs(broken, "{text}", 1)),
            explains=frozenset({"network", "net_plugin", *forced["name"].to_list()}) | troubled(hosts),
        )
    ]


def _adapter_sign(s: Setup, hosts: tuple[str, ...], forced: pl.DataFrame, broken: pl.DataFrame) -> Sign:
    """What the logs say of RDMA adapters on these hosts, the best proof first."""
    adapters = s.devices.filter(RDMA)
    here = adapters.filter(pl.col("host").is_in(hosts))
    if here.height:
        return Sign("major", "proven", f", although {_lists(here)}", proofs(here, "adapter {name}"))
    if adapters.height:
        return Sign("major", "likely", f", although in the same job {_lists(adapters)}", proofs(adapters, "adapter {name}"))
    fabric = s.devices.filter(~RDMA & pl.col("name").str.contains(_FABRIC_INTERFACE) & pl.col("host").is_in(hosts))
    if fabric.height:
        return Sign("major", "likely", f", although the interface {fabric['name'][0]} belongs to an RDMA adapter", proofs(fabric, "interface {name}"))
    chosen = s.setting("NCCL_NET_PLUGIN", "NCCL_NET").filter(~pl.col("value").str.to_lowercase().is_in(["none", "socket"]))
    if broken.height and chosen.height:
        return Sign("major", "likely", ", since the network plugin that was asked for did not load", proofs(broken, "{text}"))
    if forced.height:
        return Sign("minor", "possible", "; whether an RDMA adapter is there cannot be seen, since the library does not look for one", [])
    return Sign("info", "possible", "; no log shows a faster adapter, and this may be all that the machines have", proofs(broken, "{text}"))


def _means(settings: pl.DataFrame) -> list[str]:
    return sorted({f"{n}={v}" for n, v in settings.select("name", "value").iter_rows()})


def _because(means: list[str]) -> str:
    return f" because of {', '.join(means)}" if means else ""


def _unset(means: list[str]) -> str:
    return f"unset {' and '.join(sorted({m.split('=')[0] for m in means}))}"


def _socket_users(s: Setup) -> pl.DataFrame:
    """Processes that use sockets: by their connections between hosts where they state any, else by the network that they name."""
    connected = s.network.filter(pl.col("transport").str.starts_with("NET"))
    over = connected.filter(pl.col("transport").str.starts_with("NET/Socket")).with_columns(pl.lit("connection via NET/Socket").alias("said"))
    named = s.setting("network").join(connected.select("unit").unique(), on="unit", how="anti")
    named = named.filter((pl.col("value").str.to_lowercase() == "socket").all().over("unit")).with_columns(pl.lit("Using network Socket").alias("said"))
    columns = ["source_id", "rank", "unit", "host", "line", "said"]
    return pl.concat([over.select(columns), named.select(columns)])


def _forced(s: Setup) -> pl.DataFrame:
    disabled = (pl.col("name") == "NCCL_IB_DISABLE") & on(pl.col("value"))
    chosen = (pl.col("name") == "NCCL_NET") & (pl.col("value").str.to_lowercase() == "socket")
    return s.settings.filter(disabled | chosen)


def _lists(devices: pl.DataFrame) -> str:
    return f"{hosts_named(devices['host'])} list{'s' if devices['host'].n_unique() == 1 else ''} {_names(devices)}"


def _names(devices: pl.DataFrame) -> str:
    names = sorted({n for n in devices["name"].to_list() if n})
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") if names else f"{devices['plugin'][0]} devices"


def _socket_step(means: list[str], broken: bool) -> str:
    if means:
        return f"{_unset(means)} where the hosts have InfiniBand, RoCE or EFA adapters; check with ibv_devinfo"
    look = "see why the network plugin did not load (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,NET); " if broken else ""
    return f"{look}check ibv_devinfo on these hosts and in their containers (devices under /dev/infiniband, libibverbs), and NCCL_IB_HCA, NCCL_NET_PLUGIN"


def no_gpudirect(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """Network connections that pass through host memory where the same GPUs of other hosts, or the log, say that they need not.

    Directions are compared apart: on many platforms the library reads without and writes with GPUDirect on purpose.
    """
    net = s.network.filter(pl.col("transport").str.starts_with("NET") & ~pl.col("transport").str.starts_with("NET/Socket") & pl.col("gdr").is_not_null())
    net = net.with_columns(pl.col("direction").fill_null("send"))
    without = net.filter(~pl.col("gdr").max().over("unit", "direction"))
    if not without.height:
        return []
    set_off = _gdr_settings(s).filter(pl.col("unit").is_in(without["unit"].to_list()))
    affected, sign = _gdr_sign(s, net, without, set_off)
    if sign is None:
        return []
    hosts = tuple(sorted(set(affected["host"].to_list())))
    means = _means(set_off)
    step = _unset(means) if means else "load nvidia-peermem (or use a kernel and driver with DMA-BUF) on these hosts"
    return [
        Issue(
            check="no-gpudirect",
            subject=hosts,
            kind="transport_fallback",
            severity=sign.severity,
            confidence=sign.confidence,
            says=f"{who(affected['unit'])} on {hosts_named(hosts)}: network traffic passes through host memory (no GPUDirect RDMA){_because(means)}{sign.text}",
            next_step=f"{step}; check NCCL_NET_GDR_LEVEL and the PCIe placement of GPUs and adapters (nvidia-smi topo -m)",
            ranks=ranks_of(affected),
            hosts=hosts,
            proofs=(*proofs(affected, "connection via {transport} without GDRDMA"), *proofs(set_off, "{name}={value}"), *sign.lines),
            explains=frozenset(set_off["name"].to_list()),
        )
    ]


def _gdr_sign(s: Setup, net: pl.DataFrame, without: pl.DataFrame, set_off: pl.DataFrame) -> tuple[pl.DataFrame, Sign | None]:
    """The connections that could have GPUDirect, and what says so; no sign where it may be all that the hardware does."""
    unable = s.devices.filter(RDMA & ~pl.col("gdr").fill_null(True) & pl.col("host").is_in(without["host"].to_list()))
    disabled = proofs(unable, "GPU Direct RDMA disabled for {name}", 1)
    odd = _unlike_peers(s, net, without)
    if odd.height:
        others = net.filter(pl.col("gdr") & ~pl.col("host").is_in(odd["host"].to_list()))
        lines = proofs(others, "connection via {transport} with GDRDMA", 1) + disabled
        return odd, Sign("major", "likely", ", while the same connections of other hosts have it", lines)
    if set_off.height:
        able = s.devices.filter(RDMA & pl.col("gdr").fill_null(False))
        dma_buf = s.setting("dma_buf").filter(pl.col("value").str.starts_with("available"))
        lines = proofs(able, "GPU Direct RDMA enabled for {name}", 1) + proofs(dma_buf, "DMA-BUF is available", 1)
        affected = without.filter(pl.col("unit").is_in(set_off["unit"].to_list()))
        if lines:
            return affected, Sign("major", "likely", ", though the hosts could", lines)
        return affected, Sign("minor", "possible", "; whether the hosts could cannot be seen", [])
    if unable.height:
        affected = without.filter(pl.col("host").is_in(unable["host"].to_list()))
        return affected, Sign("minor", "possible", "; the library says that it is not available for the adapter", disabled)
    return without, None


def _gdr_settings(s: Setup) -> pl.DataFrame:
    level = pl.col("name").is_in(["NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL"]) & pl.col("value").str.strip_chars(" .").str.to_lowercase().is_in(_NEVER)
    return s.settings.filter(level | (pl.col("name").is_in(["NCCL_NET_GDR_READ", "NCCL_IB_CUDA_SUPPORT"]) & off(pl.col("value"))))


def _unlike_peers(s: Setup, net: pl.DataFrame, without: pl.DataFrame) -> pl.DataFrame:
    """Rows of `without` whose GPU has GPUDirect in that direction on most other hosts, or where any GPU has, if places are unknown."""
    local = _places(s)
    placed = net.join(local, on="unit", how="left", maintain_order="left").with_columns(pl.col("place").fill_null(-1))
    by_host = placed.group_by("host", "place", "direction").agg(pl.col("gdr").max())
    able = by_host.group_by("place", "direction").agg(pl.col("gdr").sum().alias("able"), pl.len().alias("hosts"))
    rows = without.join(local, on="unit", how="left", maintain_order="left").with_columns(pl.col("place").fill_null(-1))
    rows = rows.join(able, on=["place", "direction"], how="left", maintain_order="left")
    own = by_host.rename({"gdr": "own"})
    rows = rows.join(own, on=["host", "place", "direction"], how="left", maintain_order="left").filter(~pl.col("own"))
    return rows.filter((pl.col("able") > 0) & (pl.col("able") * 2 >= pl.col("hosts") - 1))


def _places(s: Setup) -> pl.DataFrame:
    """Columns unit and place: the index of its GPU on its host."""
    index = pl.coalesce("nvml_device", "local_rank", "cuda_device").alias("place")
    return s.comms.select("unit", index).drop_nulls().unique("unit", keep="first", maintain_order=True)
