"""What a cost does when its inputs move: percentiles by random draws, and one input at a time.

Each input has an 80 % interval; its two sides are log-normal, so that a tenth of the draws lies outside on
each. Draws are seeded: the same question has the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

Z10 = 1.2815515655446004  # the tenth of a normal distribution lies beyond this many standard deviations


@dataclass(frozen=True, slots=True)
class Spread:
    """An input with its 80 % interval, and the largest value that is possible."""

    value: float
    low: float
    high: float
    most: float = float("inf")


def draw(spread: Spread, normal: Any) -> Any:
    """Values of an input for standard normal numbers; all figures must be above 0.

    >>> draw(Spread(2.0, 1.0, 8.0), np.array([-Z10, 0.0, Z10])).round(3).tolist()
    [1.0, 2.0, 8.0]
    """
    down = log(spread.value / spread.low) / Z10
    up = log(spread.high / spread.value) / Z10
    values = spread.value * np.exp(np.where(normal < 0.0, down, up) * normal)
    return np.minimum(values, spread.most)


def percentiles(
    cost: Callable[[Mapping[str, Any]], Any], spreads: Mapping[str, Spread], *, draws: int, seed: int
) -> tuple[float, float, float]:
    """P10, P50 and P90 of a cost whose inputs are drawn independently.

    >>> percentiles(lambda x: x["price"] * 2.0, {"price": Spread(1.0, 1.0, 1.0)}, draws=10, seed=1)
    (2.0, 2.0, 2.0)
    """
    generator = np.random.default_rng(seed)
    inputs = {name: draw(spread, generator.standard_normal(draws)) for name, spread in spreads.items()}
    found = np.percentile(cost(inputs), (10, 50, 90))
    return float(found[0]), float(found[1]), float(found[2])


def swings(
    cost: Callable[[Mapping[str, Any]], Any], spreads: Mapping[str, Spread]
) -> tuple[tuple[str, float, float], ...]:
    """Cost at the low and the high end of each input, the others at their value; widest first.

    >>> swings(lambda x: x["a"] + x["b"], {"a": Spread(1, 0.9, 1.1), "b": Spread(2, 1, 3)})
    (('b', 2, 4), ('a', 2.9, 3.1))
    """
    base = {name: spread.value for name, spread in spreads.items()}
    ends = [
        (name, cost({**base, name: spread.low}), cost({**base, name: min(spread.high, spread.most)}))
        for name, spread in spreads.items()
        if spread.low != spread.high
    ]
    return tuple(sorted(ends, key=lambda end: -abs(end[2] - end[1])))
