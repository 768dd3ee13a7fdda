"""How sure a cost is: percentiles over its uncertain inputs, and what moves it most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuselect.catalog import Catalog, System
from gpuselect.costs import Purchase, Terms, fixed_costs, hourly_energy, node_count, paid_hours
from gpuselect.decision import Option
from gpuselect.i18n import _
from gpuselect.money_records import Cost, CostRange, RegionPrice
from gpuselect.provenance import Figure
from gpuselect.tco.defaults import HOURS_PER_YEAR, CostDefaults
from gpuselect.tco.ownership import ownership_per_hour
from gpuselect.tco.places import Place, Quantity
from gpuselect.tco.prices import BUY_TERMS
from gpuselect.tco.uncertainty import Spread, percentiles, swings
from gpuselect.workload import Workload

DRAWS, SEED = 2000, 20261130
MOST_HOURS = 20.0  # paid for a useful hour of spot machines; beyond it nobody waits
METRICS = (  # the first that an option has
    "per_run_usd", "per_million_tokens_usd", "per_thousand_images_usd", "per_month_usd", "per_hour_usd",
)  # fmt: skip
TIMES = ("time_to_train_days", "run_time_h")
RATES = ("output_tok_s", "images_per_s", "requests_per_s", "streams")


@dataclass(frozen=True, slots=True)
class Deal:
    """One option with everything that its cost rests on."""

    option: Option
    workload: Workload
    catalog: Catalog
    defaults: CostDefaults
    terms: Terms
    place: Place  # of owned machines
    purchase: Purchase | None
    system: System | None

    @property
    def power(self) -> float:
        """Power of the deployment at its load [W]; 0 only where nothing owned is counted."""
        return self.option.energy.power_w or 0.0

    @property
    def fixed(self) -> dict[str, float]:
        """Costs of owned machines that are paid all the time [USD a year]."""
        total = self.purchase.total if self.purchase else 0.0
        names = (_("colocation"), _("support"), _("software licences"), _("staff"))
        found = fixed_costs(self.terms, acquisition=total, power=self.power, count=self.option.count)
        return dict(zip(names, found, strict=True))

    @property
    def energy(self) -> dict[str, float]:
        """Costs of an hour in use of owned machines [USD]."""
        found = hourly_energy(self.terms, self.place, self.power)
        return dict(zip((_("electricity"), _("carbon price")), found, strict=True))

    @property
    def used_hours(self) -> float:
        """Hours in use a year."""
        return HOURS_PER_YEAR * self.terms.utilization


def range_of(deal: Deal, regions: Sequence[RegionPrice], today: str) -> CostRange | None:
    """Percentiles of the cost that counts, and what moves it most."""
    metric = next((m for m in METRICS if getattr(deal.option.cost, m) is not None), None)
    pace = _pace(deal.option)
    if metric is None or pace is None:
        return None
    base = float(getattr(deal.option.cost, metric))
    spreads = {_("speed"): pace}
    hour: Callable[[Mapping[str, Any]], Any]
    if deal.option.cost.basis == "buy" and deal.purchase is not None:
        inputs = _owned_inputs(deal, today)
        spreads |= inputs
        hour = _owned_hour(deal, tuple(inputs))
    else:
        spreads[_("price")] = (
            Spread(1.0, 1.0, 1.0)
            if deal.option.cost.basis == "owned"
            else _rent_spread(deal.option.cost, regions)
        )
        hour = lambda x: x[_("price")]  # noqa: E731  one expression
    spreads |= _interruptions(deal)
    usual = hour({name: spread.value for name, spread in spreads.items()})

    def cost(x: Mapping[str, Any]) -> Any:
        return base * hour(x) / usual * x[_("speed")] * x.get(_("interruptions"), 1.0)

    p10, p50, p90 = percentiles(cost, spreads, draws=DRAWS, seed=SEED)
    ends = tuple((name, float(low), float(high)) for name, low, high in swings(cost, spreads))
    return CostRange(metric, p10, p50, p90, ends, DRAWS, SEED)


def _pace(option: Option) -> Spread | None:
    """Time for the work as a multiple of the estimate, with its 80 % interval."""
    for key in TIMES:
        if (time := option.performance.get(key)) is not None and time.value and time.low > 0:
            return Spread(1.0, time.low / time.value, time.high / time.value)
    for key in RATES:
        if (rate := option.performance.get(key)) is not None and rate.low > 0 and rate.high > 0:
            return Spread(1.0, rate.value / rate.high, rate.value / rate.low)
    return None


def _rent_spread(cost: Cost, regions: Sequence[RegionPrice]) -> Spread:
    """Rent against that of the next provider, for when the cheapest has none left."""
    if cost.offer is None or cost.rent_per_hour_usd is None:
        return Spread(1.0, 1.0, 1.0)
    others = [r.per_hour_usd for r in regions if r.offer.provider != cost.offer.provider]
    return Spread(1.0, 1.0, max(1.0, min(others, default=0.0) / cost.rent_per_hour_usd))


def _interruptions(deal: Deal) -> dict[str, Spread]:
    """Hours paid on spot machines at few and at many interruptions, against those that are counted."""
    cost, figure = deal.option.cost, deal.defaults.interruptions_per_day
    if cost.basis != "rent" or cost.offer is None or cost.offer.term != "spot":
        return {}
    if deal.workload.interruptions is not None or figure.low is None or figure.high is None:
        return {}
    usual = cost.paid_hours_per_used_hour or 1.0
    ends = []
    for rate in (figure.low, figure.high):
        asked = deal.workload.model_copy(update={"interruptions": rate})
        nodes = node_count(deal.option.count, deal.system)
        hours = paid_hours(deal.terms, "spot", nodes=nodes, workload=asked, defaults=deal.defaults)
        ends.append(min(MOST_HOURS, hours or MOST_HOURS) / usual)
    return {_("interruptions"): Spread(1.0, min(1.0, ends[0]), max(1.0, ends[1]))}


def _owned_inputs(deal: Deal, today: str) -> dict[str, Spread]:
    """Inputs of the cost of owning that are uncertain, with the ranges of their sources."""
    d, place = deal.defaults, deal.place
    purchase = deal.purchase
    rows = [
        row.price / row.n_accel
        for row in deal.catalog.prices_of.get(deal.option.accelerator, ())
        if row.kind == "buy" and row.term in BUY_TERMS and row.as_of <= today
        and purchase is not None and (row.term == "server") == purchase.with_server
    ]  # fmt: skip
    mine = purchase.row.price / purchase.row.n_accel if purchase else 1.0
    found = {
        _("purchase price"): Spread(1.0, min([mine, *rows]) / mine, max([mine, *rows]) / mine),
        _("utilisation"): _spread(d.utilization, deal.terms.utilization, most=1.0)
        if deal.workload.utilization is None
        else _spread(None, deal.terms.utilization),
        _("electricity"): _place_spread(d.electricity_usd_kwh, place.electricity_usd_kwh),
        _("PUE"): _place_spread(d.pue, place.pue),
        _("colocation"): _spread(
            d.colocation_usd_kw_month if deal.workload.colocation is None else None, deal.terms.colocation
        ),
    }
    if deal.workload.residual is None and d.residual_share is None:
        years = deal.terms.years
        kept = d.value_kept_year
        low, high = float(kept.low or kept) ** years, float(kept.high or kept) ** years
        found[_("resale")] = Spread(deal.terms.residual, low, high, most=1.0)
    return {name: spread for name, spread in found.items() if spread.low > 0}


def _spread(figure: Figure | None, value: float, *, most: float = float("inf")) -> Spread:
    """The interval of a default, moved to the value taken; none for what was given."""
    if figure is None or not figure or not value:
        return Spread(value, value, value)
    low = value * float(figure.low if figure.low is not None else figure) / float(figure)
    high = value * float(figure.high if figure.high is not None else figure) / float(figure)
    return Spread(value, low, min(high, max(most, value)), most=most)


def _place_spread(figure: Figure, quantity: Quantity) -> Spread:
    return _spread(figure if quantity.assumed else None, quantity.value)


def _owned_hour(deal: Deal, names: Sequence[str]) -> Callable[[Mapping[str, Any]], Any]:
    """Cost of an owned used hour as a function of its uncertain inputs."""
    terms, place, purchase = deal.terms, deal.place, deal.purchase
    usual = {
        _("purchase price"): 1.0, _("utilisation"): terms.utilization,
        _("electricity"): place.electricity_usd_kwh.value, _("PUE"): place.pue.value,
        _("colocation"): terms.colocation, _("resale"): terms.residual,
    }  # fmt: skip
    total, kw = (purchase.total if purchase else 0.0), deal.power / 1000.0
    other = terms.licence * deal.option.count + terms.staff
    carbon = place.carbon_g_kwh.value / 1e6 * terms.carbon_price

    def hour(x: Mapping[str, Any]) -> Any:
        v = {name: x[name] if name in names else value for name, value in usual.items()}
        price = total * v[_("purchase price")]
        kwh = kw * v[_("PUE")]
        return ownership_per_hour(
            acquisition=price, energy_per_hour=kwh * (v[_("electricity")] + carbon),
            fixed_per_year=kw / terms.load * v[_("colocation")] * 12.0 + terms.support * price + other,
            years=terms.years, utilization=v[_("utilisation")], residual=v[_("resale")], rate=terms.rate,
        )  # fmt: skip

    return hour
