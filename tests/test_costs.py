"""Cost, energy and their detail for whole options; live prices; a person's own quotation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter

import pytest

from gpuselect.advisor import estimate, recommend
from gpuselect.catalog import Catalog
from gpuselect.costs import bought, terms_of
from gpuselect.decision import Option
from gpuselect.errors import CatalogError, InputError
from gpuselect.quantities import in_usd
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.report.costs import cost_lines, energy_lines, ledger_grids
from gpuselect.tco import CostDefaults
from gpuselect.tco.currency import in_dollars, usd_for_one
from gpuselect.tco.ownership import interruption_loss
from gpuselect.workload import Workload

TODAY = "2026-11-30"
TRAIN = {"task": "pretrain", "params": "7B", "tokens": "10B"}
SERVE = {"task": "inference", "model": "llama-3.1-8b", "concurrency": 16}


@cache
def catalog() -> Catalog:
    """The shipped catalog."""
    return load_catalog()


@cache
def defaults() -> CostDefaults:
    """The shipped defaults."""
    return load_defaults()


def option(work: dict[str, object], on: str = "a100-sxm4-40gb", count: int = 8, **more: object) -> Option:
    """The best plan on given hardware."""
    workload = Workload.from_mapping({**work, **more})
    found = estimate(workload, [(count, on)], catalog(), load_calibration(), defaults(), today=TODAY).option
    assert found is not None
    return found


def test_rent_is_the_cheapest_offer_that_really_stands_in_the_catalog() -> None:
    """Provider, instance, region and date of the answer are those of a row, whole instances at its price."""
    found = option(TRAIN, acquire="rent")
    cost = found.cost
    assert cost.offer is not None
    rows = [
        row for row in catalog().prices
        if row.kind == "rent" and row.term == "on-demand" and row.hardware == found.accelerator
        and (row.provider, row.instance, row.region, row.as_of)
        == (cost.offer.provider, cost.offer.instance, cost.offer.region, cost.offer.as_of)
    ]  # fmt: skip
    assert len(rows) == 1
    assert cost.per_hour_usd == pytest.approx(rows[0].price * -(-8 // rows[0].n_accel))
    assert cost.basis == "rent"
    assert cost.acquisition_usd is None


@pytest.mark.parametrize("term", ["on-demand", "spot", "reserved-1y", "reserved-3y"])
def test_each_term_is_rented_at_its_own_price(term: str) -> None:
    """The offer has the term asked for, and the list of terms has it too."""
    found = option(TRAIN, acquire="rent", term=term, region="us").cost
    assert found.offer is not None
    assert found.offer.term == term
    same = next(t for t in found.terms if t.term == term)
    assert same.per_hour_usd == found.rent_per_hour_usd
    assert len(found.terms) == 4


def test_spot_pays_for_lost_work_and_reserved_for_idle_hours() -> None:
    """One node: 1/day x (15 + 15 min) = 1/48 of the time lost; reserved 1 / 70 %; both by hand."""
    spot = option(TRAIN, acquire="rent", term="spot").cost
    assert spot.paid_hours_per_used_hour == pytest.approx(1 / (1 - 1 / 48))
    none = option(TRAIN, acquire="rent", term="spot", interruptions="0/day").cost
    assert none.paid_hours_per_used_hour == 1.0
    assert spot.per_run_usd == pytest.approx((none.per_run_usd or 0) / (1 - 1 / 48))
    reserved = option(TRAIN, acquire="rent", term="reserved-1y").cost
    assert reserved.paid_hours_per_used_hour == pytest.approx(1 / 0.7)
    assert option(TRAIN, acquire="rent", term="3y", utilization="100%").cost.paid_hours_per_used_hour == 1.0


def test_what_nobody_knows_of_spot_machines_is_in_the_range() -> None:
    """Few and many interruptions move the cost; a rate that is given does not, and none costs nothing."""
    open_rate = option(TRAIN, acquire="rent", term="spot").cost
    assert open_rate.range is not None
    assert open_rate.offer is not None
    name, low, high = next(s for s in open_rate.range.swings if s[0] == "interruptions")
    loss = interruption_loss(per_day=5, nodes=1, checkpoint_h=0.5, restart_h=0.25)
    assert loss is not None
    paid = open_rate.paid_hours_per_used_hour or 0.0
    assert high / (open_rate.per_run_usd or 0.0) == pytest.approx(1 / (1 - loss) / paid)
    assert low < (open_rate.per_run_usd or 0.0), name
    given = option(TRAIN, acquire="rent", term="spot", interruptions="1/day").cost
    assert given.range is not None
    assert "interruptions" not in [swing for swing, *_ends in given.range.swings]
    assert given.range.p90 < open_rate.range.p90


def test_spares_are_bought_and_depreciate() -> None:
    """3 % of the purchase, an item of its own, in the ledger too."""
    bare, spare = (option(TRAIN, acquire="buy", spares=share).cost for share in ("0%", "3%"))
    assert (spare.acquisition_usd or 0) == pytest.approx(1.03 * (bare.acquisition_usd or 0))
    assert ("spares", pytest.approx(0.03 * (bare.acquisition_usd or 0)), "once") in spare.items
    assert (spare.per_run_usd or 0) > (bare.per_run_usd or 0)


def test_storage_is_bought_with_the_machines() -> None:
    """100 TB at 250 USD; the same flag pays a cloud by the month."""
    bare, kept = (option(TRAIN, acquire="buy", **more).cost for more in ({}, {"storage": "100TB"}))
    assert (kept.acquisition_usd or 0) - (bare.acquisition_usd or 0) == pytest.approx(25_000)
    assert ("storage", pytest.approx(25_000), "once") in kept.items


def test_a_purchase_by_hand() -> None:
    """Eight A100 of 12,500 USD with a server factor of 1.64: 164,000; two nodes: / (1 - 0.19)."""
    system = next(s for s in catalog().systems.values() if "a100-sxm4-40gb" in s.accelerators)
    one, two = (
        bought(catalog(), defaults(), hardware="a100-sxm4-40gb", count=n, system=system, today=TODAY)
        for n in (8, 16)
    )
    assert one is not None
    assert two is not None
    assert (one.accelerators, one.network) == (100_000, 0)
    assert one.total == pytest.approx(164_000)
    assert two.total == pytest.approx(2 * 164_000 / 0.81)
    rack_system = next(s for s in catalog().systems.values() if "gb300-288gb" in s.accelerators)
    rack = bought(catalog(), defaults(), hardware="gb300-288gb", count=64, system=rack_system, today=TODAY)
    assert rack is not None
    assert (rack.total, rack.network) == (3_000_000, 0)  # the rack of 72 is bought whole, network and all


def test_an_owned_hour_by_hand() -> None:
    """Every item of the owned hour from its inputs, given one by one; the items add up to the hour.

    164,000 USD, 20 % resale after 4 years, no interest, 5 % support, 1000 USD a card and year, 8760 USD of
    staff, a rack at 100 USD/kW, 0.1 USD/kWh, PUE 1.2, 500 g/kWh at 100 USD/t, half of the time in use.
    """
    cost_of_use = {
        "acquire": "buy", "years": 4, "residual": "20%", "wacc": "0%", "support": "5%", "licence": "$1000",
        "staff": "$8760/year", "colocation": "$100/kW-month", "electricity": "0.1 USD/kWh", "pue": 1.2,
        "carbon": "500 g/kWh", "carbon_price": "$100/t", "utilization": "50%",
    }  # fmt: skip
    found = option(TRAIN, **cost_of_use)
    kw = (found.energy.power_w or 0) / 1000
    assert kw == pytest.approx(0.69 * (8 * 0.4 + 3.3))
    yearly = 164_000 * 0.8 / 4 + 164_000 * 0.05 + 8 * 1000 + 8760 + 6.5 * 1200  # a rack for the rating
    hour = yearly / 4380 + kw * 1.2 * (0.1 + 0.05)
    assert found.cost.buy_per_hour_usd == pytest.approx(hour)
    assert found.cost.per_hour_usd == found.cost.buy_per_hour_usd
    owned = [usd for what, usd, per in found.cost.items if per == "hour"]
    assert sum(owned) == pytest.approx(hour)
    assert sum(usd for what, usd, per in found.cost.items if per == "once") == pytest.approx(164_000)


@pytest.mark.parametrize("work", [TRAIN, SERVE])
def test_the_ledger_ends_where_the_levelised_hour_does(work: dict[str, object]) -> None:
    """Five years of payments, at their value on day 0, are the used hours at the levelised price."""
    cost = option(work, acquire="buy").cost
    book, hours = cost.bought, 8760 * (0.7 if work is TRAIN else 1.0)
    assert book is not None
    assert len(book.by_year) == 6
    annuity = sum(1.06**-year for year in range(1, 6))
    assert book.present_value == pytest.approx((cost.buy_per_hour_usd or 0) * hours * annuity, abs=0.5)
    assert cost.by_years[-1] == (5, pytest.approx(cost.buy_per_hour_usd))
    hourly = [usd for _years, usd in cost.by_years]
    assert hourly == sorted(hourly, reverse=True)


def test_any_takes_the_cheaper_and_says_where_the_choice_flips() -> None:
    """At the break-even use both cost the same; a little below renting wins, a little above buying."""
    usual = option(TRAIN, acquire="any", on="a100-sxm4-80gb").cost
    assert usual.breakeven is not None
    share = usual.breakeven.utilization
    assert share is not None
    assert 0.05 < share < 0.95
    at = {
        step: option(TRAIN, acquire="any", on="a100-sxm4-80gb", utilization=share * step).cost
        for step in (0.98, 1.0, 1.02)
    }
    assert at[1.0].buy_per_hour_usd == pytest.approx(at[1.0].rent_per_hour_usd)
    assert (at[0.98].basis, at[1.02].basis) == ("rent", "buy")
    note = next(n for n in option(TRAIN, on="a100-sxm4-80gb").reasons if n.code == "breakeven")
    assert f"{100 * share:.0f} % use" in note.text


def test_a_purchase_above_the_budget_is_not_chosen() -> None:
    """With any, a budget for the run does not buy a machine that it cannot pay."""
    free = option(TRAIN, acquire="any", on="a100-sxm4-80gb").cost
    assert free.basis == "buy"
    assert option(TRAIN, acquire="any", on="a100-sxm4-80gb", budget="$100000").cost.basis == "rent"


def test_what_is_owned_costs_its_electricity() -> None:
    """--have: no acquisition, no rent."""
    cost = option(TRAIN, have="8xa100-sxm4-40gb")
    assert cost.cost.basis == "owned"
    assert cost.cost.offer is None
    kw = (cost.energy.power_w or 0) / 1000
    assert cost.cost.per_hour_usd == pytest.approx(kw * 1.25 * 0.0826)


def test_carbon_is_that_of_the_offer_or_of_the_place_of_the_owner() -> None:
    """Rented in a region of a cloud; bought in Germany; a figure of one's own wins over both."""
    rented = option(TRAIN, acquire="rent", region="us-east-1")
    assert rented.cost.offer is not None
    assert rented.cost.offer.provider == "aws"
    assert rented.energy.kgco2e == pytest.approx((rented.energy.kwh or 0) * 0.39625)
    assert rented.energy.place is not None
    assert (rented.energy.place.pue.value, rented.energy.place.carbon_g_kwh.year) == (1.15, "2024")
    german = option(TRAIN, acquire="buy", region="DE").energy
    assert german.kgco2e == pytest.approx((german.kwh or 0) * 0.342)
    own = option(TRAIN, acquire="buy", region="DE", carbon="50 g/kWh", pue=1.1).energy
    assert own.kgco2e == pytest.approx((german.kgco2e or 0) / 1.25 * 1.1 * 50 / 342)


