"""The terms that a page uses, explained."""

from __future__ import annotations

from tracelab.results import RunResult
from tracelab_reports.words import CONFIDENCE, KINDS, PARTS

__all__ = ["terms"]

_TERMS: tuple[tuple[str, str], ...] = (
    ("aligned clock", "One clock for all hosts: each host's times plus its offset. Points in time on this page are on it unless stated otherwise."),
    ("arrival", "The moment at which a rank enters a collective. The transfer begins when the last rank has arrived."),
    ("collective", "An operation that all ranks of a group enter together, such as all_reduce."),
    ("confidence", "; ".join(f"{name}: {meaning}" for name, meaning in CONFIDENCE.values()) + "."),
    ("group", "Ranks that communicate with each other: a process group or communicator."),
    ("lost time", "Wall time that the job would have saved in the analysed window had this one cause been absent. Those of several causes do not add up."),
    ("rank", "One process of the job, with one GPU. Its number is ?1, ?2 … where no file states it."),
    (
        "step",
        (
            "One training iteration, as the source marks it. The job's step lasts from the moment that the last rank left the step before "
            "to the moment that the last rank left this one; the first step, and one after a pause, from where ranks entered it."
        ),
    ),
)
_TERMS_OF_SECTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "overlap": (
        ("exposed", "Communication during which no compute runs: it lengthens the step."),
        ("hidden", "Communication that runs at the same time as compute and so costs no time."),
        ("overlap ratio", "Hidden communication as a share of all communication."),
    ),
    "collectives": (("bus bandwidth", "Bytes that one link carries per second, comparable between operations and group sizes (as nccl-tests defines it)."),),
    "waits": (
        ("late", "How much later than the first rank of an operation a rank arrived at it."),
        ("wait", "Time between a rank's arrival at a collective and that of the last rank."),
    ),
}


def terms(result: RunResult) -> list[tuple[str, str]]:
    """Terms and meanings in alphabetical order: the general ones, and those of the sections and findings of the result."""
    found = dict(_TERMS)
    for section in result.sections:
        found.update(_TERMS_OF_SECTIONS.get(section.id, ()))
    if result.attribution or any(s.id == "breakdown" for s in result.sections):
        found.update(PARTS.values())
    found.update((KINDS[f.kind][0].lower(), KINDS[f.kind][1]) for f in result.findings if f.kind in KINDS)
    return sorted(found.items())
