"""The detail of a cost in words and tables, for every form of the answer."""

from __future__ import annotations

from gpuselect.cost_detail import breakeven_text
from gpuselect.i18n import _
from gpuselect.money_records import Cost, Energy, RegionPrice
from gpuselect.report.blocks import Grid
from gpuselect.report.format import money, power, significant
from gpuselect.tco.ownership import Ledger
from gpuselect.tco.places import Quantity
from gpuselect.units import KWH

SMALL_KWH = 0.01  # below it energy is shown in Wh


def cost_lines(cost: Cost) -> list[str]:
    """Items, rent by term, break-even, years of use and uncertainty: one line each, where known."""
    lines = []
    if cost.items:
        items = _(", ").join(f"{what} {money(usd)} / {_(per)}" for what, usd, per in cost.items)
        lines.append(_("Cost items: {items}").format(items=items))
    if len(cost.terms) > 1:
        terms = _(", ").join(
            _("{text} ({about})").format(
                text=f"{_(t.term)} {money(t.per_hour_usd)}", about=t.offer.provider
            ) for t in cost.terms
        )  # fmt: skip
        lines.append(_("Rent per hour by term: {terms}").format(terms=terms))
    lines += _region_line(cost)
    if cost.breakeven is not None:
        text = breakeven_text(cost.breakeven, years=_years(cost))
        lines.append(_("Rent or buy: {text}").format(text=text))
    if cost.by_years:
        years = _(", ").join(f"{count}: {money(usd)}" for count, usd in cost.by_years)
        lines.append(_("Owned hour by years of use: {years}").format(years=years))
    if cost.range is not None:
        found = cost.range
        text = _("{p10} to {p90} in 80 % of {draws} draws (median {p50})").format(
            p10=money(found.p10), p50=money(found.p50), p90=money(found.p90), draws=found.draws
        )
        if moved := [f"{n} {money(low)} - {money(high)}" for n, low, high in found.swings[:3]]:
            text += _("; moved most by {swings}").format(swings=_(", ").join(moved))
        lines.append(_("Cost {unit}: {text}").format(unit=cost_unit(found.metric), text=text))
    return lines


def _region_line(cost: Cost) -> list[str]:
    """The next cheapest regions, and the one with the cleanest grid."""
    if len(cost.regions) < 2:
        return []
    shown = _(", ").join(_region_text(region) for region in cost.regions[:3])
    text = _("Cheapest regions: {regions}").format(regions=shown)
    known = [region for region in cost.regions if region.carbon_g_kwh is not None]
    if known:
        greenest = min(known, key=lambda region: (region.carbon_g_kwh, region.per_hour_usd))
        text += _("; cleanest grid: {region}, {g} g CO2e/kWh").format(
            region=_region_text(greenest), g=significant(greenest.carbon_g_kwh)
        )
    return [text]


def _region_text(region: RegionPrice) -> str:
    return f"{region.offer.provider} {region.offer.region} {money(region.per_hour_usd)} / {_('h')}"


def _years(cost: Cost) -> float:
    return float(len(cost.bought.by_year) - 1) if cost.bought is not None else 1.0


def cost_unit(metric: str) -> str:
    """What a cost is counted for."""
    units = {
        "per_run_usd": _("per run"), "per_million_tokens_usd": _("per million tokens"),
        "per_thousand_images_usd": _("per thousand"), "per_month_usd": _("per month"),
        "per_hour_usd": _("per hour"),
    }  # fmt: skip
    return units[metric]


