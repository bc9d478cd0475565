"""A small XML document as a tree, in bounded memory: no document type, so that no entity is ever declared, expanded or fetched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from xml.parsers import expat

from tracelab_parsers.json_window import Readable

__all__ = ["Element", "read_tree"]

_BLOCK = 64 << 10
_MOST_ELEMENTS = 200_000
_DEEPEST = 64
_LONGEST_VALUE = 4096


@dataclass(eq=False, slots=True)
class Element:
    """An element without its text."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None
    line: int
    children: list[Element] = field(default_factory=list)


class _Refused(Exception):  # noqa: N818 - it never leaves this module
    """The document is of a kind that is not read on."""


def read_tree(stream: Readable, report: Callable[[str, int], None]) -> list[Element]:
    """All elements of the document in order, as far as it can be read.

    `report` gets a code and an offset for: doctype, too-many-elements, bad-xml, truncated.
    """
    parser = expat.ParserCreate()
    found: list[Element] = []
    open_ones: list[Element] = []

    def refuse(*_: object) -> None:
        raise _Refused("doctype")

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(found) >= _MOST_ELEMENTS or len(open_ones) >= _DEEPEST:
            raise _Refused("too-many-elements")
        bounded = {k: v[:_LONGEST_VALUE] for k, v in attributes.items()}
        element = Element(tag, bounded, open_ones[-1] if open_ones else None, parser.CurrentLineNumber)
        if open_ones:
            open_ones[-1].children.append(element)
        found.append(element)
        open_ones.append(element)

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _tag: open_ones.pop()
    try:
        while block := stream.read(_BLOCK):
            parser.Parse(block, False)
        parser.Parse(b"", True)
    except _Refused as e:
        report(str(e), max(parser.CurrentByteIndex, 0))
    except expat.ExpatError as e:
        code = expat.errors.codes
        torn = e.code in (code[expat.errors.XML_ERROR_NO_ELEMENTS], code[expat.errors.XML_ERROR_UNCLOSED_TOKEN], code[expat.errors.XML_ERROR_PARTIAL_CHAR])
        report("truncated" if torn else "bad-xml", max(parser.ErrorByteIndex, 0))
    return found
