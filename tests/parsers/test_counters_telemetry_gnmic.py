"""Notifications of gNMI as gnmic prints them: forms, paths of several vendors, entities, values."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read
from tests.builders.switches import parse, rows
from tests.builders.telemetry import FIRST_NS, event, notification, proto, sample_events, write_samples
from tracelab_parsers.counters.gnmic import PARSER

SHOWN = ("device", "device_kind", "queue", "priority", "direction", "counter", "raw", "value", "unit", "kind")
STATE = "/interfaces/interface/state/counters"


def _read(folder: Path, value: object) -> Read:
    return parse(PARSER, folder / "file.json", value if isinstance(value, str | bytes) else json.dumps(value))


def _one(folder: Path, path: str, value: object, **tags: str) -> dict[str, Any]:
    (row,) = rows(_read(folder, [event({path: value}, tags=tags or {"interface__name": "Ethernet8"})]))
    return row


def _shown(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in SHOWN)


def test_an_event_becomes_a_row_for_each_value(tmp_path: Path) -> None:
    values = {f"{STATE}/in-octets": "18446744073709551615", f"{STATE}/out-discards": 7, f"{STATE}/in-fcs-errors": "N/A", f"{STATE}/carrier-transitions": "3"}
    found = _read(tmp_path, [event(values, interface__name="Ethernet8")])
    assert [_shown(r) for r in rows(found)] == [
        ("Ethernet8", "switch-port", None, None, "rx", "bytes", 2**64 - 1, 2.0**64, "byte", "counter"),
        ("Ethernet8", "switch-port", None, None, "tx", "discards", 7, 7.0, "packet", "counter"),
        ("Ethernet8", "switch-port", None, None, "rx", "crc_errors", None, None, "packet", "counter"),
        ("Ethernet8", "switch-port", None, None, None, "link_transitions", 3, 3.0, "event", "counter"),
    ]
    assert {(r["node"], r["node_kind"], r["source_ts_ns"], r["time_quality"], r["line"]) for r in rows(found)} == {("leaf1", "switch", FIRST_NS, "device", 1)}
    assert rows(found)[0]["raw_name"] == f"{STATE}/in-octets"
    assert found.counts() == {}
    assert found.info.parts == []
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("numbers", 4, True)]


def _lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(r) + "\n" for r in records)


@pytest.mark.parametrize(
    "form",
    [
        json.dumps,
        lambda records: json.dumps(records, indent=2),
        _lines,
        lambda records: "".join(json.dumps(r, indent=2) + "\n" for r in records),
        lambda records: "".join(json.dumps([r]) + "\n" for r in records),
        lambda records: "[\n" + ",\n".join(json.dumps(r) for r in records) + "\n]\n",
        lambda records: "\ufeff" + _lines([*records, {"sync-response": True}]),
    ],
    ids=["array", "printed array", "lines", "printed objects", "lines of arrays", "array of lines", "byte order mark"],
)
def test_all_ways_to_print_records_are_one(tmp_path: Path, form: Callable[[list[dict[str, Any]]], str]) -> None:
    expected = rows(_read(tmp_path, sample_events()))
    assert len(expected) == 36
    found = _read(tmp_path, form(sample_events()))
    assert [_shown(r) for r in rows(found)] == [_shown(r) for r in expected]
    assert [r["line"] for r in rows(found)] == [r["line"] for r in expected]
    assert found.counts() == {}
    text = form(sample_events()).encode()
    assert PARSER.sniff(tmp_path / "any", text[: 64 << 10]) is not None


@pytest.mark.parametrize(
    ("path", "value", "direction", "counter", "raw", "number"),
    [
        (f"{STATE}/out-octets", "12", "tx", "bytes", 12, 12.0),
        (f"{STATE}/in-pkts", 5, "rx", "packets", 5, 5.0),
        (f"{STATE}/in-unicast-pkts", 5, "rx", f"vendor.{STATE[1:]}/in-unicast-pkts", 5, 5.0),
        (f"{STATE}/in-errors", 5, "rx", "errors", 5, 5.0),
        ("/interfaces/interface/ethernet/state/counters/in-mac-pause-frames", 9, "rx", "global_pause_frames", 9, 9.0),
        ("/interfaces/interface/ethernet/state/counters/in-symbol-error", 9, "rx", "symbol_errors", 9, 9.0),
        ("/srl_nokia-interfaces:interface/statistics/in-packets", "44", "rx", "packets", 44, 44.0),
        ("/srl_nokia-interfaces:interface/statistics/out-discarded-packets", "3", "tx", "discards", 3, 3.0),
        ("/srl_nokia-interfaces:interface/traffic-rate/in-bps", "800", "rx", "bits_per_s", 800, 800.0),
        ("Cisco-IOS-XR-infra-statsd-oper:infra-statistics/interfaces/interface/latest/generic-counters/bytes-sent", 6, "tx", "bytes", 6, 6.0),
        ("/interfaces/interface/state/oper-status", "UP", None, "link_up", None, 1.0),
        ("/interfaces/interface/state/oper-status", "LOWER_LAYER_DOWN", None, "link_up", None, 0.0),
        ("/interfaces/interface/state/oper-status", "UNKNOWN", None, "link_up", None, None),
        ("/interfaces/interface/ethernet/state/port-speed", "openconfig-if-ethernet:SPEED_400GB", None, "link_speed", 400, 4e11),
        ("/interface/ethernet/port-speed", "100G", None, "link_speed", 100, 1e11),
        ("/interfaces/interface/ethernet/state/port-speed", "SPEED_UNKNOWN", None, "link_speed", None, None),
    ],
)
def test_paths_of_ports(tmp_path: Path, path: str, value: object, direction: str | None, counter: str, raw: int | None, number: float | None) -> None:
    row = _one(tmp_path, path, value)
    assert (row["direction"], row["counter"], row["raw"], row["value"], row["device"]) == (direction, counter, raw, number, "Ethernet8")


@pytest.mark.parametrize(
    ("path", "tags", "shown"),
    [
        (
            "/qos/interfaces/interface/output/queues/queue/state/ecn-marked-pkts",
            {"interface__interface_id": "Ethernet0", "queue__name": "UC3"},
            ("Ethernet0", "switch-port", "UC3", None, "tx", "ecn_marked_packets"),
        ),
        (
            "/qos/interfaces/interface/output/queues/queue/state/transmit-octets",
            {"interface__interface_id": "Ethernet0", "queue__name": "UC3"},
            ("Ethernet0", "switch-port", "UC3", None, "tx", "queue_bytes"),
        ),
        (
            "/qos/interfaces/interface/output/queues/queue/state/max-queue-len",
            {"interface__interface_id": "Ethernet0", "queue__name": "UC3"},
            ("Ethernet0", "switch-port", "UC3", None, "tx", "queue_watermark_bytes"),
        ),
        (
            "/openconfig-qos:qos/interfaces/interface/openconfig-qos-ext:pfc/pfc-priorities/pfc-priority/state/statistics/pause-frames-rx",
            {"interface__interface_id": "Ethernet0", "pfc_priority__dot1p": "3"},
            ("Ethernet0", "switch-port", None, 3, "rx", "pfc_pause_frames"),
        ),
        (f"{STATE}/in-octets", {"interface__name": "Port-Channel7"}, ("Port-Channel7", "other", None, None, "rx", "bytes")),
        (
            "/interfaces/interface/subinterfaces/subinterface/state/counters/in-octets",
            {"interface__name": "Ethernet4", "subinterface__index": "0"},
            ("Ethernet4.0", "other", None, None, "rx", "bytes"),
        ),
        (
            "/components/component/transceiver/physical-channels/channel/state/input-power/instant",
            {"component__name": "Ethernet4 optic"},
            ("Ethernet4 optic", "other", None, None, "rx", "rx_power"),
        ),
        ("COUNTERS/Ethernet68/SAI_PORT_STAT_PFC_3_RX_PKTS", {"x": "y"}, ("Ethernet68", "switch-port", None, 3, "rx", "pfc_pause_frames")),
    ],
)
def test_what_tags_and_paths_name(tmp_path: Path, path: str, tags: dict[str, str], shown: tuple[Any, ...]) -> None:
    row = _one(tmp_path, path, "5", **tags)
    assert _shown(row)[:6] == shown
    assert row["raw"] == 5


@pytest.mark.parametrize(
    ("source", "node"),
    [("leaf1:57400", "leaf1"), ("10.0.0.7:57400", "10.0.0.7"), ("leaf1", "leaf1"), (":9339", None), ("[2001:db8::7]:57400", "2001:db8::7")],
)
def test_sources_name_machines_without_their_ports(tmp_path: Path, source: str, node: str | None) -> None:
    (row,) = rows(_read(tmp_path, [event({f"{STATE}/in-pkts": 1}, source=source, interface__name="Ethernet0")]))
    assert row["node"] == node


def test_the_form_json_joins_prefix_path_and_trees(tmp_path: Path) -> None:
    tree = {"in-octets": "43355", "queues": {"queue": [{"name": "UC0", "transmit-octets": "7"}, {"name": "UC1", "transmit-octets": "8"}]}}
    found = _read(tmp_path, notification("interfaces", {"interface[name=Ethernet8]/state/counters": tree, "interface[name=Ethernet8]/state/mtu": 9100}))
    assert [(r["device"], r["queue"], r["counter"], r["raw"], r["raw_name"]) for r in rows(found)] == [
        ("Ethernet8", None, "bytes", 43355, "interfaces/interface/state/counters/in-octets"),
        ("Ethernet8", "UC0", "queue_bytes", 7, "interfaces/interface/state/counters/queues/queue/transmit-octets"),
        ("Ethernet8", "UC1", "queue_bytes", 8, "interfaces/interface/state/counters/queues/queue/transmit-octets"),
    ]
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("numbers", 3, True), ("texts", 3, False)]


def test_flattened_lists_keep_their_entities_apart(tmp_path: Path) -> None:
    values = {
        "/interfaces/interface.0/name": "Ethernet0",
        "/interfaces/interface.0/state/counters/in-octets": "1",
        "/interfaces/interface.1/name": "Ethernet4",
        "/interfaces/interface.1/state/counters/in-octets": "2",
    }
    assert [(r["device"], r["raw"]) for r in rows(_read(tmp_path, [event(values)]))] == [("Ethernet0", 1), ("Ethernet4", 2)]


@pytest.mark.parametrize(
    ("value", "raw", "number"),
    [
        ({"uintVal": "18446744073709551615"}, 2**64 - 1, 2.0**64),
        ({"intVal": "7"}, 7, 7.0),
        ({"stringVal": "12"}, 12, 12.0),
        ({"decimalVal": {"digits": "1234", "precision": 2}}, None, 12.34),
        ({"doubleVal": 0.5}, None, 0.5),
        ({"jsonIetfVal": base64.b64encode(b'"77"').decode()}, 77, 77.0),
        ({"json_ietf_val": base64.b64encode(b"78").decode()}, 78, 78.0),
    ],
)
def test_typed_values_of_protobuf(tmp_path: Path, value: dict[str, Any], raw: int | None, number: float) -> None:
    elements: list[tuple[str, dict[str, str]]] = [("interfaces", {}), ("interface", {"name": "Ethernet8"}), ("state", {}), ("counters", {}), ("in-octets", {})]
    (row,) = rows(_read(tmp_path, [proto(elements, value), {"syncResponse": True}]))
    assert (row["node"], row["device"], row["counter"], row["raw"], row["value"], row["source_ts_ns"]) == ("leaf1", "Ethernet8", "bytes", raw, number, FIRST_NS)


@pytest.mark.parametrize("scale", [1, 10**3, 10**6, 10**9])
def test_the_size_of_a_moment_tells_its_unit(tmp_path: Path, scale: int) -> None:
    (row,) = rows(_read(tmp_path, [event({f"{STATE}/in-pkts": 1}, ts_ns=FIRST_NS // scale, interface__name="Ethernet0")]))
    assert row["source_ts_ns"] == FIRST_NS // scale * scale


def test_real_responses_hold_what_telegraf_made_of_them(tmp_path: Path, test_data: Callable[[str], Path]) -> None:
    folder = test_data("counters/telegraf_gnmi")
    found = parse(PARSER, tmp_path / "one", (folder / "canonical_field_names_responses.json").read_bytes())
    assert [(r["device"], r["direction"], r["counter"], r["raw"], r["source_ts_ns"]) for r in rows(found)] == [
        ("eth42", "rx", "packets", 5678, 1673608605875353770),
        ("eth42", "tx", "packets", 5125, 1673608605875353770),
    ]
    found = parse(PARSER, tmp_path / "two", (folder / "issue_12831_responses.json").read_bytes())
    values = {(r["device"], r["raw_name"].split("component/", 1)[1]): r["value"] for r in rows(found)}
    assert len(values) == len(rows(found)) == 22
    assert values["CM-1", "state/memory/available"] == 5041100000.0
    assert values["AP-1", "state/temperature/max"] == 34.6
    assert values["LM-1", "state/temperature/instant"] == 40.6


def test_damage_costs_what_it_hits(tmp_path: Path) -> None:
    good = [json.dumps(event({f"{STATE}/in-pkts": n}, interface__name="Ethernet0")) for n in range(4)]
    text = "\n".join([good[0], '{"name":"x","timestamp":17,"values":{"/a":"b', good[1], "2026/07/25 sending SubscribeRequest", good[2], good[3][:-9]])
    found = _read(tmp_path, text)
    assert [r["raw"] for r in rows(found)] == [0, 1, 2]
    assert found.counts() == {"bad-record": 1, "unread-lines": 1, "truncated": 1}
    assert found.info.truncated


def test_what_is_no_number_is_missing_and_counted(tmp_path: Path) -> None:
    values = {
        f"{STATE}/in-octets": "many",
        f"{STATE}/out-octets": -5,
        f"{STATE}/in-pkts": "1,234",
        f"{STATE}/out-pkts": "0x10",
        "/interfaces/interface/state/type": "eth",
    }
    found = _read(tmp_path, [event(values, interface__name="Ethernet0", ts_ns=0)])
    assert [(r["counter"], r["raw"], r["value"], r["source_ts_ns"]) for r in rows(found)] == [
        ("bytes", None, None, None),
        ("bytes", None, -5.0, None),
        ("packets", 1234, 1234.0, None),
        ("packets", 16, 16.0, None),
    ]
    assert found.counts() == {"bad-number": 1, "bad-time": 1, "counter-out-of-range": 1}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 70_000,
        b"[[[[" * 20_000,
        b'{"a":' * 20_000,
        b"[",
        b'{"update":{"timestamp":"1","update":[1,null,{"path":7}]}}',
        b'{"tags":{},"values":{"x":{"y":[[1]]}}}',
    ],
)
def test_hostile_input_is_a_notice(tmp_path: Path, content: bytes) -> None:
    found = parse(PARSER, tmp_path / "file", content)
    assert found.notices
    assert rows(found) == []


def test_every_cut_tells(tmp_path: Path) -> None:
    data = json.dumps(sample_events(), indent=1).encode()
    for size in range(0, len(data), 97):
        found = parse(PARSER, tmp_path / "file", data[:size])
        assert found.info.truncated or not size
        assert "truncated" in found.counts() or not size


@pytest.mark.parametrize(
    "text",
    [
        '{"fields":{"a":1},"name":"n","tags":{"source":"x"},"timestamp":1}',
        '{"timestamp":1700000000,"values":{"a":1}}',
        '{"traceEvents":[{"name":"k","ts":1}]}',
        '{"interfaces":{"Ethernet1":{"interfaceCounters":{"inOctets":1}}}}',
        '{"name":"m","timestamp":1700000000,"tags":{"host":"a"},"values":{"load":1}}',
        '{"status":"success","data":{"result":[{"metric":{},"values":[[1,"2"]]}]}}',
    ],
)
def test_other_files_are_left_alone(tmp_path: Path, text: str) -> None:
    assert PARSER.sniff(tmp_path / "x.json", text.encode()) is None


def test_the_sample_is_what_the_builder_writes(root: Path, tmp_path: Path) -> None:
    write_samples(tmp_path)
    assert (tmp_path / "gnmic/leaf1.event.json").read_bytes() == (root / "sample_traces/formats/gnmic/leaf1.event.json").read_bytes()
