"""Settings that cost time wherever they are set: worth knowing, and mostly there for a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from tracelab.analyses.configuration.issue import Issue, clean, proofs
from tracelab.analyses.configuration.setup import Setup, hosts_named, off, on, ranks_of, who
from tracelab.results import Confidence, FindingSeverity

__all__ = ["COSTLY", "costly_settings"]

_V = pl.col("value").str.strip_chars(" .")
_UPPER = _V.str.to_uppercase()
FEW_CHANNELS = 2
"""Channels at or below which no recent GPU fills its links."""
SMALL_BUFFER = 1 << 20
"""Bytes of a channel's buffer below which it is small: the default is 4 MiB."""
_SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _number() -> pl.Expr:
    return _V.str.extract(r"^(\d{1,15})").cast(pl.Int64, strict=False)


def _bytes() -> pl.Expr:
    unit = _UPPER.str.extract(r"^\d+([KMG])").replace_strict(_SIZES, default=1, return_dtype=pl.Int64)
    return _number() * unit


@dataclass(frozen=True)
class Cost:
    """A setting: which values cost, what they cost, and what to set."""

    name: str
    when: Callable[[], pl.Expr]
    severity: FindingSeverity
    confidence: Confidence
    says: str
    next_step: str


def _set_on() -> pl.Expr:
    return on(_V)


def _set_off() -> pl.Expr:
    return off(_V)


def _any() -> pl.Expr:
    return pl.lit(True)


COSTLY: tuple[Cost, ...] = (
    Cost("CUDA_LAUNCH_BLOCKING", _set_on, "minor", "likely", "the host waits for every kernel, so that nothing overlaps", "unset CUDA_LAUNCH_BLOCKING"),
    Cost(
        "TORCH_NCCL_BLOCKING_WAIT",
        _set_on,
        "minor",
        "possible",
        "the host waits for every collective that it asks for",
        "unset TORCH_NCCL_BLOCKING_WAIT; asynchronous error handling is the default",
    ),
    Cost("NCCL_BLOCKING_WAIT", _set_on, "minor", "possible", "the host waits for every collective that it asks for", "unset NCCL_BLOCKING_WAIT"),
    Cost(
        "TORCH_DISTRIBUTED_DEBUG",
        lambda: _UPPER == "DETAIL",
        "minor",
        "possible",
        "every collective is checked over the CPU's network before it starts",
        "set TORCH_DISTRIBUTED_DEBUG=OFF when the error is found",
    ),
    Cost(
        "NCCL_DEBUG", lambda: _UPPER == "TRACE", "minor", "possible", "every call and transfer writes log lines", "set NCCL_DEBUG=INFO, or WARN in production"
    ),
    Cost(
        "NCCL_DEBUG_SUBSYS",
        lambda: _UPPER.str.contains(r"(?:^|,)\s*(?:ALL|COLL|P2P|CALL|PROXY)\b") & ~_UPPER.str.starts_with("^"),
        "info",
        "possible",
        "every operation writes a log line on every rank",
        "keep it to a few steps, or set NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH",
    ),
    Cost("NCCL_PROTO", lambda: _UPPER == "LL", "minor", "possible", "half of all bytes sent are flags, large messages are slow", "unset NCCL_PROTO"),
    Cost(
        "NCCL_PROTO",
        lambda: (_UPPER != "LL") & ~_UPPER.str.starts_with("^"),
        "info",
        "possible",
        "the library may not choose the protocol by size",
        "unset NCCL_PROTO",
    ),
    Cost("NCCL_ALGO", lambda: ~_UPPER.str.starts_with("^"), "info", "possible", "the library may not choose the algorithm by size", "unset NCCL_ALGO"),
    Cost(
        "NCCL_MAX_NCHANNELS",
        lambda: _number() <= FEW_CHANNELS,
        "minor",
        "possible",
        "so few channels do not fill the links",
        "unset NCCL_MAX_NCHANNELS, or raise it until the bus bandwidth no longer grows",
    ),
    Cost("NCCL_MAX_CTAS", lambda: _number() <= FEW_CHANNELS, "minor", "possible", "so few thread blocks do not fill the links", "unset NCCL_MAX_CTAS"),
    Cost("NCCL_BUFFSIZE", lambda: _bytes() < SMALL_BUFFER, "minor", "possible", "small buffers stall the pipeline of a channel", "unset NCCL_BUFFSIZE (4 MiB)"),
    Cost("NCCL_NTHREADS", lambda: _number() < 128, "info", "possible", "so few threads slow reductions down", "unset NCCL_NTHREADS"),
    Cost(
        "NCCL_LAUNCH_MODE", lambda: _UPPER == "GROUP", "info", "possible", "launches of several GPUs of one process are synchronised", "unset NCCL_LAUNCH_MODE"
    ),
    Cost("NCCL_CHECK_POINTERS", _set_on, "info", "possible", "every call looks its pointers up", "unset NCCL_CHECK_POINTERS"),
    Cost("NCCL_IB_DISABLE", _set_on, "info", "possible", "InfiniBand and RoCE adapters are not looked for", "unset NCCL_IB_DISABLE where there are any"),
    Cost("NCCL_P2P_DISABLE", _set_on, "info", "possible", "GPUs of one host may not reach each other's memory", "unset NCCL_P2P_DISABLE where they can"),
    Cost("NCCL_SHM_DISABLE", _set_on, "info", "possible", "GPUs of one host without direct access use the network", "unset NCCL_SHM_DISABLE"),
    Cost("NCCL_NET_GDR_LEVEL", lambda: _UPPER.is_in(["LOC", "0"]), "info", "possible", "adapters may not reach the memory of GPUs", "unset NCCL_NET_GDR_LEVEL"),
    Cost("NCCL_NVLS_ENABLE", _set_off, "info", "possible", "reductions in the NVLink switch are off", "unset NCCL_NVLS_ENABLE where the switch has them"),
    Cost("NCCL_PXN_DISABLE", _set_on, "info", "possible", "ranks may not send through the adapter of a neighbour", "unset NCCL_PXN_DISABLE"),
)


def costly_settings(s: Setup, explained: frozenset[str], messages: pl.DataFrame) -> list[Issue]:
    """One issue per costly setting that no other finding is about."""
    issues = []
    for cost in COSTLY:
        rows = s.setting(cost.name) if cost.name not in explained else s.settings.head(0)
        rows = rows.filter(cost.when().fill_null(False)) if rows.height else rows
        if not rows.height:
            continue
        values = ", ".join(clean(v) for v in sorted(set(rows["value"].to_list()))[:3])
        every = rows["unit"].n_unique() >= s.count
        where = "all ranks" if every and s.count > 1 else f"{who(rows['unit'])} on {hosts_named(rows['host'])}"
        hosts = tuple(sorted(set(rows["host"].to_list())))
        issues.append(
            Issue(
                check=f"costly-{cost.name}",
                subject=(),
                kind="misconfiguration",
                severity=cost.severity,
                confidence=cost.confidence,
                says=f"{cost.name}={values} on {where}: {cost.says}",
                next_step=cost.next_step,
                ranks=() if every else ranks_of(rows),
                hosts=() if every else hosts,
                proofs=tuple(proofs(rows, "{name}={value}")),
            )
        )
    return issues
