"""Reports of NCCL's RAS subsystem (`ncclras`): how far each rank of each communicator came, as text and JSON."""

from __future__ import annotations

from tracelab_parsers.nccl_ras.parser import PARSER, NcclRasParser

__all__ = ["PARSER", "NcclRasParser"]
