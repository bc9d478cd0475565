"""Reads random trace documents, whole and cut at random places, and compares with Python's own strict JSON reader.

Run it as `python -m benchmarks.fuzz_kineto --count 10000 --seed 1`. Documents vary in the order of their keys, white
space, escapes, delimiters inside strings, nested lists, wrong types and the size of a chunk.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from tracelab_parsers.json_chunks import Limits
from tracelab_parsers.json_document import JsonDocument
from tracelab_parsers.torch_profiler.events import EVENTS, EXACT_EVENTS, Event, event_from_object

__all__ = ["Document", "Tally", "complete_events", "damaged", "fuzz", "random_document", "read_events"]

Seen = tuple[Any, ...]
_NASTY = (
    "},\n  {",
    '}, {"ph": "X"',
    '"',
    "\\",
    '\\"',
    "}]",
    "[{",
    "},{",
    "\u2028é",
    "\n",
    '],"traceEvents":[',
    "\U0001f600",
    "]",
    '{"ph":',
    "\t",
    "\\u0041",
    "null",
)
_CHUNKS = (37, 100, 333, 1_000, 5_000, 100_000)
_SPACING: tuple[tuple[int | str | None, tuple[str, str]], ...] = (
    (None, (",", ":")),
    (None, (", ", ": ")),
    (2, (",", ": ")),
    ("\t", (" ,", " : ")),
    (1, (", ", ":")),
    (None, (" ,\n", " : ")),
)
_NUMBER = re.compile(r"-?[0-9.]+(?:[eE][+-]?[0-9]+)?")
_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur")


@dataclass(frozen=True)
class Document:
    """A document as bytes, its events as plain values, and where their list begins (after the `[`)."""

    data: bytes
    events: list[Any]
    array_start: int


def _text(r: random.Random) -> str:
    return "".join(r.choice((*_NASTY, "a", "bc")) for _ in range(r.randrange(4)))


def _value(r: random.Random, depth: int = 0) -> Any:
    kind = r.random()
    if depth > 2 or kind < 0.4:
        return r.choice((1, -2.5, None, True, 1e-7, 2**70, _text(r)))
    if kind < 0.7:
        return [_value(r, depth + 1) for _ in range(r.randrange(3))]
    return {_text(r): _value(r, depth + 1) for _ in range(r.randrange(3))}


def _event(r: random.Random, i: int) -> Any:
    if r.random() < 0.01:
        return r.choice((5, "x", None, [], [{"ph": "X"}]))
    event: dict[str, Any] = {
        "ph": r.choice("XsfMiC"),
        "cat": r.choice(("kernel", "cpu_op", _text(r))),
        "name": _text(r),
        "pid": r.choice((1, "Spans")),
        "tid": i,
    }
    event |= {"ts": r.choice((i + 0.125, i, 1_700_000_000_000_000 + i)), "dur": r.choice((1, 0.5))}
    if r.random() < 0.03:
        event[r.choice(_KEYS)] = _value(r)
    if r.random() < 0.7:
        event["args"] = {"External id": i, "x": _value(r), "l": [{"a": 1}, {"b": _text(r)}], "stream": 7}
    items = list(event.items())
    r.shuffle(items)
    return dict(items)


def random_document(r: random.Random) -> Document:
    """A valid document with up to 40 events."""
    events = [_event(r, i) for i in range(r.randrange(40))]
    indent, separators = r.choice(_SPACING)
    dump: Callable[[Any], str] = json.JSONEncoder(indent=indent, separators=separators, ensure_ascii=r.random() < 0.5).encode
    members = [
        ("schemaVersion", 1),
        ("deviceProperties", [{"id": k, "name": _text(r)} for k in range(r.randrange(14))]),
        ("distributedInfo", {"rank": 3, "traceEvents": [{"ph": "X"}]}),
        ("INFO", [_text(r) for _ in range(r.randrange(3))]),
    ]
    r.shuffle(members)
    at = r.randrange(len(members) + 1)
    before, after = [f"{dump(k)}:{r.choice(('', ' '))}{dump(v)}" for k, v in members[:at]], [f"{dump(k)} :{dump(v)}" for k, v in members[at:]]
    if r.random() < 0.1:
        text, start = dump(events), 1
    else:
        head = "{" + "".join(f"{m},\n" for m in before) + '"traceEvents": '
        text, start = head + dump(events) + "".join(f"\n,{m}" for m in after) + r.choice(("}", "\n}\n")), len(head.encode("utf-8", "surrogatepass")) + 1
    return Document(text.encode(), events, start)


def _seen(event: Any) -> Seen:
    """What the fields of an event come to, by the rule that a value of the wrong type counts as none."""
    if not isinstance(event, dict):
        return ("not an object",)
    ph, cat = event.get("ph"), event.get("cat")
    args = event.get("args")
    external = args.get("External id") if isinstance(args, dict) else None
    plain = [v if type(v) in (int, float, str) else None for v in (event.get(k) for k in _KEYS[2:])]
    return (ph if isinstance(ph, str) else None, cat if isinstance(cat, str) else None, *plain, external)


def _got(event: Event) -> Seen:
    if event.ph == "not an object":
        return ("not an object",)
    fields = [_number(v) for v in (event.ts, event.dur)]
    return (event.ph, event.cat, event.name, event.pid, event.tid, *fields, event.args.external_id)


def _number(value: object) -> object:
    """A time that was kept as text, as the number or text that it stands for."""
    if isinstance(value, msgspec.Raw):
        plain = json.loads(bytes(value)) if bytes(value) else None
        return plain if type(plain) in (int, float, str) else None
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def complete_events(data: bytes, start: int) -> list[Any]:
    """The events of a cut document that are whole, by Python's own decoder, one after the other."""
    text = data.decode("utf-8", "ignore")
    at = len(data[:start].decode("utf-8", "ignore"))
    decoder = json.JSONDecoder()
    found = []
    while at < len(text):
        if text[at] in " \t\r\n,":
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            break
        found.append(value)
    return found


