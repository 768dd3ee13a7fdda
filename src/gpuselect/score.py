"""From criteria to a ranking: normalise over the feasible set, weigh by profile, mark the front.

Scores and totals are shares of 1. Functions take plain numbers or NumPy arrays (one row per option, one
column per draw), so that the ranking and its stability use the same equations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpuselect.i18n import N_, _

CRITERIA = (
    N_("cost"), N_("speed"), N_("headroom"), N_("energy"), N_("ecosystem"), N_("scalability"), N_("risk"),
)  # fmt: skip
DECADES = 2.0  # of speed between the scores 1 and 0


class Profile(BaseModel):
    """Weights of the criteria, and how far the fastest set-up may go.

    `fastest_within` is in costs of the cheapest one, `fastest_cards` in accelerators of the best one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str
    weights: dict[str, float]
    fastest_within: float = Field(ge=1.0)
    fastest_cards: float = Field(ge=1.0)

    @model_validator(mode="after")
    def _shares_of_one(self) -> Self:
        if set(self.weights) != set(CRITERIA) or min(self.weights.values()) < 0.0:
            text = _("weights must name {names}, none below 0")
            raise ValueError(text.format(names=_(", ").join(CRITERIA)))
        if abs(sum(self.weights.values()) - 1.0) > 1e-6:
            raise ValueError(_("weights must add up to 1"))
        return self


class SharedError(BaseModel):
    """Part of the variance of an estimate's error that all cards of one workload share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float = Field(ge=0.0, le=1.0)
    low: float
    high: float
    note: str


MOST_DRAWS = 100_000  # of the ranking: half a second; a thousand give a share to a percent or two


class Judgement(BaseModel):
    """What the ranking takes from data/profiles.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profiles: dict[str, Profile]
    shared_error: SharedError
    draws: int = Field(ge=1, le=MOST_DRAWS)
    seed: int


def normalised_low(values: Any, least: Any = None) -> Any:
    """Scores 0..1 of quantities where less is better, by ratio to the least: min / value.

    >>> normalised_low([1.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    values = np.asarray(values, dtype=float)
    return (np.nanmin(values, axis=0) if least is None else least) / values


def normalised_log(values: Any, *, decades: float = DECADES) -> Any:
    """Scores 0..1 of quantities where more is better, logarithmic: 0 at `decades` below the best.

    >>> normalised_log([1.0, 100.0]).round(3).tolist()
    [0.0, 1.0]
    """
    values = np.asarray(values, dtype=float)
    return np.maximum(0.0, 1.0 + np.log10(values / values.max(axis=0)) / decades)


def total(criteria: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Weighted mean of the criteria that are known (weights of unknown ones are shared out).

    >>> round(total({"cost": 1.0, "speed": 0.5}, {"cost": 0.6, "speed": 0.2, "energy": 0.2}), 3)
    0.875
    """
    known = {key: weights.get(key, 0.0) for key in criteria}
    mass = sum(known.values())
    return sum(criteria[key] * known[key] for key in criteria) / mass if mass else 0.0


def pareto_front(points: Sequence[tuple[float, ...]]) -> list[bool]:
    """True for points that no other point beats or equals in all dimensions (less is better).

    >>> pareto_front([(1.0, 2.0), (2.0, 1.0), (2.0, 2.0)])
    [True, True, False]
    """
    table = np.asarray(points, dtype=float)
    if not len(table):
        return []
    no_worse = (table[:, None, :] <= table[None, :, :]).all(axis=2)
    differs = (table[:, None, :] != table[None, :, :]).any(axis=2)
    return [bool(mark) for mark in ~(no_worse & differs).any(axis=0)]
