"""Records of an answer. Computed by `advisor`, read by `report`; no formula lives here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuselect.money_records import NO_COST, NO_ENERGY, Cost, Energy
from gpuselect.plan import Plan


@dataclass(frozen=True, slots=True)
class Note:
    """A reason, warning, advice or rejection: a stable code and one sentence."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 80 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Memory per accelerator [GiB] against what is usable. `state`: fits, tight or no."""

    per_accelerator_gib: float
    usable_gib: float
    breakdown_gib: Mapping[str, float]
    state: str
    host_gib: float = 0.0  # of the host, for each accelerator: states that are offloaded

    @property
    def headroom_pct(self) -> float:
        """Free share of the usable memory [%], negative when it does not fit."""
        return 100.0 * (1.0 - self.per_accelerator_gib / self.usable_gib)


@dataclass(frozen=True, slots=True)
class FrameworkChoice:
    """Framework or engine of an option, why, and the command that starts it."""

    id: str
    name: str
    why: str
    launch: tuple[str, ...] = ()
    version: str = ""
    licence: str = ""  # empty where it is unknown
    criteria: Mapping[str, float] = field(default_factory=dict)  # shares of 1; only of the option shown first
    total: float = 0.0
    alternative_id: str = ""
    alternative: str = ""  # name of the second best
    lost: tuple[Note, ...] = ()  # why the others lost
    vendors: tuple[str, ...] = ()  # whose accelerators the choice keeps open
    evidence: str = ""  # maturity, and the date of its evidence
    aged: tuple[str, ...] = ()  # claims that still circulate, and what holds now


@dataclass(frozen=True, slots=True)
class Advice:
    """An optimisation with its computed effect on the option: without it and with it."""

    code: str
    name: str
    text: str
    in_use: bool  # the answer already counts on it
    memory_gib: tuple[float, float] | None = None  # per accelerator
    seconds: tuple[float, float] | None = None  # for the same work
    usd: tuple[float, float] | None = None  # for the same work
    usd_per: str = ""  # which work that is
    energy_ratio: float | None = None
    accuracy_risk: str = ""  # empty: not known
    how: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """Total in 0..1 and the criteria it is made of."""

    total: float
    criteria: Mapping[str, float] = field(default_factory=dict)
    low: float | None = None  # 80 % interval over the draws of speed and price; None: not drawn
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """Another card of the same kind as an option: its own count, total and cost of the work [USD]."""

    accelerator: str
    accelerator_name: str
    count: int
    total: float
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Stability:
    """How the shares of the draws in which an option ranks first were found."""

    draws: int
    seed: int
    shared_error: float  # part of the variance of speed that all cards share
    others: float  # share of the draws in which a card that is not listed ranks first


@dataclass(frozen=True, slots=True)
class Option:
    """One complete answer: hardware, plan, framework, memory, speed, cost."""

    accelerator: str
    accelerator_name: str
    count: int
    nodes: int
    plan: Plan
    precision: str
    weights: str
    kv: str
    framework: FrameworkChoice | None
    memory: MemoryFit
    performance: Mapping[str, Estimate]
    step_breakdown: Mapping[str, float] = field(default_factory=dict)  # seconds or shares by term
    cost: Cost = NO_COST
    energy: Energy = NO_ENERGY
    score: Score = Score(0.0)
    rank: int = 0
    roles: tuple[str, ...] = ()  # best, smallest, cheapest, fastest, no-price
    on_pareto_front: bool = False
    tied_with_winner: bool = False
    reasons: tuple[Note, ...] = ()
    warnings: tuple[Note, ...] = ()
    kind: str = ""  # of card: form factors and memory sizes of one card are one kind
    variants: tuple[Variant, ...] = ()  # others of the kind that were ranked
    win_share: float | None = None  # of the draws in which it ranks first


@dataclass(frozen=True, slots=True)
class FieldPoint:
    """One scored card at its count: the cost of the work [USD] and the metric of the field."""

    accelerator: str
    accelerator_name: str
    count: int
    value: float
    cost_usd: float
    on_front: bool  # no other card is both cheaper and better


