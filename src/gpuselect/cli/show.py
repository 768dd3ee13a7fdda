"""`gpuselect show`: one entry of the catalog with the source of each figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuselect.cli.flags import Arguments, Flag, chosen_format, common_flags
from gpuselect.cli.load import catalog_of
from gpuselect.cli.output import note, terminal_style, write_out
from gpuselect.errors import InputError
from gpuselect.i18n import N_, _, labelled

if TYPE_CHECKING:
    from gpuselect.catalog import Catalog, Entry
    from gpuselect.report.blocks import Block
    from gpuselect.report.console import Page

STATES = (N_("stated"), N_("measured"), N_("derived"), N_("assumed"))  # of a figure
FORMATS = ("table", "json", "markdown", "csv")
KINDS = ("accelerator", "model", "framework", "system", "format")
DETAILS = """\
Looks among accelerators, models, frameworks, systems and weight formats; --kind names one of them.

\b
Examples:
  gpuselect show h100
  gpuselect show llama-3.1-8b --json
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    return [
        Flag("name", _("Id or name of the entry."), "argument", metavar="NAME", required=True),
        Flag("kind", _("accelerator, model, framework, system or format."), metavar="KIND"),
        *common_flags(FORMATS),
    ]


def run(arguments: Arguments) -> int:
    """Print the entry."""
    form = chosen_format(arguments, FORMATS)
    catalog = catalog_of(arguments)
    kind, entry = found_entry(arguments["name"], arguments.get("kind"), catalog, arguments)
    figures = figure_rows(entry, catalog)
    facts = plain_facts(entry)
    extra = _tables(entry.id, catalog) if kind == "accelerator" else {}
    if form == "json":
        from gpuselect.report.plain import to_text

        head = {"schema_version": 1, "command": "show", "kind": kind}
        write_out(to_text({**head, **facts, "figures": figures, **extra}))
        return 0
    write_out(_rendered(facts, figures, extra, form, arguments))
    return 0


def _tables(card: str, catalog: Catalog) -> dict[str, list[dict[str, Any]]]:
    """What the flat tables say about an accelerator."""
    from gpuselect.cli.card_tables import power_summary, price_changes

    return {
        "measured_power": power_summary(row for row in catalog.power if row.hardware == card),
        "price_history": price_changes(row for row in catalog.price_history if row.hardware == card),
    }


def found_entry(name: str, kind: str | None, catalog: Catalog, arguments: Arguments) -> tuple[str, Entry]:
    """The entry of that name: an exact id anywhere first, then loose names, kind by kind."""
    if kind is not None and kind.rstrip("s") not in KINDS:
        text = _("unknown kind {kind!r}; allowed are {kinds}")
        raise InputError(text.format(kind=kind, kinds=_(", ").join(KINDS)))
    kinds = KINDS if kind is None else (kind.rstrip("s"),)
    for each in kinds:
        if entry := _entries(catalog)[each].get(name.strip().lower()):
            return each, entry
    failures: list[str] = []
    for each in kinds:
        try:
            entry, sentence = _resolve(each, name, catalog)
        except InputError as error:
            failures.append(str(error))
        else:
            note(sentence or "", arguments)
            return each, entry
    raise InputError(failures[0])


def _entries(catalog: Catalog) -> Mapping[str, Mapping[str, Entry]]:
    return {
        "accelerator": catalog.accelerators,
        "model": catalog.models,
        "framework": catalog.frameworks,
        "system": catalog.systems,
        "format": catalog.formats,
    }


def _resolve(kind: str, name: str, catalog: Catalog) -> tuple[Entry, str | None]:
    from gpuselect import names

    if kind == "accelerator":
        return names.resolve_accelerator(name, catalog)
    if kind == "model":
        return names.resolve_model(name, catalog), None
    if kind == "framework":
        return names.resolve_framework(name, catalog), None
    if kind == "format":
        return names.resolve_format(name, catalog), None
    raise InputError(_("no system is called {name!r}").format(name=name))


