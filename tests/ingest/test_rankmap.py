"""Jobs, ranks, hosts and windows from hand-made processes: every case here was decided by reading it, not by running it."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import tracelab as tl
from tracelab.ingest.identity import Process
from tracelab.ingest.jobs import group_jobs
from tracelab.ingest.manifest import Manifest
from tracelab.ingest.names import name_hints
from tracelab.ingest.rankmap import RankMap, map_ranks
from tracelab.plugins import Part

S = 1_000_000_000
T0 = 1_700_000_000 * S


class Files:
    """Makes processes as the identity stage would, numbered in the order of the calls."""

    def __init__(self) -> None:
        self.all: list[Process] = []
        self._number = count()

    def add(
        self,
        name: str,
        rank: int | None = None,
        *,
        world: int | None = None,
        start: float = 0.0,
        length: float = 1.0,
        device: int | None = None,
        pid: int | None = None,
        host: str | None = None,
        content: str = "",
        events: int = 100,
        damaged: bool = False,
        origin: str = "content",
    ) -> None:
        source = next(self._number)
        t = T0 + round(start * S)
        part = Part(rank=rank, world_size=world, pid=pid, device=device, start_ns=t, end_ns=t + round(length * S))
        rank_origin, host_origin = origin if rank is not None else "unknown", "content" if host else "unknown"
        content = content or f"content-{source}"
        self.all.append(Process(source, name, content, part, events, damaged, name_hints(name), rank, rank_origin, host, host_origin))

    def map(self, job: int = 0) -> RankMap:
        return map_ranks(self.all, Manifest(), job)


def roles(ranks: RankMap) -> dict[str, str]:
    return {a.process.name: a.role for a in ranks.assignments}


def codes(ranks: RankMap) -> list[tuple[str, str]]:
    return [(n.path, n.notice.code) for n in ranks.notices]


def test_a_complete_job_has_no_notice() -> None:
    files = Files()
    for r in range(4):
        files.add(f"rank{r}.json", r, world=4, device=r, start=0.01 * r)
    ranks = files.map()
    assert ranks.ranks == (0, 1, 2, 3)
    assert ranks.world_size == 4
    assert ranks.missing == ()
    assert codes(ranks) == []
    assert {a.host for a in ranks.analysed} == {"unnamed-host-0"}


def test_missing_ranks_are_named() -> None:
    files = Files()
    for r in (0, 3):
        files.add(f"rank{r}.json", r, world=5, device=r)
    ranks = files.map()
    assert ranks.missing == (1, 2, 4)
    assert codes(ranks) == [("", "missing-ranks")]
    assert "1, 2, 4" in ranks.notices[0].notice.text


def test_a_gap_is_missing_even_where_no_file_states_the_world() -> None:
    files = Files()
    for r in (0, 1, 3):
        files.add(f"rank{r}.json", r, origin="name")
    assert files.map().missing == (2,)


def test_unknown_ranks_are_never_rank_0() -> None:
    files = Files()
    files.add("a.json")
    files.add("b.json", start=0.2)
    ranks = files.map()
    assert ranks.ranks == (-2, -1)
    assert codes(ranks) == [("a.json", "unknown-rank"), ("b.json", "unknown-rank")]


def test_unrelated_captures_without_rank_are_not_one_job() -> None:
    files = Files()
    files.add("a.json")
    files.add("b.json", start=5.0)
    files.add("elsewhere/c.json")
    assert roles(files.map()) == {"a.json": "analysed", "b.json": "other-job", "elsewhere/c.json": "other-job"}


def test_hosts_follow_the_devices() -> None:
    files = Files()
    for r in range(6):
        files.add(f"worker{r}.json", r, world=6, device=r % 3)
    assert [a.host for a in files.map().analysed] == ["unnamed-host-0"] * 3 + ["unnamed-host-1"] * 3


def test_ranks_that_are_not_neighbours_are_not_one_host() -> None:
    files = Files()
    for rank, device in ((0, 0), (1, 1), (2, 2), (12, 4), (13, 5)):
        files.add(f"worker{rank}.json", rank, world=16, device=device)
    assert [a.host for a in files.map().analysed] == ["unnamed-host-0"] * 3 + ["unnamed-host-1"] * 2


def test_a_world_or_rank_that_cannot_be_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 2000000000, "world_size": 2147483647}, "traceEvents": '
        '[{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.0, "dur": 2.0, "args": {"device": 0, "stream": 7}}]}'
    )
    run = tl.open(tmp_path)
    assert run.rank_map.world_size is None
    assert run.rank_map.ranks == (-1,)
    assert {"implausible-world", "implausible-rank"} <= {n.notice.code for n in run.notices}


def test_a_rank_without_device_gets_a_host_of_its_own() -> None:
    files = Files()
    for r in range(3):
        files.add(f"worker{r}.json", r, world=3)
    assert len({a.host for a in files.map().analysed}) == 3


def test_windows_of_one_rank_are_legal() -> None:
    files = Files()
    for window, start in enumerate((0.0, 60.0)):
        for r in range(2):
            files.add(f"step{window}/rank{r}.json", r, world=2, start=start, device=r)
    ranks = files.map()
    assert codes(ranks) == []
    windows = {a.process.name: a.window for a in ranks.analysed}
    assert windows == {"step0/rank0.json": 0, "step0/rank1.json": 0, "step1/rank0.json": 1, "step1/rank1.json": 1}


def test_the_same_process_an_hour_later_is_the_same_job() -> None:
    files = Files()
    for start in (0.0, 3600.0):
        for r in range(2):
            files.add(f"t{start:.0f}/rank{r}.json", r, world=2, start=start, pid=1000 + r, device=r)
    assert len(group_jobs(files.all)) == 1


def test_another_launch_an_hour_later_is_another_job() -> None:
    files = Files()
    for launch, start in enumerate((0.0, 3600.0)):
        for r in range(2):
            files.add(f"t{start:.0f}/rank{r}.json", r, world=2, start=start, pid=1000 + 10 * launch + r, device=r)
    ranks = files.map()
    assert codes(ranks) == [("t3600/rank0.json", "other-job")]
    assert list(roles(ranks).values()) == ["analysed", "analysed", "other-job", "other-job"]
    assert {a.process.name for a in files.map(job=1).analysed} == {"t3600/rank0.json", "t3600/rank1.json"}


def test_two_jobs_at_once_are_told_apart_by_folder() -> None:
    files = Files()
    for job in ("blue", "green"):
        for r in range(2):
            files.add(f"{job}/rank{r}.json", r, world=2, device=r)
    ranks = files.map()
    assert roles(ranks) == {"blue/rank0.json": "analysed", "blue/rank1.json": "analysed", "green/rank0.json": "other-job", "green/rank1.json": "other-job"}
    assert "duplicate-rank" not in [c for _, c in codes(ranks)]


def test_a_file_with_damaged_metadata_stays_in_its_job() -> None:
    files = Files()
    for r in (0, 1, 3):
        files.add(f"rank{r}.json", r, world=4, device=r)
    files.add("rank2.json", 2, device=2, start=0.1, origin="name")
    files.add("other/rank7.json", 7, device=2, start=0.1, origin="name")
    ranks = files.map()
    assert ranks.ranks == (0, 1, 2, 3)
    assert roles(ranks)["other/rank7.json"] == "other-job"


def test_two_files_that_claim_one_rank_are_never_merged() -> None:
    files = Files()
    files.add("a.json", 0, world=2, events=10)
    files.add("b.json", 0, world=2, events=500)
    files.add("c.json", 1, world=2)
    ranks = files.map()
    assert roles(ranks) == {"a.json": "duplicate", "b.json": "analysed", "c.json": "analysed"}
    assert ("a.json", "duplicate-rank") in codes(ranks)
    assert [n.notice.severity for n in ranks.notices if n.notice.code == "duplicate-rank"] == ["error"]


def test_a_whole_file_wins_over_a_larger_damaged_one() -> None:
    files = Files()
    files.add("interleaved.json", 1, world=2, events=1074, damaged=True)
    files.add("rank0.json", 0, world=2, events=562)
    files.add("rank1.json", 1, world=2, events=562)
    assert roles(files.map()) == {"interleaved.json": "duplicate", "rank0.json": "analysed", "rank1.json": "analysed"}


def test_a_copy_is_read_once() -> None:
    files = Files()
    files.add("rank0.json", 0, world=1, content="same", pid=7)
    files.add("rank0 (copy).json", 0, world=1, content="same", pid=7)
    ranks = files.map()
    assert roles(ranks) == {"rank0.json": "analysed", "rank0 (copy).json": "duplicate"}
    assert codes(ranks) == [("rank0 (copy).json", "duplicate-file")]


def test_the_largest_job_is_analysed_whatever_the_order() -> None:
    files = Files()
    files.add("a/rank0.json", 0, world=2, start=-90000.0)
    for r in range(3):
        files.add(f"z/rank{r}.json", r, world=4, device=r)
    ranks = files.map()
    assert [a.process.name for a in ranks.analysed] == ["z/rank0.json", "z/rank1.json", "z/rank2.json"]
    assert ranks.missing == (3,)


def test_nothing_in_nothing_out() -> None:
    assert map_ranks([], Manifest()).assignments == ()
