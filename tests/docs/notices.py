"""Every notice that the code can give, read from its source: `Notice("code", severity, text, hint)` and tables of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPENDS = "depends"


@dataclass(frozen=True, order=True)
class Explained:
    """A notice: parts of its texts that are known only when it is given are shown as `…`."""

    code: str
    severity: str
    text: str
    hint: str


def notices(folder: Path) -> list[Explained]:
    """All notices of the modules in a folder, one per code, by code."""
    found: dict[str, Explained] = {}
    for file in sorted(folder.rglob("*.py")):
        for e in _of_module(ast.parse(file.read_text())):
            found.setdefault(e.code, e)
    return sorted(found.values())


def _of_module(tree: ast.Module) -> Iterator[Explained]:
    yield from _table_entries(tree)
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef):
            texts = {t.id: n.value for n in ast.walk(scope) if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
            for node in ast.walk(scope):
                if isinstance(node, ast.Call) and _name(node.func) == "Notice" and isinstance(node.args[0], ast.Constant):
                    yield _explained(str(node.args[0].value), node.args[1:4], texts)


def _table_entries(tree: ast.Module) -> Iterator[Explained]:
    """The entries `"code": _Text(severity, text, hint)` of a dictionary."""
    constants = {t.id: n.value for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Call) and _name(value.func) == "_Text":
                    yield _explained(str(key.value), value.args, constants)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _explained(code: str, arguments: list[ast.expr], names: dict[str, ast.expr]) -> Explained:
    severity, text, hint = [*(_text(a, names) for a in arguments), "", ""][:3]
    return Explained(code, severity if severity in {"error", "warning", "info"} else DEPENDS, text, hint)


def _text(node: ast.expr, names: dict[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=values):
            return "".join(_text(v, {}) if isinstance(v, ast.Constant) else "…" for v in values)
        case ast.Name(id=name) if name in names:
            return _text(names[name], {k: v for k, v in names.items() if k != name})
        case _:
            return "…"
