"""Parsers of InfiniBand and of SLURM's topologies, and damaged, hostile or foreign bytes: a counted notice or rows, never a traceback."""

from __future__ import annotations

import gzip
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.infiniband import (
    IBDIAGNET,
    IBNETDISCOVER,
    IBQUERYERRORS,
    PORT_REPORT,
    TOPOLOGY_CONF,
    TOPOLOGY_YAML,
    perfquery_session,
    ufm_csv,
    ufm_message,
    ufm_record,
    write_samples,
)
from tests.builders.switches import parse, rows
from tracelab.plugins import Parser
from tracelab_parsers.counters.ibdiagnet import PARSER as IBDIAGNET_PARSER
from tracelab_parsers.counters.ibqueryerrors import PARSER as IBQUERYERRORS_PARSER
from tracelab_parsers.counters.perfquery import PARSER as PERFQUERY
from tracelab_parsers.counters.ufm import PARSER as UFM
from tracelab_parsers.topology.ibnetdiscover import PARSER as IBNETDISCOVER_PARSER
from tracelab_parsers.topology.slurm import PARSER as SLURM

PARSERS: dict[str, Parser] = {p.name: p for p in (PERFQUERY, IBQUERYERRORS_PARSER, IBDIAGNET_PARSER, UFM, IBNETDISCOVER_PARSER, SLURM)}
_RECORD = ufm_record("0xb8599f0300000c00", 9, {"PortXmitDataExtended": 4000, "PortXmitPktsExtended": 100, "Link_Down": "N/A"})
GOOD = {
    "perfquery": perfquery_session(),
    "ibqueryerrors": IBQUERYERRORS,
    "ibdiagnet": IBDIAGNET,
    "ufm-telemetry": ufm_message([_RECORD]),
    "ibnetdiscover": IBNETDISCOVER,
    "slurm-topology": TOPOLOGY_CONF,
}
CSV = ufm_csv([(1_767_607_200_000_000, "0x1", "", "0x1", "0x1", 1, 4)], ("Link_Down",))
OTHERS = {"ibnetdiscover": PORT_REPORT, "slurm-topology": TOPOLOGY_YAML, "ufm-telemetry": CSV}
BAD = {
    "empty": b"",
    "zeros": b"\x00" * 100_000,
    "noise": random.Random(7).randbytes(100_000),
    "brace": b"{",
    "nested": b"[" * 200_000,
    "gzip magic": b"\x1f\x8b",
    "text": b"not a word of it\n" * 100,
    "long line": b"x" * 3_000_000,
    "long field": b"PortXmitData:" + b"." * 3_000_000 + b"1\n",
    "long word": b"SwitchName=" + b"a" * 3_000_000 + b" " + b"b" * 3_000_000,
    "blanks": (b'[1]\t"S-' + b"0" * 16 + b'"[1]' + b" " * 16_000 + b"x\n") * 20,
    "open quote": b'START_NODES\nNodeGUID,NodeDesc\n0x1,"' + b"x" * 500_000 + b"\nEND_NODES\n",
    "many digits": b"# Port counters: Lid 1 port 1\nPortSelect:......1\nPortXmitData:....." + b"9" * 9_000 + b"\n",
    "scalar": b"17",
    "wrong types": b'{"timestamp": [], "type": {}, "values": [1, [], {"node_guid": {}, "port_num": []}, '
    b'{"node_guid": "0x1", "port_num": 1, "a": {}, "b": [1]}]}',
}


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("case", BAD)
def test_what_is_no_output_gives_a_notice(name: str, case: str, tmp_path: Path) -> None:
    found = parse(PARSERS[name], tmp_path / "file", BAD[case])
    assert found.notices
    assert found.info.parts == []


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("case", sorted(set(BAD) - {"many digits", "open quote", "long word"}))
def test_what_is_no_output_is_claimed_by_none(name: str, case: str) -> None:
    assert PARSERS[name].sniff(Path("ibnetdiscover.txt"), BAD[case][:65_536]) is None


@pytest.mark.parametrize("name", PARSERS)
def test_each_output_is_claimed_by_its_parser_alone(name: str) -> None:
    for text in filter(None, (GOOD[name], OTHERS.get(name))):
        claims = {n: p.sniff(Path("file"), text.encode()) for n, p in PARSERS.items()}
        assert {n for n, match in claims.items() if match is not None} == {name}


@pytest.mark.parametrize("name", PARSERS)
def test_line_ends_of_windows_a_byte_order_mark_and_gzip_change_nothing(name: str, tmp_path: Path) -> None:
    plain = parse(PARSERS[name], tmp_path / "a", GOOD[name])
    windows = parse(PARSERS[name], tmp_path / "b", GOOD[name].replace("\n", "\r\n"))
    packed = parse(PARSERS[name], tmp_path / "c", gzip.compress(GOOD[name].encode()))
    for table in ("counter_samples", "cables", "interfaces"):
        assert rows(windows, table) == rows(plain, table)
        assert rows(packed, table) == rows(plain, table)
    assert plain.counts() == windows.counts() == packed.counts()


@pytest.mark.parametrize("name", PARSERS)
def test_a_torn_gzip_file_gives_its_beginning(name: str, tmp_path: Path) -> None:
    lines = GOOD[name].rstrip("\n") + "\n"
    torn = parse(PARSERS[name], tmp_path / "a", gzip.compress(lines.encode())[:-9])
    assert torn.info.truncated
    assert "gzip-torn" in torn.counts()


@pytest.mark.parametrize("name", PARSERS)
def test_reading_twice_gives_the_same(name: str, tmp_path: Path) -> None:
    first, second = (parse(PARSERS[name], tmp_path / "file", GOOD[name]) for _ in range(2))
    assert (first.info, first.notices, dict(first.batches)) == (second.info, second.notices, dict(second.batches))


def test_samples_are_claimed_by_their_parsers(tmp_path: Path) -> None:
    write_samples(tmp_path)
    owners = {f.parent.name: [n for n, p in PARSERS.items() if p.sniff(f, f.read_bytes()[:65_536]) is not None] for f in tmp_path.rglob("*") if f.is_file()}
    assert owners == {name: [name] for name in PARSERS}


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=40)
@given(data=st.data())
def test_no_change_of_an_output_raises(name: str, data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from([t for t in (GOOD[name], OTHERS.get(name)) if t])).encode())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text)))
        end = at + data.draw(st.sampled_from([0, 1, 7, 300]))
        text[at:end] = data.draw(st.sampled_from([b"", b"\n", b"\x00\xff", b",", b'"', b"9" * 30, b"-1", b"]", b"[", b"0x", b" ", text[:200]]))
    with tempfile.TemporaryDirectory() as folder:
        found = parse(PARSERS[name], Path(folder) / "file", bytes(text))
        for row in rows(found):
            assert row["raw"] is None or 0 <= row["raw"] < 2**64
            assert row["port"] != 255
