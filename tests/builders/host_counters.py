"""Outputs of a host's network tools and a tree of its devices, made up: two adapters, two readings one second apart."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["ethtool_log", "grep_text", "ip_link", "rdma_json", "write_all", "write_tree"]

_NIC = """=== 2026-01-05T10:00:0{second}.25Z node-a ethtool -S eth{n}
NIC statistics:
     rx_packets: {rx}
     tx_bytes_phy: {tx}
     rx_crc_errors_phy: {crc}
     rx_prio3_pause: 4
     rx_prio3_pause_duration: 17
     rx_out_of_buffer: 0
     strange counter: 5
"""
_RDMA = """=== 2026-01-05T10:00:0{second}.26Z node-a rdma statistic show link mlx5_{n}/1
link mlx5_{n}/1 rx_write_requests 7 out_of_sequence {late} packet_seq_err 0 np_cnp_sent 2
"""


def ethtool_log() -> str:
    """Two readings of two adapters with `ethtool -S` and `rdma statistic`, below what ties their names."""
    out = "mlx5_0 port 1 ==> eth0 (Up)\nmlx5_1 port 1 ==> eth1 (Down)\n"
    for second in (1, 2):
        for n in (0, 1):
            out += _NIC.format(second=second, n=n, rx=100 * second, tx=2**53 + 1 + second, crc=n)
            out += _RDMA.format(second=second, n=n, late=3 * second)
    return out


_TREE = {
    "node_guid": "0c42:a103:0000:0001",
    "ports/1/rate": "400 Gb/sec (4X NDR)",
    "ports/1/state": "4: ACTIVE",
    "ports/1/link_layer": "InfiniBand",
    "ports/1/counters/port_xmit_data": "1000000007",
    "ports/1/counters/port_xmit_wait": "12",
    "ports/1/counters/link_downed": "255",
    "ports/1/counters/symbol_error": "N/A (no PMA)",
    "ports/1/hw_counters/lifespan": "10",
    "ports/1/hw_counters/out_of_sequence": "4",
}


def write_tree(root: Path) -> Path:
    """The devices mlx5_0 and mlx5_1 below `root`; the first of its counters."""
    for device in ("mlx5_0", "mlx5_1"):
        for name, text in _TREE.items():
            path = root / device / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
    return root / "mlx5_0/ports/1/counters/link_downed"


def grep_text() -> str:
    """The same tree as `grep -r .` prints it, in two readings."""
    lines = [f"/sys/class/infiniband/{device}/{name}:{text}" for device in ("mlx5_0", "mlx5_1") for name, text in _TREE.items()]
    return "".join(f"### 2026-01-05 10:00:0{second} node-a grep -r .\n" + "\n".join(lines) + "\n" for second in (1, 2))


def ip_link() -> list[dict[str, object]]:
    """One interface with its kernel's statistics, as `ip -s -j link` lists it."""
    stats = {"rx": {"bytes": 10, "packets": 2, "errors": 1, "dropped": 0}, "tx": {"bytes": 2**53 + 1, "packets": 3}}
    link = {"ifindex": 2, "ifname": "eth0", "mtu": 9000, "operstate": "UP", "link_type": "ether", "address": "0c:42:a1:00:00:07"}
    return [{**link, "altnames": ["enp94s0"], "addr_info": [{"family": "inet", "local": "10.0.0.7"}], "stats64": stats}]


def rdma_json() -> list[dict[str, object]]:
    """One device's counters, as `rdma statistic show -j` lists them."""
    return [{"ifindex": 0, "ifname": "mlx5_0", "port": 1, "rx_write_requests": 742_114, "out_of_sequence": 1, "local_ack_timeout_err": 131}]


def write_all(samples: Path) -> None:
    """Writes the samples into `samples`/formats."""
    (samples / "formats/ethtool").mkdir(parents=True, exist_ok=True)
    (samples / "formats/ethtool/node-a.log").write_text(ethtool_log(), encoding="utf-8")
    write_tree(samples / "formats/sysfs-infiniband/node-a/sys/class/infiniband")
    (samples / "formats/iproute/node-a").mkdir(parents=True, exist_ok=True)
    (samples / "formats/iproute/node-a/link.json").write_text(json.dumps(ip_link()), encoding="utf-8")
    (samples / "formats/iproute/node-a/rdma.json").write_text(json.dumps(rdma_json()), encoding="utf-8")
    (samples / "formats/sysfs-infiniband/node-b.txt").write_text(grep_text(), encoding="utf-8")


if __name__ == "__main__":
    write_all(Path(__file__).resolve().parents[2] / "sample_traces")
