"""`tracelab simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tracelab.cli.console import file_faults, say
from tracelab.errors import UsageError

if TYPE_CHECKING:
    from tracelab.simulate.model import Scenario

__all__ = ["simulate"]

_Layout = Literal["ddp", "ddp_single_bucket", "fsdp", "tp_dp", "pp_dp", "moe"]
_Generation = Literal["2022", "2024", "2026"]
_Counters = Literal["ethtool", "prometheus", "none"]


def simulate(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Directory to make.", show_default=False)],
    *,
    layout: Annotated[_Layout, typer.Option("--layout", help="How the job is parallel.")] = "ddp",
    hosts: Annotated[int, typer.Option("--hosts", metavar="N", min=1, help="Hosts.")] = 2,
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", min=1, help="GPUs of each host, a rank each.")] = 4,
    nics: Annotated[int, typer.Option("--nics", metavar="N", min=1, help="Network adapters of each host.")] = 2,
    hosts_per_leaf: Annotated[int, typer.Option("--hosts-per-leaf", metavar="N", min=1, help="Hosts behind each leaf switch.")] = 16,
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=1, max=1000, help="Training steps.")] = 8,
    layers: Annotated[int, typer.Option("--layers", metavar="N", min=1, max=1000, help="Layers of the model.")] = 6,
    layer_mbytes: Annotated[float, typer.Option("--layer-mbytes", metavar="MB", min=0.001, help="Parameters of a layer.")] = 100.0,
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", metavar="FAULT", help="What goes wrong, as in slow_gpu:ranks=5,size=1.3,onset=0.2; may be given again.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Equal seeds give equal files.")] = 0,
    clock_offset_ms: Annotated[float, typer.Option("--clock-offset-ms", metavar="MS", min=0, help="How wrong clocks are at most.")] = 5.0,
    generation: Annotated[_Generation, typer.Option("--generation", help="Which traces: those of profilers of that year.")] = "2026",
    counters: Annotated[_Counters, typer.Option("--counters", help="Counters of adapters that were collected.")] = "ethtool",
    missing: Annotated[str | None, typer.Option("--missing", metavar="RANKS", help="Ranks without a trace, as in 3,7.", show_default=False)] = None,
    dropped: Annotated[float, typer.Option("--dropped", metavar="SHARE", min=0, max=1, help="Share of GPU events that profilers lost.")] = 0.0,
) -> None:
    """Makes a directory as a training job leaves it, with what is true of it in truth.json: to try tracelab on faults of your choice."""
    from tracelab.simulate.model import Cluster, Job, Scenario
    from tracelab.simulate.spec import check, fault_from

    cluster = Cluster(hosts=hosts, gpus=gpus, nics=min(nics, gpus), hosts_per_leaf=hosts_per_leaf)
    job = Job(layout=layout, steps=steps, layers=layers, layer_mbytes=layer_mbytes)
    scenario = Scenario(cluster, job, tuple(fault_from(text) for text in fault or ()), seed)
    check(scenario)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is there and not empty", hint="name a directory that is not there yet")
    _write(output, scenario, clock_offset_ms, generation, counters, _numbers(missing, cluster.world), dropped)


def _numbers(text: str | None, world: int) -> tuple[int, ...]:
    parts = [p.strip() for p in (text or "").split(",") if p.strip()]
    if any(not p.isascii() or not p.isdigit() or int(p) >= world for p in parts):
        raise UsageError(f"--missing {text} names no ranks of {world}", hint="ranks joined by commas, as in 3,7")
    return tuple(sorted({int(p) for p in parts}))


def _write(
    output: Path, scenario: Scenario, clock_offset_ms: float, generation: _Generation, counters: _Counters, missing: tuple[int, ...], dropped: float
) -> None:
    from tracelab.simulate import lost_ns, run
    from tracelab.simulate.clocks import Skew
    from tracelab.simulate.directory import Collection, clocks_of, write_incident
    from tracelab.simulate.truth import truth_of

    outcome = run(scenario)
    lost = lost_ns(scenario, outcome)
    clocks = clocks_of(outcome, Skew(offset_ms=clock_offset_ms))
    with file_faults(output):
        write_incident(output, outcome, clocks, truth_of(outcome, clocks, lost), Collection(generation, counters, missing=missing, dropped=dropped))
    length = (outcome.step_ends or [0])[-1] / 1e9
    say(f"{len(outcome.step_ends)} steps on {scenario.cluster.world} ranks, {length:.3f} s")
    for f, cost in zip(scenario.faults, lost, strict=True):
        say(f"{f.kind}: the job stands still" if cost is None else f"{f.kind}: {cost / 1e6:.1f} ms lost")
    say(f"wrote {output}; truth.json says what is true of it")
