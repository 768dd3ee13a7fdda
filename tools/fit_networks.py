"""Fit the constants of networks of samples to data/measurements: one least-squares problem each.

Called by tools/fit_calibration.py. Every constant is held near a prior (the feasibility study's
value) by a penalty, so that a class without rows keeps it. Rows count by 1 / sqrt(rows of their
source), so that no source decides alone. Deterministic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fitting import Key, as_yaml, group_of, solve, stacked, write_values
from gpuselect.accuracy.network_cases import (
    Case,
    attention_is_fused,
    case_of,
    check_peak,
    is_mlperf,
    runtime_key,
)
from gpuselect.accuracy.networks import SERVER_SHARE, share_of, stated_rate
from gpuselect.accuracy.records import Row, Scored, Skip
from gpuselect.accuracy.rows import is_decoder, number
from gpuselect.calibration import Calibration, NetworkConstants, network_class, serving_class
from gpuselect.catalog import Catalog
from gpuselect.estimate.network import Network
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.vision import Runtime, inference_pace, training_pace
from gpuselect.network_sites import (
    CONV_KINDS,
    ELEMENT_BYTES,
    HOST_LAUNCHES,
    LAUNCHES,
    TENSOR_PRECISIONS,
    TUNED,
    generation_of,
    power_density,
    power_share,
)
from gpuselect.provenance import Figure
from network_residuals import as_scored, by_card, levelled

# (section, key) -> how far, in log, a constant may easily move from its prior
SPREAD = 0.35
PRIOR = 0.35  # weight of a prior: half of the usual, for a network has many rows a constant
WIDE = frozenset({"power_need", "operator_s", "inference_traffic", "training_operator_s"})
INFERENCE = ("inference_efficiency", "precision", "hardware", "runtime", "operator_s", "inference_traffic",
             "edge_operator", "conv_operator", "generation", "power_need", "tuned")  # fmt: skip
TRAINING = ("training_efficiency", "training_precision", "training_traffic", "training_operator_s",
            "training_hardware", "training_runtime", "training_conv_operator",
            "training_generation", "training_tuned", "link_efficiency", "overlap", "scale_loss")  # fmt: skip
SINGLE = ("training_operator_s", "edge_operator", "conv_operator", "training_conv_operator",
          "link_efficiency", "overlap", "scale_loss")  # fmt: skip
OPEN = (
    "generation",
    "training_generation",
    "model",
    "training_model",
    "tuned",
    "training_tuned",
)  # 1 where nothing is known
# Values before the fit: those of the feasibility study (sections 2.4 and 3 of inference, 4 of training),
# or assumed where it has none; a class without rows keeps its prior. Absent: 1.
PRIORS: dict[str, Any] = {
    "inference_efficiency": {
        "cnn": 0.41, "detector": 0.4, "vit": 0.42, "encoder": 0.64, "diffusion": 0.35, "rnn": 0.4,
        "recsys": 0.35,
    },
    "training_efficiency": {
        "cnn": 0.68, "detector": 0.68, "vit": 0.68, "encoder": 0.68, "diffusion": 0.68, "rnn": 0.34,
        "recsys": 0.34,
    },
    # the study has 0.59 for fp8, from a few rows; the units multiply it as fast as int8
    "precision": {"int8": 0.71, "tf32": 0.76, "fp8": 0.71, "fp4": 0.45, "fp32": 1.2},
    "training_precision": {"fp8": 0.59, "fp32": 1.43},
    "hardware": {
        "geforce": 1.36, "jetson": 0.99, "amd": 0.6, "apple": 0.84, "cpu": 0.84, "other": 0.84,
    },
    "training_hardware": {"slot": 0.8, "jetson": 0.8, "amd": 0.7, "apple": 0.6, "cpu": 0.6, "other": 0.84},
    "runtime": {
        "tensorrt": 0.67, "vendor-tuned": 1.29, "pytorch": 1.17, "compiled": 1.17, "fastertransformer": 0.87,
        "neuron": 0.87, "other": 0.87,
    },
    "training_runtime": {"compiled": 1.3, "vendor-tuned": 1.8},
    "operator_s": {
        "graph": 9.5e-06, "recurrent": 2.85e-05, "training-recurrent": 1.3e-05, "tuned": 7e-06,
        "static": 3e-06, "compiled": 3e-05, "eager": 6e-05,
    },
    "inference_traffic": {"graph": 1.1, "tuned": 1.1, "static": 1.1, "compiled": 2.0, "eager": 5.8},
    "training_traffic": {
        "cnn": 29.0, "detector": 29.0, "vit": 29.0, "encoder": 29.0, "diffusion": 29.0, "rnn": 15.0,
        "recsys": 15.0,
    },
    "training_operator_s": 3e-05, "edge_operator": 2.5, "conv_operator": 1.5, "training_conv_operator": 1.5,
    "link_efficiency": 0.65, "overlap": 0.6, "scale_loss": 0.015,
    "power_need": dict.fromkeys(("volta", "turing", "ampere", "ada-lovelace", "hopper", "blackwell"), 0.7),
    "generation": {}, "training_generation": {}, "tuned": {}, "training_tuned": {},
}  # fmt: skip
LEAST_FACTOR = 0.015  # a factor nearer to 1 is not worth a line
LEAST_GROUPS = 2  # groups of sources that must have run a network before it gets a factor
FIXED = {("training_runtime", "pytorch"), ("precision", "fp16"), ("hardware", "nvidia"), ("hardware", "slot"),
         ("runtime", "pytorch"), ("training_precision", "fp16"), ("training_hardware", "nvidia")}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured rate of a row [samples/s of all cards] with what its prediction needs."""

    row_id: str
    source: str
    case: Case
    runtime: str
    accumulate: float
    factor: float  # on the predicted rate: MLPerf Server
    hosts: float  # cards that one process launches one after another
    fused: float  # 1 where attention keeps its scores on the chip
    rate: float


