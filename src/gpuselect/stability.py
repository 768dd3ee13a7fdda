"""How sure a ranking is: draws of speed and price, ties, and orders that hang on a third option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, log, sqrt
from typing import Any
from zlib import crc32

import numpy as np

from gpuselect.decision import Estimate, Note, Option, Score, Stability
from gpuselect.i18n import _
from gpuselect.rules import Explanation
from gpuselect.score import Judgement, normalised_log, normalised_low, total
from gpuselect.selection import SPEEDS, order_key, run_cost, speed
from gpuselect.tco.uncertainty import Spread, draw

MOST = 40  # options that are drawn: the best by total, and those that set a scale
NAMED = 5  # options that a sentence names
BEATEN = 0.9  # share of the draws in which the first must beat another, else they tie
PER_WORK = ("per_run_usd", "per_million_tokens_usd", "per_thousand_images_usd")  # costs that fall with speed
FIXED = ("headroom", "ecosystem", "scalability", "risk")


EXPLAINED: Mapping[str, Explanation] = {
    "stability": Explanation(
        "Speed and price of every card are drawn from their 80 % intervals, and the share of the draws in "
        "which each card ranks first is counted. Part of the error of speed is common to all cards.",
        "docs/methodology.md, score and decision; data/profiles.yaml",
        "Measure the leading cards, or give prices of your own: narrower intervals make the order surer.",
    ),
    "tie": Explanation(
        "The first option beats the tied ones in fewer than 90 % of the draws, so the 80 % interval of the "
        "difference of the totals holds 0.",
        "docs/methodology.md, score and decision",
        "Other weights (--prefer, --weights) may tell them apart; else choose by what is not in the score.",
    ),
    "price-of-second": Explanation(
        "The price at which the second option would have the total of the first, all else equal.",
        "docs/methodology.md, score and decision",
        "`gpuselect explain CARD` finds the price for any card, with the whole engine.",
    ),
    "fastest-bounds": Explanation(
        "A faster set-up exists, but it costs or takes more than the role of the fastest may.",
        "data/profiles.yaml: fastest_within, fastest_cards",
        "--prefer speed has wider bounds; a profiles.yaml of your own in a --catalog folder sets others.",
    ),
    "depends-on-alternative": Explanation(
        "Scores are relative to the field. An option that does not win sets a scale, and without it "
        "another one would rank first.",
        "docs/methodology.md, score and decision",
        "--exclude the option that is named, if you would never take it.",
    ),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """Totals of some options, one row each, over the draws; NaN rows have no price."""

    names: tuple[str, ...]
    totals: Any

    @property
    def win_shares(self) -> dict[str, float]:
        """Share of the draws in which each option has the highest total."""
        first = np.nanargmax(self.totals, axis=0)
        counts = np.bincount(first, minlength=len(self.names)) / self.totals.shape[1]
        return {name: float(share) for name, share in zip(self.names, counts, strict=True)}

    def beats(self, first: str, other: str) -> float:
        """Share of the draws in which `first` has the higher total."""
        a, b = self.names.index(first), self.names.index(other)
        return float(np.mean(self.totals[a] > self.totals[b]))

    def interval(self, name: str) -> tuple[float, float]:
        """80 % interval of a total."""
        low, high = np.percentile(self.totals[self.names.index(name)], (10, 90))
        return float(low), float(high)


@lru_cache(maxsize=512)
def normals(name: str, draws: int, seed: int) -> Any:
    """Standard normal numbers that belong to a name, whatever else is drawn: two rows, speed and price."""
    generator = np.random.default_rng((seed, crc32(name.encode())))
    return generator.standard_normal((2, draws))


def pace_of(option: Option) -> Spread:
    """Speed as a multiple of the estimate, with its 80 % interval."""
    for key in (*SPEEDS, "run_time_h"):
        found = option.performance.get(key)
        if found is not None and found.value > 0 and found.low > 0:
            return _relative(found, inverse=key == "run_time_h")
    return Spread(1.0, 1.0, 1.0)


def _relative(found: Estimate, *, inverse: bool) -> Spread:
    low, high = found.low / found.value, found.high / found.value
    return Spread(1.0, 1.0 / high, 1.0 / low) if inverse else Spread(1.0, low, high)


def price_of(option: Option) -> Spread:
    """Price as a multiple of the one taken: the inputs of its range, but speed, added in quadrature.

    Options whose range was not computed keep their price.
    """
    if option.cost.range is None:
        return Spread(1.0, 1.0, 1.0)
    middle = getattr(option.cost, option.cost.range.metric) or 0.0
    down = up = 0.0
    for name, *ends in option.cost.range.swings:
        if name != _("speed") and middle > 0 and min(ends) > 0:
            down += min(0.0, log(min(ends) / middle)) ** 2
            up += max(0.0, log(max(ends) / middle)) ** 2
    return Spread(1.0, exp(-sqrt(down)), exp(sqrt(up)))


def draw_totals(pool: Sequence[Option], weights: Mapping[str, float], judgement: Judgement) -> Drawn:
    """Totals over draws of speed (partly shared by all cards) and price (each on its own).

    Both intervals are 80 %, log-normal on each side. Headroom, software, scalability and risk stay.
    """
    draws, seed, shared = judgement.draws, judgement.seed, judgement.shared_error.value
    common = normals("", draws, seed)[0]
    own = [normals(option.accelerator, draws, seed) for option in pool]
    pace = np.stack([
        draw(pace_of(o), sqrt(shared) * common + sqrt(1.0 - shared) * mine[0])
        for o, mine in zip(pool, own, strict=True)
    ])  # fmt: skip
    price = np.stack([draw(price_of(o), mine[1]) for o, mine in zip(pool, own, strict=True)])
    cost = np.array([[run_cost(o) or np.nan] for o in pool]) * price
    falls = np.array([[_falls(o)] for o in pool])
    cost = np.where(falls, cost / pace, cost)
    ends = np.array([[o.cost.per_run_usd is not None] for o in pool])
    kwh = np.array([[o.energy.kwh or np.nan] for o in pool]) / np.where(ends, pace, 1.0)
    varied = {
        "cost": _or_nothing(cost), "energy": _or_nothing(kwh),
        "speed": normalised_log(np.array([[speed(o)] for o in pool]) * pace),
    }  # fmt: skip
    return Drawn(tuple(o.accelerator for o in pool), _weighted(pool, varied, weights))


def _falls(option: Option) -> bool:
    """True for a cost that falls with speed: of work, but not of a run that counts as an hour anyway."""
    if option.cost.per_run_usd is not None and run_cost(option) != option.cost.per_run_usd:
        return False
    return any(getattr(option.cost, key) is not None for key in PER_WORK)


def _or_nothing(values: Any) -> Any:
    """Scores of quantities where less is better; all NaN where none is known."""
    return values if np.isnan(values).all() else normalised_low(values)


def _weighted(pool: Sequence[Option], varied: Mapping[str, Any], weights: Mapping[str, float]) -> Any:
    """Weighted mean over the known criteria of each row; options without a price get NaN."""
    given = weights.get
    mass = np.zeros((len(pool), 1))
    sums = np.zeros(varied["speed"].shape)
    for key, scores in varied.items():
        known = ~np.isnan(scores[:, :1])
        mass += given(key, 0.0) * known
        sums += given(key, 0.0) * np.where(known, scores, 0.0)
    fixed = [sum(given(key, 0.0) * o.score.criteria.get(key, 0.0) for key in FIXED) for o in pool]
    mass += sum(given(key, 0.0) for key in FIXED)
    unpriced = np.array([[run_cost(o) is None] for o in pool])
    return np.where(unpriced, np.nan, (sums + np.array(fixed)[:, None]) / np.where(mass > 0, mass, 1.0))


def drawn_pool(pool: Sequence[Option]) -> list[Option]:
    """The options that are drawn: the best, and those that set the scale of cost, energy or speed."""
    kept = {o.accelerator: o for o in [o for o in pool if run_cost(o) is not None][:MOST]}
    scales = [
        min((o for o in pool if run_cost(o)), key=lambda o: run_cost(o) or 0.0, default=None),
        min((o for o in pool if o.energy.kwh), key=lambda o: o.energy.kwh or 0.0, default=None),
        max(pool, key=speed, default=None),
    ]
    return list((kept | {o.accelerator: o for o in scales if o is not None}).values())


def settle(
    shown: Sequence[Option], pool: Sequence[Option], weights: Mapping[str, float], judgement: Judgement
) -> tuple[tuple[Option, ...], Stability | None, tuple[Note, ...]]:
    """The options with their share of the draws, the interval of their totals and their ties.

    `pool` is every card that was scored; those in `shown` bring their detailed costs. A set-up that is not
    its card's ranked count is neither drawn nor tied.
    """
    if not shown:
        return (), None, ()
    best = {(o.accelerator, o.count): o for o in shown}
    rows = [best.get((o.accelerator, o.count), o) for o in pool]
    drawn = draw_totals(drawn_pool(rows), weights, judgement)
    shares, winner = drawn.win_shares, shown[0]
    ranked = {(o.accelerator, o.count) for o in pool}
    settled = []
    for option in shown:
        name = option.accelerator
        if (name, option.count) not in ranked or name not in drawn.names:
            settled.append(option)
            continue
        low, high = drawn.interval(name)
        tied = option is not winner and drawn.beats(winner.accelerator, name) < BEATEN
        settled.append(replace(
            option, win_share=shares[name], tied_with_winner=tied,
            score=Score(option.score.total, option.score.criteria, low, high),
        ))  # fmt: skip
    found = tuple(settled)
    others = max(0.0, 1.0 - sum(o.win_share or 0.0 for o in found))
    stability = Stability(judgement.draws, judgement.seed, judgement.shared_error.value, others)
    return found, stability, _certainty(found, stability, shares)


def _certainty(
    settled: Sequence[Option], stability: Stability, shares: Mapping[str, float]
) -> tuple[Note, ...]:
    """How often the first option wins, who wins otherwise, and what cannot be told apart from it."""
    if len(shares) < 2:
        return ()
    first = settled[0]
    text = _("{name} ranks first in {p:.0f} % of {n} draws of speed and price").format(
        name=first.accelerator, p=100 * (first.win_share or 0.0), n=stability.draws
    )
    rest = sorted(((s, n) for n, s in shares.items() if n != first.accelerator and s >= 0.05), reverse=True)
    if rest:
        names = _(", ").join(_("{name} ({p:.0f} %)").format(name=n, p=100 * s) for s, n in rest[:3])
        text += _("; otherwise mostly {names}").format(names=names)
        if rest[0][0] > (first.win_share or 0.0):
            more = _(": {a} leads by the central estimates, {b} in more of the draws")
            text += more.format(a=first.accelerator, b=rest[0][1])
    notes = [Note("stability", text)]
    tied = [o.accelerator for o in settled if o.tied_with_winner]
    if tied:
        text = _(
            "a tie of {a} with {names}: the 80 % interval of the difference of their scores holds 0. Order "
            "within a tie: total to three digits, then lower cost, then fewer accelerators, then name"
        )
        more = _(" and {n} more").format(n=len(tied) - NAMED) if len(tied) > NAMED else ""
        named = _(", ").join(tied[:NAMED]) + more
        notes.append(Note("tie", text.format(a=first.accelerator, names=named)))
    return tuple(notes)


def irrelevant(pool: Sequence[Option], weights: Mapping[str, float]) -> tuple[Note, ...]:
    """Notes where the first option would change if another one, which does not win, were left out.

    Scores are relative to the field, so an option that only sets a scale can decide between two others.
    """
    priced = [o for o in pool if run_cost(o) is not None and o.score.criteria]
    if len(priced) < 3:
        return ()
    notes = []
    for left_out in priced[1:]:
        rest = [o for o in pool if o is not left_out]
        if not _sets_a_scale(left_out, pool):
            continue
        first = min(rescored(rest, weights), key=order_key)
        if first.accelerator != priced[0].accelerator:
            text = _("the order hangs on {x}: without it {b} would rank first, not {a}")
            notes.append(Note("depends-on-alternative", text.format(
                x=left_out.accelerator, b=first.accelerator, a=priced[0].accelerator)))  # fmt: skip
    return tuple(notes)


def _sets_a_scale(option: Option, pool: Sequence[Option]) -> bool:
    """True for the only option that is best in a criterion that is relative to the field."""
    others = [o for o in pool if o is not option]
    return any(
        value > max((o.score.criteria.get(key, 0.0) for o in others), default=0.0)
        for key, value in option.score.criteria.items()
        if key in ("cost", "speed", "energy", "ecosystem")
    )


def rescored(pool: Sequence[Option], weights: Mapping[str, float]) -> list[Option]:
    """The priced options of a field with totals relative to that field."""
    least = min((c for o in pool if (c := run_cost(o))), default=None)
    calm = min((e for o in pool if (e := o.energy.kwh)), default=None)
    quickest = max(speed(o) for o in pool)
    most = max(o.score.criteria.get("ecosystem", 0.0) for o in pool) or 1.0
    found = []
    for option in pool:
        cost = run_cost(option)
        if cost is None:
            continue
        scores = {**option.score.criteria, "speed": float(normalised_log([speed(option), quickest])[0])}
        scores["ecosystem"] = option.score.criteria.get("ecosystem", 0.0) / most
        if cost and least:
            scores["cost"] = least / cost
        if option.energy.kwh and calm:
            scores["energy"] = calm / option.energy.kwh
        found.append(replace(option, score=Score(total(scores, weights), scores)))
    return found


def price_of_second(options: Sequence[Option], weights: Mapping[str, float]) -> tuple[Note, ...]:
    """The price at which the runner-up would win, all else equal."""
    ranked: list[Option] = []
    for option in options:
        if option.score.criteria and all(option.accelerator != o.accelerator for o in ranked):
            ranked.append(option)
    if len(ranked) < 2:
        return ()
    first, second = ranked[0], ranked[1]
    share = _winning_share(first, second, ranked, weights)
    if share is None:
        return ()
    text = _("{second} would rank first at {p:.0f} % of its price").format(
        second=second.accelerator, p=100 * share
    )
    return (Note("price-of-second", text),)


def _winning_share(
    first: Option, second: Option, ranked: Sequence[Option], weights: Mapping[str, float]
) -> float | None:
    """Share of its price at which `second` scores as much as `first`; None when no price above 10 % does.

    With x the new cost and L the least cost of the others, the cost scores are min(L, x) / x and
    min(L, x) / c1; the two cases x >= L and x < L each have a closed solution.
    """
    c1, c2, weight = run_cost(first), run_cost(second), weights.get("cost", 0.0)
    gap = first.score.total - second.score.total
    if not c1 or not c2 or not weight or gap <= 0:
        return None
    mass = sum(weights.get(key, 0.0) for key in first.score.criteria)
    lead = gap * mass / weight - first.score.criteria["cost"] + second.score.criteria["cost"]
    least = min(c for o in ranked if o.accelerator != second.accelerator and (c := run_cost(o)))
    needed = lead + least / c1
    x = least / needed if 0.0 < needed <= 1.0 else c1 * (1.0 - lead)
    return x / c2 if 0.1 < x / c2 < 1.0 else None
