"""Where machines stand: carbon of the grid, price of electricity and PUE, each with the row it comes from.

All carbon figures are location-based. Methods differ, so a figure keeps its method and year.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuselect.catalog import Region
from gpuselect.i18n import N_
from gpuselect.tco.defaults import CostDefaults

CARBON_METHODS = (  # nearest to what a site draws first
    N_("grid average, consumption (Green Software Foundation)"),
    N_("life-cycle, yearly average (Electricity Maps)"),
    N_("generation mix (Ember)"),
    N_("generation mix (Our World in Data)"),
    N_("grid (Google region list)"),
)
PRICE_KINDS = (N_("industrial"), N_("business"), N_("commercial"))  # what a data centre pays first
FLEETS = ("(fleet average)", "(ccf default)")
GROUPS = {"eu": "europe", "uk": "gb", "na": "north america"}  # words of --region by the name of the row


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with where it holds and where it was read; `assumed` when it is a default."""

    value: float
    place: str
    method: str
    year: str
    source: str
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """What a kWh costs and emits at a place [USD, g CO2e], and the PUE of the building."""

    carbon_g_kwh: Quantity
    electricity_usd_kwh: Quantity
    pue: Quantity


def by_name(regions: Iterable[Region]) -> dict[str, list[Region]]:
    """Rows by region key and by the name of the region, both in small letters."""
    found: dict[str, list[Region]] = {}
    for row in regions:
        for key in {row.region.lower(), row.name.lower()}:
            found.setdefault(key, []).append(row)
    return found


def place_of(
    index: Mapping[str, Sequence[Region]], defaults: CostDefaults, *, names: Sequence[str], provider: str = ""
) -> Place:
    """Figures of the first name that has one, each quantity for itself; else the default.

    Names are tried in order, such as `aws:us-east-1`, then `us`. A provider's fleet average stands in
    for the PUE of a site; a facility's or an industry average is never taken.
    """
    keys = [GROUPS.get(name.lower(), name.lower()) for name in names if name]
    rows = [row for key in keys for row in index.get(key, ())]
    fleet = [row for word in FLEETS for row in index.get(f"{provider} {word}", ()) if provider]
    return Place(
        carbon_g_kwh=_carbon(rows, keys) or _default("carbon_g_kwh", defaults),
        electricity_usd_kwh=_electricity(rows, keys) or _default("electricity_usd_kwh", defaults),
        pue=_pue(rows, fleet) or _default("pue", defaults),
    )


def _rank(row: Region, keys: Sequence[str]) -> int:
    return min(n for n, key in enumerate(keys) if key in {row.region.lower(), row.name.lower()})


def _newest(rows: Iterable[Region]) -> Region | None:
    return max(rows, key=lambda row: row.year, default=None)


def _carbon(rows: Sequence[Region], keys: Sequence[str]) -> Quantity | None:
    """By place, then by method, then the newest."""
    known = [row for row in rows if row.carbon_g_kwh is not None]
    order = {method: n for n, method in enumerate(CARBON_METHODS)}
    least = min(((_rank(row, keys), order.get(row.carbon_method, len(order))) for row in known), default=None)
    row = _newest(
        row for row in known if (_rank(row, keys), order.get(row.carbon_method, len(order))) == least
    )
    if row is None or row.carbon_g_kwh is None:
        return None
    return Quantity(row.carbon_g_kwh, row.region, row.carbon_method, row.year, row.source)


def _electricity(rows: Sequence[Region], keys: Sequence[str]) -> Quantity | None:
    """By place, then the kind that large users pay, then the newest."""
    known = [row for row in rows if row.electricity_usd_kwh is not None and row.price_kind in PRICE_KINDS]
    least = min(((_rank(row, keys), PRICE_KINDS.index(row.price_kind)) for row in known), default=None)
    row = _newest(row for row in known if (_rank(row, keys), PRICE_KINDS.index(row.price_kind)) == least)
    if row is None or row.electricity_usd_kwh is None:
        return None
    return Quantity(row.electricity_usd_kwh, row.region, row.price_kind, row.year, row.source)


def _pue(rows: Sequence[Region], fleet: Sequence[Region]) -> Quantity | None:
    """Of the site, else the newest fleet average of the provider."""
    site = next((row for row in rows if row.pue is not None and row.kind == "cloud region"), None)
    averages = [row for row in fleet if row.pue is not None and row.region == fleet[0].region]
    row = site or _newest(averages)
    if row is None or row.pue is None:
        return None
    return Quantity(row.pue, row.region, "site" if site else "fleet average", row.year, row.source)


def _default(name: str, defaults: CostDefaults) -> Quantity:
    """A default of data/defaults.yaml as a quantity of no place."""
    figure = getattr(defaults, name)
    return Quantity(float(figure), "", "default", "", f"defaults.yaml: {name}", assumed=True)
