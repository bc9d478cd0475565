"""perfquery and ibqueryerrors: values read from real files by eye, made-up sessions, whose ports they are, what makes numbers doubtful."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tests.builders.infiniband import DETAILS, EXTENDED, IBQUERYERRORS, NARROW, block, perfquery_session
from tests.builders.switches import one, parse, rows
from tracelab.plugins import SourceInfo
from tracelab_parsers.counters.ibqueryerrors import PARSER as IBQUERYERRORS_PARSER
from tracelab_parsers.counters.perfquery import PARSER as PERFQUERY
from tracelab_parsers.counters.perfquery_commands import Command, command_of

AT = 1_767_607_200_250_000_000
"""2026-01-05 10:00:00.25 UTC, by `date -u -d @1767607200`."""


def _perfquery(folder: Path, text: str) -> Read:
    assert PERFQUERY.sniff(folder / "x", text.encode()) is not None
    return parse(PERFQUERY, folder / "out.txt", text)


def _named(found: Read, name: str) -> list[dict[str, Any]]:
    return [r for r in rows(found) if r["raw_name"] == name]


def _stored(info: SourceInfo) -> dict[str, int]:
    return {c.kind: c.count for c in info.event_counts}


# Real files: which LIDs are switches is known from the topology report of the same fabric.
REAL = {
    # file: (kind, device kind, device, port, raw of PortXmitData, raw of PortXmitWait, LinkDowned)
    "0x506b4b03005c2740.out": ("switch", "switch-port", None, 1, 178_791_657_177_235, 41_864_608, 1),
    "0x7cfe9003003b4b96.out": ("host", "rdma", "lid 133", 1, 37_108_676_853_855, 0, 0),
    "0x7cfe9003003b4bde.out": ("host", "rdma", "lid 134", 1, 9_049_592_493_976, 0, 0),
}


@pytest.mark.parametrize("name", REAL)
def test_real_ports_of_the_extended_set(name: str, test_data: Callable[[str], Path]) -> None:
    found = read(PERFQUERY, test_data("counters/perfquery") / name)
    kind, device_kind, device, port, data, wait, downs = REAL[name]
    sent = one(found, raw_name="PortXmitData")
    assert (sent["node"], sent["node_kind"], sent["device_kind"], sent["device"], sent["port"]) == (None, kind, device_kind, device, port)
    assert (sent["counter"], sent["direction"], sent["raw"], sent["scale"], sent["value"]) == ("bytes", "tx", data, 4.0, 4.0 * data)
    assert (sent["unit"], sent["width"], sent["saturates"], sent["flags"], sent["source_ts_ns"]) == ("byte", 64, False, None, None)
    assert one(found, counter="xmit_wait_ticks")["raw"] == wait
    assert one(found, counter="link_down_events")["raw"] == downs
    assert found.counts() == {}
    assert _stored(found.info) == {"counters": 22}  # 25 lines with a name, of which three select counters


def test_real_file_of_two_ports(test_data: Callable[[str], Path]) -> None:
    path = test_data("counters/perfquery") / "0x7cfe9003009ce5b0.out"
    found = read(PERFQUERY, path)
    assert [(r["port"], r["raw"], r["line"]) for r in _named(found, "PortRcvData")] == [(1, 12_279_028_775_751, 5), (2, 39_078_804_993_378, 31)]
    assert {r["node_kind"] for r in rows(found)} == {"switch"}
    printed = [int(m) for m in re.findall(r"^(?!PortSelect)\w+:\.+(\d+)$", path.read_text(), re.MULTILINE)]
    assert [r["raw"] for r in rows(found)] == printed


def test_real_empty_file_and_details_of_errors(test_data: Callable[[str], Path]) -> None:
    empty = read(PERFQUERY, test_data("counters/perfquery") / "0x506b4b0300cc02a6.out")
    assert empty.counts() == {"no-counters": 1}
    assert rows(empty) == []
    details = read(PERFQUERY, test_data("counters/perfquery-rcv-error") / "0x7cfe9003009ce5b0-2.out")
    assert [(r["raw_name"], r["port"], r["raw"]) for r in rows(details)] == [
        ("PortLocalPhysicalErrors", 2, 0),
        ("PortMalformedPktErrors", 2, 0),
        ("PortBufferOverrunErrors", 2, 0),
        ("PortDLIDMappingErrors", 2, 0),
        ("PortVLMappingErrors", 2, 0),
        ("PortLoopingErrors", 2, 0),
    ]
    # parts of PortRcvErrors, which must not be counted beside it
    assert {r["counter"] for r in rows(details)} == {f"vendor.{r['raw_name']}" for r in rows(details)}


def test_snapshots_with_moments_and_without_the_sum_of_all_ports(tmp_path: Path) -> None:
    found = _perfquery(tmp_path, perfquery_session())
    sent = _named(found, "PortXmitData")
    assert [(r["node"], r["port"], r["source_ts_ns"] - AT, r["raw"]) for r in sent] == [
        ("leaf7", 1, 0, 1_000_000_000_000),
        ("leaf7", 5, 0, 1_000_000_000_000),
        ("leaf7", 1, 1_000_000_000, 1_000_001_000_000),
        ("leaf7", 5, 1_000_000_000, 1_000_000_000_000),
    ]
    assert {r["time_quality"] for r in rows(found)} == {"file"}
    assert {r["uid"] for r in rows(found)} == {None}  # all ports of a switch share their GUID
    assert _stored(found.info) == {"counters": 40, "sums over all ports": 20}


def test_extended_counters_have_64_bits_and_narrow_ones_stay_at_their_highest_value(tmp_path: Path) -> None:
    wide = _perfquery(tmp_path, block(EXTENDED, port=5))
    assert [(r["width"], r["saturates"], r["flags"]) for r in _named(wide, "PortXmitDiscards")] == [(64, False, None)]
    found = _perfquery(tmp_path, block(NARROW, port=5, kind="Port counters"))
    told = {r["raw_name"]: (r["width"], r["saturates"], r["flags"], r["value"]) for r in rows(found)}
    assert told == {
        "SymbolErrorCounter": (16, True, "saturated", 65_535),
        "LinkErrorRecoveryCounter": (8, True, None, 0),
        "LinkDownedCounter": (8, True, "saturated", 255),
        "PortXmitDiscards": (16, True, None, 12),
        "ExcessiveBufferOverrunErrors": (4, True, "saturated", 15),
        "PortXmitData": (32, True, "saturated", 17_179_869_180),
        "PortRcvData": (32, True, None, 68),
        "PortXmitPkts": (32, True, None, 5),
        "PortRcvPkts": (32, True, None, 6),
        "PortXmitWait": (32, True, "saturated", 4_294_967_295),
    }
    full = _perfquery(tmp_path, block(DETAILS, port=1, kind="PortRcvErrorDetails counters", mask=""))
    assert one(full, raw_name="PortBufferOverrunErrors")["flags"] == "saturated"


def test_both_sets_of_one_port_are_not_one_series(tmp_path: Path) -> None:
    found = _perfquery(tmp_path, block(NARROW, port=5, kind="Port counters") + block(EXTENDED, port=5))
    assert [(r["counter"], r["raw"]) for r in _named(found, "PortXmitData")] == [("vendor.PortXmitData", 4_294_967_295), ("bytes", 1_000_000_000_000)]
    (first, second) = _named(found, "PortXmitData")
    assert (first["scale"], first["unit"], second["unit"]) == (4.0, "byte", "byte")


def test_fields_without_a_heading_begin_anew_at_each_port(tmp_path: Path) -> None:
    text = "\n".join(f"PortSelect:......{n}\nCounterSelect:....0x0000\nPortXmitData:......{n}0\nPortXmitWait:...{n}" for n in (1, 9)) + "\n"
    assert [(r["port"], r["raw"], r["width"]) for r in _named(_perfquery(tmp_path, text), "PortXmitData")] == [(1, 10, 64), (9, 90, 64)]


HEADINGS = {
    # heading: node, and what the numbers are of
    "=== 2026-01-05T10:00:00.25Z leaf7 perfquery -x 7 5": ("leaf7", AT, "file"),
    "### 2026-01-05 10:00:00.250 leaf7 perfquery -x 7 ": ("leaf7", AT, "local"),
    "# 2026-01-05T10:00:00.25Z perfquery -x leaf7": ("leaf7", AT, "file"),
    "# 2026-01-05T12:00:00.25+02:00 leaf7 perfquery -x 0x7 5": ("leaf7", AT, "file"),
    "[root@admin1 ~]# perfquery -x 7 5": (None, None, None),
    "root@admin1:~# perfquery -x -G 0xb8599f0300000c00 5": (None, None, None),
    "root@leaf7:~# perfquery -x": ("leaf7", None, None),
}


@pytest.mark.parametrize("heading", HEADINGS)
def test_headings_as_people_write_them(heading: str, tmp_path: Path) -> None:
    found = _perfquery(tmp_path, heading + "\n" + block(EXTENDED, port=5))
    assert {(r["node"], r["source_ts_ns"], r["time_quality"]) for r in rows(found)} == {HEADINGS[heading]}
    assert found.counts() == {}


def test_devices_of_one_file_stay_apart(tmp_path: Path) -> None:
    # one host whose two adapters have an address each
    host = "".join(f"=== 2026-01-05T10:00:00Z host-a perfquery -x {lid}\n" + block(EXTENDED, port=1, lid=lid, mask="0x5A00") for lid in (21, 22))
    found = _perfquery(tmp_path, host)
    assert {(r["node"], r["node_kind"], r["device_kind"], r["device"], r["port"]) for r in rows(found)} == {
        ("host-a", "host", "rdma", "lid 21", 1),
        ("host-a", "host", "rdma", "lid 22", 1),
    }
    # one machine that asks two switches: it is neither
    asked = "".join(f"=== 2026-01-05T10:00:00Z admin1 perfquery -x {lid} 5\n" + block(EXTENDED, port=5, lid=lid) for lid in (7, 8))
    found = _perfquery(tmp_path, asked)
    assert {(r["node"], r["device"]) for r in rows(found)} == {(None, "lid 7"), (None, "lid 8")}
    assert found.counts() == {"asked-from-elsewhere": 2}


def test_a_guid_of_the_command_is_the_address_of_an_adapter(tmp_path: Path) -> None:
    text = "root@admin1:~# perfquery -x -G 0xc42a10300000a00\n" + block(EXTENDED, port=1, lid=21, mask="0x5A00")
    assert {(r["node"], r["device"], r["uid"]) for r in rows(_perfquery(tmp_path, text))} == {(None, "0c42a10300000a00", "0c42a10300000a00")}


COMMANDS = {
    "perfquery": Command(),
    "sudo perfquery -x -C mlx5_0 -P 1": Command(),
    "perfquery -x 100 3": Command(lid=100),
    "perfquery -xr 0x64": Command(lid=100, clears_errors=True, clears_data=True),
    "/usr/sbin/perfquery -x leaf7 | tee out": Command(name="leaf7"),
    "perfquery -G 0xc42a10300000a00": Command(guid="0c42a10300000a00"),
    "ibqueryerrors -r -k": Command(clears_errors=True),
    "ibqueryerrors -K -s PortXmitWait --data": Command(clears_data=True, hides=True),
    "ibqueryerrors -c": Command(hides=True),
    "cat /etc/motd": None,
}


@pytest.mark.parametrize("text", COMMANDS)
def test_commands(text: str) -> None:
    assert command_of(text) == COMMANDS[text]


def test_counters_that_were_cleared_after_the_read_say_so(tmp_path: Path) -> None:
    found = _perfquery(tmp_path, "# perfquery -x -r 7 5\n" + block(EXTENDED | {"PortXmitWait": 2**64 - 1}, port=5))
    assert one(found, raw_name="PortXmitData")["flags"] == "cleared-after-read"
    assert one(found, raw_name="PortXmitWait")["flags"] == "saturated+cleared-after-read"


def test_values_that_are_no_plain_numbers(tmp_path: Path) -> None:
    odd = {"PortXmitData": "N/A", "PortRcvData": "1,234", "PortXmitPkts": "0x10", "PortRcvPkts": "-5", "PortXmitWait": "many", "PortXmitDiscards": ""}
    found = _perfquery(tmp_path, block(odd, port=5))
    assert {r["raw_name"]: (r["raw"], r["value"]) for r in rows(found)} == {
        "PortXmitData": (None, None),
        "PortRcvData": (1234, 4936.0),
        "PortXmitPkts": (16, 16.0),
        "PortRcvPkts": (None, -5.0),
        "PortXmitWait": (None, None),
        "PortXmitDiscards": (None, None),
    }
    assert found.counts() == {"bad-number": 1, "counter-out-of-range": 1}


def test_a_value_that_the_file_ends_in_is_left_out(tmp_path: Path) -> None:
    found = _perfquery(tmp_path, block({"PortXmitData": 12, "PortRcvData": 3456}, port=5)[:-3])
    assert [r["raw_name"] for r in rows(found)] == ["PortXmitData"]
    assert found.info.truncated
    assert found.counts() == {"truncated": 1}


def _errors(folder: Path, text: str) -> Read:
    assert IBQUERYERRORS_PARSER.sniff(folder / "x", text.encode()) is not None
    return parse(IBQUERYERRORS_PARSER, folder / "out.txt", text)


def test_errors_of_ports(tmp_path: Path) -> None:
    found = _errors(tmp_path, IBQUERYERRORS)
    told = [tuple(r[k] for k in ("line", "node", "node_kind", "device", "port", "uid", "counter", "raw", "value", "width", "flags")) for r in rows(found)]
    host = (8, "host-a", "host", "mlx5_0", 1, "0c42a10300000a00")
    assert told == [
        (3, "leaf7", "switch", None, 1, None, "link_down_events", 255, 255.0, 8, "saturated"),
        (3, "leaf7", "switch", None, 1, None, "bytes", 250_000_000_000, 1e12, 64, None),
        (5, "leaf7", "switch", None, 2, None, "xmit_wait_ticks", 2**64 - 1, 2.0**64, 64, "saturated"),
        (*host, "rcv_errors", 4, 4.0, 16, None),
        (*host, "vendor.PortLocalPhysicalErrors", 4, 4.0, 16, None),
    ]
    assert found.counts() == {}
    assert _stored(found.info) == {"counters": 5, "cables": 2, "interfaces": 3, "sums over all ports": 2}


def test_links_of_ports_with_errors(tmp_path: Path) -> None:
    found = _errors(tmp_path, IBQUERYERRORS)
    sides = ("node", "kind", "uid", "device", "port", "port_uid")
    (down, up) = (
        ("leaf7", "switch", "b8599f0300000c00", None, "1", None),
        ("host-a", "host", None, "mlx5_0", "1", "0c42a10300000a00"),
    )
    assert [(tuple(r[f"a_{k}"] for k in sides), tuple(r[f"b_{k}"] for k in sides)) for r in rows(found, "cables")] == [(down, up), (up, down)]
    assert {(r["speed_bps"], r["lanes"], r["up"], r["origin"]) for r in rows(found, "cables")} == {(200_000_000_000, 4, True, "ibqueryerrors")}
    assert [(r["node"], r["port"], r["lid"], r["up"], r["speed_bps"]) for r in rows(found, "interfaces")] == [
        ("leaf7", 1, 7, True, 200_000_000_000),
        ("leaf7", 2, 7, False, None),
        ("host-a", 1, 21, True, 200_000_000_000),
    ]


FOOTERS = {
    # change of the report: flags of its counters, notices
    ("## Thresholds:", "## Thresholds: [PortXmitWait = 1000]"): ("hidden-below-threshold", {"hidden-counters": 1}),
    ("## Suppressed:", "## Suppressed: PortXmitDiscards"): ("hidden-below-threshold", {"hidden-counters": 1}),
    ("Errors for 0x", "# ibqueryerrors -r -c\nErrors for 0x"): ("hidden-below-threshold", {"hidden-counters": 1}),
    ("Errors for 0x", "Suppressing: PortXmitWait\nErrors for 0x"): ("hidden-below-threshold", {"hidden-counters": 1}),
    ("Errors for 0x", "# ibqueryerrors -k\nErrors for 0x"): ("cleared-after-read", {}),
    ("## Suppressed:", ""): (None, {"no-summary": 1}),
}


@pytest.mark.parametrize("change", FOOTERS)
def test_reports_that_hide_or_clear_counters_say_so(change: tuple[str, str], tmp_path: Path) -> None:
    flags, notices = FOOTERS[change]
    found = _errors(tmp_path, IBQUERYERRORS.replace(*change))
    assert one(found, counter="rcv_errors")["flags"] == flags
    assert found.counts() == notices


def test_one_report_does_not_speak_for_the_next(tmp_path: Path) -> None:
    text = "=== 2026-01-05T10:00:00.25Z\n" + IBQUERYERRORS.replace("## Suppressed:", "## Suppressed: VL15Dropped") + IBQUERYERRORS
    found = _errors(tmp_path, text)
    assert [r["flags"] for r in rows(found) if r["counter"] == "rcv_errors"] == ["hidden-below-threshold", None]
    assert {r["source_ts_ns"] for r in rows(found)} == {AT}


def test_data_counters_of_a_host_and_a_switch(tmp_path: Path) -> None:
    text = (
        'Data Counters for 0xc42a10300000a00 "host-a mlx5_0"\n   GUID 0xc42a10300000a00 port 1: [PortXmitData == 100 (400.000)]\n'
        'Data Counters for 0xb8599f0300000c00 "Quantum Mellanox Technologies"\n   GUID 0xb8599f0300000c00 port 40: [PortXmitData == 7 (28.000)]\n'
    )
    found = _errors(tmp_path, text)
    assert [(r["node"], r["node_kind"], r["device"], r["port"], r["value"]) for r in rows(found)] == [
        ("host-a", "host", "mlx5_0", 1, 400.0),
        ("b8599f0300000c00", "switch", None, 40, 28.0),
    ]


def test_the_report_of_the_shared_folder(test_data: Callable[[str], Path]) -> None:
    found = read(IBQUERYERRORS_PARSER, test_data("counters/synthetic") / "ibqueryerrors.txt")
    assert [(r["node"], r["port"], r["counter"], r["raw"]) for r in rows(found)] == [
        ("leaf01", 10, "link_down_events", 2),
        ("leaf01", 10, "xmit_wait_ticks", 22_730_501),
    ]
    (cable,) = rows(found, "cables")
    assert (cable["b_node"], cable["b_device"], cable["speed_bps"]) == ("node01", "HCA-1", 100_000_000_000)
