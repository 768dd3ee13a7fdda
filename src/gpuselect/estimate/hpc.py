"""Scientific computing: the roofline of a code with given arithmetic and memory traffic.

Williams 2009, "Roofline: an insightful visual performance model", CACM 52(4): time is the longer of
arithmetic at the achieved rate and traffic at the achieved bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.estimate.roofline import Device


@dataclass(frozen=True, slots=True)
class Run:
    """Time of a code on all cards [s] and what bounds it."""

    seconds: Any
    compute: Any
    memory: Any
    communication: Any
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
    exchange: Any = 0.0,
    link: Any = 1.0,
    overlap: Any = 0.0,
) -> Run:
    """Roofline time of `flops` and `traffic` bytes over `count` cards [s].

    Assumes that the work divides evenly. `exchange` is the share of the traffic whose owner is another card:
    of it (count - 1) / count crosses the `link` [byte/s] of each card, hidden up to `overlap` of the work.
    Each doubling of the cards loses `scale_loss` on top.

    >>> run = run_time(flops=1e15, traffic=1e12, peak=1e13, bandwidth=1e12, count=1,
    ...                compute_efficiency=1.0, bandwidth_efficiency=1.0, scale_loss=0.0)
    >>> float(run.seconds), float(run.memory)
    (100.0, 1.0)
    >>> two = run_time(flops=1e15, traffic=1e14, peak=1e13, bandwidth=1e12, count=2, exchange=0.5, link=5e11,
    ...                compute_efficiency=1.0, bandwidth_efficiency=1.0, scale_loss=0.0)
    >>> float(two.seconds), float(two.communication)
    (75.0, 25.0)
    """
    compute = flops / (count * peak * compute_efficiency)
    memory = traffic / (count * bandwidth * bandwidth_efficiency)
    work = np.maximum(compute, memory)
    crossing = exchange * traffic / count * (count - 1.0) / count / link
    exposed = np.maximum(crossing - overlap * work, 0.0)
    seconds = (work + exposed) * (1.0 + scale_loss * np.log2(np.maximum(count, 1)))
    return Run(
        seconds=seconds, compute=compute, memory=memory, communication=exposed, flops_per_s=flops / seconds
    )


def link_rate(device: Device, count: Any) -> Any:
    """Rate at which one card exchanges data with the others, one way [byte/s].

    Inside the fast domain, or the node over PCIe, the link; across nodes the network of a card, where that
    is slower.
    """
    inside = count <= np.maximum(device.domain, device.per_node)
    return np.where(inside, device.link, np.minimum(device.link, device.network))
