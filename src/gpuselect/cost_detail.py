"""What a reader of the answer needs beside the cost: items, other terms, ledger by year, break-even, range.

Added to the options that are shown, because the search prices thousands of candidates.
"""

from __future__ import annotations

from dataclasses import replace

from gpuselect.catalog import Catalog
from gpuselect.cost_range import Deal, range_of
from gpuselect.costs import (
    Purchase,
    bought,
    node_count,
    offer_of,
    owned_per_hour,
    paid_hours,
    rented,
    terms_of,
    where,
)
from gpuselect.decision import Note, Option
from gpuselect.i18n import N_, _
from gpuselect.money_records import BreakEven, Cost, RegionPrice, TermPrice
from gpuselect.performance import run_hours
from gpuselect.tco.defaults import CostDefaults
from gpuselect.tco.ownership import (
    Ledger,
    breakeven_utilization,
    capital_per_year,
    ledger,
    payback_months,
)
from gpuselect.tco.places import Quantity
from gpuselect.tco.prices import RENT_TERMS, STALE_MONTHS, cheapest, price_age_months, rent_rows
from gpuselect.workload import Workload

YEARS_SHOWN = 5


def detailed(
    option: Option, *, workload: Workload, catalog: Catalog, defaults: CostDefaults, today: str
) -> Option:
    """The option with the detail of its cost."""
    cost = option.cost
    if not cost.basis:
        return option
    hardware = option.accelerator
    system = next((s for s in catalog.systems.values() if hardware in s.accelerators), None)
    terms = terms_of(workload, defaults, service=run_hours(option.performance) is None)
    purchase = None
    if cost.purchase is not None:
        purchase = bought(
            catalog, defaults, hardware=hardware, count=option.count, system=system, today=today,
            spares=terms.spares, storage=workload.storage or 0.0,
        )  # fmt: skip
    place = where(catalog, workload, defaults)
    deal = Deal(option, workload, catalog, defaults, terms, place, purchase, system)
    breakeven, regions = _breakeven(deal), _regions(deal)
    cost = replace(
        cost,
        items=_items(deal),
        terms=_term_prices(deal),
        regions=regions,
        breakeven=breakeven,
        bought=_bought(deal),
        rented=_rented(deal),
        by_years=_by_years(deal),
        range=range_of(deal, regions, today),
    )
    if breakeven is None:
        return replace(option, cost=cost)
    note = Note("breakeven", breakeven_text(breakeven, years=terms.years))
    return replace(option, cost=cost, reasons=(*option.reasons, note))


def _items(deal: Deal) -> tuple[tuple[str, float, str], ...]:
    """What the hour and the purchase are made of."""
    cost, terms = deal.option.cost, deal.terms
    items: list[tuple[str, float, str]] = []
    if cost.rent_per_hour_usd is not None:
        items.append((_("rent"), cost.rent_per_hour_usd, "hour"))
    if cost.services_per_hour_usd:
        items.append((_("storage and egress"), cost.services_per_hour_usd, "hour"))
    if deal.purchase is not None:
        items += [(what, usd, N_("once")) for what, usd in _parts(deal.purchase) if usd]
        capital = capital_per_year(
            acquisition=deal.purchase.total, residual=terms.residual, rate=terms.rate, years=terms.years
        )
        yearly = {_("write-off and interest"): capital, **deal.fixed}
        items += [
            (_("owned: {what}").format(what=what), usd / deal.used_hours, "hour")
            for what, usd in yearly.items()
            if usd
        ]
    if cost.buy_per_hour_usd is not None or cost.basis == "owned":
        items += [
            (_("owned: {what}").format(what=what), usd, "hour") for what, usd in deal.energy.items() if usd
        ]
    return tuple(items)


def _parts(purchase: Purchase) -> tuple[tuple[str, float], ...]:
    cards = _("servers with accelerators") if purchase.with_server else _("accelerators")
    return (
        (cards, purchase.accelerators),
        (_("servers around them"), purchase.servers),
        (_("network"), purchase.network),
        (_("spares"), purchase.spares),
        (_("storage"), purchase.storage),
    )


