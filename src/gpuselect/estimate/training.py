"""Step time of decoder training and what follows from it: throughput, MFU, time to train.

Form of the terms: docs/methodology.md. Every constant is calibration (`TrainingConstants`). Every
argument may be a number or an array with one element per plan; the shape may hold arrays, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.calibration import TrainingConstants
from gpuselect.estimate.collectives import all_gather, all_reduce, all_to_all, point_to_point
from gpuselect.estimate.memory import Recipe, parameters_per_rank, stage_share
from gpuselect.estimate.offload import cards_of_host, host_work
from gpuselect.estimate.roofline import Device, gemm_shape_loss, realised_peak
from gpuselect.estimate.shape import Shape
from gpuselect.plan import FULL, ZERO_BUBBLE, Plan

NARROW = 1.2  # a peak that is this much above the 16-bit one is of a narrower format
GATHERS = 2.0  # ZeRO-3 gathers the weights for the forward and for the backward pass
STATE_TRAFFIC = 26.0  # bytes read and written per locally held AdamW state: 12 + 12 and the gradient


@dataclass(frozen=True, slots=True)
class StepTime:
    """Terms of one optimizer step [s]. `micro_batch` is the time of one micro-batch on a stage."""

    linear: Any
    attention: Any
    elementwise: Any
    tensor_parallel: Any
    expert_parallel: Any
    context_parallel: Any
    host: Any
    micro_batch: Any
    bubble: Any
    gradient_sync: Any
    optimizer: Any
    total: Any
    offload: Any = 0.0  # transfers to and from the host that nothing hides


@dataclass(frozen=True, slots=True)
class Method:
    """How the model is trained, as far as time depends on it; flags, or arrays of flags.

    `fused`: a stack of fused kernels (Megatron, a compiler); else operators launched one by one.
    `frozen_base`: LoRA and QLoRA, no gradients of the base weights. `quantised`: QLoRA, 4-bit base
    weights are expanded in every pass.
    """

    fused: Any = True
    frozen_base: Any = False
    quantised: Any = False
    flash: Any = True  # attention that does not write its scores to memory
    legacy: Any = False  # a stack of before 2023: traffic of tensor parallelism is not overlapped
    tuned: Any = False  # a recipe tuned by the maker of the hardware: layers and overlap by hand
    wide: Any = False  # 32-bit elements between the layers: fp32 and tf32
    span: Any = 1.0  # keys and scores of a token, relative to causal attention over the sequence


def recompute_passes(*, plan: Plan) -> Any:
    """Extra forward passes: 0 none, 0.5 selective (about half of a forward), 1 full and blocks."""
    return np.where(np.asarray(plan.recompute) >= FULL, 1.0, np.where(plan.recompute == 1, 0.5, 0.0))


def linear_time(
    *,
    shape: Shape,
    plan: Plan,
    device: Device,
    constants: TrainingConstants,
    tokens: Any,
    passes: Any,
    efficiency: Any,
    wide: Any,
) -> Any:
    """Linear layers and head of one micro-batch on one stage [s].

    passes * 2 P_active S / tp * tokens / (R eff) * (1 + shape loss), the split side of a product being
    f / tp for two thirds of the work and q / tp for the rest; S is the share of the layers that the largest
    stage holds. The head runs on the last stage; fewer layers there balance it up to the share
    `head_stage_share`, and in full where stages are uneven: the last one holds fewer.
    """
    peak = realised_peak(device=device, gain_8bit=constants.gain_8bit, gain_4bit=constants.gain_4bit)
    rate = np.where(wide, device.peak, peak) * efficiency
    head_rate = np.where(wide, device.peak, device.peak_16bit) * efficiency
    balance = rate / (device.bandwidth_efficiency * device.bandwidth)
    share = stage_share(shape, plan) / plan.tp
    experts = shape.expert_params * shape.top_k / np.maximum(shape.n_experts, 1)
    loss = gemm_shape_loss(
        kappa=constants.shape_loss, balance=balance, rows=tokens,
        inner=1.0 / (plan.tp * (2.0 / shape.ffn + 1.0 / shape.q_width) / 3.0), columns=shape.hidden,
    )  # fmt: skip
    dense = passes * 2.0 * (shape.active_layer_params - experts) * share * tokens / rate * (1.0 + loss)
    head = np.minimum(passes, 3.0) * 2.0 * shape.head_params / plan.tp * tokens / head_rate
    head = head * (1.0 / plan.pp + constants.head_stage_share * (1.0 - 1.0 / plan.pp))
    head = np.where(shape.n_layers % plan.pp > 0, 0.0, head)
    if not np.any(shape.n_experts):
        return dense + head
    rows = np.maximum(tokens * shape.top_k * plan.ep / np.maximum(shape.n_experts, 1), 1.0)
    expert_loss = gemm_shape_loss(
        kappa=constants.shape_loss, balance=balance, rows=rows,
        inner=shape.ffn / np.maximum(shape.top_k, 1), columns=shape.hidden,
    )  # fmt: skip
    routed = (
        passes * 2.0 * experts * share * tokens * constants.moe_imbalance / rate * (1.0 + expert_loss)
    )  # fmt: skip
    return dense + head + routed


def attention_time(
    *, shape: Shape, plan: Plan, device: Device, constants: TrainingConstants, tokens: Any, seq_len: Any,
    extra: Any, wide: Any,
) -> Any:  # fmt: skip
    """Scores and values of one micro-batch on one stage [s]: (3.5 + r) 2 s q l tokens, causal half counted.

    Layers with a sliding window see at most that many tokens.
    """
    windowed = shape.windowed_layers * np.where(
        np.asarray(shape.window) > 0, np.minimum(2.0 * shape.window, seq_len), seq_len
    )
    reach = (shape.attention_layers - shape.windowed_layers) * seq_len + windowed
    flops = (3.5 + extra) * 2.0 * shape.q_width * reach * stage_share(shape, plan) / plan.tp * tokens
    peak = np.where(wide, device.peak, device.peak_16bit)
    return flops / (peak * constants.attention_efficiency)


def elementwise_time(
    *, shape: Shape, plan: Plan, device: Device, constants: TrainingConstants, tokens: Any, seq_len: Any,
    extra: Any, method: Method, wide: Any,
) -> Any:  # fmt: skip
    """Traffic of everything that is no matrix product, of one micro-batch on one stage [s].

    Norms, activations and residuals; scores of attention without a flash kernel; the loss over the
    vocabulary; casts where the multiplication is narrower than 16 bit; routing of experts; expansion
    of 4-bit weights.
    """
    bandwidth = device.bandwidth * device.bandwidth_efficiency
    layers = shape.n_layers * stage_share(shape, plan)
    inner = np.minimum(shape.ffn, shape.active_layer_params / (3.0 * shape.hidden * shape.n_layers))
    per_width = np.where(method.fused, constants.elementwise_bytes_fused, constants.elementwise_bytes_eager)
    narrow = np.logical_not(wide) & (device.peak > NARROW * device.peak_16bit)
    element = np.where(wide, 2.0, 1.0)
    moved = (
        per_width * (3.0 + extra) / 3.0 * (shape.hidden / 2.0 + inner / 6.0) / plan.tp**0.8 * element
        + np.where(narrow, constants.cast_bytes, 0.0) * (1.5 * shape.hidden + inner / 6.0) / plan.tp
    )  # fmt: skip
    per_score = np.where(method.fused, constants.score_bytes_fused, constants.score_bytes_eager)
    scores = np.where(method.flash, 0.0, per_score) * element * shape.n_heads * seq_len / plan.tp
    moved = moved + scores * (1.0 + 0.3 * extra)
    total = moved * tokens * layers + 12.0 * shape.vocab * tokens / plan.tp / plan.pp
    if np.any(shape.n_experts):
        total = total + (
            constants.moe_routing_bytes * shape.top_k * shape.hidden * routed_share(shape=shape) * tokens
            * layers
        )  # fmt: skip
    if np.any(method.quantised):
        held = shape.active_layer_params * stage_share(shape, plan) / plan.tp
        total = total + np.where(method.quantised, constants.dequantise_bytes * held * (2.0 + extra), 0.0)
    return total / bandwidth


def routed_share(*, shape: Shape) -> Any:
    """Share of the layers' width that the routed experts see: less than 1 in hybrids and latent experts."""
    experts = shape.expert_params * shape.top_k / np.maximum(shape.n_experts, 1)
    return np.minimum(experts / (3.0 * shape.hidden * shape.ffn * shape.n_layers), 1.0)