def test_embodied_carbon_is_a_share_of_the_life() -> None:
    """An A100 system: 8 x kg x hours of the run over five years at 70 % use; unknown stays unknown."""
    found = option(TRAIN, acquire="rent")
    hours = found.performance["time_to_train_days"].value * 24
    life = 5 * 8760 * 0.7
    assert found.energy.embodied_low_kgco2e == pytest.approx(8 * 318 * hours / life)
    assert found.energy.embodied_high_kgco2e == pytest.approx(8 * 700 * hours / life)
    assert option(TRAIN, on="b200-sxm-180gb").energy.embodied_kgco2e is None


def test_a_service_has_a_month_and_costs_per_unit() -> None:
    """A service is on all the time: 730 h; with a share given, that share of them, at the same unit cost."""
    whole, half = option(SERVE, acquire="rent"), option(SERVE, acquire="rent", utilization="50%")
    assert whole.cost.per_month_usd == pytest.approx(730 * (whole.cost.per_hour_usd or 0))
    assert half.cost.per_month_usd == pytest.approx((whole.cost.per_month_usd or 0) / 2)
    assert half.cost.per_million_tokens_usd == whole.cost.per_million_tokens_usd
    tokens = whole.performance["output_tok_s"].value * 3600
    assert whole.energy.kwh_per_million_tokens == pytest.approx((whole.energy.kwh or 0) / 730 / tokens * 1e6)


