"""PyTorch flight-recorder dumps: what a process asked of its communicators until it was dumped, as pickle or JSON."""

from __future__ import annotations

from tracelab_parsers.flight_recorder.parser import PARSER, FlightRecorderParser

__all__ = ["PARSER", "FlightRecorderParser"]
