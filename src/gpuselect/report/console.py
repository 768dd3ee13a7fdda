"""Text for a terminal or a pipe: width, colour and characters are given, never guessed here."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpuselect.i18n import _
from gpuselect.report.blocks import Grid
from gpuselect.report.format import to_ascii

PIPE_WIDTH = 100_000
GAP = 2  # columns between two cells
NO_WRAPPING: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Style:
    """How the place looks that the text goes to. `width` None: a pipe, natural width."""

    width: int | None = None
    color: bool = False
    unicode: bool = True
    wide: bool = False  # show every column even on a narrow terminal


class Page:
    """Collects paragraphs, lists and tables, and gives them back as one text."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self._text = io.StringIO()
        self._console = Console(
            file=self._text,
            width=style.width or PIPE_WIDTH,
            height=100,
            force_terminal=style.color,
            color_system="standard" if style.color else None,
            no_color=not style.color,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def heading(self, text: str) -> None:
        """A heading with an empty line before it."""
        self._console.print()
        self._console.print(Text(text, style="bold"))

    def line(self, text: str, *, style: str = "", indent: int = 0) -> None:
        """A paragraph, wrapped on a terminal and left whole in a pipe."""
        self._console.print(Padding(Text(text, style=style), (0, 0, 0, indent), expand=False))

    def bullet(self, text: str, *, mark: str = "•", style: str = "") -> None:
        """A list item whose further lines hang under the first."""
        table = Table.grid(padding=(0, 1, 0, 0))
        table.add_column(width=cell_len(mark), no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row(Text(f"{mark}", style=style), Text(text))
        self._console.print(Padding(table, (0, 0, 0, 1), expand=False))

    def command(self, text: str) -> None:
        """A line to copy: never broken, even where it is wider than the terminal."""
        self._console.print(Text(f"  {text}", style="cyan"), soft_wrap=True)

    def grid(self, grid: Grid, drops: Sequence[int] = (), wrapped: Mapping[int, int] = NO_WRAPPING) -> None:
        """A table; on a narrow terminal columns go in the order of `drops`, and that is said.

        Columns in `wrapped` are broken into lines, down to that width, before any column goes.
        """
        shown = shown_columns(grid, drops, self.style, wrapped)
        table = Table(
            box=box.SIMPLE_HEAD if self.style.width and self.style.unicode else None,
            pad_edge=False, padding=(0, GAP, 0, 0), show_edge=False, header_style="bold",
        )  # fmt: skip
        rigid = bool(wrapped) and columns_fit(grid, shown, self.style, wrapped)
        for index in shown:
            table.add_column(
                Text(grid.header[index]),
                overflow="fold",
                justify="right" if index in grid.numeric else "left",
                no_wrap=rigid and index not in wrapped,
            )
        for row in grid.rows:
            table.add_row(*(Text(row[index]) for index in shown))
        self._console.print(table)
        if hidden := [name for index, name in enumerate(grid.header) if index not in shown]:
            text = _("Columns left out at this width: {names} (--wide shows all).")
            self.line(text.format(names=", ".join(hidden)), style="dim")

    def text(self) -> str:
        """Everything so far, without spaces at the ends of lines."""
        lines = [line.rstrip() for line in self._text.getvalue().split("\n")]
        text = "\n".join(lines).lstrip("\n")
        return text if self.style.unicode else to_ascii(text)


def shown_columns(
    grid: Grid, drops: Sequence[int], style: Style, wrapped: Mapping[int, int] = NO_WRAPPING
) -> list[int]:
    """Indices of the columns that fit. The highest `drops` goes first, 0 stays always.

    >>> grid = Grid(("name", "long heading"), (("a", "b"),))
    >>> shown_columns(grid, (0, 1), Style(width=10)), shown_columns(grid, (0, 1), Style())
    ([0], [0, 1])
    """
    shown = list(range(len(grid.header)))
    if style.wide:
        return shown
    order = sorted((i for i in shown if i < len(drops) and drops[i]), key=lambda i: -drops[i])
    while order and not columns_fit(grid, shown, style, wrapped):
        shown.remove(order.pop(0))
    return shown


def columns_fit(grid: Grid, shown: Sequence[int], style: Style, wrapped: Mapping[int, int]) -> bool:
    """Whether the columns fit the width, the wrapped ones at their least width."""
    if style.width is None:
        return True
    widths = {index: max(cell_len(row[index]) for row in (grid.header, *grid.rows)) for index in shown}
    least = [min(width, wrapped.get(index, width)) for index, width in widths.items()]
    frame = 1 if style.unicode else 0  # the frame has one column between two cells
    return sum(least) + (GAP + frame) * (len(least) - 1) <= style.width


def grid_text(
    grid: Grid,
    drops: Sequence[int],
    style: Style,
    *,
    below: str = "",
    wrapped: Mapping[int, int] = NO_WRAPPING,
) -> str:
    """A table alone, with a line below it."""
    page = Page(style)
    page.grid(grid, drops, wrapped)
    if below:
        page.line(below, style="dim")
    return page.text()
