"""`gpuselect prices`: how old the prices are, and live ones when asked."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuselect.cli.flags import Arguments, Flag, chosen_format, common_flags
from gpuselect.cli.load import catalog_of
from gpuselect.cli.output import note, terminal_style, write_out
from gpuselect.errors import InputError
from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.catalog import Price
    from gpuselect.readers.price_feeds import FeedError, Refreshed

ACTIONS = ("age", "refresh")
FORMATS = ("table", "json")
DETAILS = """\
ACTION is age (how old the prices of each provider are) or refresh (fetch live ones into your own folder).

\b
Examples:
  gpuselect prices age
  gpuselect prices refresh
  gpuselect prices refresh --provider aws --provider nebius
  gpuselect prices refresh --feed gpuhunt

Nothing else in gpuselect uses the network. A provider that does not answer keeps its last prices. A price of
your own (source not of a feed) always stays. Exit codes: 0 done, 1 nothing could be refreshed, 2 usage.
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    return [
        Flag("action", _("age or refresh."), "argument", metavar="ACTION", required=True),
        Flag("provider", _("Only this provider; can be given again."), "list", metavar="NAME"),
        Flag("feed", _("skypilot-catalog (the default) or gpuhunt (extra [prices])."), metavar="NAME"),
        Flag("accept_jumps", _("Take prices that moved more than threefold as well."), "switch"),
        Flag("timeout", _("Seconds to wait for a provider: 30."), metavar="SECONDS"),
        *common_flags(FORMATS),
    ]


def run(arguments: Arguments) -> int:
    """Do what was asked; exit 1 when no provider could be refreshed."""
    form = chosen_format(arguments, FORMATS)
    action = _chosen(arguments["action"], ACTIONS, _("action"))
    return _age(arguments, form) if action == "age" else _refresh(arguments, form)


def _chosen(given: str, allowed: Sequence[str], what: str) -> str:
    """One of the allowed words, with the nearest one in the message."""
    text = given.strip().lower()
    if text in allowed:
        return text
    message = _("no {what} {given!r}; allowed are {names}").format(
        what=what, given=given, names=_(", ").join(allowed)
    )
    if close := get_close_matches(text, allowed, n=1):
        message += _("; did you mean {name}?").format(name=close[0])
    raise InputError(message)


def own_folder() -> Path:
    """The folder whose figures are always laid over the shipped ones."""
    from gpuselect.cli.config import user_folder

    return user_folder() / "catalog"


def _age(arguments: Arguments, form: str) -> int:
    from gpuselect.advisor import current_date

    rows = age_rows(catalog_of(arguments).prices, today=current_date())
    wanted = [name.lower() for name in arguments.get("provider") or ()]
    rows = [row for row in rows if not wanted or row["provider"] in wanted]
    if form == "json":
        from gpuselect.report.plain import to_text

        write_out(to_text({"schema_version": 1, "command": "prices", "action": "age", "providers": rows}))
        return 0 if rows else 1
    from gpuselect.report import grid
    from gpuselect.report.console import grid_text

    columns = [
        grid.Column("provider", _("Provider")), grid.Column("rows", _("Prices")),
        grid.Column("newest", _("Newest")), grid.Column("age_months", _("Months")),
        grid.Column("undated", _("Undated")), grid.Column("stale", _("Older than 6 months")),
    ]  # fmt: skip
    below = _("`gpuselect prices refresh` fetches live prices into {folder}.").format(folder=own_folder())
    write_out(grid_text(grid.as_grid(columns, rows), [0] * 6, terminal_style(arguments), below=below))
    return 0 if rows else 1


def age_rows(prices: Sequence[Price], *, today: str) -> list[dict[str, Any]]:
    """For each provider: rows, newest date and its age, undated rows, stale rows."""
    from gpuselect.tco.prices import STALE_MONTHS, price_age_months

    found = []
    for provider in sorted({row.provider for row in prices}):
        mine = [row for row in prices if row.provider == provider]
        ages = [price_age_months(as_of=row.as_of, today=today) for row in mine]
        newest = max(row.as_of for row in mine)
        youngest = price_age_months(as_of=newest, today=today)
        found.append(
            {
                "provider": provider or None, "rows": len(mine), "newest": newest or None,
                "age_months": None if youngest is None else round(youngest, 1),
                "undated": sum(age is None for age in ages),
                "stale": sum(age is not None and age > STALE_MONTHS for age in ages),
            }
        )  # fmt: skip
    return found


def _refresh(arguments: Arguments, form: str) -> int:
    from gpuselect.advisor import current_date
    from gpuselect.readers.catalog import load_catalog
    from gpuselect.readers.price_feeds import Refreshed
    from gpuselect.readers.price_refresh import FEEDS, providers_of, read_feed, refresh

    feed = _chosen(arguments.get("feed") or FEEDS[0], FEEDS, _("feed"))
    asked = arguments.get("provider") or ()
    names = [_chosen(name, providers_of(feed), _("provider of this feed")) for name in asked]
    seconds = _seconds(arguments.get("timeout"))
    folder = own_folder()
    results = refresh(
        folder, load_catalog().prices, feed=feed, providers=names or providers_of(feed),
        today=current_date(), accept_jumps=bool(arguments.get("accept_jumps")),
        read=lambda which, provider: read_feed(which, provider, seconds=seconds),
    )  # fmt: skip
    done = [result for result in results if isinstance(result, Refreshed)]
    if form == "json":
        _write_json(results, folder)
    else:
        _write_lines(results, folder, arguments)
    return 0 if done else 1


def _seconds(given: str | None) -> float:
    from gpuselect.quantities import parse_duration

    seconds = parse_duration(given) if given else 30.0
    if not 0 < seconds <= 600:
        raise InputError(_("--timeout: {given} is not between 0 and 600 s").format(given=given))
    return seconds


def _write_lines(results: Sequence[Refreshed | FeedError], folder: Path, arguments: Arguments) -> None:
    from gpuselect.readers.price_feeds import Refreshed

    for result in results:
        if not isinstance(result, Refreshed):
            note(_("kept the last prices: {fault}").format(fault=result), arguments)
            continue
        text = _("{name}: {n} prices; {unknown} instances that the catalog does not know")
        write_out(text.format(name=result.provider, n=len(result.rows), unknown=result.unknown) + "\n")
        for jump in result.jumps:
            note(_("not believed, --accept-jumps takes it: {jump}").format(jump=jump), arguments)
    if any(isinstance(result, Refreshed) for result in results):
        write_out(_("written to {folder}").format(folder=folder) + "\n")
    else:
        write_out(_("nothing was refreshed; the last prices stay") + "\n")


def _write_json(results: Sequence[Refreshed | FeedError], folder: Path) -> None:
    from gpuselect.readers.price_feeds import Refreshed
    from gpuselect.report.plain import to_text

    done = [r for r in results if isinstance(r, Refreshed)]
    payload = {
        "schema_version": 1, "command": "prices", "action": "refresh", "folder": str(folder),
        "refreshed": [
            {"provider": r.provider, "rows": len(r.rows), "unknown_instances": r.unknown,
             "jumps": list(r.jumps)}
            for r in done
        ],
        "kept": [str(r) for r in results if not isinstance(r, Refreshed)],
    }  # fmt: skip
    write_out(to_text(payload))