def _term_prices(deal: Deal) -> tuple[TermPrice, ...]:
    """The rent by every term that somebody offers, the cheapest used hour first."""
    workload, option = deal.workload, deal.option
    if workload.acquire == "buy" or workload.have:
        return ()
    per_node = int(deal.system.accelerators_per_node) if deal.system else 1
    together = min(option.count // option.plan.replicas, per_node)
    found = []
    for term in RENT_TERMS:
        price = rented(
            deal.catalog, workload, hardware=option.accelerator, count=option.count, together=together,
            term=term,
        )  # fmt: skip
        if price is None:
            continue
        hours = paid_hours(
            deal.terms, term, nodes=node_count(option.count, deal.system), workload=workload,
            defaults=deal.defaults,
        )  # fmt: skip
        usd = price.usd * option.count
        found.append(TermPrice(term, usd, None if hours is None else usd * hours, offer_of(price.row)))
    unknown = float("inf")
    return tuple(sorted(found, key=lambda t: unknown if t.per_used_hour_usd is None else t.per_used_hour_usd))


def _regions(deal: Deal) -> tuple[RegionPrice, ...]:
    """The cheapest offer in each region of each provider: the cheapest region is not the only one."""
    option, offer = deal.option, deal.option.cost.offer
    if offer is None:
        return ()
    rows = rent_rows(
        prices=deal.catalog.prices_of.get(option.accelerator, ()), hardware=option.accelerator,
        region=deal.workload.region, term=offer.term,
    )  # fmt: skip
    per_node = int(deal.system.accelerators_per_node) if deal.system else 1
    together = min(option.count // option.plan.replicas, per_node)
    found = []
    for key in dict.fromkeys((row.provider, row.region) for row in rows):
        here = [row for row in rows if (row.provider, row.region) == key and row.is_offer]
        price = cheapest(here, count=option.count, together=together)
        if price is None:
            continue
        carbon = where(
            deal.catalog, deal.workload, deal.defaults, provider=key[0], region=key[1]
        ).carbon_g_kwh
        known = None if carbon.assumed else carbon.value
        found.append(RegionPrice(price.usd * option.count, offer_of(price.row), known))
    return tuple(sorted(found, key=lambda r: (r.per_hour_usd, r.offer.provider, r.offer.region)))


def _rent_of_used_hour(cost: Cost) -> float | None:
    if cost.rent_per_hour_usd is None:
        return None
    machines = cost.rent_per_hour_usd * (cost.paid_hours_per_used_hour or 1.0)
    return machines + (cost.services_per_hour_usd or 0.0)


def _breakeven(deal: Deal) -> BreakEven | None:
    """From which use on buying is cheaper; None where one of both prices is unknown.

    A reserved machine is paid all the time as an owned one is, so that only the payback is told.
    """
    rent, purchase, terms = _rent_of_used_hour(deal.option.cost), deal.purchase, deal.terms
    if rent is None or purchase is None:
        return None
    offer = deal.option.cost.offer
    by_the_hour = offer is not None and not offer.term.startswith("reserved")
    fixed, energy = sum(deal.fixed.values()), sum(deal.energy.values())
    capital = capital_per_year(
        acquisition=purchase.total, residual=terms.residual, rate=terms.rate, years=terms.years
    )
    return BreakEven(
        utilization=breakeven_utilization(
            rent_per_hour=rent, capital_a_year=capital, fixed_per_year=fixed, energy_per_hour=energy
        )
        if by_the_hour
        else None,
        payback_months=payback_months(
            acquisition=purchase.total, rent_per_hour=rent, energy_per_hour=energy, fixed_per_year=fixed,
            utilization=terms.utilization,
        ),
    )  # fmt: skip


def breakeven_text(breakeven: BreakEven, *, years: float) -> str:
    """Where the choice between renting and buying flips."""
    share, months = breakeven.utilization, breakeven.payback_months
    parts = []
    if share is not None and share <= 1.0:
        text = _("over {years:g} years buying costs less from {share:.0f} % use on ({hours:.1f} h a day)")
        parts.append(text.format(years=years, share=100.0 * share, hours=24.0 * share))
    elif share is not None:
        parts.append(_("renting costs less at any use over {years:g} years").format(years=years))
    if months is not None and (share is None or share <= 1.0):
        text = _("the rent saved pays the purchase in {months:.0f} months")
        parts.append(text.format(months=months))
    return _("; ").join(parts) or _("renting costs less at any use")


def _whole_years(deal: Deal) -> int:
    return max(1, round(deal.terms.years))


def _bought(deal: Deal) -> Ledger | None:
    """Payments of owning, year by year."""
    purchase = deal.purchase
    if purchase is None:
        return None
    years = _whole_years(deal)
    residual = deal.terms.residual
    if deal.workload.residual is None:
        residual = deal.defaults.residual(years)
    energy = {what: usd * deal.used_hours for what, usd in deal.energy.items()}
    return ledger(
        once=_parts(purchase),
        yearly=tuple({**energy, **deal.fixed}.items()),
        resale=(_("resale"), residual * purchase.total),
        years=years,
        rate=deal.terms.rate,
    )


def _rented(deal: Deal) -> Ledger | None:
    """Payments of renting as many used hours, year by year."""
    rent = _rent_of_used_hour(deal.option.cost)
    if rent is None:
        return None
    services = deal.option.cost.services_per_hour_usd or 0.0
    return ledger(
        once=(),
        yearly=(
            (_("rent"), (rent - services) * deal.used_hours),
            (_("storage and egress"), services * deal.used_hours),
        ), resale=("", 0.0), years=_whole_years(deal),
        rate=deal.terms.rate,
    )  # fmt: skip


def _by_years(deal: Deal) -> tuple[tuple[int, float], ...]:
    """Cost of an owned used hour by the years of use."""
    if deal.purchase is None:
        return ()
    found = []
    for years in range(1, max(YEARS_SHOWN, _whole_years(deal)) + 1):
        kept = deal.terms.residual if deal.workload.residual is not None else deal.defaults.residual(years)
        terms = replace(deal.terms, years=float(years), residual=kept)
        hour = owned_per_hour(
            terms, deal.place, acquisition=deal.purchase.total, power=deal.power, count=deal.option.count
        )
        found.append((years, hour))
    return tuple(found)


def price_notes(cost: Cost, *, today: str, services_asked: bool = False) -> list[Note]:
    """What a reader must know of the price that counts: age, term, whether it can be ordered."""
    paid = cost.purchase if cost.basis == "buy" else cost.offer
    notes = []
    if paid is None:
        return []
    age = price_age_months(as_of=paid.as_of, today=today)
    if age is None:
        notes.append(Note("price-undated", _("the price of {p} is undated").format(p=paid.provider)))
    elif age > STALE_MONTHS:
        text = _("the price is {age:.0f} months old ({date}): refresh it, or give your own quotation")
        notes.append(Note("price-stale", text.format(age=age, date=paid.as_of)))
    if not paid.is_offer:
        notes.append(Note("price-not-an-offer", _("the price is a market figure, not an offer")))
    if cost.basis == "rent" and services_asked and cost.services_per_hour_usd is None:
        text = _("storage and egress at {p} are not counted: no rate is known").format(p=paid.provider)
        notes.append(Note("services-unknown", text))
    hours = cost.paid_hours_per_used_hour or 1.0
    if cost.basis == "rent" and paid.term == "spot":
        text = _(
            "spot machines can be taken away: {p:.1f} % more hours are counted for lost work and restarts "
            "(--interruptions, --checkpoint, --restart)"
        )
        notes.append(Note("spot-interruptions", text.format(p=100.0 * (hours - 1.0))))
    if cost.basis == "rent" and paid.term.startswith("reserved"):
        text = _("{term} is paid all the time: {h:.2f} hours for each used hour")
        notes.append(Note("reserved-commitment", text.format(term=paid.term, h=hours)))
    return notes


def cost_assumptions(
    workload: Workload, catalog: Catalog, defaults: CostDefaults, *, service: bool
) -> tuple[Note, ...]:
    """The figures of the cost model that energy, carbon and ownership rest on, and what is not counted."""
    terms, place = terms_of(workload, defaults, service=service), where(catalog, workload, defaults)
    energy = _(
        "electricity at {e}, PUE {p}, {c}; rented machines take carbon and PUE of their region"
    ).format(
        e=_quantity(place.electricity_usd_kwh, "$/kWh"), p=_quantity(place.pue, ""),
        c=_quantity(place.carbon_g_kwh, "g CO2e/kWh"),
    )  # fmt: skip
    owned = _(
        "owned hardware: {y:g} years, in use {u:.0f} % of the time, {r:.0f} % residual value, "
        "{w:.3g} % cost of capital, ${c:.4g} per kW and month for the rack"
    ).format(
        y=terms.years, u=100 * terms.utilization, r=100 * terms.residual, w=100 * terms.rate,
        c=terms.colocation,
    )  # fmt: skip
    flags = {
        "--support": terms.support, "--spares": terms.spares, "--licence": terms.licence,
        "--staff": terms.staff, "--storage": workload.storage, "--egress": workload.egress,
    }  # fmt: skip
    left_out = [flag for flag, amount in flags.items() if not amount]
    share = defaults.serving_power_share if service else defaults.training_power_share
    drawn = _(
        "machines draw {p:.0f} % of the rating of cards and hosts ({low:.0f} to {high:.0f} % measured)"
    ).format(p=100 * terms.load, low=100 * (share.low or share), high=100 * (share.high or share))
    notes = [Note("default-energy", energy), Note("default-power", drawn), Note("default-ownership", owned)]
    if left_out:
        text = _("not counted unless given: {flags}; taxes never are")
        notes.append(Note("not-counted", text.format(flags=_(", ").join(left_out))))
    return tuple(notes)


def _quantity(quantity: Quantity, unit: str) -> str:
    """A figure with its place, method and year."""
    about = [quantity.place.upper() if len(quantity.place) < 6 else quantity.place, quantity.method]
    text = _(", ").join(part for part in [*map(_, about), quantity.year] if part)
    return _("{text} ({about})").format(text=f"{quantity.value:.3g} {unit}".strip(), about=text)
