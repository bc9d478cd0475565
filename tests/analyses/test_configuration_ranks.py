"""The review of the setup: ranks that differ, messages that name a cause, costly settings, tables and determinism."""

from __future__ import annotations

import random

import msgspec
import pytest

from tests.builders.comm_setup import LogTables, Setup
from tracelab.analyses.configuration import ANALYSIS
from tracelab.analyses.configuration.costs import COSTLY
from tracelab.analyses.configuration.rules import AGREE
from tracelab.analysis import run_analyses
from tracelab.results import Finding


def only(setup: Setup) -> Finding:
    (found,) = setup.findings()
    return found


def test_the_rank_with_another_version() -> None:
    f = only(Setup().build().change("log_settings", {"name": "version", "rank": 3}, "NCCL version 2.20.5+cuda12.4", value="2.20.5"))
    assert (f.kind, f.severity, f.confidence, f.ranks, f.hosts) == ("misconfiguration", "major", "proven", [3], ["node1"])
    assert "2.20.5" in f.summary
    assert "2.21.5" in f.summary
    assert any("2.20.5" in e.text for e in f.evidence)


def test_a_tie_names_both_and_no_culprit() -> None:
    f = only(Setup(hosts=2).build().change("log_settings", {"name": "version", "rank": {2, 3}}, value="2.20.5"))
    assert f.ranks == [0, 1, 2, 3]
    assert f.hosts == ["node0", "node1"]


def test_one_version_stated_in_two_ways() -> None:
    assert Setup().build().change("log_settings", {"name": "version", "rank": 0}, value="2.21.5+cuda12.4").findings() == []


def test_a_version_that_only_the_first_rank_prints() -> None:
    job = Setup().build()
    for rank in range(1, 6):
        job.forget("log_settings", name="version", rank=rank)
    assert job.findings() == []


def test_a_mismatch_that_the_library_reports_is_the_same_finding() -> None:
    job = Setup().build().change("log_settings", {"name": "version", "rank": 3}, value="2.20.5")
    job.say(0, "Mismatched NCCL version detected : rank 0 version 22105 rank 3 version 22005")
    assert only(job).ranks == [3]


@pytest.mark.parametrize(
    ("name", "usual", "odd", "severity"),
    [
        ("NCCL_ALGO", "^NVLS", "^Tree", "major"),
        ("NCCL_BUFFSIZE", "8388608", "4194304", "major"),
        ("NCCL_CROSS_NIC", "1", "0", "minor"),
        ("NCCL_IB_TC", "106", "0", "minor"),
    ],
)
def test_settings_that_must_agree(name: str, usual: str, odd: str, severity: str) -> None:
    job = Setup().build().setting(name, usual, 0, 1, 2, 3, 5).setting(name, odd, 4)
    f = only(job)
    assert (f.kind, f.severity, f.ranks) == ("misconfiguration", severity, [4])
    assert name in f.next_step
    assert Setup().build().setting(name, usual).findings() == []


def test_a_setting_that_one_host_lacks() -> None:
    job = Setup().build().setting("NCCL_NVLS_ENABLE", "1").setting("NCCL_PXN_DISABLE", "0", 0, 1, 4, 5)
    f = only(job)
    assert (f.hosts, f.severity, f.confidence) == (["node1"], "minor", "possible")
    assert "not set" in f.summary


def test_a_setting_that_only_ranks_with_a_connection_read_may_be_absent() -> None:
    assert Setup().build().setting("NCCL_NVLS_ENABLE", "1").setting("NCCL_IB_TC", "106", 0, 1).findings() == []


@pytest.mark.parametrize("name", ["NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_DEBUG", "NCCL_COMM_ID"])
def test_settings_that_may_differ(name: str) -> None:
    assert Setup().build().setting(name, "a", 0, 1, 2).setting(name, "b", 3, 4, 5).findings() == []


