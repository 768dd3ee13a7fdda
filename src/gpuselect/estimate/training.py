"""Step time of decoder training and what follows from it: throughput, MFU, time to train.

Form of the terms: docs/methodology.md. Every constant is calibration (`TrainingConstants`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.calibration import TrainingConstants
from gpuselect.estimate.collectives import all_reduce, all_to_all
from gpuselect.estimate.memory import Recipe, parameters_per_rank
from gpuselect.estimate.roofline import Device, gemm_shape_loss
from gpuselect.estimate.shape import Shape
from gpuselect.plan import Plan


@dataclass(frozen=True, slots=True)
class StepTime:
    """Terms of one optimizer step [s]. `micro_batch` is the time of one micro-batch on a stage."""

    linear: Any
    attention: Any
    elementwise: Any
    tensor_parallel: Any
    expert_parallel: Any
    host: Any
    micro_batch: Any
    bubble: Any
    gradient_sync: Any
    optimizer: Any
    total: Any


def recompute_passes(*, plan: Plan) -> Any:
    """Extra forward passes: 0 none, 0.5 selective (about half of a forward), 1 full."""
    return np.where(plan.recompute == 2, 1.0, np.where(plan.recompute == 1, 0.5, 0.0))


def linear_time(
    *,
    shape: Shape,
    plan: Plan,
    device: Device,
    constants: TrainingConstants,
    tokens: Any,
    passes: Any,
) -> Any:
    """Linear layers and head of one micro-batch on one stage [s].

    passes * 2 P_active / (tp pp) * tokens / (R eff) * (1 + shape loss); the head runs on the last
    stage, its share of the stage time is averaged over the stages.
    """
    balance = device.gemm_efficiency * device.peak / (device.bandwidth_efficiency * device.bandwidth)
    expert_active = shape.expert_params * shape.top_k / max(shape.n_experts, 1)
    dense_active = shape.active_layer_params - expert_active
    rate = device.peak * device.gemm_efficiency
    share = 1.0 / (plan.tp * plan.pp)
    loss = gemm_shape_loss(
        kappa=constants.shape_loss, balance=balance, rows=tokens,
        inner=shape.ffn / plan.tp, columns=shape.hidden,
    )  # fmt: skip
    dense = passes * 2.0 * dense_active * share * tokens / rate * (1.0 + loss)
    head_rate = device.peak_16bit * device.gemm_efficiency
    head_passes = np.minimum(passes, 3.0)
    head = head_passes * 2.0 * shape.head_params / plan.tp * tokens / head_rate
    head = head * np.where(plan.pp > 1, constants.head_stage_share, 1.0)
    if not shape.n_experts:
        return dense + head
    rows = tokens * shape.top_k * plan.ep / shape.n_experts
    expert_loss = gemm_shape_loss(
        kappa=constants.shape_loss, balance=balance, rows=rows,
        inner=shape.ffn / shape.top_k, columns=shape.hidden,
    )  # fmt: skip
    experts = (
        passes * 2.0 * expert_active * share * tokens * constants.moe_imbalance / rate
        * (1.0 + expert_loss)
    )  # fmt: skip
    return dense + head + experts


def step_time(
    *,
    shape: Shape,
    plan: Plan,
    recipe: Recipe,
    device: Device,
    constants: TrainingConstants,
    seq_len: Any,
    fused: bool = True,
    frozen_base: bool = False,
) -> StepTime:
    """Time of one optimizer step [s] and its terms.

    Assumes 1F1B pipelining without virtual stages, sequence parallelism where tp > 1, a
    flash-type attention kernel, gradients reduced in the shadow of the backward pass.
    `frozen_base` (LoRA, QLoRA) skips the weight-gradient pass of the linear layers.
    """
    tokens = plan.micro_batch * seq_len / plan.cp
    extra = recompute_passes(plan=plan)
    passes = (2.0 if frozen_base else 3.0) + extra
    linear = linear_time(
        shape=shape, plan=plan, device=device, constants=constants, tokens=tokens, passes=passes
    )
    layers = shape.n_layers / plan.pp
    attention = (
        (3.5 + extra) * 2.0 * seq_len * shape.q_width * layers / plan.tp * tokens
        / (device.peak_16bit * constants.attention_efficiency)
    )  # fmt: skip
    bandwidth = device.bandwidth * device.bandwidth_efficiency
    bytes_per_width = constants.elementwise_bytes_fused if fused else constants.elementwise_bytes_eager
    elementwise = (
        bytes_per_width * (3.0 + extra) / 3.0 * (shape.hidden / 2.0 + shape.ffn / 6.0)
        * tokens * layers / plan.tp**0.8 / bandwidth
        + 12.0 * shape.vocab * tokens / plan.tp / bandwidth / plan.pp
    )  # fmt: skip
    if shape.n_experts:
        elementwise = elementwise + (
            constants.moe_routing_bytes * shape.top_k * shape.hidden * tokens * layers / bandwidth
        )
    tensor_parallel = constants.exposed_tp * layers * (2.0 + extra) * 2.0 * all_reduce(
        size=tokens * shape.hidden, ranks=plan.tp, bandwidth=device.link * constants.link_efficiency,
        latency=device.link_latency,
    )  # fmt: skip
    expert_parallel = _expert_parallel_time(
        shape=shape, plan=plan, device=device, constants=constants, tokens=tokens, layers=layers
    )
    per_layer = constants.host_fused_s if fused else constants.host_eager_s
    host = per_layer * layers * (3.0 + extra) / 3.0 * (2.0 if shape.n_experts else 1.0)
    work = linear + attention + elementwise + tensor_parallel + expert_parallel
    micro = work + host if fused else (work**4 + host**4) ** 0.25
    return _assemble(
        shape=shape, plan=plan, recipe=recipe, device=device, constants=constants,
        terms=(linear, attention, elementwise, tensor_parallel, expert_parallel, host), micro=micro,
    )  # fmt: skip


def _expert_parallel_time(
    *,
    shape: Shape,
    plan: Plan,
    device: Device,
    constants: TrainingConstants,
    tokens: Any,
    layers: Any,
) -> Any:
    """Dispatch and combine, forward and backward: 4 all-to-alls of k' h 2 bytes per layer [s].

    k' = k inside the fast domain, one copy per domain across it.
    """
    if not shape.n_experts:
        return 0.0 * tokens
    inside = plan.ep <= device.domain
    copies = np.where(inside, shape.top_k, np.minimum(shape.top_k, plan.ep / device.domain))
    bandwidth = np.where(
        inside,
        device.link * constants.link_efficiency,
        device.network * constants.network_efficiency,
    )
    size = tokens * copies * shape.hidden * 2.0
    return constants.exposed_ep * 4.0 * layers * all_to_all(size=size, ranks=plan.ep, bandwidth=bandwidth)


def data_parallel_bandwidth(*, plan: Plan, device: Device, constants: TrainingConstants) -> Any:
    """Bandwidth of a data-parallel group [byte/s] per rank.

    min(network * ranks of the group in a node, link): several ranks of one group in a node share
    the node's NICs. Groups inside one fast domain never leave it.
    """
    model_parallel = plan.tp * plan.pp * plan.cp
    ranks_in_node = np.maximum(device.per_node / (plan.tp * plan.cp), 1.0)
    ranks_in_node = np.where(plan.pp > 1, np.maximum(ranks_in_node / plan.pp, 1.0), ranks_in_node)
    across = np.minimum(
        device.network * constants.network_efficiency * ranks_in_node,
        device.link * constants.link_efficiency,
    )
    inside = model_parallel * plan.dp <= np.maximum(device.domain, device.per_node)
    return np.where(inside, device.link * constants.link_efficiency, across)


def _assemble(
    *,
    shape: Shape,
    plan: Plan,
    recipe: Recipe,
    device: Device,
    constants: TrainingConstants,
    terms: tuple[Any, ...],
    micro: Any,
) -> StepTime:
    """Add pipeline, gradient sync and optimizer to the time of one micro-batch."""
    linear, attention, elementwise, tensor_parallel, expert_parallel, host = terms
    held = parameters_per_rank(shape=shape, plan=plan)
    trainable = held * recipe.trainable_params / shape.params
    link = data_parallel_bandwidth(plan=plan, device=device, constants=constants)
    ring = (plan.dp - 1) / np.maximum(plan.dp, 1)
    gathers = np.where(
        plan.zero_stage >= 3, 2.0 * recipe.weight_bytes * held * ring / link * plan.grad_accum, 0.0
    )
    gather_hidden = np.minimum(gathers, 0.9 * micro * plan.grad_accum)
    reduce_bytes = np.where(plan.zero_stage >= 3, 2.0 * plan.grad_accum, 4.0)
    sync = trainable * reduce_bytes * ring / link
    hidden = np.minimum(sync, constants.overlap_dp * plan.grad_accum * micro)
    exposed = (gathers - gather_hidden) + (sync - hidden) + constants.leak_dp * hidden
    bubble = micro * (plan.pp - 1)
    shard = np.where(plan.zero_stage >= 1, plan.dp, 1)
    optimizer = (26.0 * trainable / shard + 4.0 * trainable) / (
        device.bandwidth * device.bandwidth_efficiency
    )
    scale_loss = constants.scale_loss * np.maximum(np.log2(plan.count / 8.0), 0.0)
    total = (micro * plan.grad_accum + bubble + exposed + optimizer) * (1.0 + scale_loss)
    return StepTime(
        linear=linear * plan.grad_accum, attention=attention * plan.grad_accum,
        elementwise=elementwise * plan.grad_accum,
        tensor_parallel=tensor_parallel * plan.grad_accum,
        expert_parallel=expert_parallel * plan.grad_accum, host=host * plan.grad_accum,
        micro_batch=micro, bubble=bubble, gradient_sync=exposed, optimizer=optimizer, total=total,
    )  # fmt: skip


def mfu(*, flops: Any, seconds: Any, count: Any, peak: Any) -> Any:
    """Model FLOPs utilisation: flops / (seconds * count * dense peak) (PaLM, arXiv 2204.02311, appendix B).

    >>> mfu(flops=1e15, seconds=10.0, count=2, peak=1e14)
    0.5
    """
    return flops / (seconds * count * peak)