def observations(rows: Iterable[Row], catalog: Catalog, calibration: Calibration, *, training: bool
                 ) -> list[Observation]:  # fmt: skip
    """Rows with a rate or a time, as rates."""
    found = []
    for row in rows:
        try:
            if row.get("outcome", "ok") != "ok" or power_unknown(row):
                continue
            case = case_of(row, catalog, calibration, training=training)
            accumulate = max(number(row, "grad_accum", 1.0), 1.0) if training else 1.0
            rate = _measured_rate(row, case, accumulate, training=training)
            check_peak(case, rate)
        except Skip:
            continue
        if rate:
            served = not training and row.get("mode") == "server"
            found.append(Observation(
                row["row_id"], row.get("source_id", ""), case, runtime_key(row, training=training),
                accumulate, SERVER_SHARE if served else 1.0,
                case.count if training and "DataParallel" in row.get("framework", "") else 1.0,
                float(not training and attention_is_fused(row, runtime_key(row))), rate,
            ))  # fmt: skip
    return found


def power_unknown(row: Row) -> bool:
    """True for an edge module whose power mode is not stated: its clocks may be half of the peak's.

    MLPerf runs the maximum mode.
    """
    edge = row.get("hardware", "").startswith("jetson") and not is_mlperf(row)
    return edge and not re.search(r"(?i)maxn|super|power|\d+ ?w\b", row.get("notes", ""))


def _measured_rate(row: Row, case: Case, accumulate: float, *, training: bool) -> float:
    """Samples per second of all cards, 0 when the row holds none."""
    if training:
        rate = number(row, "samples_per_s_total")
        step = number(row, "step_time_s")
        length = number(row, "seq_len")
        tokens = number(row, "tokens_per_s_per_accel") * case.count / length if length else 0.0
        return rate or (case.batch * case.count * accumulate / step if step else tokens)
    return stated_rate(row, case)


@dataclass(frozen=True, slots=True)
class Problem:
    """All observations as arrays, and the classes that select their constants."""

    network: Network
    device: Device
    batch: np.ndarray
    count: np.ndarray
    accumulate: np.ndarray
    factor: np.ndarray
    hosts: np.ndarray
    fused: np.ndarray
    density: np.ndarray  # W per TFLOP/s, infinite where power does not bind
    measured: np.ndarray
    classes: Mapping[str, np.ndarray]  # section -> key of each observation
    sources: tuple[str, ...]
    weights: np.ndarray


