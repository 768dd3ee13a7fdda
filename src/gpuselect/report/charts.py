"""Pictures of a report as inline SVG. The only module that imports matplotlib (extra `charts`).

Text stays text, colours are names that the page's style sheet defines for light and dark, and every
picture carries its title and description. Nothing is read from the user's matplotlib configuration.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from importlib.util import find_spec
from io import StringIO
from typing import Any

from gpuselect.report.blocks import Band, Chart, Dots, Lines, Stack, Swings
from gpuselect.report.console import clean
from gpuselect.report.format import significant

WIDTH = 5.0  # [in]; 360 pt, the width of a narrow screen, where text must stay readable
# stand-ins that the finished picture replaces by the names of the style sheet
INK, MUTED, LINE = "#010203", "#020304", "#030405"
PALETTE = tuple(f"#0a0b{n:02x}" for n in range(10, 18))
NAMES = {INK: "--ink", MUTED: "--muted", LINE: "--line"} | {c: f"--c{n}" for n, c in enumerate(PALETTE, 1)}
LABELS = 7  # points that are named in a picture
WIDE_RANGE = 8.0  # from this ratio on an axis is logarithmic
STYLE: dict[Any, Any] = {  # keys are names of matplotlib
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.edgecolor": LINE, "axes.labelcolor": INK, "text.color": INK,
    "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "axes.facecolor": "none", "figure.facecolor": "none", "legend.frameon": False, "axes.grid": True,
    "grid.color": LINE, "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.fontsize": 9.5,
    "xtick.labelsize": 9.5, "ytick.labelsize": 9.5, "text.parse_math": False,
}  # fmt: skip


def can_draw() -> bool:
    """Whether matplotlib is there, without importing it."""
    return find_spec("matplotlib") is not None


def svg_of(chart: Chart) -> str:
    """The picture of a chart as an SVG element that can stand in an HTML page."""
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # it tells of its cache
    with _style(chart.key), warnings.catch_warnings():
        # text stays text: a sign that matplotlib has no shape for is shown by the reader's fonts
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH, _height(chart.figure)), dpi=72, layout="constrained")
        axes = figure.subplots()
        match chart.figure:
            case Stack():
                _stack(axes, chart.figure)
            case Dots():
                _dots(axes, chart.figure)
            case Band():
                _band(axes, chart.figure)
            case Swings():
                _swings(axes, chart.figure)
            case Lines():
                _lines(axes, chart.figure)
        target = StringIO()
        figure.savefig(target, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _inline(clean(target.getvalue()), chart)


@contextmanager
def _style(key: str) -> Iterator[None]:
    """Our settings over matplotlib's own defaults; names of clip paths depend on the chart alone."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({**STYLE, "svg.hashsalt": key})
        yield


def _height(figure: object) -> float:
    rows = len(figure.rows) if isinstance(figure, Stack | Swings) else 0
    return 1.1 + 0.36 * rows + (0.4 if isinstance(figure, Stack) else 0.0) if rows else 3.2


def _stack(axes: Any, figure: Stack) -> None:
    """Parts in a row, and a stroke at the limit."""
    ys = range(len(figure.rows))
    left = [0.0] * len(figure.rows)
    for number, part in enumerate(figure.parts):
        sizes = [row[1][number] for row in figure.rows]
        axes.barh(ys, sizes, left=left, height=0.62, color=PALETTE[number % len(PALETTE)], label=part)
        left = [a + b for a, b in zip(left, sizes, strict=True)]
    for y, (_label, _sizes, limit) in enumerate(figure.rows):
        axes.plot([limit, limit], [y - 0.42, y + 0.42], color=INK, linewidth=2.0)
        axes.annotate(significant(limit), (limit, y), xytext=(4, 0), textcoords="offset points",
                      va="center", fontsize=9)  # fmt: skip
    axes.set_yticks(list(ys), [_wrapped(row[0]) for row in figure.rows])
    axes.set_ylim(len(figure.rows) - 0.5, -0.5)
    axes.margins(x=0.1)
    axes.set_xlabel(figure.unit)
    axes.grid(visible=False, axis="y")
    axes.figure.legend(loc="outside lower center", ncols=3, handlelength=1.0, columnspacing=1.2)


