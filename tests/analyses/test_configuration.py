"""The review of the communication setup: one broken thing per test, and its sound twin, on hand-made tables."""

from __future__ import annotations

import pytest

from tests.builders.comm_setup import LogTables, Setup
from tracelab.analyses.configuration import ANALYSIS
from tracelab.analysis import run_analyses
from tracelab.results import Finding


def only(setup: Setup) -> Finding:
    (found,) = setup.findings()
    return found


def serious(setup: Setup) -> list[Finding]:
    return [f for f in setup.findings() if f.severity != "info"]


def over_sockets(setup: Setup, *ranks: int) -> Setup:
    chosen = set(ranks or range(setup.world))
    text = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"
    setup.change("channel_edges", {"transport": "NET/IB", "rank": chosen}, text, transport="NET/Socket", gdr=False)
    return setup.change("log_settings", {"name": "network", "rank": chosen}, "Using network Socket", value="Socket")


@pytest.mark.parametrize("size", [(1, 1), (1, 8), (2, 1), (2, 4), (3, 2), (40, 8)])
def test_a_sound_setup_says_nothing(size: tuple[int, int]) -> None:
    result = Setup(hosts=size[0], gpus=size[1]).build().result()
    assert result.findings == ()
    assert "Nothing in the logs" in result.answer
    assert result.degraded == ""


def test_sockets_on_hosts_that_list_adapters_are_proven() -> None:
    f = only(over_sockets(Setup().build()))
    assert (f.kind, f.severity, f.confidence) == ("transport_fallback", "major", "proven")
    assert f.hosts == ["node0", "node1", "node2"]
    assert f.ranks == [0, 1, 2, 3, 4, 5]
    assert f.lost_s == f.lost_s_low == f.lost_s_high == 0
    texts = [e.text for e in f.evidence]
    assert any("via NET/Socket" in t for t in texts)
    assert any("mlx5_0" in t for t in texts)
    assert all(t.startswith("line ") for t in texts)


def test_one_host_over_sockets_is_the_subject() -> None:
    job = over_sockets(Setup().build(), 2, 3).forget("net_devices", plugin="IB", rank=2).forget("net_devices", plugin="IB", rank=3)
    f = only(job)
    assert (f.severity, f.confidence, f.hosts, f.ranks) == ("major", "likely", ["node1"], [2, 3])


def test_a_setting_that_forbids_adapters_is_named_once() -> None:
    f = only(over_sockets(Setup().build()).setting("NCCL_IB_DISABLE", "1"))
    assert "NCCL_IB_DISABLE=1" in f.summary
    assert f.next_step.startswith("unset NCCL_IB_DISABLE")
    assert any("NCCL_IB_DISABLE set by environment to 1" in e.text for e in f.evidence)


def test_a_setting_alone_does_not_prove_that_there_is_an_adapter() -> None:
    f = only(over_sockets(Setup().build()).setting("NCCL_IB_DISABLE", "1").forget("net_devices", plugin="IB"))
    assert (f.severity, f.confidence) == ("minor", "possible")


def test_machines_without_adapters_are_no_fault() -> None:
    f = only(over_sockets(Setup().build()).forget("net_devices", plugin="IB"))
    assert (f.severity, f.confidence) == ("info", "possible")
    assert "may be all" in f.summary


def test_an_interface_of_an_adapter_is_a_sign() -> None:
    job = over_sockets(Setup().build()).forget("net_devices", plugin="IB").change("net_devices", {"plugin": "bootstrap"}, name="ib0")
    assert (only(job).severity, only(job).confidence) == ("major", "likely")


def test_a_plugin_that_was_asked_for_and_failed_is_a_sign_but_none_installed_is_not() -> None:
    job = over_sockets(Setup().build()).forget("net_devices", plugin="IB").setting("NCCL_NET_PLUGIN", "aws-ofi")
    usual = "NET/Plugin: Could not find: libnccl-net.so."
    job.say(0, usual, "INFO")
    assert only(job).severity == "info"
    job.say(0, "NET/Plugin: Could not find: aws-ofi libnccl-net-aws-ofi.so.", "INFO")
    f = only(job)
    assert (f.severity, f.confidence) == ("major", "likely")


