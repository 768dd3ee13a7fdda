"""Fit the constants of networks of samples to data/measurements: one least-squares problem each.

Called by tools/fit_calibration.py. Every constant is held near a prior (the feasibility study's
value) by a penalty, so that a class without rows keeps it. Rows count by 1 / sqrt(rows of their
source), so that no source decides alone. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting import Key, group_of, solve, source_weights, stacked
from gpuselect.accuracy.network_cases import Case, case_of, runtime_key
from gpuselect.accuracy.networks import SERVER_SHARE
from gpuselect.accuracy.records import Row, Skip
from gpuselect.accuracy.rows import number
from gpuselect.calibration import Calibration, NetworkConstants, network_class
from gpuselect.catalog import Catalog
from gpuselect.estimate.network import Network
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.vision import Runtime, inference_pace, training_pace
from gpuselect.network_sites import ELEMENT_BYTES
from gpuselect.provenance import Figure

# (section, key) -> how far, in log, a constant may easily move from its prior
SPREAD = 0.35
WIDE = frozenset({"operator_s", "inference_traffic", "training_operator_s", "step_floor_s"})
INFERENCE = ("inference_efficiency", "precision", "hardware", "runtime", "operator_s", "inference_traffic")
TRAINING = ("training_efficiency", "training_precision", "training_traffic", "training_operator_s",
            "step_floor_s", "training_hardware")  # fmt: skip
SINGLE = ("training_operator_s", "step_floor_s")
FIXED = {("precision", "fp16"), ("hardware", "nvidia"), ("runtime", "pytorch"),
         ("training_precision", "fp16"), ("training_hardware", "nvidia")}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured rate of a row [samples/s of all cards] with what its prediction needs."""

    row_id: str
    source: str
    case: Case
    runtime: str
    accumulate: float
    factor: float  # on the predicted rate: MLPerf Server
    rate: float


def observations(rows: Iterable[Row], catalog: Catalog, calibration: Calibration, *, training: bool
                 ) -> list[Observation]:  # fmt: skip
    """Rows with a rate or a time, as rates."""
    found = []
    for row in rows:
        try:
            if row.get("outcome", "ok") != "ok":
                continue
            case = case_of(row, catalog, calibration, training=training)
            accumulate = max(number(row, "grad_accum", 1.0), 1.0) if training else 1.0
            rate = _measured_rate(row, case, accumulate, training=training)
        except Skip:
            continue
        if rate:
            served = not training and row.get("mode") == "server"
            found.append(Observation(
                row["row_id"], row.get("source_id", ""), case, runtime_key(row), accumulate,
                SERVER_SHARE if served else 1.0, rate,
            ))  # fmt: skip
    return found


def _measured_rate(row: Row, case: Case, accumulate: float, *, training: bool) -> float:
    """Samples per second of all cards, 0 when the row holds none."""
    if training:
        rate = number(row, "samples_per_s_total")
        step = number(row, "step_time_s")
        length = number(row, "seq_len")
        tokens = number(row, "tokens_per_s_per_accel") * case.count / length if length else 0.0
        return rate or (case.batch * case.count * accumulate / step if step else tokens)
    if "150 minutes of audio" in row.get("notes", ""):
        return 0.0
    rate, latency = number(row, "requests_or_images_per_s_total"), number(row, "latency_ms")
    if case.batch <= 1 and latency:
        return case.count / latency * 1e3
    return rate or (case.count * case.batch / latency * 1e3 if latency else 0.0)


@dataclass(frozen=True, slots=True)
class Problem:
    """All observations as arrays, and the classes that select their constants."""

    network: Network
    device: Device
    batch: np.ndarray
    count: np.ndarray
    accumulate: np.ndarray
    factor: np.ndarray
    measured: np.ndarray
    classes: Mapping[str, np.ndarray]  # section -> key of each observation
    weights: np.ndarray


def problem_of(found: Sequence[Observation], *, training: bool) -> Problem:
    """Stack observations."""
    eager = np.array(["eager" if o.runtime == "pytorch" else "graph" for o in found])
    kinds = np.array([o.case.network.kind for o in found])
    precisions = np.array([o.case.precision for o in found])
    hardware = np.array([network_class(o.case.accelerator) for o in found])
    classes = (
        {"training_efficiency": kinds, "training_precision": precisions, "training_traffic": kinds,
         "training_hardware": hardware}
        if training
        else {"inference_efficiency": kinds, "precision": precisions, "hardware": hardware,
              "runtime": np.array([o.runtime for o in found]), "operator_s": eager,
              "inference_traffic": eager}
    )  # fmt: skip
    return Problem(
        network=stacked([o.case.network for o in found]), device=stacked([o.case.device for o in found]),
        batch=np.array([o.case.batch for o in found]), count=np.array([float(o.case.count) for o in found]),
        accumulate=np.array([o.accumulate for o in found]), factor=np.array([o.factor for o in found]),
        measured=np.array([o.rate for o in found]), classes={**classes, "precisions": precisions},
        weights=source_weights([o.source for o in found]),
    )  # fmt: skip


