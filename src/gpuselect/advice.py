"""Which optimisations pay for an answer: computed effects, shown where the numbers support them."""

from __future__ import annotations

from dataclasses import replace

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.decision import Advice, Option
from gpuselect.effects import Effect
from gpuselect.estimate.vision import Pace
from gpuselect.framework_choice import explained_choice
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.network_job import Job, NetworkJob, VideoJob
from gpuselect.optimisations import Run, training_effects
from gpuselect.optimisations_network import Training, network_training_effects
from gpuselect.optimisations_serving import Service, Vision, serving_effects, vision_effects
from gpuselect.options import framework_ask
from gpuselect.search import TIGHT_FROM, Candidate, Site
from gpuselect.units import GIB
from gpuselect.workload import Workload

WORTH = 0.03  # share of the time that an effect must move
WORTH_BOUND = 0.15  # the same of an upper bound: sparsity, profiling
WORTH_MEMORY = 0.05  # share of the usable memory
BOUNDS = frozenset({"sparsity-2-4", "profile-first"})
FREED = frozenset({  # worth trying for their memory, where memory is short
    "recompute-full", "recompute-selective", "recompute-sqrt", "zero-stage", "optimizer-offload",
    "allocator-settings", "kv-quantisation", "weight-quantisation", "gradient-accumulation",
})  # fmt: skip
SLOWEST_CAP = 1.06  # a cap that slows more is no advice
MOST_SAVED = 0.95  # energy of the work must fall below it


def effects_of(
    candidate: Candidate, site: Site, *, job: Job, workload: Workload, catalog: Catalog,
    calibration: Calibration, nodes: int,
) -> list[Effect]:  # fmt: skip
    """Effects on a candidate of the search, each from the estimate without and with."""
    if isinstance(job, TrainingJob):
        run = Run(job, site, candidate.plan, workload, catalog, calibration, candidate.usable)
        return training_effects(run, nodes)
    if isinstance(job, ServingJob):
        batch = 1.0 if candidate.serving is None else float(candidate.serving.batch)
        return serving_effects(Service(job, site, candidate.plan, batch, catalog, calibration))
    if isinstance(job, VideoJob):
        batch = float(candidate.plan.micro_batch)
        return vision_effects(Vision(job.detector, site, batch, catalog, calibration))
    if isinstance(job, NetworkJob) and not job.training:
        batch = candidate.pace.batch if isinstance(candidate.pace, Pace) else candidate.plan.micro_batch
        return vision_effects(Vision(job, site, float(batch), catalog, calibration))
    if isinstance(job, NetworkJob):
        return network_training_effects(Training(job, site, candidate.plan, catalog, calibration))
    return []


def supported(effect: Effect, *, usable: float, short: bool) -> bool:
    """Whether the numbers support an effect.

    What is in use must have moved time or memory. What is not must save time and fit, or, where memory is
    short, free some and fit.
    """
    without, with_ = effect.seconds or (1.0, 1.0)
    least = WORTH_BOUND if effect.code in BOUNDS else WORTH
    faster = with_ < without * (1.0 - least)
    before, after = effect.memory or (0.0, 0.0)
    lighter = after < before - WORTH_MEMORY * usable
    if effect.in_use:
        return faster or lighter
    if effect.energy_ratio is not None:
        return with_ <= without * SLOWEST_CAP and effect.energy_ratio <= MOST_SAVED
    fits = after <= usable
    return fits and (faster or (short and lighter and effect.code in FREED))


def advise(
    option: Option, candidate: Candidate, site: Site, *, job: Job, workload: Workload, catalog: Catalog,
    calibration: Calibration,
) -> tuple[Advice, ...]:  # fmt: skip
    """Advice for an option: what it already counts on, then what would pay; strongest first."""
    effects = effects_of(
        candidate, site, job=job, workload=workload, catalog=catalog, calibration=calibration,
        nodes=option.nodes,
    )  # fmt: skip
    short = float(candidate.memory.total) > TIGHT_FROM * candidate.usable
    kept = [e for e in effects if supported(e, usable=candidate.usable, short=short)]
    kept = [e for e in kept if e.code in catalog.optimisations]
    kept.sort(key=lambda e: (e.in_use, _gain(e)))
    return tuple(advice_of(effect, option, catalog) for effect in kept)


def advised_option(
    option: Option, candidate: Candidate, site: Site, *, job: Job, workload: Workload, catalog: Catalog,
    calibration: Calibration,
) -> tuple[Option, tuple[Advice, ...]]:  # fmt: skip
    """An option with its framework explained, and what pays for it."""
    if option.framework is not None:
        explained = explained_choice(
            option.framework,
            site.accelerator,
            framework_ask(candidate, site, job, workload, catalog),
            catalog,
            calibration,
        )
        option = replace(option, framework=explained)
    advice = advise(
        option, candidate, site, job=job, workload=workload, catalog=catalog, calibration=calibration
    )
    return option, advice