def test_a_setting_that_a_plugin_makes_in_the_first_process() -> None:
    job = Setup().build().setting("NCCL_NVLS_ENABLE", "1").setting("NCCL_TOPO_FILE", "/opt/p4d.xml", 0, origin="stated")
    assert job.findings() == []


def test_open_descriptors_have_numbers_of_their_own() -> None:
    assert Setup().build().setting("NCCL_TOPO_FILE", "/proc/self/fd/6", 0, 1, 2).setting("NCCL_TOPO_FILE", "/proc/self/fd/9", 3, 4, 5).findings() == []


def test_processes_of_unknown_rank_without_a_communicator_may_be_of_another_launch() -> None:
    job = Setup().build()
    job.add("log_settings", 900, name="cuda_driver", value="11000", origin="stated")
    job.change("log_settings", {"rank": 900}, rank=-1)
    assert job.findings() == []


def test_gpu_models() -> None:
    job = Setup().build()
    job.rows["ranks"][5]["gpu"] = "A100"
    f = only(job)
    assert (f.kind, f.ranks, f.hosts) == ("misconfiguration", [5], ["node2"])
    assert "A100" in f.summary


def test_affinity_of_one_host_is_worth_knowing() -> None:
    f = only(Setup().build().change("log_settings", {"name": "affinity", "rank": {2, 3}}, value="GPU 0: 1"))
    assert (f.severity, f.hosts) == ("info", ["node1"])


def test_gpus_called_by_one_index_are_not_compared() -> None:
    job = Setup().build()
    for rank in range(6):
        job.change("log_settings", {"name": "affinity", "rank": rank}, value=f"GPU 0: {rank:x}")
    assert job.findings() == []


def test_a_port_that_went_down_explains_what_followed() -> None:
    job = Setup().build()
    job.say(2, "NET/IB : mlx5_1:1 Got async event : port error")
    job.say(2, "NET/IB : mlx5_1:1 Got async event : port active")
    job.say(2, "NET/IB: Got completion from peer 10.0.0.2<1> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_1")
    f = only(job)
    assert (f.kind, f.severity, f.confidence, f.hosts, f.ranks) == ("link_flap", "major", "likely", ["node1"], [])
    assert [(x.host, x.nic) for x in f.links] == [("node1", "mlx5_1")]
    assert len(f.evidence) == 3


def test_sends_that_gave_up_after_a_process_was_ended() -> None:
    """Rank 0 complained of nothing when it was ended; on rank 2, trouble came before the agent ended what was left."""
    gave_up = "NET/IB : Got completion from peer 10.0.0.2<1> with error 12, opcode 0, len 0, vendor err 129"
    job = Setup().build()
    job.say(0, "Sending process 100 closing signal SIGTERM", kind="ended")
    job.say(2, gave_up)
    f = only(job)
    assert (f.kind, f.severity) == ("packet_loss", "info")
    assert "had been ended from outside" in f.summary
    job = Setup().build()
    job.say(2, gave_up)
    job.say(2, "Sending process 100 closing signal SIGTERM", kind="ended")
    assert only(job).severity == "major"


def test_shared_memory_that_was_gone_already_is_no_fault() -> None:
    job = Setup().build()
    job.say(2, "unlink shared memory /dev/shm/nccl-abc failed, error: No such file or directory (2)")
    assert job.findings() == []
    job.say(2, "Error while creating shared memory segment /dev/shm/nccl-abc (size 33030528), error: No space left on device (28)")
    assert only(job).kind == "misconfiguration"


def test_sends_that_gave_up_without_a_port_event() -> None:
    job = Setup().build()
    job.say(2, "NET/IB : Got completion from peer 10.0.0.2<1> with error 12, opcode 0, len 0, vendor err 129")
    f = only(job)
    assert (f.kind, f.confidence, f.hosts) == ("packet_loss", "possible", ["node1"])


