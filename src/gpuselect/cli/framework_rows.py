"""What a workload says of each framework in a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.catalog import Framework
    from gpuselect.cli.load import Inputs
    from gpuselect.comparison import Row
    from gpuselect.decision import Decision, Option


def framework_rows(frameworks: Sequence[Framework], inputs: Inputs) -> list[Row]:
    """What the workload gives with each: the best option, its speed and cost, cards open, or why none."""
    from gpuselect.advisor import recommend
    from gpuselect.comparison import Cell, Row, with_ratios
    from gpuselect.report.describe import headline_key, metric_label, metric_unit

    answers = [
        recommend(
            inputs.workload.model_copy(update={"frameworks": (f.id,)}), inputs.catalog, inputs.calibration,
            inputs.defaults,
        )
        for f in frameworks
    ]  # fmt: skip
    options = [next(iter((*a.recommendations, *a.unpriced)), None) for a in answers]
    rows = [
        Row("best_option", _("Best option"), "",
            tuple(Cell(_option_text(o, a)) for o, a in zip(options, answers, strict=True))),
        Row("cards", _("Accelerators that fit"), "", with_ratios([Cell(_fitting(a)) for a in answers])),
    ]  # fmt: skip
    key = next((headline_key(o) for o in options if o is not None), None)
    if key is not None:
        speeds = [Cell(o.performance[key].value if o and key in o.performance else None) for o in options]
        rows.append(Row(key, metric_label(key), metric_unit(key), with_ratios(speeds)))
    for name, label in (
        ("per_run_usd", _("Cost of the run")), ("per_million_tokens_usd", _("Cost per million tokens")),
        ("per_thousand_images_usd", _("Cost per thousand samples")),
    ):  # fmt: skip
        costs = [Cell(getattr(o.cost, name) if o is not None else None) for o in options]
        if any(cell.value is not None for cell in costs):
            rows.append(Row(name, label, "USD", with_ratios(costs)))
    scores = [Cell(_score(o)) for o in options]
    rows.append(Row("framework_score", _("Framework score"), "", with_ratios(scores)))
    return [row for row in rows if any(cell.value is not None for cell in row.cells)]


def _score(option: Option | None) -> float | None:
    """Score of the framework on the card of its best option, 0..1."""
    return option.framework.total if option is not None and option.framework is not None else None


def _option_text(option: Option | None, answer: Decision) -> str | None:
    """Hardware of the best option, else the commonest refusal."""
    if option is not None:
        return f"{option.count} x {option.accelerator}"
    refusals = [c.rejection for c in answer.considered if c.rejection is not None]
    named = [r for r in refusals if r.code not in ("not-selected", "not-available")] or refusals
    codes = [r.code for r in named]
    return max(sorted(set(codes)), key=codes.count) if codes else None


def _fitting(answer: Decision) -> float:
    return float(sum(c.feasible for c in answer.considered))