def test_cost_is_linear_in_time_and_monotone_in_prices() -> None:
    """Twice the tokens, twice the cost; dearer electricity, space, capital or PUE, dearer hours."""
    one, two = option(TRAIN, acquire="buy"), option({**TRAIN, "tokens": "20B"}, acquire="buy")
    assert two.cost.per_run_usd == pytest.approx(2 * (one.cost.per_run_usd or 0), rel=1e-6)
    for more in (
        {"electricity": 0.2}, {"colocation": 300}, {"wacc": "12%"}, {"pue": 1.8}, {"support": "3%"},
        {"years": 3}, {"residual": "0%"}, {"utilization": "60%"}, {"staff": "$1000"}, {"licence": "$1"},
    ):  # fmt: skip
        dearer = option(TRAIN, acquire="buy", **more)
        assert (dearer.cost.per_run_usd or 0) > (one.cost.per_run_usd or 0), more


@pytest.mark.parametrize("acquire", ["rent", "buy"])
def test_the_range_holds_the_cost(acquire: str) -> None:
    """P10 <= P50 <= P90 around the cost, the same at each call, and what moves it most comes first."""
    cost = option(TRAIN, acquire=acquire).cost
    found = cost.range
    assert found is not None
    assert found == option(TRAIN, acquire=acquire).cost.range
    assert found.metric == "per_run_usd"
    assert found.p10 < (cost.per_run_usd or 0) < found.p90
    widths = [abs(high - low) for _name, low, high in found.swings]
    assert widths == sorted(widths, reverse=True)
    assert {"buy": "utilisation", "rent": "price"}[acquire] in [name for name, *_ends in found.swings]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"utilization": "0%"}, "not a share above 0 %"), ({"pue": 0.5}, "number from 1 to 3"),
        ({"electricity": "5 EUR/kWh"}, "not a price of electricity"), ({"staff": "$5/h"}, "USD a year"),
        ({"carbon_price": "much"}, "write for example"), ({"term": "spto"}, "did you mean spot"),
    ],
)  # fmt: skip
def test_bad_figures_are_refused_in_a_sentence(given: dict[str, object], said: str) -> None:
    """What was wrong, what is allowed, and a near match."""
    with pytest.raises(InputError, match=said):
        Workload.from_mapping({**TRAIN, **given})


