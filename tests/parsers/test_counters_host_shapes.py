"""The shapes in which people hand over the outputs of hosts: loops, parallel shells, filters, pasted screens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.counters_host import parse, parse_text, tree
from tracelab.ingest.heads import read_head
from tracelab.plugins import parsers
from tracelab_parsers.counters.ethtool import PARSER as ETHTOOL
from tracelab_parsers.counters.iproute import PARSER as IPROUTE
from tracelab_parsers.counters.sysfs import PARSER as SYSFS

S = 1_000_000_000
TEN = 1_767_607_200 * S
"""2026-01-05T10:00:00Z (date -d 2026-01-05T10:00:00Z +%s)."""
STATISTICS = "NIC statistics:\n     tx_bytes_phy: {}\n"
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tNode GUID: 0x0c42a10300000010
\tSystem image GUID: 0x0c42a10300000010
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 42
\t\tSM lid: 1
\t\tPort GUID: 0x0c42a10300000011
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4129
\tPort 1:
\t\tState: Down
\t\tRate: 40
\t\tPort GUID: 0x0000000000000000
\t\tLink layer: Ethernet
"""


@pytest.mark.parametrize(
    ("before", "stated"),
    [
        ("=== 2026-01-05T10:00:00.25Z node-a ethtool -S eth0\n", ("node-a", "eth0", TEN + S // 4, "file")),
        ("# ethtool -S eth0\n", (None, "eth0", None, None)),
        ("[root@node-a ~]# ethtool -S eth0\n", ("node-a", "eth0", None, None)),
        ("eth0\n", (None, "eth0", None, None)),
        ("==== eth0 ====\n", (None, "eth0", None, None)),
        ("node7\n", ("node7", None, None, None)),
        ("Mon Jan  5 10:00:00 2026\n# ethtool -S eth0\n", (None, "eth0", TEN, "local")),
        ("Mon Jan  5 10:00:00 UTC 2026\neth0:\n", (None, "eth0", TEN, "file")),
        ("1767607200.5\n# ethtool -S eth0\n", (None, "eth0", TEN + S // 2, "file")),
        ("--------------\nnode7\n--------------\neth0\n", ("node7", "eth0", None, None)),
    ],
)
def test_what_stands_above_statistics(before: str, stated: tuple[object, ...], tmp_path: Path) -> None:
    out = parse_text(ETHTOOL, tmp_path, before + STATISTICS.format(7))
    assert out.counters("node", "device", "source_ts_ns", "time_quality") == [stated]
    assert out.counters("counter", "direction", "raw") == [("bytes", "tx", 7)]
    assert out.notices == {}


def test_statistics_that_a_filter_has_cut_out(tmp_path: Path) -> None:
    out = parse_text(ETHTOOL, tmp_path, "$ ethtool -S eth0 | grep prio3_pause\n     rx_prio3_pause: 12\n     rx_prio3_pause_duration: 345\n")
    assert out.counters("device", "counter", "priority", "value", "unit") == [
        ("eth0", "pfc_pause_frames", 3, 12.0, "packet"),
        ("eth0", "pfc_pause_us", 3, 345.0, "us"),
    ]


def test_lines_that_a_parallel_shell_has_mixed(tmp_path: Path) -> None:
    text = "n1: NIC statistics:\nn2: NIC statistics:\nn1:      tx_bytes_phy: 1\nn2:      tx_bytes_phy: 2\nn3: mlx5_0 port 1 ==> ens1 (Up)\n"
    out = parse_text(ETHTOOL, tmp_path, text)
    assert out.counters("node", "raw") == [("n1", 1), ("n2", 2)]
    assert out.interfaces("node", "device", "netdev", "up") == [("n3", "mlx5_0", "ens1", True)]


def test_hosts_that_printed_the_same_each_have_it(tmp_path: Path) -> None:
    rule = "-" * 16
    out = parse_text(ETHTOOL, tmp_path, f"{rule}\ngpu[08-09]\n{rule}\nmlx5_0 port 1 ==> ens1 (Up)\n{rule}\ngpu10\n{rule}\nmlx5_0 port 1 ==> ens1 (Down)\n")
    assert out.interfaces("node", "up") == [("gpu08", True), ("gpu09", True), ("gpu10", False)]


def test_a_stray_line_does_not_end_the_statistics(tmp_path: Path) -> None:
    out = parse_text(ETHTOOL, tmp_path, "NIC statistics:\n     rx_bytes_phy: 1\n[ 12.5] mlx5_core 0000:17:00.0: link down\n     tx_bytes_phy: 2\n")
    assert out.counters("raw") == [(1,), (2,)]
    assert out.notices == {"unread-lines": 1}


def test_bytes_of_a_broadcom_port_are_not_the_kernels(tmp_path: Path) -> None:
    """bnxt prints its port's bytes under the name that other drivers use for what passed the kernel."""
    text = "# ethtool -S eth0\nNIC statistics:\n     [0]: rx_ucast_packets: 3\n     rx_total_frames: 7\n     rx_bytes: 900\n# ethtool -S eth1\n"
    out = parse_text(ETHTOOL, tmp_path, text + "NIC statistics:\n     rx_packets: 2\n     rx_bytes: 5\n")
    assert out.counters("device", "raw_name", "counter") == [
        ("eth0", "[0]: rx_ucast_packets", "vendor.[0]: rx_ucast_packets"),
        ("eth0", "rx_total_frames", "packets"),
        ("eth0", "rx_bytes", "bytes"),
        ("eth1", "rx_packets", "vendor.netdev_packets"),
        ("eth1", "rx_bytes", "vendor.netdev_bytes"),
    ]


def test_rdma_statistic_on_lines_of_their_own_and_of_queue_pairs(tmp_path: Path) -> None:
    text = "link mlx5_0/1\n    rx_write_requests 5\n    out_of_sequence 7\nlink mlx5_0/1 cntn 3 rx_write_requests 4\n"
    out = parse_text(ETHTOOL, tmp_path, text)
    assert out.counters("device", "port", "raw_name", "raw") == [("mlx5_0", 1, "rx_write_requests", 5), ("mlx5_0", 1, "out_of_sequence", 7)]


def test_rdma_link_is_no_counter(tmp_path: Path) -> None:
    first = "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 13399 sm_lid 49151 lmc 0 state ACTIVE physical_state LINK_UP\n"
    out = parse_text(ETHTOOL, tmp_path, first + "link mlx5_1/1 state DOWN physical_state DISABLED netdev ens1f0np0\n")
    assert out.interfaces("device", "port", "lid", "netdev", "up") == [("mlx5_0", 1, 13_399, None, True), ("mlx5_1", 1, None, "ens1f0np0", False)]
    assert out.counters("raw") == []


def test_ibstat(tmp_path: Path) -> None:
    out = parse_text(ETHTOOL, tmp_path, "node-a\n" + IBSTAT)
    columns = ("node", "device", "port", "node_uid", "uid", "lid", "speed_bps", "link_layer", "up")
    assert out.interfaces(*columns) == [
        ("node-a", "mlx5_0", 1, "0c42a10300000010", "0c42a10300000011", 42, 400 * S, "InfiniBand", True),
        ("node-a", "mlx5_1", 1, None, None, None, 40 * S, "Ethernet", False),
    ]
    assert out.notices == {}


def test_ibdev2netdev_with_details(tmp_path: Path) -> None:
    line = "0000:17:00.0 mlx5_1 (MT4129 - MCX75310AAS-NEAT) ConnectX-7 HCA fw 28.36.1010 port 1 (ACTIVE) ==> ibp23s0 (Down)\n"
    out = parse_text(ETHTOOL, tmp_path, line)
    assert out.interfaces("pci", "device", "port", "netdev", "up") == [("0000:17:00.0", "mlx5_1", 1, "ibp23s0", False)]


COUNTER = "sys/class/infiniband/mlx5_0/ports/1/counters"


@pytest.mark.parametrize(
    ("line", "stated"),
    [
        (f"counters/node12/1767607200.25/{COUNTER}/port_xmit_data:5", ("node12", "mlx5_0", TEN + S // 4, "file", 5)),
        (f"node12/20260105T100000Z/{COUNTER}/port_xmit_data:5", ("node12", "mlx5_0", TEN, "file", 5)),
        (f"node12/2026-01-05_10-00-00/{COUNTER}/port_xmit_data:5", ("node12", "mlx5_0", TEN, "local", 5)),
        (f"run7/{COUNTER}/port_xmit_data:5", (None, "mlx5_0", None, None, 5)),
        (f"/{COUNTER}/port_xmit_data 5", (None, "mlx5_0", None, None, 5)),
        (f"/{COUNTER}/port_xmit_data = 5", (None, "mlx5_0", None, None, 5)),
        (f"/{COUNTER}/port_xmit_data:1:5", (None, "mlx5_0", None, None, 5)),
        (f"node12: /{COUNTER}/port_xmit_data:5", ("node12", "mlx5_0", None, None, 5)),
        ("./ports/1/counters/port_xmit_data:5", (None, None, None, None, 5)),
        ("/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0/infiniband/mlx5_7/ports/1/counters/port_xmit_data:5", (None, "mlx5_7", None, None, 5)),
        (f"==> /{COUNTER}/port_xmit_data <==\n5", (None, "mlx5_0", None, None, 5)),
    ],
)
def test_a_tree_as_text(line: str, stated: tuple[object, ...], tmp_path: Path) -> None:
    out = parse_text(SYSFS, tmp_path, line + "\n")
    assert out.counters("node", "device", "source_ts_ns", "time_quality", "raw") == [stated]
    assert out.counters("counter", "port", "value") == [("bytes", 1, 20.0)]
    assert out.notices == {}


def test_ports_of_several_hosts_in_one_text_stay_apart(tmp_path: Path) -> None:
    hosts = "".join(
        f"n{n}: /sys/class/infiniband/mlx5_0/ports/1/{name}\n" for n in (1, 2) for name in (f"rate:{n}00 Gb/sec (4X NDR)", "counters/link_downed:0")
    )
    assert parse_text(SYSFS, tmp_path, hosts).interfaces("node", "device", "speed_bps", "lanes") == [("n1", "mlx5_0", 100 * S, 4), ("n2", "mlx5_0", 200 * S, 4)]


def test_what_a_tree_says_beside_its_counters(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "mlx5_0/node_guid": "0c42:a103:0000:0010\n",
            "mlx5_0/node_desc": "node-a mlx5_0\n",
            "mlx5_0/fw_ver": "28.39.1002\n",
            "mlx5_0/hw_counters/submitted_cmds": "9\n",
            "mlx5_0/ports/1/counters/excessive_buffer_overrun_errors": "15\n",
            "mlx5_0/ports/1/counters/port_xmit_wait": "4294967295\n",
            "mlx5_0/ports/1/gids/0": "fe80:0000:0000:0000:0c42:a103:0000:0011\n",
            "mlx5_0/ports/1/gids/1": "0000:0000:0000:0000:0000:0000:0000:0000\n",
            "mlx5_0/ports/1/gid_attrs/ndevs/0": "\n",
            "mlx5_0/ports/1/gid_attrs/ndevs/1": "ibp23s0\n",
            "mlx5_0/ports/1/lid": "0x2a\n",
            "mlx5_0/ports/1/link_layer": "InfiniBand\n",
            "mlx5_0/ports/1/state": "1: DOWN\n",
        },
    )
    out = parse(SYSFS, tmp_path / "mlx5_0/ports/1/counters/excessive_buffer_overrun_errors")
    columns = ("node", "device", "port", "node_uid", "uid", "netdev", "lid", "up", "link_layer")
    assert out.interfaces(*columns) == [("node-a", "mlx5_0", 1, "0c42a10300000010", "0c42a10300000011", "ibp23s0", 42, False, "InfiniBand")]
    assert out.counters("raw_name", "port", "raw", "flags") == [
        ("submitted_cmds", None, 9, None),
        ("excessive_buffer_overrun_errors", 1, 15, "saturated"),
        ("port_xmit_wait", 1, 4_294_967_295, "saturated"),
    ]


def test_the_first_counter_of_a_tree_may_be_unreadable(tmp_path: Path) -> None:
    tree(tmp_path, {"mlx5_0/ports/1/counters/a": "", "mlx5_0/ports/1/counters/b": "3\n", "mlx5_1/ports/1/counters/a": "4\n", "mlx5_0/hw_counters/c": "1\n"})
    claimed = [p for p in sorted(tmp_path.rglob("*")) if p.is_file() and SYSFS.sniff(p, read_head(p).data)]
    assert claimed == [tmp_path / "mlx5_0/ports/1/counters/b"]
    assert parse(SYSFS, claimed[0]).counters("device", "raw_name", "raw") == [
        ("mlx5_0", "c", 1),
        ("mlx5_0", "a", None),
        ("mlx5_0", "b", 3),
        ("mlx5_1", "a", 4),
    ]
    (tmp_path / "mlx5_0/ports/1/counters/b").unlink()  # a tree may change while the program runs
    path = tmp_path / "mlx5_1/ports/1/counters/a"
    assert SYSFS.sniff(path, read_head(path).data) is not None


MAC = '"link_type":"ether","address":"aa:bb:cc:dd:ee:01"'


def test_who_keeps_an_address_that_several_interfaces_show(tmp_path: Path) -> None:
    member = f'{{"ifindex":2,"ifname":"eth0","master":"bond0","operstate":"UP",{MAC},"permaddr":"aa:bb:cc:dd:ee:02"}}'
    text = f'[{member},{{"ifindex":3,"ifname":"bond0","operstate":"UP",{MAC}}},{{"ifindex":4,"ifname":"vlan5","link":"bond0","operstate":"DOWN",{MAC}}}]\n'
    out = parse_text(IPROUTE, tmp_path, text)
    assert out.interfaces("netdev", "uid", "bond", "up") == [("eth0", "aabbccddee02", "bond0", True), ("bond0", None, None, True), ("vlan5", None, None, False)]


def test_snapshots_of_ip_below_headings(tmp_path: Path) -> None:
    link = f'[{{"ifindex":2,"ifname":"eth0","mtu":9000,"operstate":"UP",{MAC},"parentdev":"0000:17:00.0","stats64":{{"rx":{{"bytes":%d}}}}}}]\n'
    text = "".join(f"=== 2026-01-05T10:00:0{n}Z node-a ip -s -j link\n" + link % n for n in (1, 2))
    out = parse_text(IPROUTE, tmp_path, text)
    assert out.counters("node", "device", "source_ts_ns", "counter", "raw") == [("node-a", "eth0", TEN + n * S, "vendor.netdev_bytes", n) for n in (1, 2)]
    assert out.interfaces("node", "netdev", "uid", "pci", "mtu") == [("node-a", "eth0", "aabbccddee01", "0000:17:00.0", 9000)]
    assert out.notices == {}


def test_ip_addr_of_one_interface_and_rdma_link(tmp_path: Path) -> None:
    text = f'[root@node-a ~]# ip -j addr show dev eth0\n[{{}},{{"ifindex":2,"ifname":"eth0","operstate":"UP",{MAC},"addr_info":[{{"local":"10.0.0.7"}}]}}]\n'
    assert parse_text(IPROUTE, tmp_path, text).interfaces("node", "netdev", "address") == [("node-a", "eth0", "10.0.0.7")]
    text = '[{"ifindex":0,"ifname":"mlx5_0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"eth0","netdev_ifindex":2}]'
    out = parse_text(IPROUTE, tmp_path, text)
    assert out.interfaces("device", "port", "netdev", "up", "origin") == [("mlx5_0", 1, "eth0", True, "rdma")]
    assert out.counters("raw") == []


@pytest.mark.parametrize(
    "content",
    [
        "a log that says NIC statistics: none\n",
        "link to mlx5_0/1 rx 5\n",
        "port 1 ==> something\n",
        "see /sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data for more\n",
        '[{"ifname": "eth0"}]',
        '{"ifindex": 1, "ifname": "eth0"}',
        "CA 'x' is a certificate\n",
        "12345\n",
    ],
)
def test_what_is_no_output_of_a_host(content: str, tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text(content, encoding="utf-8")
    own = ("ethtool", "iproute", "sysfs-infiniband")
    assert [name for name in own if parsers()[name].sniff(path, content.encode())] == []
