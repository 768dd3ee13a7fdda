"""The pipeline: workload and catalog in, decision out. One call per stage, no formula here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from gpuselect.advice import advise_for_miss, advised_option
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.cost_detail import cost_assumptions, detailed
from gpuselect.curves import field_of_cards, scaling_of
from gpuselect.decision import Advice, Change, Decision, FitAnswer, Limit, Miss, Note, Option
from gpuselect.deployment import Field, build_field
from gpuselect.headroom import changes_for, limits_of
from gpuselect.i18n import _, labelled
from gpuselect.job import ServingJob
from gpuselect.judging import Judged, judge, options_of, resolve_job, search, searched
from gpuselect.names import accuracy_text, resolve_accelerator, resolve_format, series_of
from gpuselect.network_job import (
    Job,
    VideoJob,
)
from gpuselect.options import memory_fit
from gpuselect.ranking import criteria_weights, next_commands
from gpuselect.readers.profiles import shipped_judgement
from gpuselect.score import Judgement
from gpuselect.search import Candidate, Found
from gpuselect.selection import closest_late, ends, speed
from gpuselect.sentences import sentence
from gpuselect.stability import irrelevant, price_of_second, settle
from gpuselect.tco import CostDefaults
from gpuselect.tco.currency import in_dollars
from gpuselect.units import GIB
from gpuselect.verdicts import considered, memory_note, near_misses, none_note
from gpuselect.workload import Workload

__all__ = [
    "Judged", "chosen_variant", "current_date", "estimate", "judge", "recommend", "resolve_job", "search",
]  # fmt: skip


def current_date() -> str:
    """Today, as an ISO date, by the system's clock."""
    return datetime.now(tz=UTC).date().isoformat()


def chosen_variant(
    workload: Workload, catalog: Catalog, try_one: Callable[[Workload], Decision | FitAnswer]
) -> tuple[Workload, Note]:
    """The workload with the most accurate network of its series that meets the bounds.

    When none does, the smallest stands in: its answer says what is missing.
    """
    found = series_of(str(workload.series), catalog)
    failed: list[str] = []
    for model in found:
        one = workload.model_copy(update={"series": None, "model": model.id})
        answer = try_one(one)
        met = answer.state != "no" if isinstance(answer, FitAnswer) else bool(answer.recommendations)
        if met:
            break
        failed.append(model.id)
    else:
        one, model = workload.model_copy(update={"series": None, "model": found[-1].id}), found[-1]
    text = _("{model} ({accuracy}) of {n} sizes").format(
        model=model.id, accuracy=accuracy_text(model), n=len(found)
    )
    if failed:
        text += _("; more accurate ones miss the bounds: {names}").format(names=_(", ").join(failed))
    return one, Note("variant-chosen", text)


NARROWER = ("fp8", "int8-gptq", "q8_0", "q6_k", "q5_k_m", "int4-awq", "q4_k_m", "q3_k_m", "q2_k")  # by width


def recommend(
    workload: Workload,
    catalog: Catalog,
    calibration: Calibration,
    defaults: CostDefaults,
    *,
    today: str | None = None,
    judgement: Judgement | None = None,
) -> Decision:
    """Rank the accelerators of the catalog for a workload.

    Hard rules first, then the plan search over all remaining cards and counts, then cost, score and
    reasons. An empty `recommendations` means that nothing fits; `near_misses` says what came
    nearest. `judgement` holds the profiles, those of data/profiles.yaml by default.
    """
    today = today or current_date()
    workload = in_dollars(workload, catalog, today=today)
    if workload.series is not None:
        one, note = chosen_variant(
            workload, catalog,
            lambda w: recommend(w, catalog, calibration, defaults, today=today, judgement=judgement),
        )  # fmt: skip
        decision = recommend(one, catalog, calibration, defaults, today=today, judgement=judgement)
        return replace(decision, assumptions=(note, *decision.assumptions))
    judgement = judgement or shipped_judgement()
    workload, judged = stepped_down(
        workload, catalog,
        lambda w: judge(w, catalog, calibration, defaults, today=today, judgement=judgement),
    )  # fmt: skip
    job, field, found, ranking = judged.job, judged.field, judged.found, judged.ranking
    shown = [
        [detailed(o, workload=workload, catalog=catalog, defaults=defaults, today=today) for o in group]
        for group in (ranking.listed, ranking.unpriced)
    ]
    weights = criteria_weights(workload, judgement)
    settled, stability, notes = settle(shown[0], ranking.pool, weights, judgement)
    shown, advice = _with_advice([[*settled], shown[1]], field, found, job, workload, catalog, calibration)
    priced, unpriced = tuple(shown[0]), tuple(shown[1])
    return Decision(
        workload=workload.model_dump(mode="json", exclude_none=True),
        workload_sentence=sentence(job),
        assumptions=(
            *judged.assumptions,
            *cost_assumptions(workload, catalog, defaults, service=not ends(job)),
            *(Note("read-as", text) for text in workload.parse_notes),
        ),
        recommendations=tuple(replace(o, rank=n) for n, o in enumerate(priced, 1)),
        unpriced=unpriced,
        considered=considered(field, found, judged.missed, job, workload, catalog, calibration),
        near_misses=(
            near_misses(field, found) if ranking.pool or not judged.options
            else closest_late(judged.options, judged.missed)
        ),
        sensitivity=(
            *notes, *price_of_second(priced, weights), *irrelevant(ranking.pool, weights), *ranking.notes
        ),
        next_commands=next_commands(priced, workload),
        data_date=max((p.as_of for p in catalog.prices if p.as_of), default=""),
        sources_used=_sources(priced, catalog),
        advice=advice,
        stability=stability,
        field=field_of_cards(ranking.pool),
        scaling=scaling_of(priced[0], judged.options) if priced else None,
    )  # fmt: skip


