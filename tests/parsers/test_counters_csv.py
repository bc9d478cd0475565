"""Tables of counters: headings, forms of time, machines, counts of intervals, descriptions, what is no table of counters."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.collected import Read
from tests.builders.counter_csv import NVIDIA_SMI, intervals, table
from tests.builders.switches import one, rows
from tracelab.errors import ManifestError
from tracelab.plugins import SourceFile
from tracelab_parsers.counters.csv_table import PARSER
from tracelab_parsers.counters.csv_table_names import heading_of
from tracelab_parsers.counters.csv_table_times import clock_of

T = 1_785_000_000


def _parse(path: Path, content: str | bytes, described: Mapping[str, Any] | None = None) -> Read:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    out = Read()
    out.info = PARSER.parse(SourceFile(path, path.name, {"tables": json.dumps(described)} if described is not None else {}), out)
    return out


def _claimed(text: str) -> bool:
    return PARSER.sniff(Path("x.csv"), text.encode()) is not None


def _short(found: Read, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(r[c] for c in columns) for r in rows(found)]


def test_a_wide_table(tmp_path: Path) -> None:
    text = (
        "timestamp,host,device,port,port_xmit_data,symbol_error,comment\n"
        f'{T}.25,node-a,mlx5_0,1,1000,0,"good, so far"\n'
        f'{T}.25,node-a,mlx5_1,1,"1,001",65535,good\n'
        f"{T + 1}.5,node-a,mlx5_0,1,0x10,N/A,good\n"
    )
    assert _claimed(text)
    found = _parse(tmp_path / "t", text)
    assert _short(found, "line", "source_ts_ns", "device", "counter", "raw", "value") == [
        (2, T * 10**9 + 250_000_000, "mlx5_0", "bytes", 1000, 4000.0),
        (3, T * 10**9 + 250_000_000, "mlx5_1", "bytes", 1001, 4004.0),
        (4, (T + 1) * 10**9 + 500_000_000, "mlx5_0", "bytes", 16, 64.0),
        (2, T * 10**9 + 250_000_000, "mlx5_0", "symbol_errors", 0, 0.0),
        (3, T * 10**9 + 250_000_000, "mlx5_1", "symbol_errors", 65535, 65535.0),
        (4, (T + 1) * 10**9 + 500_000_000, "mlx5_0", "symbol_errors", None, None),
    ]
    assert {(r["node"], r["node_kind"], r["device_kind"], r["port"], r["time_quality"]) for r in rows(found)} == {("node-a", "host", "rdma", 1, "collector")}
    assert [r["flags"] for r in rows(found)] == [None, None, None, None, "saturated", None]
    assert found.counts() == {}


def test_a_long_table(tmp_path: Path) -> None:
    lines = [(T, "leaf1", "Ethernet1/1", c, v) for c, v in (("rx_bytes", 5), ("tx_pfc3", 6), ("odd", 7), ("utilisation:rx", 8))]
    found = _parse(tmp_path / "t", table("time,switch,interface,counter,value", lines, ";"))
    assert _short(found, "counter", "direction", "priority", "raw", "kind", "raw_name") == [
        ("bytes", "rx", None, 5, "counter", "rx_bytes"),
        ("pfc_pause_frames", "tx", 3, 6, "counter", "tx_pfc3"),
        ("vendor.odd", None, None, 7, "gauge", "odd"),
        ("utilisation", "rx", None, 8, "gauge", "utilisation:rx"),
    ]
    assert {(r["node"], r["device"], r["device_kind"], r["node_kind"]) for r in rows(found)} == {("leaf1", "Ethernet1/1", "switch-port", "switch")}


def test_a_column_of_directions(tmp_path: Path) -> None:
    found = _parse(tmp_path / "t", table("ts,host,nic,direction,metric,value", [(T, "a", "mlx5_0", d, "bytes", 5) for d in ("in", "TX")]))
    assert _short(found, "counter", "direction", "raw") == [("bytes", "rx", 5), ("bytes", "tx", 5)]


HEADINGS: list[tuple[str, tuple[Any, ...] | None]] = [
    ("InOctets", ("bytes", "rx", 1.0, "counter")),
    ("out-octets", ("bytes", "tx", 1.0, "counter")),
    ("bytes:tx", ("bytes", "tx", 1.0, "counter")),
    ("tx bytes [KiB]", ("bytes", "tx", 1024.0, "counter")),
    ("rx data (Gb/s)", ("bits_per_s", "rx", 1e9, "gauge")),
    ("tx_MBps", ("bytes_per_s", "tx", 1e6, "gauge")),
    ("rx_mbps", ("bits_per_s", "rx", 1e6, "gauge")),
    ("tx_kpps", ("packets_per_s", "tx", 1e3, "gauge")),
    ("PortXmitDataExtended", ("bytes", "tx", 4.0, "counter")),
    ("ifHCInOctets", ("bytes", "rx", 1.0, "counter")),
    ("rx_prio5_pause_duration", ("pfc_pause_us", "rx", 1.0, "counter")),
    ("tx_discards_phy", ("discards", "tx", 1.0, "counter")),
    ("Input Errors", ("errors", "rx", 1.0, "counter")),
    ("delta_rx_packets", ("packets", "rx", 1.0, "delta")),
    ("out_of_sequence", ("out_of_sequence", None, 1.0, "counter")),
    ("node_infiniband_link_downed_total", ("link_down_events", None, 1.0, "counter")),
    ("DCGM_FI_DEV_MEM_CLOCK", ("memory_clock", None, 1e6, "gauge")),
    ("clocks.current.sm [MHz]", ("sm_clock", None, 1e6, "gauge")),
    ("link_down_events", ("link_down_events", None, 1.0, "counter")),
    *((h, None) for h in ("bytes", "errors", "Total Time (ns)", "In-Flight", "value", "Sent", "power", "rx", "out", "", "Name", "utilisation", "packets")),
]


@pytest.mark.parametrize(("heading", "wanted"), HEADINGS, ids=[h or "empty" for h, _ in HEADINGS])
def test_headings(heading: str, wanted: tuple[Any, ...] | None) -> None:
    found = heading_of(heading)
    assert (None if found is None else (found.meaning.counter, found.meaning.direction, found.meaning.scale, found.meaning.stated_kind)) == wanted


def test_what_the_kernel_counts_is_told_from_what_the_port_counts(tmp_path: Path) -> None:
    lines = [(T, "h", d, 5, 6) for d in ("eth0", "mlx5_0", "Ethernet4", "unknown")]
    found = _parse(tmp_path / "t", table("time,node,interface,rx_bytes,tx_discards", lines))
    assert _short(found, "device", "device_kind", "counter")[:4] == [
        ("eth0", "netdev", "vendor.netdev_bytes"),
        ("mlx5_0", "rdma", "bytes"),
        ("Ethernet4", "switch-port", "bytes"),
        ("unknown", "other", "bytes"),
    ]


TIMES: list[tuple[str, int | None, str | None]] = [
    (f"{T}", T * 10**9, "collector"),
    (f"{T}.000000001", T * 10**9 + 1, "collector"),
    (f"{T}123", T * 10**9 + 123_000_000, "collector"),
    (f"{T}123456", T * 10**9 + 123_456_000, "collector"),
    (f"{T}123456789", T * 10**9 + 123_456_789, "collector"),
    ("2026-07-25T17:20:00Z", T * 10**9, "collector"),
    ("2026-07-25T19:20:00.5+02:00", T * 10**9 + 500_000_000, "collector"),
    ("2026-07-25 17:20:00,25", T * 10**9 + 250_000_000, "local"),
    ("2026/07/25 17:20:00", T * 10**9, "local"),
    ("2026/07/26 周日 17:20:00.125", (T + 86_400) * 10**9 + 125_000_000, "local"),
    ("Sat Jul 25 17:20:00 UTC 2026", T * 10**9, "collector"),
    ("25/07/2026 17:20:00", None, None),  # day or month first: a description has to say
    ("17:20:00", None, None),
    ("123", None, None),
    ("1785000000000000000000", None, None),
]


@pytest.mark.parametrize(("text", "ns", "quality"), TIMES, ids=[t for t, _, _ in TIMES])
def test_forms_of_time(text: str, ns: int | None, quality: str | None, tmp_path: Path) -> None:
    page = table("time,host,nic,port_rcv_data,port_xmit_data", [(text, "h", "mlx5_0", 1, 2)], ";")
    assert _claimed(page) is (ns is not None)
    if ns is not None:
        assert set(_short(_parse(tmp_path / "t", page), "source_ts_ns", "time_quality")) == {(ns, quality)}


@given(st.datetimes(datetime(1971, 1, 1), datetime(2096, 1, 1)), st.sampled_from(["-", "/"]), st.integers(-840, 840))  # noqa: DTZ001 -- the zone is drawn too
def test_zones_are_exact(at: datetime, mark: str, minutes: int) -> None:
    sign = "+" if minutes >= 0 else "-"
    text = f"{at:%Y{mark}%m{mark}%d %H:%M:%S.%f}{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    clock = clock_of([text])
    wanted = (at.replace(tzinfo=UTC) - timedelta(minutes=minutes) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    if wanted >= 31_536_000 * 10**9:
        import pyarrow as pa

        assert clock is not None
        assert clock.read(pa.array([text])).tolist() == [wanted]


@pytest.mark.parametrize(
    "odd", ["9999-12-31 23:59:59Z", "0001-01-01 00:00:00+23:59", "2026-07-25T17:20:00+24:00", "2026-07-25T17:20:00-99:99", "1e400", "inf", "NaN"]
)
def test_a_moment_that_is_none_costs_its_row_alone(odd: str, tmp_path: Path) -> None:
    good = "2026-07-25T17:20:00Z"
    page = table("time,host,nic,port_rcv_data", [(good, "h", "mlx5_0", 1), (odd, "h", "mlx5_0", 2), (good, "h", "mlx5_0", 3)])
    assert _claimed(page)
    found = _parse(tmp_path / "t", page)
    assert _short(found, "line", "source_ts_ns", "raw") == [(2, T * 10**9, 1), (3, None, 2), (4, T * 10**9, 3)]
    (notice,) = found.notices.values()
    assert (notice.code, notice.count) == ("bad-time", 1)
    assert notice.text.endswith("; the first in line 3")
    assert "tracelab.toml" in notice.hint


@pytest.mark.parametrize("zone", [None, "+23:59", "America/New_York"])
@pytest.mark.parametrize("form", ["auto", "%Y-%m-%d %H:%M:%S"])
def test_years_that_no_count_of_nanoseconds_reaches(form: str, zone: str | None, tmp_path: Path) -> None:
    described = {"time": {"column": "t", "format": form, "zone": zone}, "counters": {"v": "bytes:rx"}}
    years = ("2026", "9999", "0001", "2263", "1677")
    found = _parse(tmp_path / "t", "t,v\n" + "".join(f"{y}-07-25 12:00:00,5\n" for y in years) + "2026-07-25 12:00:00,5\n" * 40, described)
    assert [r["source_ts_ns"] is None for r in rows(found)] == [False, True, True, True, True] + [False] * 40
    assert found.counts() == {"bad-time": 4}


def test_utc_is_preferred_to_local_time_and_moments_of_other_things_are_none(tmp_path: Path) -> None:
    page = table("last_change_time,local_time,time_utc,host,nic,port_rcv_data", [(T, "2026-07-26 01:20:00", "2026-07-25 17:20:00", "h", "mlx5_0", 1)])
    found = _parse(tmp_path / "t", page)
    assert one(found, counter="bytes")["source_ts_ns"] == T * 10**9
    both = _parse(tmp_path / "t", table("date,time,host,nic,port_rcv_data", [("2026-07-25", "17:20:00.5", "h", "mlx5_0", 1)]))
    assert one(both, counter="bytes")["source_ts_ns"] == T * 10**9 + 500_000_000


def test_counts_of_intervals_are_told_by_how_they_move(tmp_path: Path) -> None:
    found = _parse(tmp_path / "t", intervals())
    octets = [r for r in rows(found) if r["counter"] == "bytes"]
    assert [(r["raw"], r["kind"], r["interval_ns"]) for r in octets[:4]] == [
        (0, "delta", None),
        (7_000_000, "delta", 500_000_000),
        (2_000_000_000, "delta", 249_500_000_000),
        (0, "delta", 500_000_000),
    ]
    assert {(r["node"], r["node_kind"], r["device"], r["time_quality"]) for r in octets} == {("leaf-4.pod", "switch", "TwoHundredGigE1/0/7:1", "collector")}
    ratio = [r for r in rows(found) if r["counter"] == "utilisation"]
    assert (ratio[4]["value"], ratio[4]["unit"], ratio[4]["kind"], ratio[4]["interval_ns"]) == (90.0, "percent", "gauge", None)
    assert found.counts() == {"counts-of-intervals": 2}


def test_cumulative_counters_with_a_reset_and_narrow_ones_stay_counters(tmp_path: Path) -> None:
    reset = [(T + i, "leaf", "Ethernet0", v, e) for i, (v, e) in enumerate([(1, 0), (2, 0), (3, 0), (4, 1), (1, 0), (2, 0), (3, 0), (4, 0)])]
    found = _parse(tmp_path / "t", table("time,switch,port,rx_octets,rx_errors", reset))
    assert {r["kind"] for r in rows(found)} == {"counter"}
    wraps = [(T + i, "leaf", "Ethernet0", i * 3_000_000_000 % 2**32, 0) for i in range(20)]
    found = _parse(tmp_path / "t", table("time,switch,port,rx_octets,rx_errors", wraps))
    assert {r["kind"] for r in rows(found)} == {"counter"}
    assert found.counts() == {}


def test_errors_of_a_table_of_intervals_are_counts_of_intervals_too(tmp_path: Path) -> None:
    lines = [(T + i, "leaf", "Ethernet0", 5 + i % 2, int(i == 3), 7 * i) for i in range(10)]
    found = _parse(tmp_path / "t", table("time,switch,port,rx_octets,rx_errors,tx_octets", lines))
    kinds = {(r["counter"], r["direction"]): r["kind"] for r in rows(found)}
    assert kinds == {("bytes", "rx"): "delta", ("errors", "rx"): "delta", ("bytes", "tx"): "counter"}


def test_what_nvidia_smi_logs(tmp_path: Path) -> None:
    assert _claimed(NVIDIA_SMI)
    found = _parse(tmp_path / "t", NVIDIA_SMI)
    assert {(r["device"], r["device_kind"], r["uid"]) for r in rows(found)} == {(str(i), "gpu", f"GPU-00000000-0000-4000-8000-00000000000{i}") for i in (0, 1)}
    assert one(found, device="0", counter="gpu_utilisation")["raw"] == 45
    assert one(found, device="1", counter="gpu_utilisation")["value"] is None
    assert one(found, device="1", counter="sm_clock")["value"] == 1.98e9
    assert one(found, device="0", counter="power")["value"] == 300.25
    assert one(found, device="1", counter="power")["value"] is None
    assert one(found, device="0", counter="throttle_reasons")["raw"] == 4
    assert one(found, device="0", counter="vendor.memory.used")["value"] == 2.0**30
    assert found.counts() == {}


def test_a_description_says_everything(tmp_path: Path) -> None:
    text = "when|who|what|n|m|x\n25.07.2026 19:20:00|sw|p7|5|6|9\n"
    assert not _claimed(text)
    described = {
        "time": {"column": "when", "format": "%d.%m.%Y %H:%M:%S", "zone": "+02:00"},
        "node": "who",
        "node_kind": "switch",
        "device": "what",
        "counters": {
            "n": {"counter": "bytes:rx", "scale": 4, "kind": "delta"},
            "m": "credits:tx",
            "x": {"counter": "link_up", "device": "p8", "node": "other"},
        },
    }
    found = _parse(tmp_path / "t", text, described)
    assert _short(found, "source_ts_ns", "time_quality", "node", "device", "counter", "direction", "raw", "value", "kind") == [
        (T * 10**9, "collector", "sw", "p7", "bytes", "rx", 5, 20.0, "delta"),
        (T * 10**9, "collector", "sw", "p7", "vendor.credits", "tx", 6, 6.0, "counter"),
        (T * 10**9, "collector", "other", "p8", "link_up", None, 9, 9.0, "gauge"),
    ]
    assert {r["node_kind"] for r in rows(found)} == {"switch"}


def test_a_description_of_a_table_without_headings_and_of_names(tmp_path: Path) -> None:
    described = {"columns": ["t", "node", "name", "value"], "time": {"column": "t", "format": "ms"}, "node": "node", "name": "name", "value": "value"}
    found = _parse(tmp_path / "t", f"{T}000,a,in,5\n{T}500,a,out,6\n", {**described, "counters": {"in": "bytes:rx"}})
    assert _short(found, "line", "source_ts_ns", "counter", "raw") == [(1, T * 10**9, "bytes", 5), (2, T * 10**9 + 500_000_000, "vendor.out", 6)]
    zone = {"time": {"column": "t", "zone": "Asia/Shanghai"}, "counters": {"v": "bytes:rx"}}
    assert _short(_parse(tmp_path / "t", "t,v\n2026-07-26 01:20:00,5\n", zone), "source_ts_ns", "time_quality") == [(T * 10**9, "collector")]


@pytest.mark.parametrize(
    "described",
    [
        {"unknown": 1},
        {"name": "n"},
        {"delimiter": "ab"},
        {"counters": {"a": "bytes:up"}},
        {"counters": {"a": {"counter": "", "scale": 2}}},
        {"counters": {"a": {"counter": "bytes:rx", "kind": "odd"}}},
        {"time": {"column": "t", "zone": "Mars/Olympus"}, "counters": {"v": "bytes:rx"}},
    ],
    ids=str,
)
def test_wrong_descriptions_are_errors(described: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ManifestError):
        _parse(tmp_path / "t", f"t,v\n{T},5\n", described)


def test_a_description_that_does_not_fit_is_said(tmp_path: Path) -> None:
    found = _parse(tmp_path / "t", f"t,v\n{T},5\n", {"time": "t", "counters": {"v": "bytes:rx", "w": "bytes:tx"}})
    assert [r["raw"] for r in rows(found)] == [5]
    assert found.counts() == {"no-column": 1}
    assert set(_parse(tmp_path / "t", f"t,v\n{T},5\n", {"time": "nowhere", "counters": {"v": "bytes:rx"}}).counts()) == {"no-column"}


@pytest.mark.parametrize(
    "text",
    [
        "name,grade\nAda,1\nBob,2\n",
        "time,student,errors\n2026-07-25T17:20:00Z,Ada,3\n",
        "Time (%),Total Time (ns),Instances,Avg (ns),Name\n12.0,100,3,33,kernel\n",
        "Start (ns),Duration (ns),Bytes (MB),Name\n1785000000000000000,100,3,k\n",
        "host,nic,netdev,switch,port\nn1,mlx5_0,eth0,leaf1,Ethernet0\n",
        "timestamp,source_id,tag,node_guid,port_guid,port_num,PortXmitDataExtended\n1785000000000000,a,b,0x1,0x2,1,5\n",
        "date,open,high,low,close,volume\n2026-07-25 17:20:00,1,2,3,4,5\n",
        "timestamp,level,message\n2026-07-25T17:20:00Z,INFO,rx_bytes=5\n",
        "timestamp,rx_bytes\n2026-07-25T17:20:00Z,5\n",
        "time,host,rx_bytes\nnoon,a,5\n",
        "rx_bytes,tx_bytes,host\n5,6,a\n",
        'a,b\n"c,d\n' * 50,
        ",,,\n,,,\n",
        "",
    ],
)
def test_other_tables_are_not_claimed(text: str) -> None:
    assert not _claimed(text)


def test_real_tables_of_other_things_are_not_claimed(test_data: Callable[[str], Path]) -> None:
    for path in [*test_data("counters/dcgm").glob("*.csv"), *test_data("jobs/llama2_7b_32xA100").glob("*.csv")]:
        assert PARSER.sniff(path, path.read_bytes()[: 1 << 16]) is None, path.name


def test_damage_is_counted_and_the_rest_read(tmp_path: Path) -> None:
    head = "time,host,nic,port_rcv_data,port_xmit_data\n"
    good = f"{T},h,mlx5_0,1,2\n"
    text = (
        head
        + good
        + "1,2\n\n# note\n"
        + head
        + f"{T},h,mlx5_0,{'9' * (2 << 20)},2\n"
        + good.replace(",1,", ",?,")
        + f"x,h,mlx5_0,-1,{2**64}\n"
        + good
        + f"{T},h,mlx5_0,7,8"
    )
    found = _parse(tmp_path / "t", text)
    received = [r for r in rows(found) if r["direction"] == "rx"]
    assert [(r["source_ts_ns"], r["raw"]) for r in received] == [(T * 10**9, 1), (T * 10**9, None), (None, None), (T * 10**9, 1), (T * 10**9, 7)]
    assert [r["line"] for r in received] == [2, 8, 9, 10, 11]
    assert [r["raw"] for r in rows(found) if r["direction"] == "tx"][-1] is None
    assert found.counts() == {"bad-row": 1, "bad-number": 1, "bad-time": 1, "line-too-long": 1, "counter-out-of-range": 1, "unended-row": 1}
    assert found.info.truncated


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 5000, b"no table\n", b"\x1f\x8b", b"a,b\n1,2\n", b"time,rx_bytes\n", b"," * 100_000, b"[[[[" * 50_000, b"a,b\rc\n" * 9]
)
def test_what_is_no_table_is_said(content: bytes, tmp_path: Path) -> None:
    found = _parse(tmp_path / "t", content)
    assert rows(found) == []
    assert "no-table" in found.counts()


def test_regular_and_quoted_blocks_give_the_same(tmp_path: Path) -> None:
    lines = [(T + i // 40, f"h{i % 5}", f"mlx5_{i % 8}", i * 7919, "" if i % 11 == 0 else i) for i in range(24_000)]
    plain = table("time,host,device,port_rcv_data,symbol_error", lines)
    quoted = table("time,host,device,port_rcv_data,symbol_error", [(t, f'"{h}"', d, a, b) for t, h, d, a, b in lines])
    windows = plain.replace("\n", "\r\n")
    columns = ["line", "source_ts_ns", "node", "device", "counter", "raw"]
    first = _frame(_parse(tmp_path / "a", plain)).select(columns).sort("line", "counter")
    assert first.height == 48_000
    assert _frame(_parse(tmp_path / "b", quoted)).select(columns).sort("line", "counter").equals(first)
    assert _frame(_parse(tmp_path / "c", gzip.compress(windows.encode()))).select(columns).sort("line", "counter").equals(first)
    assert first.filter(counter="bytes").select("line", "raw").rows() == [(i + 2, x[3]) for i, x in enumerate(lines)]


def test_counts_of_a_real_leaf(test_data: Callable[[str], Path]) -> None:
    paths = sorted(test_data("jobs/llama2_7b_32xA100/counters_leaf1").glob("*.csv.gz"))
    assert len(paths) == 6
    highest = {}
    for path in paths:
        text = gzip.decompress(path.read_bytes())
        assert PARSER.sniff(path, text[: 1 << 16]) is not None
        raw = list(csv.DictReader(text.decode().splitlines()))
        found = _read(path)
        assert found.info.events == len(raw) * 6
        all_rows = _frame(found)
        octets = all_rows.filter(counter="bytes", direction="rx")
        assert octets["source_ts_ns"].to_list() == [int(r["SaveTimeUTC"]) * 10**6 for r in raw]
        assert octets["raw"].to_list() == [int(r["InOctets"]) for r in raw]
        assert octets.select("node", "device", "kind", "unit").unique().rows() == [(raw[0]["DeviceName"], raw[0]["PortName"], "delta", "byte")]
        assert octets["interval_ns"][2] == 252_942_000_000
        highest[path.name] = max(all_rows.filter(counter="utilisation")["value"].to_list())
        if path.name == "Leaf-1_25_2.csv.gz":
            seconds = (octets["source_ts_ns"][-1] - octets["source_ts_ns"][0]) / 1e9
            assert round(octets["value"].sum() / seconds / 1e9, 1) == 8.6
            # 8 bits of the octets over the seconds of each row are the percentage of 200 Gbit/s that the collector printed beside them.
            percent = (octets["value"] * 8 / octets["interval_ns"] / 2).to_list()[1:]
            assert max(abs(p - float(r["InRatio"])) for p, r in zip(percent, raw[1:], strict=True)) < 0.1
    assert highest["Leaf-1_25_2.csv.gz"] == max(highest.values()) == 99.84


def _read(path: Path) -> Read:
    out = Read()
    out.info = PARSER.parse(SourceFile(path, path.name), out)
    return out


def _frame(found: Read) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(pl.from_arrow(batch)) for batch in found.batches["counter_samples"]]).with_columns(cs.categorical().cast(pl.String))
