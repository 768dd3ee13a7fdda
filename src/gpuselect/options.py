"""From a candidate of the search to a complete option: performance, cost, energy, warnings."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog, Framework, Price, System
from gpuselect.decision import Cost, Energy, FrameworkChoice, MemoryFit, Note, Offer, Option
from gpuselect.deployment import covered
from gpuselect.frameworks import choose_engine, choose_library, choose_runtime
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.network_job import HpcJob, Job, NetworkJob, VideoJob
from gpuselect.performance import breakdown_of, performance_of, run_hours
from gpuselect.plan import RECOMPUTE
from gpuselect.search import TIGHT_FROM, Candidate, Site
from gpuselect.tco import (
    HOURS_PER_MONTH,
    CostDefaults,
    UnitPrice,
    bill,
    energy_kwh,
    ownership_per_hour,
    power_w,
    price_age_months,
    purchase_price,
    rent_price,
)
from gpuselect.units import GIB
from gpuselect.workload import Workload

CLOSE_ABOVE = 1.15  # a miss up to this share of the usable memory is said to be close
STALE_MONTHS = 6.0
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
        "weights": memory.weights, "gradients": memory.gradients, "optimizer": memory.optimizer,
        "activations": memory.activations, "kv_cache": memory.kv_cache,
        "temporaries": memory.temporaries, "overhead": memory.overhead,
    }  # fmt: skip
    return MemoryFit(
        per_accelerator_gib=float(memory.total) / GIB,
        usable_gib=candidate.usable / GIB,
        breakdown_gib={key: float(value) / GIB for key, value in parts.items() if value},
        state=fit_state(float(memory.total), candidate.usable),
    )


def offer_of(row: Price) -> Offer:
    """What a report shows of a price row."""
    return Offer(
        provider=row.provider, instance=row.instance, region=row.region, term=row.term,
        as_of=row.as_of, source=row.source, is_offer=row.is_offer,
    )  # fmt: skip


def node_count(count: int, system: System | None) -> int:
    """Nodes that hold `count` accelerators."""
    return ceil(count / int(system.accelerators_per_node)) if system else count


def deployment_power(
    candidate: Candidate, site: Site, defaults: CostDefaults, *, serving: bool
) -> float | None:
    """Power of the deployment [W], None when the board power is unknown."""
    if site.accelerator.power_w is None:
        return None
    share = defaults.serving_power_share if serving else defaults.training_power_share
    count = float(candidate.plan.count)
    host = float(site.system.host_power_w or 0.0) if site.system else 0.0
    per_node = float(site.system.accelerators_per_node) if site.system else 1.0
    nodes = count / per_node  # the share of a node that is used
    return power_w(
        count=count, accelerator_w=float(site.accelerator.power_w), host_w=host, nodes=nodes,
        share=float(share),
    )  # fmt: skip


def _sharing_a_node(candidate: Candidate) -> int:
    """Accelerators that must sit in one instance: all of a training run, one replica of a server."""
    plan = candidate.plan
    return int(plan.count // plan.replicas)


def _rented(
    candidate: Candidate, site: Site, workload: Workload, prices: Sequence[Price]
) -> UnitPrice | None:
    """On-demand rent of a candidate, None when no row is known or renting is not wanted."""
    if workload.acquire == "buy":
        return None
    per_node = int(site.system.accelerators_per_node) if site.system else 1
    return rent_price(
        prices=prices, hardware=site.accelerator.id, count=int(candidate.plan.count),
        together=min(_sharing_a_node(candidate), per_node), region=workload.region,
    )  # fmt: skip


def _bought(
    candidate: Candidate, site: Site, workload: Workload, prices: Sequence[Price], defaults: CostDefaults,
    today: str,
) -> tuple[UnitPrice, float] | None:  # fmt: skip
    """Price row and acquisition cost [USD] with server and network share; None when unknown."""
    if workload.acquire == "rent":
        return None
    row, with_server = purchase_price(prices=prices, hardware=site.accelerator.id, today=today)
    if row is None:
        return None
    alone = site.system is None or int(site.system.accelerators_per_node) == 1
    factor = 1.0 if with_server or alone else float(defaults.server_factor)
    count = int(candidate.plan.count)
    network = float(defaults.network_share) if node_count(count, site.system) > 1 else 0.0
    return row, bill(row.row, count) * factor / (1.0 - network)


def cost_of(
    candidate: Candidate,
    site: Site,
    *,
    workload: Workload,
    catalog: Catalog,
    defaults: CostDefaults,
    hours: float | None,
    tokens_per_hour: float | None,
    samples_per_hour: float | None,
    power: float | None,
    today: str,
) -> Cost:
    """Rent and purchase of a candidate; rent counts per hour where both are known."""
    prices = catalog.prices_of.get(site.accelerator.id, ())
    rented = _rented(candidate, site, workload, prices)
    bought = _bought(candidate, site, workload, prices, defaults, today) if power is not None else None
    rent = owned = None
    items: list[tuple[str, float, str]] = []
    if rented is not None:
        rent = rented.usd * int(candidate.plan.count)
        items.append((_("rent"), rent, "hour"))
    if bought is not None and power is not None:
        owned = ownership_per_hour(
            acquisition=bought[1], power=power, defaults=defaults,
            years=float(workload.years or defaults.years),
            utilization=float(workload.utilization or defaults.utilization),
            electricity=float(defaults.electricity_usd_kwh),
        )  # fmt: skip
        items.append((_("purchase with server and network share"), bought[1], "once"))
        items.append((_("owned, per used hour"), owned, "hour"))
    hourly = rent if rent is not None else owned
    return Cost(
        per_hour_usd=hourly,
        per_run_usd=None if hourly is None or hours is None else hourly * hours,
        per_month_usd=None if hourly is None or hours is not None else hourly * HOURS_PER_MONTH,
        per_million_tokens_usd=None
        if hourly is None or not tokens_per_hour
        else hourly / tokens_per_hour * 1e6,
        per_thousand_images_usd=None
        if hourly is None or not samples_per_hour or tokens_per_hour
        else hourly / samples_per_hour * 1e3,
        acquisition_usd=None if bought is None else bought[1],
        buy_per_hour_usd=owned,
        items=tuple(items),
        offer=None if rented is None else offer_of(rented.row),
        purchase=None if bought is None else offer_of(bought[0].row),
    )


def is_covered(site: Site, job: Job, calibration: Calibration) -> bool:
    """True when measurements of this very card are behind the constants of the job's kind."""
    if isinstance(job, TrainingJob | ServingJob | HpcJob):
        return covered(site.accelerator, calibration)
    training = isinstance(job, NetworkJob) and job.training
    network = calibration.network
    return site.accelerator.id in (network.trained_cards if training else network.served_cards)