def test_flushed_sends_and_closed_sockets_follow_from_something_else() -> None:
    job = Setup().build()
    job.say(2, "NET/IB : Got completion from peer 10.0.0.2<1> with error 5, opcode 0, len 0, vendor err 249")
    job.say(2, "Net : Connection closed by remote peer node0<1>")
    job.say(2, "[Service thread] Connection closed by localRank 6", "INFO")
    result = job.result()
    assert result.findings == ()
    assert result.frames["log_warnings"].height == 2


@pytest.mark.parametrize(
    ("text", "kind", "severity"),
    [
        ("NET/IB : mlx5_0:1 Got async event : GID table change", "misconfiguration", "minor"),
        ("Call to ibv_modify_qp failed with error Connection timed out", "misconfiguration", "major"),
        ("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "misconfiguration", "major"),
        ("Error while creating shared memory segment /dev/shm/nccl-Xy (size 9637888), error: No space left on device (28)", "misconfiguration", "major"),
        ("Bootstrap Root : mismatch in rank count from procs 16 : 8", "misconfiguration", "major"),
        ("Message truncated : received 1024 bytes instead of 256", "misconfiguration", "major"),
        ("socketPollConnect: connect returned Connection refused, retrying (3/34) after sleep for 300 msec", "misconfiguration", "info"),
    ],
)
def test_messages_that_name_a_cause(text: str, kind: str, severity: str) -> None:
    job = Setup().build()
    job.say(4, text)
    f = only(job)
    assert (f.kind, f.severity, f.hosts) == (kind, severity, ["node2"])
    assert f.evidence[0].text.endswith(text)
    assert f.evidence[0].rank == 4


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("NCCL_DEBUG", "TRACE", "minor"),
        ("NCCL_DEBUG_SUBSYS", "INIT,COLL", "info"),
        ("CUDA_LAUNCH_BLOCKING", "1", "minor"),
        ("NCCL_MAX_NCHANNELS", "1", "minor"),
        ("NCCL_BUFFSIZE", "65536", "minor"),
        ("NCCL_BUFFSIZE", "64K", "minor"),
        ("NCCL_PROTO", "LL", "minor"),
        ("NCCL_PROTO", "Simple", "info"),
        ("NCCL_ALGO", "Ring", "info"),
        ("NCCL_SHM_DISABLE", "1", "info"),
        ("NCCL_IB_DISABLE", "1", "info"),
    ],
)
def test_settings_that_cost(name: str, value: str, severity: str) -> None:
    f = only(Setup().build().setting(name, value))
    assert (f.kind, f.severity) == ("misconfiguration", severity)
    assert f"{name}={value}" in f.summary
    assert f.ranks == []  # all ranks: nobody in particular


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_DEBUG_SUBSYS", "INIT,ENV,GRAPH"),
        ("NCCL_DEBUG_SUBSYS", "^COLL"),
        ("CUDA_LAUNCH_BLOCKING", "0"),
        ("NCCL_MAX_NCHANNELS", "16"),
        ("NCCL_BUFFSIZE", "8388608"),
        ("NCCL_BUFFSIZE", "4M"),
        ("NCCL_PROTO", "^LL128"),
        ("NCCL_P2P_DISABLE", "0"),
        ("NCCL_IB_DISABLE", "0"),
        ("NCCL_NVLS_ENABLE", "1"),
        ("NCCL_MAX_NCHANNELS", "many"),
    ],
)
def test_settings_that_do_not_cost(name: str, value: str) -> None:
    assert Setup().build().setting(name, value).findings() == []


