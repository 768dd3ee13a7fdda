"""Fit the constants of decoder training to data/measurements: one penalised least-squares problem.

Called by tools/fit_calibration.py; alone, `python tools/fit_training.py` prints what the fit gives:
errors with each source left out, signs of layout changes, and order of cards.
Every constant is held near a prior (the feasibility study's value) by a penalty; hardware factors
are shrunk card < architecture < vendor. Rows count by 1 / sqrt(rows of their source). Deterministic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from fitting import KNEE, PRIOR, Key, as_yaml, group_of, source_weights, stacked, write_values
from gpuselect.accuracy import Row, Scored, Skipped, predict_training
from gpuselect.accuracy.decoder_training import Case, case_of
from gpuselect.accuracy.records import TIMES
from gpuselect.calibration import Calibration, TrainingConstants, training_classes
from gpuselect.catalog import Catalog
from gpuselect.estimate.memory import Recipe
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.shape import Shape
from gpuselect.estimate.training import Method, step_time
from gpuselect.plan import Plan
from gpuselect.provenance import Figure

# Prior and how far, in log, a constant may easily move from it; the others keep what the file says. Priors
# are the feasibility study's (training, section 3.2), or the middle of what it calls plausible; `tuned_gemm`
# is MLPerf against the usual in inference, `legacy_gemm` the A100's gain from 2022 to 2024 (section 3.4).
FITTED = {
    "sustained_gemm": (0.7, 0.3), "shape_loss": (3.0, 0.6), "attention_efficiency": (0.45, 0.3),
    "eager_gemm": (0.85, 0.1), "tuned_gemm": (1.29, 0.15), "legacy_gemm": (0.85, 0.1),
    "gain_8bit": (0.95, 0.2), "gain_4bit": (0.55, 0.3), "elementwise_bytes_fused": (60.0, 0.25),
    "elementwise_bytes_eager": (140.0, 0.25), "cast_bytes": (8.0, 0.4), "score_bytes_fused": (20.0, 0.3),
    "score_bytes_eager": (60.0, 0.5), "accumulate_bytes": (12.0, 0.3), "dequantise_bytes": (6.0, 0.5),
    "moe_routing_bytes": (60.0, 0.4), "moe_imbalance": (1.15, 0.1), "host_fused_s": (1e-4, 0.5),
    "host_eager_s": (1e-3, 0.5), "adapter_host": (2.0, 0.5), "head_stage_share": (0.3, 0.5),
    "link_efficiency": (0.75, 0.15), "network_efficiency": (0.65, 0.2), "pcie_efficiency": (0.5, 0.4),
    "exposed_tp": (0.5, 0.4), "exposed_tp_legacy": (1.0, 0.4), "exposed_tp_tuned": (0.3, 0.4),
    "exposed_ep": (0.7, 0.4), "leak_dp": (0.4, 0.2), "scale_loss": (0.015, 0.4),
}  # fmt: skip
# Factors on the matrix rate: vendor, on top of it architecture, on top of that card; prior 1
HARDWARE = ("training_vendor", "training_architecture", "training_card")
HARDWARE_SPREADS = (0.15, 0.12, 0.08)
GEFORCE = 1.2  # prior: clocks above the printed ones (feasibility study of inference, section 3: 1.36)
STEP, ROUNDS, LARGEST_STEP = 1e-3, 8, 0.5  # of the derivatives; of the iteration, in log
NOISE = 0.2  # spread, in log, of a row about a perfect model: what a prior is weighed against


@dataclass(frozen=True, slots=True)
class Observation:
    """One row with what its prediction needs, and its predictions with the shipped constants."""

    row: Row
    case: Case
    best_gemm: float
    classes: tuple[str, ...]  # vendor, architecture, card
    scored: tuple[Scored, ...]

    @property
    def source(self) -> str:
        """Source of the row."""
        return self.row.get("source_id", "")

    @property
    def firm(self) -> bool:
        """True when nothing that the prediction needs was assumed."""
        return not self.case.assumed


@dataclass(frozen=True, slots=True)
class Problem:
    """All observations as arrays."""

    shape: Shape
    plan: Plan
    recipe: Recipe
    device: Device
    method: Method
    seq_len: np.ndarray
    best_gemm: np.ndarray
    classes: tuple[tuple[tuple[Key, ...], np.ndarray], ...]  # of each level: keys, and place of each row's
    measured: np.ndarray  # logarithm of the measured seconds per step
    weights: np.ndarray


def log_ratio(row: Scored) -> float:
    """log(measured / predicted) of a rate; times are turned into rates."""
    ratio = math.log(row.measured / row.predicted)
    return -ratio if row.metric in TIMES else ratio


def observations(rows: Iterable[Row], catalog: Catalog, calibration: Calibration) -> list[Observation]:
    """Decoder rows whose throughput is predicted."""
    found = []
    for row in rows:
        result = predict_training(row, catalog, calibration)
        if isinstance(result, Skipped):
            continue
        scored = tuple(one for one in result if one.metric != "peak_mem_gb")
        if not scored:
            continue
        case = case_of(row, catalog, calibration)
        best = calibration.best_gemm.get(case.accelerator.id, calibration.training.default_best_gemm)
        found.append(Observation(row, case, float(best), training_classes(case.accelerator), scored))
    return found


def problem_of(found: Sequence[Observation], calibration: Calibration) -> Problem:
    """Stack observations; the measured step time is that of the row's first metric."""
    cases = [o.case for o in found]
    method = Method(*(np.array([getattr(c.way, f.name) for c in cases]) for f in fields(Method)))
    problem = Problem(
        shape=stacked([case.shape for case in cases]), plan=stacked([case.plan for case in cases]),
        recipe=stacked([case.recipe for case in cases]),
        device=stacked([cast("Device", case.device) for case in cases]), method=method,
        seq_len=np.array([case.seq_len for case in cases]),
        best_gemm=np.array([o.best_gemm for o in found]),
        classes=tuple(_level(found, level) for level in range(len(HARDWARE_SPREADS))),
        measured=np.zeros(len(found)), weights=source_weights([o.source for o in found]),
    )  # fmt: skip
    shipped = np.log(_step(problem, problem.device, calibration.training))
    return replace(problem, measured=shipped - np.array([log_ratio(o.scored[0]) for o in found]))


