"""What an export says about its session: clock, host, GPUs, ranks, versions. By an allow-list: it carries whole environments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracelab_parsers.nsys.processes import process_key
from tracelab_parsers.nsys.source import Field, Source, newest

__all__ = ["Session", "read_session", "small_rows"]

_FACTS = {
    "EXPORT_PRODUCT_VERSION": "nsys_version",
    "EXPORT_SCHEMA_VERSION": "schema_version",
    "EXPORT_PARAM_INCLUDE_BLOBS": "include_blobs",
    "EXPORT_PARAM_INCLUDE_JSON": "include_json",
    "EXPORT_PARAM_TIME_NORMALIZE": "time_normalize",
    "EXPORT_PARAM_TIME_SHIFT": "time_shift",
    "EXPORT_PARAM_TIMES_TO_EXPORT": "times_to_export",
    "CUDA_GRAPH_TRACE_OPTIONS:MODE": "cuda_graph_trace",
}
_SYSTEM = {"Hostname": "host", "NvDriverVersion": "driver_version", "CudaDriverVersion": "cuda_driver_version"}
_SAFE = re.compile(r"[\w.,:+\- /]{1,100}")
_ENVIRONMENT = "DeviceEnvironment"
_PROCESS_ENVIRONMENT = re.compile(r"PROCESS_\d{1,6}:ENVIRONMENT_VARIABLE")
_RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
)
"""Rank and number of ranks as launchers state them, the surest first. No other variable is ever kept."""
_ALLOWED = frozenset(name for pair in _RANKS for name in pair)
_VARIABLE = re.compile(r"(?<![A-Za-z0-9_])(" + "|".join(sorted(_ALLOWED, key=len, reverse=True)) + r")\"?\s*[=:]\s*\"?(\d{1,7})(?![\w.])")
_XLA = re.compile(r"^Xla:.{0,40}#global=(\d{1,7})\b")
"""How XLA names its devices: `Xla:#global=3,local=1,process=1,slice=0#`, the first the device's number in the job."""
_MOST_ROWS = 200_000
_SHIFT = re.compile(r"[+-]?[0-9]{1,18}")
_ABSOLUTE_NS = 10**17
"""Session times are never three years long: what is beyond counts from the Unix epoch."""


@dataclass
class Session:
    """`epoch_ns` is added to times of the export; None where it states no moment. `gpu_of` maps (pid, CUDA ordinal) to the GPU.

    The capture began at `start_ns` of a clock that exports choose (mostly the time since the host's boot) and took `length_ns`;
    rows count from the capture's start, but where `since_boot` or `absolute` says otherwise.
    """

    epoch_ns: int | None = None
    absolute: bool = False
    length_ns: int | None = None
    start_ns: int = 0
    since_boot: bool = False
    host: str | None = None
    env_rank: int | None = None
    env_world: int | None = None
    facts: dict[str, str] = field(default_factory=dict)
    gpu_of: dict[tuple[int, int], int] = field(default_factory=dict)
    gpu_names: dict[int, str] = field(default_factory=dict)
    gpu_uuids: dict[int, str] = field(default_factory=dict)
    xla_ranks: list[int] = field(default_factory=list)
    mpi_rank: dict[int, int] = field(default_factory=dict)

    @property
    def end_ns(self) -> int | None:
        """The end of the capture as the rows count; None where the file does not tell it."""
        if self.length_ns is None:
            return None
        if self.since_boot or (self.absolute and self.start_ns > _ABSOLUTE_NS):
            return self.start_ns + self.length_ns
        if self.absolute and self.epoch_ns is None:
            return None
        return self.length_ns + (self.epoch_ns or 0 if self.absolute else 0) + self._shift_ns

    @property
    def _shift_ns(self) -> int:
        """What the export added to all times (--ts-shift)."""
        stated = self.facts.get("time_shift", "")
        return int(stated) if _SHIFT.fullmatch(stated) else 0

    @property
    def base_ns(self) -> int:
        """What is added to times of the export."""
        return 0 if self.absolute or self.epoch_ns is None else self.epoch_ns

    @property
    def base_lost(self) -> bool:
        """Whether times count from an unknown moment."""
        return not self.absolute and self.epoch_ns is None

    def see(self, ts: int) -> None:
        """Takes the first time of a row into account: it may count from the Unix epoch, or as `start_ns` does, without the export saying so."""
        self.absolute = self.absolute or ts > _ABSOLUTE_NS
        length = self.length_ns or 0
        self.since_boot = not self.absolute and length < ts and self.start_ns <= ts <= self.start_ns + length


