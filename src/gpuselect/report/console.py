"""Text for a terminal or a pipe: width, colour and characters are given, never guessed here."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpuselect.i18n import _
from gpuselect.report.blocks import Grid
from gpuselect.report.format import to_ascii

PIPE_WIDTH = 100_000
GAP = 2  # columns between two cells
NO_WRAPPING: Mapping[int, int] = {}
# what a line may be broken between: a stop belongs to what it follows, a bracket to what it opens
PIECES = re.compile(r"\s+|[（《「“]*(?:[!-~\u00a0-\u02ff–]+(?:(?<=\d)[万亿])?|.)[，。；：、）》」”！？…％]*")
CHINESE = re.compile(r"[⺀-鿿]")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a name may not steer a terminal


@dataclass(frozen=True, slots=True)
class Style:
    """How the place looks that the text goes to. `width` None: a pipe, natural width."""

    width: int | None = None
    color: bool = False
    unicode: bool = True
    wide: bool = False  # show every column even on a narrow terminal


class Page:
    """Collects paragraphs, lists and tables, and gives them back as one text.

    A pipe without colour gets plain text, made without rich: that is most of the time of a short answer.
    """

    def __init__(self, style: Style) -> None:
        self.style = style
        self._text = io.StringIO()
        self._console = _console(style, self._text) if style.width or style.color else None

    def heading(self, text: str) -> None:
        """A heading with an empty line before it."""
        if self._console is None:
            self._plain("", clean(text))
            return
        self._console.print()
        self._console.print(_rich_text(text, style="bold"))

    def line(self, text: str, *, style: str = "", indent: int = 0) -> None:
        """A paragraph, wrapped on a terminal and left whole in a pipe."""
        if self._console is None:
            self._plain(*(" " * indent + part for part in clean(text).split("\n")))
            return
        from rich.padding import Padding

        self._console.print(Padding(_rich_text(text, style=style), (0, 0, 0, indent), expand=False))

    def bullet(self, text: str, *, mark: str = "•", style: str = "") -> None:
        """A list item whose further lines hang under the first."""
        if self._console is None:
            first, *others = clean(text).split("\n")
            self._plain(f" {mark} {first}", *(" " * (cells(mark) + 2) + part for part in others))
            return
        from rich.padding import Padding
        from rich.table import Table

        table = Table.grid(padding=(0, 1, 0, 0))
        table.add_column(width=cells(mark), no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row(_rich_text(f"{mark}", style=style), _rich_text(text))
        self._console.print(Padding(table, (0, 0, 0, 1), expand=False))

    def command(self, text: str) -> None:
        """A line to copy: never broken, even where it is wider than the terminal."""
        if self._console is None:
            self._plain(f"  {clean(text)}")
            return
        self._console.print(_rich_text(f"  {text}", style="cyan"), soft_wrap=True)

    def grid(self, grid: Grid, drops: Sequence[int] = (), wrapped: Mapping[int, int] = NO_WRAPPING) -> None:
        """A table; on a narrow terminal columns go in the order of `drops`, and that is said.

        Columns in `wrapped` are broken into lines, down to that width, before any column goes.
        """
        shown = shown_columns(grid, drops, self.style, wrapped)
        if self._console is None:
            self._plain(*plain_rows(grid))
            return
        from rich import box
        from rich.table import Table

        table = Table(
            box=box.SIMPLE_HEAD if self.style.width and self.style.unicode else None,
            pad_edge=False, padding=(0, GAP, 0, 0), show_edge=False, header_style="bold",
        )  # fmt: skip
        rigid = bool(wrapped) and columns_fit(grid, shown, self.style, wrapped)
        for index in shown:
            table.add_column(
                _rich_text(grid.header[index]),
                overflow="fold",
                justify="right" if index in grid.numeric else "left",
                no_wrap=rigid and index not in wrapped,
            )
        for row in grid.rows:
            table.add_row(*(_rich_text(row[index]) for index in shown))
        self._console.print(table)
        if hidden := [name for index, name in enumerate(grid.header) if name and index not in shown]:
            text = _("Columns left out at this width: {names} (--wide shows all).")
            self.line(text.format(names=_(", ").join(hidden)), style="dim")

    def _plain(self, *lines: str) -> None:
        self._text.writelines(f"{line}\n" for line in lines)

    def text(self) -> str:
        """Everything so far, without spaces at the ends of lines."""
        lines = [line.rstrip() for line in self._text.getvalue().split("\n")]
        text = "\n".join(lines).lstrip("\n")
        return text if self.style.unicode else to_ascii(text)


def clean(text: str) -> str:
    r"""Text without control characters but for tabs and line ends.

    >>> clean("red \x1b[31m alert\x07")
    'red [31m alert'
    """
    return CONTROL.sub("", text)


def cells(text: str) -> int:
    """Width of a text on a terminal: Chinese characters take two columns.

    >>> cells("H100"), cells("卡")
    (4, 2)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def filled(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at spaces and beside Chinese signs, no stop at the start.

    >>> filled("显存 80 GiB（可用），带宽", 11)
    ['显存 80 GiB', '（可用），', '带宽']
    """
    lines = [""]
    for piece in PIECES.findall(text):
        if cells(lines[-1]) + cells(piece) > width and lines[-1]:
            lines.append(piece.lstrip())
        else:
            lines[-1] += piece
    return [line.rstrip() for line in lines]


def plain_rows(grid: Grid) -> list[str]:
    """A table at its natural width, without lines: for pipes.

    >>> plain_rows(Grid(("card", "GB"), (("h100", "80"), ("l4", "24")), frozenset({1})))
    ['card  GB', 'h100  80', 'l4    24']
    """
    rows = [tuple(" ".join(clean(cell).split("\n")) for cell in row) for row in (grid.header, *grid.rows)]
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    texts = []
    for row in rows:
        gaps = [" " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)]
        parts = [
            gap + cell if index in grid.numeric else cell + gap
            for index, (cell, gap) in enumerate(zip(row, gaps, strict=True))
        ]
        texts.append((" " * GAP).join(parts))
    return texts


def _console(style: Style, file: io.StringIO) -> Any:
    from rich.console import Console

    return Console(
        file=file,
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


def _rich_text(text: str, *, style: str = "") -> Any:
    from rich.text import Text

    kind = _chinese_text() if CHINESE.search(text) else Text
    return kind(clean(text), style=style)


@cache
def _chinese_text() -> Any:
    """The text of rich, broken as Chinese is: rich itself breaks at spaces only."""
    from rich.cells import chop_cells
    from rich.containers import Lines
    from rich.text import Text

    class Chinese(Text):
        def wrap(self, console: Any, width: int, **named: Any) -> Any:
            if named.get("no_wrap"):
                return super().wrap(console, width, **named)
            parts = [line for part in self.plain.split("\n") for line in filled(part, width) or [""]]
            whole = [chop for line in parts for chop in chop_cells(line, width) or [""]]
            lines = Lines(Text(line, style=self.style, end=self.end) for line in whole)
            if justify := named.get("justify") or self.justify:
                lines.justify(console, width, justify=justify)
            return lines

    return Chinese


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
    widths = {index: max(cells(row[index]) for row in (grid.header, *grid.rows)) for index in shown}
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
