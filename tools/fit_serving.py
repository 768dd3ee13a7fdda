"""Fit the constants of decoder serving to data/measurements: one least-squares problem.

Called by tools/fit_calibration.py. Priors are the values of the inference feasibility study,
section 3; a class without rows keeps its prior. Rows count by 1 / sqrt(rows of their source), so
that no source decides alone. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fitting import Key, group_of, solve, source_weights, stacked, write_values
from gpuselect.accuracy import Scored
from gpuselect.accuracy.decoder_serving import RATES, predict, rates
from gpuselect.accuracy.records import TIMES, Row, Skip
from gpuselect.accuracy.rows import is_decoder
from gpuselect.accuracy.serving_cases import Case, case_of
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.estimate.serving import Engine

SPREAD = 0.5  # how far, in log, a constant may easily move from its prior
TIGHT = 0.2  # shares of the peak bandwidth, which nothing exceeds
CLASSES = (
    "serving_bandwidth", "serving_compute", "serving_kernel", "dequantise", "prefill_dequantise",
    "link_latency_s", "engines", "engine_host", "launch",
)  # fmt: skip
FIXED = {
    ("dequantise", "none"), ("prefill_dequantise", "none"), ("launch", "none"), ("serving_kernel", "hbm"),
}  # fmt: skip
ASSUMED = 0.5  # weight of a row that left something open
WEIGHT = 0.45  # of a prior against one row of a source of its own
# what a constant is before any fit, so that a fit does not depend on the last one: the study's values, and
# assumptions where it has none; engines start at 1, tuned submissions at its values for them
PRIORS: dict[str, dict[str, float]] = {
    "serving": {
        "kv_efficiency": 0.576, "half_efficiency_tokens": 126, "fp8_relative": 0.869,
        "fp4_relative": 0.708, "moe_bandwidth": 1.2, "moe_compute": 0.8, "moe_routing_bytes": 30,
        "link_efficiency": 0.451, "layer_overhead_s": 2.17e-05, "native_layer_s": 2.17e-05,
        "moe_layer_overhead_s": 2.73e-05, "eager_layer_s": 0.000879, "eager_kv_copies": 3,
        "eager_group_copies": 4.5, "step_overhead_s": 0.00251, "sequence_overhead_s": 2.9e-05,
        "server_overhead_s": 0.0918, "scheduling": 0.897, "attention_prefill_efficiency": 0.35,
        "network_latency_s": 5e-05, "loose_latency_s": 0.0002, "drain": 0.5,
    },
    "serving_bandwidth": {
        "hbm": 0.637, "gddr": 0.872, "unified": 0.846, "apple": 0.846, "amd": 0.652, "other": 0.652,
    },
    "serving_compute": {
        "hbm": 0.614, "gddr": 0.584, "amd": 0.387, "unified": 0.464, "apple": 0.744, "other": 0.602,
    },
    "dequantise": {
        "none": 1, "w4": 0.78, "exl": 0.842, "gguf": 0.833, "mlx": 0.808, "int8": 0.57, "bnb": 0.241,
    },
    "prefill_dequantise": {
        "none": 1, "w4": 0.786, "exl": 0.786, "gguf": 0.541, "mlx": 1, "int8": 1, "bnb": 0.5,
    },
    "link_latency_s": {
        "fast": 2.31e-05, "pcie": 2.35e-05,
    },
    "engines": {
        "vendor-tuned": 1.3, "vendor-tuned-2023": 0.6,
    },
    "launch": {
        "none": 1, "w4": 1, "gguf": 1, "mlx": 1, "int8": 3, "bnb": 2, "fp8": 1.5,
    },
}  # fmt: skip

WIDE = (  # constants that the study did not have or had from few rows
    "sequence_overhead_s", "step_overhead_s", "layer_overhead_s", "native_layer_s", "moe_routing_bytes",
    "moe_layer_overhead_s", "server_overhead_s", "eager_layer_s", "drain", "half_efficiency_tokens",
    "network_latency_s", "loose_latency_s", "eager_group_copies", "eager_kv_copies",
    "attention_prefill_efficiency",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured metric of a row with what its prediction needs."""

    scored: Scored
    case: Case


