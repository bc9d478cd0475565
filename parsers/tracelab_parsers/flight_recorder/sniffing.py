"""Whether a file is a dump of the flight recorder, from its first bytes. Names of dumps have no extension and are never asked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracelab.plugins import Match

__all__ = ["PICKLE", "sniff_dump"]

PICKLE = b"\x80"
"""First byte of every pickle since protocol 2."""

_TOP = (b"version", b"pg_config", b"pg_status", b"entries", b"nccl_comm_state", b"comm_lib_version", b"nccl_version")
_ENTRY = (b"record_id", b"collective_seq_id", b"p2p_seq_id", b"profiling_name", b"time_created_ns", b"input_sizes", b"time_discovered_started_ns")
_OTHERS = re.compile(rb'"(?:traceEvents|schemaVersion|distributedInfo)"\s*:')
_BOM = b"\xef\xbb\xbf"


def sniff_dump(head: bytes) -> Match | None:
    """A match of 0.95 where the keys of a dump are there, None elsewhere."""
    if head.startswith(PICKLE) and len(head) > 1 and head[1] in range(2, 6):
        return _match(head, _TOP, _ENTRY, "a pickle")
    text = head.removeprefix(_BOM).lstrip()
    if not text.startswith((b"{", b"[")) or _OTHERS.search(text):
        return None
    return _match(text, _quoted(_TOP), _quoted(_ENTRY), "JSON")


def _quoted(keys: Sequence[bytes]) -> list[bytes]:
    return [b'"%b"' % key for key in keys]


def _match(text: bytes, top: Sequence[bytes], entry: Sequence[bytes], form: str) -> Match | None:
    entries = sum(key in text for key in entry)
    if entries >= 4 or (top[1] in text and sum(key in text for key in top) >= 3):
        return Match(0.95, f"{form} with the keys of PyTorch's flight recorder")
    return None
