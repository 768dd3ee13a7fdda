"""From a candidate of the search to a complete option: performance, cost, energy, warnings."""

from __future__ import annotations

from dataclasses import replace

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog, Framework
from gpuselect.cost_detail import price_notes
from gpuselect.costs import Terms, cost_of, deployment_power, energy_of, node_count
from gpuselect.decision import Estimate, FrameworkChoice, MemoryFit, Note, Option
from gpuselect.deployment import covered, method_and_family, target_of
from gpuselect.estimate.offload import cards_of_host
from gpuselect.framework_choice import best, named, training_why
from gpuselect.frameworks import Ask, parallel_needs
from gpuselect.i18n import N_, _
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.money_records import Cost
from gpuselect.names import allowed_licences
from gpuselect.network_job import HpcJob, Job, NetworkJob, VideoJob
from gpuselect.performance import (
    MOST_MEASURED,
    breakdown_of,
    load_notes,
    performance_of,
    run_hours,
    video_notes,
)
from gpuselect.plan import ON_THE_HOST, RECOMPUTE, Plan
from gpuselect.search import TIGHT_FROM, Candidate, Site
from gpuselect.tco import CostDefaults
from gpuselect.units import GIB, HOURS_PER_YEAR
from gpuselect.workload import Workload

CLOSE_ABOVE = 1.15  # a miss up to this share of the usable memory is said to be close
UNIT_RATES = ("output_tok_s", "images_per_s", "requests_per_s")  # what a cost per unit is counted in


def fit_state(need: float, usable: float) -> str:
    """`fits` below 85 % of the usable memory, `tight` up to 100 %, else `no`.

    >>> fit_state(50.0, 100.0), fit_state(90.0, 100.0), fit_state(101.0, 100.0)
    ('fits', 'tight', 'no')
    """
    share = need / usable
    return "fits" if share <= TIGHT_FROM else "tight" if share <= 1.0 else "no"


def memory_fit(candidate: Candidate) -> MemoryFit:
    """Memory of a candidate in GiB, term by term."""
    memory = candidate.memory
    parts = {
        N_("weights"): memory.weights, N_("gradients"): memory.gradients, N_("optimizer"): memory.optimizer,
        N_("activations"): memory.activations, N_("kv_cache"): memory.kv_cache,
        N_("temporaries"): memory.temporaries, N_("overhead"): memory.overhead,
    }  # fmt: skip
    return MemoryFit(
        per_accelerator_gib=float(memory.total) / GIB,
        usable_gib=candidate.usable / GIB,
        breakdown_gib={key: float(value) / GIB for key, value in parts.items() if value},
        state=fit_state(float(memory.total), candidate.usable),
        host_gib=float(memory.host) / GIB,
    )


def host_need(candidate: Candidate, site: Site, calibration: Calibration) -> float:
    """Host memory that a node needs for the offloaded states of its cards [B], with buffers."""
    cards = min(int(candidate.plan.count), int(site.device.per_node))
    return float(candidate.memory.host) * float(calibration.host.buffers) * cards


def offload_notes(candidate: Candidate, site: Site, calibration: Calibration) -> tuple[Note, ...]:
    """What waits on the host, what it needs there, and what it costs in the step."""
    if not candidate.plan.offload or candidate.step is None:
        return ()
    step, what = candidate.step, ON_THE_HOST[int(candidate.plan.offload)]
    known = site.host_bytes < float("inf")
    cards = float(cards_of_host(plan=candidate.plan, device=site.device))
    share = site.host_bytes * min(int(candidate.plan.count), int(site.device.per_node)) / cards
    text = _(
        "{what} on the host: {need:.0f} GiB of host memory in each node{limit}; the update takes "
        "{update:.0%} of the step, transfers that nothing hides {moved:.0%}"
    ).format(
        what=_(what), need=host_need(candidate, site, calibration) / GIB,
        limit=_(", {has:.0f} GiB are there").format(has=share / GIB) if known else _(" (size not known)"),
        update=float(step.optimizer) / float(step.total), moved=float(step.offload) / float(step.total),
    )  # fmt: skip
    tight = known and host_need(candidate, site, calibration) > share
    short = _("host memory is tight: the states fit, half as much again for buffers does not")
    return (Note("offload", text), *((Note("host-memory-tight", short),) if tight else ()))


def scale_notes(candidate: Candidate, job: Job) -> tuple[Note, ...]:
    """That a training run is larger than measured ones, MLPerf left out."""
    if not isinstance(job, TrainingJob) or candidate.plan.count <= MOST_MEASURED:
        return ()
    text = _("no run of more than {n} accelerators is among the measured rows, but for submissions to MLPerf")
    return (Note("scale-extrapolated", text.format(n=MOST_MEASURED)),)