def test_tables_lead_to_the_lines() -> None:
    job = Setup().build().setting("NCCL_CROSS_NIC", "1", 0, 1, 2, 3, 4).setting("NCCL_CROSS_NIC", "0", 5)
    for rank in (1, 4):
        job.say(rank, f"Cuda failure {rank} 'x'")
    (outcome,) = run_analyses([ANALYSIS], LogTables(job.rows), raise_errors=True)
    assert outcome.result is not None
    settings = outcome.result.frames["settings_review"]
    rows = {(r["name"], r["value"]): r for r in settings.iter_rows(named=True)}
    assert rows["NCCL_CROSS_NIC", "1"]["ranks"] == [0, 1, 2, 3, 4]
    assert rows["NCCL_CROSS_NIC", "0"]["processes"] == 1
    assert rows["NCCL_CROSS_NIC", "0"]["differs"]
    assert rows["NCCL_CROSS_NIC", "0"]["source"] == "nccl.5.log"
    assert not rows["version", "2.21.5"]["differs"]
    transports = {(r["scope"], r["transport"]): r for r in outcome.result.frames["transports"].iter_rows(named=True)}
    # Four channels: one direct pair per host, and the two ends of every hop between hosts.
    assert {k: r["connections"] for k, r in transports.items()} == {("host", "P2P/CUMEM"): 12, ("network", "NET/IB"): 24}
    (warning,) = outcome.result.frames["log_warnings"].to_dicts()
    assert (warning["count"], warning["ranks"], warning["source"]) == (2, [1, 4], "nccl.1.log")


def test_order_of_rows_changes_nothing() -> None:
    def broken() -> Setup:
        job = Setup(hosts=4, gpus=2).build().setting("NCCL_ALGO", "Ring").setting("NCCL_CROSS_NIC", "1", 0, 1, 2, 3).setting("NCCL_CROSS_NIC", "0", 4, 5, 6, 7)
        job.change("channel_edges", {"transport": "P2P/CUMEM", "rank": {2, 4}}, transport="SHM").change(
            "log_settings", {"name": "version", "rank": 6}, value="2.1.0"
        )
        job.say(3, "NET/IB : mlx5_1:1 Got async event : port error")
        return job

    first, second = broken(), broken()
    for rows in second.rows.values():
        random.Random(5).shuffle(rows)
    one, two = first.result(), second.result()
    assert len(one.findings) == 5
    assert msgspec.json.encode(one.findings) == msgspec.json.encode(two.findings)
    assert len({f.id for f in one.findings}) == 5
    severities = [f.severity for f in one.findings]
    assert severities == sorted(severities, key=["critical", "major", "minor", "info"].index)
    for name, frame in one.frames.items():
        (spec,) = (s for s in ANALYSIS.outputs if s.name == name)
        assert spec.conform(frame).equals(spec.conform(two.frames[name]))


def test_hundreds_of_ranks_are_counted_not_listed() -> None:
    job = Setup(hosts=64, gpus=8, adapters=4).build().setting("NCCL_CROSS_NIC", "1", *range(300)).setting("NCCL_CROSS_NIC", "0", *range(300, 512))
    f = only(job)
    assert f.ranks == list(range(300, 512))
    assert len(f.summary) < 400
    assert len(f.evidence) <= 6


def test_text_of_logs_cannot_move_the_cursor() -> None:
    job = Setup().build().setting("NCCL_ALGO", "Ring\x1b[2J\nX")
    job.say(0, "Message truncated \x1b[31m" + "a" * 5000)
    result = job.result()
    texts = [f.summary for f in result.findings] + [e.text for f in result.findings for e in f.evidence] + result.frames["log_warnings"]["text"].to_list()
    assert all(t.isprintable() and len(t) < 600 for t in texts)


def test_processes_of_unknown_rank_are_counted() -> None:
    job = Setup().build().setting("NCCL_CROSS_NIC", "1", 0, 1, 2, 3, 4).setting("NCCL_CROSS_NIC", "0", 5)
    for rows in job.rows.values():
        for row in rows:
            row["rank"] = -1
    job.rows["ranks"] = []
    f = only(job)
    assert f.ranks == []
    assert f.hosts == ["node2"]
    assert "1 process of unknown rank" in f.summary


def test_every_rule_is_about_a_setting_of_its_own() -> None:
    assert all(r.reason and r.title for r in AGREE.values())
    assert all(c.next_step and c.name.startswith(("NCCL_", "CUDA_", "TORCH_")) for c in COSTLY)
