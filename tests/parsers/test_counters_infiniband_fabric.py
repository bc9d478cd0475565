"""ibdiagnet's tables and UFM's telemetry: whose numbers, in which unit, since when."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tests.builders.infiniband import IBDIAGNET, ufm_csv, ufm_message, ufm_record
from tests.builders.switches import one, parse, rows
from tracelab_parsers.counters.ibdiagnet import PARSER as IBDIAGNET_PARSER
from tracelab_parsers.counters.ufm import PARSER as UFM
from tracelab_parsers.counters.ufm_names import ufm_meaning
from tracelab_parsers.counters.ufm_records import since_1970_ns
from tracelab_parsers.counters.ufm_units import PacketSizes, Unit

LEAF, HOST = "0xb8599f0300000c00", "0xc42a10300000a00"
US = 1_767_607_200_000_000
"""2026-01-05 10:00:00 UTC."""


def _diagnosis(folder: Path, text: str) -> Read:
    assert IBDIAGNET_PARSER.sniff(folder / "x", text.encode()) is not None
    return parse(IBDIAGNET_PARSER, folder / "out.db_csv", text)


def _told(found: Read, *columns: str, table: str = "counter_samples") -> list[tuple[Any, ...]]:
    return [tuple(r[c] for c in columns) for r in rows(found, table)]


def test_counters_of_a_diagnosis(tmp_path: Path) -> None:
    found = _diagnosis(tmp_path, IBDIAGNET)
    leaf = {r["raw_name"]: r for r in rows(found) if r["node"] == "leaf7" and r["port"] == 1 and r["kind"] != "delta"}
    assert {n: (r["counter"], r["raw"], r["value"], r["width"], r["flags"]) for n, r in leaf.items() if n.startswith(("Link", "Port"))} == {
        # of two that count the same, the wider one is the canonical one
        "LinkDownedCounter": ("vendor.LinkDownedCounter", 255, 255.0, 8, "saturated"),
        "LinkDownedCounterExt": ("link_down_events", 300, 300.0, 64, None),
        "PortXmitData": ("vendor.PortXmitData", 0xFFFFFFFF, 4.0 * 0xFFFFFFFF, 32, "saturated"),
        "PortXmitDataExtended": ("bytes", 0x34D1F0A00000, 4.0 * 0x34D1F0A00000, 64, None),
        "PortRcvDataExtended": ("bytes", None, None, 64, None),
        "PortXmitWait": ("xmit_wait_ticks", 7, 7.0, 32, None),
    }
    assert {(r["device_kind"], r["node_kind"], r["device"], r["uid"]) for r in leaf.values()} == {("switch-port", "switch", None, None)}
    host = [r for r in rows(found) if r["node"] == "host-a"]
    assert {(r["device_kind"], r["node_kind"], r["device"], r["port"], r["uid"]) for r in host} == {("rdma", "host", "mlx5_0", 1, "0c42a10300000a00")}
    assert [r["raw"] for r in host if r["raw_name"] == "PortXmitWait"] == [1234]
    assert found.counts() == {"bad-number": 1}  # RawBER: bad
    assert {c.kind: c.count for c in found.info.event_counts if not c.stored} == {"sums over all ports": 8, "rows of other sections": 1}


def test_error_rates_temperatures_and_light_of_a_diagnosis(tmp_path: Path) -> None:
    found = _diagnosis(tmp_path, IBDIAGNET)
    rate = [r for r in rows(found) if r["raw_name"] == "RawBER" and r["node"] == "leaf7"]
    assert [(r["counter"], r["value"], r["raw"], r["kind"], r["unit"]) for r in rate] == [("bit_error_rate", 1.5e-08, None, "gauge", "ratio")]
    assert {r["counter"] for r in rows(found) if r["raw_name"] == "EffectiveBER"} == {"vendor.EffectiveBER"}
    light = one(found, raw_name="RX1Power")
    assert (light["counter"], light["value"], light["unit"], light["queue"], light["direction"]) == ("rx_power", 1.0, "dBm", "lane 1", "rx")
    warm = one(found, raw_name="Temperature")
    assert (warm["counter"], warm["value"], warm["unit"], warm["port"]) == ("module_temperature", 47.0, "celsius", 1)
    assert (one(found, raw_name="CurrentTemperature")["value"], one(found, raw_name="CurrentTemperature")["device_kind"]) == (55.0, "switch")
    during = one(found, kind="delta")
    assert (during["counter"], during["raw"], during["scale"], during["unit"]) == ("vendor.PortXmitDataExtended", 99, 4.0, "byte")


def test_wiring_of_a_diagnosis(tmp_path: Path) -> None:
    found = _diagnosis(tmp_path, IBDIAGNET)
    (cable,) = rows(found, "cables")
    assert [cable[f"a_{k}"] for k in ("node", "kind", "uid", "device", "port", "port_uid")] == ["leaf7", "switch", "b8599f0300000c00", None, "1", None]
    assert [cable[f"b_{k}"] for k in ("node", "kind", "uid", "device", "port", "port_uid")] == [
        "host-a",
        "host",
        "0c42a10300000a00",
        "mlx5_0",
        "1",
        "0c42a10300000a00",
    ]
    columns = ("node", "device", "port", "lid", "speed_bps", "lanes", "mtu", "up", "cable")
    assert _told(found, *columns, table="interfaces") == [
        ("leaf7", None, 1, None, 200_000_000_000, 4, 4096, True, None),
        ("leaf7", None, 2, None, None, None, 4096, False, None),
        ("host-a", "mlx5_0", 1, 21, 200_000_000_000, 4, 4096, True, None),
        ("leaf7", None, 1, None, None, None, None, None, "Maker, Inc MFS1S00 10 m"),
    ]


def test_spellings_and_order_of_columns_do_not_matter(tmp_path: Path) -> None:
    text = (
        "START_PM_INFO\nPortNum,NodeGuid,PortGuid,PortRcvPktsExt\n0x3,0xB8599F0300000C00,0xb8599f0300000c00,0xff\nEND_PM_INFO\n"
        f'START_NODES\nNodeGUID,NodeType,NodeDesc\n{LEAF},SW,"row 3, leaf"\nEND_NODES\n'
    )
    found = _diagnosis(tmp_path, text)
    assert _told(found, "node", "node_kind", "port", "counter", "direction", "raw") == [("row 3, leaf", "switch", 3, "packets", "rx", 255)]
    nameless = _diagnosis(tmp_path, text.partition("START_NODES")[0])
    assert _told(nameless, "node", "node_kind") == [("b8599f0300000c00", "switch")]


def test_a_name_that_two_switches_share_names_neither(tmp_path: Path) -> None:
    nodes = f"START_NODES\nNodeDesc,NodeType,NodeGUID\nsame,2,{LEAF}\nsame,2,0xb8599f0300000d00\nother,2,0xb8599f0300000e00\nEND_NODES\n"
    ports = "".join(f"0xb8599f0300000{n}00,1,4\n" for n in "cde")
    found = _diagnosis(tmp_path, f"{nodes}START_PM_INFO\nNodeGUID,PortNumber,PortXmitWait\n{ports}END_PM_INFO\n")
    assert [r["node"] for r in rows(found)] == ["b8599f0300000c00", "b8599f0300000d00", "other"]


def test_damaged_rows_of_a_diagnosis_are_counted(tmp_path: Path) -> None:
    broken = IBDIAGNET.replace("0x34d1f0a00000,N/A,7", "0x34d1f0a00000,7").replace(f"{LEAF},{LEAF},1,99", "none,none,1,99")
    assert _diagnosis(tmp_path, broken).counts() == {"bad-number": 1, "bad-row": 1, "no-port": 1}
    cut = _diagnosis(tmp_path, IBDIAGNET[: IBDIAGNET.index("END_LINKS")])
    assert (cut.info.truncated, cut.counts()) == (True, {"truncated": 1})
    assert len(rows(cut, "cables")) == 1


def test_the_tables_of_the_shared_folder(test_data: Callable[[str], Path]) -> None:
    found = read(IBDIAGNET_PARSER, test_data("counters/synthetic") / "ibdiagnet2.db_csv")
    assert {r["raw_name"]: r["raw"] for r in rows(found)} == {
        "LinkDownedCounter": 1,
        "LinkErrorRecoveryCounter": 0,
        "SymbolErrorCounter": 0,
        "PortRcvErrors": 0,
        "PortXmitDiscards": 0,
        "PortXmitWait": 22_730_661,
        "PortXmitDataExtended": 58_076_289_826_816,
        "PortRcvDataExtended": None,
    }
    assert {(r["node"], r["port"]) for r in rows(found)} == {("leaf01", 1)}


def _telemetry(folder: Path, text: str) -> Read:
    assert UFM.sniff(folder / "x", text.encode()) is not None
    return parse(UFM, folder / "out", text)


def _one_port(folder: Path, name: str, data: int, packets: int, packets_name: str = "PortXmitPktsExtended") -> Read:
    return _telemetry(folder, ufm_message([ufm_record(HOST, 1, {name: data, packets_name: packets})]))


UNITS = {
    # name, data, packets: value in bytes, flag, notices
    ("PortXmitDataExtended", 1_000_000, 1_000): (4e6, "unit-assumed", {"unit-assumed"}),  # 1000 or 4000 bytes each
    ("PortXmitDataExtended", 1_045_000, 1_000): (1_045_000.0, "unit-by-packet-size", {"unit-by-packet-size"}),  # 4180 as words: too large
    ("PortXmitDataExtended", 7_000, 1_000): (28_000.0, None, set()),  # 7 bytes hold no header
    ("PortXmitDataExtended", 4_179_000, 1_000): (None, "unit-unclear", {"unit-unclear"}),
    ("PortXmitDataExtended", 99, 99): (396.0, "unit-assumed", {"unit-assumed"}),  # too few packets to tell
    ("Infiniband_MBOut_u_Gb", 4_086_720, 14_190): (4_086_720.0, "unit-by-packet-size", {"unit-by-packet-size"}),  # 288 each: management
    ("Infiniband_MBOut_u_Gb", 1_021_680, 14_190): (4_086_720.0, "unit-by-packet-size", {"unit-by-packet-size"}),  # 72 words each
    ("Infiniband_MBOut_u_Gb", 1_000_000, 1_000): (1e6, "unit-assumed", {"unit-assumed"}),
}


@pytest.mark.parametrize("case", UNITS)
def test_bytes_or_words_is_told_by_packets(case: tuple[str, int, int], tmp_path: Path) -> None:
    value, flag, notices = UNITS[case]
    found = _one_port(tmp_path, *case)
    row = one(found, raw_name=case[0])
    assert (row["raw"], row["flags"], set(found.counts()) - {"unnamed-machine"}) == (case[1], flag, notices)
    if value is None:
        assert (row["counter"], row["unit"], row["scale"]) == (f"vendor.{case[0]}", None, 1.0)
    else:
        assert (row["counter"], row["unit"], row["direction"], row["value"]) == ("bytes", "byte", "tx", value)


def test_one_port_proves_the_unit_for_all() -> None:
    sizes = PacketSizes()
    sizes.add("a", 500_000, 1_000)
    assert sizes.unit("a") is Unit.UNKNOWN
    sizes.add("a", 4_000_000, 1_000)
    assert sizes.unit("a") is Unit.BYTES
    sizes.add("a", 7_000, 1_000)
    assert sizes.unit("a") is Unit.UNCLEAR
    assert sizes.unit("b") is Unit.UNKNOWN


def test_messages(tmp_path: Path) -> None:
    values = {"Infiniband_LinkDowned_u_Errors": 3, "Infiniband_XmitWait_u_Ticks": None, "hist0_u_count": 9, "Infiniband_CBW_f_u_Gbps": 0.5, "state_text": "up"}
    records = [ufm_record(LEAF, 1, values), ufm_record(LEAF, 40, values), ufm_record(HOST, 1, values, US + 1), ufm_record(LEAF, 255, values)]
    found = _telemetry(tmp_path, ufm_message(records))
    assert {(r["line"], r["node"], r["node_kind"], r["device_kind"], r["device"], r["port"], r["uid"], r["source_ts_ns"] - US * 1000) for r in rows(found)} == {
        (1, "b8599f0300000c00", "switch", "switch-port", None, 1, None, 0),
        (2, "b8599f0300000c00", "switch", "switch-port", None, 40, None, 0),
        (3, "0c42a10300000a00", None, "rdma", "0c42a10300000a00", 1, "0c42a10300000a00", 1000),
    }
    assert {r["time_quality"] for r in rows(found)} == {"collector"}
    assert [(r["counter"], r["raw"], r["value"], r["kind"]) for r in rows(found)][:4] == [
        ("link_down_events", 3, 3.0, "counter"),
        ("xmit_wait_ticks", None, None, "counter"),
        ("vendor.hist0_u_count", 9, 9.0, "counter"),
        ("vendor.Infiniband_CBW_f_u_Gbps", None, 0.5, "gauge"),
    ]
    assert found.counts() == {"unnamed-machine": 2}
    assert {c.kind: c.count for c in found.info.event_counts} == {"counters": 12, "texts": 3, "sums over all ports": 5}


def test_several_messages_changes_only_and_moments_of_the_message(tmp_path: Path) -> None:
    first = ufm_message([ufm_record(HOST, 1, {"Link_Down": 1}, None)])
    second = ufm_message([ufm_record(HOST, 1, {"Link_Down": 2})], "delta")
    found = _telemetry(tmp_path, f"{first}\n{second}")
    # 11:00:03 without a zone, an hour and three seconds after the records that state one
    assert _told(found, "source_ts_ns", "time_quality", "raw") == [
        (US * 1000 + 3_603_000_000_000, "local", 1),
        (US * 1000, "collector", 2),
    ]
    assert found.counts() == {"changes-only": 1, "unnamed-machine": 1}
    assert len(rows(_telemetry(tmp_path, json.dumps([json.loads(first), json.loads(second)])))) == 2


def test_counters_that_fall_again_and_again_are_counts_of_intervals(tmp_path: Path) -> None:
    falls = [ufm_record(HOST, 1, {"PortXmitDataExtended": 7 * n, "LinkDownedCounterExt": 1}, US + i) for i, n in enumerate((9, 2, 8, 3, 9))]
    found = _telemetry(tmp_path, ufm_message(falls))
    assert {(r["raw_name"], r["counter"], r["kind"]) for r in rows(found)} == {
        ("PortXmitDataExtended", "bytes", "delta"),
        ("LinkDownedCounterExt", "link_down_events", "counter"),
    }
    assert found.counts() == {"interval-counts": 2, "unit-assumed": 1, "unnamed-machine": 1}
    grows = [ufm_record(HOST, 1, {"PortXmitDataExtended": 7 * n}, US + n) for n in range(9)]
    assert {r["kind"] for r in rows(_telemetry(tmp_path, ufm_message(grows)))} == {"counter"}


def test_rows(tmp_path: Path) -> None:
    columns = ("node_description", "Link_Down", "Raw_BER", "Symbol_BER", "Module_Temperature", "never")
    table = [
        (US, LEAF, "", LEAF, LEAF, 1, '"MF0;leaf7:MQM9700/U1"', 5, "1.5E-254", "3e-16", 40, ""),
        (US, HOST, "", HOST, HOST, 1, '"host-a mlx5_0"', "", "N/A", 0, "N/A", ""),
    ]
    found = _telemetry(tmp_path, ufm_csv(table, columns))
    assert _told(found, "line", "node", "node_kind", "device", "counter", "raw", "value") == [
        (2, "leaf7", "switch", None, "link_down_events", 5, 5.0),
        (2, "leaf7", "switch", None, "bit_error_rate", None, 1.5e-254),
        (2, "leaf7", "switch", None, "vendor.Symbol_BER", None, 3e-16),
        (2, "leaf7", "switch", None, "module_temperature", 40, 40.0),
        (3, "host-a", "host", "mlx5_0", "link_down_events", None, None),
        (3, "host-a", "host", "mlx5_0", "bit_error_rate", None, None),
        (3, "host-a", "host", "mlx5_0", "vendor.Symbol_BER", 0, 0.0),
        (3, "host-a", "host", "mlx5_0", "module_temperature", None, None),
    ]
    assert found.counts() == {}


def test_answers_one_after_another_and_damaged_rows(tmp_path: Path) -> None:
    answers = [ufm_csv([(US + n, LEAF, "", LEAF, LEAF, 9, 7)], ("Link_Down",)) for n in range(2)]
    found = _telemetry(tmp_path, "".join(answers))
    assert _told(found, "line", "source_ts_ns") == [(2, US * 1000), (4, (US + 1) * 1000)]
    found = _telemetry(tmp_path, answers[0] + f"{US},{LEAF},,{LEAF}\n{US},{LEAF},,{LEAF},{LEAF},x,1\n{US},{LEAF},,{LEAF},{LEAF},9,12")
    assert found.counts() == {"bad-row": 1, "no-port": 1, "truncated": 1, "unnamed-machine": 1}
    assert [r["raw"] for r in rows(found)] == [7]


MOMENTS = {
    1_767_607_200: 1_767_607_200 * 10**9,
    1_767_607_200_123: 1_767_607_200_123 * 10**6,
    US + 7: (US + 7) * 1000,
    (US + 7) * 1000 + 1: (US + 7) * 1000 + 1,
    str(US): US * 1000,
    "2026-01-05 10:00:00": None,
    5: None,
    10**25: None,
    None: None,
}


@pytest.mark.parametrize("value", MOMENTS)
def test_moments_in_any_unit(value: object) -> None:
    assert since_1970_ns(value) == MOMENTS[value]  # type: ignore[index]


NAMES = {
    "Infiniband_PckIn_u_Packets": ("packets", "rx"),
    "Infiniband_XmtDiscards_u_Errors": ("discards", "tx"),
    "Infiniband_ExcBufOverrunErrors_u_Errors": ("buffer_overrun", "rx"),
    "Infiniband_RcvRemotePhysErrors_u_Errors": ("rcv_remote_physical_errors", "rx"),
    "Infiniband_RcvSwRelayErrors_u_Errors": ("vendor.Infiniband_RcvSwRelayErrors_u_Errors", "rx"),
    "PortUniCastXmitPktsExtended": ("vendor.PortUniCastXmitPktsExtended", "tx"),
    "PortLocalPhysicalErrors": ("vendor.PortLocalPhysicalErrors", "rx"),
    "LinkErrorRecoveryCounterExtended": ("link_recovery", None),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    meaning = ufm_meaning(name)
    assert (meaning.counter, meaning.direction) == NAMES[name]
