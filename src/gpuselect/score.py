"""From criteria to a ranking: normalise over the feasible set, weigh by profile, mark the front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

CRITERIA = ("cost", "speed", "headroom", "energy", "ecosystem", "scalability", "risk")
PROFILES: Mapping[str, Mapping[str, float]] = {
    "balanced": {"cost": 0.35, "speed": 0.2, "headroom": 0.05, "energy": 0.05, "ecosystem": 0.2,
                 "scalability": 0.05, "risk": 0.1},
    "cost": {"cost": 0.7, "speed": 0.05, "headroom": 0.0, "energy": 0.05, "ecosystem": 0.1,
             "scalability": 0.0, "risk": 0.1},
    "speed": {"cost": 0.1, "speed": 0.6, "headroom": 0.05, "energy": 0.0, "ecosystem": 0.15,
              "scalability": 0.05, "risk": 0.05},
    "energy": {"cost": 0.15, "speed": 0.05, "headroom": 0.0, "energy": 0.6, "ecosystem": 0.1,
               "scalability": 0.0, "risk": 0.1},
    "simplicity": {"cost": 0.2, "speed": 0.1, "headroom": 0.15, "energy": 0.0, "ecosystem": 0.3,
                   "scalability": 0.15, "risk": 0.1},
}  # fmt: skip


def normalised_low(values: Sequence[float]) -> list[float]:
    """Scores 0..1 of quantities where less is better, by ratio to the least: min / value.

    >>> normalised_low([1.0, 2.0])
    [1.0, 0.5]
    """
    least = min(values)
    return [1.0 if value == least else least / value for value in values]


def normalised_log(values: Sequence[float], *, decades: float = 2.0) -> list[float]:
    """Scores 0..1 of quantities where more is better, logarithmic: 0 at `decades` below the best.

    >>> [round(score, 3) for score in normalised_log([1.0, 100.0])]
    [0.0, 1.0]
    """
    best = max(values)
    return [max(0.0, 1.0 + log(value / best) / log(10.0) / decades) for value in values]


def total(criteria: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Weighted mean of the criteria that are known (weights of unknown ones are shared out)."""
    known = {key: weights.get(key, 0.0) for key in criteria}
    mass = sum(known.values())
    return sum(criteria[key] * known[key] for key in criteria) / mass if mass else 0.0


def pareto_front(points: Sequence[tuple[float, ...]]) -> list[bool]:
    """True for points that no other point beats or equals in all dimensions (less is better).

    >>> pareto_front([(1.0, 2.0), (2.0, 1.0), (2.0, 2.0)])
    [True, True, False]
    """
    return [
        not any(other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in points)
        for point in points
    ]
