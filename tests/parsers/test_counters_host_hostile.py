"""Outputs of hosts that are damaged, huge or made to hurt: counted, bounded, never raised."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from tests.builders.counters_host import Parsed, parse_text
from tests.builders.host_counters import ethtool_log, grep_text
from tracelab.plugins import Parser, SourceFile
from tracelab_parsers.counters.ethtool import PARSER as ETHTOOL
from tracelab_parsers.counters.iproute import PARSER as IPROUTE
from tracelab_parsers.counters.sysfs import PARSER as SYSFS

LINK = '[{"ifindex":2,"ifname":"eth0","mtu":1500,"operstate":"UP","link_type":"ether","address":"aa:bb:cc:dd:ee:01","stats64":{"rx":{"bytes":12345}}}]\n'
GREP = "/sys/class/infiniband/mlx5_0/ports/1/counters/"
TEXTS = pytest.mark.parametrize(("parser", "text"), [(ETHTOOL, ethtool_log()), (SYSFS, grep_text()), (IPROUTE, LINK * 3)], ids=["ethtool", "sysfs", "iproute"])


def parsed(parser: Parser, folder: Path, data: bytes) -> Parsed:
    """What a parser makes of bytes, claimed or not."""
    path = folder / "x"
    path.write_bytes(data)
    out = Parsed()
    parser.sniff(path, data[: 1 << 16])
    out.info = parser.parse(SourceFile(path, "x"), out)
    return out


@TEXTS
def test_damage_anywhere_changes_no_other_number(parser: Parser, text: str, tmp_path: Path) -> None:
    """A file that is cut gives a part of what the whole one gives; bytes that are changed raise nothing."""
    whole = set(parsed(parser, tmp_path, text.encode()).counters("line", "node", "device", "raw_name", "raw"))
    data = text.encode()
    chance = random.Random(7)
    for _ in range(60):
        end = chance.randrange(len(data))
        cut = parsed(parser, tmp_path, data[:end])
        assert set(cut.counters("line", "node", "device", "raw_name", "raw")) <= whole, data[:end][-80:]
        changed = bytearray(data)
        for _ in range(8):
            changed[chance.randrange(len(data))] = chance.randrange(256)
        parsed(parser, tmp_path, bytes(changed))


@TEXTS
def test_compressed_and_torn(parser: Parser, text: str, tmp_path: Path) -> None:
    packed = gzip.compress(text.encode() * 50, mtime=0)
    assert len(parsed(parser, tmp_path, packed).counters("raw")) == 50 * len(parsed(parser, tmp_path, text.encode()).counters("raw"))
    torn = parsed(parser, tmp_path, packed[: len(packed) // 2])
    assert torn.info.truncated
    assert torn.notices["gzip-torn"] == 1


@pytest.mark.parametrize("parser", [ETHTOOL, SYSFS, IPROUTE])
@pytest.mark.parametrize("data", [b"", b"\x00" * 4096, bytes(range(256)) * 64, b"[" * 200_000, b"\n" * 5000, "\u202e\ud7ff".encode() * 999])
def test_what_is_nothing_gives_one_notice(parser: Parser, data: bytes, tmp_path: Path) -> None:
    out = parsed(parser, tmp_path, data)
    assert out.rows == {}
    assert out.notices["no-counters"] == 1


@pytest.mark.parametrize(
    ("printed", "raw", "value", "notices"),
    [
        ("18446744073709551615", 2**64 - 1, 2.0**64, {}),
        ("18446744073709551616", None, 2.0**64, {"counter-out-of-range": 1}),
        ("-5", None, -5.0, {"counter-out-of-range": 1}),
        ("1,234,567", 1_234_567, 1_234_567.0, {}),
        ("0x1F", 31, 31.0, {}),
        ("N/A", None, None, {}),
        ("&lol;", None, None, {"bad-number": 1}),
        ("9" * 5000, None, None, {"bad-number": 1}),
    ],
)
def test_numbers_in_statistics(printed: str, raw: int | None, value: float | None, notices: dict[str, int], tmp_path: Path) -> None:
    out = parse_text(ETHTOOL, tmp_path, f"NIC statistics:\n     tx_bytes_phy: {printed}\n     end: 0\n")
    assert out.counters("raw", "value")[0] == (raw, value)
    assert out.notices == notices


def test_lines_without_an_end_are_bounded(tmp_path: Path) -> None:
    text = "NIC statistics:\n     a: 1\n" + "x" * 3_000_000 + "\n     b: 2\n"
    out = parse_text(ETHTOOL, tmp_path, text)
    assert out.counters("raw_name") == [("a",), ("b",)]
    assert out.notices == {"line-too-long": 1}
    out = parse_text(SYSFS, tmp_path, f"{GREP}port_xmit_data:1\n{GREP}{'x' * 100_000}:2\n")
    assert out.counters("raw_name") == [("port_xmit_data",)]
    assert out.notices == {"line-too-long": 1}


def test_values_of_a_tree_that_are_none(tmp_path: Path) -> None:
    text = (
        f"{GREP}port_xmit_data:7\n{GREP}symbol_error:N/A (no PMA)\n{GREP}link_downed:\n{GREP}port_rcv_data:cat: Invalid argument\n{GREP}port_rcv_errors:65535\n"
    )
    out = parse_text(SYSFS, tmp_path, text)
    assert out.counters("raw_name", "raw", "flags") == [
        ("port_xmit_data", 7, None),
        ("symbol_error", None, None),
        ("link_downed", None, None),
        ("port_rcv_data", None, None),
        ("port_rcv_errors", 65_535, "saturated"),
    ]
    assert out.notices == {"bad-number": 1}


def test_a_group_of_hosts_without_end(tmp_path: Path) -> None:
    rule = "-" * 12
    out = parse_text(ETHTOOL, tmp_path, f"{rule}\nn[0-999999999]\n{rule}\nmlx5_0 port 1 ==> ens1 (Up)\n")
    assert len(out.interfaces("node")) <= 10_000


def test_facts_that_overflow(tmp_path: Path) -> None:
    text = f"{GREP}link_downed:1\n/sys/class/infiniband/mlx5_0/ports/1/rate:9.9.9.9 Gb/sec\n/sys/class/infiniband/mlx5_0/ports/1/lid:0xffffffff\n"
    assert parse_text(SYSFS, tmp_path, text).interfaces("speed_bps", "lid") == [(None, 65_535)]
    text = "Settings for eth0:\n\tSpeed: 99999999999999Mb/s\n\tLanes: 99999999\n\tLink detected: no (cable unplugged)\n"
    assert parse_text(ETHTOOL, tmp_path, text).interfaces("speed_bps", "lanes", "up") == [(None, None, False)]
    text = '[{"ifindex":2,"ifname":"eth0","mtu":99999999999,"operstate":"UP","altnames":"x","addr_info":7,"stats64":[]}]'
    assert parse_text(IPROUTE, tmp_path, text).interfaces("mtu", "alias", "address") == [(None, None, None)]


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00+24:00"])
def test_headings_of_impossible_moments_state_none(moment: str, tmp_path: Path) -> None:
    out = parse_text(ETHTOOL, tmp_path, f"=== {moment} node7 ethtool -S eth0\nNIC statistics:\n     tx_bytes_phy: 5\n     end: 0\n")
    assert out.counters("raw", "source_ts_ns")[0] == (5, None)
