"""Blocks as one HTML file that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from gpuselect.i18n import _, language
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

# Colours of charts are those of Okabe and Ito, which differ in lightness for those who see no hue.
STYLE = """\
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1d21; --muted: #5a606b; --line: #d4d7dd;
  --soft: #f4f6f8; --mark: #0b6e4f;
  --c1: #0072b2; --c2: #e69f00; --c3: #009e73; --c4: #cc79a7; --c5: #56b4e9; --c6: #d55e00;
  --c7: #8a7a00; --c8: #8c8c8c; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --ink: #e8eaee; --muted: #a5acb8; --line: #3a3f48; --soft: #1f2229;
    --mark: #4cc79b; --c1: #4aa8e0; --c2: #f0b93a; --c3: #35c397; --c4: #e09ac4; --c5: #8fd0f5;
    --c6: #ff8a4c; --c7: #d9c94a; --c8: #a8a8a8; }
}
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin: 2rem 0 .6rem; }
.decision { font-size: 1.1rem; border-left: 4px solid var(--mark); padding: .4rem .8rem;
  background: var(--soft); }
:lang(zh) body { font-family: "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "WenQuanYi Micro Hei",
  system-ui, sans-serif; }
nav ul { columns: 14rem; padding-left: 1.2rem; } nav a, nav a:visited { color: inherit; }
.scroll { overflow-x: auto; margin: .6rem 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
td { max-width: 30rem; overflow-wrap: break-word; } .wordy td { overflow-wrap: anywhere; }
.wordy td.short { white-space: nowrap; }
td:first-child { word-break: keep-all; }
.wordy td:not(.number):not(:first-child) { min-width: 7rem; }
th { border-bottom-width: 2px; } .number { text-align: right; white-space: nowrap; overflow-wrap: normal; }
li { margin: .15rem 0; }
pre { padding: .6rem .8rem; border: 1px solid var(--line); background: var(--soft); overflow-x: auto; }
hr { border: 0; border-top: 1px dashed var(--line); margin: 2rem 0; }
figure { margin: 1.2rem 0; max-width: 35rem; } figcaption { font-weight: 600; margin-bottom: .3rem; }
figure svg { display: block; width: 100%; height: auto; }
svg text { paint-order: stroke; stroke: var(--paper); stroke-width: 2.5px; stroke-linejoin: round; }
summary { color: var(--muted); cursor: pointer; }
@media screen and (max-width: 40rem) {
  .wordy, .wordy tbody, .wordy tr, .wordy td { display: block; max-width: none; }
  .wordy thead { position: absolute; left: -9999px; }
  .wordy tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  .wordy td, .wordy td.number, .wordy td.short { border: 0; text-align: left; padding: .1rem 0;
    white-space: normal; }
  .wordy td[data-label]::before { content: attr(data-label) ": "; color: var(--muted); }
  .wordy td[data-label]:lang(zh)::before { content: attr(data-label) "："; }
  .wordy td:empty { display: none; } .wordy td:first-child { font-weight: 600; }
}
@media print {
  :root { --paper: #fff; --ink: #000; --muted: #333; --line: #bbb; --soft: #fff; --mark: #000;
    --c1: #0072b2; --c2: #e69f00; --c3: #009e73; --c4: #cc79a7; --c5: #56b4e9; --c6: #d55e00; }
  @page { margin: 14mm; }
  body { margin: 0; padding: 0; font-size: 9pt; line-height: 1.4; max-width: none; }
  h1 { margin: 0 0 .5rem; } h2 { break-after: avoid; margin: .9rem 0 .3rem; }
  p, ul { margin: .4rem 0; } .decision { font-size: 10.5pt; }
  hr { break-after: page; border: 0; margin: 0; } nav, summary { display: none; }
  tr, figure, .decision { break-inside: avoid; } figure { max-width: 28rem; margin: .6rem 0; }
  .scroll { overflow: visible; margin: .3rem 0 .5rem; } th, td { padding: .12rem .4rem; }
  pre { white-space: pre-wrap; }
}
"""

WORDY = 28  # characters of a cell from which on a table is one of sentences
SHORT = 18  # columns of a terminal: a cell of a figure and its unit, which is not broken
WIDE = re.compile(r"[⺀-鿿＀-｠]")


def _grid(grid: Grid) -> str:
    """A table; one with sentences is shown row by row on a narrow screen."""
    wordy = len(grid.header) > 2 and any(len(cell) > WORDY for row in grid.rows for cell in row)

    def row(tag: str, cells: Sequence[str]) -> str:
        parts = []
        for index, text in enumerate(cells):
            short = wordy and tag == "td" and index > 0 and len(text) + len(WIDE.findall(text)) <= SHORT
            names = [name for name, so in (("number", index in grid.numeric), ("short", short)) if so]
            kind = f' class="{" ".join(names)}"' if names else ""
            scope = ' scope="col"' if tag == "th" else ""
            label = (
                f' data-label="{escape(grid.header[index])}"'
                if wordy and tag == "td" and grid.header[index]
                else ""
            )
            parts.append(f"<{tag}{scope}{kind}{label}>{escape(text)}</{tag}>")
        return f"<tr>{''.join(parts)}</tr>"

    body = "\n".join(row("td", cells) for cells in grid.rows)
    head = row("th", grid.header)
    mark = ' class="wordy"' if wordy else ""
    return (
        f'<div class="scroll" tabindex="0"><table{mark}>\n<thead>{head}</thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _element(block: Block) -> str:  # noqa: PLR0911  one for each kind of block
    match block:
        case Heading():
            mark = f' id="{anchor(block.text)}"' if block.level == 2 else ""
            return f"<h{block.level}{mark}>{escape(block.text)}</h{block.level}>"
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
            return f'<pre tabindex="0"><code>{lines}</code></pre>'
        case Chart():
            return _chart(block)
        case PageBreak():
            return "<hr>"


def _chart(chart: Chart) -> str:
    """The picture over its table, folded; without the extra `charts` the table alone."""
    from gpuselect.report.charts import can_draw, svg_of

    caption = f"<figcaption>{escape(chart.title)}</figcaption>"
    if not can_draw():
        return f"<figure>{caption}\n{_grid(chart.grid)}</figure>"
    table = f"<details><summary>{escape(_('The same as a table'))}</summary>\n{_grid(chart.grid)}</details>"
    return f"<figure>{caption}\n{svg_of(chart)}\n{table}</figure>"


def anchor(text: str) -> str:
    """A heading as the name of a place in the page.

    >>> anchor("Cost and break-even")
    'cost-and-break-even'
    """
    return re.sub(r"\W+", "-", text.lower()).strip("-")


def _contents(blocks: Sequence[Block]) -> str:
    """Links to the sections after the first page; empty for a short document."""
    breaks = [n for n, block in enumerate(blocks) if isinstance(block, PageBreak)]
    rest = blocks[breaks[0] :] if breaks else ()
    names = [block.text for block in rest if isinstance(block, Heading) and block.level == 2]
    if len(names) < 4:
        return ""
    items = "\n".join(f'<li><a href="#{anchor(name)}">{escape(name)}</a></li>' for name in names)
    return f'<nav aria-label="{escape(_("Contents"))}">\n<ul>\n{items}\n</ul>\n</nav>'


def _how_to_draw(blocks: Sequence[Block]) -> str:
    """One sentence where the pictures are missing."""
    if not any(isinstance(block, Chart) for block in blocks):
        return ""
    from gpuselect.report.charts import can_draw

    text = _("Tables stand in for charts here; `pip install 'gpuselect-advisor[charts]'` brings the charts.")
    return "" if can_draw() else f"<p>{escape(text)}</p>"


def blocks_to_fragment(blocks: Sequence[Block]) -> str:
    """The blocks alone, for a page that is there already (a notebook)."""
    return clean("\n".join(filter(None, (_element(block) for block in blocks))))


def blocks_to_html(blocks: Sequence[Block]) -> str:
    """A complete page."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "gpuselect")
    body = blocks_to_fragment(blocks)
    after = "\n".join(filter(None, ("<hr>", _contents(blocks), _how_to_draw(blocks))))
    body = body.replace("<hr>", after, 1)
    return (
        f'<!doctype html>\n<html lang="{language()}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
