"""Score measured rows with the shipped constants: predictions, fits, skips and their summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from gpuselect.accuracy.dispatch import fit_of_row, predict_inference, predict_reference, predict_training
from gpuselect.accuracy.records import TIMES, Fit, Row, Scored, Skipped
from gpuselect.accuracy.summary import Line, Prediction, summarise
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.options import CLOSE_ABOVE
from gpuselect.search import TIGHT_FROM

PREDICTORS: Mapping[str, Callable[[Row, Catalog, Calibration], list[Scored] | Skipped]] = {
    "training": predict_training, "inference": predict_inference, "memory": predict_reference,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured row, the layout that it is in, and whether the calibration has seen it."""

    row: Row
    layout: str  # training | inference | memory
    in_sample: bool


@dataclass(frozen=True, slots=True)
class Validation:
    """Predictions against measured rows."""

    rows: tuple[Prediction, ...]
    fits: tuple[Fit, ...]
    skipped: tuple[Skipped, ...]
    summary: tuple[Line, ...]

    def only(self, *, metrics: Sequence[str] = (), slices: Sequence[str] = ()) -> Validation:
        """The same with the rows of some metrics or slices; empty means all."""
        rows = tuple(
            row
            for row in self.rows
            if (not metrics or row.metric in metrics) and (not slices or row.slice in slices)
        )
        return replace(self, rows=rows, summary=summarise(rows))


def evaluate(rows: Iterable[Measured], catalog: Catalog, calibration: Calibration) -> Validation:
    """Predict every row with its own plan."""
    found: list[Prediction] = []
    fits: list[Fit] = []
    skips: list[Skipped] = []
    for measured in rows:
        row = measured.row
        result = _predicted(measured, catalog, calibration)
        fit = _fit(measured, catalog, calibration)
        if isinstance(fit, Fit):
            fits.append(fit)
        if isinstance(result, list):
            found.extend(_prediction(scored, measured, calibration) for scored in result)
        elif row.get("outcome", "ok") == "ok" or not isinstance(fit, Fit):
            did_run = row.get("outcome", "ok") == "ok"
            skips.append(result if did_run or not isinstance(fit, Skipped) else fit)
    return Validation(tuple(found), tuple(fits), tuple(skips), summarise(found))


def _predicted(measured: Measured, catalog: Catalog, calibration: Calibration) -> list[Scored] | Skipped:
    """The row's predictions; absurd figures give the skip code `out-of-range`."""
    try:
        with np.errstate(all="ignore"):
            result = PREDICTORS[measured.layout](measured.row, catalog, calibration)
    except ArithmeticError as error:
        return Skipped(measured.row.get("row_id", ""), "out-of-range", str(error))
    if isinstance(result, Skipped):
        return result
    finite = [scored for scored in result if isfinite(scored.predicted) and scored.predicted > 0]
    return finite or Skipped(measured.row.get("row_id", ""), "out-of-range")


def _fit(measured: Measured, catalog: Catalog, calibration: Calibration) -> Fit | Skipped | None:
    if measured.layout == "memory":
        return None
    try:
        with np.errstate(all="ignore"):
            fit = fit_of_row(measured.row, catalog, calibration, serving=measured.layout == "inference")
    except ArithmeticError as error:
        return Skipped(measured.row.get("row_id", ""), "out-of-range", str(error))
    if isinstance(fit, Fit) and not isfinite(fit.need_gib):
        return Skipped(fit.row_id, "out-of-range")
    return fit


def _prediction(scored: Scored, measured: Measured, calibration: Calibration) -> Prediction:
    low, high = interval_of(scored, calibration)
    row = measured.row
    return Prediction(
        row_id=scored.row_id, slice=scored.slice, metric=scored.metric, measured=scored.measured,
        predicted=scored.predicted, low=low, high=high, in_sample=measured.in_sample,
        hardware=row.get("hardware", ""), model=row.get("model_name", row.get("arch", "")),
    )  # fmt: skip


def interval_of(scored: Scored, calibration: Calibration) -> tuple[float | None, float | None]:
    """The 80 % interval as answers give it: quantiles of measured / predicted rates of the slice.

    A time takes the reciprocal; memory 0.85 to 1.15, the rule of `tight`.
    """
    if scored.interval == "memory":
        return TIGHT_FROM * scored.predicted, CLOSE_ABOVE * scored.predicted
    quantiles = calibration.quantiles.get(scored.interval or scored.slice)
    if quantiles is None:
        return None, None
    if scored.metric in TIMES:
        return scored.predicted / quantiles.high, scored.predicted / quantiles.low
    return scored.predicted * quantiles.low, scored.predicted * quantiles.high
