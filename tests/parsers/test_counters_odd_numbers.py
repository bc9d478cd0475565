"""Numbers that no table holds, in every format that prints numbers as JSON does: one costs its value, is counted, and changes no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.counters_host import Parsed, parse_text
from tracelab.plugins import parsers

SAMPLE = {
    "iproute": '[{"ifindex":2,"ifname":"eth0","operstate":"UP","stats64":{"rx":{"bytes":@,"packets":7}}}]',
    "gnmic": '{"name":"a","timestamp":1785000000000000000,"tags":{"source":"leaf1","interface_name":"Ethernet1"},'
    '"values":{"/interfaces/interface/state/counters/in-octets":@,"/interfaces/interface/state/counters/out-octets":7}}\n',
    "telegraf": '{"fields":{"bytes_recv":@,"bytes_sent":7},"name":"net","tags":{"host":"h","interface":"eth0"},"timestamp":1785000000}\n',
    "sonic-db": '{"COUNTERS_PORT_NAME_MAP":{"Ethernet0":"oid:0x1"},\n"COUNTERS:oid:0x1":{"SAI_PORT_STAT_IF_IN_OCTETS":@,"SAI_PORT_STAT_IF_OUT_OCTETS":7}}',
    "eos-json": '{"interfaces":{"Ethernet1":{"interfaceStatus":"connected","interfaceCounters":{"inOctets":@,"outOctets":7}}}}',
    "nxos-json": '{"TABLE_interface":{"ROW_interface":[{"interface":"Ethernet1/1","eth_inbytes":@,"eth_outbytes":7}]}}',
    "ufm-telemetry": '{"timestamp":"2026-07-25 17:20:00","type":"full","values":[{"node_guid":"0x1","port_num":1,"PortXmitDataExtended":@},'
    '{"node_guid":"0x1","port_num":2,"PortXmitDataExtended":7}]}',
    "prometheus-json": '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"node_network_receive_bytes_total",'
    '"device":"eth0","instance":"h"},"values":[[1785000000,@],[1785000001,7]]}]}}',
}
LINE = "net,host=h,interface=eth0 bytes_recv=@,bytes_sent=7i 1785000000000000000\n"
NO_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "-1e400", "1e5000000000", "1e99999999999999999999", "9" * 400, "0." + "1" * 300]
FORMATS = pytest.mark.parametrize("name", SAMPLE)


def _read(name: str, text: str, folder: Path) -> Parsed:
    found = parse_text(parsers()[name], folder, text)
    assert not found.info.truncated
    assert [r for r in found.counters("raw", "value", "flags") if r[0] == 7]
    return found


def _odd(found: Parsed) -> tuple[int | None, float | None, str | None]:
    """The number in question, in the unit that it is printed in: the first one that is not the other."""
    raw, value, scale, flags = next(r for r in found.counters("raw", "value", "scale", "flags") if r[0] not in (7, 1) and r[1] != 1)
    return raw, None if value is None else value / scale, flags


@FORMATS
@pytest.mark.parametrize("printed", NO_NUMBERS, ids=lambda t: t[:24])
def test_what_is_no_number_costs_itself(name: str, printed: str, tmp_path: Path) -> None:
    found = _read(name, SAMPLE[name].replace("@", printed), tmp_path)
    assert _odd(found)[:2] == (None, None)
    counted = {c: n for c, n in found.notices.items() if c not in ("unit-assumed", "unnamed-machine")}
    assert counted in ({"bad-number": 1}, {"non-finite-number": 1})


@FORMATS
@pytest.mark.parametrize(("printed", "value"), [(str(2**64), 2.0**64), ("9" * 30, 1e30), ("-9223372036854775809", -(2.0**63)), (str(2**64 - 1), 2.0**64)])
def test_integers_beyond_64_bits_keep_their_rounded_value(name: str, printed: str, value: float, tmp_path: Path) -> None:
    raw, kept, flags = _odd(_read(name, SAMPLE[name].replace("@", printed), tmp_path))
    assert kept == value
    assert raw == (int(printed) if 0 <= int(printed) < 2**64 else None)
    assert ("rounded" in (flags or "")) == (int(printed) >= 2**64 or name == "prometheus-json")


@pytest.mark.parametrize("printed", ["nan", "inf", "-Inf", "1e999", "9" * 400 + "i"], ids=lambda t: t[:8])
def test_what_is_no_number_in_the_line_protocol(printed: str, tmp_path: Path) -> None:
    found = _read("telegraf", LINE.replace("@", printed), tmp_path)
    assert _odd(found)[:2] == (None, None)
    assert found.notices == {"bad-number": 1}


def test_each_missing_number_of_a_document_is_counted(tmp_path: Path) -> None:
    text = SAMPLE["eos-json"].replace("@", 'NaN,"inUcastPkts":-Infinity,"alias":"NaN"')
    assert _read("eos-json", text, tmp_path).notices == {"non-finite-number": 2}
    text = SAMPLE["eos-json"].replace("@", 'nan,"inUcastPkts":NaN,"alias":"nan"')
    assert _read("eos-json", text, tmp_path).notices == {"non-finite-number": 2}


def test_other_numbers_of_a_document_with_a_missing_one_stay_exact(tmp_path: Path) -> None:
    text = SAMPLE["eos-json"].replace("@", f'NaN,"inUcastPkts":{2**64 - 1}')
    assert (2**64 - 1, "packet") in _read("eos-json", text, tmp_path).counters("raw", "unit")


def test_a_scale_that_makes_a_number_too_large(tmp_path: Path) -> None:
    text = "timestamp,host,device,port,port_xmit_data,port_rcv_data\n1785000000,h,mlx5_0,1,1.7e308,7\n"
    found = _read("counter-csv", text, tmp_path)
    assert _odd(found)[:2] == (None, None)
    assert found.notices == {"bad-number": 1}
