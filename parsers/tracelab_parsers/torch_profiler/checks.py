"""Whether what happened on the GPU can be joined with what launched it.

Keeps the correlation of every GPU event and of every runtime and driver call: 8 bytes each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tracelab_parsers.torch_profiler.columns import GPU_KINDS, HOST_KINDS
from tracelab_parsers.torch_profiler.notices import Notices

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Joins"]

_MAX_COUNTED = 10_000
"""Devices or processes of one file that are told apart; no file of one process has so many."""
Ints = npt.NDArray[np.int64]
_KERNEL = GPU_KINDS.index("kernel")
_WORK = [GPU_KINDS.index(k) for k in ("kernel", "memcpy", "memset")]
_CALLS = [HOST_KINDS.index(k) for k in ("runtime", "driver")]


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _column(batch: pa.RecordBatch, name: str, mask: npt.NDArray[np.bool_]) -> tuple[Ints, int]:
    """The values of a column where `mask`, without nulls, and how many nulls there were."""
    column = batch.column(name)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return values[mask & valid], int(np.count_nonzero(mask & ~valid))


def _codes(batch: pa.RecordBatch) -> Ints:
    return np.asarray(batch.column("kind").indices.to_numpy(zero_copy_only=False))


@dataclass
class Joins:
    """Collects correlations from the batches of spans and tells what does not join."""

    launches: int = 0
    kernels_by_device: dict[int, int] = field(default_factory=dict)
    rows_by_pid: dict[int, int] = field(default_factory=dict)
    _kernels: list[Ints] = field(default_factory=list)
    _copies: list[Ints] = field(default_factory=list)
    _calls: list[Ints] = field(default_factory=list)
    _graphs: list[Ints] = field(default_factory=list)
    _graph_kernels: list[Ints] = field(default_factory=list)
    _unjoinable: int = 0

    def gpu(self, batch: pa.RecordBatch) -> None:
        """Adds rows of `gpu_spans`."""
        codes = _codes(batch)
        kernels = codes == _KERNEL
        in_graph = batch.column("graph_id").is_valid().to_numpy(zero_copy_only=False)
        for mask, store in ((kernels & ~in_graph, self._kernels), (kernels & in_graph, self._graph_kernels), (np.isin(codes, _WORK) & ~kernels, self._copies)):
            values, nulls = _column(batch, "correlation", mask)
            store.append(values)
            self._unjoinable += nulls
        _count(self.kernels_by_device, _column(batch, "device", kernels)[0])

    def host(self, batch: pa.RecordBatch) -> None:
        """Adds rows of `host_spans`."""
        codes = _codes(batch)
        calls = np.isin(codes, _CALLS)
        self._calls.append(_column(batch, "correlation", calls)[0])
        names = batch.column("name")
        entries = names.dictionary.to_pylist()
        launch = np.array(["LaunchKernel" in n or "GraphLaunch" in n for n in entries], np.bool_)
        graph = np.array(["GraphLaunch" in n for n in entries], np.bool_)
        of_row = names.indices.to_numpy(zero_copy_only=False)
        if launch.any():
            self.launches += int(np.count_nonzero(launch[of_row] & calls))
        if graph.any():
            self._graphs.append(_column(batch, "correlation", graph[of_row] & calls)[0])
        _count(self.rows_by_pid, _column(batch, "pid", codes != HOST_KINDS.index("overhead"))[0])

    @property
    def gpu_events(self) -> int:
        """Kernels, copies and memory sets."""
        return sum(map(len, (*self._kernels, *self._copies, *self._graph_kernels))) + self._unjoinable

    def judge(self, notices: Notices) -> None:
        """Adds what does not join to `notices`."""
        calls = np.unique(_joined(self._calls))
        kernels = _joined(self._kernels)
        work = np.concatenate([kernels, _joined(self._copies), _joined(self._graph_kernels)])
        notices.add("orphan-gpu-events", count=int(np.count_nonzero(~np.isin(work, calls))))
        notices.add("shared-correlation-zero", count=self._unjoinable)
        if self.launches and not self.gpu_events:
            notices.add("no-kernels-but-launches", count=self.launches)
        alone = kernels[~np.isin(kernels, _joined(self._graphs))]
        notices.add("correlation-collision", count=len(alone) - len(np.unique(alone)))


def _count(counts: dict[int, int], values: Ints) -> None:
    if not len(values) or len(counts) >= _MAX_COUNTED:
        return
    if (values == values[0]).all():
        counts[int(values[0])] = counts.get(int(values[0]), 0) + len(values)
        return
    for value, n in zip(*np.unique(values, return_counts=True), strict=True):
        counts[int(value)] = counts.get(int(value), 0) + int(n)
