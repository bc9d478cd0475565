"""What SONiC's commands print: tables, JSON forms, sessions; cell by cell against another reader of the real files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tests.builders.sonic import session, table
from tests.builders.switches import one, parse, rows
from tracelab_parsers.counters.sonic_cli import PARSER

NO_COUNTERS = {
    "lldp_test__expected_2MACs_Ethernet0_output.txt": "neighbours alone",
    "queuestat_input_assert_show_output__trim_counters_clear_msg.txt": "says that counters were cleared",
    "wm_input_wm_test_vectors__clear_hdrm_pool_wm_output_all_masic.txt": "says that watermarks were cleared",
    "wm_input_wm_test_vectors__clear_hdrm_pool_wm_output_one_masic.txt": "says that watermarks were cleared",
}
KEYS = {"IFACE": 1, "Port Rx": 1, "Port Tx": 1, "Port": 1, "TxQ": 1, "Pool": 1, "Symbol Errors Per Codeword": 1}


def _parse(folder: Path, text: str) -> Read:
    assert PARSER.sniff(folder / "x", text.encode()) is not None
    return parse(PARSER, folder / "out.txt", text)


def test_a_session_states_machine_moment_and_what_is_since_a_clear(tmp_path: Path) -> None:
    found = _parse(tmp_path, session())
    assert {(r["node"], r["source_ts_ns"], r["time_quality"]) for r in rows(found)} == {("leaf7", 1_760_000_000_000_000_000, "file")}
    ports = [r for r in rows(found) if r["queue"] is None and r["priority"] is None and r["device"] == "Ethernet0"]
    assert [(r["counter"], r["direction"], r["raw"], r["value"], r["unit"], r["flags"]) for r in ports] == [
        ("link_up", None, None, 1.0, "one", None),
        ("packets", "rx", 1_234_567, 1_234_567.0, "packet", "since-clear"),
        ("bytes_per_s", "rx", 2000, 2e9, "byte/s", "rounded"),
        ("utilisation", "rx", 64, 64.0, "percent", "rounded"),
        ("errors", "rx", 10, 10.0, "packet", "since-clear"),
        ("discards", "rx", 1000, 1000.0, "packet", "since-clear"),
        ("packets", "tx", 40, 40.0, "packet", "since-clear"),
        ("errors", "tx", None, None, "packet", "since-clear"),
    ]
    pause = one(found, priority=3)
    assert (pause["counter"], pause["direction"], pause["raw"], pause["flags"]) == ("pfc_pause_frames", "rx", 1201, None)
    assert one(found, device="Ethernet0", queue="PG4")["counter"] == "pg_headroom_watermark_bytes"
    assert one(found, queue="UC3", counter="queue_drop_packets")["raw"] == 39
    assert one(found, queue="MC10", counter="queue_bytes")["raw"] is None
    assert found.counts() == {}


def test_rates_of_a_period_are_gauges_and_its_counts_deltas(tmp_path: Path) -> None:
    text = table(("IFACE", "STATE", "RX_OK", "RX_BPS"), (("Ethernet0", "U", "15", "204.80 KB/s"),))
    found = _parse(tmp_path, f"The rates are calculated within 3 seconds period\n{text}")
    assert [(r["kind"], r["interval_ns"], r["value"], r["width"]) for r in rows(found)[1:]] == [
        ("delta", 3_000_000_000, 15.0, 0),
        ("gauge", None, pytest.approx(204_800), 0),
    ]


def test_namespaces_tell_pools_of_one_name_apart(tmp_path: Path) -> None:
    pool = table(("Pool", "Bytes"), (("ingress_lossless_pool", "3000"),))
    text = "".join(f"Shared pool maximum occupancy: (Namespace asic{i})\n{pool}" for i in range(2))
    found = _parse(tmp_path, text)
    assert [(r["device"], r["device_kind"], r["queue"], r["counter"]) for r in rows(found)] == [
        ("asic0", "switch", "ingress_lossless_pool", "pool_watermark_bytes"),
        ("asic1", "switch", "ingress_lossless_pool", "pool_watermark_bytes"),
    ]


def test_persistent_watermarks_are_no_user_watermarks(tmp_path: Path) -> None:
    marks = "Egress shared pool occupancy per unicast queue:\n" + table(("Port", "UC0"), (("Ethernet0", "7"),))
    prompt = "admin@leaf7:~$ show queue "
    found = _parse(tmp_path, f"{prompt}watermark unicast\n{marks}{prompt}persistent-watermark unicast\n{marks}")
    assert [r["counter"] for r in rows(found)] == ["queue_watermark_bytes", "vendor.persistent Egress shared pool occupancy per unicast queue"]


def test_status_gives_interfaces(tmp_path: Path) -> None:
    columns = ("Interface", "Lanes", "Speed", "MTU", "FEC", "Alias", "Vlan", "Oper", "Admin", "Type", "Asym PFC")
    data = (
        ("Ethernet0", "0,1,2,3", "100G", "9100", "rs", "etp1", "PortChannel1", "up", "up", "QSFP28 or later", "off"),
        ("Ethernet4", "4", "25G", "N/A", "N/A", "N/A", "routed", "down", "up", "N/A", "off"),
    )
    found = _parse(tmp_path, "root@leaf7:/home/admin# show interfaces status\n" + table(columns, data))
    keys = ("node", "netdev", "alias", "speed_bps", "lanes", "mtu", "up", "bond", "cable")
    assert [tuple(r[k] for k in keys) for r in rows(found, "interfaces")] == [
        ("leaf7", "Ethernet0", "etp1", 100_000_000_000, 4, 9100, True, "PortChannel1", "QSFP28 or later"),
        ("leaf7", "Ethernet4", None, 25_000_000_000, 1, None, False, None, None),
    ]


def test_the_watchdogs_pairs_become_two_numbers(tmp_path: Path) -> None:
    columns = ("QUEUE", "STATUS", "STORM DETECTED/RESTORED", "TX OK/DROP", "RX OK/DROP")
    found = _parse(tmp_path, table(columns, (("Ethernet0:3", "stormed", "2/1", "100/300", "N/A/N/A"),)))
    assert [(r["device"], r["queue"], r["counter"], r["value"]) for r in rows(found)[:4]] == [
        ("Ethernet0", "3", "vendor.STATUS", 1.0),
        ("Ethernet0", "3", "pfc_storm_events", 2.0),
        ("Ethernet0", "3", "vendor.STORM RESTORED", 1.0),
        ("Ethernet0", "3", "vendor.TX OK", 100.0),
    ]


def test_json_forms_state_time_and_clear(tmp_path: Path) -> None:
    queue = {"totalpacket": "1,234", "totalbytes": "N/A", "droppacket": 5, "dropbytes": "0"}
    value = {"Ethernet0": {"cached_time": "2025-10-09T08:00:00.5", "time": "2025-10-09T08:53:20.250000", "UC3": queue}}
    found = _parse(tmp_path, json.dumps(value, indent=2))
    assert [(r["queue"], r["counter"], r["raw"], r["flags"], r["source_ts_ns"], r["time_quality"]) for r in rows(found)] == [
        ("UC3", "queue_packets", 1234, "since-clear", 1_760_000_000_250_000_000, "local"),
        ("UC3", "queue_bytes", None, "since-clear", 1_760_000_000_250_000_000, "local"),
        ("UC3", "queue_drop_packets", 5, "since-clear", 1_760_000_000_250_000_000, "local"),
        ("UC3", "vendor.dropbytes", 0, "since-clear", 1_760_000_000_250_000_000, "local"),
    ]


def test_groups_without_a_title_are_named_by_the_command_or_not_at_all(tmp_path: Path) -> None:
    value = json.dumps([{"Port": "Ethernet0", "PG0": "100"}], indent=4)
    named = _parse(tmp_path, f"admin@leaf7:~$ show priority-group watermark shared --json\n{value}\n")
    assert [r["counter"] for r in rows(named)] == ["pg_shared_watermark_bytes"]
    assert [r["counter"] for r in rows(_parse(tmp_path, value))] == ["vendor.PG"]


def test_neighbours_among_counters_are_cables(tmp_path: Path) -> None:
    lldp = table(("LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr"), (("Ethernet0", "host-a", "ens1", "S", "x"),), left=True)
    found = _parse(tmp_path, f"{session()}admin@leaf7:~$ show lldp table\n{lldp}")
    assert [(r["a_node"], r["a_port"], r["b_node"], r["b_port"], r["b_kind"]) for r in rows(found, "cables")] == [
        ("leaf7", "Ethernet0", "host-a", "ens1", "host")
    ]


def test_rows_that_lost_their_leading_blanks_are_read_and_torn_ones_told(tmp_path: Path) -> None:
    text = table(("IFACE", "STATE", "RX_OK", "TX_OK"), (("Ethernet0", "U", "1,000", "2"), ("Ethernet4", "U", "3", "4")))
    stripped = "\n".join(line.strip() for line in text.splitlines())
    assert [r["raw"] for r in rows(_parse(tmp_path, stripped)) if r["counter"] == "packets"] == [1000, 2, 3, 4]
    torn = parse(PARSER, tmp_path / "torn.txt", text.rstrip("\n")[:-1])
    assert [r["raw"] for r in rows(torn) if r["counter"] == "packets"] == [1000, 2]
    assert torn.info.truncated
    assert torn.counts() == {"truncated": 1}
    odd = parse(PARSER, tmp_path / "odd.txt", text + "Ethernet8  U  5\n")
    assert odd.counts() == {"bad-row": 1}


def test_other_tables_and_lines_are_counted(tmp_path: Path) -> None:
    found = _parse(tmp_path, f"{session()}admin@leaf7:~$ show vlan brief\n{table(('VLAN ID', 'IP'), (('7', '1.2.3.4'),))}Traceback: a word\n")
    assert found.counts() == {"unknown-output": 1, "unread-lines": 1}
    assert len(rows(found)) == 40


def _tables(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Headings and cells of all rows, split by gaps of two blanks: another reader than the one under test."""
    header: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _is_rule(line):
            header = re.split(r" {2,}", lines[number - 1].strip())
        cells = re.split(r" {2,}", line.strip())
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if header and len(cells) == len(header) and not _is_rule(line) and not _is_rule(following):
            yield header, cells


