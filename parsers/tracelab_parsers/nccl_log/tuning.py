"""The table from which the library chooses algorithm and protocol, in its two layouts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tracelab.tables.logs import TUNING
from tracelab_parsers.nccl_log import ops
from tracelab_parsers.nccl_log.fields import Bounded, thread
from tracelab_parsers.nccl_log.line import LogLine, Rows

__all__ = ["TuningReader"]

_CELL = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*/\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*")
_FUNCTIONS = frozenset({"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "AllToAll", "AlltoAll", "Send", "Recv", "Gather", "Scatter"})
_PROTOCOLS = 3
_THREADS = 4096


@dataclass
class _Block:
    """The columns of the table that a thread is printing; `seen` are the functions whose row was read."""

    algorithms: list[str | None] = field(default_factory=list)
    columns: list[tuple[str, str] | None] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


class TuningReader:
    """Keeps the columns of each thread's table: up to 2.17 one header row, from 2.18 blocks of two.

    The Protocol row of the last block names more columns than there are data; rows whose header is lost give nothing.
    """

    def __init__(self) -> None:
        self._blocks: Bounded[tuple[int | None, int | None], _Block] = Bounded(_THREADS)

    def take(self, line: LogLine, rows: Rows) -> str | None:
        """`tuning` for a line of the table, else None."""
        text = line.text
        if "|" not in text or not line.level:
            return None
        # What no bar closes was cut off, or is the empty rest of the line.
        head, *cells = text.split("|")[:-1]
        name = head.strip()
        if name in _FUNCTIONS:
            self._row(name, cells, line, rows)
        elif name == "Algorithm":
            self._blocks[thread(line)] = _Block(algorithms=[ops.algorithm(c) for c in cells])
        elif name == "Protocol":
            self._protocols(cells, line)
        elif name == "Latency/AlgBw":
            self._blocks[thread(line)] = _Block(columns=[_pair(c) for c in cells])
        elif name != "Max NThreads":
            return None
        return "tuning"

    def finish(self, rows: Rows) -> None:
        """A table that ends early has no open cell: nothing to do."""

    def _protocols(self, cells: list[str], line: LogLine) -> None:
        block = self._blocks.get(thread(line))
        if block is None:
            return
        if block.columns:
            # The names of this block's algorithms are lost.
            del self._blocks[thread(line)]
            return
        for i, cell in enumerate(cells[: _PROTOCOLS * len(block.algorithms)]):
            algorithm, protocol = block.algorithms[i // _PROTOCOLS], ops.protocol(cell)
            block.columns.append((algorithm, protocol) if algorithm and protocol else None)

    def _row(self, name: str, cells: list[str], line: LogLine, rows: Rows) -> None:
        block = self._blocks.get(thread(line))
        if block is None:
            return
        if name in block.seen:
            # The header of the next block is lost: its columns are not these.
            del self._blocks[thread(line)]
            return
        block.seen.add(name)
        for column, cell in zip(block.columns, cells, strict=False):
            found = _CELL.fullmatch(cell)
            if column is not None and found is not None:
                algorithm, protocol = column
                rows.add(
                    TUNING,
                    line,
                    operation=ops.operation(name),
                    algorithm=algorithm,
                    protocol=protocol,
                    latency_us=float(found[1]),
                    algbw_gb_per_s=float(found[2]),
                )


def _pair(cell: str) -> tuple[str, str] | None:
    left, _, right = cell.partition("/")
    algorithm, protocol = ops.algorithm(left), ops.protocol(right)
    return (algorithm, protocol) if algorithm and protocol else None
