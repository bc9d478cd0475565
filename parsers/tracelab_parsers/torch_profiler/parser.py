"""The parser of PyTorch profiler traces, as the plugin registry knows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COMM_RECORDS, GPU_COUNTERS, GPU_SPANS, HOST_SPANS, MEMORY_EVENTS, PROCESS_GROUPS, TableSpec
from tracelab_parsers.torch_profiler.sniffing import sniff_trace

if TYPE_CHECKING:
    from tracelab_parsers.json_chunks import Chunk
    from tracelab_parsers.torch_profiler.events import Event

__all__ = ["PARSER", "TorchProfilerParser", "decoded_chunks"]


class TorchProfilerParser:
    """Reads traces of the PyTorch profiler. The option `python_functions` stores Python call spans too (often half of a file)."""

    name = "torch-profiler"
    version = 1
    title = "PyTorch profiler trace (Kineto)"
    kind: SourceKind = "timeline"
    tables: tuple[TableSpec, ...] = (GPU_SPANS, HOST_SPANS, COMM_RECORDS, PROCESS_GROUPS, MEMORY_EVENTS, GPU_COUNTERS)
    option_names: tuple[str, ...] = ("python_functions",)

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """See `tracelab.plugins.Parser.sniff`."""
        return sniff_trace(path, head)

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: about ten times the 8 MiB of text decoded at once, and 8 bytes per GPU event and runtime call."""
        from tracelab_parsers.torch_profiler.reading import Reading

        return Reading(source, emit).run()


def decoded_chunks(source: SourceFile) -> Iterator[Chunk[Event]]:
    """The events of a trace, decoded and nothing more: what reading costs without building rows."""
    from tracelab_parsers.torch_profiler import reading

    return reading.decoded_chunks(source)


PARSER = TorchProfilerParser()
