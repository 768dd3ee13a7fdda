"""Cost and energy of a candidate of the search: rent, purchase, where it stands. Fast: one per candidate.

What only a reader of the answer needs (ledger, break-even, uncertainty) is added to the options shown, by
`cost_detail`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gpuselect.catalog import Accelerator, Catalog, Price, System
from gpuselect.money_records import Cost, Energy, Offer
from gpuselect.search import Candidate, Site
from gpuselect.tco.defaults import HOURS_PER_MONTH, HOURS_PER_YEAR, CostDefaults
from gpuselect.tco.embodied import Embodied, embodied_of
from gpuselect.tco.ownership import energy_kwh, interruption_loss, ownership_per_hour, power_w
from gpuselect.tco.places import Place, Quantity, by_name, place_of
from gpuselect.tco.prices import (
    UnitPrice,
    best_by_size,
    bill,
    cheapest,
    purchase_price,
    rent_rows,
)
from gpuselect.units import GB, TB
from gpuselect.workload import Workload


@dataclass(frozen=True, slots=True)
class Terms:
    """What the workload and the defaults say about money, resolved. Shares are fractions, USD."""

    years: float
    utilization: float
    rate: float  # cost of capital, a year
    residual: float  # share of the purchase that the resale brings at the end
    support: float  # share of the purchase, a year
    spares: float  # bought beside what is used, share of the purchase
    licence: float  # a year and accelerator
    staff: float  # a year
    colocation: float  # kW and month
    carbon_price: float  # a tonne
    term: str  # of the rent
    load: float  # power drawn, share of the rating


def terms_of(workload: Workload, defaults: CostDefaults, *, service: bool) -> Terms:
    """Given values, else the defaults; what has no default and is not given is not counted."""
    years = float(workload.years or defaults.years)
    usual = defaults.service_utilization if service else defaults.utilization
    given = workload.residual
    return Terms(
        years=years,
        utilization=float(workload.utilization or usual),
        rate=float(defaults.cost_of_capital if workload.wacc is None else workload.wacc),
        residual=defaults.residual(years) if given is None else given,
        support=float(_first(workload.support, defaults.support_share_year)),
        spares=workload.spares or 0.0,
        licence=workload.licence or 0.0,
        staff=workload.staff or 0.0,
        colocation=float(_first(workload.colocation, defaults.colocation_usd_kw_month)),
        carbon_price=workload.carbon_price or 0.0,
        term=workload.term or "on-demand",
        load=float(defaults.serving_power_share if service else defaults.training_power_share),
    )


def _first(given: float | None, default: float | None) -> float:
    return given if given is not None else default or 0.0


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a deployment costs to buy [USD]: accelerators, servers around them, network, spares, storage."""

    row: Price
    with_server: bool  # the price of the accelerators holds the servers
    accelerators: float
    servers: float
    network: float
    spares: float = 0.0
    storage: float = 0.0

    @property
    def total(self) -> float:
        """Everything."""
        return self.accelerators + self.servers + self.network + self.spares + self.storage


def offer_of(row: Price) -> Offer:
    """What a report shows of a price row."""
    return Offer(
        provider=row.provider, instance=row.instance, region=row.region, term=row.term,
        as_of=row.as_of, source=row.source, is_offer=row.is_offer,
    )  # fmt: skip


def node_count(count: int, system: System | None) -> int:
    """Nodes that hold `count` accelerators."""
    return ceil(count / int(system.accelerators_per_node)) if system else count


def deployment_power(
    candidate: Candidate, site: Site, defaults: CostDefaults, *, serving: bool
) -> float | None:
    """Power of the deployment at its load, hosts included [W]; None when the board power is unknown."""
    if site.accelerator.power_w is None:
        return None
    share = defaults.serving_power_share if serving else defaults.training_power_share
    count = float(candidate.plan.count)
    host = float(site.system.host_power_w or 0.0) if site.system else 0.0
    per_node = float(site.system.accelerators_per_node) if site.system else 1.0
    return power_w(
        count=count, accelerator_w=float(site.accelerator.power_w), host_w=host,
        nodes=count / per_node,  # the share of a node that is used
        share=float(share),
    )  # fmt: skip


