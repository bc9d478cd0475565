"""Where text goes: results to stdout, progress and notices to stderr. Trace text is never read as markup."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tracelab.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer
    from rich.console import Console
    from rich.table import Table

    from tracelab.ingest.identity import FileNotice

__all__ = [
    "check_target",
    "fail",
    "file_faults",
    "finish",
    "forgiving",
    "printable",
    "say",
    "show",
    "stderr",
    "stdout",
    "tell_notices",
    "write_text",
    "writing",
]

_NOTICES_SHOWN = 12
_PLAIN_WIDTH = 120
"""Columns where there is no terminal to ask."""


class _Forgiving(io.FileIO):
    """A file whose reader may leave (`| head`): what it no longer wants is dropped, and the exit code stays what it was.

    Any other failure, such as a full disk, is kept for `finish`, since the interpreter's last flush could not report it.
    """

    failure: OSError | None = None

    def write(self, data: Buffer) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes
        except OSError as e:
            self.failure = self.failure or e
            return memoryview(data).nbytes


def finish(stream: TextIO) -> None:
    """Flushes a `forgiving` stream; `UsageError` where some of the output was lost."""
    stream.flush()
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    if isinstance(raw, _Forgiving) and raw.failure is not None:
        raise UsageError(f"the output cannot be written: {raw.failure.strerror}", hint="send it elsewhere")


def forgiving(stream: TextIO | None) -> TextIO:
    """The stream, but no reader that leaves and no character that its encoding lacks ends the program."""
    if stream is None:  # closed by the shell (`>&-`)
        return Path(os.devnull).open("w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        raw = _Forgiving(stream.fileno(), "wb", closefd=False)
    except (OSError, ValueError):
        return stream
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, encoding=stream.encoding, errors="backslashreplace", line_buffering=stream.line_buffering)


def stdout() -> Console:
    """The console for results."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PLAIN_WIDTH
    return Console(markup=False, emoji=False, highlight=False, width=width)


def stderr() -> Console:
    """The console for everything else."""
    from rich.console import Console

    return Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """`text` without control characters: a file name must not move the cursor or colour the screen."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def show(table: Table) -> None:
    """A table; without the blanks that would pad its lines where it is not a terminal."""
    console = stdout()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as text:
        console.print(table)
    for line in text.get().splitlines():
        say(line.rstrip())


def say(text: str) -> None:
    """One line of result."""
    sys.stdout.write(printable(text) + "\n")


def fail(message: str, hint: str = "") -> None:
    """One error, and what to do."""
    console = stderr()
    console.print("error:", style="bold red", end=" ")
    console.print(printable(message))
    if hint:
        console.print(f"  {printable(hint)}")


def tell_notices(notices: Sequence[FileNotice]) -> None:
    """Errors and warnings, the gravest first, as lines on stderr; the rest is counted."""
    order = {"error": 0, "warning": 1}
    shown = sorted((n for n in notices if n.notice.severity in order), key=lambda n: order[n.notice.severity])
    console = stderr()
    for n in shown[:_NOTICES_SHOWN]:
        console.print(f"{n.notice.severity}:", style="bold red" if n.notice.severity == "error" else "yellow", end=" ")
        where = f"{n.path}: " if n.path else ""
        at = f" (first at byte {n.notice.offset})" if n.notice.offset is not None else ""
        console.print(printable(f"{where}{n.notice.text}{at}"))
    if len(shown) > _NOTICES_SHOWN:
        console.print(f"… and {len(shown) - _NOTICES_SHOWN} more notices: see the report, or `tracelab inspect`")


@contextmanager
def file_faults(path: Path) -> Iterator[None]:
    """Turns what the file system has against a path (its length, its folder, the disk) into `UsageError`."""
    try:
        yield
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror or e}", hint="give another path") from e


def check_target(path: Path, *, force: bool) -> None:
    """Refuses, before any work is done, to write where something is or where nothing can be."""
    with file_faults(path):
        if path.is_dir():
            raise UsageError(f"{path} is a directory", hint="give a file name")
        if (path.exists() or path.is_symlink()) and not force and not _is_device(path):
            raise UsageError(f"{path} exists", hint="give another name, or --force to overwrite it")
        folder = path.absolute().parent
        if not folder.is_dir():
            raise UsageError(f"the folder {folder} does not exist", hint="create it, or give another name")
        if not os.access(folder, os.W_OK) and not _is_device(path):
            raise UsageError(f"the folder {folder} cannot be written", hint="give another place with -o")


def _is_device(path: Path) -> bool:
    """Whether writing goes somewhere else than into a file: a pipe, a terminal, /dev/null."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Where to write so that `path` is there as a whole or not at all; pipes and devices are written directly."""
    with file_faults(path):
        if _is_device(path):
            yield path
            return
        final = path.resolve()  # through a link: the link stays
        handle, name = tempfile.mkstemp(prefix=".tracelab-", suffix=path.suffix, dir=final.parent)
        os.close(handle)
        part = Path(name)
        try:
            yield part
            part.chmod(0o666 & ~_umask())
            part.replace(final)
        finally:
            part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str | bytes) -> None:
    """Writes a file as a whole or not at all."""
    data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    with writing(path) as part:
        part.write_bytes(data)
