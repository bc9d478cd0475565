"""`tracelab.toml`: what the files do not say and the user does."""

from __future__ import annotations

import math
import os
import re
from datetime import timedelta, timezone, tzinfo
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from tracelab.errors import ManifestError
from tracelab.ingest.discovery import MANIFEST_NAME

__all__ = ["FileEntry", "Manifest", "RankEntry", "load_manifest", "zone_of"]


Rank = Annotated[int, msgspec.Meta(ge=0, lt=1_000_000)]


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[files."traces/a.json"]`: the rank, host or format of one file; `ignore` leaves it out.

    `zone` is that of moments without one in a file of counters: an offset such as +02:00, or a name such as Europe/Berlin.
    """

    rank: Rank | None = None
    host: str | None = None
    format: str | None = None
    zone: str | None = None
    ignore: bool = False


class RankEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[ranks.3]`: where a rank runs."""

    host: str | None = None
    device: Annotated[int, msgspec.Meta(ge=0, le=1_023)] | None = None
    nic: str | None = None


class _Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str | None = None
    world_size: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None


class _Steps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    skip: list[Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]] = []


class _Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    per_gpu_hour: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    currency: str = "USD"


class _Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    link_gbps: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole manifest.

    `hosts` maps an alias to the name that is meant; `network.link_gbps` is the speed of links that no source states; `tables`
    says what the columns of a table mean, by its path (see the parser of such tables).
    """

    job: _Job = _Job()
    files: dict[str, FileEntry] = {}
    ranks: dict[Rank, RankEntry] = {}
    hosts: dict[str, str] = {}
    steps: _Steps = _Steps()
    cost: _Cost = _Cost()
    network: _Network = _Network()
    tables: dict[str, dict[str, Any]] = {}

    def host(self, name: str | None) -> str | None:
        """The name that is meant by `name`."""
        return None if name is None else self.hosts.get(name, name)


def zone_of(text: str) -> tzinfo | None:
    """The zone that an offset (`+02:00`) or a name (`Europe/Berlin`) means; None where there is no such zone."""
    offset = re.fullmatch(r"([+-])(\d\d):?(\d\d)", text)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=minutes if offset[1] == "+" else -minutes)) if minutes < 24 * 60 else None
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


_KEYS = {
    "job": ("name", "world_size"),
    'files."PATH"': ("rank", "host", "format", "zone", "ignore"),
    "ranks.N": ("host", "device", "nic"),
    "hosts": ("ALIAS",),
    "steps": ("skip",),
    "cost": ("per_gpu_hour", "currency"),
    "network": ("link_gbps",),
    'tables."PATH"': ("time", "node", "device", "counters", "…"),
}


def load_manifest(root: Path, given: Path | None = None) -> Manifest:
    """The manifest that was `given`, else the one in `root`, else an empty one. `ManifestError` says what is wrong."""
    path = given or root / MANIFEST_NAME
    if given is None and not os.path.isfile(path):  # noqa: PTH113  # unlike is_file, never raises
        return Manifest()
    try:
        manifest = msgspec.toml.decode(path.read_bytes(), type=Manifest, strict=False)
    except OSError as e:
        raise ManifestError(f"{path} cannot be read: {e.strerror}", hint="give a manifest that exists with --manifest FILE") from e
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        known = "; ".join(f"[{table}] {', '.join(keys)}" for table, keys in _KEYS.items())
        raise ManifestError(f"{path}: {e}", hint=f"known: {known}") from e
    for name, entry in manifest.files.items():
        if entry.zone is not None and zone_of(entry.zone) is None:
            raise ManifestError(f"{path}: {entry.zone!r}, the zone of {name!r}, is none", hint="give an offset such as +02:00, or a name such as Europe/Berlin")
    if manifest.cost.per_gpu_hour is not None and not math.isfinite(manifest.cost.per_gpu_hour):
        raise ManifestError(f"{path}: per_gpu_hour is no number", hint="give the price of one GPU-hour, such as 2.5")
    return manifest
