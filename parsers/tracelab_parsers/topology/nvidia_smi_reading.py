"""The matrix of `nvidia-smi topo -m` to distances of GPUs and adapters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab.tables import ADAPTER_PATHS
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.headings import heading_of
from tracelab_parsers.nccl_json.lines import lines
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.notices import NoticeText as _Text
from tracelab_parsers.nccl_json.rows import RowBuffer

__all__ = ["Reading"]

_TEXTS: dict[str, _Text] = {
    "truncated": _Text("warning", "the matrix is cut short; its whole rows were kept", "copy the whole output of nvidia-smi topo -m"),
    "bad-row": _Text("warning", "rows of the matrix do not fit its columns and were left out", "paste the output with its spaces"),
    "unknown-path": _Text("warning", "distances of unknown kinds were left out"),
    "no-nic-legend": _Text("warning", "the legend that names the adapters is missing; they are called NIC and a number", "copy the output to its end"),
    "no-end-of-line": _Text("info", "the last line has no end; if the output was cut there, the name of its adapter is incomplete"),
    "no-adapters": _Text("info", "the matrix shows GPUs alone, no adapter"),
    "no-matrix": _Text("warning", "the file holds no matrix of GPUs", "run nvidia-smi topo -m again"),
    "line-too-long": _Text("warning", "lines longer than 64 KiB were left out"),
}
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_GPU = re.compile(r"GPU(\d{1,4})")
_NIC = re.compile(r"NIC\d+")
_LEGEND = re.compile(r"\s*(NIC\d+)\s*:\s*(\S+)\s*")
_PATHS = {"PIX": "PIX", "PXB": "PXB", "PHB": "PHB", "NODE": "NODE", "SYS": "SYS", "SOC": "SYS"}
"""Drivers before 2017 called SYS, the way between sockets, SOC."""
_PROMPT = re.compile(r"(?:\[?[\w.-]+@([\w-]+)[^#$>]*[#$>]|[=#*-]{1,8} ?([A-Za-z][\w.-]*):?) *(?:sudo +)?nvidia-smi +topo\b.*")
_LONGEST = 64 << 10


@dataclass
class _Matrix:
    """One matrix: names of its columns, its cells of GPUs and adapters, and what its legend says."""

    columns: list[str]
    node: str | None
    cells: list[tuple[int, int, str, str]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(_TEXTS)
        self._rows = RowBuffer(ADAPTER_PATHS, emit)
        self._matrix: _Matrix | None = None
        self._node: str | None = None
        self._paths = self._matrices = 0

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            for line in lines(stream, lambda offset: notices.add("line-too-long", offset), _LONGEST):
                self._line(line.number, line.offset, _COLOUR.sub("", line.text.decode("utf-8", "replace")), whole=line.whole)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            torn = stream.torn
        self._close()
        notices.add("no-matrix", 0, int(not self._matrices))
        self._rows.flush()
        notices.emit(self._emit)
        counts = [EventCount("paths", self._paths, stored=True)] if self._paths else []
        return SourceInfo([], event_counts=counts, truncated=torn or "truncated" in notices)

    def _line(self, number: int, offset: int, text: str, *, whole: bool) -> None:
        words = text.split()
        prompt = _PROMPT.fullmatch(text.strip()) if "nvidia-smi" in text else None
        heading = heading_of(text) if words and not text[0].isspace() else None
        if words[:1] == ["GPU0"] and (len(words) == 1 or words[1] not in ("X", *_PATHS)):
            self._close()
            end = words.index("CPU") if "CPU" in words else len(words)
            self._matrix = _Matrix(words[:end], self._node)
        elif self._matrix is not None and words and (gpu := _GPU.fullmatch(words[0])) is not None:
            self._row(number, offset, int(gpu[1]), words[1:], whole=whole)
        elif self._matrix is not None and (m := _LEGEND.fullmatch(text)) is not None:
            self._matrix.names[m[1]] = m[2][:256]
            self._notices.add("no-end-of-line", offset, int(not whole))
        elif prompt is not None:
            self._node = prompt[1] or prompt[2]
        elif heading is not None and heading.node is not None:
            self._node = heading.node

    def _row(self, number: int, offset: int, gpu: int, cells: list[str], *, whole: bool) -> None:
        assert self._matrix is not None
        columns = self._matrix.columns
        if len(cells) < len(columns):
            self._notices.add("bad-row" if whole else "truncated", offset)
            return
        for column, cell in zip(columns, cells, strict=False):
            if _GPU.fullmatch(column) is not None:
                continue
            path = _PATHS.get(cell)
            if path is None:
                self._notices.add("unknown-path", offset)
            else:
                self._matrix.cells.append((number, gpu, column, path))

    def _close(self) -> None:
        """Writes the matrix that has ended: its adapters' names may stand below it."""
        matrix, self._matrix = self._matrix, None
        if matrix is None:
            return
        self._matrices += 1
        adapters = [c for c in matrix.columns if _GPU.fullmatch(c) is None]
        self._notices.add("no-adapters", None, int(not adapters))
        self._notices.add("no-nic-legend", None, sum(_NIC.fullmatch(c) is not None and c not in matrix.names for c in adapters))
        for number, gpu, column, path in matrix.cells:
            self._rows.add(line=number, node=matrix.node, gpu=gpu, device=matrix.names.get(column, column), path=path, origin="nvidia-smi")
            self._paths += 1
