"""The pages of `docs/` that are generated from code: `python -m tests.docs.pages` writes them again."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typer.models import OptionInfo, ParameterInfo

from tests.docs.notices import ROOT, notices
from tracelab.analyses import ANALYSES
from tracelab.cli.app import app
from tracelab.tables import ALIGNED_TABLES, PARSED_TABLES, TABLES, TableSpec

DOCS = ROOT / "docs"
_EXIT_CODES = """\
| exit code | meaning |
|---|---|
| 0 | done |
| 1 | findings at or above `--fail-on SEVERITY` |
| 2 | wrong usage: an option, a name, a path, a manifest |
| 3 | no usable input |
| 4 | incomplete input under `--strict` |
| 70 | a fault of tracelab |
"""


def tables_page() -> str:
    """`docs/tables.md`: every table, column by column."""
    sources = [t for t in TABLES.values() if t not in PARSED_TABLES and t not in ALIGNED_TABLES]
    chapters = (("What was read", sources), ("What the files hold", PARSED_TABLES), ("What holds across ranks", ALIGNED_TABLES))
    lines = [
        "# Tables",
        "",
        "Generated from the code (`make docs`). `tracelab schema TABLE` prints the same; `tracelab export DIR TABLE -o FILE` writes one.",
        "Times are integer nanoseconds of the Unix epoch. Keys identify a row. Sizes are bytes, exact.",
    ]
    for title, specs in chapters:
        lines += ["", f"## {title}"]
        for spec in specs:
            lines += ["", *_table(spec)]
    return "\n".join(lines) + "\n"


def _table(spec: TableSpec) -> Iterator[str]:
    yield f"### {spec.name}"
    yield ""
    yield spec.doc.rstrip(".") + "." + (f" Sorted by {', '.join(f'`{c}`' for c in spec.sort)}." if spec.sort else "")
    yield ""
    yield "| column | type | unit | may be null | meaning |"
    yield "|---|---|---|---|---|"
    for c in spec.columns:
        name = f"**`{c.name}`** (key)" if c.key else f"`{c.name}`"
        yield f"| {name} | {c.dtype} | {c.unit} | {'yes' if c.nullable else 'no'} | {_cell(c.doc)} |"


@dataclass(frozen=True)
class Parameter:
    """An argument or option of a command, as its signature declares it."""

    flags: tuple[str, ...]
    value: str
    default: str
    required: bool
    help: str


def commands() -> dict[str, Callable[..., None]]:
    """The function behind every command, by the command's name."""
    return {c.name: c.callback for c in app.registered_commands if c.name is not None and c.callback is not None}


def parameters(function: Callable[..., None]) -> list[Parameter]:
    """The arguments (without flags) and options of a command."""
    hints = get_type_hints(function, include_extras=True)
    return [_parameter(p, *get_args(hints[name])[:2]) for name, p in inspect.signature(function).parameters.items()]


def _parameter(p: inspect.Parameter, kind: Any, info: ParameterInfo) -> Parameter:
    # in `Annotated[…, Option("--output", "-o")]` the first name sits where a default would
    flags = tuple(d for d in (info.default, *(info.param_decls or ())) if isinstance(d, str) and d.startswith("-"))
    if isinstance(info, OptionInfo) and not flags:
        flags = (f"--{p.name.replace('_', '-')}",)
    choices = [str(c) for part in (kind, *get_args(kind)) if get_origin(part) is Literal for c in get_args(part)]
    value = "\\|".join(choices) or info.metavar or ("" if kind is bool else p.name.upper())
    required = p.default is inspect.Parameter.empty
    default = "" if required or p.default is None or p.default is False else f"`{p.default}`"
    return Parameter(flags, value, default, required, info.help or "")


def cli_page() -> str:
    """`docs/cli.md`: every command and option."""
    lines = [
        "# Commands",
        "",
        "Generated from the code (`make docs`). Results go to stdout, progress and notices to stderr. `tracelab COMMAND --help` says the same.",
        "",
        *_EXIT_CODES.splitlines(),
    ]
    for name, command in commands().items():
        lines += ["", *_command(name, command)]
    return "\n".join(lines) + "\n"


