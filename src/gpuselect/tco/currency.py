"""A budget in another currency, in dollars at the dated reference rate of the catalog."""

from __future__ import annotations

from dataclasses import replace

from gpuselect.catalog import Catalog
from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.tco.prices import STALE_MONTHS, price_age_months
from gpuselect.workload import Workload


def usd_for_one(catalog: Catalog, currency: str) -> tuple[float, str] | None:
    """USD for one unit of a currency, and the day of the rate; None where the catalog has none.

    Both are given for one euro: (USD per EUR) / (units per EUR).
    """
    rows = {row.currency: row for row in catalog.exchange_rates}
    if currency not in rows or "USD" not in rows:
        return None
    return rows["USD"].per_eur / rows[currency].per_eur, min(rows["USD"].as_of, rows[currency].as_of)


def in_dollars(workload: Workload, catalog: Catalog, *, today: str) -> Workload:
    """The workload with its budget in USD and a note of rate and day; unchanged where it is in USD.

    A rate that the workload gives was applied before, when it was read.
    """
    budget = workload.budget
    if budget is None or budget.currency == "USD":
        return workload
    found = usd_for_one(catalog, budget.currency)
    if found is None:
        text = _(
            "budget: {amount:g} is in {currency}, for which no rate is known: write $5000, or give the "
            "rate with --exchange-rates {currency}=RATE (USD for one {currency})"
        )
        raise InputError(text.format(amount=budget.amount, currency=budget.currency))
    rate, day = found
    converted = replace(budget, amount=round(budget.amount * rate, 2), currency="USD")
    text = _(
        "budget: {amount:g} {currency} is {usd:,.2f} USD at the reference rate of {day}, {rate:.4g} "
        "(--exchange-rates {currency}=RATE for another)"
    )
    note = text.format(
        amount=budget.amount, currency=budget.currency, usd=converted.amount, day=day, rate=rate
    )
    age = price_age_months(as_of=day, today=today) or 0.0
    if age > STALE_MONTHS:
        note += _("; the rate is {age:.0f} months old").format(age=age)
    notes = (*workload.parse_notes, note)
    return workload.model_copy(update={"budget": converted, "parse_notes": notes})
