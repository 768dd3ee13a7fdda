"""Print how good the predictions of decoder training are beyond their errors.

    python tools/training_report.py

Every prediction is made with the row's own group of sources left out of the fit: signs of layout changes
inside one source, and order of cards inside one source. Other tools stand beside it in docs/accuracy.md.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from fit_training import Observation, fit_all, left_out_errors, observations
from gpuselect.accuracy.records import TIMES
from gpuselect.accuracy.rows import is_decoder
from gpuselect.plan import Plan
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.measurements import default_files, read_measurements

SAME, DIFFERENT = 0.02, math.log(1.1)  # closer than the first counts as equal; cards: from the second on
Error = tuple[Observation, float]  # log(measured / predicted) of the rate


def batch(plan: Plan) -> int:
    """Sequences of one step."""
    return int(plan.micro_batch * plan.dp * plan.grad_accum)


def layout_change(one: Plan, other: Plan) -> str:
    """What alone differs between two plans of one batch: tp, pp or micro_batch; else empty."""
    if batch(one) != batch(other):
        return ""
    widths = ("tp", "pp", "dp", "ep", "micro_batch", "virtual")
    changed = {width for width in widths if getattr(one, width) != getattr(other, width)}
    if changed == {"micro_batch"}:
        return "micro_batch"
    if "tp" in changed and not changed & {"micro_batch", "ep"}:
        return "tp"
    return "pp" if "pp" in changed and not changed & {"tp", "micro_batch", "ep"} else ""


def setting(observation: Observation) -> tuple[object, ...]:
    """What must be equal in a pair that shows the effect of the layout."""
    case, row = observation.case, observation.row
    plan = case.plan
    return (
        observation.source, case.accelerator.id, plan.count, round(case.shape.params / 1e8), case.seq_len,
        case.precision, case.method, row.get("framework"), row.get("framework_version"), plan.zero_stage,
        plan.recompute, plan.cp,
    )  # fmt: skip


def pairs(errors: Sequence[Error]) -> Iterator[tuple[str, float, float]]:
    """Layout change, and the logarithm of the ratio of both rates, measured and predicted."""
    groups: dict[tuple[object, ...], list[Error]] = defaultdict(list)
    for error in errors:
        groups[setting(error[0])].append(error)
    for group in groups.values():
        for (one, left), (other, right) in combinations(group, 2):
            kind = layout_change(one.case.plan, other.case.plan)
            measured = math.log(rate_of(one) / rate_of(other))
            if kind and abs(measured) > SAME:
                yield kind, measured, measured - left + right


def rate_of(observation: Observation) -> float:
    """Measured rate of the first metric; the reciprocal of a time."""
    scored = observation.scored[0]
    return 1.0 / scored.measured if scored.metric in TIMES else scored.measured


def card_pairs(errors: Sequence[Error]) -> Iterator[tuple[float, float]]:
    """Measured and predicted log ratio of two cards that ran one job in one source."""
    groups: dict[tuple[object, ...], list[Error]] = defaultdict(list)
    for observation, residual in errors:
        case, row = observation.case, observation.row
        key = (observation.source, row.get("model_name"), case.plan.count, case.seq_len, case.method,
               row.get("compute_precision"), row.get("global_batch"), row.get("recompute"),
               observation.scored[0].metric)  # fmt: skip
        groups[key].append((observation, residual))
    for group in groups.values():
        for (one, left), (other, right) in combinations(group, 2):
            measured = math.log(rate_of(one) / rate_of(other))
            if one.case.accelerator.id != other.case.accelerator.id and abs(measured) > DIFFERENT:
                yield measured, measured - left + right


def share(values: Sequence[bool]) -> str:
    """Share of true values, in words."""
    return f"{100 * sum(values) / max(len(values), 1):.0f} % of {len(values)}"


def main() -> int:
    """Print the report."""
    catalog, calibration = load_catalog(), load_calibration()
    rows = read_measurements(default_files()[0])[1]
    found = observations([row for row in rows if is_decoder(row, catalog)], catalog, calibration)
    errors = left_out_errors(found, fit_all(found, calibration), calibration)
    signs = defaultdict(list)
    for kind, measured, predicted in pairs(errors):
        signs[kind].append(measured * predicted > 0)
    for kind, right in sorted(signs.items()):
        print(f"sign of {kind}: right in {share(right)} pairs")
    order = [measured * predicted > 0 for measured, predicted in card_pairs(errors)]
    print(f"order of cards that differ by more than 10 %: right in {share(order)} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
