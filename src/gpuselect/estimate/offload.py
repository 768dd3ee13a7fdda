"""Training states in the memory of the host: what waits there, and what moving and updating them costs.

ZeRO-Offload (arXiv 2101.06840): gradients go down and updated weights come back over PCIe, and the
processors of the host run the optimizer. ZeRO-Infinity (arXiv 2104.07857): the weights wait there, too, and
every rank fetches its own share of a layer over its own link before the ranks gather it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.estimate.roofline import Device
from gpuselect.plan import FULL, OFFLOADED_PARAMS, Plan

FP32_GRADIENT = 4.0  # of the update, beside the states: 16 bytes per parameter on the host (DeepSpeed docs)
GRADIENT_DOWN = 2.0  # 16-bit gradients [B per parameter]
UPDATE_EXTRA = 6.0  # the gradient that the update reads, the 16-bit weight that it writes [B per parameter]
FORWARD_BACKWARD = 2.0  # passes that need the weights; one more with full recomputation


@dataclass(frozen=True, slots=True)
class HostWork:
    """Times of one step that the host adds [s]: `update` of the optimizer, `exposed` transfers over PCIe."""

    update: Any
    exposed: Any


def host_bytes(*, plan: Plan, weights: Any, trained: Any, optimizer_bytes: Any) -> Any:
    """Host memory of one accelerator's share [B], without the buffers of the software.

    (O + 4) bytes per trained parameter of the rank's share: states, master weights and fp32 gradients;
    with offloaded weights those too (DeepSpeed documentation, Memory Requirements: 16 and 18 bytes).

    >>> float(host_bytes(plan=Plan(dp=8, offload=1), weights=2e10, trained=1e10, optimizer_bytes=12.0)) / 1e9
    20.0
    """
    offload = np.asarray(plan.offload)
    states = (optimizer_bytes + FP32_GRADIENT) * trained
    held = states + np.where(offload == OFFLOADED_PARAMS, weights, 0.0)
    return np.where(offload > 0, held / (np.asarray(plan.dp) * plan.cp), 0.0)


def cards_of_host(*, plan: Plan, device: Device) -> Any:
    """Cards that share a host: those of the plan on a node, and on a server all of the node.

    A slice of a server is rented with its share of processors and memory.
    """
    return np.maximum(device.host_shared, np.minimum(plan.count, device.per_node))


def host_work(
    *, plan: Plan, weights: Any, trained: Any, optimizer_bytes: Any, link: Any, rate: Any, compute: Any,
    overlap: Any,
) -> HostWork:  # fmt: skip
    """What a step spends on the host.

    update = (2 O + 6) n / rate for the n trained parameters of the rank's share: states are read and
    written, the gradient is read, a 16-bit weight is written. Gradients go down in every micro-batch, and
    offloaded `weights` [B] of the rank come up for each pass; both hide under `overlap` of the `compute` of
    the step [s]. Updated weights come back after the update, unhidden, unless they stay on the host.
    """
    offload = np.asarray(plan.offload)
    away = offload == OFFLOADED_PARAMS
    share = np.asarray(plan.dp) * plan.cp
    own = trained / share
    passes = FORWARD_BACKWARD + (np.asarray(plan.recompute) >= FULL)
    during = GRADIENT_DOWN * own + np.where(away, passes * weights / share, 0.0)
    moved = plan.grad_accum * during / link
    after = np.where(away, 0.0, GRADIENT_DOWN * own / link)
    exposed = np.maximum(moved - overlap * compute, 0.0) + after
    update = (2.0 * optimizer_bytes + UPDATE_EXTRA) * own / rate
    return HostWork(np.where(offload > 0, update, 0.0), np.where(offload > 0, exposed, 0.0))
