"""The decision report that a manager can sign: one page first, the detail after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuselect.decision import Advice, Decision, Note, Option
from gpuselect.i18n import _
from gpuselect.money_records import Offer
from gpuselect.report.blocks import Block, Bullets, Commands, Grid, Heading, PageBreak, Paragraph
from gpuselect.report.choice import framework_lines
from gpuselect.report.costs import cost_lines, energy_lines, ledger_grids
from gpuselect.report.describe import (
    cost_parts,
    hardware_text,
    headline,
    memory_text,
    metric_label,
    metric_text,
    offer_text,
    plan_text,
    ruled_out,
)
from gpuselect.report.figures import field_chart, memory_chart, scaling_chart, swings_chart, years_chart
from gpuselect.report.first_page import SHORTLIST, first_page
from gpuselect.report.format import gib, money, percent
from gpuselect.report.prospects import (
    acceptance_blocks,
    growth_blocks,
    neighbour_blocks,
    risk_blocks,
    source_blocks,
)

EXAMPLES = 5


def decision_document(decision: Decision) -> list[Block]:
    """The report as blocks; sections without content are left out."""
    options = decision.recommendations or decision.unpriced
    return [
        *first_page(decision),
        *(() if options else _notes(_("Near misses"), decision.near_misses)),
        PageBreak(),
        *(_details(decision, options) if options else ()),
        *_rejections(decision),
        *_notes(_("Assumptions"), decision.assumptions),
        *_next(decision),
        *source_blocks(decision),
    ]


def _details(decision: Decision, options: Sequence[Option]) -> list[Block]:
    """Everything that stands behind the first option."""
    first, short = options[0], options[:SHORTLIST]
    return [
        *_memory(short),
        *_performance(decision, short),
        *_configuration(first),
        *_advice(decision.advice),
        *_cost(decision, short),
        *_sensitivity(decision, first),
        *_energy(first),
        *risk_blocks(decision),
        *growth_blocks(decision, first),
        *acceptance_blocks(decision, first),
        *_notes(_("Near misses"), decision.near_misses),
        *_unpriced(decision),
    ]


def _note_texts(notes: Iterable[Note]) -> tuple[str, ...]:
    return tuple(f"{note.text} [{note.code}]" for note in notes)


def _notes(title: str, notes: Sequence[Note]) -> list[Block]:
    return [Heading(title), Bullets(_note_texts(notes))] if notes else []


def _memory(options: Sequence[Option]) -> list[Block]:
    fits = tuple(
        (
            hardware_text(option),
            gib(option.memory.per_accelerator_gib),
            gib(option.memory.usable_gib),
            percent(option.memory.headroom_pct / 100),
            _(option.memory.state),
        )
        for option in options
    )
    header = (_("Option"), _("Needed"), _("Usable"), _("Free"), _("State"))
    return [
        Heading(_("Memory per accelerator")),
        Grid(header, fits, frozenset({1, 2, 3})),
        *memory_chart(options),
    ]


def _performance(decision: Decision, options: Sequence[Option]) -> list[Block]:
    keys = list(dict.fromkeys(key for option in options for key in option.performance))
    if not keys:
        return []
    rows = tuple(
        (
            metric_label(key),
            *(
                metric_text(key, option.performance[key]) if key in option.performance else ""
                for option in options
            ),
        )
        for key in keys
    )
    return [
        Heading(_("Performance")),
        Paragraph(_("Each value is followed by its 80 % interval: four of five runs lie inside it.")),
        Grid((_("Metric"), *(hardware_text(option) for option in options)), rows),
        *neighbour_blocks(decision.neighbours),
        *scaling_chart(decision),
    ]


def _configuration(option: Option) -> list[Block]:
    """Plan, framework with its rivals, and how to start it."""
    rows = [
        (_("Hardware"), hardware_text(option)),
        (_("Catalog entry"), option.accelerator),
        (_("Plan"), plan_text(option)),
    ]
    choice = option.framework
    if choice is not None:
        rows.append((_("Framework"), _(", ").join(part for part in (choice.name, choice.version) if part)))
        rows.append((_("Licence"), choice.licence or _("unknown")))
        rows.append((_("Why this framework"), choice.why))
    blocks: list[Block] = [
        Heading(_("Recommended configuration")),
        Grid((_("Item"), _("Choice")), tuple(rows)),
        Bullets(tuple(framework_lines(choice))),
    ]
    if choice is not None and choice.launch:
        blocks += [Paragraph(_("How to start it:")), Commands(choice.launch)]
    return blocks


def _advice(advice: Sequence[Advice]) -> list[Block]:
    """Optimisations with their computed effect: what the answer counts on, and what would pay."""
    if not advice:
        return []
    lines = tuple(f"{item.text} [{item.code}]" for item in advice)
    return [Heading(_("What pays")), Bullets(lines)]


def _cost(decision: Decision, options: Sequence[Option]) -> list[Block]:
    first = options[0].cost
    amounts = tuple(
        (
            hardware_text(option),
            _("; ").join(cost_parts(option.cost)) or _("no price known"),
            _price_basis(option),
        )
        for option in options
    )
    blocks: list[Block] = [
        Heading(_("Cost and break-even")),
        Grid((_("Option"), _("Cost (USD)"), _("Price basis")), amounts),
    ]
    if first.items:
        rows = tuple((what, money(usd), _(per)) for what, usd, per in first.items)
        blocks.append(Paragraph(_("What the cost of the first option is made of:")))
        blocks.append(Grid((_("Item"), _("USD"), _("Per")), rows, frozenset({1})))
    lines = cost_lines(replace(first, items=()))
    if first.breakeven is None and first.basis:
        lines.append(_("No break-even of renting and buying: only one of the two prices is known."))
    blocks.append(Bullets(tuple(lines)))
    for title, grid in ledger_grids(first):
        blocks += [Paragraph(title), grid]
    return [*blocks, *years_chart(first), *field_chart(decision)]


def _price_basis(option: Option) -> str:
    offers: list[Offer] = [o for o in (option.cost.offer, option.cost.purchase) if o is not None]
    return _("; ").join(offer_text(offer) for offer in offers) or _("none")


def _sensitivity(decision: Decision, first: Option) -> list[Block]:
    """At which values the answer changes, and what moves its cost."""
    charts = swings_chart(first.cost)
    if not decision.sensitivity and not charts:
        return []
    return [
        Heading(_("What would change this answer")),
        Bullets(_note_texts(decision.sensitivity)),
        *charts,
    ]


def _energy(option: Option) -> list[Block]:
    lines = energy_lines(option.energy)
    return [Heading(_("Energy and carbon")), Bullets(tuple(lines))] if lines else []


def _unpriced(decision: Decision) -> list[Block]:
    if not decision.unpriced or not decision.recommendations:
        return []
    rows = tuple(
        (hardware_text(option), memory_text(option), headline(option))
        for option in decision.unpriced[:EXAMPLES]
    )
    return [
        Heading(_("Would do, but no price is known")),
        Grid((_("Option"), _("Memory"), _("Speed")), rows),
    ]


def _rejections(decision: Decision) -> list[Block]:
    groups = ruled_out(decision.considered)
    if not groups:
        return []
    rows = []
    for code, entries in groups:
        first = entries[0].rejection
        names = _(", ").join(entry.accelerator for entry in entries[:EXAMPLES])
        more = len(entries) - EXAMPLES
        if more > 0:
            names += _(" and {count} more").format(count=more)
        reason = first.text if first is not None else ""
        rows.append((code, str(len(entries)), names, reason))
    header = (_("Rule"), _("Count"), _("Accelerators"), _("Reason for the first of them"))
    text = _(
        "What stands behind a code: gpuselect explain CODE. Every accelerator: the same report as .json."
    )
    return [Heading(_("Ruled out")), Grid(header, tuple(rows), frozenset({1})), Paragraph(text)]


def _next(decision: Decision) -> list[Block]:
    if not decision.next_commands:
        return []
    return [Heading(_("Next commands")), Commands(decision.next_commands)]
