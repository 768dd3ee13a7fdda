"""The decision report that a manager can sign: one page first, the detail after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuselect.decision import Decision, Note, Offer, Option
from gpuselect.i18n import _
from gpuselect.report.blocks import (
    Block,
    Bullets,
    Commands,
    Grid,
    Heading,
    PageBreak,
    Paragraph,
)
from gpuselect.report.costs import cost_lines, energy_lines, ledger_grids
from gpuselect.report.describe import (
    SMALLER_IS_BETTER,
    cost_parts,
    cost_text,
    decision_sentence,
    hardware_text,
    headline,
    headline_key,
    lost_because,
    memory_text,
    metric_label,
    metric_text,
    metric_value,
    offer_text,
    plan_text,
    ruled_out,
)
from gpuselect.report.format import gib, money, power, significant
from gpuselect.report.given import workload_rows
from gpuselect.report.version import tool_version

SHORTLIST = 3
EXAMPLES = 5


def decision_document(decision: Decision) -> list[Block]:
    """The report as blocks; sections without content are left out."""
    options = decision.recommendations or decision.unpriced
    return [
        Heading(_("Accelerator decision"), level=1),
        Paragraph(decision_sentence(decision), strong=True),
        *_requirements(decision),
        *(_shortlist(options) if options else _near_misses(decision)),
        *_notes(_("Risks and warnings"), options[0].warnings if options else ()),
        *_signature(),
        PageBreak(),
        *(_winner(options[0]) if options else ()),
        *(_memory(options) if options else ()),
        *(_performance(options[:SHORTLIST]) if options else ()),
        *(_cost(options[:SHORTLIST]) if options else ()),
        *_notes(_("What would change this answer"), decision.sensitivity),
        *(_near_misses(decision) if options else ()),
        *_unpriced(decision),
        *_rejections(decision),
        *_notes(_("Assumptions"), decision.assumptions),
        *(_acceptance(options[0]) if options else ()),
        *_next(decision),
        *_sources(decision),
    ]


def _note_texts(notes: Iterable[Note]) -> tuple[str, ...]:
    return tuple(f"{note.text} [{note.code}]" for note in notes)


def _notes(title: str, notes: Sequence[Note]) -> list[Block]:
    return [Heading(title), Bullets(_note_texts(notes))] if notes else []


def _requirements(decision: Decision) -> list[Block]:
    rows = tuple(workload_rows(decision.workload))
    table = [Grid((_("Requirement"), _("Value")), rows)] if rows else []
    return [
        Heading(_("Requirements as understood")),
        Paragraph(decision.workload_sentence),
        *table,
    ]


def _shortlist(options: Sequence[Option]) -> list[Block]:
    winner = options[0]
    rows = tuple(
        (
            str(option.rank or index),
            hardware_text(option),
            memory_text(option),
            headline(option),
            cost_text(option),
            _("chosen") if option is winner else lost_because(option, winner),
        )
        for index, option in enumerate(options[:SHORTLIST], start=1)
    )
    key = headline_key(winner)
    speed = metric_label(key) if key else _("Speed")
    header = ("#", _("Option"), _("Memory"), speed, _("Cost"), _("Why it won or lost"))
    return [Heading(_("Shortlist")), Grid(header, rows), *_because(winner)]


def _because(winner: Option) -> list[Block]:
    reasons = tuple(note.text for note in winner.reasons)
    return [Paragraph(_("Why the first one:")), Bullets(reasons)] if reasons else []


def _signature() -> list[Block]:
    return [
        Heading(_("Signatures")),
        Paragraph(_("Requirements confirmed by: ........................  Date: ..............")),
        Paragraph(_("Approved by: ........................  Date: ..............")),
    ]


def _winner(option: Option) -> list[Block]:
    blocks: list[Block] = [
        Heading(_("Recommended configuration")),
        Grid((_("Item"), _("Choice")), tuple(_winner_rows(option))),
    ]
    if option.framework is not None and option.framework.launch:
        blocks += [Paragraph(_("How to start it:")), Commands(option.framework.launch)]
    return blocks


def _winner_rows(option: Option) -> list[tuple[str, str]]:
    rows = [
        (_("Hardware"), hardware_text(option)),
        (_("Catalog entry"), option.accelerator),
        (_("Plan"), plan_text(option)),
    ]
    if option.framework is not None:
        rows.append((_("Framework"), option.framework.name))
        rows.append((_("Why this framework"), option.framework.why))
    if option.energy.power_w is not None:
        rows.append((_("Power"), power(option.energy.power_w)))
    if option.energy.kwh is not None:
        rows.append((_("Energy"), f"{significant(option.energy.kwh)} kWh"))
    if option.energy.kgco2e is not None:
        rows.append((_("Carbon"), f"{significant(option.energy.kgco2e)} kg CO2e"))
    return rows


def _memory(options: Sequence[Option]) -> list[Block]:
    fits = tuple(
        (
            hardware_text(option),
            gib(option.memory.per_accelerator_gib),
            gib(option.memory.usable_gib),
            f"{option.memory.headroom_pct:.0f} %",
            option.memory.state,
        )
        for option in options[:SHORTLIST]
    )
    parts = tuple(
        (name.replace("_", " "), gib(size)) for name, size in options[0].memory.breakdown_gib.items() if size
    )
    header = (_("Option"), _("Needed"), _("Usable"), _("Free"), _("State"))
    blocks: list[Block] = [
        Heading(_("Memory per accelerator")),
        Grid(header, fits, frozenset({1, 2, 3})),
    ]
    if parts:
        blocks.append(Paragraph(_("What the memory of the first option holds:")))
        blocks.append(Grid((_("Part"), _("Size")), parts, frozenset({1})))
    return blocks


def _performance(options: Sequence[Option]) -> list[Block]:
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
    ]


def _cost(options: Sequence[Option]) -> list[Block]:
    blocks: list[Block] = [Heading(_("Cost"))]
    amounts = tuple(
        (
            hardware_text(option),
            "; ".join(cost_parts(option.cost)) or _("no price known"),
            _price_basis(option),
        )
        for option in options
    )
    blocks.append(Grid((_("Option"), _("Cost (USD)"), _("Price basis")), amounts))
    first = options[0]
    if items := first.cost.items:
        rows = tuple((what, money(usd), per) for what, usd, per in items)
        blocks.append(Paragraph(_("What the cost of the first option is made of:")))
        blocks.append(Grid((_("Item"), _("USD"), _("Per")), rows, frozenset({1})))
    lines = cost_lines(replace(first.cost, items=())) + energy_lines(first.energy)
    if lines:
        blocks.append(Bullets(tuple(lines)))
    for title, grid in ledger_grids(first.cost):
        blocks += [Paragraph(title), grid]
    return blocks


def _price_basis(option: Option) -> str:
    offers: list[Offer] = [o for o in (option.cost.offer, option.cost.purchase) if o is not None]
    return "; ".join(offer_text(offer) for offer in offers) or _("none")


def _near_misses(decision: Decision) -> list[Block]:
    return _notes(_("Near misses"), decision.near_misses)


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
        names = ", ".join(entry.accelerator for entry in entries[:EXAMPLES])
        more = len(entries) - EXAMPLES
        if more > 0:
            names += _(" and {count} more").format(count=more)
        reason = first.text if first is not None else ""
        rows.append((code, str(len(entries)), names, reason))
    header = (_("Rule"), _("Count"), _("Accelerators"), _("Reason for the first of them"))
    return [Heading(_("Ruled out")), Grid(header, tuple(rows), frozenset({1}))]


def _acceptance(option: Option) -> list[Block]:
    key = headline_key(option)
    if key is None:
        return []
    estimate = option.performance[key]
    smaller = key in SMALLER_IS_BETTER
    worst = estimate.high if smaller else estimate.low
    text = (
        _("Accept when {metric} is at most {limit}, the upper end of the 80 % interval.")
        if smaller
        else _("Accept when {metric} is at least {limit}, the lower end of the 80 % interval.")
    )
    blocks: list[Block] = [
        Heading(_("Acceptance test")),
        Paragraph(
            _("Run the workload as configured above on the delivered hardware.")
            + " "
            + text.format(metric=metric_label(key).lower(), limit=metric_value(key, worst))
        ),
    ]
    if option.framework is not None and option.framework.launch:
        blocks.append(Commands(option.framework.launch))
    return blocks


def _next(decision: Decision) -> list[Block]:
    if not decision.next_commands:
        return []
    return [Heading(_("Next commands")), Commands(decision.next_commands)]


def _sources(decision: Decision) -> list[Block]:
    sources = tuple(f"{title} [{key}]" for key, title in decision.sources_used)
    stamp = _("Made by gpuselect {version}; newest price of {date}.").format(
        version=tool_version(), date=decision.data_date or _("an unknown date")
    )
    return [Heading(_("Sources and version")), Bullets(sources), Paragraph(stamp)]
