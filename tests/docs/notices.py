"""Every notice that the code can give, read from its source: `Notice("code", severity, text, hint)` and tables of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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
            statements = sorted((n for n in ast.walk(scope) if isinstance(n, ast.stmt)), key=lambda n: n.lineno)
            for node in ast.walk(scope):
                if isinstance(node, ast.Call) and _name(node.func) == "Notice" and isinstance(node.args[0], ast.Constant):
                    before = _assigned(n for n in statements if n.lineno < node.lineno)
                    yield _explained(str(node.args[0].value), node.args[1:4], before)


def _table_entries(tree: ast.Module) -> Iterator[Explained]:
    """The entries `"code": _Text(severity, text, hint)` of a dictionary."""
    constants = _assigned(tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Call) and _name(value.func) == "_Text":
                    yield _explained(str(key.value), value.args, constants)


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """What plain names are set to, with or without a type."""
    found: dict[str, ast.expr] = {}
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is not None:
            found |= {t.id: value for t in targets if isinstance(t, ast.Name)}
    return found


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _explained(code: str, arguments: list[ast.expr], names: dict[str, ast.expr]) -> Explained:
    severity, text, hint = [*(_text(a, names) for a in arguments), "", ""][:3]
    return Explained(code, severity, text, hint)


def _text(node: ast.expr, names: dict[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=values):
            return "".join(_text(v, {}) if isinstance(v, ast.Constant) else "…" for v in values)
        case ast.Name(id=name) if name in names:
            return _text(names[name], {k: v for k, v in names.items() if k != name})
        case ast.IfExp(body=body, orelse=orelse):
            return f"{_text(body, names)} or {_text(orelse, names)}"
        case _:
            return "…"
