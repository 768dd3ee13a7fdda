"""`gpuselect list`: what the catalog holds."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from gpuselect.cli.flags import Arguments, Flag, chosen_format, common_flags
from gpuselect.cli.load import catalog_of
from gpuselect.cli.output import note, terminal_style, write_out
from gpuselect.errors import InputError
from gpuselect.i18n import _

FORMATS = ("table", "json", "markdown", "csv")
FILTERS = ("vendor", "family", "status")
Rows = list[dict[str, Any]]
DETAILS = """\
KIND is accelerators, models, frameworks, systems, formats, prices, regions, optimisations or rules.

\b
Examples:
  gpuselect list accelerators --vendor amd --family datacenter
  gpuselect list accelerators --counts
  gpuselect list prices --filter h100 --format csv
  gpuselect list regions --filter germany
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    return [
        Flag("kind", _("What to list."), "argument", metavar="KIND", required=True),
        Flag("vendor", _("Only this vendor (accelerators)."), metavar="NAME"),
        Flag("family", _("Only this family (accelerators, models)."), metavar="NAME"),
        Flag("status", _("Only this status: current, legacy, eol, announced, research."),
             metavar="NAME"),
        Flag("counts", _("How many of each vendor and family, not the entries (accelerators)."), "switch"),
        Flag("filter", _("Only entries whose id or name holds this text."), metavar="TEXT"),
        *common_flags(FORMATS),
    ]  # fmt: skip


def run(arguments: Arguments) -> int:
    """Print the entries of one kind; exit 1 when the filters leave none."""
    from gpuselect.cli.listings import rows_of

    form = chosen_format(arguments, FORMATS)
    kind = kind_named(arguments["kind"])
    if arguments.get("counts") and kind != "accelerators":
        raise InputError(_("--counts does not apply to {kind}").format(kind=kind))
    chosen = filtered(rows_of(kind, lambda: catalog_of(arguments)), arguments, kind)
    write_out(_rendered(kind, chosen, form, arguments))
    note("" if chosen else _("no entry matches these filters"), arguments)
    return 0 if chosen else 1


def kind_named(given: str) -> str:
    """The kind, singular or plural."""
    from gpuselect.cli.listings import COLUMNS

    kinds = [*COLUMNS]
    text = given.strip().lower()
    if text in kinds or f"{text}s" in kinds:
        return text if text in kinds else f"{text}s"
    message = _("nothing called {given!r} to list; allowed are {kinds}")
    if close := get_close_matches(text, kinds, n=1):
        message += _("; did you mean {name}?").format(name=close[0])
    raise InputError(message.format(given=given, kinds=_(", ").join(kinds)))


def filtered(rows: Rows, arguments: Arguments, kind: str) -> Rows:
    """The rows that pass every given filter."""
    for name in FILTERS:
        wanted = arguments.get(name)
        if not wanted:
            continue
        if rows and name not in rows[0]:
            text = _("--{name} does not apply to {kind}")
            raise InputError(text.format(name=name, kind=kind))
        known = sorted({str(row[name]) for row in rows})
        if rows and wanted.lower() not in (value.lower() for value in known):
            text = _("no {name} {wanted!r} in {kind}; there are {known}")
            raise InputError(text.format(name=name, wanted=wanted, kind=kind, known=_(", ").join(known)))
        rows = [row for row in rows if str(row[name]).lower() == wanted.lower()]
    part = (arguments.get("filter") or "").lower()
    return [row for row in rows if any(part in str(row.get(k) or "").lower() for k in _SEARCHED)]


_SEARCHED = ("id", "name", "hardware", "provider", "region", "code")


def _rendered(kind: str, rows: Rows, form: str, arguments: Arguments) -> str:
    from gpuselect.cli.listings import COLUMNS, FAMILIES, count_columns, count_rows
    from gpuselect.report import grid

    below = ""
    columns = COLUMNS[kind]()
    if arguments.get("counts"):
        kind, rows, columns = "counts", count_rows(rows), count_columns()
        below = _(", ").join(
            f"{heading} {family}" for family, heading in FAMILIES.items() if heading.lower() != family
        )
    if form == "json":
        return grid.as_json(kind, rows, command="list")
    if form == "csv":
        return grid.as_csv(columns, rows)
    if form == "markdown":
        return grid.as_markdown(columns, rows)
    from gpuselect.report.console import grid_text

    drops = [column.drop for column in columns]
    table = grid.as_grid(columns, rows)
    wrapped = grid.wrapped_columns(columns)
    return grid_text(table, drops, terminal_style(arguments), below=below, wrapped=wrapped)
