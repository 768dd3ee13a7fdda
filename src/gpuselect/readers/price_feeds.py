"""Live prices: what the public feeds say, as rows of prices.csv. Nothing is fetched here.

A feed names its instances; the shipped catalog knows which accelerators an instance holds. An instance that
it does not know is skipped and counted, never guessed: feeds do not tell SXM from PCIe.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuselect.catalog import Price
from gpuselect.errors import GpuselectError
from gpuselect.i18n import _
from gpuselect.readers.price_rows import Row

SKYPILOT = "skypilot-catalog"
GPUHUNT = "gpuhunt"
SKYPILOT_COLUMNS = ("InstanceType", "AcceleratorCount", "Price", "SpotPrice", "Region")
# name of the provider in the catalog -> folder of the feed
SKYPILOT_FOLDERS: Mapping[str, str] = {
    "aws": "aws", "gcp": "gcp", "hyperstack": "hyperstack", "lambda": "lambda", "nebius": "nebius",
    "oci": "oci", "runpod": "runpod", "vast": "vast", "verda": "verda",
}  # fmt: skip
GPUHUNT_PROVIDERS: Mapping[str, str] = {
    "aws": "aws", "azure": "azure", "gcp": "gcp", "lambda": "lambdalabs", "nebius": "nebius",
    "oci": "oci", "runpod": "runpod", "verda": "verda", "crusoe": "crusoe", "vast": "vastai",
    "vultr": "vultr",
}  # fmt: skip
JUMP = 3.0  # a price that moved more than this factor against the known one needs a person's consent


class FeedError(GpuselectError):
    """A feed cannot be used: unreachable, cut short, or not what it should be."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Ask:
    """One price of a feed, before it is known which accelerators it is for."""

    instance: str
    count: int
    region: str
    spot: bool
    price: float


@dataclass(frozen=True, slots=True)
class Refreshed:
    """Rows of one provider, and what was left out."""

    provider: str
    rows: tuple[Row, ...]
    unknown: int = 0  # instances that the catalog does not know
    jumps: tuple[str, ...] = field(default=())  # prices that moved too far to be believed


def skypilot_asks(text: str, *, provider: str) -> list[Ask]:
    """On-demand and spot prices of a `vms.csv`; AWS spot prices of zones are kept each.

    Raises FeedError where the text is not such a table: an error page, a cut row, a price that is none.
    """
    reader = csv.DictReader(io.StringIO(text))
    if missing := [name for name in SKYPILOT_COLUMNS if name not in (reader.fieldnames or ())]:
        raise FeedError(_("{name}: the feed has no column {columns}").format(
            name=provider, columns=", ".join(missing)))  # fmt: skip
    asks = []
    for row in reader:
        if None in row or None in row.values():
            raise FeedError(_("{name}: line {line} of the feed is cut or too long").format(
                name=provider, line=reader.line_num))  # fmt: skip
        count = _price(row["AcceleratorCount"] or "0", provider, reader.line_num)
        if not count or count != int(count):
            continue  # no accelerator, or a slice of one
        for column, spot in (("Price", False), ("SpotPrice", True)):
            price = _price(row[column] or "0", provider, reader.line_num)
            if price > 0:
                asks.append(Ask(row["InstanceType"], int(count), row["Region"], spot, price))
    return asks


def _price(text: str, provider: str, line: int) -> float:
    """A number of the feed; 0 stands for none there."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0.0 <= value < 1e5:
        raise FeedError(_("{name}: line {line} of the feed: {text!r} is no price").format(
            name=provider, line=line, text=text))  # fmt: skip
    return value


def gpuhunt_asks(items: Iterable[Any]) -> list[Ask]:
    """Prices of the catalog items that `gpuhunt.query` gives."""
    return [
        Ask(item.instance_name, int(item.gpu_count), item.location, bool(item.spot), float(item.price))
        for item in items
        if item.gpu_count and item.price and 0.0 < float(item.price) < 1e5
    ]


def as_rows(
    asks: Sequence[Ask], known: Sequence[Price], *, provider: str, feed: str, today: str,
    accept_jumps: bool = False,
) -> Refreshed:  # fmt: skip
    """The prices of instances that the catalog knows, as rows of prices.csv.

    Where several zones of a region ask, the median counts. A price that moved more than threefold against
    the known one of its region is left out and named, unless jumps are accepted.
    """
    mine = [p for p in known if p.provider == provider and p.kind == "rent"]
    holds = {p.instance: (p.hardware, p.n_accel) for p in mine}
    before = {(p.instance, p.region, p.term): p.price for p in mine}
    grouped: dict[tuple[str, str, str, int], list[float]] = {}
    unknown = set()
    for ask in asks:
        if holds.get(ask.instance, ("", 0))[1] != ask.count:
            unknown.add(ask.instance)
            continue
        term = "spot" if ask.spot else "on-demand"
        grouped.setdefault((ask.instance, ask.region, term, ask.count), []).append(ask.price)
    rows, jumps = [], []
    for (instance, region, term, count), prices in sorted(grouped.items()):
        price = sorted(prices)[len(prices) // 2]
        old = before.get((instance, region, term))
        if old is not None and not accept_jumps and not old / JUMP <= price <= old * JUMP:
            jumps.append(f"{instance} {region} {term}: {old:g} -> {price:g}")
            continue
        rows.append(_row(holds[instance][0], count, provider, instance, region, term, price, feed, today))
    return Refreshed(provider, tuple(rows), len(unknown), tuple(jumps))


def _row(
    hardware: str, count: int, provider: str, instance: str, region: str, term: str, price: float,
    feed: str, today: str,
) -> Row:  # fmt: skip
    return {
        "hardware": hardware, "n_accel": count, "kind": "rent", "term": term, "provider": provider,
        "instance": instance, "region": region, "price": price, "currency": "USD", "as_of": today,
        "is_offer": True, "source": f"{feed}:{provider}", "note": "refreshed",
    }  # fmt: skip
