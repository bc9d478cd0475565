"""Whatever the text, a reader does not raise, fits its columns, and reads no number that a cut has shortened."""

from __future__ import annotations

import string
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.nccl_reader_rows import FakeRows, Row, bare, read, said
from tracelab.tables import TableSpec
from tracelab.tables.logs import BANDWIDTH_BASELINES, COMM_PROGRESS, LOG_SETTINGS, NET_DEVICES, NODE_PATHS, TUNING
from tracelab_parsers.nccl_log.c10d_text import C10dReader
from tracelab_parsers.nccl_log.errors import ErrorReader
from tracelab_parsers.nccl_log.graph import GraphReader
from tracelab_parsers.nccl_log.line import LineReader, LogLine
from tracelab_parsers.nccl_log.nccl_tests_text import NcclTestsReader
from tracelab_parsers.nccl_log.network import NetworkReader
from tracelab_parsers.nccl_log.settings import SettingsReader
from tracelab_parsers.nccl_log.tuning import TuningReader

READERS: tuple[Callable[[], LineReader], ...] = (GraphReader, TuningReader, NetworkReader, SettingsReader, ErrorReader, C10dReader, NcclTestsReader)
TABLES = {t.name: t for t in (NODE_PATHS, TUNING, NET_DEVICES, LOG_SETTINGS, COMM_PROGRESS, BANDWIDTH_BASELINES)}
LIMITS = {"int16": 2**15, "int32": 2**31, "int64": 2**63}

PATHS = "GPU/0-17000 :GPU/0-17000 (0/5000.0/LOC) GPU/0-65000 (12/240.25/NVL) NET/0-0 (13/24.75/PHB) "
TUNING_TABLE = [
    "  Algorithm   |                            Tree                  |                            Ring                  |",
    "  Protocol    |             LL |          LL128 |         Simple |             LL |          LL128 |         Simple |",
    "     AllReduce |    16.8/  10.5 |    31.0/  20.6 |    36.4/  21.9 |    16.6/  11.2 |    31.0/  30.6 |    36.4/  32.4 |",
]
OLD_TUNING = ["Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |    Ring/Simple |", "    AllReduce |   16.4/  15.3 |    11.0/  10.5 |    58.4/  18.4 |"]
IB = "NET/IB : Using [10]mlx5_10:12/RoCE [11]mlx5_11:13/IB [RO]; OOB eth0:10.0.0.1<0>"
SOCKETS = "NET/Socket : Using [10]eth10:10.20.30.40<0> [11]eth11:10.20.30.41<0>"
WORK = (
    "[rank17]:[E321 02:07:08.408 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=8001, NumelOut=1001, Timeout(ms)=600000) ran for 600060 "
    "milliseconds before timing out."
)
OLD_STATUS = (
    "[rank17]:[E ProcessGroupNCCL.cpp:1664] [PG 12 Rank 13] Exception (either an error or timeout) detected by "
    "watchdog at work: 1580, last enqueued NCCL work: 1582, last completed NCCL work: 1579."
)
NEW_STATUS = (
    "[rank17]:[E ProcessGroupNCCL.cpp:2268] [PG ID 10 PG GUID 12(mesh_tp) Rank 13]  failure detected by watchdog "
    "at work sequence id: 1580 PG status: last enqueued work: 1582, last started work: 1581 (ALLREDUCE), last "
    "completed work: 1579"
)
BENCH = ["#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"]
BENCH_ROW = "     8388608       2097152     float     sum      10    80.98  103.59  103.59      0    83.33  100.66  100.66      0"
OLD_BENCH = "   134217728      33554432     float     sum   8731.1   15.37   28.82  5e-07   8457.4   15.87   29.76  5e-07"
REPORT = ["[rank0]:[E ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 0] x", "\t - [0] Timeout at collective: ALLREDUCE, #315"]


def line(text: str, number: int, *, is_bare: bool) -> LogLine:
    return bare(text, number) if is_bare else said(text, number)


def check_columns(rows: FakeRows) -> None:
    for name, _, values in rows.rows:
        table: TableSpec = TABLES[name]
        for column in table.emitted:
            value = values.get(column.name)
            if value is None:
                assert column.nullable or column.name in {"part", "line"}, (name, column.name)
            elif column.dtype in LIMITS:
                assert type(value) is int, (name, column.name, value)
                assert abs(value) < LIMITS[column.dtype]
            elif column.dtype == "float64":
                assert type(value) is float, (name, column.name, value)
                assert abs(value) < 1e300
            elif column.dtype == "bool":
                assert type(value) is bool
            else:
                assert type(value) is str, (name, column.name, value)
                assert len(value) <= 500