def observations(
    rows: Iterable[Row], catalog: Catalog, calibration: Calibration, *, every: bool = False
) -> list[Observation]:
    """The first metric of each slice of every row that is predicted, or every metric."""
    found = []
    for row in rows:
        if not is_decoder(row, catalog):
            continue
        try:
            scored = predict(row, catalog, calibration)
            case = case_of(row, catalog, calibration)
        except Skip:
            continue
        seen: set[str] = set()
        for one in scored:
            if one.metric in RATES and (every or one.slice not in seen):
                seen.add(one.slice)
                found.append(Observation(one, case))
    return found


@dataclass(frozen=True, slots=True)
class Problem:
    """All observations as arrays, and the classes that select their constants."""

    case: Case
    modes: np.ndarray
    metric: np.ndarray  # index into RATES
    measured: np.ndarray
    time: np.ndarray
    classes: Mapping[str, np.ndarray]  # section -> key of each observation
    relative: np.ndarray  # precision of the multiplication
    weights: np.ndarray


def problem_of(found: Sequence[Observation]) -> Problem:
    """Stack observations."""
    cases = [o.case for o in found]
    numbers: dict[str, Any] = {
        name: np.array([float(getattr(c, name)) for c in cases])
        for name in (
            "weight_bytes",
            "kv_bytes",
            "inputs",
            "outputs",
            "batch",
            "beams",
            "sent",
            "most",
            "arrival",
        )
    }
    case = replace(
        cases[0], shape=stacked([c.shape for c in cases]), plan=stacked([c.plan for c in cases]),
        device=stacked([c.device for c in cases]), engine=_engines([c.engine for c in cases]),
        single=np.array([bool(c.single) for c in cases]), **numbers,
    )  # fmt: skip
    kernels = np.array([c.kernel for c in cases])
    classes = {
        "serving_bandwidth": np.array([c.hardware for c in cases]),
        "serving_compute": np.array([c.hardware for c in cases]), "dequantise": kernels,
        "prefill_dequantise": kernels, "engines": np.array([c.name for c in cases]),
        "link_latency_s": np.array(["fast" if c.device.domain > 1 else "pcie" for c in cases]),
    }  # fmt: skip
    eager = np.array([bool(c.engine.eager) for c in cases])
    eight = (kernels == "none") & np.array([c.precision == "fp8" for c in cases])
    classes["serving_kernel"] = classes["serving_compute"]
    classes["launch"] = np.where(eager, np.where(eight, "fp8", kernels), "-")
    classes["engine_host"] = np.where(eager, "-", classes["engines"])
    share = np.array([ASSUMED if o.scored.assumed else 1.0 for o in found])
    return Problem(
        case=case, modes=np.array([c.mode for c in cases]),
        metric=np.array([RATES.index(o.scored.metric) for o in found]),
        measured=np.array([o.scored.measured for o in found]),
        time=np.array([o.scored.metric in TIMES for o in found]), classes=classes,
        relative=np.array([c.precision for c in cases]),
        weights=share * source_weights([o.scored.source for o in found]),
    )  # fmt: skip


def _engines(engines: Sequence[Engine]) -> Engine:
    """Engines as one record of arrays; flags stay flags."""
    return Engine(**{f.name: np.array([getattr(e, f.name) for e in engines]) for f in fields(Engine)})


def log_ratios(problem: Problem, values: Mapping[Key, float]) -> np.ndarray:
    """ln(predicted / measured) of the rate of every observation with these constants."""

    def of(section: str, missing: float = 1.0) -> np.ndarray:
        keys = problem.classes[section]
        table = {key: values.get((section, key), missing) for key in set(keys.tolist())}
        return np.array([table[key] for key in keys])

    shared = {key: value for (section, key), value in values.items() if section == "serving"}
    constants: Any = SimpleNamespace(**shared)
    relative = np.select(
        [np.isin(problem.relative, ("fp8", "int8")), problem.relative == "fp4"],
        [constants.fp8_relative, constants.fp4_relative], 1.0,
    )  # fmt: skip
    case = problem.case
    case = replace(
        case,
        engine=replace(case.engine, compute=of("engines") * relative, memory=of("dequantise"),
                       prefill=of("prefill_dequantise"), host=of("engine_host") * of("launch"),
                       kernel=of("serving_kernel")),
        device=replace(case.device, bandwidth_efficiency=of("serving_bandwidth"),
                       gemm_efficiency=of("serving_compute"), link_latency=of("link_latency_s")),
    )  # fmt: skip
    table = rates(case, constants, problem.modes)
    size = len(problem.measured)
    predicted = np.array([np.broadcast_to(table[name], (size,)) for name in RATES])[
        problem.metric, np.arange(size)
    ]
    ratio = np.log(predicted / problem.measured)
    return np.asarray(np.where(problem.time, -ratio, ratio))


