"""Refit the constants that the measured rows identify, and the residual quantiles.

    python tools/fit_calibration.py          rewrite data/calibration.yaml
    python tools/fit_calibration.py --cv     leave one source out; write docs/accuracy.md

Fitted: `training.sustained_gemm` and the vendor factors of `training_vendor`, each row weighted by
1 / sqrt(rows of its source), median of log(measured / predicted). All other constants keep their
value and source. Deterministic: no random numbers, rows in file order.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpuselect.accuracy import Scored, Skipped, predict_serving, predict_training
from gpuselect.calibration import Calibration, training_class
from gpuselect.catalog import Catalog
from gpuselect.names import resolve_accelerator
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.measurements import read_rows

ROOT = Path(__file__).resolve().parents[1]
GROUPS = {"bs-": "bigscience", "mbridge": "megatron-bridge", "mlperf": "mlperf", "tpurec": "tpu-recipes",
          "maxtext": "maxtext", "torchtitan": "torchtitan", "ao-": "torchtitan", "gaudi": "gaudi"}  # fmt: skip
PRIOR_SOURCES = 3.0  # a vendor factor is shrunk to 1 as if this many sources had measured 1
QUANTILE_OF = {
    "training": ("training",), "decode": ("serving decode b1",),
    "prefill": ("serving ttft unloaded",),
    "throughput": ("serving throughput", "serving tpot loaded", "serving decode batched",
                   "serving single stream"),
}  # fmt: skip


def group_of(source: str) -> str:
    """Sources of one origin count as one."""
    return next((name for start, name in GROUPS.items() if source.startswith(start)), source)


def weighted_quantile(values: Sequence[tuple[float, float]], q: float) -> float:
    """Quantile q of (value, weight) pairs."""
    ordered = sorted(values)
    mass = sum(weight for _value, weight in ordered)
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= q * mass:
            return value
    return ordered[-1][0]


def weights_of(rows: Iterable[Scored]) -> dict[str, float]:
    """Weight of a row of each group: 1 / sqrt(rows of the group)."""
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[group_of(row.source)] += 1
    return {name: 1.0 / math.sqrt(n) for name, n in counts.items()}


def log_ratio(row: Scored) -> float:
    """log(measured / predicted) of a rate; times are turned into rates."""
    ratio = math.log(row.measured / row.predicted)
    return -ratio if row.metric.endswith("_ms") else ratio


def fit_factors(rows: Sequence[Scored], kinds: dict[str, str]) -> tuple[float, dict[str, float]]:
    """Factor on the sustained rate (from NVIDIA rows) and on each other class relative to it."""
    weight = weights_of(rows)
    pairs = defaultdict(list)
    for row in rows:
        pairs[kinds[row.row_id]].append((log_ratio(row), weight[group_of(row.source)]))
    base = weighted_quantile(pairs["nvidia"], 0.5)
    factors = {}
    for kind, values in pairs.items():
        groups = {group_of(r.source) for r in rows if kinds[r.row_id] == kind}
        shrink = len(groups) / (len(groups) + PRIOR_SOURCES)
        factors[kind] = math.exp(shrink * (weighted_quantile(values, 0.5) - base))
    factors["nvidia"] = 1.0
    return math.exp(base), factors


def training_rows(
    catalog: Catalog, calibration: Calibration
) -> tuple[list[Scored], dict[str, str], dict[str, int]]:
    """Predictions of all decoder training rows, the class of each row's card, and the skips."""
    scored, kinds, skips = [], {}, defaultdict(int)
    for row in read_rows(ROOT / "data/measurements/training.csv"):
        result = predict_training(row, catalog, calibration)
        if isinstance(result, Skipped):
            skips[result.code] += 1
            continue
        scored.append(result)
        kinds[result.row_id] = training_class(resolve_accelerator(row["hardware"], catalog)[0])
    return scored, kinds, dict(skips)


def serving_rows(catalog: Catalog, calibration: Calibration) -> tuple[list[Scored], dict[str, int]]:
    """Predictions of all decoder serving rows, and the skips."""
    scored: list[Scored] = []
    skips: dict[str, int] = defaultdict(int)
    for row in read_rows(ROOT / "data/measurements/inference.csv"):
        result = predict_serving(row, catalog, calibration)
        if isinstance(result, Skipped):
            skips[result.code] += 1
        else:
            scored.extend(r for r in result if r.measured > 0)
    return scored, dict(skips)


def left_out(rows: Sequence[Scored], kinds: dict[str, str]) -> list[tuple[Scored, float]]:
    """Residual log(measured / predicted) of each row with its group's rows left out of the fit.

    The compute-bound part dominates, so a factor on the sustained rate is applied to the whole step.
    """
    result = []
    for name in sorted({group_of(r.source) for r in rows}):
        rest = [r for r in rows if group_of(r.source) != name]
        base, factors = fit_factors(rest, kinds)
        for row in rows:
            if group_of(row.source) == name:
                factor = base * factors.get(kinds[row.row_id], 1.0)
                result.append((row, log_ratio(row) - math.log(factor)))
    return result


