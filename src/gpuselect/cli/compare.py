"""`gpuselect compare`: accelerators, systems, whole options or frameworks side by side."""

from __future__ import annotations

import re
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
    from gpuselect.catalog import Accelerator, Catalog, Framework
    from gpuselect.comparison import Cell, Comparison, Row
    from gpuselect.decision import Decision, FitAnswer

FORMATS = ("table", "json", "markdown", "csv")
GROUP = re.compile(r"\s*\d+\s*[x*×卡].*", re.IGNORECASE)
MARKS = {"derived": "*", "assumed": "?", "measured": "m"}
DETAILS = """\
Without a workload the specifications. With one, what it needs, its speed, cost and energy: on the count that
is named (8xh100), else on the smallest that fits. Systems and frameworks are compared when every name is
one; frameworks with a workload by the best option under each, or the gate that it fails.

\b
Examples:
  gpuselect compare a100 h100 mi300x
  gpuselect compare l40s h100 --task inference --model llama-3.1-8b --json
  gpuselect compare 8xh100 4xmi300x --task inference --model llama-3.1-70b --csv
  gpuselect compare hgx-8-h100 nvl72-gb200
  gpuselect compare pytorch jax tensorflow --task training --model resnet-50
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    names = Flag("cards", _("Two or more accelerators, groups (8xh100), systems or frameworks."), "arguments",
                 metavar="NAME...", required=True)  # fmt: skip
    csv = Flag("csv", _("Write CSV: the same as --format csv."), "switch")
    return [names, *workload_flags(), csv, *common_flags(FORMATS)]


def run(arguments: Arguments) -> int:
    """Compare and print."""
    from gpuselect.names import resolve_frameworks

    form = _format(arguments)
    workload = _workload(arguments)
    inputs = with_workload(workload, arguments) if workload is not None else None
    catalog = inputs.catalog if inputs is not None else catalog_of(arguments)
    names = arguments["cards"]
    if frameworks := resolve_frameworks(names, catalog):
        write_out(_compared(frameworks, catalog, inputs, form, arguments))
        return 0
    if all(name.lower() in catalog.systems for name in names):
        write_out(_systems(names, catalog, inputs, form, arguments))
        return 0
    groups = [_group(name, catalog, arguments) for name in names]
    comparison = _specs(groups, catalog)
    rows = list(comparison.rows)
    if inputs is not None:
        rows += _workload_rows(groups, inputs)
    write_out(_rendered(comparison, rows, form, arguments))
    return 0


def _format(arguments: Arguments) -> str:
    if not arguments.get("csv"):
        return chosen_format(arguments, FORMATS)
    if arguments.get("json") or arguments.get("format") not in (None, "csv"):
        raise InputError(_("--csv and another form exclude each other"))
    return "csv"


def _group(name: str, catalog: Catalog, arguments: Arguments) -> tuple[int | None, Accelerator]:
    """Count, if one was written, and accelerator of a name such as 8xh100 or h100."""
    if GROUP.fullmatch(name):
        from gpuselect.quantities import parse_accelerators

        groups = parse_accelerators(name)
        if len(groups) == 1 and groups[0].name is not None:
            return groups[0].count, accelerator_of(groups[0].name, catalog, arguments)
    return None, accelerator_of(name, catalog, arguments)


def _specs(groups: Sequence[tuple[int | None, Accelerator]], catalog: Catalog) -> Comparison:
    """Specifications of single cards, or sums over groups where a count was written."""
    from gpuselect.comparison import compare_groups, compare_specs

    if any(count is not None for count, _card in groups):
        return compare_groups([(count or 1, card) for count, card in groups], catalog)
    return compare_specs([card for _count, card in groups], catalog)


def _systems(
    names: Sequence[str], catalog: Catalog, inputs: Inputs | None, form: str, arguments: Arguments
) -> str:
    """Systems side by side; with a workload, that of one whole node of each."""
    from gpuselect.comparison import compare_systems

    systems = [catalog.systems[name.lower()] for name in names]
    comparison = compare_systems(systems, catalog)
    rows = list(comparison.rows)
    if inputs is not None:
        nodes = [(int(s.accelerators_per_node), catalog.accelerators[s.accelerators[0]]) for s in systems]
        rows += _workload_rows(nodes, inputs)
    return _rendered(comparison, rows, form, arguments)


def _compared(
    frameworks: Sequence[Framework], catalog: Catalog, inputs: Inputs | None, form: str, arguments: Arguments
) -> str:
    """Frameworks side by side, with the workload where there is one."""
    from gpuselect.advisor import recommend
    from gpuselect.framework_comparison import compare_frameworks
    from gpuselect.workload_comparison import framework_rows

    comparison = compare_frameworks(frameworks, catalog)
    rows = list(comparison.rows)
    if inputs is not None:

        def ask(framework: Framework) -> Decision:
            one = inputs.workload.model_copy(update={"frameworks": (framework.id,)})
            return recommend(one, inputs.catalog, inputs.calibration, inputs.defaults)

        rows += framework_rows(frameworks, ask=ask)
    return _rendered(comparison, rows, form, arguments)


def _workload_rows(groups: Sequence[tuple[int | None, Accelerator]], inputs: Inputs) -> list[Row]:
    from gpuselect.advisor import estimate
    from gpuselect.workload_comparison import workload_rows

    def ask(count: int, card: str) -> FitAnswer:
        return estimate(inputs.workload, [(count, card)], inputs.catalog, inputs.calibration, inputs.defaults)

    return workload_rows(groups, ask=ask, most=inputs.workload.max_count)


def _workload(arguments: Arguments) -> Any:
    from gpuselect.workload import Workload

    if len(arguments["cards"]) < 2:
        raise InputError(_("compare needs at least two accelerators, for example: a100 h100"))
    mapping = workload_mapping(arguments)
    return Workload.from_mapping(mapping) if mapping else None


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

    legend = _("In brackets: ratio to the first. * derived, m measured, ? rests on an assumption.")
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
    best = row.best
    return {"label": label} | {
        card: _cell_text(cell, priced=priced, best=place in best) for place, (card, cell) in enumerate(cells)
    }


def _cell_text(cell: Cell, *, priced: bool, best: bool) -> str:
    from gpuselect.report.format import OF_A_TERM, significant
    from gpuselect.report.grid import cell as plain_cell

    text = plain_cell(cell.value) + MARKS.get(cell.status, "")
    text += _(" best") if best else ""
    ratio = "1" if cell.ratio is None else significant(cell.ratio, 2)
    text += "" if ratio == "1" else _(" ({ratio}x)").format(ratio=ratio)
    if not priced or cell.value is None:
        return text
    return " ".join((text, *(_(word) if word in OF_A_TERM else word for word in cell.source.split(" "))))


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
                "better": row.better or None,
                "values": [
                    {"value": c.value, "ratio": c.ratio, "status": c.status or None,
                     "source": c.source or None, "best": place in row.best}
                    for place, c in enumerate(row.cells)
                ],
            }
            for row in rows
        ],
    }  # fmt: skip
    return to_text(payload)