def test_sockets_inside_one_host_or_one_rank_are_no_finding() -> None:
    alone = Setup(hosts=1, gpus=1).build()
    alone.change("log_settings", {"name": "network"}, value="Socket")
    assert alone.findings() == []
    apart = Setup(hosts=2, gpus=1).build()  # two jobs of one rank each, in one directory
    apart.forget("channel_edges", kind="connection").change("log_settings", {"name": "network"}, value="Socket")
    apart.change("communicators", {}, size=1, nodes=1, local_ranks=1, comm_rank=0)
    assert apart.findings() == []


def test_a_process_that_names_two_networks_is_not_blamed() -> None:
    job = Setup().build().forget("channel_edges", kind="connection")
    for rank in range(6):
        job.add("log_settings", rank, "Using network Socket", name="network", value="Socket", origin="stated")
    assert job.findings() == []
    (dark,) = job.result().not_observable
    assert "NCCL_DEBUG=INFO" in dark.collect


def test_a_host_without_gpudirect() -> None:
    text = "Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/0"
    f = only(Setup().build().change("channel_edges", {"transport": "NET/IB", "rank": {2, 3}}, text, gdr=False))
    assert (f.kind, f.severity, f.confidence, f.hosts, f.ranks) == ("transport_fallback", "major", "likely", ["node1"], [2, 3])
    assert any(e.text.endswith(text) for e in f.evidence)


def test_no_gpudirect_anywhere_is_how_some_adapters_are() -> None:
    assert Setup().build().change("channel_edges", {"transport": "NET/IB"}, gdr=False).findings() == []


def test_sends_without_gpudirect_on_all_hosts_are_the_librarys_choice() -> None:
    assert Setup().build().change("channel_edges", {"transport": "NET/IB", "direction": "send"}, gdr=False).findings() == []


@pytest.mark.parametrize(("able", "grade"), [(True, ("major", "likely")), (False, ("minor", "possible"))])
def test_gpudirect_switched_off_by_setting(able: bool, grade: tuple[str, str]) -> None:
    job = Setup().build().change("channel_edges", {"transport": "NET/IB"}, gdr=False).setting("NCCL_NET_GDR_LEVEL", "LOC")
    if able:
        job.setting("dma_buf", "available on GPU 0", origin="stated")
    f = only(job)
    assert (f.severity, f.confidence) == grade
    assert "NCCL_NET_GDR_LEVEL=LOC" in f.summary


def test_a_wider_gpudirect_level_is_no_finding() -> None:
    assert Setup().build().setting("NCCL_NET_GDR_LEVEL", "PHB").findings() == []


def test_the_library_says_that_gpudirect_is_not_available() -> None:
    job = Setup().build().change("channel_edges", {"transport": "NET/IB"}, gdr=False).change("net_devices", {"plugin": "IB"}, gdr=False)
    assert (only(job).severity, only(job).confidence) == ("minor", "possible")
    here = Setup(hosts=1).build().change("net_devices", {"plugin": "IB"}, gdr=False)
    assert here.findings() == []  # nothing crosses the network


def test_shared_memory_where_the_same_pair_of_other_hosts_is_direct() -> None:
    f = only(Setup().build().change("channel_edges", {"transport": "P2P/CUMEM", "rank": 2}, transport="SHM"))
    assert (f.kind, f.severity, f.confidence, f.hosts) == ("transport_fallback", "major", "likely", ["node1"])


def test_most_hosts_over_shared_memory_are_less_certain() -> None:
    f = only(Setup().build().change("channel_edges", {"transport": "P2P/CUMEM", "rank": {2, 4}}, transport="SHM"))
    assert (f.confidence, f.hosts) == ("possible", ["node1", "node2"])


def test_pairs_that_all_hosts_connect_through_shared_memory_are_built_so() -> None:
    job = Setup(gpus=4).build()
    middle = {h * 4 + 1 for h in range(3)}
    assert job.change("channel_edges", {"transport": "P2P/CUMEM", "rank": middle}, transport="SHM").findings() == []


def test_shared_memory_although_nvlink_was_found_is_proven() -> None:
    job = Setup(hosts=1).build().change("channel_edges", {"transport": "P2P/CUMEM"}, transport="SHM")
    assert job.findings() == []
    job.add("node_paths", 0, "GPU/0-10000 :GPU/0-11000 (1/240.0/NVL)", src="GPU/0-10000", dst="GPU/0-11000", hops=1, bandwidth_gb_per_s=240.0, path="NVL")
    f = only(job)
    assert (f.severity, f.confidence) == ("major", "proven")
    assert any("240.0/NVL" in e.text for e in f.evidence)


