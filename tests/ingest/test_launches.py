"""Logs and the jobs they belong to, from hand-made processes: every case was decided by reading it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from tracelab.ingest.identity import Process
from tracelab.ingest.manifest import Manifest
from tracelab.ingest.names import name_hints
from tracelab.ingest.rankmap import RankMap, map_ranks
from tracelab.plugins import Part

T0 = 1_700_000_000_000_000_000


class Files:
    """Makes processes as the identity stage would, numbered in the order of the calls."""

    def __init__(self) -> None:
        self.all: list[Process] = []
        self._number = count()

    def trace(self, name: str, rank: int | None, pid: int | None = None, *, world: int | None = 2, host: str | None = None) -> None:
        part = Part(rank=rank, world_size=world, pid=pid, start_ns=T0, end_ns=T0 + 10**9)
        self._add(name, part, host, "timeline", "traces")

    def log(
        self,
        name: str,
        rank: int | None,
        pid: int | None = None,
        *,
        world: int | None = 2,
        host: str | None = None,
        job: str | None = None,
        form: str = "nccl-log",
        events: int = 10,
    ) -> None:
        self._add(name, Part(rank=rank, world_size=world, pid=pid, job=job), host, "log", form, events)

    def _add(self, name: str, part: Part, host: str | None, kind: str, form: str, events: int = 10) -> None:
        source = next(self._number)
        origin = ("content" if part.rank is not None else "unknown", "content" if host else "unknown")
        self.all.append(
            Process(source, name, f"c{source}", part, events, False, name_hints(name), part.rank, origin[0], host, origin[1], kind=kind, format=form)  # type: ignore[arg-type]
        )

    def map(self) -> RankMap:
        return map_ranks(self.all, Manifest())


def _roles(ranks: RankMap) -> dict[str, tuple[int, str, int]]:
    return {a.process.name: (a.job, a.role, a.rank) for a in ranks.assignments}


def _codes(ranks: RankMap) -> list[str]:
    return [n.notice.code for n in ranks.notices]


def test_a_log_beside_captures_is_no_rival_of_them() -> None:
    f = Files()
    for r in range(2):
        f.trace(f"rank{r}.json", r, 100 + r)
        f.log(f"nccl.{r}.log", r, 100 + r, host="a")
    found = f.map()
    assert _roles(found) == {"rank0.json": (0, "analysed", 0), "rank1.json": (0, "analysed", 1), "nccl.0.log": (0, "log", 0), "nccl.1.log": (0, "log", 1)}
    assert _codes(found) == []
    assert found.hosts == {0: "a", 1: "a"}, "the log names the host that the traces do not"


def test_ranks_that_only_a_log_names_stay_missing_but_have_a_host() -> None:
    f = Files()
    f.trace("rank0.json", 0, 100, world=4, host="a.cluster")
    f.log("0.log", 0, 100, world=4, host="a")
    f.log("3.log", 3, 300, world=4, host="b")
    found = f.map()
    assert found.missing == (1, 2, 3)
    assert found.ranks == (0,)
    assert found.hosts == {0: "a.cluster", 3: "b"}


def test_a_capture_takes_its_rank_from_the_log_of_its_process() -> None:
    f = Files()
    f.trace("x.json", None, 71, world=None, host="a")
    f.trace("y.json", None, 72, world=None, host="a")
    f.log("out.log", 1, 71, host="a")
    f.log("out.log", 0, 72, host="a")
    found = f.map()
    assert _roles(found)["x.json"] == (0, "analysed", 1)
    assert _roles(found)["y.json"] == (0, "analysed", 0)
    assert {a.process.rank_origin for a in found.analysed} == {"log"}
    assert found.world_size == 2


def test_one_number_on_two_hosts_is_two_processes() -> None:
    f = Files()
    f.trace("x.json", None, 1, world=None)
    f.log("a.log", 0, 1, host="a")
    f.log("b.log", 1, 1, host="b")
    (trace,) = [a for a in f.map().assignments if a.process.name == "x.json"]
    assert trace.rank < 0, "either could be it: nothing is guessed"


def test_logs_alone_are_a_job() -> None:
    f = Files()
    f.log("rank0.log", 0, 5, world=32, host="a")
    f.log("quiet.log", None, events=0)
    found = f.map()
    assert _roles(found) == {"rank0.log": (0, "analysed", 0), "quiet.log": (0, "no-events", -1)}
    assert found.world_size == 32
    assert len(found.missing) == 31


def test_a_restart_in_one_log_is_another_job() -> None:
    f = Files()
    for launch in range(2):
        for r in range(2):
            f.log("train.log", r, 10 * launch + r, host="a")
    found = f.map()
    assert [(a.job, a.process.pid) for a in found.assignments] == [(0, 0), (0, 1), (1, 10), (1, 11)]


def test_processes_tell_which_launch_a_capture_belongs_to() -> None:
    f = Files()
    for r in range(2):
        f.trace(f"rank{r}.json", r, 10 + r, host="a")
    for launch in range(2):
        for r in range(2):
            f.log("train.log", r, 10 * launch + r, host="a")
    found = f.map()
    assert [(a.role, a.process.pid) for a in found.assignments if a.process.name == "train.log"] == [
        ("other-job", 0),
        ("other-job", 1),
        ("log", 10),
        ("log", 11),
    ]


def test_two_launches_and_nothing_that_ties_them_are_kept_apart_and_said() -> None:
    f = Files()
    for r in range(2):
        f.trace(f"rank{r}.json", r)
    for launch in ("0x1", "0x2"):
        for r in range(2):
            f.log("train.log", r, 7 if launch == "0x1" else 9, host=f"h{r}", job=launch)
    found = f.map()
    assert {a.role for a in found.assignments if a.process.name == "train.log"} == {"other-job"}
    assert _codes(found).count("unplaced-log") == 2


def test_a_log_of_another_world_is_another_job() -> None:
    f = Files()
    for r in range(2):
        f.trace(f"rank{r}.json", r)
    f.log("other.log", 0, 9, world=64, host="z")
    assert _roles(f.map())["other.log"][:2] == (1, "other-job")


def test_logs_of_several_kinds_join_one_job() -> None:
    f = Files()
    for r in range(2):
        f.trace(f"rank{r}.json", r)
        f.log("train.log", r, 40 + r, host="a", job="0xab")
        f.log(f"nccl_trace_rank_{r}", r, form="flight-recorder")
    found = f.map()
    assert {(a.job, a.role) for a in found.assignments} == {(0, "analysed"), (0, "log")}


def test_a_log_kept_twice_counts_once() -> None:
    f = Files()
    for r in range(2):
        f.log("stdout.log", r, 40 + r, host="a", events=50)
    f.log("rank1.log", 1, 41, host="a", events=20)
    found = f.map()
    assert _roles(found)["rank1.log"] == (0, "duplicate", 1)
    assert "repeated-log" in _codes(found)


def test_a_log_without_rank_follows_its_capture() -> None:
    f = Files()
    f.trace("rank0.json", 0, 50, host="a")
    f.trace("rank1.json", 1, 51, host="a")
    f.log("cut.log", None, 51, world=None, host="a")
    assert _roles(f.map())["cut.log"] == (0, "log", 1)


def test_logs_of_two_jobs_of_one_size_are_told_apart_by_file() -> None:
    f = Files()
    f.log("jobs/a/master.log", 0, 7, world=4, host="x")
    for r in range(4):
        f.log("bench/b.log", r, 50 + r, world=4, host="y")
    found = f.map()
    assert {a.process.name: a.job for a in found.assignments} == {"bench/b.log": 0, "jobs/a/master.log": 1}


def test_per_rank_logs_with_a_restart_in_each_are_two_launches() -> None:
    f = Files()
    for r in range(2):
        for launch in range(2):
            f.log(f"rank{r}.log", r, 10 * launch + r, host="a")
    found = f.map()
    assert [(a.process.name, a.job, a.process.pid) for a in found.assignments] == [
        ("rank0.log", 0, 0),
        ("rank0.log", 1, 10),
        ("rank1.log", 0, 1),
        ("rank1.log", 1, 11),
    ]


def test_a_log_that_only_fits_by_size_is_taken_and_said() -> None:
    f = Files()
    for r in range(2):
        f.trace(f"t/rank{r}.json", r)
    f.log("l/out.log", 0, 5, host="a")
    found = f.map()
    assert _roles(found)["l/out.log"] == (0, "log", 0)
    assert "log-by-size" in _codes(found)


def test_bare_lines_go_with_the_processes_of_their_file() -> None:
    f = Files()
    for r in range(2):
        f.log("a/out.log", r, 5 + r, host="a")
        f.log("b/out.log", r, 8 + r, world=3, host="a")
    f.all.append(replace(f.all[1], part=Part(part=2), rank=None, host=None))
    found = f.map()
    assert [a.job for a in found.assignments if a.process.part.part == 2] == [1]
