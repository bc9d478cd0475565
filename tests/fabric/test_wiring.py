"""Whose counters they are, when they were read, and which links there are."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from tracelab.fabric.adapters import Adapters
from tracelab.fabric.build import Job, Stated, fabric_tables
from tracelab.fabric.machines import Machines
from tracelab.fabric.moments import moment_of_path
from tracelab.fabric.samples import Sources
from tracelab.tables import ADAPTER_PATHS, CABLES, CLOCKS, COUNTER_SAMPLES, EDGES, INTERFACES, NET_DEVICES, TableSpec

S = 1_000_000_000


@pytest.mark.parametrize(
    ("path", "machine"),
    [
        ("counters/node12/1767098896.664/sys/class/infiniband/mlx5_0/ports/1/counters/VL15_dropped", "node12"),
        ("counters/node13.ethtool.log", "node13.cluster"),
        ("switch/leaf1.perfquery.txt", "leaf1"),
        ("switch/leaf7/COUNTERS_DB_20250315T150147.861689Z.json", "leaf7"),
        ("a/rack-2/node12-eth0.txt", "node12"),
        ("metrics/node_infiniband_link.json", None),
        ("dump.txt", None),
        ("x/show_interfaces.txt", "x"),
    ],
)
def test_the_machine_that_a_path_names(path: str, machine: str | None) -> None:
    assert Machines(["node12", "node13.cluster"]).of_path(path) == machine


def test_one_machine_under_several_names() -> None:
    machines = Machines(["node-a.cluster.local", "node-b"], {"pod-7": "node-b"})
    machines.address("10.0.0.7", "node-b")
    assert [machines.name(n) for n in ("node-a:9100", "NODE-A", "node-a.cluster.local")] == ["node-a.cluster.local"] * 3
    assert [machines.name(n) for n in ("pod-7", "10.0.0.7:57400")] == ["node-b"] * 2
    assert machines.name("leaf1:57400") == "leaf1"


def test_hosts_of_two_domains_are_two_machines() -> None:
    machines = Machines(["gpu1.rack-a", "gpu1.rack-b"])
    assert [machines.name(n) for n in ("gpu1.rack-a", "GPU1.rack-b:9100", "gpu1")] == ["gpu1.rack-a", "gpu1.rack-b", "gpu1"]
    others = Machines([])
    assert [others.name(n) for n in ("x.a:9100", "x.b:9100")] == ["x.a", "x.b"]


def test_addresses_with_colons_are_whole() -> None:
    machines = Machines([])
    names = ["fd00::1:11", "fd00::1:12", "[fd00::1]:9100", "[fd00::2]:9100"]
    assert [machines.name(n) for n in names] == ["fd00::1:11", "fd00::1:12", "fd00::1", "fd00::2"]


@pytest.mark.parametrize(
    ("path", "machine"),
    [
        ("counters/node-1-bmc/x.prom", "node-1-bmc"),
        ("node-2/0/link.json", "node-2"),
        ("counters/node-2/gpu_counters.csv", "node-2"),
        ("counters/node-10/ports_node-1.txt", "node-10"),
        ("counters/node-0_99991231T235959Z.prom", "node-0_99991231T235959Z"),
    ],
)
def test_a_folder_says_more_than_a_word_in_a_name(path: str, machine: str) -> None:
    assert (Machines(["node-1", "node-10", "gpu"]).of_path(path) or "").startswith(machine[:6])
    assert moment_of_path(path) is None


def test_of_two_cables_that_claim_one_port_the_second_is_told() -> None:
    cables = [{"a_node": "node1", "a_device": f"mlx5_{n}", "a_port": "1", "b_node": "leaf1", "b_port": "4", "origin": "table"} for n in (0, 1)]
    fabric = fabric_tables(_tables(cables=cables), Sources(["f"], ["x"], {}), _job(["node1"]), Stated())
    assert fabric.frames["links"].height == 1
    assert [(n.code, n.count) for n in fabric.notices] == [("contradictory-cable", 1)]


def test_a_switch_without_a_name_is_called_by_its_address() -> None:
    cables = [
        {"a_node": "node1", "a_port": "eth0", "b_node": "leaf1", "b_uid": "0c42a1000007", "b_port": "1", "origin": "lldp"},
        {"a_node": "node2", "a_port": "eth0", "b_uid": "0c42a1000007", "b_port": "2", "origin": "lldp"},
        {"a_node": "node2", "a_port": "eth1", "b_uid": "0c42a1000008", "b_port": "²", "origin": "lldp"},
    ]
    fabric = fabric_tables(_tables(cables=cables), Sources(["f"], ["x"], {}), _job(["node1", "node2"]), Stated())
    found = fabric.frames["links"].select("a_node", "b_node", "b_port").rows()
    assert found == [("node1", "leaf1", "1"), ("node2", "leaf1", "2"), ("node2", "0c42a1000008", "²")]


def test_what_has_no_cable_is_no_link() -> None:
    names = ["lo", "docker0", "veth12ab", "bond0", "eth0.100", "eth0"]
    samples = [_sample("node1", n, S, 1, device_kind="netdev") for n in names] + [_sample("node2", n, S, 1, device_kind="netdev") for n in names]
    samples.append(_sample("node2", "mlx5_0", S, 1, device_kind="rdma"))
    fabric = fabric_tables(_tables(counter_samples=samples), Sources(["f"], ["iproute"], {}), _job(["node1", "node2"]), Stated())
    assert fabric.frames["links"].select("a_node", pl.coalesce("a_device", "a_port")).rows() == [("node1", "eth0"), ("node2", "mlx5_0")]


def test_the_zone_of_a_file_on_both_sides_of_a_change_of_time() -> None:
    """Berlin sets its clocks back at 03:00 on 2026-10-25: 00:30 is 22:30 UTC, 05:30 is 04:30 UTC."""
    day = 1_792_886_400 * S  # 2026-10-25T00:00:00Z
    local = [day + minutes * 60 * S for minutes in (30, 330)]
    samples = [_sample("node1", "eth0", t, n, time_quality="local") for n, t in enumerate(local)]
    sources = Sources(["f"], ["ethtool"], {}, {0: ZoneInfo("Europe/Berlin")})
    fabric = fabric_tables(_tables(counter_samples=samples), sources, _job(["node1"]), Stated())
    assert fabric.frames["counters"]["source_ts_ns"].to_list() == [day - 90 * 60 * S, day + 270 * 60 * S]


def test_an_address_that_two_claim_names_neither() -> None:
    machines = Machines(["a1", "a2"])
    machines.address("10.0.0.1", "a1")
    machines.address("10.0.0.1", "a2")
    assert machines.name("10.0.0.1") == "10.0.0.1"


@pytest.mark.parametrize(
    ("path", "moment"),
    [
        ("n/1767098896.664/x", (1_767_098_896_664_000_000, True)),
        ("COUNTERS_DB_20250315T150147.861689Z.json", (1_742_050_907_861_689_000, True)),
        ("n/2025-03-15_15-01-47.ethtool.txt", (1_742_050_907 * S, False)),
        ("n/2025-03-15T15:01:47+02:00.txt", (1_742_043_707 * S, True)),
        ("mlx5_0/ports/1/counters/port_xmit_data", None),
        ("job-20251301T000000/x", None),
    ],
)
def test_the_moment_that_a_path_states(path: str, moment: tuple[int, bool] | None) -> None:
    assert moment_of_path(path) == moment


def _row(**values: object) -> dict[str, object]:
    empty = dict.fromkeys(("kind", "device", "netdev", "alias", "port", "uid", "pci", "speed_bps", "cable", "origin"))
    return {**empty, "machine": "h", **values}


def test_interfaces_that_share_a_name_are_one_adapter() -> None:
    adapters = Adapters([_row(device="mlx5_0", netdev="eth0"), _row(netdev="eth0", speed_bps=100), _row(device="mlx5_0", uid="aa"), _row(netdev="eth1")])
    assert [(a.name, sorted(a.names), a.speed_bps, a.uid) for a in adapters.all] == [("eth1", ["eth1"], None, None), ("mlx5_0", ["eth0", "mlx5_0"], 100, "aa")]
    assert adapters.find("h", "eth0") is adapters.find("x", uid="aa")


def test_two_ports_of_a_device_are_two_adapters() -> None:
    adapters = Adapters([_row(device="mlx4_0", port=1), _row(device="mlx4_0", port=2)])
    assert [a.name for a in adapters.all] == ["mlx4_0", "mlx4_0/2"]
    assert adapters.find("h", "mlx4_0") is None  # which of the two?
    assert adapters.find("h", "mlx4_0/2") is adapters.all[1]


def _table(spec: TableSpec, rows: list[dict[str, Any]]) -> pl.LazyFrame:
    full = [dict.fromkeys(spec.names) | {"source_id": 0, "line": n} | row for n, row in enumerate(rows, 1)]
    return pl.DataFrame(full, schema=spec.polars).lazy()


def _sample(node: str | None, device: str, ts: int | None, raw: int, **other: Any) -> dict[str, Any]:
    base = {"node": node, "device": device, "device_kind": "switch-port", "counter": "bytes", "raw_name": "octets", "raw": raw, "scale": 1.0, "unit": "byte"}
    return base | {"kind": "counter", "width": 64, "saturates": False, "source_ts_ns": ts, "time_quality": "device", "direction": "tx"} | other


def _job(hosts: list[str], window: tuple[int, int] | None = None) -> Job:
    ranks = pl.DataFrame(
        {"rank": range(len(hosts)), "host": hosts, "device": [0] * len(hosts)}, schema={"rank": pl.Int32, "host": pl.String, "device": pl.Int32}
    )
    return Job(ranks, CLOCKS.empty(), EDGES.empty(), NET_DEVICES.empty(), window)


def _tables(**rows: list[dict[str, Any]]) -> dict[str, pl.LazyFrame]:
    return {spec.name: _table(spec, rows.get(spec.name, [])) for spec in (COUNTER_SAMPLES, INTERFACES, CABLES, ADAPTER_PATHS)}


LLDP = {"a_port": "eth0", "b_node": "leaf1", "b_kind": "switch", "b_port": "Ethernet0", "origin": "lldp"}


def test_from_a_host_to_its_switch_and_on() -> None:
    """Two hosts, each with its own file of neighbours; a switch with four ports that count, two of them to the hosts."""
    cables: list[dict[str, Any]] = [LLDP | {"source_id": 0}, LLDP | {"source_id": 1, "b_port": "Ethernet4"}]
    samples = [_sample("leaf1:57400", f"Ethernet{n}", s * S, n + s, source_id=2) for n in (0, 4, 8, 12) for s in (1, 2)]
    sources = Sources(["lldp/node1.json", "lldp/node2.json", "switch/x.json"], ["lldp", "lldp", "gnmic"], {})
    fabric = fabric_tables(_tables(cables=cables, counter_samples=samples), sources, _job(["node1", "node2"]), Stated())
    links = fabric.frames["links"].select("a_node", "a_port", "b_node", "b_port", "tier", "a_series", "b_series").rows()
    assert links == [
        ("node1", "eth0", "leaf1", "Ethernet0", 0, False, True),
        ("node2", "eth0", "leaf1", "Ethernet4", 0, False, True),
        ("leaf1", "Ethernet12", None, None, 1, True, False),
        ("leaf1", "Ethernet8", None, None, 1, True, False),
    ]
    assert fabric.frames["endpoints"].select("rank", "device", "link", "share", "origin").rows() == [(0, "eth0", 0, 1.0, "order"), (1, "eth0", 1, 1.0, "order")]


def test_an_adapter_that_carries_nothing_is_none_of_the_job() -> None:
    """Each host has an adapter that carries 1,000 bytes a second and one that carries 10: the GPUs use the first, a lower bound counts as used."""
    cables: list[dict[str, Any]] = [LLDP | {"source_id": n // 2, "a_port": f"eth{n % 2}", "b_port": f"Ethernet{n}"} for n in range(4)]
    counts = {("node1", "eth0"): 1000, ("node1", "eth1"): 10, ("node2", "eth0"): 10, ("node2", "eth1"): 1000}
    samples = [_sample(node, device, s * S, 5000 + s * much, source_id=2) for (node, device), much in counts.items() for s in (1, 2)]
    sources = Sources(["lldp/node1.json", "lldp/node2.json", "x.csv"], ["lldp", "lldp", "counter-csv"], {})

    def used(rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
        fabric = fabric_tables(_tables(cables=cables, counter_samples=rows), sources, _job(["node1", "node2"]), Stated())
        return fabric.frames["endpoints"].select("rank", "device").rows()

    assert used(samples) == [(0, "eth0"), (1, "eth1")]
    reset = [row | {"raw": 3} if (row["node"], row["device"], row["source_ts_ns"]) == ("node1", "eth1", 2 * S) else row for row in samples]
    assert sorted(used(reset)) == [(0, "eth0"), (0, "eth1"), (1, "eth1")]


def test_a_cable_stated_from_both_ends_is_one_link() -> None:
    there = {
        "a_node": "leaf1",
        "a_kind": "switch",
        "a_port": "3",
        "b_node": "node1",
        "b_kind": "host",
        "b_device": "mlx5_0",
        "b_port": "1",
        "origin": "ibnetdiscover",
    }
    back = {
        "a_node": "node1",
        "a_kind": "host",
        "a_device": "mlx5_0",
        "a_port": "1",
        "b_node": "leaf1",
        "b_kind": "switch",
        "b_port": "3",
        "origin": "ibnetdiscover",
    }
    fabric = fabric_tables(_tables(cables=[there | {"speed_bps": 200}, back]), Sources(["f"], ["ibnetdiscover"], {}), _job(["node1"]), Stated())
    assert fabric.frames["links"].select("a_node", "a_device", "b_node", "b_port", "speed_bps").rows() == [("node1", "mlx5_0", "leaf1", "3", 200)]


def test_the_nearest_adapter_of_a_gpu() -> None:
    cables = [{"a_node": "node1", "a_device": f"mlx5_{n}", "a_port": "1", "b_node": "leaf1", "b_port": str(n), "origin": "table"} for n in (0, 1)]
    paths = [{"node": "node1", "gpu": 0, "device": d, "path": p, "origin": "nvidia-smi"} for d, p in (("mlx5_0", "SYS"), ("mlx5_1", "PIX"))]
    fabric = fabric_tables(_tables(cables=cables, adapter_paths=paths), Sources(["f"], ["x"], {}), _job(["node1"]), Stated())
    assert fabric.frames["endpoints"].select("rank", "device", "origin").rows() == [(0, "mlx5_1", "affinity")]


def test_counters_of_no_machine_are_left_out_and_told() -> None:
    fabric = fabric_tables(_tables(counter_samples=[_sample(None, "eth0", S, 1)]), Sources(["dump.txt"], ["ethtool"], {}), _job(["node1"]), Stated())
    assert fabric.frames["counters"].height == 0
    assert [(n.code, n.count) for n in fabric.notices] == [("counters-without-machine", 1)]


def test_moments_without_a_zone_are_moved_beside_the_captures() -> None:
    """The file says 12:00, the captures were taken at 10:00 UTC: its zone was UTC+2, and that is said."""
    ten = 1_767_607_200 * S
    samples = [_sample("node1", "eth0", ten + 2 * 3600 * S + s * S, s, time_quality="local") for s in (0, 1)]
    fabric = fabric_tables(_tables(counter_samples=samples), Sources(["f"], ["ethtool"], {}), _job(["node1"], (ten, ten + 10 * S)), Stated())
    assert fabric.frames["counters"]["ts_ns"].to_list() == [ten, ten + S]
    assert [n.code for n in fabric.notices] == ["zone-assumed"]
    assert "UTC+2 h" in fabric.notices[0].text


def test_times_of_a_host_are_put_on_the_aligned_clock() -> None:
    clocks = CLOCKS.conform(
        pl.DataFrame(
            {"host": ["node1"], "start_ns": [0], "offset_ns": [500], "drift_ppm": [0.0], "uncertainty_ns": [1], "method": ["collective-ends"], "grade": ["A"]},
            schema=CLOCKS.polars,
        )
    )
    samples = [
        _sample("node1", "eth0", S, 1, time_quality="file"),
        _sample("leaf1", "Ethernet0", S, 1),
        _sample("node1", "eth1", S, 1, time_quality="collector"),
    ]
    job = _job(["node1"])
    fabric = fabric_tables(_tables(counter_samples=samples), Sources(["f"], ["x"], {}), Job(job.ranks, clocks, job.edges, job.net_devices, None), Stated())
    found = fabric.frames["counters"].sort("device").select("clock", "ts_ns").rows()
    assert sorted(found) == [("collector", S), ("leaf1", S), ("node1", S + 500)]


def test_a_device_that_only_its_local_address_names() -> None:
    interfaces = [{"node": "leaf9", "node_kind": "switch", "port": 3, "lid": 21, "origin": "ibnetdiscover"}]
    samples = [_sample(None, "lid 21", S, 1, port=3, device_kind="rdma")]
    fabric = fabric_tables(_tables(interfaces=interfaces, counter_samples=samples), Sources(["f"], ["perfquery"], {}), _job(["node1"]), Stated())
    assert fabric.frames["counters"].select("node", "node_kind", "device", "port").rows() == [("leaf9", "switch", None, 3)]


def test_a_machine_that_a_tool_names_by_its_guid() -> None:
    interfaces = [{"node": "leaf9", "node_kind": "switch", "node_uid": "b8599f0300c20000", "port": 3, "origin": "ibnetdiscover"}]
    samples = [_sample("b8599f0300c20000", "3", S, 1)]
    fabric = fabric_tables(_tables(interfaces=interfaces, counter_samples=samples), Sources(["f"], ["ufm"], {}), _job(["node1"]), Stated())
    assert fabric.frames["counters"]["node"].to_list() == ["leaf9"]


def test_what_the_user_states() -> None:
    """The speed of links that no source states, the adapter of a rank, the zone of a file."""
    ten = 1_767_607_200 * S
    cables = [{"a_node": "node1", "a_device": f"mlx5_{n}", "a_port": "1", "b_node": "leaf1", "b_port": str(n), "origin": "table"} for n in (0, 1)]
    samples = [_sample("node1", "mlx5_0", ten + 3600 * S, 1, time_quality="local")]
    stated = Stated(link_bps=400, adapters={0: "mlx5_1"})
    sources = Sources(["f"], ["ethtool"], {}, {0: timezone(timedelta(hours=1))})
    fabric = fabric_tables(_tables(cables=cables, counter_samples=samples), sources, _job(["node1"]), stated)
    assert fabric.frames["links"].select("speed_bps", "speed_origin").rows() == [(400, "manifest")] * 2
    assert fabric.frames["endpoints"].select("rank", "device", "origin").rows() == [(0, "mlx5_1", "manifest")]
    assert fabric.frames["counters"]["ts_ns"].to_list() == [ten]