def test_a_carbon_budget_is_a_constraint() -> None:
    """Nothing shown is above it, and what it rules out says so."""

    def ask(**more: object) -> list[Option]:
        workload = Workload.from_mapping({**TRAIN, "gpus": ["a100-sxm4-40gb", "h100-sxm5-80gb"], **more})
        decision = recommend(workload, catalog(), load_calibration(), defaults(), today=TODAY)
        verdicts.update({c.accelerator: c.rejection.code for c in decision.considered if c.rejection})
        return list(decision.recommendations)

    verdicts: dict[str, str] = {}
    carbon = [(o.energy.kgco2e or 0) + (o.energy.embodied_kgco2e or 0) for o in ask()]
    limit = min(carbon) * 1.05
    kept = ask(carbon_budget=f"{limit} kg")
    assert kept
    assert all((o.energy.kgco2e or 0) <= limit for o in kept)
    assert ask(carbon_budget="1 kg") == []
    assert verdicts["a100-sxm4-40gb"] == "over-carbon"


def test_a_stale_price_is_said_with_its_age() -> None:
    """In every answer that rests on it; a fresh one is not."""
    workload = Workload.from_mapping({**TRAIN, "acquire": "rent", "region": "us-east-1"})

    def notes(today: str) -> dict[str, str]:
        found = estimate(
            workload, [(8, "a100-sxm4-40gb")], catalog(), load_calibration(), defaults(), today=today
        ).option  # fmt: skip
        assert found is not None
        return {note.code: note.text for note in found.warnings}

    assert "price-stale" not in notes("2026-08-01")
    assert notes("2027-07-20")["price-stale"].startswith("the price is 12 months old (2026-07-20)")


