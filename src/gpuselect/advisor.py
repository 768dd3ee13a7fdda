"""The pipeline: workload and catalog in, decision out. One call per stage, no formula here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.cost_detail import cost_assumptions, detailed
from gpuselect.decision import Change, Considered, Decision, FitAnswer, Limit, Miss, Note, Option
from gpuselect.deployment import Field, build_field
from gpuselect.headroom import changes_for, limits_of
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob, serving_job, training_job
from gpuselect.names import accuracy_text, resolve_accelerator, series_of
from gpuselect.network_job import (
    HpcJob,
    Job,
    NetworkJob,
    VideoJob,
    hpc_job,
    network_job,
    network_model,
    video_job,
)
from gpuselect.network_search import (
    search_hpc,
    search_inference,
    search_network_training,
    search_video,
)
from gpuselect.options import CLOSE_ABOVE, build_option, memory_fit
from gpuselect.ranking import closest_late, ends, next_commands, rank, select, sensitivity, speed
from gpuselect.search import Candidate, Found, Site, search_serving, search_training
from gpuselect.sentences import sentence
from gpuselect.tco import CostDefaults
from gpuselect.units import GIB
from gpuselect.workload import Workload, pins


def current_date() -> str:
    """Today, as an ISO date, by the system's clock."""
    return datetime.now(tz=UTC).date().isoformat()


def resolve_job(workload: Workload, catalog: Catalog, calibration: Calibration) -> tuple[Job, list[Note]]:
    """The workload in numbers, with the assumptions that were made."""
    if workload.task == "video":
        return video_job(workload, catalog)
    if workload.task == "hpc":
        return hpc_job(workload)
    network = network_model(workload, catalog)
    if network is not None:
        return network_job(workload, network)
    if workload.task == "inference":
        return serving_job(workload, catalog)
    return training_job(workload, catalog, calibration)


def search(
    sites: Sequence[Site],
    job: Job,
    workload: Workload,
    calibration: Calibration,
) -> Found:
    """Search plans for the task."""
    reserve = float(workload.reserve or 0.0)
    match job:
        case ServingJob():
            return search_serving(sites, job, pins=pins(workload), calibration=calibration, reserve=reserve)
        case TrainingJob():
            return search_training(sites, job, pins=pins(workload), calibration=calibration, reserve=reserve)
        case NetworkJob(training=True):
            return search_network_training(
                sites, job, calibration=calibration, reserve=reserve, pins=pins(workload)
            )
        case NetworkJob():
            return search_inference(sites, job, calibration=calibration, reserve=reserve)
        case VideoJob():
            return search_video(sites, job, calibration=calibration, reserve=reserve)
        case HpcJob():
            return search_hpc(sites, job, calibration=calibration, reserve=reserve)


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
        text += _("; more accurate ones miss the bounds: {names}").format(names=", ".join(failed))
    return one, Note("variant-chosen", text)


def recommend(
    workload: Workload,
    catalog: Catalog,
    calibration: Calibration,
    defaults: CostDefaults,
    *,
    today: str | None = None,
) -> Decision:
    """Rank the accelerators of the catalog for a workload.

    Hard rules first, then the plan search over all remaining cards and counts, then cost, score and
    reasons. An empty `recommendations` means that nothing fits; `near_misses` says what came
    nearest.
    """
    today = today or current_date()
    if workload.series is not None:
        one, note = chosen_variant(
            workload, catalog, lambda w: recommend(w, catalog, calibration, defaults, today=today)
        )
        decision = recommend(one, catalog, calibration, defaults, today=today)
        return replace(decision, assumptions=(note, *decision.assumptions))
    job, assumptions = resolve_job(workload, catalog, calibration)
    fixed = {resolve_accelerator(n, catalog)[0].id: count for count, n in workload.have or ()}
    field = build_field(workload, job, catalog, calibration, fixed=fixed or None)
    found = search(field.sites, job, workload, calibration)
    options = _options(field, found, job, workload, catalog, calibration, defaults, today)
    chosen, missed = select(options, workload=workload, job=job)
    ranked, without_price = rank(chosen, options, workload=workload, catalog=catalog, job=job)
    shown = [
        [detailed(o, workload=workload, catalog=catalog, defaults=defaults, today=today) for o in group]
        for group in (ranked, without_price[:5])
    ]
    priced, unpriced = tuple(shown[0]), tuple(shown[1])
    return Decision(
        workload=workload.model_dump(mode="json", exclude_none=True),
        workload_sentence=sentence(job),
        assumptions=(
            *assumptions,
            *cost_assumptions(workload, catalog, defaults, service=not ends(job)),
            *(Note("read-as", text) for text in workload.parse_notes),
        ),
        recommendations=tuple(replace(o, rank=n) for n, o in enumerate(priced, 1)),
        unpriced=unpriced,
        considered=_considered(field, found, missed, job, workload, catalog, calibration),
        near_misses=_near_misses(field, found) if chosen or not options else closest_late(options, missed),
        sensitivity=sensitivity(priced, workload),
        next_commands=next_commands(priced, workload),
        data_date=max((p.as_of for p in catalog.prices if p.as_of), default=""),
        sources_used=_sources(priced, catalog),
    )