def warnings_of(candidate: Candidate, site: Site, cost: Cost, *, known: bool, today: str) -> tuple[Note, ...]:
    """What a reader must know before relying on the option."""
    notes = []
    fit = memory_fit(candidate)
    if fit.state == "tight":
        text = _("needs {need:.0f} % of the usable memory").format(need=100 - fit.headroom_pct)
        notes.append(Note("memory-tight", text))
    if not known:
        notes.append(Note("class-estimate", _("no measured rate of this card: its class predicts it")))
    paid = cost.offer or cost.purchase
    if paid is not None:
        age = price_age_months(as_of=paid.as_of, today=today)
        if age is None:
            notes.append(Note("price-undated", _("the price of {p} is undated").format(p=paid.provider)))
        elif age > STALE_MONTHS:
            notes.append(Note("price-stale", _("the price is {age:.0f} months old").format(age=age)))
        if not paid.is_offer:
            notes.append(Note("price-not-an-offer", _("the price is a market figure, not an offer")))
    if site.accelerator.status == "legacy":
        text = _("superseded: check its supply and how long software supports it")
        notes.append(Note("legacy-part", text))
    assumed = site.accelerator.assumed
    if assumed:
        text = _("assumed in the catalog: {keys}").format(keys=", ".join(assumed[:4]))
        notes.append(Note("assumed-figure", text))
    return tuple(notes)


