"""Blocks as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpuselect.report.blocks import (
    Block,
    Bullets,
    Commands,
    Grid,
    Heading,
    PageBreak,
    Paragraph,
)

STYLE = """\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 1.8rem; }
.decision { font-size: 1.1rem; border-left: 4px solid #2a6; padding: .4rem .8rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #8886; text-align: left;
  vertical-align: top; }
th { border-bottom-width: 2px; } .number { text-align: right; }
pre { padding: .6rem .8rem; border: 1px solid #8886; overflow-x: auto; }
hr { border: 0; border-top: 1px dashed #8886; margin: 2rem 0; }
@media print {
  body { margin: 0; font-size: 10pt; max-width: none; }
  hr { break-after: page; border: 0; } table { break-inside: avoid; }
  pre { white-space: pre-wrap; }
}
"""


def _grid(grid: Grid) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        parts = []
        for index, text in enumerate(cells):
            kind = ' class="number"' if index in grid.numeric else ""
            scope = ' scope="col"' if tag == "th" else ""
            parts.append(f"<{tag}{scope}{kind}>{escape(text)}</{tag}>")
        return f"<tr>{''.join(parts)}</tr>"

    body = "\n".join(row("td", cells) for cells in grid.rows)
    head = row("th", grid.header)
    return f'<div class="scroll"><table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _element(block: Block) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
        case Paragraph():
            kind = ' class="decision"' if block.strong else ""
            return f"<p{kind}>{escape(block.text)}</p>"
        case Bullets():
            items = "\n".join(f"<li>{escape(item)}</li>" for item in block.items)
            return f"<ul>\n{items}\n</ul>" if block.items else ""
        case Grid():
            return _grid(block)
        case Commands():
            lines = "\n".join(escape(line) for line in block.lines)
            return f"<pre><code>{lines}</code></pre>"
        case PageBreak():
            return "<hr>"


def blocks_to_html(blocks: Sequence[Block]) -> str:
    """A complete page: no script, no font, no picture from elsewhere."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "gpuselect")
    body = "\n".join(filter(None, (_element(block) for block in blocks)))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )
