"""Requests that arrive at random: the batch that runs, and how long a prompt waits for its first token.

Modelled, not validated on measured rows; checked against a discrete-event simulation in the tests.
Arrivals are Poisson or come in bursts, lengths do not vary. Steps of the server follow each other: each
takes in what waits and decodes one token of every running sequence. Numbers or arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

HALVINGS = 14  # of the interval that holds the running batch
DETERMINISTIC = 0.5  # wait of service times without spread against exponential ones (Lee and Longton 1959)
SATURATED = 0.95  # share of the capacity above which waiting grows too steeply to be estimated


@dataclass(frozen=True, slots=True)
class Load:
    """An open system: share of its capacity that is used, TTFT [s] mean and at a percentile."""

    utilisation: Any
    ttft: Any
    ttft_tail: Any

    @property
    def stable(self) -> Any:
        """True where the queue does not grow."""
        return self.utilisation < SATURATED


def running_batch(*, rate: Any, requests_per_s: Callable[[Any], Any], most: Any) -> Any:
    """Sequences per replica that arrivals at `rate` keep running, `most` where they exceed the capacity.

    Little's law: the batch B at which the closed system completes `rate` requests per second;
    `requests_per_s` of a batch never falls. The upper end of the last interval is returned, so that
    the rate is sustained.

    >>> float(running_batch(rate=2.0, requests_per_s=lambda batch: batch / 4.0, most=64.0)) < 8.01
    True
    """
    low, high = np.ones_like(most * 1.0), most * 1.0
    for _halving in range(HALVINGS):
        middle = np.sqrt(low * high)
        enough = requests_per_s(middle) >= rate
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(requests_per_s(np.ones_like(high)) >= rate, 1.0, high)


def waiting_for_a_slot(*, utilisation: Any, slots: Any, service: Any) -> Any:
    """Mean wait until one of `slots` sequences ends [s]: M/M/c, approximation of Sakasegawa (1977).

    W = service rho^(sqrt(2 (c + 1)) - 1) / (c (1 - rho)).

    >>> round(float(waiting_for_a_slot(utilisation=0.5, slots=1.0, service=1.0)), 6)
    1.0
    """
    busy = np.minimum(utilisation, 0.999)
    return service * busy ** (np.sqrt(2.0 * (slots + 1.0)) - 1.0) / (slots * (1.0 - busy))


def load_of(
    *,
    rate: Any,
    capacity: Any,
    prefill: Any,
    step: Any,
    chunks: Any,
    service: Any,
    slots: Any,
    overhead: Any,
    percentile: float,
    burstiness: float = 1.0,
) -> Load:
    """Time to first token of one replica that receives `rate` requests per second [s].

    A prompt takes `prefill` seconds of the server, and one more decode `step` for each further of its
    `chunks`. With u = rate * prefill a step lasts T = step / (1 - u) on average. A prompt waits half a
    step, then its own; prompts queue as in M/D/1 (Pollaczek-Khinchine), and for a free slot as in M/M/c.
    The percentile lies as many spreads above the mean as in an exponential distribution. `capacity` is
    the most that one replica completes [1/s]. `burstiness` is the squared coefficient of variation of the
    gaps between arrivals, 1 for Poisson; it multiplies every wait for others (Kingman 1961, services alike).
    """
    own = prefill + (chunks - 1.0) * step
    used = np.minimum(rate * own, 0.999)
    cycle = step / (1.0 - used)
    queue = burstiness * rate * own**2 / (2.0 * (1.0 - used))
    utilisation = rate / capacity
    slot = (
        burstiness * DETERMINISTIC * waiting_for_a_slot(utilisation=utilisation, slots=slots, service=service)
    )
    mean = overhead + own + 1.5 * cycle + queue + slot
    spread = np.sqrt(
        cycle**2 / 12.0 + 2.25 * rate * cycle * own**2 / (1.0 - used**2) + queue * (queue + own) + slot**2
    )
    tail = mean + (-np.log(1.0 - percentile) - 1.0) * spread
    return Load(utilisation, mean, np.maximum(tail, overhead + own))