def _step(problem: Problem, device: Device, constants: Any) -> np.ndarray:
    step = step_time(
        shape=problem.shape, plan=problem.plan, recipe=problem.recipe, device=device, constants=constants,
        seq_len=problem.seq_len, method=problem.method,
    )  # fmt: skip
    return np.asarray(step.total)


def log_seconds(problem: Problem, values: Mapping[Key, float]) -> np.ndarray:
    """Logarithm of the step time of every observation with these constants."""
    constants = SimpleNamespace(**{k[1]: v for k, v in values.items() if k[0] == "training"})
    factor = np.ones(len(problem.seq_len))
    for keys, place in problem.classes:
        factor = factor * np.array([values.get(key, 1.0) for key in keys])[place]
    device = replace(
        problem.device, gemm_efficiency=problem.best_gemm * constants.sustained_gemm * factor,
        bandwidth_efficiency=constants.bandwidth_efficiency,
    )  # fmt: skip
    return np.asarray(np.log(_step(problem, device, constants)))


def _level(found: Sequence[Observation], level: int) -> tuple[tuple[Key, ...], np.ndarray]:
    """Keys of one level of the hardware classes, and the place of each observation's among them."""
    names, place = np.unique([o.classes[level] for o in found], return_inverse=True)
    return tuple(_key(level, name) for name in names), place


def _key(level: int, name: str) -> Key:
    return HARDWARE[level], str(name)


