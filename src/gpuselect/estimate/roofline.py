"""Time of one operation: compute against memory traffic, at achieved rates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator inside its system, as the estimates see it.

    Fields are numbers, or arrays with one element per candidate. `gemm_efficiency` is the best
    measured share of the dense peak times the sustained share; `link` is one way inside the fast
    domain, `peer` between domains of one node, `network` one way per accelerator across nodes [byte/s].
    """

    peak: Any  # flop/s, precision of the multiplication
    peak_16bit: Any  # flop/s
    bandwidth: Any  # byte/s
    usable_bytes: Any
    link: Any
    link_latency: Any  # s per collective step
    domain: Any  # accelerators joined by `link`
    per_node: Any
    network: Any
    gemm_efficiency: Any
    bandwidth_efficiency: Any
    host_link: Any = float("inf")  # one way between card and host [byte/s]
    host_rate: Any = float("inf")  # traffic of an optimizer that the host of a node runs [byte/s]
    host_shared: Any = 1  # cards that share the host, however many of them a plan takes
    peer: Any = math.inf


def soft_max_time(*, compute: Any, memory: Any, overlap_loss: float = 0.3) -> Any:
    """Time of overlapping compute and traffic: the longer plus a part of the shorter [s].

    >>> float(soft_max_time(compute=1.0, memory=0.0))
    1.0
    """
    return np.maximum(compute, memory) + overlap_loss * np.minimum(compute, memory)


def gemm_shape_loss(*, kappa: Any, balance: Any, rows: Any, inner: Any, columns: Any) -> Any:
    """Extra share of a GEMM's time for small sides: kappa/3 * I * (1/rows + 1/inner + 1/columns).

    `balance` I is the machine balance, achieved flop/s over achieved byte/s.
    """
    return kappa / 3.0 * balance * (1.0 / rows + 1.0 / inner + 1.0 / columns)


def realised_peak(*, device: Device, gain_8bit: Any, gain_4bit: Any) -> Any:
    """Peak of the multiplication that training realises [flop/s]: R16 (R8/R16)^a (R4/R8)^b.

    Of the step from 16 to 8 bit, and from 8 to 4 bit, only a power a or b below 1 is won: some layers stay
    wide. Not narrower than 16 bit: the peak itself.
    """
    ratio = np.maximum(device.peak / device.peak_16bit, 1.0)
    first = np.minimum(ratio, 2.0)
    gain = first**gain_8bit * (ratio / first) ** gain_4bit
    return np.where(device.peak > device.peak_16bit, device.peak_16bit * gain, device.peak)