def stepped_down(
    workload: Workload, catalog: Catalog, ask: Callable[[Workload], Judged]
) -> tuple[Workload, Judged]:
    """The workload on cards that one owns, with narrower weights where the usual ones do not fit.

    The widest of `NARROWER` with which something fits; the answer says so. A format that was asked for stays.
    """
    judged = ask(workload)
    if judged.options or not workload.have or workload.weights or not isinstance(judged.job, ServingJob):
        return workload, judged
    for name in NARROWER:
        changed = workload.model_copy(update={"weights": name})
        again = ask(changed)
        if again.options:
            text = _("{name} weights: the widest of the usual formats that fits what you have").format(
                name=resolve_format(name, catalog).name
            )
            note = Note("weights-stepped-down", text)
            return changed, replace(again, assumptions=(note, *again.assumptions))
    return workload, judged


def _with_advice(
    groups: list[list[Option]], field: Field, found: Found, job: Job, workload: Workload, catalog: Catalog,
    calibration: Calibration,
) -> tuple[list[list[Option]], tuple[Advice, ...]]:  # fmt: skip
    """The options with the first of all explained (framework and its rivals), and the advice for it."""
    number = next((n for n, group in enumerate(groups) if group), None)
    if number is None:
        return groups, ()
    chosen = _candidate_of(groups[number][0], field, found)
    option, advice = advised_option(
        groups[number][0], chosen, field.sites[chosen.site], job=job, workload=workload, catalog=catalog,
        calibration=calibration,
    )  # fmt: skip
    changed = [*groups]
    changed[number] = [option, *groups[number][1:]]
    return changed, advice


def _candidate_of(option: Option, field: Field, found: Found) -> Candidate:
    """The candidate of the search that an option was made from."""
    return next(
        c
        for c in found.fitting
        if field.sites[c.site].accelerator.id == option.accelerator and c.plan.count == option.count
    )


