"""The result document `tracelab.findings/1`: the only thing that reports read.

The JSON Schema of `docs/findings.schema.json` is generated from these types. Fields may be added; the meaning of one
never changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from tracelab.errors import UnknownNameError, UsageError

__all__ = [
    "KINDS",
    "SCHEMA",
    "SEVERITIES",
    "AnalysisStatus",
    "Attribution",
    "Cause",
    "Clock",
    "Confidence",
    "Coverage",
    "DataColumn",
    "DataTable",
    "Evidence",
    "Finding",
    "FindingKind",
    "FindingSeverity",
    "Input",
    "Link",
    "NotObservable",
    "Price",
    "RankInfo",
    "RankTimes",
    "ResultNotice",
    "RunInfo",
    "RunResult",
    "Section",
    "StepTime",
    "Tool",
    "Traffic",
    "finding_id",
    "json_schema",
]

SCHEMA = "tracelab.findings/1"

FindingKind = Literal[
    "compute_straggler",
    "input_stall",
    "host_stall",
    "periodic_jitter",
    "slow_link",
    "congestion",
    "packet_loss",
    "link_flap",
    "pipeline_imbalance",
    "load_imbalance",
    "exposed_communication",
    "launch_bound",
    "transport_fallback",
    "misconfiguration",
    "memory_copy",
    "collective_hang",
    "clock_step",
]
FindingSeverity = Literal["critical", "major", "minor", "info"]
Confidence = Literal["proven", "likely", "possible"]
KINDS: tuple[str, ...] = FindingKind.__args__  # type: ignore[attr-defined]
SEVERITIES: tuple[str, ...] = FindingSeverity.__args__  # type: ignore[attr-defined]
"""Most severe first."""

Seconds = Annotated[float, msgspec.Meta(description="seconds")]
Ns = Annotated[int, msgspec.Meta(description="nanoseconds of the Unix epoch on the aligned clock")]


class Tool(msgspec.Struct, frozen=True):
    """The program that wrote the document."""

    name: str
    version: str


class RankInfo(msgspec.Struct, frozen=True):
    """One rank that at least one source speaks for."""

    rank: int
    host: str
    device: int | None
    gpu: str | None
    sources: list[str]


class StepTime(msgspec.Struct, frozen=True):
    """Distribution of the step time of the job: from the latest end of the step before to the latest end, over all ranks."""

    median: Seconds
    p95: Seconds
    max: Seconds


class Coverage(msgspec.Struct, frozen=True):
    """What was lost of one rank's data."""

    rank: int
    orphan_gpu_events: int
    truncated: bool
    notices: int


class RunInfo(msgspec.Struct, frozen=True):
    """The analysed job and how much of it the files show. `world_size` is null where no file states it."""

    name: str
    start_ns: Ns | None
    end_ns: Ns | None
    world_size: int | None
    ranks: list[RankInfo]
    missing_ranks: list[int]
    steps: int
    step_time_s: StepTime | None
    coverage: list[Coverage]


class Cause(msgspec.Struct, frozen=True):
    """A part of the step time, with the range that it may lie in."""

    kind: str
    seconds: Seconds
    share: float
    low: Seconds
    high: Seconds


class RankTimes(msgspec.Struct, frozen=True):
    """Sums over the analysed steps. The first five partition the rank's step time; the last overlaps the others."""

    compute_s: Seconds
    memcpy_s: Seconds
    exposed_transfer_s: Seconds
    exposed_wait_s: Seconds
    idle_s: Seconds
    dataloader_s: Seconds


class Attribution(msgspec.Struct, frozen=True):
    """Where the step time goes: causes and the unattributed rest add up to `per_step_total`."""

    unit: Literal["s"]
    per_step_total: Seconds
    causes: list[Cause]
    unattributed: Seconds
    per_rank: dict[str, RankTimes]


class Link(msgspec.Struct, frozen=True):
    """A network interface and the switch port it is plugged into, as far as known."""

    host: str | None = None
    nic: str | None = None
    switch: str | None = None
    port: str | None = None


class Evidence(msgspec.Struct, frozen=True):
    """Where in the files a finding can be seen: `source_ts_ns` is the file's own time, `ts_ns` the aligned one."""

    source: str
    rank: int | None
    source_ts_ns: int | None
    ts_ns: Ns | None
    text: str


