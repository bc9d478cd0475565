"""What file names say: hand-made names of every convention known, and what a person would read off them."""

from __future__ import annotations

import pytest

from tracelab.ingest.names import name_hints


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank0.json.gz", 0),
        ("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", 34),
        ("trace_rank_0_step_16.json.gz", 0),
        ("sampled_rank-1.json.gz", 1),
        ("worker7_step_12.1694128201553.pt.trace.json", 7),
        ("worker0.1623212756351.pt.trace.json.gz", 0),
        ("profile_trace/iteration_19/rank13_trace.json.gz", 13),
        ("rank3/trace.json", 3),
        ("rank3/rank5.json", 5),
        ("global_rank=12.json", 12),
        ("RANK_0007.json", 7),
        ("worker-2/trace.json", 2),
        ("myjob-worker-1_4242.1785000000000.pt.trace.json", None),
        ("worker-1_4242.1785000000000.pt.trace.json", None),
        ("myjob-worker-1/rank12.json", 12),
        ("local_rank3.json", None),
        ("local-rank-3.json", None),
        ("frank3.json", None),
        ("node04_3236.1773819229289748871.pt.trace.json.gz", None),
        ("trace.json", None),
        ("pagerank2.json", None),
        ("rank12345678.json", None),
    ],
)
def test_rank_of_a_name(name: str, rank: int | None) -> None:
    assert name_hints(name).rank == rank


def test_host_and_pid_of_the_default_trace_handler() -> None:
    hints = name_hints("a/node-04.cluster_3236.1773819229289748871.pt.trace.json.gz")
    assert (hints.host, hints.pid, hints.folder) == ("node-04.cluster", 3236, "a")
    assert name_hints("worker0.1623212756351.pt.trace.json.gz").host is None
