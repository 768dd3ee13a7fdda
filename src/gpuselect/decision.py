"""Records of an answer. Computed by `advisor`, read by `report`; no formula lives here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Offer:
    """The price row that a cost rests on."""

    provider: str
    instance: str
    region: str
    term: str
    as_of: str  # empty: undated
    source: str
    is_offer: bool


@dataclass(frozen=True, slots=True)
class Cost:
    """USD. None: unknown, never 0. `items` are (what, USD, per: hour | once | month)."""

    per_hour_usd: float | None = None
    per_run_usd: float | None = None
    per_month_usd: float | None = None
    per_million_tokens_usd: float | None = None
    per_thousand_images_usd: float | None = None  # images, or sequences, clips and rows
    acquisition_usd: float | None = None
    buy_per_hour_usd: float | None = None  # amortised purchase, energy and hosting
    items: tuple[tuple[str, float, str], ...] = ()
    offer: Offer | None = None
    purchase: Offer | None = None


@dataclass(frozen=True, slots=True)
class Energy:
    """Power of the deployment [W], energy [kWh] and carbon [kg CO2e] of the run (or of a month)."""

    power_w: float | None = None
    kwh: float | None = None
    kgco2e: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """Total in 0..1 and the criteria it is made of."""

    total: float
    criteria: Mapping[str, float] = field(default_factory=dict)


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
    cost: Cost = Cost()
    energy: Energy = Energy()
    score: Score = Score(0.0)
    rank: int = 0
    roles: tuple[str, ...] = ()  # best, smallest, cheapest, fastest, no-price
    on_pareto_front: bool = False
    tied_with_winner: bool = False
    reasons: tuple[Note, ...] = ()
    warnings: tuple[Note, ...] = ()


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