def test_a_path_over_a_third_gpu_is_no_direct_access() -> None:
    job = Setup(hosts=1).build().change("channel_edges", {"transport": "P2P/CUMEM"}, transport="SHM")
    job.add("node_paths", 0, src="GPU/0-10000", dst="GPU/0-11000", hops=2, bandwidth_gb_per_s=40.0, path="NVB")
    assert job.findings() == []


def test_bus_ids_in_brackets_find_their_path() -> None:
    job = Setup(hosts=1).build()
    job.change("channel_edges", {"transport": "P2P/CUMEM"}, transport="SHM", src_device="10000", dst_device="11000")
    job.add("node_paths", 0, src="GPU/10000", dst="GPU/11000", hops=1, bandwidth_gb_per_s=240.0, path="NVL")
    assert only(job).confidence == "proven"


def test_direct_access_switched_off() -> None:
    job = Setup(hosts=2).build().change("channel_edges", {"transport": "P2P/CUMEM"}, transport="SHM").setting("NCCL_P2P_DISABLE", "1")
    f = only(job)
    assert (f.kind, f.severity, f.confidence) == ("transport_fallback", "minor", "possible")
    assert "NCCL_P2P_DISABLE=1" in f.summary


def test_a_setting_without_effect_is_only_mentioned() -> None:
    f = only(Setup().build().setting("NCCL_P2P_DISABLE", "1"))
    assert (f.kind, f.severity) == ("misconfiguration", "info")


def test_the_network_between_gpus_of_one_host() -> None:
    job = Setup().build()
    f = only(job.change("channel_edges", {"transport": "P2P/CUMEM", "rank": 2}, transport="NET/IB", net_device=0, gdr=True, direction="send"))
    assert "the network" in f.summary
    assert f.hosts == ["node1"]


def _paths(job: Setup, near: int, far: int, rank: int, far_gb: float = 12.0) -> None:
    for device, path, gb in ((near, "PIX", 24.0), (far, "SYS", far_gb)):
        gpu = f"GPU/0-{0x10 + rank % job.gpus:x}000"
        job.add("node_paths", rank, f"{gpu} : NET/{device} ({path})", src=gpu, dst=f"NET/0-{device}", hops=3, bandwidth_gb_per_s=gb, path=path)


def test_a_far_adapter_while_a_near_one_is_free() -> None:
    job = Setup(hosts=2, gpus=1).build()
    job.change("channel_edges", {"rank": 1, "transport": "NET/IB"}, net_device=1)
    for rank in range(2):
        _paths(job, 0, 1, rank)
    f = next(f for f in job.findings() if "distance" in f.summary)
    assert (f.kind, f.severity, f.confidence, f.hosts) == ("transport_fallback", "major", "likely", ["node1"])
    assert [(x.host, x.nic) for x in f.links] == [("node1", "mlx5_1")]


def test_a_far_adapter_while_the_near_one_is_busy_is_sharing() -> None:
    job = Setup(hosts=2, gpus=1).build()
    for rank in range(2):
        _paths(job, 0, 1, rank)
    assert job.findings() == []


def test_a_host_that_lists_fewer_adapters() -> None:
    job = Setup().build().forget("net_devices", device=1, rank=2).forget("net_devices", device=1, rank=3)
    job.change("channel_edges", {"transport": "NET/IB", "rank": {2, 3}}, net_device=0)
    f = only(job)  # and not once more for the rail that it cannot use
    assert (f.kind, f.severity, f.hosts, [(x.host, x.nic) for x in f.links]) == ("transport_fallback", "major", ["node1"], [("node1", "mlx5_1")])


def test_adapters_pinned_to_ranks_are_listed_apart() -> None:
    job = Setup().build()
    for rank in range(6):
        job.forget("net_devices", plugin="IB", rank=rank, device=1 - rank % 2)
    job.rows["sources"].pop()
    for table in ("communicators", "channel_edges", "net_devices", "log_settings"):
        job.forget(table, rank=5)
    assert serious(job) == []


def test_a_host_that_uses_fewer_rails() -> None:
    f = only(Setup().build().change("channel_edges", {"transport": "NET/IB", "rank": {2, 3}}, net_device=0))
    assert (f.kind, f.severity, f.confidence, f.hosts) == ("transport_fallback", "major", "likely", ["node1"])
    assert [x.nic for x in f.links] == ["mlx5_1"]


