"""What the library complains about: lines of trouble, counted, and the few of them that name a cause."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from tracelab.analyses.configuration.issue import Issue, proofs
from tracelab.analyses.configuration.setup import Setup, hosts_named, ranks_of, who
from tracelab.analysis import Tables
from tracelab.results import Confidence, FindingKind, FindingSeverity, Link

__all__ = ["complaints", "plugin_failures", "read_messages"]

_LEVELS = ["WARN", "ERROR", "ABORT"]
_NO_TROUBLE = ["benchmark", "version", "setting"]
"""Kinds of lines without a level of their own that complain of nothing."""
_TELLING = (
    r"(?i)async (?:fatal )?(?:event|error)|GID table change|completion (?:from|with)|retrying \(|Mismatched NCCL|mismatch in rank count|[Mm]essage truncated"
    r"|cannot open shared object|dlopen|NET/Plugin ?:.*could not find: .*libnccl-net-|No eligible|no such device"
)
"""Lines that say something although some versions print them as INFO."""
_SHAPE = r"(?:0x)?[0-9a-fA-F]*\d[0-9a-fA-F]*"
LONGEST = 300


@dataclass(frozen=True)
class Trouble:
    """A kind of message that names a cause: `pattern` matches its text, `hca` says where it names an adapter."""

    check: str
    pattern: str
    kind: FindingKind
    severity: FindingSeverity
    confidence: Confidence
    says: str
    next_step: str


_PORT = r"(?i)async (?:fatal )?(?:event|error).*port (?:error|active)|port (?:error|active).*async"
_HCA = r"(?i)(?:NET/IB ?: |hca[ :]+|HCA )((?:mlx|hfi|bnxt|irdma|efa|rdma|rocep|ib)[\w+-]*)"
_GAVE_UP = r"(?i)completion.*(?:error 12\b|status=12\b|RETRY_EXC)"

TROUBLES = (
    Trouble(
        "port",
        _PORT,
        "link_flap",
        "major",
        "possible",
        "the port of a network adapter went down or came back while the job ran",
        "check the cable, transceiver and switch port of this adapter (symbol errors, link_downed), and the switch's log at that time",
    ),
    Trouble(
        "retries",
        _GAVE_UP,
        "packet_loss",
        "major",
        "possible",
        "sends were repeated without an answer until the adapter gave up: the way to the peer lost them, or the peer's process had died",
        "see whether the peer's process died first; if not, check this adapter's and its switch port's error and discard counters",
    ),
    Trouble(
        "access",
        r"(?i)completion.*(?:error (?:4|10)\b|status=(?:4|10)\b|LOC_PROT_ERR|REM_ACCESS_ERR)",
        "misconfiguration",
        "major",
        "possible",
        "an adapter was refused access to memory: registration through nvidia-peermem or DMA-BUF, or the IOMMU, is set up wrongly",
        "try NCCL_NET_GDR_LEVEL=LOC to confirm; check nvidia-peermem, driver versions, IOMMU and ACS settings",
    ),
    Trouble(
        "gid",
        r"(?i)GID table change",
        "misconfiguration",
        "minor",
        "possible",
        "addresses of a RoCE adapter changed while the job ran: connections made before use the old ones",
        "find out what reconfigures the interface (DHCP, network manager, a container network), and set NCCL_IB_GID_INDEX to a stable entry",
    ),
    Trouble(
        "queue-pair",
        r"(?i)Call to ibv_(?:modify|create)_qp failed",
        "misconfiguration",
        "major",
        "likely",
        "a queue pair could not be set up: the peer cannot be reached over this adapter, or its address entry or limits are wrong",
        "check NCCL_IB_GID_INDEX (RoCE), that all listed adapters share one fabric (NCCL_IB_HCA), and ulimit -l",
    ),
    Trouble(
        "memory-lock",
        r"(?i)Call to ibv_reg_(?:dmabuf_)?mr\w* failed.*(?:allocate memory|ENOMEM)",
        "misconfiguration",
        "major",
        "likely",
        "memory could not be pinned for the network adapter",
        "raise the limit of locked memory (ulimit -l unlimited, in containers --ulimit memlock=-1)",
    ),
    Trouble(
        "shared-memory",
        r"(?i)Error while (?:creating|attaching).*shared memory|posix_fallocate.*(?:failed|No space left)|/dev/shm/nccl.*(?:No space left|resize)",
        "misconfiguration",
        "major",
        "likely",
        "shared memory for transfers inside the host could not be made",
        "give the container more of it (--shm-size, or a memory volume on /dev/shm)",
    ),
    Trouble(
        "rank-count",
        r"(?i)mismatch in rank count",
        "misconfiguration",
        "major",
        "likely",
        "ranks of one communicator disagree about how many they are",
        "check that all hosts were started with the same world size and rendezvous id",
    ),
    Trouble(
        "truncated",
        r"(?i)message truncated",
        "misconfiguration",
        "major",
        "likely",
        "ranks called the same operation with different sizes, or in a different order, or with different settings of the library",
        "compare the calls of the ranks (NCCL_DEBUG_SUBSYS=COLL, or TORCH_DISTRIBUTED_DEBUG=DETAIL) and their NCCL settings",
    ),
    Trouble(
        "version",
        r"(?i)Mismatched NCCL version",
        "misconfiguration",
        "major",
        "proven",
        "ranks of one communicator run different versions of the library",
        "install one version on all hosts, and see which library each process loads (LD_LIBRARY_PATH, LD_PRELOAD)",
    ),
    Trouble(
        "socket-retry",
        r"(?i)retrying \(\d+/\d+\)",
        "misconfiguration",
        "info",
        "possible",
        "connections were retried, which is usual while peers start: the network between hosts was slow, or a peer was not there yet",
        "check the interface that NCCL_SOCKET_IFNAME names, name resolution and firewalls, and which rank started late",
    ),
)

_AFTER_THE_END = "sends got no answer any more; processes of the job had been ended from outside, which explains it"
_IN_MESSAGES = {"source_id": pl.Int32, "part": pl.Int16, "rank": pl.Int32, "level": pl.String, "kind": pl.String, "shape": pl.String}


def read_messages(tables: Tables, s: Setup) -> pl.DataFrame:
    """Lines of trouble per process and shape: how many, the first one's line and text; with unit and host."""
    events = tables["log_events"].with_columns(pl.col("level", "kind").cast(pl.String), pl.col("text").str.slice(0, LONGEST))
    plain = pl.col("kind").is_in(_NO_TROUBLE)
    hit = events.filter((pl.col("kind") == "ended") | (pl.col("level").is_in(_LEVELS) & ~plain) | pl.col("text").str.contains(_TELLING))
    hit = hit.with_columns(pl.col("text").str.replace_all(_SHAPE, "N").alias("shape"))
    grouped = hit.group_by("source_id", "part", "rank", "level", "kind", "shape").agg(
        pl.len().alias("count"), pl.col("line").min(), pl.col("text").sort_by("line").first()
    )
    rows = grouped.collect(engine="streaming").sort("source_id", "line", "shape")
    return rows.join(s.processes.select("source_id", "part", "unit", "host"), on=["source_id", "part"], how="inner", maintain_order="left")


