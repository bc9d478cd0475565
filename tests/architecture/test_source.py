"""Habits of the house that no linter knows."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOMS = ("tracelab", "parsers", "reports", "tests", "benchmarks")
LONGEST_FILE = 500
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b|raise NotImplemented" r"Error")


def _sources(root: Path) -> Iterator[Path]:
    for room in ROOMS:
        yield from sorted((root / room).rglob("*.py"))


def test_no_file_is_too_long_to_read(root: Path) -> None:
    lengths = {str(f.relative_to(root)): len(f.read_text().splitlines()) for f in _sources(root)}
    assert len(lengths) > 50
    assert {f: n for f, n in lengths.items() if n > LONGEST_FILE} == {}


def test_nothing_is_left_for_later(root: Path) -> None:
    assert [str(f.relative_to(root)) for f in _sources(root) if UNFINISHED.search(f.read_text())] == []


def test_every_module_says_what_it_is_for(root: Path) -> None:
    silent = []
    for file in _sources(root):
        text = file.read_text().strip()
        if file.is_relative_to(root / "tests") or not text:
            continue
        if not text.startswith(('"""', "#!")):
            silent.append(str(file.relative_to(root)))
    assert silent == []


@pytest.mark.parametrize("name", ["tracelab", "tracelab.plugins", "tracelab.results", "tracelab.tables", "tracelab.errors", "tracelab.units"])
def test_exported_names_exist(name: str) -> None:
    module = importlib.import_module(name)
    assert [n for n in module.__all__ if not hasattr(module, n)] == []