def test_rails_that_no_host_uses_are_worth_a_look() -> None:
    f = only(Setup().build().change("channel_edges", {"transport": "NET/IB"}, net_device=0))
    assert (f.severity, f.confidence) == ("info", "possible")


def test_adapters_of_neighbours_are_used_too() -> None:
    job = Setup().build()
    job.change("channel_edges", {"transport": "NET/IB", "net_device": 1}, proxy_rank=1)
    assert job.findings() == []


def test_of_two_hosts_the_one_with_fewer_rails_is_no_more_than_a_hint() -> None:
    f = only(Setup(hosts=2).build().change("channel_edges", {"transport": "NET/IB", "rank": {2, 3}}, net_device=0))
    assert (f.severity, f.hosts) == ("info", ["node1"])


def test_rails_are_not_judged_where_ranks_are_unseen() -> None:
    job = Setup().build().change("channel_edges", {"transport": "NET/IB"}, net_device=0)
    for table in list(job.rows):
        job.rows[table] = [r for r in job.rows[table] if r["rank"] == 0]
    assert job.findings() == []


def test_fewer_channels_than_the_same_group_of_other_hosts() -> None:
    job = Setup().build()
    for rank in range(6):
        job.add("communicators", rank, "12 coll channels", comm=1, comm_id=f"0x{rank // 2}", comm_rank=rank % 2, size=2, nvml_device=rank % 2, nodes=1)
        job.rows["communicators"][-1].update(local_ranks=2, local_rank=rank % 2, channels=12 if rank // 2 == 1 else 24, state="complete")
    f = only(job)
    assert (f.kind, f.severity, f.confidence, f.hosts, f.ranks) == ("transport_fallback", "major", "likely", ["node1"], [2, 3])
    assert "12 channels" in f.summary


def test_slow_links_are_not_found_again_as_fewer_channels() -> None:
    job = Setup().build().change("channel_edges", {"transport": "P2P/CUMEM", "rank": 2}, transport="SHM")
    for rank in range(6):
        job.add("communicators", rank, comm=1, comm_id=f"0x{rank // 2}", comm_rank=rank % 2, size=2, nvml_device=rank % 2, nodes=1, local_ranks=2)
        job.rows["communicators"][-1].update(channels=2 if rank // 2 == 1 else 24, state="complete")
    assert "shared memory" in only(job).summary


def test_groups_of_one_size_on_different_gpus_are_not_compared() -> None:
    job = Setup(hosts=2, gpus=4).build()
    for rank in range(8):
        pair = rank % 4 // 2
        job.add("communicators", rank, "coll channels", comm=1, comm_id=f"0x{rank // 2}", comm_rank=rank % 2, size=2, nvml_device=rank % 4, nodes=1)
        job.rows["communicators"][-1].update(local_ranks=2, channels=(4, 2)[pair], state="complete")
    assert job.findings() == []


def test_no_logs_do_not_apply() -> None:
    (outcome,) = run_analyses([ANALYSIS], LogTables({}), raise_errors=True)
    assert outcome.status.status == "not_applicable"
    assert "NCCL_DEBUG" in outcome.status.reason


def test_logs_without_setup_are_degraded() -> None:
    job = Setup()
    job.say(0, "something went wrong")
    result = job.result()
    assert result.findings == ()
    assert result.degraded
    assert result.not_observable


def test_a_choice_of_adapters_that_only_one_host_makes() -> None:
    job = Setup().build().forget("net_devices", device=1, rank=2).forget("net_devices", device=1, rank=3)
    job.change("channel_edges", {"transport": "NET/IB", "rank": {2, 3}}, net_device=0).setting("NCCL_IB_HCA", "mlx5_0", 2, 3)
    f = only(job)
    assert (f.kind, f.hosts) == ("misconfiguration", ["node1"])
    assert "NCCL_IB_HCA" in f.next_step


def test_an_adapter_that_the_others_do_not_use_either() -> None:
    job = Setup(adapters=2).build()
    for rank in range(6):
        job.add("net_devices", rank, plugin="IB", device=2, name="mlx5_storage", port=1)
    for rank in (2, 3):
        job.forget("net_devices", rank=rank, name="mlx5_storage")
    assert serious(job) == []
