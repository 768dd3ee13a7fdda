"""Memory of an estimate for reading: a table with bars, how far it goes, and what would make it fit."""

from __future__ import annotations

from gpuselect.decision import FitAnswer, MemoryFit
from gpuselect.i18n import _
from gpuselect.report.blocks import Grid
from gpuselect.report.console import Page
from gpuselect.report.describe import part_label
from gpuselect.report.format import gib, percent, significant

BAR_WIDTH = 40
FULL, FREE, OVER = "#", ".", "!"


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """A bar of ASCII signs, `share` of the width long; what exceeds the width ends in `!`.

    >>> bar(0.5, 10), bar(0.01, 10), bar(1.2, 10)
    ('#####', '#', '#########!')
    """
    length = round(share * width)
    if length > width:
        return FULL * (width - 1) + OVER
    return FULL * max(length, 1 if share > 0 else 0)


def memory_grid(fit: MemoryFit) -> Grid:
    """Terms of the memory of one accelerator, the largest first, with what stays free.

    Bars are shares of the usable memory.
    """
    terms = sorted(fit.breakdown_gib.items(), key=lambda term: -term[1])
    rows = [
        (part_label(name), significant(size), percent(size / fit.usable_gib),
         bar(size / fit.usable_gib))
        for name, size in terms
    ]  # fmt: skip
    need = fit.per_accelerator_gib
    rows.append((_("need"), significant(need), percent(need / fit.usable_gib), _stacked(fit)))
    free = fit.usable_gib - need
    rows.append((_("free") if free >= 0 else _("missing"), significant(abs(free)),
                 percent(abs(fit.headroom_pct) / 100), ""))  # fmt: skip
    header = (_("Memory each"), "GiB", _("of usable"), "")
    return Grid(header, tuple(rows), numeric=frozenset((1, 2)))


def _stacked(fit: MemoryFit) -> str:
    used = bar(fit.per_accelerator_gib / fit.usable_gib)
    return f"{used:{FREE}<{BAR_WIDTH}}"


def show_memory(page: Page, fit: MemoryFit, footprint_gib: float | None) -> None:
    """The table of a plan's memory, and what a serving engine takes whatever the need."""
    page.grid(memory_grid(fit), (0, 0, 0, 1))
    page.line(_("Usable of each accelerator: {usable}").format(usable=gib(fit.usable_gib)), style="dim")
    if footprint_gib is not None:
        text = _("The engine fills {footprint} of each accelerator whatever the need: the rest is KV cache.")
        page.line(text.format(footprint=gib(footprint_gib)), style="dim")


def show_reach(page: Page, answer: FitAnswer) -> None:
    """Largest settings that still fit, or what would make a miss fit."""
    if answer.limits:
        page.heading(_("How far this plan goes"))
        for limit in answer.limits:
            page.bullet(limit.text)
    if answer.nearest is not None:
        page.heading(_("Memory of the plan that comes nearest"))
        show_memory(page, answer.nearest.memory, None)
    if answer.changes:
        page.heading(_("What would make it fit, the smallest change first"))
        for change in answer.changes:
            text = _("{change}: {need} of {usable} with the fastest plan that fits")
            page.bullet(
                text.format(change=change.text, need=gib(change.need_gib), usable=gib(change.usable_gib))
            )
