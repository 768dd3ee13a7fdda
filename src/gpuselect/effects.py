"""The effect of an optimisation on one answer, and what a power cap leaves of a card."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

from gpuselect.estimate.roofline import Device
from gpuselect.i18n import _

FIXED_POWER = 0.3  # share of the power that does not follow the clock: an assumption
CAP = 0.8  # of the power at the load
CAPPED_CLOCK = ((CAP - FIXED_POWER) / (1.0 - FIXED_POWER)) ** (1.0 / 3.0)  # P = 0.3 + 0.7 f^3


@dataclass(frozen=True, slots=True)
class Effect:
    """An optimisation on one run: need per accelerator [B] and time for the same work [s], without and with.

    `in_use`: the answer already counts on it, so "without" is what it would be if it were dropped.
    """

    code: str
    what: str  # which setting, in words
    _: KW_ONLY
    in_use: bool
    memory: tuple[float, float] | None = None
    seconds: tuple[float, float] | None = None
    energy_ratio: float | None = None  # only where power changes
    risk_known: bool = True  # the source of the accuracy risk covers this setting


def slowed(own: Device) -> Device:
    """The card with the clock that a power cap leaves; memory and links keep their rate."""
    return replace(own, peak=own.peak * CAPPED_CLOCK, peak_16bit=own.peak_16bit * CAPPED_CLOCK)


def capped(seconds: float, slow: float) -> Effect:
    """Time and energy of the same work under the cap."""
    what = _("{cap:.0%} of the load's power").format(cap=CAP)
    return Effect(
        "power-cap",
        what,
        seconds=(seconds, slow),
        energy_ratio=CAP * slow / seconds,
        in_use=False,
    )
