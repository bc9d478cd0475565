"""Points of Telegraf: line protocol with its escapes, JSON, the plugins' units and names, Cisco's telemetry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.collected import Read
from tests.builders.switches import one, parse, rows
from tests.builders.telemetry import FIRST_NS, sample_points, write_samples
from tracelab_parsers.counters.telegraf import PARSER
from tracelab_parsers.counters.telegraf_lines import point

SHOWN = ("node", "node_kind", "device", "device_kind", "port", "priority", "direction", "counter", "raw", "value", "unit", "kind")


def _read(folder: Path, text: str | bytes) -> Read:
    return parse(PARSER, folder / "file", text)


def _shown(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in SHOWN)


def test_infiniband_counts_words(tmp_path: Path) -> None:
    line = "infiniband,device=mlx5_0,host=node-a,port=1 port_xmit_data=85i,port_rcv_packets=18446744073709551615u,link_downed=255i,np_cnp_sent=4i,odd=1i"
    found = _read(tmp_path, f"{line} {FIRST_NS}\n")
    assert [_shown(r) for r in rows(found)] == [
        ("node-a", "host", "mlx5_0", "rdma", 1, None, "tx", "bytes", 85, 340.0, "byte", "counter"),
        ("node-a", "host", "mlx5_0", "rdma", 1, None, "rx", "packets", 2**64 - 1, 2.0**64, "packet", "counter"),
        ("node-a", "host", "mlx5_0", "rdma", 1, None, None, "link_down_events", 255, 255.0, "event", "counter"),
        ("node-a", "host", "mlx5_0", "rdma", 1, None, "tx", "cnp_sent", 4, 4.0, "packet", "counter"),
        ("node-a", "host", "mlx5_0", "rdma", 1, None, None, "vendor.odd", 1, 1.0, None, "counter"),
    ]
    assert {(r["source_ts_ns"], r["time_quality"], r["line"]) for r in rows(found)} == {(FIRST_NS, "collector", 1)}
    assert (one(found, raw_name="link_downed")["width"], one(found, raw_name="link_downed")["saturates"]) == (8, True)
    assert found.counts() == {}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("net,host=a,interface=eth0 speed=400000i", ("a", "host", "eth0", "netdev", None, None, None, "link_speed", 400000, 4e11, "bit/s", "gauge")),
        ("net,host=a,interface=eth0 speed=-1i", ("a", "host", "eth0", "netdev", None, None, None, "link_speed", None, None, "bit/s", "gauge")),
        ("net,host=a,interface=eth0 err_in=3i", ("a", "host", "eth0", "netdev", None, None, "rx", "errors", 3, 3.0, "packet", "counter")),
        ("net,host=a,interface=eth0 bytes_sent=3i", ("a", "host", "eth0", "netdev", None, None, "tx", "vendor.netdev_bytes", 3, 3.0, "byte", "counter")),
        (
            "ethtool,driver=mlx5_core,host=a,interface=eth0 tx_bytes_phy=3i",
            ("a", "host", "eth0", "netdev", None, None, "tx", "bytes", 3, 3.0, "byte", "counter"),
        ),
        (
            "ethtool,driver=mlx5_core,host=a,interface=eth0 rx_prio3_pause_duration=3i",
            ("a", "host", "eth0", "netdev", None, 3, "rx", "pfc_pause_us", 3, 3.0, "us", "counter"),
        ),
        ("ethtool,driver=x,host=a,interface=eth0 interface_up=0i", ("a", "host", "eth0", "netdev", None, None, None, "link_up", None, 0.0, "one", "gauge")),
        ("nvidia_smi,host=a,index=3,uuid=GPU-9 power_draw=512.5", ("a", "host", "3", "gpu", None, None, None, "power", None, 512.5, "watt", "gauge")),
        (
            "nvidia_smi,host=a,index=3,uuid=GPU-9 clocks_current_sm=1980i",
            ("a", "host", "3", "gpu", None, None, None, "sm_clock", 1980, 1.98e9, "hertz", "gauge"),
        ),
        (
            "nvidia_smi,host=a,index=3 memory_used=2i",
            ("a", "host", "3", "gpu", None, None, None, "vendor.memory_used", 2, 2097152.0, "byte", "gauge"),
        ),
        (
            "interface,agent_host=10.0.0.7,host=poller,ifName=Ethernet1/1 ifHCInOctets=9u",
            ("10.0.0.7", "switch", "Ethernet1/1", "switch-port", None, None, "rx", "bytes", 9, 9.0, "byte", "counter"),
        ),
        (
            "interface,agent_host=10.0.0.7,sysName=leaf7,ifDescr=Ethernet1/1 ifHighSpeed=400000i,ifInErrors=1i",
            ("leaf7", "switch", "Ethernet1/1", "switch-port", None, None, None, "link_speed", 400000, 4e11, "bit/s", "gauge"),
        ),
        (
            "interface,agent_host=10.0.0.7,ifName=Eth1 ifOperStatus=2i,ifInErrors=1i",
            ("10.0.0.7", "switch", "Eth1", "switch-port", None, None, None, "link_up", None, 0.0, "one", "gauge"),
        ),
        (
            "ifcounters,host=poller,name=Ethernet8,path=openconfig-interfaces:/interfaces/interface/state/counters,source=leaf1 out-discards=6i",
            ("leaf1", "switch", "Ethernet8", "switch-port", None, None, "tx", "discards", 6, 6.0, "packet", "counter"),
        ),
        (
            "ifcounters,host=poller,name=Ethernet8,source=leaf1 carrier_transitions=6i",
            ("leaf1", "switch", "Ethernet8", "switch-port", None, None, None, "link_transitions", 6, 6.0, "event", "counter"),
        ),
        (
            'state,name=Ethernet8,path=/interfaces/interface/state,source=leaf1:57400 oper_status="DOWN"',
            ("leaf1", "switch", "Ethernet8", "switch-port", None, None, None, "link_up", None, 0.0, "one", "gauge"),
        ),
    ],
)
def test_what_plugins_count(tmp_path: Path, line: str, shown: tuple[Any, ...]) -> None:
    assert _shown(rows(_read(tmp_path, f"{line} {FIRST_NS}\n"))[0]) == shown


def test_octets_of_32_bits_are_no_bytes(tmp_path: Path) -> None:
    found = _read(tmp_path, f"interface,agent_host=s,ifName=Eth1 ifInOctets=4294967295i,ifHCInOctets=5i {FIRST_NS}\n")
    assert [(r["counter"], r["width"]) for r in rows(found)] == [("vendor.ifInOctets", 32), ("bytes", 64)]


def test_other_points_are_counted_and_left_out(tmp_path: Path) -> None:
    found = _read(tmp_path, sample_points())
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("numbers", 28, True), ("other points", 2, False)]
    assert {r["source_ts_ns"] for r in rows(found)} == {FIRST_NS, FIRST_NS + 10**9}


def test_json_says_the_same_as_lines(tmp_path: Path) -> None:
    record = {
        "fields": {"port_xmit_data": 85, "odd": 0.5},
        "name": "infiniband",
        "tags": {"device": "mlx5_0", "host": "a", "port": "1"},
        "timestamp": FIRST_NS // 10**9,
    }
    for text in (json.dumps(record) + "\n", json.dumps({"metrics": [record]}), json.dumps({"metrics": [record]}, indent=2), json.dumps(record, indent=2)):
        found = _read(tmp_path, text)
        assert [(r["counter"], r["raw"], r["value"], r["source_ts_ns"]) for r in rows(found)] == [
            ("bytes", 85, 340.0, FIRST_NS // 10**9 * 10**9),
            ("vendor.odd", None, 0.5, FIRST_NS // 10**9 * 10**9),
        ]
        assert found.counts() == {}
        match = PARSER.sniff(tmp_path / "x", text.encode())
        assert match is not None
        assert match.confidence == 1


def test_real_lines_of_gnmi(tmp_path: Path, test_data: Callable[[str], Path]) -> None:
    folder = test_data("counters/telegraf_gnmi")
    found = _read(tmp_path, (folder / "canonical_field_names_expected.out").read_bytes())
    assert [(r["node"], r["device"], r["direction"], r["counter"], r["raw"], r["source_ts_ns"]) for r in rows(found)] == [
        ("127.0.0.1", "eth42", "rx", "packets", 5678, 1673608605875353770),
        ("127.0.0.1", "eth42", "tx", "packets", 5125, 1673608605875353770),
    ]
    found = _read(tmp_path, (folder / "issue_12831_expected.out").read_bytes())
    assert one(found, device="CM-1", raw_name="state/memory/utilized")["raw"] == 3099808000
    assert one(found, device="AP-1", raw_name="state/temperature/instant")["value"] == 34.29999923706055
    assert len(rows(found)) == 22
    assert [(c.kind, c.count) for c in found.info.event_counts] == [("numbers", 22), ("texts", 15)]


def test_real_bursts_are_the_same_before_and_after_telegraf(tmp_path: Path, test_data: Callable[[str], Path]) -> None:
    folder = test_data("counters/telegraf_cisco_mdt")
    shown = ("node", "device", "queue", "direction", "counter", "kind", "raw", "source_ts_ns", "time_quality")
    lines = _read(tmp_path, (folder / "microburst_expected.out").read_bytes())
    message = _read(tmp_path, (folder / "microburst_packet.json").read_bytes())
    peaks = [tuple(r[c] for c in shown) for r in rows(lines) if r["raw_name"] == "peak"]
    # 2023-08-03 20:12:59.655308 UTC, from `date -u -d`
    assert peaks[0] == ("n9k-eor-tm4", "Eth0/0/0", "queue-255", "tx", "queue_depth_bytes", "event", 500, 1691093579655308000, "device")
    assert len(peaks) == 10
    assert peaks == [tuple(r[c] for c in shown) for r in rows(message) if r["raw_name"] == "peak"]
    assert {r["raw"] for r in rows(lines) if r["raw_name"] == "duration"} == {1200}


def test_a_burst_has_the_moment_of_its_peak_with_the_day_first(tmp_path: Path) -> None:
    fields = 'interfaceName="Eth1/1",peak=9i,startTs="04-05-2024 10:00:00Z",endTs="04-05-2024 10:00:09Z",peakTs="04-05-2024 10:00:03Z"'
    (row,) = rows(_read(tmp_path, f"microburst,path=microburst,source=n9k {fields} {FIRST_NS}\n"))
    assert row["source_ts_ns"] == 1714816803 * 10**9  # 4 May 2024
    (row,) = rows(_read(tmp_path, f"microburst,path=microburst,source=n9k {fields.replace('Z', '')} {FIRST_NS}\n"))
    assert (row["source_ts_ns"], row["time_quality"]) == (1714816803 * 10**9, "local")


@pytest.mark.parametrize(
    ("line", "measurement", "tags", "fields", "stamp"),
    [
        (r"a\,b\ c,t\=1=v\ \,\=x f\ g=1i 7", "a,b c", {"t=1": "v ,=x"}, {"f g": 1}, 7),
        (
            r'm f="a \"quoted\" \\ back\slash, = x",g=t,h=F,i=1e3,j=-0.5',
            "m",
            {},
            {"f": 'a "quoted" \\ back\\slash, = x', "g": True, "h": False, "i": 1000, "j": -0.5},
            None,
        ),
        (r"m,path=C:\dir\x f=1", "m", {"path": r"C:\dir\x"}, {"f": 1}, None),
        (r"m,a=x\\\,y f=1u", "m", {"a": r"x\\,y"}, {"f": 1}, None),
        ("m f=1i   1700000000  ", "m", {}, {"f": 1}, 1700000000),
        ('m f="two\nlines" 5', "m", {}, {"f": "two\nlines"}, 5),
    ],
)
def test_escapes_of_line_protocol(line: str, measurement: str, tags: dict[str, str], fields: dict[str, object], stamp: int | None) -> None:
    found = point(line)
    assert (found.measurement, found.tags, found.fields, found.stamp) == (measurement, tags, fields, stamp)


_NAME = st.text(st.characters(codec="utf-8", exclude_characters="\\", exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=9)
_KEY = st.lists(_NAME | st.sampled_from([" ", ",", "="]), min_size=1, max_size=4).map("".join)


def _escaped(text: str, special: str) -> str:
    return "".join("\\" + c if c in special else c for c in text)


@given(
    st.dictionaries(_KEY, _KEY, max_size=3),
    st.dictionaries(
        _KEY,
        st.integers(-(2**63), 2**64 - 1) | st.booleans() | _TEXT,
        min_size=1,
        max_size=3,
    ),
)
@settings(max_examples=60)
def test_what_is_written_by_the_rules_is_read_back(tags: dict[str, str], fields: dict[str, Any]) -> None:
    def value(v: object) -> str:
        if isinstance(v, bool):
            return "true" if v else "false"
        return f"{v}i" if isinstance(v, int) else '"' + str(v).replace("\\", "\\\\").replace('"', '\\"') + '"'

    head = ",".join(["m", *(f"{_escaped(k, ' ,=')}={_escaped(v, ' ,=')}" for k, v in tags.items())])
    line = f"{head} {','.join(f'{_escaped(k, chr(32) + chr(44) + chr(61))}={value(v)}' for k, v in fields.items())} {FIRST_NS}"
    found = point(line)
    assert (found.tags, found.fields, found.stamp) == (tags, fields, FIRST_NS)


@pytest.mark.parametrize("line", ["m", "m ", "m f", "m f=", "m,t f=1", "m f=abc", "m f=1 soon", "m f=1, 5", ' f="', "m,=x f=1", 'm f="open'])
def test_what_is_no_line_protocol_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        point(line)


def test_texts_over_two_lines_and_broken_ones(tmp_path: Path) -> None:
    good = f'net,host=a,interface=e note="one\ntwo",err_in=1i {FIRST_NS}\n'
    bad = f'net,host=a,interface=e note="never closed {FIRST_NS}\n'
    last = f"net,host=a,interface=e err_in=2i {FIRST_NS}\n"
    found = _read(tmp_path, "# comment\n> " + good + "what is this\n" + bad + last + f"net,host=a,interface=e err_in=3i {str(FIRST_NS)[:11]}")
    assert [(r["line"], r["raw"]) for r in rows(found)] == [(2, 1), (6, 2)]
    assert found.counts() == {"bad-line": 2, "truncated": 1}
    assert found.info.truncated


def test_a_moment_that_is_cut_is_no_moment(tmp_path: Path) -> None:
    text = sample_points()
    whole = rows(_read(tmp_path, text))
    found = _read(tmp_path, text[:-4])
    assert found.counts() == {"truncated": 1}
    assert [r["source_ts_ns"] for r in rows(found)] == [r["source_ts_ns"] for r in whole]


@pytest.mark.parametrize("content", [b"", b"\0" * 70_000, b"{", b"[[[[" * 20_000, b"not a trace at all\n" * 100, b"x" * 3_000_000, b"a,b=c d=" + b'"' * 70_000])
def test_hostile_input_is_a_notice(tmp_path: Path, content: bytes) -> None:
    found = _read(tmp_path, content)
    assert found.notices
    assert rows(found) == []


def test_deep_messages_end(tmp_path: Path) -> None:
    inner: dict[str, Any] = {"name": "x", "uint64Value": "1"}
    for _ in range(300):
        inner = {"name": "x", "fields": [inner]}
    found = _read(
        tmp_path, json.dumps({"nodeIdStr": "n", "encodingPath": "p", "msgTimestamp": "1", "dataGpbkv": [{"fields": [{"name": "content", "fields": [inner]}]}]})
    )
    assert rows(found) == []
    assert found.notices


@pytest.mark.parametrize(
    "text",
    [
        'node_infiniband_port_data{device="mlx5_0"} 1\n',
        "# HELP x y\n# TYPE x counter\nx 1\n",
        "KEY=value\nOTHER=more\n",
        "rank=0 step=3 loss=2.5\n",
        "2026-01-01 00:00:00 level=info msg=hello\n",
        "export A=1\nexport B=2\n",
        '{"fields":{"a":1},"name":"n"}',
        "host,nic,switch,port\n",
        "[0] NCCL INFO a=b\n",
    ],
)
def test_other_files_are_left_alone(tmp_path: Path, text: str) -> None:
    assert PARSER.sniff(tmp_path / "x", text.encode()) is None


def test_the_sample_is_what_the_builder_writes(root: Path, tmp_path: Path) -> None:
    write_samples(tmp_path)
    assert (tmp_path / "telegraf/node-a.influx").read_bytes() == (root / "sample_traces/formats/telegraf/node-a.influx").read_bytes()


def test_a_text_that_goes_on_over_many_lines(tmp_path: Path) -> None:
    """Its end is looked for where a quote stands alone: lines of nothing cost no reading of all before them."""
    text = 'net,host=h,interface=eth0 note="a' + "\n" * 20_000 + 'b",bytes_recv=5i 1785000000000000000\n'
    found = parse(PARSER, tmp_path / "a", text)
    assert [(r["raw_name"], r["raw"]) for r in rows(found)] == [("bytes_recv", 5)]
    torn = parse(
        PARSER, tmp_path / "b", 'net,host=h,interface=eth0 note="a' + "\n \n" * 30_000 + "net,host=h,interface=eth0 bytes_recv=5i 1785000000000000000\n"
    )
    assert [r["raw"] for r in rows(torn)] == [5]
    assert torn.notices
