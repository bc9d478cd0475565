"""Inferred groups of many ranks, and what it takes to compare them all."""

from __future__ import annotations

import tracemalloc

import numpy as np
import polars as pl

from tracelab.align.infer import infer_groups


def _rows(ranks: int, groups: int, operations: int = 12) -> pl.DataFrame:
    """Rank r is in group r % groups; all members of a group end each operation within a microsecond, the groups at moments of their own."""
    random = np.random.default_rng(2)
    ends = np.cumsum(random.integers(10**6, 10**7, (operations, groups)), axis=0)
    at = ends[:, np.arange(ranks) % groups] + random.integers(0, 1000, (operations, ranks))
    return pl.DataFrame(
        {
            "op_id": np.arange(at.size),
            "rank": np.repeat(np.arange(ranks), operations).astype(np.int32),
            "channel": np.full(at.size, 7),
            "start_ns": at.T.ravel() - 500,
            "end_ns": at.T.ravel(),
            "launch_step": np.zeros(at.size, dtype=np.int32),
            "operation": ["all_reduce"] * at.size,
        }
    )


def test_every_rank_finds_its_group_in_little_memory() -> None:
    rows = _rows(512, 4)
    tracemalloc.start()
    found, unsure = infer_groups(rows, [])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert unsure == set()
    assert {entity: members for entity, (members, _) in found.items()} == {(r, 7): tuple(range(r % 4, 512, 4)) for r in range(512)}
    # 131,000 pairs: 1 MB as numbers, 20 MB and more as entries of a dictionary.
    assert most < 12_000_000


def test_a_stated_partition_is_chosen_by_its_ends() -> None:
    stated = [{(0, 1), (2, 3), (4, 5), (6, 7)}, {(0, 4), (1, 5), (2, 6), (3, 7)}]
    found, _ = infer_groups(_rows(8, 4), [set(s) for s in stated])
    assert {r: members for (r, _), (members, _) in found.items()} == {r: (r % 4, r % 4 + 4) for r in range(8)}
