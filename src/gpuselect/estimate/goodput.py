"""Goodput of a run that failures interrupt: the share of the time that trains."""

from __future__ import annotations

from typing import Any


def goodput(*, count: Any, failures: Any, lost: Any) -> Any:
    """Share of the time that is not lost to failures: 1 / (1 + n f l).

    Any of `count` accelerators stops the whole run; each fails `failures` times an hour, and a failure costs
    `lost` hours, half a checkpoint interval and the restart (Young 1974, "A first order approximation to the
    optimum checkpoint interval"). Writing a checkpoint costs nothing here: it is done beside the training.

    >>> round(goodput(count=16_384, failures=419 / (54 * 24 * 16_384), lost=0.25), 2)
    0.93
    """
    return 1.0 / (1.0 + count * failures * lost)
