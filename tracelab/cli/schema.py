"""`tracelab schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from tracelab.cli.console import say, show

__all__ = ["schema"]


def schema(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="A table; without one, all are listed.", show_default=False)] = None,
    *,
    findings: Annotated[bool, typer.Option("--findings", help="Print the JSON Schema of the findings document instead.")] = False,
) -> None:
    """Describes the tables, column by column."""
    if findings:
        import msgspec

        from tracelab.results import json_schema

        say(msgspec.json.format(msgspec.json.encode(json_schema()), indent=1).decode())
        return
    from rich.table import Table

    from tracelab.tables import TABLES
    from tracelab.tables import table as definition

    out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    if table is None:
        out.add_column("table", no_wrap=True)
        out.add_column("one row is")
        for spec in TABLES.values():
            out.add_row(spec.name, spec.doc)
    else:
        spec = definition(table)
        say(spec.doc)
        for name in ("column", "type", "unit", "null", "meaning"):
            out.add_column(name, no_wrap=name != "meaning")
        for c in spec.columns:
            out.add_row(f"{c.name}{' *' if c.key else ''}", c.dtype, c.unit, "yes" if c.nullable else "no", c.doc)
    show(out)
    if table is not None:
        say("* identifies a row")