def test_every_region_with_an_offer_is_listed() -> None:
    """Not only the cheapest (peer complaint 53), totals for the whole deployment (51, 55)."""
    cost = option(TRAIN, acquire="rent").cost
    places = {(r.offer.provider, r.offer.region) for r in cost.regions}
    assert len(places) == len(cost.regions) > 4
    hours = [r.per_hour_usd for r in cost.regions]
    assert hours == sorted(hours)
    assert hours[0] == pytest.approx(cost.rent_per_hour_usd)
    virginia = next(r for r in cost.regions if (r.offer.provider, r.offer.region) == ("aws", "us-east-1"))
    assert virginia.carbon_g_kwh == 396.25
    p4d = next(p for p in catalog().prices if p.instance == "p4d.24xlarge" and p.region == "us-east-1"
               and p.term == "on-demand")  # fmt: skip
    assert virginia.per_hour_usd == p4d.price


def test_energy_and_carbon_of_a_unit_of_work() -> None:
    """A month's energy over a month's tokens or images; making the hardware beside operation."""
    for work, unit, kwh in (
        (SERVE, "output_tok_s", "kwh_per_million_tokens"),
        ({"task": "inference", "model": "resnet-50"}, "images_per_s", "kwh_per_thousand_images"),
    ):
        found = option(work, on="h100-sxm5-80gb", count=1)
        size = 1e6 if unit == "output_tok_s" else 1e3
        units = found.performance[unit].value * 3600 * 730 / size
        assert getattr(found.energy, kwh) == pytest.approx((found.energy.kwh or 0) / units)
        made = found.energy.embodied_kgco2e_per_unit
        assert made == pytest.approx((found.energy.embodied_kgco2e or 0) / units)
        shown = "".join(energy_lines(found.energy))
        assert "g CO2e, " in shown
        assert "for making the hardware" in shown


def test_an_unknown_price_is_unknown() -> None:
    """A card without a price has no cost, no ledger and no range, never 0."""
    bare = replace(catalog(), prices=())
    workload = Workload.from_mapping(TRAIN)
    found = estimate(workload, [(8, "a100-sxm4-40gb")], bare, load_calibration(), defaults(), today=TODAY)
    assert found.option is not None
    cost = found.option.cost
    assert (cost.per_hour_usd, cost.bought, cost.rented, cost.range) == (None, None, None, None)
    assert (cost.items, cost.basis) == ((), "")


