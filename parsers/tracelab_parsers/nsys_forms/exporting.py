"""Reports of Nsight Systems that were not exported: only `nsys` itself reads them, so it is asked to, where there is one."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from tracelab.errors import TracelabError
from tracelab_parsers.nsys_forms.notices import EXPORT_COMMAND, FormNotices

__all__ = ["exported", "exported_beside", "exports_of", "others_of"]

SQLITE_MAGIC = b"SQLite format 3\x00"
TIMEOUT_S = 3600
"""Exports run at some 10 MB/s; the largest reports have gigabytes."""
_POLL_S = 0.2
_FREE_BYTES = 1 << 30
_MAX_RATIO = 50
"""Exports have up to ten times the size of their report."""
_SPARE_BYTES = 256 << 20
"""What is left free on the disk for everybody else."""
_PAYLOADS = ("--include-blobs=true", "--include-json=true")
_TAIL = 4096
_SHOWN = 300
_OLDER_NS = 2_000_000_000
"""Copies keep times to two seconds on some file systems."""
_PATIENCE_S = 1
"""Once a program has ended its output is there, unless what it started holds on to it."""
_YOURSELF = "export the report yourself, and give tracelab the SQLite file"
_WHY = "without the options sizes and communicators of NCCL's collectives are lost"


def exports_of(path: Path) -> list[Path]:
    """The files that an export of a report to SQLite leaves beside it."""
    return [path.with_suffix(f".sqlite{end}") for end in ("", "-wal", "-journal")]


def others_of(path: Path) -> list[Path]:
    """Other exports that lie beside a report, and are sources of their own: folders of tables, JSON lines."""
    folders = (f"{path.stem}{end}" for end in (".parquetdir", "_pqtdir", "_parquetdir", ".arrowdir", "_arwdir", "_arrowdir"))
    files = (f"{path.stem}{end}{packed}" for end in (".jsonl", ".jsonlines", ".json") for packed in ("", ".gz", ".xz"))
    return [*(p for n in folders if (p := path.with_name(n)).is_dir()), *(p for n in files if (p := path.with_name(n)).is_file())]


def exported_beside(path: Path, notices: FormNotices) -> Path | None:
    """The SQLite export of a report that lies beside it, where there is one; says so where it is older than the report."""
    export = exports_of(path)[0]
    if not export.is_file():
        return None
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
    command = f"{EXPORT_COMMAND} -o {shlex.quote(f'{path.stem}.sqlite')} {shlex.quote(path.name)}"
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
        most = max(_FREE_BYTES, _MAX_RATIO * path.stat().st_size)
        code, said = _run([*fixed, *_PAYLOADS, str(path.absolute())], Path(folder), most)
        if code and not target.is_file():
            code, said_without = _run([*fixed, str(path.absolute())], Path(folder), most)
            notices.add("export-without-payloads", int(not code))
            said = said_without or said
        if code or not target.is_file():
            reason = f"with status {code}" if code else "without a file"
            raise TracelabError(f"nsys export ended {reason}: {said or 'it said nothing'}", hint=f"run it yourself to see why: {command}")
        yield target


def _run(arguments: Sequence[str], folder: Path, most: int) -> tuple[int, str]:
    """The status of a program and the end of what it said; it may write `most` bytes. Raises `TracelabError` where it cannot be run or is stopped."""
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
        code = _wait(process, folder, most)
    except BaseException:
        _stop(process)
        raise
    finally:
        reader.join(_PATIENCE_S)
    lines = [line for line in bytes(tail).decode("utf-8", "replace").splitlines() if line.strip()]
    shown = "".join(c for c in lines[-1] if c.isprintable()).strip()[-_SHOWN:] if lines else ""
    return code, shown


def _wait(process: subprocess.Popen[bytes], folder: Path, most: int) -> int:
    """The status of a program once it ends. Raises `TracelabError` where it takes too long or too much room."""
    deadline = time.monotonic() + TIMEOUT_S
    code = None
    while code is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(_POLL_S)
        if code is None and time.monotonic() > deadline:
            raise TracelabError(f"nsys export did not end within {TIMEOUT_S} s", hint=_YOURSELF)
        size = sum(p.stat().st_size for p in folder.iterdir() if p.is_file())
        if size > most:
            raise TracelabError(f"nsys export wrote {size >> 20} MiB, more than any export of such a report has", hint=_YOURSELF)
        if code is None and shutil.disk_usage(folder).free < _SPARE_BYTES:
            raise TracelabError("nsys export fills the folder for temporary files", hint=f"set TMPDIR to a folder on a larger disk, or {_YOURSELF}")
    return code


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