def quantiles(pairs: Sequence[tuple[Scored, float]]) -> tuple[float, float, float, int, int]:
    """Factors measured / predicted at 10, 50, 90 %, rows and groups."""
    weight = weights_of([row for row, _residual in pairs])
    values = [(residual, weight[group_of(row.source)]) for row, residual in pairs]
    low, middle, high = (math.exp(weighted_quantile(values, q)) for q in (0.1, 0.5, 0.9))
    return min(low, 1.0), middle, max(high, 1.0), len(pairs), len(weight)


def slice_quantiles(
    trained: Sequence[tuple[Scored, float]], served: Sequence[Scored]
) -> dict[str, tuple[float, float, float, int, int]]:
    """Quantiles of each slice that answers use."""
    found = {}
    for name, cuts in QUANTILE_OF.items():
        if name == "training":
            found[name] = quantiles(trained)
        else:
            pairs = [(row, log_ratio(row)) for row in served if row.slice in cuts]
            if pairs:
                found[name] = quantiles(pairs)
    low, _middle, high, _rows, _sources = found["training"]
    found["training-uncovered"] = (min(low, 0.62), 1.0, max(high, 1.6), 0, 0)
    return found


def rewrite(path: Path, calibration: Calibration, base: float, factors: dict[str, float],
            found: dict[str, tuple[float, float, float, int, int]]) -> None:  # fmt: skip
    """Put the fitted values into the file; every other line stays as it is."""
    text = path.read_text(encoding="utf-8")
    sustained = float(calibration.training.sustained_gemm) * base
    text = _set(text, "sustained_gemm", sustained)
    for kind, factor in factors.items():
        if kind in calibration.training_vendor and kind != "nvidia":
            text = _set(text, kind, float(calibration.training_vendor[kind]) * factor)
    for name, (low, middle, high, rows, sources) in found.items():
        line = (
            f"  {name}: {{low: {low:.3f}, median: {middle:.3f}, high: {high:.3f}, "
            f"rows: {rows}, sources: {sources}}}"
        )
        text = re.sub(rf"^  {name}: {{low.*$", line, text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")


def _set(text: str, key: str, value: float) -> str:
    return re.sub(
        rf"^(  {key}: ){{value: [^,]*, source: \w+",
        rf"\g<1>{{value: {value:.3f}, source: fit",
        text, flags=re.MULTILINE,
    )  # fmt: skip


def table(pairs: Sequence[tuple[str, float]]) -> list[str]:
    """Markdown rows: slice, n, median and p90 of |error|, bias."""
    cuts: dict[str, list[float]] = defaultdict(list)
    for name, residual in pairs:
        cuts[name].append(residual)
    lines = []
    for name, values in cuts.items():
        errors = sorted(abs(math.exp(-v) - 1.0) for v in values)
        bias = math.exp(-sorted(values)[len(values) // 2]) - 1.0
        lines.append(
            (errors[len(errors) // 2],
             f"| {name} | {len(values)} | {100 * errors[len(errors) // 2]:.0f} % "
             f"| {100 * errors[int(0.9 * (len(errors) - 1))]:.0f} % | {100 * bias:+.0f} % |")
        )  # fmt: skip
    return [line for _key, line in sorted(lines, reverse=True)]


def report(trained: Sequence[tuple[Scored, float]], served: Sequence[Scored],
           skips: Sequence[dict[str, int]]) -> str:  # fmt: skip
    """Text of docs/accuracy.md."""
    head = (
        "| slice | rows | median error | 90 % of rows below | median bias |\n|---|---|---|---|---|"
    )
    by_slice = [(row.slice, residual) for row, residual in trained]
    by_source = [(group_of(row.source), residual) for row, residual in trained]
    serving = [(row.slice, log_ratio(row)) for row in served]
    serving_source = [(row.source, log_ratio(row)) for row in served]
    skipped = "\n".join(
        f"- {name}: "
        + ", ".join(f"{code} {n}" for code, n in sorted(s.items(), key=lambda x: -x[1]))
        for name, s in zip(("training", "inference"), skips, strict=True)
    )
    return "\n".join([
        "# Accuracy on measured rows", "",
        "Generated by `python tools/fit_calibration.py --cv`. Errors are |predicted / measured - 1|; worst "
        "slices first.", "",
        "## Decoder training, throughput, each source left out of the fit", "", head,
        *table(by_slice), "", "By source:", "", head, *table(by_source), "",
        "## Decoder serving", "",
        "The serving constants are those of a feasibility study that used the same rows: these errors "
        "are in-sample.", "", head, *table(serving), "", "By source:", "", head,
        *table(serving_source), "", "## Rows that are not predicted", "", skipped, "",
    ])  # fmt: skip


def main() -> int:
    """Run the fit; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cv", action="store_true", help="leave one source out, write docs/accuracy.md"
    )
    arguments = parser.parse_args()
    catalog, calibration = load_catalog(), load_calibration()
    rows, kinds, skips = training_rows(catalog, calibration)
    served, serving_skips = serving_rows(catalog, calibration)
    trained = left_out(rows, kinds)
    found = slice_quantiles(trained, served)
    if arguments.cv:
        target = ROOT / "docs/accuracy.md"
        target.write_text(report(trained, served, (skips, serving_skips)), encoding="utf-8")
    else:
        base, factors = fit_factors(rows, kinds)
        rewrite(ROOT / "data/calibration.yaml", calibration, base, factors, found)
    for name, values in found.items():
        print(name, [round(v, 3) for v in values])
    return 0


if __name__ == "__main__":
    sys.exit(main())
