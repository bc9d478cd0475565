"""Reports of Nsight Systems that were not exported: only `nsys` itself reads them, so it is asked to, where there is one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from tracelab.errors import TracelabError
from tracelab_parsers.nsys_forms.notices import EXPORT_COMMAND, FormNotices

__all__ = ["exported", "exported_beside", "exports_of", "folders_of"]

SQLITE_MAGIC = b"SQLite format 3\x00"
TIMEOUT_S = 3600
"""Exports run at some 10 MB/s; the largest reports have gigabytes."""
_PAYLOADS = ("--include-blobs=true", "--include-json=true")
_TAIL = 4096
_SHOWN = 300
_OLDER_NS = 2_000_000_000
"""Copies keep times to two seconds on some file systems."""
_WHY = "without the options sizes and communicators of NCCL's collectives are lost"


def exports_of(path: Path) -> list[Path]:
    """The files that an export of a report to SQLite leaves beside it."""
    return [path.with_suffix(f".sqlite{end}") for end in ("", "-wal", "-journal")]


def folders_of(path: Path) -> list[Path]:
    """The folders that an export to Parquet or Arrow leaves beside a report."""
    names = (f"{path.stem}{end}" for end in (".parquetdir", "_pqtdir", "_parquetdir", ".arrowdir", "_arwdir", "_arrowdir"))
    return [folder for name in names if (folder := path.with_name(name)).is_dir()]


def exported_beside(path: Path, notices: FormNotices) -> Path | None:
    """The SQLite export of a report that lies beside it, where there is one; says so where it is older than the report."""
    export = exports_of(path)[0]
    try:
        with export.open("rb") as file:
            if not file.read(len(SQLITE_MAGIC)).startswith(SQLITE_MAGIC):
                return None
        notices.add("stale-export", int(export.stat().st_mtime_ns < path.stat().st_mtime_ns - _OLDER_NS))
    except OSError:
        return None
    return export


@contextmanager
def exported(path: Path, notices: FormNotices) -> Iterator[Path]:
    """An SQLite export of a report in a temporary folder. Raises `TracelabError` where there is no `nsys`, or where it fails."""
    command = f"{EXPORT_COMMAND} -o {path.stem}.sqlite {path.name}"
    if path.suffix.lower() == ".qdstrm":
        raise TracelabError(
            "the capture was not finished: its program was killed before the report was written", hint="run QdstrmImporter on the file, or record again"
        )
    nsys = shutil.which("nsys")
    if nsys is None:
        hint = f"run where Nsight Systems is installed: {command} ({_WHY})"
        raise TracelabError("a report of Nsight Systems can only be read by nsys, and there is none on the PATH; export it first", hint=hint)
    with TemporaryDirectory(prefix="tracelab-") as folder:
        target = Path(folder, "export.sqlite")
        fixed = [nsys, "export", "-t", "sqlite", "--force-overwrite=true", "-o", str(target)]
        code, said = _run([*fixed, *_PAYLOADS, str(path.absolute())], folder)
        if code and not target.is_file():
            code, said_without = _run([*fixed, str(path.absolute())], folder)
            notices.add("export-without-payloads", int(not code))
            said = said_without or said
        if code or not target.is_file():
            reason = f"with status {code}" if code else "without a file"
            raise TracelabError(f"nsys export ended {reason}: {said or 'it said nothing'}", hint=f"run it yourself to see why: {command}")
        yield target


def _run(arguments: Sequence[str], folder: str) -> tuple[int, str]:
    """The status of a program and the end of what it said. Raises `TracelabError` where it does not end in time or cannot be run."""
    try:
        process = subprocess.Popen(  # noqa: S603  # a list of arguments, no shell
            arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    except OSError as e:
        raise TracelabError(f"nsys cannot be run: {e.strerror or e}", hint="check the installation of Nsight Systems") from e
    tail = bytearray()
    reader = threading.Thread(target=_keep_tail, args=(process.stdout, tail), daemon=True)
    reader.start()
    try:
        code = process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired as e:
        _stop(process)
        raise TracelabError(f"nsys export did not end within {TIMEOUT_S} s", hint="run it yourself, and give tracelab the SQLite file") from e
    except BaseException:
        _stop(process)
        raise
    reader.join(1)
    lines = [line for line in bytes(tail).decode("utf-8", "replace").splitlines() if line.strip()]
    shown = "".join(c for c in lines[-1] if c.isprintable()).strip()[-_SHOWN:] if lines else ""
    return code, shown


def _keep_tail(stream: IO[bytes] | None, tail: bytearray) -> None:
    """Reads what a program says to its end, so that it never waits, and keeps the last of it."""
    while stream is not None and (block := stream.read1(1 << 16)):  # type: ignore[attr-defined]
        tail += block
        del tail[:-_TAIL]
    if stream is not None:
        stream.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a program and what it started."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
