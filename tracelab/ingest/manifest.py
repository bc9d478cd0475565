"""`tracelab.toml`: what the files do not say and the user does."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tracelab.errors import ManifestError
from tracelab.ingest.discovery import MANIFEST_NAME

__all__ = ["FileEntry", "Manifest", "RankEntry", "load_manifest"]


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[files."traces/a.json"]`: the rank, host or format of one file; `ignore` leaves it out."""

    rank: int | None = None
    host: str | None = None
    format: str | None = None
    ignore: bool = False


class RankEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[ranks.3]`: where a rank runs."""

    host: str | None = None
    device: int | None = None


class _Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str | None = None
    world_size: int | None = None


class _Steps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    skip: list[int] = []


class _Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    per_gpu_hour: float | None = None
    currency: str = "USD"


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole manifest. `hosts` maps an alias to the name that is meant."""

    job: _Job = _Job()
    files: dict[str, FileEntry] = {}
    ranks: dict[int, RankEntry] = {}
    hosts: dict[str, str] = {}
    steps: _Steps = _Steps()
    cost: _Cost = _Cost()

    def host(self, name: str | None) -> str | None:
        """The name that is meant by `name`."""
        return None if name is None else self.hosts.get(name, name)


def load_manifest(root: Path, given: Path | None = None) -> Manifest:
    """The manifest that was `given`, else the one in `root`, else an empty one. `ManifestError` says what is wrong."""
    path = given or root / MANIFEST_NAME
    if given is None and not path.is_file():
        return Manifest()
    try:
        manifest = msgspec.toml.decode(path.read_bytes(), type=Manifest, strict=False)
    except OSError as e:
        raise ManifestError(f"{path} cannot be read: {e.strerror}", hint="give a manifest that exists with --manifest FILE") from e
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        known = "known tables: job, files, ranks, hosts, steps, cost"
        raise ManifestError(f"{path}: {e}", hint=f"{known}; see docs/how_it_works.md") from e
    negative = [n for n, f in manifest.files.items() if f.rank is not None and f.rank < 0] + [str(r) for r in manifest.ranks if r < 0]
    if negative:
        raise ManifestError(f"{path}: a rank cannot be negative: {', '.join(negative)}", hint="ranks count from 0")
    return manifest
