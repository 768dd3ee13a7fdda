"""Frameworks side by side: traits of the catalog, portability, claims that have aged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuselect.catalog import Catalog, Framework
from gpuselect.comparison import Cell, Comparison, Row, with_ratios
from gpuselect.framework_choice import vendors_open
from gpuselect.i18n import N_, _, labelled
from gpuselect.provenance import Fact, Figure

OF_SUPPORT = (N_("community"), N_("experimental"))  # how far, where it is not full


def compare_frameworks(frameworks: Sequence[Framework], catalog: Catalog) -> Comparison:
    """Traits of the frameworks; rows that are unknown for all are left out."""
    rows = [_vendor_row(frameworks, catalog), *(_row(frameworks, *spec) for spec in _traits())]
    rows += [_aged_row(frameworks)]
    return Comparison(
        accelerators=tuple(f.id for f in frameworks),
        names=tuple(f.name for f in frameworks),
        rows=tuple(row for row in rows if any(cell.value is not None for cell in row.cells)),
    )


def _traits() -> tuple[tuple[str, str, Callable[[Framework], str | Figure | Fact | None]], ...]:
    """Key, label and reader of each trait."""
    return (
        ("backends", _("Runs on"), lambda f: _supported(f.backends)),
        ("min_compute_capability", _("Compute capability from"), lambda f: f.min_compute_capability),
        ("methods", _("Tasks"), lambda f: _(", ").join(f.methods)),
        ("precisions", _("Precisions"), lambda f: _(", ").join(f.precisions)),
        ("weight_formats", _("Weight formats"), lambda f: _(", ").join(f.weight_formats)),
        ("parallelism", _("Parallelism"), lambda f: _supported(f.parallelism)),
        ("execution", _("Execution"), lambda f: _(", ").join(f.execution)),
        ("deployment", _("Deployment"), lambda f: _(", ").join(f.deployment)),
        ("licence", _("Licence"), lambda f: f.licence),
        ("version", _("Version seen"), lambda f: f.version),
        ("maturity", _("State of the project"), lambda f: f.maturity),
        ("evidence_date", _("As of"), lambda f: f.evidence_date),
        ("users", _("Typical users"), lambda f: f.users),
        ("good_for", _("Good for"), lambda f: f.good_for),
    )


def _supported(traits: dict[str, Fact]) -> str:
    """Keys, with what is not full support in brackets."""
    return _(", ").join(
        key if how == "yes" else _("{text} ({about})").format(text=key, about=_(how))
        for key, how in traits.items()
    )


def _row(
    frameworks: Sequence[Framework], key: str, label: str,
    read: Callable[[Framework], str | Figure | Fact | None],
) -> Row:  # fmt: skip
    return Row(key, label, "", tuple(_cell(framework, read(framework)) for framework in frameworks))


def _cell(framework: Framework, value: str | Figure | Fact | None) -> Cell:
    if value is None or value == "":
        return Cell()
    if isinstance(value, Figure):
        return Cell(float(value), None, value.status, framework.cite(value)[0])
    if isinstance(value, Fact):
        return Cell(str(value), None, value.status, framework.cite(value)[0])
    return Cell(value)


def _vendor_row(frameworks: Sequence[Framework], catalog: Catalog) -> Row:
    """Portability: vendors of accelerators that the choice keeps open."""
    cells = [Cell(float(len(vendors_open(f, catalog))), None, "derived") for f in frameworks]
    return Row("vendors_open", _("Vendors kept open"), "", with_ratios(cells))


def _aged_row(frameworks: Sequence[Framework]) -> Row:
    cells = tuple(
        Cell(_("; ").join(labelled(claim, now) for claim, now in f.aged.items()) or None) for f in frameworks
    )
    return Row("aged", _("Aged claims"), "", cells)