def weights_of(found: Sequence[Observation]) -> np.ndarray:
    """Weight of each row: 1 / sqrt(rows of its group)."""
    rows_of = Counter(by_source(o) for o in found)
    return np.array([rows_of[by_source(o)] ** -0.5 for o in found])


def problem_of(found: Sequence[Observation], *, training: bool) -> Problem:
    """Stack observations."""
    launches = np.array([LAUNCHES.get(o.runtime, "graph") for o in found])
    steps = np.array([
        "recurrent" if o.case.network.kind == "rnn" else launch
        for o, launch in zip(found, launches, strict=True)
    ])  # fmt: skip
    tuned = np.array([o.case.network.kind if o.runtime == TUNED else "" for o in found])
    kinds = np.array([o.case.network.kind for o in found])
    precisions = np.array([o.case.precision for o in found])
    hardware = np.array([network_class(o.case.accelerator) for o in found])
    generations = np.array([generation_of(o.case.accelerator) for o in found])
    models = np.array([o.case.network.id for o in found])
    runtimes = np.array([o.runtime for o in found])
    classes = (
        {"training_efficiency": kinds, "training_runtime": runtimes, "training_precision": precisions,
         "training_traffic": kinds, "training_hardware": hardware, "training_generation": generations,
         "training_model": models, "training_tuned": tuned}
        if training
        else {"inference_efficiency": kinds, "precision": precisions, "hardware": hardware,
              "runtime": runtimes, "operator_s": steps, "launch": launches, "tuned": tuned,
              "inference_traffic": launches, "generation": generations, "model": models,
              "power_need": generations}
    )  # fmt: skip
    return Problem(
        network=stacked([share_of(o.case.network, o.case.split) for o in found]),
        device=stacked([o.case.device for o in found]),
        batch=np.array([o.case.batch for o in found]),
        count=np.array([o.case.count / o.case.split for o in found]),
        accumulate=np.array([o.accumulate for o in found]), factor=np.array([o.factor for o in found]),
        hosts=np.array([o.hosts for o in found]), fused=np.array([o.fused for o in found]),
        density=np.array([
            power_density(o.case.accelerator)
            if o.case.precision in TENSOR_PRECISIONS and not o.case.slice_alone
            else np.inf
            for o in found
        ]),
        measured=np.array([o.rate for o in found]), classes={
            **classes, "precisions": precisions,
            "memory": np.array([serving_class(o.case.accelerator) for o in found]),
        },
        sources=tuple(o.source for o in found), weights=weights_of(found),
    )  # fmt: skip


