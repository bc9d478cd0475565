"""What the fields of NVIDIA's DCGM count, by the names under which dcgm-exporter prints them.

Units: dcgm-exporter, etc/default-counters.csv; DCGM, dcgm_fields.h. Fields whose unit changed between versions keep their
own name: the time of violations was µs and became ns, the bandwidth of NVLink is printed as a counter and moves like a gauge.
"""

from __future__ import annotations

import re
from functools import cache

from tracelab_parsers.counters.meanings import Direction, Meaning

__all__ = ["dcgm_meaning", "is_dcgm"]

_MEBI = float(1 << 20)
_FIELDS: dict[str, Meaning] = {
    "DEV_SM_CLOCK": Meaning("sm_clock", scale=1e6, width=0),
    "DEV_MEM_CLOCK": Meaning("memory_clock", scale=1e6, width=0),
    "DEV_GPU_TEMP": Meaning("gpu_temperature", width=0),
    "DEV_MEMORY_TEMP": Meaning("memory_temperature", width=0),
    "DEV_POWER_USAGE": Meaning("power", width=0),
    "DEV_TOTAL_ENERGY_CONSUMPTION": Meaning("energy", scale=1e-3),
    "DEV_PCIE_REPLAY_COUNTER": Meaning("pcie_replays"),
    "DEV_GPU_UTIL": Meaning("gpu_utilisation", width=0),
    "DEV_XID_ERRORS": Meaning("xid_last", width=0),
    "PROF_SM_ACTIVE": Meaning("sm_active", width=0),
    "PROF_PCIE_TX_BYTES": Meaning("pcie_bytes_per_s", "tx", width=0),
    "PROF_PCIE_RX_BYTES": Meaning("pcie_bytes_per_s", "rx", width=0),
    "PROF_NVLINK_TX_BYTES": Meaning("nvlink_bytes_per_s", "tx", width=0),
    "PROF_NVLINK_RX_BYTES": Meaning("nvlink_bytes_per_s", "rx", width=0),
    "DEV_CLOCK_THROTTLE_REASONS": Meaning("throttle_reasons", width=0),
    "DEV_CLOCKS_EVENT_REASONS": Meaning("throttle_reasons", width=0),
}
_NVLINK_ERRORS = re.compile(r"DEV_NVLINK_(?:CRC_FLIT|CRC_DATA|REPLAY|RECOVERY)_ERROR_COUNT_(?:TOTAL|L\d+)")
_ECC = re.compile(r"DEV_ECC_[SD]BE_(?:VOL|AGG)_TOTAL")
_REMAPPED = re.compile(r"DEV_(?:UN)?CORRECTABLE_REMAPPED_ROWS")
_MEMORY = re.compile(r"DEV_(?:FB|BAR1)_(?:FREE|USED|RESERVED|TOTAL)")
_PCIE_COUNTER = re.compile(r"DEV_PCIE_([TR])X_THROUGHPUT")
_COUNTS = re.compile(r"_VIOLATION$|DEV_RETIRED_|_COUNT(?:_TOTAL)?$|_ERRORS?(?:_TOTAL)?$|^EXP_CLOCK_EVENTS_COUNT$")
_WINDOW = re.compile(r"^EXP_XID_ERRORS_COUNT$|^EXP_CLOCK_EVENTS_COUNT$")


def is_dcgm(name: str) -> bool:
    """Whether a metric is a field of DCGM."""
    return name.startswith(("DCGM_FI_", "DCGM_EXP_"))


@cache
def dcgm_meaning(name: str) -> Meaning:
    """The meaning of a field of DCGM."""
    field = name.removeprefix("DCGM_").removeprefix("FI_")
    known = _FIELDS.get(field)
    if known is not None:
        return known
    if _NVLINK_ERRORS.fullmatch(field):
        return Meaning("nvlink_errors")
    if _ECC.fullmatch(field):
        return Meaning("ecc_errors")
    if _REMAPPED.fullmatch(field):
        return Meaning("remapped_rows")
    if _MEMORY.fullmatch(field):
        return Meaning(f"vendor.{name}", scale=_MEBI, width=0, kind="gauge", unit="byte")
    way = _PCIE_COUNTER.fullmatch(field)
    direction: Direction | None = None if way is None else "tx" if way[1] == "T" else "rx"
    counts = _COUNTS.search(field) is not None and _WINDOW.search(field) is None
    return Meaning(f"vendor.{name}", direction, width=0, kind="counter" if counts else "gauge")
