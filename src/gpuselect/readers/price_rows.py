"""Rows of prices.csv: strict reading, and replacement by an overlay's rows."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from typing import Any

from gpuselect.catalog import Price
from gpuselect.errors import CatalogError
from gpuselect.i18n import _

PRICES = "prices.csv"
COLUMNS = tuple(Price.__dataclass_fields__)
PRICE_KEY = ("hardware", "n_accel", "provider", "instance", "region", "term", "kind")
KINDS = ("rent", "buy")
TERMS = (
    "on-demand", "spot", "reserved-1y", "reserved-3y", "list", "retail", "used", "server", "system",
)  # fmt: skip
Row = dict[str, Any]


def parse_prices(text: str, *, name: str) -> list[Row]:
    """Rows with numbers as numbers; each needs a source, a positive price, a known kind and term.

    Raises CatalogError with file and line.

    >>> parse_prices("hardware,price", name="x.csv")
    Traceback (most recent call last):
    ...
    gpuselect.errors.CatalogError: x.csv:1: the columns must be hardware, n_accel, kind, term, ...
    """
    reader = csv.DictReader(io.StringIO(text))
    if set(reader.fieldnames or ()) != set(COLUMNS):
        raise CatalogError(
            _("{name}:1: the columns must be {columns}").format(name=name, columns=", ".join(COLUMNS))
        )
    rows = []
    for row in reader:
        fault = _fault(row)
        if fault:
            raise CatalogError(f"{name}:{reader.line_num}: {fault}")
        fields: Row = {key: row[key] for key in COLUMNS}
        fields["n_accel"], fields["price"] = int(row["n_accel"]), float(row["price"])
        fields["is_offer"] = row["is_offer"] == "yes"
        rows.append(fields)
    return rows


def _fault(row: Mapping[str, Any]) -> str | None:
    """What is wrong with a row, in words; None if nothing."""
    if None in row or None in row.values():
        return _("the row has not {count} cells").format(count=len(COLUMNS))
    if not row["hardware"] or not row["source"]:
        return _("a price needs its hardware and its source")
    if not row["n_accel"].isdigit() or int(row["n_accel"]) < 1:
        return _("n_accel {value!r} is not a count of 1 or more").format(value=row["n_accel"])
    if not _is_positive(row["price"]):
        return _("price {value!r} is not a number above 0").format(value=row["price"])
    for key, allowed in (("kind", KINDS), ("term", TERMS), ("is_offer", ("yes", "no"))):
        if row[key] not in allowed:
            return _("{key} {value!r} is none of {allowed}").format(
                key=key, value=row[key], allowed=", ".join(allowed)
            )
    return None


def _is_positive(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and value > 0


def replace_prices(rows: Iterable[Row], over: Iterable[Row]) -> list[Row]:
    """`rows` without those that `over` has a new price for, then `over`.

    Same price: same hardware, count, provider, instance, region, term and kind.
    """
    new = list(over)
    replaced = {tuple(row[key] for key in PRICE_KEY) for row in new}
    return [r for r in rows if tuple(r[key] for key in PRICE_KEY) not in replaced] + new
