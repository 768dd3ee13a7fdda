"""What a workload says of each accelerator, option or framework in a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.catalog import Accelerator, Framework
    from gpuselect.comparison import Cell, Row
    from gpuselect.decision import Decision, FitAnswer, Option

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
UNSURE = ("assumed-figure", "class-estimate", "framework-assumed")  # an estimate rests on an assumption
RATES = ("tokens_per_s", "output_tok_s", "images_per_s", "requests_per_s", "streams", "tflops")
Found = tuple["Option | None", str]


def workload_rows(
    groups: Sequence[tuple[int | None, Accelerator]],
    *,
    ask: Callable[[int, str], FitAnswer],
    most: int | None,
) -> list[Row]:
    """The workload on each: on the count that was named, else on the smallest count that fits.

    `ask` answers for a count of an accelerator; `most` is the largest count to try.
    """
    found = [_found(count, card, ask, most or COUNTS[-1]) for count, card in groups]
    options = [option for option, _why in found]
    rows = _plan_rows(found, whole=any(count is not None for count, _card in groups))
    rows += _performance_rows(options)
    rows += _money_rows(options)
    return [row for row in rows if any(cell.value is not None for cell in row.cells)]


def _found(count: int | None, card: Accelerator, ask: Callable[[int, str], FitAnswer], most: int) -> Found:
    """The best plan on a card, or why there is none."""
    from gpuselect.report.json import fits_usable

    answer: FitAnswer | None = None
    for number in (count,) if count is not None else COUNTS:
        if count is None and number > most:
            break
        answer = ask(number, card.id)
        if fits_usable(answer):
            return answer.option, _("fits") if answer.state == "fits" else _("tight")
    reason = answer.reasons[0].code if answer is not None and answer.reasons else "memory-exceeded"
    return None, _("no [{code}]").format(code=reason)


def _plan_rows(found: Sequence[Found], *, whole: bool) -> list[Row]:
    """Does it fit, with how many accelerators, plan, framework and memory."""
    from gpuselect.comparison import Cell, Row
    from gpuselect.report.describe import plan_text

    options = [option for option, _why in found]
    label = _("Accelerators") if whole else _("Smallest count that fits")
    rows = [
        Row("state", _("Fits"), "", tuple(Cell(why) for _option, why in found)),
        _row("min_count", label, "", options, lambda o: float(o.count)),
    ]
    if whole:
        plans = tuple(Cell(None if o is None else plan_text(o)) for o in options)
        rows.append(Row("plan", _("Plan"), "", plans))
    names = tuple(Cell(None if o is None or o.framework is None else o.framework.name) for o in options)
    rows.append(Row("framework", _("Framework"), "", names))
    rows.append(_row("memory_gib", _("Memory needed per accelerator"), "GiB", options,
                     lambda o: o.memory.per_accelerator_gib))  # fmt: skip
    rows.append(_row("headroom_pct", _("Memory free"), "%", options, lambda o: o.memory.headroom_pct))
    return rows


def _performance_rows(options: Sequence[Option | None]) -> list[Row]:
    """Every metric that some option has, in the order of the first."""
    from gpuselect.report.describe import metric_label, metric_unit

    keys = list(dict.fromkeys(key for o in options if o is not None for key in o.performance))
    return [
        _row(key, metric_label(key), metric_unit(key), options,
             lambda o, key=key: o.performance[key].value if key in o.performance else None)
        for key in keys
    ]  # fmt: skip


def _money_rows(options: Sequence[Option | None]) -> list[Row]:
    """Costs, energy and carbon that are known, and the number of warnings."""
    costs = (
        ("per_hour_usd", _("Cost per hour"), "USD"),
        ("per_run_usd", _("Cost of the run"), "USD"),
        ("per_month_usd", _("Cost per month"), "USD"),
        ("per_million_tokens_usd", _("Cost per million tokens"), "USD"),
        ("per_thousand_images_usd", _("Cost per thousand samples"), "USD"),
        ("per_stream_month_usd", _("Cost per stream and month"), "USD"),
        ("acquisition_usd", _("To buy"), "USD"),
    )
    energies = (
        ("power_w", _("Power of the deployment"), "W"),
        ("kwh", _("Energy of the run or of a month"), "kWh"),
        ("kwh_per_million_tokens", _("Energy per million tokens"), "kWh"),
        ("kwh_per_thousand_images", _("Energy per thousand samples"), "kWh"),
        ("kgco2e", _("Carbon of the run or of a month"), "kg CO2e"),
    )
    rows = [_row(k, label, unit, options, lambda o, k=k: getattr(o.cost, k)) for k, label, unit in costs]
    rows += [
        _row(k, label, unit, options, lambda o, k=k: getattr(o.energy, k)) for k, label, unit in energies
    ]
    rows += _work_per_watt(options)
    rows.append(_row("warnings", _("Warnings"), "", options, lambda o: float(len(o.warnings))))
    return rows


def _work_per_watt(options: Sequence[Option | None]) -> list[Row]:
    """Rate of the workload over the power of the deployment, hosts included."""
    from gpuselect.report.describe import metric_unit

    shared = (k for k in RATES if any(o is not None and k in o.performance for o in options))
    key = next(shared, None)
    if key is None:
        return []

    def read(option: Option) -> float | None:
        if key not in option.performance or not option.energy.power_w:
            return None
        return option.performance[key].value / option.energy.power_w

    return [_row("work_per_watt", _("Work per watt"), f"{metric_unit(key)}/W", options, read)]


def _row(
    key: str, label: str, unit: str, options: Sequence[Option | None], read: Callable[..., float | None]
) -> Row:
    """One figure of all options, with ratios to the first; those that rest on an assumption are marked."""
    from gpuselect.comparison import Row, with_ratios

    return Row(key, label, unit, with_ratios([_cell(key, option, read) for option in options]))


def _cell(key: str, option: Option | None, read: Callable[..., float | None]) -> Cell:
    from gpuselect.comparison import Cell

    if option is None or (value := read(option)) is None:
        return Cell()
    unsure = key not in ("min_count", "warnings") and any(w.code in UNSURE for w in option.warnings)
    return Cell(float(value), None, "assumed" if unsure else "")


def framework_rows(frameworks: Sequence[Framework], *, ask: Callable[[Framework], Decision]) -> list[Row]:
    """What the workload gives with each: the best option, its speed and cost, cards open, or why none."""
    from gpuselect.comparison import Cell, Row, with_ratios
    from gpuselect.report.describe import headline_key, metric_label, metric_unit

    answers = [ask(framework) for framework in frameworks]
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