SHARED_BELOW = 0.5  # of the hours that a purchase is written off over: a run of less shares it with others


def purchase_notes(cost: Cost, hours: float | None, terms: Terms) -> tuple[Note, ...]:
    """That a run pays a part of a purchase only, because other work is taken to pay the rest."""
    used = terms.years * terms.utilization * HOURS_PER_YEAR
    if cost.basis != "buy" or hours is None or hours >= SHARED_BELOW * used:
        return ()
    text = _("the run pays {share:.2g} % of the purchase: other work must use the rest of {years:g} years")
    return (Note("purchase-shared", text.format(share=100.0 * hours / used, years=terms.years)),)


def is_covered(site: Site, job: Job, calibration: Calibration) -> bool:
    """True when measurements of this very card are behind the constants of the job's kind."""
    if isinstance(job, TrainingJob | ServingJob | HpcJob):
        return covered(site.accelerator, calibration)
    training = isinstance(job, NetworkJob) and job.training
    network = calibration.network
    return site.accelerator.id in (network.trained_cards if training else network.served_cards)


def tenant_notes(site: Site, tenants: int) -> tuple[Note, ...]:
    """What each tenant of a shared card gets; its speed is the one shown."""
    if not site.share:
        return ()
    text = _("{share}; speed and memory are those of one of {n} tenants, cost and power those of all")
    return (Note("tenants", text.format(share=site.share, n=tenants)),)


def warnings_of(
    fit: MemoryFit, site: Site, cost: Cost, *, known: bool, today: str, services_asked: bool = False
) -> tuple[Note, ...]:
    """What a reader must know before relying on the option."""
    notes = []
    if fit.state == "tight":
        text = _("needs {need:.0f} % of the usable memory").format(need=100 - fit.headroom_pct)
        notes.append(Note("memory-tight", text))
    if not known:
        notes.append(Note("class-estimate", _("no measured rate of this card: its class predicts it")))
    notes += price_notes(cost, today=today, services_asked=services_asked)
    if site.accelerator.status == "legacy":
        text = _("superseded: check its supply and how long software supports it")
        notes.append(Note("legacy-part", text))
    assumed = site.accelerator.assumed
    if assumed:
        text = _("assumed in the catalog: {keys}").format(keys=_(", ").join(assumed[:4]))
        notes.append(Note("assumed-figure", text))
    return tuple(notes)


def framework_ask(candidate: Candidate, site: Site, job: Job, workload: Workload, catalog: Catalog) -> Ask:
    """What a job and its plan ask of a framework on a site."""
    method, family = method_and_family(job)
    ask = Ask(
        method, family, deployment=target_of(workload),
        licences=allowed_licences(workload.framework_licence, catalog),
    )  # fmt: skip
    plan = candidate.plan
    if isinstance(job, ServingJob):
        return replace(
            ask, weights=job.weights.id, parallel=parallel_needs(replace(plan, dp=1)), tp=int(plan.tp),
            heads=int(job.shape.n_heads),
        )  # fmt: skip
    if isinstance(job, TrainingJob):
        return replace(
            ask, precision=site.precision, parallel=parallel_needs(plan), tp=int(plan.tp),
            heads=int(job.shape.n_heads),
        )  # fmt: skip
    if isinstance(job, NetworkJob) and job.training:
        return replace(ask, precision=site.precision, parallel=parallel_needs(plan))
    return ask


def _framework(
    candidate: Candidate, site: Site, job: Job, workload: Workload, frameworks: list[Framework],
    catalog: Catalog, calibration: Calibration, nodes: int,
) -> FrameworkChoice | None:  # fmt: skip
    """The engine or runtime that the estimate used, or the library that covers the training plan."""
    if isinstance(job, HpcJob) or not frameworks:
        return None
    if isinstance(job, VideoJob) or (isinstance(job, NetworkJob) and not job.training):
        runtime = next((f for f in frameworks if f.id == site.engine_id), frameworks[0])
        why = _("runs this family of networks on the card's software stack")
        return named(runtime, why, plan=Plan(), model_name=job.label, nodes=1)
    if isinstance(job, ServingJob):
        engine = next(f for f in frameworks if f.id == site.engine_id)
        why = _("serving engine with support for this card and format, calibrated rate {rate:.2f}").format(
            rate=float(calibration.engines.get(site.engine_id, 1.0))
        )
        return named(engine, why, plan=candidate.plan, model_name=job.label, nodes=nodes)
    ask = framework_ask(candidate, site, job, workload, catalog)
    library = best(frameworks, site.accelerator, ask, catalog, calibration)
    why = training_why(library, candidate.plan)
    return named(library, why, plan=candidate.plan, model_name=job.label, nodes=nodes)


