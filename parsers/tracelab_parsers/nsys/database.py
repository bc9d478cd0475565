"""Opens SQLite files of strangers so that nothing in them runs and nothing beside them is written."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tracelab.errors import TracelabError
from tracelab_parsers.nsys.notices import Notices

__all__ = ["Database", "PlainTable", "lossy_text", "plain_tables", "quoted", "table_names", "unreadable"]

_MAX_VALUE_BYTES = 1 << 29
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\x00"
_PLAIN_TABLE = re.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_DEFENSIVE = 1010
"""SQLITE_DBCONFIG_DEFENSIVE (sqlite3.h); `sqlite3.Connection` can set it since Python 3.12."""
_SETTINGS = ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0", "temp_store = MEMORY")
_AGAIN = "export the report again with nsys export -t sqlite"


def _authorize(action: int, _first: str | None, second: str | None, _database: str | None, inside: str | None) -> int:
    """Allows reading plain tables and nothing that a view or trigger (`inside`) would do."""
    if action not in _ALLOWED or inside is not None:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_FUNCTION and second == "load_extension" else sqlite3.SQLITE_OK


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def lossy_text(raw: bytes) -> str:
    """Text that need not be valid UTF-8."""
    return raw.decode("utf-8", "replace")


def unreadable(e: sqlite3.Error) -> TracelabError:
    """The error for a file that SQLite refuses."""
    return TracelabError(f"the database cannot be read: {e}", hint=_AGAIN)


def _layout(path: Path) -> tuple[int, bool]:
    """Bytes of a page, and whether the file has fewer pages than its header says."""
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    if not head.startswith(_MAGIC):
        raise TracelabError("the file is no SQLite database", hint=_AGAIN)
    page = int.from_bytes(head[16:18])
    page = 65_536 if page == 1 else max(page, 512)
    return page, path.stat().st_size < max(1, int.from_bytes(head[28:32])) * page


def _nonempty(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_size > 0
    return False


def _connect(path: Path, *, immutable: bool, salvage: bool) -> sqlite3.Connection:
    """A connection that can only read. `salvage`: also of a file that lost its last pages, which SQLite else refuses."""
    options = "mode=ro&immutable=1" if immutable else "mode=ro"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True, check_same_thread=False, isolation_level=None)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        if salvage:
            connection.execute("PRAGMA writable_schema = ON")  # nothing can be written: this makes SQLite take the pages that are there
        elif hasattr(connection, "setconfig"):
            connection.setconfig(_DEFENSIVE, True)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def table_names(path: Path) -> list[str]:
    """The names of the tables; none where the file cannot be read."""
    try:
        with contextlib.closing(_connect(path, immutable=True, salvage=_layout(path)[1])) as connection:
            return [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 1000")]
    except (sqlite3.Error, OSError, TracelabError):
        return []


@dataclass(frozen=True)
class PlainTable:
    """Columns of a table, its first page, and the places of columns in its rows; no places of what is not stored as it is."""

    columns: tuple[str, ...]
    root: int
    places: Mapping[str, int]


def plain_tables(connection: sqlite3.Connection, notices: Notices) -> dict[str, PlainTable]:
    """The ordinary tables. What else calls itself a table (a view, a virtual table) is refused."""
    found: dict[str, PlainTable] = {}
    for name, root, sql in connection.execute("SELECT name, rootpage, sql FROM sqlite_master WHERE type = 'table'").fetchall():
        if not (isinstance(name, str) and isinstance(sql, str) and root and _PLAIN_TABLE.match(sql)):
            notices.add("table-refused")
            continue
        with contextlib.suppress(sqlite3.Error):
            # table_info leaves generated columns out: reading them would run what the file says
            listed = connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()
            every = connection.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
            # a key that is the number of the row is not stored among its values
            stored = {str(row[1]): int(row[0]) for row in listed if not row[5]} if len(every) == len(listed) else {}
            found[name] = PlainTable(tuple(str(row[1]) for row in listed), int(root), stored)
    return found


class Database:
    """A file, or a copy of it where SQLite would write beside it (a log lies there) or take half a page for a whole one.

    Raises `TracelabError` where the file is no database. `cut_short`: it ends before its last page.
    """

    def __init__(self, path: Path, notices: Notices) -> None:
        self._folders = contextlib.ExitStack()
        self._path, self._immutable = path, True
        page, self.cut_short = _layout(path)
        size = path.stat().st_size
        notices.add("truncated", int(self.cut_short))
        notices.add("journal-beside", int(_nonempty(Path(f"{path}-journal"))))
        if _nonempty(Path(f"{path}-wal")):
            self._take_log(path, notices)
        elif self.cut_short and size % page:
            self._path = self._copied(path)
            os.truncate(self._path, size // page * page)

    def _take_log(self, path: Path, notices: Notices) -> None:
        try:
            copy = self._copied(path, "-wal")
            _connect(copy, immutable=False, salvage=self.cut_short).close()
        except (OSError, sqlite3.Error):
            notices.add("wal-beside")
        else:
            self._path, self._immutable = copy, False

    def _copied(self, path: Path, *besides: str) -> Path:
        """A copy of the file and what lies beside it, in a folder that goes with this object."""
        folder = Path(self._folders.enter_context(tempfile.TemporaryDirectory(prefix="tracelab-")))
        for suffix in ("", *besides):
            shutil.copyfile(f"{path}{suffix}", folder / f"export{suffix}")
        return folder / "export"

    @property
    def plain(self) -> Path | None:
        """The file where its pages are all that there is; None where a log lies beside it or pages are missing."""
        return self._path if self._immutable and not self.cut_short else None

    def connect(self) -> sqlite3.Connection:
        """A connection that can only read. Raises `TracelabError` where SQLite refuses the file."""
        try:
            return _connect(self._path, immutable=self._immutable, salvage=self.cut_short)
        except sqlite3.Error as e:
            raise unreadable(e) from e

    @staticmethod
    def restrict(connection: sqlite3.Connection) -> None:
        """From now on the connection reads plain tables and nothing else."""
        connection.set_authorizer(_authorize)

    def close(self) -> None:
        """Removes what was copied."""
        self._folders.close()