def _options(
    field: Field, found: Found, job: Job, workload: Workload, catalog: Catalog,
    calibration: Calibration, defaults: CostDefaults, today: str,
) -> list[Option]:  # fmt: skip
    """Every fitting candidate as a complete option."""
    return [
        build_option(
            candidate, field.sites[candidate.site], job=job, workload=workload, catalog=catalog,
            calibration=calibration, defaults=defaults, today=today,
            frameworks=field.frameworks[field.sites[candidate.site].accelerator.id],
        )
        for candidate in found.fitting
    ]  # fmt: skip


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
    field = build_field(workload, job, catalog, calibration, fixed=fixed)
    found = search(field.sites, job, workload, calibration)
    options = _options(field, found, job, workload, catalog, calibration, defaults, today)
    options = [
        detailed(o, workload=workload, catalog=catalog, defaults=defaults, today=today)
        for o in sorted(options, key=speed_key)
    ]
    reasons = [replace(n, text=f"{name}: {n.text}") for name, n in field.rejections.items()]
    reasons += [memory_note(c, field.sites[c.site]) for c in found.nearest.values()]
    if not options and not reasons:
        reasons.append(_none_note(job, workload))
    state = options[0].memory.state if options else "no"
    limits, footprint = _reach(field, found, options, job, calibration)
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
    )  # fmt: skip


def _reach(
    field: Field, found: Found, options: Sequence[Option], job: Job, calibration: Calibration
) -> tuple[tuple[Limit, ...], float | None]:
    """Limits of the best option, and what its engine takes of a card whatever the need [GiB]."""
    if not options:
        return (), None
    best = options[0]
    chosen = next(
        c
        for c in found.fitting
        if field.sites[c.site].accelerator.id == best.accelerator and c.plan.count == best.count
    )
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
    if not found.nearest:
        return None
    candidate = min(found.nearest.values(), key=lambda c: float(c.memory.total) / c.usable)
    card = field.sites[candidate.site].accelerator.id
    return Miss(card, int(candidate.plan.count), candidate.plan, memory_fit(candidate))


def speed_key(option: Option) -> float:
    """Sort key: fastest first."""
    return -speed(option)


def _none_note(job: Job, workload: Workload) -> Note:
    if isinstance(job, VideoJob):
        text = _("{n} accelerators carry fewer than {s} streams, or the latency bound is missed")
        return Note("slo-missed", text.format(n=job.max_count, s=job.streams))
    bounds = [getattr(job, key, None) for key in ("request_rate", "ttft_s", "tpot_s", "latency_s")]
    if any(bounds):
        return Note("slo-missed", _("no plan meets the latency bounds or the demand"))
    if isinstance(job, NetworkJob):
        return Note("no-valid-plan", _("no batch per accelerator divides the global batch evenly"))
    given = ", ".join(f"{k}={v}" for k, v in pins(workload).items()) or _("none")
    return Note(
        "no-valid-plan",
        _("no layout divides heads, layers, experts and batch evenly (pins: {pins})").format(pins=given),
    )