def step_time(
    *,
    shape: Shape,
    plan: Plan,
    recipe: Recipe,
    device: Device,
    constants: TrainingConstants,
    seq_len: Any,
    method: Method = Method(),
) -> StepTime:
    """Time of one optimizer step [s] and its terms.

    Assumes sequence parallelism where tp > 1, a flash-type attention kernel, gradients reduced in
    the shadow of the backward pass; a pipeline runs 1F1B, interleaved where `plan.virtual` > 1.
    """
    tokens = plan.micro_batch * seq_len / plan.cp
    extra = recompute_passes(plan=plan)
    passes = np.where(method.frozen_base, 2.0, 3.0) + extra
    efficiency = device.gemm_efficiency * np.where(method.fused, 1.0, constants.eager_gemm)
    efficiency = efficiency * np.where(method.tuned, constants.tuned_gemm, 1.0)
    efficiency = efficiency * np.where(method.legacy, constants.legacy_gemm, 1.0)
    common = {"shape": shape, "plan": plan, "device": device, "constants": constants, "tokens": tokens}
    linear = linear_time(**common, passes=passes, efficiency=efficiency, wide=method.wide)
    attention = attention_time(**common, seq_len=method.span * seq_len, extra=extra, wide=method.wide)
    elementwise = elementwise_time(
        **common, seq_len=method.span * seq_len, extra=extra, method=method, wide=method.wide
    )
    tensor_parallel, expert_parallel, context_parallel = _model_parallel_times(
        **common, extra=extra, method=method
    )
    layers = shape.n_layers * stage_share(shape, plan)
    per_layer = np.where(method.fused, constants.host_fused_s, constants.host_eager_s)
    per_layer = per_layer * np.where(method.frozen_base, constants.adapter_host, 1.0)
    host = per_layer * layers * (3.0 + extra) / 3.0 * np.where(np.asarray(shape.n_experts) > 0, 2.0, 1.0)
    work = linear + attention + elementwise + tensor_parallel + expert_parallel + context_parallel
    micro = np.where(method.fused, work + host, (work**4 + host**4) ** 0.25)
    terms = (linear, attention, elementwise, tensor_parallel, expert_parallel, context_parallel, host)
    return _assemble(
        shape=shape, plan=plan, recipe=recipe, device=device, constants=constants, terms=terms, micro=micro,
        tokens=tokens,
    )  # fmt: skip