def small_rows(source: Source, name: str, *fields: Field) -> Iterator[dict[str, Any]]:
    """The rows of a small table; a hostile one is not read beyond 200,000 rows."""
    table = newest(source.tables, name)
    if table is None:
        return
    left = _MOST_ROWS
    for batch in source.batches(table, fields):
        yield from batch.slice(0, left).to_pylist()
        left -= batch.num_rows
        if left <= 0:
            return


def _texts(source: Source, name: str) -> Iterator[tuple[str, str]]:
    for row in small_rows(source, name, Field("name", "text"), Field("value", "text")):
        if row["name"] is not None and row["value"] is not None:
            yield row["name"], row["value"]


def read_session(source: Source) -> Session:
    """Reads the small tables that describe the session."""
    session = Session()
    variables: dict[str, int] = {}
    for name in ("META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE"):
        for key, value in _texts(source, name):
            _keep(session.facts, _FACTS.get(key), value)
            if _PROCESS_ENVIRONMENT.fullmatch(key):
                _variables(value, variables)
    system: dict[str, str] = {}
    for key, value in _texts(source, "TARGET_INFO_SYSTEM_ENV"):
        _keep(system, _SYSTEM.get(key), value)
        if key == _ENVIRONMENT:
            _variables(value, variables)
    session.host = system.pop("host", None)
    session.facts |= system
    session.env_rank, session.env_world = _rank_of(variables)
    _clock(source, session)
    _gpus(source, session)
    for row in small_rows(source, "MPI_RANKS", Field("globalTid"), Field("rank")):
        if row["globalTid"] is not None and row["rank"] is not None and row["rank"] >= 0:
            session.mpi_rank.setdefault(process_key(row["globalTid"]), row["rank"])
    return session


def _keep(facts: dict[str, str], key: str | None, value: str) -> None:
    if key is not None and _SAFE.fullmatch(value):
        facts.setdefault(key, value)


def _variables(text: str, found: dict[str, int]) -> None:
    """The allowed variables in the text of an environment (`NAME=value` lines, or JSON); everything else is forgotten here."""
    for name, value in _VARIABLE.findall(text):
        found.setdefault(name, int(value))


def _rank_of(variables: Mapping[str, int]) -> tuple[int | None, int | None]:
    for rank, size in _RANKS:
        if rank in variables:
            world = variables.get(size)
            return (variables[rank], world) if world is None or variables[rank] < world else (None, None)
    return None, None


def _clock(source: Source, session: Session) -> None:
    facts = session.facts
    session.absolute = facts.get("time_normalize", "").lower() in {"true", "1"}
    for row in small_rows(source, "TARGET_INFO_SESSION_START_TIME", Field("utcEpochNs"), Field("systemClockNs")):
        if row["utcEpochNs"] is not None and 0 < row["utcEpochNs"] < 1 << 62:
            session.epoch_ns = row["utcEpochNs"]
        if row["systemClockNs"] is not None and row["systemClockNs"] > 0:
            # all sessions since one boot of a host share this clock, whatever happens to that of the day
            facts["session_start_system_clock_ns"] = str(row["systemClockNs"])
        break
    for row in small_rows(source, "ANALYSIS_DETAILS", Field("duration"), Field("startTime"), Field("stopTime")):
        start, length, stop = row["startTime"] or 0, row["duration"], row["stopTime"]
        if stop is not None and stop > start:
            length = stop - start
        if length is not None and 0 < length < 1 << 60 and 0 <= start < 1 << 61 and length > (session.length_ns or 0):
            session.start_ns, session.length_ns = start, length
    if session.epoch_ns is not None:
        facts["session_start_utc_ns"] = str(session.epoch_ns)


def _gpus(source: Source, session: Session) -> None:
    for row in small_rows(source, "TARGET_INFO_GPU", Field("id"), Field("name", "text"), Field("uuid", "text")):
        if row["id"] is not None and row["name"]:
            session.gpu_names.setdefault(row["id"], row["name"][:100])
        if row["id"] is not None and row["uuid"] and _SAFE.fullmatch(row["uuid"]):
            session.gpu_uuids.setdefault(row["id"], row["uuid"])
    named = [m for row in small_rows(source, "TARGET_INFO_NVTX_CUDA_DEVICE", Field("name", "text")) if row["name"] and (m := _XLA.search(row["name"]))]
    session.xla_ranks = sorted({int(m.group(1)) for m in named})
    seen: dict[tuple[int, int], int] = {}
    for row in small_rows(source, "TARGET_INFO_CUDA_DEVICE", Field("gpuId"), Field("cudaId"), Field("pid")):
        if None not in row.values():
            seen.setdefault((row["pid"], row["cudaId"]), row["gpuId"])
    session.gpu_of = {key: gpu for key, gpu in seen.items() if gpu >= 0}
