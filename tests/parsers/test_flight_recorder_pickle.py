"""Pickles that try more than plain values are refused, unread and with a name for what they tried; none runs, grows or crashes."""

from __future__ import annotations

import os
import pickle
import pickletools
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.builders.flight_recorder import cpp_pickle, dump, entry, hang, parse_bytes, python_pickle
from tracelab.errors import TracelabError
from tracelab_parsers.flight_recorder.plain_pickle import Limits, Loaded, load_plain

MEGABYTE = 1 << 20
PROTO = b"\x80\x02"


def load(program: bytes, **limits: int) -> Loaded:
    return load_plain(program, "dump", Limits(**limits))


class _Calls:
    """Pickles to a call of `os.mkdir`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


class _Object:
    def __init__(self) -> None:
        self.a = 1


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside a dump"])
def test_a_call_is_refused_and_not_made(tmp_path: Path, protocol: int, inside: bool) -> None:
    made = tmp_path / "made"
    call = _Calls(made)
    data = pickle.dumps(dump([entry(0, 1), {"record_id": call}]) if inside else call, protocol)
    with pytest.raises(TracelabError, match=r"refused|protocol|instruction"):
        load(data)
    if protocol >= 2:
        with pytest.raises(TracelabError, match="refused"):
            parse_bytes(tmp_path, data)
    assert not made.exists()


def test_the_same_bytes_do_harm_elsewhere(tmp_path: Path) -> None:
    """The attack is real: what is refused here makes a folder where it is loaded."""
    data = pickle.dumps(_Calls(tmp_path / "made"), 2)
    pickle.loads(data)
    assert (tmp_path / "made").is_dir()
    with pytest.raises(TracelabError, match=r"'posix\.mkdir' by GLOBAL at byte 2"):
        load(data)


@pytest.mark.parametrize(
    ("program", "opcode"),
    [
        (PROTO + b"cos\nsystem\n(X\x02\x00\x00\x00idtR.", "GLOBAL"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.", "STACK_GLOBAL"),
        (PROTO + b"(X\x02\x00\x00\x00idios\nsystem\n.", "INST"),
        (PROTO + b"(X\x02\x00\x00\x00ido.", "OBJ"),
        (PROTO + b"NN R.", "REDUCE"),
        (PROTO + b"N)R.", "REDUCE"),
        (PROTO + b"N)\x81.", "NEWOBJ"),
        (b"\x80\x04N)}\x92.", "NEWOBJ_EX"),
        (PROTO + b"N}b.", "BUILD"),
        (PROTO + b"\x82\x01.", "EXT1"),
        (PROTO + b"\x83\x01\x00.", "EXT2"),
        (PROTO + b"\x84\x01\x00\x00\x00.", "EXT4"),
        (PROTO + b"Pid\n.", "PERSID"),
        (PROTO + b"NQ.", "BINPERSID"),
        (b"\x80\x05\x97.", "NEXT_BUFFER"),
        (b"\x80\x05N\x98.", "READONLY_BUFFER"),
        (PROTO + b"I123\n.", "INT"),
        (PROTO + b"L123L\n.", "LONG"),
        (PROTO + b"\x8b\xff\xff\xff\x7f1.", "LONG4"),
        (PROTO + b"S'a'\n.", "STRING"),
        (PROTO + b"T\xff\xff\xff\x7fa.", "BINSTRING"),
        (PROTO + b"Va\n.", "UNICODE"),
        (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fa.", "BINUNICODE8"),
        (b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fa.", "BINBYTES8"),
        (b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7fa.", "BYTEARRAY8"),
        (b"\x80\x04(\x91.", "FROZENSET"),
        (b"\x80\x04\x8f.", "EMPTY_SET"),
        (PROTO + b"N2.", "DUP"),
        (PROTO + b"N0.", "POP"),
    ],
)
def test_every_way_out_is_refused_by_name(program: bytes, opcode: str) -> None:
    if b" " in program:
        program = program.replace(b" ", b"")
    with pytest.raises(TracelabError) as error:
        load(program)
    assert f" by {opcode} at byte " in error.value.message
    assert error.value.hint


def test_all_other_opcodes_are_refused() -> None:
    """Of the 68 instructions only those that build plain values exist here."""
    known = {
        *("PROTO", "FRAME", "MARK", "STOP", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"),
        *("SHORT_BINUNICODE", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM"),
        *("SETITEMS", "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET"),
    }
    refused = {op.name for op in pickletools.opcodes} - known
    assert len(refused) == 38
    for op in pickletools.opcodes:
        if op.name in refused:
            with pytest.raises(TracelabError, match=rf"refused: .* by {op.name} at byte 3"):
                load(PROTO + b"N" + op.code.encode("latin-1") + b"\0" * 20)


def test_objects_and_what_torch_writes_with_type_tags_are_refused(tmp_path: Path) -> None:
    tagged = PROTO + b"ctorch.jit._pickle\nrestore_type_tag\n}X\x03\x00\x00\x00Any\x86R."
    for data in (pickle.dumps(_Object(), 2), pickle.dumps({"a": {1, 2}}, 4), pickle.dumps({"a": b"x"}, 4), tagged):
        with pytest.raises(TracelabError, match="refused"):
            parse_bytes(tmp_path, data)


def test_values_are_those_of_the_standard_reader() -> None:
    plain = [
        None,
        True,
        False,
        0,
        255,
        256,
        65_536,
        -1,
        -(1 << 31),
        1 << 40,
        -(1 << 62),
        1.5,
        -0.0,
        "",
        "ä",
        "x" * 300,
        (),
        (1,),
        (1, 2),
        (1, 2, 3),
        (1, 2, 3, 4),
    ]
    value = {"all": plain, "nested": [[[], {}], {"a": {"b": [1]}}], "shared": [plain, plain], 7: "seven"}
    for protocol in range(2, 6):
        assert load(pickle.dumps(value, protocol)) == Loaded(value, torn=False, end=len(pickle.dumps(value, protocol)))
    assert load(cpp_pickle(hang(1))).value == hang(1)


def test_text_that_is_no_text_is_kept_with_its_bad_bytes_replaced() -> None:
    assert load(PROTO + b"X\x03\x00\x00\x00a\xffb.").value == "a\ufffdb"
    assert load(PROTO + b"X\x03\x00\x00\x00\xed\xa0\x80.").value == "\ufffd" * 3


@pytest.mark.parametrize(
    "program",
    [
        PROTO + b"X\xff\xff\xff\xffa.",
        PROTO + b"X\xff\xff\xff\x7f" + b"a" * 100,
        PROTO + b"\x8a\xff\x01.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffN",
        b"\x80\x04\x8c\xffa.",
        PROTO + b"G\x00.",
        PROTO + b"r\x00.",
    ],
)
def test_lengths_are_not_believed(program: bytes) -> None:
    tracemalloc.start()
    try:
        assert load(program).torn
        assert tracemalloc.get_traced_memory()[1] < MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "program",
    [
        b".",
        PROTO + b".",
        PROTO + b"a.",
        PROTO + b"e.",
        PROTO + b"s.",
        PROTO + b"u.",
        PROTO + b"t.",
        PROTO + b"\x85.",
        PROTO + b"\x86.",
        PROTO + b"N(a.",
        PROTO + b"](a.",
        PROTO + b"]N(e.",
        PROTO + b"}(Nu.",
        PROTO + b"}(NNu.",
        PROTO + b"}(])Nu.",
        PROTO + b"}G\0\0\0\0\0\0\0\0Ns.",
        PROTO + b"]K\x01K\x02s.",
        PROTO + b"}K\x01a.",
        PROTO + b"q\x00.",
        PROTO + b"h\x00.",
        PROTO + b"j\x00\x00\x00\x01.",
        b"\x80\x06N.",
        b"\x80\x00N.",
        b"\x80\xffN.",
        PROTO + b"\xff.",
        b"hello world",
        b"\x00" * 100,
    ],
)
def test_damaged_programs_are_an_error(program: bytes) -> None:
    with pytest.raises(TracelabError) as error:
        load(program)
    assert "(byte " in error.value.message or "refused" in error.value.message


def test_tuples_in_keys_cannot_nest_into_the_ground() -> None:
    """Hashing a tuple of tuples, hundreds of thousands deep, overflows the stack of the interpreter."""
    with pytest.raises(TracelabError, match="has a tuple for a key"):
        load(PROTO + b"})" + b"\x85" * 200_000 + b"Ns.")


def test_depth_costs_nothing() -> None:
    deep = load(PROTO + b"]q\x00" + b"]q\x01h\x00ah\x01q\x00" * 100_000 + b".").value
    assert isinstance(deep, list)
    assert isinstance(load(PROTO + b")" + b"\x85" * 200_000 + b".").value, tuple)


def test_open_containers_are_bounded() -> None:
    with pytest.raises(TracelabError, match="nests more than 64 levels"):
        load(PROTO + b"](" * 65)


def test_instructions_containers_and_references_are_bounded() -> None:
    with pytest.raises(TracelabError, match="more than 1,000 instructions"):
        load(PROTO + b"N" * 2_000, opcodes=1_000)
    with pytest.raises(TracelabError, match="more than 100 lists"):
        load(PROTO + b"]" * 200, containers=100)
    with pytest.raises(TracelabError, match="more than 100 values"):
        load(PROTO + b"N" + b"\x94" * 200, memo=100)


def _laughs(levels: int, width: int) -> bytes:
    """Lists of references to lists of references: `width ** levels` values in a few bytes."""
    program = PROTO + b"]q\x00"
    for level in range(levels):
        program += b"](" + b"h%c" % level * width + b"eq%c" % (level + 1)
    return program


def test_billions_of_references_stay_references(tmp_path: Path) -> None:
    """In every place that is looked at: 10 ** 60 values must not be walked through, hashed, compared or printed."""
    bomb = _laughs(60, 10)
    places = ["record_id", "pg_id", "process_group", "collective_seq_id", "profiling_name", "time_created_ns", "duration_ms", "input_sizes"]
    places += ["input_dtypes", "output_sizes", "state", "frames", "is_p2p", "retired"]
    with_bomb = b"".join(b"X" + struct.pack("<I", len(p)) + p.encode() + b"h\x3c" for p in places if p != "collective_seq_id")
    seq = b"X\x11\x00\x00\x00collective_seq_idK\x01"
    tops = b"".join(b"X" + struct.pack("<I", len(p)) + p.encode() + b"h\x3c" for p in ("version", "pg_config", "pg_status", "rank", "nccl_version"))
    program = bomb + b"}(" + tops + b"X\x07\x00\x00\x00entries](}(" + with_bomb + seq + b"ueu."
    parse_bytes(tmp_path, program)  # what is imported on first use is not counted
    tracemalloc.start()
    try:
        parsed = parse_bytes(tmp_path, program)
        assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE
    finally:
        tracemalloc.stop()
    (row,) = parsed["logged_collectives"]
    assert (row["seq"], row["operation"], row["in_bytes"], row["stack"], row["state"]) == (1, "unknown", None, None, "scheduled")
    for place in ("entries", "pg_config"):
        top = bomb + b"}(X" + struct.pack("<I", len(place)) + place.encode() + b"h\x3cu."
        assert parse_bytes(tmp_path, top)["logged_collectives"] == []


def test_shared_sizes_are_not_added_up_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """60,000 tensors of 60 dimensions in each of 2,000 entries that share one list: 7 billion numbers in 130 kB."""
    monkeypatch.setattr("tracelab_parsers.flight_recorder.rows._BUDGET", 4_000_000)
    shape = b"](" + b"K\x01" * 60 + b"eq\x00"
    shapes = b"](" + b"h\x00" * 60_000 + b"eq\x01"
    one = b"}(X\x0b\x00\x00\x00input_sizesh\x01X\x11\x00\x00\x00collective_seq_idK\x01uq\x02"
    program = PROTO + b"}(X\x01\x00\x00\x00a" + shape + b"X\x01\x00\x00\x00b" + shapes + b"X\x01\x00\x00\x00c" + one
    program += b"X\x07\x00\x00\x00entries](" + b"h\x02" * 2_000 + b"eu."
    parsed = parse_bytes(tmp_path, program)
    assert len(parsed["logged_collectives"]) == 2_000
    assert parsed.counts["too-many-sizes"] > 1_900


def test_values_that_contain_themselves(tmp_path: Path) -> None:
    own = PROTO + b"}q\x00(X\x09\x00\x00\x00pg_configh\x00X\x07\x00\x00\x00entries]q\x01(h\x01h\x00eu."
    parsed = parse_bytes(tmp_path, own)
    assert parsed["logged_collectives"] == []
    assert parsed.counts["bad-entry"] == 2


def test_huge_numbers_are_none(tmp_path: Path) -> None:
    huge = b"\x8a\xff" + b"\xff" * 254 + b"\x7f"
    keys = ("pg_id", "p2p_seq_id", "time_created_ns", "duration_ms", "record_id")
    program = PROTO + b"}(X\x07\x00\x00\x00entries](}(X\x11\x00\x00\x00collective_seq_idK\x01"
    program += b"".join(b"X" + struct.pack("<I", len(k)) + k.encode() + huge for k in keys) + b"X\x0b\x00\x00\x00input_sizes](](" + huge + b"eeueu."
    (row,) = parse_bytes(tmp_path, program)["logged_collectives"]
    assert (row["seq"], row["source_ts_ns"], row["dur_ns"], row["comm"], row["count"]) == (1, None, None, None, None)


def test_every_cut_gives_its_beginning_and_says_so(tmp_path: Path) -> None:
    whole = cpp_pickle(dump([entry(0, 1), entry(1, 2, p2p=True, p2p_seq=4, title="nccl:send 0->1"), entry(2, 3)], version="2.7"))
    seen = []
    for cut in [*range(1, len(whole), 2), len(whole) - 1]:
        try:
            parsed = parse_bytes(tmp_path, whole[:cut])
        except TracelabError:
            continue
        assert parsed.info.truncated
        assert "truncated" in parsed.notices
        assert set(parsed.counts) <= {"truncated", "no-entries"}
        rows = parsed["logged_collectives"]
        assert [r["seq"] for r in rows] == [1, 4, 3][: len(rows)]
        assert all((r["state"], r["in_bytes"] or 0) == ("completed", 1 << 20) for r in rows)
        seen.append(len(rows))
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2, 3}


def test_cut_dumps_of_other_writers(tmp_path: Path) -> None:
    top = dump([entry(n, n) for n in range(1, 4)])
    for protocol in (2, 4):
        whole = python_pickle(top, protocol)
        most = 0
        for cut in range(1, len(whole), 9):
            try:
                parsed = parse_bytes(tmp_path, whole[:cut])
            except TracelabError:
                continue
            assert parsed.info.truncated
            most = max(most, len(parsed["logged_collectives"]))
        assert most == 3


def test_any_change_of_a_byte_is_an_error_a_notice_or_another_value(tmp_path: Path) -> None:
    whole = bytearray(cpp_pickle(hang(0)))
    chance = random.Random(7)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(1, len(data))] = chance.randrange(256)
        try:
            parse_bytes(tmp_path, bytes(data))
        except TracelabError as e:
            assert e.message  # noqa: PT017 - most are no error at all


def test_bytes_after_the_end_are_told(tmp_path: Path) -> None:
    whole = cpp_pickle(hang(0))
    parsed = parse_bytes(tmp_path, whole + whole)
    assert parsed.notices["trailing-data"].offset == len(whole)
    assert len(parsed["logged_collectives"]) == 8
    assert parse_bytes(tmp_path, whole + b"\0" * 512).notices.keys() == {"overwritten-operations"}


def test_large_pickles_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracelab_parsers.flight_recorder.reading.MOST_BYTES", 1_000)
    with pytest.raises(TracelabError, match="cannot be read in pieces"):
        parse_bytes(tmp_path, cpp_pickle(hang(0)))


def test_pickles_of_other_things_are_an_error(tmp_path: Path) -> None:
    for value in (None, 1, "text", {"a": 1}, {}, ("entries",)):
        with pytest.raises(TracelabError, match="none of the keys"):
            parse_bytes(tmp_path, pickle.dumps(value, 2))


def test_notices_can_be_written_down(tmp_path: Path) -> None:
    late = entry(10**18, 1, created_ns=5)
    assert parse_bytes(tmp_path, cpp_pickle(dump([late]))).counts == {"overwritten-operations": (1 << 53) - 1}