def rented(
    catalog: Catalog, workload: Workload, *, hardware: str, count: int, together: int, term: str
) -> UnitPrice | None:
    """Cheapest rent of a term, None when no row is known; rows are looked up once per card and region."""
    key = ("rent", hardware, workload.region, term)
    rows = catalog.memo.get(key)
    if rows is None:
        prices = catalog.prices_of.get(hardware, ())
        rows = best_by_size(rent_rows(prices=prices, hardware=hardware, region=workload.region, term=term))
        catalog.memo[key] = rows
    return cheapest(rows, count=count, together=together)


def bought(
    catalog: Catalog, defaults: CostDefaults, *, hardware: str, count: int, system: System | None, today: str,
    spares: float = 0.0, storage: float = 0.0,
) -> Purchase | None:  # fmt: skip
    """Purchase: accelerators, servers, network, a share of spares, storage [B]; None when no price is known.

    A server factor is added around bare cards of a system with several; a network share where there is
    more than one node, unless one price holds them all.
    """
    key = ("buy", hardware, today)
    if key not in catalog.memo:
        prices = catalog.prices_of.get(hardware, ())
        catalog.memo[key] = purchase_price(prices=prices, hardware=hardware, today=today)
    row, with_server = catalog.memo[key]
    if row is None:
        return None
    alone = system is None or int(system.accelerators_per_node) == 1
    cards = bill(row.row, count)
    servers = 0.0 if with_server or alone else cards * (float(defaults.server_factor) - 1.0)
    in_one = with_server and row.row.n_accel >= count  # a rack comes with its own network
    share = float(defaults.network_share) if node_count(count, system) > 1 and not in_one else 0.0
    network = (cards + servers) * share / (1.0 - share)
    kept = storage / TB * float(defaults.storage_usd_tb)
    return Purchase(row.row, with_server, cards, servers, network, spares * (cards + servers + network), kept)


def where(
    catalog: Catalog, workload: Workload, defaults: CostDefaults, *, provider: str = "", region: str = ""
) -> Place:
    """Carbon, electricity and PUE: what the workload says, else the region's, else the defaults."""
    base = (defaults.carbon_g_kwh, defaults.electricity_usd_kwh, defaults.pue)
    given = (workload.carbon, workload.electricity, workload.pue)
    key = ("place", provider, region, workload.region, base, given)
    if key not in catalog.memo:
        if ("regions",) not in catalog.memo:
            catalog.memo["regions",] = by_name(catalog.regions)
        names = [f"{provider}:{region}", workload.region or ""] if provider else [workload.region or ""]
        found = place_of(catalog.memo["regions",], defaults, names=names, provider=provider)
        known = (found.carbon_g_kwh, found.electricity_usd_kwh, found.pue)
        catalog.memo[key] = Place(*(_given(g, q) for g, q in zip(given, known, strict=True)))
    place: Place = catalog.memo[key]
    return place


def _given(value: float | None, otherwise: Quantity) -> Quantity:
    return otherwise if value is None else Quantity(value, "", "given", "", "the workload")


def paid_hours(
    terms: Terms, term: str, *, nodes: float, workload: Workload, defaults: CostDefaults
) -> float | None:
    """Hours paid for one useful hour; None when interruptions leave no useful time.

    On demand 1; reserved machines are paid all the time, 1 / utilisation; spot 1 / (1 - loss).
    """
    if term.startswith("reserved"):
        return 1.0 / terms.utilization
    if term != "spot":
        return 1.0
    checkpoint = workload.checkpoint / 3600.0 if workload.checkpoint else defaults.checkpoint_min / 60.0
    restart = workload.restart / 3600.0 if workload.restart else defaults.restart_min / 60.0
    per_day = float(_first(workload.interruptions, defaults.interruptions_per_day))
    loss = interruption_loss(per_day=per_day, nodes=nodes, checkpoint_h=checkpoint, restart_h=restart)
    return None if loss is None else 1.0 / (1.0 - loss)


