"""A page as its parser sees it."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser

__all__ = ["Element", "Page", "csv_of", "parse"]

_VOID = {"meta", "br", "img", "input", "hr", "link"}


@dataclass
class Element:
    """A tag with its attributes and its children; text is a child of type str."""

    tag: str
    attrs: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())

    def all(self, tag: str = "", **attrs: str) -> list[Element]:
        """All elements below (and this one) of that tag with those attributes; `class_` matches one class."""
        out = [self] if self._matches(tag, attrs) else []
        for c in self.children:
            if isinstance(c, Element):
                out += c.all(tag, **attrs)
        return out

    def one(self, tag: str = "", **attrs: str) -> Element:
        (found,) = self.all(tag, **attrs)
        return found

    def _matches(self, tag: str, attrs: dict[str, str]) -> bool:
        wanted = {k.rstrip("_").replace("_", "-"): v for k, v in attrs.items()}
        if tag and self.tag != tag:
            return False
        return all(v in self.attrs.get(k, "").split() if k == "class" else self.attrs.get(k) == v for k, v in wanted.items())

    def rows(self) -> list[list[str]]:
        """The cells of a table, the headings first."""
        return [[cell.words for cell in row.children if isinstance(cell, Element)] for row in self.all("tr")]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]
        self.unbalanced: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {k: v or "" for k, v in attrs})
        self.open[-1].children.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1].tag != tag:
            self.unbalanced.append(tag)
            return
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


Page = Element


def parse(html: str) -> Page:
    """The tree of a page; fails where a tag is not closed in order."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    assert builder.unbalanced == []
    assert len(builder.open) == 1
    return builder.root


def csv_of(button: Element) -> str:
    """The CSV that a download button holds."""
    return zlib.decompress(base64.b64decode(button.attrs["data-csv"])).decode()
