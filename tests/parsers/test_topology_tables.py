"""Wiring tables: headings of many spellings, real tables, values, and what is no such table."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read
from tests.builders.switches import parse, rows
from tests.builders.wiring import host_table, write_samples
from tracelab_parsers.topology.wiring import PARSER

CABLE = ("a_node", "a_kind", "a_device", "a_port", "b_node", "b_kind", "b_port")


def _read(folder: Path, text: str | bytes) -> Read:
    return parse(PARSER, folder / "file", text)


def _cables(found: Read) -> list[tuple[Any, ...]]:
    return [tuple(r[c] for c in CABLE) for r in rows(found, "cables")]


def _claimed(text: str) -> bool:
    match = PARSER.sniff(Path("any"), text.encode())
    return match is not None and match.confidence >= 0.5


@pytest.mark.parametrize(
    "text",
    [
        "host,nic,netdev,switch,port\nnode1,mlx5_0,ens1f0np0,leaf1,Ethernet0\n",
        "hostname\thca\tinterface\tleaf\tswitch_port\nnode1\tmlx5_0\tens1f0np0\tleaf1\tEthernet0\n",
        "Server;Adapter;Iface;TOR;Port Name\nnode1;mlx5_0;ens1f0np0;leaf1;Ethernet0\n",
        'Switch Name,Switch Port,Node,NIC,NetDev\n"leaf1","Ethernet0","node1","mlx5_0","ens1f0np0"\n',
        "serverName,rdmaDevice,ifname,switchName,portId\r\nnode1,mlx5_0,ens1f0np0,leaf1,Ethernet0\r\n",
        "# wiring of pod 3\n\n#host,nic,netdev,switch,port\nnode1, mlx5_0, ens1f0np0, leaf1, Ethernet0\n# end\n",
        "| host | nic | netdev | switch | port |\n|---|---|---|---|---|\n| node1 | mlx5_0 | ens1f0np0 | leaf1 | Ethernet0 |\n",
        "\ufeffnode,device,nic_name,leaf_name,leaf_port\nnode1,mlx5_0,ens1f0np0,leaf1,Ethernet0\n",
    ],
)
def test_spellings_of_one_table(tmp_path: Path, text: str) -> None:
    found = _read(tmp_path, text)
    assert _cables(found) == [("node1", "host", "mlx5_0", "ens1f0np0", "leaf1", "switch", "Ethernet0")]
    assert [(r["node"], r["node_kind"], r["device"], r["netdev"], r["origin"]) for r in rows(found, "interfaces")] == [
        ("node1", "host", "mlx5_0", "ens1f0np0", "table")
    ]
    assert found.counts() == {}
    assert _claimed(text)


@pytest.mark.parametrize(
    ("text", "kinds", "tiers"),
    [
        ("switch_a,port_a,switch_b,port_b\nleaf1,Ethernet64,spine2,Ethernet8\n", ("switch", "switch"), (None, None)),
        ("local,local_port,remote,remote_port\nleaf1,Ethernet64,spine2,Ethernet8\n", (None, None), (None, None)),
        ("source device,source interface,destination device,destination interface\nleaf1,Ethernet64,spine2,Ethernet8\n", (None, None), (None, None)),
        ("leaf,leaf_port,spine,spine_port\nleaf1,Ethernet64,spine2,Ethernet8\n", ("switch", "switch"), (1, 2)),
        ("spine;spinePort;leaf;leafPort\nspine2;Ethernet8;leaf1;Ethernet64\n", ("switch", "switch"), (1, 2)),
        ("node1,port1,node2,port2\nleaf1,Ethernet64,spine2,Ethernet8\n", (None, None), (None, None)),
    ],
)
def test_links_between_switches(tmp_path: Path, text: str, kinds: tuple[str | None, str | None], tiers: tuple[int | None, int | None]) -> None:
    found = _read(tmp_path, text)
    assert _cables(found) == [("leaf1", kinds[0], None, "Ethernet64", "spine2", kinds[1], "Ethernet8")]
    assert [(r["a_tier"], r["b_tier"]) for r in rows(found, "cables")] == [tiers]
    assert rows(found, "interfaces") == []
    assert _claimed(text)


def test_the_table_of_a_real_cluster(tmp_path: Path, test_data: Callable[[str], Path]) -> None:
    file = test_data("jobs/llama2_7b_32xA100") / "topology_cluster_topology.csv"
    found = _read(tmp_path, file.read_bytes())
    of_host = [r for r in _cables(found) if r[0] == "NH-DC-NM129-B01-28U-GPU-31"]
    leaf = "NH-DC-NM129-B0{}-ROCE-Leaf-{}.GPU.S9825"
    assert {(r[3], r[4], r[6]) for r in of_host} == {
        (f"ens{nic}np0", leaf.format(rack, n), "TwoHundredGigE1/0/16:1") for nic, rack, n in ((11, 3, 1), (10, 4, 2), (19, 5, 3), (18, 6, 4))
    }
    with file.open(newline="") as f:
        table = list(csv.DictReader(f))
    assert [(r[0], r[3], r[4], r[6]) for r in _cables(found)] == [(t["sysname"], t["nicname"] or None, t["switchname"], t["portname"]) for t in table]
    addresses = {(r["node"], r["netdev"]): r["address"] for r in rows(found, "interfaces") if r["node_kind"] == "host"}
    assert addresses["NH-DC-NM129-B01-28U-GPU-31", "ens11np0"] == "10.107.222.31"
    switches = {r["node"]: r["address"] for r in rows(found, "interfaces") if r["node_kind"] == "switch"}
    assert switches[leaf.format(3, 1)] == "10.107.208.111"
    assert len(switches) == len({t["switchname"] for t in table if t["switchIP"]})
    speeds = [r["speed_bps"] // 10**9 for r in rows(found, "cables")]
    assert speeds == [200 if t["portname"].startswith("TwoHundredGigE") else 400 for t in table]
    assert (speeds.count(200), speeds.count(400)) == (1011, 1)
    assert found.counts() == {"no-adapter": 2, "speed-by-name": 1012}
    assert [(c.kind, c.count) for c in found.info.event_counts] == [("cables", 1012), ("interfaces", len(rows(found, "interfaces")))]


def test_the_adapters_of_a_real_cluster(tmp_path: Path, test_data: Callable[[str], Path]) -> None:
    found = _read(tmp_path, (test_data("jobs/llama2_7b_32xA100") / "topology_GPU_NIC_info.csv").read_bytes())
    assert len(rows(found, "interfaces")) == 1040
    assert [(r["device"], r["netdev"]) for r in rows(found, "interfaces") if r["node"] == "10.107.254.31"] == [
        ("mlx5_2", "ens10np0"),
        ("mlx5_3", "ens11np0"),
        ("mlx5_8", "ens18np0"),
        ("mlx5_9", "ens19np0"),
    ]
    assert rows(found, "cables") == []
    assert found.counts() == {}


@pytest.mark.parametrize(
    ("heading", "cell", "speed", "notices"),
    [
        ("speed", "400G", 400 * 10**9, {}),
        ("speed", "200 Gbps", 200 * 10**9, {}),
        ("speed", "400GbE", 400 * 10**9, {}),
        ("speed", "200000 Mb/s", 200 * 10**9, {}),
        ("link speed", "1.6T", 1600 * 10**9, {}),
        ("speed_gbps", "100", 100 * 10**9, {}),
        ("speed_mbps", "25,000", 25 * 10**9, {}),
        ("speed", "400", 400 * 10**9, {"bare-speed": 1}),
        ("speed", "400000", 400 * 10**9, {"bare-speed": 1}),
        ("speed", "400000000000", 400 * 10**9, {"bare-speed": 1}),
        ("speed", "N/A", None, {}),
        ("speed", "fast", None, {"bad-value": 1}),
        ("speed", "4X NDR", None, {"bad-value": 1}),
        ("colour", "red", None, {"unread-columns": 1}),
    ],
)
def test_speeds(tmp_path: Path, heading: str, cell: str, speed: int | None, notices: dict[str, int]) -> None:
    found = _read(tmp_path, f'host,nic,switch,port,{heading}\nnode1,mlx5_0,leaf1,Ethernet0,"{cell}"\n')
    assert [r["speed_bps"] for r in rows(found, "cables")] == [speed]
    assert [r["speed_bps"] for r in rows(found, "interfaces")] == [speed]
    assert found.counts() == notices


def test_other_columns_of_an_adapter(tmp_path: Path) -> None:
    text = "host,ip,nic,mac,pci,numa,mtu,switch,port,cable\nnode1,10.0.0.7,ens1f0,0C:42:A1:00:00:07,1A:00.0,1,9000,leaf1,Ethernet0,DAC 2m\n"
    (row,) = rows(_read(tmp_path, text), "interfaces")
    wanted = {"node": "node1", "address": "10.0.0.7", "device": None, "netdev": "ens1f0", "uid": "0c42a1000007", "pci": "0000:1a:00.0"}
    wanted2 = {"numa": 1, "mtu": 9000, "cable": "DAC 2m"}
    assert {k: row[k] for k in wanted} == wanted
    assert {k: row[k] for k in wanted2} == wanted2
    (cable,) = rows(_read(tmp_path, text), "cables")
    assert (cable["a_port_uid"], cable["cable"], cable["origin"], cable["line"]) == ("0c42a1000007", "DAC 2m", "table", 2)


def test_a_switch_in_the_column_of_hosts_is_a_switch(tmp_path: Path) -> None:
    text = "host,nic,switch,port\nleaf1,Ethernet64,spine1,Ethernet0\nnode1,mlx5_0,leaf1,Ethernet0\n"
    assert _cables(_read(tmp_path, text)) == [
        ("leaf1", "switch", None, "Ethernet64", "spine1", "switch", "Ethernet0"),
        ("node1", "host", "mlx5_0", None, "leaf1", "switch", "Ethernet0"),
    ]


def test_rows_that_do_not_fit_cost_no_others(tmp_path: Path) -> None:
    text = "host,nic,switch,port\nnode1,mlx5_0,leaf1,Ethernet0\nnode2,mlx5_0\n,mlx5_0,leaf1,Ethernet4\nnode3,mlx5_0,leaf1,Ethernet8,,\nnode4,mlx5_0,lea"
    found = _read(tmp_path, text)
    assert [r[0] for r in _cables(found)] == ["node1", "node3"]
    assert found.counts() == {"bad-row": 2, "truncated": 1}
    assert found.info.truncated
    assert _read(tmp_path, text[: text.index("Ethernet8") + 3]).counts() == {"bad-row": 2, "no-end-of-line": 1}
    two = _read(tmp_path, "host,nic,switch,port,access_port\nnode1,mlx5_0,leaf1,Ethernet0,Ethernet4\n")
    assert (two.counts(), _cables(two)[0][6]) == ({"several-ports": 1}, "Ethernet0")


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 70_000, b"host", b"{}", b"\x1f\x8b", b"not a trace at all\n" * 100, b'host,nic,switch,port\n"' + b"x" * 200_000]
)
def test_hostile_input_is_a_notice(tmp_path: Path, content: bytes) -> None:
    found = _read(tmp_path, content)
    assert found.notices
    assert rows(found, "cables") == []


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,host,nic,switch,port\n1,a,b,c,d\n",
        "SaveTime,SaveTimeUTC,DeviceName,PortName,InPkts,InOctets\n2024/05/24,1716480000914,leaf,Eth1,1,2\n",
        "host,port,rx_bytes\na,1,2\n",
        "host,nic,bytes\na,mlx5_0,7\n",
        "timestamp,source_id,tag,node_guid,port_guid,port_num\n1,a,b,0x1,0x2,1\n",
        "name,DCGM_FI_DEV_GPU_TEMP,gauge\nx,y,z\n",
        "host,nic,switch,port\n",
        "host,nic,switch,port\njust text\nand more\n",
        '{"host":1,"switch":2,"port":3}',
        "The host, the switch, and the port are down.\nreally\n",
        "rank,host,pid,gpu\n0,a,1,2\n",
    ],
)
def test_other_files_are_left_alone(text: str) -> None:
    assert not _claimed(text)


def test_the_sample_is_what_the_builder_writes(root: Path, tmp_path: Path) -> None:
    write_samples(tmp_path)
    assert (tmp_path / "wiring-table/topology.csv").read_bytes() == (root / "sample_traces/formats/wiring-table/topology.csv").read_bytes()
    assert len(_cables(_read(tmp_path, host_table(3, 2)))) == 6
