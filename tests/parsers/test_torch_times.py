"""Times are exact to the nanosecond, whatever the trace counts from and however many digits it writes."""

from __future__ import annotations

import gzip
import json
import random
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kineto_raw import BASE_NS, document, end_mark, host, kernel, parse, parse_events, write
from tracelab_parsers.json_chunks import Limits


def _ns(us: str) -> int:
    return int((Decimal(us) * 1000).to_integral_value(ROUND_HALF_EVEN))


def _document(times: list[tuple[str, str]], base: str | None, *, first: bool) -> bytes:
    events = ",\n".join(f'{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}}}' for ts, dur in times)
    stated = f'"baseTimeNanoseconds": {base}' if base else '"schemaVersion": 1'
    return f'{{{stated}, "traceEvents": [{events}]}}'.encode() if first else f'{{"traceEvents": [{events}], {stated}}}'.encode()


def _times(path: Path, **options: Any) -> list[tuple[int, int]]:
    return [(r["source_ts_ns"], r["dur_ns"]) for r in parse(path, **options)["gpu_spans"]]


def _random_times(whole: int, decimals: int) -> list[tuple[str, str]]:
    r = random.Random(decimals)

    def fraction() -> str:
        return f".{r.randrange(10**decimals):0{decimals}d}" if decimals else ""

    return [(f"{whole + r.randrange(10**9)}{fraction()}", f"{r.randrange(10**6)}{fraction()}") for _ in range(3_000)]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("whole", "base"),
    [(0, str(BASE_NS)), (4_458_000_000_000, str(BASE_NS)), (8_700_000_000_000, str(BASE_NS)), (1_712_195_495_000_000, None)],
    ids=["near the base", "years from the base", "largest exact float", "since the epoch"],
)
@pytest.mark.parametrize("decimals", [0, 1, 3])
def test_times_are_exact(tmp_path: Path, whole: int, base: str | None, decimals: int, first: bool) -> None:
    times = _random_times(whole, decimals)
    expected = [(int(base or 0) + _ns(ts), _ns(dur)) for ts, dur in times]
    path = write(tmp_path, _document(times, base, first=first))
    assert _times(path) == expected
    assert _times(path, limits=Limits(chunk=5_000)) == expected


def test_whole_and_fractional_times_mix(tmp_path: Path) -> None:
    times = [("1682725898236567", "68.0"), ("1682725898236567.125", "68"), ("1682725898236569", "0.001"), ("1.6827258982365695e15", "1e1")]
    assert _times(write(tmp_path, _document(times, None, first=True))) == [(_ns(ts), _ns(dur)) for ts, dur in times]


def test_absolute_times_need_no_base_even_where_one_is_stated(tmp_path: Path) -> None:
    times = [("1712195495519689.123", "5.5"), ("2.000", "5.5")]
    assert _times(write(tmp_path, _document(times, str(BASE_NS), first=True))) == [(1712195495519689123, 5500), (BASE_NS + 2000, 5500)]


def test_an_end_is_the_rounded_sum(tmp_path: Path) -> None:
    times = [("10.0004", "1.0004"), ("10.00049", "0.00002"), ("7.9996", "0.0005")]
    spans = _times(write(tmp_path, _document(times, str(BASE_NS), first=True)))
    assert [ts + dur - BASE_NS for ts, dur in spans] == [_ns(str(Decimal(ts) + Decimal(dur))) for ts, dur in times]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_base_after_the_events_is_found_before_they_are_written(tmp_path: Path, packed: bool, indent: int | None) -> None:
    events = [kernel('says "baseTimeNanoseconds": 17', ts=i) for i in range(30_000)]
    data = document([*events, end_mark()], base_first=False, indent=indent)
    assert len(data) > 3_000_000
    parsed = parse(write(tmp_path, gzip.compress(data, 1) if packed else data), limits=Limits(chunk=100_000))
    assert [r["source_ts_ns"] for r in parsed["gpu_spans"]] == [BASE_NS + 1_000 * i for i in range(30_000)]
    assert "time-base-conflict" not in parsed.notices


