"""What lies in a directory: odd files are named, never opened blindly, never passed over."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from tracelab.errors import UnknownNameError, UsageError
from tracelab.ingest.discovery import discover
from tracelab.ingest.heads import HEAD_BYTES, read_head
from tracelab.ingest.store import joint_key
from tracelab.plugins import parsers

EVENTS = b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.0, "dur": 2.0}]}'


def found(root: Path) -> dict[str, tuple[str | None, str]]:
    return {c.name: (c.parser, c.looks_like) for c in discover(root)}


def test_other_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_bytes(b"SQLite format 3\0" + b"\0" * 100)
    (tmp_path / "notes.md").write_text("hello\n")
    (tmp_path / "all.zip").write_bytes(b"PK\x03\x04rest")
    files = found(tmp_path)
    assert {n: p for n, (p, _) in files.items()} == dict.fromkeys(("a.sqlite", "all.zip", "notes.md"))
    assert files["a.sqlite"][1] == "SQLite database (Nsight Systems exports are)"
    assert files["all.zip"][1] == "zip archive: unpack it first"


def test_a_tree_of_files_is_one_source(tmp_path: Path) -> None:
    """Two snapshots of two hosts' devices, with equal contents: four sources, whose other files are parts of them."""
    for host in ("node1", "node2"):
        for moment in ("1700000000.5", "1700000001.5"):
            port = tmp_path / host / moment / "sys/class/infiniband/mlx5_0/ports/1"
            (port / "counters").mkdir(parents=True)
            (port / "counters" / "port_xmit_data").write_text("12\n")
            (port / "counters" / "symbol_error").write_text("0\n")
            (port / "rate").write_text("200 Gb/sec (4X HDR)\n")
    candidates = discover(tmp_path)
    sources = [c for c in candidates if c.companion_of is None]
    assert [(c.name.split("/")[:2], c.parser, len(c.companions), c.total_bytes) for c in sources] == [
        ([host, moment], "sysfs-infiniband", 2, 25) for host in ("node1", "node2") for moment in ("1700000000.5", "1700000001.5")
    ]
    assert len(candidates) == 12
    assert all(c.looks_like.startswith("read with ") for c in candidates if c.companion_of)


def test_names_below_the_root_of_a_tree_are_part_of_its_key(tmp_path: Path) -> None:
    keys: list[object] = []
    for device in ("mlx5_0", "mlx5_0", "mlx5_1"):
        root = tmp_path / str(len(keys))
        counters = root / device / "ports/1/counters"
        counters.mkdir(parents=True)
        (counters / "symbol_error").write_text("0\n")
        (source,) = discover(root)
        keys.append(joint_key(source.path, source.companions, source.companion_root))
    assert keys[0] == keys[1] != keys[2]


def test_gzip_is_seen_by_content_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(gzip.compress(EVENTS))
    (tmp_path / "rank1.json.gz").write_bytes(EVENTS)
    assert {n: p for n, (p, _) in found(tmp_path).items()} == {"rank0.json": "torch-profiler", "rank1.json.gz": "torch-profiler"}


def test_pipes_and_empty_files_are_noted_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "empty.json").touch()
    by_name = {c.name: c for c in discover(tmp_path)}
    codes = {n: c.notice.code for n, c in by_name.items() if c.notice is not None}
    assert codes == {"pipe.json": "unreadable-file", "empty.json": "empty-file"}


def test_pipes_and_devices_in_a_tree_are_left_out(tmp_path: Path) -> None:
    """What stands before, among and behind the counters of a tree is not opened: it would never end."""
    counters = tmp_path / "mlx5_0/ports/1/counters"
    counters.mkdir(parents=True)
    (counters / "port_xmit_data").write_text("12\n")
    (counters / "symbol_error").write_text("0\n")
    os.mkfifo(counters / "a_pipe")
    os.mkfifo(tmp_path / "mlx5_0/ports/1/rate")
    (counters / "endless").symlink_to("/dev/zero")
    (source,) = (c for c in discover(tmp_path) if c.parser is not None)
    assert source.path.name == "port_xmit_data"
    assert [p.name for p in source.companions] == ["symbol_error"]
    assert parsers()["sysfs-infiniband"].companions(source.path).files == (counters / "port_xmit_data", counters / "symbol_error")  # type: ignore[attr-defined]


