"""PyTorch profiler (Kineto) traces: `*.pt.trace.json`, plain or gzip, of every version and vendor since 2021."""

from __future__ import annotations

from tracelab_parsers.torch_profiler.parser import PARSER, TorchProfilerParser, decoded_chunks

__all__ = ["PARSER", "TorchProfilerParser", "decoded_chunks"]