def build_option(
    candidate: Candidate,
    site: Site,
    *,
    job: Job,
    workload: Workload,
    catalog: Catalog,
    calibration: Calibration,
    defaults: CostDefaults,
    terms: Terms,
    frameworks: list[Framework],
    today: str,
) -> Option:
    """Assemble one option from the stages."""
    performance, memory = performance_of(candidate, site, job, calibration), memory_fit(candidate)
    hours = run_hours(performance)
    tenants = workload.tenants or 1  # performance is that of one, cost that of all
    per_hour = {key: tenants * performance[key].value * 3600.0 for key in UNIT_RATES if key in performance}
    weights, kv = (job.weights.id, job.kv) if isinstance(job, ServingJob) else ("", "")
    nodes = node_count(int(candidate.plan.count), site.system)
    power = deployment_power(candidate, site, defaults, serving=hours is None)
    if isinstance(job, VideoJob) and power is not None:
        performance["watts_per_stream"] = Estimate(*[float(power) / job.streams / tenants] * 3)
    samples = None if hours else per_hour.get("images_per_s") or per_hour.get("requests_per_s")
    cost = cost_of(
        candidate, site, terms=terms, workload=workload, catalog=catalog, defaults=defaults, hours=hours,
        tokens_per_hour=per_hour.get("output_tok_s"),
        samples_per_hour=samples,
        streams=float(tenants * job.streams) if isinstance(job, VideoJob) else None, power=power,
        today=today,
    )  # fmt: skip
    if isinstance(job, ServingJob):
        cost = by_kind_of_token(cost, candidate, job)
    energy = energy_of(
        site.accelerator, cost, terms=terms, workload=workload, catalog=catalog, defaults=defaults,
        count=int(candidate.plan.count), power=power, hours=hours,
        tokens_per_hour=per_hour.get("output_tok_s"), samples_per_hour=samples,
    )  # fmt: skip
    return Option(
        accelerator=site.accelerator.id,
        accelerator_name=site.accelerator.name,
        count=int(candidate.plan.count),
        nodes=nodes,
        plan=candidate.plan,
        precision=site.precision,
        weights=weights,
        kv=kv,
        framework=_framework(candidate, site, job, workload, frameworks, catalog, calibration, nodes),
        memory=memory,
        performance=performance,
        step_breakdown=breakdown_of(candidate, job),
        cost=cost,
        energy=energy,
        warnings=load_notes(candidate, job)
        + offload_notes(candidate, site, calibration)
        + video_notes(candidate, job, site, calibration)
        + scale_notes(candidate, job)
        + purchase_notes(cost, hours, terms)
        + tenant_notes(site, tenants)
        + warnings_of(
            memory, site, cost, known=is_covered(site, job, calibration), today=today,
            services_asked=bool(workload.storage or workload.egress),
        ),
    )  # fmt: skip


def by_kind_of_token(cost: Cost, candidate: Candidate, job: ServingJob) -> Cost:
    """The cost with that of prompt and answer tokens apart: each bears the machine's time that it takes.

    `per_million_tokens_usd` counts answer tokens alone and lets them bear everything.
    """
    if cost.per_million_tokens_usd is None or candidate.serving is None:
        return cost
    share, usd = float(candidate.serving.prefill_share), cost.per_million_tokens_usd
    ratio = job.output_tokens / job.input_tokens
    return replace(
        cost, per_million_input_usd=usd * share * ratio, per_million_output_usd=usd * (1.0 - share),
        per_million_blended_usd=usd * job.output_tokens / (job.input_tokens + job.output_tokens),
    )  # fmt: skip


def plan_sentence(option: Option) -> str:
    """The plan in words.

    Assumes sequence parallelism with tensor parallelism and a 1F1B pipeline.
    """
    plan = option.plan
    parts = [f"{name} {getattr(plan, name)}" for name in ("tp", "pp", "ep", "cp", "dp")
             if getattr(plan, name) > 1]  # fmt: skip
    if plan.zero_stage:
        parts.append(f"ZeRO-{plan.zero_stage}")
    if plan.recompute:
        parts.append(_("{kind} recompute").format(kind=_(RECOMPUTE[int(plan.recompute)])))
    if plan.offload:
        parts.append(_("{what} on the host").format(what=_(ON_THE_HOST[int(plan.offload)])))
    if plan.replicas > 1:
        parts.append(_("{count} replicas").format(count=plan.replicas))
    return _(", ").join(parts) or _("one accelerator")
