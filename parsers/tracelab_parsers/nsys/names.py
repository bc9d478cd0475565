"""Names of rows: texts of the database by their numbers, and what is cut from them."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab_parsers.nsys.columns import Flags, Ints, cut_texts, distinct, encoded
from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.source import Source

__all__ = ["UNNAMED", "Names", "api_name", "kernel_name", "split_operator"]

UNNAMED = "(unnamed)"
_MAX_KEPT = 200_000
_API_VERSION = re.compile(r"(?:_pt(?:sz|ds))?_v\d{4,6}$")
_LITERAL = re.compile(r"\((int|unsigned int|long|unsigned long|long long|unsigned long long|bool)\)(-?\d+)")
_SUFFIX = {"int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll", "unsigned long long": "ull"}
_MARKS = (", seq = ", ", op_id = ")


def api_name(name: str) -> str:
    """The name of an API call without the version of the interface (`cudaLaunchKernel_v7000`)."""
    return _API_VERSION.sub("", name)


def kernel_name(name: str) -> str:
    """A kernel's name with numbers as all other profilers write them: `Storage<4096ul>` for `Storage<(unsigned long)4096>`."""
    return _LITERAL.sub(_literal, name) if ")" in name else name


def _literal(m: re.Match[str]) -> str:
    kind, digits = m.groups()
    return digits + _SUFFIX[kind] if kind != "bool" else "false" if digits == "0" else "true"


class Names:
    """Looks up texts of StringIds: only those that rows refer to, and each once while there are not too many."""

    def __init__(self, source: Source, notices: Notices) -> None:
        self._source = source
        self._notices = notices
        self._known: dict[int, str | None] = {}

    def of(self, ids: Ints, present: Flags, shape: Callable[[str], str] | None = None) -> pa.DictionaryArray:
        """The texts of `ids` through `shape`, null where not `present` or unknown."""
        unique, positions = distinct(ids)
        texts = [self._known.get(i) for i in self._load(unique.tolist())]
        entries: dict[str, int] = {}
        codes = np.empty(len(unique), np.int32)
        for at, text in enumerate(texts):
            codes[at] = -1 if text is None else entries.setdefault(shape(text) if shape is not None else text, len(entries))
        row_codes = codes[positions]
        missing = None if present.all() and codes.min(initial=0) >= 0 else ~present | (row_codes < 0)
        indices = pa.array(row_codes, mask=missing)
        return pa.DictionaryArray.from_arrays(indices, pa.array(list(entries), pa.string()))

    def _load(self, ids: list[int]) -> list[int]:
        new = [i for i in ids if i not in self._known]
        if new:
            if len(self._known) + len(new) > _MAX_KEPT:
                self._known.clear()
                new = ids
            found = self._source.strings(new)
            self._known.update((i, found.get(i)) for i in new)
        return ids

    def one(self, of: int) -> str | None:
        """One text; None where the export has none of that id."""
        self._load([of])
        return self._known.get(of)

    def or_unnamed(self, names: pa.DictionaryArray, table: str) -> pa.DictionaryArray:
        """`names` with a stand-in where there is none, counted."""
        if not names.null_count:
            return names
        self._notices.add("unnamed", names.null_count, table)
        return encoded(pc.fill_null(names.cast(pa.string()), UNNAMED))


def split_operator(texts: pa.Array) -> tuple[pa.Array, pa.Array, Flags]:
    """Names of ranges, the sequence numbers in them, and whether they are operators of PyTorch.

    `torch.autograd.profiler.emit_nvtx` writes `aten::mm, seq = 7, op_id = 12, sizes = …`: every name would be another.
    """
    ends = pc.fill_null(pc.find_substring(texts, _MARKS[1]), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    marked = ends >= 0
    numbers = pa.nulls(len(texts), pa.int64())
    if not marked.any():
        return texts, numbers, marked
    names = cut_texts(texts, ends)
    at = pc.fill_null(pc.find_substring(names, _MARKS[0]), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    at[~marked] = -1
    if (at >= 0).any():
        digits = pc.struct_field(pc.extract_regex(names, r", seq = (?P<n>\d{1,18})"), "n")
        numbers = pc.if_else(pa.array(at >= 0), pc.cast(pc.if_else(pc.equal(digits, ""), None, digits), pa.int64()), None)
        names = cut_texts(names, at)
    return names, numbers, marked
