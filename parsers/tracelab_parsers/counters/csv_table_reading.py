"""One pass over a table of counters, in blocks of lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tracelab.plugins import Emitter, EventCount, Notice, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.bulk import NO_TIME, Bulk, Ints, Key, Numbers, numbers_of
from tracelab_parsers.counters.csv_table_cells import Block, Cells, blocks_of, cells_of, text_of
from tracelab_parsers.counters.csv_table_description import TableDescription, read_description
from tracelab_parsers.counters.csv_table_entities import Entity, entity_of
from tracelab_parsers.counters.csv_table_finding import Found, find_plan
from tracelab_parsers.counters.csv_table_intervals import Steps
from tracelab_parsers.counters.csv_table_meanings import Meanings
from tracelab_parsers.counters.csv_table_plan import Column, Plan, Role, read_cell
from tracelab_parsers.nccl_json.notices import Notices, NoticeText

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Reading"]

_Text = NoticeText
_TEXTS = {
    "bad-number": _Text("warning", "cells of counters that are no numbers were kept as missing"),
    "bad-time": _Text(
        "warning",
        "rows state no moment from 1971 to 2096 in the form of the others; their numbers were kept without one",
        "describe the column in [tables.…] of tracelab.toml if its form is another",
    ),
    "bad-row": _Text("warning", "rows that have more or fewer cells than there are headings were left out"),
    "line-too-long": _Text("warning", "lines longer than 1 MiB were left out"),
    "unended-row": _Text("warning", "the last line has no end; its last cell may be cut, and was kept as missing", "add an end of line if the file is whole"),
    "no-table": _Text("error", "no line holds headings of a time and of counters", "describe the columns in [tables.…] of tracelab.toml"),
    "no-column": _Text("error", "the table lacks columns that its description names", "write the headings as the file spells them"),
    "no-counters": _Text("warning", "the table holds no numbers of counters"),
}
_SAMPLE_BYTES = 4 << 20
_SAMPLE_LINES = 600
_MOST_ENTITIES = 200_000


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(_TEXTS)
        self._rows = Bulk(emit)
        text = source.options.get("tables")
        self._description: TableDescription | None = read_description(text) if isinstance(text, str) and text else None
        self._codes: dict[tuple[str, ...], int] = {}
        self._entities: list[Entity] = []
        self._before: dict[int, int] = {}

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read, `ManifestError` for a wrong description."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            blocks = blocks_of(stream, lambda offset: notices.add("line-too-long", offset))
            first = _first(blocks)
            lines = [text_of(line) for line in first.text.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]]
            found = find_plan(lines, self._description, claimed=True)
            if found is None:
                notices.add(self._missing(lines), 0)
            else:
                self._table(found, first, blocks, stream)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            torn = stream.torn
        self._rows.close()
        notices.add("no-counters", 0, int(found is not None and not self._rows.count))
        notices.emit(self._emit)
        counts = [EventCount("numbers", self._rows.count, stored=True)] if self._rows.count else []
        return SourceInfo([], event_counts=counts, truncated=torn or "unended-row" in notices)

    def _missing(self, lines: Sequence[str]) -> str:
        named = self._description.headings() if self._description is not None else []
        return "no-column" if named and not all(any(h in line for line in lines) for h in named) else "no-table"

    def _table(self, found: Found, first: Block, blocks: Iterator[Block], stream: ByteStream) -> None:
        plan = found.plan
        named = self._description.headings() if self._description is not None else []
        self._notices.add("no-column", 0, sum(h not in plan.headings for h in named))
        meanings = Meanings(plan)
        start = 0
        for _ in range(found.start):
            start = first.text.index(b"\n", start) + 1
        table = self._columns(plan, first._replace(number=first.number + found.start, text=first.text[start:]))
        if len(table.lines):
            steps = Steps(plan, meanings)
            steps.see(table.codes, table.ts, self._entities, table.numbers)
            self._tell(meanings, steps)
            self._add(plan, meanings, table)
        for block in blocks:
            table = self._columns(plan, block)
            if len(table.lines):
                self._add(plan, meanings, table)
            self._emit.progress(stream.file_position)

    def _tell(self, meanings: Meanings, steps: Steps) -> None:
        names = steps.of_intervals()
        meanings.set_intervals(names)
        if names:
            shown = ", ".join(sorted(names)[:6])
            text = f"columns fall about as often as they rise, so that they count since the row before, not since a start: {shown[:200]!r}"
            hint = "describe the columns in [tables.…] of tracelab.toml if that is wrong"
            self._emit.notice(Notice("counts-of-intervals", "info", text, hint, len(names)))

    def _columns(self, plan: Plan, block: Block) -> _Table:
        """A block as columns; lines of another width, and headings that come again, are left out."""
        cells = cells_of(block, len(plan.headings), plan.delimiter)
        self._notices.add("bad-row", None, cells.bad)
        self._notices.add("unended-row", None, int(block.unended and len(cells.lines) > 0))
        mark = plan.time[0] if plan.time else 0
        cells = cells.without(plan.headings[mark], mark)
        numbers = [self._numbers(c, cells.columns[c.place]) for c in plan.columns]
        return _Table(cells.lines, self._moments(plan, cells), self._entity_codes(plan, cells), numbers)

    def _moments(self, plan: Plan, cells: Cells) -> Ints:
        import pyarrow.compute as pc

        if plan.clock is None:
            return np.full(len(cells.lines), NO_TIME, np.int64)
        parts = [cells.columns[p] for p in plan.time]
        ts = plan.clock.read(parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, " "))
        bad = cells.lines[ts == NO_TIME]
        self._notices.add("bad-time", None, len(bad), line=int(bad[0]) if len(bad) else None)
        return ts

    def _numbers(self, column: Column, texts: pa.StringArray) -> Numbers:
        numbers = numbers_of(texts, partial(read_cell, unit=column.heading.unit if column.heading is not None else None))
        self._notices.add("bad-number", None, numbers.bad)
        return numbers

    def _entity_codes(self, plan: Plan, cells: Cells) -> Ints:
        """A number for each combination of cells that say who is counted."""
        roles: list[Role] = [r for r in plan.roles if r != "value"]
        combined = np.zeros(len(cells.lines), np.int64)
        for role in roles:
            texts = cells.columns[plan.roles[role]].dictionary_encode()
            pairs = combined * max(len(texts.dictionary), 1) + texts.indices.to_numpy(zero_copy_only=False)
            combined = np.unique(pairs, return_inverse=True)[1].reshape(-1)
        _, rows, of = np.unique(combined, return_index=True, return_inverse=True)
        codes = np.empty(len(rows), np.int64)
        for i, row in enumerate(rows.tolist()):
            key = tuple(cells.columns[plan.roles[r]][row].as_py() for r in roles)
            code = self._codes.get(key)
            if code is None:
                code = self._codes[key] = len(self._entities)
                self._entities.append(entity_of(dict(zip(roles, key, strict=True)), plan.description, gpu=plan.gpu))
            codes[i] = code
        return codes[of.reshape(-1)]

    def _add(self, plan: Plan, meanings: Meanings, table: _Table) -> None:
        present, of = np.unique(table.codes, return_inverse=True)
        intervals = self._intervals(table) if meanings.has_intervals else None
        for column, numbers in zip(plan.columns, table.numbers, strict=True):
            keys: list[Key] = [meanings.key(code, self._entities[code], column) for code in present.tolist()]
            counted = np.array([k.meaning.stated_kind == "delta" for k in keys], np.bool_)[of]
            lengths = np.where(counted, intervals, NO_TIME) if intervals is not None else None
            quality = plan.clock.quality if plan.clock is not None else None
            adjusted = meanings.adjusted(column, keys, numbers, of)
            self._rows.add(keys, of, table.lines, adjusted, ts_ns=table.ts, quality=quality, interval_ns=lengths)
        if len(self._codes) > _MOST_ENTITIES:
            self._codes, self._entities, self._before = {}, [], {}
            meanings.forget()

    def _intervals(self, table: _Table) -> Ints:
        """For each row the time since the row before of the same series; `NO_TIME` for the first."""
        order = np.argsort(table.codes, kind="stable")
        ts, codes = table.ts[order], table.codes[order]
        before = np.roll(ts, 1)
        starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
        before[starts] = [self._before.get(c, NO_TIME) for c in codes[starts].tolist()]
        ends = np.r_[starts[1:] - 1, len(codes) - 1]
        self._before.update(zip(codes[ends].tolist(), ts[ends].tolist(), strict=True))
        good = (before != NO_TIME) & (ts != NO_TIME) & (ts > before)
        out = np.full(len(ts), NO_TIME, np.int64)
        out[order] = np.where(good, ts - np.where(good, before, 0), NO_TIME)
        return out


def _first(blocks: Iterator[Block]) -> Block:
    """The beginning of a file, from which the columns and kinds of the table are found out."""
    parts: list[bytes] = []
    number, unended, size = 1, False, 0
    for block in blocks:
        number = number if parts else block.number
        parts.append(block.text)
        unended = block.unended
        size += len(block.text)
        if size >= _SAMPLE_BYTES:
            break
    return Block(number, b"".join(parts), unended)


class _Table(NamedTuple):
    """A block of rows as columns: number of the line, moment, entity, and the numbers of each column of counters."""

    lines: Ints
    ts: Ints
    codes: Ints
    numbers: list[Numbers]