def plugin_failures(messages: pl.DataFrame) -> pl.DataFrame:
    """A network plugin that was found and failed, or that was asked for and not found. That none is installed is usual, and says nothing."""
    plugin = pl.col("text").str.contains(r"(?i)NET/(?:Plugin|OFI)")
    failed = pl.col("text").str.contains(r"(?i)cannot open shared object|dlopen|could not find: .*libnccl-net-|No eligible|fail|error")
    usual = pl.col("text").str.contains(r"(?i)Failed to find nccl\w+ symbol|libnccl-net\.so\b")
    return messages.filter(plugin & failed & ~usual)


def _ended_first(messages: pl.DataFrame) -> bool:
    """Whether somebody ended processes of the job that had complained of nothing: what others complain of then may be the consequence."""
    ended = pl.col("kind").eq_missing("ended")
    first = messages.group_by("source_id").agg(pl.col("line").filter(ended).min().alias("ended"), pl.col("line").filter(~ended).min())
    return not first.filter(pl.col("ended") < pl.col("line").fill_null(pl.col("ended") + 1)).is_empty()


def complaints(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """One issue per cause that the messages name and adapter (or all hosts that say so). Messages that a worse one explains add no issue.

    Where processes of the job were ended from outside, a peer that does not answer any more is no trouble of the network.
    """
    rows = messages.with_columns(
        pl.when(pl.col("text").str.contains(r"(?i)NET|async|completion|HCA")).then(pl.col("text").str.extract(_HCA)).alias("nic"),
    )
    issues: list[Issue] = []
    flapped: set[str] = set()
    for trouble in TROUBLES:
        t = trouble
        found = rows.filter(pl.col("text").str.contains(t.pattern))
        if t.check == "version" and "version" in explained:
            continue
        if t.check == "retries":
            # A port that went down explains every send over it that got no answer.
            found = found.filter(~pl.col("host").is_in(sorted(flapped)))
            t = replace(t, severity="info", says=_AFTER_THE_END) if _ended_first(messages) else t
        if not found.height:
            continue
        if t.check == "port":
            flapped = set(found["host"].to_list())
            found = pl.concat([found, rows.filter(pl.col("text").str.contains(_GAVE_UP) & pl.col("host").is_in(sorted(flapped)))])
        issues.extend(_issue(t, part) for part in _subjects(t, found))
    return issues


def _subjects(t: Trouble, found: pl.DataFrame) -> list[pl.DataFrame]:
    """By adapter where a link is the subject, else all together."""
    if t.kind not in {"link_flap", "packet_loss"}:
        return [found]
    filled = found.with_columns(pl.col("nic").fill_null(strategy="forward").over("host")) if t.kind == "link_flap" else found
    return filled.partition_by("host", "nic", maintain_order=True)


def _issue(t: Trouble, found: pl.DataFrame) -> Issue:
    hosts = tuple(sorted(set(found["host"].to_list())))
    links = tuple(Link(host=h or None, nic=n) for h, n in found.select("host", "nic").drop_nulls().unique(maintain_order=True).iter_rows())
    link = t.kind in {"link_flap", "packet_loss"}
    name = f" ({links[0].nic})" if link and links else ""
    both = link and found["text"].str.contains("(?i)port error").any() and found["text"].str.contains("(?i)port active").any()
    count = int(found["count"].sum())
    return Issue(
        check=f"message-{t.check}",
        subject=(*hosts, *sorted({str(x.nic) for x in links})) if link else hosts,
        kind=t.kind,
        severity=t.severity,
        confidence="likely" if both else t.confidence,
        says=f"{who(found['unit'])} on {hosts_named(hosts)}{name}: {t.says} ({count} line{'s' if count > 1 else ''})",
        next_step=t.next_step,
        ranks=() if link else ranks_of(found),
        hosts=hosts,
        links=links if link else (),
        proofs=tuple(proofs(found, "{text}", 4)),
    )
