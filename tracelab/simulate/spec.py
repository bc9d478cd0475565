"""Scenarios from the words of a command, and whether they make sense."""

from __future__ import annotations

from tracelab.errors import UnknownNameError, UsageError
from tracelab.simulate.faults import OF_LINKS
from tracelab.simulate.model import Fault, FaultKind, Scenario

__all__ = ["DEFAULT_SIZE", "MOST_RANKS", "check", "fault_from"]

MOST_RANKS = 4096
DEFAULT_SIZE: dict[FaultKind, float] = {
    "slow_gpu": 1.3,
    "thermal_throttle": 1.3,
    "slow_link": 0.3,
    "packet_loss": 0.001,
    "link_flap": 0.3,
    "congestion": 0.5,
    "ecmp_collision": 0.0,
    "input_stall": 0.03,
    "host_stall": 0.2,
    "periodic_jitter": 5.0,
    "numa_misbind": 1.5,
    "launch_bound": 20.0,
    "no_overlap": 0.0,
    "pipeline_imbalance": 1.2,
    "load_imbalance": 0.1,
    "hang": 0.0,
}
_NUMBERS = ("size", "onset", "end", "period_s")
_LISTS = ("ranks", "hosts")
_COUNTS = ("nic", "every")


def fault_from(text: str) -> Fault:
    """The fault that a text like `slow_gpu:ranks=5,size=1.3` describes; several ranks or hosts are joined by `+`.

    Raises:
        UnknownNameError: no fault or setting is called so.
        UsageError: a value is no number.
    """
    kind, _, rest = text.partition(":")
    if kind not in DEFAULT_SIZE:
        raise UnknownNameError("fault", kind, list(DEFAULT_SIZE))
    values: dict[str, float | int | tuple[int, ...]] = {"size": DEFAULT_SIZE[kind]}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key not in (*_NUMBERS, *_LISTS, *_COUNTS):
            raise UnknownNameError("setting of a fault", key, [*_NUMBERS, *_LISTS, *_COUNTS])
        try:
            if key in _LISTS:
                values[key] = tuple(int(n) for n in value.split("+"))
            else:
                values[key] = int(value) if key in _COUNTS else float(value)
        except ValueError as e:
            raise UsageError(f"{part!r} in the fault {text!r} is no number", hint="as in slow_gpu:ranks=5+6,size=1.3,onset=0.2,end=0.8") from e
    return Fault(kind, **values)  # type: ignore[arg-type]  # each value has the type of its key


def check(scenario: Scenario) -> None:
    """Whether a scenario can be run.

    Raises:
        UsageError: it cannot; the text says why.
    """
    cluster, job = scenario.cluster, scenario.job
    world = cluster.world
    if not 2 <= world <= MOST_RANKS or not 1 <= cluster.nics <= cluster.gpus:
        raise UsageError(
            f"{cluster.hosts} hosts of {cluster.gpus} GPUs and {cluster.nics} adapters cannot be simulated",
            hint=f"2 to {MOST_RANKS} ranks, and 1 adapter to 1 per GPU",
        )
    for size, layout, name in ((job.tp, "tp_dp", "tensor-parallel"), (job.pp, "pp_dp", "pipeline")):
        if job.layout == layout and (size < 2 or world % size):
            raise UsageError(f"{world} ranks cannot be split into {name} groups of {size}", hint=f"choose a size of at least 2 that divides {world}")
    for f in scenario.faults:
        if any(not 0 <= r < world for r in f.ranks) or any(not 0 <= h < cluster.hosts for h in f.hosts) or not 0 <= f.nic < cluster.nics:
            raise UsageError(
                f"the fault {f.kind} names a rank, host or adapter that is not there",
                hint=f"ranks 0 to {world - 1}, hosts 0 to {cluster.hosts - 1}, adapters 0 to {cluster.nics - 1}",
            )
        if not 0 <= f.onset < f.end <= 1 or f.size < 0 or f.every < 1:
            raise UsageError(
                f"the fault {f.kind} lasts from {f.onset} to {f.end} of the run, of size {f.size}",
                hint="onset and end are shares of the run, from 0 to 1; size is not negative",
            )
        if f.kind in OF_LINKS and not f.hosts:
            raise UsageError(f"the fault {f.kind} needs the hosts whose cable it is on", hint=f"for example {f.kind}:hosts=1,nic=0")
        if f.kind == "ecmp_collision" and (not f.hosts or cluster.leaf_of(cluster.hosts - 1) == 0):
            raise UsageError(
                "the fault ecmp_collision needs hosts, and more than one leaf switch", hint="for example ecmp_collision:hosts=0+1 with --hosts-per-leaf 4"
            )
        if f.kind == "hang" and not f.ranks:
            raise UsageError("the fault hang needs the rank that stops", hint="for example hang:ranks=3,onset=0.5")
        if f.kind == "periodic_jitter" and f.period_s <= 0:
            raise UsageError("the fault periodic_jitter needs a period", hint="for example periodic_jitter:hosts=1,period_s=0.05")
        if f.kind == "pipeline_imbalance" and job.layout != "pp_dp":
            raise UsageError("only a pipeline has unequal stages", hint="--layout pp_dp")
