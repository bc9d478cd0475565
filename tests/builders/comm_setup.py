"""Hand-made tables of communication logs: a job whose setup is sound, to be broken in one place by each test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tests.builders.frames import Row, frame
from tracelab.analyses.configuration import ANALYSIS
from tracelab.analysis import AnalysisResult
from tracelab.results import Evidence, Finding
from tracelab.tables import TABLES


class LogTables:
    """The protocol `tracelab.analysis.Tables` over rows."""

    def __init__(self, rows: Mapping[str, list[Row]]) -> None:
        self.memo: dict[str, object] = {}
        self.frames = {name: frame(TABLES[name], r) for name, r in rows.items()}

    def __getitem__(self, name: str) -> pl.LazyFrame:
        return self.frames.get(name, TABLES[name].empty()).lazy()

    def __contains__(self, name: object) -> bool:
        return str(name) in self.frames and self.frames[str(name)].height > 0

    def evidence(self, source_id: int, rank: int | None, source_ts_ns: int | None, ts_ns: int | None, text: str) -> Evidence:
        return Evidence(f"nccl.{source_id}.log", rank, source_ts_ns, ts_ns, text)


@dataclass
class Setup:
    """A job of `hosts` × `gpus` ranks, one log per rank, in which ring c enters and leaves a host over adapter c.

    `settings` and `values` are by rank or by None (all ranks); what is left out is healthy.
    """

    hosts: int = 3
    gpus: int = 2
    adapters: int = 2
    first_rank: int = 0
    rows: dict[str, list[Row]] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    speak: bool = True

    def host(self, rank: int) -> str:
        return f"node{rank // self.gpus}"

    @property
    def world(self) -> int:
        return self.hosts * self.gpus

    def add(self, table: str, rank: int, said: str = "", **values: Any) -> Row:
        """A row of `rank`'s log on a line of its own, and the message of that line."""
        line = self.lines[rank] = self.lines.get(rank, 0) + 1
        where = {"source_id": rank, "part": 0, "rank": rank, "line": line}
        row = {**where, **values}
        self.rows.setdefault(table, []).append(row)
        if table != "log_events" and self.speak:
            self.rows.setdefault("log_events", []).append({**where, "level": "INFO", "kind": "setup", "text": said or f"{table} {values}"})
        return row

    def say(self, rank: int, text: str, level: str = "WARN", kind: str = "warning") -> None:
        """A message alone."""
        self.add("log_events", rank, level=level, kind=kind, text=text)

    def setting(self, name: str, value: str, *ranks: int, origin: str = "environment") -> Setup:
        """States a setting on these ranks, or on all."""
        for rank in ranks or range(self.world):
            self.add("log_settings", rank, f"{name} set by environment to {value}.", name=name, value=value, origin=origin)
        return self

    def forget(self, table: str, **values: Any) -> Setup:
        """Drops the rows of a table that have these values."""
        self.rows[table] = [r for r in self.rows.get(table, []) if any(r.get(k) != v for k, v in values.items())]
        return self

    def change(self, table: str, where: Mapping[str, Any], text: str = "", **values: Any) -> Setup:
        """Sets columns of the rows of a table that have these values, and what is written in their lines."""
        hit = [r for r in self.rows[table] if all(r.get(k) in v if isinstance(v, (set, range)) else r.get(k) == v for k, v in where.items())]
        assert hit, (table, where)
        lines = {(r["source_id"], r["line"]) for r in hit}
        for row in hit:
            row.update(values)
        for event in self.rows["log_events"]:
            if (event["source_id"], event["line"]) in lines:
                event["text"] = text or f"{table} {values}"
        return self

    def build(self) -> Setup:
        """The sound job."""
        for rank in range(self.world):
            local, world = rank % self.gpus, self.world
            self.rows.setdefault("sources", []).append(self._source(rank))
            self.rows.setdefault("ranks", []).append({"rank": rank, "host": self.host(rank), "device": local, "gpu": "H100", "sources": "", "windows": 1})
            for name, value in (("version", "2.21.5"), ("cuda_driver", "12040"), ("network", "IB"), ("affinity", f"GPU {local}: ff,00000000")):
                self.add("log_settings", rank, f"{name} {value}", name=name, value=value, origin="stated")
            self.add("log_settings", rank, "NCCL_DEBUG set by environment to INFO.", name="NCCL_DEBUG", value="INFO", origin="environment")
            for d in range(self.adapters):
                self.add(
                    "net_devices", rank, f"NET/IB : Using [{d}]mlx5_{d}:1/RoCE", plugin="IB", device=d, name=f"mlx5_{d}", port=1, link_layer="RoCE", used=True
                )
            self.add("net_devices", rank, "Bootstrap : Using eth0:10.0.0.1<0>", plugin="bootstrap", device=0, name="eth0", address="10.0.0.1", used=True)
            self.add(
                "communicators",
                rank,
                f"comm 0xa rank {rank} nranks {world} - Init COMPLETE",
                comm=0,
                comm_id="0xc0ffee",
                comm_rank=rank,
                size=world,
                cuda_device=local,
                nvml_device=local,
                bus_id=f"0000:{0x10 + local:02x}:00.0",
                nodes=self.hosts,
                local_ranks=self.gpus,
                local_rank=local,
                channels=2 * self.adapters,
                state="complete",
                version="2.21.5",
            )
            for c in range(2 * self.adapters):
                self._edges(rank, c)
        return self

    def _source(self, rank: int) -> Row:
        named = {"source_id": rank, "part": 0, "path": f"nccl.{rank}.log", "format": "nccl-log", "rank": rank, "host": self.host(rank), "role": "log"}
        return {**named, "size_bytes": 1, "content_key": "", "job": 0, "window": 0, "events": 1, "truncated": False}

    def _edges(self, rank: int, channel: int) -> None:
        local, nic = rank % self.gpus, channel % self.adapters
        if self.hosts > 1 and local == 0:
            self._edge((rank - 1) % self.world, rank, rank, channel, f"NET/IB/{nic}/GDRDMA", direction="receive", transport="NET/IB", net_device=nic, gdr=True)
        if local + 1 < self.gpus:
            self._edge(rank, rank + 1, rank, channel, "P2P/CUMEM/read", transport="P2P/CUMEM")
        elif self.hosts > 1:
            self._edge(rank, (rank + 1) % self.world, rank, channel, f"NET/IB/{nic}/GDRDMA", direction="send", transport="NET/IB", net_device=nic, gdr=True)

    def _edge(self, src: int, dst: int, at: int, channel: int, via: str, **values: Any) -> None:
        a, b = src % self.gpus, dst % self.gpus
        way = f" [{values['direction']}]" if "direction" in values else ""
        base = {
            "comm": 0,
            "kind": "connection",
            "channel": channel,
            "connection": 0,
            "src_rank": src,
            "dst_rank": dst,
            "src_device": str(a),
            "dst_device": str(b),
        }
        self.add("channel_edges", at, f"Channel {channel:02d}/0 : {src}[{a}] -> {dst}[{b}]{way} via {via}", **base, **values)

    def result(self) -> AnalysisResult:
        """What the analysis says of these tables."""
        return ANALYSIS.run(LogTables(self.rows), ANALYSIS.params())

    def findings(self) -> list[Finding]:
        """Its findings."""
        return list(self.result().findings)