def plain_facts(entry: Entry) -> dict[str, Any]:
    """Id, name and what else has no source of its own."""
    from gpuselect.report.given import is_given

    sourced = {path.split(".")[0] for path, _figure in entry.figures()} | {"sources"}
    return {
        key: value
        for key in type(entry).model_fields
        if key not in sourced and is_given(value := getattr(entry, key))
    }


def figure_rows(entry: Entry, catalog: Catalog) -> list[dict[str, Any]]:
    """Each figure with its value, range, status and where it was read."""
    from gpuselect.provenance import Fact

    rows = []
    for path, figure in entry.figures():
        key, place = entry.cite(figure)
        source = catalog.sources.get(key)
        rows.append(
            {
                "key": path,
                "value": str(figure) if isinstance(figure, Fact) else float(figure),
                "low": getattr(figure, "low", None),
                "high": getattr(figure, "high", None),
                "status": figure.status,
                "note": figure.note,
                "source": source.title if source is not None else key,
                "place": place,
                "address": source.address if source is not None else None,
            }
        )
    return rows


def _rendered(
    facts: Mapping[str, Any],
    figures: list[dict[str, Any]],
    extra: Mapping[str, list[dict[str, Any]]],
    form: str,
    arguments: Arguments,
) -> str:
    from gpuselect.report import grid

    columns = (
        grid.Column("key", _("Figure")), grid.Column("value", _("Value"), wrapped=True),
        grid.Column("status", _("Status")), grid.Column("source", _("Source"), wrapped=True),
        grid.Column("place", _("Place"), 2, wrapped=True), grid.Column("note", _("Note"), 3, wrapped=True),
    )  # fmt: skip
    if form == "csv":
        more = tuple(grid.Column(key, key) for key in ("low", "high", "address"))
        return grid.as_csv((*columns, *more), figures)
    heads = [labelled(key.replace("_", " "), grid.cell(value)) for key, value in facts.items()]
    table = grid.as_grid(columns, [{**row, "status": _(row["status"])} for row in figures])
    if form == "markdown":
        from gpuselect.report.blocks import Bullets, Heading
        from gpuselect.report.markdown import blocks_to_markdown

        return blocks_to_markdown(
            [Heading(str(facts["name"]), 1), Bullets(tuple(heads)), table, *_blocks(extra)]
        )
    from gpuselect.report.console import Page

    page = Page(terminal_style(arguments))
    for line in heads:
        page.line(line)
    page.heading(_("Figures"))
    page.grid(table, [column.drop for column in columns], grid.wrapped_columns(columns))
    _add_tables(page, extra)
    return page.text()


def _add_tables(page: Page, extra: Mapping[str, list[dict[str, Any]]]) -> None:
    """Measured power and prices over time, below the figures."""
    from gpuselect.cli import card_tables
    from gpuselect.report import grid

    if extra.get("measured_power"):
        rows, more = card_tables.cut(extra["measured_power"])
        columns, rows = card_tables.power_columns(), card_tables.in_words(rows)
        page.heading(_("Measured power"))
        page.grid(
            grid.as_grid(columns, rows), [column.drop for column in columns], grid.wrapped_columns(columns)
        )
        if more:
            page.line(more, style="dim")
    if extra.get("price_history"):
        rows, more = card_tables.cut(extra["price_history"])
        page.heading(_("Prices over time (on demand, whole instance)"))
        for row in rows:
            page.bullet(card_tables.price_line(row))
        if more:
            page.line(more, style="dim")


def _blocks(extra: Mapping[str, list[dict[str, Any]]]) -> list[Block]:
    """The same as blocks of a document, with every row."""
    from gpuselect.cli import card_tables
    from gpuselect.report import grid
    from gpuselect.report.blocks import Bullets, Heading

    blocks: list[Block] = []
    if rows := extra.get("measured_power"):
        table = grid.as_grid(card_tables.power_columns(), card_tables.in_words(rows))
        blocks += [Heading(_("Measured power"), 2), table]
    if rows := extra.get("price_history"):
        lines = tuple(card_tables.price_line(row) for row in rows)
        blocks += [Heading(_("Prices over time (on demand, whole instance)"), 2), Bullets(lines)]
    return blocks
