"""The words that all reports share: names of causes, ranks, subjects and amounts, and how hostile text is defused."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence

from tracelab.results import Finding, Link
from tracelab.units import NS_PER_S, format_duration

__all__ = [
    "CONFIDENCE",
    "KINDS",
    "NOTHING_FOUND",
    "PARTS",
    "ROLES",
    "SEVERITY",
    "STATUS",
    "clean",
    "cost_text",
    "gpu_hours_text",
    "kind_title",
    "link_text",
    "lost_text",
    "plural",
    "range_text",
    "rank_label",
    "ranks_text",
    "seconds_text",
    "sentence",
    "shorten",
    "steps_text",
    "subject_text",
]

NOTHING_FOUND = "No cause of lost time stands out from noise."

KINDS: dict[str, tuple[str, str]] = {
    "compute_straggler": ("Compute straggler", "The kernels of some ranks run slower than those of their peers: a slow or throttled GPU."),
    "input_stall": ("Input stall", "The step waits for the data loader."),
    "host_stall": ("Host stall", "The CPU side stopped launching work: garbage collection, a pause of the operating system, a synchronisation, a checkpoint."),
    "periodic_jitter": ("Periodic jitter", "Delays that come back with a fixed period."),
    "slow_link": ("Slow link", "Transfers over one network interface, cable or GPU pair are slower than those of its peers."),
    "congestion": ("Congestion", "Transfers share a contended fabric."),
    "packet_loss": ("Packet loss", "Packets are lost and sent again."),
    "link_flap": ("Link flap", "A link went down and came back."),
    "pipeline_imbalance": ("Pipeline imbalance", "One pipeline stage has more work than the others."),
    "load_imbalance": ("Load imbalance", "The slowest rank changes from step to step: sequence lengths, experts."),
    "exposed_communication": ("Exposed communication", "Transfers that compute could hide are not hidden."),
    "launch_bound": ("Launch bound", "GPUs idle everywhere because kernels are launched too slowly."),
    "transport_fallback": ("Transport fallback", "The job runs over a slower path than its hardware offers."),
    "misconfiguration": ("Misconfiguration", "Ranks differ where they must not, or a setting costs time."),
    "memory_copy": ("Memory copies", "Copies between host and device stand in the critical path."),
    "collective_hang": ("Collective hang", "A collective operation never completed."),
    "clock_step": ("Clock step", "The clock of a host jumped."),
}
"""Kind of a finding: its name and what it says."""

PARTS: dict[str, tuple[str, str]] = {
    "compute": ("compute", "At least one compute kernel runs."),
    "memcpy": ("memory copies", "No compute runs; data are copied between host and device or within the device."),
    "exposed_transfer": ("exposed transfer", "Neither compute nor copies run; a collective moves data."),
    "exposed_wait": ("exposed wait", "Neither compute nor copies run; a collective waits for a peer that has not arrived."),
    "idle": ("idle", "Nothing runs on the GPU."),
    "dataloader": ("data loader", "Host time in the data loader; it overlaps the other parts."),
}
"""Part of the step time: its name and what it means. A moment counts for the first of the five that applies."""

SEVERITY: dict[str, str] = {"critical": "Critical", "major": "Major", "minor": "Minor", "info": "Info"}
CONFIDENCE: dict[str, tuple[str, str]] = {
    "proven": ("proven", "the files show the cause itself"),
    "likely": ("likely", "the files fit this cause and no other that was checked"),
    "possible": ("possible", "the files fit this cause, but others too"),
}
STATUS: dict[str, str] = {"ok": "answered", "not_applicable": "not applicable", "degraded": "answered in part", "error": "failed"}
ROLES: dict[str, str] = {
    "analysed": "analysed",
    "log": "log of the analysed job",
    "duplicate": "duplicate of another file",
    "other-job": "belongs to another job",
    "no-events": "nothing timed in it",
    "unreadable": "unreadable",
    "ignored": "left out by the manifest",
    "network": "counters or wiring of machines",
    "companion": "read as a part of another file",
    "unknown": "no parser claims it",
}
"""Role of a file: what became of it."""


def clean(text: str) -> str:
    r"""`text` with every invisible or reordering character made visible, so that it can neither hide nor move others.

    Control characters (terminal escapes), format characters (bidirectional overrides) and lone surrogates become `\x1b`.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(c) if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} and c not in "\n\t" else c for c in text)