def _command(name: str, function: Callable[..., None]) -> Iterator[str]:
    known = parameters(function)
    words = [p.value if p.required else f"[{p.value.strip('[]')}]" for p in known if not p.flags]
    words += [f"{p.flags[-1]} {p.value}" for p in known if p.flags and p.required]
    words += ["[OPTIONS]"] if any(p.flags and not p.required for p in known) else []
    yield f"## tracelab {name}"
    yield ""
    yield "```console"
    yield f"$ tracelab {' '.join([name, *words])}"
    yield "```"
    yield ""
    yield " ".join((function.__doc__ or "").split())
    if known:
        yield ""
        yield "| | default | |"
        yield "|---|---|---|"
    for p in known:
        flags = ", ".join(f"`{f}`" for f in p.flags)
        yield f"| {f'{flags} {p.value}'.strip() if flags else f'`{p.value}`'} | {p.default} | {_cell(p.help)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def notices_page() -> str:
    """`docs/notices.md`: every notice of the core and of the parsers."""
    lines = [
        "# Notices",
        "",
        "Generated from the code (`make docs`). A notice says what could not be read or trusted: one per kind and file, counted,",
        "with the position of the first case in the uncompressed file. `…` stands for what is known only then.",
        "error: a file or a rank is lost. warning: data are lost or doubtful. info: worth knowing.",
    ]
    for title, folder in (("Of the directory, the rank map and the clocks", "tracelab"), ("Of the files", "parsers")):
        lines += ["", f"## {title}", "", "| code | severity | what was found | what to do |", "|---|---|---|---|"]
        lines += [f"| `{n.code}` | {n.severity} | {_cell(n.text)} | {_cell(n.hint)} |" for n in notices(ROOT / folder)]
    return "\n".join(lines) + "\n"


def analyses_page() -> str:
    """`docs/analyses.md`: every question, what it needs, its parameters and its result tables."""
    lines = [
        "# Analyses",
        "",
        "Generated from the code (`make docs`). The tables named here are in the findings document, under `sections`, and in every report.",
    ]
    for analysis in ANALYSES:
        needs = ", ".join(f"[`{n}`](tables.md#{n})" for n in analysis.requires)
        lines += ["", f"## {analysis.id}", "", analysis.question, "", f"Needs {needs}." if needs else "Needs no table."]
        if defaults := [f"`{f.name}` = {f.default}" for f in fields(analysis.params)]:
            lines += ["", f"Parameters: {', '.join(defaults)}. {' '.join((analysis.params.__doc__ or '').split())}"]
        for spec in analysis.outputs:
            lines += ["", *_table(spec)]
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "tables.md": tables_page,
    "analyses.md": analyses_page,
    "cli.md": cli_page,
    "notices.md": notices_page,
}


README = ROOT / "README.md"
_EXCERPT = re.compile(r"(<!-- output:begin -->\n)(.*)(<!-- output:end -->)", re.DOTALL)


def readme() -> str:
    """README.md with what `make demo` prints, as the installed program prints it now."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        command = [str(Path(sys.executable).with_name("tracelab")), "analyze", "sample_traces/slow_gpu", "-o", str(report), "--quiet"]
        environment = {**os.environ, "COLUMNS": "110", "NO_COLOR": "1", "TRACELAB_CACHE_DIR": str(Path(folder) / "cache")}
        printed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    shown = "\n".join(line.rstrip() for line in printed.replace(str(report), "demo/report.html").splitlines())
    return _EXCERPT.sub(lambda m: f"{m[1]}\n```text\n{shown}\n```\n\n{m[3]}", README.read_text())


def main() -> None:
    """Writes all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
        print(f"wrote {DOCS / name}")
    README.write_text(readme())
    print(f"wrote {README}")


if __name__ == "__main__":
    main()
