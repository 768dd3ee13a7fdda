"""What owned hardware costs over years: levelised hour, ledger by year, break-even with rent.

Cash flows: the purchase on day 0, running costs at the end of each year, the resale at the end. With a
cost of capital r an amount of year t is worth amount / (1 + r)^t today.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, log1p
from typing import Any

from gpuselect.tco.defaults import HOURS_PER_YEAR


def power_w(*, count: float, accelerator_w: float, host_w: float, nodes: float, share: float) -> float:
    """Power of accelerators and hosts at a share of their rating [W].

    share * (count * accelerator + nodes * host). Shares measured on whole nodes are of this sum.

    >>> power_w(count=8, accelerator_w=700, host_w=4600, nodes=1, share=0.75)
    7650.0
    """
    return share * (count * accelerator_w + nodes * host_w)


def energy_kwh(*, power: float, hours: float, pue: float) -> float:
    """Energy at the meter of the building: power * hours * PUE [kWh].

    >>> energy_kwh(power=1000.0, hours=2.0, pue=1.5)
    3.0
    """
    return power / 1000.0 * hours * pue


def annuity(*, rate: float, years: float) -> float:
    """Present value of 1 a year for `years`, paid at the end of each: (1 - (1 + r)^-n) / r.

    >>> annuity(rate=0.0, years=5), round(annuity(rate=0.06, years=5), 4)
    (5, 4.2124)
    """
    return years if rate == 0.0 else -expm1(-years * log1p(rate)) / rate


def capital_per_year(*, acquisition: Any, residual: Any, rate: float, years: float) -> Any:
    """Equal yearly payment that covers purchase, interest and resale [USD].

    (P - P k / (1 + r)^n) / annuity, with k the share of the purchase that the resale brings.

    >>> capital_per_year(acquisition=100.0, residual=0.0, rate=0.0, years=4)
    25.0
    """
    present = acquisition - acquisition * residual / (1.0 + rate) ** years
    return present / annuity(rate=rate, years=years)


def ownership_per_hour(
    *,
    acquisition: Any,
    fixed_per_year: Any,
    energy_per_hour: Any,
    years: float,
    utilization: Any,
    residual: Any,
    rate: float,
) -> Any:
    """Levelised cost of one used hour of owned hardware [USD/h].

    (capital per year + fixed cost per year) / (8760 u) + energy per used hour. Fixed costs (rack,
    support, licences, staff) are paid all the time, energy in used hours. Floats or arrays.

    >>> ownership_per_hour(acquisition=8760.0, fixed_per_year=876.0, energy_per_hour=0.05, years=2,
    ...                    utilization=0.5, residual=0.0, rate=0.0)
    1.25
    """
    capital = capital_per_year(acquisition=acquisition, residual=residual, rate=rate, years=years)
    return (capital + fixed_per_year) / (HOURS_PER_YEAR * utilization) + energy_per_hour


def breakeven_utilization(
    *, rent_per_hour: float, capital_a_year: float, fixed_per_year: float, energy_per_hour: float
) -> float | None:
    """Share of the time from which owning costs less than renting; None when rent never costs more.

    8760 u (rent - energy) = capital + fixed. A result above 1 means: never, even in use all the time.

    >>> breakeven_utilization(rent_per_hour=2.0, capital_a_year=8760.0, fixed_per_year=0.0,
    ...                       energy_per_hour=0.0)
    0.5
    """
    saved = rent_per_hour - energy_per_hour
    return None if saved <= 0 else (capital_a_year + fixed_per_year) / (HOURS_PER_YEAR * saved)


def payback_months(
    *, acquisition: float, rent_per_hour: float, energy_per_hour: float, fixed_per_year: float,
    utilization: float,
) -> float | None:  # fmt: skip
    """Months until the rent saved has paid the purchase, without interest and resale; None: never.

    >>> payback_months(acquisition=876.0, rent_per_hour=2.4, energy_per_hour=0.0, fixed_per_year=0.0,
    ...                utilization=0.5)
    1.0
    """
    saved = (rent_per_hour - energy_per_hour) * HOURS_PER_YEAR * utilization - fixed_per_year
    return None if saved <= 0 else 12.0 * acquisition / saved


def interruption_loss(*, per_day: float, nodes: float, checkpoint_h: float, restart_h: float) -> float | None:
    """Share of paid time that interruptions of spot machines take; None when all of it goes.

    Each loses half a checkpoint interval and the restart, and any node stops the run:
    nodes * per_day / 24 * (checkpoint / 2 + restart).

    >>> interruption_loss(per_day=2.0, nodes=1, checkpoint_h=0.5, restart_h=0.25)
    0.041666666666666664
    """
    loss = nodes * per_day / 24.0 * (checkpoint_h / 2.0 + restart_h)
    return loss if loss < 1.0 else None


@dataclass(frozen=True, slots=True)
class Ledger:
    """Amounts by year [USD]: the first is day 0, then the end of each year. Each is whole cents."""

    items: tuple[tuple[str, tuple[float, ...]], ...]
    rate: float

    @property
    def by_year(self) -> tuple[float, ...]:
        """Sum of all items, for day 0 and each year."""
        return tuple(round(sum(cells), 2) for cells in zip(*(row for _what, row in self.items), strict=True))

    @property
    def cumulative(self) -> tuple[float, ...]:
        """What has been paid up to each year."""
        years = self.by_year
        return tuple(round(sum(years[: n + 1]), 2) for n in range(len(years)))

    @property
    def total(self) -> float:
        """Sum of everything, to the cent that of the printed items."""
        return round(sum(self.by_year), 2)

    @property
    def present_value(self) -> float:
        """The amounts at their value on day 0."""
        return round(sum(usd / (1.0 + self.rate) ** year for year, usd in enumerate(self.by_year)), 2)


def ledger(
    *, once: tuple[tuple[str, float], ...], yearly: tuple[tuple[str, float], ...], resale: tuple[str, float],
    years: int, rate: float,
) -> Ledger:  # fmt: skip
    """Purchases on day 0, equal costs in each year, a resale in the last; amounts of 0 are left out.

    >>> book = ledger(once=(("card", 100.0),), yearly=(("power", 10.0),), resale=("resale", 20.0), years=2,
    ...               rate=0.1)
    >>> book.by_year, book.total, book.present_value
    ((100.0, 10.0, -10.0), 100.0, 100.83)
    """
    rows = [(what, (round(usd, 2), *[0.0] * years)) for what, usd in once if usd]
    rows += [(what, (0.0, *[round(usd, 2)] * years)) for what, usd in yearly if usd]
    if resale[1]:
        rows.append((resale[0], (*[0.0] * years, -round(resale[1], 2))))
    return Ledger(tuple(rows), rate)
