"""What the fits share: weights of sources, penalised least squares, and writing the constants back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

Key = tuple[str, ...]  # path of a constant in calibration.yaml
GROUPS = {
    "bs-": "bigscience", "mbridge": "megatron-bridge", "mlperf": "mlperf", "tpurec": "tpu-recipes",
    "maxtext": "maxtext", "torchtitan": "torchtitan", "ao-": "torchtitan", "gaudi": "gaudi",
    "lambda-new": "lambda", "lambda-old": "lambda", "lambda-v2": "lambda", "dle-": "dle", "timm": "timm",
    "trtllm-docs": "trtllm-docs",
}  # fmt: skip
KNEE = 0.4  # errors beyond this, in log, count linearly
PRIOR = 0.7  # weight of one prior against one row of a source of its own


def group_of(source: str) -> str:
    """Sources of one origin count as one.

    >>> group_of("mlperf-v3_1"), group_of("exllama")
    ('mlperf', 'exllama')
    """
    return next((name for start, name in GROUPS.items() if source.startswith(start)), source)


def source_weights(sources: Sequence[str]) -> np.ndarray:
    """Weight of each row: 1 / sqrt(rows of its group), so that no source decides alone."""
    rows_of = Counter(group_of(source) for source in sources)
    return np.array([rows_of[group_of(source)] ** -0.5 for source in sources])


def stacked(records: Sequence[Any]) -> Any:
    """Records of numbers as one record of arrays; text stays that of the first."""
    kind = type(records[0])
    return kind(
        **{
            f.name: getattr(records[0], f.name)
            if isinstance(getattr(records[0], f.name), str)
            else np.array([float(getattr(record, f.name)) for record in records])
            for f in fields(kind)
        }
    )


def soft(errors: np.ndarray) -> np.ndarray:
    """Signed root of the pseudo-Huber loss: quadratic below KNEE, linear above."""
    loss = 2.0 * KNEE**2 * (np.sqrt(1.0 + (errors / KNEE) ** 2) - 1.0)
    return np.asarray(np.sign(errors) * np.sqrt(loss))


def solve(
    log_ratios: Callable[[Mapping[Key, float]], np.ndarray],
    *,
    priors: Mapping[Key, float],
    spreads: Mapping[Key, float],
    weights: np.ndarray,
    start: Mapping[Key, float] | None = None,
    prior: float = PRIOR,
) -> dict[Key, float]:
    """Constants of least penalised error; those without a spread keep their prior.

    Minimises sum w soft(ln predicted / measured)^2 + sum (prior weight * ln(value / prior) / spread)^2
    over the logarithms of the constants. Deterministic: starts at `start`, or at the priors.
    """
    names = [name for name in priors if name in spreads]
    centre = np.log([priors[name] for name in names])
    begin = np.log([(start or priors).get(name, priors[name]) for name in names])
    spread = np.array([spreads[name] for name in names])

    def residuals(point: np.ndarray) -> np.ndarray:
        values = {**priors, **dict(zip(names, np.exp(point), strict=True))}
        pull = prior * (point - centre) / spread
        return np.concatenate([np.sqrt(weights) * soft(log_ratios(values)), pull])

    found = np.exp(least_squares(residuals, begin, method="trf", max_nfev=40, ftol=1e-4, xtol=1e-4).x)
    return {**priors, **{name: float(value) for name, value in zip(names, found, strict=True)}}


def as_yaml(value: float) -> str:
    """A constant of three digits as YAML 1.1 reads it: an exponent needs a point before it.

    >>> as_yaml(5e-05), as_yaml(1.834)
    ('5.0e-05', '1.83')
    """
    return re.sub(r"^(-?\d+)e", r"\1.0e", f"{value:.3g}")


def write_values(path: Path, values: Mapping[Key, float], *, source: str = "fit") -> None:
    """Put fitted constants into the YAML file; every other line stays as it is.

    A key is the path in the file: ("serving", "kv_efficiency") or ("network", "runtime", "pytorch").
    Raises KeyError for a path that the file does not have.
    """
    lines = path.read_text(encoding="utf-8").split("\n")
    missing = set(values)
    trail: list[str] = []
    for place, line in enumerate(lines):
        found = re.match(r"^( *)([\w.-]+):", line)
        if found is None:
            continue
        trail = [*trail[: len(found[1]) // 2], found[2]]
        key = tuple(trail)
        if key in values:
            start = (
                f"{found[1]}{found[2]}: {{value: {as_yaml(values[key])}, source: {source}, status: derived"
            )
            note = re.search(r', note: ".*"\}$', line)
            lines[place] = start + (note[0] if note else "}")
            missing.discard(key)
    if missing:
        raise KeyError(f"{path.name} has no {sorted(missing)}")
    path.write_text("\n".join(lines), encoding="utf-8")