def services_per_hour(
    workload: Workload, defaults: CostDefaults, terms: Terms, *, provider: str, service: bool
) -> float | None:
    """Storage and egress in a rented cloud for each hour in use [USD]; None where a rate is unknown.

    Storage is paid all the time: a service that is on for a share of it carries the rest.
    """
    month = 0.0
    for size, rates in (
        (workload.storage, defaults.storage_usd_gb_month), (workload.egress, defaults.egress_usd_gb),
    ):  # fmt: skip
        if size:
            if provider not in rates:
                return None
            month += size / GB * float(rates[provider])
    return month / (HOURS_PER_MONTH * (terms.utilization if service else 1.0))


def fixed_costs(terms: Terms, *, acquisition: float, power: float, count: int) -> tuple[float, ...]:
    """Paid whether the machines work or not: colocation, support, licences, staff [USD a year].

    A rack is paid for the rating of what stands in it, not for the `power` drawn.
    """
    rack = power / terms.load / 1000.0 * terms.colocation * 12.0
    return rack, terms.support * acquisition, terms.licence * count, terms.staff


def hourly_energy(terms: Terms, place: Place, power: float) -> tuple[float, float]:
    """Costs of an hour in use [USD/h]: electricity at the meter, and carbon where it has a price."""
    kwh = energy_kwh(power=power, hours=1.0, pue=place.pue.value)
    carbon = kwh * place.carbon_g_kwh.value / 1e6 * terms.carbon_price
    return kwh * place.electricity_usd_kwh.value, carbon


def owned_per_hour(terms: Terms, place: Place, *, acquisition: float, power: float, count: int) -> float:
    """Levelised cost of a used hour of owned hardware [USD/h]."""
    fixed = fixed_costs(terms, acquisition=acquisition, power=power, count=count)
    hour: float = ownership_per_hour(
        acquisition=acquisition, fixed_per_year=sum(fixed),
        energy_per_hour=sum(hourly_energy(terms, place, power)), years=terms.years,
        utilization=terms.utilization, residual=terms.residual, rate=terms.rate,
    )  # fmt: skip
    return hour


