from __future__ import annotations

from itertools import combinations

import polars as pl
import pytest

from tests.builders.comms import comm, group, listed, merge


def test_ranks_that_print_one_id_are_one_communicator_in_its_own_order() -> None:
    found = merge([comm(r, 0, (r + 1) % 4, 4, "0xabc") for r in range(4)], 8)
    assert found.members == [[3, 0, 1, 2]]
    assert found.table.select("size", "seen", "origin", "name").row(0) == (4, 4, "comm-id", "4 ranks")
    assert found.codes == set()


def test_fifteen_equal_pointers_are_fifteen_communicators() -> None:
    rows = [comm(r, 0, 0, 1, f"0x{r:x}", pointer="0x7f00") for r in range(15)]
    found = merge(rows, 15)
    assert found.table.height == 15
    assert sorted(found.members) == [[r] for r in range(15)]


def test_a_pointer_used_again_in_one_process_is_another_communicator() -> None:
    rows = [comm(r, n, r, 2, f"0x{n + 1}", pointer="0x7f00") for r in range(2) for n in range(3)]
    found = merge(rows, 2)
    assert found.table.height == 3
    assert {found.key(r, n) for r in range(2) for n in range(3)} == {0, 1, 2}
    assert all(found.key(0, n) == found.key(1, n) for n in range(3))


def test_a_restart_makes_new_communicators_of_the_same_ranks() -> None:
    rows = [comm(r, 0, r, 2, ident, source_id=r + 10 * launch, pointer="0x7f00") for launch, ident in enumerate(("0x1", "0x2")) for r in range(2)]
    found = merge(rows, 2)
    assert found.members == [[0, 1], [0, 1]]
    assert found.key(0, 0) == found.key(1, 0) != found.key(10, 0) == found.key(11, 0)


def test_a_restart_without_ids_is_told_by_the_processes_of_each_rank() -> None:
    rows = [comm(r, 0, r, 4, source_id=r + 10 * launch, pointer="0x7f00") for launch in range(2) for r in range(4)]
    found = merge(rows, 4)
    assert found.members == [[0, 1, 2, 3]] * 2
    assert found.key(0, 0) == found.key(3, 0) != found.key(10, 0) == found.key(13, 0)
    assert found.table["origin"].to_list() == ["init-lines"] * 2


def test_lines_of_one_id_that_differ_in_size_are_not_one() -> None:
    found = merge([comm(0, 0, 0, 2, "0x1"), comm(1, 0, 1, 2, "0x1"), comm(2, 0, 2, 3, "0x1"), comm(3, 0, None, None, "0x1")], 4)
    assert sorted(found.table["size"].to_list()) == [2, 3]


def test_two_processes_that_claim_one_place_are_both_doubted() -> None:
    found = merge([comm(0, 0, 0, 4, "0x1"), comm(1, 0, 0, 4, "0x1"), comm(2, 0, 2, 4, "0x1")], 8)
    assert found.members == [[None, None, 2, None]]
    assert "contradicting-communicator" in found.codes


def test_the_communicator_of_all_ranks_is_completed_in_order() -> None:
    found = merge([comm(r, 0, r, 8, "0x1") for r in (1, 6)], 8)
    assert found.members == [list(range(8))]
    assert found.table["origin"].item() == "comm-id"
    assert found.table["seen"].item() == 2
    assert "completed-communicator" in found.codes


def test_without_an_id_that_is_called_assumed() -> None:
    found = merge([comm(r, 0, r, 8) for r in (1, 6)], 8)
    assert found.members == [list(range(8))]
    assert found.table["origin"].item() == "assumed"


def test_an_order_that_is_not_the_jobs_is_not_completed() -> None:
    found = merge([comm(0, 0, 7, 8, "0x1"), comm(6, 0, 1, 8, "0x1")], 8)
    assert found.members == [[None, 6, None, None, None, None, None, 0]]


def test_a_negative_rank_is_unseen() -> None:
    rows = [comm(0, 0, 0, 2, "0x1"), comm(-1, 0, 1, 2, "0x1", source_id=9, nodes=2)]
    found = merge(rows, 4)
    assert found.members == [[0, None]]
    assert found.table.select("seen", "nodes").row(0) == (1, 2)
    assert found.key(9, 0) == found.key(0, 0)


def test_a_subset_is_completed_from_the_only_stated_group_that_fits() -> None:
    rows = [comm(0, 0, 0, 4, "0x1"), comm(4, 0, 2, 4, "0x1")]
    groups = [group(0, [0, 1, 2, 3]), group(1, [0, 2, 4, 6]), group(2, [1, 3, 5, 7])]
    found = merge(rows, 8, groups)
    assert found.members == [[0, 2, 4, 6]]
    assert found.table["group_id"].item() == 1
    assert found.table["name"].item() == "group 1"


