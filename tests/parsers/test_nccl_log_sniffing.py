"""Which files the parser claims: by what they hold, or plain logs by their name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.nccl_log import SAMPLE, operation, sample_lines
from tracelab.ingest.heads import read_head
from tracelab_parsers.nccl_log.parser import PARSER

MESSAGE = f"node-1:7:8 [0] NCCL INFO {operation()}\n"


def _confidence(name: str, text: str) -> float | None:
    match = PARSER.sniff(Path(name), text.encode())
    return match.confidence if match is not None else None


@pytest.mark.parametrize("name", ["a.log", "a.rst", "nccl_debug.node35.3266", "a", "x.bin"])
@pytest.mark.parametrize(
    "text",
    [
        MESSAGE,
        "noise\n" * 900 + MESSAGE,
        "h:1:2 [0] net.cc:12 NCCL WARN x\n",
        "h:1:2 NCCL CALL ncclGroupStart()\n",
        "[rank7]:[E117 02:17:41.434235799 ProcessGroupNCCL.cpp:616] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=83)\n",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n",
    ],
)
def test_messages_are_certain_whatever_the_name(name: str, text: str) -> None:
    assert _confidence(name, text) == 0.9


@pytest.mark.parametrize("name", ["a.log", "job.out", "job.err", "a.txt", "stdout", "stderr.gz", "nccl_debug", "train.log.1", "a.log.gz"])
def test_plain_text_of_a_log_is_claimed_with_little_confidence(name: str) -> None:
    assert _confidence(name, "[2026-01-31 04:05:06,123] [INFO] [train.py:21:main] starting, 1 of 2\n" + "loss 2.1 at step 7\n" * 20) == 0.35


@pytest.mark.parametrize(
    "text",
    [
        "NIC statistics:\n     rx_packets: 12\n     tx_packets: 13\n     rx_bytes: 1\n",
        "# Port counters: Lid 12 port 1 (CapMask: 0x5300)\nPortSelect:......................1\nCounterSelect:...................0x0000\n",
        "#\n# Topology file: generated on Mon Jan 31\n#\nvendid=0x2c9\n",
        "# HELP node_cpu_seconds_total x\n# TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total 12\n",
        "time,port,bytes\n1,2,3\n2,3,4\n3,4,5\n4,5,6\n",
        "time\tport\tbytes\n1\t2\t3\n2\t3\t4\n3\t4\t5\n",
        "LLDP neighbors:\n-----------\nInterface:    eth0, via: LLDP\n",
        "lldp.eth0.via=LLDP\nlldp.eth0.rid=1\nlldp.eth0.age=1 day\n",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  - a\n",
        "# Title\n\nSome text.\n\n## Part\n\nMore text.\n",
        '{"traceEvents": []}\n',
        '[{"a": 1}]\n',
        "<xml>\n<a/>\n</xml>\n",
        "IFACE  STATE  RX_OK\n-----  -----  -----\nEth0   U      12\nEth1   U      13\n",
        "",
        "\0\0\0\0",
        "\x01\x02\x03\x04\x05\x06" * 300,
    ],
)
@pytest.mark.parametrize("name", ["a.log", "a.txt", "a.out"])
def test_other_kinds_of_text_are_not_claimed(name: str, text: str) -> None:
    assert _confidence(name, text) is None


def test_small_files_of_the_system_are_not_claimed() -> None:
    assert _confidence("port_xmit_wait", "4711\n") is None
    assert _confidence("state", "4: ACTIVE\n") is None


@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.py", "a.md", "a.toml"])
def test_text_with_another_name_is_claimed_by_messages_only(name: str) -> None:
    assert _confidence(name, "loss 2.1 at step 7\n" * 20) is None


def test_the_sample_is_what_its_builder_writes() -> None:
    assert (SAMPLE / "train.log").read_text() == "".join(sample_lines())


def test_real_files_of_other_kinds_are_left_alone(test_data: Callable[[str], Path]) -> None:
    for folder in ("counters/perfquery", "topology/ibnetdiscover"):
        for path in sorted(test_data(folder).rglob("*")):
            if path.is_file():
                assert PARSER.sniff(path, read_head(path).data) is None, path
    logs = test_data("jobs/llama2_7b_32xA100") / "logs"
    found = {p.name: m.confidence for p in sorted(logs.glob("*.gz")) if (m := PARSER.sniff(p, read_head(p).data)) is not None}
    assert sorted(found.values()) == [0.35, 0.35, 0.35, 0.9]
