"""Rows of prices.csv: strict reading, and replacement by an overlay's rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from gpuselect.catalog import Price
from gpuselect.errors import CatalogError
from gpuselect.i18n import _
from gpuselect.readers.limits import csv_records

PRICES = "prices.csv"
QUOTATIONS = "prices.yaml"  # in overlays only
NEEDED = ("hardware", "kind", "price", "as_of", "source")
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
    reader = csv_records(text, name=name)
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


def parse_quotations(raw: Any, *, name: str, accelerators: Iterable[str]) -> list[Row]:
    """Prices that a person wrote in YAML: a list of quotations with only what differs from the usual.

    hardware, kind, price, as_of and source are needed; the rest has a usual value (one accelerator, on
    demand or list, an offer, USD). Raises CatalogError with the number of the entry.

    >>> quote = {"hardware": "x", "kind": "buy", "price": 9000, "as_of": "2026-11-01", "source": "letter"}
    >>> parse_quotations([quote], name="prices.yaml", accelerators=["x"])[0]["term"]
    'list'
    """
    if not isinstance(raw, list) or not all(isinstance(entry, Mapping) for entry in raw):
        raise CatalogError(_("{name}: expected a list of quotations").format(name=name))
    rows = []
    for number, entry in enumerate(raw, 1):
        where = _("{name}: quotation {number}").format(name=name, number=number)
        rows.append(_quotation(entry, where, accelerators))
    return rows


def _quotation(entry: Mapping[str, Any], where: str, accelerators: Iterable[str]) -> Row:
    """One quotation as a row, checked as a row of prices.csv is."""
    for key in entry:
        if key not in COLUMNS:
            raise CatalogError(f"{where}: " + _("unknown key {key}").format(key=key) + _near(key, COLUMNS))
    if missing := [key for key in NEEDED if entry.get(key) in (None, "")]:
        raise CatalogError(f"{where}: " + _("{key} is missing").format(key=missing[0]))
    if entry["hardware"] not in accelerators:
        text = _("unknown accelerator {name}").format(name=entry["hardware"])
        raise CatalogError(f"{where}: {text}" + _near(str(entry["hardware"]), accelerators))
    usual = {
        "n_accel": 1, "term": "list" if entry["kind"] == "buy" else "on-demand", "provider": "",
        "instance": "", "region": "", "currency": "USD", "is_offer": True, "note": "quotation",
    }  # fmt: skip
    row: Row = {key: {**usual, **entry}[key] for key in COLUMNS}
    texts = {key: str(value) for key, value in row.items()} | {"is_offer": "yes" if row["is_offer"] else "no"}
    fault = _fault(texts)
    if fault is None and row["currency"] != "USD":
        fault = _("prices are in USD: convert {currency} first").format(currency=row["currency"])
    if fault is None and re.fullmatch(r"\d{4}(-\d\d){0,2}", texts["as_of"]) is None:
        fault = _("as_of {value!r} is no date: write 2026-11-30").format(value=texts["as_of"])
    if fault:
        raise CatalogError(f"{where}: {fault}")
    return {**texts, "n_accel": int(row["n_accel"]), "price": float(row["price"]),
            "is_offer": bool(row["is_offer"])}  # fmt: skip


def _near(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return _("; did you mean {name}?").format(name=close[0]) if close else ""


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
