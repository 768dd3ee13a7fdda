"""Scientific computing: the roofline of a code with given arithmetic and memory traffic.

Williams 2009, "Roofline: an insightful visual performance model", CACM 52(4): time is the longer of
arithmetic at the achieved rate and traffic at the achieved bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Run:
    """Time of a code on all cards [s] and what bounds it."""

    seconds: Any
    compute: Any
    memory: Any
    flops_per_s: Any  # achieved, all cards


def run_time(
    *,
    flops: Any,
    traffic: Any,
    peak: Any,
    bandwidth: Any,
    count: Any,
    compute_efficiency: Any,
    bandwidth_efficiency: Any,
    scale_loss: Any,
) -> Run:
    """Roofline time of `flops` and `traffic` bytes over `count` cards [s].

    Assumes that the work divides evenly; each doubling of the cards loses `scale_loss`.

    >>> run = run_time(flops=1e15, traffic=1e12, peak=1e13, bandwidth=1e12, count=1,
    ...                compute_efficiency=1.0, bandwidth_efficiency=1.0, scale_loss=0.0)
    >>> float(run.seconds), float(run.memory)
    (100.0, 1.0)
    """
    compute = flops / (count * peak * compute_efficiency)
    memory = traffic / (count * bandwidth * bandwidth_efficiency)
    seconds = np.maximum(compute, memory) * (1.0 + scale_loss * np.log2(np.maximum(count, 1)))
    return Run(seconds=seconds, compute=compute, memory=memory, flops_per_s=flops / seconds)
