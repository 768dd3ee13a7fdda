"""A document as a list of blocks, which Markdown and HTML write out each in their own way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the title."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text; `strong` for the one sentence that must be seen."""

    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Bullets:
    """An unordered list."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: header, rows, and the columns (by index) that hold numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Commands:
    """Lines to type in a shell."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PageBreak:
    """The end of the first page."""


Block = Heading | Paragraph | Bullets | Grid | Commands | PageBreak
