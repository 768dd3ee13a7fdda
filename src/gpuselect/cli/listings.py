"""Columns and rows of each kind that `gpuselect list` knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuselect.i18n import _
from gpuselect.report.grid import Column

if TYPE_CHECKING:
    from gpuselect.catalog import Catalog

Rows = list[dict[str, Any]]


def accelerator_columns() -> Sequence[Column]:
    """Columns of the accelerators."""
    return (
        Column("id", _("Id")),
        Column("name", _("Name"), 6),
        Column("vendor", _("Vendor"), 3),
        Column("family", _("Family"), 4),
        Column("memory_gb", _("GB")),
        Column("memory_bandwidth_gb_s", _("GB/s")),
        Column("dense_bf16_tflops", _("bf16 TFLOPS"), 1),
        Column("power_w", _("W"), 2),
        Column("status", _("Status"), 5),
    )


def accelerator_rows(catalog: Catalog) -> Rows:
    """One row for each accelerator."""
    return [
        {
            "id": card.id,
            "name": card.name,
            "vendor": card.vendor,
            "family": card.family,
            "memory_gb": card.memory_gb,
            "memory_bandwidth_gb_s": card.memory_bandwidth_gb_s,
            "dense_bf16_tflops": card.dense_tflops.get("bf16"),
            "power_w": card.power_w,
            "status": card.status,
        }
        for card in catalog.accelerators.values()
    ]


def model_columns() -> Sequence[Column]:
    """Columns of the models."""
    return (
        Column("id", _("Id")),
        Column("name", _("Name"), 4),
        Column("family", _("Family"), 5),
        Column("params_b", _("Parameters, billions")),
        Column("active_params_b", _("Active"), 1),
        Column("max_context", _("Context"), 2),
        Column("licence", _("Licence"), 3),
    )


def model_rows(catalog: Catalog) -> Rows:
    """One row for each model."""
    return [
        {
            "id": model.id,
            "name": model.name,
            "family": model.family,
            "params_b": model.params_b,
            "active_params_b": model.active_params_b,
            "max_context": model.max_context,
            "licence": model.licence,
        }
        for model in catalog.models.values()
    ]


def framework_columns() -> Sequence[Column]:
    """Columns of the frameworks."""
    return (
        Column("id", _("Id")),
        Column("name", _("Name"), 2),
        Column("kind", _("Kind")),
        Column("version", _("Version"), 3),
        Column("backends", _("Runs on"), wrapped=True),
        Column("methods", _("Methods"), 1, wrapped=True),
        Column("families", _("Networks"), 5, wrapped=True),
        Column("licence", _("Licence"), 4),
        Column("upkeep", _("Upkeep"), 3),
        Column("evidence_date", _("As of"), 6),
        Column("vendors", _("Vendors open"), 4),
    )


def framework_rows(catalog: Catalog) -> Rows:
    """One row for each framework; `vendors` counts those whose accelerators it keeps open."""
    from gpuselect.framework_choice import vendors_open

    return [
        {
            "id": framework.id,
            "name": framework.name,
            "kind": framework.kind,
            "version": framework.version,
            "backends": tuple(framework.backends),
            "methods": framework.methods,
            "families": framework.families,
            "licence": framework.licence,
            "upkeep": framework.upkeep,
            "evidence_date": framework.evidence_date,
            "vendors": len(vendors_open(framework, catalog)),
        }
        for framework in catalog.frameworks.values()
    ]


def system_columns() -> Sequence[Column]:
    """Columns of the systems."""
    return (
        Column("id", _("Id")),
        Column("name", _("Name"), 3),
        Column("accelerators", _("Accelerators"), 2, wrapped=True),
        Column("accelerators_per_node", _("Per node")),
        Column("fast_domain", _("Linked")),
        Column("network_one_way_gb_s", _("Network GB/s per accelerator"), 1),
    )


def system_rows(catalog: Catalog) -> Rows:
    """One row for each system."""
    return [
        {
            "id": system.id,
            "name": system.name,
            "accelerators": system.accelerators,
            "accelerators_per_node": system.accelerators_per_node,
            "fast_domain": system.fast_domain,
            "network_one_way_gb_s": system.network_one_way_gb_s,
        }
        for system in catalog.systems.values()
    ]


def format_columns() -> Sequence[Column]:
    """Columns of the weight formats."""
    return (
        Column("id", _("Id")),
        Column("name", _("Name"), 1),
        Column("bits_per_weight", _("Bits per weight")),
        Column("compute", _("Multiplied in")),
    )


def format_rows(catalog: Catalog) -> Rows:
    """One row for each weight format."""
    return [
        {
            "id": entry.id,
            "name": entry.name,
            "bits_per_weight": entry.bits_per_weight,
            "compute": entry.compute,
        }
        for entry in catalog.formats.values()
    ]


def price_columns() -> Sequence[Column]:
    """Columns of the prices."""
    return (
        Column("hardware", _("Hardware")),
        Column("n_accel", _("Count")),
        Column("term", _("Term")),
        Column("price", _("USD")),
        Column("unit", _("Per")),
        Column("provider", _("Provider"), 2),
        Column("instance", _("Instance"), 4),
        Column("region", _("Region"), 3),
        Column("as_of", _("Date"), 1),
        Column("source", _("Source"), 5),
    )


def price_rows(catalog: Catalog) -> Rows:
    """One row for each price."""
    return [
        {
            "hardware": price.hardware,
            "n_accel": price.n_accel,
            "kind": price.kind,
            "term": price.term,
            "price": price.price,
            "unit": _("hour") if price.kind == "rent" else _("purchase"),
            "provider": price.provider or None,
            "instance": price.instance or None,
            "region": price.region or None,
            "as_of": price.as_of or None,
            "is_offer": price.is_offer,
            "source": price.source,
        }
        for price in catalog.prices
    ]


def region_columns() -> Sequence[Column]:
    """Columns of the regions."""
    return (
        Column("region", _("Region")),
        Column("name", _("Name"), 3, wrapped=True),
        Column("kind", _("Kind"), 4),
        Column("carbon_g_kwh", _("gCO2/kWh")),
        Column("carbon_method", _("Method"), 2, wrapped=True),
        Column("electricity_usd_kwh", _("USD/kWh")),
        Column("price_kind", _("Tariff"), 1),
        Column("pue", _("PUE")),
        Column("year", _("Year"), 1),
        Column("source", _("Source"), 6),
    )


def region_rows(catalog: Catalog) -> Rows:
    """One row for each figure of a region: carbon by one method, a price, a PUE."""
    return [
        {
            "region": row.region,
            "name": row.name,
            "kind": row.kind,
            "carbon_g_kwh": row.carbon_g_kwh,
            "carbon_method": row.carbon_method or None,
            "electricity_usd_kwh": row.electricity_usd_kwh,
            "price_kind": row.price_kind or None,
            "pue": row.pue,
            "year": row.year or None,
            "source": row.source,
        }
        for row in catalog.regions
    ]


# Headings of the families in the table of counts: it has to fit 80 columns.
FAMILIES: Mapping[str, str] = {
    "datacenter": "Data", "superchip": "Sup.", "workstation": "Work", "consumer": "Con.",
    "edge": "Edge", "apple": "Mac", "tpu": "TPU", "asic": "ASIC", "cpu": "CPU",
}  # fmt: skip


def count_columns() -> Sequence[Column]:
    """Columns of the counts: vendor, one for each family, total."""
    families = (Column(family, heading) for family, heading in FAMILIES.items())
    return (Column("vendor", _("Vendor")), *families, Column("total", _("All")))


def count_rows(rows: Rows) -> Rows:
    """How many of these accelerators each vendor has in each family; the last row is the total.

    A family that a vendor does not make is None, not 0.
    """
    vendors: dict[str, dict[str, Any]] = {}
    total: dict[str, Any] = {"vendor": _("total")}
    for row in rows:
        counts = vendors.setdefault(row["vendor"], {"vendor": row["vendor"]})
        for line in (counts, total):
            for key in (row["family"], "total"):
                line[key] = line.get(key, 0) + 1
    ordered = sorted(vendors.values(), key=lambda counts: (-counts["total"], counts["vendor"]))
    keys = ("vendor", *FAMILIES, "total")
    return [{key: line.get(key) for key in keys} for line in (*ordered, total)] if vendors else []


def optimisation_columns() -> Sequence[Column]:
    """Columns of the optimisations."""
    return (
        Column("id", _("Code")),
        Column("name", _("Name")),
        Column("text", _("What it does"), 1, wrapped=True),
        Column("how", _("How"), 2, wrapped=True),
        Column("accuracy_risk", _("Accuracy risk"), wrapped=True),
    )


def optimisation_rows(catalog: Catalog) -> Rows:
    """One row for each optimisation that advice can name."""
    return [
        {
            "id": entry.id, "name": entry.name, "text": entry.text, "how": entry.how,
            "accuracy_risk": entry.accuracy_risk or _("not known"),
        }
        for entry in catalog.optimisations.values()
    ]  # fmt: skip


def rule_columns() -> Sequence[Column]:
    """Columns of the rules."""
    return (
        Column("code", _("Code")),
        Column("text", _("Rule"), wrapped=True),
        Column("override", _("Override"), 1, wrapped=True),
        Column("source", _("Source"), 2),
    )


def rule_rows() -> Rows:
    """One row for each code: rules are code, the catalog is not asked."""
    from gpuselect.note_texts import note_texts
    from gpuselect.rules import EXPLANATIONS
    from gpuselect.stability import EXPLAINED

    return [
        {"code": code, "text": _(rule.text), "override": _(rule.override), "source": _(rule.source)}
        for code, rule in {**EXPLANATIONS, **EXPLAINED, **note_texts()}.items()
    ]


def rows_of(kind: str, catalog: Callable[[], Catalog]) -> Rows:
    """The rows of a kind; the catalog is read only where they come from it."""
    return rule_rows() if kind == "rules" else ROWS[kind](catalog())


COLUMNS: Mapping[str, Callable[[], Sequence[Column]]] = {
    "accelerators": accelerator_columns,
    "models": model_columns,
    "frameworks": framework_columns,
    "systems": system_columns,
    "formats": format_columns,
    "prices": price_columns,
    "regions": region_columns,
    "optimisations": optimisation_columns,
    "rules": rule_columns,
}
ROWS: Mapping[str, Callable[[Catalog], Rows]] = {
    "accelerators": accelerator_rows,
    "models": model_rows,
    "frameworks": framework_rows,
    "systems": system_rows,
    "formats": format_rows,
    "prices": price_rows,
    "regions": region_rows,
    "optimisations": optimisation_rows,
}
