"""Which count of each card stands for it, how the cards rank, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuselect.catalog import Catalog
from gpuselect.decision import Note, Option, Score
from gpuselect.i18n import _
from gpuselect.job import TrainingJob
from gpuselect.network_job import HpcJob, Job, NetworkJob
from gpuselect.options import plan_sentence
from gpuselect.performance import run_hours
from gpuselect.score import PROFILES, normalised_log, normalised_low, pareto_front, total
from gpuselect.tco import HOURS_PER_MONTH, HOURS_PER_YEAR
from gpuselect.units import DAYS
from gpuselect.workload import Workload

SHORTLIST = 10
LONGEST_RUN_DAYS = 5 * 365.0  # a run that outlives the hardware is no answer, deadline or not


def run_cost(option: Option) -> float | None:
    """What the work costs: the run, or a million tokens, or an hour [USD]."""
    cost = option.cost
    if cost.per_run_usd is not None:
        return cost.per_run_usd
    units = (cost.per_million_tokens_usd, cost.per_thousand_images_usd, cost.per_hour_usd)
    return next((usd for usd in units if usd is not None), None)


SPEEDS = ("tokens_per_s", "output_tok_s", "images_per_s", "streams", "requests_per_s")


def speed(option: Option) -> float:
    """Work per time: tokens, images, requests or streams; for a code the runs per hour."""
    performance = option.performance
    key = next((key for key in SPEEDS if key in performance), None)
    return performance[key].value if key else 1.0 / performance["run_time_h"].value


def days(option: Option) -> float | None:
    """Length of a run that ends [days], None for a service."""
    hours = run_hours(option.performance)
    return None if hours is None else hours / 24.0


def ends(job: Job) -> bool:
    """True for work that has an end and a deadline: training, and a code."""
    return isinstance(job, TrainingJob | HpcJob) or (isinstance(job, NetworkJob) and job.training)


def select(
    options: Sequence[Option], *, workload: Workload, job: Job
) -> tuple[list[Option], dict[str, Note]]:
    """One option per accelerator, and the reason of those that miss deadline or budget.

    Training: the cheapest count that finishes within the deadline (a default deadline is a wish: when
    no card meets it, the fastest count of each stands in). Serving: the smallest count that fits and
    meets the bounds.
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
        chosen.append(min(affordable, key=_count_key))
    only_late = all(note.code == "deadline-missed" for note in missed.values())
    if not getattr(job, "deadline_given", True) and not chosen and only_late:
        chosen = [o for o in late if within_budget(o, workload)]
    return chosen, missed


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
    least = min((o for o in pool if run_cost(o)), key=lambda o: run_cost(o) or 0.0, default=None)
    if least is None:
        return _("no price is known")
    return _("the cheapest fitting count, {n}, costs ${c:.4g} ({h:.4g} per hour)").format(
        n=least.count, c=run_cost(least), h=least.cost.per_hour_usd
    )


def closest_late(options: Sequence[Option], missed: Mapping[str, Note]) -> tuple[Note, ...]:
    """The five cards that came nearest to the deadline or the budget, with what they would need."""
    best: dict[str, Option] = {}
    dear = any(note.code == "over-budget" for note in missed.values())
    unknown = float("inf")
    order = sorted(
        options,
        key=lambda o: (run_cost(o) or unknown if dear else days(o) or 0.0, o.count, o.accelerator),
    )
    for option in order:
        best.setdefault(option.accelerator, option)
    return tuple(
        Note(missed[name].code, f"{name}: {missed[name].text}") for name in list(best)[:5] if name in missed
    )


def _count_key(option: Option) -> tuple[float, float]:
    """Cheapest first, then smallest; without a price the smallest."""
    if days(option) is not None:
        cost = run_cost(option)
        return (round(cost or 0.0, 2), option.count)
    return (float(option.count), 0.0)


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
    value = cost.acquisition_usd if cost.basis == "buy" or workload.acquire == "buy" else run_cost(option)
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


def criteria_of(options: Sequence[Option], catalog: Catalog) -> list[dict[str, float]]:
    """Scores 0..1 of each option in each criterion that is known for it."""
    costs = [run_cost(o) for o in options]
    known = [c for c in costs if c]
    least = min(known) if known else 1.0
    speeds = normalised_log([speed(o) for o in options])
    energies = [o.energy.kwh for o in options]
    known_energy = [e for e in energies if e]
    support = ecosystem(options, catalog)
    found = []
    for i, option in enumerate(options):
        scores = {
            "speed": speeds[i],
            "headroom": max(0.0, min(1.0, option.memory.headroom_pct / 50.0)),
            "ecosystem": support[i],
            "scalability": 1.0 / (1.0 + max(option.nodes - 1, 0) / 8.0),
            "risk": max(0.0, 1.0 - 0.2 * len(option.warnings)),
        }
        cost, energy = costs[i], energies[i]
        if cost:
            scores["cost"] = least / cost
        if energy:
            scores["energy"] = normalised_low([min(known_energy), energy])[1]
        found.append(scores)
    return found


