"""Which count of each card stands for it, how the cards rank, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuselect.catalog import Catalog
from gpuselect.decision import Note, Option, Score
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.options import plan_sentence
from gpuselect.score import PROFILES, normalised_log, normalised_low, pareto_front, total
from gpuselect.workload import Workload


def run_cost(option: Option) -> float | None:
    """What the work costs: the run, or a million tokens, or an hour [USD]."""
    cost = option.cost
    if cost.per_run_usd is not None:
        return cost.per_run_usd
    return (
        cost.per_million_tokens_usd
        if cost.per_million_tokens_usd is not None
        else cost.per_hour_usd
    )


def speed(option: Option) -> float:
    """Work per time: tokens per second."""
    performance = option.performance
    return performance["tokens_per_s" if "tokens_per_s" in performance else "output_tok_s"].value


def days(option: Option) -> float | None:
    """Time to train [days], None for serving."""
    found = option.performance.get("time_to_train_days")
    return None if found is None else found.value


def select(
    options: Sequence[Option], *, workload: Workload, job: TrainingJob | ServingJob
) -> tuple[list[Option], dict[str, Note]]:
    """One option per accelerator, and the reason of those that miss deadline or budget.

    Training: the cheapest count that finishes within the deadline (a default deadline is a wish: the
    fastest count stands in when none meets it). Serving: the smallest count that fits and meets the
    bounds.
    """
    groups: dict[str, list[Option]] = {}
    for option in options:
        groups.setdefault(option.accelerator, []).append(option)
    chosen, missed = [], {}
    for name, group in groups.items():
        pool = group
        if isinstance(job, TrainingJob):
            within = [o for o in pool if (days(o) or 0.0) * 86_400.0 <= job.deadline_s]
            if not within and job.deadline_given:
                best = min(pool, key=lambda o: days(o) or 0.0)
                missed[name] = Note(
                    "deadline-missed",
                    _("{n} accelerators need {d:.1f} days").format(n=best.count, d=days(best)),
                )
                continue
            pool = within or [min(pool, key=lambda o: days(o) or 0.0)]
        affordable = [o for o in pool if within_budget(o, workload)]
        if not affordable:
            missed[name] = Note("over-budget", _("every fitting count costs more than the budget"))
            continue
        chosen.append(min(affordable, key=_count_key))
    return chosen, missed


def _count_key(option: Option) -> tuple[float, float]:
    """Cheapest first, then smallest; without a price the smallest."""
    if days(option) is not None:
        cost = run_cost(option)
        return (round(cost or 0.0, 2), option.count)
    return (float(option.count), 0.0)


def within_budget(option: Option, workload: Workload) -> bool:
    """True when the option's cost is inside the budget, or no budget was given. Unknown cost is not."""
    budget = workload.budget
    if budget is None:
        return True
    cost = option.cost
    value = {
        "hour": cost.per_hour_usd,
        "month": cost.per_month_usd
        or (None if cost.per_hour_usd is None else cost.per_hour_usd * 730.0),
        "million-tokens": cost.per_million_tokens_usd,
    }.get(budget.per, cost.acquisition_usd if workload.acquire == "buy" else run_cost(option))
    return value is not None and value <= budget.amount


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
            sum(
                any(f.backends.get(s) == "yes" for s in stacks) for f in catalog.frameworks.values()
            )
        )
    return [count / max(max(counts), 1) for count in counts]


def rank(
    chosen: Sequence[Option],
    everything: Sequence[Option],
    *,
    workload: Workload,
    catalog: Catalog,
    job: TrainingJob | ServingJob,
) -> list[Option]:
    """Score, sort, name roles (smallest, cheapest, fastest), mark the Pareto front and ties."""
    if not chosen:
        return []
    pool = list(chosen)
    weights = workload.criterion_weights or PROFILES[workload.prefer or "balanced"]
    criteria = criteria_of(pool, catalog)
    front = pareto_front([(run_cost(o) or 1e18, -speed(o)) for o in pool])
    scored = [
        replace(o, score=Score(total(c, weights), c), on_pareto_front=f)
        for o, c, f in zip(pool, criteria, front, strict=True)
    ]
    scored.sort(key=lambda o: (-o.score.total, o.accelerator))
    scored = _ties(scored)
    return [replace(o, reasons=reasons(o, scored)) for o in _roles(scored, everything, job)]