def _framework(
    candidate: Candidate, site: Site, job: Job, frameworks: list[Framework],
    calibration: Calibration, nodes: int,
) -> FrameworkChoice | None:  # fmt: skip
    """The engine or runtime that the estimate used, or the library that covers the training plan."""
    if isinstance(job, HpcJob) or not frameworks:
        return None
    if isinstance(job, VideoJob) or (isinstance(job, NetworkJob) and not job.training):
        return choose_runtime(candidates=frameworks, runtime=site.engine_id, model_name=job.label)
    if isinstance(job, ServingJob):
        return choose_engine(
            candidates=frameworks, engine=site.engine_id, plan=candidate.plan, model_name=job.label,
            rate=float(calibration.engines.get(site.engine_id, 1.0)), nodes=nodes,
        )  # fmt: skip
    return choose_library(candidates=frameworks, plan=candidate.plan, model_name=job.label, nodes=nodes)


def build_option(
    candidate: Candidate,
    site: Site,
    *,
    job: Job,
    workload: Workload,
    catalog: Catalog,
    calibration: Calibration,
    defaults: CostDefaults,
    frameworks: list[Framework],
    today: str,
) -> Option:
    """Assemble one option from the stages."""
    performance = performance_of(candidate, site, job, calibration)
    hours = run_hours(performance)
    per_hour = {key: performance[key].value * 3600.0 for key in UNIT_RATES if key in performance}
    weights, kv = (job.weights.id, job.kv) if isinstance(job, ServingJob) else ("", "")
    nodes = node_count(int(candidate.plan.count), site.system)
    power = deployment_power(candidate, site, defaults, serving=hours is None)
    cost = cost_of(
        candidate, site, workload=workload, catalog=catalog, defaults=defaults, hours=hours,
        tokens_per_hour=per_hour.get("output_tok_s"),
        samples_per_hour=None if hours else per_hour.get("images_per_s") or per_hour.get("requests_per_s"),
        power=power, today=today,
    )  # fmt: skip
    kwh = None
    if power is not None:
        kwh = energy_kwh(power=power, hours=hours or HOURS_PER_MONTH, pue=float(defaults.pue))
    return Option(
        accelerator=site.accelerator.id,
        accelerator_name=site.accelerator.name,
        count=int(candidate.plan.count),
        nodes=nodes,
        plan=candidate.plan,
        precision=site.precision,
        weights=weights,
        kv=kv,
        framework=_framework(candidate, site, job, frameworks, calibration, nodes),
        memory=memory_fit(candidate),
        performance=performance,
        step_breakdown=breakdown_of(candidate, job),
        cost=cost,
        energy=Energy(
            power_w=power, kwh=kwh,
            kgco2e=None if kwh is None else kwh * float(defaults.carbon_g_kwh) / 1000.0,
        ),
        warnings=warnings_of(
            candidate, site, cost, known=is_covered(site, job, calibration), today=today
        ),
    )  # fmt: skip


def plan_sentence(option: Option) -> str:
    """The plan in words.

    Assumes sequence parallelism with tensor parallelism and a 1F1B pipeline.
    """
    plan = option.plan
    parts = [f"{name} {getattr(plan, name)}" for name in ("tp", "pp", "ep", "cp", "dp", "replicas")
             if getattr(plan, name) > 1]  # fmt: skip
    if plan.zero_stage:
        parts.append(f"ZeRO-{plan.zero_stage}")
    if plan.recompute:
        parts.append(_("{kind} recompute").format(kind=RECOMPUTE[int(plan.recompute)]))
    return ", ".join(parts) or _("one accelerator")
