"""Memory of decoder rows: need against measured peak, and fit decisions."""

from __future__ import annotations

from gpuselect.accuracy.records import Fit, Row
from gpuselect.options import CLOSE_ABOVE
from gpuselect.search import TIGHT_FROM
from gpuselect.units import GIB


def fit_for(row: Row, *, need: float, usable: float) -> Fit:
    """The fit record of a need and a usable size [B]: `tight` is 0.85 to 1.15 of the usable memory."""
    share = need / usable
    state = "fits" if share <= TIGHT_FROM else "tight" if share <= CLOSE_ABOVE else "no"
    return Fit(
        row_id=row.get("row_id", ""), measured=row.get("outcome", "ok") == "ok", predicted=need <= usable,
        state=state, need_gib=need / GIB, usable_gib=usable / GIB,
    )  # fmt: skip
