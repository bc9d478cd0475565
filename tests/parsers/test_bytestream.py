"""Plain, compressed, torn and damaged files give every byte before the damage."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from tracelab_parsers.bytestream import ByteStream

TEXT = bytes(random.Random(1).choices(b'abcdef {}"', k=300_000))
PACKED = gzip.compress(TEXT, mtime=0)


def _read(folder: Path, data: bytes, size: int = 70_001, **limits: int) -> tuple[bytes, list[str], bool]:
    path = folder / "f.json"
    path.write_bytes(data)
    with ByteStream(path, **limits) as stream:
        parts = []
        while part := stream.read(size):
            parts.append(part)
        assert stream.position == sum(map(len, parts))
        return b"".join(parts), [d.kind for d in stream.damage], stream.torn


@pytest.mark.parametrize("size", [1_000, 70_001, 10**7])
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (TEXT, TEXT),
        (PACKED, TEXT),
        (PACKED + PACKED, TEXT + TEXT),
        (PACKED + bytes(5_000) + PACKED + bytes(1_000), TEXT + TEXT),
        (b"", b""),
        (b"\x1f", b"\x1f"),
    ],
    ids=["plain", "gzip", "two members", "padded members", "empty", "one byte"],
)
def test_whole_files_are_read_whole(tmp_path: Path, data: bytes, text: bytes, size: int) -> None:
    assert _read(tmp_path, data, size) == (text, [], False)


def test_a_torn_file_gives_all_that_its_bytes_can(tmp_path: Path) -> None:
    import zlib

    half = PACKED[: len(PACKED) // 2]
    possible = zlib.decompressobj(31).decompress(half)
    assert len(possible) > 100_000
    assert _read(tmp_path, half) == (possible, ["torn"], True)


def test_a_wrong_checksum_loses_nothing(tmp_path: Path) -> None:
    wrong = bytearray(PACKED)
    wrong[-6] ^= 1
    assert _read(tmp_path, bytes(wrong)) == (TEXT, ["corrupt"], True)


def test_damage_in_the_second_member_keeps_the_first(tmp_path: Path) -> None:
    second = bytearray(PACKED)
    second[11] = 0xFF
    text, damage, torn = _read(tmp_path, PACKED + bytes(second))
    assert (text[: len(TEXT)], damage, torn) == (TEXT, ["corrupt"], True)


def test_bytes_after_the_last_member_are_told(tmp_path: Path) -> None:
    assert _read(tmp_path, PACKED + b"xyz") == (TEXT, ["garbage"], False)


def test_a_bomb_is_stopped(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(20_000_000))
    text, damage, torn = _read(tmp_path, bomb, 1 << 20, max_ratio=100, free_bytes=1 << 20)
    assert (damage, torn) == (["bomb"], True)
    assert len(text) < 100 * len(bomb) + (2 << 20)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ByteStream(tmp_path / "nothing")