def estimate(
    workload: Workload,
    accelerators: Sequence[tuple[int, str]],
    catalog: Catalog,
    calibration: Calibration,
    defaults: CostDefaults,
    *,
    today: str | None = None,
) -> FitAnswer:
    """What the workload does on given hardware: fits or not, memory, best plan, speed, cost."""
    today = today or current_date()
    workload = in_dollars(workload, catalog, today=today)
    if workload.series is not None:
        one, note = chosen_variant(
            workload, catalog,
            lambda w: estimate(w, accelerators, catalog, calibration, defaults, today=today),
        )  # fmt: skip
        answer = estimate(one, accelerators, catalog, calibration, defaults, today=today)
        return replace(answer, assumptions=(note, *answer.assumptions))
    notes = []
    fixed: dict[str, int] = {}
    for count, name in accelerators:
        accelerator, assumed = resolve_accelerator(name, catalog)
        fixed[accelerator.id] = fixed.get(accelerator.id, 0) + count
        if assumed:
            notes.append(Note("variant-assumed", assumed))
    job, assumptions = resolve_job(workload, catalog, calibration)
    job = replace(job, max_count=max(fixed.values()))
    if isinstance(job, VideoJob):
        job = replace(job, load=workload.load or 1.0)  # what these devices can do; a full one is said to be
    field, found = searched(workload, job, catalog, calibration, fixed)
    options = options_of(field, found, job, workload, catalog, calibration, defaults, today)
    options = [
        detailed(o, workload=workload, catalog=catalog, defaults=defaults, today=today)
        for o in sorted(options, key=speed_key)
    ]
    reasons = [replace(n, text=labelled(name, n.text)) for name, n in field.rejections.items()]
    reasons += [memory_note(c, field.sites[c.site]) for c in found.nearest.values()]
    if not options and not reasons:
        reasons.append(none_note(job, workload))
    state = options[0].memory.state if options else "no"
    limits, footprint = _reach(field, found, options, job, calibration)
    advice: tuple[Advice, ...] = ()
    if options:
        chosen = _candidate_of(options[0], field, found)
        options[0], advice = advised_option(
            options[0], chosen, field.sites[chosen.site], job=job, workload=workload, catalog=catalog,
            calibration=calibration,
        )  # fmt: skip
    elif (miss := _nearest(found)) is not None:
        advice = advise_for_miss(
            miss, field.sites[miss.site], job=job, workload=workload, catalog=catalog,
            calibration=calibration,
        )  # fmt: skip
    return FitAnswer(
        workload=workload.model_dump(mode="json", exclude_none=True),
        workload_sentence=sentence(job),
        assumptions=tuple(notes)
        + tuple(n for n in assumptions if n.code not in ("default-max-count", "default-deadline"))
        + cost_assumptions(workload, catalog, defaults, service=not ends(job))
        + tuple(Note("read-as", text) for text in workload.parse_notes),
        state=state,
        option=options[0] if options else None,
        reasons=tuple(reasons),
        alternatives=tuple(options[1:]),
        next_commands=next_commands(options[:1], workload, reasons),
        limits=limits,
        changes=_changes(workload, job, fixed, found, catalog, calibration),
        nearest=_nearest_miss(field, found) if not options else None,
        footprint_gib=footprint,
        advice=advice,
    )  # fmt: skip


def _reach(
    field: Field, found: Found, options: Sequence[Option], job: Job, calibration: Calibration
) -> tuple[tuple[Limit, ...], float | None]:
    """Limits of the best option, and what its engine takes of a card whatever the need [GiB]."""
    if not options:
        return (), None
    chosen = _candidate_of(options[0], field, found)
    site = field.sites[chosen.site]
    footprint = None
    if isinstance(job, ServingJob) and site.engine_id in calibration.memory.preallocating:
        share = float(calibration.memory.serving_share) * chosen.usable
        footprint = max(share, float(chosen.memory.total)) / GIB
    return limits_of(chosen, site, job, calibration), footprint


def _changes(
    workload: Workload, job: Job, fixed: Mapping[str, int], found: Found, catalog: Catalog,
    calibration: Calibration,
) -> tuple[Change, ...]:  # fmt: skip
    """What would let a workload fit that does not for want of memory."""
    if found.fitting or not found.nearest:
        return ()

    def attempt(changed: Workload, cards: Mapping[str, int]) -> tuple[Field, Found]:
        asked, _notes = resolve_job(changed, catalog, calibration)
        asked = replace(asked, max_count=max(cards.values(), default=1))
        field = build_field(changed, asked, catalog, calibration, fixed=dict(cards))
        return field, search(field.sites, asked, changed, calibration)

    return changes_for(workload, job, fixed, attempt, catalog, calibration)


def _nearest_miss(field: Field, found: Found) -> Miss | None:
    """The plan with the smallest need over capacity."""
    candidate = _nearest(found)
    if candidate is None:
        return None
    card = field.sites[candidate.site].accelerator.id
    return Miss(card, int(candidate.plan.count), candidate.plan, memory_fit(candidate))


def _nearest(found: Found) -> Candidate | None:
    """The candidate that came nearest to fitting."""
    return min(found.nearest.values(), key=lambda c: float(c.memory.total) / c.usable, default=None)


def speed_key(option: Option) -> float:
    """Sort key: fastest first."""
    return -speed(option)


def _sources(options: Sequence[Option], catalog: Catalog) -> tuple[tuple[str, str], ...]:
    """Sources behind the figures of the winner: catalog entry and price rows."""
    if not options:
        return ()
    winner = options[0]
    entry = catalog.accelerators[winner.accelerator]
    keys = {entry.cite(figure)[0] for _key, figure in entry.figures()}
    found = [(key, catalog.sources[key].title) for key in sorted(keys) if key in catalog.sources]
    paid = [offer for offer in (winner.cost.offer, winner.cost.purchase) if offer is not None]
    prices = [(f"{offer.provider} {offer.as_of or 'undated'}".strip(), offer.source) for offer in paid]
    return (*found, *prices)