def _ties(scored: list[Option]) -> list[Option]:
    """Mark options whose cost intervals overlap the winner's and whose score is within 2 %."""
    best = scored[0]
    marked = [best]
    for option in scored[1:]:
        close = option.score.total >= 0.98 * best.score.total
        marked.append(replace(option, tied_with_winner=close))
    return marked


def _roles(
    scored: list[Option], everything: Sequence[Option], job: TrainingJob | ServingJob
) -> list[Option]:
    """Add the smallest, the cheapest and the fastest set-up, with the counts that make them so."""
    roles: dict[tuple[str, int], list[str]] = {(scored[0].accelerator, scored[0].count): ["best"]}
    named = {o.accelerator for o in scored}
    pool = [o for o in everything if o.accelerator in named]
    priced = [o for o in pool if run_cost(o) is not None]
    smallest = min(pool, key=lambda o: (o.count, run_cost(o) or 1e18, o.accelerator))
    picks = [("smallest", smallest)]
    in_time = [o for o in priced if _in_time(o, job)]
    if in_time:
        picks.append(("cheapest", min(in_time, key=lambda o: (run_cost(o) or 0.0, o.count))))
        picks.append(("fastest", max(in_time, key=speed)))
    extra = []
    for role, option in picks:
        key = (option.accelerator, option.count)
        if key not in roles and key not in {(o.accelerator, o.count) for o in scored}:
            extra.append(option)
        roles.setdefault(key, []).append(role)
    result = [
        replace(o, roles=tuple(roles.get((o.accelerator, o.count), ()))) for o in scored + extra
    ]
    first = [o for o in result if "best" in o.roles]
    others = [o for o in result if o.roles and "best" not in o.roles]
    rest = [o for o in result if not o.roles]
    top = first + [o for o in result if not o.roles][:4] + others + rest[4:]
    return sorted(top, key=lambda o: (not o.roles or "best" not in o.roles, -o.score.total))


def _in_time(option: Option, job: TrainingJob | ServingJob) -> bool:
    if isinstance(job, ServingJob):
        return True
    return (days(option) or 0.0) * 86_400.0 <= job.deadline_s


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
        notes.append(
            Note("costs-more", _("costs {x:.2f} times the cheapest").format(x=cost / best_cost))
        )
    fastest = max(speed(o) for o in scored)
    notes.append(
        Note(
            "speed",
            _("{p:.0f} % of the speed of the fastest option").format(
                p=100 * speed(option) / fastest
            ),
        )
    )
    return tuple(notes)


def sensitivity(options: Sequence[Option]) -> tuple[Note, ...]:
    """The price change of the runner-up that would make it win, and of the winner that would lose."""
    ranked = [o for o in options if o.score.criteria]
    if len(ranked) < 2:
        return ()
    first, second = ranked[0], ranked[1]
    gap = first.score.total - second.score.total
    cost = second.score.criteria.get("cost")
    notes = []
    if cost and gap > 0:
        weight = PROFILES["balanced"]["cost"]
        factor = cost / (cost + gap / weight)
        if factor > 0.1:
            text = _("{second} would rank first at {p:.0f} % of its price").format(
                second=second.accelerator, p=100 * factor
            )
            notes.append(Note("price-of-second", text))
    if second.tied_with_winner:
        notes.append(
            Note("tie", _("{a} and {b} score within 2 %: a tie, listed by score").format(
                a=first.accelerator, b=second.accelerator))
        )  # fmt: skip
    return tuple(notes)


def next_commands(options: Sequence[Option], workload: Workload) -> tuple[str, ...]:
    """What a user would do next."""
    if not options:
        return ("gpuselect list accelerators", "gpuselect explain memory-exceeded")
    best = options[0]
    flags = command_flags(workload)
    return (
        f"gpuselect estimate {flags} --on {best.count}x{best.accelerator}",
        f"gpuselect report {flags} -o decision.md",
    )


def command_flags(workload: Workload) -> str:
    """The flags that name the workload: task, model or size."""
    parts = [f"--task {workload.task}"]
    if workload.model:
        parts.append(f"--model {workload.model}")
    elif workload.params is not None:
        parts.append(f"--params {workload.params.total / 1e9:.4g}B")
    if workload.method:
        parts.append(f"--method {workload.method}")
    if workload.task == "inference" and workload.weights:
        parts.append(f"--weights {workload.weights}")
    return " ".join(parts)
