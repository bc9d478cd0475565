"""Outputs of EOS and NX-OS switches as JSON, made up, and what tests of all switch parsers share.

`python -m tests.builders.switches` writes `sample_traces/formats/eos-json/` and `nxos-json/` again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.builders.collected import Read, read
from tracelab.plugins import Parser
from tracelab.tables import TABLES

__all__ = ["eos_interfaces", "eos_queues", "nxos_interfaces", "one", "parse", "rows", "write_samples"]

FORMATS = Path(__file__).resolve().parents[2] / "sample_traces" / "formats"


def eos_interfaces() -> dict[str, Any]:
    """`show interfaces | json` of one port and its port channel."""
    counters = {
        "counterRefreshTime": 1760000000.123456,
        "inOctets": 18_446_744_073_709_551_615,
        "outOctets": 4096,
        "inUcastPkts": 77,
        "inDiscards": 5,
        "totalInErrors": 2,
        "linkStatusChanges": 4,
        "inputErrorsDetail": {"fcsErrors": 1, "symbolErrors": 6, "rxPause": 12, "giantFrames": 0},
        "outputErrorsDetail": {"txPause": 3, "collisions": 0},
    }
    port = {
        "name": "Ethernet5/1",
        "interfaceStatus": "connected",
        "bandwidth": 400_000_000_000,
        "mtu": 9214,
        "burnedInAddress": "44:4c:a8:00:00:05",
        "description": "to host-a",
        "interfaceMembership": "Member of Port-Channel7",
        "lastStatusChangeTimestamp": 1759990000.5,
        "interfaceStatistics": {"inBitsRate": 2.5e9, "outBitsRate": 8.0, "inPktsRate": 100.0, "updateInterval": 300.0},
        "interfaceCounters": counters,
    }
    bundle = {"interfaceStatus": "notconnect", "bandwidth": 0, "description": "description not available", "interfaceCounters": {"inOctets": 1}}
    return {"interfaces": {"Ethernet5/1": port, "Port-Channel7": bundle}}


def eos_queues() -> dict[str, Any]:
    """`show interfaces counters queue | json` of one class of one port."""
    counters = {"enqueuedPackets": 10, "enqueuedOctets": 10_240, "droppedPackets": 3, "droppedOctets": 3072}
    classes = {"trafficClasses": {"TC3": {"dropPrecedences": {"DP0": counters}}}}
    return {"egressQueueCounters": {"interfaces": {"Ethernet5/1": {"ucastQueues": classes}}}}


def nxos_interfaces(*, single: bool = False) -> dict[str, Any]:
    """`show interface | json`: a list of rows, or the row itself where there is one."""
    port = {
        "interface": "Ethernet1/2/1",
        "state": "up",
        "eth_hw_addr": "18e7.2800.0001",
        "eth_bia_addr": "18e7.2800.0002",
        "desc": "to host-b",
        "eth_mtu": "9216",
        "eth_bw": "100000000",
        "eth_speed": "100 Gb/s",
        "eth_clear_counters": "1d02h",
        "eth_link_flapped": "3week(s)",
        "eth_inrate1_bits": "1,000",
        "eth_inrate1_summary_bits": "1 Kbps",
        "eth_inbytes": "18446744073709551615",
        "eth_outbytes": "1",
        "eth_inpkts": "9",
        "eth_crc": "2",
        "eth_indiscard": "--",
        "eth_outpause": "6",
        "eth_inucast": "8",
        "eth_new_in_drops": "4",
    }
    return {"TABLE_interface": {"ROW_interface": port if single else [port, {"interface": "mgmt0", "state": "down", "vdc_lvl_in_bytes": "50"}]}}


def parse(parser: Parser, path: Path, content: str | bytes) -> Read:
    """What `parser` makes of `content` in a file at `path`."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(parser, path)


def rows(found: Read, table: str = "counter_samples") -> list[dict[str, Any]]:
    """The rows of a table in the order in which they were given."""
    return pa.Table.from_batches(found.batches[table], TABLES[table].arrow).to_pylist() if found.batches.get(table) else []


def one(found: Read, **wanted: object) -> dict[str, Any]:
    """The only row of counter samples with these values."""
    (row,) = [r for r in rows(found) if all(r[k] == v for k, v in wanted.items())]
    return row


def write_samples(root: Path = FORMATS) -> None:
    """Writes the samples of both parsers below `root`."""
    for name in ("eos-json", "nxos-json"):
        (root / name).mkdir(parents=True, exist_ok=True)
    session = f"spine3#show interfaces | json\n{json.dumps(eos_interfaces(), indent=2)}\nspine3#show interfaces counters queue | json\n"
    (root / "eos-json" / "spine3.json").write_text(session + json.dumps(eos_queues(), indent=2))
    (root / "nxos-json" / "show_interface.json").write_text(json.dumps(nxos_interfaces(), indent=2))


if __name__ == "__main__":
    write_samples()