WORDS = [
    *" ".join([PATHS, *TUNING_TABLE, *OLD_TUNING, IB, SOCKETS, WORK, OLD_STATUS, NEW_STATUS, *BENCH, BENCH_ROW, OLD_BENCH, *REPORT]).split(),
    "|",
    "[",
    "]",
    "(",
    ")",
    ":",
    "<0>",
    "-1",
    "9" * 30,
    "9" * 18,
    "1e999",
    "nan",
    "inf",
    "0.0/nan",
    "²",
    "٣",
    "\x00",
    "\t",
    "  ",
    "#",
    "NCCL version",
    "+cuda",
    "set by environment to",
    "GPU Direct RDMA Enabled for HCA",
    "Using network",
    "Made virtual device",
    "joined but didn't finish collective",
    "#9 started ranks:",
    "Last enqueued NCCL work:",
]
TEXTS = st.one_of(
    st.text(max_size=200),
    st.text(alphabet=string.printable, max_size=300),
    st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=25).map("".join),
)


@pytest.mark.parametrize("reader", READERS)
@given(texts=st.lists(st.tuples(TEXTS, st.sampled_from(["", "INFO", "WARN", "TRACE", "ABORT"]), st.integers(0, 2)), max_size=12))
@settings(max_examples=120)
def test_no_text_makes_a_reader_raise(reader: Callable[[], LineReader], texts: list[tuple[str, str, int]]) -> None:
    lines = [said(t, i, part=p, tid=p, level=level) if level else bare(t, i, rank=p or None) for i, (t, level, p) in enumerate(texts, 1)]
    kinds, rows = read(reader(), lines)
    assert all(k is None or (k and len(k) < 20) for k in kinds)
    check_columns(rows)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "unit",
    [
        "[0]a:",
        "GPU/0 :",
        "|",
        "(",
        "[PG ",
        "[rank1]:",
        "WorkNCCL(",
        "1 ",
        "0.0/0.0 |",
        "[1,2]",
        "NET/IB : Using [0]={",
        "#",
        " -> ",
        "a/",
        "-",
        "WorkNCCL(a(ms)",
        ", ",
    ],
)
def test_long_lines_of_one_pattern_are_read_in_bounded_work(reader: Callable[[], LineReader], unit: str) -> None:
    # A pattern that tries again at every position would not come back from these.
    for start in ("", "NET/IB : Using ", "[rank1]:[E ProcessGroupNCCL.cpp:1] [PG ", "GPU/0 :", "AllReduce |", "NCCL_X set by environment to ", "ranks ["):
        text = start + unit * 20_000
        for is_bare in (True, False):
            _, rows = read(reader(), [line(text, 1, is_bare=is_bare)])
            check_columns(rows)


def numbers(row: Row) -> Row:
    return {k: v for k, v in row.items() if k not in {"line", "part", "text"} and isinstance(v, int | float) and not isinstance(v, bool)}


CUTS: list[tuple[Callable[[], LineReader], list[str], str, bool]] = [
    (GraphReader, [], PATHS, False),
    (TuningReader, TUNING_TABLE[:2], TUNING_TABLE[2], False),
    (TuningReader, OLD_TUNING[:1], OLD_TUNING[1], False),
    (NetworkReader, [], IB, False),
    (NetworkReader, [], SOCKETS, False),
    (NetworkReader, [], "NET/IB : Made virtual device [12] name=mlx5_0+mlx5_1 speed=200000 ndevs=2", False),
    (NetworkReader, [], "NET/IB : GPU Direct RDMA Enabled for HCA 12 'mlx5_12'", False),
    (NetworkReader, [], "Bootstrap : Using [10]ib0:10.148.8.41<0> [11]ib1:10.149.8.41<0>", False),
    (C10dReader, [], WORK, True),
    (C10dReader, [], OLD_STATUS, True),
    (C10dReader, [WORK], OLD_STATUS, True),
    (C10dReader, [], NEW_STATUS.rpartition(", last completed")[0], True),
    (C10dReader, REPORT, "\t   - [12, 13] joined but didn't finish collective #182 (count from 1)", True),
    (C10dReader, REPORT, "\t     [17, 19] finished collective #182, but didn't join collective #183 (count from 1)", True),
    (NcclTestsReader, BENCH, BENCH_ROW, True),
    (NcclTestsReader, [], BENCH_ROW, True),
    (NcclTestsReader, [], OLD_BENCH, True),
    (NcclTestsReader, [*BENCH, "8388608 2097152 float sum -1"], "    80.98  103.59  103.59      0", True),
]


