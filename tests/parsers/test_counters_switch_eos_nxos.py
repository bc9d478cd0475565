"""JSON outputs of EOS and NX-OS: names, units, moments, single rows without their list, sessions of several outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tests.builders.lldp import interface
from tests.builders.switches import eos_interfaces, eos_queues, nxos_interfaces, one, parse, rows, write_samples
from tracelab_parsers.counters.eos import PARSER as EOS
from tracelab_parsers.counters.nxos import PARSER as NXOS


def _eos(folder: Path, value: object) -> Read:
    return parse(EOS, folder / "out.json", value if isinstance(value, str) else json.dumps(value))


def _nxos(folder: Path, value: object) -> Read:
    return parse(NXOS, folder / "out.json", json.dumps(value))


def _short(found: Read, device: str) -> list[tuple[Any, ...]]:
    return [(r["counter"], r["direction"], r["raw"], r["value"], r["unit"]) for r in rows(found) if r["device"] == device]


def test_eos_counters_carry_the_moment_of_their_refresh(tmp_path: Path) -> None:
    found = _eos(tmp_path, eos_interfaces())
    assert _short(found, "Ethernet5/1") == [
        ("link_up", None, None, 1.0, "one"),
        ("link_speed", None, 400_000_000_000, 4e11, "bit/s"),
        ("vendor.lastStatusChangeTimestamp", None, None, 1759990000.5, None),
        ("bytes", "rx", 2**64 - 1, 2.0**64, "byte"),
        ("bytes", "tx", 4096, 4096.0, "byte"),
        ("vendor.inUcastPkts", "rx", 77, 77.0, "packet"),
        ("discards", "rx", 5, 5.0, "packet"),
        ("errors", "rx", 2, 2.0, "packet"),
        ("link_transitions", None, 4, 4.0, "event"),
        ("crc_errors", "rx", 1, 1.0, "packet"),
        ("symbol_errors", "rx", 6, 6.0, "event"),
        ("global_pause_frames", "rx", 12, 12.0, "packet"),
        ("vendor.giantFrames", "rx", 0, 0.0, "packet"),
        ("global_pause_frames", "tx", 3, 3.0, "packet"),
        ("vendor.collisions", "tx", 0, 0.0, "event"),
        ("bits_per_s", "rx", 2_500_000_000, 2.5e9, "bit/s"),
        ("bits_per_s", "tx", 8, 8.0, "bit/s"),
        ("packets_per_s", "rx", 100, 100.0, "packet/s"),
    ]
    assert {(r["source_ts_ns"], r["time_quality"]) for r in rows(found) if r["device"] == "Ethernet5/1"} == {(1_760_000_000_123_456_000, "device")}
    assert {(r["device_kind"], r["source_ts_ns"], r["time_quality"]) for r in rows(found) if r["device"] == "Port-Channel7"} == {("other", None, None)}
    keys = ("netdev", "alias", "uid", "speed_bps", "mtu", "up", "bond")
    assert [tuple(r[k] for k in keys) for r in rows(found, "interfaces")] == [
        ("Ethernet5/1", "to host-a", "444ca8000005", 400_000_000_000, 9214, True, "Port-Channel7"),
        ("Port-Channel7", None, None, None, None, False, None),
    ]
    assert found.counts() == {}


def test_eos_queues_pauses_errors_and_optics(tmp_path: Path) -> None:
    queues = _eos(tmp_path, eos_queues())
    assert [(r["queue"], r["counter"], r["raw"]) for r in rows(queues)] == [
        ("TC3 DP0", "queue_packets", 10),
        ("TC3 DP0", "queue_bytes", 10_240),
        ("TC3 DP0", "queue_drop_packets", 3),
        ("TC3 DP0", "vendor.droppedOctets", 3072),
    ]
    pauses = {"Ethernet1": {"rxFrames": 7, "txFrames": 8}, "Ethernet2": {"priorities": {"3": {"rxFrames": 9}}}}
    found = _eos(tmp_path, {"interfaceCounters": pauses})
    assert [(r["device"], r["priority"], r["direction"], r["counter"], r["raw"]) for r in rows(found)] == [
        ("Ethernet1", None, "rx", "pfc_pause_frames", 7),
        ("Ethernet1", None, "tx", "pfc_pause_frames", 8),
        ("Ethernet2", 3, "rx", "pfc_pause_frames", 9),
    ]
    errors = _eos(tmp_path, {"interfaceErrorCounters": {"Ethernet1": {"inErrors": 1, "frameTooLongs": 2, "fcsErrors": 3, "symbolErrors": 4}}})
    assert [(r["counter"], r["raw"]) for r in rows(errors)] == [("errors", 1), ("vendor.frameTooLongs", 2), ("crc_errors", 3), ("symbol_errors", 4)]
    optics = _eos(tmp_path, {"interfaces": {"Ethernet1": {"rxPower": -1.5, "temperature": 40.25, "mediaType": "400GBASE-SR8"}}})
    assert [(r["counter"], r["value"], r["unit"]) for r in rows(optics)] == [("rx_power", -1.5, "dBm"), ("module_temperature", 40.25, "celsius")]


def test_eos_sessions_and_answers_of_its_interface_for_programs(tmp_path: Path) -> None:
    plain = {"interfaces": {"Ethernet1": {"inOctets": 5, "outDiscards": 1}}}
    text = (
        f"spine3#show clock\nTue Oct  7 08:53:20 2025\nTimezone: UTC\nspine3#show interfaces counters | json\n{json.dumps(plain, indent=2)}\n"
        f"{json.dumps({'lldpNeighbors': [{'port': 'Ethernet1', 'neighborDevice': 'leaf1', 'neighborPort': 'Ethernet9'}]})}\nspine3#\n"
    )
    found = _eos(tmp_path, text)
    assert EOS.sniff(tmp_path / "x", text.encode()) is not None
    assert {(r["node"], r["source_ts_ns"], r["time_quality"]) for r in rows(found)} == {("spine3", 1_759_827_200_000_000_000, "file")}
    assert [(r["a_node"], r["a_port"], r["b_node"], r["b_port"]) for r in rows(found, "cables")] == [("spine3", "Ethernet1", "leaf1", "Ethernet9")]
    answer = {"jsonrpc": "2.0", "id": "1", "result": [{"hostname": "spine4", "fqdn": "spine4.x"}, plain, {"version": "4.30"}]}
    found = _eos(tmp_path, answer)
    assert [(r["node"], r["counter"], r["raw"]) for r in rows(found)] == [("spine4", "bytes", 5), ("spine4", "discards", 1)]
    assert found.counts() == {"unknown-output": 1}


def test_nxos_rows_of_texts(tmp_path: Path) -> None:
    found = _nxos(tmp_path, nxos_interfaces())
    assert _short(found, "Ethernet1/2/1") == [
        ("link_up", None, None, 1.0, "one"),
        ("link_speed", None, 100_000_000, 1e11, "bit/s"),
        ("bits_per_s", "rx", 1000, 1000.0, "bit/s"),
        ("bytes", "rx", 2**64 - 1, 2.0**64, "byte"),
        ("bytes", "tx", 1, 1.0, "byte"),
        ("packets", "rx", 9, 9.0, "packet"),
        ("crc_errors", "rx", 2, 2.0, "packet"),
        ("discards", "rx", None, None, "packet"),
        ("global_pause_frames", "tx", 6, 6.0, "packet"),
        ("vendor.eth_inucast", "rx", 8, 8.0, "packet"),
        ("vendor.eth_new_in_drops", "rx", 4, 4.0, "packet"),
    ]
    assert one(found, device="Ethernet1/2/1", counter="bytes", direction="rx")["flags"] == "since-clear"
    assert one(found, device="mgmt0", counter="bytes")["flags"] is None
    keys = ("netdev", "alias", "uid", "speed_bps", "mtu", "up")
    assert [tuple(r[k] for k in keys) for r in rows(found, "interfaces")] == [
        ("Ethernet1/2/1", "to host-b", "18e728000002", 100_000_000_000, 9216, True),
        ("mgmt0", None, None, None, None, False),
    ]
    assert found.counts() == {}


def test_a_single_row_of_nxos_has_no_list(tmp_path: Path) -> None:
    single, many = _nxos(tmp_path, nxos_interfaces(single=True)), _nxos(tmp_path, nxos_interfaces())
    assert rows(single) == [r for r in rows(many) if r["device"] != "mgmt0"]


def test_nxos_counters_of_other_commands_and_nested_tables(tmp_path: Path) -> None:
    value = {
        "TABLE_rx_counters": {"ROW_rx_counters": [{"interface_rx": "Ethernet1/1", "eth_inbytes": "5"}]},
        "TABLE_tx_counters": {"ROW_tx_counters": {"interface_tx": "Ethernet1/1", "eth_outbytes": "6"}},
        "TABLE_interface": {
            "ROW_interface": {"interface": "Ethernet1/1", "TABLE_qos": {"ROW_qos": {"qosgrp": "3", "rx_ppp": "7", "que_drop_pkts": "8", "que_name": "q3"}}}
        },
    }
    found = _nxos(tmp_path, {"ins_api": {"outputs": {"output": {"body": value, "code": "200"}}}})
    assert [(r["device"], r["queue"], r["counter"], r["raw"]) for r in rows(found)] == [
        ("Ethernet1/1", None, "bytes", 5),
        ("Ethernet1/1", None, "bytes", 6),
        ("Ethernet1/1", "3", "pfc_pause_frames", 7),
        ("Ethernet1/1", "3", "vendor.que_drop_pkts", 8),
    ]


def _counts(name: str) -> bool:
    return re.fullmatch(r"eth_(?:in|out)(?:ucast|mcast|bcast|pkts|bytes|err|discard|pause)|eth_crc|vdc_lvl_\w+", name) is not None


@pytest.mark.parametrize(
    "text",
    [
        '{"interfaces": {"eth0": {"inOctets": 1}}}',
        '{"interfaces": {"Ethernet1": {"interfaceAddress": []}}}',
        '{"TABLE_interface": {"ROW_interface": []}}',
        '{"TABLE_vlan": {"ROW_vlan": {"interface": "Vlan1", "state": "up"}}}',
        json.dumps({"lldp": {"interface": {"eth0": interface({}, {})}}}),
        '{"mgmt0": {"tx_errors": 0, "rx_octets": 5}}',
    ],
)
def test_what_looks_alike_is_not_claimed(text: str, tmp_path: Path) -> None:
    assert EOS.sniff(tmp_path / "a", text.encode()) is None
    assert NXOS.sniff(tmp_path / "a", text.encode()) is None


def test_the_samples_are_what_the_builder_writes(tmp_path: Path, root: Path) -> None:
    write_samples(tmp_path)
    for path in sorted(tmp_path.rglob("*.json")):
        assert (root / "sample_traces/formats" / path.relative_to(tmp_path)).read_bytes() == path.read_bytes()


def test_a_real_output_of_eos(test_data: Callable[[str], Path]) -> None:
    path = test_data("counters/arista_eos_json") / "show_interfaces.json"
    found = read(EOS, path)
    assert found.counts() == {}
    values = json.loads(path.read_text())["interfaces"]
    assert one(found, device="Port-Channel1", counter="bytes", direction="rx")["source_ts_ns"] == 1_478_085_363_701_278_000
    assert one(found, device="Ethernet1", raw_name="linkStatusChanges")["raw"] == 2
    assert one(found, device="Ethernet1", raw_name="interfaceStatus")["value"] == 0
    assert not [r for r in rows(found) if r["counter"] == "link_speed"]  # its links are down
    counters = values["Ethernet1"]["interfaceCounters"]
    leaves = sum(len(v) if isinstance(v, dict) else 1 for v in counters.values()) - 1  # all but the moment
    assert leaves == len([r for r in rows(found) if r["device"] == "Ethernet1" and r["kind"] == "counter"])
    ports = [(r["netdev"], r["uid"], r["speed_bps"], r["mtu"], r["bond"], r["address"]) for r in rows(found, "interfaces")]
    assert ports == [
        ("Ethernet1", "444ca8cd337e", 10_000_000_000, 9214, "Port-Channel1", None),
        ("Port-Channel1", "444ca8cd337d", None, 1500, None, None),
        ("Port-Channel1.20", "444ca8cd337d", None, 1500, None, "1.1.1.1"),
    ]


def test_a_real_output_of_nxos(test_data: Callable[[str], Path]) -> None:
    path = test_data("counters/nxos_json") / "nxos_ssh_test_get_interfaces_counters_Nexus3548_show_interface___json.txt"
    found = read(NXOS, path)
    assert found.counts() == {}
    printed = path.read_text()
    given = {(r["device"], r["raw_name"]): r["raw"] for r in rows(found)}
    expected = {(row["interface"], name): int(row[name]) for row in json.loads(printed)["TABLE_interface"]["ROW_interface"] for name in row if _counts(name)}
    assert {key: given[key] for key in expected} == expected
    assert len(expected) > 800
    assert one(found, device="mgmt0", raw_name="vdc_lvl_in_bytes")["raw"] == 3_592_332_845
    assert one(found, device="Ethernet1/2", raw_name="eth_bw")["value"] == 1e10
    assert one(found, device="Ethernet1/2", counter="bytes", direction="tx")["raw"] == 5_399_603_280
    numeric = re.findall(r'"(eth_(?:in|out)\w+|eth_jumbo\w+|vdc_lvl_\w+)": "(\d+)"', printed)
    assert sum(1 for r in rows(found) if re.fullmatch(r"eth_(?:in|out)\w+|eth_jumbo\w+|vdc_lvl_\w+", r["raw_name"])) == len(numeric)
    assert [c.stored for c in found.info.event_counts] == [True, True, False]
