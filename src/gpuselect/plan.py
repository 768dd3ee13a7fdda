"""A plan says how a workload is laid out over accelerators; plan grids enumerate the valid ones.

The fields of `Plan` are integers, or 1-D integer arrays of one length when many plans are
estimated at once: every formula takes either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np

from gpuselect.i18n import N_
from gpuselect.workload_keys import TRAINING_OFFLOADS

RECOMPUTE = (N_("none"), N_("selective"), N_("full"), N_("blocks"))
FULL, BLOCKS = RECOMPUTE.index("full"), RECOMPUTE.index("blocks")
SCHEDULES = ("1f1b", "zero-bubble")
ZERO_BUBBLE = SCHEDULES.index("zero-bubble")
OFFLOADS = ("none", *TRAINING_OFFLOADS)  # what waits in the memory of the host
ON_THE_HOST = ("", N_("optimizer"), N_("weights and optimizer"))  # the same in words
OFFLOADED_OPTIMIZER, OFFLOADED_PARAMS = 1, 2
TENSOR_PARALLEL = (1, 2, 4, 8, 16)
PIPELINE_PARALLEL = (1, 2, 4, 8, 16, 32)
STAGES = (1, 2, 4, 8)  # of a pipeline that serves
ODD_STAGES = (3, 5, 6, 7)  # of an engine that gives each card some layers
MICRO_BATCHES = (1, 2, 4, 8)
VIRTUAL_STAGES = (4, 5, 3, 2)  # tried in this order
UNEVEN = 1.125  # the largest stage of a pipeline against the mean one
OFFLOAD_STAGES = {OFFLOADED_OPTIMIZER: [2, 3], OFFLOADED_PARAMS: [3]}  # ZeRO; DeepSpeed, Parameter offloading
LONG_RUN = 16  # micro-batches per stage from which the bubble is below 7 %


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
    virtual: Any = 1  # stages of the pipeline that one rank holds, interleaved
    schedule: Any = 0  # index into SCHEDULES
    offload: Any = 0  # index into OFFLOADS


AS_ROW = attrgetter(*(f.name for f in fields(Plan)))


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
    rows = np.array([AS_ROW(plan) for plan in plans])
    return Plan(*np.ascontiguousarray(rows.T))


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

    tp divides the heads and stays inside the fast domain, pp splits the layers evenly or nearly so, ep
    divides the experts and the data-parallel width, and micro_batch * dp * grad_accum = global_batch exactly.
    Where a pipeline would idle long, interleaved stages are tried beside plain ones. With offload the
    states that are sharded wait on the host: ZeRO-2 or 3, weights with ZeRO-3 only, no pipeline, and tensor
    parallelism only where it is pinned: the frameworks that offload leave it to the model's code.
    """
    plans = []
    cp, offload = pins.get("cp", 1), pins.get("offload", 0)
    max_tp = 1 if offload else max_tp
    tps = [pins["tp"]] if "tp" in pins else [t for t in TENSOR_PARALLEL if t <= max_tp]
    pps = [pins["pp"]] if "pp" in pins else list(PIPELINE_PARALLEL if allow_pp else (1,))
    pps = [pp for pp in pps if layers_of_stages(n_layers, pp) is not None]
    batches = [pins["micro_batch"]] if "micro_batch" in pins else list(MICRO_BATCHES)
    recomputes = [pins["recompute"]] if "recompute" in pins else [0, 1, 2]
    for tp, pp, micro_batch in product(tps, pps, batches):
        if count % (tp * pp * cp) or n_heads % tp:
            continue
        dp = count // (tp * pp * cp)
        accum, rest = divmod(global_batch, dp * micro_batch)
        if rest or accum < 1 or (pp > 1 and (accum < pp or offload)):
            continue
        if pins.get("dp", dp) != dp or pins.get("grad_accum", accum) != accum:
            continue
        for ep, zero, virtual, recompute in product(
            _expert_widths(n_experts=n_experts, dp=dp, tp=tp, pins=pins),
            _zero_stages(dp=dp, pp=pp, pins=pins),
            _virtual_stages(layers=_interleaved_layers(n_layers, pp), pp=pp, accum=accum, pins=pins),
            recomputes,  # innermost: the plan before it is the same with less of it
        ):
            plans.append(
                Plan(
                    count=count, tp=tp, pp=pp, dp=dp, ep=ep, cp=cp, zero_stage=zero,
                    recompute=recompute, micro_batch=micro_batch, grad_accum=accum, virtual=virtual,
                    schedule=pins.get("schedule", 0), offload=offload,
                )
            )  # fmt: skip
    return plans


