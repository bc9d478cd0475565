"""The streaming reader against Python's strict reader, and on documents that are cut or broken."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from benchmarks.fuzz_kineto import complete_events, fuzz, read_events
from tests.builders.kineto_raw import document, end_mark, host, kernel, launch

EVENTS = [kernel('k{}[],\\"}, {', 1.5, grid=[1, 2, 3]), launch(), host("a\nb", Input_Dims=[[1], {"a": [{}, {}]}]), end_mark()]
CHUNKS = pytest.mark.parametrize("chunk", [16, 90, 4_096])


def _ids(data: bytes, chunk: int) -> tuple[list[Any], list[str]]:
    events, codes = read_events(data, chunk)
    return [e.tid for e in events], codes


def _numbered(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"ph": "X", "cat": "cpu_op", "name": f"op {i}", "pid": 1, "tid": i, "ts": i, "dur": 1, "args": {"x": [{"y": 1}, {"y": 2}]}, **more}
        for i in range(count)
    ]


def test_random_documents_read_like_a_strict_reader_whole_and_cut() -> None:
    tally = fuzz(400, seed=20)
    assert tally.cases == {"whole": 400, "cut": 400, "damaged, no crash": 400}
    assert sum(tally.wrong.values()) == 0, tally.examples


@pytest.mark.parametrize(("indent", "chunk"), [(None, 16), (1, 90), (None, 4_096)])
def test_a_document_cut_at_any_byte_keeps_every_complete_event(indent: int | None, chunk: int) -> None:
    data = document(EVENTS, indent=indent)
    start = data.index(b"[", data.index(b'"traceEvents"')) + 1
    for cut in range(1, len(data)):
        events, codes = read_events(data[:cut], chunk)
        assert [e.name for e in events] == [e["name"] for e in complete_events(data[:cut], start)][:4] if cut > start else events == [], cut
        assert codes == ["truncated"], cut


@CHUNKS
@pytest.mark.parametrize(
    ("broken", "code", "name"),
    [
        (b'"name":"op 3","bw":inf', "non-finite-number", "op 3"),
        (b'"name":"op 3","bw":-Infinity', "non-finite-number", "op 3"),
        (b'"name":"op 3","bw":NaN', "non-finite-number", "op 3"),
        (b'"name":"a\xff\xfeb"', "invalid-utf8", "a\ufffd\ufffdb"),
        (b'"name":"a\x01\nb"', "control-character", "a\x01\nb"),
        (b'"name":"C:\\dir\\Users\\x.py(3)"', "bad-escape", "C:\\dir\\Users\\x.py(3)"),
        (b'"name":"half \\ud800 pair"', None, "half \ufffd pair"),
    ],
)
def test_a_flaw_in_one_event_is_read_over(broken: bytes, code: str | None, name: str, chunk: int) -> None:
    data = document(_numbered(8), indent=None).replace(b", ", b",").replace(b": ", b":").replace(b'"name":"op 3"', broken)
    events, codes = read_events(data, chunk)
    assert [e.tid for e in events] == list(range(8))
    assert events[3].name == name
    assert set(codes) == ({code} if code else set())


@CHUNKS
@pytest.mark.parametrize("broken", [b'"a"b"', b'"a "quoted" b"', b'"a","b', b'"a\n"b"c\n"', b"", b"tru", b'"a" "b"', b'"C:\\dir\\"', b'"x":"y":1'])
@pytest.mark.parametrize("indent", [None, 1])
def test_an_event_that_is_no_json_costs_itself_alone(broken: bytes, indent: int | None, chunk: int) -> None:
    data = document(_numbered(8), indent=indent).replace(b'"op 3"', broken)
    with pytest.raises(ValueError, match=r"."):
        json.loads(data)
    ids, codes = _ids(data, chunk)
    assert ids == [0, 1, 2, 4, 5, 6, 7]
    assert codes == ["bad-event"]


def test_the_offset_of_a_bad_event_is_where_it_begins() -> None:
    data = document(_numbered(8), indent=None).replace(b'"op 3"', b'"a"b"')
    offsets: list[int] = []
    import io

    from tracelab_parsers.json_document import JsonDocument
    from tracelab_parsers.torch_profiler.events import EVENTS as DECODER
    from tracelab_parsers.torch_profiler.events import Event, event_from_object

    reader: JsonDocument[Event] = JsonDocument(io.BytesIO(data), "traceEvents", DECODER, event_from_object, lambda _, offset: offsets.append(offset))
    assert sum(len(c.elements) for c in reader) == 7
    assert offsets == [data.rindex(b"{", 0, data.rindex(b"{", 0, data.index(b'"a"b"')) + 1)]


@CHUNKS
def test_many_bad_events_among_good_ones(chunk: int) -> None:
    data = document(_numbered(200), indent=None)
    bad = sorted(random.Random(3).sample(range(200), 60))
    for i in bad:
        data = data.replace(b'"op %d"' % i, b'"o"p"' if i % 2 else b"inf")
    ids, codes = _ids(data, chunk)
    assert ids == [i for i in range(200) if i not in bad or i % 2 == 0]
    assert sorted(codes) == ["bad-event"] * sum(i % 2 for i in bad) + ["non-finite-number"] * sum(i % 2 == 0 for i in bad)


@CHUNKS
def test_deep_nesting_does_not_crash(chunk: int) -> None:
    events = _numbered(5)
    deep = b"[" * 50_000 + b"]" * 50_000
    data = document(events, indent=None).replace(b'"op 2"', b'"op 2", "deep": ' + deep)
    assert _ids(data, chunk) == ([0, 1, 3, 4], ["bad-event"])
    only = document(events[:1], indent=None).replace(b'"op 0"', b'"op 0", "deep": ' + deep)
    assert _ids(only, chunk) == ([], ["bad-event"])
    assert _ids(b"[" * 100_000, chunk)[0] == []


def test_an_event_larger_than_the_limit_is_skipped() -> None:
    import io

    from tracelab_parsers.json_chunks import Limits
    from tracelab_parsers.json_document import JsonDocument
    from tracelab_parsers.torch_profiler.events import EVENTS as DECODER
    from tracelab_parsers.torch_profiler.events import Event, event_from_object

    events = _numbered(6)
    events[2]["huge"] = [["x" * 10] * 10] * 3_000
    codes: list[str] = []
    reader: JsonDocument[Event] = JsonDocument(
        io.BytesIO(document(events)), "traceEvents", DECODER, event_from_object, lambda code, _: codes.append(code), limits=Limits(4_096, 16_384, 4_096)
    )
    assert [e.tid for c in reader for e in c.elements] == [0, 1, 3, 4, 5]
    assert codes == ["oversized-event"]
    assert _ids(document(events), 4_096)[0] == [0, 1, 2, 3, 4, 5]


@CHUNKS
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("info", [b'["said "hi" here", "x"]', b'["odd " quote"]', b"[inf]", b'["\n"]', b'["a\\d"]'])
def test_broken_metadata_does_not_hide_what_follows(info: bytes, after: bool, chunk: int) -> None:
    events = json.dumps(_numbered(5)).encode()
    data = b'{"schemaVersion": 1,\n"INFO": %b,\n"traceEvents": %b}' % (info, events)
    if after:
        data = b'{"traceEvents": %b,\n"INFO": %b,\n"schemaVersion": 1}' % (events, info)
    assert _ids(data, chunk)[0] == [0, 1, 2, 3, 4]


@CHUNKS
def test_a_byte_order_mark_and_a_bare_list_are_read(chunk: int) -> None:
    assert _ids(b"\xef\xbb\xbf" + document(_numbered(3)), chunk) == ([0, 1, 2], [])
    assert _ids(b" \n" + json.dumps(_numbered(3)).encode(), chunk) == ([0, 1, 2], [])
    assert _ids(b"[]", chunk) == ([], [])
    assert _ids(b'{"traceEvents": []}', chunk) == ([], [])


@CHUNKS
@pytest.mark.parametrize("text", [b"", b"  ", b"hello", b"\x00\x01", b"12", b'"x"', b"<html>"])
def test_what_is_no_json_document_is_said_so(text: bytes, chunk: int) -> None:
    assert _ids(text, chunk) == ([], ["no-json"])


@CHUNKS
def test_text_after_the_document_is_told_and_not_read(chunk: int) -> None:
    data = document(_numbered(3))
    assert _ids(data + b"\n \x00\x00", chunk) == ([0, 1, 2], [])
    assert _ids(data + data, chunk) == ([0, 1, 2], ["trailing-data"])


@CHUNKS
def test_two_event_lists_are_both_read_and_told(chunk: int) -> None:
    one, two = (json.dumps(_numbered(2, pid=p)).encode() for p in (1, 2))
    assert _ids(b'{"traceEvents": %b, "traceEvents": %b}' % (one, two), chunk) == ([0, 1, 0, 1], ["duplicate-key"])
