"""A small network by hand: links, who uses them, and what their ports counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from tests.builders.frames import frame
from tracelab.analysis import Analysis, AnalysisResult
from tracelab.results import Evidence
from tracelab.tables import TABLES

S = 1_000_000_000
"""Nanoseconds per second. The job runs from 0 to 10 s in ten steps unless said otherwise."""
G = 10**9
Row = Mapping[str, Any]


class Network:
    """The protocol `tracelab.analysis.Tables` over rows by table."""

    def __init__(self, **rows: Iterable[Row]) -> None:
        self.memo: dict[str, object] = {}
        given = {name: list(r) for name, r in rows.items()}
        given.setdefault("steps", [{"rank": 0, "step": n, "start_ns": n * S, "end_ns": (n + 1) * S, "origin": "annotation"} for n in range(10)])
        self._rows = given

    def __getitem__(self, name: str) -> pl.LazyFrame:
        return frame(TABLES[name], self._rows.get(name, ())).lazy()

    def __contains__(self, name: object) -> bool:
        return bool(self._rows.get(str(name)))

    def evidence(self, source_id: int, rank: int | None, source_ts_ns: int | None, ts_ns: int | None, text: str) -> Evidence:
        raise AssertionError("these analyses point at no file")


def link(number: int, host: str, port: str, *, device: str = "mlx5_0", switch: str | None = "leaf1", speed: int | None = 400 * G, **more: Any) -> Row:
    """A link from a host's adapter (its network device is ens1) to a switch's port."""
    base = {"link": number, "a_node": host, "a_device": device, "a_port": "ens1", "b_node": switch, "b_port": port, "tier": 0, "rail": 0, "speed_bps": speed}
    return {**base, "a_series": True, "b_series": True, "origin": "lldp", **more}


def uplink(number: int, switch: str, port: str, spine: str | None, *, speed: int | None = 400 * G) -> Row:
    """A link between two switches; its port on the spine is called as on the leaf."""
    base = {"link": number, "a_node": switch, "a_port": port, "b_node": spine, "b_port": port if spine else None, "tier": 1, "speed_bps": speed}
    return {**base, "a_series": True, "b_series": True, "origin": "lldp"}


def uses(rank: int, host: str, number: int, device: str = "mlx5_0") -> Row:
    """A rank whose data leave through the adapter of a link."""
    return {"rank": rank, "host": host, "device": device, "netdev": "ens1", "link": number, "share": 1.0, "origin": "edges"}


def counts(
    series: int, node: str, port: str, counter: str, deltas: Sequence[float], direction: str | None = None, *, every: float = 1.0, **more: Any
) -> list[Row]:
    """Neighbouring intervals of one counter from 0 on, `every` seconds each. `odd` names intervals by number: their flags (reset, gap)."""
    odd: Mapping[int, str] = more.pop("odd", {})
    unit = "byte" if counter.endswith("bytes") else "packet"
    number = {"port": int(port)} if port.isdigit() else {"device": port}
    out: list[Row] = []
    for n, delta in enumerate(deltas):
        flag = odd.get(n)
        out.append(
            {
                "series": series,
                "start_ns": int(n * every * S),
                "end_ns": int((n + 1) * every * S),
                "node": node,
                "node_kind": "switch" if node.startswith(("leaf", "spine")) else "host",
                **number,
                "direction": direction,
                "counter": counter,
                "unit": unit,
                "delta": float(delta),
                "per_s": delta / every,
                "at_least": flag == "reset",
                "gap": flag == "gap",
                "flags": flag if flag == "reset" else None,
                **more,
            }
        )
    return out


def level(series: int, node: str, port: str, counter: str, value: float, at: float | None = 5.0, **more: Any) -> Row:
    """One value of a level, at a moment in seconds."""
    number = {"port": int(port)} if port.isdigit() else {"device": port}
    base = {"series": series, "ts_ns": None if at is None else int(at * S), "node": node, "node_kind": "host", "device_kind": "netdev", "kind": "gauge"}
    return {**base, **number, "counter": counter, "raw_name": counter, "value": value, "scale": 1.0, "width": 0, "saturates": False, **more}


def star(hosts: int, *, speed: int | None = 400 * G) -> dict[str, list[Row]]:
    """`hosts` hosts h0, h1 … with one adapter each, at ports E0, E1 … of leaf1; rank n on host n."""
    links = [link(n, f"h{n}", f"E{n}", speed=speed) for n in range(hosts)]
    return {"links": links, "endpoints": [uses(n, f"h{n}", n) for n in range(hosts)]}


def answer(analysis: Analysis, params: object | None = None, **rows: Iterable[Row]) -> AnalysisResult:
    """The result of `analysis`, with frames brought into the form of its outputs as the runner does."""
    result = analysis.run(Network(**rows), params or analysis.params())
    known = {spec.name: spec for spec in analysis.outputs}
    frames = {name: known[name].conform(f) for name, f in result.frames.items()}
    return AnalysisResult(result.answer, frames, result.findings, result.attribution, result.degraded, result.not_observable)


def asked(result: AnalysisResult) -> list[str]:
    """The questions that stay open."""
    return [n.question for n in result.not_observable]
