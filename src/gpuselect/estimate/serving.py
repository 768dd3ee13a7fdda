"""Serving a decoder: one decode step, prefill, steady state of continuous batching.

Form: feasibility study E1-E15 and what docs/methodology.md adds to it. Arrivals are in `queueing`.
Every formula takes numbers or arrays, for the shape of the model too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.calibration import ServingConstants
from gpuselect.estimate.collectives import all_reduce, all_to_all
from gpuselect.estimate.roofline import Device, soft_max_time
from gpuselect.estimate.shape import Shape, expected_active_experts, kv_bytes_per_sequence
from gpuselect.plan import Plan

NO_LIMIT = 1e9  # sequences or tokens of an engine that sets no limit


@dataclass(frozen=True, slots=True)
class Engine:
    """What the engine, format and card class make of the hardware; arrays or numbers."""

    compute: Any  # factor on the compute rate, format included
    memory: Any  # factor on weight traffic (dequantisation)
    prefill: Any  # factor on prefill compute (dequantisation)
    python: Any = True  # per-step and per-sequence host time, and a server in front
    eager: Any = False  # launches every kernel from Python, and copies its KV cache
    host: Any = 1.0  # factor on the host's time per step, layer and sequence
    head_bytes: Any = 2.0  # of a parameter of the embedding and the head
    expert_bytes: Any = 2.0  # of a parameter of the routed experts
    sequences: Any = NO_LIMIT  # most that run at once in a replica
    chunk: Any = NO_LIMIT  # most prompt tokens that one step takes in
    mixed: Any = False  # a step decodes and takes in prompts together
    layer_split: Any = False  # stages of a pipeline wait for each other in decoding
    static: Any = False  # compiled for one length: every step reads the cache of the longest answer
    cores: Any = 1.0  # in a chip that split a model among themselves, KV heads too
    kernel: Any = 1.0  # factor of the card's class on the fixed time of kernels


@dataclass(frozen=True, slots=True)
class Serving:
    """Steady state of one deployment: per-replica batch, times [s] and rates over all replicas."""

    batch: Any
    tpot: Any
    ttft_unloaded: Any
    latency: Any
    output_tokens_per_s: Any
    requests_per_s: Any
    prefill_share: Any = 0.0  # of the time that goes into prompts
    on_host: Any = 0.0  # share of the layers that stay with the processor


@dataclass(frozen=True, slots=True)
class Help:
    """What the load or the set-up adds that no row measured: modelled, not validated."""

    cached: float = 0.0  # share of the prompt tokens that the prefix cache holds
    drafted: int = 0  # tokens of a draft that one step checks, 0: none
    acceptance: float = 0.0  # of each
    on_host: Any = 0.0  # share of the layers in host memory
    host_bandwidth: float = 1.0  # byte/s


NO_HELP = Help()
DRAFT_COST = 0.1  # of a plain step, to draft one token: a draft model of a tenth of the size


def tokens_per_step(acceptance: float, drafted: int) -> float:
    """Expected tokens of a checked step: (1 - a^(n+1)) / (1 - a) (arXiv 2211.17192, equation 1).

    >>> round(tokens_per_step(0.7, 4), 2), tokens_per_step(0.0, 4)
    (2.77, 1.0)
    """
    return (1.0 - acceptance ** (drafted + 1)) / (1.0 - acceptance)


def expert_weight_bytes(*, shape: Shape, engine: Engine, weight_bytes: Any) -> Any:
    """Bytes of the routed experts of all layers [B]."""
    return np.minimum(shape.expert_params * engine.expert_bytes, weight_bytes)


def weight_bytes_per_rank(*, shape: Shape, plan: Plan, engine: Engine, weight_bytes: Any) -> Any:
    """Weights that one accelerator holds [B].

    Dense parts are split over tp and pp and copied over dp (attention data parallel); the experts
    are split over all of them.
    """
    experts = expert_weight_bytes(shape=shape, engine=engine, weight_bytes=weight_bytes)
    return (weight_bytes - experts + experts / plan.dp) / (plan.tp * plan.pp)


def touched_weight_bytes(
    *, shape: Shape, plan: Plan, engine: Engine, weight_bytes: Any, tokens: Any, moe_bandwidth: Any
) -> Any:
    """Bytes of weights that each tensor-parallel rank reads in one step of `tokens` tokens, all stages [B].

    The input embedding table is not read. Mixtures: E (1 - (1 - k/E)^T) distinct experts of the
    tokens of all ranks, read at `moe_bandwidth` of the expectation's cost.
    """
    routed = expert_weight_bytes(shape=shape, engine=engine, weight_bytes=weight_bytes)
    table = np.where(shape.tied, 0.0, shape.embedding_params * engine.head_bytes)
    experts = np.maximum(shape.n_experts, 1)
    share = expected_active_experts(n_experts=experts, top_k=shape.top_k, tokens=tokens) / experts
    dense = np.maximum(weight_bytes - routed - table, 0.0)
    return (dense + routed * share / moe_bandwidth / plan.dp) / plan.tp


def communication_time(
    *, shape: Shape, plan: Plan, device: Device, constants: ServingConstants, tokens: Any
) -> Any:
    """Two all-reduces per layer of T h 2 bytes over tp; two all-to-alls over the experts of dp ranks [s].

    `tokens` are those of one dp rank. Inside a node without a switch the latency grows with log2(ranks).
    """
    ranks = plan.tp * plan.dp
    switched = (device.domain > 1) & (ranks <= device.domain)
    inside = switched | ((device.domain <= 1) & (ranks <= device.per_node))
    same_node = ranks <= np.maximum(device.per_node, device.domain)
    hops = np.where(switched | ~same_node, 1.0, np.log2(np.maximum(ranks, 2)))
    away = np.where(device.per_node > 1, constants.network_latency_s, constants.loose_latency_s)
    latency = np.where(same_node, device.link_latency, away) * hops
    # a ring over whole nodes crosses each of them once and uses all their network ports together
    crossing = np.minimum(device.link, device.network * device.per_node)
    own = np.where(inside, device.link, device.network) * constants.link_efficiency
    ring = np.where(inside, device.link, crossing) * constants.link_efficiency
    one = all_reduce(
        size=tokens * shape.hidden * 2.0, ranks=plan.tp, bandwidth=ring, latency=latency
    )  # fmt: skip
    # of its k experts' ranks a token goes to each once: n (1 - (1 - 1/n)^k) of n
    copies = ranks * (1.0 - (1.0 - 1.0 / ranks) ** shape.top_k)
    routed = all_to_all(
        size=tokens / plan.tp * copies * shape.hidden * 2.0, ranks=ranks, bandwidth=own,
        latency=latency,
    ) * ((plan.dp > 1) & (shape.n_experts > 0))  # fmt: skip
    return 2.0 * shape.n_layers * (one + routed)


def decode_step_time(
    *,
    shape: Shape,
    plan: Plan,
    device: Device,
    engine: Engine,
    constants: ServingConstants,
    weight_bytes: Any,
    kv_bytes: Any,
    batch: Any,
    context: Any,
) -> Any:
    """Time of one decode step of `batch` sequences with `context` tokens each [s].

    Weights and compute overlap, KV reads, kernel launches, collectives and host time add. A
    pipeline passes a step through its stages one after the other, so pp does not divide it.
    """
    own = batch / plan.dp  # sequences of one attention rank
    touched = touched_weight_bytes(
        shape=shape,
        plan=plan,
        engine=engine,
        weight_bytes=weight_bytes,
        tokens=batch,
        moe_bandwidth=constants.moe_bandwidth,
    )
    memory = touched / (device.bandwidth * device.bandwidth_efficiency * engine.memory)
    read = shape.active_params - np.where(shape.tied, 0.0, shape.embedding_params)
    compute = 2.0 * own * read / plan.tp / (device.peak * device.gemm_efficiency * engine.compute)
    kv_shard = np.where(shape.mla, 1, np.minimum(plan.tp, shape.n_kv_heads / engine.cores))
    kv = (
        own
        * kv_bytes_per_sequence(shape=shape, context=context, bytes_per_element=kv_bytes)
        / kv_shard
        / (device.bandwidth * constants.kv_efficiency)
        * np.where(engine.eager, kv_copies(shape=shape, constants=constants), 1.0)
    )
    work = (
        soft_max_time(compute=compute, memory=memory) + kv
        + layer_time(shape=shape, engine=engine, constants=constants)
        + routing_time(shape=shape, device=device, constants=constants, tokens=own)
        + (constants.step_overhead_s + own * constants.sequence_overhead_s) * engine.host * engine.python
        + communication_time(shape=shape, plan=plan, device=device, constants=constants, tokens=own)
    )  # fmt: skip
    return with_launch_time(work=work, shape=shape, engine=engine, constants=constants)


def kv_copies(*, shape: Shape, constants: ServingConstants) -> Any:
    """Times that eager attention moves the cache: it appends by copying, and repeats shared heads."""
    group = shape.n_heads / shape.n_kv_heads
    return np.where(group > 1, constants.eager_group_copies * group, constants.eager_kv_copies)


def layer_time(*, shape: Shape, engine: Engine, constants: ServingConstants) -> Any:
    """Fixed time of the kernels of all layers in one step [s]; routing adds to it."""
    moe = np.where(shape.n_experts, constants.moe_layer_overhead_s, 0.0)
    own = np.where(engine.python, constants.layer_overhead_s, constants.native_layer_s)
    return shape.n_layers * (own * engine.host + moe) * engine.kernel


def routing_time(*, shape: Shape, device: Device, constants: ServingConstants, tokens: Any) -> Any:
    """Time to sort the tokens of a step to their experts and back, in all layers [s].

    Bytes moved = c T k h per layer; every tensor-parallel rank moves all of them.
    """
    moved = constants.moe_routing_bytes * tokens * shape.top_k * shape.hidden * shape.n_layers
    return moved / device.bandwidth * (shape.n_experts > 0)


def with_launch_time(*, work: Any, shape: Shape, engine: Engine, constants: ServingConstants) -> Any:
    """Time of a step whose kernels Python launches one by one: max(work, L * launch) plus 0.3 min [s]."""
    launch = shape.n_layers * constants.eager_layer_s * engine.host
    return np.where(engine.eager, soft_max_time(compute=work, memory=launch), work)


def prefill_time(
    *,
    shape: Shape,
    plan: Plan,
    device: Device,
    engine: Engine,
    constants: ServingConstants,
    weight_bytes: Any,
    tokens: Any,
    prompts: Any = 1.0,
) -> Any:
    """Time to process `prompts` prompts of `tokens` tokens together [s].

    They run in chunks of at most `engine.chunk` tokens. GEMM efficiency rises as T / (T + T_half)
    with the tokens of a chunk, for experts with the tokens that each of them gets; attention is
    quadratic in a prompt; no chunk is faster than one read of the weights that it touches. The
    stages of a pipeline work on successive chunks.
    """
    total = tokens * prompts / plan.dp
    chunk = np.minimum(total, engine.chunk)
    rate = device.peak * device.gemm_efficiency * engine.compute * engine.prefill
    half = constants.half_efficiency_tokens
    per_expert = chunk * plan.dp * shape.top_k / np.maximum(shape.n_experts, 1)
    expert_flops = 2.0 * shape.expert_params * shape.top_k / np.maximum(shape.n_experts, 1)
    layers = shape.active_params - shape.embedding_params * np.where(shape.tied, 1.0, 2.0)
    dense_flops = np.maximum(2.0 * layers - expert_flops, 0.0)
    linear = total / plan.tp / rate * (
        dense_flops * (1.0 + half / chunk)
        + expert_flops * (1.0 + half / np.maximum(per_expert, 1.0)) / constants.moe_compute
    )  # fmt: skip
    full = shape.attention_layers - shape.windowed_layers
    reach = full * tokens + shape.windowed_layers * np.minimum(tokens, 2.0 * shape.window)
    attention = (
        2.0 * shape.q_width * total * reach / plan.tp
        / (device.peak_16bit * constants.attention_prefill_efficiency)
    )  # fmt: skip
    floor = touched_weight_bytes(
        shape=shape, plan=plan, engine=engine, weight_bytes=weight_bytes, tokens=chunk * plan.dp,
        moe_bandwidth=constants.moe_bandwidth,
    ) / (device.bandwidth * device.bandwidth_efficiency * engine.memory)  # fmt: skip
    steps = total / chunk
    stages = steps * plan.pp / (steps + plan.pp - 1.0)  # at work at once: chunks follow each other
    work = (
        np.maximum(linear + attention, floor * steps) / stages
        + steps * layer_time(shape=shape, engine=engine, constants=constants)
        + routing_time(shape=shape, device=device, constants=constants, tokens=total)
        + communication_time(shape=shape, plan=plan, device=device, constants=constants, tokens=total)
    )
    return with_launch_time(work=work, shape=shape, engine=engine, constants=constants)


def steady_state(
    *,
    shape: Shape,
    plan: Plan,
    device: Device,
    engine: Engine,
    constants: ServingConstants,
    weight_bytes: Any,
    kv_bytes: Any,
    input_tokens: Any,
    output_tokens: Any,
    batch: Any,
    beams: Any = 1.0,
    helped: Help = NO_HELP,
) -> Serving:
    """Continuous batching in a closed loop of `batch` sequences per replica.

    Waiting prompts are taken in together up to a chunk. A sequence's cycle is its prefill, its
    decode steps and the prefills of the others that interrupt them; where steps mix both, a token
    waits for at most one chunk. A full pipeline of pp stages keeps pp groups of batch / pp sequences in
    flight, unless the engine splits by layers.
    """
    common: dict[str, Any] = {
        "shape": shape, "plan": plan, "device": device, "engine": engine, "constants": constants,
        "weight_bytes": weight_bytes,
    }  # fmt: skip
    fresh = np.maximum(input_tokens * (1.0 - helped.cached), 1.0)  # prompt tokens that are not cached
    alone = helped_prefill(prefill_time(**common, tokens=fresh), tokens=fresh, helped=helped, **common)
    together = np.maximum(np.minimum(engine.chunk * plan.dp / fresh, batch), 1.0)
    prefill = prefill_time(**common, tokens=fresh, prompts=together)
    prefill = helped_prefill(prefill, tokens=fresh * together, helped=helped, **common) / together
    groups = np.where(engine.layer_split, 1, plan.pp)
    decode = helped_step(
        **common, kv_bytes=kv_bytes, batch=np.maximum(batch * beams / groups, 1.0),
        context=input_tokens + output_tokens * np.where(engine.static, 1.0, 0.5), helped=helped,
    )  # fmt: skip
    sharing = np.where(batch > 1.0, constants.scheduling, 1.0)
    interrupts = np.maximum(batch - 1.0, 0.0) / output_tokens * prefill / sharing
    one_chunk = prefill * np.minimum(engine.chunk * plan.dp / fresh, batch)
    per_sequence = output_tokens * (decode + interrupts) + prefill
    requests = plan.replicas * batch / per_sequence * sharing
    ttft = alone + constants.server_overhead_s * engine.python
    return Serving(
        batch=batch,
        tpot=decode + np.where(engine.mixed, np.minimum(interrupts, one_chunk), interrupts),
        ttft_unloaded=ttft,
        latency=ttft + output_tokens * (decode + interrupts),
        output_tokens_per_s=requests * output_tokens,
        requests_per_s=requests,
        prefill_share=(output_tokens * interrupts + prefill) / per_sequence,
        on_host=helped.on_host,
    )


def helped_prefill(
    seconds: Any, *, shape: Shape, plan: Plan, device: Device, engine: Engine, constants: ServingConstants,
    weight_bytes: Any, tokens: Any, helped: Help,
) -> Any:  # fmt: skip
    """Prefill of `tokens` tokens with layers in host memory: their weights cross PCIe for every chunk [s]."""
    chunks = np.maximum(np.ceil(tokens / engine.chunk), 1.0)
    moved = helped.on_host * weight_bytes / plan.tp * chunks / (device.link * constants.link_efficiency)
    return seconds + moved * (shape.n_layers > 0)


def helped_step(
    *, shape: Shape, plan: Plan, device: Device, engine: Engine, constants: ServingConstants,
    weight_bytes: Any, kv_bytes: Any, batch: Any, context: Any, helped: Help,
) -> Any:  # fmt: skip
    """Time per token of a decode step with a draft to check and with layers in host memory [s].

    A checked step computes one token more than were drafted, and reads weights and cache once; layers in
    host memory are read at its bandwidth, one after the other with those on the card.
    """
    terms: dict[str, Any] = {
        "shape": shape, "plan": plan, "device": device, "engine": engine, "constants": constants,
        "weight_bytes": weight_bytes, "kv_bytes": kv_bytes,
    }  # fmt: skip
    step = decode_step_time(**terms, batch=batch, context=context)
    if np.any(helped.on_host):
        touched = touched_weight_bytes(
            shape=shape, plan=plan, engine=engine, weight_bytes=weight_bytes, tokens=batch,
            moe_bandwidth=constants.moe_bandwidth,
        )  # fmt: skip
        step = (1.0 - helped.on_host) * step + helped.on_host * touched / helped.host_bandwidth
    if not helped.drafted:
        return step
    checked = decode_step_time(
        **terms, batch=batch * (helped.drafted + 1), context=context / (helped.drafted + 1)
    )
    checked = np.maximum(checked, step) + helped.drafted * DRAFT_COST * step
    return checked / tokens_per_step(helped.acceptance, helped.drafted)


def kv_capacity(
    *,
    shape: Shape,
    plan: Plan,
    engine: Engine,
    usable_bytes: Any,
    serving_share: Any,
    weight_bytes: Any,
    kv_bytes: Any,
    context: Any,
    reserve: Any,
) -> Any:
    """Sequences of `context` tokens whose KV fits beside the weights of one replica."""
    shard = np.where(shape.mla, 1, np.minimum(plan.tp, shape.n_kv_heads)) * plan.pp * plan.dp
    held = weight_bytes_per_rank(shape=shape, plan=plan, engine=engine, weight_bytes=weight_bytes)
    free = serving_share * usable_bytes - held - reserve
    per_sequence = (
        1.05 * kv_bytes_per_sequence(shape=shape, context=context, bytes_per_element=kv_bytes) / shard
    )
    return np.maximum(np.floor(free / per_sequence), 0.0)
