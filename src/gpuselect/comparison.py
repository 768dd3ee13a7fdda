"""Accelerators and systems side by side: figures of the catalog, and what follows from two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gpuselect.catalog import Accelerator, Catalog, Entry, Price, System
from gpuselect.i18n import _
from gpuselect.provenance import Fact, Figure
from gpuselect.tco.prices import STALE_MONTHS, price_age_months, relied_on

# Properties of which less is better; of those in NEITHER neither is, of all other numbers more is.
LESS = frozenset({
    "rent_usd_per_hour", "spot_usd_per_hour", "purchase_usd", "min_count", "per_hour_usd", "per_run_usd",
    "per_month_usd", "per_million_tokens_usd", "per_thousand_images_usd", "per_stream_month_usd",
    "acquisition_usd", "kwh", "kwh_per_million_tokens", "kwh_per_thousand_images", "kgco2e", "power_w",
    "node_power_w", "host_power_w",
    "host_price_usd", "memory_gib", "time_to_train_days", "run_time_h", "step_time_s", "ttft_ms", "tpot_ms",
    "latency_ms", "watts_per_stream", "warnings",
})  # fmt: skip
NEITHER = frozenset({"launch_year", "count", "nodes", "accelerators_per_node"})
ADDED = ("memory_gb", "usable_memory_gib", "memory_bandwidth_gb_s", "power_w", "rent_usd_per_hour",
         "spot_usd_per_hour", "purchase_usd")  # fmt: skip


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

    @property
    def better(self) -> str:
        """Which end is better: more, less, or empty where neither is or the cells are words."""
        numbers = [cell.value for cell in self.cells if isinstance(cell.value, float)]
        if self.key in NEITHER or len(numbers) < 2:
            return ""
        return "less" if self.key in LESS else "more"

    @property
    def best(self) -> frozenset[int]:
        """Places of the best cells; none where all known ones are equal.

        >>> Row("memory_gb", "Memory", "GB", (Cell(80.0), Cell(141.0), Cell(None))).best
        frozenset({1})
        """
        numbers = {n: c.value for n, c in enumerate(self.cells) if isinstance(c.value, float)}
        if not self.better or len(set(numbers.values())) < 2:
            return frozenset()
        top = min(numbers.values()) if self.better == "less" else max(numbers.values())
        return frozenset(n for n, value in numbers.items() if value == top)


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


def compare_groups(groups: Sequence[tuple[int, Accelerator]], catalog: Catalog) -> Comparison:
    """Groups of accelerators: what adds up is multiplied by the count, the rest is that of one."""
    single = compare_specs([card for _count, card in groups], catalog)
    counts = [count for count, _card in groups]
    rows = [Row("count", _("Accelerators"), "", tuple(Cell(float(n)) for n in counts))]
    rows += [
        replace(row, cells=with_ratios([_times(c, n) for c, n in zip(row.cells, counts, strict=True)]))
        if row.key in ADDED or row.key.startswith("dense_")
        else row
        for row in single.rows
    ]
    return Comparison(
        tuple(f"{n}x{card.id}" for n, card in groups), tuple(f"{n} x {card.name}" for n, card in groups),
        tuple(rows),
    )  # fmt: skip


def _times(cell: Cell, count: int) -> Cell:
    if not isinstance(cell.value, float) or count == 1:
        return cell
    status = cell.status if cell.status == "assumed" else "derived"
    return Cell(cell.value * count, None, status, cell.source)


def compare_systems(systems: Sequence[System], catalog: Catalog) -> Comparison:
    """Servers and racks: their own figures, and a whole node of the first accelerator that they hold."""
    cards = [catalog.accelerators[system.accelerators[0]] for system in systems]
    fields = (
        ("accelerators_per_node", _("Accelerators per node"), ""),
        ("fast_domain", _("Joined by their own link"), ""),
        ("max_nodes", _("Largest number of nodes"), ""),
        ("network_one_way_gb_s", _("Network per accelerator, one way"), "GB/s"),
        ("host_power_w", _("Host, fans and network cards"), "W"),
        ("host_price_usd", _("Price of the host"), "USD"),
    )
    rows = [Row("accelerator", _("Accelerator of the node"), "", tuple(Cell(card.id) for card in cards))]
    rows += [
        Row(key, label, unit, with_ratios([_cell(system, getattr(system, key)) for system in systems]))
        for key, label, unit in fields
    ]
    rows += _node_rows(systems, cards, catalog)
    return Comparison(
        tuple(system.id for system in systems), tuple(system.name for system in systems),
        tuple(row for row in rows if any(cell.value is not None for cell in row.cells)),
    )  # fmt: skip


def _node_rows(systems: Sequence[System], cards: Sequence[Accelerator], catalog: Catalog) -> list[Row]:
    """Sums over a whole node; unknown where a part is."""
    counts = [int(system.accelerators_per_node) for system in systems]
    rows = []
    for key, label, unit in (
        ("node_memory_gb", _("Memory of a node"), "GB"),
        ("node_memory_bandwidth_gb_s", _("Memory bandwidth of a node"), "GB/s"),
    ):
        name = key.removeprefix("node_")
        cells = [_times(_cell(c, getattr(c, name)), n) for c, n in zip(cards, counts, strict=True)]
        rows.append(Row(key, label, unit, with_ratios(cells)))
    for precision in ("bf16", "fp16", "fp8"):
        cells = [
            _times(_cell(c, c.dense_tflops.get(precision)), n) for c, n in zip(cards, counts, strict=True)
        ]
        label = _("Dense {precision} of a node").format(precision=precision)
        rows.append(Row(f"node_dense_{precision}_tflops", label, "TFLOPS", with_ratios(cells)))
    power = [
        Cell(n * float(c.power_w) + float(s.host_power_w), None, "derived", c.cite(c.power_w)[0])
        if c.power_w is not None and s.host_power_w is not None
        else Cell()
        for s, c, n in zip(systems, cards, counts, strict=True)
    ]
    rows.append(Row("node_power_w", _("Power of a node"), "W", with_ratios(power)))
    for key, label, terms in _price_kinds():
        cells = [
            _times(_price_cell(cheapest(c.id, catalog.prices, terms)), n)
            for c, n in zip(cards, counts, strict=True)
        ]
        unit = "USD/h" if key.endswith("per_hour") else "USD"
        title = _("{label}, accelerators of a node").format(label=label)
        rows.append(Row(key, title, unit, with_ratios(cells)))
    return rows


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
    offers = relied_on([price for price in rows if price.is_offer]) or rows
    return min(offers, key=lambda price: price.price / price.n_accel, default=None)


def _price_cell(price: Price | None) -> Cell:
    if price is None:
        return Cell()
    age = price_age_months(as_of=price.as_of, today=datetime.now(tz=UTC).date().isoformat())
    date = price.as_of or _("undated")
    if age is not None and age > STALE_MONTHS:
        date = _("{date}, {age:.0f} months old").format(date=date, age=age)
    place = " ".join(part for part in (price.provider, price.term, date) if part)
    return Cell(price.price / price.n_accel, None, "stated", place)
