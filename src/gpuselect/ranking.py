"""How the cards rank, which of them are one kind, what each set-up is best at, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import log1p

from gpuselect.catalog import Catalog
from gpuselect.decision import Note, Option, Score, Variant
from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.network_job import Job
from gpuselect.options import plan_sentence
from gpuselect.score import CRITERIA, Judgement, Profile, normalised_log, normalised_low, pareto_front, total
from gpuselect.selection import fastest, in_time, order_key, run_cost, speed, undominated, within_budget
from gpuselect.workload import Workload

SHORTLIST = 10
VARIANT_WORDS = r"sxm\d*|pcie|nvl|oam|server|maxq|max-q|laptop|sff|modified|hbm2e?|1gcd|\d+gb"


@dataclass(frozen=True, slots=True)
class Ranking:
    """`listed` is one option per kind of card, best first, then other counts with a role of their own.

    `pool` holds every card that was scored, best first; `unpriced` those of them without a price.
    """

    listed: tuple[Option, ...]
    unpriced: tuple[Option, ...]
    pool: tuple[Option, ...]
    notes: tuple[Note, ...] = ()


def criteria_of(
    options: Sequence[Option], catalog: Catalog, among: Sequence[Option] = ()
) -> list[dict[str, float]]:
    """Scores 0..1 of each option in each criterion that is known for it, relative to `among`.

    Without `among` the options are compared with each other.
    """
    field = among or options
    least = min((c for o in field if (c := run_cost(o))), default=None)
    calm = min((e for o in field if (e := o.energy.kwh)), default=None)
    quickest = max(speed(o) for o in field)
    most = max([breadth(o, catalog) for o in field] + [1])
    found = []
    for option in options:
        scores = {
            "speed": min(1.0, float(normalised_log([speed(option), quickest])[0])),
            "headroom": max(0.0, min(1.0, option.memory.headroom_pct / 50.0)),
            "ecosystem": min(1.0, breadth(option, catalog) / most),
            "scalability": 1.0 / (1.0 + max(option.nodes - 1, 0) / 8.0),
            "risk": 0.5 * max(0.0, 1.0 - 0.2 * len(option.warnings)) + 0.5 * supply(option, catalog),
        }
        if (cost := run_cost(option)) and least:
            scores["cost"] = min(1.0, float(normalised_low(cost, least)))
        if option.energy.kwh and calm:
            scores["energy"] = min(1.0, float(normalised_low(option.energy.kwh, calm)))
        found.append(scores)
    return found


def breadth(option: Option, catalog: Catalog) -> int:
    """Breadth of software: frameworks of the catalog that fully support the card's stack."""
    stacks = catalog.accelerators[option.accelerator].software
    key = ("breadth", stacks)
    if key not in catalog.memo:
        catalog.memo[key] = sum(
            any(f.backends.get(s) == "yes" for s in stacks) for f in catalog.frameworks.values()
        )
    return int(catalog.memo[key])


def supply(option: Option, catalog: Catalog) -> float:
    """How many sell or rent the card out, 0 to 1: log(1 + n) against the card with the most sellers.

    A seller is a provider in the price table, once for rent and once for purchase.
    """
    if ("sellers",) not in catalog.memo:
        rows = {(price.hardware, price.kind, price.provider) for price in catalog.prices}
        catalog.memo["sellers",] = Counter(hardware for hardware, _kind, _provider in rows)
    sellers = catalog.memo["sellers",]
    return log1p(sellers[option.accelerator]) / log1p(max(sellers.values(), default=1))


def kind_of(accelerator: str) -> str:
    """The kind of a card: its id without form factor and memory size.

    >>> kind_of("h100-sxm5-80gb"), kind_of("h100-nvl-94gb"), kind_of("rtx-4080-super-16gb")
    ('h100', 'h100', 'rtx-4080-super')
    """
    return re.sub(rf"-(?:{VARIANT_WORDS})(?=-|$)", "", accelerator)


def rank(
    chosen: Sequence[Option],
    everything: Sequence[Option],
    *,
    workload: Workload,
    catalog: Catalog,
    job: Job,
    judgement: Judgement,
) -> Ranking:
    """Score and sort: options with a known price, ranked, and those without, in a list of their own.

    The list holds the best option of each kind of card (of each card where the request names cards) and,
    beside it, the smallest, cheapest and fastest set-up where those are other counts.
    """
    if not chosen:
        return Ranking((), (), ())
    scored = _scored(list(chosen), workload, catalog, judgement)
    priced = [o for o in scored if run_cost(o) is not None]
    listed: Sequence[Option] = ()
    notes: tuple[Note, ...] = ()
    if priced:
        heads = folded(priced) if not (workload.gpus or workload.have) else priced
        affordable = [o for o in everything if within_budget(o, workload)]
        listed, notes = _with_roles(heads, priced, affordable, workload, catalog, job, judgement)
    unpriced = [o for o in scored if run_cost(o) is None]
    return Ranking(
        tuple(replace(o, reasons=reasons(o, scored)) for o in listed),
        tuple(replace(o, reasons=reasons(o, scored)) for o in unpriced[:5]),
        tuple(scored),
        notes,
    )


