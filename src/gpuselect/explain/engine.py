"""The engine of an explanation: the pipeline again, with one thing changed and the rest reused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Any

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog, Price
from gpuselect.decision import Option
from gpuselect.judging import Judged, judge, options_of, ranked_from
from gpuselect.score import Judgement
from gpuselect.selection import run_cost
from gpuselect.stability import drawn_pool
from gpuselect.tco import CostDefaults
from gpuselect.workload import Workload

CLOSE = 1.02  # a switching point is found to 2 %


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything that a run of the pipeline takes, but the workload."""

    catalog: Catalog
    calibration: Calibration
    defaults: CostDefaults
    judgement: Judgement
    today: str


def run(engine: Engine, workload: Workload) -> Judged:
    """Search, cost and rank."""
    return judge(
        workload, engine.catalog, engine.calibration, engine.defaults, today=engine.today,
        judgement=engine.judgement,
    )  # fmt: skip


def with_price(engine: Engine, workload: Workload, before: Judged, card: str, factor: float) -> Judged:
    """The same search with every price of one card multiplied; the other cards keep their costs."""
    prices = tuple(
        replace(row, price=row.price * factor) if row.hardware == card else row
        for row in engine.catalog.prices
    )
    return _with_prices(engine, workload, before, card, prices)


def with_rent(engine: Engine, workload: Workload, before: Judged, card: str, price: float) -> Judged:
    """The same search with a rent of one card [USD per hour and accelerator] beside the known prices."""
    row = Price(
        hardware=card, n_accel=1, kind="rent", term="on-demand", provider="", instance="per GPU", region="",
        price=price, currency="USD", as_of=engine.today, is_offer=True, source="", note="",
    )  # fmt: skip
    return _with_prices(engine, workload, before, card, (*engine.catalog.prices, row))


def _with_prices(
    engine: Engine, workload: Workload, before: Judged, card: str, prices: tuple[Price, ...]
) -> Judged:
    catalog = replace(engine.catalog, prices=prices)
    changed = _costed(replace(engine, catalog=catalog), workload, before, frozenset({card}))
    kept = [option for option in before.options if option.accelerator != card]
    return _ranked(engine, workload, before, [*kept, *changed])


def with_count(engine: Engine, workload: Workload, before: Judged, card: str, count: int) -> Judged:
    """The same search when one card may only be used in one count."""
    options = [o for o in before.options if o.accelerator != card or o.count == count]
    return _ranked(engine, workload, before, options)


def with_deadline(engine: Engine, workload: Workload, before: Judged, seconds: float) -> Judged:
    """The same search with another deadline."""
    ending: Any = before.job  # the kinds of work that end have these two fields
    job = replace(ending, deadline_s=seconds, deadline_given=True)
    changed = workload.model_copy(update={"deadline": seconds})
    return _ranked(engine, changed, replace(before, job=job), list(before.options))


def with_money(engine: Engine, workload: Workload, before: Judged) -> Judged:
    """The same search with other terms of cost, for the cards that lead and those that set a scale."""
    cards = frozenset(o.accelerator for o in drawn_pool(before.ranking.pool))
    return _ranked(engine, workload, before, _costed(engine, workload, before, cards))


def _costed(engine: Engine, workload: Workload, before: Judged, cards: frozenset[str]) -> list[Option]:
    fitting = tuple(c for c in before.found.fitting if before.field.sites[c.site].accelerator.id in cards)
    found = replace(before.found, fitting=fitting)
    return options_of(
        before.field, found, before.job, workload, engine.catalog, engine.calibration, engine.defaults,
        engine.today,
    )  # fmt: skip


def _ranked(engine: Engine, workload: Workload, before: Judged, options: list[Option]) -> Judged:
    return ranked_from(
        workload, options, before.job, before.assumptions, before.field, before.found,
        catalog=engine.catalog, judgement=engine.judgement,
    )  # fmt: skip


def priced(judged: Judged) -> list[Option]:
    """The ranked cards with a price, best first."""
    return [option for option in judged.ranking.pool if run_cost(option) is not None]


def first(judged: Judged) -> str:
    """The card that ranks first; empty where none is ranked."""
    found = priced(judged)
    return found[0].accelerator if found else ""


def place_of(judged: Judged, card: str) -> int | None:
    """The rank of a card among those with a price, None where it is not ranked."""
    names = [option.accelerator for option in priced(judged)]
    return names.index(card) + 1 if card in names else None


def boundary(holds: Callable[[float], bool], good: float, bad: float, *, close: float = CLOSE) -> float:
    """The value nearest to `bad` at which `holds` is still true, by halving in the logarithm.

    >>> round(boundary(lambda x: x < 10.0, 1.0, 100.0, close=1.001))
    10
    """
    while max(good / bad, bad / good) > close:
        middle = exp((log(good) + log(bad)) / 2.0) if good > 0 and bad > 0 else sqrt(good * bad)
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good
