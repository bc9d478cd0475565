"""ibnetdiscover and SLURM's topologies: machines, adapters, links, tiers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tests.builders.infiniband import IBNETDISCOVER, PORT_REPORT, TOPOLOGY_CONF, TOPOLOGY_YAML
from tests.builders.switches import parse, rows
from tracelab_parsers.topology.ibnetdiscover import PARSER as IBNETDISCOVER_PARSER
from tracelab_parsers.topology.ibnetdiscover_names import Names, guid_of, link_speed, signalling_speed
from tracelab_parsers.topology.slurm import PARSER as SLURM
from tracelab_parsers.topology.slurm_hostlist import MOST_NAMES, HostlistError, expand

SIDE = ("node", "kind", "uid", "device", "port", "port_uid")
LEAF = ("leaf7", "switch", "b8599f0300000c00", None)
SPINE_NAME = "spine 3: \"x\"; 'row' [1] # two"


def _fabric(folder: Path, text: str) -> Read:
    assert IBNETDISCOVER_PARSER.sniff(folder / "x", text.encode()) is not None
    return parse(IBNETDISCOVER_PARSER, folder / "out.txt", text)


def _sides(row: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return tuple(row[f"a_{k}"] for k in SIDE), tuple(row[f"b_{k}"] for k in SIDE)


def test_links_of_a_fabric(tmp_path: Path) -> None:
    found = _fabric(tmp_path, IBNETDISCOVER)
    host_a = ("host-a", "host", "0c42a10300000a00", "mlx5_0", "1", "0c42a10300000a00")
    spine = (SPINE_NAME, "switch", "b8599f0300000d00", None)
    aggregation = ("b8599f0300000c08", "host", "b8599f0300000c08", None, "1", "b8599f0300000c08")
    nameless = ("0c42a10300000e00", "host", "0c42a10300000e00", "mlx5_3", "1", "0c42a10300000e00")
    assert [(*_sides(r), r["speed_bps"], r["lanes"]) for r in rows(found, "cables")] == [
        ((*LEAF, "1", None), host_a, 200_000_000_000, 4),
        ((*LEAF, "2", None), ("host-b", "host", "0c42a10300000b00", "HCA-1", "2", "0c42a10300000b01"), 100_000_000_000, 2),
        ((*LEAF, "40", None), (*spine, "1", None), 400_000_000_000, 4),
        ((*LEAF, "41", None), aggregation, 200_000_000_000, 4),
        (host_a, (*LEAF, "1", None), 200_000_000_000, 4),
        (nameless, (*spine, "9", None), 2_500_000_000, 1),
    ]
    assert {(r["up"], r["origin"]) for r in rows(found, "cables")} == {(True, "ibnetdiscover")}
    assert [(r["line"], r["node"], r["node_uid"], r["device"], r["port"], r["uid"], r["lid"]) for r in rows(found, "interfaces")] == [
        (11, "leaf7", "b8599f0300000c00", None, 1, None, 7),
        (12, "leaf7", "b8599f0300000c00", None, 2, None, 7),
        (13, "leaf7", "b8599f0300000c00", None, 40, None, 7),
        (14, "leaf7", "b8599f0300000c00", None, 41, None, 7),
        (20, "host-a", "0c42a10300000a00", "mlx5_0", 1, "0c42a10300000a00", 21),
        (23, "0c42a10300000e00", "0c42a10300000e00", "mlx5_3", 1, "0c42a10300000e00", 30),
    ]
    assert {r["link_layer"] for r in rows(found, "interfaces")} == {"InfiniBand"}
    assert found.counts() == {"unnamed-machine": 1}
    assert found.info.parts == []


def test_the_port_report_with_names_that_hold_its_own_marks(tmp_path: Path) -> None:
    found = _fabric(tmp_path, PORT_REPORT)
    odd = "it's a' - 'b"
    assert [(r["a_node"], r["a_port"], r["b_node"], r["b_port"], r["speed_bps"]) for r in rows(found, "cables")] == [
        ("host-a", "1", "leaf7", "1", 400_000_000_000),
        ("leaf7", "40", odd, "1", 100_000_000_000),
        (odd, "1", "leaf7", "40", 100_000_000_000),
    ]
    assert [(r["node"], r["port"], r["lid"], r["up"], r["speed_bps"], r["lanes"]) for r in rows(found, "interfaces")] == [
        ("host-a", 1, 21, True, 400_000_000_000, 4),
        ("leaf7", 40, 7, True, 100_000_000_000, 4),
        (odd, 1, 8, True, 100_000_000_000, 4),
        (odd, 2, 8, False, None, None),
        ("b8599f0300000f00", 1, 9, False, None, None),
    ]
    assert found.counts() == {"unnamed-machine": 1}


def test_a_real_report_of_ports(test_data: Callable[[str], Path]) -> None:
    folder = test_data("topology/ibnetdiscover")
    found = read(IBNETDISCOVER_PARSER, folder / "test.out")
    assert len(rows(found, "cables")) == 7
    first = rows(found, "cables")[0]
    assert _sides(first) == (("o0001", "host", None, "HCA-1", "1", "7cfe9003003b4bde"), ("ib-i1l1s01", "switch", "7cfe9003009ce5b0", None, "10", None))
    assert (first["speed_bps"], first["lanes"]) == (100_000_000_000, 4)
    assert [(r["node"], r["port"], r["lid"]) for r in rows(found, "interfaces") if r["up"] is False] == [("ib-i4l1s01", 37, 2052), ("ib-i7l2s01", 80, 1781)]
    second = read(IBNETDISCOVER_PARSER, folder / "test2.out")
    assert [(r["a_node"], r["a_device"], r["b_node"], r["b_port"]) for r in rows(second, "cables")] == [
        ("946dae0300630bfe", None, "5FB0405-leaf-IB01", "81"),
        ("worker20", "mlx5_3", "5FB0405-leaf-IB01", "79"),
        ("5FB0406-spine-IB03", None, "946dae0300630bfe", "1"),
    ]
    assert "5FB0406-spine-IB02" in {r["node"] for r in rows(second, "interfaces")}
    third = read(IBNETDISCOVER_PARSER, folder / "test3.out")
    assert [(r["node"], r["lid"], r["up"]) for r in rows(third, "interfaces")] == [("0002c9020040f161", 479, False)]


def test_a_real_fabric_with_a_director_switch(test_data: Callable[[str], Path]) -> None:
    path = test_data("counters/superbench") / "ib_traffic_topo_aware_ibnetdiscover.txt"
    found = read(IBNETDISCOVER_PARSER, path)
    text = path.read_text()
    assert len(rows(found, "cables")) == len(re.findall(r"^\[\d+\]", text, re.MULTILINE)) == 35
    assert found.info.truncated is False
    assert {k: v for k, v in found.counts().items() if k != "unnamed-machine"} == {}
    chips = {r["a_node"] for r in rows(found, "cables") if r["a_node"].startswith("rmd70-0101-0908-01ib1-A")}
    assert chips == {f"rmd70-0101-0908-01ib1-A/{part}/U1" for part in ("S01", "L01", "L02")}  # each numbers its ports from 1
    hosts = {(r["a_node"], r["a_device"], r["a_uid"], r["b_node"]) for r in rows(found, "cables") if r["a_kind"] == "host"}
    assert ("RMD701091901003", "ibp11s0f0", "0ff08c4321664e96", "rmd70-0101-0919-01ib0") in hosts
    # every link between two machines of the file is stated from both sides, the same way
    ends = {_sides(r) for r in rows(found, "cables")}
    described = {a[:2] for a, _ in ends}
    assert [a for a, b in ends if b[:2] in described and b[1] == "host" and (b, a) not in ends] == []


def test_what_belongs_to_no_fabric_is_counted(tmp_path: Path) -> None:
    odd = '[3]\t"H-0c42a10300000a00"[1](c42a10300000a00) \t\t# "lost" lid 21 4xHDR\n'
    found = _fabric(tmp_path, odd + IBNETDISCOVER + "[4]\tnonsense\n" + '[5]\t"S-b8599f0300000d00"[9]\t# "cut')
    assert found.counts() == {"truncated": 1, "unnamed-machine": 1, "unread-lines": 2}
    assert found.info.truncated
    assert len(rows(found, "cables")) == 6


def test_numbers_without_measure_are_no_ports(tmp_path: Path) -> None:
    found = _fabric(tmp_path, PORT_REPORT + f"CA {'9' * 5000}  1 0x0c42a10300000a00 4x NDR - SW     7  1 0xb8599f0300000c00 ( 'a' - 'b' )\n")
    assert found.counts() == {"unnamed-machine": 1, "unread-lines": 1}


DESCRIPTIONS = {
    # description, kind: node, device, kind
    ("node12 mlx5_0", "host"): ("node12", "mlx5_0", "host"),
    ("node12.site:mlx5_bond_0", "host"): ("node12.site", "mlx5_bond_0", "host"),
    ("node12 HCA-12", None): ("node12", "HCA-12", "host"),
    ("node 12 mlx5_0", "host"): ("node 12 mlx5_0", None, "host"),
    ("node12", "host"): ("node12", None, "host"),
    ("(none) mlx5_0", "host"): ("0000000000000abc", "mlx5_0", "host"),
    ("MT4129 ConnectX7   Mellanox Technologies", "host"): ("0000000000000abc", None, "host"),
    ("MF0;sw-1.site:MQM9790/U1", "switch"): ("sw-1.site", None, "switch"),
    ("MF0;sw-1:MQM9790", None): ("sw-1", None, "switch"),
    ("MF0;sw-1:MQM9790/U2", "switch"): ("sw-1/U2", None, "switch"),
    ("leaf1 mlx5_0", "switch"): ("leaf1 mlx5_0", None, "switch"),
    ("", "switch"): ("0000000000000abc", None, "switch"),
}


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_descriptions(case: tuple[str, Any]) -> None:
    machine = Names().machine("0000000000000abc", *case)
    assert (machine.node, machine.device, machine.kind) == DESCRIPTIONS[case]


def test_speeds_and_addresses() -> None:
    assert [link_speed(4, s) for s in ("SDR", "QDR", "FDR", "edr", "XDR", "???")] == [10**10, 4 * 10**10, 56 * 10**9, 10**11, 8 * 10**11, None]
    assert (link_speed(None, "HDR"), link_speed(2, "HDR")) == (None, 10**11)
    assert [signalling_speed(4, g) for g in (2.5, 25.78125, 53.125, 106.25)] == [10**10, 10**11, 2 * 10**11, 4 * 10**11]
    assert (signalling_speed(None, 53.125), signalling_speed(4, 0.0)) == (None, None)
    assert [guid_of(t) for t in ("0xC42A1", "00000000000c42a1", "0x0", "N/A", "", None, "0x" + "1" * 17)] == ["00000000000c42a1"] * 2 + [None] * 5


def _slurm(folder: Path, text: str) -> Read:
    assert SLURM.sniff(folder / "x", text.encode()) is not None
    return parse(SLURM, folder / "topology", text)


def test_a_tree_and_blocks(tmp_path: Path) -> None:
    found = _slurm(tmp_path, TOPOLOGY_CONF)
    told = [tuple(r[k] for k in ("line", "a_node", "a_kind", "a_tier", "b_node", "b_kind", "b_tier")) for r in rows(found, "cables")]
    assert told == [
        (2, "leaf7", "switch", 1, "host-a", "host", 0),
        (2, "leaf7", "switch", 1, "host-b", "host", 0),
        *((3, "leaf8", "switch", 1, f"rack{r}gpu{n}", "host", 0) for r in (1, 2) for n in ("08", "09", "10")),
        (3, "leaf8", "switch", 1, "extra", "host", 0),
        (4, "leaf9", "switch", 1, "last", "host", 0),
        *((6, "spine1", "switch", 2, f"leaf{n}", "switch", 1) for n in (7, 8, 9)),
        (7, "core", "switch", 3, "spine1", "switch", 2),
        (8, "block1", None, None, "node001", "host", 0),
        (8, "block1", None, None, "node002", "host", 0),
        *((10, "leaf10", "switch", 1, f"tail{n}", "host", 0) for n in (1, 2, 3)),
    ]
    assert {(r["origin"], r["a_port"], r["b_port"]) for r in rows(found, "cables")} == {("slurm", None, None)}
    assert found.counts() == {}


def test_topology_yaml(tmp_path: Path) -> None:
    found = _slurm(tmp_path, TOPOLOGY_YAML)
    assert [(r["line"], r["a_node"], r["a_tier"], r["b_node"], r["b_tier"]) for r in rows(found, "cables")] == [
        (1, "spine1", 2, "leaf7", 1),
        (1, "spine1", 2, "leaf8", 1),
        (2, "leaf7", 1, "gpu01", 0),
        (2, "leaf7", 1, "gpu02", 0),
        (3, "leaf8", 1, "gpu03", 0),
        (3, "leaf8", 1, "gpu10", 0),
        (3, "leaf8", 1, "gpu11", 0),
        (4, "b1", None, "gpu01", 0),
        (4, "b1", None, "gpu02", 0),
    ]


def test_scontrol_prints_the_same_words(tmp_path: Path) -> None:
    text = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-1]\nSwitchName=s1 Level=1 LinkSpeed=1 Nodes=tux[0-1] Switches=s0\n"
    found = _slurm(tmp_path, text)
    assert {(r["a_node"], r["b_node"], r["a_tier"]) for r in rows(found, "cables") if r["b_kind"] == "switch"} == {("s1", "s0", 2)}


def test_switches_below_themselves_have_no_tier(tmp_path: Path) -> None:
    text = "SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=c Nodes=n1\nSwitchName=d Switches=missing\n"
    found = _slurm(tmp_path, text)
    assert {r["a_node"]: r["a_tier"] for r in rows(found, "cables")} == {"a": None, "b": None, "c": 1, "d": None}
    assert found.counts() == {"unknown-tier": 3}


def test_a_tree_of_any_depth(tmp_path: Path) -> None:
    text = "SwitchName=s0 Nodes=n\n" + "".join(f"SwitchName=s{n} Switches=s{n - 1}\n" for n in range(1, 3000))
    assert rows(_slurm(tmp_path, text), "cables")[-1]["a_tier"] == 3000


def test_lists_that_are_none(tmp_path: Path) -> None:
    text = "SwitchName=a Nodes=n[1-\nSwitchName=b Nodes=n[1-99999999]\nSwitchName=c Nodes=ok\nSwitchName=d\nNodes=x\nSwitchName=e Nodes=f stray\n"
    found = _slurm(tmp_path, text)
    assert [(r["a_node"], r["b_node"]) for r in rows(found, "cables")] == [("c", "ok"), ("e", "f")]
    assert found.counts() == {"bad-hostlist": 2, "bad-line": 2, "unread-words": 1}


BAD_YAML = {
    "aliases": "- topology: t\n  tree:\n    switches:\n      - switch: &a s\n        nodes: *a\n",
    "merges": "- topology: t\n  tree: &t\n    switches:\n      - switch: s\n        nodes: n\n- topology: u\n  tree:\n    <<: *t\n",
    "objects": "- topology: !!python/object/apply:os.getcwd []\n  tree:\n    switches:\n      - switch: s\n        nodes: n\n",
    "unclosed": "- topology: t\n  tree:\n    switches:\n      - switch: s\n        nodes: [n\n",
    "deep": "- topology: t\n  tree:\n    switches:\n      - switch: s\n        nodes: " + "[" * 5000 + "\n",
}


@pytest.mark.parametrize("case", BAD_YAML)
def test_yaml_that_is_not_read(case: str, tmp_path: Path) -> None:
    found = _slurm(tmp_path, BAD_YAML[case])
    assert set(found.counts()) == {"bad-yaml", "no-nodes"}
    assert rows(found, "cables") == []


LISTS = {
    "tux": ["tux"],
    "tux[0-2,12]": ["tux0", "tux1", "tux2", "tux12"],
    "a[08-10]b[1,3]": ["a08b1", "a08b3", "a09b1", "a09b3", "a10b1", "a10b3"],
    "a1,b[2-3],a1": ["a1", "b2", "b3"],
    "x[1-2].rack-[7].site": ["x1.rack-7.site", "x2.rack-7.site"],
    "": [],
}


@pytest.mark.parametrize("text", LISTS)
def test_lists_of_hosts(text: str) -> None:
    assert expand(text) == LISTS[text]


@pytest.mark.parametrize(
    "text", ["a[1-", "a]1", "a[2-1]", "a[x]", "a[]", "a[1-2-3]", "[[1]]", "a b", ",", "a[0-999999999]", "a[0-999][0-999]", "a[1-9999999999]"]
)
def test_lists_that_stand_for_nothing_or_too_much(text: str) -> None:
    with pytest.raises(HostlistError):
        expand(text)


def test_as_many_names_as_allowed() -> None:
    assert len(expand(f"n[1-{MOST_NAMES}]")) == MOST_NAMES
    with pytest.raises(HostlistError):
        expand(f"n[1-{MOST_NAMES}],one-more")
