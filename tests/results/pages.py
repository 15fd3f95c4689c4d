"""A page as its reader sees it: elements, tables by their id, and text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple


class Cell(NamedTuple):
    text: str
    value: str | None  # of <data>: all digits


class Page(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[Cell]]] = {}
        self._table: list[list[Cell]] = []
        self._cell: list[str] | None = None
        self._value: str | None = None
        self._text: list[str] = []
        self.feed(source)
        self.close()

    @property
    def text(self) -> str:
        return " ".join("".join(self._text).split())

    def rows(self, table: str) -> dict[str, list[Cell]]:
        """First cell of each row -> the others."""
        return {first.text: rest for first, *rest in self.tables[table]}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag == "table":
            self._table = self.tables.setdefault(given.get("id") or "", [])
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._cell, self._value = [], None
        elif tag == "data":
            self._value = given["value"]

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self._table[-1].append(Cell(" ".join("".join(self._cell).split()), self._value))
            self._cell = None

    def handle_data(self, data: str) -> None:
        self._text.append(data)
        if self._cell is not None:
            self._cell.append(data)
