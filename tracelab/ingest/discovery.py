"""From a directory to the files in it and the parser that claims each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from tracelab.errors import UnknownNameError, UsageError
from tracelab.ingest.heads import read_head
from tracelab.ingest.signatures import describe
from tracelab.plugins import Gathering, Match, Notice, Parser, WithCompanions, parsers

__all__ = ["MANIFEST_NAME", "Candidate", "discover"]

MANIFEST_NAME = "tracelab.toml"
_MIN_CONFIDENCE = 0.3
"""Below it a claim is a guess: the file is named as unknown rather than read as something that it is not."""


@dataclass(frozen=True)
class Candidate:
    """A file that was found. `parser` is the name of the one that claims it, or None; `looks_like` says what it is.

    `name` is the path relative to the analysed directory, with `/` on every platform. `companions` are the files that its
    parser reads with it, found below `companion_root`; each of them has the name of this one as `companion_of`.
    """

    path: Path
    name: str
    size_bytes: int
    gzipped: bool
    parser: str | None
    looks_like: str
    notice: Notice | None = None
    ignored: bool = False
    companions: tuple[Path, ...] = ()
    companion_root: Path | None = None
    companion_of: str | None = None
    companion_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Size of the file and its companions."""
        return self.size_bytes + self.companion_bytes


def _files(root: Path, unreadable: list[OSError]) -> Iterator[Path]:
    """All files below `root` in the order of their paths, without hidden ones. Linked folders are followed, each once."""
    seen = {_identity(root)}
    for folder, subfolders, names in os.walk(root, followlinks=True, onerror=unreadable.append):
        fresh = []
        for name in sorted(s for s in subfolders if not s.startswith(".")):
            identity = _identity(Path(folder, name))
            if identity not in seen:
                seen.add(identity)
                fresh.append(name)
        subfolders[:] = fresh
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(folder, name)


def _identity(folder: Path) -> tuple[int, int] | str:
    """What two names of one folder share, so that a loop of links ends."""
    try:
        info = folder.stat()
    except OSError:
        return str(folder)
    return info.st_dev, info.st_ino


def _unreadable_folder(e: OSError, root: Path) -> Candidate:
    path = Path(e.filename)
    text = f"the folder cannot be read: {e.strerror}; whatever lies in it is missing here"
    notice = Notice("unreadable-folder", "error", text, "check its permissions")
    return Candidate(path, _safe_name(path, root), 0, gzipped=False, parser=None, looks_like="folder that cannot be read", notice=notice)


def _own(path: Path, root: Path) -> bool:
    """Whether tracelab itself wrote the file or reads it as its manifest."""
    return path.name.endswith(".tracelab.html") or (path.name == MANIFEST_NAME and path.parent == root)


def _safe_name(path: Path, root: Path) -> str:
    """The relative path as printable text: names may hold any byte, also line breaks, and documents may not."""
    text = os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def _claim(path: Path, head: bytes) -> tuple[str | None, str, Notice | None]:
    """The parser with the highest confidence, why, and a notice where two claim the file alike."""
    claims: list[tuple[float, str, Match]] = []
    for name, parser in sorted(parsers().items()):
        try:
            match = parser.sniff(path, head)
        except Exception as e:  # noqa: BLE001  # a third party's parser must not cost the directory
            text = f"the parser {name} failed to look at the file: {type(e).__name__}: {e}"
            return None, "", Notice("parser-fault", "warning", text, "update or uninstall the package that provides it")
        if match is not None and match.confidence >= _MIN_CONFIDENCE:
            claims.append((match.confidence, name, match))
    if not claims:
        return None, "", None
    claims.sort(key=lambda c: (-c[0], c[1]))
    best = claims[0]
    if len(claims) > 1 and claims[1][0] == best[0]:
        text = f"both {best[1]} and {claims[1][1]} claim the file; read as {best[1]}"
        return best[1], best[2].reason, Notice("ambiguous-format", "warning", text, f'set the format in {MANIFEST_NAME}: [files."…"] format = "…"')
    return best[1], best[2].reason, None


def _candidate(path: Path, root: Path, formats: Mapping[str, str]) -> Candidate:
    name = _safe_name(path, root)
    head = read_head(path)
    if head.problem and not head.data:
        return Candidate(path, name, head.size_bytes, head.gzipped, None, head.problem, _head_notice(head.problem))
    parser: str | None = formats.get(name)
    looks, notice = "set by the manifest", None
    if parser is None:
        parser, reason, notice = _claim(path, head.data)
        looks = reason if parser else describe(PurePosixPath(name), head.data)
    gathered = _gathering(parser, path)
    if gathered is None:
        return Candidate(path, name, head.size_bytes, head.gzipped, parser, looks, notice)
    size = sum(_size(p) for p in gathered.files)
    return Candidate(path, name, head.size_bytes, head.gzipped, parser, looks, notice, False, gathered.files, gathered.root, companion_bytes=size)


def _gathering(parser: str | None, path: Path) -> Gathering | None:
    """The files that the parser reads with `path`, in order and without `path` itself: what is no regular file is never opened."""
    owner: object = parsers()[parser] if parser is not None else None
    if not isinstance(owner, WithCompanions):
        return None
    try:
        found = owner.companions(path)
    except Exception:  # noqa: BLE001  # a third party's parser must not cost the directory; what it lacks it will say when it reads
        return None
    if found is None:
        return None
    return Gathering(found.root, tuple(sorted({p for p in found.files if p != path and os.path.isfile(p)})))  # noqa: PTH113  # unlike is_file, never raises


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _with_companions(found: list[Candidate]) -> list[Candidate]:
    """`found` in which companions are no sources of their own."""
    owners = {p: c.name for c in reversed(found) for p in c.companions}
    return [
        replace(
            c,
            parser=None,
            looks_like=f"read with {owners[c.path]}",
            notice=None,
            companions=(),
            companion_root=None,
            companion_of=owners[c.path],
            companion_bytes=0,
        )
        if c.path in owners and c.name != owners[c.path]
        else c
        for c in found
    ]


def _head_notice(problem: str) -> Notice:
    if problem == "empty file":
        return Notice("empty-file", "warning", "the file is empty", "collect it again if it should hold a trace")
    return Notice("unreadable-file", "error", f"the file cannot be read: {problem}", "check permissions, or copy the file again")


def discover(root: Path, formats: Mapping[str, str] | None = None) -> list[Candidate]:
    """All files below `root` (or the one file that it is), in the order of their paths.

    `formats` maps relative names to parser names and overrides sniffing. Raises `UsageError` for a path that does not
    exist and `UnknownNameError` for a parser that does not.
    """
    known: Mapping[str, Parser] = parsers()
    for forced in (formats or {}).values():
        if forced not in known:
            raise UnknownNameError("format", forced, known)
    try:
        exists = root.exists()
    except OSError as e:
        raise UsageError(f"{root}: {e.strerror or e}", hint="give the directory that holds the traces") from e
    if not exists:
        raise UsageError(f"{root} does not exist", hint="give the directory that holds the traces")
    if not root.is_dir():
        return [_candidate(root, root.parent, formats or {})]
    unreadable: list[OSError] = []
    found = [_candidate(p, root, formats or {}) for p in _files(root, unreadable) if not _own(p, root)]
    return sorted([*_with_companions(found), *(_unreadable_folder(e, root) for e in unreadable)], key=lambda c: c.name)
