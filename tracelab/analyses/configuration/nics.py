"""Network adapters: one that is far from its GPU while a near one is free, ones that are missing, ones that nobody uses."""

from __future__ import annotations

import polars as pl

from tracelab.analyses.configuration.issue import Issue, Proof, proofs
from tracelab.analyses.configuration.local import bus_number
from tracelab.analyses.configuration.setup import RDMA, Setup, hosts_named, ranks_of, troubled, who
from tracelab.results import Confidence, FindingSeverity, Link
from tracelab.units import format_share

__all__ = ["far_adapter", "missing_adapters", "uneven_rails"]

_DISTANCE = {"LOC": 0, "NVL": 1, "NVB": 2, "C2C": 3, "PIX": 4, "PXB": 5, "P2C": 6, "PXN": 7, "PHB": 8, "SYS": 9, "NET": 10, "DIS": 11}
_NEAR, _FAR = _DISTANCE["P2C"], _DISTANCE["PHB"]
_OVER_ADAPTER = pl.col("net_device").is_not_null() & ~pl.col("transport").str.starts_with("NET/Socket")
_LARGE = 0.25
"""Share of a host's network bandwidth from which its loss is major: as for losses of time."""


def far_adapter(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """Connections through an adapter across the CPU or the other socket, while one behind the GPU's own switch carries nothing.

    Data that leaves through another rank's adapter (PXN) takes NVLink to it, and is left out.
    """
    distance = _distances(s)
    gpu = s.comms.select("unit", bus_number(pl.col("bus_id")).alias("bus")).drop_nulls().unique("unit", keep="first", maintain_order=True)
    used = s.network.filter(_OVER_ADAPTER & pl.col("proxy_rank").is_null()).join(gpu, on="unit", how="inner", maintain_order="left")
    used = used.join(distance, on=["host", "bus", "net_device"], how="inner", maintain_order="left")
    far = used.filter(pl.col("distance") >= _FAR)
    busy = s.network.select("host", "net_device").drop_nulls().unique()
    free = distance.filter(pl.col("distance") <= _NEAR).join(busy, on=["host", "net_device"], how="anti")
    near = free.sort("distance", "net_device").unique(["host", "bus"], keep="first", maintain_order=True)
    near = near.select("host", "bus", pl.col("net_device").alias("near_device"), pl.col("path").alias("near_path"), pl.col("gb_per_s").alias("near_gb_per_s"))
    far = far.join(near, on=["host", "bus"], how="inner", maintain_order="left")
    if not far.height:
        return []
    far = _named(s, far, "net_device", "nic")
    hosts = tuple(sorted(set(far["host"].to_list())))
    certain = set(hosts) <= s.complete_hosts
    lost = far.select((1 - pl.col("gb_per_s") / pl.col("near_gb_per_s")).max()).item()
    severity: FindingSeverity = "major" if lost is not None and lost >= _LARGE else "minor"
    confidence: Confidence = "likely" if certain else "possible"
    row = far.row(0, named=True)
    slower = f", whose path is {format_share(lost)} slower," if lost is not None and lost > 0 else ""
    text = f"network traffic takes adapter {row['nic'] or row['net_device']} at distance {row['path']}{slower} while adapter {row['near_device']} at distance "
    text += f"{row['near_path']} carries {'nothing' if certain else 'nothing that was logged'}"
    return [
        Issue(
            check="far-adapter",
            subject=hosts,
            kind="transport_fallback",
            severity=severity,
            confidence=confidence,
            says=f"{who(far['unit'])} on {hosts_named(hosts)}: {text}",
            next_step="check NCCL_IB_HCA, NCCL_CROSS_NIC and NCCL_TOPO_FILE, and which GPU and adapters each process is given (nvidia-smi topo -m)",
            ranks=ranks_of(far),
            hosts=hosts,
            links=_links(far),
            proofs=(*proofs(far, "connection via {transport}/{net_device}"), *_distance_proofs(far)),
        )
    ]


def _distance_proofs(far: pl.DataFrame) -> list[Proof]:
    lines = far.select("host", "rank", pl.col("path_source").alias("source_id"), pl.col("path_line").alias("line"), "net_device", "path", "nic")
    return proofs(lines, "path to adapter {net_device}: {path}", 2)


def _distances(s: Setup) -> pl.DataFrame:
    """host, bus, net_device, path, distance, gb_per_s and the line: from GPUs to adapters."""
    rows = s.paths.filter(pl.col("src").str.starts_with("GPU/") & pl.col("dst").str.starts_with("NET/"))
    rows = rows.with_columns(
        bus_number(pl.col("src")).alias("bus"),
        pl.col("dst").str.extract(r"([0-9A-Fa-f]+)$").str.to_integer(base=16, dtype=pl.Int32, strict=False).alias("net_device"),
        pl.col("path").replace_strict(_DISTANCE, default=None, return_dtype=pl.Int32).alias("distance"),
    )
    rows = rows.unique(["host", "bus", "net_device"], keep="first", maintain_order=True)
    gb = pl.col("bandwidth_gb_per_s").alias("gb_per_s")
    return rows.select("host", "bus", "net_device", "path", "distance", gb, pl.col("source_id").alias("path_source"), pl.col("line").alias("path_line"))


def _named(s: Setup, frame: pl.DataFrame, index: str, name: str) -> pl.DataFrame:
    names = s.device_names.rename({"net_device": index, "nic": name})
    return frame.join(names, on=["unit", index], how="left", maintain_order="left")


def _links(frame: pl.DataFrame) -> tuple[Link, ...]:
    rows = frame.select("host", "nic").drop_nulls().unique().sort("host", "nic")
    return tuple(Link(host=h or None, nic=n) for h, n in rows.iter_rows())


def _listed(s: Setup) -> dict[str, dict[int, frozenset[str]]]:
    """Names of the adapters that each process lists, by host and process; merged devices count as their parts."""
    rows = s.devices.filter(RDMA & pl.col("name").is_not_null()).with_columns(pl.col("name").str.split("+")).explode("name")
    out: dict[str, dict[int, frozenset[str]]] = {}
    for (host, unit), part in rows.group_by("host", "unit", maintain_order=True):
        out.setdefault(str(host), {})[int(unit)] = frozenset(part["name"].to_list())
    return out


def missing_adapters(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """A host that lists fewer adapters than most others: the library lists only ports that are up, and that it may use."""
    listed = _listed(s)
    full: dict[str, frozenset[str]] = {h: frozenset().union(*units.values()) for h, units in listed.items()}
    most = _usual([len(names) for names in full.values()])
    usual = most or max((len(names) for names in full.values()), default=0)
    # Where each process is given adapters of its own, a host shows all of them only if all its processes do.
    pinned = any(len(set(units.values())) > 1 for units in listed.values())
    enough = min((len(listed[h]) for h in full if len(full[h]) == usual), default=0) if pinned else 0
    less = sorted(h for h in full if len(full[h]) < usual and len(listed[h]) >= enough)
    if not less:
        return []
    everywhere = frozenset.intersection(*(names for names in full.values() if len(names) == usual))
    gone = {h: sorted(everywhere - full[h]) for h in less}
    names = sorted({n for g in gone.values() for n in g})
    used = set(_used_names(s).filter(~pl.col("host").is_in(less))["nic"].to_list())
    idle = bool(used) and all(gone.values()) and not used & set(names)
    share = max(1 - len(full[h]) / usual for h in less)
    filtered = _other_filter(s, less)
    lists = s.devices.filter(RDMA)
    here, there = lists.filter(pl.col("host").is_in(less)), lists.filter(~pl.col("host").is_in(less))
    what = f" ({', '.join(names[:4])} missing)" if names else ""
    ports = "check the ports of these adapters (ibstat, ibdev2netdev): down, or hidden from the container"
    return [
        Issue(
            check="missing-adapters",
            subject=tuple(less),
            kind="misconfiguration" if filtered.height else "transport_fallback",
            severity="info" if idle else "major" if used and most and share >= _LARGE / 2 else "minor",
            confidence="likely" if most and not idle else "possible",
            says=f"{hosts_named(less)}: the library lists {len(full[less[0]])} network adapters{what}, on {'the other' if most else 'other'} hosts {usual}",
            next_step="compare NCCL_IB_HCA with the other hosts" if filtered.height else ports,
            ranks=ranks_of(here),
            hosts=tuple(less),
            links=tuple(Link(host=h or None, nic=n) for h in less for n in gone[h]),
            proofs=(*proofs(here, "lists adapter {name}"), *proofs(there, "lists adapter {name}", 1), *proofs(filtered, "{name}={value}", 1)),
            explains=frozenset(filtered["name"].to_list()) | troubled(less),
        )
    ]


def _other_filter(s: Setup, hosts: list[str]) -> pl.DataFrame:
    """The choice of adapters of these hosts, where the other hosts do not state the same."""
    chosen = s.setting("NCCL_IB_HCA")
    elsewhere = chosen.filter(~pl.col("host").is_in(hosts))["value"].to_list()
    return chosen.filter(pl.col("host").is_in(hosts) & ~pl.col("value").is_in(elsewhere))


def _usual(values: list[int]) -> int | None:
    """The value of more than half of them, or None."""
    return next((v for v in sorted(set(values)) if values.count(v) * 2 > len(values)), None)


def _used_names(s: Setup) -> pl.DataFrame:
    """Connections between hosts of the largest communicator's collectives, with the adapters' names (merged ones in parts).

    Only there do all hosts have the same part: pipeline stages and small groups use adapters unevenly by design.
    """
    rows = s.network.filter(_OVER_ADAPTER & (pl.col("size") == pl.lit(s.comms["size"].max(), pl.Int32)) & (pl.col("connection").fill_null(0) == 0))
    named = _named(s, rows, "net_device", "nic").filter(pl.col("nic").is_not_null())
    return named.with_columns(pl.col("nic").str.split("+")).explode("nic")


def uneven_rails(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """Adapters that are listed and carry no channel: on some hosts only (a fault), or on all (worth a look, no more)."""
    used = _used_names(s).filter(pl.col("host").is_in(sorted(s.complete_hosts)))
    if not used.height:
        return []
    listed = {h: frozenset().union(*units.values()) for h, units in _listed(s).items()}
    busy = {str(h): frozenset(p["nic"].to_list()) for (h,), p in used.group_by("host", maintain_order=True)}
    units = dict(s.processes.group_by("host").agg(pl.col("unit").n_unique()).iter_rows())
    idle = {h: sorted(listed[h] - b) for h, b in busy.items() if listed.get(h, frozenset()) - b}
    if not idle:
        return []
    usual, ranks = _usual([len(b) for b in busy.values()]), _usual([int(units[h]) for h in busy])
    less = sorted(
        h for h in idle if usual is not None and len(busy[h]) < usual and len(listed[h]) >= usual and units[h] == ranks and not troubled([h]) & explained
    )
    if less and len(busy) > 2 and usual is not None:
        share = max(1 - len(busy[h]) / usual for h in less)
        return [
            _rails(
                s, used, less, idle, "major" if share >= _LARGE else "minor", "likely", f"the largest communicator uses {usual} adapters on most hosts, here"
            )
        ]
    if len(busy) == 2 and len(idle) == 1 and len({len(b) for b in busy.values()}) == 2:
        return [
            _rails(
                s,
                used,
                sorted(idle),
                idle,
                "info",
                "possible",
                f"the largest communicator uses {max(map(len, busy.values()))} adapters on the other host, here",
            )
        ]
    crowded = used.group_by("host", "nic").agg(pl.col("channels").sum())["channels"].min()
    if len(idle) == len(busy) and isinstance(crowded, int) and crowded > 1:
        return [_rails(s, used, sorted(idle), idle, "info", "possible", "of the adapters that each host lists, the largest communicator uses")]
    return []


def _rails(s: Setup, used: pl.DataFrame, hosts: list[str], idle: dict[str, list[str]], severity: FindingSeverity, confidence: Confidence, where: str) -> Issue:
    rows = used.filter(pl.col("host").is_in(hosts))
    free = idle[hosts[0]]
    busy = sorted(set(rows.filter(pl.col("host") == hosts[0])["nic"].to_list()))
    unused = s.devices.filter(RDMA & pl.col("host").is_in(hosts) & pl.col("name").is_in(sorted({n for h in hosts for n in idle[h]})))
    return Issue(
        check="uneven-rails",
        subject=tuple(hosts),
        kind="transport_fallback",
        severity=severity,
        confidence=confidence,
        says=f"{hosts_named(hosts)}: {where} {len(busy)} ({', '.join(busy[:4])}); none of its channels is on {', '.join(free[:4])}",
        next_step="check NCCL_IB_HCA, NCCL_CROSS_NIC, NCCL_MIN_NCHANNELS and the topology file; leave adapters that serve storage out with NCCL_IB_HCA=^name",
        ranks=ranks_of(rows) if severity != "info" else (),
        hosts=tuple(hosts),
        links=tuple(Link(host=h or None, nic=n) for h in hosts for n in idle[h]) if severity != "info" else (),
        proofs=(*proofs(rows, "connection via {transport}/{net_device}"), *proofs(unused, "lists adapter {name}", 1)),
    )
