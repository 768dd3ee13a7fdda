"""What an option costs: rent or buy, energy, carbon [USD, kWh, kg CO2e].

Pure look-up and arithmetic; an unknown price gives None, never 0. `prices` finds the price row,
`places` the electricity, carbon and PUE of where machines stand, `ownership` counts what owning costs
over years, `uncertainty` what a cost does when its inputs move.
"""

from gpuselect.tco.defaults import HOURS_PER_MONTH, HOURS_PER_YEAR, CostDefaults
from gpuselect.tco.ownership import Ledger, energy_kwh, ownership_per_hour, power_w
from gpuselect.tco.prices import (
    UnitPrice,
    bill,
    in_region,
    price_age_months,
    purchase_price,
    rent_price,
)

__all__ = [
    "HOURS_PER_MONTH",
    "HOURS_PER_YEAR",
    "CostDefaults",
    "Ledger",
    "UnitPrice",
    "bill",
    "energy_kwh",
    "in_region",
    "ownership_per_hour",
    "power_w",
    "price_age_months",
    "purchase_price",
    "rent_price",
]
