"""What an operation moves: NCCL's profiler interface states one size, that of the call's `count`."""

from __future__ import annotations

from tracelab_parsers.nccl_log import ops

__all__ = ["amounts", "operation_named"]

_LARGEST = (1 << 63) - 1
_SPELLINGS = {"All2All": "AlltoAll"}


def operation_named(name: object) -> str:
    """The operation of a function as NCCL's plugins name it, `unknown` where there is none."""
    return ops.operation(_SPELLINGS.get(name, name)) if isinstance(name, str) and len(name) < 64 else ops.UNKNOWN


def amounts(function: object, size: int | None, *, ranks: int | None = None, rank: int | None = None, root: int | None = None) -> tuple[int | None, int | None]:
    """Bytes that this rank contributes and receives in a call of `function` whose `count` elements have `size` bytes.

    all_gather sends and reduce_scatter receives so much, all_to_all gives it to each peer. None where the number of ranks, or
    which of them is the root, would have to be known and is not; and for gathers of different lengths.
    """
    if size is None or function == "AllGatherV":
        return None, None
    every = size * ranks if ranks is not None else None
    found: tuple[int | None, int | None]
    at_root = rank == root if rank is not None and root is not None else None
    match operation_named(function):
        case "all_reduce":
            found = size, size
        case "all_gather":
            found = size, every
        case "reduce_scatter":
            found = every, size
        case "all_to_all":
            found = every, every
        case "broadcast":
            found = _of_root(at_root, size), size
        case "reduce":
            found = size, _of_root(at_root, size)
        case "gather":
            found = size, _of_root(at_root, every)
        case "scatter":
            found = _of_root(at_root, every), size
        case "send":
            found = size, 0
        case "recv":
            found = 0, size
        case _:
            found = None, None
    inward, outward = (n if n is not None and n <= _LARGEST else None for n in found)
    return inward, outward


def _of_root(at_root: bool | None, size: int | None) -> int | None:
    return None if at_root is None else size if at_root else 0
