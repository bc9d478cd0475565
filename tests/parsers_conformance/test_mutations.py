"""Files of machines that were cut, torn, mixed up or given impossible numbers: a counted notice or rows that hold, never a traceback."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracelab.errors import TracelabError
from tracelab.ingest.discovery import discover
from tracelab.plugins import Notice, SourceFile, parsers
from tracelab.tables import TableSpec

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces" / "formats"
FILES = [(c.parser, c.path) for c in discover(SAMPLES) if c.parser is not None and parsers()[c.parser].kind == "fabric" and not c.companions]
ODD = [
    *("-1", "NaN", "Infinity", "-Infinity", "1e999", "-1e400", "1e5000000000", "9" * 30, "9" * 5000, str(2**63), str(2**64), str(2**31), "0x" + "f" * 17),
    *("null", "{}", "[]", '""', "N/A", "²", "٣", "9999-12-31 23:59:59", "0001-01-01T00:00:00+23:59", "+99:99", "253402300800", "1.7e308"),
]
NUMBER, WORD = re.compile(rb"-?\d+(?:\.\d+)?"), re.compile(rb"[A-Za-z_][\w./-]*")
MUTATIONS = 40


class Checked:
    """An emitter that keeps nothing and checks everything."""

    def __init__(self) -> None:
        self.rows = self.notices = 0

    def batch(self, table: TableSpec, batch: Any) -> None:
        assert batch.schema.equals(table.arrow)
        batch.validate(full=True)
        assert not [f.name for f, c in zip(batch.schema, batch.columns, strict=True) if not f.nullable and c.null_count]
        if table.name == "counter_samples":
            assert np.isfinite(batch.column("value").drop_null().to_numpy()).all()
            moments = batch.column("source_ts_ns").drop_null().to_numpy()
            assert (moments > 0).all()
        self.rows += batch.num_rows

    def notice(self, notice: Notice) -> None:
        assert notice.text
        assert notice.count > 0
        self.notices += 1

    def progress(self, bytes_read: int) -> None:
        assert bytes_read >= 0


def _swapped(chance: random.Random, data: bytes, places: re.Pattern[bytes], with_: list[bytes]) -> bytes:
    found = list(places.finditer(data))
    if not found:
        return data
    place = chance.choice(found)
    return data[: place.start()] + chance.choice(with_) + data[place.end() :]


def _mutated(chance: random.Random, data: bytes) -> bytes:
    """`data` with one to three things wrong."""
    for _ in range(chance.randint(1, 3)):
        lines = data.split(b"\n")
        at = chance.randrange(len(lines))
        begin = chance.randrange(len(data) + 1)
        match chance.randrange(7):
            case 0:
                data = data[:begin]
            case 1:
                data = data[:begin] + bytes(chance.randrange(256) for _ in range(3)) + data[begin + 3 :]
            case 2:
                data = b"\n".join([*lines[:at], lines[at], *lines[at:]])
            case 3:
                data = b"\n".join([*lines[:at], *lines[at + 1 :]])
            case 4:
                data = _swapped(chance, data, WORD, [chance.choice(WORD.findall(data) or [b""]), b""])
            case _:
                data = _swapped(chance, data, NUMBER, [o.encode() for o in ODD])
    return data


@pytest.mark.parametrize(("name", "path"), FILES, ids=lambda v: v if isinstance(v, str) else v.name)
def test_damage_ends_in_rows_or_notices(name: str, path: Path, tmp_path: Path) -> None:
    chance = random.Random(f"{name}/{path.name}")
    data = path.read_bytes()
    copy = tmp_path / path.name
    for _ in range(MUTATIONS):
        copy.write_bytes(_mutated(chance, data))
        out = Checked()
        try:
            parsers()[name].sniff(copy, copy.read_bytes())
            info = parsers()[name].parse(SourceFile(copy, path.name), out)
        except TracelabError:
            continue
        assert out.rows or out.notices or info.truncated
