"""Text made to exhaust time or memory costs neither: what cannot be held is passed over piece by piece."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import pytest

from tests.builders.kineto_raw import document, kernel
from tracelab_parsers.json_chunks import Limits
from tracelab_parsers.json_document import JsonDocument
from tracelab_parsers.json_repair import repair
from tracelab_parsers.json_window import Window
from tracelab_parsers.torch_profiler.events import EVENTS, Event, event_from_object

SMALL = Limits(chunk=64 << 10, element=256 << 10, value=64 << 10)
MEGABYTE = 1 << 20


def _read(data: bytes) -> tuple[list[Any], list[str], int]:
    """Names of the events, notices, and the most memory that reading took."""
    codes: list[str] = []
    stream = io.BytesIO(data)
    reader: JsonDocument[Event] = JsonDocument(stream, "traceEvents", EVENTS, event_from_object, lambda code, _: codes.append(code), limits=SMALL)
    tracemalloc.start()
    try:
        names = [e.name for c in reader for e in c.elements]
        return names, codes, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("filler", [b"x", b'\\"', b"\\\\", b"{", b"],", b"\\u0041"])
@pytest.mark.parametrize("place", ["metadata", "event"])
def test_a_giant_string_is_passed_over_in_bounded_memory(filler: bytes, place: str) -> None:
    giant = filler * (32 * MEGABYTE // len(filler))
    data = document([kernel("a"), kernel("b"), kernel("c")], indent=None, note="META", schemaVersion=1)
    data = data.replace(b'"META"', b'"%b"' % giant) if place == "metadata" else data.replace(b'"b"', b'"%b"' % giant)
    names, codes, peak = _read(data)
    assert names == (["a", "b", "c"] if place == "metadata" else ["a", "c"])
    assert codes == ([] if place == "metadata" else ["oversized-event"])
    assert peak < 24 * MEGABYTE


@pytest.mark.parametrize("filler", ["[", "{", "[[],", '"a","b",'])
def test_brackets_without_end_are_torn_in_bounded_memory(filler: str) -> None:
    data = b'{"traceEvents": [{"ph": "X", "name": "a"}, {"x": [' + filler.encode() * (MEGABYTE // 4 // len(filler))
    names, codes, peak = _read(data)
    assert names == ["a"]
    assert {"truncated", "bad-event", "oversized-event"} & set(codes)
    assert peak < 24 * MEGABYTE


def test_an_unending_string_with_many_escapes_is_judged_once() -> None:
    assert repair(b'{"a": "' + b'\\"' * 500_000) is None
    assert repair(b'{"a": "' + b"\\d" * 100_000 + b'"}') is not None


@pytest.mark.parametrize("refill", [1, 2, 3, 7, 1_000])
@pytest.mark.parametrize("limit", [0, 5, 1_000])
@pytest.mark.parametrize("value", ['"a\\"b\\\\"', '"a\\\\\\"]}"', '[1, [2, {}], {"x": "]}"}]', "{}", "17", "true", '""'])
def test_a_value_is_taken_whole_however_it_is_cut_into_reads(value: str, limit: int, refill: int) -> None:
    window = Window(io.BytesIO(value.encode() + b", rest"), refill)
    text, ended = window.take_value(limit)
    assert ended
    assert text in {value.encode(), None}
    assert window.piece(10)[0] == b", rest"


def test_numbers_without_end_do_not_hurt() -> None:
    data = document([kernel("a", 424242), kernel("b")], indent=None)
    for digits in (b"9" * 100_000, b"1e" + b"9" * 100_000, b"0." + b"1" * 100_000):
        names, codes, _ = _read(data.replace(b"424242", digits))
        assert (names, codes) == (["a", "b"], [])
