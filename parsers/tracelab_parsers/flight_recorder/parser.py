"""The parser of flight-recorder dumps, as the plugin registry knows it."""

from __future__ import annotations

from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COMM_PROGRESS, COMMUNICATORS, LOGGED_COLLECTIVES, PROCESS_GROUPS, TableSpec
from tracelab_parsers.flight_recorder.sniffing import sniff_dump

__all__ = ["PARSER", "FlightRecorderParser"]


class FlightRecorderParser:
    """Reads dumps of PyTorch's NCCL flight recorder: pickles, which are never executed, and JSON, of the versions 2.x."""

    name = "flight-recorder"
    version = 1
    title = "PyTorch flight-recorder dump"
    kind: SourceKind = "log"
    tables: tuple[TableSpec, ...] = (LOGGED_COLLECTIVES, COMMUNICATORS, PROCESS_GROUPS, COMM_PROGRESS)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - dumps are told by their content
        """See `tracelab.plugins.Parser.sniff`."""
        return sniff_dump(head)

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`.

        Memory: up to sixteen times the size of a pickle (128 MiB at most, and 16 million instructions); of JSON one chunk of 8 MiB and 8,000 rows.
        Raises `TracelabError` for pickles that try anything but to build plain values, are damaged or too large, and for
        files that are no dump.
        """
        from tracelab_parsers.flight_recorder.reading import Reading

        return Reading(source, emit).run()


PARSER = FlightRecorderParser()
