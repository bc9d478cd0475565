"""Pictures for notebooks, by the code that the how-to page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import holoviews as hv
import pytest

import tracelab
from tests.builders.result import example_result
from tracelab.errors import NoUsableInputError
from tracelab_reports.notebook import pair_heatmap


def test_the_page_shows_code_that_runs(root: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (root / "docs" / "who_talks_to_whom.md").read_text(), re.DOTALL)
    *lines, last = code.replace('"traces/"', repr(str(root / "sample_traces" / "slow_gpu"))).strip().splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    assert isinstance(names["result"], tracelab.RunResult)
    assert isinstance(eval(last, names), hv.Overlay)


def test_no_traffic_is_an_error_that_says_where_to_look() -> None:
    with pytest.raises(NoUsableInputError, match="no traffic"):
        pair_heatmap(example_result())
