"""The flat tables: measured power, regions, past prices; strict reading, laziness, overlays."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from gpuselect.catalog import Catalog, MeasuredPower, PastPrice
from gpuselect.cli import card_tables
from gpuselect.errors import CatalogError
from gpuselect.readers import tables
from gpuselect.readers.catalog import data_dir, load_catalog
from gpuselect.readers.tables import LAYOUTS, POWER, PRICE_HISTORY, REGIONS, LazyTable, parse_rows

REGION_HEADER = "region,name,kind,carbon_g_kwh,carbon_method,electricity_usd_kwh,price_kind,pue,year,source\n"
REGION = "DE,Germany,country,342,mix,,,,2024,list\n"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """The shipped catalog."""
    return load_catalog()


def test_tables_are_not_read_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the catalog parses none of them; asking parses one, once."""
    parsed: list[str] = []
    original = tables.parse_rows

    def counted(text: str, layout: tables.Layout, *, name: str):  # type: ignore[no-untyped-def, type-arg]
        parsed.append(name)
        return original(text, layout, name=name)

    monkeypatch.setattr(tables, "parse_rows", counted)
    catalog = load_catalog()
    assert parsed == []
    assert len(catalog.regions) == len(list(catalog.regions)) > 1000
    assert catalog.regions[0].region
    assert len(catalog.regions[:3]) == 3
    assert parsed == ["regions.csv"]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.file)
def test_every_row_names_its_source(layout: tables.Layout, catalog: Catalog) -> None:  # type: ignore[type-arg]
    """Rows as in the file, none dropped, each with a source."""
    text = (data_dir() / layout.file).read_text("utf-8")
    rows = parse_rows(text, layout, name=layout.file)
    assert len(rows) == sum(1 for _line in csv.reader(io.StringIO(text))) - 1
    assert all(row.source.strip() for row in rows)


def test_measured_power_is_that_of_known_cards(catalog: Catalog) -> None:
    """Known card, a power or a share, and the share agrees with the power of one card."""
    assert len(catalog.power) >= 250
    for row in catalog.power:
        assert row.hardware in catalog.accelerators, row
        assert row.mean_power_w is not None or row.power_per_accel_w is not None, row
        if row.share_of_tdp is not None:
            assert 0 < row.share_of_tdp <= 1.3, row
            assert row.measured_at.startswith("GPU"), row
        if row.mean_power_w and row.power_per_accel_w:
            assert row.mean_power_w == pytest.approx(row.power_per_accel_w * row.n_accel, rel=0.02), row


def test_a_published_power(catalog: Catalog) -> None:
    """ML.ENERGY leaderboard: Gemma 3 27B on one B200, batch 247, 973.9 W."""
    rows = [row for row in catalog.power if row.hardware == "b200-sxm-180gb"]
    assert {row.share_of_tdp for row in rows if row.mean_power_w == 973.9} == {0.974}


def test_carbon_stands_with_its_method(catalog: Catalog) -> None:
    """One row for each region and method; the methods are few and named."""
    with_carbon = [row for row in catalog.regions if row.carbon_g_kwh is not None]
    assert len(with_carbon) > 850
    assert all(row.carbon_method for row in with_carbon)
    assert len({row.carbon_method for row in with_carbon}) == 5
    keys = [(row.region, row.carbon_method) for row in with_carbon]
    assert len(set(keys)) == len(keys)
    assert all(row.carbon_g_kwh is not None for row in catalog.regions if row.carbon_method)


def test_figures_of_regions_are_plausible(catalog: Catalog) -> None:
    """PUE from 1 to 3, carbon from 0 to 1500 g, a positive price with its tariff."""
    for row in catalog.regions:
        assert row.pue is None or 1 <= row.pue <= 3, row
        assert row.carbon_g_kwh is None or 0 <= row.carbon_g_kwh <= 1500, row
        assert (row.electricity_usd_kwh is None) == (not row.price_kind), row
        figures = (row.pue, row.carbon_g_kwh, row.electricity_usd_kwh)
        assert any(figure is not None for figure in figures), row


def test_countries_have_two_letters(catalog: Catalog) -> None:
    """So that the figures of several methods stand together."""
    codes = {row.region for row in catalog.regions if row.kind == "country"}
    assert all(len(code) == 2 for code in codes)
    methods = {row.carbon_method for row in catalog.regions if row.region == "DE" and row.carbon_method}
    assert len(methods) == 3


def test_published_figures_of_regions(catalog: Catalog) -> None:
    """AWS Stockholm in the Green Software Foundation's table: 24.71 g, PUE 1.1."""
    rows = [row for row in catalog.regions if row.region == "aws:eu-north-1"]
    assert [(row.carbon_g_kwh, row.pue) for row in rows] == [(24.71, 1.1)]


