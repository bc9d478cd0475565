"""What is simulated, and what comes of it. Times are true time in ns from the first step's start, unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Cluster", "Collective", "Fault", "FaultKind", "GpuSpan", "Group", "HostSpan", "Job", "Layout", "LinkLoad", "Outcome", "Scenario"]

Layout = Literal["ddp", "ddp_single_bucket", "fsdp", "tp_dp", "pp_dp", "moe"]
FaultKind = Literal[
    "slow_gpu",
    "thermal_throttle",
    "slow_link",
    "packet_loss",
    "link_flap",
    "congestion",
    "ecmp_collision",
    "input_stall",
    "host_stall",
    "periodic_jitter",
    "numa_misbind",
    "launch_bound",
    "no_overlap",
    "pipeline_imbalance",
    "load_imbalance",
    "hang",
]


@dataclass(frozen=True)
class Cluster:
    """Hosts of equal GPUs behind leaf switches, leaves behind spines.

    `nic_gbps`: speed of an adapter, one way; `nvlink_gbytes_s`: of a GPU to the others of its host, one way. `uplinks`: of each
    leaf, one to each spine, as fast as `uplink_gbps`.
    """

    hosts: int = 2
    gpus: int = 4
    nics: int = 2
    nic_gbps: float = 200.0
    nvlink_gbytes_s: float = 200.0
    hosts_per_leaf: int = 16
    uplinks: int = 4
    uplink_gbps: float = 400.0
    first_host: int = 1

    @property
    def world(self) -> int:
        """GPUs, of one rank each."""
        return self.hosts * self.gpus

    def host_of(self, rank: int) -> int:
        """Index of the rank's host."""
        return rank // self.gpus

    def nic_of(self, rank: int) -> int:
        """Index of the adapter on its host that is nearest to the rank's GPU."""
        return rank % self.gpus * self.nics // self.gpus

    def leaf_of(self, host: int) -> int:
        """Index of the leaf switch of a host."""
        return host // self.hosts_per_leaf

    def host_name(self, host: int) -> str:
        """Name of a host."""
        return f"node{self.first_host + host:02d}"


@dataclass(frozen=True)
class Job:
    """A training job. `compute_ms`: compute of a layer forward (backward takes twice that); `layer_mbytes`: of a layer's parameters.

    `tp`, `pp`: size of tensor- and pipeline-parallel groups in the layouts that have them; `micro`: micro-batches of a pipeline step.
    `kernels`: compute kernels of a layer forward; `launch_us`: host time of a launch.
    """

    layout: Layout = "ddp"
    steps: int = 8
    first_step: int = 10
    layers: int = 6
    compute_ms: float = 4.0
    layer_mbytes: float = 100.0
    kernels: int = 4
    tp: int = 2
    pp: int = 4
    micro: int = 8
    loader_ms: float = 0.5
    launch_us: float = 8.0


@dataclass(frozen=True)
class Fault:
    """What goes wrong. `onset`, `end`: share of the run's steps from which and up to which it lasts.

    `ranks`, `hosts`: indices, empty for all; `nic`: index of the adapter on `hosts[0]`, for faults of links. `size` by kind: factor
    of compute time (slow_gpu, thermal_throttle at its worst, pipeline_imbalance of the last stage), share of the link's speed that
    is left (slow_link), share of packets lost (packet_loss), seconds (input_stall, host_stall per event, link_flap),
    mean share of speed left (congestion), ms per event (periodic_jitter), factor of launch cost (launch_bound, numa_misbind),
    sigma of the logarithm (load_imbalance). `period_s`: of periodic_jitter; `every`: steps between stalls.
    """

    kind: FaultKind
    size: float = 0.0
    ranks: tuple[int, ...] = ()
    hosts: tuple[int, ...] = ()
    nic: int = 0
    onset: float = 0.0
    end: float = 1.0
    period_s: float = 0.0
    every: int = 1

    def on(self, rank: int, host: int) -> bool:
        """Whether it is of this rank."""
        return (not self.ranks or rank in self.ranks) and (not self.hosts or host in self.hosts)


@dataclass(frozen=True)
class Scenario:
    """All that a run depends on: two equal scenarios give equal outcomes."""

    cluster: Cluster = Cluster()
    job: Job = Job()
    faults: tuple[Fault, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Group:
    """A process group: `ranks` in the order of their place in it."""

    number: int
    kind: Literal["world", "dp", "tp", "pp"]
    ranks: tuple[int, ...]


@dataclass
class Collective:
    """One operation: `bytes` of the whole tensor; `starts`, `ends` by rank; `began`, `ended`: when bytes moved."""

    number: int
    group: int
    seq: int
    operation: str
    bytes: int
    members: tuple[int, ...]
    step: int
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, Callable[[int], None]] = field(default_factory=dict, repr=False)
    began: int = -1
    ended: int = -1


@dataclass(frozen=True)
class GpuSpan:
    """Work of a stream: `kind` kernel, copy or collective; `collective`: its number, or -1; `correlation`: of its launch."""

    name: str
    kind: Literal["kernel", "copy", "collective"]
    stream: int
    start: int
    end: int
    correlation: int
    collective: int = -1
    bytes: int = 0


@dataclass(frozen=True)
class HostSpan:
    """What the host did: a runtime call, an operator, a range of the loader, or a step. Without a correlation: 0."""

    name: str
    kind: Literal["runtime", "operator", "loader", "step", "collective"]
    start: int
    end: int
    correlation: int = 0
    collective: int = -1


@dataclass(frozen=True)
class LinkLoad:
    """What a link carried one way from `start` to `end`, bytes per second. Names are those of `tracelab.simulate.network`."""

    link: str
    start: int
    end: int
    bytes_per_s: float


@dataclass
class Outcome:
    """What happened: per rank its GPU and host spans in order of start, and its steps (number, start, end)."""

    scenario: Scenario
    groups: Sequence[Group]
    gpu: list[list[GpuSpan]]
    host: list[list[HostSpan]]
    steps: list[list[tuple[int, int, int]]]
    collectives: list[Collective]
    loads: list[LinkLoad]
    stalled: bool = False

    @property
    def step_ends(self) -> list[int]:
        """The moment by which all ranks had ended each step (those that every rank ended)."""
        counts = min(len(s) for s in self.steps)
        return [max(s[n][2] for s in self.steps) for n in range(counts)]