def _is_rule(line: str) -> bool:
    return bool(line.strip("- ") == "" and "--" in line)


def _leaves(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_leaves(v) for k, v in value.items() if k != "Port")
    return sum(map(_leaves, value)) if isinstance(value, list) else 1


def test_every_cell_of_the_real_files_is_a_row(test_data: Callable[[str], Path]) -> None:
    paths = sorted(test_data("counters/sonic_cli_text").glob("*.txt"))
    assert len(paths) == 144
    for path in paths:
        text = path.read_text()
        match = PARSER.sniff(path, text.encode())
        assert (match is None) == (path.name in NO_COUNTERS), path.name
        if match is None:
            continue
        found = read(PARSER, path)
        assert found.counts() == {}, path.name
        given = [r["value"] for r in rows(found)]
        if text.lstrip()[0] in "{[":
            assert len(given) == _leaves(json.loads(text)), path.name
            continue
        cells = [(h, c) for header, row in _tables(text) for h, c in list(zip(header, row, strict=True))[_keys(header) :]]
        cells += [("", m[1]) for m in re.finditer(r"^[^.\n]+\.{3,} (\S+)$", text, re.MULTILINE) if m[1] != "None"]
        shares = sum("(" in c for _, c in cells)
        assert len(given) == len(cells) + shares, path.name
        assert given.count(None) == sum(c == "N/A" for _, c in cells), path.name
        plain = Counter(float(c.replace(",", "")) for _, c in cells if re.fullmatch(r"[\d,]+", c))
        assert not plain - Counter(given), path.name


