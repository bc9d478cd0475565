"""The readers of messages, in the order in which they are asked."""

from __future__ import annotations

from tracelab_parsers.nccl_log.c10d_text import C10dReader
from tracelab_parsers.nccl_log.channels import ChannelReader
from tracelab_parsers.nccl_log.errors import ErrorReader
from tracelab_parsers.nccl_log.graph import GraphReader
from tracelab_parsers.nccl_log.kinds import KindReader
from tracelab_parsers.nccl_log.line import LineReader
from tracelab_parsers.nccl_log.nccl_tests_text import NcclTestsReader
from tracelab_parsers.nccl_log.network import NetworkReader
from tracelab_parsers.nccl_log.settings import SettingsReader
from tracelab_parsers.nccl_log.tuning import TuningReader

__all__ = ["Readers", "readers"]

READERS: tuple[type[LineReader], ...] = (
    ChannelReader,
    GraphReader,
    TuningReader,
    NetworkReader,
    SettingsReader,
    ErrorReader,
    C10dReader,
    NcclTestsReader,
    KindReader,
)
_BARE = (SettingsReader, C10dReader, NcclTestsReader)


class Readers:
    """One of each, for one file: `library` are asked about messages of the library, `bare` about lines without its prefix."""

    def __init__(self) -> None:
        self.library: tuple[LineReader, ...] = tuple(r() for r in READERS)
        self.bare: tuple[LineReader, ...] = tuple(r for r in self.library if isinstance(r, _BARE))


def readers() -> Readers:
    """Readers for one file."""
    return Readers()