def log_ratios(problem: Problem, values: Mapping[Key, float], constants: NetworkConstants,
               *, training: bool) -> np.ndarray:  # fmt: skip
    """ln(predicted / measured) of every observation with these constants."""

    def of(section: str) -> np.ndarray:
        return np.array([values[section, key] for key in problem.classes[section]])

    size = np.array([ELEMENT_BYTES.get(p, 2.0) for p in problem.classes["precisions"]])
    bandwidth = float(constants.bandwidth_efficiency)
    if training:
        gemm = of("training_efficiency") * of("training_precision") * of("training_hardware")
        wide = np.maximum(size, 2.0)
        runtime = Runtime(
            compute=1.0, operator_s=values["training_operator_s", ""], eager=True, element_bytes=wide,
            weight_bytes=wide, traffic=of("training_traffic"),
        )  # fmt: skip
        pace = training_pace(
            network=problem.network, runtime=runtime, batch=problem.batch, count=problem.count,
            device=replace(problem.device, gemm_efficiency=gemm, bandwidth_efficiency=bandwidth),
            accumulate=problem.accumulate, link_efficiency=float(constants.link_efficiency),
            overlap=float(constants.overlap), step_floor_s=values["step_floor_s", ""],
            scale_loss=float(constants.scale_loss),
        )  # fmt: skip
    else:
        gemm = of("inference_efficiency") * of("precision") * of("hardware")
        eager = problem.classes["operator_s"] == "eager"
        runtime = Runtime(of("runtime"), of("operator_s"), eager, size, size, of("inference_traffic"))
        pace = inference_pace(
            network=problem.network, runtime=runtime, batch=problem.batch, count=problem.count,
            device=replace(problem.device, gemm_efficiency=gemm, bandwidth_efficiency=bandwidth),
        )  # fmt: skip
    return np.asarray(np.log(pace.rate * problem.factor / problem.measured))


def constants_of(constants: NetworkConstants, *, training: bool) -> dict[Key, float]:
    """The constants of one problem by section and key."""
    found: dict[Key, float] = {}
    for section in TRAINING if training else INFERENCE:
        value = getattr(constants, section)
        if section in SINGLE:
            found[section, ""] = float(value)
        else:
            found |= {(section, key): float(figure) for key, figure in value.items()}
    return found


def fit(problem: Problem, priors: Mapping[Key, float], constants: NetworkConstants, *, training: bool
        ) -> dict[Key, float]:  # fmt: skip
    """Constants of least penalised error; those without an observation keep their prior."""
    used = {(s, str(k)) for s, keys in problem.classes.items() for k in set(keys)} | {(s, "") for s in SINGLE}
    spreads = {
        name: 2.0 * SPREAD if name[0] in WIDE else SPREAD
        for name in priors
        if name not in FIXED and name in used
    }
    return solve(
        lambda values: log_ratios(problem, values, constants, training=training),
        priors=priors, spreads=spreads, weights=problem.weights,
    )  # fmt: skip


def with_values(constants: NetworkConstants, values: Mapping[Key, float]) -> NetworkConstants:
    """The constants with fitted values, three digits."""
    updated: dict[str, Any] = {}
    for (section, key), value in values.items():
        figure = Figure(float(f"{value:.3g}"), source="fit", status="derived")
        if section in SINGLE:
            updated[section] = figure
        else:
            updated.setdefault(section, dict(getattr(constants, section)))[key] = figure
    return constants.model_copy(update=updated)


def left_out(found: Sequence[Observation], priors: Mapping[Key, float],
             constants: NetworkConstants, *, training: bool
             ) -> list[tuple[Observation, float]]:  # fmt: skip
    """Each observation with ln(predicted / measured) from a fit without its source's group."""
    result = []
    for group in sorted({group_of(o.source) for o in found}):
        inside = [o for o in found if group_of(o.source) == group]
        outside = [o for o in found if group_of(o.source) != group]
        values = fit(problem_of(outside, training=training), priors, constants, training=training)
        errors = log_ratios(problem_of(inside, training=training), values, constants, training=training)
        result += list(zip(inside, errors.tolist(), strict=True))
    return result


def slice_of(observation: Observation, *, training: bool) -> str:
    """Name of the slice in the report."""
    if training:
        return f"training {observation.case.network.kind}"
    family = "vendor-tuned" if observation.runtime == "vendor-tuned" else observation.case.network.kind
    return f"inference {family} {'batch 1' if observation.case.batch <= 1 else 'batched'}"