@pytest.mark.parametrize(("reader", "before", "text", "is_bare"), CUTS)
def test_no_cut_of_a_line_gives_a_wrong_number(reader: Callable[[], LineReader], before: list[str], text: str, is_bare: bool) -> None:
    head = [line(t, i, is_bare=is_bare) for i, t in enumerate(before, 1)]
    at = len(before) + 1

    def rows(shown: str) -> list[tuple[str, Row]]:
        _, found = read(reader(), [*head, line(shown, at, is_bare=is_bare)])
        return [(name, values) for name, made_by, values in found.rows if made_by.number == at]

    whole = rows(text)
    assert whole
    for end in range(len(text)):
        for name, row in rows(text[:end]):
            # Every number is one of the whole line's, in its own column of one row; a column may be null.
            fits = [full for full_name, full in whole if full_name == name and numbers(row).items() <= numbers(full).items()]
            assert fits, (text[:end], row)
            for key in ("src", "dst", "name", "address", "algorithm", "protocol", "path", "link_layer", "operation"):
                assert row.get(key) is None or row[key] in {full.get(key) for full in fits}, (text[:end], key)


@pytest.mark.parametrize("table", [TUNING_TABLE, OLD_TUNING])
def test_cut_headers_lose_columns_and_move_none(table: list[str]) -> None:
    def cells(lines: list[str]) -> set[tuple[object, ...]]:
        return {tuple(r.items()) for r in read(TuningReader(), [said(t) for t in lines])[1].of("tuning")}

    whole = cells(table)
    assert whole
    for at in range(len(table) - 1):
        for end in range(len(table[at])):
            cut = [*table[:at], table[at][:end], *table[at + 1 :]]
            assert cells(cut) <= whole, cut[at]


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (SettingsReader, "NCCL version 2.27.7+cuda13.0"),
        (SettingsReader, "RCCL version : 2.21.5-develop:a24fe65"),
        (SettingsReader, "HIP version  : 6.2.41134-65d174c3e"),
        (SettingsReader, "cudaDriverVersion 12080"),
        (SettingsReader, "ncclTopoGetCpuAffinity: Affinity for GPU 12 is 0-15,32-47. (GPU affinity = 0-15 ; CPU affinity = 0-63)."),
    ],
)
def test_no_cut_of_a_version_gives_another(reader: Callable[[], LineReader], text: str) -> None:
    whole = {(r["name"], r["value"]) for r in read(reader(), [said(text)])[1].of("log_settings")}
    assert whole
    for end in range(len(text)):
        assert {(r["name"], r["value"]) for r in read(reader(), [said(text[:end])])[1].of("log_settings")} <= whole, text[:end]


def test_memory_does_not_grow_with_the_file() -> None:
    network, bench, torch = NetworkReader(), NcclTestsReader(), C10dReader()
    rows = FakeRows()
    for i in range(3000):
        network.take(said(f"NET/IB : Using [{i}]mlx5_{i}:1/IB ; OOB eth0:1.1.1.1<0>", i), rows)
        network.take(said(f"Using network net{i}", i), rows)
        bench.take(bare("# nThread 1", i, rank=i), rows)
        torch.take(
            bare(
                f"[rank1]:[E ProcessGroupNCCL.cpp:1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={i}, OpType=SEND, x) ran for 5 milliseconds",
                i,
            ),
            rows,
        )
    assert len(network._devices[0]) == 512
    assert len(network._networks[0]) == 16
    (speaker,) = torch._speakers.values()
    assert len(speaker.timeouts) == 64
    assert len(speaker.said) == 256
    network.finish(rows)
    # Nothing is lost all the same: what was too much to keep was written at once.
    assert len(rows.of("net_devices")) == 3000
    assert len(rows.of("comm_progress")) == 3000
