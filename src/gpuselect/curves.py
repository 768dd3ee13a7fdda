"""Curves behind a decision: cost against time over all cards, and the first card at other counts."""

from __future__ import annotations

from collections.abc import Sequence

from gpuselect.decision import FieldOfCards, FieldPoint, Option, ScalePoint, Scaling
from gpuselect.score import pareto_front

ENDS = ("time_to_train_days", "run_time_h")
RATES = ("streams", "images_per_s", "output_tok_s", "tokens_per_s", "requests_per_s")
WAITS = ("latency_ms", "tpot_ms", "ttft_ms")
SMALLER = frozenset((*ENDS, *WAITS))
COSTS = ("per_run_usd", "per_month_usd", "per_hour_usd")
SAME = 1.02  # values within 2 % do not tell options apart: they meet the same demand


def telling_metric(options: Sequence[Option]) -> str | None:
    """The metric that tells options apart: a time to the end, else a rate, else a waiting time.

    Services that meet a given demand all have its rate; then the wait is what differs.
    """
    for group in (ENDS, RATES, WAITS):
        shared = [key for key in group if all(key in o.performance for o in options)]
        for key in shared:
            values = [o.performance[key].value for o in options]
            if key in ENDS or (min(values) > 0 and max(values) > SAME * min(values)):
                return key
    return None


def cost_field(options: Sequence[Option]) -> str | None:
    """The first of the costs of a run, a month and an hour that every option has."""
    return next((k for k in COSTS if all(getattr(o.cost, k) is not None for o in options)), None)


def field_of_cards(pool: Sequence[Option]) -> FieldOfCards | None:
    """Cost against the telling metric for every scored card with a price; None for fewer than two."""
    known = [o for o in pool if any(getattr(o.cost, key) is not None for key in COSTS)]
    metric, cost = telling_metric(known) if known else None, cost_field(known)
    if len(known) < 2 or metric is None or cost is None:
        return None
    sign = 1.0 if metric in SMALLER else -1.0
    pairs = [(float(getattr(o.cost, cost)), sign * o.performance[metric].value) for o in known]
    points = [
        FieldPoint(o.accelerator, o.accelerator_name, o.count, o.performance[metric].value, usd, front)
        for o, (usd, _value), front in zip(known, pairs, pareto_front(pairs), strict=True)
    ]
    return FieldOfCards(metric, cost, tuple(sorted(points, key=lambda p: (p.cost_usd, p.accelerator))))


def scaling_of(winner: Option, everything: Sequence[Option]) -> Scaling | None:
    """The winner's card at every count that fits; None where only one does."""
    group = sorted((o for o in everything if o.accelerator == winner.accelerator), key=lambda o: o.count)
    metric = telling_metric(group) if len(group) > 1 else None
    cost = cost_field(group)
    if metric is None or cost is None:
        return None
    first = group[0]
    points = tuple(
        ScalePoint(
            o.count, o.nodes, o.performance[metric], float(getattr(o.cost, cost)),
            _efficiency(metric, first, o),
        )
        for o in group
    )  # fmt: skip
    return Scaling(metric, cost, points)


def _efficiency(metric: str, first: Option, option: Option) -> float | None:
    """Work per card and time against the least count; a wait has none."""
    a, b = first.performance[metric].value, option.performance[metric].value
    if metric in WAITS or a <= 0 or b <= 0:
        return None
    gain = a / b if metric in SMALLER else b / a
    return gain * first.count / option.count
