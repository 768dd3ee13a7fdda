"""What would make a card win: one thing changed at a time, each tried with the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log

from gpuselect.decision import Note, Option
from gpuselect.explain.engine import Engine, boundary, place_of, run, with_count, with_deadline, with_rent
from gpuselect.explain.levers import Lever, leads, levers
from gpuselect.explain.records import Change
from gpuselect.explain.wording import lever_name, value_text
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.judging import Judged
from gpuselect.quantities import Money
from gpuselect.selection import days, in_time, within_budget
from gpuselect.units import DAYS
from gpuselect.workload import Workload

WEIGHTS = ("fp8", "int8", "int4-awq")
PRECISIONS = ("fp16", "bf16", "fp8")
METHODS = ("lora", "qlora")
RESTRICTIONS = (
    "gpus", "exclude", "vendors", "have", "max_power_w", "ecc", "mig", "form_factor", "edge", "frameworks",
    "framework_licence", "engine",
)  # fmt: skip
MORE = (2, 4, 16)  # times the largest count
MEMORY_CODES = ("memory-exceeded", "no-valid-plan")
ROOM = 1.001  # a bound that is met exactly must not fail by rounding
CHEAPEST, DEAREST = 0.001, 1000.0  # USD per hour, between which a price is sought where none is known


def changes_of(
    engine: Engine, workload: Workload, judged: Judged, card: str, rejection: Note | None
) -> tuple[Change, ...]:
    """Changes that make the card win, the smallest first; then those that only improve its place."""
    mine = [o for o in judged.options if o.accelerator == card]
    found: list[Change] = []
    if mine and card in judged.missed:
        found += _bound_changes(engine, workload, judged, card, mine)
    elif mine and place_of(judged, card) is None:
        found += _price_needed(engine, workload, judged, card)
    elif mine:
        found += _lever_changes(engine, workload, judged, card)
        found += _count_changes(engine, workload, judged, card, mine)
    elif rejection is not None and rejection.code in (*MEMORY_CODES, "slo-missed"):
        found += _more_cards(engine, workload, judged, card)
        found += _looser_bounds(engine, workload, card)
    elif rejection is not None:
        found += _lifted(engine, workload, judged, card)
    if not (mine and card in judged.missed and workload.budget is None):
        found += _formats(engine, workload, judged, card)
    return tuple(sorted(found, key=lambda c: (not c.wins, c.rank or 10_000, _size(c))))


def _size(change: Change) -> float:
    """How far a change goes: the logarithm of the ratio; one of formats counts as ten times."""
    value, base = change.value, change.base
    if isinstance(value, float) and isinstance(base, float) and value > 0 and base > 0:
        return abs(log(value / base))
    return log(10.0)


def _told(judged: Judged, card: str) -> tuple[int | None, str]:
    rank = place_of(judged, card)
    if rank is None:
        return None, _("is not ranked")
    return rank, _("ranks first") if rank == 1 else _("ranks {n}").format(n=rank)


def _change(
    what: str, base: float | str | None, value: float | str, unit: str, judged: Judged, card: str
) -> Change:
    """A change with what the engine answered."""
    rank, told = _told(judged, card)
    shown = value if isinstance(value, str) else value_text(value, unit)
    now = base if isinstance(base, str) else None if base is None else value_text(base, unit)
    text = (
        _("{name} {value}: {card} {told}") if now is None
        else _("{name} {value} rather than {base}: {card} {told}")
    )  # fmt: skip
    return Change(what, base, value, unit, rank, text.format(
        name=lever_name(what), value=shown, base=now, card=card, told=told))  # fmt: skip


def _lever_changes(engine: Engine, workload: Workload, judged: Judged, card: str) -> Iterator[Change]:
    """For each input, the value nearest to the present one at which the card wins."""
    for lever in levers(engine, workload, judged, card):
        ways = (lever.down,) if lever.what == "price" else (lever.up, lever.down)
        found = [v for values in ways if (v := _winning(lever, card, values)) is not None]
        if found:
            value = min(found, key=lambda v: max(v / lever.base, lever.base / v))
            yield _change(lever.what, lever.base, value, lever.unit, lever.judge_at(value), card)
        elif lever.what == "price":
            yield _never(lever, lever.judge_at(lever.down[-1]), card)


def _winning(lever: Lever, card: str, values: Sequence[float]) -> float | None:
    """The value nearest to the base at which the card leads, of those between the base and the last."""
    wins, before = leads(lever, card), lever.base
    for value in values:
        if wins(value):
            edge = boundary(wins, value, before)
            return float(round(edge)) if lever.whole and wins(float(round(edge))) else edge
        before = value
    return None


def _never(lever: Lever, judged: Judged, card: str) -> Change:
    rank, told = _told(judged, card)
    text = _("no price alone makes it win: at {value} rather than {base} {card} {told}")
    return Change(lever.what, lever.base, None, lever.unit, rank, text.format(
        value=value_text(lever.down[-1], lever.unit), base=value_text(lever.base, lever.unit), card=card,
        told=told))  # fmt: skip


def _count_changes(
    engine: Engine, workload: Workload, judged: Judged, card: str, mine: Sequence[Option]
) -> Iterator[Change]:
    """The count with the best place, where it is better than that of the ranked one."""
    now = place_of(judged, card) or 10_000
    used = next(o.count for o in judged.ranking.pool if o.accelerator == card)
    best: Change | None = None
    for option in mine:
        if option.count == used or not in_time(option, judged.job) or not within_budget(option, workload):
            continue
        other = with_count(engine, workload, judged, card, option.count)
        change = _change("count", float(used), float(option.count), "", other, card)
        if change.rank is not None and change.rank < (now if best is None else best.rank or now):
            best = change
    if best is not None:
        yield best


def _bound_changes(
    engine: Engine, workload: Workload, judged: Judged, card: str, mine: Sequence[Option]
) -> Iterator[Change]:
    """The deadline or the budget that lets the card in, and its place then."""
    code = judged.missed[card].code
    early = [o for o in mine if in_time(o, judged.job)] or mine
    if code == "deadline-missed":
        needed = min(days(o) or 0.0 for o in mine) * DAYS * ROOM
        other = with_deadline(engine, workload, judged, needed)
        base = getattr(judged.job, "deadline_s", None)
        yield _change("deadline", base, needed, "s", other, card)
    budget = workload.budget
    if code == "over-budget" and budget is not None:
        amount = _least_budget(workload, budget, early)
        if amount is not None:
            wider = workload.model_copy(update={"budget": replace(budget, amount=amount)})
            unit = {"none": "USD", "hour": "USD/h"}.get(budget.per, f"USD/{budget.per}")
            yield _change("budget", budget.amount, amount, unit, run(engine, wider), card)


def _least_budget(workload: Workload, budget: Money, mine: Sequence[Option]) -> float | None:
    """The smallest budget of the same kind that some count of the card keeps."""

    def keeps(amount: float) -> bool:
        asked = workload.model_copy(update={"budget": replace(budget, amount=amount)})
        return any(within_budget(o, asked) for o in mine)

    amount = budget.amount
    while not keeps(amount) and amount < 1e6 * budget.amount:
        amount *= 4.0
    return boundary(keeps, amount, budget.amount, close=1.005) if keeps(amount) else None


def _more_cards(engine: Engine, workload: Workload, judged: Judged, card: str) -> Iterator[Change]:
    """A larger number of accelerators, the first that fits."""
    most = int(getattr(judged.job, "max_count", 0))
    for times in MORE if most else ():
        wider = workload.model_copy(update={"max_count": most * times, "single_card": None})
        other = run(engine, wider)
        fitting = [o.count for o in other.options if o.accelerator == card]
        if fitting:
            change = _change("max-count", float(most), float(min(fitting)), "", other, card)
            yield change
            return


def _lifted(engine: Engine, workload: Workload, judged: Judged, card: str) -> Iterator[Change]:
    """The request without one of its restrictions on hardware, and with the card named beside the others."""
    tries: list[tuple[str, object, str]] = []
    for key in RESTRICTIONS:
        given = getattr(workload, key)
        if given not in (None, (), False):
            tries.append((key, type(workload).model_fields[key].default, _("not given")))
    if not workload.gpus and not workload.have:
        others = [o.accelerator for o in judged.ranking.pool]
        tries.append(("gpus", (*others, card), card))
    for key, value, said in tries:
        other = run(engine, workload.model_copy(update={key: value}))
        rank, told = _told(other, card)
        if rank is not None:
            text = _("--{flag} {said}: {card} {told}").format(
                flag=key.replace("_", "-"), said=said, card=card, told=told
            )
            yield Change(key, None, said, "", rank, text)


def _looser_bounds(engine: Engine, workload: Workload, card: str) -> Iterator[Change]:
    """The tightest bound on latency that the card meets, each bound alone."""
    for name in ("ttft", "tpot", "latency"):
        base = getattr(workload, name)
        if base is None:
            continue

        def meets(value: float, name: str = name) -> bool:
            one = workload.model_copy(update={name: value, "gpus": (card,)})
            return any(o.accelerator == card for o in run(engine, one).options)

        if meets(20.0 * base):
            value = boundary(meets, 20.0 * base, base)
            other = run(engine, workload.model_copy(update={name: value}))
            yield _change(name, base, value, "s", other, card)


def _price_needed(engine: Engine, workload: Workload, judged: Judged, card: str) -> Iterator[Change]:
    """The rent of one accelerator below which a card without a known price would win."""

    def at(price: float) -> Judged:
        return with_rent(engine, workload, judged, card, price)

    if place_of(at(CHEAPEST), card) == 1:
        price = boundary(lambda p: place_of(at(p), card) == 1, CHEAPEST, DEAREST)
        yield _change("price", None, price, "USD/h", at(price), card)


def _formats(engine: Engine, workload: Workload, judged: Judged, card: str) -> Iterator[Change]:
    """Other number formats, and cheaper ways to fine-tune; those that change the place of the card."""
    now = place_of(judged, card)
    job = judged.job
    tries: list[tuple[str, str, str]] = []
    if isinstance(job, ServingJob):
        tries += [("weights", job.weights.id, w) for w in WEIGHTS if w in engine.catalog.formats]
    elif isinstance(job, TrainingJob):
        tries += [("precision", job.precision, p) for p in PRECISIONS]
        if workload.task == "finetune":
            tries += [("method", job.method, m) for m in METHODS]
    for what, base, value in tries:
        if value == base:
            continue
        other = run(engine, workload.model_copy(update={what: value}))
        rank = place_of(other, card)
        if rank is not None and (now is None or rank < now):
            yield _change(what, base, value, "", other, card)
