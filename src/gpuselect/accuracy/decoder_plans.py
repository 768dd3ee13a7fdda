"""The plan of a decoder training row: what it states, and for what it leaves open the best plan that fits.

A user who leaves a width, a micro-batch or recomputation open gets a searched one; so does a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from gpuselect.accuracy.records import Row
from gpuselect.accuracy.rows import number, whole
from gpuselect.calibration import Calibration
from gpuselect.estimate.memory import Recipe, training_memory
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.shape import Shape
from gpuselect.estimate.training import Method, step_time
from gpuselect.job import default_batch
from gpuselect.plan import (
    OFFLOADED_OPTIMIZER,
    OFFLOADED_PARAMS,
    PIPELINE_PARALLEL,
    RECOMPUTE,
    TENSOR_PARALLEL,
    ZERO_BUBBLE,
    Plan,
    stack,
    take,
)
from gpuselect.search import TIGHT_FROM, TIGHT_PENALTY
from gpuselect.units import GIB

VIRTUAL = re.compile(r"(?i)\b(?:vpp|virtual[ -](?:pp|pipeline))\s*[:=]?\s*(\d+)")
NO_BUBBLE = re.compile(r"(?i)\bzero[ -]?bubble|\bzbv|\bv-half")
MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
EXPERT_WIDTHS = (1, 2, 4, 8, 16, 32, 64)
MOST_VIRTUAL = 8  # stages per rank that are tried where the row names none
RAN = 1.5  # a row ran: a need of up to this share of the memory is the error of the memory formulas
PER_NODE = re.compile(r"(?i)(\d+)\s*Gb(?:ps|/s) per node")
PER_CARD = re.compile(r"(?i)(\d+)\s*Gb(?:ps|/s) per (?:gpu|card|accelerator)")
ADAPTERS = re.compile(r"(?i)(\d+)\s?x[^,;]*?(\d+)\s?Gb(?:ps|/s)")
GIGABIT = 1e9 / 8.0  # bytes
PER_MICRO_BATCH = re.compile(r"(?i)\biteration is a micro-?batch")
REMAT = re.compile(r"(?i)\bremat policy (full|minimal)")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a plan is judged by."""

    shape: Shape
    recipe: Recipe
    device: Device | None
    method: Method
    seq_len: float
    tuned: bool  # fine-tuning: recomputation is usual, and the batch is the micro-batches of all ranks


def plan_of(row: Row) -> Plan:
    """The plan that the row states; what it leaves open gets the usual value.

    >>> plan_of({"n_accel": "8", "global_batch": "64", "micro_batch": "2"}).grad_accum
    4
    """
    count, tp, pp, cp, dp = _layout(row)
    micro = whole(row, "micro_batch")
    batch = int(number(row, "global_batch")) or micro * dp * whole(row, "grad_accum")
    accum = max(round(batch / (micro * dp)), 1)
    if accum == 1:
        micro = max(round(batch / dp), 1)
    usual_zero = 3 if dp > 1 and pp == 1 and tp == 1 else 1
    return Plan(
        count=count, tp=tp, pp=pp, dp=dp, ep=whole(row, "ep"), cp=cp,
        zero_stage=int(number(row, "zero_stage", usual_zero)), recompute=_recompute(row) or 0,
        micro_batch=micro, grad_accum=accum, virtual=_virtual(row) if pp > 1 else 1,
        schedule=_schedule(row), offload=offload_of(row),
    )  # fmt: skip


def offload_of(row: Row) -> int:
    """What a row leaves on the host, as an index into OFFLOADS; Unsloth keeps checkpoints there, no states.

    FSDP and "full offload" move the weights too (PyTorch, CPUOffloadPolicy).
    """
    framework = row.get("framework", "").lower()
    if row.get("offload", "none") == "none" or "unsloth" in framework:
        return 0
    everything = "fsdp" in framework or "full offload" in row.get("notes", "").lower()
    return OFFLOADED_PARAMS if everything else OFFLOADED_OPTIMIZER


