"""Flat tables of the data folder that few commands need: parsed strictly, and only when asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from gpuselect.catalog import EmbodiedCarbon, ExchangeRate, MeasuredPower, PastPrice, Region
from gpuselect.errors import CatalogError
from gpuselect.i18n import _
from gpuselect.readers.limits import TABLE_BYTES, csv_records, read_text_bounded

Row = TypeVar("Row", MeasuredPower, Region, PastPrice, EmbodiedCarbon, ExchangeRate)


@dataclass(frozen=True, slots=True)
class Layout(Generic[Row]):
    """What a table holds. Columns are the fields of `kind`; an empty number is absent.

    `bounds` are the numbers that may stand in a column, `required` the cells that may not be empty.
    Rows of an overlay replace those with the same `key`.
    """

    file: str
    kind: type[Row]
    required: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]]
    words: Mapping[str, tuple[str, ...]]
    key: tuple[str, ...]


POWER = Layout(
    file="power_measured.csv",
    kind=MeasuredPower,
    required=("hardware", "n_accel", "workload", "measured_at", "source"),
    bounds={
        "n_accel": (1, 1e5), "mean_power_w": (1, 1e7), "power_per_accel_w": (1, 5000),
        "share_of_tdp": (0, 1.3),
    },
    words={},
    key=("hardware", "n_accel", "workload", "measured_at", "configuration", "source"),
)  # fmt: skip
REGIONS = Layout(
    file="regions.csv",
    kind=Region,
    required=("region", "name", "kind", "source"),
    bounds={"carbon_g_kwh": (0, 1500), "electricity_usd_kwh": (0.001, 2), "pue": (1, 3)},
    words={
        "kind": ("country", "zone", "group", "cloud region", "provider", "facility"),
        "price_kind": ("", "commercial", "industrial", "business"),
    },
    key=("region", "carbon_method", "price_kind"),
)
PRICE_HISTORY = Layout(
    file="price_history.csv",
    kind=PastPrice,
    required=("provider", "instance_type", "hardware", "month", "currency", "source"),
    bounds={"ondemand": (1e-6, 1e5), "spot": (1e-6, 1e5)},
    words={},
    key=("provider", "instance_type", "hardware", "month"),
)
EMBODIED = Layout(
    file="embodied_carbon.csv",
    kind=EmbodiedCarbon,
    required=("hardware", "n_accel", "scope", "kgco2e", "source"),
    bounds={"n_accel": (1, 1e3), "kgco2e": (1, 1e6)},
    words={"scope": ("card", "server-without-cards", "server")},
    key=("hardware", "n_accel", "scope", "source"),
)
EXCHANGE = Layout(
    file="exchange_rates.csv",
    kind=ExchangeRate,
    required=("currency", "per_eur", "as_of", "source"),
    bounds={"per_eur": (1e-3, 1e6)},
    words={},
    key=("currency",),
)
LAYOUTS: tuple[Layout[Any], ...] = (POWER, REGIONS, PRICE_HISTORY, EMBODIED, EXCHANGE)


class LazyTable(Sequence[Row]):
    """Rows of one table, parsed when first asked for; those of overlays replace or follow the shipped."""

    def __init__(self, layout: Layout[Row], folders: Sequence[Path]) -> None:
        self._layout: Layout[Row] = layout
        self._folders = folders  # the data folder, then the overlays
        self._rows: tuple[Row, ...] | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows."""
        if self._rows is None:
            self._rows = _joined(self._layout, self._folders)
        return self._rows

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def _joined(layout: Layout[Row], folders: Sequence[Path]) -> tuple[Row, ...]:
    """The table of the data folder with the overlays' rows on top."""
    rows: list[Row] = []
    for number, folder in enumerate(folders):
        path = folder / layout.file
        if not path.exists():
            if number == 0:
                raise CatalogError(_("the data folder has no {name}").format(name=layout.file))
            continue
        text = read_text_bounded(path, limit=TABLE_BYTES)
        new = parse_rows(text, layout, name=layout.file if number == 0 else str(path))
        keys = {_key(row, layout) for row in new} if number else set()
        rows = [row for row in rows if _key(row, layout) not in keys] + new
    return tuple(rows)


def _key(row: Row, layout: Layout[Row]) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in layout.key)


def parse_rows(text: str, layout: Layout[Row], *, name: str) -> list[Row]:
    """The rows of a table. Raises CatalogError with file and line.

    >>> parse_rows("region,pue", REGIONS, name="x.csv")
    Traceback (most recent call last):
    ...
    gpuselect.errors.CatalogError: x.csv:1: the columns must be region, name, kind, carbon_g_kwh, ...
    """
    columns = [field.name for field in fields(layout.kind)]
    reader = csv_records(text, name=name)
    if list(reader.fieldnames or ()) != columns:
        raise CatalogError(
            _("{name}:1: the columns must be {columns}").format(name=name, columns=", ".join(columns))
        )
    rows = []
    for cells in reader:
        try:
            rows.append(_row(cells, layout))
        except ValueError as fault:
            raise CatalogError(f"{name}:{reader.line_num}: {fault}") from None
    return rows


def _row(cells: Mapping[str, Any], layout: Layout[Row]) -> Row:
    """One row as its type; raises ValueError with what is wrong."""
    if None in cells or None in cells.values():
        raise ValueError(_("the row has not {count} cells").format(count=len(fields(layout.kind))))
    if missing := [name for name in layout.required if not cells[name]]:
        raise ValueError(_("{name} is empty").format(name=missing[0]))
    for name, allowed in layout.words.items():
        if cells[name] not in allowed:
            words = ", ".join(word for word in allowed if word)
            raise ValueError(
                _("{key} {value!r} is none of {allowed}").format(key=name, value=cells[name], allowed=words)
            )
    values = {name: _number(name, cells[name], *limits) for name, limits in layout.bounds.items()}
    if "n_accel" in values:
        values["n_accel"] = int(values["n_accel"] or 0)
    return layout.kind(**{**cells, **values})


def _number(name: str, text: str, lowest: float, highest: float) -> float | None:
    """The number in a cell, None for an empty one."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not lowest <= value <= highest:
        raise ValueError(
            _("{name} {value!r} is not a number from {low:g} to {high:g}").format(
                name=name, value=text, low=lowest, high=highest
            )
        )
    return value
