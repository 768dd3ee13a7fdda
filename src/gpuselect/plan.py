"""A plan says how a workload is laid out over accelerators; plan grids enumerate the valid ones.

The fields of `Plan` are integers, or 1-D integer arrays of one length when many plans are
estimated at once: every formula takes either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np

RECOMPUTE = ("none", "selective", "full")
TENSOR_PARALLEL = (1, 2, 4, 8, 16)
PIPELINE_PARALLEL = (1, 2, 4, 8, 16, 32)
MICRO_BATCHES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Plan:
    """Parallel widths and batch split: count = tp * pp * cp * dp * replicas."""

    count: Any = 1
    tp: Any = 1
    pp: Any = 1
    dp: Any = 1
    ep: Any = 1
    cp: Any = 1
    zero_stage: Any = 0
    recompute: Any = 0  # index into RECOMPUTE
    micro_batch: Any = 1
    grad_accum: Any = 1
    replicas: Any = 1


def take(record: Any, index: Any) -> Any:
    """The record with each array field indexed (an int gives scalars, a mask a smaller grid).

    >>> take(Plan(count=np.array([1, 2]), tp=np.array([1, 2])), 1).tp
    2
    """
    picked = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, np.ndarray):
            value = value[index]
            picked[field.name] = value.item() if np.ndim(value) == 0 else value
    return replace(record, **picked)


def stack(plans: list[Plan]) -> Plan:
    """Join plans into one grid of arrays."""
    return Plan(**{f.name: np.array([getattr(plan, f.name) for plan in plans]) for f in fields(Plan)})


def node_counts(*, per_node: int, max_nodes: int | None, max_count: int) -> list[int]:
    """Accelerator counts worth trying: powers of two inside a node, then whole nodes doubling.

    >>> node_counts(per_node=8, max_nodes=None, max_count=32)
    [1, 2, 4, 8, 16, 32]
    """
    limit = min(max_count, per_node * max_nodes if max_nodes else max_count)
    counts = [2**k for k in range(12) if 2**k < per_node]
    nodes = 1
    while per_node * nodes <= limit:
        counts.append(per_node * nodes)
        nodes *= 2
    return [count for count in counts if count <= limit]


def training_plans(
    *,
    count: int,
    global_batch: int,
    n_layers: int,
    n_heads: int,
    n_experts: int,
    max_tp: int,
    allow_pp: bool,
    pins: Mapping[str, int],
) -> list[Plan]:
    """Every valid training plan for `count` accelerators.

    tp divides the heads and stays inside the fast domain, pp divides the layers, ep divides the
    experts and the data-parallel width, and micro_batch * dp * grad_accum = global_batch exactly.
    """
    plans = []
    tps = [pins["tp"]] if "tp" in pins else [t for t in TENSOR_PARALLEL if t <= max_tp]
    pps = [pins["pp"]] if "pp" in pins else list(PIPELINE_PARALLEL if allow_pp else (1,))
    batches = [pins["micro_batch"]] if "micro_batch" in pins else list(MICRO_BATCHES)
    recomputes = [pins["recompute"]] if "recompute" in pins else [0, 1, 2]
    cp = pins.get("cp", 1)
    for tp, pp, micro_batch in product(tps, pps, batches):
        if count % (tp * pp * cp) or n_heads % tp or n_layers % pp:
            continue
        dp = count // (tp * pp * cp)
        accum, rest = divmod(global_batch, dp * micro_batch)
        if rest or accum < 1 or (pp > 1 and accum < pp):
            continue
        if pins.get("dp", dp) != dp or pins.get("grad_accum", accum) != accum:
            continue
        for ep, zero, recompute in product(
            _expert_widths(n_experts=n_experts, dp=dp, tp=tp, pins=pins),
            _zero_stages(dp=dp, pp=pp, pins=pins),
            recomputes,
        ):
            plans.append(
                Plan(
                    count=count, tp=tp, pp=pp, dp=dp, ep=ep, cp=cp, zero_stage=zero,
                    recompute=recompute, micro_batch=micro_batch, grad_accum=accum,
                )
            )  # fmt: skip
    return plans


def _expert_widths(*, n_experts: int, dp: int, tp: int, pins: Mapping[str, int]) -> list[int]:
    if "ep" in pins:
        return [pins["ep"]]
    if not n_experts:
        return [1]
    widths = [w for w in (1, 4, 8, 16, 32, 64) if n_experts % w == 0 and (dp * tp) % w == 0]
    return widths or [1]


def _zero_stages(*, dp: int, pp: int, pins: Mapping[str, int]) -> list[int]:
    if "zero_stage" in pins:
        return [pins["zero_stage"]]
    if dp == 1:
        return [0]
    return [1] if pp > 1 else [1, 3]


def serving_plans(
    *, count: int, n_heads: int, n_layers: int, max_tp: int, pins: Mapping[str, int]
) -> list[Plan]:
    """Every valid serving plan: tp * pp accelerators hold one replica, the rest are replicas."""
    plans = []
    tps = [pins["tp"]] if "tp" in pins else [t for t in TENSOR_PARALLEL if t <= max_tp]
    pps = [pins["pp"]] if "pp" in pins else [1, 2, 4, 8]
    for tp, pp in product(tps, pps):
        if count % (tp * pp) or n_heads % tp or (pp > 1 and n_layers < pp):
            continue
        replicas = count // (tp * pp)
        if pins.get("replicas", replicas) != replicas or pins.get("ep", tp) not in (1, tp):
            continue
        plans.append(Plan(count=count, tp=tp, pp=pp, ep=pins.get("ep", 1), replicas=replicas))
    return plans
