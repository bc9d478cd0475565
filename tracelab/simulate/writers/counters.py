"""Counters of adapters and of switch ports, sampled by each machine's own clock, and what is plugged where.

Bytes are what the links carried; what goes wrong on a link shows at both of its ends.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate

from tracelab.simulate.clocks import Clock
from tracelab.simulate.model import Fault, Outcome
from tracelab.simulate.noise import generator

__all__ = ["Meters", "adapter_log", "adapter_names", "ports_csv", "prometheus", "wiring_csv"]

PACKET = 4096
_SYMBOL_ERRORS_PER_S = 120.0
_PAUSES_PER_S = 4_000.0


@dataclass(frozen=True)
class _Total:
    """What a link carried up to a moment: bytes at `moments` (ns), in between at a steady rate."""

    moments: list[int]
    totals: list[float]

    def at(self, moment: int) -> float:
        n = bisect_right(self.moments, moment) - 1
        if n < 0:
            return 0.0
        if n + 1 == len(self.moments):
            return self.totals[-1]
        a, b = self.moments[n], self.moments[n + 1]
        return self.totals[n] + (self.totals[n + 1] - self.totals[n]) * (moment - a) / (b - a)


class Meters:
    """Readings of all ports of an outcome. `interval_ns` between samples, from `lead_ns` before the first step to as long after the last."""

    def __init__(self, outcome: Outcome, interval_ns: int = 250_000_000, lead_ns: int = 1_000_000_000) -> None:
        self.outcome = outcome
        self.cluster = outcome.scenario.cluster
        self.length = max(max((s[-1][2] for s in outcome.steps if s), default=0), max((x.end for x in outcome.loads), default=0))
        self._interval, self._lead = interval_ns, lead_ns
        self._bytes = _totals(outcome)
        self._seed = outcome.scenario.seed

    def moments(self, machine: str) -> Iterator[int]:
        """When a machine reads its counters: every interval, with 2 % of jitter."""
        rng = generator(self._seed, "samples", machine)
        phase = int(rng.uniform(0, self._interval))
        for t in range(-self._lead + phase, self.length + self._lead, self._interval):
            yield t + int(rng.normal(0, 0.02 * self._interval))

    def read(self, link: str, moment: int) -> dict[str, int]:
        """Counters of a one-way link up to a moment: bytes, packets and what went wrong, each from a start of its own."""
        carried = self._bytes[link].at(moment) if link in self._bytes else 0.0
        start = generator(self._seed, "start", link).integers(1, 1 << 40)
        out = {"bytes": int(start + carried), "packets": int(start // PACKET + carried / PACKET)}
        out |= dict.fromkeys(("symbol", "lost", "pauses", "marks", "down"), 0)
        for f in self.outcome.scenario.faults:
            since = max(min(moment, f.end * self.length if f.end < 1 else moment) - f.onset * self.length, 0) / 1e9
            share = carried / PACKET
            if not self._of(link, f):
                continue
            match f.kind:
                case "slow_link":
                    out["symbol"] += int(_SYMBOL_ERRORS_PER_S * since)
                case "packet_loss":
                    began = self._bytes[link].at(round(f.onset * self.length)) / PACKET if link in self._bytes else 0.0
                    out["lost"] += int(max(share - began, 0) * f.size) if since else 0
                case "congestion":
                    out["pauses"] += int(_PAUSES_PER_S * since)
                    out["marks"] += int(5 * _PAUSES_PER_S * since)
                case "link_flap":
                    out["down"] += int(since > 0)
                case "ecmp_collision":
                    out["marks"] += int(0.05 * share)
                case _:
                    pass
        return out

    def _of(self, link: str, f: Fault) -> bool:
        kind, a, b, way = link.split(":")
        if f.kind == "ecmp_collision":
            return kind == "uplink" and way == "tx" and b == "0" and any(self.cluster.leaf_of(h) == int(a) for h in f.hosts)
        return kind == "nic" and int(a) in f.hosts and int(b) == f.nic


def _totals(outcome: Outcome) -> dict[str, _Total]:
    per_link: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for x in outcome.loads:
        per_link[x.link].append((x.start, x.end, x.bytes_per_s))
    out = {}
    for link, spans in per_link.items():
        spans.sort()
        moments: list[int] = []
        parts: list[float] = []
        for start, end, rate in spans:
            if not moments or moments[-1] != start:
                moments.append(start)
                parts.append(0.0)
            moments.append(end)
            parts.append(rate * (end - start) / 1e9)
        out[link] = _Total(moments, list(accumulate(parts)))
    return out


def netdev(nic: int) -> str:
    """Name of the network interface of an adapter."""
    return f"ens{nic + 1}f0np0"


def _stamp(ns: int) -> str:
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ns % 1_000_000_000 // 1000:06d}Z"


def adapter_names(meters: Meters) -> str:
    """What `ibdev2netdev` prints on a host."""
    return "".join(f"mlx5_{n} port 1 ==> {netdev(n)} (Up)\n" for n in range(meters.cluster.nics))


def adapter_log(meters: Meters, host: int, clock: Clock) -> str:
    """A host's log of `ethtool -S` and `rdma statistic`, one reading after the other."""
    name, out = meters.cluster.host_name(host), []
    for moment in meters.moments(name):
        at = _stamp(clock.shows(moment))
        for nic in range(meters.cluster.nics):
            tx, rx = (meters.read(f"nic:{host}:{nic}:{way}", moment) for way in ("tx", "rx"))
            values = {
                "rx_bytes_phy": rx["bytes"],
                "tx_bytes_phy": tx["bytes"],
                "rx_packets_phy": rx["packets"],
                "tx_packets_phy": tx["packets"],
                "rx_symbol_err_phy": rx["symbol"],
                "rx_crc_errors_phy": rx["symbol"] // 3,
                "rx_discards_phy": 0,
                "link_down_events_phy": rx["down"],
                "rx_prio3_pause": tx["pauses"],
                "rx_prio3_pause_duration": 30 * tx["pauses"],
                "tx_prio3_pause": 0,
            }
            out.append(f"=== {at} {name} ethtool -S {netdev(nic)}\nNIC statistics:\n")
            out += [f"     {k}: {v}\n" for k, v in values.items()]
            resent = tx["lost"] + tx["symbol"] // 3
            counts = f"out_of_sequence {rx['lost']} packet_seq_err {resent} local_ack_timeout_err {resent // 50} np_ecn_marked_roce_packets {rx['marks']}"
            out.append(f"=== {at} {name} rdma statistic show link mlx5_{nic}/1\nlink mlx5_{nic}/1 {counts}\n")
    return "".join(out)


