"""Whatever the bytes are: nothing is raised, whole lines are found, and columns give the same as single lines."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.nccl_log import Collected, operation, parse_text, sample_lines

SAMPLE = [line.removesuffix("\n").partition("]: [")[2].partition("] ")[2] or line for line in sample_lines()]
SPEAKERS = ("node-0:4000:", "node-0:4001:", "node-1:4002:", "node-1:4003:")
SPOKEN = [*(next(line for line in SAMPLE if line.startswith(who)) for who in SPEAKERS), "h:1:2 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>"]
"""A line of its own of every process: only from then on is text that is glued to a host's name told from the name, in blocks of any size."""
FRONTS = st.sampled_from(
    ["", "[1,7]<stdout>:", "3: ", "[rank2]: ", "[default1]:", "2026-01-31T04:04:05Z ", "[2026-01-31 04:04:05] ", "17:", "(Worker pid=3) ", "0.0 -1", "\x1b[1m"]
)
NAMES = st.sampled_from(["AllReduce", "AllGather", "Send", "Broadcast", "PutSignal", "Scatter"])
WORDS = st.sampled_from(
    [*" :[]()/>-", "NCCL", " NCCL INFO ", "h:1:2", "[0]", "opCount", "comm 0x1", "Channel 00", " -> ", "Trees [0]", "\0", "\r", "\x1b[", "é", "9" * 30, "0x"]
)


def _found(text: str | bytes, **options: object) -> Collected:
    with tempfile.TemporaryDirectory() as folder:
        return parse_text(text, Path(folder), **options)


@st.composite
def _lines(draw: st.DrawFn) -> str:
    """A line of a log, whole, torn, glued to another or with words put into it."""
    line = draw(st.sampled_from(SAMPLE))
    match draw(st.integers(0, 5)):
        case 0:
            line = line[: draw(st.integers(0, len(line)))]
        case 1:
            line = line[draw(st.integers(0, len(line))) :]
        case 2:
            line += draw(st.sampled_from(SAMPLE))
        case 3:
            at = draw(st.integers(0, len(line)))
            line = line[:at] + draw(WORDS) + line[at:]
        case _:
            pass
    return draw(FRONTS) + line


@st.composite
def _operations(draw: st.DrawFn) -> str:
    """An operation, sometimes with one word or number replaced."""
    size, number, root = draw(st.integers(0, 300)), draw(st.sampled_from([0, 1, 9, 10**9, 10**17, 10**18, 2**63])), draw(st.integers(0, 9))
    line = operation(
        draw(NAMES), comm=f"0x{draw(st.integers(0, 3)):x}", count=number, datatype=draw(st.integers(0, 14)), op=draw(st.integers(0, 6)), root=root, size=size
    )
    words = line.split(" ")
    if draw(st.integers(0, 3)) == 0:
        words[draw(st.integers(0, len(words) - 1))] = draw(WORDS | st.text("0123456789abcdefxX:", max_size=24))
    if draw(st.integers(0, 4)) == 0:
        words += ["task", "1", "globalrank", str(draw(st.integers(0, 20)))]
    head = f"{draw(st.sampled_from(['a', 'b', '', 'xa']))}:{draw(st.integers(1, 2))}:{draw(st.integers(5, 6))} [{draw(st.integers(0, 1))}] NCCL INFO "
    return draw(FRONTS) + head + " ".join(words)


@given(st.binary(max_size=400))
@settings(max_examples=60)
def test_random_bytes_never_raise(data: bytes) -> None:
    assert _found(data).info.parts


@given(st.lists(_lines(), max_size=12), st.sampled_from(["\n", "\r\n"]), st.integers(50, 4000))
@settings(max_examples=60)
def test_torn_and_glued_lines_never_raise_and_blocks_do_not_matter(lines: list[str], end: str, block: int) -> None:
    text = end.join(SPOKEN + lines)
    whole, parts = _found(text), _found(text, block_bytes=block)
    assert len(whole.rows("logged_collectives")) == len(parts.rows("logged_collectives"))
    assert [(e["line"], e["text"]) for e in whole.rows("log_events") if e["tid"]] == [(e["line"], e["text"]) for e in parts.rows("log_events") if e["tid"]]


@given(st.lists(_operations() | _lines(), max_size=12))
@settings(max_examples=120)
def test_columns_give_the_same_as_single_lines(lines: list[str]) -> None:
    text = "\n".join(lines)
    fast, slow = _found(text), _found(text, in_columns=False)
    assert fast.info == slow.info
    assert fast.notices == slow.notices
    assert fast.batches.keys() == slow.batches.keys()
    for table in fast.batches:
        assert fast.rows(table) == slow.rows(table), table


@given(
    st.lists(st.tuples(FRONTS, st.integers(0, 3), st.sampled_from(["noise", "5%|#| 1/20", "[2026-01-31 04:04:05,123] [INFO] step 3"])), min_size=1, max_size=20)
)
@settings(max_examples=60)
def test_whole_lines_are_found_whatever_stands_before_them(lines: list[tuple[str, int, str]]) -> None:
    text = "node-7:1:2 [0] NCCL INFO Using network IB\n"
    for n, (front, rank, noise) in enumerate(lines):
        text += f"{noise}\n{front}node-7:{10 + rank}:20 [{rank}] NCCL INFO {operation(n=n)}\n"
    found = _found(text)
    rows = found.rows("logged_collectives")
    assert [r["line"] for r in rows] == [3 + 2 * n for n in range(len(lines))]
    assert [r["op_count"] for r in rows] == list(range(len(lines)))
    pids = {p.part: (p.host, p.pid) for p in found.info.parts}
    assert [pids[r["part"]] for r in rows] == [("node-7", 10 + rank) for _, rank, _ in lines]