def joined(row: Row, *, per_node: int) -> dict[str, float]:
    """What the row says of its nodes, as fields of a `Device`: fewer cards per node, network rate.

    >>> joined({"accels_per_node": "8", "inter_link": "Compute: 8x ConnectX-7 IB NDR 400Gb/s"}, per_node=8)
    {'network': 50000000000.0}
    """
    found: dict[str, float] = {}
    stated = whole(row, "accels_per_node", per_node)
    if stated < per_node:
        found |= {"per_node": stated, "domain": stated, "host_shared": stated}
    text = row.get("inter_link", "")
    text = text.partition("Compute:")[2].partition(",")[0] or text
    if rate := PER_NODE.search(text):
        found["network"] = float(rate[1]) * GIGABIT / stated
    elif rate := PER_CARD.search(text):
        found["network"] = float(rate[1]) * GIGABIT
    elif rate := ADAPTERS.search(text):
        found["network"] = float(rate[1]) * float(rate[2]) * GIGABIT / stated
    return found


def settled_plan(row: Row, setting: Setting, calibration: Calibration) -> Plan:
    """The row's plan, with what it leaves open set as the plan search would set it."""
    if setting.device is None:
        return plan_of(row)
    plans = list(dict.fromkeys(_candidates(row, setting)))
    if not plans:
        plans = [plan_of(row)]
    if len(plans) == 1:
        return plans[0]
    grid = stack(plans)
    memory = training_memory(
        shape=setting.shape, plan=grid, recipe=setting.recipe, seq_len=setting.seq_len,
        fragmentation=float(calibration.memory.fragmentation),
        context_bytes=float(calibration.memory.training_context_gib) * GIB,
    ).total  # fmt: skip
    share = memory / setting.device.usable_bytes / RAN
    if not np.any(share <= 1.0):
        return take(grid, int(np.argmin(share)))  # type: ignore[no-any-return]
    seconds = step_time(
        shape=setting.shape, plan=grid, recipe=setting.recipe, device=setting.device,
        constants=calibration.training, seq_len=setting.seq_len, method=setting.method,
    ).total  # fmt: skip
    cost = seconds / (grid.micro_batch * grid.dp * grid.grad_accum)
    cost = np.where(share > TIGHT_FROM, TIGHT_PENALTY, 1.0) * cost
    return take(grid, int(np.argmin(np.where(share <= 1.0, cost, np.inf))))  # type: ignore[no-any-return]


def _candidates(row: Row, setting: Setting) -> Iterator[Plan]:
    """Plans that agree with everything the row states."""
    named = _recompute(row)
    tuned = setting.tuned and not np.any(setting.method.fused)
    usual = (2,) if tuned or "jax" in row.get("framework", "").lower() else (0, 1, 2)
    for count, tp, pp, cp, dp in _layouts(row, setting):
        zeros = _zero_stages(row, dp=dp, pp=pp, tp=tp, fused=bool(setting.method.fused))
        experts = _expert_widths(row, setting.shape, dp * tp * cp)
        virtual = _virtual(row) if "pp" in row else _most_virtual(setting.shape, pp)
        for (micro, accum), zero, ep, recompute in product(
            _batches(row, setting, dp=dp, pp=pp), zeros, experts, usual if named is None else (named,)
        ):
            yield Plan(
                count=count, tp=tp, pp=pp, dp=dp, ep=ep, cp=cp, zero_stage=zero, recompute=recompute,
                micro_batch=micro, grad_accum=accum, virtual=virtual if pp > 1 and accum >= pp else 1,
                schedule=_schedule(row), offload=offload_of(row),
            )  # fmt: skip


def _layouts(row: Row, setting: Setting) -> Iterator[tuple[int, int, int, int, int]]:
    """Count, tp, pp, cp and dp: the row's, or every division of its cards where it states none."""
    count, cp = whole(row, "n_accel"), whole(row, "cp")
    parallel = np.any(setting.method.fused) and number(row, "zero_stage") < 3
    if count == 1 or not parallel or any(key in row for key in ("tp", "pp", "dp")):
        yield _layout(row)
        return
    device = setting.device
    near = max(int(device.domain), int(device.per_node)) if device is not None else 1
    for tp, pp in product(TENSOR_PARALLEL, PIPELINE_PARALLEL):
        dp, rest = divmod(count, tp * pp * cp)
        if not rest and tp <= near and setting.shape.n_heads % tp == 0 and pp <= setting.shape.n_layers / 2:
            yield count, tp, pp, cp, dp


