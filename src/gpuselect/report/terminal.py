"""Answers on a terminal: the decision first, the detail below it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuselect.decision import Advice, Decision, FitAnswer, Note, Option
from gpuselect.i18n import _, labelled
from gpuselect.report.blocks import Grid
from gpuselect.report.choice import framework_lines
from gpuselect.report.console import Page, Style
from gpuselect.report.costs import cost_lines, energy_lines, ledger_drops, ledger_grids
from gpuselect.report.describe import (
    SECONDS,
    cost_parts,
    cost_text,
    decision_sentence,
    fit_sentence,
    hardware_text,
    headline_key,
    memory_text,
    metric_label,
    metric_text,
    metric_unit,
    offer_text,
    part_label,
    plan_text,
    role_label,
    roles,
    ruled_out,
    spread,
    unit_cost_text,
)
from gpuselect.report.format import UNKNOWN, count_of, gib, percent, significant
from gpuselect.report.memory import show_memory, show_reach

EXAMPLES = 5
OPTIONS = 10
DROPS = (0, 0, 7, 2, 0, 1, 6, 4, 5, 3)  # one for each column of _options_grid
WRAPPED = {1: 20}  # the name of the hardware may take several lines


def decision_text(decision: Decision, style: Style | None = None) -> str:
    """The answer to `recommend` as text."""
    page = Page(style or Style())
    options = decision.recommendations
    page.line(decision_sentence(decision), style="bold green" if options else "bold yellow")
    page.line(decision.workload_sentence)
    if options:
        page.heading(_("Options"))
        _options(page, options[:OPTIONS])
        _more(page, len(options) - OPTIONS)
        _legend(page, decision)
        _roles(page, options)
        _winner(page, options[0])
        _framework(page, options[0])
        _advice(page, decision.advice)
        _notes(page, _("Why"), options[0].reasons)
        _notes(page, _("Warnings"), options[0].warnings, mark="!", style="yellow")
    if decision.unpriced:
        page.heading(_("No price known"))
        _options(page, decision.unpriced[:EXAMPLES])
        _more(page, len(decision.unpriced) - EXAMPLES)
    _notes(page, _("Near misses"), decision.near_misses)
    _notes(page, _("What would change this"), decision.sensitivity)
    _notes(page, _("Assumptions"), decision.assumptions)
    _rejections(page, decision)
    _next(page, decision.next_commands)
    return page.text()


def _options(page: Page, options: Sequence[Option]) -> None:
    """The table of options; a column that is empty in every row is not shown at all."""
    grid = _options_grid(options)
    kept = [index for index in range(len(grid.header)) if any(row[index] for row in grid.rows)]
    slim = Grid(
        tuple(grid.header[index] for index in kept),
        tuple(tuple(row[index] for index in kept) for row in grid.rows),
    )
    page.grid(slim, [DROPS[index] for index in kept], WRAPPED)


def _options_grid(options: Sequence[Option]) -> Grid:
    priced = any(cost_parts(option.cost) for option in options)
    header = (
        "#",
        _("Accelerators"),
        _("Plan"),
        _("Memory each"),
        _speed_heading(headline_key(options[0])),
        _("Cost"),
        _("Per unit"),
        _("Framework"),
        _("Score"),
        _("First in"),
    )
    rows = tuple(
        (
            rank_text(option, index),
            count_of(option.count, option.accelerator_name),
            plan_text(option),
            memory_text(option),
            _speed_cell(option),
            cost_text(option) if priced else "",
            unit_cost_text(option),
            "" if option.framework is None else option.framework.name,
            f"{option.score.total:.2f}",
            "" if option.win_share is None else percent(option.win_share),
        )
        for index, option in enumerate(options, start=1)
    )
    return Grid(header, rows)


def rank_text(option: Option, index: int) -> str:
    """The rank with its marks: `=` for a tie with the first, `*` for the front of cost and speed."""
    tied = "=" if option.tied_with_winner and index > 1 else ""
    return f"{option.rank or index}{tied}{'*' if option.on_pareto_front else ''}"


def _legend(page: Page, decision: Decision) -> None:
    """What the marks of the table mean, and the other cards of the same kinds."""
    if decision.stability is not None:
        text = _(
            "= tied with the first within the intervals; * nothing is both cheaper and faster; "
            "First in: share of {n} draws of speed and price in which the option ranks first"
        )
        page.line(text.format(n=decision.stability.draws), style="dim")
    kin = [
        _("{n} x {name} ({score:.2f}, as {first})").format(
            n=v.count, name=v.accelerator, score=v.total, first=o.rank
        )
        for o in decision.recommendations[:EXAMPLES]
        for v in o.variants[:2]
    ]
    if kin:
        page.line(_("Of the same kinds: {names}").format(names=_(", ").join(kin)), style="dim")


def _speed_heading(key: str | None) -> str:
    """Times carry their unit in the cell, because it varies; rates carry it here."""
    if key is None:
        return _("Speed")
    label, unit = metric_label(key), metric_unit(key)
    return _(", ").join((label, unit)) if unit and key not in SECONDS else label


def _speed_cell(option: Option) -> str:
    key = headline_key(option)
    if key is None:
        return UNKNOWN
    estimate = option.performance[key]
    return metric_text(key, estimate) if key in SECONDS else spread(estimate)


def _more(page: Page, count: int) -> None:
    if count > 0:
        page.line(_("... and {count} more (--json lists all).").format(count=count), style="dim")


def _roles(page: Page, options: Sequence[Option]) -> None:
    found = roles(options)
    if not found:
        return
    page.heading(_("Roles"))
    for role, option in found:
        text = _("{hardware}, {cost}").format(hardware=hardware_text(option), cost=cost_text(option))
        page.bullet(labelled(role_label(role), text))


def _winner(page: Page, option: Option) -> None:
    page.heading(_("First option in detail"))
    page.bullet(_("Plan: {plan}").format(plan=plan_text(option)))
    if option.framework is not None:
        page.bullet(
            _("Framework: {name} ({why})").format(name=option.framework.name, why=option.framework.why)
        )
    _memory(page, option)
    for key, estimate in option.performance.items():
        page.bullet(labelled(metric_label(key), metric_text(key, estimate)))
    _cost(page, option)


def _framework(page: Page, option: Option) -> None:
    """Evidence of the framework, the second choice, and why the others lost."""
    lines = framework_lines(option.framework)
    if lines:
        page.heading(_("Framework"))
        for line in lines:
            page.bullet(line)


def _advice(page: Page, advice: Sequence[Advice]) -> None:
    """Optimisations with their computed effect."""
    if not advice:
        return
    page.heading(_("What pays"))
    for item in advice:
        page.bullet(f"{item.text} [{item.code}]")


def _memory(page: Page, option: Option) -> None:
    fit = option.memory
    parts = sorted(fit.breakdown_gib.items(), key=lambda part: -part[1])
    shown = _(", ").join(f"{part_label(name)} {significant(size)}" for name, size in parts if size)
    text = _("Memory per accelerator: {need} of {usable} usable, {free:.0f} % free")
    page.bullet(
        text.format(need=gib(fit.per_accelerator_gib), usable=gib(fit.usable_gib), free=fit.headroom_pct)
        + (_(" ({parts})").format(parts=shown) if shown else "")
    )


def _cost(page: Page, option: Option) -> None:
    cost = option.cost
    if parts := cost_parts(cost):
        text = _("Cost: {parts}").format(parts=_(", ").join(parts))
        page.bullet(text)
    for offer in (cost.offer, cost.purchase):
        if offer is not None:
            page.bullet(_("Price basis: {offer}").format(offer=offer_text(offer)))
    for line in (*cost_lines(cost), *energy_lines(option.energy)):
        page.bullet(line)


def _ledgers(page: Page, option: Option) -> None:
    """Payments of buying and renting, year by year."""
    for title, grid in ledger_grids(option.cost):
        page.heading(title)
        page.grid(grid, ledger_drops(grid))


def _notes(page: Page, title: str, notes: Sequence[Note], *, mark: str = "•", style: str = "") -> None:
    if not notes:
        return
    page.heading(title)
    for note in notes:
        page.bullet(f"{note.text} [{note.code}]", mark=mark, style=style)


def _rejections(page: Page, decision: Decision) -> None:
    groups = ruled_out(decision.considered)
    if not groups:
        return
    page.heading(_("Ruled out"))
    for code, entries in groups:
        names = _(", ").join(entry.accelerator for entry in entries[:EXAMPLES])
        if len(entries) > EXAMPLES:
            names += _(", ") + "..."
        page.bullet(labelled(f"{code} ({len(entries)})", names))
    page.line(_("`gpuselect explain CODE` says what stands behind a code."), style="dim")


def _next(page: Page, commands: Sequence[str]) -> None:
    if not commands:
        return
    page.heading(_("Next"))
    for command in commands:
        page.command(command)


def fit_text(answer: FitAnswer, style: Style | None = None) -> str:
    """The answer to `estimate` as text."""
    page = Page(style or Style())
    colors = {"fits": "bold green", "tight": "bold yellow", "no": "bold red"}
    page.line(fit_sentence(answer), style=colors[answer.state])
    page.line(answer.workload_sentence)
    if answer.option is not None:
        title = _("Best plan") if answer.state != "no" else _("Nearest plan")
        page.heading(title)
        page.bullet(_("Plan: {plan}").format(plan=plan_text(answer.option)))
        if answer.option.framework is not None:
            page.bullet(_("Framework: {name}").format(name=answer.option.framework.name))
        for key, estimate in answer.option.performance.items():
            page.bullet(labelled(metric_label(key), metric_text(key, estimate)))
        _cost(page, answer.option)
        _ledgers(page, answer.option)
        page.heading(_("Memory"))
        show_memory(page, answer.option.memory, answer.footprint_gib)
    show_reach(page, answer)
    if answer.option is not None and answer.state != "no":
        _framework(page, answer.option)
    _advice(page, answer.advice)
    _notes(page, _("Why"), answer.reasons)
    if answer.option is not None:
        _notes(page, _("Warnings"), answer.option.warnings, mark="!", style="yellow")
    if answer.alternatives:
        page.heading(_("Alternatives"))
        _options(page, answer.alternatives)
    _notes(page, _("Assumptions"), answer.assumptions)
    _next(page, answer.next_commands)
    return page.text()
