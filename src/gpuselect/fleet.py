"""Many workloads in one run: an answer for each, and the fewest kinds of cards that serve them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.advisor import chosen_variant, recommend
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.decision import Note, Option
from gpuselect.i18n import _
from gpuselect.judging import Judged, judge
from gpuselect.score import Judgement
from gpuselect.selection import run_cost
from gpuselect.sentences import sentence
from gpuselect.tco import CostDefaults
from gpuselect.verdicts import rejection_of
from gpuselect.workload import Workload

FURTHEST = (
    "slo-missed",
    "deadline-missed",
    "over-budget",
    "over-carbon",
)  # cards that had a plan, or a count
MORE_KINDS = 3  # beyond the fewest, to show what each saves
SEARCH_LIMIT = 200_000  # steps of the exact cover before the greedy one stands


@dataclass(frozen=True, slots=True)
class Use:
    """What a workload takes of one card: the count, and the cost of the work [USD]."""

    count: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class Member:
    """The answer for one workload. `best` None: nothing with a price meets it, `reason` says why."""

    name: str
    workload_sentence: str
    best: Option | None
    reason: Note | None
    uses: Mapping[str, Use]  # every card with a price that serves it


@dataclass(frozen=True, slots=True)
class Cover:
    """The fewest kinds of cards that serve every workload that can be served.

    `dearer` is the mean over the workloads of the cost with these cards over that of the cheapest card.
    """

    cards: tuple[str, ...]
    method: str  # exact, or greedy where the search was cut off
    assigned: Mapping[str, tuple[str, Use]]  # workload -> card and what it takes
    dearer: float
    more: tuple[tuple[str, float], ...] = ()  # the next kind to add, and `dearer` with it


@dataclass(frozen=True, slots=True)
class Fleet:
    """The answer to `recommend --workloads`."""

    members: tuple[Member, ...]
    cover: Cover | None


def plan_fleet(
    workloads: Sequence[tuple[str, Workload, Catalog]], calibration: Calibration, defaults: CostDefaults,
    judgement: Judgement, *, today: str, progress: Callable[[int], None] = lambda _done: None,
) -> Fleet:  # fmt: skip
    """Judge each workload and cover them all; workloads that are alike are judged once.

    `workloads` are name, workload and the catalog that it is asked of; `progress` is called with the
    number that is done.
    """
    known: dict[str, Member] = {}
    members = []
    for done, (name, workload, catalog) in enumerate(workloads, 1):
        key = workload.model_dump_json()
        if key not in known:
            known[key] = _member(name, workload, catalog, calibration, defaults, judgement, today)
        alike = known[key]
        members.append(Member(name, alike.workload_sentence, alike.best, alike.reason, alike.uses))
        progress(done)
    return Fleet(tuple(members), cover_of(members))


def _member(
    name: str, workload: Workload, catalog: Catalog, calibration: Calibration, defaults: CostDefaults,
    judgement: Judgement, today: str,
) -> Member:  # fmt: skip
    if workload.series is not None:
        workload, _note = chosen_variant(
            workload, catalog,
            lambda w: recommend(w, catalog, calibration, defaults, today=today, judgement=judgement),
        )  # fmt: skip
    judged = judge(workload, catalog, calibration, defaults, today=today, judgement=judgement)
    uses = {
        o.accelerator: Use(o.count, cost)
        for o in judged.ranking.pool
        if (cost := run_cost(o)) is not None
    }  # fmt: skip
    best = judged.ranking.listed[0] if judged.ranking.listed else None
    return Member(
        name, sentence(judged.job), best, None if best else _reason(judged, workload, catalog), uses
    )


def _reason(judged: Judged, workload: Workload, catalog: Catalog) -> Note:
    """Why nothing serves a workload: the most frequent reason among the cards that came furthest."""
    if judged.ranking.unpriced:
        text = _("{card} fits, but no price is known").format(card=judged.ranking.unpriced[0].accelerator)
        return Note("no-price", text)
    notes = [
        note for card in catalog.accelerators if (note := rejection_of(card, judged, workload)) is not None
    ]
    codes = [note.code for note in notes]
    far = [code for code in codes if code in FURTHEST] or codes
    code = max(dict.fromkeys(far), key=far.count)
    text = next(note.text for note in notes if note.code == code)
    return Note(code, _("{n} accelerators, the first: {text}").format(n=codes.count(code), text=text))


def cover_of(members: Sequence[Member]) -> Cover | None:
    """The fewest kinds that serve all, by an exact search, or greedily where that takes too long.

    Among covers of that size the costs are brought down by exchanging one card at a time.
    """
    served = [member for member in members if member.uses]
    if not served:
        return None
    names = sorted({card for member in served for card in member.uses})
    dearer = dearer_table(served, names)
    everything = (1 << len(served)) - 1
    masks = {
        card: sum(1 << int(bit) for bit in np.flatnonzero(np.isfinite(dearer[:, column])))
        for column, card in enumerate(names)
    }
    greedy = greedy_cover(masks, everything)
    exact = exact_cover(masks, everything, len(greedy))
    columns = cheapened([names.index(card) for card in exact or greedy], dearer)
    assigned = {}
    for member, row in zip(served, dearer, strict=True):
        card = names[min(columns, key=lambda c: (row[c], c))]
        assigned[member.name] = (card, member.uses[card])
    used = tuple(sorted({card for card, _use in assigned.values()}))
    mean = float(dearer[:, columns].min(axis=1).mean())
    more = tuple((names[column], ratio) for column, ratio in next_kinds(columns, dearer))
    return Cover(used, "exact" if exact else "greedy", assigned, mean, more)


def dearer_table(served: Sequence[Member], names: Sequence[str]) -> Any:
    """Cost of each workload (row) on each card (column) over its least cost; infinite where none fits."""
    table = np.full((len(served), len(names)), np.inf)
    column = {card: n for n, card in enumerate(names)}
    for row, member in enumerate(served):
        least = min(use.cost_usd for use in member.uses.values())
        for card, use in member.uses.items():
            table[row, column[card]] = use.cost_usd / least if least else 1.0
    return table


def greedy_cover(masks: Mapping[str, int], everything: int) -> tuple[str, ...]:
    """Take the card that serves most of what is left, until nothing is left.

    >>> greedy_cover({"a": 0b011, "b": 0b110, "c": 0b100}, 0b111)
    ('a', 'b')
    """
    left, cards = everything, []
    while left:
        card = min(masks, key=lambda c: (-(masks[c] & left).bit_count(), c))
        if not masks[card] & left:
            break
        cards.append(card)
        left &= ~masks[card]
    return tuple(cards)


def exact_cover(masks: Mapping[str, int], everything: int, most: int) -> tuple[str, ...] | None:
    """A smallest cover of at most `most` cards; None when the search takes more than its steps.

    Cards that serve no more than another one are left out; the workload with the fewest cards is
    covered first.

    >>> exact_cover({"a": 0b0011, "b": 0b1100, "c": 0b0110}, 0b1111, 3)
    ('a', 'b')
    """
    useful = [
        card for card, mask in masks.items()
        if not any(mask | other == other and (mask != other or name < card)
                   for name, other in masks.items() if name != card)
    ]  # fmt: skip
    steps = [0]
    bits = range(everything.bit_length())
    order = sorted(bits, key=lambda bit: sum(masks[card] >> bit & 1 for card in useful))

    def search(left: int, size: int) -> tuple[str, ...] | None:
        if not left:
            return ()
        if size == 0 or steps[0] > SEARCH_LIMIT:
            return None
        steps[0] += 1
        reach = max((masks[c] & left).bit_count() for c in useful)
        if reach * size < left.bit_count():
            return None
        rarest = next(bit for bit in order if left >> bit & 1)
        able = [card for card in useful if masks[card] >> rarest & 1]
        for card in sorted(able, key=lambda c: (-(masks[c] & left).bit_count(), c)):
            rest = search(left & ~masks[card], size - 1)
            if rest is not None:
                return (card, *rest)
        return None

    for size in range(1, most + 1):
        found = search(everything, size)
        if steps[0] > SEARCH_LIMIT:
            return None
        if found is not None:
            return found
    return None


def next_kinds(columns: Sequence[int], dearer: Any) -> list[tuple[int, float]]:
    """The kinds to add one after the other, each the one that saves most, with the mean cost then.

    >>> next_kinds([0], np.array([[1.5, 2.0], [3.0, 1.0]]))
    [(1, 1.25)]
    """
    held, found = dearer[:, list(columns)].min(axis=1), []
    for _step in range(MORE_KINDS):
        means = np.minimum(held[:, None], dearer).mean(axis=0)
        column = int(means.argmin())
        if means[column] >= held.mean() - 1e-9:
            break
        held = np.minimum(held, dearer[:, column])
        found.append((column, float(held.mean())))
    return found


def cheapened(columns: Sequence[int], dearer: Any) -> list[int]:
    """The cover after exchanging one card at a time for another as long as that lowers the mean cost.

    >>> cheapened([0, 1], np.array([[1.5, np.inf, 1.0], [np.inf, 1.0, np.inf]]))
    [2, 1]
    """
    best = list(columns)
    cost, improved = float(dearer[:, best].min(axis=1).mean()), True
    while improved:
        improved = False
        for place in range(len(best)):
            rest = [column for n, column in enumerate(best) if n != place]
            held = dearer[:, rest].min(axis=1) if rest else np.full(len(dearer), np.inf)
            means = np.minimum(held[:, None], dearer).mean(axis=0)
            column = int(means.argmin())
            if means[column] < cost - 1e-9:
                best[place], cost, improved = column, float(means[column]), True
    return best
