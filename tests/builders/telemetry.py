"""Notifications of gNMI and points of Telegraf, and the samples of both: `python -m tests.builders.telemetry`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["FIRST_NS", "event", "notification", "proto", "sample_events", "sample_points", "write_samples"]

FORMATS = Path(__file__).resolve().parents[2] / "sample_traces" / "formats"
FIRST_NS = 1_785_000_000_123_456_789
_COUNTERS = "/interfaces/interface/state/counters"
_QUEUE = "/qos/interfaces/interface/output/queues/queue/state"


def event(values: dict[str, Any], *, source: str = "leaf1:57400", ts_ns: int = FIRST_NS, tags: Mapping[str, str] | None = None, **more: str) -> dict[str, Any]:
    """An event as gnmic prints it; tags are `element__key` with a hyphen for every single underscore."""
    keys = {k.replace("_", "-").replace("--", "_"): v for k, v in {**(tags or {}), **more}.items()}
    named = {"source": source, "subscription-name": "ports"} | keys
    return {"name": "ports", "timestamp": ts_ns, "tags": named, "values": values}


def notification(prefix: str, values: dict[str, Any], *, source: str = "leaf1:57400", ts_ns: int = FIRST_NS) -> dict[str, Any]:
    """A notification in gnmic's form json; keys of `values` are paths with keys."""
    updates = [{"Path": path, "values": {path.replace("[name=Ethernet8]", ""): value}} for path, value in values.items()]
    return {"source": source, "subscription-name": "ports", "timestamp": ts_ns, "time": "2026-07-25T17:20:00Z", "prefix": prefix, "updates": updates}


def proto(elements: list[tuple[str, dict[str, str]]], value: dict[str, Any], *, ts_ns: int = FIRST_NS) -> dict[str, Any]:
    """A response in protobuf's JSON form with one update."""
    elem = [{"name": name} | ({"key": keys} if keys else {}) for name, keys in elements]
    return {"update": {"timestamp": str(ts_ns), "prefix": {"target": "leaf1"}, "update": [{"path": {"elem": elem}, "val": value}]}}


def sample_events() -> list[dict[str, Any]]:
    """Two ports of a leaf over three seconds, and a queue of one."""
    out = []
    for second in range(3):
        moment = FIRST_NS + second * 10**9
        for port in range(2):
            values = {f"{_COUNTERS}/in-octets": str(10**15 + second * 40_000_000_000 * (port + 1)), f"{_COUNTERS}/out-octets": str(second * 1_000_000)}
            values |= {f"{_COUNTERS}/in-discards": "0", f"{_COUNTERS}/carrier-transitions": str(2 * port), "/interfaces/interface/state/oper-status": "UP"}
            out.append(event(values, ts_ns=moment, interface__name=f"Ethernet{8 * port}"))
        queue = {f"{_QUEUE}/ecn-marked-pkts": 5 * second, f"{_QUEUE}/transmit-octets": str(second * 900_000)}
        out.append(event(queue, ts_ns=moment, interface__interface_id="Ethernet0", queue__name="UC3"))
    return out


def sample_points() -> str:
    """A host's adapter, network device and GPU over two seconds, in line protocol."""
    lines = []
    for second in range(2):
        stamp = FIRST_NS + second * 10**9
        words = 25_000_000 * second
        lines += [
            f"infiniband,device=mlx5_0,host=node-a,port=1 port_xmit_data={words}i,port_rcv_data={2 * words}i,port_xmit_wait=7i,link_downed=0i {stamp}",
            f"net,host=node-a,interface=ens1f0np0 bytes_recv={1000 * second}i,bytes_sent=5i,drop_in=0i,speed=400000i {stamp}",
            f"ethtool,driver=mlx5_core,host=node-a,interface=ens1f0np0 rx_prio3_pause={3 * second}i,rx_bytes_phy={words}i,interface_up=1i {stamp}",
            f"nvidia_smi,host=node-a,index=0,name=NVIDIA\\ H100,pstate=P0,uuid=GPU-1 temperature_gpu=61i,power_draw=512.5,clocks_current_sm=1980i {stamp}",
            f"cpu,cpu=cpu0,host=node-a usage_idle=97.5 {stamp}",
        ]
    return "\n".join(lines)


def write_samples(root: Path = FORMATS) -> None:
    """Writes the samples below `root`."""
    for name in ("gnmic", "telegraf"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "gnmic" / "leaf1.event.json").write_text(json.dumps(sample_events(), indent=1))
    (root / "telegraf" / "node-a.influx").write_text(sample_points())


if __name__ == "__main__":
    write_samples()
