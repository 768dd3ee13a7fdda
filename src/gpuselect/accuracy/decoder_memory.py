"""Memory of decoder rows: need against measured peak, and fit decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuselect.accuracy.records import Fit, Row
from gpuselect.calibration import Calibration
from gpuselect.estimate.memory import training_memory
from gpuselect.options import CLOSE_ABOVE
from gpuselect.search import TIGHT_FROM
from gpuselect.units import GIB

if TYPE_CHECKING:
    from gpuselect.accuracy.decoder_training import Case


def training_need(*, case: Case, calibration: Calibration, kind: str) -> float:
    """Predicted peak per accelerator [B] in the sense of `mem_kind`.

    `allocated` counts tensors only, `reserved` what the allocator holds, anything else the driver's
    view: with context and collective buffers (feasibility study, section 2.5).
    """
    constants = calibration.memory
    need = training_memory(
        shape=case.shape, plan=case.plan, recipe=case.recipe, seq_len=case.seq_len,
        fragmentation=1.0 if kind == "allocated" else float(constants.fragmentation),
        context_bytes=0.0
        if kind in ("allocated", "reserved")
        else float(constants.training_context_gib) * GIB,
    )  # fmt: skip
    return float(need.total)


def fit_for(row: Row, *, need: float, usable: float) -> Fit:
    """The fit record of a need and a usable size [B]: `tight` is 0.85 to 1.15 of the usable memory."""
    share = need / usable
    state = "fits" if share <= TIGHT_FROM else "tight" if share <= CLOSE_ABOVE else "no"
    return Fit(
        row_id=row.get("row_id", ""), measured=row.get("outcome", "ok") == "ok", predicted=need <= usable,
        state=state, need_gib=need / GIB, usable_gib=usable / GIB,
    )  # fmt: skip
