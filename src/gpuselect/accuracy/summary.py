"""Statistics of predictions: errors, bias and coverage per slice and metric. Fractions, not percents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor


@dataclass(frozen=True, slots=True)
class Prediction:
    """One scored metric with its 80 % interval (None where no interval is known)."""

    row_id: str
    slice: str
    metric: str
    measured: float
    predicted: float
    low: float | None
    high: float | None
    in_sample: bool
    hardware: str = ""
    model: str = ""

    @property
    def ape(self) -> float:
        """Absolute percentage error as a fraction: |predicted / measured - 1|."""
        return abs(self.predicted / self.measured - 1.0)

    @property
    def factor(self) -> float:
        """How far off in either direction, at least 1."""
        return max(self.predicted / self.measured, self.measured / self.predicted)

    @property
    def covered(self) -> bool | None:
        """True when the measured value lies inside the interval, None without an interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the summary. `bias` is the median of predicted / measured - 1."""

    slice: str
    metric: str
    n: int
    median_ape: float
    p90_ape: float
    bias: float
    coverage: float | None


def quantile(values: Iterable[float], q: float) -> float:
    """Quantile q of the values, linear between neighbours.

    >>> quantile([1.0, 2.0, 4.0], 0.5), round(quantile([0.0, 1.0], 0.9), 3)
    (2.0, 0.9)
    """
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def line_of(name: str, metric: str, predictions: Sequence[Prediction]) -> Line:
    """Errors, bias and coverage of some predictions, at least one."""
    errors = [p.ape for p in predictions]
    inside = [p.covered for p in predictions if p.covered is not None]
    return Line(
        slice=name, metric=metric, n=len(predictions), median_ape=quantile(errors, 0.5),
        p90_ape=quantile(errors, 0.9),
        bias=quantile([p.predicted / p.measured - 1.0 for p in predictions], 0.5),
        coverage=sum(inside) / len(inside) if inside else None,
    )  # fmt: skip


def summarise(predictions: Iterable[Prediction]) -> tuple[Line, ...]:
    """One line for each slice and metric, by name."""
    groups: dict[tuple[str, str], list[Prediction]] = {}
    for prediction in predictions:
        groups.setdefault((prediction.slice, prediction.metric), []).append(prediction)
    return tuple(line_of(*key, groups[key]) for key in sorted(groups))