def profile_of(workload: Workload, judgement: Judgement) -> Profile:
    """The profile of a request."""
    return judgement.profiles[workload.prefer or "balanced"]


def criteria_weights(workload: Workload, judgement: Judgement) -> Mapping[str, float]:
    """The user's weights of the criteria, or those of the profile."""
    given = workload.criterion_weights
    for name in given:
        if name not in CRITERIA:
            near = get_close_matches(name, CRITERIA, n=1)
            hint = _("; did you mean {name}?").format(name=near[0]) if near else ""
            text = _("weights: unknown criterion {name!r}{hint} (criteria: {names})")
            raise InputError(text.format(name=name, hint=hint, names=_(", ").join(CRITERIA)))
    return given or profile_of(workload, judgement).weights


def stretch_of(workload: Workload, judgement: Judgement) -> tuple[float, float] | None:
    """How far a count may go beyond the usual one of its card, in cost and in accelerators.

    None where cost counts as much as speed.
    """
    weights = criteria_weights(workload, judgement)
    if weights.get("speed", 0.0) <= weights.get("cost", 0.0):
        return None
    profile = profile_of(workload, judgement)
    return profile.fastest_within, profile.fastest_cards


def _scored(
    pool: list[Option], workload: Workload, catalog: Catalog, judgement: Judgement
) -> list[Option]:  # fmt: skip
    """Options with scores, best first; the Pareto front is that of cost and speed."""
    weights = criteria_weights(workload, judgement)
    criteria = criteria_of(pool, catalog)
    front = pareto_front([(run_cost(o) or 1e18, -speed(o)) for o in pool])
    scored = [
        replace(o, score=Score(total(c, weights), c), on_pareto_front=f, kind=kind_of(o.accelerator))
        for o, c, f in zip(pool, criteria, front, strict=True)
    ]
    return sorted(scored, key=order_key)


def folded(scored: Sequence[Option]) -> list[Option]:
    """The best option of each kind of card, with the others of the kind as its variants."""
    groups: dict[str, list[Option]] = {}
    for option in scored:
        groups.setdefault(option.kind, []).append(option)
    return [
        replace(group[0], variants=tuple(
            Variant(o.accelerator, o.accelerator_name, o.count, o.score.total, run_cost(o)) for o in group[1:]
        ))
        for group in groups.values()
    ]  # fmt: skip


def _with_roles(
    heads: Sequence[Option], scored: Sequence[Option], everything: Sequence[Option], workload: Workload,
    catalog: Catalog, job: Job, judgement: Judgement,
) -> tuple[list[Option], tuple[Note, ...]]:  # fmt: skip
    """The list with its roles; set-ups with a role that are other counts follow the ranked ones."""
    cards = {o.accelerator for o in scored}
    pool = undominated([o for o in everything if o.accelerator in cards and run_cost(o) is not None])
    early = [o for o in pool if in_time(o, job)] or pool
    profile = profile_of(workload, judgement)
    stretched = stretch_of(workload, judgement) is not None  # the best one already is
    most = round(heads[0].count * (1.0 if stretched else profile.fastest_cards))
    reach = [o for o in early if o.count <= most]
    picks = {
        "best": heads[0],
        "smallest": min(early, key=lambda o: (o.count, run_cost(o) or 0.0, o.accelerator)),
        "cheapest": min(early, key=lambda o: (run_cost(o) or 0.0, o.count, o.accelerator)),
        "fastest": fastest(reach or early, within=profile.fastest_within),
    }
    roles: dict[tuple[str, int], tuple[str, ...]] = {}
    for role, option in picks.items():
        roles[_key(option)] = (*roles.get(_key(option), ()), role)
    listed = {_key(o) for o in heads}
    known = {_key(o): o for o in scored}
    extra = [known.get(key, pick) for key, pick in {_key(o): o for o in picks.values()}.items()
             if key not in listed]  # fmt: skip
    criteria = criteria_of(extra, catalog, scored) if extra else []
    weights = criteria_weights(workload, judgement)
    extra = [
        replace(o, score=Score(total(c, weights), c), kind=kind_of(o.accelerator))
        for o, c in zip(extra, criteria, strict=True)
    ]
    named = [replace(o, roles=roles.get(_key(o), ())) for o in [*heads, *extra]]
    plain = {_key(o) for o in [o for o in named if not o.roles][: max(SHORTLIST - len(roles), 0)]}
    shown = [o for o in named if o.roles or _key(o) in plain]
    order = sorted(shown, key=lambda o: (_key(o) not in listed, order_key(o)))
    return order, _faster_note(early, picks["fastest"], profile.fastest_within, most)


