"""Pages of exporters: kinds, labels, moments, several scrapes in one file, damage."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.collected import read
from tests.builders.prometheus import PAGE
from tests.builders.switches import one, parse, rows
from tracelab_parsers.counters.prometheus_text import PARSER

TX = 'node_infiniband_port_data_transmitted_bytes_total{device="mlx5_0",port="1"}'


def test_a_page_of_one_scrape_states_no_moment(tmp_path: Path) -> None:
    found = parse(PARSER, tmp_path / "page", PAGE)
    assert [(r["line"], r["counter"], r["raw"], r["value"], r["flags"]) for r in rows(found)] == [
        (3, "bytes", 4_253_500_000_000, 4.2535e12, None),
        (4, "bytes", 77, 77.0, None),
        (7, "link_speed", 50_000_000_000, 4e11, None),
        (10, "link_down_events", 255, 255.0, "saturated"),
        (16, "sm_clock", 1410, 1.41e9, None),
    ]
    assert {(r["source_ts_ns"], r["time_quality"]) for r in rows(found)} == {(None, None)}
    gpu = one(found, counter="sm_clock")
    assert (gpu["node"], gpu["device"], gpu["uid"], gpu["device_kind"]) == ("node-a", "3", "GPU-00000000-0000-4000-8000-000000000003", "gpu")
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("numbers", 5, True), ("samples of other metrics", 3, False)]
    assert found.counts() == {}


def test_types_decide_what_no_name_tells(tmp_path: Path) -> None:
    page = """\
# TYPE fabric_frames counter
fabric_frames{interface="swp1"} 3
# TYPE fabric_fill gauge
fabric_fill_total{interface="swp1"} 4
fabric_fill{interface="swp1"} 5
# TYPE fabric_latency summary
fabric_latency{interface="swp1",quantile="0.5"} 6
fabric_latency_count{interface="swp1"} 7
# TYPE fabric_free untyped
fabric_free{interface="swp1",lane="2"} 8
fabric_alone 9
"""
    found = parse(PARSER, tmp_path / "page", page)
    assert [(r["counter"], r["kind"], r["raw_name"]) for r in rows(found)] == [
        ("vendor.fabric_frames", "counter", "fabric_frames"),
        ("vendor.fabric_fill_total", "gauge", "fabric_fill_total"),
        ("vendor.fabric_fill", "gauge", "fabric_fill"),
        ("vendor.fabric_free", "gauge", "fabric_free{lane=2}"),
    ]


def test_moments_of_samples_and_of_headings(tmp_path: Path) -> None:
    page = f"""\
{TX} 1 1785000000123
{TX} 2 1785000001.5
=== 2026-07-25T17:20:02.25Z node-7
{TX} 3
Sat Jul 25 17:20:03 UTC 2026
{TX} 4
2026-07-25 17:20:04
{TX} 5
{TX} 6 17
"""
    found = parse(PARSER, tmp_path / "page", page)
    base = 1_785_000_000_000_000_000
    assert [(r["raw"], r["source_ts_ns"], r["time_quality"], r["node"]) for r in rows(found)] == [
        (1, base + 123_000_000, "collector", None),
        (2, base + 1_500_000_000, "collector", None),
        (3, base + 2_250_000_000, "file", "node-7"),
        (4, base + 3_000_000_000, "file", None),
        (5, base + 4_000_000_000, "local", None),
        (6, None, None, None),
    ]
    assert found.counts() == {"bad-time": 1}


def test_openmetrics_exemplars_and_quoted_names(tmp_path: Path) -> None:
    page = f"""\