def priors_of(found: Sequence[Observation], calibration: Calibration) -> dict[Key, float]:
    """Priors of all constants, and 1 for each hardware class that is measured."""
    priors: dict[Key, float] = {
        ("training", name): FITTED[name][0] if name in FITTED else float(getattr(calibration.training, name))
        for name in TrainingConstants.model_fields
    }
    for observation in found:
        for level, name in enumerate(observation.classes):
            priors[_key(level, name)] = GEFORCE if name == "geforce" else 1.0
    return priors


def spreads_of(found: Sequence[Observation]) -> dict[Key, float]:
    """Spreads of the constants that are fitted, in units of a row's; NVIDIA's factor is 1 by definition."""
    spreads: dict[Key, float] = {("training", name): spread for name, (_prior, spread) in FITTED.items()}
    for observation in found:
        for level, name in enumerate(observation.classes):
            spreads[_key(level, name)] = HARDWARE_SPREADS[level]
    spreads.pop(("training_vendor", "nvidia"), None)
    return {key: value / NOISE for key, value in spreads.items()}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fit that can be repeated without some of its rows: its problem, values and derivatives."""

    problem: Problem
    priors: Mapping[Key, float]
    spreads: Mapping[Key, float]
    values: Mapping[Key, float]
    slopes: np.ndarray  # d ln(seconds) / d ln(value), observations x fitted constants

    @property
    def names(self) -> list[Key]:
        """The constants that are fitted."""
        return [name for name in self.priors if name in self.spreads]


def slopes_of(problem: Problem, values: Mapping[Key, float], names: Sequence[Key]) -> np.ndarray:
    """Derivatives of the logarithm of the step time by the logarithm of each constant."""
    base = log_seconds(problem, values)
    moved = [log_seconds(problem, {**values, name: values[name] * (1.0 + STEP)}) for name in names]
    return np.asarray((np.stack(moved, axis=1) - base[:, None]) / math.log(1.0 + STEP))


def improved(fitted: Fitted, keep: np.ndarray) -> dict[Key, float]:
    """One Gauss-Newton step of the penalised robust error over the rows of `keep`."""
    names, values = fitted.names, fitted.values
    point = np.log([values[name] for name in names])
    start = np.log([fitted.priors[name] for name in names])
    pull = (PRIOR / np.array([fitted.spreads[name] for name in names])) ** 2
    errors = (fitted.problem.measured - log_seconds(fitted.problem, values))[keep]
    slopes = fitted.slopes[keep]
    weights = fitted.problem.weights[keep] / np.sqrt(1.0 + (errors / KNEE) ** 2)
    matrix = slopes.T @ (weights[:, None] * slopes) + np.diag(pull)
    step = np.linalg.solve(matrix, slopes.T @ (weights * errors) - pull * (point - start))
    found = np.exp(point + np.clip(step, -LARGEST_STEP, LARGEST_STEP))
    return {**values, **{name: float(value) for name, value in zip(names, found, strict=True)}}


def fit_all(found: Sequence[Observation], calibration: Calibration) -> Fitted:
    """Constants of least penalised error over the firm rows, by Gauss-Newton steps from the priors."""
    firm = [o for o in found if o.firm]
    priors = priors_of(firm, calibration)
    problem = problem_of(firm, calibration)
    keep = np.ones(len(firm), dtype=bool)
    fitted = Fitted(problem, priors, spreads_of(firm), priors, np.empty(0))
    for _round in range(ROUNDS):
        fitted = replace(fitted, slopes=slopes_of(problem, fitted.values, fitted.names))
        fitted = replace(fitted, values=improved(fitted, keep))
    return fitted


def without(fitted: Fitted, keep: np.ndarray) -> dict[Key, float]:
    """The constants from the rows of `keep` alone, with the derivatives of the whole fit."""
    for _round in range(ROUNDS):
        fitted = replace(fitted, values=improved(fitted, keep))
    return dict(fitted.values)


def left_out_errors(
    found: Sequence[Observation], fitted: Fitted, calibration: Calibration
) -> list[tuple[Observation, float]]:
    """Each observation with log(measured / predicted) of its rate, its group left out of the fit."""
    groups = np.array([group_of(o.source) for o in found if o.firm])
    result: list[tuple[Observation, float]] = []
    for name in sorted({group_of(o.source) for o in found}):
        own = [o for o in found if group_of(o.source) == name]
        problem = problem_of(own, calibration)
        errors = log_seconds(problem, without(fitted, groups != name)) - problem.measured
        result += list(zip(own, errors.tolist(), strict=True))
    return result


def every_metric(errors: Iterable[tuple[Observation, float]]) -> list[tuple[Scored, float]]:
    """The residual of every metric of each row: those of one row differ as their predictions do."""
    result = []
    for observation, residual in errors:
        first = log_ratio(observation.scored[0])
        result += [(one, residual + log_ratio(one) - first) for one in observation.scored]
    return result


def fit(catalog: Catalog, calibration: Calibration, rows: Iterable[Row]) -> dict[Key, float]:
    """Constants of decoder training by their path in calibration.yaml."""
    fitted = fit_all(observations(rows, catalog, calibration), calibration)
    return {key: fitted.values[key] for key in fitted.names}


def left_out(catalog: Catalog, calibration: Calibration, rows: Iterable[Row]) -> list[tuple[Scored, float]]:
    """Residual log(measured / predicted) of every metric of each row, its group left out of the fit."""
    found = observations(rows, catalog, calibration)
    return every_metric(left_out_errors(found, fit_all(found, calibration), calibration))


@dataclass(frozen=True, slots=True)
class Refit:
    """What a fit gives: constants, residuals with the source left out, and the calibration with them."""

    values: Mapping[Key, float]
    residuals: list[tuple[Scored, float]]
    calibration: Calibration


def refit(rows: Iterable[Row], catalog: Catalog, calibration: Calibration) -> Refit:
    """Fit to decoder rows, twice, because what a row leaves open is searched with the constants."""
    kept = list(rows)
    for _round in range(2):
        found = observations(kept, catalog, calibration)
        fitted = fit_all(found, calibration)
        values = {key: float(f"{fitted.values[key]:.3g}") for key in fitted.names}
        calibration = with_values(calibration, values)
    found = observations(kept, catalog, calibration)
    errors = left_out_errors(found, fit_all(found, calibration), calibration)
    return Refit(values, every_metric(errors), calibration)


def with_values(calibration: Calibration, values: Mapping[Key, float]) -> Calibration:
    """The calibration with fitted constants; hardware that is measured no more has no factor."""

    def figure(value: float) -> Figure:
        return Figure(value, source="fit", status="derived")

    def of(section: str) -> dict[str, Figure]:
        return {key[1]: figure(value) for key, value in values.items() if key[0] == section}

    return calibration.model_copy(
        update={
            "training": calibration.training.model_copy(update=of("training")),
            "training_vendor": {**calibration.training_vendor, **of("training_vendor")},
            "training_architecture": of("training_architecture"), "training_card": of("training_card"),
        }
    )  # fmt: skip


def write(path: Path, found: Refit) -> None:
    """Put the constants into calibration.yaml; the factors of architectures and cards are written anew."""
    text = path.read_text(encoding="utf-8")
    for section in HARDWARE[1:]:
        lines = [
            f"  {key[1]}: {{value: {as_yaml(value)}, source: fit, status: derived}}\n"
            for key, value in sorted(found.values.items())
            if key[0] == section
        ]
        text = re.sub(
            rf"^{section}:\n(?:  .*\n)*", f"{section}:\n" + "".join(lines), text, flags=re.MULTILINE
        )
    path.write_text(text, encoding="utf-8")
    write_values(path, {key: value for key, value in found.values.items() if key[0] not in HARDWARE[1:]})