class Price(msgspec.Struct, frozen=True):
    """What a GPU-hour costs, as the user states it."""

    per_gpu_hour: float
    currency: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One cause of lost time, its subject (the culprit, never a victim) and how sure that is.

    `lost_s` is the wall time that the job would have saved in the analysed window had this one cause been absent.
    """

    id: str
    kind: FindingKind
    severity: FindingSeverity
    summary: str
    confidence: Confidence
    lost_s: Seconds
    lost_s_low: Seconds
    lost_s_high: Seconds
    lost_gpu_hours: float
    ranks: list[int] = []
    hosts: list[str] = []
    links: list[Link] = []
    steps: list[int] = []
    start_ns: Ns | None = None
    end_ns: Ns | None = None
    evidence: list[Evidence] = []
    next_step: str


class NotObservable(msgspec.Struct, frozen=True):
    """A question that the files cannot answer, and what to collect so that they can."""

    question: str
    reason: str
    collect: str


class Clock(msgspec.Struct, frozen=True):
    """What is added to a host's times, from `start_ns` of its own clock on."""

    host: str
    start_ns: int
    offset_ns: int
    drift_ppm: float
    uncertainty_ns: int | None
    method: str
    grade: Literal["A", "B", "C", "D"]


class AnalysisStatus(msgspec.Struct, frozen=True):
    """How an analysis ended."""

    id: str
    status: Literal["ok", "not_applicable", "degraded", "error"]
    reason: str = ""


class DataColumn(msgspec.Struct, frozen=True):
    """A column of a result table."""

    name: str
    unit: str
    doc: str
    values: list[Any]


class DataTable(msgspec.Struct, frozen=True):
    """A small table inside the document, column by column; `rows_left_out` counts those cut for size."""

    id: str
    title: str
    columns: list[DataColumn]
    rows_left_out: int = 0

    def column(self, name: str) -> list[Any]:
        """The values of a column; `UnknownNameError` lists the existing ones."""
        for c in self.columns:
            if c.name == name:
                return c.values
        raise UnknownNameError(f"column of result table {self.id!r} called", name, (c.name for c in self.columns))

    @property
    def rows(self) -> int:
        """Rows in the document."""
        return len(self.columns[0].values) if self.columns else 0


class Traffic(msgspec.Struct, frozen=True):
    """Payload bytes per directed pair of global ranks, of the operations that the captures hold (where none does, of all logged ones)."""

    pairs: list[tuple[int, int, int]]


class Section(msgspec.Struct, frozen=True):
    """What one analysis answers."""

    id: str
    title: str
    question: str
    answer: str
    tables: list[DataTable]

    def table(self, table_id: str) -> DataTable:
        """The table of that id; `UnknownNameError` lists the existing ones."""
        for t in self.tables:
            if t.id == table_id:
                return t
        raise UnknownNameError(f"table of section {self.id!r} called", table_id, (t.id for t in self.tables))


class Input(msgspec.Struct, frozen=True):
    """A file that was found, and what became of it.

    `role`: analysed, log, network (counters and wiring of machines), duplicate, other-job, no-events (nothing timed in it),
    unreadable, ignored (by the manifest), companion (read as a part of another file), unknown (no parser claims it).
    """

    path: str
    format: str
    role: str
    size_bytes: int
    events: int
    rank: int | None
    note: str


class ResultNotice(msgspec.Struct, frozen=True):
    """As in the `notices` table."""

    path: str
    code: str
    severity: Literal["error", "warning", "info"]
    count: int
    offset_bytes: int | None
    text: str
    hint: str


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result document."""

    schema: Literal["tracelab.findings/1"] = "tracelab.findings/1"
    tool: Tool
    run: RunInfo
    verdict: str
    attribution: Attribution | None
    findings: list[Finding]
    not_observable: list[NotObservable]
    clocks: list[Clock]
    analyses: list[AnalysisStatus]
    tables: dict[str, str] = {}
    price: Price | None = None
    traffic: Traffic | None = None
    sections: list[Section] = []
    inputs: list[Input] = []
    notices: list[ResultNotice] = []

    def __repr__(self) -> str:
        return f"<tracelab.RunResult {self.run.name!r}: {self.verdict}>"

    def section(self, section_id: str) -> Section | None:
        """The section of that id, or None where its analysis did not apply."""
        return next((s for s in self.sections if s.id == section_id), None)

    def to_json(self) -> bytes:
        """The document as indented JSON; equal results give equal bytes. NaN and infinity become null."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic"), indent=1) + b"\n"

    @classmethod
    def from_json(cls, data: bytes | str) -> RunResult:
        """The document from JSON; `UsageError` says what does not fit."""
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise UsageError(f"this is no {SCHEMA} document: {e}", hint="give the file that `tracelab analyze DIR --json FILE` wrote") from e


def finding_id(kind: str, subject: Sequence[int | str]) -> str:
    """An id that a re-run of the same input finds again: the kind and a hash of the subject."""
    digest = hashlib.blake2b("\x1f".join(str(s) for s in subject).encode(errors="surrogatepass"), digest_size=4).hexdigest()
    return f"{kind}-{digest}"


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the document."""
    schema = msgspec.json.schema(RunResult)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:tracelab:findings:1", **schema}
