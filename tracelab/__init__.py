"""tracelab: what cost a distributed training job its time, where, and how sure that is.

import tracelab as tl

run = tl.open("traces/")
run.tables["collectives"].collect()
result = run.analyze()
print(result.verdict)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelab.results import Finding, RunResult
    from tracelab.run import Run
    from tracelab.run import open_run as open  # noqa: A004  # the name that a reader expects: tracelab.open(path)

__version__ = "0.1.0"
__all__ = ["Finding", "Run", "RunResult", "__version__", "open"]

_HOMES = {
    "open": ("tracelab.run", "open_run"),
    "Run": ("tracelab.run", "Run"),
    "Finding": ("tracelab.results", "Finding"),
    "RunResult": ("tracelab.results", "RunResult"),
}


def __getattr__(name: str) -> Any:
    # looked up late, so that `import tracelab` and `tracelab --help` load none of the large libraries
    if name not in _HOMES:
        raise AttributeError(f"module 'tracelab' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
