"""The events of a PyTorch profiler trace as typed structs, and what each category means.

Fields hold what any version of the profiler writes there, of whatever JSON type; fields that nothing reads are not
decoded. Sources: kineto `output_json.cpp`, `ActivityType.h` and `MetadataFieldCatalog.h`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from tracelab_parsers.json_repair import repair

__all__ = [
    "EVENTS",
    "EXACT_EVENTS",
    "NOT_AN_OBJECT",
    "Args",
    "Details",
    "Event",
    "ExactEvent",
    "Role",
    "counters_of",
    "details_of",
    "event_from_object",
    "role_of",
]

Scalar = int | float | str | None
Listed = list[Any] | str | None


class Args(msgspec.Struct, frozen=True, gc=False):
    """The arguments that every span may have. Few fields: most of a trace's text is arguments, and each field costs time."""

    external_id: Scalar = msgspec.field(default=None, name="External id")
    correlation: Scalar = None
    sequence_number: Scalar = msgspec.field(default=None, name="Sequence number")
    external_id_2021: Scalar = msgspec.field(default=None, name="external id")


class Details(msgspec.Struct, frozen=True, gc=False):
    """The arguments of GPU work, collectives and memory events."""

    stream: Scalar = None
    device: Scalar = None
    context: Scalar = None
    bytes: Scalar = None
    grid: Listed = None
    block: Listed = None
    kind: Scalar = None
    graph_id: Scalar = msgspec.field(default=None, name="graph id")
    graph_node_id: Scalar = msgspec.field(default=None, name="graph node id")
    from_device: Scalar = msgspec.field(default=None, name="fromDevice")
    to_device: Scalar = msgspec.field(default=None, name="toDevice")
    in_device: Scalar = msgspec.field(default=None, name="inDevice")
    out_device: Scalar = msgspec.field(default=None, name="outDevice")
    sycl_queue: Scalar = msgspec.field(default=None, name="sycl queue")
    l0_queue: Scalar = msgspec.field(default=None, name="l0 queue")
    collective: Scalar = msgspec.field(default=None, name="Collective name")
    dtype: Scalar = None
    in_elements: Scalar = msgspec.field(default=None, name="In msg nelems")
    out_elements: Scalar = msgspec.field(default=None, name="Out msg nelems")
    in_split: Listed = msgspec.field(default=None, name="In split size")
    out_split: Listed = msgspec.field(default=None, name="Out split size")
    group_name: Scalar = msgspec.field(default=None, name="Process Group Name")
    group_desc: Scalar = msgspec.field(default=None, name="Process Group Description")
    group_ranks: Listed = msgspec.field(default=None, name="Process Group Ranks")
    group_id: Scalar = msgspec.field(default=None, name="Process Group ID")
    group_size: Scalar = msgspec.field(default=None, name="Group size")
    rank_start: Scalar = msgspec.field(default=None, name="Global rank start")
    rank_stride: Scalar = msgspec.field(default=None, name="Global rank stride")
    src_rank: Scalar = msgspec.field(default=None, name="Src Rank")
    dst_rank: Scalar = msgspec.field(default=None, name="Dst Rank")
    seq: Scalar = msgspec.field(default=None, name="Seq")
    comms_id: Scalar = msgspec.field(default=None, name="Comms Id")
    is_async: bool | int | float | str | None = msgspec.field(default=None, name="Is asynchronized op")
    address: Scalar = msgspec.field(default=None, name="Addr")
    memory_bytes: Scalar = msgspec.field(default=None, name="Bytes")
    total_allocated: Scalar = msgspec.field(default=None, name="Total Allocated")
    total_reserved: Scalar = msgspec.field(default=None, name="Total Reserved")
    device_type: Scalar = msgspec.field(default=None, name="Device Type")
    device_id: Scalar = msgspec.field(default=None, name="Device Id")


class Event(msgspec.Struct, gc=False):
    """One event. `ts` and `dur` are microseconds."""

    ph: str | None = None
    cat: str | None = None
    name: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    ts: Scalar = None
    dur: Scalar = None
    args: Args = Args()


class ExactEvent(Event, gc=False):
    """An event whose times are kept as text: absolute microseconds with three decimals have 19 digits, more than a float holds."""

    ts: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]
    dur: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]


class _Detailed(msgspec.Struct, gc=False):
    args: Details = Details()


