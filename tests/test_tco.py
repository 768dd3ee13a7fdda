"""Rent, purchase, energy and ownership."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuselect.catalog import Price
from gpuselect.readers.calibration import load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.tco import (
    HOURS_PER_YEAR,
    CostDefaults,
    bill,
    energy_kwh,
    in_region,
    ownership_per_hour,
    power_w,
    price_age_months,
    purchase_price,
    rent_price,
)


def row(
    price: float, *, n: int = 1, kind: str = "rent", term: str = "on-demand", region: str = "us-east1",
    offer: bool = True, as_of: str = "2026-10-01", provider: str = "p",
) -> Price:  # fmt: skip
    """A price row of the card `x`."""
    return Price("x", n, kind, term, provider, "i", region, price, "USD", as_of, offer, "s", "")


@cache
def defaults() -> CostDefaults:
    """The shipped defaults."""
    return load_defaults()


def rent(prices: list[Price], count: int, region: str | None = None, together: int = 1) -> float | None:
    """Price per used card and hour."""
    found = rent_price(prices=prices, hardware="x", count=count, together=together, region=region)
    return None if found is None else found.usd


def test_the_price_is_per_accelerator() -> None:
    """A row is for all its cards together."""
    assert rent([row(16.0, n=8)], 8) == 2.0
    assert rent([row(16.0, n=8)], 16) == 2.0


def test_whole_instances_are_paid() -> None:
    """One card of an instance of eight costs all eight; nothing offered is unknown."""
    assert rent([row(16.0, n=8)], 1) == 16.0
    assert rent([row(16.0, n=8)], 12) == pytest.approx(32.0 / 12)
    assert rent([], 1) is None


def test_cards_that_belong_together_need_an_instance_that_holds_them() -> None:
    """Eight cards of one replica do not come from eight single-card instances."""
    assert rent([row(1.0), row(24.0, n=8)], 8, together=8) == 3.0
    assert rent([row(1.0), row(24.0, n=8)], 8, together=1) == 1.0
    assert rent([row(1.0)], 8, together=8) is None


@given(count=st.integers(1, 64), size=st.sampled_from([1, 2, 4, 8]), price=st.floats(0.1, 100))
def test_a_bill_covers_the_count_and_no_instance_more(count: int, size: int, price: float) -> None:
    """Whole instances, rounded up once."""
    paid = bill(row(price, n=size), count) / price
    assert count <= paid * size + 1e-6 < count + size + 1e-3


def test_an_offer_comes_before_a_market_figure() -> None:
    """Nobody can order a median."""
    assert rent([row(1.0, offer=False), row(2.0)], 1) == 2.0
    assert rent([row(1.0, offer=False)], 1) == 1.0


def test_only_on_demand_terms_are_rented_by_default() -> None:
    """Spot and reserved prices carry conditions."""
    assert rent([row(0.5, term="spot"), row(0.7, term="reserved-3y"), row(2.0)], 1) == 2.0


def test_a_region_restricts() -> None:
    """Regions by word or by prefix; none means unknown, not another region's price."""
    prices = [row(1.0, region="us-east1"), row(2.0, region="europe-west4")]
    assert rent(prices, 1, "eu") == 2.0
    assert rent(prices, 1, "us") == 1.0
    assert rent(prices, 1, "us-east1") == 1.0
    assert rent(prices, 1, "asia") is None
    assert in_region(row(1.0, region="europe-north1"), "EU")


@given(st.lists(st.floats(min_value=0.01, max_value=100), min_size=1, max_size=9))
def test_the_cheapest_offer_is_found(amounts: list[float]) -> None:
    """The least price of equal rows."""
    assert rent([row(a, provider=str(n)) for n, a in enumerate(amounts)], 1) == min(amounts)


def test_a_card_comes_before_a_server_and_new_before_old() -> None:
    """A server's price includes the host, which is said; used stock is left out."""

    def buy(prices: list[Price]) -> tuple[float | None, bool]:
        found, server = purchase_price(prices=prices, hardware="x", today="2026-11-30")
        return (None if found is None else found.usd), server

    old, new = row(9e3, kind="buy", term="list", as_of="2024-01-01"), row(8e3, kind="buy", term="retail")
    server = row(160e3, n=8, kind="buy", term="server", as_of="2026-11-01")
    assert buy([old, new, server]) == (8e3, False)
    assert buy([server]) == (20e3, True)
    assert buy([row(1e3, kind="buy", term="used")]) == (None, False)
    assert buy([row(1e3, kind="buy", term="list", as_of="2027-01-01")]) == (None, False)


