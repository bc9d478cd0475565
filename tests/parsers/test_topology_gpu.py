"""GPUs beside adapters: the matrix of nvidia-smi, and NCCL's tree of a machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.collected import Read
from tests.builders.gpu_topology import bridge, gpu, matrix, net, system, write_samples
from tests.builders.switches import parse, rows
from tracelab_parsers.topology.nccl_xml import PARSER as XML
from tracelab_parsers.topology.nvidia_smi import PARSER as SMI

PATHS = [["PIX", "NODE", "SYS"], ["PXB", "PHB", "SYS"]]


def _smi(folder: Path, text: str | bytes) -> Read:
    return parse(SMI, folder / "file", text)


def _xml(folder: Path, text: str | bytes) -> Read:
    return parse(XML, folder / "file", text)


def _cells(found: Read) -> dict[tuple[int, str], str]:
    return {(r["gpu"], r["device"]): r["path"] for r in rows(found, "adapter_paths")}


def test_a_matrix_with_its_legend(tmp_path: Path) -> None:
    found = _smi(tmp_path, matrix(PATHS, names=["mlx5_0", "mlx5_bond_0", "mlx5_3"]))
    assert _cells(found) == {
        (0, "mlx5_0"): "PIX",
        (0, "mlx5_bond_0"): "NODE",
        (0, "mlx5_3"): "SYS",
        (1, "mlx5_0"): "PXB",
        (1, "mlx5_bond_0"): "PHB",
        (1, "mlx5_3"): "SYS",
    }
    assert {(r["line"], r["node"], r["origin"]) for r in rows(found, "adapter_paths") if r["gpu"] == 1} == {(3, None, "nvidia-smi")}
    assert found.counts() == {}
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("paths", 6, True)]


def test_a_matrix_without_legend_keeps_numbers_and_says_so(tmp_path: Path) -> None:
    found = _smi(tmp_path, matrix(PATHS))
    assert _cells(found)[0, "NIC0"] == "PIX"
    assert found.counts() == {"no-nic-legend": 3}


def test_adapters_in_the_heading_need_no_legend(tmp_path: Path) -> None:
    found = _smi(tmp_path, matrix([["PIX", "SOC"], ["SYS", "PHB"]], columns=["mlx5_0", "mlx5_2"]))
    assert _cells(found) == {(0, "mlx5_0"): "PIX", (0, "mlx5_2"): "SYS", (1, "mlx5_0"): "SYS", (1, "mlx5_2"): "PHB"}
    assert found.counts() == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.replace("\t", "    "),
        lambda t: re.sub(r"[ \t]+", " ", t),
        lambda t: t.lstrip("\t"),
        lambda t: "\x1b[4m" + t.replace("\n", "\x1b[0m\n", 1),
        lambda t: t.replace("\n", "\r\n"),
        lambda t: "+ nvidia-smi topo -m\n" + t,
    ],
    ids=["spaces", "single spaces", "no first tab", "underlined", "carriage returns", "shell trace"],
)
def test_ways_in_which_it_is_pasted(tmp_path: Path, change: Callable[[str], str]) -> None:
    text = matrix(PATHS, names=["mlx5_0", "mlx5_1", "mlx5_2"])
    assert _cells(_smi(tmp_path, change(text))) == _cells(_smi(tmp_path, text))
    match = SMI.sniff(tmp_path / "x", change(text).encode())
    assert match is not None
    assert match.confidence == 1


def test_prompts_name_the_machines(tmp_path: Path) -> None:
    one, two = matrix([["PIX"]], names=["mlx5_0"]), matrix([["SYS"]], names=["mlx5_7"])
    found = _smi(tmp_path, f"root@node7:~# nvidia-smi topo -m\n{one}\n=== node8 nvidia-smi topo -m ===\n{two}")
    assert [(r["node"], r["device"], r["path"]) for r in rows(found, "adapter_paths")] == [("node7", "mlx5_0", "PIX"), ("node8", "mlx5_7", "SYS")]


def test_the_hand_written_file(tmp_path: Path, test_data: Callable[[str], Path]) -> None:
    found = _smi(tmp_path, test_data("counters/synthetic/nvidia_smi_topo_m.txt").read_bytes())
    assert _cells(found) == {(0, "mlx5_0"): "PIX", (0, "mlx5_bond_0"): "SYS", (1, "mlx5_0"): "SYS", (1, "mlx5_bond_0"): "PXB"}


def test_rows_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    text = matrix(PATHS, names=["mlx5_0", "mlx5_1", "mlx5_2"])
    assert _smi(tmp_path, text.replace("\tPXB\tPHB\tSYS\t0-31,64-95\t0\t\tN/A", "")).counts() == {"bad-row": 1}
    assert _smi(tmp_path, text.replace("PXB", "???")).counts() == {"unknown-path": 1}
    found = _smi(tmp_path, text[: text.index("PHB")])
    assert found.info.truncated
    assert found.counts() == {"truncated": 1, "no-nic-legend": 3}
    assert _smi(tmp_path, text.rstrip("\n")[:-1]).counts() == {"no-end-of-line": 1}
    assert _smi(tmp_path, "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-63\nGPU1\tPHB\t X \t0-63\n").counts() == {"no-adapters": 1}


def test_a_matrix_of_peer_access_is_left_alone(tmp_path: Path) -> None:
    assert SMI.sniff(tmp_path / "x", b" \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n") is None
    assert SMI.sniff(tmp_path / "x", b"GPU0 is hot\nGPU0 X PIX\n") is None


def test_the_tree_gives_the_class_of_every_way(tmp_path: Path) -> None:
    inner = bridge("0000:20:00.0", net("0000:21:00.0", "mlx5_1", guid="0x1"))
    near = bridge("0000:16:00.0", gpu("00000000:1A:00.0", 0), net("0000:19:00.0", "mlx5_0"), inner)
    other = bridge("0000:30:00.0", net("0000:31:00.0", "mlx5_2", guid="0x2"))
    found = _xml(tmp_path, system([near, other], [net("0000:99:00.0", "mlx5_3", guid="0x3")]))
    assert _cells(found) == {(0, "mlx5_0"): "PIX", (0, "mlx5_1"): "PXB", (0, "mlx5_2"): "PHB", (0, "mlx5_3"): "SYS"}
    row = rows(found, "adapter_paths")[0]
    assert (row["gpu_pci"], row["device_pci"], row["node"], row["origin"]) == ("0000:1a:00.0", "0000:19:00.0", None, "nccl-topology")
    interface = rows(found, "interfaces")[0]
    # The GUID is printed with its last byte first: 58a2e1 is the maker's number.
    wanted = {"device": "mlx5_0", "netdev": None, "port": 1, "uid": "58a2e10300b17ca8", "pci": "0000:19:00.0", "numa": 0, "speed_bps": 400_000_000_000}
    assert {k: interface[k] for k in wanted} == wanted
    assert found.counts() == {}


def test_a_guid_that_two_functions_share_names_no_port(tmp_path: Path) -> None:
    text = system([gpu("0000:18:00.0", 0), net("0000:19:00.0", "mlx5_0"), net("0000:19:00.1", "mlx5_1")])
    assert [(r["device"], r["uid"]) for r in rows(_xml(tmp_path, text), "interfaces")] == [("mlx5_0", None), ("mlx5_1", None)]
    text = system([gpu("0000:18:00.0", 0), net("0000:19:00.1", "mlx5_1")])
    assert [r["uid"] for r in rows(_xml(tmp_path, text), "interfaces")] == [None]


def test_sockets_are_network_devices_and_bad_numbers_are_missing(tmp_path: Path) -> None:
    found = _xml(tmp_path, system([gpu("0000:18:00.0", 0), net("0000:19:00.0", "eth0", guid="0x0", speed="fast", port="0")]))
    (row,) = rows(found, "interfaces")
    assert (row["device"], row["netdev"], row["uid"], row["port"], row["speed_bps"]) == (None, "eth0", None, None, None)
    assert found.counts() == {"bad-attribute": 1}


def test_machines_in_one_file_are_kept_apart(tmp_path: Path) -> None:
    one = bridge("0000:16:00.0", gpu("0000:18:00.0", 0), net("0000:19:00.0", "mlx5_0"))
    found = _xml(tmp_path, system([one], [one], hashes=["0xaa", "0xbb"]))
    assert [(r["node"], r["gpu"], r["path"]) for r in rows(found, "adapter_paths")] == [("0xaa", 0, "PIX"), ("0xbb", 0, "PIX")]
    assert found.counts() == {"several-machines": 1}


def _expected(text: str) -> dict[tuple[str, str], str]:
    """Distances in a provider's file of one level of bridges, by its lines alone."""
    where: dict[str, list[tuple[str, tuple[int, str]]]] = {"gpu": [], "nic": []}
    cpu, switch = -1, ""
    for line in text.splitlines():
        cpu += "<cpu" in line
        m = re.search(r'<pci busid="([^"]+)" class="0x(\d{4})', line)
        if m is not None and m[2] == "0604":
            switch = m[1]
        elif m is not None:
            where["gpu" if m[2] == "0302" else "nic"].append((m[1], (cpu, switch)))
    return {(g, n): "PIX" if a == b and a[1] else "PHB" if a[0] == b[0] else "SYS" for g, a in where["gpu"] for n, b in where["nic"]}


