"""What a parser and a reporter are, and how they are found.

Built-in and third-party ones register alike, through the entry points `tracelab.parsers` and `tracelab.reporters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

import msgspec

from tracelab.errors import PluginError, UnknownNameError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from tracelab.results import RunResult
    from tracelab.tables import TableSpec

__all__ = [
    "Emitter",
    "EventCount",
    "Gathering",
    "Match",
    "Notice",
    "Parser",
    "Part",
    "Reporter",
    "Severity",
    "SourceFile",
    "SourceInfo",
    "SourceKind",
    "TerminalReporter",
    "WithCheckedOptions",
    "WithCompanions",
    "parsers",
    "reporter",
    "reporters",
]

Severity = Literal["error", "warning", "info"]
SourceKind = Literal["timeline", "log", "fabric"]


@dataclass(frozen=True)
class Match:
    """A parser's claim on a file: `confidence` from 0 to 1 (1: the content proves it), and why."""

    confidence: float
    reason: str


@dataclass(frozen=True)
class SourceFile:
    """A file to parse. `path` is where it is, `name` how notices call it, `options` what the user asked for."""

    path: Path
    name: str
    options: Mapping[str, bool | int | str] = field(default_factory=dict)


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that could not be read or trusted. One per kind and file, counted.

    `severity`: error (the file or a rank is lost), warning (data are lost or doubtful), info (worth knowing).
    `offset` is the position of the first case in the uncompressed file.
    """

    code: str
    severity: Severity
    text: str
    hint: str = ""
    count: int = 1
    offset: int | None = None


class EventCount(msgspec.Struct, frozen=True):
    """How many complete events of a kind a source holds, and whether they are in a table."""

    kind: str
    count: int
    stored: bool


class Part(msgspec.Struct, omit_defaults=True):
    """One process that a source speaks for. Everything is as stated by the file's content; null where it is silent.

    Times are in the source's own clock. `device` is the GPU that did the work. `job` is a text that all processes of one
    launch share and those of another do not (the id of the communicator of all ranks). `time_base_ns` is the moment that the
    file's times count from, where it states one; `time_base_lost`: they count from a moment that it should state and does
    not (it was cut short before), so that they lie near 1970. `partial`: producers spread what one process says over several
    files, so that two that name it are no repetition.
    """

    part: int = 0
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    pid: int | None = None
    device: int | None = None
    gpu: str | None = None
    backend: str | None = None
    job: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    time_base_ns: int | None = None
    time_base_lost: bool = False
    partial: bool = False


class SourceInfo(msgspec.Struct, omit_defaults=True):
    """What a parser says about a file beside its rows.

    `metadata` holds only what the parser allows: never an environment, a command line or a token.
    """

    parts: list[Part]
    metadata: dict[str, str] = {}
    event_counts: list[EventCount] = []
    truncated: bool = False

    @property
    def events(self) -> int:
        """Complete events in the file, stored or not."""
        return sum(c.count for c in self.event_counts)


class Emitter(Protocol):
    """Where a parser puts what it finds. Batches may come in any order and size; keep them near 100,000 rows."""

    def batch(self, table: TableSpec, batch: pa.RecordBatch) -> None:
        """Adds rows; the batch must have exactly the schema `table.arrow`."""

    def notice(self, notice: Notice) -> None:
        """Adds a notice; notices of one code are merged: counts add up, the first offset and text stay."""

    def progress(self, bytes_read: int) -> None:
        """Tells how many bytes of the file on disk have been read so far."""


class Parser(Protocol):
    """Reads one kind of file. Knows nothing of other files.

    `name` and `version` are part of the cache key: raise the version when the rows for the same file change.
    `option_names` are the keys of `SourceFile.options` that change its rows. `kind` is timeline (a capture of what ran when:
    of two that claim one rank at one time, one is left out), log (what processes say of themselves, beside any capture) or
    fabric (counters and wiring of machines: its sources have no parts, since they speak for no rank).
    """

    name: str
    version: int
    title: str
    kind: SourceKind
    tables: tuple[TableSpec, ...]
    option_names: tuple[str, ...]

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """Whether the file is of this kind, from its name and its first 64 KiB (decompressed where it is gzip)."""

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """Streams the file's rows to `emit` in bounded memory.

        Damage becomes a notice; only what makes the whole file useless is raised, as `TracelabError` or `OSError`.
        """


@dataclass(frozen=True)
class Gathering:
    """Files that are read together. `root`: the folder whose layout has a meaning; names below it are part of the cache key."""

    root: Path
    files: tuple[Path, ...]


@runtime_checkable
class WithCompanions(Protocol):
    """A parser whose sources may be made of several files: one that it claims, and others that it reads with it."""

    def companions(self, path: Path) -> Gathering | None:
        """The files that are read with the claimed file `path`, which it need not hold itself; None where it stands alone.

        Their content and their names below the root are part of the cache key, and they are no sources of their own. It is
        asked for claimed files alone, so that `sniff` must claim one file of a gathering and no other.
        """


@runtime_checkable
class WithCheckedOptions(Protocol):
    """A parser with options that may be wrong whatever the file holds."""

    def check_options(self, options: Mapping[str, bool | int | str]) -> None:
        """Raises `ManifestError` for options that fit no file. It is asked before any file is read, so that the user learns it at once."""


class Reporter(Protocol):
    """Turns a result document into a file."""

    name: str
    suffixes: tuple[str, ...]

    def render(self, result: RunResult) -> str:
        """The whole text of the report."""


@runtime_checkable
class TerminalReporter(Protocol):
    """A reporter that can also print on a terminal."""

    def show(self, result: RunResult, console: Console) -> None:
        """Prints the result."""


def _load(group: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for point in sorted(entry_points(group=group), key=lambda p: (p.name, p.value)):
        if point.name in found and origin[point.name] != point.value:
            text = f"two plugins of {group} are called {point.name!r}: {origin[point.name]} and {point.value}"
            raise PluginError(text, hint="uninstall one of the two packages")
        try:
            found[point.name] = point.load()
        except Exception as e:  # a third party's import may raise anything
            text = f"plugin {point.name!r} of {group} ({point.value}) cannot be loaded: {e}"
            raise PluginError(text, hint="update or uninstall the package that provides it") from e
        origin[point.name] = point.value
        if found[point.name].name != point.name:
            raise PluginError(f"plugin {point.value} registers as {point.name!r} but calls itself {found[point.name].name!r}")
    return found


@cache
def parsers() -> dict[str, Parser]:
    """All installed parsers by name."""
    return cast("dict[str, Parser]", _load("tracelab.parsers"))


@cache
def reporters() -> dict[str, Reporter]:
    """All installed reporters by name."""
    return cast("dict[str, Reporter]", _load("tracelab.reporters"))


def reporter(name: str) -> Reporter:
    """The reporter of that name; `UnknownNameError` lists the installed ones."""
    try:
        return reporters()[name]
    except KeyError:
        raise UnknownNameError("reporter", name, reporters()) from None
