"""What a culprit is: which rows, for which cause, in which steps; and from when on something counts as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracelab.results import FindingKind

__all__ = ["Culprit", "Mask", "Params", "Rows"]

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Params:
    """Thresholds of a finding.

    `least_share`: loss as a share of the run below which a fault is not worth waking somebody (1 %).
    `sigmas`: a step counts as disturbed beyond this many standard deviations of the undisturbed scatter (5: below one
    false step in a million), and beyond `least_excess` of a step (1.5 %: GPUs of one model differ by about that).
    `event_sigmas`: a single event counts beyond this many standard deviations of all else that was seen of its cause (10).
    `kernel_share`: loss by single kernels that counts without returning (5 %: now and then a kernel takes twice its time).
    `same_level`: ranks whose excess differs by less than a quarter are equally slow (0.75).
    `imbalance_spread`: scatter of compute between ranks that counts as uneven load (2 %; equal work scatters by 0.3 to 1 %).
    `imbalance_share`: loss by uneven load worth a finding (3 %: some is unavoidable).
    `stage_excess`: compute of a pipeline stage above the others' (3 %).
    `resamples`, `seed`: bootstrap over steps.
    """

    least_share: float = 0.01
    sigmas: float = 5.0
    least_excess: float = 0.015
    event_sigmas: float = 10.0
    kernel_share: float = 0.05
    same_level: float = 0.75
    imbalance_spread: float = 0.02
    imbalance_share: float = 0.03
    stage_excess: float = 0.03
    resamples: int = 1_000
    seed: int = 1


@dataclass(frozen=True)
class Culprit:
    """A culprit.

    `rows` of the excess (not rank numbers), disturbed `steps` (mask), saving per step (ns); `hosts` where all ranks of a
    host are it; `much` is the size of the effect as text; `excess_ns` the excess that the saving is a part of; `either`
    is another reason that explains the same times as well, as text. `late`: the work took no longer, it came later.
    `behind`: rows that will be waited for once these are mended.
    """

    kind: FindingKind
    cause: str
    rows: Rows
    steps: Mask
    saving: NDArray[np.float64]
    excess_ns: float
    hosts: list[str]
    much: str
    either: str = ""
    late: bool = False
    behind: Rows | None = None