@pytest.mark.parametrize(("name", "pairs", "near"), [("ndv2", 8, 0), ("ndv4", 64, 16), ("ndv5", 64, 8), ("p4d-24xl", 32, 8), ("p4de-24xl", 32, 8)])
def test_files_of_providers(tmp_path: Path, test_data: Callable[[str], Path], name: str, pairs: int, near: int) -> None:
    text = (test_data("topology/nccl_topo_xml") / f"{name}-topo.xml").read_text()
    found = _xml(tmp_path, text)
    paths = {(r["gpu_pci"], r["device_pci"]): r["path"] for r in rows(found, "adapter_paths")}
    assert paths == _expected(text)
    assert (len(paths), list(paths.values()).count("PIX")) == (pairs, near)
    assert {(r["gpu"], r["device"]) for r in rows(found, "adapter_paths")} == {(None, None)}
    assert set(found.counts()) == {"unnamed-adapters"}


def test_real_dump_and_files_that_say_less(tmp_path: Path, test_data: Callable[[str], Path]) -> None:
    folder = test_data("topology/nccl_topo_xml")
    found = _xml(tmp_path, (folder / "ncv4-topo.xml").read_bytes())
    assert _cells(found) == {(0, "eth0"): "PHB", (1, "eth0"): "SYS", (2, "eth0"): "SYS", (3, "eth0"): "SYS"}
    assert [(r["netdev"], r["speed_bps"], r["numa"]) for r in rows(found, "interfaces")] == [("eth0", 100_000_000_000, 0)]
    found = _xml(tmp_path, (folder / "g5.48xl-topo.xml").read_bytes())
    assert found.counts() == {"no-topology": 1, "unclassed-devices": 9}
    found = _xml(tmp_path, (folder / "ncv4-graph.xml").read_bytes())
    assert found.counts() == {"search-graphs": 1}
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("graphs", 3, False)]
    for file in sorted(folder.iterdir()):
        match = XML.sniff(file, file.read_bytes())
        assert match is not None
        assert match.confidence == 1


