"""One HTML file that needs nothing else: no network, no other file, no eval."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tracelab.results import RunResult
from tracelab_reports import words
from tracelab_reports.page import build_page

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["REPORTER", "HtmlReporter"]


def _packaged(folder: str, name: str) -> str:
    return files("tracelab_reports").joinpath(folder, name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    loader = FunctionLoader(lambda name: _packaged("templates", name))
    env = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown)
    env.filters.update(
        cost=words.cost_text,
        gpu_hours=words.gpu_hours_text,
        seconds=words.seconds_text,
        ranks=words.ranks_text,
        steps=words.steps_text,
        sentence=words.sentence,
    )
    return env


def _shown(value: Any) -> Any:
    return words.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _hash(script: str) -> str:
    """The source expression of the content security policy that allows exactly this inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _policy(scripts: list[str]) -> str:
    # Bokeh writes style elements at run time, so that styles cannot be listed by hash; they can load nothing.
    allowed = " ".join(_hash(s) for s in scripts)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def _script_data(text: str) -> str:
    """JSON for a script element that is not run: without a character that could end it or open a comment in it."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class HtmlReporter:
    """The full report, for a browser."""

    name = "html"
    suffixes: tuple[str, ...] = (".html", ".htm")

    def render(self, result: RunResult) -> str:
        """The page; equal results give equal bytes."""
        page = build_page(result)
        scripts = [_packaged("assets", "theme.js"), _packaged("assets", "report.js")]
        charts: str | None = None
        roots: dict[str, str] = {}
        if page.figures:
            from tracelab_reports import plots

            drawing = plots.draw(page.figures)
            charts, roots = _script_data(drawing.docs_json), dict(drawing.roots)
            scripts.append(plots.bokeh_js())
        template = _environment().get_template("report.html.j2")
        return template.render(
            page=page,
            result=result,
            run=result.run,
            words=words,
            policy=_policy(scripts),
            css=_packaged("assets", "report.css"),
            scripts=scripts,
            charts=charts,
            roots=roots,
        )


REPORTER = HtmlReporter()
