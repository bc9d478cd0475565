"""Ranks that differ where they must not: versions, drivers, settings, channels, GPU models, CPU affinity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import polars as pl

from tracelab.analyses.configuration.issue import Issue, Proof, proofs
from tracelab.analyses.configuration.rules import ABSENCE_TELLS, AGREE, Rule
from tracelab.analyses.configuration.setup import Setup, hosts_named, ranks_of, who

__all__ = ["affinities", "fewer_channels", "mixed", "mixed_gpus"]


def mixed(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """Properties of which ranks state different values: the fewer ones are the subject, of two equal halves both."""
    issues: list[Issue] = []
    for name, rule in AGREE.items():
        rows = _stated(s, name)
        if name in explained or not rows.height:
            continue
        found = [i for part in _comparable(name, rows) if (i := _conflict(name, rule, part)) is not None]
        if not found and name in ABSENCE_TELLS:
            found = [i for i in [_absent(s, name, rule, rows)] if i is not None]
        issues.extend(found[:1])
    return issues


def _comparable(name: str, rows: pl.DataFrame) -> list[pl.DataFrame]:
    """Rows that say the same kind of thing: of a network plugin some lines give the version, others what it chose."""
    if name != "net_plugin":
        return [rows]
    says = pl.when(pl.col("value").str.starts_with("OFI provider")).then(1).when(pl.col("value").str.contains(r"^aws-ofi-nccl \S")).then(2).otherwise(0)
    return rows.with_columns(says.alias("says")).partition_by("says", maintain_order=True, include_key=False)


def _members(s: Setup) -> list[int]:
    """Processes that surely belong to the job: of known rank, or with a communicator. Others may be of another launch."""
    units = s.processes.filter(pl.col("rank") >= 0)["unit"].to_list() + s.comms["unit"].to_list()
    return sorted(set(units))


def _stated(s: Setup, name: str) -> pl.DataFrame:
    rows = s.setting(name).filter(pl.col("unit").is_in(_members(s))).with_columns(pl.col("value").str.strip_chars(" ").str.strip_suffix("."))
    if name == "NCCL_TOPO_FILE":
        # A plugin passes the file as an open descriptor, whose number is the process' own.
        return rows.filter(~pl.col("value").str.starts_with("/proc/"))
    if name != "version":
        return rows
    silent = s.comms.filter(pl.col("version").is_not_null()).join(rows.select("unit").unique(), on="unit", how="anti")
    columns = ["source_id", "part", "rank", "unit", "host", "line"]
    both = pl.concat([rows.select(*columns, "value"), silent.select(*columns, pl.col("version").alias("value"))])
    # 2.21.5 and 2.21.5+cuda12.4 are one version, stated by two kinds of line.
    return both.with_columns(pl.col("value").str.extract(r"(\d+\.\d+(?:\.\d+)?)").fill_null(pl.col("value")))


def _odd(values: Mapping[int, frozenset[str]]) -> tuple[str, str | None, list[int]] | None:
    """The usual value, the other one of a tie (else None), and the units that do not have the usual one; None where all agree."""
    counts = Counter(v for vs in values.values() for v in vs)
    order = sorted(counts, key=lambda v: (-counts[v], v))
    usual = order[0]
    odd = sorted(u for u, vs in values.items() if usual not in vs)
    if not odd:
        return None
    tie = order[1] if counts[order[1]] == counts[usual] and all(order[1] in values[u] for u in odd) else None
    return usual, tie, odd


def _conflict(name: str, rule: Rule, rows: pl.DataFrame) -> Issue | None:
    values = {int(u): frozenset(part["value"].to_list()) for (u,), part in rows.group_by("unit", maintain_order=True)}
    found = _odd(values)
    if found is None:
        return None
    usual, tie, odd = found
    those, others = rows.filter(pl.col("unit").is_in(odd)), rows.filter(~pl.col("unit").is_in(odd))
    theirs = ", ".join(sorted(set(those["value"].to_list()))[:4])
    if tie is not None:
        says = f"{rule.title} differs: {_place(others)} {usual}, {_place(those)} {tie}; {rule.reason}"
    else:
        says = f"{_place(those)}: {rule.title} is {theirs}, on the other {others['unit'].n_unique()} ranks {usual}; {rule.reason}"
    subject = rows if tie is not None else those
    lines = (*proofs(those, f"{name} {{value}}", 2), *proofs(others, f"{name} {{value}}", 2 if tie is not None else 1))
    return _issue(name, rule, says, subject, lines)


def _absent(s: Setup, name: str, rule: Rule, rows: pl.DataFrame) -> Issue | None:
    """A setting that some hosts print and others do not, though those print other settings: it is not set there."""
    rows = rows.filter(pl.col("origin") == "environment")  # a plugin may set it in the first process only
    having = set(rows["host"].to_list())
    if not rows.height:
        return None
    # Only a rank that initialised a communicator has read everything that it reads.
    ready = set(s.comms.filter(pl.col("state").is_in(["complete", "destroyed"]))["host"].to_list())
    environment = s.settings.filter((pl.col("origin") == "environment") & pl.col("name").is_in(sorted(ABSENCE_TELLS)))
    lacking = (set(environment["host"].to_list()) & ready) - having
    if not lacking:
        return None
    usual_is_set = len(having) >= len(lacking)
    tie = len(having) == len(lacking)
    value = rows["value"][0]
    if usual_is_set and not tie:
        says = f"{hosts_named(lacking)}: {name} is not set, on the other hosts it is {value}; {rule.reason}"
    elif tie:
        says = f"{name} is {value} on {hosts_named(having)} and not set on {hosts_named(lacking)}; {rule.reason}"
    else:
        says = f"{hosts_named(having)}: {name} is {value}, on the other hosts it is not set; {rule.reason}"
    silent = environment.filter(pl.col("host").is_in(sorted(lacking)))
    subject = pl.concat([rows.select("unit", "host"), silent.select("unit", "host")]) if tie else (silent if usual_is_set else rows)
    weak = Rule(rule.title, rule.reason, "minor", "possible")
    return _issue(name, weak, says, subject, (*proofs(rows, f"{name}={{value}}", 2), *proofs(silent, "{name}={value}", 1)))


def _place(rows: pl.DataFrame) -> str:
    return f"{who(rows['unit'])} on {hosts_named(rows['host'])}"


def _issue(name: str, rule: Rule, says: str, subject: pl.DataFrame, lines: tuple[Proof, ...]) -> Issue:
    step = f"start all ranks with the same {name}" if name.startswith(("NCCL_", "CUDA_")) else f"bring the {rule.title} of all hosts and containers in line"
    hosts = tuple(sorted(set(subject["host"].to_list())))
    return Issue(
        check=f"mixed-{name}",
        subject=ranks_of(subject) or hosts,
        kind="misconfiguration",
        severity=rule.severity,
        confidence=rule.confidence,
        says=says,
        next_step=step,
        ranks=ranks_of(subject),
        hosts=hosts,
        proofs=lines,
        explains=frozenset({name}),
    )


def mixed_gpus(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """GPU models that differ between ranks."""
    found = _odd({u: frozenset({g}) for u, g in sorted(s.gpus.items())}) if s.gpus else None
    if found is None:
        return []
    usual, tie, odd = found
    places = dict(s.processes.select("unit", "host").iter_rows())
    ranks = sorted(s.gpus) if tie else odd
    theirs = ", ".join(sorted({s.gpus[u] for u in odd})[:4])
    hosts = tuple(sorted({places[u] for u in ranks if places.get(u)}))
    says = f"{who(odd)} on {hosts_named(places.get(u, '') for u in odd)}: GPU model {theirs}, on the other {len(s.gpus) - len(odd)} ranks {usual}"
    step = "run the job on GPUs of one model, or give the slower ones less work"
    rule = AGREE["cuda_driver"]
    kind = Issue(
        check="mixed-gpu",
        subject=tuple(ranks),
        kind="misconfiguration",
        severity=rule.severity,
        confidence=rule.confidence,
        says=says,
        next_step=step,
        ranks=tuple(ranks),
        hosts=hosts,
    )
    return [kind]


def affinities(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """CPUs that the library binds the threads of a GPU to, where they are others than on most hosts: worth knowing, no more.

    Where processes of one host call different GPUs by one index, it says nothing.
    """
    rows = s.setting("affinity").with_columns(pl.col("value").str.extract_groups(r"^GPU (?<gpu>\d+): (?<mask>\S+)$").alias("_")).unnest("_")
    rows = rows.drop_nulls(["gpu", "mask"]).filter(pl.col("mask").n_unique().over("host", "gpu") == 1)
    votes = rows.group_by("gpu", "mask").agg(pl.col("host").n_unique().alias("votes"))
    usual = votes.filter(pl.col("votes") * 2 > pl.col("votes").sum().over("gpu")).select("gpu", pl.col("mask").alias("usual"), "votes")
    odd = rows.join(usual, on="gpu", how="inner", maintain_order="left").filter((pl.col("mask") != pl.col("usual")) & (pl.col("votes") > 1))
    if not odd.height:
        return []
    hosts, first = tuple(sorted(set(odd["host"].to_list()))), odd.row(0, named=True)
    return [
        Issue(
            check="affinity",
            subject=hosts,
            kind="misconfiguration",
            severity="info",
            confidence="possible",
            says=f"{_place(odd)}: the library binds its threads for GPU {first['gpu']} to CPUs {first['mask'][:60]}, on most hosts to {first['usual'][:60]}",
            next_step="compare CPU sets of the containers or batch jobs and NUMA settings of these hosts with the others'",
            ranks=ranks_of(odd),
            hosts=hosts,
            proofs=tuple(proofs(odd, "affinity {value}")),
        )
    ]


def fewer_channels(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """Communicators that got fewer channels than their like on other hosts: the same number of ranks and hosts, the same GPU.

    Ranks of one communicator always agree; what differs is the hardware that the library found on a host.
    """
    place = pl.coalesce("nvml_device", "cuda_device", "local_rank").alias("place")
    rows = s.comms.filter(pl.col("channels").is_not_null() & pl.col("nodes").is_not_null() & (pl.col("size") > 1)).with_columns(place)
    like = ["size", "nodes", "local_ranks", "place"]
    # A GPU that is in several communicators of one shape stands for none of them, unless they are alike.
    by_unit = rows.group_by("host", "unit", *like, maintain_order=True).agg(
        pl.col("channels").min(), pl.col("channels").max().alias("top"), pl.col("source_id", "rank", "line").first()
    )
    by_unit = by_unit.filter((pl.col("channels") == pl.col("top")) & pl.col("place").is_not_null() & pl.col("local_ranks").is_not_null())
    hosts = pl.col("host").n_unique().over(like)
    usual = by_unit.group_by(*like, "channels").agg(pl.col("host").n_unique().alias("votes"))
    best = usual.sort("votes", "channels", descending=True).unique(like, keep="first", maintain_order=True).rename({"channels": "usual"})
    compared = by_unit.with_columns(hosts.alias("hosts")).join(best, on=like, how="left", maintain_order="left")
    few = compared.filter((pl.col("channels") < pl.col("usual")) & (pl.col("hosts") > 1))
    few = few.filter(~("host " + pl.col("host")).is_in(sorted(explained))).sort("host", "unit", *like)
    if not few.height:
        return []
    certain = bool((few["votes"] * 2 > few["hosts"]).all())
    share = few.select((1 - pl.col("channels") / pl.col("usual")).max()).item()
    worst = few.row(0, named=True)
    names = tuple(sorted(set(few["host"].to_list())))
    peers = compared.filter(pl.col("channels") == pl.col("usual"))
    return [
        Issue(
            check="fewer-channels",
            subject=names,
            kind="transport_fallback",
            severity="major" if certain and share >= 0.25 else "minor",
            confidence="likely" if certain else "possible",
            says=f"{who(few['unit'])} on {hosts_named(names)}: communicators of {worst['size']} ranks got {worst['channels']} channels, "
            f"the same ones of other hosts {worst['usual']}: the library found slower links there",
            next_step="compare nvidia-smi topo -m, nvidia-smi nvlink -s and ibstat of these hosts with the others'",
            ranks=ranks_of(few),
            hosts=names,
            proofs=(*proofs(few, "{channels} coll channels"), *proofs(peers, "{channels} coll channels", 1)),
        )
    ]
