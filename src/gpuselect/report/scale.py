"""Scaling of a run for reading and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuselect.i18n import _
from gpuselect.report.blocks import Grid
from gpuselect.report.console import Page, Style
from gpuselect.report.describe import metric_text, plan_text
from gpuselect.report.format import UNKNOWN, money, percent, power
from gpuselect.report.memory import bar
from gpuselect.report.plain import plain

if TYPE_CHECKING:
    from gpuselect.scaling import Scale, ScaleRow

BAR = 20
DROPS = (0, 5, 7, 6, 0, 0, 2, 0, 4, 3)


def scale_text(scale: Scale, style: Style | None = None) -> str:
    """Both tables, and where adding cards stops to pay."""
    page = Page(style or Style())
    page.line(scale.workload_sentence, style="bold")
    if not scale.strong:
        page.line(_("No count of these runs it."), style="bold red")
        for note in scale.reasons:
            page.bullet(f"{note.text} [{note.code}]")
        return page.text()
    page.heading(_("Strong scaling: the same batch on more cards"))
    page.grid(_grid(scale.strong), DROPS)
    if scale.pays_until is not None and scale.pays_until < scale.strong[-1].option.count:
        text = _("Pays up to {n}: beyond, twice the cards are less than 1.5 times as fast.")
        page.line(text.format(n=scale.pays_until))
    else:
        page.line(_("Every doubling pays: twice the cards are at least 1.5 times as fast."))
    if scale.cheapest is not None:
        page.line(_("The run costs least with {n}.").format(n=scale.cheapest))
    page.heading(_("Weak scaling: a batch that grows with the cards"))
    page.grid(_grid(scale.weak), DROPS)
    text = _("A larger batch may need more tokens for the same loss; that is not modelled.")
    page.line(text, style="dim")
    page.heading(_("Assumptions"))
    for note in scale.assumptions:
        page.bullet(f"{note.text} [{note.code}]")
    return page.text()


def _grid(rows: Sequence[ScaleRow]) -> Grid:
    """A line for each count; the share that failures leave only where failures were given."""
    failing = any("goodput" in row.option.performance for row in rows)
    header = (
        _("Accelerators"), _("Nodes"), _("Plan"), _("Batch"), _("Time to train"), _("Efficiency"), "",
        _("Cost of the run"), _("Power"), *([_("Goodput")] if failing else []),
    )  # fmt: skip
    return Grid(header, tuple(_line(row) for row in rows), numeric=frozenset((0, 1, 3)))


def _line(row: ScaleRow) -> tuple[str, ...]:
    option = row.option
    share = option.performance.get("goodput")
    return (
        str(option.count), str(option.nodes), plan_text(option), str(row.global_batch),
        metric_text("time_to_train_days", option.performance["time_to_train_days"]),
        percent(row.efficiency), bar(min(row.efficiency, 1.0), BAR),
        UNKNOWN if option.cost.per_run_usd is None else money(option.cost.per_run_usd),
        power(option.energy.power_w), *([] if share is None else [metric_text("goodput", share)]),
    )  # fmt: skip


def scale_payload(scale: Scale) -> dict[str, Any]:
    """The answer to `estimate --scale --json`."""
    return {
        "schema_version": 1,
        "command": "estimate",
        "accelerator": scale.accelerator,
        "workload_sentence": scale.workload_sentence,
        "strong": [_row(row) for row in scale.strong],
        "weak": [_row(row) for row in scale.weak],
        "pays_until": scale.pays_until,
        "cheapest": scale.cheapest,
        "assumptions": [{"code": note.code, "text": note.text} for note in scale.assumptions],
        "reasons": [{"code": note.code, "text": note.text} for note in scale.reasons],
    }


def _row(row: ScaleRow) -> dict[str, Any]:
    option = row.option
    return {
        "count": int(option.count),
        "nodes": int(option.nodes),
        "plan": plan_text(option),
        "global_batch": row.global_batch,
        "efficiency": plain(row.efficiency),
        "performance": {key: plain(value) for key, value in option.performance.items()},
        "cost_usd": plain(option.cost.per_run_usd),
        "power_w": plain(option.energy.power_w),
        "kwh": plain(option.energy.kwh),
    }
