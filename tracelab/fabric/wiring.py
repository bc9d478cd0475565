"""From what sources say of interfaces and cables to the links of the job's network."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from tracelab.fabric.adapters import Adapter, Adapters
from tracelab.fabric.machines import Machines
from tracelab.tables import LINKS

__all__ = ["End", "Link", "links_frame", "natural", "wire"]

End = tuple[str, str]
"""A machine and the name of one of its adapters."""


@dataclass
class Link:
    """A link by its ends; B is None where nothing states it. `tier`: 0 from a host, 1 between switches."""

    a: End
    b: End | None
    tier: int
    speed_bps: int | None = None
    speed_origin: str | None = None
    cable: str | None = None
    origins: set[str] = field(default_factory=set)


def wire(
    cables: Sequence[Mapping[str, object]], adapters: Adapters, machines: Machines, counting: Iterable[End], speed_bps: int | None = None
) -> tuple[list[Link], list[str]]:
    """The links, and the cables that contradict them.

    All links that touch a host of the job, a switch of theirs, or another switch beside it.

    `cables`: rows of the table `cables`, with resolved machines; `counting`: ends that have counters. An adapter of a job's
    host, and a port of a switch with counters, that no cable names is a link whose other end is unknown; of switches that no
    cable ties to the job only where none is tied to it. `speed_bps` is that of links of which no source states one.
    """
    links: dict[tuple[End, End | None], Link] = {}
    for row in cables:
        ends = [_end(row, side, adapters) for side in "ab"]
        if row["up"] is False:
            continue
        kinds = [_kind(row, side, machines) for side in "ab"]
        if (kinds[0] != "host" and kinds[1] == "host") or (kinds[0] == kinds[1] and _higher(row, ends)):
            ends.reverse()
            kinds.reverse()
        a, b = ends
        if a is None or b is None:
            continue
        tier = 0 if kinds[0] == "host" else 1
        link = links.setdefault((a, b), Link(a, b, tier))
        link.origins.add(str(row["origin"]))
        if link.speed_bps is None and row["speed_bps"]:
            link.speed_bps, link.speed_origin = int(str(row["speed_bps"])), str(row["origin"])
        link.cable = link.cable or (str(row["cable"]) if row["cable"] else None)
    out, contradicted = _one_per_end(links)
    out += _open_ends(out, adapters, machines, counting)
    for link in out:
        _complete(link, adapters)
    if speed_bps is None:
        _speeds_of_peers(out)
    for link in out:
        if link.speed_bps is None and speed_bps is not None:
            link.speed_bps, link.speed_origin = speed_bps, "manifest"
    return sorted(out, key=lambda x: (x.tier, x.a, x.b or ("", ""))), contradicted


def _end(row: Mapping[str, object], side: str, adapters: Adapters) -> End | None:
    machine = row[f"{side}_machine"]
    port, device = row[f"{side}_port"], row[f"{side}_device"]
    adapter = adapters.find(str(machine) if machine else None, device, port, uid=row[f"{side}_port_uid"])
    if adapter is not None:
        return adapter.machine, adapter.name
    name = device or port
    return (str(machine), str(name)) if machine and name else None


def _kind(row: Mapping[str, object], side: str, machines: Machines) -> str:
    if row[f"{side}_machine"] in machines.job_hosts:
        return "host"
    return str(row[f"{side}_kind"] or "switch")


def _higher(row: Mapping[str, object], ends: Sequence[End | None]) -> bool:
    """Whether A lies above B: by tier where stated, else by name, so that a cable stated from both sides is one."""
    a, b = row["a_tier"], row["b_tier"]
    if isinstance(a, int) and isinstance(b, int) and a != b:
        return a > b
    return ends[0] is not None and ends[1] is not None and ends[0] > ends[1]


def _one_per_end(links: Mapping[tuple[End, End | None], Link]) -> tuple[list[Link], list[str]]:
    """Links whose ends no other statement contradicts (of two that claim one end, the one with more sources, then the first), and the others."""
    taken: set[End] = set()
    out, contradicted = [], []
    for link in sorted(links.values(), key=lambda x: -len(x.origins)):
        ends = {e for e in (link.a, link.b) if e is not None}
        if ends & taken:
            contradicted.append(" to ".join(" ".join(e) for e in (link.a, link.b) if e is not None))
        else:
            out.append(link)
            taken |= ends
    return out, contradicted


def _open_ends(links: Sequence[Link], adapters: Adapters, machines: Machines, counting: Iterable[End]) -> list[Link]:
    known = {e for x in links for e in (x.a, x.b)}
    switches = {x.b[0] for x in links if x.tier == 0 and x.b is not None}
    out = []
    for machine, name in sorted(set(counting)):
        adapter = adapters.find(machine, name)
        end = (machine, adapter.name if adapter is not None else name)
        if end in known:
            continue
        known.add(end)
        if machine in machines.job_hosts:
            out.append(Link(end, None, 0, origins={"counters"}))
        elif machine in switches or not switches:  # where no cable is known at all, any port may be the job's
            out.append(Link(end, None, 1, origins={"counters"}))
    return out


def _complete(link: Link, adapters: Adapters) -> None:
    for end in (link.a, link.b):
        adapter = adapters.find(*end) if end is not None else None
        if adapter is None:
            continue
        link.cable = link.cable or adapter.cable
        if link.speed_bps is None and adapter.speed_bps is not None:
            link.speed_bps, link.speed_origin = adapter.speed_bps, adapter.speed_origin


def _speeds_of_peers(links: Sequence[Link]) -> None:
    """Links of a tier without a speed get that of all others of the tier, where those agree."""
    known: dict[int, Counter[int]] = defaultdict(Counter)
    for link in links:
        if link.speed_bps is not None:
            known[link.tier][link.speed_bps] += 1
    for link in links:
        if link.speed_bps is None and len(known[link.tier]) == 1:
            link.speed_bps, link.speed_origin = next(iter(known[link.tier])), "peers"


def links_frame(links: Sequence[Link], adapters: Adapters, counting: Iterable[End]) -> pl.DataFrame:
    """The table `links`, numbered in the order given. `counting`: ends that have counters."""
    counted = {(m, a.name if (a := adapters.find(m, n)) is not None else n) for m, n in counting}
    rails = _rails(links)
    rows = []
    for number, link in enumerate(links):
        a = adapters.find(*link.a)
        rows.append(
            {
                "link": number,
                "a_node": link.a[0],
                "a_device": a.device if a is not None else link.a[1] if link.tier == 0 else None,
                "a_port": _port(a) or (link.a[1] if link.tier else None),
                "b_node": link.b[0] if link.b is not None else None,
                "b_port": link.b[1] if link.b is not None else None,
                "tier": link.tier,
                "rail": rails.get(link.a),
                "speed_bps": link.speed_bps,
                "speed_origin": link.speed_origin,
                "cable": link.cable,
                "a_series": link.a in counted,
                "b_series": link.b in counted,
                "origin": "+".join(sorted(link.origins)),
            }
        )
    return LINKS.conform(pl.DataFrame(rows, schema=LINKS.polars))


def _port(adapter: Adapter | None) -> str | None:
    if adapter is None:
        return None
    return adapter.netdev or (str(adapter.port) if adapter.port is not None and adapter.kind == "switch" else None)


def _rails(links: Sequence[Link]) -> dict[End, int]:
    by_host: dict[str, list[End]] = defaultdict(list)
    for link in links:
        if link.tier == 0:
            by_host[link.a[0]].append(link.a)
    return {end: n for ends in by_host.values() for n, end in enumerate(sorted(ends, key=natural))}


def natural(end: End) -> list[tuple[str, int]]:
    """Sorts mlx5_2 before mlx5_10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", " ".join(end))]
