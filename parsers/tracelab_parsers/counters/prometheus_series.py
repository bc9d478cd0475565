"""Series of Prometheus to keys of rows: meaning, machine, device, and what is known of their unit only from the whole file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tracelab.tables import CounterKind
from tracelab_parsers.counters.bulk import Ints, Key, Numbers
from tracelab_parsers.counters.prometheus_labels import has_entity, key_of
from tracelab_parsers.counters.prometheus_names import Metric, metric_of
from tracelab_parsers.counters.prometheus_units import DOUBTFUL, WordEvidence
from tracelab_parsers.nccl_json.notices import Notices, NoticeText
from tracelab_parsers.topology.ibnetdiscover_names import guid_of

__all__ = ["TEXTS", "Fabric", "Known", "SeriesKeys", "adjusted"]

_Text = NoticeText
_AGAIN = "export it again"
TEXTS: dict[str, NoticeText] = {
    "bad-number": _Text("warning", "values that are no numbers were kept as missing"),
    "bad-time": _Text("warning", "moments that lie outside 1971 to 2096 or are none; their numbers were kept without one"),
    "bad-series": _Text("warning", "series that cannot be read were left out", _AGAIN),
    "bad-line": _Text("warning", "lines that are no sample were left out"),
    "line-too-long": _Text("warning", "lines longer than 1 MiB were left out"),
    "oversized-series": _Text("warning", "series larger than 256 MiB were left out", "export shorter ranges"),
    "truncated": _Text(
        "warning", "the file ends in the middle of an answer or line; what came before was kept", f"the copy is incomplete, or the disk was full: {_AGAIN}"
    ),
    "query-failed": _Text("error", "the file holds an error of Prometheus instead of an answer", f"repair the query and {_AGAIN}"),
    "partial-answer": _Text("warning", "Prometheus says that its answer may be incomplete", "a part of its storage did not answer, or the query has a flaw"),
    "unnamed-series": _Text(
        "warning",
        "series without a name are results of expressions (rate, sum …); they are kept as vendor.expression, and nothing is computed from them",
        "export the counters themselves, without any function",
    ),
    "native-histograms": _Text("info", "native histograms were left out"),
    "unit-unverified": _Text(
        "warning",
        "infiniband_exporter before version 0.10 prints words of four octets under a name that says bytes, and nothing in the file tells its version; "
        "bytes were taken for true",
        "export the packets or infiniband_exporter_build_info with them; where the data are words, all bytes are 4 times as many",
    ),
    "words-for-bytes": _Text(
        "info", "counters that are called bytes count words of four octets, as the packets or the exporter's version show; they were multiplied by 4"
    ),
    "no-counters": _Text("warning", "the file holds no counter of a network or GPU", "see that the query covers infiniband, network, switch or DCGM metrics"),
}
_UNNAMED = "expression"
_BLANKS = frozenset(float(base + n) for base in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 140_737_488_355_328) for n in range(4))
"""What DCGM prints for a field that it cannot read: blank, not found, not supported, not permitted."""


class Known(NamedTuple):
    """A series whose numbers are kept."""

    key: Key
    metric: Metric


class Fabric(NamedTuple):
    """What only the whole file tells of the exporters that read a fabric: names by GUID, and the unit of their data."""

    guids: dict[str, str]
    evidence: WordEvidence

    @classmethod
    def empty(cls) -> Fabric:
        """Nothing told yet."""
        return cls({}, WordEvidence())

    def see(self, name: str, labels: Mapping[str, str], number: float | None) -> None:
        """A series and its last number."""
        if name in ("infiniband_switch_info", "infiniband_hca_info"):
            guid, named = guid_of(labels.get("guid")), labels.get("switch") or labels.get("hca")
            if guid is not None and named:
                self.guids[guid] = named
        else:
            self.evidence.see(name, labels, number)

    @staticmethod
    def concerns(name: str) -> bool:
        """Whether `see` learns from a metric."""
        return name in ("infiniband_switch_info", "infiniband_hca_info") or WordEvidence.concerns(name)


class SeriesKeys:
    """Looks up series. `read_fabric` reads the whole file once, when the first metric of a fabric's exporter asks for it."""

    def __init__(self, notices: Notices, read_fabric: Callable[[], Fabric], *, all_unknown: bool) -> None:
        self._notices = notices
        self._read_fabric = read_fabric
        self._all_unknown = all_unknown
        self._fabric: Fabric | None = None
        self.others = 0

    def lookup(self, name: str, labels: Mapping[str, str], kind: CounterKind | None = None) -> Known | None:
        """The series; None where it is none of a network or GPU."""
        if not name:
            self._notices.add("unnamed-series")
            name, kind = _UNNAMED, "gauge"
        metric = metric_of(name, labels, kind)
        if metric is None or (metric.family == "other" and not self._all_unknown and not has_entity(labels)):
            self.others += 1
            return None
        flags: tuple[str, ...] = ()
        guids: Mapping[str, str] = {}
        if metric.family in ("fabric", "component"):
            guids = self._of_fabric().guids
        if metric.words:
            metric, flags = self._in_bytes(metric)
        return Known(key_of(name, labels, metric, guids, flags), metric)

    def _of_fabric(self) -> Fabric:
        if self._fabric is None:
            self._fabric = self._read_fabric()
        return self._fabric

    def _in_bytes(self, metric: Metric) -> tuple[Metric, tuple[str, ...]]:
        """The metric with the unit that the file shows."""
        verdict = self._of_fabric().evidence.verdict()
        if metric.family == "component":
            return metric._replace(meaning=replace(metric.meaning, scale=1.0 if verdict == "bytes" else 4.0)), ()
        if verdict == "words":
            self._notices.add("words-for-bytes")
            return metric._replace(meaning=replace(metric.meaning, scale=4.0)), ()
        if verdict is None:
            self._notices.add("unit-unverified")
            return metric, DOUBTFUL
        return metric, ()


def adjusted(numbers: Numbers, series: Sequence[Known], of: Ints | None) -> Numbers:
    """Codes become what they stand for, and values that stand for nothing are missing. Row i is of `series[of[i]]`, of the only one where `of` is None."""
    for i, known in enumerate(series):
        counter = known.metric.meaning.counter
        states, gpu = known.metric.states, known.metric.family == "dcgm"
        if states is None and not gpu and counter != "link_speed":
            continue
        rows = numbers.stated if of is None else numbers.stated & (of == i)
        lost = rows & (numbers.value <= 0) if counter == "link_speed" else np.zeros(len(rows), np.bool_)
        if gpu:
            lost |= rows & np.isin(numbers.value, list(_BLANKS))
        if states is not None:
            lost |= rows & ~np.isin(numbers.value, list(states))
            mapped = np.array([states.get(v, 0.0) for v in numbers.value.tolist()])
            numbers = numbers._replace(value=np.where(rows, mapped, numbers.value), whole=numbers.whole & ~rows)
        numbers = numbers._replace(stated=numbers.stated & ~lost, whole=numbers.whole & ~lost)
    return numbers
