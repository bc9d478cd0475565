"""What a host's network tools and its device tree say: hand-made outputs, and real files read by eye."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.builders.host_counters import ethtool_log, grep_text, ip_link, write_all, write_tree
from tracelab.ingest.heads import read_head
from tracelab.plugins import Notice, Parser, SourceFile, SourceInfo
from tracelab.tables import TableSpec
from tracelab_parsers.counters.ethtool import PARSER as ETHTOOL
from tracelab_parsers.counters.headings import Heading, heading_of
from tracelab_parsers.counters.iproute import PARSER as IPROUTE
from tracelab_parsers.counters.names_ethernet import ethtool_meaning
from tracelab_parsers.counters.names_infiniband import infiniband_meaning
from tracelab_parsers.counters.sysfs import PARSER as SYSFS

S = 1_000_000_000
TEN = 1_767_607_200 * S
"""2026-01-05T10:00:00Z (date -d 2026-01-05T10:00:00Z +%s)."""


class Kept:
    """An emitter that keeps everything."""

    def __init__(self) -> None:
        self.batches: dict[str, list[pl.DataFrame]] = {}
        self.notices: list[Notice] = []

    def batch(self, table: TableSpec, batch: Any) -> None:
        frame = pl.DataFrame(pl.from_arrow(batch))
        self.batches.setdefault(table.name, []).append(frame.with_columns(pl.col(pl.Categorical).cast(pl.String)))

    def notice(self, notice: Notice) -> None:
        self.notices.append(notice)

    def progress(self, bytes_read: int) -> None:
        assert bytes_read >= 0


def read(parser: Parser, path: Path) -> tuple[dict[str, pl.DataFrame], dict[str, int], SourceInfo]:
    assert parser.sniff(path, read_head(path).data) is not None
    emit = Kept()
    info = parser.parse(SourceFile(path, path.name), emit)
    return {n: pl.concat(b) for n, b in emit.batches.items()}, {n.code: n.count for n in emit.notices}, info


def text(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "out.log"
    path.write_text(content, encoding="utf-8")
    return path


def test_ethtool_and_rdma_one_after_another(tmp_path: Path) -> None:
    tables, notices, info = read(ETHTOOL, text(tmp_path, ethtool_log()))
    samples = tables["counter_samples"]
    assert notices == {}
    assert not info.truncated
    assert samples.height == 4 * 7 + 4 * 4
    sent = samples.filter(pl.col("raw_name") == "tx_bytes_phy").select("source_ts_ns", "node", "device", "direction", "counter", "raw", "unit", "time_quality")
    assert sent.rows() == [
        (TEN + second * S + 250_000_000, "node-a", device, "tx", "bytes", 2**53 + 1 + second, "byte", "file")
        for second in (1, 2)
        for device in ("eth0", "eth1")
    ]
    paused = samples.filter(pl.col("counter") == "pfc_pause_us").select("priority", "direction", "value").unique().rows()
    assert paused == [(3, "rx", 17.0)]
    late = samples.filter(pl.col("counter") == "out_of_sequence").select("device", "port", "raw").rows()
    assert late == [("mlx5_0", 1, 3), ("mlx5_1", 1, 3), ("mlx5_0", 1, 6), ("mlx5_1", 1, 6)]
    assert samples.filter(pl.col("raw_name") == "strange counter")["counter"].unique().to_list() == ["vendor.strange counter"]
    assert tables["interfaces"].select("device", "netdev", "port", "up", "origin").rows() == [
        ("mlx5_0", "eth0", 1, True, "ibdev2netdev"),
        ("mlx5_1", "eth1", 1, False, "ibdev2netdev"),
    ]


def test_settings_and_driver_describe_the_interface(tmp_path: Path) -> None:
    content = "# ethtool eth7\nSettings for eth7:\n\tSpeed: 200000Mb/s\n\tLanes: 4\n\tLink detected: yes\n"
    content += "# ethtool -i eth7\ndriver: mlx5_core\nbus-info: 0000:5E:00.0\n"
    tables, notices, _ = read(ETHTOOL, text(tmp_path, content))
    assert notices == {}
    found = tables["interfaces"].select("netdev", "speed_bps", "lanes", "up", "pci").rows()
    assert found == [("eth7", 200_000_000_000, 4, True, None), ("eth7", None, None, None, "0000:5e:00.0")]


@pytest.mark.parametrize(
    ("line", "raw", "notice"),
    [
        ("     x: 1,234,567", 1_234_567, {}),
        ("     x: N/A", None, {}),
        ("     x: 0x1f", 31, {}),
        ("     x: maybe", None, {"bad-number": 1}),
        ("     x: -5", None, {"counter-out-of-range": 1}),
    ],
)
def test_numbers_as_people_find_them(line: str, raw: int | None, notice: dict[str, int], tmp_path: Path) -> None:
    tables, notices, _ = read(ETHTOOL, text(tmp_path, f"NIC statistics:\n     a: 1\n{line}\n     b: 2\n"))
    assert tables["counter_samples"].filter(pl.col("raw_name") == "x")["raw"].to_list() == [raw]
    assert notices == notice


def test_a_number_that_may_be_cut_is_dropped(tmp_path: Path) -> None:
    tables, notices, info = read(ETHTOOL, text(tmp_path, "NIC statistics:\n     a: 12\n     b: 34"))
    assert tables["counter_samples"]["raw_name"].to_list() == ["a"]
    assert notices == {"truncated": 1}
    assert info.truncated


def test_the_tree_of_devices(tmp_path: Path) -> None:
    first = write_tree(tmp_path)
    tables, notices, _ = read(SYSFS, first)
    samples = tables["counter_samples"]
    assert notices == {}
    sent = samples.filter(pl.col("raw_name") == "port_xmit_data").select("device", "port", "counter", "direction", "raw", "scale", "value")
    assert sent.rows() == [(d, 1, "bytes", "tx", 1_000_000_007, 4.0, 4_000_000_028.0) for d in ("mlx5_0", "mlx5_1")]
    full = samples.filter(pl.col("raw_name") == "link_downed").select("raw", "width", "saturates", "flags").unique().rows()
    assert full == [(255, 8, True, "saturated")]
    assert samples.filter(pl.col("raw_name") == "symbol_error").select("raw", "value").unique().rows() == [(None, None)]
    assert "lifespan" not in samples["raw_name"]
    assert tables["interfaces"].select("device", "speed_bps", "lanes", "up", "link_layer", "uid").rows() == [
        (d, 400_000_000_000, 4, True, "InfiniBand", "0c42a10300000001") for d in ("mlx5_0", "mlx5_1")
    ]


def test_only_the_first_file_of_a_tree_is_claimed(tmp_path: Path) -> None:
    first = write_tree(tmp_path)
    claimed = [p for p in sorted(tmp_path.rglob("*")) if p.is_file() and SYSFS.sniff(p, read_head(p).data)]
    assert claimed == [first]
    gathering = SYSFS.companions(first)
    assert gathering is not None
    assert gathering.root == tmp_path
    assert set(gathering.files) == {p for p in tmp_path.rglob("*") if p.is_file()}


def test_the_text_of_a_tree_says_the_same(tmp_path: Path) -> None:
    tree, _, _ = read(SYSFS, write_tree(tmp_path / "tree"))
    grep, notices, _ = read(SYSFS, text(tmp_path, grep_text()))
    assert notices == {}
    columns = ["device", "port", "counter", "raw_name", "raw", "scale", "flags"]
    moments = grep["counter_samples"].partition_by("source_ts_ns", as_dict=True)
    assert sorted(moments) == [(TEN + S,), (TEN + 2 * S,)]
    for part in moments.values():
        assert part.select(columns).sort(columns).equals(tree["counter_samples"].select(columns).sort(columns))
        assert part.select("node", "time_quality").unique().rows() == [("node-a", "local")]


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("=== 2026-01-05T10:00:00.5Z n1 ethtool -S eth0", Heading(TEN + 500_000_000, "file", "n1", "ethtool -S eth0")),
        ("### 2026-01-05 10:00:00 leaf1 perfquery -x 100", Heading(TEN, "local", "leaf1", "perfquery -x 100")),
        ("Mon Jan  5 10:00:00 UTC 2026", Heading(TEN, "file", None, None)),
        ("# ethtool -S eth0", Heading(None, None, None, "ethtool -S eth0")),
        ("root@n1:~# ethtool -S eth0", Heading(None, None, "n1", "ethtool -S eth0")),
        ("# a remark", None),
        ("     rx_packets: 5", None),
    ],
)
def test_headings(line: str, heading: Heading | None) -> None:
    assert heading_of(line) == heading


@pytest.mark.parametrize(
    ("name", "counter", "direction", "priority"),
    [
        ("rx_prio5_pause", "pfc_pause_frames", "rx", 5),
        ("rx_pfc_ena_frames_pri3", "pfc_pause_frames", "rx", 3),
        ("pfc_pri3_rx_duration_us", "pfc_pause_us", "rx", 3),
        ("rx_priority_3_xoff.nic", "pfc_pause_frames", "rx", 3),
        ("tx_global_pause", "global_pause_frames", "tx", None),
        ("rx_vport_rdma_unicast_bytes", "rdma_bytes", "rx", None),
        ("rx_bytes", "vendor.netdev_bytes", "rx", None),
        ("link_down_events_phy", "link_down_events", None, None),
    ],
)
def test_names_of_drivers(name: str, counter: str, direction: str | None, priority: int | None) -> None:
    m = ethtool_meaning(name)
    assert (m.counter, m.direction, m.priority) == (counter, direction, priority)


@pytest.mark.parametrize("name", ["port_xmit_data", "PortXmitData", "PortXmitDataExtended", "XmtData"])
def test_one_counter_has_many_spellings(name: str) -> None:
    m = infiniband_meaning(name)
    assert (m.counter, m.direction, m.scale, m.saturates) == ("bytes", "tx", 4.0, False)


def test_the_samples_are_what_the_builder_writes(tmp_path: Path) -> None:
    write_all(tmp_path)
    committed = Path(__file__).resolve().parents[2] / "sample_traces"
    written = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert {p: (committed / p).read_bytes() for p in written} == {p: (tmp_path / p).read_bytes() for p in written}


def test_real_host_statistics(test_data: Callable[[str], Path]) -> None:
    """node_exporter's e1000e fixture: two names that differ by a space only, and an interface of 1 Gb/s."""
    folder = test_data("counters/ethtool")
    tables, _, _ = read(ETHTOOL, folder / "nodeexp_eth0_statistics.txt")
    found = dict(tables["counter_samples"].select("raw_name", "raw").iter_rows())
    assert found["tx_packets"] == 961_500
    assert found["port.rx_dropped"] == 12_028
    assert {"duplicate metric", "duplicate_metric"} <= set(found)
    assert tables["counter_samples"]["device"].unique().to_list() == ["eth0"]
    tables, _, _ = read(ETHTOOL, folder / "nodeexp_eth0_settings.txt")
    assert tables["interfaces"].select("netdev", "speed_bps", "up").rows() == [("eth0", 1_000_000_000, True)]


