"""Writes a simulated incident as a directory: what an engineer would be handed, and the truth."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelab.simulate.clocks import Clock, Skew, clock_of
from tracelab.simulate.model import Outcome
from tracelab.simulate.writers.counters import Meters, adapter_log, adapter_names, ports_csv, prometheus, wiring_csv
from tracelab.simulate.writers.kineto import Generation, compressed, pid_of, trace_of
from tracelab.simulate.writers.nccl_log import log_of

__all__ = ["Collection", "clocks_of", "write_incident"]


@dataclass(frozen=True)
class Collection:
    """What was collected. `missing`: ranks whose trace is not there; `dropped`: share of GPU events that profilers lost.

    `counters`: what is known of the network: log of ethtool, answers of Prometheus, or nothing.
    """

    generation: Generation = "2026"
    counters: str = "ethtool"
    switches: bool = True
    wiring: bool = True
    logs: bool = True
    missing: tuple[int, ...] = ()
    dropped: float = 0.0
    interval_ns: int = 250_000_000


def clocks_of(outcome: Outcome, skew: Skew) -> dict[str, Clock]:
    """The clocks of hosts and leaf switches, by name."""
    cluster, length = outcome.scenario.cluster, (outcome.step_ends or [1])[-1]
    seed = outcome.scenario.seed
    hosts = {cluster.host_name(h): clock_of(seed, cluster.host_name(h), skew, length, h) for h in range(cluster.hosts)}
    leaves = range(cluster.leaf_of(cluster.hosts - 1) + 1)
    return hosts | {f"leaf{n + 1}": clock_of(seed, f"leaf{n + 1}", skew, length) for n in leaves}


def write_incident(directory: Path, outcome: Outcome, clocks: dict[str, Clock], truth: dict[str, Any], what: Collection = Collection()) -> None:
    """Writes traces, counters, wiring, logs and `truth.json` below `directory`, which is made.

    Raises:
        OSError: a file cannot be written.
    """
    cluster = outcome.scenario.cluster
    meters = Meters(outcome, what.interval_ns)
    files: dict[str, bytes] = {}
    for rank in range(cluster.world):
        name = cluster.host_name(cluster.host_of(rank))
        if rank not in what.missing:
            text = trace_of(outcome, rank, clocks[name], what.generation, what.dropped)
            files[f"traces/{name}_{pid_of(rank)}.{1_785_000_000_000 + rank}.pt.trace.json.gz"] = compressed(text)
        if what.logs:
            files[f"nccl/nccl.{name}.{pid_of(rank)}.log"] = log_of(outcome, rank).encode()
    for host in range(cluster.hosts):
        name = cluster.host_name(host)
        if what.counters == "ethtool":
            files[f"counters/{name}.ethtool.log"] = adapter_log(meters, host, clocks[name]).encode()
            files[f"counters/{name}.ibdev2netdev.txt"] = adapter_names(meters).encode()
    if what.counters == "prometheus":
        answers = prometheus(meters, {0: clocks[cluster.host_name(0)]})
        files |= {f"metrics/{name}.json": text.encode() for name, text in answers.items()}
    if what.switches:
        files |= {f"switch/{name}.csv": ports_csv(meters, int(name[4:]) - 1, clock).encode() for name, clock in clocks.items() if name.startswith("leaf")}
    if what.wiring:
        files["topology.csv"] = wiring_csv(meters).encode()
    files["truth.json"] = (json.dumps(truth, indent=1, sort_keys=True) + "\n").encode()
    for name, content in sorted(files.items()):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
