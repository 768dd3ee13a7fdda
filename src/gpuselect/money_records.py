"""Records of an answer that hold money and energy; `decision` holds the rest."""

from __future__ import annotations

from dataclasses import dataclass

from gpuselect.tco.ownership import Ledger
from gpuselect.tco.places import Place


@dataclass(frozen=True, slots=True)
class Offer:
    """The price row that a cost rests on."""

    provider: str
    instance: str
    region: str
    term: str
    as_of: str  # empty: undated
    source: str
    is_offer: bool


@dataclass(frozen=True, slots=True)
class TermPrice:
    """Rent of the deployment by one term [USD/h]: the bill, and what a used hour costs."""

    term: str
    per_hour_usd: float
    per_used_hour_usd: float | None  # None: interruptions leave no useful time
    offer: Offer


@dataclass(frozen=True, slots=True)
class RegionPrice:
    """Cheapest rent of the deployment in one region of one provider [USD/h], and the grid there."""

    per_hour_usd: float
    offer: Offer
    carbon_g_kwh: float | None  # of electricity drawn, PUE not counted; None: no figure of this region


@dataclass(frozen=True, slots=True)
class BreakEven:
    """From which use on buying costs less than renting. None: never, however long."""

    utilization: float | None  # share of all hours; above 1 it is never reached
    payback_months: float | None  # until saved rent has paid the purchase, at the utilisation assumed

    @property
    def hours_per_day(self) -> float | None:
        """The utilisation in hours a day, None where a day is too short."""
        share = self.utilization
        return None if share is None or share > 1.0 else 24.0 * share


@dataclass(frozen=True, slots=True)
class CostRange:
    """What a cost does when its inputs move: percentiles of `draws`, and one input at a time [USD]."""

    metric: str  # the field of Cost
    p10: float
    p50: float
    p90: float
    swings: tuple[tuple[str, float, float], ...]  # input, cost at its low, cost at its high; widest first
    draws: int
    seed: int


@dataclass(frozen=True, slots=True)
class Cost:
    """USD. None: unknown, never 0. `items` are (what, USD, per: hour | once | month).

    The hourly items of the basis add up to `per_hour_usd`, those paid once to `acquisition_usd`.
    """

    per_hour_usd: float | None = None
    per_run_usd: float | None = None
    per_month_usd: float | None = None
    per_million_tokens_usd: float | None = None
    per_million_input_usd: float | None = None  # prompt tokens, by their share of the machine's time
    per_million_output_usd: float | None = None
    per_million_blended_usd: float | None = None  # prompt and answer together
    per_thousand_images_usd: float | None = None  # images, or sequences, clips and rows
    per_stream_month_usd: float | None = None  # of a camera stream asked for
    acquisition_usd: float | None = None
    buy_per_hour_usd: float | None = None  # amortised purchase, energy and hosting
    items: tuple[tuple[str, float, str], ...] = ()
    offer: Offer | None = None
    purchase: Offer | None = None
    basis: str = ""  # rent | buy | owned: what the costs above count; empty when none is known
    rent_per_hour_usd: float | None = None
    services_per_hour_usd: float | None = None  # storage and egress asked for; None where a rate is unknown
    paid_hours_per_used_hour: float | None = None  # of the rent: restarts of spot, idle hours of reserved
    terms: tuple[TermPrice, ...] = ()
    regions: tuple[RegionPrice, ...] = ()  # of the term that counts, cheapest first
    breakeven: BreakEven | None = None
    bought: Ledger | None = None  # by year
    rented: Ledger | None = None
    by_years: tuple[tuple[int, float], ...] = ()  # years of use, cost of an owned used hour
    range: CostRange | None = None


@dataclass(frozen=True, slots=True)
class Energy:
    """Power of the deployment [W], energy [kWh] and carbon [kg CO2e] of the run (or of a month).

    `kgco2e` is of operation; `embodied_kgco2e` is the share of making the hardware that falls on the work.
    """

    power_w: float | None = None
    kwh: float | None = None
    kgco2e: float | None = None
    kwh_per_million_tokens: float | None = None
    kgco2e_per_million_tokens: float | None = None
    kwh_per_thousand_images: float | None = None
    kgco2e_per_thousand_images: float | None = None
    embodied_kgco2e: float | None = None
    embodied_low_kgco2e: float | None = None
    embodied_high_kgco2e: float | None = None
    embodied_kgco2e_per_unit: float | None = None  # million tokens, else thousand images
    embodied_scope: str = ""  # server | card
    place: Place | None = None  # carbon of the grid, electricity and PUE that were taken


NO_COST, NO_ENERGY = Cost(), Energy()  # nothing is known
