"""tracelab: what cost a distributed training job its time, where, and how sure that is."""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["__version__"]
