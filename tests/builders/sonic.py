"""Outputs of a SONiC switch, made up: dumps of its databases, tables and JSON forms of its commands.

`python -m tests.builders.sonic` writes `sample_traces/formats/sonic-db/` and `sonic-cli/` again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["database", "nested_configuration", "session", "table", "wrapped", "write_samples"]

FORMATS = Path(__file__).resolve().parents[2] / "sample_traces" / "formats"
MOMENT = 1_760_000_000.25


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: bool = False) -> str:
    """A table as these commands print it: headings, dashes, rows; two blanks between columns."""
    widths = [max(len(c) + 2 * (not left), *(len(r[i]) for r in rows)) if rows else len(c) for i, c in enumerate(columns)]
    cells = [columns, ["-" * w for w in widths], *rows]
    return "\n".join("  ".join(c.ljust(w) if left else c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells) + "\n"


def database() -> dict[str, dict[str, str]]:
    """A counters database of two ports, one queue, one priority group and one pool."""
    ports = {"Ethernet0": "oid:0x1000000000001", "Ethernet8": "oid:0x1000000000002"}
    counters = {"SAI_PORT_STAT_IF_IN_OCTETS": "18446744073709551615", "SAI_PORT_STAT_IF_OUT_OCTETS": "7000", "SAI_PORT_STAT_IF_IN_ERRORS": "3"}
    pauses = {"SAI_PORT_STAT_PFC_3_RX_PKTS": "21", "SAI_PORT_STAT_PFC_4_TX_PKTS": "5", "SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US": "1234"}
    return {
        "COUNTERS:oid:0x1000000000001": {**counters, **pauses, "SAI_PORT_STAT_OF_TOMORROW": "1"},
        "COUNTERS:oid:0x1000000000002": {**counters, "SAI_PORT_STAT_IF_IN_DISCARDS": "N/A"},
        "COUNTERS:oid:0x15000000000001": {"SAI_QUEUE_STAT_PACKETS": "40", "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": "9", "PFC_WD_STATUS": "stormed"},
        "COUNTERS:oid:0x1a000000000001": {"SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS": "2"},
        "USER_WATERMARKS:oid:0x18000000000001": {"SAI_BUFFER_POOL_STAT_WATERMARK_BYTES": "65536"},
        "RATES:oid:0x1000000000001": {"RX_BPS": "2.5e9", "TX_PPS": "183.5"},
        "COUNTERS_PORT_NAME_MAP": ports,
        "COUNTERS_QUEUE_NAME_MAP": {"Ethernet0:3": "oid:0x15000000000001"},
        "COUNTERS_QUEUE_TYPE_MAP": {"oid:0x15000000000001": "SAI_QUEUE_TYPE_UNICAST"},
        "COUNTERS_QUEUE_INDEX_MAP": {"oid:0x15000000000001": "3"},
        "COUNTERS_PG_NAME_MAP": {"Ethernet0:4": "oid:0x1a000000000001"},
        "COUNTERS_BUFFER_POOL_NAME_MAP": {"ingress_lossless_pool": "oid:0x18000000000001"},
    }


def wrapped(keys: Mapping[str, Mapping[str, str]], moment: float = MOMENT) -> dict[str, Any]:
    """The form of redis-dump: each key with its type, the rest of its life (none) and the moment."""
    return {key: {"expireat": moment, "ttl": -0.001, "type": "hash", "value": dict(fields)} for key, fields in keys.items()}


def nested_configuration() -> dict[str, Any]:
    """A configuration as `config_db.json` holds it."""
    return {
        "DEVICE_METADATA": {"localhost": {"hostname": "leaf7", "mac": "0c:42:a1:00:00:07", "type": "LeafRouter"}},
        "PORT": {
            "Ethernet0": {"alias": "etp1", "lanes": "1,2,3,4,5,6,7,8", "speed": "400000", "mtu": "9100", "admin_status": "up"},
            "Ethernet8": {"alias": "etp2", "lanes": "9,10,11,12", "speed": "200000"},
        },
        "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet8": {}},
        "DEVICE_NEIGHBOR": {"Ethernet0": {"name": "host-a", "port": "ens1f0np0"}},
        "TACPLUS": {"global": {"passkey": "never-stored"}},
    }


def session() -> str:
    """A terminal session: date, ports, pauses, queues, a title with its table."""
    ports = table(
        ("IFACE", "STATE", "RX_OK", "RX_BPS", "RX_UTIL", "RX_ERR", "RX_DRP", "TX_OK", "TX_ERR"),
        (
            ("Ethernet0", "U", "1,234,567", "2000.00 MB/s", "64.00%", "10", "1,000", "40", "N/A"),
            ("Ethernet8", "D", "0", "0.00 B/s", "0.00%", "0", "0", "0", "N/A"),
        ),
    )
    pauses = table(("Port Rx", *(f"PFC{i}" for i in range(8))), (("Ethernet0", "0", "0", "0", "1,201", "0", "0", "0", "0"),))
    queues = table(
        ("Port", "TxQ", "Counter/pkts", "Counter/bytes", "Drop/pkts", "Drop/bytes"),
        (("Ethernet0", "UC3", "60", "43", "39", "1"), ("Ethernet0", "MC10", "N/A", "N/A", "N/A", "N/A")),
    )
    marks = table(("Port", "PG3", "PG4"), (("Ethernet0", "100", "863616"), ("Ethernet8", "0", "N/A"), ("Ethernet16", "0", "0"), ("Ethernet24", "0", "0")))
    prompt = "admin@leaf7:~$ "
    return (
        f"{prompt}date -u\nThu Oct  9 08:53:20 UTC 2025\n{prompt}show interfaces counters\nLast cached time was 2025-10-09 08:00:00.5\n{ports}"
        f"{prompt}show pfc counters\n{pauses}\n{prompt}show queue counters\nFor namespace :\n{queues}\n"
        f"{prompt}show priority-group watermark headroom\nIngress headroom per PG:\n{marks}"
    )


def write_samples(root: Path = FORMATS) -> None:
    """Writes the samples of both parsers below `root`."""
    for name in ("sonic-db", "sonic-cli"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "sonic-db" / "leaf7_counters_db.json").write_text(json.dumps(wrapped(database()), indent=1))
    (root / "sonic-db" / "leaf7_config_db.json").write_text(json.dumps(nested_configuration(), indent=1))
    (root / "sonic-cli" / "leaf7.txt").write_text(session().rstrip("\n"))


if __name__ == "__main__":
    write_samples()
