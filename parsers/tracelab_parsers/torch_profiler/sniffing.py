"""Whether a file is a trace of the PyTorch profiler, from its first bytes.

Other tools write the same Chrome trace format: only what the profiler alone writes makes it certain.
"""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Match

__all__ = ["sniff_trace"]

_BOM = b"\xef\xbb\xbf"
_ENVELOPE = re.compile(rb'"(?:schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|record_shapes|with_stack)"\s*:')
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_PHASE = re.compile(rb'"ph"\s*:\s*"')
_TORCH_EVENT = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|cuda_runtime|python_function|gpu_user_annotation|Operator|cpu_instant_event|ac2g|cuda_driver)"'
    rb'|"External id"\s*:|"ProfilerStep#|"pid"\s*:\s*"CPU functions"'
)
_NAME = re.compile(r"(?:\.pt\.trace|trace|kineto|profile)[^/]*\.json(?:\.gz)?$", re.IGNORECASE)


def sniff_trace(path: Path, head: bytes) -> Match | None:
    """A match of 1 where the content proves it, below 0.5 where another tool may have written it, None where it is no trace."""
    text = head.removeprefix(_BOM).lstrip()
    named = bool(_NAME.search(path.name))
    if text.startswith(b"{"):
        return _object(text, named)
    if text.startswith(b"[") and _PHASE.search(text) and _TORCH_EVENT.search(text):
        return Match(0.9, "a list of events of the PyTorch profiler")
    return None


def _object(text: bytes, named: bool) -> Match | None:
    envelope = {m.group() for m in _ENVELOPE.finditer(text)}
    events = _EVENTS.search(text) is not None
    torch = _TORCH_EVENT.search(text) is not None
    if events and (torch or len(envelope) >= 2):
        return Match(1.0 if named else 0.95, "traceEvents beside the metadata and categories of the PyTorch profiler")
    if events and envelope:
        return Match(0.7, "traceEvents beside metadata of the PyTorch profiler")
    if events:
        return Match(0.3, "Chrome trace events of unknown origin")
    if len(envelope) >= 2:
        return Match(0.8 if named else 0.6, "metadata of the PyTorch profiler; its events come later in the file")
    if named and b'"metadata"' in text[:4096]:
        return Match(0.35, "named like a trace, and starts with long metadata")
    return None
