"""Switch parsers and damaged, hostile or foreign bytes: a counted notice or rows, never a traceback."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.lldp import KEYVALUE, PLAIN, json0
from tests.builders.sonic import database, nested_configuration, session, wrapped
from tests.builders.switches import eos_interfaces, eos_queues, nxos_interfaces, parse, rows
from tracelab.plugins import Parser
from tracelab_parsers.counters.eos import PARSER as EOS
from tracelab_parsers.counters.nxos import PARSER as NXOS
from tracelab_parsers.counters.sonic_cli import PARSER as SONIC_CLI
from tracelab_parsers.counters.sonic_db import PARSER as SONIC_DB
from tracelab_parsers.counters.switch_moments import epoch_ns, moment_in
from tracelab_parsers.topology.lldp import PARSER as LLDP

PARSERS: dict[str, Parser] = {p.name: p for p in (EOS, NXOS, SONIC_CLI, SONIC_DB, LLDP)}
GOOD = {
    "eos-json": json.dumps(eos_interfaces()),
    "nxos-json": json.dumps(nxos_interfaces(), indent=1),
    "sonic-cli": session(),
    "sonic-db": json.dumps(wrapped(database()), indent=1),
    "lldp": json.dumps(json0()),
}
ALL_GOOD = [*GOOD.values(), json.dumps(eos_queues()), json.dumps(nested_configuration()), KEYVALUE, PLAIN]
BAD = {
    "empty": b"",
    "zeros": b"\x00" * 100_000,
    "noise": random.Random(7).randbytes(100_000),
    "brace": b"{",
    "nested": b"[" * 200_000,
    "nested objects": b'{"COUNTERS:oid:0x1":' * 20_000,
    "gzip magic": b"\x1f\x8b",
    "text": b"not a word of it\n" * 100,
    "long line": b"x" * 3_000_000,
    "long key": b'{"' + b"k" * 3_000_000 + b'": {}}',
    "scalar": b"17",
    "strings": b'{"interfaces": "none", "lldp": 5, "TABLE_interface": [1, 2], "COUNTERS:oid:0x1": "x", "COUNTERS:oid:0x2": [1]}',
    "wrong types": b'{"interfaces": {"Ethernet1": {"interfaceCounters": [1], "inOctets": {"a": 1}}}, "lldp": {"interface": [[1], "a"]}}',
}


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("case", BAD)
def test_what_is_no_output_gives_a_notice(name: str, case: str, tmp_path: Path) -> None:
    found = parse(PARSERS[name], tmp_path / "file", BAD[case])
    assert found.notices
    assert found.info.parts == []


@pytest.mark.parametrize("name", PARSERS)
def test_one_parser_claims_each_output(name: str, tmp_path: Path) -> None:
    claims = [other for other, parser in PARSERS.items() if parser.sniff(tmp_path / "a", GOOD[name].encode()[:65536]) is not None]
    assert claims == [name]


@pytest.mark.parametrize("name", PARSERS)
def test_every_cut_is_told_or_ends_at_a_whole_line(name: str, tmp_path: Path) -> None:
    text = GOOD[name].rstrip("\n")
    whole = parse(PARSERS[name], tmp_path / "whole", text)
    assert not whole.notices
    for at in range(1, len(text) - 1, 41):
        cut = parse(PARSERS[name], tmp_path / "cut", text[:at])
        assert cut.notices or cut.info.truncated or name == "sonic-cli", at
        given = [repr(r) for r in rows(cut)]
        if name == "sonic-cli":  # all numbers of a cut session stand in the whole one: none is read in part
            assert given == [repr(r) for r in rows(whole)][: len(given)], at


@pytest.mark.parametrize("name", PARSERS)
def test_compressed_torn_and_windows_files_are_read(name: str, tmp_path: Path) -> None:
    text = GOOD[name].encode()
    plain = parse(PARSERS[name], tmp_path / "plain", text)
    tables = [t.name for t in PARSERS[name].tables]
    for variant in (gzip.compress(text, mtime=0), b"\xef\xbb\xbf" + text, text.replace(b"\n", b"\r\n")):
        found = parse(PARSERS[name], tmp_path / "variant", variant)
        assert [rows(found, t) for t in tables] == [rows(plain, t) for t in tables]
        assert not found.notices
    torn = parse(PARSERS[name], tmp_path / "torn", gzip.compress(text, mtime=0)[:-12])
    assert torn.info.truncated
    assert "gzip-torn" in torn.counts()


@settings(max_examples=150)
@given(data=st.data(), name=st.sampled_from(sorted(PARSERS)))
def test_changed_bytes_never_end_in_a_traceback(data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = bytearray(data.draw(st.sampled_from(ALL_GOOD)).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 8))] = data.draw(
            st.sampled_from([b"", b'"', b"{", b"]", b"\n", b"-1", b"null", b"1e999", b"\xff", b"N/A", b"," * 3])
        )
    parse(PARSERS[name], tmp_path_factory.mktemp("changed") / "file", bytes(text))


@given(
    st.dictionaries(
        st.sampled_from(["lldp", "interface", "interfaces", "TABLE_nbor", "COUNTERS:oid:0x1", "PORT", "Ethernet0"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["interface", "chassis", "port", "id", "value", "ROW_nbor", "interfaceCounters", "Ethernet0", "UC3", "PG0", "hostname"]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ),
    )
)
@settings(max_examples=150)
def test_any_json_is_read_without_a_traceback(value: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for parser in PARSERS.values():
            parse(parser, Path(folder) / "file", json.dumps(value))


@pytest.mark.parametrize(
    ("text", "ns", "zoned"),
    [
        ("Thu Oct  9 08:53:20 UTC 2025", 1_760_000_000 * 10**9, True),
        ("Thu 09 Oct 2025 08:53:20 AM UTC", 1_760_000_000 * 10**9, True),
        ("# 2025-10-09T08:53:20.25Z", 1_760_000_000_250_000_000, True),
        ("2025-10-09 10:53:20+02:00", 1_760_000_000 * 10**9, True),
        ("date: 2025-10-09 08:53:20", 1_760_000_000 * 10**9, False),
        ("Thu Oct  9 08:53:20 CET 2025", 1_760_000_000 * 10**9, False),
        ("08:53:20.125 UTC Thu Oct 09 2025", 1_760_000_000_125_000_000, True),
        ("=== 1760000000.5 ===", 1_760_000_000_500_000_000, True),
        ("Thu 09 Oct 2025 12:00:00 AM UTC", 1_759_968_000 * 10**9, True),
    ],
)
def test_moments_of_wrapper_lines(text: str, ns: int, zoned: bool) -> None:  # seconds by `date -ud`
    assert moment_in(text) == (ns, zoned)


NO_MOMENTS = ["9999-12-31 23:59:59Z", "0001-01-01T00:00:00+00:00", "2025-10-09 10:53:20+24:00", "2025-10-09 10:53:20-99:99", "Fri Dec 31 23:59:59 UTC 2262"]


@pytest.mark.parametrize("text", ["", "1760000", "Thu Oct 39 08:53:20 UTC 2025", *NO_MOMENTS, "Ethernet0 2025-10-09", "99:99:99 UTC Thu Oct 09 2025", "9" * 10])
def test_what_is_no_moment(text: str) -> None:
    assert moment_in(text) is None


@pytest.mark.parametrize("value", [None, True, "x", 5, -1, 10**12, [], 1.5, Decimal("NaN"), Decimal("-Infinity"), Decimal("1e5000000000")])
def test_what_is_no_time_of_the_epoch(value: object) -> None:
    assert epoch_ns(value) is None
