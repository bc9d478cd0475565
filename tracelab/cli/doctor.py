"""`tracelab doctor`."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from tracelab import __version__
from tracelab.cli.console import say

__all__ = ["doctor"]

_PACKAGES = ("bokeh", "holoviews", "isal", "jinja2", "msgspec", "numpy", "pandas", "platformdirs", "polars", "pyarrow", "rich", "scipy", "typer")


def _home_hidden(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except ValueError:
        return str(path)


def _size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def doctor() -> None:
    """Prints versions and environment, for the text of an issue. Holds no names of hosts, users or variables."""
    from importlib.metadata import PackageNotFoundError, version

    from tracelab.ingest.pipeline import usable_cores
    from tracelab.ingest.store import Store, default_store_path
    from tracelab.plugins import parsers, reporters
    from tracelab.units import format_bytes

    say(f"tracelab {__version__}")
    say(f"python {platform.python_version()} ({platform.python_implementation()}) on {platform.system()} {platform.release()} {platform.machine()}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if "SC_PHYS_PAGES" in os.sysconf_names else 0
    say(f"cores {usable_cores()}, memory {format_bytes(memory)}, terminal {'yes' if sys.stdout.isatty() else 'no'}")
    for name in _PACKAGES:
        try:
            say(f"{name} {version(name)}")
        except PackageNotFoundError:
            say(f"{name} is not installed")
    say(f"parsers: {', '.join(f'{p.name} {p.version}' for p in parsers().values())}")
    say(f"reporters: {', '.join(reporters())}")
    cache = Store(default_store_path()).root
    held = f"{format_bytes(_size(cache))}; safe to delete" if cache.is_dir() else "not there yet"
    say(f"cache: {_home_hidden(cache)} ({held})")