@dataclass(frozen=True, slots=True)
class FieldOfCards:
    """Every scored card with a price, cost against one metric. `cost` is a field of Cost."""

    metric: str
    cost: str
    points: tuple[FieldPoint, ...]


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """The card of the first option at another count. `efficiency`: gain per card, 1 at the least count."""

    count: int
    nodes: int
    estimate: Estimate
    cost_usd: float | None
    efficiency: float | None


@dataclass(frozen=True, slots=True)
class Scaling:
    """How a metric changes with the number of cards. `cost` is a field of Cost."""

    metric: str
    cost: str
    points: tuple[ScalePoint, ...]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A measured row near an option, and what the same engine predicts for that row.

    `metric` is the column that was measured; `differs` says in words where the row is not the option.
    """

    row_id: str
    title: str
    reference: str
    as_of: str
    what: str
    metric: str
    measured: float
    predicted: float | None
    differs: tuple[str, ...]
    same_card: bool


@dataclass(frozen=True, slots=True)
class Growth:
    """The answer to `factor` times the work, from a second run of the engine.

    `same` stays with the card of the first option, `best` is free to change it. None: nothing fits.
    """

    factor: float
    text: str
    same: Option | None
    best: Option | None
    added: int | None  # accelerators of the same card


@dataclass(frozen=True, slots=True)
class AcceptanceStep:
    """One step of the acceptance test: what to do, and the command (empty where there is none)."""

    text: str
    command: str


@dataclass(frozen=True, slots=True)
class Considered:
    """Verdict on one accelerator of the catalog. `rejection` is None when some count fits."""

    accelerator: str
    feasible: bool
    min_count: int | None
    rejection: Note | None
    single_feasible: bool
    single_rejection: Note | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to `recommend`."""

    workload: Mapping[str, object]
    workload_sentence: str
    assumptions: tuple[Note, ...]
    recommendations: tuple[Option, ...]
    unpriced: tuple[Option, ...]
    considered: tuple[Considered, ...]
    near_misses: tuple[Note, ...]
    sensitivity: tuple[Note, ...]
    next_commands: tuple[str, ...]
    data_date: str  # newest date among the price rows
    sources_used: tuple[tuple[str, str], ...]  # (key, title) of the figures behind the winner
    advice: tuple[Advice, ...] = ()  # for the first option
    stability: Stability | None = None
    field: FieldOfCards | None = None
    scaling: Scaling | None = None  # of the first option
    # only where a report is asked for (`outlook`)
    neighbours: tuple[Neighbour, ...] = ()
    growth: Growth | None = None
    acceptance: tuple[AcceptanceStep, ...] = ()
    risks: tuple[Note, ...] = ()
    data: tuple[tuple[str, str], ...] = ()  # what the data folder held: name and value


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest value of one setting that still fits with the plan of the answer."""

    code: str  # micro-batch, seq-len, concurrency, context, zero-floor-gib; with bounds -in-bounds
    value: int
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change that makes a miss fit, and the need per accelerator with it [GiB]."""

    code: str
    text: str
    need_gib: float
    usable_gib: float


@dataclass(frozen=True, slots=True)
class Miss:
    """The plan that came nearest to fitting."""

    accelerator: str
    count: int
    plan: Plan
    memory: MemoryFit


@dataclass(frozen=True, slots=True)
class FitAnswer:
    """The answer to `estimate`."""

    workload: Mapping[str, object]
    workload_sentence: str
    assumptions: tuple[Note, ...]
    state: str  # fits | tight | no
    option: Option | None  # the best plan, or the nearest miss when nothing fits
    reasons: tuple[Note, ...]
    alternatives: tuple[Option, ...]
    next_commands: tuple[str, ...]
    limits: tuple[Limit, ...] = ()  # how far the best plan goes
    changes: tuple[Change, ...] = ()  # what would make a miss fit, the smallest first
    nearest: Miss | None = None
    footprint_gib: float | None = None  # what a serving engine takes whatever the need
    advice: tuple[Advice, ...] = ()  # for the best plan