# TYPE node_infiniband_link_downed counter
{TX} 5 # {{trace_id="x"}} 0.5 1785000000
{{"node_infiniband_link_downed_total",device="mlx5_0",port="2"}} 3
node_infiniband_link_downed_total{{device="a\\\\b\\"",port="4"}}  6
node_infiniband_link_downed_total{{device="a,port="4"}} 7
# EOF
"""
    found = parse(PARSER, tmp_path / "page", page)
    assert [(r["counter"], r["raw"], r["device"], r["port"]) for r in rows(found)] == [
        ("bytes", 5, "mlx5_0", 1),
        ("link_down_events", 3, "mlx5_0", 2),
        ("link_down_events", 6, 'a\\b"', 4),
    ]
    assert found.counts() == {"bad-line": 1}


def test_help_tells_words_from_bytes(tmp_path: Path) -> None:
    name = "infiniband_switch_port_receive_data_bytes_total"
    sample = f'{name}{{guid="0x7",port="1",switch="leaf"}} 5\n'
    for text, value, flags in (
        ("perfquery PortRcvData scaled to bytes", 5.0, None),
        ("octets, divided by 4", 20.0, None),
        ("Infiniband switch port PortRcvData", 5.0, "unit-unverified"),
    ):
        row = one(parse(PARSER, tmp_path / "page", f"# HELP {name} {text}\n{sample}"))
        assert (row["value"], row["flags"], row["node"]) == (value, flags, "leaf")


def test_values_that_are_none(tmp_path: Path) -> None:
    found = parse(PARSER, tmp_path / "page", "".join(f"{TX} {v}\n" for v in ("NaN", "+Inf", "-Inf", "x1", "-3", "1e3", "0x10")))
    assert [(r["raw"], r["value"]) for r in rows(found)] == [(None, None)] * 4 + [(None, -3.0), (1000, 1000.0), (16, 16.0)]
    assert found.counts() == {"bad-number": 1, "counter-out-of-range": 1}


def test_damage_is_counted_and_the_rest_read(tmp_path: Path) -> None:
    page = f"{TX} 1\nnot a sample\n{'x' * (2 << 20)} 1\n{TX[:-2]} 2\n\xff\xfe\n{TX} 3\n{TX} 45".encode("latin-1")
    found = parse(PARSER, tmp_path / "page", page)
    assert [r["raw"] for r in rows(found)] == [1, 3]
    assert found.counts() == {"bad-line": 3, "line-too-long": 1, "truncated": 1}
    assert found.info.truncated
    torn = parse(PARSER, tmp_path / "page.gz", gzip.compress((f"{TX} 1\n" * 5000).encode())[:-20])
    assert "gzip-torn" in torn.counts()


def test_scrapes_larger_than_a_block_keep_their_order(tmp_path: Path) -> None:
    lines = [f'node_infiniband_link_downed_total{{device="mlx5_{n % 50}",port="1"}} {n} {1_785_000_000_000 + n}' for n in range(45_000)]
    found = parse(PARSER, tmp_path / "page", "\n".join(lines) + "\n")
    assert [r["raw"] for r in rows(found)] == list(range(45_000))
    assert max(b.num_rows for b in found.batches["counter_samples"]) <= 100_000


@pytest.mark.parametrize(
    "text",
    [
        "cpu,host=a usage=1 1785000000000000000\n",
        "a b\nc d\n",
        "# a comment\n# another\n",
        'node_infiniband_x{device="a"} 1\nand a line of a log\n',
        "total 12\nused 13\n",
        "NIC statistics:\n     rx_packets: 5\n",
        "\0\0\0",
        "",
    ],
)
def test_sniffing_is_strict(text: str) -> None:
    assert PARSER.sniff(Path("page.prom"), text.encode()) is None


def test_samples_without_descriptions_are_known_by_their_names() -> None:
    assert PARSER.sniff(Path("x"), f"{TX} 1\n".encode()) is not None
    assert PARSER.sniff(Path("x"), b"my_metric 1\n") is None


def test_a_real_page(test_data: Callable[[str], Path]) -> None:
    path = test_data("counters/prometheus_exposition") / "node_exporter_e2e.prom"
    found = read(PARSER, path)
    lines = path.read_text().split("\n")
    wanted = {
        n: m for n, line in enumerate(lines, 1) if (m := re.fullmatch(r"(node_(?:infiniband|network|ethtool)_\w+)\{(.*)\} (\S+)", line)) and "_info" not in m[1]
    }
    assert {r["line"] for r in rows(found)} == set(wanted)
    for row in rows(found):
        m = wanted[row["line"]]
        device, port = re.search(r'device="([^"]*)"', m[2]), re.search(r'port="([^"]*)"', m[2])
        assert device is not None
        assert (row["device"], row["raw_name"], row["port"]) == (device[1], m[1], int(port[1]) if port else None)
        if row["counter"] == "link_up" and m[1].endswith("state_id"):
            assert row["value"] == float(m[3] == "4")
        else:
            assert row["raw"] == int(float(m[3]))
    assert one(found, device="mlx4_0", port=1, counter="packets", direction="rx")["raw"] == 6_825_908_347
    assert one(found, device="mlx4_0", port=2, counter="link_speed")["value"] == 4e10
    assert one(found, device="eth0", counter="link_speed")["value"] == 1e9
    assert found.counts() == {}
    samples = sum(bool(line) and not line.startswith("#") for line in lines)
    assert found.info.events == samples
