"""The page that is signed: the decision, the requirements as understood, the shortlist, the warnings."""

from __future__ import annotations

from collections.abc import Sequence

from gpuselect.decision import Decision, Option
from gpuselect.i18n import _, full_stop
from gpuselect.report.blocks import Block, Bullets, Grid, Heading, Paragraph
from gpuselect.report.describe import (
    cost_text,
    decision_sentence,
    hardware_text,
    headline,
    headline_key,
    lost_because,
    memory_text,
    metric_label,
    metric_text,
)
from gpuselect.report.format import money
from gpuselect.report.given import workload_rows

SHORTLIST = 3
MONEY_DEFAULTS = ("default-energy", "default-power", "default-ownership", "not-counted")


def first_page(decision: Decision) -> list[Block]:
    """Everything that the person who signs must have read."""
    options = decision.recommendations or decision.unpriced
    return [
        Heading(_("Accelerator decision"), level=1),
        Paragraph(signed_sentence(decision), strong=True),
        *_requirements(decision),
        *(_shortlist(options) if options else ()),
        *(_warnings(options[0]) if options else ()),
        *_signature(),
    ]


def _ended(text: str) -> str:
    return text if text.endswith(full_stop("")) else full_stop(text)


def signed_sentence(decision: Decision) -> str:
    """The decision in one sentence, with the cost per unit of work and how certain the choice is."""
    text = decision_sentence(decision)
    if not decision.recommendations:
        return text
    first = decision.recommendations[0]
    parts = [text.removesuffix(full_stop(""))]
    if first.cost.per_thousand_images_usd is not None:
        parts.append(_("{usd} per thousand").format(usd=money(first.cost.per_thousand_images_usd)))
    if first.cost.per_stream_month_usd is not None:
        usd = money(first.cost.per_stream_month_usd)
        parts.append(_("{usd} per stream and month").format(usd=usd))
    text = _(", ").join(parts)
    if first.win_share is not None and decision.stability is not None:
        text += _("; it ranks first in {p:.0f} % of {n:,} draws of speed and price").format(
            p=100 * first.win_share, n=decision.stability.draws
        )
    return full_stop(text)


def _requirements(decision: Decision) -> list[Block]:
    """What was asked, in words and as given, and what was assumed where nothing was given."""
    rows = tuple(workload_rows(decision.workload))
    assumed = tuple(
        note.text
        for note in decision.assumptions
        if note.code.startswith(("default-", "variant-", "read-as", "tokens-from", "native-"))
        and note.code not in MONEY_DEFAULTS
    )
    table = [Grid((_("Requirement"), _("Value")), rows)] if rows else []
    taken = [Paragraph(_("Taken where nothing was given: {texts}.").format(texts=_("; ").join(assumed)))]
    return [
        Heading(_("Requirements as understood")),
        Paragraph(_ended(decision.workload_sentence)),
        *table,
        *(taken if assumed else ()),
    ]


def _shortlist(options: Sequence[Option]) -> list[Block]:
    winner = options[0]
    key = headline_key(winner)
    rows = tuple(
        (
            str(option.rank or index),
            hardware_text(option),
            memory_text(option),
            metric_text(key, option.performance[key])
            if key is not None and key in option.performance
            else headline(option),
            cost_text(option),
            _("chosen") if option is winner else lost_because(option, winner),
        )
        for index, option in enumerate(options[:SHORTLIST], start=1)
    )
    speed = metric_label(key) if key else _("Speed")
    header = ("#", _("Option"), _("Memory each"), speed, _("Cost"), _("Why it won or lost"))
    reasons = _("; ").join(note.text for note in winner.reasons)
    because = [Paragraph(_("Why the first one: {reasons}.").format(reasons=reasons))] if reasons else []
    return [Heading(_("Shortlist")), Grid(header, rows), *because]


def _warnings(winner: Option) -> list[Block]:
    if not winner.warnings:
        return []
    return [Heading(_("Warnings")), Bullets(tuple(f"{n.text} [{n.code}]" for n in winner.warnings))]


def _signature() -> list[Block]:
    return [
        Heading(_("Signatures")),
        Paragraph(_("Requirements confirmed by: ........................  Date: ..............")),
        Paragraph(_("Approved by: ........................  Date: ..............")),
    ]