@given(
    count=st.integers(1, 64), watts=st.floats(50, 1500), host=st.floats(0, 6000),
    share=st.floats(0.1, 1.0), hours=st.floats(0.1, 9000), pue=st.floats(1.0, 2.0),
)  # fmt: skip
def test_power_and_energy_grow_with_what_they_are_made_of(
    count: int, watts: float, host: float, share: float, hours: float, pue: float
) -> None:
    """Positive, linear in time, and never below the accelerators' own share."""
    power = power_w(count=count, accelerator_w=watts, host_w=host, nodes=1, share=share)
    assert power >= count * watts * share
    energy = energy_kwh(power=power, hours=hours, pue=pue)
    assert energy > 0
    assert energy_kwh(power=power, hours=2 * hours, pue=pue) == pytest.approx(2 * energy)


def own(acquisition: float, power: float, utilization: float, electricity: float) -> float:
    """Cost of a used hour over three years with the shipped defaults."""
    return ownership_per_hour(
        acquisition=acquisition, power=power, defaults=defaults(), years=3, utilization=utilization,
        electricity=electricity,
    )  # fmt: skip


@given(
    acquisition=st.floats(1e3, 5e6), power=st.floats(100, 1e5), utilization=st.floats(0.05, 0.9),
    electricity=st.floats(0.02, 0.5),
)  # fmt: skip
def test_owning_costs_less_per_hour_when_used_more(
    acquisition: float, power: float, utilization: float, electricity: float
) -> None:
    """Fixed costs spread over more hours; price and electricity raise the cost."""
    base = own(acquisition, power, utilization, electricity)
    assert base > 0
    assert own(acquisition, power, utilization * 1.1, electricity) < base
    assert own(acquisition * 1.1, power, utilization, electricity) > base
    assert own(acquisition, power, utilization, electricity * 1.1) > base


def test_ownership_adds_up_by_hand() -> None:
    """Write-off, energy in used hours, and the rack all the time."""
    d = defaults()
    used = 3 * HOURS_PER_YEAR * 0.5
    expected = (
        1e5 * (1 - d.residual_share)
        + 5.0 * used * d.pue * 0.1
        + 5.0 * d.colocation_usd_kw_month * 36
    ) / used  # fmt: skip
    assert own(1e5, 5000.0, 0.5, 0.1) == pytest.approx(expected)


def test_age_of_a_price() -> None:
    """Months between two dates; a year alone counts from January; undated is unknown."""
    assert price_age_months(as_of="2026-11-30", today="2026-11-30") == 0.0
    assert price_age_months(as_of="2025-11-30", today="2026-11-30") == 12.0
    assert price_age_months(as_of="2026", today="2026-07-01") == 6.0
    assert price_age_months(as_of="", today="2026-11-30") is None


def test_shipped_defaults_are_sane() -> None:
    """Shares are shares, and a building cannot deliver more than it draws."""
    d = defaults()
    for share in (d.training_power_share, d.serving_power_share, d.utilization, d.residual_share):
        assert 0 < share <= 1 or share == d.residual_share >= 0
    assert d.pue >= 1
    assert d.server_factor >= 1


def test_shipped_h100_is_rented_at_a_plausible_price() -> None:
    """An H100 hour costs between 1 and 15 USD in every shipped on-demand offer of a whole node."""
    found = rent_price(
        prices=load_catalog().prices, hardware="h100-sxm5-80gb", count=8, together=8, region=None
    )
    assert found is not None
    assert 1 < found.usd < 15
    assert found.row.source


@pytest.mark.parametrize(
    ("place", "region"),
    [
        ("westeurope", "eu"), ("eu-north-1", "eu"), ("uksouth", "eu"), ("FIN-02", "eu"),
        ("northeurope", "eu"),
        ("eastus2", "us"), ("westus2", "us"), ("us-central1", "us"), ("CANADA-1", "us"),
        ("southeastasia", "asia"), ("japaneast", "asia"), ("koreacentral", "asia"), ("ap-south-1", "asia"),
    ],
)  # fmt: skip
def test_a_place_lies_in_one_region(place: str, region: str) -> None:
    """Azure's side-first names are not taken for American ones."""
    assert [name for name in ("eu", "us", "asia") if in_region(row(1.0, region=place), name)] == [region]
