"""Carbon of making hardware, per accelerator with its share of the server [kg CO2e]."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuselect.catalog import EmbodiedCarbon


@dataclass(frozen=True, slots=True)
class Embodied:
    """Mean, least and most of the sources [kg CO2e per accelerator]; `scope`: server, or card alone."""

    kg: float
    low: float
    high: float
    scope: str
    sources: tuple[str, ...]


def embodied_of(rows: Iterable[EmbodiedCarbon], hardware: str) -> Embodied | None:
    """What is known of a card: whole servers where a source counts them, else the cards alone; or None.

    A server that a source gives without its cards is added to the cards of the same source.
    """
    mine = [row for row in rows if row.hardware == hardware and row.kgco2e is not None]
    whole = [(_each(row), row.source) for row in mine if row.scope == "server"]
    cards = [(_each(row), row.source) for row in mine if row.scope == "card"]
    for row in mine:
        if row.scope == "server-without-cards":
            whole += [(_each(row) + kg, source) for kg, source in cards if source == row.source]
    found, scope = (whole, "server") if whole else (cards, "card")
    if not found:
        return None
    values = [kg for kg, _source in found]
    sources = tuple(dict.fromkeys(source for _kg, source in found))
    return Embodied(sum(values) / len(values), min(values), max(values), scope, sources)


def _each(row: EmbodiedCarbon) -> float:
    return (row.kgco2e or 0.0) / row.n_accel
