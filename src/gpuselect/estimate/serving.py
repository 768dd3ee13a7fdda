"""Serving a decoder: one decode step, prefill, steady state of continuous batching.

Form: feasibility study E1-E14; docs/methodology.md. Loaded TTFT and tail latencies are not given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.calibration import ServingConstants
from gpuselect.estimate.collectives import all_reduce
from gpuselect.estimate.roofline import Device, soft_max_time
from gpuselect.estimate.shape import Shape, expected_active_experts, kv_bytes_per_sequence
from gpuselect.plan import Plan

EAGER_KV_COPIES = 3.0  # concatenation reads and writes the cache once more each (study, E7)


@dataclass(frozen=True, slots=True)
class Engine:
    """What the engine, format and card class make of the hardware; arrays or numbers."""

    compute: Any  # factor on the compute rate, format included
    memory: Any  # factor on weight traffic (dequantisation)
    prefill: Any  # factor on prefill compute (dequantisation)
    python: Any = True  # per-step and per-sequence host time
    eager: Any = False  # launches every kernel from Python, and copies its KV cache


@dataclass(frozen=True, slots=True)
class Serving:
    """Steady state of one deployment: per-replica batch, times [s] and rates over all replicas."""

    batch: Any
    tpot: Any
    ttft_unloaded: Any
    latency: Any
    output_tokens_per_s: Any
    requests_per_s: Any


def touched_weight_bytes(*, shape: Shape, weight_bytes: Any, tokens: Any, moe_bandwidth: Any) -> Any:
    """Bytes of weights that one step reads: dense parts, and the experts that its tokens touch [B].

    The input embedding table is not read. MoE: E (1 - (1 - k/E)^T) distinct experts.
    """
    per_param = weight_bytes / shape.params
    experts = shape.expert_params
    dense = shape.params - experts - (0.0 if shape.tied else shape.embedding_params)
    if not shape.n_experts:
        return dense * per_param + 0.0 * tokens
    share = (
        expected_active_experts(n_experts=shape.n_experts, top_k=shape.top_k, tokens=tokens) / shape.n_experts
    )
    return (dense + experts * share / moe_bandwidth) * per_param


def communication_time(
    *, shape: Shape, plan: Plan, device: Device, constants: ServingConstants, tokens: Any
) -> Any:
    """Two all-reduces per layer of T h 2 bytes, latency included [s]."""
    one = all_reduce(
        size=tokens * shape.hidden * 2.0, ranks=plan.tp,
        bandwidth=device.link * constants.link_efficiency, latency=device.link_latency,
    )  # fmt: skip
    return 2.0 * shape.n_layers * one


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
    touched = touched_weight_bytes(
        shape=shape, weight_bytes=weight_bytes, tokens=batch, moe_bandwidth=constants.moe_bandwidth
    )
    memory = touched / plan.tp / (device.bandwidth * device.bandwidth_efficiency * engine.memory)
    flops = 2.0 * batch * (shape.active_params - (0.0 if shape.tied else shape.embedding_params))
    compute = flops / plan.tp / (device.peak * device.gemm_efficiency * engine.compute)
    kv_shard = np.where(shape.mla, 1, np.minimum(plan.tp, shape.n_kv_heads))
    kv = (
        batch
        * kv_bytes_per_sequence(shape=shape, context=context, bytes_per_element=kv_bytes)
        / kv_shard
        / (device.bandwidth * constants.kv_efficiency)
        * np.where(engine.eager, EAGER_KV_COPIES, 1.0)
    )
    per_layer = constants.layer_overhead_s + (constants.moe_layer_overhead_s if shape.n_experts else 0.0)
    host = (constants.step_overhead_s + batch * constants.sequence_overhead_s) * engine.python
    work = (
        soft_max_time(compute=compute, memory=memory) + kv + shape.n_layers * per_layer + host
        + communication_time(
            shape=shape, plan=plan, device=device, constants=constants, tokens=batch
        )
    )  # fmt: skip
    return with_launch_time(work=work, shape=shape, engine=engine, constants=constants)


def with_launch_time(*, work: Any, shape: Shape, engine: Engine, constants: ServingConstants) -> Any:
    """Time of a step whose kernels Python launches one by one: max(work, L * launch) plus 0.3 min [s]."""
    launch = shape.n_layers * constants.eager_layer_s
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
) -> Any:
    """Time to process a prompt of `tokens` tokens [s]: compute at the efficiency of its length.

    GEMM efficiency rises as T / (T + T_half); attention is quadratic; never faster than one read
    of the weights it touches.
    """
    rate = device.peak * device.gemm_efficiency * engine.compute * engine.prefill
    rate = rate * tokens / (tokens + constants.half_efficiency_tokens)
    if shape.n_experts:
        rate = rate * constants.moe_compute
    linear = 2.0 * tokens * (shape.active_params - shape.embedding_params) / plan.tp / rate
    attention = (
        2.0
        * shape.n_layers
        * shape.q_width
        * tokens
        * tokens
        / plan.tp
        / (device.peak_16bit * constants.attention_prefill_efficiency)
    )
    floor = (
        touched_weight_bytes(
            shape=shape,
            weight_bytes=weight_bytes,
            tokens=tokens,
            moe_bandwidth=constants.moe_bandwidth,
        )
        / plan.tp
        / (device.bandwidth * device.bandwidth_efficiency * engine.memory)
    )
    overhead = shape.n_layers * constants.layer_overhead_s
    work = (
        np.maximum(linear + attention, floor)
        + overhead
        + communication_time(shape=shape, plan=plan, device=device, constants=constants, tokens=tokens)
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
) -> Serving:
    """Continuous batching in a closed loop of `batch` sequences per replica.

    TPOT = decode step + share of the prefills that interrupt it; a full
    pipeline of pp stages keeps pp groups of batch / pp sequences in flight, one per stage.
    """
    context = input_tokens + output_tokens / 2.0
    prefill = prefill_time(
        shape=shape, plan=plan, device=device, engine=engine, constants=constants,
        weight_bytes=weight_bytes, tokens=input_tokens,
    )  # fmt: skip
    decode = decode_step_time(
        shape=shape, plan=plan, device=device, engine=engine, constants=constants,
        weight_bytes=weight_bytes, kv_bytes=kv_bytes, batch=np.maximum(batch / plan.pp, 1.0), context=context,
    )  # fmt: skip
    tpot = decode + np.maximum(batch - 1.0, 0.0) / output_tokens * prefill / constants.scheduling
    per_sequence = output_tokens * tpot + prefill
    requests = plan.replicas * batch / per_sequence * constants.scheduling
    ttft = prefill + constants.server_overhead_s * engine.python
    return Serving(
        batch=batch,
        tpot=tpot,
        ttft_unloaded=ttft,
        latency=ttft + output_tokens * tpot,
        output_tokens_per_s=requests * output_tokens,
        requests_per_s=requests,
    )


def kv_capacity(
    *,
    shape: Shape,
    plan: Plan,
    usable_bytes: Any,
    serving_share: Any,
    weight_bytes: Any,
    kv_bytes: Any,
    context: Any,
    reserve: Any,
) -> Any:
    """Sequences of `context` tokens whose KV fits beside the weights of one replica."""
    shard = np.where(shape.mla, 1, np.minimum(plan.tp, shape.n_kv_heads)) * plan.pp
    free = serving_share * usable_bytes - weight_bytes / (plan.tp * plan.pp) - reserve
    per_sequence = (
        1.05 * kv_bytes_per_sequence(shape=shape, context=context, bytes_per_element=kv_bytes) / shard
    )
    return np.maximum(np.floor(free / per_sequence), 0.0)