def prometheus(meters: Meters, clocks: Mapping[int, Clock]) -> dict[str, str]:
    """Answers of `query_range` to node_exporter's InfiniBand metrics, by name: sampled by one clock, that of the hosts' first."""
    metrics = {
        "node_infiniband_port_data_transmitted_bytes_total": ("tx", "bytes"),
        "node_infiniband_port_data_received_bytes_total": ("rx", "bytes"),
        "node_infiniband_symbol_error_total": ("rx", "symbol"),
        "node_infiniband_link_downed_total": ("rx", "down"),
        "node_infiniband_port_discards_transmitted_total": ("tx", "lost"),
    }
    moments, clock = list(meters.moments("prometheus")), clocks[0]
    out = {}
    for metric, (way, counter) in metrics.items():
        result = [
            {
                "metric": {"__name__": metric, "device": f"mlx5_{nic}", "port": "1", "instance": f"{meters.cluster.host_name(host)}:9100", "job": "node"},
                "values": [[round(clock.shows(t) / 1e9, 3), str(meters.read(f"nic:{host}:{nic}:{way}", t)[counter])] for t in moments],
            }
            for host in range(meters.cluster.hosts)
            for nic in range(meters.cluster.nics)
        ]
        out[metric] = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    return out


def ports_csv(meters: Meters, leaf: int, clock: Clock) -> str:
    """Ports of a leaf switch as a table: those to hosts, and its uplinks. What a host sends is what its port receives."""
    c = meters.cluster
    rows = ["timestamp,node,port,in_octets,out_octets,in_errors,out_discards,in_pause_frames,ecn_marked_packets,link_transitions\n"]
    hosts = [h for h in range(c.hosts) if c.leaf_of(h) == leaf]
    ports = [(port_of(c.nics, h - hosts[0], n), f"nic:{h}:{n}") for h in hosts for n in range(c.nics)]
    if c.leaf_of(c.hosts - 1) > 0:
        ports += [(f"Ethernet{512 + 4 * s}", f"uplink:{leaf}:{s}") for s in range(c.uplinks)]
    for moment in meters.moments(f"leaf{leaf + 1}"):
        at = _stamp(clock.shows(moment))
        for port, link in ports:
            tx, rx = meters.read(f"{link}:tx", moment), meters.read(f"{link}:rx", moment)
            received, sent = (rx, tx) if link.startswith("uplink") else (tx, rx)
            told = f"{received['bytes']},{sent['bytes']},{received['symbol'] // 4},{sent['lost']},{received['pauses']},{sent['marks']},{sent['down']}"
            rows.append(f"{at},leaf{leaf + 1},{port},{told}\n")
    return "".join(rows)


def port_of(nics: int, nth: int, nic: int) -> str:
    """Port of a leaf switch for an adapter of its n-th host."""
    return f"Ethernet{4 * (nth * nics + nic)}"


def wiring_csv(meters: Meters) -> str:
    """Which adapter is plugged into which port."""
    c, rows = meters.cluster, ["host,nic,netdev,switch,port,speed\n"]
    for host in range(c.hosts):
        leaf = c.leaf_of(host)
        for nic in range(c.nics):
            port = port_of(c.nics, host - leaf * c.hosts_per_leaf, nic)
            rows.append(f"{c.host_name(host)},mlx5_{nic},{netdev(nic)},leaf{leaf + 1},{port},{c.nic_gbps:.0f}G\n")
    return "".join(rows)
