"""Names and numbers that NCCL, RCCL, c10d and nccl-tests use, and what they are called here.

Numbers never changed their meaning, new ones were added at the end; where a version is given, a number that this version
did not know yet is None, as every number that no version knows. Unknown versions (`(0,)`) know all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

__all__ = [
    "RESULTS",
    "UNKNOWN",
    "ElementType",
    "algorithm",
    "c10d_operation",
    "element_type",
    "element_type_named",
    "operation",
    "operation_number",
    "program_operation",
    "protocol",
    "reduction",
    "reduction_named",
]

UNKNOWN = "unknown"

Version = tuple[int, ...]


class ElementType(NamedTuple):
    """An element type: its name as in the table `logged_collectives`, and the bytes of one element."""

    name: str
    size: int


# Without a version: RCCL had bfloat16 and the two float8 under the same numbers long before NCCL.
_ELEMENT_TYPES = (
    ElementType("int8", 1),
    ElementType("uint8", 1),
    ElementType("int32", 4),
    ElementType("uint32", 4),
    ElementType("int64", 8),
    ElementType("uint64", 8),
    ElementType("float16", 2),
    ElementType("float32", 4),
    ElementType("float64", 8),
    ElementType("bfloat16", 2),
    ElementType("float8_e4m3fn", 1),
    ElementType("float8_e5m2", 1),
)
_BY_NAME = {t.name: t for t in _ELEMENT_TYPES} | {
    spelling: _ELEMENT_TYPES[number]
    for spelling, number in {
        "char": 0,
        "byte": 1,
        "int": 2,
        "long": 4,
        "half": 6,
        "float": 7,
        "double": 8,
        "bfloat": 9,
        "f8e4m3": 10,
        "fp8e4m3": 10,
        "fp8_e4m3": 10,
        "float8e4m3": 10,
        "f8e5m2": 11,
        "fp8e5m2": 11,
        "fp8_e5m2": 11,
        "float8e5m2": 11,
    }.items()
}

_REDUCTIONS: tuple[tuple[str, Version], ...] = (("sum", ()), ("prod", ()), ("max", ()), ("min", ()), ("avg", (2, 10, 3)))
_USER_REDUCTION: Version = (2, 11)
_REDUCTION_NAMES = {"sum", "prod", "max", "min", "avg"}

# CollNet of 2.8 to 2.13 is what 2.14 called CollNetDirect when it added the chain.
_ALGORITHMS: tuple[tuple[str, Version], ...] = (
    ("TREE", ()),
    ("RING", ()),
    ("COLLNET_DIRECT", ()),
    ("COLLNET_CHAIN", (2, 14, 3)),
    ("NVLS", (2, 17)),
    ("NVLS_TREE", (2, 18)),
    ("PAT", (2, 23, 4)),
)
_ALGORITHM_SPELLINGS = {name.replace("_", ""): name for name, _ in _ALGORITHMS} | {"COLLNET": "COLLNET_DIRECT"}
_PROTOCOLS = ("LL", "LL128", "SIMPLE")

_OPERATIONS = {
    "allreduce": "all_reduce",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "reduce": "reduce",
    "allgather": "all_gather",
    "allgatherv": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all",
    "alltoallpivot": "all_to_all",
    "send": "send",
    "recv": "recv",
    "sendrecv": "send_recv",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
}
_OPERATION_NUMBERS = (
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "send_recv",
    "send",
    "recv",
    "all_to_all",
    "scatter",
    "gather",
    "all_gather",
)

# c10d's OpType names, lower case, without underscores and without the endings that only say how the tensors are laid out.
_C10D_ENDINGS = ("coalesced", "base", "oop", "sparse", "intotensor", "tensor")
_C10D = {"recvanysource": "recv", "monitoredbarrier": "barrier", "allbarrier": "barrier"}

RESULTS = ("success", "unhandled CUDA error", "system error", "internal error", "invalid argument", "invalid usage", "remote error", "in progress", "timeout")


def element_type(number: int) -> ElementType | None:
    """The element type that a COLL line numbers so."""
    return _ELEMENT_TYPES[number] if 0 <= number < len(_ELEMENT_TYPES) else None


def element_type_named(name: str) -> ElementType | None:
    """The element type of a printed name (`ncclFloat32`, `float`, `Float`, `half`, `bfloat16`, `fp8_e4m3`)."""
    return _BY_NAME.get(name.strip().lower().removeprefix("nccl"))


def reduction(number: int, version: Version = (0,)) -> str | None:
    """The reduction that a COLL line numbers so; `user` for those that a program made itself."""
    if 0 <= number < len(_REDUCTIONS):
        name, since = _REDUCTIONS[number]
        return name if _knows(version, since) else None
    return "user" if number >= len(_REDUCTIONS) and _knows(version, _USER_REDUCTION) else None


def reduction_named(name: str) -> str | None:
    """The reduction of a printed name (`sum`, `ncclSum`, `mulsum`), None for `none` and all others."""
    text = name.strip().lower().removeprefix("nccl")
    if text in {"mulsum", "premulsum"}:
        return "user"
    return text if text in _REDUCTION_NAMES else None


@lru_cache(maxsize=256)
def algorithm(text: str, version: Version = (0,)) -> str | None:
    """The algorithm of a printed number or name (`1`, `RING`, `Ring`, `CollNetChain`, `NVLS_TREE`)."""
    word = text.strip()
    if word.isascii() and word.isdigit() and len(word) < 4:
        number = int(word)
        if number >= len(_ALGORITHMS):
            return None
        name, since = _ALGORITHMS[number]
        return name if _knows(version, since) else None
    return _ALGORITHM_SPELLINGS.get(word.replace("_", "").upper())


@lru_cache(maxsize=64)
def protocol(text: str) -> str | None:
    """The protocol of a printed number or name (`0`, `LL128`, `Simple`)."""
    word = text.strip().upper()
    if word.isascii() and word.isdigit() and len(word) < 4:
        return _PROTOCOLS[int(word)] if int(word) < len(_PROTOCOLS) else None
    return word if word in _PROTOCOLS else None


@lru_cache(maxsize=512)
def operation(name: str) -> str:
    """The operation of a function of NCCL or RCCL, with or without its prefix (`AllReduce`, `ncclAllReduce`, `mscclpp_ncclAllReduce`)."""
    return _OPERATIONS.get(name.strip().lower().rpartition("nccl")[2].replace("_", ""), UNKNOWN)


def operation_number(number: int, version: Version = (0,)) -> str | None:
    """The operation of a function's number; those above 7 exist from 2.28."""
    if not 0 <= number < len(_OPERATION_NUMBERS) or (number > 7 and not _knows(version, (2, 28))):
        return None
    return _OPERATION_NUMBERS[number]


@lru_cache(maxsize=512)
def c10d_operation(name: str) -> str:
    """The operation of c10d's OpType or profiling name (`ALLREDUCE`, `_ALLGATHER_BASE`, `nccl:all_reduce`).

    `COALESCED` holds several operations and says not which: it is `unknown`.
    """
    text = name.strip().lower().rpartition(":")[2].split(" ", 1)[0].replace("_", "")
    for ending in _C10D_ENDINGS:
        text = text.removesuffix(ending)
    return _C10D.get(text) or _OPERATIONS.get(text, UNKNOWN)


@lru_cache(maxsize=64)
def program_operation(name: str) -> str | None:
    """The operation of a program of nccl-tests or rccl-tests (`all_reduce_perf`, `alltoall_perf_mpi`, `sendrecv_perf`), else None."""
    stem, found, _ = name.strip().rpartition("/")[2].lower().partition("_perf")
    return _OPERATIONS.get(stem.replace("_", "")) if found else None


def _knows(version: Version, since: Version) -> bool:
    return version[:1] in {(), (0,)} or version >= since
