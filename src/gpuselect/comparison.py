"""Accelerators side by side: figures of the catalog, and what follows from two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuselect.catalog import Accelerator, Catalog, Entry, Price
from gpuselect.i18n import _
from gpuselect.provenance import Fact, Figure


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of one card. `ratio` is to the first card; `status` as in the catalog."""

    value: float | str | None = None
    ratio: float | None = None
    status: str = ""  # stated, measured, derived, assumed; empty where unknown
    source: str = ""  # key in sources.yaml, or provider and date of a price


@dataclass(frozen=True, slots=True)
class Row:
    """One property over all cards."""

    key: str
    label: str
    unit: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows over the cards, in the order that was asked for."""

    accelerators: tuple[str, ...]
    names: tuple[str, ...]
    rows: tuple[Row, ...]


def compare_specs(accelerators: Sequence[Accelerator], catalog: Catalog) -> Comparison:
    """Properties and cheapest prices of the cards; rows that are unknown for all are left out."""
    rows = [
        *_field_rows(accelerators),
        *_rate_rows(accelerators),
        *_per_watt_rows(accelerators),
        *(
            _price_row(key, label, accelerators, catalog.prices, terms)
            for key, label, terms in _price_kinds()
        ),
    ]
    return Comparison(
        accelerators=tuple(card.id for card in accelerators),
        names=tuple(card.name for card in accelerators),
        rows=tuple(row for row in rows if any(cell.value is not None for cell in row.cells)),
    )


def with_ratios(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells with the ratio of each number to that of the first card.

    >>> [cell.ratio for cell in with_ratios([Cell(80.0), Cell(160.0), Cell(None)])]
    [1.0, 2.0, None]
    """
    first = cells[0].value
    return tuple(Cell(cell.value, _ratio(cell.value, first), cell.status, cell.source) for cell in cells)


def _ratio(value: float | str | None, first: float | str | None) -> float | None:
    if isinstance(value, str) or isinstance(first, str) or value is None or not first:
        return None
    return value / first


def _field_rows(accelerators: Sequence[Accelerator]) -> list[Row]:
    fields = (
        ("memory_gb", _("Memory"), "GB"),
        ("usable_memory_gib", _("Usable memory"), "GiB"),
        ("memory_type", _("Memory type"), ""),
        ("memory_bandwidth_gb_s", _("Memory bandwidth"), "GB/s"),
        ("link_name", _("Link"), ""),
        ("link_both_ways_gb_s", _("Link, both ways"), "GB/s"),
        ("link_one_way_gb_s", _("Link, one way"), "GB/s"),
        ("pcie_one_way_gb_s", _("PCIe, one way"), "GB/s"),
        ("power_w", _("Power"), "W"),
        ("ecc", _("ECC"), ""),
        ("mig_max_instances", _("MIG instances"), ""),
        ("launch_year", _("Launched"), ""),
    )
    rows = []
    for key, label, unit in fields:
        cells = tuple(_cell(card, getattr(card, key)) for card in accelerators)
        rows.append(Row(key, label, unit, cells if key == "launch_year" else with_ratios(cells)))
    return rows


def _cell(card: Entry, figure: Figure | Fact | None) -> Cell:
    if figure is None:
        return Cell()
    value = str(figure) if isinstance(figure, Fact) else float(figure)
    return Cell(value, None, figure.status, card.cite(figure)[0])


def _rate_rows(accelerators: Sequence[Accelerator]) -> list[Row]:
    precisions = dict.fromkeys(key for card in accelerators for key in card.dense_tflops)
    return [
        Row(
            f"dense_{precision}_tflops",
            _("Dense {precision}").format(precision=precision),
            "TFLOPS",
            with_ratios([_cell(card, card.dense_tflops.get(precision)) for card in accelerators]),
        )
        for precision in precisions
    ]


def _per_watt_rows(accelerators: Sequence[Accelerator]) -> list[Row]:
    def cell(card: Accelerator, read: Callable[[Accelerator], Figure | None]) -> Cell:
        rate, power = read(card), card.power_w
        if rate is None or not power:
            return Cell()
        return Cell(rate / power, None, "derived", card.cite(rate)[0])

    def bf16(card: Accelerator) -> Figure | None:
        return card.dense_tflops.get("bf16")

    def fp16(card: Accelerator) -> Figure | None:
        return card.dense_tflops.get("fp16")

    return [
        Row(key, label, "TFLOPS/W", with_ratios([cell(card, read) for card in accelerators]))
        for key, label, read in (
            ("bf16_tflops_per_w", _("Dense bf16 per watt"), bf16),
            ("fp16_tflops_per_w", _("Dense fp16 per watt"), fp16),
        )
    ]


def _price_kinds() -> tuple[tuple[str, str, frozenset[str]], ...]:
    """Key, label and terms of each price row. Whole servers are no price of a card."""
    return (
        ("rent_usd_per_hour", _("Cheapest rent"), frozenset({"on-demand"})),
        ("spot_usd_per_hour", _("Cheapest spot"), frozenset({"spot"})),
        ("purchase_usd", _("Cheapest purchase"), frozenset({"list", "retail", "street", "used"})),
    )


def _price_row(
    key: str,
    label: str,
    accelerators: Sequence[Accelerator],
    prices: Sequence[Price],
    terms: frozenset[str],
) -> Row:
    cells = [_price_cell(cheapest(card.id, prices, terms)) for card in accelerators]
    return Row(key, label, "USD/h" if key.endswith("per_hour") else "USD", with_ratios(cells))


def cheapest(hardware: str, prices: Sequence[Price], terms: frozenset[str]) -> Price | None:
    """The lowest price per accelerator [USD or USD/h]: offers first, market figures without one."""
    rows = [
        price for price in prices if price.hardware == hardware and price.term in terms and price.n_accel > 0
    ]
    offers = [price for price in rows if price.is_offer] or rows
    return min(offers, key=lambda price: price.price / price.n_accel, default=None)


def _price_cell(price: Price | None) -> Cell:
    if price is None:
        return Cell()
    place = " ".join(part for part in (price.provider, price.term, price.as_of) if part)
    return Cell(price.price / price.n_accel, None, "stated", place)
