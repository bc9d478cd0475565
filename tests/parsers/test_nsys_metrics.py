"""Hardware metrics, as the samples of counters that they are."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tests.builders.job import START_NS
from tests.builders.nsys_sqlite import Export
from tracelab_parsers.nsys import PARSER
from tracelab_parsers.nsys.metric_names import generic_meaning, gpu_meaning, network_metric

MS = 1_000_000
GUID = -8_581_146_195_574_769_160
GPU_1 = (5 << 32) + 1
WHO = ("node", "node_kind", "device", "device_kind", "port", "uid")
WHAT = ("counter", "direction", "value", "unit", "kind")


def _samples(export: Export, tmp_path: Path) -> tuple[list[dict[str, Any]], Read]:
    found = read(PARSER, export.write(tmp_path / "r.sqlite"))
    rows = [row for batch in found.batches["counter_samples"] for row in batch.to_pylist()]
    return sorted(rows, key=lambda r: (r["source_ts_ns"] or 0, r["raw_name"])), found


def _network(export: Export, *metrics: tuple[str, str | None]) -> None:
    for index, (name, unit) in enumerate(metrics):
        export.add("TARGET_INFO_NETWORK_METRICS", metricsListId=1, metricsIdx=index, name=name, unit=unit)


def test_what_a_card_counted_in_an_interval(tmp_path: Path) -> None:
    """Rates are per millisecond: 12,500,000 bytes/ms for 2.5 ms are 31,250,000 bytes."""
    export = Export("3.28.1", host="node-7")
    export.add("TARGET_INFO_NIC_INFO", GUID=GUID, nicId=2, name="mlx5_3", linkLayer=1)
    export.add("ENUM_NET_LINK_TYPE", id=1, name="NET_LINK_TYPE_INFINIBAND", label="InfiniBand")
    export.add("NIC_ID_MAP", nicId=2, globalId=77)
    _network(export, ("IB: Bytes sent", "bytes/ms"), ("IB: Send waits", "ticks/ms"), ("IB: CNPs received", "CNPs/ms"), ("IB: Odd things", "things/s"))
    for index, value in enumerate((12_500_000, 400, 3, 500)):
        export.add("NET_NIC_METRIC", start=10 * MS, end=12 * MS + 500_000, globalId=77, portId=1, metricsListId=1, metricsIdx=index, value=value)
    rows, _ = _samples(export, tmp_path)
    assert {tuple(r[c] for c in WHO) for r in rows} == {("node-7", "host", "mlx5_3", "rdma", 1, f"{GUID + (1 << 64):016x}")}
    assert [tuple(r[c] for c in WHAT) for r in rows] == [
        ("bytes", "tx", 31_250_000.0, "byte", "delta"),
        ("cnp_handled", "rx", 7.5, "packet", "delta"),
        ("vendor.IB: Odd things", None, 1.25, "event", "delta"),
        ("xmit_wait_ticks", "tx", 1_000.0, "tick", "delta"),
    ]
    assert {(r["source_ts_ns"], r["interval_ns"], r["time_quality"]) for r in rows} == {(START_NS + 12 * MS + 500_000, 2_500_000, "collector")}


def test_cards_on_ethernet_count_rdma(tmp_path: Path) -> None:
    export = Export("3.28.1")
    export.add("ENUM_NET_LINK_TYPE", id=2, name="NET_LINK_TYPE_ETHERNET", label="Ethernet")
    export.add("TARGET_INFO_NIC_INFO", GUID=5, nicId=0, name="mlx5_0", linkLayer=2)
    export.add("NIC_ID_MAP", nicId=0, globalId=9)
    _network(export, ("IB: Bytes received", "bytes/ms"), ("Eth: Bytes received", "bytes/ms"), ("IPoIB: Bytes sent", "bytes/ms"), ("IB: Bytes sent", None))
    for index in range(4):
        export.add("NET_NIC_METRIC", start=0, end=MS, globalId=9, portId=0, metricsListId=1, metricsIdx=index, value=8)
    rows, _ = _samples(export, tmp_path)
    assert [(r["counter"], r["value"], r["kind"], r["unit"], r["port"]) for r in rows] == [
        ("bytes", 8.0, "delta", "byte", None),
        ("rdma_bytes", 8.0, "delta", "byte", None),
        ("vendor.IB: Bytes sent", 8.0, "gauge", None, None),
        ("vendor.IPoIB: Bytes sent", 8.0, "delta", "byte", None),
    ]


def test_a_row_from_before_the_session_is_no_sample(tmp_path: Path) -> None:
    export = Export("3.28.1")
    _network(export, ("IB: Bytes sent", "bytes/ms"))
    for start, end in ((-START_NS, MS), (MS, 2 * MS)):
        export.add("NET_NIC_METRIC", start=start, end=end, globalId=3, portId=1, metricsListId=1, metricsIdx=0, value=0)
    rows, found = _samples(export, tmp_path)
    assert [(r["source_ts_ns"], r["device"], r["device_kind"]) for r in rows] == [(START_NS + 2 * MS, "NIC 0x3", "other")]
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("net_nic_metric", 1, True), ("net_nic_metric (not stored)", 1, False)]


def test_switches_are_machines_of_their_own(tmp_path: Path) -> None:
    export = Export("3.28.1", host="node-7")
    export.add("NET_IB_DEVICE_INFO", guid=GUID, name="leaf-3")
    export.add("ENUM_NET_IB_CONGESTION_EVENT_TYPE", id=1, name="CONGESTION", label="Egress queue above threshold")
    _network(export, ("IB: Packets received", "packets/ms"))
    export.add("NET_IB_SWITCH_METRIC", start=0, end=2 * MS, globalId=GUID, portId=30, metricsListId=1, metricsIdx=0, value=50)
    for kind in (1, 2):
        export.add("NET_IB_SWITCH_CONGESTION_EVENT", start=5 * MS + kind, globalId=GUID, congestionType=kind, switchIngressPort=4, switchEgressPort=31)
    rows, found = _samples(export, tmp_path)
    uid = f"{GUID + (1 << 64):016x}"
    assert [tuple(r[c] for c in (*WHO, *WHAT, "raw_name")) for r in rows] == [
        ("leaf-3", "switch", None, "switch-port", 30, uid, "packets", "rx", 100.0, "packet", "delta", "IB: Packets received"),
        ("leaf-3", "switch", None, "switch-port", 31, uid, "vendor.congestion_event", "tx", 1.0, "event", "event", "Egress queue above threshold"),
        ("leaf-3", "switch", None, "switch-port", 31, uid, "vendor.congestion_event", "tx", 1.0, "event", "event", "congestion type 2"),
    ]
    assert {(c.kind, c.count, c.stored) for c in found.info.event_counts} >= {("switch congestion", 2, True)}


def test_metrics_of_gpus(tmp_path: Path) -> None:
    """Clocks are Hz in 32 unsigned bits, however their name has it; -1,768,172,296 is 2,526,795,000 Hz."""
    export = Export("3.24.7", host="node-7")
    export.add("TARGET_INFO_GPU", id=1, name="NVIDIA H100", uuid="GPU-3f0c")
    names = ("SMs Active [Throughput %]", "GPC Clock Frequency [MHz]", "NVLink TX Responses User Data [Throughput %]", "SYS Clock Frequency [MHz]")
    for metric, name in enumerate(names):
        export.add("TARGET_INFO_GPU_METRICS", typeId=GPU_1, sourceId=1, typeName="GH100", metricId=metric, metricName=name)
    for metric, value in enumerate((87, -1_768_172_296, 12, 1_980)):
        export.add("GPU_METRICS", timestamp=2_000, typeId=GPU_1, metricId=metric, value=value)
    rows, _ = _samples(export, tmp_path)
    assert {tuple(r[c] for c in WHO) for r in rows} == {("node-7", "host", "1", "gpu", None, "GPU-3f0c")}
    assert [(r["raw"], *(r[c] for c in WHAT)) for r in rows] == [
        (2_526_795_000, "sm_clock", None, 2_526_795_000.0, "hertz", "gauge"),
        (12, "vendor.NVLink TX Responses User Data [Throughput %]", "tx", 12.0, "percent", "gauge"),
        (87, "sm_active", None, pytest.approx(0.87), "ratio", "gauge"),
        (1_980, "vendor.SYS Clock Frequency [MHz]", None, 1_980_000_000.0, "hertz", "gauge"),
    ]


def test_the_bits_of_fractions(tmp_path: Path) -> None:
    """The integer column holds the bits of whatever type a field is said to be of."""
    export = Export("3.28.1")
    for number, label in enumerate(("Signed", "Unsigned", "Float", "Double")):
        export.add("ENUM_NSYS_GENERIC_EVENT_FIELD_TYPE", id=number, name=f"FIELD_TYPE_{label.upper()}", label=label)
    bits = {"as float": (2, 4, struct.unpack("<i", struct.pack("<f", -1.5))[0]), "as double": (3, 8, struct.unpack("<q", struct.pack("<d", 0.375))[0])}
    bits |= {"as unsigned": (1, 4, -1), "as signed": (0, 4, -1)}
    for metric, (name, (kind, size, value)) in enumerate(bits.items()):
        export.add("GENERIC_EVENT_TYPE_FIELDS", typeId=GPU_1, fieldIdx=metric, fieldNameId=export.string(name), size=size, type=kind)
        export.add("GPU_METRICS", timestamp=2_000, typeId=GPU_1, metricId=metric, value=value)
    rows, _ = _samples(export, tmp_path)
    expected = {"as float": -1.5, "as double": 0.375, "as unsigned": 4_294_967_295.0, "as signed": -1.0}
    assert {r["raw_name"]: r["value"] for r in rows} == expected


def test_metrics_of_plugins(tmp_path: Path) -> None:
    export = Export("3.28.1", host="node-7")
    names = ("rdma_read_bytes per second", "tx_bytes per second", "rx_drops per second")
    for number in (0, 1):
        kind = (9 << 32) + number
        export.add("GENERIC_EVENT_TYPES", typeId=kind, sourceId=4, nameId=export.string("rdmap"))
        for index, name in enumerate(names):
            export.add("GENERIC_EVENT_TYPE_FIELDS", typeId=kind, fieldIdx=index, fieldNameId=export.string(name), size=8, type=1)
        export.add("GENERIC_EVENTS", genericEventId=10 + number, rawTimestamp=0, timestamp=MS * (1 + number), typeId=kind)
        export.add("GENERIC_EVENT_DATA", genericEventId=10 + number, fieldIdx=0, uintVal=-1)
        export.add("GENERIC_EVENT_DATA", genericEventId=10 + number, fieldIdx=1, uintVal=1 << 30)
        export.add("GENERIC_EVENT_DATA", genericEventId=10 + number, fieldIdx=2, doubleVal=0.5)
    export.add("GENERIC_EVENT_SOURCES", sourceId=4, nameId=export.string("EFA Metrics"))
    export.add("GENERIC_EVENT_TYPES", typeId=8 << 32, sourceId=5, nameId=export.string("sched_switch"))
    export.add("GENERIC_EVENT_SOURCES", sourceId=5, nameId=export.string("FTrace"))
    export.add("GENERIC_EVENTS", genericEventId=12, rawTimestamp=0, timestamp=5, typeId=8 << 32)
    export.add("GENERIC_EVENT_DATA", genericEventId=12, fieldIdx=0, uintVal=7)
    rows, found = _samples(export, tmp_path)
    assert [(r["source_ts_ns"] - START_NS, r["device"], r["counter"], r["direction"], r["value"], r["unit"]) for r in rows] == [
        row
        for n, device in ((1, "rdmap 0"), (2, "rdmap 1"))
        for row in (
            (n * MS, device, "vendor.rdma_read_bytes per second", "rx", float((1 << 64) - 1), "byte/s"),
            (n * MS, device, "vendor.rx_drops per second", "rx", 0.5, None),
            (n * MS, device, "bytes_per_s", "tx", float(1 << 30), "byte/s"),
        )
    ]
    assert {(c.kind, c.count, c.stored) for c in found.info.event_counts} >= {("plugin metric", 2, True), ("generic_events", 1, False)}


def test_events_that_are_json(tmp_path: Path) -> None:
    """As exports of before 2024 have them, the metrics of GPUs among them."""
    export = Export("3.1.2")
    kind = (9 << 32) + 3
    export.add("GENERIC_EVENT_SOURCES", sourceId=4, data=json.dumps({"Name": "GPU Metrics [NVIDIA H100]"}))
    export.add("GENERIC_EVENT_TYPES", typeId=kind, sourceId=4, data=json.dumps({"Name": "GH100"}))
    texts = (json.dumps({"SM Active": "41", "Sampled": True, "of": {"x": 1}, "name": "text", "GPC Clock Frequency": 1_755_000_000}), "{broken", "[1]", None)
    for number, text in enumerate(texts):
        export.add("GENERIC_EVENTS", genericEventId=number, rawTimestamp=0, timestamp=number, typeId=kind, data=text)
    rows, _ = _samples(export, tmp_path)
    assert [(r["device"], r["device_kind"], r["counter"], r["value"]) for r in rows] == [
        ("3", "gpu", "sm_clock", 1_755_000_000.0),
        ("3", "gpu", "sm_active", pytest.approx(0.41)),
    ]


def test_whole_numbers_in_json_stay_exact(tmp_path: Path) -> None:
    """2**60 + 1 and 2**64 - 1 are no floats; -3, 0.5 and 2**64 are no whole numbers of 64 bits without sign."""
    export = Export("3.1.2")
    export.add("GENERIC_EVENT_SOURCES", sourceId=4, data=json.dumps({"Name": "NIC metrics"}))
    export.add("GENERIC_EVENT_TYPES", typeId=9 << 32, sourceId=4, data=json.dumps({"Name": "mlx5_0"}))
    values = {"a": 2**60 + 1, "b": str(2**64 - 1), "c": -3, "d": 0.5, "e": 2**64, "f": 7.0}
    export.add("GENERIC_EVENTS", genericEventId=1, rawTimestamp=0, timestamp=5, typeId=9 << 32, data=json.dumps(values))
    rows, _ = _samples(export, tmp_path)
    assert [(r["raw_name"], r["raw"]) for r in rows] == [("a", 2**60 + 1), ("b", 2**64 - 1), ("c", None), ("d", None), ("e", None), ("f", 7)]
    assert [r["value"] for r in rows] == [2.0**60, 2.0**64, -3.0, 0.5, 2.0**64, 7.0]


def test_samples_without_a_session_start_have_no_time(tmp_path: Path) -> None:
    export = Export("3.28.1", epoch_ns=None)
    export.kernel("gemm", 0, 1_000)
    export.add("GPU_METRICS", timestamp=2_000, typeId=GPU_1, metricId=0, value=1)
    _network(export, ("IB: Bytes sent", "bytes/ms"))
    export.add("NET_NIC_METRIC", start=0, end=MS, globalId=3, portId=1, metricsListId=1, metricsIdx=0, value=None)
    rows, _ = _samples(export, tmp_path)
    assert [(r["source_ts_ns"], r["time_quality"], r["raw_name"], r["value"]) for r in rows] == [
        (None, None, "IB: Bytes sent", None),
        (None, None, "metric 0", 1.0),
    ]


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("IB: Bytes sent", "bytes/ms", ("bytes", "tx", "delta", "byte", 1e6)),
        ("IB: Packets received", "packets/us", ("packets", "rx", "delta", "packet", 1e3)),
        ("Eth: Packets sent", "packets/s", ("packets", "tx", "delta", "packet", 1e9)),
        ("IB: CNPs sent", "CNPs/ms", ("cnp_sent", "tx", "delta", "packet", 1e6)),
        ("IB: Bytes sent", "packets/ms", ("vendor.IB: Bytes sent", "tx", "delta", "packet", 1e6)),
        ("Temperature", "degrees", ("vendor.Temperature", None, "gauge", None, 0)),
    ],
)
def test_names_and_units_of_networks(name: str, unit: str, expected: tuple[str, str | None, str, str | None, float]) -> None:
    meaning, per_ns = network_metric(name, unit, ethernet=False)
    assert (meaning.counter, meaning.direction, meaning.stated_kind, meaning.stated_unit, per_ns) == expected


def test_names_of_gpus_and_plugins() -> None:
    assert gpu_meaning("PCIe RX Throughput [Throughput %]").direction == "rx"
    assert gpu_meaning("Compute Warps in Flight [Avg]").stated_unit is None
    assert generic_meaning("rx_pkts per second").counter == "packets_per_s"
    assert generic_meaning("rdma_write_recv_bytes per second").direction == "rx"
    assert (generic_meaning("Power").counter, generic_meaning("Power").stated_kind) == ("vendor.Power", "gauge")