def _keys(header: list[str]) -> int:
    return 2 if header[1] in ("TxQ", "Voq", "Priority") else KEYS[header[0]]


def test_values_of_the_real_files(test_data: Callable[[str], Path]) -> None:
    folder = test_data("counters/sonic_cli_text")
    ports = read(PARSER, folder / "portstat_test__intf_counters_all.txt")
    assert (row := one(ports, device="Ethernet8", raw_name="TX_BPS"))["value"] == pytest.approx(13.37e6)
    assert (row["counter"], row["direction"], row["raw"], row["flags"]) == ("bytes_per_s", "tx", None, "rounded")
    assert one(ports, device="Ethernet4", raw_name="RX_DRP")["raw"] == 1000
    assert one(ports, device="Ethernet0", raw_name="RX_OVR")["counter"] == "vendor.RX_OVR"
    assert one(ports, device="Ethernet0", raw_name="STATE")["value"] == 0
    assert one(ports, device="Ethernet4", raw_name="STATE")["value"] is None
    fec = read(PARSER, folder / "portstat_test__intf_fec_counters.txt")
    assert [(r["counter"], r["value"]) for r in rows(fec) if r["device"] == "Ethernet0" and r["value"] is not None] == [
        ("link_up", 0.0),
        ("fec_corrected", 130_402.0),
        ("fec_uncorrectable", 3.0),
        ("vendor.FEC_SYMBOL_ERR", 4.0),
        ("vendor.FLR(O)", 4.21e-10),
        ("vendor.FLR(P) (Accuracy)", 7.81e-10),
        ("vendor.FLR(P) (Accuracy) share", 89.0),
        ("vendor.FEC_MAX_T", -1.0),
    ]
    history = read(PARSER, folder / "pfcstat_input_assert_show_output__show_pfc_counters_history_output.txt")
    row = one(history, device="Ethernet8", priority=7, counter="pfc_pause_us")
    assert (row["raw"], row["unit"], row["direction"]) == (80_000_007, "us", "rx")
    assert one(history, device="Ethernet0", priority=0, raw_name="Recent RX Pause Timestamp")["value"] == 1_200_000_000  # `date -ud @1200000000`
    voq = read(PARSER, folder / "queue_counter_test__show_queue_voq_counters.txt")
    assert one(voq, device="testsw|Ethernet8", queue="VOQ7", raw_name="Drop/bytes")["raw"] == 92
    wred = read(PARSER, folder / "wred_queue_counter_test__show_queue_counters_summary_json.txt")
    assert [(r["device"], r["device_kind"], r["raw"]) for r in rows(wred) if r["queue"] == "UC9" and r["counter"] == "ecn_marked_packets"] == [
        (None, "switch", 270)
    ]
    masic = read(PARSER, folder / "wm_input_wm_test_vectors__show_queue_wm_multicast_output_all_masic.txt")
    assert one(masic, device="Ethernet-BP256", queue="MC11")["raw"] == 2_057_328


@pytest.mark.parametrize(
    "text",
    [
        "IFACE STATE and RX_OK are words of a sentence\n-----\n",
        "Port  Speed\n----  -----\nEthernet0  100G\n",
        '{"Ethernet0": {"inOctets": "1"}}',
        '[{"Port": 80, "PG0": 1}]',
        '{"Ethernet0": {"STATE": {"a": 1}}}',
        '{"mgmt0": {"RX_OK": "1"}}',
        "The rates are calculated within 3 seconds period\n",
    ],
)
def test_what_looks_alike_is_not_claimed(text: str, tmp_path: Path) -> None:
    assert PARSER.sniff(tmp_path / "a.txt", text.encode()) is None
