"""Fetch live prices and keep them in the user's overlay folder. Only `gpuselect prices refresh` calls this.

Whatever fails (no network, an error page, a cut answer, a provider that is gone) leaves the rows of that
provider as they were.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from gpuselect.catalog import Price
from gpuselect.errors import CatalogError
from gpuselect.i18n import _
from gpuselect.readers.price_feeds import (
    GPUHUNT,
    GPUHUNT_PROVIDERS,
    SKYPILOT,
    SKYPILOT_FOLDERS,
    Ask,
    FeedError,
    Refreshed,
    as_rows,
    gpuhunt_asks,
    skypilot_asks,
)
from gpuselect.readers.price_rows import COLUMNS, PRICE_KEY, PRICES, Row, parse_prices

SKYPILOT_BASE = "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v8"
LARGEST = 64 * 2**20  # bytes of one answer
CHUNK = 2**16
FEEDS = (SKYPILOT, GPUHUNT)


def fetch(url: str, *, seconds: float = 30.0, opener: Callable[..., object] = urlopen) -> str:
    """The text at an address within a time; raises FeedError with what went wrong.

    The whole answer is bounded in time and size, and a cut one is refused.
    """
    end = time.monotonic() + seconds
    try:
        request = Request(url, headers={"User-Agent": "gpuselect"})  # noqa: S310  https, or a test's own server
        with opener(request, timeout=seconds) as answer:  # type: ignore[attr-defined]
            promised = answer.headers.get("Content-Length")
            content = bytearray()
            while part := answer.read1(CHUNK):
                content += part
                if len(content) > LARGEST:
                    raise FeedError(_("{url}: the answer is too large").format(url=url))
                if time.monotonic() > end:
                    raise FeedError(_("{url}: no whole answer in {s:g} s").format(url=url, s=seconds))
        if promised is not None and len(content) != int(promised):
            raise FeedError(_("{url}: the answer is cut short").format(url=url))
        return content.decode("utf-8")
    except HTTPError as error:
        error.close()
        raise FeedError(f"{url}: {error.code} {error.reason}") from None
    except TimeoutError:
        raise FeedError(_("{url}: no whole answer in {s:g} s").format(url=url, s=seconds)) from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise FeedError(_("{url}: {reason}").format(url=url, reason=reason)) from None


def providers_of(feed: str) -> tuple[str, ...]:
    """Providers that a feed knows, by their names in the catalog."""
    return tuple(SKYPILOT_FOLDERS if feed == SKYPILOT else GPUHUNT_PROVIDERS)


def read_feed(feed: str, provider: str, *, base: str = SKYPILOT_BASE, seconds: float = 30.0) -> list[Ask]:
    """What a provider asks now, by one feed."""
    if feed == SKYPILOT:
        folder = SKYPILOT_FOLDERS[provider]
        return skypilot_asks(fetch(f"{base}/{folder}/vms.csv", seconds=seconds), provider=provider)
    return gpuhunt_asks(_gpuhunt_items(GPUHUNT_PROVIDERS[provider]))


def _gpuhunt_items(provider: str) -> Iterable[object]:
    """Catalog items of the gpuhunt package, where it is installed."""
    try:
        import gpuhunt  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        text = _("the feed gpuhunt needs its package: pip install 'gpuselect-advisor[prices]'")
        raise FeedError(text) from None
    try:
        return gpuhunt.query(provider=provider)  # type: ignore[no-any-return,unused-ignore]
    except Exception as error:  # noqa: BLE001  whatever a provider's client raises leaves the old prices
        raise FeedError(f"gpuhunt: {provider}: {error}") from None


def refresh(
    folder: Path, known: Sequence[Price], *, feed: str, providers: Sequence[str], today: str,
    accept_jumps: bool = False, read: Callable[[str, str], list[Ask]] = read_feed,
) -> list[Refreshed | FeedError]:  # fmt: skip
    """Refresh the rows of each provider in the overlay folder; one that fails keeps its last rows.

    The file is written once, whole, and only where some provider answered.
    """
    results: list[Refreshed | FeedError] = []
    for provider in providers:
        try:
            asks = read(feed, provider)
        except FeedError as fault:
            results.append(fault)
            continue
        found = as_rows(asks, known, provider=provider, feed=feed, today=today, accept_jumps=accept_jumps)
        text = _("{name}: the feed has no believable price of an instance that the catalog knows")
        results.append(found if found.rows else FeedError(text.format(name=provider)))
    fresh = [found for found in results if isinstance(found, Refreshed)]
    if fresh:
        write_rows(folder / PRICES, merged(read_rows(folder / PRICES), fresh))
    return results


def read_rows(path: Path) -> list[Row]:
    """Rows of the overlay's price file, none where there is no file."""
    try:
        return parse_prices(path.read_text(encoding="utf-8"), name=str(path))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(_("cannot read {path}: {reason}").format(path=path, reason=error)) from None


def merged(old: Sequence[Row], fresh: Sequence[Refreshed]) -> list[Row]:
    """Old rows with those of the refreshed providers replaced; a row of the user's own always stays."""
    names = {found.provider for found in fresh}
    kept = [row for row in old if not (is_refreshed(row) and row["provider"] in names)]
    own = {_key(row) for row in kept if not is_refreshed(row)}
    return kept + [row for found in fresh for row in found.rows if _key(row) not in own]


def is_refreshed(row: Row) -> bool:
    """True for a row that a refresh wrote, false for one that a person wrote."""
    return str(row["source"]).split(":", 1)[0] in FEEDS


def _key(row: Row) -> tuple[object, ...]:
    return tuple(row[key] for key in PRICE_KEY)


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a price file so that it is there whole or not at all; raises CatalogError when it cannot."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({**row, "is_offer": "yes" if row["is_offer"] else "no"})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise CatalogError(_("cannot write {path}: {reason}").format(path=path, reason=error)) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise CatalogError(_("cannot write {path}: {reason}").format(path=path, reason=error)) from None