def test_digits_of_other_scripts_are_no_port(tmp_path: Path) -> None:
    for port in ("\u00b2", "\u0663", "1"):
        counters = tmp_path / port / "mlx5_0/ports" / port / "counters"
        counters.mkdir(parents=True)
        (counters / "symbol_error").write_text("0\n")
    assert {c.name.split("/")[0]: c.parser for c in discover(tmp_path)} == {"1": "sysfs-infiniband", "\u00b2": None, "\u0663": None}


def test_a_link_to_nowhere_and_a_damaged_gzip_are_noted(tmp_path: Path) -> None:
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "bad.json.gz").write_bytes(b"\x1f\x8b\x08\x00" + b"\xff" * 60)
    codes = {c.name: c.notice.code for c in discover(tmp_path) if c.notice is not None}
    assert codes == {"gone.json": "unreadable-file", "bad.json.gz": "unreadable-file"}


def test_a_loop_of_folders_ends(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    (tmp_path / "a" / "rank0.json").write_bytes(EVENTS)
    assert list(found(tmp_path)) == ["a/rank0.json"]


def test_a_linked_folder_is_followed_once(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "rank3.json").write_bytes(EVENTS)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "d" / "b").symlink_to(tmp_path / "elsewhere")
    assert list(found(tmp_path / "d")) == ["a/rank3.json"]


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locked").mkdir()
    (tmp_path / "rank0.json").write_bytes(EVENTS)
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("locked"):  # as for a user who is not root
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    notices = {c.name: c.notice for c in discover(tmp_path) if c.notice is not None}
    assert notices["locked"].code == "unreadable-folder"
    assert "Permission denied" in notices["locked"].text


def test_a_name_that_is_no_text_is_spelled_out(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/rank0-\xff.json")).write_bytes(EVENTS)
    assert list(found(tmp_path)) == ["rank0-\\xff.json"]


def test_a_line_break_in_a_name_is_spelled_out(tmp_path: Path) -> None:
    (tmp_path / "rank0\n\x1b[31m.json").write_bytes(EVENTS)
    assert list(found(tmp_path)) == ["rank0\\x0a\\x1b[31m.json"]


def test_own_output_and_hidden_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x.tracelab.html").write_text("<html>")
    (tmp_path / "tracelab.toml").write_text("")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "rank0.json").write_bytes(EVENTS)
    assert found(tmp_path) == {}


def test_the_head_of_a_gzip_bomb_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b"[" + b" " * 50_000_000))
    assert len(read_head(tmp_path / "bomb.json.gz").data) == HEAD_BYTES


def test_what_came_before_the_damage_of_a_gzip_still_tells_what_it_is(tmp_path: Path) -> None:
    text = EVENTS + b" " * 10 + bytes(range(256)) * 400
    whole = gzip.compress(text)
    damaged = bytearray(whole)
    damaged[-8] ^= 0xFF  # the checksum
    (tmp_path / "crc.json.gz").write_bytes(damaged)
    small = bytearray(gzip.compress(EVENTS))
    small[-8] ^= 0xFF
    (tmp_path / "small.json.gz").write_bytes(small)
    (tmp_path / "members.json.gz").write_bytes(gzip.compress(b"") + gzip.compress(EVENTS[:30]) + gzip.compress(EVENTS[30:]))
    assert {n: p for n, (p, _) in found(tmp_path).items()} == dict.fromkeys(("crc.json.gz", "members.json.gz", "small.json.gz"), "torch-profiler")
    assert read_head(tmp_path / "members.json.gz").data == EVENTS


def test_a_single_file_is_a_directory_of_one(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(EVENTS)
    (tmp_path / "rank1.json").write_bytes(EVENTS)
    assert [c.name for c in discover(tmp_path / "rank0.json")] == ["rank0.json"]


def test_a_path_or_format_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        discover(tmp_path / "nowhere")
    with pytest.raises(UnknownNameError, match=r"no format 'torch-profile[\s\S]*did you mean 'torch-profiler'"):
        discover(tmp_path, {"a.json": "torch-profile"})
