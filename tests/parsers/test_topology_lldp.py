"""Neighbours of LLDP: three shapes of JSON, two of text, three switch systems; a cable each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tests.builders.lldp import KEYVALUE, PLAIN, interface, json0, write_samples
from tests.builders.sonic import table
from tests.builders.switches import parse, rows
from tracelab_parsers.topology.lldp import PARSER

CABLE = ("a_node", "a_port", "b_node", "b_kind", "b_uid", "b_port", "b_port_uid")
LEAF: dict[str, Any] = {"id": {"type": "mac", "value": "0C:42:A1:00:00:07"}, "capability": [{"type": "Bridge", "enabled": True}]}
PORT = {"id": {"type": "ifname", "value": "Ethernet0"}, "descr": "etp1"}
EXPECTED = (None, "ens1f0np0", "leaf7", "switch", "0c42a1000007", "Ethernet0", None)


def _parse(folder: Path, value: object) -> Read:
    text = value if isinstance(value, str) else json.dumps(value)
    assert PARSER.sniff(folder / "x", text.encode()) is not None
    return parse(PARSER, folder / "out.json", text)


def _cables(found: Read) -> list[tuple[Any, ...]]:
    return [tuple(r[k] for k in CABLE) for r in rows(found, "cables")]


NAMED = interface({"leaf7": LEAF}, PORT)
SHAPES: dict[str, dict[str, Any]] = {
    "one interface": {"lldp": {"interface": {"ens1f0np0": NAMED}}},
    "list of interfaces": {"lldp": {"interface": [{"ens1f0np0": NAMED}]}},
    "name in the chassis": {"lldp": {"interface": [{"ens1f0np0": interface({"name": "leaf7", **LEAF}, PORT)}]}},
    "list of neighbours": {"lldp": {"interface": [{"ens1f0np0": [NAMED]}]}},
    "interface with its name": {"lldp": {"interface": [{"name": "ens1f0np0", **NAMED}]}},
    "one capability": {"lldp": {"interface": {"ens1f0np0": interface({"leaf7": {**LEAF, "capability": LEAF["capability"][0]}}, PORT)}}},
    "json0": json0(),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_all_shapes_of_lldpctl_say_the_same(shape: str, tmp_path: Path) -> None:
    found = _parse(tmp_path, SHAPES[shape])
    assert _cables(found) == [EXPECTED]
    assert [(r["node"], r["node_kind"], r["node_uid"], r["netdev"], r["alias"], r["origin"]) for r in rows(found, "interfaces")] == [
        (None, None, None, "ens1f0np0", None, "lldp"),
        ("leaf7", "switch", "0c42a1000007", "Ethernet0", "etp1", "lldp"),
    ]
    assert found.counts() == {}
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("cables", 1, True), ("interfaces", 2, True)]
    assert found.info.parts == []


def test_outputs_under_host_names_state_the_machine(tmp_path: Path) -> None:
    found = _parse(tmp_path, {"host-a": SHAPES["one interface"], "host-b": SHAPES["list of interfaces"]})
    assert _cables(found) == [("host-a", *EXPECTED[1:]), ("host-b", *EXPECTED[1:])]
    assert _cables(_parse(tmp_path, [{"host": "host-c", **SHAPES["one interface"]}])) == [("host-c", *EXPECTED[1:])]
    session = f"ops@host-d:~$ lldpctl -f json\n{json.dumps(SHAPES['one interface'])}\n[ops@host-e ~]$ sudo lldpctl -f json\n{json.dumps(SHAPES['json0'])}"
    assert _cables(_parse(tmp_path, session)) == [("host-d", *EXPECTED[1:]), ("host-e", *EXPECTED[1:])]


def test_a_nameless_machine_and_a_port_that_is_only_a_mac(tmp_path: Path) -> None:
    chassis = {"id": {"type": "mac", "value": "aabb.ccdd.ee02"}}
    ports = [
        {"e1": interface(chassis, {"id": {"type": "local", "value": "42"}})},
        {"e2": interface(chassis, {"id": {"type": "mac", "value": "b8-ce-f6-00-00-01"}})},
    ]
    found = _parse(tmp_path, {"lldp": {"interface": ports}})
    assert _cables(found) == [
        (None, "e1", None, None, "aabbccddee02", "42", None),
        (None, "e2", None, None, "aabbccddee02", None, "b8cef6000001"),
    ]


def test_keyvalue_and_plain_text(tmp_path: Path) -> None:
    found = _parse(tmp_path, KEYVALUE)
    assert _cables(found) == [
        (None, "ens1f0np0", "leaf7", "switch", "0c42a1000007", "etp1", None),
        (None, "ens1f0np0", "leaf8", "switch", None, "swp5", None),
        (None, "bond0.100", "host-b", "host", None, None, "b8cef6000001"),
    ]
    assert [r["line"] for r in rows(found, "cables")] == [1, 8, 12]
    assert _cables(_parse(tmp_path, PLAIN)) == [EXPECTED]


def test_tables_of_sonic_and_eos(tmp_path: Path) -> None:
    columns = ("LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr")
    sonic = table(columns, (("Ethernet0", "host-a", "b8:ce:f6:00:00:01", "S", "ens1"), ("Ethernet4", "spine1", "Ethernet1/1", "BR", "")), left=True)
    found = _parse(
        tmp_path, f"admin@leaf7:~$ show lldp table\nCapability codes: (R) Router, (B) Bridge, (O) Other\n{sonic}{'-' * 50}\nTotal entries displayed:  2\n"
    )
    assert _cables(found) == [
        ("leaf7", "Ethernet0", "host-a", "host", None, "ens1", "b8cef6000001"),
        ("leaf7", "Ethernet4", "spine1", "switch", None, "Ethernet1/1", None),
    ]
    assert found.counts() == {}
    eos = table(("Port", "Neighbor Device ID", "Neighbor Port ID", "TTL"), (("Et1", "leaf7", "Ethernet5/1", "120"),), left=True)
    found = _parse(tmp_path, f"spine3>show lldp neighbors\nNumber of table drops           : 0\n\n{eos}")
    assert _cables(found) == [("spine3", "Et1", "leaf7", "switch", None, "Ethernet5/1", None)]
    assert [(r["node"], r["netdev"], r["alias"]) for r in rows(found, "interfaces")] == [("spine3", "Ethernet1", "Et1"), ("leaf7", "Ethernet5/1", None)]


def test_json_of_eos_and_nxos(tmp_path: Path) -> None:
    info = {"chassisId": "2c60.0c00.0001", "systemName": "host-a", "neighborInterfaceInfo": {"interfaceId": '"Ethernet3"', "interfaceDescription": "x"}}
    found = _parse(tmp_path, {"lldpNeighbors": {"Ethernet8": {"lldpNeighborInfo": [info]}, "Ethernet9": {"lldpNeighborInfo": []}}})
    assert _cables(found) == [(None, "Ethernet8", "host-a", "switch", "2c600c000001", "Ethernet3", None)]
    assert [r["netdev"] for r in rows(found, "interfaces")] == ["Ethernet8", "Ethernet3", "Ethernet9"]
    row = {"chassis_type": "7", "chassis_id": "leaf7", "l_port_id": "Eth1/1", "ttl": "120", "capability": "BR", "port_id": "Ethernet1/3"}
    found = _parse(tmp_path, {"TABLE_nbor": {"ROW_nbor": row}})
    assert _cables(found) == [(None, "Eth1/1", "leaf7", "switch", None, "Ethernet1/3", None)]
    detail = {"chassis_id": "5087.8900.0001", "l_port_id": "Eth1/1", "sys_name": "leaf7", "port_id": "Eth1/3", "port_desc": "to spine"}
    found = _parse(tmp_path, {"TABLE_nbor_detail": {"ROW_nbor_detail": [detail]}})
    assert _cables(found) == [(None, "Eth1/1", "leaf7", "switch", "508789000001", "Eth1/3", None)]


def test_no_neighbours_and_broken_files_are_told(tmp_path: Path) -> None:
    assert _parse(tmp_path, {"lldp": {}}).counts() == {"no-neighbours": 1}
    text = json.dumps(SHAPES["one interface"])
    cut = _parse(tmp_path, text[:-5])
    assert cut.info.truncated
    assert cut.counts() == {"truncated": 1, "no-neighbours": 1}
    broken = _parse(tmp_path, text.replace('"LLDP"', "LLDP"))
    assert broken.counts() == {"bad-json": 1, "no-neighbours": 1}


@pytest.mark.parametrize(
    "text",
    [
        '{"lldp": "is a protocol"}',
        "lldp.conf is a file\n",
        "The Interface: eth0, via: LLDP\n",
        '{"interfaces": {"Ethernet1": {"interfaceCounters": {}}}, "lldpNeighbors": []}',
        "Value LOCAL_INTERFACE (.*)\n\nStart\n  ^Chassis id:\\s+${REMOTE_CHASSIS_ID}\n",
    ],
)
def test_what_looks_alike_is_not_claimed(text: str, tmp_path: Path) -> None:
    assert PARSER.sniff(tmp_path / "a", text.encode()) is None


def test_the_sample_is_what_the_builder_writes(tmp_path: Path, root: Path) -> None:
    write_samples(tmp_path)
    assert (root / "sample_traces/formats/lldp/host-a.json").read_bytes() == (tmp_path / "lldp/host-a.json").read_bytes()


def test_real_keyvalue_files(test_data: Callable[[str], Path]) -> None:
    folder = test_data("topology/lldpctl_keyvalue")
    cables = {path.name: _cables(read(PARSER, path)) for path in sorted(folder.glob("*.txt")) if PARSER.sniff(path, path.read_bytes()) is not None}
    assert cables == {
        "223.txt": [],  # it names VLANs alone
        "cumulus.txt": [
            (None, "eno1", "toto-chassis.dc42", "switch", "e4f004b64732", "swp46", None),
            (None, "eno2d1", None, "switch", "e4f004b64e32", "swp46", None),  # its name stands under the other interface
        ],
        "dedibox1.txt": [(None, "enp1s0f0", "s120-f3-2.itx4", None, "0007cb0b6cd7", "RJ-9", None)],
        "qfx.txt": [
            (None, "eth0", "sw-filer-f06.dc42", "switch", "40a6777a7200", "xe-0/0/1", None),
            (None, "eth1", "sw-filer-f05.dc42", "switch", "40a6777cfb20", "xe-0/0/1", None),
        ],
    }
    assert read(PARSER, folder / "223.txt").counts() == {"no-neighbours": 1}
    assert read(PARSER, folder / "cumulus.txt").counts() == {"unread-lines": 1}
    assert [r["netdev"] for r in rows(read(PARSER, folder / "223.txt"), "interfaces")] == ["eth0", "eth1"]


def test_real_outputs_of_switches(test_data: Callable[[str], Path]) -> None:
    eos = test_data("counters/arista_eos_json")
    detail = json.loads((eos / "show_lldp_neighbors__detail.json").read_text())["lldpNeighbors"]
    found = read(PARSER, eos / "show_lldp_neighbors__detail.json")
    assert len(_cables(found)) == sum(len(v["lldpNeighborInfo"]) for v in detail.values())
    assert {r["netdev"] for r in rows(found, "interfaces") if r["node_kind"] == "switch" and r["node"] is None} >= detail.keys()
    assert (None, "Ethernet8", "78m3", None, "2c600cad30de", "eth3", "000f532eced1") in _cables(found)
    short = read(PARSER, eos / "show_lldp_neighbors.json")
    assert _cables(short)[0] == (None, "Ethernet1", "precise64", None, None, None, "0800274f332d")
    nxos = test_data("counters/nxos_json")
    text = read(PARSER, nxos / "nxos_test_get_lldp_neighbors_normal_show_lldp_neighbors.json")
    assert _cables(text)[1] == (None, "Eth1/1", "n9k2.ntc.com", "switch", None, "Ethernet1/1", None)
    full = read(PARSER, nxos / "nxos_test_get_lldp_neighbors_detail_normal_show_lldp_neighbors_detail.json")
    expected = json.loads((nxos / "nxos_test_get_lldp_neighbors_detail_normal_expected_result.json").read_text())
    theirs = sorted((n["remote_system_name"], n["remote_chassis_id"].replace(".", ""), n["remote_port"]) for v in expected.values() for n in v)
    assert sorted((c[2], c[4], c[5]) for c in _cables(full)) == theirs
    assert text.counts() == full.counts() == short.counts() == found.counts() == {}
    sonic = read(PARSER, test_data("counters/sonic_cli_text") / "lldp_test__expected_2MACs_Ethernet0_output.txt")
    assert _cables(sonic) == [
        (None, "Ethernet0", "dummy", "switch", None, "First MAC", "000000000001"),
        (None, "Ethernet0", "dummy", None, None, "Second MAC", "000000000002"),
    ]
    for path in [*nxos.glob("*expected_result.json"), *nxos.glob("*.tpl")]:  # what other programs made of these outputs, and a template
        assert PARSER.sniff(path, path.read_bytes()) is None


def test_synthetic_shapes(test_data: Callable[[str], Path]) -> None:
    folder = test_data("counters/synthetic")
    assert _cables(read(PARSER, folder / "lldpctl_one_iface.json")) == [(None, "eth0", "leaf01", "switch", "aabbccddee01", "swp1", None)]
    assert _cables(read(PARSER, folder / "lldpctl_many_ifaces.json")) == [
        (None, "ens1f0np0", "leaf01", "switch", "aabbccddee01", "Ethernet12", None),
        (None, "ens1f1np1", None, None, "aabbccddee02", "42", None),
    ]