def log_ratios(problem: Problem, values: Mapping[Key, float], constants: NetworkConstants,
               *, training: bool) -> np.ndarray:  # fmt: skip
    """ln(predicted / measured) of every observation with these constants."""

    def of(section: str) -> np.ndarray:
        default = 1.0 if section in OPEN else 0.0 if section == "power_need" else None
        return np.array([values.get((section, key), default) for key in problem.classes[section]])

    size = np.array([ELEMENT_BYTES.get(p, 2.0) for p in problem.classes["precisions"]])
    shares = {key: float(figure) for key, figure in constants.bandwidth_efficiency.items()}
    bandwidth = np.array([shares[key] for key in problem.classes["memory"]])
    if training:
        common = of("training_generation") * of("training_model")
        gemm = common * of("training_efficiency") * of("training_precision") * of("training_hardware")
        wide = np.maximum(size, 2.0)
        factor = of("training_runtime") * of("training_tuned")
        conv = np.isin(problem.classes["training_efficiency"], list(CONV_KINDS))
        launches = np.where(conv, values["training_conv_operator", ""], 1.0) * problem.hosts
        fused = problem.classes["training_efficiency"] == "rnn"
        graph = problem.classes["training_runtime"] == TUNED
        launch = np.where(graph, float(constants.operator_s["tuned"]), values["training_operator_s", ""])
        per_operator = np.where(fused, float(constants.operator_s["training-recurrent"]), launch * launches)
        runtime = Runtime(
            compute=factor, operator_s=per_operator, eager=~graph,
            element_bytes=wide, weight_bytes=wide, traffic=of("training_traffic") / factor,
        )  # fmt: skip
        pace = training_pace(
            network=problem.network, runtime=runtime, batch=problem.batch, count=problem.count,
            device=replace(problem.device, gemm_efficiency=gemm, bandwidth_efficiency=bandwidth * common),
            accumulate=problem.accumulate, link_efficiency=values["link_efficiency", ""],
            overlap=values["overlap", ""], scale_loss=values["scale_loss", ""],
        )  # fmt: skip
    else:
        common = of("generation") * of("model")
        gemm = common * of("inference_efficiency") * of("precision") * of("hardware")
        gemm = gemm * power_share(need=of("power_need"), density=problem.density)
        launch = problem.classes["launch"]
        conv = (launch == "eager") & np.isin(problem.classes["inference_efficiency"], list(CONV_KINDS))
        slower = np.where(problem.classes["hardware"] == "jetson", values["edge_operator", ""], 1.0)
        slower = slower * np.where(conv, values["conv_operator", ""], 1.0)
        runtime = Runtime(
            of("runtime") * of("tuned"),
            slower * of("operator_s"),
            np.isin(launch, list(HOST_LAUNCHES)),
            size,
            size,
            of("inference_traffic"),
            problem.fused,
            problem.classes["runtime"] == TUNED,
        )
        pace = inference_pace(
            network=problem.network, runtime=runtime, batch=problem.batch, count=problem.count,
            device=replace(problem.device, gemm_efficiency=gemm, bandwidth_efficiency=bandwidth * common),
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


def shared_models(problem: Problem, *, training: bool) -> list[Key]:
    """Networks that enough groups of sources have run."""
    section = "training_model" if training else "model"
    groups: dict[str, set[str]] = {}
    for name, source in zip(problem.classes[section], problem.sources, strict=True):
        groups.setdefault(str(name), set()).add(origin_of(source))
    return [(section, name) for name in sorted(groups) if name and len(groups[name]) >= LEAST_GROUPS]


def fit(problem: Problem, priors: Mapping[Key, float], constants: NetworkConstants, *, training: bool,
        start: Mapping[Key, float] | None = None) -> dict[Key, float]:  # fmt: skip
    """Constants of least penalised error; those without an observation keep their prior."""
    used = {(s, str(k)) for s, keys in problem.classes.items() for k in set(keys)} | {(s, "") for s in SINGLE}
    priors = {**priors, **dict.fromkeys(shared_models(problem, training=training), 1.0)}
    spreads = {
        name: 2.0 * SPREAD if name[0] in WIDE else SPREAD
        for name in priors
        if name not in FIXED and name in used
    }
    return solve(
        lambda values: log_ratios(problem, values, constants, training=training),
        priors=priors, spreads=spreads, weights=problem.weights, start=start,
        prior=PRIOR,
    )  # fmt: skip


def left_out(found: Sequence[Observation], priors: Mapping[Key, float], constants: NetworkConstants,
             *, training: bool, group: Callable[[Observation], str]
             ) -> list[tuple[Observation, float]]:  # fmt: skip
    """Each observation with ln(predicted / measured) from a fit without its group (source or card)."""
    everything = fit(problem_of(found, training=training), priors, constants, training=training)
    result = []
    for name in sorted({group(o) for o in found}):
        inside = [o for o in found if group(o) == name]
        outside = [o for o in found if group(o) != name]
        values = fit(
            problem_of(outside, training=training), priors, constants, training=training, start=everything
        )
        errors = log_ratios(problem_of(inside, training=training), values, constants, training=training)
        result += list(zip(inside, errors.tolist(), strict=True))
    return result


def by_source(observation: Observation) -> str:
    """Group of the row's source."""
    return origin_of(observation.source)


def origin_of(source: str) -> str:
    """Group of a source; rounds of MLPerf count apart, as in the feasibility study."""
    return source if source.startswith("mlperf") else group_of(source)


def paths_of(values: Mapping[Key, float], priors: Mapping[Key, float]) -> dict[Key, float]:
    """The constants that moved, by their path in calibration.yaml; factors of networks have own blocks."""
    return {
        ("network", *(part for part in key if part)): value
        for key, value in values.items()
        if key[0] not in ("model", "training_model") and value != priors[key]
    }


@dataclass(frozen=True, slots=True)
class Refit:
    """Fitted constants, factors of networks, cards with rows, and left-out residuals."""

    values: dict[Key, float]
    models: dict[str, dict[str, float]]  # section -> catalog id -> factor
    cards: dict[str, list[str]]  # trained_cards, served_cards
    residuals: list[tuple[Scored, float]]
    cards_left_out: list[tuple[Scored, float]]  # training: the level from the same benchmark on other cards


def refit(rows: Mapping[str, Sequence[Row]], catalog: Catalog, calibration: Calibration) -> Refit:
    """Fit training and inference of networks, leave out each group of sources, and each trained card."""
    values: dict[Key, float] = {}
    models: dict[str, dict[str, float]] = {}
    cards: dict[str, list[str]] = {}
    residuals: list[tuple[Scored, float]] = []
    transferred: list[tuple[Scored, float]] = []
    constants = priors_only(calibration.network)
    for layout, training in (("inference", False), ("training", True)):  # training takes the cost of graphs
        others = [row for row in rows[layout] if not is_decoder(row, catalog)]
        found = observations(others, catalog, calibration, training=training)
        priors = constants_of(constants, training=training)
        fitted = fit(problem_of(found, training=training), priors, constants, training=training)
        values |= paths_of(fitted, priors)
        if not training:
            constants = with_values(constants, fitted, "operator_s")
        section = "training_model" if training else "model"
        models[section] = {
            key[1]: value
            for key, value in fitted.items()
            if key[0] == section and abs(value - 1.0) >= LEAST_FACTOR
        }
        cards["trained_cards" if training else "served_cards"] = sorted(
            {o.case.accelerator.id for o in found}
        )
        pairs = left_out(found, priors, constants, training=training, group=by_source)
        residuals += as_scored(pairs, training=training)
        if training:
            alone = left_out(found, priors, constants, training=True, group=by_card)
            transferred = as_scored(levelled(alone), training=True)
    return Refit(values, models, cards, residuals, transferred)


def with_values(constants: NetworkConstants, fitted: Mapping[Key, float], section: str) -> NetworkConstants:
    """The constants with one fitted section."""
    old = getattr(constants, section)
    new = {key: Figure(fitted[section, key], source="fit") for key in old}
    return constants.model_copy(update={section: new})


def priors_only(constants: NetworkConstants) -> NetworkConstants:
    """The constants before any fit, so that a fit does not depend on the last one."""
    updated: dict[str, Any] = {"model": {}, "training_model": {}}
    for section, value in PRIORS.items():
        if isinstance(value, dict):
            old = getattr(constants, section)
            updated[section] = {key: Figure(value.get(key, 1.0), source="fit") for key in old}
        else:
            updated[section] = Figure(value, source="fit")
    return constants.model_copy(update=updated)


def write(path: Path, found: Refit) -> None:
    """Put constants, factors of networks and the cards into calibration.yaml."""
    write_values(path, found.values)
    text = path.read_text(encoding="utf-8")
    for section, factors in found.models.items():
        lines = "".join(
            f"\n    {name}: {{value: {as_yaml(value)}, source: fit, status: derived}}"
            for name, value in sorted(factors.items())
        )
        text = re.sub(rf"^  {section}:(?: {{}})?(?:\n    .*)*", f"  {section}:{lines or ' {}'}", text,
                      flags=re.MULTILINE)  # fmt: skip
    for section, names in found.cards.items():
        text = re.sub(rf"^  {section}: \[.*\]$", f"  {section}: [{', '.join(names)}]", text,
                      flags=re.MULTILINE)  # fmt: skip
    path.write_text(text, encoding="utf-8")
