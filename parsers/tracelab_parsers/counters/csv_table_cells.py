"""Blocks of lines as columns of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.bulk import Ints
from tracelab_parsers.counters.csv_table_plan import split_lines

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Block", "Cells", "blocks_of", "cells_of", "text_of"]

_BLOCK = 1 << 20
_LONGEST_LINE = 1 << 20
_ODD = (b'"', b"\0", b"\r\r")


class Block(NamedTuple):
    """Whole lines, and the number of the first of them, from 1. `unended`: the file ends in the last one, without an end of line."""

    number: int
    text: bytes
    unended: bool = False


class Cells(NamedTuple):
    """Rows as columns: numbers of their lines, and their cells. `bad`: rows of another width, left out."""

    lines: Ints
    columns: list[pa.StringArray]
    bad: int

    def without(self, text: str, column: int) -> Cells:
        """The rows whose cell of a column is not `text`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        same = pc.equal(self.columns[column], text).to_numpy(zero_copy_only=False)
        if not same.any():
            return self
        kept = pa.array(np.flatnonzero(~same))
        return Cells(self.lines[~same], [c.take(kept) for c in self.columns], self.bad)


def text_of(line: bytes) -> str:
    """A line as text."""
    return line.removesuffix(b"\r").replace(b"\0", b"").decode("utf-8", "replace")


def blocks_of(stream: ByteStream, too_long: Callable[[int], None]) -> Iterator[Block]:
    """The lines of a file, 1 MiB at a time; `too_long` gets the offset of each that has more, and is left out."""
    number, carry, skipping = 1, b"", False
    while data := stream.read(_BLOCK):
        end = data.rfind(b"\n") + 1
        if not end:
            carry += data if not skipping else b""
        else:
            text, carry = carry + data[:end], data[end:]
            if skipping:  # an empty line stands for the one that is left out
                text, skipping = text[text.index(b"\n") :], False
            yield Block(number, text)
            number += text.count(b"\n")
        if len(carry) > _LONGEST_LINE:
            too_long(stream.position - len(carry))
            carry, skipping = b"", True
    if carry and not skipping:
        yield Block(number, carry, unended=True)


def cells_of(block: Block, width: int, delimiter: str) -> Cells:
    """The cells of the lines that are as wide as the headings."""
    return _regular(block, width, delimiter) or _irregular(block, width, delimiter)


def _regular(block: Block, width: int, delimiter: str) -> Cells | None:
    """Cells where every line has as many delimiters as the headings, and nothing is quoted; None for other blocks."""
    import pyarrow as pa
    from pyarrow import csv

    mark = delimiter.encode()
    if block.unended or len(mark) != 1 or any(odd in block.text for odd in (*_ODD, mark + b" ", mark + b"\t")):
        return None
    a = np.frombuffer(block.text, np.uint8)
    ends = np.flatnonzero(a == ord("\n"))
    upto = np.searchsorted(np.flatnonzero(a == mark[0]), ends)
    if np.any(np.diff(upto, prepend=0) != width - 1):
        return None
    names = [str(i) for i in range(width)]
    try:
        table = csv.read_csv(
            pa.BufferReader(block.text),
            csv.ReadOptions(use_threads=False, block_size=max(len(block.text) + 1, 1 << 16), column_names=names),
            csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(ends):
        return None
    return Cells(np.arange(block.number, block.number + len(ends)), [c.combine_chunks() for c in table.columns], 0)


def _irregular(block: Block, width: int, delimiter: str) -> Cells:
    """Cells of quoted, ragged or cut lines, one by one."""
    import pyarrow as pa

    texts = [text_of(line) for line in block.text.removesuffix(b"\n").split(b"\n")]
    rows, numbers, bad = [], [], 0
    for number, row in enumerate(split_lines(texts, delimiter), block.number):
        if len(row) == width:
            rows.append(row)
            numbers.append(number)
        elif any(c.strip() for c in row) and not row[0].startswith("#"):
            bad += 1
    if rows and block.unended and numbers[-1] == block.number + len(texts) - 1:
        rows[-1][-1] = ""  # it may be cut
    columns: Sequence[Sequence[str]] = list(zip(*rows, strict=True)) if rows else [()] * width
    return Cells(np.array(numbers, np.int64), [pa.array([c.strip() for c in column], pa.string()) for column in columns], bad)