def constants_of(calibration: Calibration) -> dict[Key, float]:
    """The constants of serving by section and key."""
    found: dict[Key, float] = {("serving", key): float(v) for key, v in calibration.serving}
    for section in CLASSES:
        found |= {(section, key): float(v) for key, v in getattr(calibration, section).items()}
    return found


def spreads_of(problem: Problem, priors: Mapping[Key, float]) -> dict[Key, float]:
    """Spread of each constant that the observations identify."""
    used = {(s, str(k)) for s, keys in problem.classes.items() for k in set(keys.tolist())}

    def spread(name: Key) -> float:
        if name[0] == "serving_bandwidth":
            return TIGHT
        return 2.0 * SPREAD if name[0] == "serving" and name[1] in WIDE else SPREAD

    return {
        name: spread(name) for name in priors if name not in FIXED and (name[0] == "serving" or name in used)
    }


def fit_values(
    problem: Problem, priors: Mapping[Key, float], start: Mapping[Key, float] | None = None
) -> dict[Key, float]:
    """Constants of least penalised error; those without an observation keep their prior."""
    spreads = spreads_of(problem, priors)
    if start is not None:
        start = {name: start[name] if name in spreads else value for name, value in priors.items()}
    return solve(
        lambda values: log_ratios(problem, values),
        priors=priors, spreads=spreads, weights=problem.weights, start=start, prior=WEIGHT,
    )  # fmt: skip


def left_out(
    fitted: Sequence[Observation], scored: Sequence[Observation], priors: Mapping[Key, float],
    full: Mapping[Key, float],
) -> list[tuple[Scored, float]]:  # fmt: skip
    """Each scored metric with ln(measured / predicted) of its rate from a fit without its source's group."""
    result = []
    for group in sorted({group_of(o.scored.source) for o in scored}):
        inside = [o for o in scored if group_of(o.scored.source) == group]
        outside = [o for o in fitted if group_of(o.scored.source) != group]
        values = fit_values(problem_of(outside), priors, full)
        errors = log_ratios(problem_of(inside), values)
        result += [(o.scored, -error) for o, error in zip(inside, errors.tolist(), strict=True)]
    return result


def priors_of(calibration: Calibration) -> dict[Key, float]:
    """The constants before any fit; those that PRIORS does not name are factors that start at 1."""
    return {(s, k): PRIORS.get(s, {}).get(k, 1.0) for s, k in constants_of(calibration)}


@dataclass(frozen=True, slots=True)
class Refit:
    """Fitted constants by their path in calibration.yaml, and left-out residuals."""

    values: dict[Key, float]
    residuals: list[tuple[Scored, float]]
    kinds: dict[str, dict[str, str]]  # engine, hardware class, precision -> row -> which


def fit(catalog: Catalog, calibration: Calibration, rows: Sequence[Row]) -> dict[Key, float]:
    """Constants of least penalised error by their path in calibration.yaml, those with rows."""
    problem = problem_of(observations(rows, catalog, calibration))
    priors = priors_of(calibration)
    values = fit_values(problem, priors)
    return {name: values[name] for name in spreads_of(problem, priors)}


def refit(rows: Sequence[Row], catalog: Catalog, calibration: Calibration) -> Refit:
    """Fit to all rows, and leave each group of sources out once."""
    values = fit(catalog, calibration, rows)
    priors = priors_of(calibration)
    scored = observations(rows, catalog, calibration, every=True)
    pairs = left_out(observations(rows, catalog, calibration), scored, priors, {**priors, **values})
    kinds = {
        "engine": {o.scored.row_id: o.case.name for o in scored},
        "hardware class": {o.scored.row_id: o.case.hardware for o in scored},
        "weights and precision": {
            o.scored.row_id: f"{o.case.kernel.replace('none', 'plain')} {o.case.precision}" for o in scored
        },
    }
    return Refit(values, pairs, kinds)


def write(path: Path, found: Refit) -> None:
    """Put the constants into calibration.yaml."""
    write_values(path, found.values)