ENTITIES = (
    '<!DOCTYPE system [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>',
    '<!DOCTYPE system SYSTEM "file:///etc/passwd">',
    '<!DOCTYPE system [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
    '<!DOCTYPE system [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x.dtd"> %p;]>',
)


@pytest.mark.parametrize("doctype", ENTITIES)
def test_document_types_are_refused(tmp_path: Path, doctype: str) -> None:
    found = _xml(tmp_path, doctype + system([gpu("0000:18:00.0", 0), net("0000:19:00.0", "mlx5_0")]))
    assert found.counts() == {"doctype": 1, "no-topology": 1}
    assert found.notices["doctype"].severity == "error"
    assert rows(found, "adapter_paths") == []


def test_torn_broken_and_endless_documents(tmp_path: Path) -> None:
    whole = system([gpu("0000:18:00.0", 0), net("0000:19:00.0", "mlx5_0")]).rstrip("\n")
    for size in range(0, len(whole), 23):
        found = _xml(tmp_path, whole[:size])
        assert found.info.truncated
        assert "truncated" in found.counts()
    found = _xml(tmp_path, whole.replace("</cpu>", "</cup>"))
    assert found.counts() == {"bad-xml": 1}
    assert len(rows(found, "adapter_paths")) == 1
    assert _xml(tmp_path, "<system>" + "<pci>" * 100_000).counts()["too-many-elements"] == 1
    assert "bad-xml" in _xml(tmp_path, b"\0" * 1000).counts()
    assert "bad-xml" in _xml(tmp_path, b"not a trace at all").counts()


@pytest.mark.parametrize("text", ["<html><body/></html>", '<system version="1"><memory/></system>', "<graphs/>", '{"a":"<system><cpu numaid=0"}'])
def test_other_documents_are_left_alone(tmp_path: Path, text: str) -> None:
    assert XML.sniff(tmp_path / "x", text.encode()) is None


def test_the_samples_are_what_the_builder_writes(root: Path, tmp_path: Path) -> None:
    write_samples(tmp_path)
    for name in ("nvidia-smi-topo/node-a.txt", "nccl-topology/node-a.xml"):
        assert (tmp_path / name).read_bytes() == (root / "sample_traces/formats" / name).read_bytes()