def test_the_detail_can_be_read() -> None:
    """Lines and tables of the report: the sums are there to the cent."""
    found = option(TRAIN, acquire="any", on="a100-sxm4-80gb")
    text = "\n".join(cost_lines(found.cost) + energy_lines(found.energy))
    for part in ("Rent per hour by term", "buying costs less from", "80 % of 2000 draws", "PUE 1.25"):
        assert part in text
    (title, grid), _rent = ledger_grids(found.cost)
    assert title == "Buying, by year (USD)"
    assert found.cost.bought is not None
    assert grid.rows[-2][-1] == f"{found.cost.bought.total:,.2f}"


def test_pricing_two_thousand_candidates_is_fast() -> None:
    """Look-ups are made once for each card and region."""
    from gpuselect import options

    spent, calls = 0.0, 0
    kept = options.cost_of

    def timed(*args: object, **more: object) -> object:
        nonlocal spent, calls
        start = perf_counter()
        found = kept(*args, **more)  # type: ignore[arg-type]
        spent, calls = spent + perf_counter() - start, calls + 1
        return found

    workload = Workload.from_mapping(SERVE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "cost_of", timed)
        recommend(workload, catalog(), load_calibration(), defaults(), today=TODAY)
    assert calls > 100
    assert spent / calls < 200e-6  # measured 10 us; a look-up for each candidate takes a millisecond


def test_terms_come_from_the_workload_then_from_the_defaults() -> None:
    """A service is on all the time, a run shares its machine; a given value wins."""
    plain = Workload.from_mapping(TRAIN)
    assert terms_of(plain, defaults(), service=True).utilization == 1.0
    assert terms_of(plain, defaults(), service=False).utilization == 0.7
    given = Workload.from_mapping({**TRAIN, "utilization": "30%", "wacc": "0%"})
    terms = terms_of(given, defaults(), service=True)
    assert (terms.utilization, terms.rate, terms.years) == (0.3, 0.0, 5.0)


QUOTE = """\
- hardware: a100-sxm4-40gb
  n_accel: 8
  kind: rent
  provider: my-cloud
  price: 5.5
  as_of: 2026-11-01
  source: quotation 4711
"""


def test_a_quotation_of_ones_own_is_a_yaml_overlay(tmp_path: Path) -> None:
    """A few lines of YAML, dated and sourced, and the answer rests on them."""
    (tmp_path / "prices.yaml").write_text(QUOTE)
    mine = load_catalog(overlays=[tmp_path])
    workload = Workload.from_mapping({**TRAIN, "acquire": "rent"})
    found = estimate(workload, [(8, "a100-sxm4-40gb")], mine, load_calibration(), defaults(), today=TODAY)
    assert found.option is not None
    cost = found.option.cost
    assert cost.per_hour_usd == 5.5
    assert cost.offer is not None
    assert (cost.offer.provider, cost.offer.term, cost.offer.as_of) == ("my-cloud", "on-demand", "2026-11-01")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("hardware: a100-sxm4-40gb", "hardware: a100-sxm4-40g", "unknown accelerator.*did you mean a100"),
        ("price:", "prise:", "unknown key prise; did you mean price"),
        ("price: 5.5", "price: -1", "price '-1' is not a number above 0"),
        ("kind: rent", "kind: lease", "kind 'lease' is none of rent, buy"),
        ("source: quotation 4711", "note: x", "source is missing"),
        ("as_of: 2026-11-01", "as_of: soon", "as_of 'soon' is no date"),
        ("provider: my-cloud", "currency: EUR", "prices are in USD"),
        ("- hardware", "hardware", "expected a list of quotations|prices.yaml"),
    ],
)
def test_a_wrong_quotation_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    """File, entry, and what is wrong."""
    (tmp_path / "prices.yaml").write_text(QUOTE.replace(old, new, 1))
    with pytest.raises(CatalogError, match=said):
        load_catalog(overlays=[tmp_path])


