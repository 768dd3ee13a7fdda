"""The verdict on one card: it wins, it loses by these criteria, or this rule keeps it out."""

from __future__ import annotations

from collections.abc import Mapping

from gpuselect.advisor import chosen_variant, recommend
from gpuselect.cost_detail import detailed
from gpuselect.decision import Note, Option
from gpuselect.errors import InputError
from gpuselect.explain.changes import changes_of
from gpuselect.explain.engine import Engine, first, place_of, priced, run
from gpuselect.explain.records import Answer, Gap
from gpuselect.explain.switching import switches_of
from gpuselect.i18n import _
from gpuselect.judging import Judged
from gpuselect.ranking import criteria_weights
from gpuselect.score import CRITERIA
from gpuselect.sentences import sentence
from gpuselect.stability import draw_totals, drawn_pool
from gpuselect.verdicts import rejection_of
from gpuselect.workload import Workload


def explain(engine: Engine, workload: Workload, card: str | None = None) -> Answer:
    """Why the card (the first option when None) stands where it does, and what would change that.

    The winner gets its switching points; any other card gets the changes that would make it win.
    """
    if workload.series is not None:
        workload = _one_size(engine, workload)
    judged = run(engine, workload)
    leader = first(judged)
    card = card or leader
    if not card:
        raise InputError(
            _("nothing meets these requirements: name an accelerator to see why it is ruled out")
        )
    rejection = None if place_of(judged, card) else rejection_of(card, judged, workload)
    option = next((o for o in judged.ranking.pool if o.accelerator == card), None)
    other = _rival(judged, card)
    weights = criteria_weights(workload, engine.judgement)
    state = _state(judged, card, option, rejection)
    compared = state in ("wins", "ranked") and option is not None and other is not None
    return Answer(
        workload=workload.model_dump(mode="json", exclude_none=True),
        workload_sentence=sentence(judged.job),
        accelerator=card,
        state=state,
        verdict=_verdict(judged, card, state, option, other, rejection),
        rejection=rejection,
        rank=place_of(judged, card),
        ranked=len(priced(judged)),
        option=option,
        other=other,
        gaps=gaps_of(option, other, weights) if compared else (),  # type: ignore[arg-type]  # both are there
        changes=() if state == "wins" else changes_of(engine, workload, judged, card, rejection),
        switches=switches_of(engine, workload, judged) if state == "wins" else (),
        notes=_chance(judged, option, other, workload, engine),
    )


def _one_size(engine: Engine, workload: Workload) -> Workload:
    """The size of a series that the recommendation takes."""

    def ask(one: Workload) -> object:
        return recommend(
            one, engine.catalog, engine.calibration, engine.defaults, today=engine.today,
            judgement=engine.judgement,
        )  # fmt: skip

    return chosen_variant(workload, engine.catalog, ask)[0]  # type: ignore[arg-type]  # a Decision


def _rival(judged: Judged, card: str) -> Option | None:
    """The first option, or the second where the card is first."""
    return next((o for o in priced(judged) if o.accelerator != card), None)


def _state(judged: Judged, card: str, option: Option | None, rejection: Note | None) -> str:
    rank = place_of(judged, card)
    if rank is not None:
        return "wins" if rank == 1 else "ranked"
    if option is not None:
        return "unpriced"
    return "missed" if rejection is not None and card in judged.missed else "rejected"


def gaps_of(option: Option, other: Option, weights: Mapping[str, float]) -> tuple[Gap, ...]:
    """What each criterion adds to the lead of an option over another, the largest loss first.

    Points add up to the difference of the totals; a criterion that is unknown for one has no weight there.
    """
    mine, theirs = option.score.criteria, other.score.criteria
    own = sum(weights.get(key, 0.0) for key in mine) or 1.0
    foreign = sum(weights.get(key, 0.0) for key in theirs) or 1.0
    found = []
    for key in CRITERIA:
        weight = weights.get(key, 0.0)
        points = weight * (mine.get(key, 0.0) / own - theirs.get(key, 0.0) / foreign)
        if weight or key in mine:
            found.append(Gap(key, weight, mine.get(key), theirs.get(key), points))
    return tuple(sorted(found, key=lambda gap: gap.points))


def _verdict(
    judged: Judged, card: str, state: str, option: Option | None, other: Option | None, rejection: Note | None
) -> str:
    """The verdict in one sentence."""
    if option is None:
        note = rejection or Note("unknown", _("no reason was recorded"))
        text = {"missed": _("{card} would work, but misses a bound: {why} [{code}]")}.get(
            state, _("{card} is ruled out: {why} [{code}]")
        )
        return text.format(card=card, why=note.text, code=note.code)
    if state == "unpriced":
        return _("{card} fits with {n} accelerators, but no price is known, so it is not ranked").format(
            card=card, n=option.count
        )
    rank, count = place_of(judged, card), len(priced(judged))
    text = _("{n} x {card} ranks {rank} of {count} with a total of {total:.2f}")
    start = text.format(n=option.count, card=card, rank=rank, count=count, total=option.score.total)
    if other is None:
        return start
    next_one, first_one = (
        _("; next is {n} x {other} with {total:.2f}"),
        _("; first is {n} x {other} with {total:.2f}"),
    )
    word = next_one if rank == 1 else first_one
    return start + word.format(n=other.count, other=other.accelerator, total=other.score.total)


def _chance(
    judged: Judged, option: Option | None, other: Option | None, workload: Workload, engine: Engine
) -> tuple[Note, ...]:
    """How often the card is ahead of the other one when speed and price are drawn from their intervals."""
    if option is None or other is None or place_of(judged, option.accelerator) is None:
        return ()
    listed = {(o.accelerator, o.count): o for o in (*judged.ranking.listed, option, other)}
    costed = {
        key: detailed(
            o, workload=workload, catalog=engine.catalog, defaults=engine.defaults, today=engine.today
        )
        for key, o in listed.items()
    }
    rows = [costed.get((o.accelerator, o.count), o) for o in judged.ranking.pool]
    two = [o for o in rows if o.accelerator in (option.accelerator, other.accelerator)]
    pool = list({o.accelerator: o for o in (*drawn_pool(rows), *two)}.values())
    drawn = draw_totals(pool, criteria_weights(workload, engine.judgement), engine.judgement)
    text = _("ahead of {other} in {p:.0f} % of {n} draws of speed and price, first of all in {q:.0f} %")
    return (Note("stability", text.format(
        other=other.accelerator, p=100 * drawn.beats(option.accelerator, other.accelerator),
        n=engine.judgement.draws, q=100 * drawn.win_shares[option.accelerator])),)  # fmt: skip
