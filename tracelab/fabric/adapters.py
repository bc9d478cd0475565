"""Interfaces that several sources describe under several names, as one adapter each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

__all__ = ["Adapter", "Adapters", "end_name"]


@dataclass(frozen=True)
class Adapter:
    """One port of a machine, by all that is known of it. `names`: every name that it goes by on its machine."""

    machine: str
    kind: str
    device: str | None
    netdev: str | None
    port: int | None
    uid: str | None
    pci: str | None
    speed_bps: int | None
    speed_origin: str | None
    cable: str | None
    names: frozenset[str] = field(default_factory=frozenset)

    @property
    def name(self) -> str:
        """The name by which to call it: that of the RDMA device, else of the network device or the port."""
        if self.device is not None:
            return self.device if self.port is None or self.port <= 1 else f"{self.device}/{self.port}"
        return self.netdev or str(self.port if self.port is not None else self.uid)


Row = Mapping[str, object]


def end_name(uid: pl.Expr | None = None) -> pl.Expr:
    """Name of what counted, as `Adapters.find` knows it, from the columns device and port of counters, else `uid` (the column of that name)."""
    device, port = pl.col("device").cast(pl.String), pl.col("port").cast(pl.String)
    numbered = pl.when(pl.col("port") > 1).then(pl.concat_str(device, pl.lit("/"), port)).otherwise(device)
    return pl.coalesce(numbered, port, (pl.col("uid") if uid is None else uid).cast(pl.String))


class Adapters:
    """All adapters of all machines, found by any of their names.

    `rows`: mappings with machine, kind, device, netdev, alias, port, uid, pci, speed_bps, cable, origin, in order of trust.
    Two rows of one machine are one adapter where they share the RDMA device and its port, the network device or the address.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.all = sorted((_merged(group) for group in _groups(rows)), key=lambda a: (a.machine, a.name))
        self._by_name: dict[tuple[str, str], list[Adapter]] = defaultdict(list)
        self._by_uid: dict[str, Adapter] = {}
        for adapter in self.all:
            for name in sorted(adapter.names):
                self._by_name[adapter.machine, name].append(adapter)
            if adapter.uid:
                self._by_uid.setdefault(adapter.uid, adapter)

    def find(self, machine: str | None, *names: object, uid: object = None) -> Adapter | None:
        """The adapter of that address, else the only one of the machine with one of the names."""
        if isinstance(uid, str) and uid in self._by_uid:
            return self._by_uid[uid]
        for name in names:
            found = self._by_name.get((machine or "", str(name)), []) if name is not None else []
            if len(found) == 1:
                return found[0]
        return None


def _keys(row: Row) -> Iterable[tuple[object, ...]]:
    machine, port = row["machine"], row["port"]
    if row["uid"]:
        yield "uid", row["uid"]
    if row["device"]:
        yield machine, "device", row["device"], port if isinstance(port, int) and port > 1 else 1
    if row["netdev"]:
        yield machine, "netdev", row["netdev"]
    if not row["device"] and not row["netdev"] and port is not None:
        yield machine, "port", port


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of one adapter each."""
    numbers: dict[tuple[object, ...], int] = {}
    pairs = [(n, numbers.setdefault(key, len(numbers))) for n, row in enumerate(rows) for key in _keys(row)]
    if not pairs:
        return []
    size = len(rows) + len(numbers)
    a, b = np.array(pairs).T
    _, labels = connected_components(coo_array((np.ones(len(pairs)), (a, b + len(rows))), shape=(size, size)), directed=False)
    groups: dict[int, list[Row]] = defaultdict(list)
    keyed = {n for n, _ in pairs}
    for n, row in enumerate(rows):
        if n in keyed:
            groups[int(labels[n])].append(row)
    return list(groups.values())


def _merged(rows: list[Row]) -> Adapter:
    def first(column: str) -> object:
        return next((r[column] for r in rows if r[column] not in (None, "")), None)

    speed = next(((r["speed_bps"], r["origin"]) for r in rows if r["speed_bps"]), (None, None))
    device = first("device")
    port = first("port")
    names = {str(r[c]) for r in rows for c in ("device", "netdev", "alias") if r[c]}
    names |= {f"{device}/{port}"} if device is not None and port is not None else set()
    names |= {str(port)} if port is not None and device is None else set()
    return Adapter(
        machine=str(rows[0]["machine"]),
        kind=str(first("kind") or "host"),
        device=_text(device),
        netdev=_text(first("netdev")),
        port=port if isinstance(port, int) else None,
        uid=_text(first("uid")),
        pci=_text(first("pci")),
        speed_bps=int(str(speed[0])) if speed[0] is not None else None,
        speed_origin=_text(speed[1]),
        cable=_text(first("cable")),
        names=frozenset(names),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