def advise_for_miss(
    candidate: Candidate, site: Site, *, job: Job, workload: Workload, catalog: Catalog,
    calibration: Calibration,
) -> tuple[Advice, ...]:  # fmt: skip
    """Optimisations that make the nearest miss fit, by time."""
    if isinstance(job, ServingJob) and candidate.serving is None:
        return ()
    effects = effects_of(
        candidate, site, job=job, workload=workload, catalog=catalog, calibration=calibration, nodes=1
    )
    kept = [
        e for e in effects
        if not e.in_use and e.memory is not None and e.memory[1] <= candidate.usable < e.memory[0]
        and e.code in catalog.optimisations
    ]  # fmt: skip
    kept.sort(key=_gain)
    return tuple(advice_of(effect, None, catalog) for effect in kept)


def _gain(effect: Effect) -> float:
    """Time with over time without: the smaller the better; energy where only that falls."""
    without, with_ = effect.seconds or (1.0, 1.0)
    return effect.energy_ratio if effect.energy_ratio is not None else with_ / without


def advice_of(effect: Effect, option: Option | None, catalog: Catalog) -> Advice:
    """The effect in the units of a reader, with money for the same work."""
    entry = catalog.optimisations[effect.code]
    usd, per = _money(effect, option)
    memory = effect.memory and (effect.memory[0] / GIB, effect.memory[1] / GIB)
    advice = Advice(
        code=effect.code, name=entry.name, text="", in_use=effect.in_use, memory_gib=memory or None,
        seconds=effect.seconds, usd=usd, usd_per=per, energy_ratio=effect.energy_ratio,
        accuracy_risk=str(entry.accuracy_risk or "") if effect.risk_known else "", how=entry.how,
    )  # fmt: skip
    needed = (
        option is not None and effect.in_use and memory is not None and memory[0] > option.memory.usable_gib
    )
    what = _("{what}; would not fit without").format(what=effect.what) if needed else effect.what
    return replace(advice, text=sentence_of(advice, what))


def _money(effect: Effect, option: Option | None) -> tuple[tuple[float, float] | None, str]:
    """Cost of the same work [USD] and what work it is: paid by the hour, so it goes with the time.

    None where unknown. An upper bound promises no money, and neither does a cap of the power.
    """
    if option is None or effect.seconds is None or effect.code in BOUNDS or effect.energy_ratio is not None:
        return None, ""
    cost = option.cost
    known = (
        (cost.per_run_usd, _("a run")), (cost.per_million_tokens_usd, _("a million tokens")),
        (cost.per_thousand_images_usd, _("a thousand samples")),
    )  # fmt: skip
    now, per = next(((usd, per) for usd, per in known if usd is not None), (None, ""))
    without, with_ = effect.seconds
    if now is None or not without or not with_:
        return None, ""
    return ((now * without / with_, now) if effect.in_use else (now, now * with_ / without)), per


def sentence_of(advice: Advice, what: str) -> str:
    """One sentence: the setting, then memory, time, cost, energy and the risk to accuracy."""
    parts = []
    if advice.memory_gib is not None and _differs(*advice.memory_gib, least=0.01):
        before, after = (_number(size) for size in advice.memory_gib)
        parts.append(_("memory {a} to {b} GiB").format(a=before, b=after))
    if advice.seconds is not None and _differs(*advice.seconds, least=0.005):
        without, with_ = advice.seconds
        parts.append(_("time x {r:.2f}").format(r=with_ / without))
    if advice.usd is not None and _differs(*advice.usd, least=0.005):
        text = _("cost ${a} to ${b} {per}")
        parts.append(text.format(a=_number(advice.usd[0]), b=_number(advice.usd[1]), per=advice.usd_per))
    if advice.energy_ratio is not None:
        parts.append(_("energy x {r:.2f}").format(r=advice.energy_ratio))
    effect = _(", ").join(parts)
    risk = advice.accuracy_risk or _("not known")
    verb = _("in use") if advice.in_use else _("would pay")
    if advice.code in BOUNDS:
        verb = _("would pay at most this")
    return _("{name}, {verb} ({what}): {effect}; accuracy risk: {risk}").format(
        name=advice.name, verb=verb, what=what, effect=effect, risk=risk
    )


def _number(value: float) -> str:
    """Three digits, without an exponent from a thousand on.

    >>> _number(0.10744), _number(12231.0)
    ('0.107', '12,231')
    """
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.3g}"


def _differs(before: float, after: float, *, least: float) -> bool:
    return abs(after - before) > least * max(abs(before), abs(after))
