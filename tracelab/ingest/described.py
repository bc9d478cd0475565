"""What the manifest says of tables, as options of the parser that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from tracelab.errors import ManifestError
from tracelab.ingest.manifest import Manifest
from tracelab.ingest.pipeline import Options
from tracelab.plugins import WithCheckedOptions, parsers

__all__ = ["Described", "described_tables"]

_OPTION = "tables"


class Described(NamedTuple):
    """The name of the parser that reads tables, and its options for each of them, by their names."""

    reader: str
    options: Mapping[str, Options]


def described_tables(manifest: Manifest, path: Path) -> Described:
    """What the manifest, which lies at `path`, says of tables. `ManifestError` says what fits none."""
    reader = next((name for name, p in parsers().items() if _OPTION in p.option_names), "")
    owner: object = parsers().get(reader)
    options = {}
    for name, table in manifest.tables.items():
        options[name] = {_OPTION: msgspec.json.encode(table).decode()}
        if isinstance(owner, WithCheckedOptions):
            try:
                owner.check_options(options[name])
            except ManifestError as e:
                raise ManifestError(f'{path}: [tables."{name}"]: {e.message}', hint=e.hint) from e
    return Described(reader, options)
