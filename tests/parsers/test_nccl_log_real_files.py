"""Real logs against what is known of them by other means: plain counts of text, and the jobs that wrote them."""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.nccl_log import Collected, parse

Finder = Callable[[str], Path]
DATA = Path(os.environ.get("TRACELAB_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
FILES = sorted(f for f in [*DATA.glob("nccl/*/*"), *DATA.glob("jobs/llama2_7b_32xA100/logs/*")] if f.is_file())
INCIDENTS = DATA.parent / "incidents"


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_message_is_counted_and_known(path: Path) -> None:
    found = parse(path)
    spoken = len(re.findall(r":\d+:\d+ (?:\[\d+\] )?(?:[\w/.]+:\d+ )?NCCL (?:INFO|WARN|CALL) ", _text(path)))
    events = found.rows("log_events")
    bare = sum(e["tid"] is None for e in events)
    assert len(events) - bare + len(found.rows("logged_collectives")) == spoken
    assert sum(c.count for c in found.info.event_counts) == len(events) + len(found.rows("logged_collectives"))
    unknown = sum(e["kind"] == "unknown" for e in events)
    assert unknown <= 0.002 * max(1, spoken)


@pytest.fixture(scope="module")
def llama(test_data: Finder) -> Collected:
    return parse(test_data("jobs/llama2_7b_32xA100") / "logs" / "llama2-7b-new-5b-2b1ef-master.log.gz")


def test_the_job_of_32_ranks_has_three_communicators_of_all(llama: Collected) -> None:
    (part,) = llama.info.parts
    assert (part.rank, part.world_size, part.host, part.pid, part.device) == (0, 32, "NH-DC-NM129-B01-28U-GPU-31", 3780764, 0)
    comms = llama.rows("communicators")
    assert [c["pointer"] for c in comms] == ["0x5b843690", "0x5e7b2c70", "0x5c69aa20"]
    assert {(c["comm_rank"], c["size"], c["channels"], c["p2p_channels"], c["p2p_channels_per_peer"], c["bus_id"]) for c in comms} == {
        (0, 32, 8, 8, 2, "0000:10:00.0")
    }
    assert {c["version"] for c in comms} == {"2.14.3"}


def test_its_rings_are_cut_after_20_ranks(llama: Collected) -> None:
    rings = llama.rows("ring_orders")
    assert Counter((r["comm"], r["channels"], len(r["order"]), r["cut"]) for r in rings) == {(c, 8, 20, True): 8 for c in range(3)}
    assert rings[0]["order"] == [0, 7, 6, 5, 4, 3, 2, 1, 8, 15, 14, 13, 12, 11, 10, 9, 16, 23, 22, 21]


def test_its_network_connections(llama: Collected) -> None:
    devices = {d["device"]: d["name"] for d in llama.rows("net_devices") if d["plugin"] == "IB"}
    assert devices == {0: "mlx5_2", 1: "mlx5_3", 2: "mlx5_8", 3: "mlx5_9"}
    edges = [e for e in llama.rows("channel_edges") if e["comm"] == 0]
    received = [e for e in edges if (e["src_rank"], e["dst_rank"], e["direction"]) == (25, 0, "receive")]
    assert [(e["channel"], e["connection"], e["transport"], e["net_device"], e["gdr"]) for e in received] == [
        (0, 0, "NET/IB", 0, True),
        (4, 0, "NET/IB", 0, True),
    ]
    assert (received[0]["src_device"], received[0]["dst_device"]) == ("16000", "10000")
    trees = {(e["channel"], e["src_rank"], e["dst_rank"]) for e in edges if e["kind"] == "tree"}
    assert {(0, 1, 0), (0, 16, 0), (4, 1, 0), (4, 0, 8), (1, 1, 0), (1, 0, 7)} <= trees


def test_64_processes_with_several_communicators_each(test_data: Finder) -> None:
    path = test_data("nccl/full") / "bigscience_gpt2_64proc_nccl2.7.log.gz"
    found = parse(path)
    ranks = [p.rank for p in found.info.parts if p.pid is not None]
    assert sorted(r for r in ranks if r is not None) == list(range(64))
    stated = Counter(int(n) for n in re.findall(r"nranks (\d+) cudaDev \d+ busId \w+ - Init COMPLETE", _text(path)))
    assert Counter(c["size"] for c in found.rows("communicators")) == stated
    assert all(e["comm"] is not None for e in found.rows("channel_edges") if e["kind"] == "connection")


def test_operations_glued_to_a_table_are_found_and_the_table_too(test_data: Finder) -> None:
    path = test_data("nccl/full") / "nccl_tests_subsys_all_nccl2.27.log.gz"
    found = parse(path)
    operations = found.rows("logged_collectives")
    assert len(operations) == _text(path).count(": opCount ")
    assert {(p.host, p.pid) for p in found.info.parts} == {("mew0", 64904)}
    assert len(found.rows("bandwidth_baselines")) == 22
    first, second = (c["comm"] for c in found.rows("communicators"))
    by_comm = Counter(o["comm"] for o in operations)
    assert by_comm[first] == by_comm[second] == len(operations) // 2
    assert {o["algorithm"] for o in operations if o["comm"] == _of_rank(found, 0)} == {"RING"}
    assert {o["algorithm"] for o in operations if o["comm"] == _of_rank(found, 1)} == {None}


def _of_rank(found: Collected, rank: int) -> int:
    (number,) = (c["comm"] for c in found.rows("communicators") if c["comm_rank"] == rank)
    return int(number)


@pytest.mark.skipif(not INCIDENTS.exists(), reason="simulated incidents are absent")
def test_simulated_jobs_log_as_many_operations_as_were_made() -> None:
    files = sorted((INCIDENTS / "slow_gpu_ddp_2x4").glob("nccl_debug.*"))
    assert len(files) == 8
    seen = {}
    for path in files:
        found = parse(path)
        (part,) = found.info.parts
        assert part.job == "0x555af45d72067b44"
        assert part.world_size == 8
        seen[part.rank] = path
        operations = found.rows("logged_collectives")
        assert len(operations) == 60
        assert [o["seq"] for o in operations] == list(range(60))
        assert {(o["operation"], o["dtype"], o["in_bytes"]) for o in operations} == {("all_reduce", "float32", 100_000_000)}
    assert seen.keys() == set(range(8))


@pytest.mark.skipif(not INCIDENTS.exists(), reason="simulated incidents are absent")
def test_ranks_of_a_common_output_come_from_their_communicators() -> None:
    for name, size in (("healthy_pp_4x2", 8), ("slow_gpu_victim_fsdp_4x4", 16)):
        path = INCIDENTS / name / "train.log"
        found = parse(path)
        ranked = {p.rank: (p.host, p.pid) for p in found.info.parts if p.rank is not None}
        labels = re.findall(r"^\[rank(\d+)\]:.*? ([\w-]+):(\d+):\d+ \[\d+\] NCCL INFO", path.read_text(), re.MULTILINE)
        assert ranked == {int(r): (host, int(pid)) for r, host, pid in labels}
        assert len(ranked) <= size
        assert len(found.rows("logged_collectives")) == path.read_text().count(": opCount ")
