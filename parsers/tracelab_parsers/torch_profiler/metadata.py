"""What a trace says about its process, by an allow-list: traces carry environments and tokens that must go nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tracelab_parsers.json_repair import repair
from tracelab_parsers.torch_profiler.values import as_int

__all__ = ["KEPT", "Metadata", "read_metadata"]

_PLAIN = (
    "schemaVersion",
    "baseTimeNanoseconds",
    "displayTimeUnit",
    "record_shapes",
    "with_stack",
    "profile_memory",
    "with_flops",
    "with_modules",
    "trace_id",
    "cupti_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "roctracer_version",
    "rocprofiler-sdk_version",
    "hip_runtime_version",
    "hip_driver_version",
)
_HOST = ("host_name", "hostname")
_JOB = ("PT_PROFILER_JOB_NAME", "mast_job_name")
KEPT = frozenset((*_PLAIN, *_HOST, *_JOB, "deviceProperties", "distributedInfo"))
"""The top-level keys that are read. Everything else is passed over unseen."""

_MAX_TEXT = 200
_AMD_KEYS = ("hip_runtime_version", "hip_driver_version", "roctracer_version", "rocprofiler-sdk_version")
_NVIDIA_KEYS = ("cuda_runtime_version", "cuda_driver_version", "cupti_version")
_NVIDIA_NAMES = ("NVIDIA", "Tesla", "GeForce", "Quadro")


@dataclass(frozen=True)
class Metadata:
    """The allowed part of a trace's metadata. `broken` counts values that are no JSON."""

    plain: Mapping[str, str]
    host: str | None
    job: str | None
    base_ns: int | None
    rank: int | None
    world_size: int | None
    backend: str | None
    pg_count: int | None
    nccl_version: str | None
    pg_config: object
    gpus: Mapping[int, str]
    broken: int

    def vendor(self, saw_gpu: bool) -> str:
        """Who made the GPUs: nvidia, amd, intel, unknown or cpu (none)."""
        names = " ".join(self.gpus.values())
        if any(k in self.plain for k in _AMD_KEYS) or "AMD" in names:
            return "amd"
        if any(k in self.plain for k in _NVIDIA_KEYS) or any(n in names for n in _NVIDIA_NAMES):
            return "nvidia"
        if "Intel" in names:
            return "intel"
        return "unknown" if saw_gpu or self.gpus else "cpu"


def _decode(raw: bytes | None) -> tuple[Any, bool]:
    """A value, and whether it was broken beyond repair."""
    if raw is None:
        return None, False
    try:
        return msgspec.json.decode(raw), False
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        repaired = repair(raw)
    return (None, True) if repaired is None else (repaired.value, False)


def _short(value: object) -> str | None:
    """A scalar as text of bounded length."""
    return str(value)[:_MAX_TEXT] if isinstance(value, (str, int, float)) else None


def _count(value: object) -> int | None:
    n = as_int(value, 32)
    return n if n is not None and n >= 0 else None


def _first(values: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((text for k in keys if (text := _short(values.get(k)))), None)


def _gpus(properties: object) -> dict[int, str]:
    """Model names of the GPUs of a host by index."""
    found = {}
    for i, device in enumerate(properties if isinstance(properties, list) else []):
        name = _short(device.get("name")) if isinstance(device, dict) else None
        index = _count(device.get("id", i)) if isinstance(device, dict) else None
        if name and index is not None:
            found[index] = name
    return found


def read_metadata(raw: Mapping[str, bytes]) -> Metadata:
    """The metadata from the raw text of the kept top-level keys."""
    decoded = {k: _decode(raw.get(k)) for k in sorted(KEPT)}
    values = {k: v for k, (v, _) in decoded.items()}
    info = values["distributedInfo"] if isinstance(values["distributedInfo"], dict) else {}
    world = _count(info.get("world_size"))
    return Metadata(
        plain={k: text for k in _PLAIN if (text := _short(values[k])) is not None},
        host=_first(values, _HOST),
        job=_first(values, _JOB),
        base_ns=as_int(values["baseTimeNanoseconds"]),
        rank=_count(info.get("rank")),
        world_size=world or None,
        backend=_short(info.get("backend")),
        pg_count=_count(info.get("pg_count")),
        nccl_version=_short(info.get("nccl_version")),
        pg_config=info.get("pg_config"),
        gpus=_gpus(values["deviceProperties"]),
        broken=sum(b for _, b in decoded.values()),
    )
