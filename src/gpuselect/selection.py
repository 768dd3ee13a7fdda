"""Which set-ups count: what work costs, which count of a card stands for it, what misses a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuselect.decision import Note, Option
from gpuselect.i18n import _, labelled
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.network_job import HpcJob, Job, NetworkJob
from gpuselect.performance import run_hours
from gpuselect.tco import HOURS_PER_MONTH, HOURS_PER_YEAR
from gpuselect.units import DAYS
from gpuselect.workload import Workload

LEAST_HOURS = 1.0  # that a run is compared for; judgement
NEARLY = 0.95  # of the best speed: not told apart (docs/methodology.md)
LONGEST_RUN_DAYS = 5 * 365.0  # a run that outlives the hardware is no answer, deadline or not


def work_cost(option: Option) -> float | None:
    """What the work costs: the run, or a million tokens, or an hour [USD]."""
    cost = option.cost
    if cost.per_run_usd is not None:
        return cost.per_run_usd
    units = (cost.per_million_tokens_usd, cost.per_thousand_images_usd, cost.per_hour_usd)
    return next((usd for usd in units if usd is not None), None)


def run_cost(option: Option) -> float | None:
    """The cost that options are compared by [USD]: that of the work, but a run counts as one hour at least.

    A rack that is set up, used for two minutes and given back is no cheap answer.
    """
    usd, hours = work_cost(option), run_hours(option.performance)
    if usd is None or option.cost.per_run_usd is None or not hours:
        return usd
    return usd * max(1.0, LEAST_HOURS / hours)


SPEEDS = ("tokens_per_s", "output_tok_s", "images_per_s", "streams", "requests_per_s")


def speed(option: Option) -> float:
    """Work per time: tokens, images, requests or streams; for a code the runs per hour."""
    performance = option.performance
    key = next((key for key in SPEEDS if key in performance), None)
    return performance[key].value if key else 1.0 / performance["run_time_h"].value


def order_key(option: Option) -> tuple[float, float, int, str]:
    """Best first: the total to three digits, then the lower cost, then fewer cards, then the name."""
    cost = run_cost(option)
    return (
        -round(option.score.total, 3), float("inf") if cost is None else cost, option.count,
        option.accelerator,
    )  # fmt: skip


def days(option: Option) -> float | None:
    """Length of a run that ends [days], None for a service."""
    hours = run_hours(option.performance)
    return None if hours is None else hours / 24.0


def ends(job: Job) -> bool:
    """True for work that has an end and a deadline: training, and a code."""
    return isinstance(job, TrainingJob | HpcJob) or (isinstance(job, NetworkJob) and job.training)


def select(
    options: Sequence[Option], *, workload: Workload, job: Job, stretch: tuple[float, float] | None = None
) -> tuple[list[Option], dict[str, Note]]:
    """One option per accelerator, and the reason of those that miss deadline or budget.

    Training: the cheapest count that finishes within the deadline (a default deadline is a wish: when
    no card meets it, the fastest count of each stands in). Serving: the smallest count that fits and
    meets the bounds, of cards that one owns the fastest. `stretch` is given where speed counts more than
    cost: then the fastest count that has at most so many times the cost and the accelerators of that one
    stands for the card.
    """
    groups: dict[str, list[Option]] = {}
    for option in options:
        groups.setdefault(option.accelerator, []).append(option)
    chosen, late, missed = [], [], {}
    for name, group in groups.items():
        pool = group
        if ends(job):
            within = [o for o in pool if in_time(o, job)]
            if not within:
                best = min(pool, key=lambda o: days(o) or 0.0)
                if (days(best) or 0.0) <= LONGEST_RUN_DAYS:
                    late.append(best)
                missed[name] = Note(
                    "deadline-missed",
                    _("{n} accelerators need {d:.1f} days").format(n=best.count, d=days(best)),
                )
                continue
            pool = within
        affordable = [o for o in pool if within_budget(o, workload)]
        if not affordable:
            missed[name] = _over_budget(pool, workload)
            continue
        owned = isinstance(job, ServingJob) and bool(workload.have)
        usual = _best_owned(affordable) if owned else min(affordable, key=_count_key)
        if stretch is not None:
            cost, cards = stretch
            reach = [o for o in affordable if o.count <= cards * usual.count]
            usual = fastest(undominated(reach), within=cost)
        chosen.append(usual)
    only_late = all(note.code == "deadline-missed" for note in missed.values())
    if not getattr(job, "deadline_given", True) and not chosen and only_late:
        chosen = [o for o in late if within_budget(o, workload)]
    return chosen, missed


def _best_owned(options: Sequence[Option]) -> Option:
    """Of cards that are there anyway the fastest count; fewer where they are nearly as fast."""
    best = max(speed(option) for option in options)
    return min((o for o in options if speed(o) >= NEARLY * best), key=lambda o: (o.count, -speed(o)))


def _over_budget(pool: Sequence[Option], workload: Workload) -> Note:
    """Which budget no count keeps: money, or carbon."""
    limit = workload.carbon_budget
    if limit is not None and not any(within_carbon_budget(o, limit) for o in pool):
        known = [o.energy.kgco2e for o in pool if o.energy.kgco2e is not None]
        if not known:
            return Note("over-carbon", _("its power is unknown"))
        return Note("over-carbon", _("at least {kg:.4g} kg CO2e").format(kg=min(known)))
    return Note("over-budget", _budget_text(pool))


def _budget_text(pool: Sequence[Option]) -> str:
    """What the cheapest fitting count costs."""
    least = min((o for o in pool if work_cost(o)), key=lambda o: work_cost(o) or 0.0, default=None)
    if least is None:
        return _("no price is known")
    return _("the cheapest fitting count, {n}, costs ${c:.4g} ({h:.4g} per hour)").format(
        n=least.count, c=work_cost(least), h=least.cost.per_hour_usd
    )


def closest_late(options: Sequence[Option], missed: Mapping[str, Note]) -> tuple[Note, ...]:
    """The five cards that came nearest to the deadline or the budget, with what they would need."""
    best: dict[str, Option] = {}
    dear = any(note.code == "over-budget" for note in missed.values())
    unknown = float("inf")
    order = sorted(
        options,
        key=lambda o: (work_cost(o) or unknown if dear else days(o) or 0.0, o.count, o.accelerator),
    )
    for option in order:
        best.setdefault(option.accelerator, option)
    return tuple(
        Note(missed[name].code, labelled(name, missed[name].text))
        for name in list(best)[:5]
        if name in missed
    )


def _count_key(option: Option) -> tuple[float, float]:
    """Cheapest first, then smallest; without a price the smallest."""
    if days(option) is not None:
        cost = run_cost(option)
        return (round(cost or 0.0, 2), option.count)
    return (float(option.count), 0.0)


def undominated(options: Sequence[Option]) -> list[Option]:
    """Options without those that fewer cards of the same kind beat or equal in speed and in cost."""
    kept: list[Option] = []
    best: dict[str, list[tuple[float, float]]] = {}
    for option in sorted(options, key=lambda o: (o.count, o.accelerator)):
        cost = run_cost(option)
        point = (float("inf") if cost is None else cost, -speed(option))
        seen = best.setdefault(option.accelerator, [])
        if not any(c <= point[0] and s <= point[1] for c, s in seen):
            seen.append(point)
            kept.append(option)
    return kept


def fastest(options: Sequence[Option], *, within: float) -> Option:
    """The fastest of those that cost at most `within` times the cheapest; of all where no cost is known."""
    costs = [c for o in options if (c := run_cost(o)) is not None]
    pool = [o for o in options if (run_cost(o) or 0.0) <= within * min(costs)] if costs else list(options)
    pool = [o for o in pool if run_cost(o) is not None] or pool
    return max(pool, key=lambda o: (speed(o), -(run_cost(o) or 0.0), -o.count, o.accelerator))


def within_budget(option: Option, workload: Workload) -> bool:
    """True when the option's cost is inside the budget, or no budget was given. Unknown cost is not.

    A budget per hour, month or year holds for the whole deployment, or for one accelerator where it
    says so; one without a period holds for the run, or for the purchase when buying.
    """
    budget = workload.budget
    if workload.carbon_budget is not None and not within_carbon_budget(option, workload.carbon_budget):
        return False
    if budget is None:
        return True
    cost = option.cost
    periods = {"hour": 1.0, "month": HOURS_PER_MONTH, "year": HOURS_PER_YEAR}
    value = cost.acquisition_usd if cost.basis == "buy" or workload.acquire == "buy" else work_cost(option)
    if budget.per in periods:
        value = None if cost.per_hour_usd is None else cost.per_hour_usd * periods[budget.per]
        if budget.per != "hour" and cost.per_month_usd is not None:  # a service: the hours in use
            value = cost.per_month_usd * periods[budget.per] / HOURS_PER_MONTH
    elif budget.per == "million-tokens":
        value = cost.per_million_tokens_usd
    limit = budget.amount * (option.count if budget.per_accelerator else 1)
    return value is not None and value <= limit


def within_carbon_budget(option: Option, limit: float) -> bool:
    """True when operation and the share of making the hardware stay below a limit [kg CO2e].

    Unknown carbon of operation is not inside; unknown embodied carbon is left out.
    """
    energy = option.energy
    return energy.kgco2e is not None and energy.kgco2e + (energy.embodied_kgco2e or 0.0) <= limit


def in_time(option: Option, job: Job) -> bool:
    """True when a run ends before the deadline; a service has none."""
    limit = getattr(job, "deadline_s", None)
    return limit is None or not ends(job) or (days(option) or 0.0) * DAYS <= limit
