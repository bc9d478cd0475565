"""Every error that tracelab raises on purpose, and the exit code each one ends a command with.

TracelabError                       70  a fault of tracelab unless a subclass says otherwise
├── UsageError                       2  the call is wrong: an option, a name, a path, a manifest
│   ├── UnknownNameError             2  no table, analysis, format … of that name; lists those that exist
│   └── ManifestError                2  tracelab.toml cannot be read or contradicts itself
├── NoUsableInputError               3  nothing in the directory could be analysed
├── IncompleteInputError             4  --strict, and ranks or data are missing
├── SchemaError                     70  a parser or an analysis broke the definition of a table
└── PluginError                     70  two plugins claim one name, or one does not load
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "EXIT_DONE",
    "EXIT_FAULT",
    "EXIT_FINDINGS",
    "IncompleteInputError",
    "ManifestError",
    "NoUsableInputError",
    "PluginError",
    "SchemaError",
    "TracelabError",
    "UnknownNameError",
    "UsageError",
]

EXIT_DONE = 0
EXIT_FINDINGS = 1
EXIT_FAULT = 70


class TracelabError(Exception):
    """Base of all errors raised on purpose: `message` says what and where, `hint` what to do."""

    exit_code: int = EXIT_FAULT

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(TracelabError):
    """The call itself is wrong."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that does not exist, with those that do and the nearest one."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        listed = ", ".join(names) if names else "none"
        super().__init__(f"there is no {what} {name!r}", hint=f"{guess}known: {listed}")
        self.name = name
        self.known = names


class ManifestError(UsageError):
    """`tracelab.toml` cannot be read or says something impossible."""


class NoUsableInputError(TracelabError):
    """Nothing that was found can be analysed."""

    exit_code = 3


class IncompleteInputError(TracelabError):
    """Something is missing and the caller asked to be strict about it."""

    exit_code = 4


class SchemaError(TracelabError):
    """A batch or frame does not fit the table that it is meant for."""


class PluginError(TracelabError):
    """A parser or reporter cannot be loaded, or two claim one name."""
