"""What the documentation says exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import tracelab
from tests.docs.notices import notices
from tests.docs.pages import PAGES, README, commands, parameters, readme
from tracelab import errors
from tracelab.ingest.manifest import Manifest
from tracelab.plugins import parsers

ROOT = Path(__file__).resolve().parents[2]
PAGES_BY_HAND = sorted(
    p for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("sample_traces/*/README.md")] if p.is_file()
)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
GLOBAL_OPTIONS = {"--help", "-h", "--version", "--no-color"}


def _ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _blocks(path: Path, *languages: str) -> Iterator[str]:
    for language, text in BLOCK.findall(path.read_text()):
        if language in languages:
            yield text


def _calls(path: Path) -> list[list[str]]:
    """The words of every `tracelab …` line of the shell blocks and of every `tracelab …` in backticks."""
    lines = [line.removeprefix("$ ").strip() for block in _blocks(path, "sh", "console", "bash") for line in block.splitlines()]
    prose = BLOCK.sub("", path.read_text())
    lines += re.findall(r"`(tracelab [a-z][^`]*)`", prose)
    return [shlex.split(line.partition(" #")[0]) for line in lines if line.startswith("tracelab ")]


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_up_to_date(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == PAGES[name](), "run `make docs`"


def test_readme_shows_what_the_program_prints() -> None:
    assert README.read_text() == readme(), "run `make docs`"


@pytest.mark.parametrize("path", PAGES_BY_HAND, ids=_ids)
def test_commands_and_options_exist(path: Path) -> None:
    known = commands()
    for words in _calls(path):
        if words[1].startswith("-") or words[1].isupper():
            assert words[1] in {*GLOBAL_OPTIONS, "COMMAND"}, words
            continue
        assert words[1] in known, words
        flags = {f for p in parameters(known[words[1]]) for f in p.flags} | GLOBAL_OPTIONS
        assert {w for w in words[2:] if w.startswith("-") and w != "-"} <= flags, words


@pytest.mark.parametrize("path", PAGES_BY_HAND, ids=_ids)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES_BY_HAND, ids=_ids)
def test_make_targets_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(
        re.findall(
            r"\bmake ([a-z]+)\b(?=[`\s]*(?:`|$|#|\n))", "\n".join([*_blocks(path, "sh", "console", "bash"), *re.findall(r"`make [a-z]+`", path.read_text())])
        )
    )
    assert named <= targets


def test_every_command_says_what_it_does() -> None:
    for name, function in commands().items():
        assert function.__doc__, name
        assert [p for p in parameters(function) if not p.help] == [], name


def test_readme_shows_every_command_and_exit_code() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in commands() if f"tracelab {name}" not in text] == []
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.TracelabError)]
    codes = {errors.EXIT_DONE, errors.EXIT_FINDINGS, errors.EXIT_FAULT, *(c.exit_code for c in classes)}
    assert {int(c) for c in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == codes


def _keys(kind: type, prefix: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        inner = [t for t in (field.type, *getattr(field.type, "__args__", ())) if isinstance(t, type) and issubclass(t, msgspec.Struct)]
        if inner:
            yield from _keys(inner[-1], f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def test_readme_shows_every_key_of_the_manifest() -> None:
    (example,) = _blocks(ROOT / "README.md", "toml")
    msgspec.toml.decode(example, type=Manifest, strict=False)
    shown = {key for key in _keys(Manifest) if re.search(rf"\b{key.rpartition('.')[2]}\b", example)}
    assert shown == set(_keys(Manifest))


def test_notices_given_in_practice_are_explained(tmp_path: Path) -> None:
    (tmp_path / "rank3.json").write_bytes(b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5, "dur": 2, "pid": 0, "tid": 7}')
    (tmp_path / "empty.json").touch()
    run = tracelab.open(tmp_path, cache_dir=tmp_path / "cache")
    given = {n.notice.code for n in run.notices}
    assert {"truncated", "empty-file"} <= given
    assert given <= {n.code for folder in ("tracelab", "parsers") for n in notices(ROOT / folder)}


@pytest.mark.parametrize("path", [ROOT / "README.md"], ids=_ids)
def test_examples_in_python_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = list(_blocks(path, "python"))
    assert blocks
    for block in blocks:
        exec(compile(block, str(path), "exec"), {})


def test_every_format_of_machines_is_in_its_page() -> None:
    told = set(re.findall(r"`([\w-]+)`", "".join(re.findall(r"^\| ([^|]*) \|", (ROOT / "docs/formats/network.md").read_text(), re.MULTILINE))))
    assert told == {name for name, parser in parsers().items() if parser.kind == "fabric"}