def energy_lines(energy: Energy) -> list[str]:
    """Power, energy and carbon, and what the carbon rests on."""
    if energy.power_w is None:
        return []
    parts = [power(energy.power_w)]
    if energy.kwh is not None:
        parts.append(f"{significant(energy.kwh)} kWh")
    if energy.kgco2e is not None:
        parts.append(f"{significant(energy.kgco2e)} kg CO2e")
    parts += _per_unit(energy)
    if energy.kwh_per_million_tokens is not None:
        per_joule = 1e6 / (energy.kwh_per_million_tokens * KWH)
        parts.append(_("{n} tokens per joule").format(n=significant(per_joule)))
    lines = [_("Energy: {parts}").format(parts=_(", ").join(parts))]
    if energy.embodied_kgco2e is not None:
        scope = _("server") if energy.embodied_scope == "server" else _("card alone")
        lines.append(
            _("Made hardware ({scope}): {kg} ({low}-{high}) kg CO2e of its life fall on this work").format(
                scope=scope, kg=significant(energy.embodied_kgco2e, 2),
                low=significant(energy.embodied_low_kgco2e, 2),
                high=significant(energy.embodied_high_kgco2e, 2),
            )
        )  # fmt: skip
    if energy.place is not None:
        lines.append(
            _("Grid and building: {carbon}, PUE {pue}").format(
                carbon=quantity_text(energy.place.carbon_g_kwh, "g CO2e/kWh"),
                pue=quantity_text(energy.place.pue, ""),
            )
        )
    return lines


def _per_unit(energy: Energy) -> list[str]:
    """Energy and carbon of a million tokens or a thousand images, of operation and of the hardware."""
    kwh, kg = energy.kwh_per_thousand_images, energy.kgco2e_per_thousand_images
    plain, full = (
        _("{energy} per thousand ({g} g CO2e)"),
        _("{energy} per thousand ({g} g CO2e, {made} g for making the hardware)"),
    )
    if energy.kwh_per_million_tokens is not None:
        kwh, kg = energy.kwh_per_million_tokens, energy.kgco2e_per_million_tokens
        plain, full = (
            _("{energy} per million tokens ({g} g CO2e)"),
            _("{energy} per million tokens ({g} g CO2e, {made} g for making the hardware)"),
        )
    if kwh is None or kg is None:
        return []
    shown = f"{significant(kwh)} kWh" if kwh >= SMALL_KWH else f"{significant(1e3 * kwh)} Wh"
    made = energy.embodied_kgco2e_per_unit
    if made is None:
        return [plain.format(energy=shown, g=significant(1e3 * kg))]
    return [full.format(energy=shown, g=significant(1e3 * kg), made=significant(1e3 * made, 2))]


def quantity_text(quantity: Quantity, unit: str) -> str:
    """A figure of a place with its method and year.

    >>> quantity_text(Quantity(396.25, "aws:us-east-1", "grid average", "2024", "s"), "g CO2e/kWh")
    '396 g CO2e/kWh (aws:us-east-1, grid average, 2024)'
    """
    about = _(", ").join(part for part in (_(quantity.place), _(quantity.method), quantity.year) if part)
    return _("{text} ({about})").format(text=f"{significant(quantity.value)} {unit}".strip(), about=about)


def ledger_grids(cost: Cost) -> list[tuple[str, Grid]]:
    """Payments by year of buying and of renting, each under its title; amounts to the cent."""
    titled = ((_("Buying, by year (USD)"), cost.bought), (_("Renting, by year (USD)"), cost.rented))
    return [(title, ledger_grid(book)) for title, book in titled if book is not None]


def ledger_grid(book: Ledger) -> Grid:
    """One row for each item, then the sum, and what has been paid so far."""
    years = len(book.by_year)
    header = ("", _("day 0"), *(_("year {n}").format(n=n) for n in range(1, years)), _("total"))
    rows = [(what, *map(cents, row), cents(sum(row))) for what, row in book.items]
    rows.append((_("sum"), *map(cents, book.by_year), cents(book.total)))
    value = _("worth {usd} on day 0").format(usd=cents(book.present_value))
    rows.append((_("paid so far"), *map(cents, book.cumulative), value))
    return Grid(header, tuple(rows), frozenset(range(1, years + 2)))


def ledger_drops(grid: Grid) -> list[int]:
    """Which years of a ledger go first on a narrow terminal: those in the middle, the later ones first.

    >>> ledger_drops(Grid(("", "day 0", "year 1", "year 2", "year 3", "total"), ()))
    [0, 0, 1, 3, 2, 0]
    """
    last = len(grid.header) - 2
    return [{2: 1, last: 2}.get(n, n) if 2 <= n <= last else 0 for n in range(len(grid.header))]


def cents(usd: float) -> str:
    """An amount to the cent; nothing for 0.

    >>> cents(1234.5), cents(0.0)
    ('1,234.50', '')
    """
    return f"{usd:,.2f}" if usd else ""
