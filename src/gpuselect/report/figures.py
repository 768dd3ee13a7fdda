"""The charts of a report: which figures of the decision each of them shows, in words and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from gpuselect.decision import Decision, Option
from gpuselect.i18n import _
from gpuselect.money_records import Cost
from gpuselect.report.blocks import Band, Chart, Dots, Grid, Lines, Stack, Swings
from gpuselect.report.costs import cents, cost_unit
from gpuselect.report.describe import (
    SECONDS,
    hardware_text,
    metric_label,
    metric_text,
    metric_unit,
    metric_value,
    part_label,
)
from gpuselect.report.format import count_of, gib, money, percent, time_unit

FRONT_ROWS = 12


def _axis(metric: str, typical: float) -> tuple[float, str]:
    """Factor of the values and label of an axis; times take the unit that suits a typical value."""
    seconds, unit, factor = SECONDS.get(metric), metric_unit(metric), 1.0
    if seconds:
        size, unit = time_unit(typical * seconds)
        factor = seconds / size
    return factor, f"{metric_label(metric)} [{unit}]" if unit else metric_label(metric)


def _cost_axis(cost: str) -> str:
    return _("Cost {unit} [USD]").format(unit=cost_unit(cost))


def memory_chart(options: Sequence[Option]) -> list[Chart]:
    """What fills the memory of each option of the shortlist, against what is usable."""
    parts = tuple(dict.fromkeys(k for o in options for k, v in o.memory.breakdown_gib.items() if v))
    if not parts:
        return []
    names = tuple(map(part_label, parts))
    bars = tuple(
        (hardware_text(o), tuple(o.memory.breakdown_gib.get(p, 0.0) for p in parts), o.memory.usable_gib)
        for o in options
    )
    rows = tuple(
        (name, *(gib(sizes[n]) if sizes[n] else "" for _label, sizes, _limit in bars))
        for n, name in enumerate(names)
    )
    usable = (_("usable"), *(gib(limit) for _label, _sizes, limit in bars))
    grid = Grid((_("Part"), *(bar[0] for bar in bars)), (*rows, usable), frozenset(range(1, len(bars) + 1)))
    text = _("Stacked bars of the memory of one accelerator for each option. {first}").format(
        first=_("The first needs {need} of {usable} usable.").format(
            need=gib(options[0].memory.per_accelerator_gib), usable=gib(options[0].memory.usable_gib)
        )
    )
    figure = Stack(names, bars, _("GiB each; the stroke is what is usable"))
    return [Chart("memory", _("What fills the memory of one accelerator"), text, figure, grid, grid)]


def field_chart(decision: Decision) -> list[Chart]:
    """Cost against time (or rate) of every scored card, with the front of both."""
    field, first = decision.field, next(iter(decision.recommendations), None)
    if field is None or first is None:
        return []
    chosen = (first.accelerator, first.count)
    factor, label = _axis(field.metric, first.performance[field.metric].value)
    points = tuple(
        (factor * p.value, p.cost_usd,
         count_of(p.count, p.accelerator) if p.on_front or (p.accelerator, p.count) == chosen else "",
         (2 if p.on_front else 3) if (p.accelerator, p.count) == chosen else int(p.on_front))
        for p in field.points
    )  # fmt: skip
    kinds = (_("other cards"), _("Pareto front"), _("first option"))
    rows = [
        (count_of(p.count, p.accelerator_name), metric_value(field.metric, p.value), money(p.cost_usd),
         _("chosen") if kind > 1 else _("front") if kind == 1 else "")
        for p, (_x, _y, _label, kind) in zip(field.points, points, strict=True)
    ]  # fmt: skip
    header = (_("Option"), metric_label(field.metric), _("Cost {unit}").format(unit=cost_unit(field.cost)),
              _("Mark"))  # fmt: skip
    numeric = frozenset({1, 2})
    brief = Grid(header, tuple(row for row in rows if row[3])[:FRONT_ROWS], numeric)
    text = _(
        "{n} cards by {metric} and cost. {front} lie on the Pareto front: nothing is both cheaper and better."
    ).format(
        n=len(points), metric=metric_label(field.metric).lower(), front=sum(p.on_front for p in field.points)
    )
    figure = Dots(points, label, _cost_axis(field.cost), kinds)
    title = _("Cost against {metric} of all cards").format(metric=metric_label(field.metric).lower())
    return [Chart("front", title, text, figure, Grid(header, tuple(rows), numeric), brief)]


def scaling_chart(decision: Decision) -> list[Chart]:
    """The card of the first option at every count that fits."""
    scaling, first = decision.scaling, next(iter(decision.recommendations), None)
    if scaling is None or first is None:
        return []
    factor, label = _axis(scaling.metric, first.performance[scaling.metric].value)
    points = tuple(
        (float(p.count), factor * p.estimate.low, factor * p.estimate.value, factor * p.estimate.high)
        for p in scaling.points
    )  # fmt: skip
    rows = tuple(
        (str(p.count), str(p.nodes), metric_text(scaling.metric, p.estimate), money(p.cost_usd),
         percent(p.efficiency) if p.efficiency is not None else "")
        for p in scaling.points
    )  # fmt: skip
    header = (_("Accelerators"), _("Nodes"), metric_label(scaling.metric),
              _("Cost {unit}").format(unit=cost_unit(scaling.cost)), _("Efficiency"))  # fmt: skip
    shown = 5 if any(row[4] for row in rows) else 4
    grid = Grid(header[:shown], tuple(row[:shown] for row in rows), frozenset({0, 1, 3, 4}))
    text = _("{metric} of {n} counts of {card}, with its 80 % interval; {chosen} are chosen.").format(
        metric=metric_label(scaling.metric), n=len(points), card=first.accelerator_name, chosen=first.count
    )
    figure = Band(
        points, _("Accelerators of {card}").format(card=first.accelerator_name), label,
        float(first.count), (_("estimate"), _("80 % interval"), _("first option")),
    )  # fmt: skip
    title = _("{metric} by number of accelerators").format(metric=metric_label(scaling.metric))
    return [Chart("scaling", title, text, figure, grid, grid)]


def swings_chart(cost: Cost) -> list[Chart]:
    """How far each uncertain input alone moves the cost that counts."""
    found, middle = cost.range, None
    if found is not None:
        middle = getattr(cost, found.metric)
    if found is None or middle is None:
        return []
    moved = tuple((name, min(a, b), max(a, b)) for name, a, b in found.swings if a != b)
    if not moved:
        return []
    rows = tuple((name, money(low), money(high)) for name, low, high in moved)
    grid = Grid((_("Input"), _("Least cost"), _("Most cost")), rows, frozenset({1, 2}))
    unit = cost_unit(found.metric)
    text = _(
        "Bars around {usd}: how far each input alone moves the cost {unit}; {first} moves it most."
    ).format(usd=money(middle), unit=unit, first=moved[0][0])
    figure = Swings(float(middle), moved, _cost_axis(found.metric), (_("cheaper"), _("dearer")))
    return [Chart("swings", _("What moves the cost {unit}").format(unit=unit), text, figure, grid, grid)]


def years_chart(cost: Cost) -> list[Chart]:
    """What has been paid so far, year by year, when buying and when renting."""
    books = [
        (name, book.cumulative)
        for name, book in ((_("buying"), cost.bought), (_("renting"), cost.rented))
        if book is not None
    ]
    if not books:
        return []
    years = max(len(values) for _name, values in books)
    header = (_("End of year"), *(name for name, _values in books))
    rows = tuple(
        (str(year), *(cents(values[year]) or "0" if year < len(values) else "" for _name, values in books))
        for year in range(years)
    )
    grid = Grid(header, rows, frozenset(range(len(header))))
    ends = _("; ").join(f"{name} {money(values[-1])}" for name, values in books)
    text = _("Sums paid by the end of each year, resale counted in the last: {ends}.").format(ends=ends)
    figure = Lines(tuple(float(y) for y in range(years)), tuple(books), _("Year"), _("Paid so far [USD]"))
    return [Chart("years", _("Cost over the years, in use as assumed"), text, figure, grid, None)]