def _key(option: Option) -> tuple[str, int]:
    return option.accelerator, option.count


def _faster_note(early: Sequence[Option], picked: Option, within: float, most: int) -> tuple[Note, ...]:
    """What the bounds on the fastest set-up left out."""
    top = max(early, key=speed)
    if speed(top) <= 1.01 * speed(picked):
        return ()
    text = _(
        "{n} x {name} would be {x} times as fast as {m} x {other} for {c} times the cost of the "
        "work; the role of the fastest ends at {b:g} times the cost of the cheapest and {k} accelerators"
    )
    found = text.format(
        n=top.count, name=top.accelerator, x=_short(speed(top) / speed(picked)), m=picked.count,
        other=picked.accelerator, c=_short((run_cost(top) or 0.0) / (run_cost(picked) or 1.0)),
        b=within, k=most,
    )  # fmt: skip
    return (Note("fastest-bounds", found),)


def _short(ratio: float) -> str:
    """A ratio for a sentence.

    >>> _short(1.4567), _short(1540.2)
    ('1.5', '1,540')
    """
    return f"{ratio:,.0f}" if ratio >= 10.0 else f"{ratio:.2g}"


def reasons(option: Option, scored: Sequence[Option]) -> tuple[Note, ...]:
    """Why this option stands where it does: plan, and what it does best or worst among all."""
    notes = [Note("plan", plan_sentence(option))]
    ahead = [
        name for name, value in option.score.criteria.items()
        if value >= max(o.score.criteria.get(name, 0.0) for o in scored) - 1e-9
    ]  # fmt: skip
    if ahead:
        notes.append(Note("leads", _("best of all in {what}").format(what=_(", ").join(map(_, ahead)))))
    best_cost = min((c for o in scored if (c := run_cost(o))), default=None)
    cost = run_cost(option)
    if cost and best_cost and cost > 1.005 * best_cost:
        notes.append(Note("costs-more", _("costs {x:.2f} times the cheapest").format(x=cost / best_cost)))
    quickest = max(speed(o) for o in scored)
    notes.append(
        Note(
            "speed",
            _("{p:.0f} % of the speed of the fastest option").format(p=100 * speed(option) / quickest),
        )
    )
    return tuple(notes)


def next_commands(
    options: Sequence[Option], workload: Workload, reasons: Sequence[Note] = ()
) -> tuple[str, ...]:
    """What a user would do next: look closer at the best option, or at the reason that ruled all out."""
    flags = command_flags(workload)
    if not options:
        code = reasons[0].code if reasons else "memory-exceeded"
        return (f"gpuselect explain {code}", f"gpuselect recommend {flags}")
    best = options[0]
    second = next((o.accelerator for o in options if o.accelerator != best.accelerator), None)
    return (
        f"gpuselect estimate {flags} --on {best.count}x{best.accelerator}",
        *([f"gpuselect explain {second} {flags}"] if second else []),
        f"gpuselect report {flags} -o decision.md",
    )


FLAG_KEYS = (
    "model", "method", "weights", "kv", "precision", "seq_len", "global_batch", "optimizer",
    "input_tokens", "output_tokens", "concurrency", "users", "request_rate", "ttft", "tpot", "latency",
    "batch", "image_size",
    "gmacs", "activations", "family",
    "steps", "tuned", "samples", "epochs", "streams", "fps", "codec", "interval", "objects",
    "secondary_interval", "tracker", "encode", "dla", "load", "power_mode", "tenants", "isolation", "kernel",
    "exchange", "fp64", "flops", "bytes",
    "memory", "tp", "pp", "dp", "micro_batch", "recompute",
    "acquire", "term", "region", "utilization", "years", "wacc", "residual", "support", "licence", "staff",
    "colocation", "electricity", "pue", "carbon", "carbon_price", "carbon_budget", "storage", "egress",
    "interruptions", "checkpoint", "restart",
    "deadline", "max_count", "single_card", "prefer", "lora_rank",
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
    if workload.secondary:
        parts.append(f"--secondary {','.join(workload.secondary)}")
    if workload.resolution is not None:
        parts.append("--resolution {}x{}".format(*workload.resolution))
    return " ".join(parts)
