"""Residuals of networks of samples as the report shows them: slices, and the transfer between cards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from gpuselect.accuracy.records import Scored
from gpuselect.network_sites import TUNED

if TYPE_CHECKING:
    from fit_networks import Observation


def by_card(observation: Observation) -> str:
    """The card of the row."""
    return observation.case.accelerator.id


def levelled(pairs: Sequence[tuple[Observation, float]]) -> list[tuple[Observation, float]]:
    """Residuals of cards with the level of their benchmark taken from the other cards in it.

    This is the error of a ratio between cards: source, network, input, precision and runtime are the same,
    and so is the number of cards where another card ran as many. Benchmarks of one card are left out.
    """
    groups: dict[Hashable, list[tuple[Observation, float]]] = defaultdict(list)
    for one, error in pairs:
        network = one.case.network
        key = (
            one.source,
            network.id,
            network.kind,
            network.size,
            network.params,
            one.case.precision,
            one.runtime,
        )
        groups[key].append((one, error))
    found = []
    for group in groups.values():
        for one, error in group:
            others = [pair for pair in group if by_card(pair[0]) != by_card(one)]
            same = [e for other, e in others if other.case.count == one.case.count]
            levels = same or [e for _other, e in others]
            if levels:
                found.append((one, error - median(levels)))
    return found


def slice_of(observation: Observation, *, training: bool) -> str:
    """Name of the slice in the report; what a vendor tuned stands apart."""
    case = observation.case
    tuned = "vendor-tuned " if observation.runtime == TUNED else ""
    if training:
        return f"training {case.network.kind}"
    return f"inference {tuned}{case.network.kind} {'batch 1' if case.batch <= 1 else 'batched'}"


def as_scored(pairs: Sequence[tuple[Observation, float]], *, training: bool) -> list[tuple[Scored, float]]:
    """Left-out residuals in the form of the report: ln(measured / predicted) of a rate."""
    return [
        (
            Scored(
                o.row_id, o.source, slice_of(o, training=training), "samples per second", o.rate,
                o.rate * float(np.exp(error)), interval_of(o, training=training), o.case.assumed,
            ),
            -error,
        )
        for o, error in pairs
    ]  # fmt: skip


def interval_of(observation: Observation, *, training: bool) -> str:
    """Key of the quantiles that answers use."""
    if training:
        return "network-training"
    return "network-latency" if observation.case.batch <= 1 else "network-inference"
