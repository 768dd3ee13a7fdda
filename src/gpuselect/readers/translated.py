"""The words of the catalog in the user's language. Names, ids, codes and what code compares stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from gpuselect.catalog import Catalog, Entry
from gpuselect.i18n import _
from gpuselect.provenance import Fact

OPTIMISATION_WORDS = ("name", "text", "how", "rests_on", "accuracy_risk", "needs")
E = TypeVar("E", bound=Entry)
FRAMEWORK_WORDS = ("users", "good_for", "maturity", "aged")


def translated(catalog: Catalog) -> Catalog:
    """The catalog with the words of its optimisations and frameworks translated."""
    return replace(
        catalog,
        optimisations={key: _entry(e, OPTIMISATION_WORDS) for key, e in catalog.optimisations.items()},
        frameworks={key: _entry(e, FRAMEWORK_WORDS) for key, e in catalog.frameworks.items()},
    )


def _entry(entry: E, keys: tuple[str, ...]) -> E:
    return entry.model_copy(update={key: _word(getattr(entry, key)) for key in keys})


def _word(value: Any) -> Any:
    if isinstance(value, Fact):
        return Fact(_(value), source=value.source, status=value.status, note=value.note)
    if isinstance(value, str):
        return _(value)
    if isinstance(value, Mapping):
        return {_(key): _word(fact) for key, fact in value.items()}
    return value
