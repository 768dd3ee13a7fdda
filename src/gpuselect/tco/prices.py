"""The price row that stands for a deployment: rent by term and region, purchase, age."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from gpuselect.catalog import Price

RENT_TERMS = ("on-demand", "reserved-1y", "reserved-3y", "spot")
BUY_TERMS = ("retail", "list", "server")
STALE_MONTHS = 6.0
IMPLAUSIBLE = 0.5  # an undated offer below this share of the cheapest dated one: a judgement


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """Price of one accelerator: USD per hour (rent) or USD (buy), and the row it comes from."""

    usd: float
    row: Price


def rent_rows(
    *, prices: Iterable[Price], hardware: str, region: str | None, term: str = "on-demand"
) -> tuple[Price, ...]:
    """Rows of one card, term and region, offers before market figures."""
    rows = [
        p for p in prices
        if p.hardware == hardware and p.kind == "rent" and p.term == term
        and (not region or in_region(p, region))
    ]  # fmt: skip
    return tuple(sorted(relied_on(rows), key=lambda p: not p.is_offer))


def relied_on(rows: Sequence[Price]) -> list[Price]:
    """Rows without undated offers that undercut half of the cheapest dated one, per accelerator.

    Nobody can check an undated price, and so far below all others it is rather outdated, or one that
    moves by the hour, than cheap. Spot prices move so by nature, and without a dated offer all rows stay.
    """
    dated = [p.price / p.n_accel for p in rows if p.is_offer and p.as_of and p.term == "on-demand"]
    floor = IMPLAUSIBLE * min(dated, default=0.0)
    return [
        p for p in rows
        if p.as_of or not p.is_offer or p.term != "on-demand" or p.price / p.n_accel >= floor
    ]  # fmt: skip


def any_number(row: Price) -> bool:
    """True for a price per GPU or per chip, which counts for any number of them."""
    return "per GPU" in row.instance or "per chip" in row.instance


def best_by_size(rows: Iterable[Price]) -> tuple[Price, ...]:
    """The cheapest row of each size of instance, offers and market figures apart: no other can win."""
    best: dict[tuple[int, bool, bool], Price] = {}
    for row in sorted(rows, key=lambda p: (p.price, p.as_of == "", p.provider, p.instance, p.region)):
        best.setdefault((row.n_accel, row.is_offer, any_number(row)), row)
    return tuple(best.values())


def cheapest(rows: Sequence[Price], *, count: int, together: int) -> UnitPrice | None:
    """Cheapest bill of whole instances for `count` accelerators, `together` of which share an instance.

    A price per GPU or per chip counts for any number; offers win over market medians.
    """
    best: tuple[tuple[bool, float, bool, str, str, str], Price] | None = None
    for row in rows:
        if row.n_accel < together and not any_number(row):
            continue
        key = (not row.is_offer, bill(row, count), row.as_of == "", row.provider, row.instance, row.region)
        if best is None or key < best[0]:
            best = key, row
    return None if best is None else UnitPrice(usd=bill(best[1], count) / count, row=best[1])


def rent_price(
    *, prices: Sequence[Price], hardware: str, count: int, together: int, region: str | None,
    term: str = "on-demand",
) -> UnitPrice | None:  # fmt: skip
    """Cheapest rent of `count` accelerators, `together` of which must share an instance.

    Whole instances are paid: count / n_accel, rounded up; a larger instance may be cheaper than a
    fitting one. A region keeps the rows that lie in it. The result is per accelerator that is used, in
    USD per hour.
    """
    rows = rent_rows(prices=prices, hardware=hardware, region=region, term=term)
    return cheapest(rows, count=count, together=together)


def bill(price: Price, count: int) -> float:
    """Price of the whole instances or servers that hold `count` accelerators [USD, per hour if rented]."""
    return ceil(count / price.n_accel) * price.price


REGION_WORDS = {
    "eu": ("eu-", "europe", "fin-", "uk", "norway", "sweden", "france", "germany"),
    "us": ("us-", "canada", "northamerica"),
    "asia": ("ap-", "asia", "japan", "korea", "india"),
}


def in_region(price: Price, region: str) -> bool:
    """True when the row lies in a region: a prefix of its name, or one of eu, us, asia.

    Azure writes the side first (westeurope, eastus2, southeastasia), the others the continent.
    """
    wanted, text = region.lower(), price.region.lower()
    words = REGION_WORDS.get(wanted)
    if words is None:
        return text.startswith(wanted)
    azure_us = wanted == "us" and text.rstrip("0123456789").endswith("us")
    return azure_us or any(word in text for word in words)


def purchase_price(*, prices: Sequence[Price], hardware: str, today: str) -> tuple[UnitPrice | None, bool]:
    """Newest purchase price of one accelerator and whether it includes the server.

    A price of a bare card is preferred to one of a server, newer rows to older ones; used stock is
    left out. `today` drops nothing: age is reported, not judged here.
    """
    rows = [
        p for p in prices
        if p.hardware == hardware and p.kind == "buy" and p.term in BUY_TERMS and p.as_of <= today
    ]  # fmt: skip
    if not rows:
        return None, False
    row = max(rows, key=lambda p: (p.term != "server", p.as_of, -p.price / p.n_accel))
    return UnitPrice(usd=row.price / row.n_accel, row=row), row.term == "server"


def price_age_months(*, as_of: str, today: str) -> float | None:
    """Age of a price in months, None when the row is undated.

    >>> price_age_months(as_of="2026-05-30", today="2026-11-30")
    6.0
    """
    if not as_of:
        return None
    parts = [int(x) for x in (as_of + "-01-01").split("-")[:3]]
    now = [int(x) for x in today.split("-")]
    return (now[0] - parts[0]) * 12.0 + (now[1] - parts[1]) + (now[2] - parts[2]) / 30.0