def _dots(axes: Any, figure: Dots) -> None:
    """Points by kind: small, on the front, and the choice."""
    shapes = (("o", 16, MUTED), ("D", 30, PALETTE[0]), ("*", 170, PALETTE[5]))
    front = sorted(p[:2] for p in figure.points if p[3] in (1, 2))
    axes.plot(*zip(*front, strict=True), color=PALETTE[0], linewidth=1.0, linestyle=":")
    for kind, (marker, size, color) in enumerate(shapes):
        chosen = [p for p in figure.points if min(p[3], 2) == kind]
        if chosen:
            axes.scatter(
                [p[0] for p in chosen], [p[1] for p in chosen], s=size, marker=marker, color=color,
                label=figure.kinds[kind], linewidths=0, alpha=0.55 if kind == 0 else 1.0, zorder=2 + kind,
            )  # fmt: skip
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    _scale(axes, "x", [p[0] for p in figure.points])
    _scale(axes, "y", [p[1] for p in figure.points])
    axes.margins(x=0.12, y=0.14)
    axes.figure.legend(loc="outside lower center", ncols=3, handletextpad=0.3)
    _name_points(axes, [p for p in figure.points if p[2]])


def _scale(axes: Any, name: str, values: list[float]) -> None:
    """Plain numbers at round places; logarithmic where the range is wide."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axis = axes.xaxis if name == "x" else axes.yaxis
    low, high = min(values), max(values)
    if low > 0 and high > WIDE_RANGE * low:
        (axes.set_xscale if name == "x" else axes.set_yscale)("log")
        narrow = high < 1e3 * low
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,)))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(6))
    axis.set_major_formatter(FuncFormatter(lambda v, _: significant(v)))


def _name_points(axes: Any, points: list[tuple[float, float, str, int]]) -> None:
    """Labels beside the points, the choice first; one that would cover another is left to the table."""
    axes.figure.draw_without_rendering()
    box = axes.get_window_extent()
    marks = [axes.transData.transform(p[:2]) for p in points]
    taken = [(x - 4.0, y - 4.0, x + 4.0, y + 4.0) for x, y in marks]
    most = len(taken) + LABELS
    for x, y, label, kind in sorted(points, key=lambda p: -p[3])[: 2 * LABELS]:
        px, py = axes.transData.transform((x, y))
        width, height = 4.9 * len(label) + 4.0, 11.0
        for right, up in ((True, True), (True, False), (False, True), (False, False)):
            x0 = px + 5 if right else px - 5 - width
            y0 = py + 4.5 if up else py - 4.5 - height
            rect = (x0, y0, x0 + width, y0 + height)
            free = all(rect[2] < t[0] or t[2] < rect[0] or rect[3] < t[1] or t[3] < rect[1] for t in taken)
            if free and box.x0 <= rect[0] and rect[2] <= box.x1 and len(taken) < most:
                axes.annotate(
                    label, (x, y), xytext=(5 if right else -5, 4 if up else -4), textcoords="offset points",
                    ha="left" if right else "right", va="bottom" if up else "top", fontsize=9,
                    fontweight="bold" if kind > 1 else "normal", zorder=6,
                )  # fmt: skip
                taken.append(rect)
                break


def _band(axes: Any, figure: Band) -> None:
    """A line in its interval, both axes logarithmic where the range is wide."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    xs = [p[0] for p in figure.points]
    axes.fill_between(xs, [p[1] for p in figure.points], [p[3] for p in figure.points],
                      color=PALETTE[0], alpha=0.22, linewidth=0, label=figure.names[1])  # fmt: skip
    axes.plot(xs, [p[2] for p in figure.points], color=PALETTE[0], marker="o", markersize=4,
              label=figure.names[0])  # fmt: skip
    chosen = next((p for p in figure.points if p[0] == figure.mark), None)
    if chosen is not None:
        axes.scatter([chosen[0]], [chosen[2]], s=170, marker="*", color=PALETTE[5], zorder=4, linewidths=0,
                     label=figure.names[2])  # fmt: skip
    _scale(axes, "x", xs)
    _scale(axes, "y", [p[n] for p in figure.points for n in (1, 3)] if axes.get_xscale() == "log" else [1.0])
    axes.xaxis.set_major_locator(FixedLocator(xs[:: -(-len(xs) // 11)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    axes.figure.legend(loc="outside lower center", ncols=3)


def _swings(axes: Any, figure: Swings) -> None:
    """Bars from the least to the most cost under each input, the widest on top."""
    for y, (_name, low, high) in enumerate(figure.rows):
        for end, color, name in ((low, PALETTE[0], figure.names[0]), (high, PALETTE[1], figure.names[1])):
            axes.barh(y, end - figure.middle, left=figure.middle, height=0.6, color=color,
                      label=None if y else name)  # fmt: skip
        for end, text in ((low, "right"), (high, "left")):
            axes.annotate(significant(end), (end, y), xytext=(-3 if text == "right" else 3, 0),
                          textcoords="offset points", ha=text, va="center", fontsize=9)  # fmt: skip
    axes.axvline(figure.middle, color=INK, linewidth=1.0)
    axes.set_yticks(range(len(figure.rows)), [row[0] for row in figure.rows])
    axes.set_ylim(max(len(figure.rows), 2) - 0.5, -0.5)
    axes.margins(x=0.2)
    axes.grid(visible=False, axis="y")
    _scale(axes, "x", [1.0, 1.0])  # linear: bars begin at the middle
    axes.set_xlabel(figure.x_label)
    axes.figure.legend(loc="outside lower center", ncols=2, handlelength=1.0)


def _lines(axes: Any, figure: Lines) -> None:
    """Lines that are told apart by marker and stroke as well as by colour."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    looks = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."))
    for number, (name, values) in enumerate(figure.lines):
        marker, stroke = looks[number % len(looks)]
        axes.plot(figure.x[: len(values)], values, marker=marker, linestyle=stroke, markersize=4.5,
                  color=PALETTE[(0, 5, 2, 3)[number % 4]], label=name)  # fmt: skip
    axes.set_ylim(bottom=min(0.0, *(min(values) for _name, values in figure.lines)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: significant(v)))
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    axes.figure.legend(loc="outside lower center", ncols=2)


def _wrapped(text: str, width: int = 22) -> str:
    r"""A label on two lines at most.

    >>> _wrapped("4 × RTX 6000 Ada Generation 48GB")
    '4 × RTX 6000 Ada\nGeneration 48GB'
    """
    import textwrap

    return "\n".join(textwrap.wrap(text, width, max_lines=2, placeholder=" …"))


def _inline(text: str, chart: Chart) -> str:
    """The SVG element alone, with title and description, our colours, and no name used twice in a page."""
    body = text[text.index("<svg") :]
    box = re.search(r'viewBox="([^"]+)"', body)
    body = body[body.index(">") + 1 : body.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(r' id="[A-Za-z][\w.]*_\d+"', "", body)  # names that nothing points to
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r"(font(?:-family)?:(?:[^;\"]*?px)?)[^;\"]*sans-serif", r"\1 system-ui, sans-serif", body)
    for color, name in NAMES.items():
        body = body.replace(color, f"var({name})")
    body = re.sub(r"\n\s*", "\n", body).strip()
    key = escape(chart.key)
    return (
        f'<svg role="img" aria-labelledby="{key}-title {key}-text" viewBox="{box[1] if box else ""}">\n'
        f'<title id="{key}-title">{escape(chart.title)}</title>\n'
        f'<desc id="{key}-text">{escape(chart.text)}</desc>\n{body}\n</svg>'
    )