@pytest.mark.parametrize("origin", ["inferred", "stated"])
def test_two_groups_that_fit_complete_nothing(origin: str) -> None:
    groups = [group(0, [0, 1], origin), group(1, [0, 4], origin)]
    assert merge([comm(0, 0, 0, 2, "0x1")], 8, groups).members == [[0, None]]


def test_group_ids_follow_the_set_of_members() -> None:
    found = merge([comm(r, 0, 1 - r, 2, "0x1") for r in range(2)], 4, [group(3, [0, 1])])
    assert found.members == [[1, 0]]
    assert found.table["group_id"].item() == 3


def _split(rank: int, number: int, parent: int, split: int | None, color: int, size: int, comm_rank: int | None, **more: object) -> dict[str, object]:
    return comm(rank, number, comm_rank, size, None, function="ncclCommSplit", parent=parent, split=split, color=color, **more)


@pytest.mark.parametrize("numbered", [True, False])
def test_splits_are_told_by_parent_number_and_colour(numbered: bool) -> None:
    rows = []
    for r in range(8):
        rows.append(comm(r, 0, r, 8, "0x1"))
        rows.append(_split(r, 1, 0, 1 if numbered else None, r // 4, 4, r % 4))
        rows.append(_split(r, 2, 0, 2 if numbered else None, r % 2, 4, r // 2))
        rows.append(_split(r, 3, 1, 1 if numbered else None, r % 2, 2, r % 4 // 2))
    found = merge(rows, 8)
    want = [[*range(8)], [0, 1, 2, 3], [4, 5, 6, 7], [0, 2, 4, 6], [1, 3, 5, 7], [0, 2], [1, 3], [4, 6], [5, 7]]
    assert sorted(found.members, key=str) == sorted(want, key=str)
    by_ranks = {tuple(r): (k, p, o) for k, r, p, o in found.table.select("comm_key", "ranks", "parent_key", "origin").iter_rows()}
    assert by_ranks[0, 2][1] == by_ranks[0, 1, 2, 3][0]
    assert by_ranks[5, 7][1] == by_ranks[4, 5, 6, 7][0]
    assert by_ranks[5, 7][2] == "split"


def test_keys_order_the_ranks_of_a_split_whose_places_were_lost() -> None:
    rows = [comm(r, 0, r, 4, "0x1") for r in range(4)]
    rows += [_split(r, 1, 0, 1, 0, 4, None, split_key=-r) for r in range(4)]
    assert [3, 2, 1, 0] in merge(rows, 4).members


def test_equal_keys_leave_the_order_of_the_parent() -> None:
    rows = [comm(r, 0, 3 - r, 4, "0x1") for r in range(4)]
    rows += [_split(r, 1, 0, 1, 0, 4, None, split_key=0) for r in range(4)]
    assert merge(rows, 4).members == [[3, 2, 1, 0], [3, 2, 1, 0]]


def test_splits_that_contradict_each_other_stand_alone() -> None:
    rows = [comm(r, 0, r, 4, "0x1") for r in range(4)]
    # One rank took no part in an earlier split, so that its first is the others' second.
    rows += [_split(r, 1, 0, None, 0, 2, 0) for r in range(4)]
    found = merge(rows, 4)
    assert found.table.filter(pl.col("size") == 2).height == 4
    assert "ambiguous-communicator" in found.codes


def test_a_split_whose_parent_was_lost_is_not_guessed() -> None:
    found = merge([comm(r, 0, r, 2, None, parent_pointer="0x1", color=0, function="ncclCommSplit") for r in range(2)], 8)
    assert found.table.height == 2


def test_communicators_without_ids_are_merged_by_creation_and_complementary_ranks() -> None:
    rows = [comm(r, n, r, 4) for r in range(4) for n in range(2)] + [comm(r, 2, r, 2) for r in range(2)]
    found = merge(rows, 4)
    assert sorted(found.members) == [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert found.key(0, 0) == found.key(3, 0) != found.key(0, 1) == found.key(3, 1)


def test_several_of_one_size_without_ids_are_not_merged() -> None:
    found = merge([comm(r, 0, r % 2, 2) for r in range(4)], 4)
    assert found.table.height == 4
    assert "ambiguous-communicator" in found.codes


def test_different_channels_tell_two_of_one_size_apart() -> None:
    found = merge([comm(r, 0, r % 2, 2, channels=2 + r // 2) for r in range(4)], 4)
    assert sorted(found.members, key=str) == [[0, 1], [2, 3]]
    assert found.codes == set()


def test_stated_groups_tell_two_of_one_size_apart() -> None:
    found = merge([comm(r, 0, r // 2, 2) for r in range(4)], 4, [group(0, [0, 2]), group(1, [1, 3])])
    assert sorted(found.members, key=str) == [[0, 2], [1, 3]]
    assert found.table.sort("group_id")["group_id"].to_list() == [0, 1]


def test_half_of_a_small_communicator_is_not_merged_with_half_of_another() -> None:
    found = merge([comm(0, 0, 0, 2), comm(3, 0, 1, 2)], 4)
    assert sorted(found.members, key=str) == [[0, None], [None, 3]]


def test_a_lost_head_joins_the_communicator_that_lacks_the_process() -> None:
    rows = [comm(r, 0, r, 4, "0x1") for r in range(3)] + [comm(3, 0, None, 4, state="seen")]
    found = merge(rows, 4)
    assert found.table.height == 1
    assert found.key(3, 0) == found.key(0, 0)
    assert found.table.select("seen", "origin").row(0) == (4, "comm-id")


def test_lost_heads_of_all_ranks_are_assumed_to_be_the_job() -> None:
    found = merge([comm(r, 0, None, 4, state="seen") for r in range(4)], 4)
    assert found.members == [[0, 1, 2, 3]]
    assert found.table["origin"].item() == "assumed"


def test_lost_heads_are_told_by_the_only_group_of_their_size() -> None:
    rows = [comm(r, 0, None, 2, state="seen") for r in range(4)]
    found = merge(rows, 4, [group(0, [0, 1]), group(1, [2, 3])])
    assert found.members == [[0, 1], [2, 3]]


def test_two_lost_heads_of_one_size_in_a_process_stay_apart() -> None:
    found = merge([comm(r, n, None, 4, state="seen") for r in range(2) for n in range(2)], 4)
    assert found.table.height == 4
    assert "ambiguous-communicator" in found.codes


def _recorder(rank: int, number: int, name: str, size: int, desc: str = "") -> dict[str, object]:
    return comm(rank, number, None, size, source_id=rank + 100, group_name=name, group_desc=desc, pointer=None, state="seen")


def _groups_of(rank: int, *groups: tuple[str, list[int]]) -> list[dict[str, object]]:
    return [{**listed(rank, name, ranks), "source_id": rank + 100} for name, ranks in groups]


def test_a_recorder_of_the_same_process_is_no_second_communicator() -> None:
    rows = [comm(r, 0, r, 4, "0x1") for r in range(4)] + [_recorder(r, 0, "0", 4, "default_pg") for r in range(4)]
    lists = [x for r in range(4) for x in _groups_of(r, ("0", [0, 1, 2, 3]))]
    found = merge(rows, 4, (), lists)
    assert found.table.height == 1
    assert found.table.select("origin", "name").row(0) == ("comm-id", "default_pg")
    assert found.key(100, 0) == found.key(0, 0)


def test_a_recorder_completes_the_members_that_no_log_shows() -> None:
    rows = [comm(2, 0, 1, 3, "0x1"), _recorder(2, 0, "dp", 3)]
    found = merge(rows, 8, (), _groups_of(2, ("dp", [0, 2, 5])))
    assert found.members == [[0, 2, 5]]


def test_names_are_no_namespace_over_ranks() -> None:
    rows = [_recorder(r, 0, "1", 2) for r in range(4)]
    lists = [x for r in range(4) for x in _groups_of(r, ("1", [r // 2 * 2, r // 2 * 2 + 1]))]
    found = merge(rows, 4, (), lists)
    assert found.members == [[0, 1], [2, 3]]
    assert found.table["origin"].to_list() == ["process-group"] * 2


def test_two_communicators_of_the_same_ranks_leave_the_recorder_apart() -> None:
    rows = [comm(r, n, r, 2, f"0x{n + 1}") for r in range(2) for n in range(2)] + [_recorder(r, 0, "0", 2) for r in range(2)]
    found = merge(rows, 2, (), [x for r in range(2) for x in _groups_of(r, ("0", [0, 1]))])
    assert found.table.height == 3
    assert "ambiguous-process-group" in found.codes


def test_a_size_that_no_line_states_is_said() -> None:
    found = merge([comm(0, 0, None, None, state="seen"), comm(0, 1, 0, 2**30, "0x1")], 4)
    assert found.table.height == 0
    assert "communicator-without-size" in found.codes


def test_nothing_gives_nothing() -> None:
    found = merge([], None)
    assert found.table.height == 0
    assert found.places.height == 0


def test_the_order_of_rows_changes_nothing() -> None:
    rows = [comm(r, n, (r + n) % 4, 4, f"0x{n}") for r in range(4) for n in range(3)]
    want = merge(rows, 4)
    for a, b in combinations(range(3), 2):
        turned = merge([*rows[a:], *rows[:a]][::-1][b:] + [*rows[a:], *rows[:a]][::-1][:b], 4)
        assert turned.table.equals(want.table)
        assert turned.places.equals(want.places)
