"""The inputs that can be moved alone: their value now, the values to try, and the engine with each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from gpuselect.costs import terms_of
from gpuselect.decision import Option
from gpuselect.explain.engine import Engine, first, priced, run, with_deadline, with_money, with_price
from gpuselect.i18n import N_
from gpuselect.job import ServingJob
from gpuselect.judging import Judged
from gpuselect.network_job import VideoJob
from gpuselect.selection import ends
from gpuselect.tco import purchase_price
from gpuselect.workload import Workload

STEPS = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
WIDE = (2.0, 4.0, 16.0, 64.0)
BOUNDS = ("ttft", "tpot", "latency")
LOADS = ("request_rate", "demand", "users", "concurrency")


@dataclass(frozen=True, slots=True)
class Lever:
    """One input: its value, the values away from it in each direction, and a run with another value."""

    what: str
    base: float
    unit: str
    up: tuple[float, ...]
    down: tuple[float, ...]
    judge_at: Callable[[float], Judged]
    whole: bool = False


def levers(engine: Engine, workload: Workload, judged: Judged, card: str) -> Iterator[Lever]:
    """Every input that has a say in this workload."""
    option = next((o for o in (*judged.ranking.pool, *judged.options) if o.accelerator == card), None)
    if option is not None and (lever := price_lever(engine, workload, judged, option)) is not None:
        yield lever
    if ends(judged.job):
        base = float(getattr(judged.job, "deadline_s"))  # noqa: B009  not every job has one
        yield _around("deadline", base, "s", STEPS, partial(with_deadline, engine, workload, judged))
    yield from _load_levers(engine, workload, judged)
    for name in BOUNDS:
        if (bound := getattr(workload, name)) is not None:
            yield _around(name, bound, "s", STEPS, _workload_run(engine, workload, name))
    yield from _money_levers(engine, workload, judged)


def _around(
    what: str, base: float, unit: str, steps: tuple[float, ...], judge_at: Callable[[float], Judged],
    *, most: float = float("inf"), whole: bool = False,
) -> Lever:  # fmt: skip
    up = tuple(value for step in steps if (value := base * step) < most)
    up += (most,) if most < float("inf") and base < most else ()
    down = tuple(base / step for step in steps)
    if whole:
        down = tuple(dict.fromkeys(float(n) for value in down if 1 <= (n := round(value)) < base))
    return Lever(what, base, unit, up, down, judge_at, whole)


def price_lever(engine: Engine, workload: Workload, judged: Judged, option: Option) -> Lever | None:
    """The price of one accelerator of the card, rented or bought, whichever counts; None where unknown."""
    card, cost = option.accelerator, option.cost
    if cost.basis == "rent" and cost.rent_per_hour_usd:
        each, unit = cost.rent_per_hour_usd / option.count, "USD/h"
    elif cost.basis == "buy":
        rows = engine.catalog.prices_of.get(card, ())
        bought, _server = purchase_price(prices=rows, hardware=card, today=engine.today)
        each, unit = (bought.usd if bought else 0.0), "USD"
    else:
        return None
    if not each:
        return None

    def judge_at(price: float) -> Judged:
        return with_price(engine, workload, judged, card, price / each)

    return _around("price", each, unit, (*STEPS, 20.0), judge_at)


def _workload_run(
    engine: Engine, workload: Workload, name: str, *, whole: bool = False
) -> Callable[[float], Judged]:
    """Runs with another value of one key of the workload."""

    def judge_at(value: float) -> Judged:
        given = round(value) if whole else value
        return run(engine, workload.model_copy(update={name: given}))

    return judge_at


def _load_levers(engine: Engine, workload: Workload, judged: Judged) -> Iterator[Lever]:
    """The demand that was given; the streams of a video job, the concurrency of a server that has none."""
    job = judged.job
    if isinstance(job, VideoJob):
        runner = _workload_run(engine, workload, "streams", whole=True)
        yield _around("streams", float(job.streams), "streams", WIDE, runner, whole=True)
    name = next((n for n in LOADS if getattr(workload, n) is not None), "concurrency")
    base = getattr(workload, name) or (job.concurrency if isinstance(job, ServingJob) else None)
    if base is None:
        return
    units = {"request_rate": N_("requests/s"), "demand": N_("tokens/s"), "users": N_("users"),
             "concurrency": N_("sequences")}  # fmt: skip
    whole = name == "concurrency"
    runner = _workload_run(engine, workload, name, whole=whole)
    yield _around("demand", float(base), units[name], WIDE, runner, whole=whole)


def _money_levers(engine: Engine, workload: Workload, judged: Judged) -> Iterator[Lever]:
    """Use and electricity, where a leading card is bought or owned; rent has both inside its price."""
    leading = priced(judged)[:10]
    if all(option.cost.basis == "rent" for option in leading):
        return

    def with_one(name: str, value: float) -> Judged:
        return with_money(engine, workload.model_copy(update={name: value}), judged)

    use = terms_of(workload, engine.defaults, service=not ends(judged.job)).utilization
    yield _around("utilization", use, "share", STEPS, partial(with_one, "utilization"), most=1.0)
    place = next((o.energy.place for o in leading if o.energy.place is not None), None)
    price = workload.electricity or (place.electricity_usd_kwh.value if place else None)
    if price:
        yield _around("electricity", price, "USD/kWh", WIDE, partial(with_one, "electricity"))


def leads(lever: Lever, card: str) -> Callable[[float], bool]:
    """Whether the card ranks first at a value of the lever."""

    def holds(value: float) -> bool:
        return first(lever.judge_at(value)) == card

    return holds