def layers_of_stages(n_layers: int, pp: int) -> tuple[int, int, int] | None:
    """Layers of the first, of each middle and of the last stage; None where no split is nearly even.

    The ends, which hold embedding and head, take fewer layers where the number does not divide, as Llama
    3 405B did with 126 layers on 16 stages (arXiv 2407.21783, section 3.3.2).

    >>> layers_of_stages(126, 16), layers_of_stages(80, 8), layers_of_stages(80, 32)
    ((7, 8, 7), (10, 10, 10), None)
    """
    most = -(-n_layers // pp)
    ends = n_layers - most * (pp - 2)
    if n_layers % pp == 0:
        return most, most, most
    if ends < 2 or most * pp > UNEVEN * n_layers:  # one layer for each end
        return None
    return -(-ends // 2), most, ends // 2


def _interleaved_layers(n_layers: int, pp: int) -> int:
    """Layers of a stage that interleaving may divide, embedding and head counted as one each where needed."""
    if n_layers % pp == 0:
        return n_layers // pp
    return (n_layers + 2) // pp if (n_layers + 2) % pp == 0 else 1


def _virtual_stages(*, layers: int, pp: int, accum: int, pins: Mapping[str, int]) -> tuple[int, ...]:
    """Stages per rank: one, and the most that divide a rank's layers where the bubble is long.

    Interleaving needs a whole number of rounds of micro-batches (arXiv 2104.04473, section 2.2).
    """
    if pp == 1 or accum % pp:
        return (1,)
    if "virtual" in pins:
        return (pins["virtual"],) if layers % pins["virtual"] == 0 else ()
    most = next((v for v in VIRTUAL_STAGES if layers % v == 0), 1)
    return (1, most) if most > 1 and accum < LONG_RUN * pp else (1,)


def _expert_widths(*, n_experts: int, dp: int, tp: int, pins: Mapping[str, int]) -> list[int]:
    if "ep" in pins:
        return [pins["ep"]]
    if not n_experts:
        return [1]
    widths = [w for w in (1, 4, 8, 16, 32, 64) if n_experts % w == 0 and (dp * tp) % w == 0]
    return widths or [1]


def _zero_stages(*, dp: int, pp: int, pins: Mapping[str, int]) -> list[int]:
    allowed = OFFLOAD_STAGES.get(pins.get("offload", 0))
    if "zero_stage" in pins:
        stage = pins["zero_stage"]
        return [stage] if allowed is None or stage >= allowed[0] else []
    if allowed is not None:
        return allowed[:1] if dp == 1 else allowed
    if dp == 1:
        return [0]
    return [1] if pp > 1 else [1, 3]


def serving_plans(
    *, count: int, n_heads: int, n_layers: int, max_tp: int, pins: Mapping[str, int], n_experts: int = 0,
    max_ep: int = 1, by_layers: bool = False,
) -> list[Plan]:  # fmt: skip
    """Every valid serving plan: tp * pp * dp accelerators hold one replica, the rest are replicas.

    An engine that splits `by_layers` may do so over an odd number of cards. Mixtures may copy their dense
    part over dp ranks inside the fast domain and spread the experts over tp * dp = ep of them.
    """
    plans = []
    tps = [pins["tp"]] if "tp" in pins else [t for t in TENSOR_PARALLEL if t <= max_tp]
    pps = [pins["pp"]] if "pp" in pins else [*STAGES, *([count] if by_layers and count in ODD_STAGES else [])]
    dps = [w for w in (1, 2, 4, 8, 16) if n_experts or w == 1]
    for tp, pp, dp in product(tps, pps, dps):
        if count % (tp * pp * dp) or n_heads % tp or (pp > 1 and n_layers < pp):
            continue
        if dp > 1 and (pp > 1 or tp * dp > max_ep or n_experts % (tp * dp)):
            continue
        replicas = count // (tp * pp * dp)
        if pins.get("replicas", replicas) != replicas or pins.get("dp", dp) != dp:
            continue
        ep = tp * dp if dp > 1 else pins.get("ep", 1)
        if pins.get("ep", ep) != ep or (dp == 1 and ep not in (1, tp)):
            continue
        plans.append(Plan(count=count, tp=tp, pp=pp, dp=dp, ep=ep, replicas=replicas))
    return plans