def link_bandwidth(*, device: Device, constants: TrainingConstants) -> Any:
    """Achieved rate of the link of a domain [byte/s]; without a domain the cards talk over PCIe."""
    share = np.where(np.asarray(device.domain) > 1, constants.link_efficiency, constants.pcie_efficiency)
    return device.link * share


def _model_parallel_times(
    *, shape: Shape, plan: Plan, device: Device, constants: TrainingConstants, tokens: Any, extra: Any,
    method: Method,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Exposed traffic of tp, ep and cp inside one micro-batch on one stage [s].

    tp: 4 + 2 r all-reduces of 2 M h bytes per layer (as gather and scatter with sequence parallelism).
    ep: 4 + 2 r all-to-alls of k' h 2 bytes per token; k' = k inside the fast domain, one copy per
    domain across it. cp: keys and values of the other ranks, forward, and twice backward.
    """
    layers = shape.n_layers * stage_share(shape, plan)
    link = link_bandwidth(device=device, constants=constants)
    network = device.network * constants.network_efficiency
    rounds = 4.0 + 2.0 * extra
    wide = np.where(plan.tp <= np.maximum(device.domain, device.per_node), link, network)
    exposed = np.where(method.tuned, constants.exposed_tp_tuned, constants.exposed_tp)
    exposed = np.where(method.legacy, constants.exposed_tp_legacy, exposed)
    tensor = exposed * layers * rounds * all_reduce(
        size=2.0 * tokens * shape.hidden, ranks=plan.tp, bandwidth=wide, latency=device.link_latency
    )  # fmt: skip
    far = np.where(plan.tp * plan.cp <= device.domain, link, network)
    kv = 4.0 * shape.n_kv_heads * shape.head_dim / np.minimum(plan.tp, shape.n_kv_heads)
    reach = shape.attention_layers * stage_share(shape, plan) * (3.0 + extra)
    context = constants.exposed_cp * reach * all_gather(
        size=kv * tokens * plan.cp, ranks=plan.cp, bandwidth=far, latency=device.link_latency
    )  # fmt: skip
    if not np.any(shape.n_experts):
        return tensor, 0.0 * tokens, context
    inside = plan.ep <= device.domain
    copies = np.where(inside, shape.top_k, np.minimum(shape.top_k, plan.ep / device.domain))
    expert = constants.exposed_ep * rounds * layers * all_to_all(
        size=tokens * copies * shape.hidden * 2.0 * routed_share(shape=shape), ranks=plan.ep,
        bandwidth=np.where(inside, link, network), latency=device.link_latency,
    )  # fmt: skip
    return tensor, expert, context


def _stage_bandwidth(*, plan: Plan, device: Device, constants: TrainingConstants) -> Any:
    """Rate between neighbouring stages [byte/s]: the link while all stages share a domain or node."""
    inside = plan.tp * plan.pp * plan.cp <= np.maximum(device.domain, device.per_node)
    link = link_bandwidth(device=device, constants=constants)
    return np.where(inside, link, device.network * constants.network_efficiency)


def data_parallel_bandwidth(*, plan: Plan, device: Device, constants: TrainingConstants) -> Any:
    """Bandwidth of a data-parallel group [byte/s] per rank.

    min(network * ranks of the group in a node, link): several ranks of one group in a node (or in
    a fast domain of several nodes) share its adapters. Groups inside one fast domain never leave it.
    """
    model_parallel = plan.tp * plan.pp * plan.cp
    near = np.maximum(device.domain, device.per_node)
    ranks_in_node = np.maximum(near / (plan.tp * plan.cp), 1.0)
    ranks_in_node = np.where(plan.pp > 1, np.maximum(ranks_in_node / plan.pp, 1.0), ranks_in_node)
    link = link_bandwidth(device=device, constants=constants)
    across = np.minimum(device.network * constants.network_efficiency * ranks_in_node, link)
    return np.where(model_parallel * plan.dp <= near, link, across)


def data_parallel_time(
    *, plan: Plan, recipe: Recipe, device: Device, constants: TrainingConstants, micro: Any, held: Any,
    trainable: Any,
) -> Any:  # fmt: skip
    """Exposed traffic of gradients, and of the weights that ZeRO-3 gathers, in one step [s].

    ZeRO-3 moves weights and gradients in every micro-batch; else gradients are reduced once, behind the
    last micro-batch of each stage. Over PCIe the gathers are not hidden. A part of what is hidden slows
    the compute that hides it.
    """
    link = data_parallel_bandwidth(plan=plan, device=device, constants=constants)
    ring = (plan.dp - 1) / np.maximum(plan.dp, 1)
    sharded = plan.zero_stage >= 3
    gathers = np.where(sharded, GATHERS * recipe.weight_bytes * held * ring / link * plan.grad_accum, 0.0)
    overlap = np.where(np.asarray(device.domain) > 1, constants.overlap_gather, 0.0)
    gather_hidden = np.minimum(gathers, overlap * micro * plan.grad_accum)
    sync = trainable * np.where(sharded, 2.0 * plan.grad_accum, 4.0) * ring / link
    window = np.where(sharded, plan.grad_accum, np.minimum(plan.pp, plan.grad_accum))
    hidden = np.minimum(sync, constants.overlap_dp * window * micro)
    return gathers - gather_hidden + sync - hidden + constants.leak_dp * (hidden + gather_hidden)


def bubble_time(*, plan: Plan, micro: Any) -> Any:
    """Idle time of a pipeline in one step [s].

    (p - 1) / v micro-batches for 1F1B with v virtual stages per rank (arXiv 2104.04473, section 2.2);
    zero bubble of 1F1B's memory keeps a third of it (arXiv 2401.10241, table 1: ZB-H1).
    """
    return micro * (plan.pp - 1) / plan.virtual * np.where(plan.schedule == ZERO_BUBBLE, 1.0 / 3.0, 1.0)


def _assemble(
    *,
    shape: Shape,
    plan: Plan,
    recipe: Recipe,
    device: Device,
    constants: TrainingConstants,
    terms: tuple[Any, ...],
    micro: Any,
    tokens: Any,
) -> StepTime:
    """Add pipeline, gradient sync and optimizer to the time of one micro-batch."""
    linear, attention, elementwise, tensor_parallel, expert_parallel, context_parallel, host = terms
    held = parameters_per_rank(shape=shape, plan=plan)
    trainable = held * recipe.trainable_params / shape.params
    accum = plan.grad_accum
    hand_over = plan.virtual * point_to_point(
        size=4.0 * tokens * shape.hidden / plan.tp, stages=plan.pp,
        bandwidth=_stage_bandwidth(plan=plan, device=device, constants=constants),
    )  # fmt: skip
    adding = constants.accumulate_bytes * trainable / (device.bandwidth * device.bandwidth_efficiency)
    micro = micro + constants.exposed_tp * hand_over + np.where(accum > 1, adding, 0.0)
    exposed = data_parallel_time(
        plan=plan, recipe=recipe, device=device, constants=constants, micro=micro, held=held,
        trainable=trainable,
    )  # fmt: skip
    shard = np.where(plan.zero_stage >= 1, plan.dp, 1)
    own = trainable / shard
    optimizer = (STATE_TRAFFIC * own + 4.0 * trainable) / (device.bandwidth * device.bandwidth_efficiency)
    host_exposed: Any = 0.0
    if np.any(plan.offload):
        work = host_work(
            plan=plan, weights=recipe.weight_bytes * held, trained=trainable,
            optimizer_bytes=recipe.optimizer_bytes, link=device.host_link * constants.pcie_efficiency,
            rate=device.host_rate / cards_of_host(plan=plan, device=device),
            compute=micro * accum, overlap=constants.overlap_dp,
        )  # fmt: skip
        optimizer = np.where(np.asarray(plan.offload) > 0, work.update, optimizer)
        host_exposed = work.exposed
    bubble = bubble_time(plan=plan, micro=micro)
    scale_loss = constants.scale_loss * np.maximum(np.log2(plan.count / 8.0), 0.0)
    total = (micro * accum + bubble + exposed + optimizer + host_exposed) * (1.0 + scale_loss)
    return StepTime(
        linear=linear * accum, attention=attention * accum, elementwise=elementwise * accum,
        tensor_parallel=tensor_parallel * accum, expert_parallel=expert_parallel * accum,
        context_parallel=context_parallel * accum, host=host * accum, micro_batch=micro, bubble=bubble,
        gradient_sync=exposed, optimizer=optimizer, total=total, offload=host_exposed,
    )  # fmt: skip


def mfu(*, flops: Any, seconds: Any, count: Any, peak: Any) -> Any:
    """Model FLOPs utilisation: flops / (seconds * count * dense peak) (PaLM, arXiv 2204.02311, appendix B).

    >>> mfu(flops=1e15, seconds=10.0, count=2, peak=1e14)
    0.5
    """
    return flops / (seconds * count * peak)