def test_a_missing_base_is_told_where_it_is_needed(tmp_path: Path) -> None:
    parsed = parse_events(tmp_path, kernel(ts=12.5), base=None)
    assert parsed.counts["no-time-base"] == 1
    assert parsed["gpu_spans"][0]["source_ts_ns"] == 12_500
    assert "no-time-base" not in parse_events(tmp_path, kernel(ts=1694128201435418), base=None).notices


def test_two_bases_are_told(tmp_path: Path) -> None:
    data = document([kernel(ts=1)], base_first=False, indent=None)
    parsed = parse(write(tmp_path, data[:-1] + b', "other": {"baseTimeNanoseconds": 5}}'))
    assert parsed.notices["time-base-conflict"].severity == "error"


def test_cut_times_are_marked_and_do_not_widen_the_window(tmp_path: Path) -> None:
    events = [kernel("unknown", 0, 50), kernel("negative", 10, -3), {k: v for k, v in kernel("endless", 11).items() if k != "dur"}, kernel("good", 20, 2)]
    parsed = parse_events(tmp_path, *events)
    assert [(r["name"], r["source_ts_ns"] - BASE_NS, r["dur_ns"], r["clamped"]) for r in parsed["gpu_spans"]] == [
        ("unknown", 0, 50_000, True),
        ("negative", 10_000, 0, True),
        ("endless", 11_000, 0, True),
        ("good", 20_000, 2_000, False),
    ]
    assert parsed.counts["clamped-time"] == 3
    assert (parsed.info.parts[0].start_ns, parsed.info.parts[0].end_ns) == (BASE_NS + 20_000, BASE_NS + 22_000)


def test_a_kernel_at_nought_in_an_absolute_trace_is_marked(tmp_path: Path) -> None:
    parsed = parse_events(tmp_path, kernel("lost", 0, 0), kernel("good", 1694128201435418, 2), base=None)
    assert [(r["source_ts_ns"], r["clamped"]) for r in parsed["gpu_spans"]] == [(0, True), (1694128201435418000, False)]
    assert "no-time-base" not in parsed.notices


@pytest.mark.parametrize(
    "ts", ["null", '"soon"', "1e300", "-1e300", "9223372036854775807", "1" * 400, "[1]", "{}", "true", "NaN", "inf", '"1e999999999"', "1e999999999"]
)
def test_an_event_without_a_usable_time_is_dropped_and_counted(tmp_path: Path, ts: str) -> None:
    data = document([kernel("a"), kernel("b", 424242), host("c"), host("d", ts=3)], indent=None).replace(b"424242", ts.encode())
    parsed = parse(write(tmp_path, data))
    assert parsed.names("gpu_spans") == ["a"]
    assert parsed.names("host_spans") == ["c", "d"]
    assert parsed.counts["bad-time"] == 1
    assert sum(c.count for c in parsed.info.event_counts) == 4
    assert sum(c.count for c in parsed.info.event_counts if c.stored) == 3


@pytest.mark.parametrize("dur", ["9223372036854775807", "1e30", "3e15"])
def test_a_length_that_no_trace_has_is_dropped_or_marked(tmp_path: Path, dur: str) -> None:
    parsed = parse(write(tmp_path, document([kernel("a", dur=424242), kernel("b")], indent=None).replace(b"424242", dur.encode())))
    for row in parsed["gpu_spans"]:
        assert row["name"] == "b" or (row["dur_ns"] == 0 and row["clamped"])


def test_the_strict_reader_agrees_on_times_of_a_whole_random_trace(tmp_path: Path) -> None:
    r = random.Random(5)
    events = [kernel(f"k{i}", round(r.random() * 1e9, r.randrange(4)), round(r.random() * 1e3, 3)) for i in range(500)]
    data = document(events)
    strict = json.loads(data, parse_float=Decimal)["traceEvents"]
    expected = [(BASE_NS + _ns(str(e["ts"])), _ns(str(e["dur"]))) for e in strict]
    assert _times(write(tmp_path, data), limits=Limits(chunk=3_000)) == expected
