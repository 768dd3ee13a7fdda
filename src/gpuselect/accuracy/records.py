"""What a prediction of a measured row gives, and why a row may have none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuselect.i18n import _

Row = Mapping[str, str]
TIMES = frozenset({"step_time_s", "ttft_ms", "tpot_ms", "latency_ms"})

# Why a row, or its only metric, is not predicted: one sentence for each code.
SKIP_REASONS: Mapping[str, str] = {
    "arch-not-covered": "The memory formulas do not cover this architecture yet.",
    "beyond-peak": "The figure passes the peak or the bandwidth of the cards that the row names.",
    "counts-missing": "The catalog does not hold the operations or the sizes of this network.",
    "disaggregated": "Prefill and decode run on separate pools; that has no term in the model.",
    "family-not-covered": "Networks of this family are not estimated.",
    "figures-missing": "The catalog lacks the memory size, the bandwidth or the rate of the precision.",
    "format-unknown": "The weight format is not in the catalog.",
    "hardware-mixed": "Cards of different kinds share the model; that has no term in the model.",
    "hardware-unknown": "The accelerator is not in the catalog.",
    "hardware-unspecified": "The row does not name the accelerator.",
    "length-unknown": "The length of the input is not stated, and there is no usual one.",
    "malformed-cell": "A cell that must hold a number holds something else.",
    "memory-preallocated": "The engine reserves a share of the card, so its footprint is not its need.",
    "mig-slice": "The measurement is of a slice of a card; the catalog describes whole cards.",
    "no-metric": "The row holds no metric that is predicted.",
    "offload-not-covered": "States or weights are moved to the host; that has no term in the model.",
    "out-of-range": "The figures of the row lead to no finite prediction.",
    "sample-undefined": "What a sample holds is not stated (a scan of any size, a search of many answers).",
    "size-unknown": "Neither the row nor the catalog gives the size of the model.",
    "tail-latency": "Tail percentiles depend on arrivals and scheduling and are not predicted.",
    "technique-not-covered": "Speculative or multi-token decoding has no term in the model.",
    "figure-doubtful": "The page itself doubts the row's memory.",
    "above-peak": "The rate needs more than the peak: padding was left out, or inputs were smaller.",
    "input-bound": "The source says that loading the data limits the run: its rate is that of the loader.",
    "two-stage": "A batch of a two-stage detector goes through the host picture by picture.",
    "unit-doubtful": "The rate of the row would mean a training step of many minutes: its unit is another.",
    "ttft-under-load": "Time to first token under load is queueing and is not predicted.",
}


@dataclass(frozen=True, slots=True)
class Scored:
    """One metric of one row: what was measured and what the engine predicts, in the row's unit.

    `interval` is the key of `calibration.quantiles` that gives the 80 % interval; empty where none is
    known. `assumed`: the row left something open that the prediction needs.
    """

    row_id: str
    source: str
    slice: str
    metric: str
    measured: float
    predicted: float
    interval: str = ""
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that is not predicted, and why; `detail` is what exactly stood in the way."""

    row_id: str
    code: str
    detail: str = ""

    @property
    def reason(self) -> str:
        """The sentence of the code, with the detail."""
        sentence = _(SKIP_REASONS.get(self.code, self.code))
        return f"{sentence} ({self.detail})" if self.detail else sentence


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a row ran, and whether its need is predicted to fit. Sizes in GiB per accelerator."""

    row_id: str
    measured: bool
    predicted: bool
    state: str  # fits | tight | no
    need_gib: float
    usable_gib: float


class Skip(Exception):  # noqa: N818  a control-flow signal inside this package
    """Leaves a prediction with a skip code."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


def skipped(row: Row, skip: Skip) -> Skipped:
    """The record of a row that was left."""
    return Skipped(row.get("row_id", ""), skip.code, skip.detail)