def ecosystem(options: Sequence[Option], catalog: Catalog) -> list[float]:
    """Breadth of software: share of the catalog's frameworks that fully support the card's stack."""
    counts = []
    for option in options:
        stacks = catalog.accelerators[option.accelerator].software
        counts.append(
            sum(any(f.backends.get(s) == "yes" for s in stacks) for f in catalog.frameworks.values())
        )
    most = max(*counts, 1)
    return [count / most for count in counts]


def rank(
    chosen: Sequence[Option],
    everything: Sequence[Option],
    *,
    workload: Workload,
    catalog: Catalog,
    job: Job,
) -> tuple[list[Option], list[Option]]:
    """Score and sort: options with a known price, ranked, and those without, in a list of their own.

    The first list holds the best option per card and, beside it, the smallest, cheapest and fastest
    set-up where those are other counts.
    """
    scored = _scored(list(chosen), workload, catalog)
    priced = [o for o in scored if run_cost(o) is not None]
    unpriced = [o for o in scored if run_cost(o) is None]
    affordable = [o for o in everything if within_budget(o, workload)]
    ranked = _with_roles(_ties(priced), affordable, job) if priced else []
    return (
        [replace(o, reasons=reasons(o, scored)) for o in ranked],
        [replace(o, reasons=reasons(o, scored)) for o in unpriced],
    )


def criteria_weights(workload: Workload) -> Mapping[str, float]:
    """The user's weights of the criteria, or those of the profile."""
    return workload.criterion_weights or PROFILES[workload.prefer or "balanced"]


def _scored(pool: list[Option], workload: Workload, catalog: Catalog) -> list[Option]:
    """Options with scores, best first; the Pareto front is that of cost and speed."""
    if not pool:
        return []
    weights = criteria_weights(workload)
    criteria = criteria_of(pool, catalog)
    front = pareto_front([(run_cost(o) or 1e18, -speed(o)) for o in pool])
    scored = [
        replace(o, score=Score(total(c, weights), c), on_pareto_front=f)
        for o, c, f in zip(pool, criteria, front, strict=True)
    ]
    return sorted(scored, key=lambda o: (-o.score.total, o.accelerator))


def _ties(scored: list[Option]) -> list[Option]:
    """Mark the options whose score is within 2 % of the winner's."""
    best = scored[0].score.total
    return [scored[0]] + [replace(o, tied_with_winner=o.score.total >= 0.98 * best) for o in scored[1:]]


def _with_roles(scored: list[Option], everything: Sequence[Option], job: Job) -> list[Option]:
    """Name the best, smallest, cheapest and fastest set-up; those of other counts follow the winner."""
    cards = {o.accelerator: o for o in scored}
    pool = [o for o in everything if o.accelerator in cards and run_cost(o) is not None]
    early = [o for o in pool if in_time(o, job)] or pool
    picks = {
        "best": scored[0],
        "smallest": min(pool, key=lambda o: (o.count, run_cost(o) or 0.0, o.accelerator)),
        "cheapest": min(early, key=lambda o: (run_cost(o) or 0.0, o.count, o.accelerator)),
        "fastest": max(early, key=lambda o: (speed(o), -(run_cost(o) or 0.0))),
    }
    roles: dict[tuple[str, int], tuple[str, ...]] = {}
    for role, option in picks.items():
        key = (option.accelerator, option.count)
        roles[key] = (*roles.get(key, ()), role)
    listed = {(o.accelerator, o.count) for o in scored}
    extra = [
        replace(o, score=cards[o.accelerator].score)
        for key, o in {(p.accelerator, p.count): p for p in picks.values()}.items()
        if key not in listed
    ]
    named = [replace(o, roles=roles.get((o.accelerator, o.count), ())) for o in [*scored, *extra]]
    plain = [o for o in named if not o.roles][: max(SHORTLIST - len(roles), 0)]
    shown = [o for o in named if o.roles or o in plain]
    return sorted(shown, key=lambda o: ((o.accelerator, o.count) not in listed, -o.score.total))


def in_time(option: Option, job: Job) -> bool:
    """True when a run ends before the deadline; a service has none."""
    limit = getattr(job, "deadline_s", None)
    return limit is None or not ends(job) or (days(option) or 0.0) * DAYS <= limit