def memory_note(candidate: Candidate, site: Site) -> Note:
    """Rejection for memory with its arithmetic."""
    fit = memory_fit(candidate)
    terms = " + ".join(f"{key} {value:.1f}" for key, value in fit.breakdown_gib.items())
    text = _("{n} x {name}: {terms} = {need:.1f} GiB per card, {usable:.1f} GiB usable").format(
        n=candidate.plan.count, name=site.accelerator.id, terms=terms,
        need=fit.per_accelerator_gib, usable=fit.usable_gib,
    )  # fmt: skip
    return Note("memory-exceeded", text)


def _considered(
    field: Field,
    found: Found,
    missed: Mapping[str, Note],
    job: Job,
    workload: Workload,
    catalog: Catalog,
    calibration: Calibration,
) -> tuple[Considered, ...]:
    """One verdict for every accelerator of the catalog, and one for a single card of each."""
    if not all(1 in site.counts for site in field.sites):
        found_single = search([replace(s, counts=(1,)) for s in field.sites], job, workload, calibration)
    else:
        found_single = found
    single_fit = {c.site for c in found_single.fitting if c.plan.count == 1}
    least: dict[int, int] = {}
    for candidate in found.fitting:
        least[candidate.site] = min(least.get(candidate.site, 1 << 30), int(candidate.plan.count))
    number_of = {site.accelerator.id: n for n, site in enumerate(field.sites)}
    verdicts = []
    for name in catalog.accelerators:
        number = number_of.get(name)
        if number is None:
            note = field.rejections.get(name, Note("not-selected", _("not among what you have")))
            verdicts.append(_refused(name, note))
            continue
        rejection = missed.get(name) or _limit_note(number, field, found, least, job, workload)
        single_note = None
        if number not in single_fit:
            near = found_single.nearest_single.get(number)
            single_note = memory_note(near, field.sites[number]) if near else _none_note(job, workload)
        verdicts.append(
            Considered(name, number in least, least.get(number), rejection, number in single_fit,
                       single_note)
        )  # fmt: skip
    return tuple(verdicts)


def _refused(name: str, note: Note) -> Considered:
    """Verdict on a card that a hard rule rejects: for one as for many."""
    return Considered(
        name, feasible=False, min_count=None, rejection=note, single_feasible=False, single_rejection=note
    )


def _limit_note(
    number: int, field: Field, found: Found, least: Mapping[int, int],
    job: Job, workload: Workload,
) -> Note | None:  # fmt: skip
    if number in least:
        return None
    near = found.nearest.get(number)
    return memory_note(near, field.sites[number]) if near else _none_note(job, workload)


def _near_misses(field: Field, found: Found) -> tuple[Note, ...]:
    """The five cards that came nearest to fitting."""
    order = sorted(found.nearest.values(), key=lambda c: float(c.memory.total) / c.usable)
    notes = []
    for candidate in order[:5]:
        note = memory_note(candidate, field.sites[candidate.site])
        share = float(candidate.memory.total) / candidate.usable
        close = _(" (close)") if share <= CLOSE_ABOVE else ""
        short = (float(candidate.memory.total) - candidate.usable) / GIB
        notes.append(replace(note, text=note.text + _("; {s:.1f} GiB short").format(s=short) + close))
    return tuple(notes)


def _sources(options: Sequence[Option], catalog: Catalog) -> tuple[tuple[str, str], ...]:
    """Sources behind the figures of the winner: catalog entry and price rows."""
    if not options:
        return ()
    winner = options[0]
    entry = catalog.accelerators[winner.accelerator]
    keys = {entry.cite(figure)[0] for _key, figure in entry.figures()}
    found = [(key, catalog.sources[key].title) for key in sorted(keys) if key in catalog.sources]
    paid = [offer for offer in (winner.cost.offer, winner.cost.purchase) if offer is not None]
    prices = [(f"{offer.provider} {offer.as_of or 'undated'}", offer.source) for offer in paid]
    return (*found, *prices)
