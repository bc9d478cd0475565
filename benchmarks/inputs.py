"""Large inputs from small real traces: the events repeated with later times and new ids, in the text layout of the original."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Input", "repeated"]

_TIME = re.compile(rb'("ts": ?)(\d+)')
_ID = re.compile(rb'("(?:correlation|External id|id)": ?)(\d+)')
_STEP = re.compile(rb'("ProfilerStep#)(\d+)')
_START = re.compile(rb'"traceEvents": ?\[')
_END = re.compile(rb"\}\s*\](?=,?\s*(?:\}\s*$|\"\w+\"\s*:))")
_STEPS_APART = 1_000


class Input:
    """A set of trace files: where, and how much text they hold."""

    def __init__(self, name: str, files: list[Path]) -> None:
        self.name = name
        self.files = files
        self.directory = files[0].parent

    @property
    def megabytes(self) -> float:
        """Uncompressed text in MB (10^6 bytes)."""
        return sum(_text_size(f) for f in self.files) / 1e6


def _text_size(path: Path) -> int:
    if path.suffix != ".gz":
        return path.stat().st_size
    with gzip.open(path) as f:
        return sum(len(block) for block in iter(lambda: f.read(1 << 20), b""))


def repeated(name: str, sources: list[Path], work: Path, at_least_mb: float) -> Input:
    """Copies of `sources` in `work`, each repeated as often as it takes for the set to hold `at_least_mb`; kept for later runs."""
    texts = {f: gzip.decompress(f.read_bytes()) if f.suffix == ".gz" else f.read_bytes() for f in sources}
    times = -(-int(at_least_mb * 1e6) // sum(len(t) for t in texts.values()))
    folder = work / f"{name}-x{times}"
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for source, text in texts.items():
        target = folder / source.name.removesuffix(".gz")
        if not target.exists():
            part = target.with_suffix(".part")
            with part.open("wb") as out:
                out.writelines(_repeat(text, times))
            part.replace(target)
        made.append(target)
    return Input(folder.name, made)


def _repeat(text: bytes, times: int) -> Iterator[bytes]:
    start, ends = _START.search(text), [m.start() + 1 for m in _END.finditer(text)]
    if start is None or not ends:
        raise ValueError("no traceEvents array was found in the text")
    body = text[start.end() : ends[-1]]
    stamps = [int(m[2]) for m in _TIME.finditer(body)]
    # some metadata events have a time of 0: the length of the capture is that of the others
    real = [s for s in stamps if s > max(stamps) // 2]
    span = max(real) - min(real) + 1000
    ids = max(int(m[2]) for m in _ID.finditer(body)) + 1
    yield text[: start.end()]
    for i in range(times):
        yield (b"," if i else b"") + _shift(body, i, span, ids)
    yield text[ends[-1] :]


def _shift(body: bytes, i: int, span: int, ids: int) -> bytes:
    if i == 0:
        return body
    body = _TIME.sub(lambda m: b"%s%d" % (m[1], int(m[2]) + i * span), body)
    body = _ID.sub(lambda m: b"%s%d" % (m[1], int(m[2]) + i * ids), body)
    return _STEP.sub(lambda m: b"%s%d" % (m[1], int(m[2]) + i * _STEPS_APART), body)
