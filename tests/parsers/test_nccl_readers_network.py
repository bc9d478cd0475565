"""Networks, plugins, versions and settings: known lines of every version give known rows, and secrets never do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.nccl_reader_rows import Row, bare, read, real_lines, said
from tracelab_parsers.nccl_log.network import NetworkReader
from tracelab_parsers.nccl_log.settings import SettingsReader

Data = Callable[[str], Path]
FULL = "nccl/full/nccl_tests_subsys_all_nccl2.27.log.gz"


def devices(*texts: str) -> list[Row]:
    _, rows = read(NetworkReader(), [said(t, i) for i, t in enumerate(texts, 1)])
    names = ("plugin", "device", "name", "port", "link_layer", "address", "gdr", "used")
    return [{n: r[n] for n in names if r.get(n) is not None} for r in rows.of("net_devices")]


def settings(*texts: str) -> list[tuple[str, str, str]]:
    found = []
    for reader in (NetworkReader(), SettingsReader()):
        _, rows = read(reader, [said(t, i) for i, t in enumerate(texts, 1)])
        found += [(r["name"], r["value"], r["origin"]) for r in rows.of("log_settings")]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bootstrap : Using [0]ib0:10.148.8.41<0> [1]ib1:10.149.8.41<0>", [(0, "ib0", "10.148.8.41"), (1, "ib1", "10.149.8.41")]),
        ("Bootstrap : Using eth0:10.0.92.140<0>", [(0, "eth0", "10.0.92.140")]),
        ("Bootstrap: Using enp129s0:fe80::56c4:f535%enp129s0<0>", [(0, "enp129s0", "fe80::56c4:f535%enp129s0")]),
    ],
)
def test_bootstrap_interfaces(text: str, expected: list[tuple[int, str, str]]) -> None:
    assert devices(text) == [{"plugin": "bootstrap", "device": d, "name": n, "address": a, "used": True} for d, n, a in expected]


def test_devices_are_used_where_their_network_was_chosen() -> None:
    ib = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE/SHARP [RO]; OOB eth0:10.0.0.1<0>"
    two = [
        {"plugin": "IB", "device": 0, "name": "mlx5_0", "port": 1, "link_layer": "IB"},
        {"plugin": "IB", "device": 1, "name": "mlx5_1", "port": 1, "link_layer": "RoCE"},
    ]
    assert devices(ib) == two
    assert devices(ib, "Using network IB") == [d | {"used": True} for d in two]
    assert devices(ib, "Using network IBext_v8") == [d | {"used": True} for d in two]
    assert devices(ib, "Using network Socket") == [d | {"used": False} for d in two]


def test_sockets_with_addresses_of_both_kinds() -> None:
    text = "NET/Socket : Using [0]enp129s0:192.0.2.195<0> [1]tailscale0:fe80::56c4:f535:9d9e:1004%tailscale0<0>"
    assert devices(text, "Using network Socket") == [
        {"plugin": "Socket", "device": 0, "name": "enp129s0", "address": "192.0.2.195", "used": True},
        {"plugin": "Socket", "device": 1, "name": "tailscale0", "address": "fe80::56c4:f535:9d9e:1004%tailscale0", "used": True},
    ]
    assert devices("NET/Socket: Using 2 threads and 1 sockets per thread") == []


def test_merged_devices() -> None:
    braces = "NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [1]mlx5_2:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
    assert devices(braces) == [
        {"plugin": "IB", "device": 0, "name": "mlx5_0+mlx5_1", "link_layer": "RoCE"},
        {"plugin": "IB", "device": 1, "name": "mlx5_2", "port": 1, "link_layer": "RoCE"},
    ]
    assert devices("NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=200000 ndevs=2") == [{"plugin": "IB", "device": 2, "name": "mlx5_0+mlx5_1"}]


def test_whether_devices_reach_gpu_memory() -> None:
    listed = "NET/gIB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE ; OOB eth0:10.0.0.1<0>"
    found = devices(
        listed, "NET/gIB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", "NET/gIB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'", "Using network gIB"
    )
    assert [(d["device"], d["gdr"], d["used"], d["port"]) for d in found] == [(0, True, True, 1), (1, False, True, 1)]
    # Older versions judge each GPU: the device reaches memory if it reaches one of them.
    old = "NET/IB : GPU Direct RDMA {} for GPU {} / HCA 3 (distance 4 >= 3), read 0"
    assert devices(old.format("Enabled", "3d000[0]"), old.format("Disabled", "b1000[4]")) == [{"plugin": "IB", "device": 3, "gdr": True}]


def test_no_device_is_no_row() -> None:
    kinds, rows = read(NetworkReader(), [said("NET/IB : No device found."), said("NET/IB : Using [RO]; OOB enp129s0:192.0.2.195<0>")])
    assert kinds == ["net", "net"]
    assert rows.rows == []


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("Using network AWS Libfabric", "network", "AWS Libfabric"),
        ("Using network IBext_v8", "network", "IBext_v8"),
        ("Initialized NET plugin IB", "net_plugin", "IB"),
        ("Assigned NET plugin Socket to comm", "net_plugin", "Socket"),
        ("Loaded net plugin NCCL RDMA Plugin v6 (v6)", "net_plugin", "NCCL RDMA Plugin v6 (v6)"),
        ("NET/Plugin: Loaded net plugin Libfabric (v8)", "net_plugin", "Libfabric (v8)"),
        ("P2P plugin IBext_v7", "net_plugin", "IBext_v7"),
        ("NET/Plugin: Using internal network plugin.", "net_plugin", "internal"),
        ("NET/Plugin : No plugin found (libnccl-net.so), using internal implementation", "net_plugin", "internal"),
        ("NET/OFI Initializing aws-ofi-nccl 1.13.2-aws", "net_plugin", "aws-ofi-nccl 1.13.2-aws"),
        ("NET/OFI Selected Provider is efa", "net_plugin", "OFI provider efa"),
        ("NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)", "net_plugin", "OFI provider efa, fabric efa-direct"),
        ("NET/OFI Running on P4d platform, Setting NCCL_TOPO_FILE environment variable to /opt/a.xml", "NCCL_TOPO_FILE", "/opt/a.xml"),
    ],
)
def test_choices_of_networks_and_plugins(text: str, name: str, value: str) -> None:
    kinds, rows = read(NetworkReader(), [said(text, 1), said(text, 2), said(text, 3, part=1)])
    assert kinds == ["net"] * 3
    # Each process says it once.
    assert [(r["name"], r["value"], r["origin"], r["part"]) for r in rows.of("log_settings")] == [(name, value, "stated", 0), (name, value, "stated", 1)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NET/IB: IbDev 0 Port 1 qpn 4711 mtu 5 query_ece={supported=1} GID 3 (0/19D)", "net"),
        ("NET/IB: NCCL Dev 1 IbDev 0 Port 1 qp_num 88 mtu 5 LID 7 subnet-prefix 12 FLID 0", "net"),
        ("Using non-device net plugin version 0", "net"),
        ("Failed to initialize NET plugin IB", "net"),
        ("Assigned GIN plugin GIN_IB to comm", "net"),
        ("NET/OFI Using Libfabric version 1.22", "net"),
        ("TUNER/Plugin: Could not find: libnccl-tuner.so", "plugin"),
        ("ENV/Plugin: Closing env plugin ncclEnvDefault", "plugin"),
        ("NET/IB : mlx5_0:1 Got async event : port error", None),
        ("Bootstrap timings total 0.001083 (create 0.000022, send 0.000108)", None),
        ("Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0", None),
        ("Loaded topology", None),
    ],
)
def test_kinds_of_lines_without_rows(text: str, kind: str | None) -> None:
    kinds, rows = read(NetworkReader(), [said(text)])
    assert kinds == [kind]
    assert rows.rows == []


def test_devices_of_two_processes_do_not_mix() -> None:
    lines = [
        said("NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.0.0.1<0>", 1, part=0),
        said("NET/IB : Using [0]mlx5_7:1/IB ; OOB ib0:10.0.0.2<0>", 2, part=1),
        said("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_7'", 3, part=1),
        said("Using network IB", 4, part=0),
    ]
    _, rows = read(NetworkReader(), lines)
    assert [(r["part"], r["line"], r["name"], r.get("gdr"), r["used"]) for r in rows.of("net_devices")] == [
        (0, 1, "mlx5_0", None, True),
        (1, 2, "mlx5_7", True, None),
    ]


def test_networks_of_real_files(test_data: Data) -> None:
    _, rows = read(NetworkReader(), real_lines(test_data(FULL)))
    found = {(r["plugin"], r["device"]): r for r in rows.of("net_devices")}
    assert len(found) == 4
    assert (found["IB", 0]["name"], found["IB", 0]["port"], found["IB", 0]["link_layer"], found["IB", 0]["gdr"], found["IB", 0]["used"]) == (
        "mlx5_0",
        1,
        "RoCE",
        False,
        True,
    )
    assert found["IB", 2]["name"] == "mlx5_0+mlx5_1"
    assert (found["bootstrap", 0]["name"], found["bootstrap", 0]["address"]) == ("eno8303", "192.168.0.3")
    _, rows = read(NetworkReader(), real_lines(test_data("nccl/full/bigscience_gpt2_64proc_nccl2.7.log.gz")))
    # 64 processes, each with two interfaces for the bootstrap and four adapters.
    assert len(rows.of("net_devices", plugin="bootstrap")) == 128
    adapters = rows.of("net_devices", plugin="IB")
    assert len(adapters) == 256
    assert len({r["part"] for r in adapters}) == 64
    assert {(r["link_layer"], r["port"], r["used"]) for r in adapters} == {("IB", 1, True)}
    assert {r["name"] for r in adapters} == {"hfi1_0", "hfi1_1", "hfi1_2", "hfi1_3"}
    _, rows = read(NetworkReader(), real_lines(test_data("nccl/excerpts/05_nccl-2.9.9_efa_mpirun-tag_16gpu_init.log")))
    assert len(rows.of("log_settings", name="network", value="AWS Libfabric")) == 16


# --- settings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NCCL version 2.27.7+cuda13.0", [("version", "2.27.7"), ("library", "nccl"), ("cuda_runtime", "13.0")]),
        ("NCCL version 2.7.8+cuda10.2NCCL version 2.7.8+cuda10.2", [("version", "2.7.8"), ("library", "nccl"), ("cuda_runtime", "10.2")]),
        ("RCCL version 2.18.3+hip6.0 HEAD:2f6d59e+", [("version", "2.18.3"), ("library", "rccl"), ("hip", "6.0")]),
        ("RCCL version : 2.21.5-develop:a24fe65", [("version", "2.21.5"), ("library", "rccl")]),
        ("HIP version  : 6.2.41134-65d174c3e", [("hip", "6.2.41134")]),
        ("ROCm version : 6.2.1.0-102-1d8c3e2", [("rocm", "6.2.1.0")]),
        ("NCCL git version master 3619159", []),
        ("cudaDriverVersion 12080", [("cuda_driver", "12080")]),
    ],
)
def test_versions(text: str, expected: list[tuple[str, str]]) -> None:
    for line in (said(text), bare(text)):
        kinds, rows = read(SettingsReader(), [line])
        assert kinds == ["version"]
        assert [(r["name"], r["value"]) for r in rows.of("log_settings")] == expected


@pytest.mark.parametrize(
    "text", ["NCCL version 2.2", "torch: unhandled cuda error, NCCL version 2.21.5", "Python version 3.11", "cudaDriverVersion 1208", "HIP version  : 6.2.4"]
)
def test_versions_that_may_be_cut_are_not_read(text: str) -> None:
    assert read(SettingsReader(), [bare(text)])[1].rows == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NCCL_SHM_DISABLE set by environment to 1.", ("NCCL_SHM_DISABLE", "1", "environment")),
        ("NCCL_P2P_DISABLE set by environment to 1", ("NCCL_P2P_DISABLE", "1", "environment")),
        ("NCCL_IB_HCA set to mlx5_0,mlx5_1", ("NCCL_IB_HCA", "mlx5_0,mlx5_1", "environment")),
        ("NCCL_TOPO_DUMP_FILE set by environment to nccl_topo_dump.xml", ("NCCL_TOPO_DUMP_FILE", "nccl_topo_dump.xml", "environment")),
        ("RCCL_MSCCL_ENABLE set by environment to 0.", ("RCCL_MSCCL_ENABLE", "0", "environment")),
        ("Comm config nvlinkCentricSched set to 1", ("config_nvlinkCentricSched", "1", "stated")),
        ("DMA-BUF is available on GPU device 3", ("dma_buf", "available on GPU 3", "stated")),
        ("Setting affinity for GPU 2 to ff,fff00000", ("affinity", "GPU 2: ff,fff00000", "stated")),
        ("ncclTopoGetCpuAffinity: Affinity for GPU 0 is 0-15,32-47. (GPU affinity = 0-15 ; CPU affinity = 0-63).", ("affinity", "GPU 0: 0-15,32-47", "stated")),
        ("ncclTopoGetCpuAffinity: Affinity for GPU 0 is empty, ignoring. (GPU affinity =  ; CPU affinity = 0-23).", ("affinity", "GPU 0: empty", "stated")),
        ("Launch mode Parallel", ("launch_mode", "Parallel", "stated")),
    ],
)
def test_settings_and_properties(text: str, expected: tuple[str, str, str]) -> None:
    assert settings(text, text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_AUTH_TOKEN set by environment to abc",
        "AWS_SECRET_ACCESS_KEY set by environment to abc",
        "NCCL_NET set by environment to https://user:password@host/x",
        "NCCL_CONF_FILE set by environment to token=abcdef",
        "NCCL_DEBUG_FILE set by environment to ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "HF_TOKEN set by environment to x NCCL",
        "Comm config unheardOf set to 1",
    ],
)
def test_no_secret_becomes_a_row(text: str) -> None:
    kinds, rows = read(SettingsReader(), [said(text)])
    assert kinds in ([None], ["setting"])
    assert rows.rows == []


def test_values_are_bounded() -> None:
    ((_, value, _),) = settings("NCCL_IB_HCA set by environment to " + "mlx5_0," * 5000)
    assert len(value) == 200


def test_each_process_states_its_settings_once() -> None:
    lines = [said("NCCL_ALGO set by environment to Ring", i, part=i % 2) for i in range(10)] + [said("NCCL_ALGO set by environment to Tree", 11)]
    _, rows = read(SettingsReader(), lines)
    assert [(r["part"], r["value"]) for r in rows.of("log_settings")] == [(0, "Ring"), (1, "Ring"), (0, "Tree")]


def test_settings_of_real_files(test_data: Data) -> None:
    _, rows = read(SettingsReader(), real_lines(test_data(FULL)))
    found = [(r["name"], r["value"]) for r in rows.of("log_settings")]
    assert ("version", "2.27.7") in found
    assert ("cuda_driver", "13000") in found
    assert ("cuda_runtime", "13.0") in found
    assert ("NCCL_TOPO_DUMP_FILE", "nccl_topo_dump.xml") in found
    assert ("affinity", "GPU 1: " + ",".join(str(n) for n in range(0, 64, 2))) in found
    assert len(found) == 7
    _, rows = read(SettingsReader(), real_lines(test_data("nccl/excerpts/10_nccl-2.29.7_init_single-rank_socket_plugins.log")))
    found = [(r["name"], r["value"]) for r in rows.of("log_settings")]
    assert found == [
        ("cuda_driver", "12090"), ("version", "2.29.7"), ("library", "nccl"), ("cuda_runtime", "12.9"),
        ("config_nvlinkCentricSched", "1"), ("affinity", "GPU 0: empty"),
    ]  # fmt: skip
    _, rows = read(SettingsReader(), real_lines(test_data("nccl/full/bigscience_gpt2_64proc_nccl2.7.log.gz")))
    assert {r["value"] for r in rows.of("log_settings", name="version")} == {"2.7.8"}