def reasons(option: Option, scored: Sequence[Option]) -> tuple[Note, ...]:
    """Why this option stands where it does: plan, and what it does best or worst among all."""
    notes = [Note("plan", plan_sentence(option))]
    ahead = [
        name for name, value in option.score.criteria.items()
        if value >= max(o.score.criteria.get(name, 0.0) for o in scored) - 1e-9
    ]  # fmt: skip
    if ahead:
        notes.append(Note("leads", _("best of all in {what}").format(what=", ".join(ahead))))
    best_cost = min((c for o in scored if (c := run_cost(o))), default=None)
    cost = run_cost(option)
    if cost and best_cost and cost > 1.005 * best_cost:
        notes.append(Note("costs-more", _("costs {x:.2f} times the cheapest").format(x=cost / best_cost)))
    fastest = max(speed(o) for o in scored)
    notes.append(
        Note(
            "speed",
            _("{p:.0f} % of the speed of the fastest option").format(p=100 * speed(option) / fastest),
        )
    )
    return tuple(notes)


def sensitivity(options: Sequence[Option], workload: Workload) -> tuple[Note, ...]:
    """The price at which the runner-up would win, all else equal, and a tie with the winner."""
    ranked = [o for o in options if o.score.criteria]
    if len(ranked) < 2:
        return ()
    first, second = ranked[0], ranked[1]
    notes = []
    share = _winning_share(first, second, ranked, criteria_weights(workload))
    if share is not None:
        text = _("{second} would rank first at {p:.0f} % of its price").format(
            second=second.accelerator, p=100 * share
        )
        notes.append(Note("price-of-second", text))
    if second.tied_with_winner:
        notes.append(
            Note("tie", _("{a} and {b} score within 2 %: a tie, listed by score").format(
                a=first.accelerator, b=second.accelerator))
        )  # fmt: skip
    return tuple(notes)


def _winning_share(
    first: Option, second: Option, ranked: Sequence[Option], weights: Mapping[str, float]
) -> float | None:
    """Share of its price at which `second` scores as much as `first`; None when no price above 10 % does.

    With x the new cost and L the least cost of the others, the cost scores are min(L, x) / x and
    min(L, x) / c1; the two cases x >= L and x < L each have a closed solution.
    """
    c1, c2, weight = run_cost(first), run_cost(second), weights.get("cost", 0.0)
    gap = first.score.total - second.score.total
    if not c1 or not c2 or not weight or gap <= 0:
        return None
    mass = sum(weights.get(key, 0.0) for key in first.score.criteria)
    lead = gap * mass / weight - first.score.criteria["cost"] + second.score.criteria["cost"]
    least = min(c for o in ranked if o.accelerator != second.accelerator and (c := run_cost(o)))
    needed = lead + least / c1
    x = least / needed if 0.0 < needed <= 1.0 else c1 * (1.0 - lead)
    return x / c2 if 0.1 < x / c2 < 1.0 else None


def next_commands(
    options: Sequence[Option], workload: Workload, reasons: Sequence[Note] = ()
) -> tuple[str, ...]:
    """What a user would do next: look closer at the best option, or at the reason that ruled all out."""
    flags = command_flags(workload)
    if not options:
        code = reasons[0].code if reasons else "memory-exceeded"
        return (f"gpuselect explain {code}", f"gpuselect recommend {flags}")
    best = options[0]
    return (
        f"gpuselect estimate {flags} --on {best.count}x{best.accelerator}",
        f"gpuselect report {flags} -o decision.md",
    )


FLAG_KEYS = (
    "model", "method", "weights", "kv", "precision", "seq_len", "global_batch", "optimizer",
    "input_tokens", "output_tokens", "concurrency", "request_rate", "latency", "batch", "image_size",
    "steps", "samples", "epochs", "streams", "fps", "codec", "interval", "fp64", "flops", "bytes",
    "memory", "tp", "pp", "dp", "micro_batch", "recompute",
    "acquire", "term", "region", "utilization", "years", "wacc", "residual", "support", "licence", "staff",
    "colocation", "electricity", "pue", "carbon", "carbon_price", "carbon_budget", "storage", "egress",
    "interruptions", "checkpoint", "restart",
)  # fmt: skip


def command_flags(workload: Workload) -> str:
    """The flags that name the workload, as a user would type them."""
    parts = [f"--task {workload.task}"]
    if workload.params is not None:
        parts.append(f"--params {workload.params.total / 1e9:.4g}B")
    if workload.tokens is not None:
        parts.append(f"--tokens {workload.tokens / 1e9:.4g}B")
    for key in FLAG_KEYS:
        value = getattr(workload, key)
        flag = f"--{key.replace('_', '-')}"
        if isinstance(value, bool):
            parts.append(flag if value else flag.replace("--", "--no-", 1))
        elif value is not None:
            parts.append(f"{flag} {value:g}" if isinstance(value, float) else f"{flag} {value}")
    if workload.resolution is not None:
        parts.append("--resolution {}x{}".format(*workload.resolution))
    return " ".join(parts)