def _visible(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shorten(text: str, limit: int) -> str:
    """`text` on one line and in at most `limit` characters; what is cut is shown by an ellipsis."""
    line = " ".join(clean(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def sentence(text: str) -> str:
    """`text` with a capital at its start, unless that is a name (`nvidia-smi`), and a full stop at its end."""
    first = text.split(maxsplit=1)[0].rstrip(":,;") if text.strip() else ""
    if first.isascii() and first.isalpha() and first.islower():
        text = text[:1].upper() + text[1:]
    return text if not text or text.rstrip().endswith((".", "!", "?", "…")) else f"{text.rstrip()}."


def plural(count: int, one: str, many: str = "") -> str:
    """`1 rank`, `2 ranks`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def kind_title(kind: str) -> str:
    """The name of a kind of finding or of a cause; one that is not known keeps its own words."""
    if kind in KINDS:
        return KINDS[kind][0]
    if kind in PARTS:
        return PARTS[kind][0].capitalize()
    return kind.replace("_", " ").capitalize()


def rank_label(rank: int) -> str:
    """`3`; `?1` for a rank that no source states."""
    return str(rank) if rank >= 0 else f"?{-rank}"


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][1] + 1 and n != 0:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs


def _run_text(first: int, last: int) -> str:
    if first < 0:
        first, last = last, first
    return rank_label(first) if first == last else f"{rank_label(first)}–{rank_label(last)}"


def _numbers_text(word: str, numbers: Sequence[int], limit: int) -> str:
    runs = _runs(numbers)
    if not runs:
        return ""
    shown = ", ".join(_run_text(a, b) for a, b in runs[:limit])
    left = sum(b - a + 1 for a, b in runs[limit:])
    return f"{word if len(set(numbers)) == 1 else word + 's'} {shown}" + (f" and {left:,} more" if left else "")


def ranks_text(ranks: Sequence[int], limit: int = 8) -> str:
    """`rank 3`, `ranks 0–7, 9 and 20 more`: at most `limit` ranges."""
    return _numbers_text("rank", ranks, limit)


def steps_text(steps: Sequence[int], limit: int = 8) -> str:
    """`step 4`, `steps 4–11`: at most `limit` ranges."""
    return _numbers_text("step", steps, limit)


def link_text(link: Link) -> str:
    """A link from the host's side to the switch's: `node-0 mlx5_3 ↔ leaf-1 Ethernet12`."""
    near = " ".join(p for p in (link.host, link.nic) if p)
    far = " ".join(p for p in (link.switch, link.port) if p)
    return " ↔ ".join(p for p in (near, far) if p) or "unnamed link"


def _listed(names: Sequence[str], limit: int) -> str:
    left = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {left:,} more" if left > 0 else "")


def subject_text(finding: Finding, limit: int = 4) -> str:
    """Who the finding is about: ranks, hosts and links, at most `limit` of each."""
    parts = [ranks_text(finding.ranks, limit)]
    if finding.links:
        parts.append(_listed([link_text(link) for link in finding.links], limit))
    elif finding.hosts:
        parts.append(_listed(finding.hosts, limit))
    return clean(" on ".join(p for p in parts if p)) or "the whole job"


def seconds_text(seconds: float) -> str:
    """Seconds as a duration with three digits; words where it is no number."""
    return format_duration(seconds * NS_PER_S) if math.isfinite(seconds) else "unknown"


def cost_text(finding: Finding) -> str:
    """The lost time; in words where the files show a cause and not what it cost."""
    return "not measured" if finding.lost_s == finding.lost_s_high == 0 else seconds_text(finding.lost_s)


def lost_text(finding: Finding) -> str:
    """The lost time with its interval, where it has one: `1.24 s (1.10 s to 1.38 s)`."""
    interval = range_text(finding)
    return f"{cost_text(finding)} ({interval})" if interval else cost_text(finding)


def range_text(finding: Finding) -> str:
    """The interval of the lost time, `1.10 s to 1.38 s`; nothing where both ends are written like the lost time itself."""
    low, high = seconds_text(finding.lost_s_low), seconds_text(finding.lost_s_high)
    return "" if low == high == seconds_text(finding.lost_s) else f"{low} to {high}"


def gpu_hours_text(hours: float) -> str:
    """GPU time as text: hours from 0.1 on, below that seconds."""
    if not math.isfinite(hours):
        return "unknown GPU time"
    if abs(hours) >= 100:
        return f"{hours:,.0f} GPU-hours"
    if abs(hours) >= 0.1:
        return f"{hours:.2f} GPU-hours"
    return f"{hours * 3600:.3g} GPU-seconds" if hours * 3600 >= 0.01 else "0 GPU-seconds" if hours == 0 else "under 0.01 GPU-seconds"