def test_a_budget_in_another_currency_takes_the_dated_rate() -> None:
    """ECB, 30 October 2026: 1.1172 USD and 7.4326 CNY for a euro; the answer says rate, day and age."""
    for text, usd in (("€2000/month", 2234.40), ("30万", 45_093.24), ("1000 JPY", 6.36)):
        work = Workload.from_mapping({**TRAIN, "budget": text})
        assert work.budget is not None
        assert work.budget.currency != "USD"
        dollars = in_dollars(work, catalog(), today=TODAY)
        assert dollars.budget is not None
        assert (dollars.budget.amount, dollars.budget.currency) == (pytest.approx(usd, abs=0.01), "USD")
        assert dollars.budget.per == work.budget.per
        assert "reference rate of 2026-10-30" in dollars.parse_notes[-1]
        assert in_dollars(dollars, catalog(), today=TODAY) is dollars
    late = in_dollars(work, catalog(), today="2027-08-30")
    assert "10 months old" in late.parse_notes[-1]
    there = usd_for_one(catalog(), "EUR")
    assert there is not None
    assert there[0] == 1.1172


def test_every_way_in_converts_the_budget() -> None:
    """Euros are never taken for dollars: the decision's own workload is in USD, its notes say how."""
    work = Workload.from_mapping({**TRAIN, "budget": "€900"})
    found = recommend(work, catalog(), load_calibration(), defaults(), today=TODAY)
    assert found.workload["budget"]["amount"] == pytest.approx(1005.48)
    assert any("1,005.48 USD" in note.text for note in found.assumptions)
    assert all((o.cost.per_run_usd or 0) <= 1005.48 for o in found.recommendations if o.cost.basis == "rent")
    bare = replace(catalog(), exchange_rates=())
    with pytest.raises(InputError, match="--exchange-rates EUR=RATE"):
        recommend(work, bare, load_calibration(), defaults(), today=TODAY)


def test_a_budget_in_another_currency_takes_the_rate_given() -> None:
    """Converted at the rate given, said in the notes."""
    work = Workload.from_mapping({**TRAIN, "budget": "€2000/month", "exchange_rates": "EUR=1.08"})
    assert work.budget is not None
    assert (work.budget.amount, work.budget.currency, work.budget.per) == (2160.0, "USD", "month")
    assert "2000 EUR is 2160 USD" in " ".join(work.parse_notes)
    with pytest.raises(InputError, match="USD for one unit"):
        Workload.from_mapping({**TRAIN, "exchange_rates": "EUR"})
    back = in_usd(work.budget, {}) or work.budget
    assert back.amount / 1.08 == pytest.approx(2000)


def test_storage_and_egress_of_a_cloud() -> None:
    """10 TB kept at 0.023 and 2 TB out at 0.09 USD/GB: 410 USD a month at AWS; elsewhere unknown, not 0."""
    asked = {"acquire": "rent", "storage": "10TB", "egress": "2TB/month"}
    here, bare = option(SERVE, region="us-east-1", **asked), option(SERVE, region="us-east-1", acquire="rent")
    assert here.cost.offer is not None
    assert here.cost.offer.provider == "aws"
    assert (here.cost.per_month_usd or 0) - (bare.cost.per_month_usd or 0) == pytest.approx(410)
    assert here.cost.rented is not None
    assert [what for what, _row in here.cost.rented.items] == ["rent", "storage and egress"]
    other = option(SERVE, region="asia-southeast1", **asked)
    assert other.cost.services_per_hour_usd is None
    assert "services-unknown" in [note.code for note in other.warnings]


def test_a_camera_stream_has_a_price_a_month() -> None:
    """The month of the deployment over the streams asked for."""
    video = {"task": "video", "streams": 16, "fps": 25, "resolution": "1080p", "model": "yolov8n"}
    cost = option(video, on="l4-24gb", count=1, acquire="rent").cost
    assert cost.per_month_usd is not None
    assert cost.per_stream_month_usd == pytest.approx(cost.per_month_usd / 16)


def test_a_run_that_pays_a_part_of_a_purchase_says_so() -> None:
    """Two days of five years; a rented run, and a service that fills its machine, say nothing."""

    def codes(**money: object) -> set[str]:
        return {note.code for note in option({**TRAIN, **money}).warnings}

    assert "purchase-shared" in codes(acquire="buy")
    assert "purchase-shared" not in codes(acquire="rent")
