"""Records of an explanation. Computed here, read by `report` and `cli`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuselect.decision import Note, Option


@dataclass(frozen=True, slots=True)
class Gap:
    """One criterion: weight, score of the card, score of the other, and what that adds to its total."""

    criterion: str
    weight: float
    score: float | None
    other: float | None
    points: float  # above 0: the card is ahead


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was changed alone, and what the engine answered then.

    `value` and `base` are in `unit`; `rank` is the place of the card with the change, None where it is
    not ranked then either.
    """

    what: str  # price, count, deadline, budget, precision, weights, method, ttft, tpot, latency, demand, ...
    base: float | str | None
    value: float | str | None
    unit: str
    rank: int | None
    text: str

    @property
    def wins(self) -> bool:
        """True when the card ranks first with the change."""
        return self.rank == 1


@dataclass(frozen=True, slots=True)
class Switch:
    """Where the first place passes to another card when one input moves alone.

    `value` None: no switch between `base` and `end`, the last value that was tried. `to` empty beside a
    value: nothing meets the request there.
    """

    what: str  # price, utilization, demand, deadline, electricity
    base: float
    value: float | None
    end: float
    unit: str
    to: str  # accelerator that ranks first then; empty: none
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to `explain CARD`.

    `state`: wins, ranked, unpriced, missed (deadline or budget) or rejected (a rule, memory, a bound).
    """

    workload: Mapping[str, object]
    workload_sentence: str
    accelerator: str
    state: str
    verdict: str
    rejection: Note | None
    rank: int | None
    ranked: int  # cards with a price that were ranked
    option: Option | None
    other: Option | None  # the first option, or the second when the card is first
    gaps: tuple[Gap, ...]
    changes: tuple[Change, ...]
    switches: tuple[Switch, ...]
    notes: tuple[Note, ...] = ()
