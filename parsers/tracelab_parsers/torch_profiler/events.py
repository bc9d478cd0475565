"""The events of a PyTorch profiler trace as typed structs, and what each category means.

Fields hold what any version of the profiler writes there, of whatever JSON type; fields that nothing reads are not
decoded. Sources: kineto `output_json.cpp`, `ActivityType.h` and `MetadataFieldCatalog.h`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

__all__ = ["EMPTY", "EVENTS", "EXACT_EVENTS", "Args", "CounterEvent", "Event", "ExactEvent", "Role", "event_from_object", "exact_event_from_object", "role_of"]

Scalar = int | float | str | None
Sequence = list[Any] | str | None


class Args(msgspec.Struct, frozen=True, gc=False):
    """The arguments of an event that a table has a column for."""

    external_id: Scalar = msgspec.field(default=None, name="External id")
    correlation: Scalar = None
    sequence_number: Scalar = msgspec.field(default=None, name="Sequence number")
    stream: Scalar = None
    device: Scalar = None
    context: Scalar = None
    bytes: Scalar = None
    grid: Sequence = None
    block: Sequence = None
    kind: Scalar = None
    graph_id: Scalar = msgspec.field(default=None, name="graph id")
    graph_node_id: Scalar = msgspec.field(default=None, name="graph node id")
    from_device: Scalar = msgspec.field(default=None, name="fromDevice")
    to_device: Scalar = msgspec.field(default=None, name="toDevice")
    in_device: Scalar = msgspec.field(default=None, name="inDevice")
    out_device: Scalar = msgspec.field(default=None, name="outDevice")
    sycl_queue: Scalar = msgspec.field(default=None, name="sycl queue")
    l0_queue: Scalar = msgspec.field(default=None, name="l0 queue")
    external_id_2021: Scalar = msgspec.field(default=None, name="external id")
    collective: Scalar = msgspec.field(default=None, name="Collective name")
    dtype: Scalar = None
    in_elements: Scalar = msgspec.field(default=None, name="In msg nelems")
    out_elements: Scalar = msgspec.field(default=None, name="Out msg nelems")
    in_split: Sequence = msgspec.field(default=None, name="In split size")
    out_split: Sequence = msgspec.field(default=None, name="Out split size")
    group_name: Scalar = msgspec.field(default=None, name="Process Group Name")
    group_desc: Scalar = msgspec.field(default=None, name="Process Group Description")
    group_ranks: Sequence = msgspec.field(default=None, name="Process Group Ranks")
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


EMPTY = Args()
_LISTS = frozenset({"grid", "block", "in_split", "out_split", "group_ranks"})
_COUNTERS = "\0counters"


class Event(msgspec.Struct, gc=False):
    """One event. `ts` and `dur` are microseconds; `counters` is filled only for counter samples that were read one by one."""

    ph: str | None = None
    cat: str | None = None
    name: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    ts: Scalar = None
    dur: Scalar = None
    args: Args = EMPTY
    counters: dict[str, Any] | None = msgspec.field(default=None, name=_COUNTERS)


class ExactEvent(Event, gc=False):
    """An event whose times are kept as text: absolute microseconds with three decimals have 19 digits, more than a float holds."""

    ts: msgspec.Raw | Scalar = None  # type: ignore[assignment]
    dur: msgspec.Raw | Scalar = None  # type: ignore[assignment]


class CounterEvent(msgspec.Struct, gc=False):
    """A counter sample with all its values."""

    ph: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


EVENTS: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[Event])
EXACT_EVENTS: msgspec.json.Decoder[list[ExactEvent]] = msgspec.json.Decoder(list[ExactEvent])


def _scalar(value: object) -> Any:
    return value if isinstance(value, (int, float, str)) else None


def _args(value: object) -> Args:
    if not isinstance(value, dict):
        return EMPTY
    found = {}
    for f in msgspec.structs.fields(Args):
        v = value.get(f.encode_name)
        found[f.name] = v if f.name in _LISTS and isinstance(v, list) else _scalar(v)
    return Args(**found)


def _convert(value: object, kind: type[Event]) -> Event:
    if not isinstance(value, dict):
        return kind(ph="not an object")
    args = value.get("args")
    ph, cat = value.get("ph"), value.get("cat")
    return kind(
        ph=ph if isinstance(ph, str) else None,
        cat=cat if isinstance(cat, str) else None,
        name=_scalar(value.get("name")),
        pid=_scalar(value.get("pid")),
        tid=_scalar(value.get("tid")),
        ts=_scalar(value.get("ts")),
        dur=_scalar(value.get("dur")),
        args=_args(args),
        counters=args if ph == "C" and isinstance(args, dict) else None,
    )


def event_from_object(value: object) -> Event:
    """An event from a plain JSON value, with what has the wrong type left out."""
    return _convert(value, Event)


def exact_event_from_object(value: object) -> ExactEvent:
    """As `event_from_object`, for a stream of exact events."""
    event = _convert(value, ExactEvent)
    assert isinstance(event, ExactEvent)
    return event


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
