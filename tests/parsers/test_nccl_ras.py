"""Reports of RAS: what each version prints, against what the ranks did; the vendor's own page; damage and hostile text."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kineto_raw import Parsed
from tests.builders.nccl_ras import GENERATIONS, SAMPLES, Comm, Rank, json_report, parse_text, ranks, straggler, text_report
from tracelab.errors import TracelabError
from tracelab_parsers.nccl_ras import PARSER

HASH = "0x78db921d1c117b4a"
PAGE = "nccl/excerpts/13_ncclras_text-and-json_docs.rst"
EVENTS = (
    "RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...\n"
    "================================================================\n"
    "[2026-07-25 17:20:05] PEER_NEW: Process 7 on node 10.0.0.9 managing GPU 0 joined\n"
    "[2026-07-25 17:21:05] PEER_UNRESPONSIVE: Process 4003 on node 10.0.0.1 managing GPU 3 \n"
    "[2026-07-25 17:22:05] PEER_DEAD: Process 4003 on node 10.0.0.1 managing GPUs 0,1 (NVML 2,3) \n"
)


def _shown(parsed: Parsed, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in parsed["comm_progress"]]


def _of_ranks(parsed: Parsed) -> set[tuple[Any, ...]]:
    return {row for row in _shown(parsed, "comm_id", "subject_rank", "operation", "last_enqueued", "status") if row[1] is not None}


@pytest.mark.parametrize("version", GENERATIONS)
def test_a_straggler_in_text(tmp_path: Path, version: str) -> None:
    parsed = parse_text(tmp_path, text_report(straggler(), version, timeouts=2))
    each = version < "2.26"
    operation, most, least = (None, 652, 648) if each else ("all_reduce", 640, 636)
    assert _of_ranks(parsed) == {(HASH, 6, operation, least, "mismatch"), ("0xdb921d1c117b4b", 3, None, None, "missing")}
    (late,) = [r for r in parsed["comm_progress"] if r["subject_rank"] == 6]
    assert (late["subject_host"], late["subject_pid"], late["subject_device"], late["size"], late["origin"]) == ("10.0.0.2", 4006, 2, 8, "ras")
    assert (None, operation, most, "mismatch", f"7 ranks have launched up to operation {most}") in _shown(
        parsed, "subject_rank", "operation", "last_enqueued", "status", "text"
    )
    assert _shown(parsed, "comm_id", "size", "status")[:2] == [(None, 8, "mismatch"), (None, 4, "incomplete")]
    assert parsed.info.parts[0].world_size == 8
    assert parsed.info.parts[0].rank is None
    assert {(s["name"], s["value"], s["line"]) for s in parsed["log_settings"]} == {("version", version, 1), ("cuda_driver", "13000", 2)}
    assert parsed.notices == {}


def test_messages_are_whole_and_have_the_level_of_their_section(tmp_path: Path) -> None:
    parsed = parse_text(tmp_path, text_report(straggler(), timeouts=2))
    assert [(e["level"], e["kind"], e["text"].split("\n")[0]) for e in parsed["log_events"]] == [
        ("ERROR", "ras", "INCOMPLETE"),
        ("ERROR", "ras", "#1-0 (00db921d1c117b4b) INCOMPLETE"),
        ("WARN", "ras", "TIMEOUT"),
        ("WARN", "ras", "#0-0 (78db921d1c117b4a) MISMATCH"),
    ]
    assert parsed["log_events"][0]["text"].split("\n")[2] == "Process 4003 on node 10.0.0.1 managing GPU 3"
    assert parsed["log_events"][3]["text"].count("\n") == 3


def test_a_healthy_job(tmp_path: Path) -> None:
    comms = [Comm(0xAB, ranks(8, {"AllReduce": 5}))]
    for report in (text_report(comms), json_report(comms)):
        parsed = parse_text(tmp_path, report)
        assert {row["status"] for row in parsed["comm_progress"]} == {"ok"}
        assert parsed["log_events"] == []
        assert parsed.notices == {}


def test_counts_in_json(tmp_path: Path) -> None:
    parsed = parse_text(tmp_path, json_report(straggler(), timeouts=1))
    expected = {(HASH, r, "all_reduce", 636 if r == 6 else 640, "mismatch") for r in range(8)}
    expected |= {(HASH, r, "all_gather", 12, "ok") for r in range(8)}
    expected |= {("0xdb921d1c117b4b", r, "reduce_scatter", 33, "ok") for r in range(3)}
    assert _of_ranks(parsed) == expected | {("0xdb921d1c117b4b", 3, None, None, "missing")}
    assert [(e["level"], e["text"]) for e in parsed["log_events"]] == [
        ("WARN", f"({HASH}) MISMATCH: ranks have launched different numbers of AllReduce"),
        ("ERROR", "(0xdb921d1c117b4b) INCOMPLETE: no data from rank 3 (unresponsive)"),
        ("WARN", "TIMEOUT\nEncountered 1 communication timeout while gathering communicator data"),
    ]
    assert parsed.info.metadata == {"nccl_version": "2.30.3"}
    assert parsed.notices == {}


@pytest.mark.parametrize(
    "shape", [lambda t: t, lambda t: json.dumps(json.loads(t)), lambda t: json.dumps(json.loads(t), indent=8)], ids=["as is", "line", "wide"]
)
def test_json_of_any_layout(tmp_path: Path, shape: Callable[[str], str]) -> None:
    plain, other = (parse_text(tmp_path, t) for t in (json_report(straggler()), shape(json_report(straggler())) + "\n"))
    assert [{**r, "line": 0} for r in other["comm_progress"]] == [{**r, "line": 0} for r in plain["comm_progress"]]
    assert other.notices == {}


def test_the_comma_that_is_missing_in_2_28(tmp_path: Path) -> None:
    report = json_report(straggler(), "2.28.9")
    with pytest.raises(json.JSONDecodeError):
        json.loads(report)
    parsed = parse_text(tmp_path, report)
    assert _of_ranks(parsed) == _of_ranks(parse_text(tmp_path, json_report(straggler(), "2.30.3")))
    assert parsed.counts == {"missing-comma": 1}


def _troubled() -> list[Comm]:
    members = ranks(40, {"Broadcast": 7})
    members[0].counts = {}
    members[1].error = 6
    members[2].state = "FINALIZE"
    members[3].state = "NOCOMM"
    members[4].nvml = 7
    members[4].counts = {"Broadcast": 6}
    for r in members[8:12]:
        r.away = r.dead = True
    return [Comm(0x1, members)]


def test_states_and_errors_of_ranks_in_text(tmp_path: Path) -> None:
    parsed = parse_text(tmp_path, text_report(_troubled()))
    found = {row for row in _shown(parsed, "subject_rank", "status", "last_enqueued", "subject_device") if row[0] is not None}
    assert found == {
        (0, "mismatch", 0, 0),
        (1, "error", None, 1),
        (2, "finalized", None, 2),
        (3, "mismatch", None, 3),
        (4, "mismatch", 6, 7),
        *((r, "missing", None, r % 4) for r in range(8, 12)),
    }
    dead = [r for r in parsed["comm_progress"] if r["subject_rank"] is None and r["subject_pid"] is not None]
    assert [(r["subject_pid"], r["status"]) for r in dead] == [(4000 + r, "missing") for r in range(8, 12)]
    assert [e["text"].split("\n")[0] for e in parsed["log_events"]] == [
        "DEAD",
        "#0-0 (0000000000000001) INCOMPLETE",
        "#0-0 (0000000000000001) ERROR",
        "#0-0 (0000000000000001) MISMATCH",
    ]
    assert parsed.notices == {}


def test_states_and_errors_of_ranks_in_json(tmp_path: Path) -> None:
    parsed = parse_text(tmp_path, json_report(_troubled()))
    found = {row[0]: row[1:] for row in _shown(parsed, "subject_rank", "status", "last_enqueued", "subject_device", "text")}
    assert found[0] == ("mismatch", 0, 0, "Broadcast: 0")
    assert found[1] == ("error", 7, 1, "Broadcast: 7")
    assert found[2][0] == "finalized"
    assert found[3] == ("mismatch", None, 3, "is not in the communicator")
    assert found[4] == ("mismatch", 6, 7, "Broadcast: 6")
    assert found[8] == ("missing", None, 0, "considered dead")
    assert len(found) == 40
    levels = {e["text"].split(" ")[1]: e["level"] for e in parsed["log_events"]}
    assert levels == {"INCOMPLETE:": "ERROR", "ERROR:": "ERROR", "MISMATCH:": "WARN"}
    assert "(0x1) ERROR: errors reported by rank 1 (async_error 6: remote error)" in {e["text"] for e in parsed["log_events"]}


def test_ranks_that_initialise_or_have_done_nothing(tmp_path: Path) -> None:
    members = ranks(2, {})
    members[1].state = "INIT"
    parsed = parse_text(tmp_path, json_report([Comm(0x2, members)]))
    assert _shown(parsed, "subject_rank", "operation", "last_enqueued", "status") == [(0, None, 0, "ok"), (1, None, 0, "running")]


def test_lists_of_the_first_versions(tmp_path: Path) -> None:
    text = (
        "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 3 ranks\n  The missing ranks: 3,21,30\n\n"
        "#1-0 (cf264af53edbe987) INCOMPLETE\n  Missing communicator data from 20 ranks\n\n"
        "#2-0 (cf264af53edbe988) MISMATCH\n  Communicator ranks have different status\n  30 ranks have status RUNNING\n"
        "  2 ranks have status UNKNOWN\n  The unknown ranks: 4,5\n\n"
        "#3-0 (cf264af53edbe989) MISMATCH\n  Communicator ranks have different status\n  31 ranks have status RUNNING\n  Rank 6 has status UNKNOWN\n"
    )
    parsed = parse_text(tmp_path, text)
    assert [row for row in _shown(parsed, "comm_id", "subject_rank", "status") if row[2] != "ok"] == [
        *(("0xcf264af53edbe986", r, "missing") for r in (3, 21, 30)),
        ("0xcf264af53edbe987", None, "incomplete"),
        ("0xcf264af53edbe988", None, "mismatch"),
        *(("0xcf264af53edbe988", r, "mismatch") for r in (4, 5)),
        ("0xcf264af53edbe989", 6, "mismatch"),
    ]
    assert {e["level"] for e in parsed["log_events"]} == {"ERROR", "WARN"}


def test_the_job_of_uneven_nodes(tmp_path: Path) -> None:
    parsed = parse_text(tmp_path, text_report([Comm(0x1, ranks(7, {"Reduce": 3}))], uniform=False))
    assert parsed.info.parts[0].world_size == 7
    assert parsed.notices == {}
    assert _shown(parsed, "text") == [("group 0: 1 communicator of 7 ranks, RUNNING, OK",)]


def test_monitor_events(tmp_path: Path) -> None:
    parsed = parse_text(tmp_path, EVENTS)
    start = 1_785_000_000_000_000_000  # 2026-07-25 17:20:00, read as UTC
    assert [(e["level"], e["local_ts_ns"] - start, e["source_ts_ns"]) for e in parsed["log_events"]] == [
        ("INFO", 5 * 10**9, None),
        ("WARN", 65 * 10**9, None),
        ("ERROR", 125 * 10**9, None),
    ]
    assert _shown(parsed, "subject_host", "subject_pid", "subject_device", "status", "line") == [
        ("10.0.0.1", 4003, 2, "missing", 5),
        ("10.0.0.1", 4003, 3, "missing", 5),
    ]
    event = {"timestamp": "2026-07-25 17:22:05", "group": "LIFECYCLE", "event": "PEER_DEAD"}
    peer = {"host": "10.0.0.1", "pid": 4003, "cuda_devs": [0, 1], "nvml_devs": [2, 3]}
    for more in ({"peer": peer, "details": ""}, {"peer": {"addr": "10.0.0.1<333>"}, "details": "gone"}, {"details": "x"}):
        text = json.dumps(event | more, indent=2) + "\n"
        parsed = parse_text(tmp_path, text + text)
        assert [(e["level"], e["local_ts_ns"] - start) for e in parsed["log_events"]] == [("ERROR", 125 * 10**9)] * 2
        assert _shown(parsed, "subject_host", "subject_pid", "subject_device") == (
            [("10.0.0.1", 4003, 2), ("10.0.0.1", 4003, 3)] * 2 if more.get("peer") is peer else []
        )


def test_several_answers_in_one_file(tmp_path: Path) -> None:
    one = text_report(straggler())
    parsed = parse_text(tmp_path, one * 3 + json_report(straggler()) + EVENTS + one)
    late = [r for r in parsed["comm_progress"] if r["subject_rank"] == 6 and r["operation"] == "all_reduce"]
    assert [r["last_enqueued"] for r in late] == [636] * 5
    assert [r["line"] for r in late] == sorted(r["line"] for r in late)
    assert len([e for e in parsed["log_events"] if e["level"] == "ERROR"]) == 4 * 2 + 1 + 1
    assert parsed.notices == {}


def test_a_report_inside_other_text(tmp_path: Path) -> None:
    inside = "".join(f"    {line}\n" if line else "\n" for line in text_report(straggler()).split("\n"))
    text = f"$ ncclras -v\nThe job hangs, see:\n\n{inside}\nSecond attempt {{not JSON}}\nRank 1 is fine\n"
    parsed, plain = parse_text(tmp_path, text), parse_text(tmp_path, text_report(straggler()))
    assert [{**r, "line": r["line"] - 3} for r in parsed["comm_progress"]] == plain["comm_progress"]
    assert parsed.counts == {"unknown-lines": 4}
    windows = text_report(straggler()).replace("\n", "\r\n")
    assert parse_text(tmp_path, windows)["comm_progress"] == plain["comm_progress"]
    assert parse_text(tmp_path, gzip.compress(text_report(straggler()).encode()))["comm_progress"] == plain["comm_progress"]


def test_rccl(tmp_path: Path) -> None:
    text = text_report(straggler()).replace("NCCL version 2.28.9 compiled with CUDA 12.9", 'RCCL version 2.28.3 compiled with ROCm "7.2.0.0"')
    text = text.replace("CUDA runtime version 12090, driver version 13000", "HIP runtime version 70226015, amdgpu driver version 70226015")
    parsed = parse_text(tmp_path, text)
    assert parsed.info.metadata == {"nccl_version": "2.28.3"}
    assert parsed.notices == {}


def test_the_page_of_the_vendor(test_data: Callable[[str], Path], tmp_path: Path) -> None:
    path = test_data(PAGE)
    data = path.read_bytes()
    match = PARSER.sniff(path, data[: 64 << 10])
    assert match is not None
    assert match.confidence == 0.95
    parsed = parse_text(tmp_path, data)
    lagging = [r for r in parsed["comm_progress"] if r["comm_id"] == "0x27a079b828ff1a75" and r["subject_rank"] is not None]
    assert [(r["subject_rank"], r["subject_pid"], r["last_enqueued"]) for r in lagging] == [(r, 483072 + r, 6649) for r in (0, 2, 3, 4, 5, 7)]
    assert {r["size"] for r in lagging} == {32}
    left = [r for r in parsed["comm_progress"] if r["comm_id"] == "0x9e17999afaa87dbb" and r["subject_rank"] is not None]
    assert {r["subject_rank"]: r["status"] for r in left} == {0: "ok", 8: "ok", 16: "ok", 24: "ok", 4: "finalized", 20: "finalized"}
    lost = [r for r in parsed["comm_progress"] if r["comm_id"] == "0xcf264af53edbe986"]
    assert {(r["subject_rank"], r["status"]) for r in lost} == {(21, "missing")}
    pair = [r for r in parsed["comm_progress"] if r["comm_id"] == "0xae94423cfbb2ef4a"]
    assert [(r["subject_rank"], r["status"], r["subject_pid"]) for r in pair] == [(0, "ok", 1524344), (1, "missing", 1524345)]
    assert parsed.info.parts[0].world_size == 32
    assert parsed.info.metadata == {"nccl_version": "2.29.1"}


@pytest.mark.parametrize("report", [text_report(straggler()), json_report(straggler()), json_report(straggler(), "2.28.9")], ids=["text", "json", "2.28"])
def test_every_cut_gives_its_beginning_and_mostly_says_so(tmp_path: Path, report: str) -> None:
    """A report in text that ends with a whole line, after the heading of its warnings, may be whole."""
    whole = _shown(parse_text(tmp_path, report), "line", "text")
    for cut in [*range(1, len(report), 7), len(report) - 1]:
        try:
            parsed = parse_text(tmp_path, report[:cut])
        except TracelabError:
            continue
        found = _shown(parsed, "line", "text")
        if report.startswith("{"):
            assert found == whole[: len(found)]
            assert parsed.info.truncated or parsed.counts.keys() - {"missing-comma"} == {"last-line-cut"}
        else:
            assert len(found) <= len(whole)
        assert parsed.notices or (report[cut - 1] == "\n" and "Warnings" in report[:cut]), cut
    assert parse_text(tmp_path, report[:-1]).notices.keys() - {"missing-comma"} == {"last-line-cut"}


def test_a_table_announces_its_blocks(tmp_path: Path) -> None:
    text = text_report(straggler())
    cut = text[: text.index("#0-0")]
    assert parse_text(tmp_path, cut).counts == {"cut-report": 1}
    assert parse_text(tmp_path, text[: text.index("Warnings")]).counts == {"cut-report": 1}
    few = Comm(0x5, ranks(8, {"AllReduce": 9}))
    few.ranks[1].counts = few.ranks[2].counts = {"AllReduce": 8}
    text = text_report([few])
    assert parse_text(tmp_path, text).notices == {}
    assert parse_text(tmp_path, text[: text.index("  Rank 2")]).counts == {"cut-report": 1, "last-line-cut": 1}


def test_json_that_ends_or_begins_again(tmp_path: Path) -> None:
    whole = json_report(straggler())
    second = whole.index('"hash": "0xdb')
    for after in (whole, text_report(straggler()), EVENTS):
        parsed = parse_text(tmp_path, whole[:second] + "\n" + after)
        assert len([r for r in parsed["comm_progress"] if r["comm_id"] == HASH]) in (16, 18, 32)
        if after is not EVENTS:
            assert parsed.counts == {"truncated": 1}
            assert ("0xdb921d1c117b4b", 3) in _shown(parsed, "comm_id", "subject_rank")


WRONG: list[Any] = [None, True, -1, 1.5, 2**64, 10**60, "", "7", "x" * 10_000, [], [[]], [1, None], {}, {"a": {}}, "\x1b[31m\x00"]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for key, child in children for p in [(*path, key), *_places(child, (*path, key))]]


def test_any_value_in_any_place_of_json(tmp_path: Path) -> None:
    comms = [Comm(0x1, [Rank(0, pid=1, counts={"AllReduce": 3}), Rank(1, pid=2, away=True)]), Comm(0x2, [Rank(0, pid=1, counts={"Reduce": 4})])]
    plain = json.loads(json_report(comms))
    for number, place in enumerate(p for p in _places(plain) if p[:2] != ("communicators", 1)):
        for wrong in WRONG:
            changed = json.loads(json.dumps(plain))
            holder = changed
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = wrong
            parsed = parse_text(tmp_path, json.dumps(changed, indent=None if number % 2 else 1))
            if place != ("communicators",):
                assert ("0x2", 0, "reduce", 4) in _shown(parsed, "comm_id", "subject_rank", "operation", "last_enqueued"), (place, wrong)


def test_hostile_text(tmp_path: Path) -> None:
    long = "9" * 5_000
    for line in (
        f"#0-0 ({'f' * 5_000}) MISMATCH",
        f"#{long}-0 (ff) MISMATCH",
        f"  Rank {long} has launched up to operation 5",
        f"  Rank 5 has launched up to operation {long}",
        f"  {long} ranks have launched up to operation 3",
        f"  The missing ranks: {','.join(['1'] * 50_000)}",
        f"  The missing ranks: {','.join([long] * 10)}",
        f"Process 1 on node h managing GPU {','.join(['1'] * 5_000)}",
        f"[2026-99-99 99:99:99] PEER_DEAD: {long}",
        f"[2026-07-25 17:22:05] PEER_DEAD: Process 9 on node {'h' * 5_000} managing GPU 1",
        f"{long} {long} {long} {long} {long} {long} RUNNING OK",
        f"NCCL version {'x' * 5_000} compiled with CUDA",
        f"NCCL version 2.28.9 compiled with CUDA {'x' * 5_000}",
        "{" * 100,
        '{"a": ' * 100,
        '{"event": "\x00\x1b", "a": [{}]}',
        '{"x": "' + "\\" * 99_999,
        "{" + '"' * 9_999,
        "\x00\xff\x1b[31m",
        " " * 100_000 + "x",
    ):
        parsed = parse_text(tmp_path, f"{line}\n".encode("utf-8", "surrogateescape") + text_report(straggler()).encode() + f"{line}\n".encode() * 3)
        assert (HASH, 6) in _shown(parsed, "comm_id", "subject_rank"), line[:60]
        assert all(len(row["text"]) <= 2_000 for table in ("comm_progress", "log_events") for row in parsed[table])


def test_patterns_take_no_time_on_lines_made_for_them(tmp_path: Path) -> None:
    """Each line makes a pattern that backtracks look at it again and again."""
    lines = [
        "Rank 1 reported " + " -- GPU" * 20_000,
        "Process 1 on node h managing GPU 1 " + " " * 100_000 + "x",
        "Rank 1 has launched up to operation " + "1" * 100_000,
        "=" * 100_000 + "x",
        " 1" * 50_000 + "x",
        "Group " + " " * 100_000 + "x",
    ]
    head = "#0-0 (ff) ERROR\n"
    parsed = parse_text(tmp_path, head + "".join(f"  {line}\n" for line in lines) + text_report(straggler()))
    assert parsed.notices["unknown-lines"].count >= 3


def test_damage_is_no_traceback(tmp_path: Path) -> None:
    chance = random.Random(3)
    for report in (text_report(_troubled()), json_report(straggler())):
        for _ in range(60):
            data = bytearray(report.encode())
            for _ in range(chance.randint(1, 20)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            try:
                parse_text(tmp_path, bytes(data))
            except TracelabError as e:
                assert "no report" in e.message  # noqa: PT017 - most are no error at all


def test_large_records_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracelab_parsers.nccl_ras.json_report._RECORD_CHARS", 2_000)
    parsed = parse_text(tmp_path, json_report([Comm(0x1, ranks(8, {"AllReduce": 1})), Comm(0x2, ranks(1, {"AllReduce": 1}))]))
    assert _shown(parsed, "comm_id", "subject_rank") == [("0x2", 0)]
    assert parsed.counts == {"oversized-record": 1}


@pytest.mark.parametrize("data", [b"", b"text\n" * 100, b"\0" * 1_000, b"Connection refused\n", b"{}", b'{"a": [{"b": 1}]}', b"[1, 2]"])
def test_what_is_no_report_is_an_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(TracelabError, match="no report"):
        parse_text(tmp_path, data)


LOG = b"node-0:4000:4100 [0] NCCL INFO NCCL version 2.28.9+cuda12.9\nnode-0:4000:4100 [0] NCCL INFO Job summary\n"


@pytest.mark.parametrize(
    ("data", "confidence"),
    [
        (text_report(straggler()).encode(), 0.95),
        (json_report(straggler()).encode(), 0.95),
        (json_report(straggler(), "2.28.9").encode(), 0.95),
        (EVENTS.encode(), 0.95),
        (b'{\n  "timestamp": "2026-07-25 17:22:05",\n  "group": "LIFECYCLE",\n  "event": "PEER_DEAD"\n}\n', 0.95),
        (text_report(straggler())[:60].encode(), 0.95),
        (LOG * 20 + text_report(straggler()).encode(), 0.3),
        (LOG, None),
        (b"NCCL version 2.28.9+cuda12.9\n", None),
        (b'{"nccl_version": "2.28.9", "results": []}', None),
        (b"", None),
    ],
)
def test_reports_are_claimed_and_logs_are_not(tmp_path: Path, data: bytes, confidence: float | None) -> None:
    match = PARSER.sniff(tmp_path / "file", data)
    assert (match.confidence if match is not None else None) == confidence


def test_samples_are_what_the_builder_writes() -> None:
    assert (SAMPLES / "ras-status.txt").read_text() == text_report(straggler(), "2.28.9", timeouts=1)
    assert (SAMPLES / "ras-status.json").read_text() == json_report(straggler(), "2.30.3", timeouts=1)


def test_reading_twice_gives_the_same(tmp_path: Path) -> None:
    for report in (text_report(_troubled()), json_report(_troubled())):
        assert parse_text(tmp_path, report).everything() == parse_text(tmp_path, report).everything()


def test_builders_write_what_the_vendor_prints(test_data: Callable[[str], Path]) -> None:
    """Every line of the builder's text, numbers aside, stands in the vendor's page or in the words of the source that it follows."""
    shapes = {re.sub(r"[\d,]+", "#", line.strip()) for line in test_data(PAGE).read_text().split("\n")}
    for line in ("Nodes  Processes         GPUs  Processes     GPUs", "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors"):
        assert line in shapes
    written = {re.sub(r"[\d,]+", "#", line.strip()) for line in text_report(straggler(), "2.24.3").split("\n")}
    assert {"# ranks have launched up to operation #", "The missing rank: #", "(total)   per node  per process    (total)  (total)"} <= written & shapes
