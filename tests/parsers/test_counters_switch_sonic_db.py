"""Dumps of SONiC's databases: names of objects, moments of keys, ports of other databases, and nothing secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tests.builders.sonic import database, nested_configuration, wrapped, write_samples
from tests.builders.switches import one, parse, rows
from tracelab_parsers.counters.sonic_db import PARSER

SHOWN = ("device", "device_kind", "priority", "queue", "direction", "counter", "raw", "value", "unit", "kind")


def _parse(folder: Path, value: object) -> Read:
    return parse(PARSER, folder / "dump.json", json.dumps(value))


def _shown(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in SHOWN)


def test_ids_become_names_wherever_the_maps_stand(tmp_path: Path) -> None:
    found = _parse(tmp_path, database())
    assert [_shown(r) for r in rows(found)] == [
        ("Ethernet0", "switch-port", None, None, "rx", "bytes", 2**64 - 1, 2.0**64, "byte", "counter"),
        ("Ethernet0", "switch-port", None, None, "tx", "bytes", 7000, 7000.0, "byte", "counter"),
        ("Ethernet0", "switch-port", None, None, "rx", "errors", 3, 3.0, "packet", "counter"),
        ("Ethernet0", "switch-port", 3, None, "rx", "pfc_pause_frames", 21, 21.0, "packet", "counter"),
        ("Ethernet0", "switch-port", 4, None, "tx", "pfc_pause_frames", 5, 5.0, "packet", "counter"),
        ("Ethernet0", "switch-port", 3, None, "rx", "pfc_pause_us", 1234, 1234.0, "us", "counter"),
        ("Ethernet0", "switch-port", None, None, None, "vendor.SAI_PORT_STAT_OF_TOMORROW", 1, 1.0, None, "counter"),
        ("Ethernet8", "switch-port", None, None, "rx", "bytes", 2**64 - 1, 2.0**64, "byte", "counter"),
        ("Ethernet8", "switch-port", None, None, "tx", "bytes", 7000, 7000.0, "byte", "counter"),
        ("Ethernet8", "switch-port", None, None, "rx", "errors", 3, 3.0, "packet", "counter"),
        ("Ethernet8", "switch-port", None, None, "rx", "discards", None, None, "packet", "counter"),
        ("Ethernet0", "switch-port", None, "UC3", "tx", "queue_packets", 40, 40.0, "packet", "counter"),
        ("Ethernet0", "switch-port", None, "UC3", "tx", "ecn_marked_packets", 9, 9.0, "packet", "counter"),
        ("Ethernet0", "switch-port", None, "UC3", None, "vendor.PFC_WD_STATUS", None, 1.0, None, "gauge"),
        ("Ethernet0", "switch-port", None, "PG4", "rx", "pg_drop_packets", 2, 2.0, "packet", "counter"),
        (None, "switch", None, "ingress_lossless_pool", None, "vendor.USER_WATERMARKS.SAI_BUFFER_POOL_STAT_WATERMARK_BYTES", 65536, 65536.0, "byte", "gauge"),
        ("Ethernet0", "switch-port", None, None, "rx", "bytes_per_s", 2_500_000_000, 2.5e9, "byte/s", "gauge"),
        ("Ethernet0", "switch-port", None, None, "tx", "packets_per_s", None, 183.5, "packet/s", "gauge"),
    ]
    assert {(r["node"], r["node_kind"], r["source_ts_ns"], r["time_quality"]) for r in rows(found)} == {(None, "switch", None, None)}
    assert found.counts() == {}
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("numbers", 18, True)]
    assert found.info.parts == []


def test_redis_dump_gives_the_moment_of_each_key_exactly(tmp_path: Path) -> None:
    dump = wrapped(database())
    dump["COUNTERS:oid:0x1000000000002"] |= {"expireat": 1_760_000_060.75, "ttl": 60}
    dump["COUNTERS:oid:0x1a000000000001"] |= {"expireat": "never"}
    found = _parse(tmp_path, dump)
    moments = {r["counter"]: (r["source_ts_ns"], r["time_quality"]) for r in rows(found) if r["device"] == "Ethernet0"}
    assert moments["bytes"] == (1_760_000_000_250_000_000, "device")
    assert moments["pg_drop_packets"] == (None, None)
    assert {r["source_ts_ns"] for r in rows(found) if r["device"] == "Ethernet8"} == {1_760_000_000_750_000_000}


def test_the_printed_digits_of_a_moment_survive(tmp_path: Path) -> None:
    dump = json.dumps(wrapped(database(), 123)).replace(": 123,", ": 1742050896.8762946,")
    found = parse(PARSER, tmp_path / "dump.json", dump)
    assert {r["source_ts_ns"] for r in rows(found)} == {1_742_050_896_876_294_600}


def test_configuration_gives_ports_a_bundle_and_planned_cables_and_names_the_switch(tmp_path: Path) -> None:
    found = _parse(tmp_path, nested_configuration())
    ports = [(r["node"], r["node_uid"], r["netdev"], r["alias"], r["speed_bps"], r["lanes"], r["mtu"], r["up"], r["bond"]) for r in rows(found, "interfaces")]
    assert ports == [
        ("leaf7", "0c42a1000007", "Ethernet0", "etp1", 400_000_000_000, 8, 9100, None, None),
        ("leaf7", "0c42a1000007", "Ethernet8", "etp2", 200_000_000_000, 4, None, None, None),
        ("leaf7", "0c42a1000007", "Ethernet8", None, None, None, None, None, "PortChannel1"),
    ]
    (cable,) = rows(found, "cables")
    assert [cable[k] for k in ("a_node", "a_port", "b_node", "b_port", "origin")] == ["leaf7", "Ethernet0", "host-a", "ens1f0np0", "table"]
    assert "never-stored" not in repr((rows(found, "interfaces"), rows(found, "cables"), found.info, found.notices))


def test_other_databases_state_links_neighbours_and_optics(tmp_path: Path) -> None:
    dump = {
        "PORT_TABLE:Ethernet0": {"alias": "etp1", "speed": "100000", "lanes": "1,2", "oper_status": "down", "flap_count": "3"},
        "PORT_TABLE:PortInitDone": {"lanes": "0"},
        "LLDP_ENTRY_TABLE:Ethernet0": {
            "lldp_rem_sys_name": "host-a",
            "lldp_rem_chassis_id": "b8:ce:f6:00:00:01",
            "lldp_rem_port_id": "b8:ce:f6:00:00:02",
            "lldp_rem_port_desc": "ens1f0np0",
            "lldp_rem_sys_cap_enabled": "01 00",
        },
        "TRANSCEIVER_INFO|Ethernet0": {"type": "QSFP-DD", "manufacturer": "Maker", "model": "M-1", "serial": "S", "vendor_name": "N/A"},
        "TRANSCEIVER_DOM_SENSOR|Ethernet0": {"temperature": "41.5", "rx2power": "-1.25dBm", "tx1power": "N/A", "vendor_rev": "A1"},
    }
    found = _parse(tmp_path, dump)
    assert [(r["netdev"], r["up"], r["lanes"], r["cable"]) for r in rows(found, "interfaces") if r["origin"] == "table"] == [
        ("Ethernet0", False, 2, None),
        ("Ethernet0", None, None, "QSFP-DD Maker M-1"),
    ]
    (cable,) = rows(found, "cables")
    keys = ("a_port", "a_kind", "b_node", "b_kind", "b_uid", "b_port", "b_port_uid", "origin")
    assert [cable[k] for k in keys] == ["Ethernet0", "switch", "host-a", "host", "b8cef6000001", "ens1f0np0", "b8cef6000002", "lldp"]
    assert [(r["counter"], r["queue"], r["direction"], r["value"]) for r in rows(found)] == [
        ("vendor.flap_count", None, None, 3.0),
        ("module_temperature", None, None, 41.5),
        ("rx_power", "lane 2", "rx", -1.25),
        ("tx_power", "lane 1", "tx", None),
    ]


def test_several_dumps_after_prompts_are_one_source(tmp_path: Path) -> None:
    text = (
        f"admin@leaf9:~$ sonic-db-dump -n COUNTERS_DB -y\n{json.dumps(database(), indent=2)}\nadmin@leaf9:~$ cat config_db.json\n"
        f"{json.dumps({'PORT': {'Ethernet0': {'speed': '1000', 'alias': 'e1'}}})}\n"
    )
    found = parse(PARSER, tmp_path / "dump.txt", text)
    assert PARSER.sniff(tmp_path / "x", text.encode()) is not None
    assert {r["node"] for r in rows(found)} == {"leaf9"}
    assert [r["netdev"] for r in rows(found, "interfaces")] == ["Ethernet0"]
    assert found.counts() == {}


def test_objects_without_a_name_keep_their_id(tmp_path: Path) -> None:
    found = _parse(tmp_path, {"COUNTERS:oid:0x1": {"SAI_PORT_STAT_IF_IN_OCTETS": "5", "SAI_PORT_STAT_IF_OUT_OCTETS": "6"}})
    assert [(r["device"], r["device_kind"], r["counter"], r["direction"]) for r in rows(found)] == [
        ("oid:0x1", "switch-port", "bytes", "rx"),
        ("oid:0x1", "switch-port", "bytes", "tx"),
    ]
    assert found.counts() == {"unnamed-object": 1}


def test_routed_interfaces_do_not_count_as_the_port_of_their_name(tmp_path: Path) -> None:
    rif = {
        "COUNTERS_RIF_NAME_MAP": {"Ethernet0": "oid:0x6"},
        "COUNTERS:oid:0x6": {"SAI_ROUTER_INTERFACE_STAT_IN_OCTETS": "5"},
        "RATES:oid:0x6": {"RX_BPS": "1"},
    }
    found = _parse(tmp_path, {**database(), **rif})
    assert [(r["counter"], r["device_kind"]) for r in rows(found)[-2:]] == [("vendor.SAI_ROUTER_INTERFACE_STAT_IN_OCTETS", "other"), ("vendor.RX_BPS", "other")]


def test_what_is_no_number_is_counted_and_what_is_out_of_range_is_told(tmp_path: Path) -> None:
    fields = {"SAI_PORT_STAT_IF_IN_OCTETS": "0x10", "SAI_PORT_STAT_IF_IN_ERRORS": "-4", "SAI_PORT_STAT_IF_OUT_OCTETS": str(2**64), "SAI_PORT_STAT_A": "word"}
    found = _parse(tmp_path, {"COUNTERS_PORT_NAME_MAP": {"Ethernet0": "oid:0x1"}, "COUNTERS:oid:0x1": fields})
    assert [(r["raw"], r["value"]) for r in rows(found)] == [(16, 16.0), (None, -4.0), (None, 2.0**64)]
    assert found.counts() == {"counter-out-of-range": 1}
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("numbers", 3, True), ("texts", 1, False)]


def test_a_cut_dump_keeps_its_whole_keys(tmp_path: Path) -> None:
    text = json.dumps(database(), indent=1)
    cut = text[: text.index("SAI_QUEUE_STAT_PACKETS")]
    found = parse(PARSER, tmp_path / "dump.json", cut)
    assert len(rows(found)) == 11
    assert found.info.truncated
    assert found.counts() == {"truncated": 1, "unnamed-object": 2}


@pytest.mark.parametrize(
    ("text", "claimed"),
    [
        ('{"COUNTERS:oid:0x1000000000002": {"SAI_PORT_STAT_IF_IN_OCTETS": "1"}}', True),
        ('{\n "CRM:STATS": {"crm_stats_used": "1"}}', True),
        ('{"PORT": {"Ethernet0": {"alias": "etp1"}}}', True),
        ('{"PORT": {"description": "a port of a ship"}}', False),
        ('{"text": "COUNTERS:oid:0x1 is a key"}', False),
        ("COUNTERS:oid:0x1000000000002", False),
        ('{"interfaces": {"Ethernet0": {"inOctets": 1}}}', False),
    ],
)
def test_only_keys_of_these_databases_are_claimed(text: str, claimed: bool, tmp_path: Path) -> None:
    match = PARSER.sniff(tmp_path / "a.json", text.encode())
    assert (match is not None) == claimed


def test_the_sample_is_what_the_builder_writes(tmp_path: Path, root: Path) -> None:
    write_samples(tmp_path)
    for path in sorted(tmp_path.rglob("*.*")):
        assert (root / "sample_traces/formats" / path.relative_to(tmp_path)).read_bytes() == path.read_bytes()


def test_real_dumps_of_the_switchs_own_tests(test_data: Callable[[str], Path]) -> None:
    folder = test_data("counters/sonic_counters_db")
    for path in sorted(folder.glob("*.json")):
        match = PARSER.sniff(path, path.read_bytes()[:65536])
        assert match is not None, path.name
        assert match.confidence == 1
    found = read(PARSER, folder / "mock_tables_counters_db.json")
    assert _shown(one(found, device="Ethernet0", raw_name="SAI_PORT_STAT_PFC_0_RX_PKTS"))[2:7] == (0, None, "rx", "pfc_pause_frames", 1200)
    assert one(found, device="Ethernet4", raw_name="SAI_PORT_STAT_IF_IN_DISCARDS")["raw"] == 1000
    assert one(found, device="Ethernet0", raw_name="EST_PORT_STAT_PFC_1_RX_PAUSE_DURATION_US")["raw"] == 20_000_001
    assert one(found, queue="UC1", device="Ethernet0", raw_name="SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS")["raw"] == 39
    assert one(found, queue="VOQ1", device="testsw|Ethernet0", raw_name="SAI_QUEUE_STAT_CREDIT_WD_DELETED_PACKETS")["raw"] == 1
    assert one(found, queue="PG3", device="Ethernet8", raw_name="SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS")["raw"] == 103
    assert one(found, device="Ethernet0", raw_name="RX_BPS")["value"] == 2e9


def test_real_dumps_are_read_without_loss(test_data: Callable[[str], Path]) -> None:
    """Every field of every counted key is a row or a counted text; the file is decoded by another reader."""
    counted = ("COUNTERS:", "RATES:", "USER_WATERMARKS:", "PERSISTENT_WATERMARKS:", "CRM:", "PORT_PHY_ATTR:")
    for path in sorted(test_data("counters/sonic_counters_db").glob("*.json")):
        keys = json.loads(path.read_text())
        fields = [f.get("value", f) for key, f in keys.items() if key.startswith(counted)]
        found = read(PARSER, path)
        counts = {c.kind: c.count for c in found.info.event_counts}
        assert counts.get("numbers", 0) + counts.get("texts", 0) == sum(map(len, fields)), path.name
        assert len(rows(found)) == counts.get("numbers", 0)
        assert not set(found.counts()) - {"unnamed-object", "no-counters"}
    found = read(PARSER, test_data("counters/sonic_counters_db") / "crm_dash_counters_db_redisdump.json")
    assert {r["source_ts_ns"] for r in rows(found)} == {1_680_172_664_591_134_000, 1_680_172_664_591_201_300, 1_680_172_664_591_169_600}
