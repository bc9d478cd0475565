"""Answers of Prometheus' API: names, machines, exact moments and numbers, units that only the file shows, damage."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.collected import Read, read
from tests.builders.prometheus import answer, moment, ranged
from tests.builders.switches import one, parse, rows
from tracelab_parsers.counters.prometheus_json import PARSER
from tracelab_parsers.counters.prometheus_values import pairs_of

T = 1_785_000_000
TX = "node_infiniband_port_data_transmitted_bytes_total"


def _read(folder: Path, *series: dict[str, Any], **more: object) -> Read:
    return parse(PARSER, folder / "answer.json", json.dumps(answer(series, **more), separators=(",", ":")))  # type: ignore[arg-type]


def test_a_series_states_machine_device_moments_and_exact_numbers(tmp_path: Path) -> None:
    values = [(T + 0.781, "5169384681454392"), (T + 1.25, "9007199254740993"), (T + 2, "NaN"), (T + 3, "18446744073709551615"), (T + 4, "9.2e+14")]
    found = _read(tmp_path, ranged(TX, values, instance="node09:9100", job="node", device="mlx5_0", port="1"))
    assert [(r["source_ts_ns"], r["raw"], r["value"], r["flags"]) for r in rows(found)] == [
        (T * 10**9 + 781_000_000, 5_169_384_681_454_392, 5169384681454392.0, None),
        (T * 10**9 + 1_250_000_000, 9_007_199_254_740_993, 9007199254740992.0, None),
        (T * 10**9 + 2 * 10**9, None, None, None),
        (T * 10**9 + 3 * 10**9, 2**64 - 1, 2.0**64, "rounded"),
        (T * 10**9 + 4 * 10**9, 920_000_000_000_000, 9.2e14, None),
    ]
    who = {(r["node"], r["node_kind"], r["device"], r["device_kind"], r["port"], r["direction"], r["counter"], r["kind"], r["line"]) for r in rows(found)}
    assert who == {("node09", "host", "mlx5_0", "rdma", 1, "tx", "bytes", "counter", 1)}
    assert {r["time_quality"] for r in rows(found)} == {"collector"}
    assert found.counts() == {}
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("numbers", 5, True)]


NAMES: list[tuple[str, dict[str, str], tuple[Any, ...]]] = [
    ("node_infiniband_rate_bytes_per_second", {"device": "mlx5_0", "port": "1"}, ("link_speed", None, "bit/s", "gauge", 80.0)),
    ("node_infiniband_port_transmit_wait_total", {"device": "mlx5_0", "port": "1"}, ("xmit_wait_ticks", "tx", "tick", "counter", 10.0)),
    ("node_infiniband_rp_cnp_packets_handled_total", {"device": "mlx5_0", "port": "1"}, ("cnp_handled", "rx", "packet", "counter", 10.0)),
    (
        "node_infiniband_port_receive_remote_physical_errors_total",
        {"device": "m", "port": "1"},
        ("rcv_remote_physical_errors", "rx", "packet", "counter", 10.0),
    ),
    (
        "node_infiniband_legacy_data_received_bytes_total",
        {"device": "m"},
        ("vendor.node_infiniband_legacy_data_received_bytes_total", "rx", "byte", "counter", 10.0),
    ),
    ("node_network_receive_bytes_total", {"device": "eth0"}, ("vendor.netdev_bytes", "rx", "byte", "counter", 10.0)),
    ("node_network_carrier_down_changes_total", {"device": "eth0"}, ("link_down_events", None, "event", "counter", 10.0)),
    ("node_network_speed_bytes", {"device": "eth0"}, ("link_speed", None, "bit/s", "gauge", 80.0)),
    ("node_ethtool_received_prio3_pause", {"device": "eth0"}, ("pfc_pause_frames", "rx", "packet", "counter", 10.0)),
    ("node_ethtool_transmitted_bytes_phy", {"device": "eth0"}, ("bytes", "tx", "byte", "counter", 10.0)),
    ("node_ethtool_port_received_dropped", {"device": "eth0"}, ("discards", "rx", "packet", "counter", 10.0)),
    ("node_net_ethtool", {"device": "eth0", "type": "rx_discards_phy"}, ("discards", "rx", "packet", "counter", 10.0)),
    ("DCGM_FI_DEV_SM_CLOCK", {"gpu": "0"}, ("sm_clock", None, "hertz", "gauge", 1e7)),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", {"gpu": "0"}, ("energy", None, "joule", "counter", 0.01)),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", {"gpu": "0"}, ("pcie_bytes_per_s", "rx", "byte/s", "gauge", 10.0)),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", {"gpu": "0"}, ("vendor.DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", None, None, "gauge", 10.0)),
    ("DCGM_FI_DEV_POWER_VIOLATION", {"gpu": "0"}, ("vendor.DCGM_FI_DEV_POWER_VIOLATION", None, None, "counter", 10.0)),
    ("ifHCOutOctets", {"ifName": "Eth1/1", "ifIndex": "3"}, ("bytes", "tx", "byte", "counter", 10.0)),
    ("ifInOctets", {"ifName": "Eth1/1"}, ("vendor.ifInOctets", "rx", "byte", "counter", 10.0)),
    ("ifHighSpeed", {"ifDescr": "Eth1/1"}, ("link_speed", None, "bit/s", "gauge", 1e7)),
    ("sonic_interface_receive_errs", {"device": "Ethernet8", "type": "discard"}, ("discards", "rx", "packet", "counter", 10.0)),
    (
        "sonic_queue_watermark_bytes_total",
        {"device": "E", "queue": "3", "type": "user"},
        ("vendor.sonic_queue_watermark_bytes_total", None, None, "gauge", 10.0),
    ),
    ("sonic_queue_dropped_packets_total", {"device": "Ethernet8", "queue": "3"}, ("queue_drop_packets", "tx", "packet", "counter", 10.0)),
    ("x_interfaces_interface_state_counters_in_octets", {"interface_name": "ethernet-1/1", "source": "leaf1:57400"}, ("bytes", "rx", "byte", "counter", 10.0)),
    ("infiniband_port_xmit_data", {"device": "mlx5_0", "port": "1", "host": "n"}, ("bytes", "tx", "byte", "counter", 40.0)),
    ("instance:node_network_receive_bytes:rate5m", {"device": "eth0"}, ("vendor.instance:node_network_receive_bytes:rate5m", "rx", None, "gauge", 10.0)),
    (f"device:{TX}:rate1m", {"device": "mlx5_0", "port": "1"}, ("bytes_per_s", "tx", "byte/s", "gauge", 10.0)),
    ("my_fabric_drops_total", {"interface": "swp1"}, ("vendor.my_fabric_drops_total", None, None, "counter", 10.0)),
    ("my_fabric_level", {"interface": "swp1"}, ("vendor.my_fabric_level", None, None, "gauge", 10.0)),
]


@pytest.mark.parametrize(("name", "labels", "wanted"), NAMES, ids=[n for n, _, _ in NAMES])
def test_names_of_exporters(name: str, labels: dict[str, str], wanted: tuple[Any, ...], tmp_path: Path) -> None:
    found = _read(tmp_path, moment(name, T, "10", instance="x:1", **labels), kind="vector")
    (row,) = rows(found)
    assert (row["counter"], row["direction"], row["unit"], row["kind"], row["value"]) == wanted
    assert row["raw"] == 10
    assert row["raw_name"].startswith(name)


MACHINES: list[tuple[str, dict[str, str], tuple[Any, ...]]] = [
    ("ifHCInOctets", {"ifName": "Eth1/1", "instance": "10.0.0.7"}, ("10.0.0.7", "switch", "Eth1/1", "switch-port", None, None)),
    ("ifHCInOctets", {"ifDescr": "Eth1/2", "instance": "[fe80::1]:161"}, ("fe80::1", "switch", "Eth1/2", "switch-port", None, None)),
    ("sonic_interface_receive_bytes", {"device": "Ethernet4", "instance": "https://l3:91/m"}, ("l3", "switch", "Ethernet4", "switch-port", None, None)),
    ("DCGM_FI_DEV_GPU_TEMP", {"gpu": "2", "UUID": "GPU-7", "Hostname": "gpu-7", "instance": "10.1.1.1:9400"}, ("gpu-7", "host", "2", "gpu", None, "GPU-7")),
    ("DCGM_FI_DEV_GPU_TEMP", {"gpu": "2", "Hostname": "nvidia-dcgm-exporter-xpn6b", "node": "gpu-8"}, ("gpu-8", "host", "2", "gpu", None, None)),
    ("infiniband_switch_port_transmit_wait_total", {"guid": "0x506b4b03005c2740", "port": "3", "switch": "ib-leaf1", "instance": "adm:9315"},
     ("ib-leaf1", "switch", None, "switch-port", 3, "506b4b03005c2740")),
    ("infiniband_hca_port_symbol_error_total", {"guid": "0xe003003b", "port": "1", "hca": "n5 HCA-2"}, ("n5", "host", "HCA-2", "rdma", 1, "00000000e003003b")),
    ("infiniband_portxmitwait_total", {"component": "ca", "local_name": "n6 mlx5_3", "local_guid": "0x1b", "local_port": "1"},
     ("n6", "host", "mlx5_3", "rdma", 1, "000000000000001b")),
    ("node_network_receive_packets_total", {"device": "ens1f0", "instance": "10.0.0.2:9", "nodename": "h-b"}, ("h-b", "host", "ens1f0", "netdev", None, None)),
    ("unknown_total", {"port": "Ethernet1/4", "instance": "leaf9:80"}, ("leaf9", None, "Ethernet1/4", "other", None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "labels", "wanted"), MACHINES, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(MACHINES)])
def test_machines_and_devices(name: str, labels: dict[str, str], wanted: tuple[Any, ...], tmp_path: Path) -> None:
    (row,) = rows(_read(tmp_path, moment(name, T, "1", **labels), kind="vector"))
    assert tuple(row[k] for k in ("node", "node_kind", "device", "device_kind", "port", "uid")) == wanted


def test_codes_and_blanks_stand_for_what_they_mean(tmp_path: Path) -> None:
    series = [
        ranged("node_infiniband_state_id", [(T, "4"), (T + 1, "1"), (T + 2, "0")], device="m", port="1"),
        ranged("ifOperStatus", [(T, "1"), (T + 1, "2"), (T + 2, "5")], ifName="e"),
        ranged("node_network_speed_bytes", [(T, "-125000")], device="eth1"),
        ranged("DCGM_FI_DEV_XID_ERRORS", [(T, "2147483632"), (T + 1, "79")], gpu="0"),
    ]
    found = rows(_read(tmp_path, *series))
    assert [(r["counter"], r["raw"], r["value"]) for r in found] == [
        ("link_up", None, 1.0),
        ("link_up", None, 0.0),
        ("link_up", None, None),
        ("link_up", None, 1.0),
        ("link_up", None, 0.0),
        ("link_up", None, None),
        ("link_speed", None, None),
        ("xid_last", None, None),
        ("xid_last", 79, 79.0),
    ]


def test_results_of_expressions_are_levels_and_said(tmp_path: Path) -> None:
    found = _read(tmp_path, ranged("", [(T, "1.5e9")], instance="n1:9100", device="mlx5_0"))
    row = one(found, counter="vendor.expression")
    assert (row["kind"], row["value"], row["node"], row["device"]) == ("gauge", 1.5e9, "n1", "mlx5_0")
    assert found.counts() == {"unnamed-series": 1}


def test_other_metrics_are_counted_not_kept(tmp_path: Path) -> None:
    found = _read(tmp_path, moment("node_cpu_seconds_total", T, "1", cpu="0"), moment("up", T, "1"), moment("go_goroutines", T, "3"), kind="vector")
    assert rows(found) == []
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("series of other metrics", 3, False)]
    assert found.counts() == {"no-counters": 1}


DATA, PACKETS = "infiniband_switch_port_transmit_data_bytes_total", "infiniband_switch_port_transmit_packets_total"


@pytest.mark.parametrize(
    ("data", "packets", "version", "value", "flags", "codes"),
    [
        (2_048_000, 1_000, None, 2_048_000.0, None, set()),  # longer than any packet of words: bytes
        (7_000, 1_000, None, 28_000.0, None, {"words-for-bytes"}),  # shorter than any packet of bytes: words
        (500_000, 1_000, None, 500_000.0, "unit-unverified", {"unit-unverified"}),
        (500_000, 1_000, "0.9.0", 2_000_000.0, None, {"words-for-bytes"}),
        (500_000, 1_000, "v0.10.1", 500_000.0, None, set()),
        (9_000_000, 10, None, 9_000_000.0, "unit-unverified", {"unit-unverified"}),  # ten packets prove nothing
    ],
)
def test_what_is_called_bytes_may_be_words(
    data: int, packets: int, version: str | None, value: float, flags: str | None, codes: set[str], tmp_path: Path
) -> None:
    series = [moment(DATA, T, str(data), guid="0x1", port="1"), moment(PACKETS, T, str(packets), guid="0x1", port="1")]
    if version is not None:
        series.append(moment("infiniband_exporter_build_info", T, "1", version=version))
    found = _read(tmp_path, *series, kind="vector")
    row = one(found, counter="bytes")
    assert (row["raw"], row["value"], row["flags"]) == (data, value, flags)
    assert set(found.counts()) == codes


def test_the_other_exporter_prints_words_unless_packets_disprove_it(tmp_path: Path) -> None:
    labels = {"component": "switch", "local_name": "leaf", "local_guid": "0x2", "local_port": "4"}
    assert one(_read(tmp_path, moment("infiniband_portrcvdata_total", T, "100", **labels), kind="vector"), counter="bytes")["value"] == 400.0
    both = [moment("infiniband_portrcvdata_total", T, "4000000", **labels), moment("infiniband_portrcvpkts_total", T, "1000", **labels)]
    assert one(_read(tmp_path, *both, kind="vector"), counter="bytes")["value"] == 4_000_000.0


def test_names_of_switches_come_from_their_guid(tmp_path: Path) -> None:
    series = [
        moment("infiniband_switch_port_transmit_wait_total", T, "5", guid="0x1", port="1"),
        moment("infiniband_switch_info", T, "1", guid="0x1", switch="leaf-1"),
    ]
    assert one(_read(tmp_path, *series, kind="vector"))["node"] == "leaf-1"
    assert one(_read(tmp_path, series[0], kind="vector"))["node"] == "0000000000000001"


def test_forms_of_documents(tmp_path: Path) -> None:
    series = [ranged(TX, [(T + 0.5, "7")], instance="a:1", device="m", port="1"), ranged(TX, [(T, "8"), (T + 1, "9")], instance="b:1", device="m", port="1")]
    plain = [(r["node"], r["source_ts_ns"], r["raw"]) for r in rows(_read(tmp_path, *series))]
    assert plain == [("a", T * 10**9 + 500_000_000, 7), ("b", T * 10**9, 8), ("b", (T + 1) * 10**9, 9)]
    for text in (
        json.dumps(answer(series), indent=2),
        json.dumps([answer(series[:1]), answer(series[1:])]),
        json.dumps(answer(series[:1])) + "\n" + json.dumps(answer(series[1:])),
        json.dumps(answer(series)["data"]),
        json.dumps({"data": {"result": series, "resultType": "matrix"}, "status": "success"}),
    ):
        found = parse(PARSER, tmp_path / "form.json", text)
        assert [(r["node"], r["source_ts_ns"], r["raw"]) for r in rows(found)] == plain
        assert found.counts() == {}
        assert PARSER.sniff(tmp_path / "form.json", text.encode()) is not None
    packed = parse(PARSER, tmp_path / "form.json.gz", gzip.compress(json.dumps(answer(series)).encode()))
    assert len(rows(packed)) == 3


def test_exports_of_victoriametrics(tmp_path: Path) -> None:
    line = {
        "metric": {"__name__": TX, "instance": "a:1", "device": "m", "port": "1"},
        "values": [7, 9007199254740993, None],
        "timestamps": [T * 1000, T * 1000 + 1, T * 1000 + 2],
    }
    text = json.dumps(line) + "\n" + json.dumps(line) + "\n"
    assert PARSER.sniff(tmp_path / "x", text.encode()) is not None
    found = parse(PARSER, tmp_path / "x.jsonl", text)
    assert [(r["line"], r["source_ts_ns"], r["raw"]) for r in rows(found)][:3] == [
        (1, T * 10**9, 7),
        (1, T * 10**9 + 10**6, 2**53 + 1),
        (1, T * 10**9 + 2 * 10**6, None),
    ]
    assert found.info.truncated is False
    assert len(rows(found)) == 6


def test_a_cut_file_keeps_the_samples_before_the_cut(tmp_path: Path) -> None:
    text = json.dumps(answer([ranged(TX, [(T + s, str(s)) for s in range(100)], instance=f"n{n}:1", device="m", port="1") for n in range(3)]))
    for size in (len(text) - 2, len(text) - 40, len(text) // 2, 400):
        found = parse(PARSER, tmp_path / "cut.json", text[:size])
        assert found.counts()["truncated"] == 1
        assert found.info.truncated
        whole = text[:size].count('"], [') + text[:size].count('"]]')
        assert len(rows(found)) in (whole, whole + 1)


def test_errors_and_partial_answers_are_said(tmp_path: Path) -> None:
    failed = '{"status":"error","errorType":"bad_data","error":"parse error"}'
    assert PARSER.sniff(tmp_path / "e", failed.encode()) is not None
    found = parse(PARSER, tmp_path / "e.json", failed)
    assert found.counts() == {"query-failed": 1}
    assert found.notices["query-failed"].severity == "error"
    assert "partial-answer" in _read(tmp_path, ranged(TX, [(T, "1")], device="m"), warnings=["a store is gone"]).counts()
    assert "partial-answer" in parse(PARSER, tmp_path / "p.json", json.dumps({"isPartial": True, **answer([ranged(TX, [(T, "1")], device="m")])})).counts()


def test_broken_series_cost_themselves_alone(tmp_path: Path) -> None:
    good = json.dumps(ranged(TX, [(T, "1")], instance="a:1", device="m"))
    deep = '{"metric":{"__name__":"x"},"values":' + "[" * 50_000 + "]" * 50_000 + "}"
    bad = [
        '{"metric":{"a":5},"values":[]}',
        '{"metric":{"__name__":"ifHCInOctets","ifName":"e"},"values":[[1],[2,"3","4"]]}',
        '{"metric":{"a":"b"},"values":[[1,}',
        deep,
    ]
    for piece in bad:
        found = parse(PARSER, tmp_path / "b.json", f'{{"status":"success","data":{{"resultType":"matrix","result":[{good},{piece},{good}]}}}}')
        assert len(rows(found)) == 2
        assert found.counts()["bad-series"] == 1
    odd = _read(tmp_path, ranged(TX, [(T, "x"), (-5, "2"), (T, "-7"), (T, "1,5")], device="m"))
    assert [(r["source_ts_ns"], r["raw"], r["value"]) for r in rows(odd)] == [
        (T * 10**9, None, None),
        (None, 2, 2.0),
        (T * 10**9, None, -7.0),
        (T * 10**9, None, None),
    ]
    assert odd.counts() == {"bad-number": 2, "bad-time": 1, "counter-out-of-range": 1}


def test_native_histograms_are_counted(tmp_path: Path) -> None:
    found = _read(tmp_path, {"metric": {"__name__": "x", "interface": "e"}, "histograms": [[T, {"count": "1"}]]}, ranged(TX, [(T, "1")], device="m"))
    assert found.counts() == {"native-histograms": 1}


def test_many_series_come_in_bounded_batches(tmp_path: Path) -> None:
    values = [(T + s, str(10**12 + s)) for s in range(1_000)]
    path = tmp_path / "many.json"
    path.write_text(json.dumps(answer([ranged(TX, values, instance=f"n{n}:1", device="m", port="1") for n in range(60)]), separators=(",", ":")))
    found = read(PARSER, path)
    sizes = [b.num_rows for b in found.batches["counter_samples"]]
    assert sum(sizes) == 60_000
    assert max(sizes) <= 100_000
    assert len({r["line"] for r in rows(found)}) == 60


@given(
    st.lists(st.tuples(st.integers(40_000_000, 3_999_999_999), st.integers(0, 999_999_999), st.integers(0, 2**64 - 1)), min_size=1, max_size=20), st.booleans()
)
def test_moments_and_numbers_are_exact(samples: list[tuple[int, int, int]], whole: bool) -> None:
    times = [str(s) if whole else str(Decimal(s) + Decimal(ns).scaleb(-9)) for s, ns, _ in samples]
    text = "[" + ",".join(f'[{t},"{v}"]' for t, (_, _, v) in zip(times, samples, strict=True)) + "]"
    pairs = pairs_of(text.encode())
    assert pairs.ts_ns.tolist() == [s * 10**9 + (0 if whole else ns) for s, ns, _ in samples]
    assert pairs.numbers.raw.tolist() == [v for _, _, v in samples]
    assert pairs.numbers.whole.all()


def test_sniffing_is_strict() -> None:
    for text in (
        b'{"result": [1, 2]}',
        b'{"data": {"resultType": 5}}',
        b'{"metric": "loss", "values": [1, 2]}',
        b'"resultType":"matrix" and so on',
        b"",
        b'{"status":"error"}',
    ):
        assert PARSER.sniff(Path("x.json"), text) is None


def test_a_real_answer(test_data: Callable[[str], Path]) -> None:
    path = test_data("counters/synthetic") / "prometheus_query_range.json"
    found = read(PARSER, path)
    series = json.loads(path.read_text(), parse_float=Decimal)["data"]["result"][0]
    wanted = [(int(t * 10**9), None if v == "NaN" else int(Decimal(v))) for t, v in series["values"]]
    assert [(r["source_ts_ns"], r["raw"]) for r in rows(found)] == wanted
    assert {(r["node"], r["device"], r["port"], r["counter"]) for r in rows(found)} == {("node01", "mlx5_0", 1, "bytes")}
    assert found.counts() == {"partial-answer": 1}