NOT_AN_OBJECT = "not an object"
EVENTS: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[Event])
EXACT_EVENTS: msgspec.json.Decoder[list[ExactEvent]] = msgspec.json.Decoder(list[ExactEvent])
_DETAILED = msgspec.json.Decoder(list[_Detailed])
_LISTS = frozenset({"grid", "block", "in_split", "out_split", "group_ranks"})
_FLAGS = frozenset({"is_async"})
S = TypeVar("S", bound=msgspec.Struct)


def _scalar(value: object) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else float(value)
    return value if type(value) in (int, float, str) else None


def _time(value: object) -> Any:
    return str(value) if isinstance(value, Decimal) else _scalar(value)


def _fields(kind: type[S], value: object) -> S:
    """A struct from a plain JSON object, with what has the wrong type left out."""
    found = value if isinstance(value, dict) else {}
    values = {}
    for f in msgspec.structs.fields(kind):
        v = found.get(f.encode_name)
        fits = (f.name in _LISTS and isinstance(v, list)) or (f.name in _FLAGS and isinstance(v, bool))
        values[f.name] = v if fits else _scalar(v)
    return kind(**values)


def event_from_object(value: object) -> Event:
    """An event from a plain JSON value, with what has the wrong type left out. Numbers may come as text."""
    if not isinstance(value, dict):
        return Event(ph=NOT_AN_OBJECT)
    ph, cat = value.get("ph"), value.get("cat")
    return Event(
        ph=ph if isinstance(ph, str) else None,
        cat=cat if isinstance(cat, str) else None,
        name=_scalar(value.get("name")),
        pid=_scalar(value.get("pid")),
        tid=_scalar(value.get("tid")),
        ts=_time(value.get("ts")),
        dur=_time(value.get("dur")),
        args=_fields(Args, value.get("args")),
    )


def _args_of(text: bytes) -> object:
    repaired = repair(text)
    return repaired.value.get("args") if repaired is not None and isinstance(repaired.value, dict) else None


def details_of(texts: list[msgspec.Raw]) -> list[Details]:
    """The detailed arguments of events from their text."""
    try:
        return [e.args for e in _DETAILED.decode(b"[%b]" % b",".join(texts))]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return [_fields(Details, _args_of(bytes(t))) for t in texts]


def counters_of(text: msgspec.Raw) -> dict[str, float]:
    """The values of a counter sample from its text."""
    args = _args_of(bytes(text))
    return {k: float(v) for k, v in args.items() if isinstance(v, int | Decimal) and not isinstance(v, bool)} if isinstance(args, dict) else {}


Table = Literal["gpu", "host", "python", "memory", "counter", "unknown", "none"]


class Role(NamedTuple):
    """The table that an event belongs to, and its kind there."""

    table: Table
    kind: str = ""


_GPU = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "hpu_op": "kernel",
    "mtia_ccp_events": "kernel",
    "privateuse1_kernel": "kernel",
    "memcpy": "memcpy",
    "gpu_memcpy": "memcpy",
    "memset": "memset",
    "gpu_memset": "memset",
    "cuda_sync": "sync",
    "cuda_event": "sync",
    "xpu_sync": "sync",
    "gpu_user_annotation": "annotation",
}
_HOST = {
    "operator": "cpu_op",
    "cpu_op": "cpu_op",
    "user_annotation": "annotation",
    "runtime": "runtime",
    "driver": "driver",
    "overhead": "overhead",
}
_NOT_WORK = frozenset({"trace", "external_correlation"})
_UNKNOWN = Role("unknown", "other")


def role_of(ph: str | None, cat: str | None) -> Role:
    """Where an event of that phase and category belongs. Categories of 2021 and 2022 and of all vendors are known."""
    if ph == "C":
        return Role("counter")
    if ph in ("i", "I"):
        return Role("memory")
    if ph != "X":
        return Role("none")
    name = (cat or "").lower()
    if name in _GPU:
        return Role("gpu", _GPU[name])
    if name in _HOST:
        return Role("host", _HOST[name])
    if name.endswith("_runtime") or name == "hip":
        return Role("host", "runtime")
    if name.endswith("_driver"):
        return Role("host", "driver")
    if name == "python_function":
        return Role("python", "python")
    return Role("none") if name in _NOT_WORK else _UNKNOWN