def _batches(row: Row, setting: Setting, *, dp: int, pp: int) -> list[tuple[int, int]]:
    """Micro-batch and accumulation steps of a data-parallel rank."""
    micro, accum = int(number(row, "micro_batch")), int(number(row, "grad_accum"))
    batch = int(number(row, "global_batch"))
    if PER_MICRO_BATCH.search(row.get("notes", "")):
        return [(micro or 1, 1)]
    if batch:
        free = "dp" not in row and "tp" not in row
        return _splits(batch / dp, micro=micro, accum=accum, free=free, pp=pp)
    if setting.tuned or (micro and (accum or pp == 1)):
        return [(micro or 1, accum or 1)]
    usual = default_batch(setting.shape, int(setting.seq_len), pretrain=True)
    return _splits(max(usual // dp, (micro or 1) * pp, 1), micro=micro, accum=accum, free=False, pp=pp)


def _splits(share: float, *, micro: int, accum: int, free: bool, pp: int) -> list[tuple[int, int]]:
    """Ways to split a rank's share of the batch; `free`: the width of the rank is open, too."""
    if accum and free:
        wanted = micro or round(share / accum)
        return [(wanted, accum)] if wanted == share / accum else []
    if micro:
        steps = max(round(share / micro), 1)
        return [(micro if steps > 1 else max(round(share), 1), steps)]
    if share < 1:
        return []
    found = [(m, round(share / m)) for m in MICRO_BATCHES if share % m == 0 and share / m >= min(pp, 2)]
    return found or [(1, max(round(share), 1))]


def _zero_stages(row: Row, *, dp: int, pp: int, tp: int, fused: bool) -> tuple[int, ...]:
    if "zero_stage" in row:
        return (int(number(row, "zero_stage")),)
    if dp == 1:
        return (0,)
    if pp > 1 or ("tp" in row and tp > 1):
        return (1,)
    return (1, 3) if fused else (3,)


def _expert_widths(row: Row, shape: Shape, ranks: int) -> tuple[int, ...]:
    if "ep" in row or not shape.n_experts:
        return (whole(row, "ep"),)
    found = tuple(w for w in EXPERT_WIDTHS if shape.n_experts % w == 0 and ranks % w == 0)
    return found or (1,)


def _most_virtual(shape: Shape, pp: int) -> int:
    """Most stages per rank, up to a bound, that divide a rank's layers."""
    layers = shape.n_layers // pp
    return next(v for v in range(min(MOST_VIRTUAL, max(layers, 1)), 0, -1) if layers % v == 0)


def _virtual(row: Row) -> int:
    """Stages per pipeline rank: the layouts have no column for them, so the notes say it."""
    found = VIRTUAL.search(row.get("notes", ""))
    layers = int(number(row, "n_layers")) // whole(row, "pp")
    return min(max(int(found[1]), 1), max(layers, 1)) if found else 1


def _schedule(row: Row) -> int:
    return ZERO_BUBBLE if NO_BUBBLE.search(row.get("notes", "")) else 0


def _recompute(row: Row) -> int | None:
    """Index into RECOMPUTE, None where the row does not say.

    Megatron's "selective" repeats the attention core only, which a flash kernel repeats anyway.
    """
    if row.get("recompute") not in RECOMPUTE:
        policy = REMAT.search(row.get("notes", ""))
        return (2 if policy[1].lower() == "full" else 0) if policy else None
    recompute = RECOMPUTE.index(row["recompute"])
    return 0 if recompute == 1 and "megatron" in row.get("framework", "").lower() else recompute


def _layout(row: Row) -> tuple[int, int, int, int, int]:
    """Count, tp, pp, cp, dp of a row.

    A width that is not stated is 1, but a data-parallel group is never wider than the global batch:
    the rest is tensor parallel inside a node, then pipeline.
    """
    count = whole(row, "n_accel")
    tp, pp, cp = (whole(row, key) for key in ("tp", "pp", "cp"))
    dp = int(number(row, "dp")) or max(count // (tp * pp * cp), 1)
    batch = int(number(row, "global_batch"))
    if "tp" not in row and "dp" not in row and 0 < batch < dp:
        dp = max(batch // whole(row, "grad_accum"), 1)
        tp = min(8, max(count // (pp * cp * dp), 1))
        pp = max(count // (tp * cp * dp), 1) if "pp" not in row else pp
    return count, tp, pp, cp, dp
