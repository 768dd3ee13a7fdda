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
class Stack:
    """Bars side by side in one row each: (label, sizes in the order of the parts, limit)."""

    parts: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...], float], ...]
    unit: str


@dataclass(frozen=True, slots=True)
class Dots:
    """Points (x, y, label, kind); a label may be empty.

    Kinds: 0 other, 1 on the front, 2 the choice on the front, 3 the choice elsewhere.
    """

    points: tuple[tuple[float, float, str, int], ...]
    x_label: str
    y_label: str
    kinds: tuple[str, str, str]  # names of others, front and choice


@dataclass(frozen=True, slots=True)
class Band:
    """A line with its interval: (x, low, value, high); `mark` is the x of the choice."""

    points: tuple[tuple[float, float, float, float], ...]
    x_label: str
    y_label: str
    mark: float | None
    names: tuple[str, str, str]  # of the line, the interval and the mark


@dataclass(frozen=True, slots=True)
class Swings:
    """Bars to both sides of a value: (name, least, most), the widest first."""

    middle: float
    rows: tuple[tuple[str, float, float], ...]
    x_label: str
    names: tuple[str, str]  # of the two ends


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over the same x: (name, values)."""

    x: tuple[float, ...]
    lines: tuple[tuple[str, tuple[float, ...]], ...]
    x_label: str
    y_label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture, what it shows in words, and its figures as a table for those who cannot see it.

    Where pictures cannot be drawn, the table stands alone; nothing is in the picture only. `brief` is the
    table where text is read without folding; None where a table beside the chart says the same.
    """

    key: str
    title: str
    text: str
    figure: Stack | Dots | Band | Swings | Lines
    grid: Grid
    brief: Grid | None


@dataclass(frozen=True, slots=True)
class PageBreak:
    """The end of the first page."""


Block = Heading | Paragraph | Bullets | Grid | Commands | Chart | PageBreak
