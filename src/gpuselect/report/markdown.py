"""Blocks as Markdown (CommonMark with tables)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuselect.i18n import full_stop
from gpuselect.report.blocks import (
    Block,
    Bullets,
    Chart,
    Commands,
    Grid,
    Heading,
    PageBreak,
    Paragraph,
)
from gpuselect.report.console import clean

SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")


def escape(text: str) -> str:
    r"""Text with the signs that Markdown would read as markup escaped, on one line.

    >>> escape("a|b *c* <d>")
    'a\\|b \\*c\\* \\<d\\>'
    """
    text = SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("&", "&amp;")
    # A line must not begin like a heading, a list or a setext underline.
    return re.sub(r"^(\d+)([.)])( |$)|^([#+=-])", _escape_start, text)


def _escape_start(found: re.Match[str]) -> str:
    if found[4]:
        return f"\\{found[4]}"
    return f"{found[1]}\\{found[2]}{found[3]}"


def grid_lines(grid: Grid) -> list[str]:
    r"""A table with its number columns set to the right.

    >>> print("\n".join(grid_lines(Grid(("a", "b"), (("x", "1"),), frozenset({1})))))
    | a | b |
    | --- | --: |
    | x | 1 |
    """
    rule = ["--:" if index in grid.numeric else "---" for index in range(len(grid.header))]
    rows = [[escape(text) for text in row] for row in (grid.header, *grid.rows)]
    return [f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])]


def _lines(block: Block) -> list[str]:  # noqa: PLR0911  one for each kind of block
    match block:
        case Heading():
            return [f"{'#' * block.level} {escape(block.text)}"]
        case Paragraph():
            return [f"**{escape(block.text)}**" if block.strong else escape(block.text)]
        case Bullets():
            return [f"- {escape(item)}" for item in block.items]
        case Grid():
            return grid_lines(block)
        case Commands():
            fence = "```"
            while any(fence in line for line in block.lines):
                fence += "`"
            return [f"{fence}sh", *block.lines, fence]
        case Chart():
            return [escape(full_stop(block.title)), "", *grid_lines(block.brief)] if block.brief else []
        case PageBreak():
            return ["---"]


def blocks_to_markdown(blocks: Sequence[Block]) -> str:
    """The blocks with one empty line between them."""
    return clean("\n\n".join("\n".join(_lines(block)) for block in _filled(blocks)) + "\n")


def _filled(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        hollow = isinstance(block, Bullets) and not block.items
        if not (hollow or (isinstance(block, Chart) and block.brief is None)):
            yield block
