"""What a workload says of each accelerator or option in a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.catalog import Accelerator
    from gpuselect.cli.load import Inputs
    from gpuselect.comparison import Cell, Row
    from gpuselect.decision import FitAnswer, Option

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
UNSURE = ("assumed-figure", "class-estimate", "framework-assumed")  # an estimate rests on an assumption
Found = tuple["Option | None", str]


def workload_rows(groups: Sequence[tuple[int | None, Accelerator]], inputs: Inputs) -> list[Row]:
    """The workload on each: on the count that was named, else on the smallest count that fits."""
    found = [_found(count, card, inputs) for count, card in groups]
    options = [option for option, _why in found]
    rows = _plan_rows(found, whole=any(count is not None for count, _card in groups))
    rows += _performance_rows(options)
    rows += _money_rows(options)
    return [row for row in rows if any(cell.value is not None for cell in row.cells)]


def _found(count: int | None, card: Accelerator, inputs: Inputs) -> Found:
    """The best plan on a card, or why there is none."""
    from gpuselect.report.json import fits_usable

    most = inputs.workload.max_count or COUNTS[-1]
    answer: FitAnswer | None = None
    for number in (count,) if count is not None else COUNTS:
        if count is None and number > most:
            break
        answer = _asked(number, card, inputs)
        if fits_usable(answer):
            return answer.option, _("fits") if answer.state == "fits" else _("tight")
    reason = answer.reasons[0].code if answer is not None and answer.reasons else "memory-exceeded"
    return None, _("no [{code}]").format(code=reason)


def _asked(count: int, card: Accelerator, inputs: Inputs) -> FitAnswer:
    from gpuselect.advisor import estimate

    return estimate(
        inputs.workload, [(count, card.id)], inputs.catalog, inputs.calibration, inputs.defaults
    )  # fmt: skip


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
        ("kgco2e", _("Carbon of the run or of a month"), "kg CO2e"),
    )
    rows = [_row(k, label, unit, options, lambda o, k=k: getattr(o.cost, k)) for k, label, unit in costs]
    rows += [
        _row(k, label, unit, options, lambda o, k=k: getattr(o.energy, k)) for k, label, unit in energies
    ]
    rows.append(_row("warnings", _("Warnings"), "", options, lambda o: float(len(o.warnings))))
    return rows


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
