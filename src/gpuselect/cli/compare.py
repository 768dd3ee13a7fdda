"""`gpuselect compare`: accelerators side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuselect.cli.flags import (
    Arguments,
    Flag,
    chosen_format,
    common_flags,
    workload_flags,
    workload_mapping,
)
from gpuselect.cli.load import Inputs, accelerator_of, catalog_of, with_workload
from gpuselect.cli.output import terminal_style, write_out
from gpuselect.errors import InputError
from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.catalog import Accelerator
    from gpuselect.comparison import Cell, Comparison, Row
    from gpuselect.decision import FitAnswer

FORMATS = ("table", "json", "markdown", "csv")
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MARKS = {"derived": "*", "assumed": "?", "measured": "m"}
DETAILS = """\
With a workload, the smallest count that fits, its speed and its cost are added for each card.

\b
Examples:
  gpuselect compare a100 h100 mi300x
  gpuselect compare l40s h100 --task inference --model llama-3.1-8b --json
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    cards = Flag("cards", _("Two or more accelerators."), "arguments", metavar="CARD...",
                 required=True)  # fmt: skip
    return [cards, *workload_flags(), *common_flags(FORMATS)]


def run(arguments: Arguments) -> int:
    """Compare and print."""
    from gpuselect.comparison import compare_specs

    form = chosen_format(arguments, FORMATS)
    workload = _workload(arguments)
    inputs = with_workload(workload, arguments) if workload is not None else None
    catalog = inputs.catalog if inputs is not None else catalog_of(arguments)
    cards = [accelerator_of(name, catalog, arguments) for name in arguments["cards"]]
    comparison = compare_specs(cards, catalog)
    rows = list(comparison.rows)
    if inputs is not None:
        rows += workload_rows(cards, inputs)
    write_out(_rendered(comparison, rows, form, arguments))
    return 0


def _workload(arguments: Arguments) -> Any:
    from gpuselect.workload import Workload

    if len(arguments["cards"]) < 2:
        raise InputError(_("compare needs at least two accelerators, for example: a100 h100"))
    mapping = workload_mapping(arguments)
    return Workload.from_mapping(mapping) if mapping else None


def workload_rows(cards: Sequence[Accelerator], inputs: Inputs) -> list[Row]:
    """Smallest count that fits, speed and cost of the workload on each card."""
    from gpuselect.comparison import Cell, Row, with_ratios
    from gpuselect.report.describe import headline_key, metric_label, metric_unit

    found = [_smallest(card, inputs) for card in cards]
    options = [answer.option if answer is not None else None for answer in found]
    keys = [headline_key(option) for option in options if option is not None]
    key = keys[0] if keys else None
    rows = [Row("min_count", _("Smallest count that fits"), "",
                with_ratios([Cell(float(o.count) if o else None) for o in options]))]  # fmt: skip
    if key is not None:
        speeds = [
            Cell(o.performance[key].value if o is not None and key in o.performance else None)
            for o in options
        ]
        rows.append(Row(key, metric_label(key), metric_unit(key), with_ratios(speeds)))
    for name, label, unit in (
        ("per_hour_usd", _("Cost per hour"), "USD"),
        ("per_run_usd", _("Cost of the run"), "USD"),
        ("per_million_tokens_usd", _("Cost per million tokens"), "USD"),
    ):
        costs = [Cell(getattr(o.cost, name) if o is not None else None) for o in options]
        if any(cell.value is not None for cell in costs):
            rows.append(Row(name, label, unit, with_ratios(costs)))
    for name, label, unit in (
        ("kwh", _("Energy of the run or of a month"), "kWh"),
        ("kwh_per_million_tokens", _("Energy per million tokens"), "kWh"),
        ("kgco2e", _("Carbon of the run or of a month"), "kg CO2e"),
    ):
        amounts = [Cell(getattr(o.energy, name) if o is not None else None) for o in options]
        if any(cell.value is not None for cell in amounts):
            rows.append(Row(name, label, unit, with_ratios(amounts)))
    return rows


def _smallest(card: Accelerator, inputs: Inputs) -> FitAnswer | None:
    from gpuselect.advisor import estimate
    from gpuselect.report.json import fits_usable

    limit = inputs.workload.max_count or COUNTS[-1]
    for count in COUNTS:
        if count > limit:
            break
        answer = estimate(
            inputs.workload, [(count, card.id)], inputs.catalog, inputs.calibration,
            inputs.defaults,
        )  # fmt: skip
        if fits_usable(answer):
            return answer
    return None


def _rendered(comparison: Comparison, rows: Sequence[Row], form: str, arguments: Arguments) -> str:
    if form == "json":
        return _as_json(comparison, rows)
    from gpuselect.report import grid

    if form == "csv":
        columns = [grid.Column(key, key) for key in ("key", "unit", *comparison.accelerators)]
        return grid.as_csv(columns, [_values(comparison, row) for row in rows])
    columns = [
        grid.Column("label", _("Figure")),
        *(
            grid.Column(card, name)
            for card, name in zip(comparison.accelerators, comparison.names, strict=True)
        ),
    ]
    texts = [_texts(comparison, row) for row in rows]
    if form == "markdown":
        return grid.as_markdown(columns, texts)
    from gpuselect.report.console import grid_text

    legend = _("In brackets: ratio to the first. * derived, m measured, ? assumed.")
    drops = [0, 0, *range(1, len(comparison.names))]
    wrapped = {0: 22, **dict.fromkeys(range(1, len(columns)), 14)}
    return grid_text(
        grid.as_grid(columns, texts), drops, terminal_style(arguments), below=legend, wrapped=wrapped
    )


def _values(comparison: Comparison, row: Row) -> dict[str, Any]:
    cells = zip(comparison.accelerators, row.cells, strict=True)
    return {"key": row.key, "unit": row.unit, **{card: cell.value for card, cell in cells}}


def _texts(comparison: Comparison, row: Row) -> dict[str, str]:
    label = f"{row.label} [{row.unit}]" if row.unit else row.label
    cells = zip(comparison.accelerators, row.cells, strict=True)
    priced = row.key in ("rent_usd_per_hour", "spot_usd_per_hour", "purchase_usd")
    return {"label": label, **{card: _cell_text(cell, priced=priced) for card, cell in cells}}


def _cell_text(cell: Cell, *, priced: bool) -> str:
    from gpuselect.report.format import significant
    from gpuselect.report.grid import cell as plain_cell

    text = plain_cell(cell.value) + MARKS.get(cell.status, "")
    ratio = "1" if cell.ratio is None else significant(cell.ratio, 2)
    text += "" if ratio == "1" else f" ({ratio}x)"
    return f"{text} {cell.source}" if priced and cell.value is not None else text


def _as_json(comparison: Comparison, rows: Sequence[Row]) -> str:
    from gpuselect.report.plain import to_text

    payload = {
        "schema_version": 1,
        "command": "compare",
        "accelerators": comparison.accelerators,
        "rows": [
            {
                "key": row.key,
                "label": row.label,
                "unit": row.unit or None,
                "values": [
                    {"value": c.value, "ratio": c.ratio, "status": c.status or None,
                     "source": c.source or None}
                    for c in row.cells
                ],
            }
            for row in rows
        ],
    }  # fmt: skip
    return to_text(payload)
