"""Bytes of headers on the wire, beside those that the job's operations move."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analysis import Tables

__all__ = ["Headers", "headers_of"]

_ROCE_BYTES = 62
"""Per packet: Ethernet 14 + 4, IPv4 20, UDP 8, BTH 12, ICRC 4. The 16 of the RETH, in the first packet of a message alone, are left out."""
_INFINIBAND_BYTES = 24
"""Per packet: LRH 8, BTH 12 and ICRC 4; the delimiters and the VCRC are not counted by PortXmitData."""
_PAYLOADS = (256, 512, 1024, 2048, 4096)
"""Payloads that a packet of RDMA can have; InfiniBand Architecture Specification, path MTU."""


@dataclass(frozen=True)
class Headers:
    """Bytes of headers per byte of payload, and what that was taken from."""

    share: float
    origin: str


def headers_of(tables: Tables, payload: int = 4096) -> Headers:
    """Headers on the links of the job's ranks: InfiniBand's where only that is stated, else RoCE's over IPv4.

    `payload`: bytes per packet where no interface of the job states a frame size that allows less.
    """
    devices = tables["endpoints"].select("device", "netdev").unique().collect()
    used = sorted({*devices["device"].drop_nulls(), *devices["netdev"].drop_nulls()})
    mine = pl.col("device").is_in(used) | pl.col("netdev").is_in(used)
    interfaces = tables["interfaces"].filter(mine).select("mtu", pl.col("link_layer").cast(pl.String)).unique().collect()
    logged = tables["net_devices"].select(pl.col("link_layer").cast(pl.String)).unique().collect()
    layers = {*interfaces["link_layer"].drop_nulls(), *logged["link_layer"].drop_nulls()}
    if layers and layers <= {"InfiniBand", "IB"}:
        return Headers(_INFINIBAND_BYTES / payload, "InfiniBand")
    frames = interfaces["mtu"].drop_nulls()
    # a frame of Ethernet holds the headers above it too
    fits = [p for p in _PAYLOADS if not frames.len() or p + _ROCE_BYTES - 18 <= int(frames.min())]  # type: ignore[arg-type]
    size = min(max(fits, default=payload), payload)
    return Headers(_ROCE_BYTES / size, f"RoCE over IPv4 with {'' if frames.len() else 'an assumed '}{size:,} B per packet")
