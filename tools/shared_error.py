"""Print how much of an estimate's error all cards of one workload share (data/profiles.yaml, shared_error).

Rows of one source and one network on different cards differ by what is not shared: half the mean square of
their difference in log(measured / predicted) is that variance. The rest of the variance of a slice is
shared: the same model, software and recipe are behind both cards. Sources weigh the same, large or small.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np

from gpuselect.accuracy.evaluation import Measured, evaluate
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.measurements import default_files, read_measurements

LEAST_ROWS = 40  # of a slice
SPEEDS = {  # metric -> 1 where more is faster, -1 where less is
    "tokens_per_s_per_accel": 1, "output_tok_s_total": 1, "samples_per_s_total": 1, "prefill_tok_s": 1,
    "requests_or_images_per_s_total": 1, "latency_ms": -1, "tpot_ms": -1,
}  # fmt: skip
Errors = dict[tuple[str, str], dict[str, list[float]]]  # (source, network) -> card -> errors


def errors_by_slice() -> dict[tuple[str, str], Errors]:
    """log(measured / predicted) of every speed of the shipped rows, by slice and metric."""
    read = [read_measurements(path) for path in default_files()]
    measured = [Measured(row, layout, in_sample=True) for layout, rows in read for row in rows]
    cells = {(m.row.get("row_id") or m.row.get("ref_id")): m.row for m in measured}
    found: dict[tuple[str, str], Errors] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in evaluate(measured, load_catalog(), load_calibration()).rows:
        cell = cells[row.row_id]
        if row.metric in SPEEDS and cell.get("source_id"):
            error = SPEEDS[row.metric] * float(np.log(row.measured / row.predicted))
            key = (cell["source_id"], cell["model_name"])
            found[row.slice, row.metric][key][cell["hardware"]].append(error)
    return found


def shared_part(errors: Errors) -> tuple[int, int, float] | None:
    """Rows, sources with two or more cards, and the shared part of the variance of a slice."""
    own, apart = defaultdict(list), defaultdict(list)
    for (source, _network), cards in errors.items():
        own[source] += [error for values in cards.values() for error in values]
        middles = [float(np.median(values)) for values in cards.values()]
        apart[source] += [(a - b) ** 2 for a, b in combinations(middles, 2)]
    apart = {source: squares for source, squares in apart.items() if squares}
    rows = sum(map(len, own.values()))
    if rows < LEAST_ROWS or not apart:
        return None
    middle = np.median([error for values in own.values() for error in values])
    variance = np.mean([np.mean((np.array(values) - middle) ** 2) for values in own.values()])
    unshared = np.mean([np.mean(squares) for squares in apart.values()]) / 2.0
    return rows, len(apart), float(1.0 - unshared / variance)


def main() -> None:
    """One line per slice and the median of all."""
    parts = []
    for (name, metric), errors in sorted(errors_by_slice().items()):
        found = shared_part(errors)
        if found is not None:
            parts.append(found[2])
            print(f"{name:32} {metric:30} {found[0]:5} rows {found[1]:3} sources {found[2]:6.2f}")
    print(f"median of {len(parts)} slices {np.median(parts):.2f}, from {min(parts):.2f} to {max(parts):.2f}")


if __name__ == "__main__":
    main()