def read_events(data: bytes, chunk: int) -> tuple[list[Event], list[str]]:
    """The events that the streaming reader finds, and its notices."""
    codes: list[str] = []
    limits = Limits(chunk=chunk, element=1 << 20, value=1 << 20)
    document: JsonDocument[Event] = JsonDocument(
        io.BytesIO(data), "traceEvents", EVENTS, event_from_object, lambda code, _: codes.append(code), single=EXACT_EVENTS, limits=limits
    )
    return [e for c in document for e in c.elements], codes


def damaged(r: random.Random, data: bytes) -> bytes:
    """`data` with a few bytes changed, dropped or put in."""
    out = bytearray(data)
    for _ in range(r.randrange(1, 4)):
        at = r.randrange(len(out))
        kind = r.randrange(3)
        if kind == 0:
            out[at] = r.randrange(256)
        elif kind == 1:
            del out[at : at + r.randrange(1, 9)]
        else:
            out[at:at] = r.choice((b'"', b"\\", b"}", b"]", b"NaN", b"{", b"\xff", b"\x00", b"[" * 2000))
        if not out:
            break
    return bytes(out)


@dataclass
class Tally:
    """What a run found: cases by kind, and the first failures in words."""

    cases: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def check(self, kind: str, right: bool, example: str) -> None:
        """Counts a case."""
        self.cases[kind] = self.cases.get(kind, 0) + 1
        self.wrong[kind] = self.wrong.get(kind, 0) + (not right)
        if not right and len(self.examples) < 5:
            self.examples.append(f"{kind}: {example}")


def fuzz(count: int, seed: int) -> Tally:
    """Reads `count` random documents whole, cut and damaged."""
    r = random.Random(seed)  # noqa: S311
    tally = Tally()
    for n in range(count):
        doc = random_document(r)
        chunk = r.choice(_CHUNKS)
        expected = [_seen(e) for e in json.loads(doc.data)] if doc.array_start == 1 else [_seen(e) for e in json.loads(doc.data)["traceEvents"]]
        got, codes = read_events(doc.data, chunk)
        tally.check("whole", [_got(e) for e in got] == expected and not codes, f"document {n}, chunk {chunk}, notices {codes}, {len(got)} of {len(expected)}")
        cut = r.randrange(1, len(doc.data) + 1)
        whole = [_seen(e) for e in complete_events(doc.data[:cut], doc.array_start) if not isinstance(e, int | float)][: len(expected)]
        torn, codes = read_events(doc.data[:cut], chunk)
        seen = list(map(_got, torn))
        tally.check("cut", _same(seen, whole, expected), f"document {n}, chunk {chunk}, cut at {cut}: {len(seen)} of {len(whole)}")
        read_events(damaged(r, doc.data), chunk)
        tally.check("damaged, no crash", True, "")
    return tally


def _same(seen: list[Seen], whole: list[Seen], expected: list[Seen]) -> bool:
    """Elements that are no objects may be counted or not where the cut leaves them; objects may not."""
    objects = [s for s in whole if len(s) > 1]
    return [s for s in seen if len(s) > 1] == objects and seen == expected[: len(seen)]


def main() -> None:
    """Runs the comparison and prints a table; exit code 1 where anything differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="number of random documents")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begin = time.perf_counter()
    tally = fuzz(options.count, options.seed)
    seconds = time.perf_counter() - begin
    console = Console()
    table = Table("documents", "cases", "wrong", title=f"{options.count:,} random traces against a strict reader, {seconds:.0f} s")
    for kind, n in tally.cases.items():
        table.add_row(kind, f"{n:,}", f"{tally.wrong[kind]:,}")
    console.print(table, *tally.examples, sep="\n", markup=False)
    raise SystemExit(any(tally.wrong.values()))


if __name__ == "__main__":
    main()
