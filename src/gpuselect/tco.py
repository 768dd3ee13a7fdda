"""What an option costs: rent or buy, energy, carbon [USD, kWh, kg CO2e].

Pure look-up and arithmetic over price rows; unknown prices give None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from pydantic import BaseModel, ConfigDict

from gpuselect.catalog import Price
from gpuselect.provenance import Figure

HOURS_PER_MONTH = 730.0
HOURS_PER_YEAR = 8760.0
RENT_TERMS = ("on-demand",)
BUY_TERMS = ("retail", "list", "server")


class CostDefaults(BaseModel):
    """Defaults of data/defaults.yaml; an overlay overrides them."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    pue: Figure
    electricity_usd_kwh: Figure
    carbon_g_kwh: Figure
    server_factor: Figure
    network_share: Figure
    colocation_usd_kw_month: Figure
    training_power_share: Figure
    serving_power_share: Figure
    years: Figure
    utilization: Figure
    residual_share: Figure


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """Price of one accelerator: USD per hour (rent) or USD (buy), and the row it comes from."""

    usd: float
    row: Price


def rent_price(
    *, prices: Sequence[Price], hardware: str, count: int, together: int, region: str | None
) -> UnitPrice | None:
    """Cheapest on-demand rent of `count` accelerators, `together` of which must share an instance.

    Whole instances are paid: count / n_accel, rounded up; a larger instance may be cheaper than a
    fitting one, and a price per GPU or per chip counts for any number. Offers win over market medians; a
    region keeps the rows that lie in it. The result is per accelerator that is used, in USD per hour.
    """
    rows = [p for p in prices if p.hardware == hardware and p.kind == "rent" and p.term in RENT_TERMS]
    if region:
        rows = [p for p in rows if in_region(p, region)]
    roomy = [p for p in rows if p.n_accel >= together or "per GPU" in p.instance or "per chip" in p.instance]
    for pool in ([p for p in roomy if p.is_offer], roomy):
        if pool:
            best = min(pool, key=lambda p: (bill(p, count), p.as_of == "", p.provider, p.instance, p.region))
            return UnitPrice(usd=bill(best, count) / count, row=best)
    return None


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


def power_w(*, count: float, accelerator_w: float, host_w: float, nodes: float, share: float) -> float:
    """Power of accelerators at their load share, plus their hosts [W].

    >>> power_w(count=8, accelerator_w=700, host_w=4600, nodes=1, share=0.75)
    8800.0
    """
    return count * accelerator_w * share + nodes * host_w


def energy_kwh(*, power: float, hours: float, pue: float) -> float:
    """Energy at the meter of the building: power * hours * PUE [kWh].

    >>> energy_kwh(power=1000.0, hours=2.0, pue=1.5)
    3.0
    """
    return power / 1000.0 * hours * pue


def ownership_per_hour(
    *,
    acquisition: float,
    power: float,
    defaults: CostDefaults,
    years: float,
    utilization: float,
    electricity: float,
) -> float:
    """Cost of one used hour of owned hardware: write-off, energy and colocation [USD/h].

    (acquisition * (1 - residual) + years * (energy + colocation)) / used hours; energy flows in
    used hours only, the rack is paid all the time.
    """
    used_hours = years * HOURS_PER_YEAR * utilization
    capital = acquisition * (1.0 - float(defaults.residual_share))
    energy = energy_kwh(power=power, hours=used_hours, pue=float(defaults.pue)) * electricity
    rack = power / 1000.0 * float(defaults.colocation_usd_kw_month) * 12.0 * years
    return (capital + energy + rack) / used_hours


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
