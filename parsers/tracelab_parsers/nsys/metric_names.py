"""What the names of the profiler's hardware metrics mean: network cards, InfiniBand switches, GPUs, plugins."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracelab.tables import CANONICAL
from tracelab_parsers.counters.meanings import Meaning

__all__ = ["NetworkMetric", "generic_meaning", "gpu_meaning", "is_clock", "network_metric"]

_RATE = re.compile(r"\s*([A-Za-z]+)\s*/\s*(ns|us|ms|s)\s*")
_LENGTHS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_UNITS = frozenset({"byte", "packet", "tick", "event", "bit"})
_NETWORK = re.compile(r"(?:(IB|Eth|RoCE|IPoIB)\s*:\s*)?(Bytes|Packets|CNPs) (sent|received)|(?:(IB|Eth|RoCE)\s*:\s*)?(Send waits)", re.IGNORECASE)
_WITH_UNIT = re.compile(r"(.*?)\s*\[([^\[\]]*)\]\s*", re.DOTALL)
_WAY = re.compile(r"(?<![A-Za-z])(?:(TX|sent)|(RX|received))(?![A-Za-z])", re.IGNORECASE)
_SM_ACTIVE = frozenset({"SM Active", "SMs Active"})
_SM_CLOCK = "GPC Clock Frequency"
_PER_SECOND = re.compile(r"(.+?)\s+per second", re.IGNORECASE)
_EFA = {
    "tx_bytes": ("bytes_per_s", "tx"), "rx_bytes": ("bytes_per_s", "rx"), "tx_pkts": ("packets_per_s", "tx"), "rx_pkts": ("packets_per_s", "rx"),
}  # fmt: skip
_RDMA_WAYS = {"rdma_write_bytes": "tx", "rdma_read_resp_bytes": "tx", "rdma_write_recv_bytes": "rx", "rdma_read_bytes": "rx"}
"""Of EFA: who writes sends, who reads receives; the other side's counters are the two with longer names."""


class NetworkMetric(NamedTuple):
    """A metric that the profiler took between two moments. `per_ns`: it is a rate, per so many nanoseconds; 0 where it is a level."""

    meaning: Meaning
    per_ns: float


def network_metric(name: str, unit: str | None, *, ethernet: bool) -> NetworkMetric:
    """The meaning of a metric of a card or switch with its unit as the export states it (`bytes/ms`).

    A rate over an interval gives what was counted in it. `ethernet`: what the card calls InfiniBand is RDMA over Ethernet.
    """
    rate = _RATE.fullmatch(unit or "")
    counted = rate.group(1).lower().removesuffix("s") if rate is not None else None
    base = "event" if counted is not None and counted not in _UNITS else counted
    way = _WAY.search(name)
    direction = None if way is None else "tx" if way.group(1) else "rx"
    per_ns = _LENGTHS[rate.group(2)] if rate is not None else 0.0
    m = _NETWORK.fullmatch(name)
    if m is not None and rate is not None and (m.group(1) or "").lower() != "ipoib":
        what = (m.group(2) or m.group(5)).lower()
        over_ib = (m.group(1) or m.group(4) or "ib").lower() in ("ib", "roce")
        counter = {"bytes": "bytes", "packets": "packets", "cnps": "cnp_sent" if direction == "tx" else "cnp_handled"}.get(what, "xmit_wait_ticks")
        if ethernet and over_ib and counter in ("bytes", "packets"):
            counter = f"rdma_{counter}"
        if what == "cnps" or base == CANONICAL[counter].unit:
            return NetworkMetric(Meaning(counter, direction or "tx", width=0, kind="delta"), per_ns)  # type: ignore[arg-type]
    kind = "delta" if rate is not None else "gauge"
    return NetworkMetric(Meaning(f"vendor.{name}", direction, width=0, kind=kind, unit=base), per_ns)  # type: ignore[arg-type]


def is_clock(name: str) -> bool:
    """Whether a metric of a GPU is a frequency."""
    m = _WITH_UNIT.fullmatch(name)
    return (m.group(1) if m is not None else name).endswith("Clock Frequency")


def gpu_meaning(name: str, scale: float = 1.0) -> Meaning:
    """The meaning of a metric of a GPU, whose unit stands in its name (`SMs Active [Throughput %]`). `scale`: of a clock, hertz per printed unit."""
    m = _WITH_UNIT.fullmatch(name)
    base, unit = (m.group(1), m.group(2)) if m is not None else (name, "")
    if base in _SM_ACTIVE:
        return Meaning("sm_active", scale=0.01, width=0, kind="gauge")
    if is_clock(name):
        counter = "sm_clock" if base == _SM_CLOCK else f"vendor.{name}"
        return Meaning(counter, scale=scale, width=0, kind="gauge", unit="hertz")
    way = _WAY.search(base)
    direction = None if way is None else "tx" if way.group(1) else "rx"
    return Meaning(f"vendor.{name}", direction, width=0, kind="gauge", unit="percent" if unit.endswith("%") else None)  # type: ignore[arg-type]


def generic_meaning(name: str) -> Meaning:
    """The meaning of a field of a plugin's events: those of EFA are rates (`rdma_read_bytes per second`), others keep their name."""
    m = _PER_SECOND.fullmatch(name)
    if m is None:
        return Meaning(f"vendor.{name}", width=0, kind="gauge")
    base = m.group(1).lower()
    if base in _EFA:
        counter, direction = _EFA[base]
        return Meaning(counter, direction, width=0)  # type: ignore[arg-type]
    unit = "byte/s" if base.endswith("bytes") else "packet/s" if base.endswith(("pkts", "packets")) else None
    prefix = base[:2]
    way = _RDMA_WAYS.get(base) or (prefix if base[:3] in ("tx_", "rx_") else None)
    return Meaning(f"vendor.{name}", way, width=0, kind="gauge", unit=unit)  # type: ignore[arg-type]
