"""Who may import whom, and what a start may cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("bokeh", "holoviews", "numpy", "pandas", "panel", "polars", "pyarrow", "scipy")
LOADED = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"


def _modules_after(statement: str) -> set[str]:
    code = f"import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    {statement}\n{LOADED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_rooms_keep_their_contracts(root: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([".", "parsers", "reports"])}
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "import tracelab",
        "import sys; sys.argv = ['tracelab', '--help']; from tracelab.cli import main; main()",
        "import sys; sys.argv = ['tracelab', '--version']; from tracelab.cli import main; main()",
        "import sys; sys.argv = ['tracelab', 'analyze', '--help']; from tracelab.cli import main; main()",
    ],
)
def test_a_start_imports_nothing_heavy(statement: str) -> None:
    loaded = _modules_after(statement)
    assert "tracelab" in loaded
    assert loaded.isdisjoint(HEAVY), loaded.intersection(HEAVY)


def test_loading_the_parsers_draws_nothing() -> None:
    loaded = _modules_after("from tracelab.plugins import parsers; parsers()")
    assert loaded.isdisjoint({"bokeh", "holoviews", "scipy"})