def test_real_device_trees(test_data: Callable[[str], Path]) -> None:
    """procfs' fixture (three devices, one with two ports) and an H100 host's, whose old error counters stand at their highest value."""
    tables, _, _ = read(SYSFS, test_data("counters/sysfs_infiniband") / "hfi1_0/ports/1/counters/VL15_dropped")
    assert tables["interfaces"].select("device", "port", "speed_bps").rows() == [
        ("hfi1_0", 1, 100_000_000_000),
        ("mlx4_0", 1, 40_000_000_000),
        ("mlx4_0", 2, 40_000_000_000),
        ("mlx5_0", 1, 25_000_000_000),
    ]
    tables, _, _ = read(SYSFS, test_data("counters/sysfs_infiniband_h100") / "mlx5_0/ports/1/counters/VL15_dropped")
    full = tables["counter_samples"].filter(pl.col("flags") == "saturated").select("device", "raw_name", "raw").rows()
    assert ("mlx5_0", "excessive_buffer_overrun_errors", 15) in full


def test_interfaces_as_ip_lists_them(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("# node-a 2026-01-05T10:00:00Z\n" + json.dumps(ip_link()), encoding="utf-8")
    tables, _, _ = read(IPROUTE, path)
    samples = tables["counter_samples"].select("device", "device_kind", "direction", "counter", "raw", "unit").rows()
    assert ("eth0", "netdev", "tx", "vendor.netdev_bytes", 2**53 + 1, "byte") in samples
    assert ("eth0", "netdev", "rx", "errors", 1, "packet") in samples
    found = tables["interfaces"].select("netdev", "alias", "uid", "address", "mtu", "up", "origin").rows()
    assert found == [("eth0", "enp94s0", "0c42a1000007", "10.0.0.7", 9000, True, "ip")]


def test_counters_as_rdma_lists_them(test_data: Callable[[str], Path]) -> None:
    tables, notices, _ = read(IPROUTE, test_data("counters/synthetic") / "rdma_statistic_show.json")
    found = {name: (device, port, raw) for name, device, port, raw in tables["counter_samples"].select("raw_name", "device", "port", "raw").iter_rows()}
    assert notices == {}
    assert found["rx_read_requests"] == ("mlx5_0", 1, 175_528_982)
    assert found["local_ack_timeout_err"] == ("mlx5_0", 1, 131)
    assert "ifindex" not in found


def test_real_interfaces(test_data: Callable[[str], Path]) -> None:
    tables, notices, _ = read(IPROUTE, test_data("counters/ip_link_json") / "local_ip_s_j_link.json")
    assert notices == {}
    assert tables["interfaces"].filter(pl.col("netdev") == "lo").select("mtu", "uid").rows() == [(65_536, None)]
    assert tables["counter_samples"].filter((pl.col("device") == "lo") & (pl.col("raw_name") == "rx_bytes"))["raw"].to_list() == [3193]
