"""What NCCL's ranges say beside their name: binary payloads, decoded by the labels of their own description, and JSON."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracelab_parsers.nsys.source import Field, Source, newest

__all__ = ["Facts", "Payloads", "dtype_bytes", "standard_dtype"]

_FORMATS = {
    1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q", 11: "b", 12: "B", 13: "h", 14: "H", 15: "i", 16: "I", 17: "q",
    18: "Q", 19: "f", 20: "d", 22: "Q", 23: "Q",
}  # fmt: skip
"""struct formats of NVTX_PAYLOAD_ENTRY_TYPE_* (nvToolsExtPayload.h); types from 2^24 on are enumerations of 32 bits."""
_ENUMERATION = 1 << 24
_LABELS = {
    "ncclcommunicatorid": "comm", "commhash": "comm", "communicatorid": "comm", "communicator": "comm", "commid": "comm",
    "noofranks": "size", "nranks": "size", "numberofranks": "size",
    "rank": "rank", "commrank": "rank",
    "messagesizebytes": "bytes", "messagesize": "bytes", "bytes": "bytes", "nbytes": "bytes",
    "count": "count", "datatype": "dtype",
    "cudadevice": "device", "cudadev": "device", "parentncclcommunicatorid": "parent", "parentcommhash": "parent", "color": "color", "key": "key",
    "root": "root", "peerrank": "peer", "peer": "peer",
    "seqnumber": "seq", "sequencenumber": "seq", "operationid": "operation_id",
}  # fmt: skip
_HEADER = struct.Struct("<4Q")
_MAX_ROWS = 100_000
_DTYPES = {
    "i8": "Char", "int8": "Char", "char": "Char", "int8t": "Char", "u8": "Byte", "uint8": "Byte", "uint8t": "Byte",
    "i32": "Int", "int32": "Int", "int": "Int", "int32t": "Int", "u32": "UInt32", "uint32": "UInt32", "uint32t": "UInt32",
    "i64": "Long", "int64": "Long", "int64t": "Long", "u64": "UInt64", "uint64": "UInt64", "uint64t": "UInt64",
    "f16": "Half", "float16": "Half", "half": "Half", "f32": "Float", "float32": "Float", "float": "Float", "f64": "Double", "float64": "Double",
    "double": "Double", "bf16": "BFloat16", "bfloat16": "BFloat16", "nvbfloat16": "BFloat16",
    "f8e4m3": "Float8_e4m3fn", "float8e4m3": "Float8_e4m3fn", "f8e5m2": "Float8_e5m2", "float8e5m2": "Float8_e5m2",
}  # fmt: skip
_BYTES = {"Char": 1, "Byte": 1, "Int": 4, "UInt32": 4, "Long": 8, "UInt64": 8, "Half": 2, "BFloat16": 2, "Float": 4, "Double": 8}
_CODES = ("Char", "Byte", "Int", "UInt32", "Long", "UInt64", "Half", "Float", "Double", "BFloat16", "Float8_e4m3fn", "Float8_e5m2")
"""ncclDataType_t, in order."""


def _plain(label: str) -> str:
    return re.sub(r"[^a-z0-9]", "", label.lower())


def standard_dtype(stated: object) -> str | None:
    """PyTorch's name of an element type that is stated as NCCL's number or name (`7`, `ncclFloat32`, `bf16`, `__nv_bfloat16`)."""
    if isinstance(stated, int):
        return _CODES[stated] if 0 <= stated < len(_CODES) else None
    text = _plain(stated) if isinstance(stated, str) else ""
    if text.isascii() and text.isdigit() and len(text) < 3:
        return standard_dtype(int(text))
    return _DTYPES.get(text.removeprefix("nccl"))


def dtype_bytes(dtype: str | None) -> int | None:
    """Bytes of an element."""
    return 1 if dtype is not None and dtype.startswith("Float8") else _BYTES.get(dtype or "")


@dataclass(frozen=True, slots=True)
class Facts:
    """What one range states: communicator (64 bits, the same on all its ranks), its size, this rank in it, sizes, root, peer, order, parent."""

    comm: int | None = None
    size: int | None = None
    rank: int | None = None
    bytes: int | None = None
    count: int | None = None
    dtype: str | None = None
    root: int | None = None
    peer: int | None = None
    seq: int | None = None
    operation_id: int | None = None
    device: int | None = None
    parent: int | None = None
    color: int | None = None
    key: int | None = None


def _facts(values: Mapping[str, Any]) -> Facts | None:
    """Facts from labelled values; None where no label is known. Later labels of one meaning do not replace earlier ones."""
    found: dict[str, Any] = {}
    for label, value in values.items():
        name = _LABELS.get(_plain(label))
        if name is None or name in found:
            continue
        read = standard_dtype if name == "dtype" else _wide if name in ("comm", "operation_id", "parent") else _count
        if (understood := read(value)) is not None:
            found[name] = understood
    return Facts(**found) if found else None


def _wide(value: object) -> int | None:
    """An identifier of 64 bits, written as a number or as text."""
    if isinstance(value, str) and re.fullmatch(r"(?:0x)?[0-9a-fA-F]{1,20}", value):
        value = int(value, 0 if value.startswith("0x") or (value.isdigit() and not value.startswith("0")) else 16)
    return value & (1 << 64) - 1 if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 64 else None


def _count(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


@dataclass
class Payloads:
    """Decodes payloads. `schemas` maps (domain, schema) to labelled entries: label, offset, format."""

    schemas: dict[tuple[int, int], dict[str, tuple[int, str]]] = field(default_factory=dict)
    seen: int = 0
    bad: int = 0

    @classmethod
    def read(cls, source: Source) -> Payloads:
        """The descriptions of the file. They are repeated once per process, always alike."""
        out = cls()
        table = newest(source.tables, "NVTX_PAYLOAD_SCHEMA_ENTRIES")
        fields = (Field("domainId"), Field("schemaId"), Field("type"), Field("name", "text"), Field("offset"))
        left = _MAX_ROWS
        for batch in source.batches(table, fields) if table is not None else ():
            for row in batch.slice(0, left).to_pylist():
                kind, name = row["type"], row["name"]
                form = "i" if kind is not None and kind >= _ENUMERATION else _FORMATS.get(kind)
                if form is not None and name is not None and None not in (row["domainId"], row["schemaId"]):
                    entries = out.schemas.setdefault((row["domainId"], row["schemaId"]), {})
                    entries.setdefault(name, (row["offset"] or 0, form))
            left -= batch.num_rows
            if left <= 0:
                break
        return out

    def facts(self, blob: bytes | None, json: str | None) -> Facts | None:
        """What a range states; None where it states nothing that is known."""
        if blob:
            self.seen += 1
            found = self._binary(blob)
            self.bad += found is None
            if found is not None:
                return found
        if json:
            self.seen += 1
            found = self._json(json)
            self.bad += found is None
            return found
        return None

    def _binary(self, blob: bytes) -> Facts | None:
        """A payload behind four numbers of 64 bits: domain, schema, size, and where it begins."""
        if len(blob) < _HEADER.size:
            return None
        domain, schema, size, begin = _HEADER.unpack_from(blob)
        entries = self.schemas.get((domain, schema))
        if entries is None or begin + size > len(blob):
            return None
        values = {}
        for label, (offset, form) in entries.items():
            if 0 <= offset <= size - struct.calcsize("<" + form):
                values[label] = struct.unpack_from("<" + form, blob, begin + offset)[0]
        return _facts(values)

    def _json(self, text: str) -> Facts | None:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        inner = {k: v for part in value.values() if isinstance(part, dict) for k, v in part.items()}
        return _facts({**inner, **{k: v for k, v in value.items() if not isinstance(v, dict)}})