def cost_of(
    candidate: Candidate,
    site: Site,
    *,
    terms: Terms,
    workload: Workload,
    catalog: Catalog,
    defaults: CostDefaults,
    hours: float | None,
    tokens_per_hour: float | None,
    samples_per_hour: float | None,
    streams: float | None = None,
    power: float | None,
    today: str,
) -> Cost:
    """Rent and purchase of a candidate, and the one of them that counts (`basis`)."""
    count = int(candidate.plan.count)
    hardware, system = site.accelerator.id, site.system
    rent = paid = owned = None
    offer = purchase = None
    if workload.acquire != "buy" and not workload.have:
        together = min(count // candidate.plan.replicas, int(system.accelerators_per_node) if system else 1)
        offer = rented(catalog, workload, hardware=hardware, count=count, together=together, term=terms.term)
        paid = paid_hours(
            terms, terms.term, nodes=node_count(count, system), workload=workload, defaults=defaults
        )
        rent = None if offer is None or paid is None else offer.usd * count
    services = services_per_hour(
        workload, defaults, terms, provider=offer.row.provider if offer else "", service=hours is None
    )
    if workload.acquire != "rent" and power is not None:
        place = where(catalog, workload, defaults)
        if workload.have:
            owned = sum(hourly_energy(terms, place, power))
        else:
            purchase = bought(
                catalog, defaults, hardware=hardware, count=count, system=system, today=today,
                spares=terms.spares, storage=workload.storage or 0.0,
            )  # fmt: skip
        if purchase is not None:
            owned = owned_per_hour(terms, place, acquisition=purchase.total, power=power, count=count)
    basis = _basis(
        workload, rent=None if rent is None else rent * (paid or 1.0) + (services or 0.0), owned=owned,
        purchase=purchase,
    )  # fmt: skip
    hourly, stretch = (rent, paid or 1.0) if basis == "rent" else (owned, 1.0)
    extra = services or 0.0 if basis == "rent" else 0.0
    used = None if hourly is None else hourly * stretch + extra  # USD for one useful hour
    return Cost(
        per_hour_usd=None if hourly is None else hourly + extra,
        per_run_usd=None if used is None or hours is None else used * hours,
        per_month_usd=None if used is None or hours is not None else _per_month(used, terms),
        per_million_tokens_usd=None if used is None or not tokens_per_hour else used / tokens_per_hour * 1e6,
        per_thousand_images_usd=None
        if used is None or not samples_per_hour or tokens_per_hour
        else used / samples_per_hour * 1e3,
        per_stream_month_usd=None if not streams or used is None else _per_month(used, terms) / streams,
        acquisition_usd=None if purchase is None else purchase.total,
        buy_per_hour_usd=None if purchase is None else owned,
        rent_per_hour_usd=rent,
        services_per_hour_usd=services if rent and (workload.storage or workload.egress) else None,
        paid_hours_per_used_hour=paid if rent is not None else None,
        basis=basis,
        offer=None if offer is None else offer_of(offer.row),
        purchase=None if purchase is None else offer_of(purchase.row),
    )


def _per_month(used: float, terms: Terms) -> float:
    """Cost of a month of service: the hours in use, idle ones are in the price of a used hour [USD]."""
    return used * HOURS_PER_MONTH * terms.utilization


def _basis(workload: Workload, *, rent: float | None, owned: float | None, purchase: Purchase | None) -> str:
    """What counts: `rent`, `buy`, or `owned` hardware; with --acquire any the cheaper of both.

    A purchase above a budget that names no period is not chosen. Without a wish rent counts where it is
    known, because it needs no commitment.
    """
    if workload.have and owned is not None:
        return "owned"
    if rent is not None and owned is not None and workload.acquire == "any":
        budget = workload.budget
        sum_given = budget is not None and budget.per == "none" and not budget.per_accelerator
        if sum_given and purchase is not None and budget is not None and purchase.total > budget.amount:
            return "rent"
        return "rent" if rent <= owned else "buy"
    return "rent" if rent is not None else "buy" if owned is not None else ""


def energy_of(
    accelerator: Accelerator,
    cost: Cost,
    *,
    terms: Terms,
    workload: Workload,
    catalog: Catalog,
    defaults: CostDefaults,
    count: int,
    power: float | None,
    hours: float | None,
    tokens_per_hour: float | None,
    samples_per_hour: float | None = None,
) -> Energy:
    """Energy and carbon of the run, or of a month of service, where the machines stand; per unit too."""
    span = hours or HOURS_PER_MONTH * terms.utilization
    offer = cost.offer if cost.basis == "rent" else None
    place = where(
        catalog, workload, defaults, provider=offer.provider if offer else "",
        region=offer.region if offer else "",
    )  # fmt: skip
    made = embodied(catalog, accelerator.id)
    life = terms.years * HOURS_PER_YEAR * terms.utilization
    share = None if made is None else count * span / life
    kwh = None if power is None else energy_kwh(power=power, hours=span, pue=place.pue.value)
    grams = place.carbon_g_kwh.value
    units = tokens_per_hour * span / 1e6 if tokens_per_hour else (samples_per_hour or 0.0) * span / 1e3
    unit = None if kwh is None or not units else kwh / units
    emitted = None if unit is None else unit * grams / 1000.0
    whole = None if made is None or share is None else made.kg * share
    return Energy(
        power_w=power,
        kwh=kwh,
        kgco2e=None if kwh is None else kwh * grams / 1000.0,
        kwh_per_million_tokens=unit if tokens_per_hour else None,
        kgco2e_per_million_tokens=emitted if tokens_per_hour else None,
        kwh_per_thousand_images=None if tokens_per_hour else unit,
        kgco2e_per_thousand_images=None if tokens_per_hour else emitted,
        embodied_kgco2e=whole,
        embodied_kgco2e_per_unit=None if whole is None or not units else whole / units,
        embodied_low_kgco2e=None if made is None or share is None else made.low * share,
        embodied_high_kgco2e=None if made is None or share is None else made.high * share,
        embodied_scope="" if made is None else made.scope,
        place=place,
    )


def embodied(catalog: Catalog, hardware: str) -> Embodied | None:
    """Embodied carbon per accelerator, looked up once per card."""
    key = ("embodied", hardware)
    if key not in catalog.memo:
        catalog.memo[key] = embodied_of(catalog.embodied, hardware)
    found: Embodied | None = catalog.memo[key]
    return found