def test_past_prices(catalog: Catalog) -> None:
    """Months in order of the calendar, a positive price, USD, known cards."""
    assert len(catalog.price_history) >= 1000
    for row in catalog.price_history:
        assert row.hardware in catalog.accelerators, row
        assert len(row.month) == 7, row
        assert row.currency == "USD", row
        prices = [price for price in (row.ondemand, row.spot) if price is not None]
        assert prices, row
        assert min(prices) > 0, row


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("342", "-1", "regions.csv:2: carbon_g_kwh '-1' is not a number from 0 to 1500"),
        ("342", "nan", "carbon_g_kwh 'nan' is not a number"),
        ("342", "much", "carbon_g_kwh 'much' is not a number"),
        ("country", "land", "kind 'land' is none of country, zone"),
        (",2024,list", ",2024,", "regions.csv:2: source is empty"),
        ("DE,", ",", "region is empty"),
        (",,,2024", ",,0.9,2024", "pue '0.9' is not a number from 1 to 3"),
        (",2024,list", ",2024", "the row has not 10 cells"),
        (",,,,2024", ",0.2,night,,2024", "price_kind 'night' is none of commercial"),
    ],
)
def test_faults_in_a_row(old: str, new: str, part: str) -> None:
    """File, line, column and what is allowed."""
    assert old in REGION
    with pytest.raises(CatalogError) as caught:
        parse_rows(REGION_HEADER + REGION.replace(old, new, 1), REGIONS, name="regions.csv")
    assert part in str(caught.value)


def test_columns_are_the_contract() -> None:
    """Another order or another column is refused."""
    with pytest.raises(CatalogError, match="the columns must be region, name"):
        parse_rows(REGION_HEADER.replace("region,name", "name,region"), REGIONS, name="regions.csv")


def test_a_table_that_is_missing(tmp_path: Path) -> None:
    """A data folder is complete or refused, when somebody asks."""
    with pytest.raises(CatalogError, match=r"the data folder has no regions\.csv"):
        len(LazyTable(REGIONS, (tmp_path,)))


def test_an_overlay_replaces_and_adds(tmp_path: Path) -> None:
    """The same region and method: the overlay's figure. Faults name the overlay's file."""
    base, mine = tmp_path / "base", tmp_path / "mine"
    base.mkdir()
    mine.mkdir()
    (base / "regions.csv").write_text(REGION_HEADER + REGION + REGION.replace("mix", "life-cycle"))
    (mine / "regions.csv").write_text(
        REGION_HEADER + REGION.replace("342", "300") + REGION.replace("DE", "FR")
    )
    rows = LazyTable(REGIONS, (base, mine)).rows
    found = [(row.region, row.carbon_method, row.carbon_g_kwh) for row in rows]
    assert found == [("DE", "life-cycle", 342), ("DE", "mix", 300), ("FR", "mix", 342)]
    (mine / "regions.csv").write_text(REGION_HEADER + REGION.replace("342", "x"))
    with pytest.raises(CatalogError) as caught:
        len(LazyTable(REGIONS, (base, mine)))
    assert str(caught.value).startswith(f"{mine / 'regions.csv'}:2: carbon_g_kwh 'x'")


def power(
    watts: float, share: float | None, workload: str = "training", at: str = "GPU (NVML)"
) -> MeasuredPower:
    """One measured row."""
    return MeasuredPower("x1", 1, workload, watts, watts, share, at, "", "", "log", "")


def test_power_by_workload() -> None:
    """Ranges by workload and place, the most often measured first; no share where the host is in."""
    rows = [
        power(300, 0.5),
        power(450, 0.75),
        power(900, None, at="whole system at the wall"),
        power(1, 0.1, "idle"),
    ]
    found = card_tables.power_summary(rows)
    assert [(r["workload"], r["place"], r["watts"], r["share"], r["runs"]) for r in found] == [
        ("training", "accelerator", "300–450", "50%–75%", 2),
        ("idle", "accelerator", "1", "10%", 1),
        ("training", "whole system", "900", None, 1),
    ]


def test_price_over_time() -> None:
    """First and last month, the lowest price of a month, no series of one month."""
    rows = [
        PastPrice("aws", "big", "x1", month, price, None, "USD", "list")
        for month, price in (("2025-03", 20.0), ("2023-01", 32.0), ("2025-03", 24.0))
    ]
    rows.append(PastPrice("gcp", "new", "x1", "2025-03", 9.0, None, "USD", "list"))
    (change,) = card_tables.price_changes(rows)
    line = "aws big: $32.00/h in 2023-01, $20.00/h in 2025-03 (-38 %)"
    assert card_tables.price_line(change) == line


def test_long_tables_are_cut() -> None:
    """At most seven lines, and the number of the others."""
    rows = [{"n": n} for n in range(10)]
    assert card_tables.cut(rows) == (rows[:7], "and 3 more (--json lists all)")
    assert card_tables.cut(rows[:7]) == (rows[:7], "")


def test_keys_of_overlays_exist() -> None:
    """The columns that identify a row are columns of the table."""
    for layout in (POWER, REGIONS, PRICE_HISTORY):
        assert set(layout.key) | set(layout.required) <= set(layout.kind.__dataclass_fields__)
