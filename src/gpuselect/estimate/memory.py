"""Memory per accelerator of training and serving a decoder, term by term, in bytes.

The coefficients of saved activations were derived from exact allocator traces of Hugging Face
models (data/measurements/memory_reference.csv); those of fused stacks are an assumption, marked in
data/calibration.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.estimate.shape import Shape, kv_bytes_per_sequence
from gpuselect.plan import Plan


@dataclass(frozen=True, slots=True)
class Recipe:
    """Bytes per parameter and per activation of a training recipe.

    `act_hidden`, `act_ffn`: saved bytes per token, layer and unit of hidden / FFN width.
    """

    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    act_hidden: float
    act_ffn: float
    checkpoint_bytes: float  # bytes of one saved layer input per element (full recompute)
    logits_bytes: float  # bytes per token and vocabulary entry at the loss
    trainable_params: float  # parameters with gradients and optimizer states
    trainable_weight_bytes: float = 0.0  # adapters kept beside frozen weights
    selective_share: float = 0.4


@dataclass(frozen=True, slots=True)
class Memory:
    """Terms of the peak [B]; `total` is their sum."""

    weights: Any = 0.0
    gradients: Any = 0.0
    optimizer: Any = 0.0
    activations: Any = 0.0
    kv_cache: Any = 0.0
    temporaries: Any = 0.0
    overhead: Any = 0.0

    @property
    def total(self) -> Any:
        """Need per accelerator [B]."""
        return (
            self.weights + self.gradients + self.optimizer + self.activations
            + self.kv_cache + self.temporaries + self.overhead
        )  # fmt: skip


def parameters_per_rank(*, shape: Shape, plan: Plan) -> Any:
    """Parameters that one rank holds before ZeRO: tp and pp shard all, ep the routed experts."""
    dense = (shape.params - shape.expert_params) / (plan.tp * plan.pp)
    experts = shape.expert_params / (np.maximum(plan.tp, plan.ep) * plan.pp)
    return dense + experts


def saved_activation_bytes(*, shape: Shape, plan: Plan, recipe: Recipe, seq_len: Any) -> Any:
    """Activations kept for the backward pass by one rank [B].

    A = (a_h h + a_f f) bytes per token and layer; full recompute keeps the layer input only and one
    layer's A. A 1F1B pipeline stage holds min(pp, micro-batches) micro-batches of L/pp layers; tp
    (with sequence parallelism) and cp divide all of it.
    """
    tokens = plan.micro_batch * seq_len / (plan.cp * plan.tp)
    layers = shape.n_layers / plan.pp
    in_flight = np.minimum(plan.pp, plan.grad_accum)
    layer = (recipe.act_hidden * shape.hidden + recipe.act_ffn * shape.ffn) * tokens
    full = layers * in_flight * recipe.checkpoint_bytes * shape.hidden * tokens + layer
    none = layers * in_flight * layer
    return np.where(
        plan.recompute == 2, full, np.where(plan.recompute == 1, recipe.selective_share, 1.0) * none
    )


def training_memory(
    *,
    shape: Shape,
    plan: Plan,
    recipe: Recipe,
    seq_len: Any,
    fragmentation: Any,
    context_bytes: Any,
) -> Memory:
    """Peak per accelerator [B] as the maximum of end-of-forward and optimizer step.

    ZeRO-1 shards optimizer states over dp, ZeRO-2 also gradients, ZeRO-3 also weights, which then
    keeps two gathered layers alive (Rajbhandari 2020, arXiv 1910.02054, section 5). Frozen base
    weights of LoRA carry no gradients or states. The logits live on the last pipeline stage, where
    one micro-batch is in flight; with pp > 1 the larger of both stages counts.

    `fragmentation` multiplies what is allocated; `context_bytes` is the driver's own share.
    """
    held = parameters_per_rank(shape=shape, plan=plan)
    trainable = recipe.trainable_params / shape.params * held
    shard3 = np.where(plan.zero_stage >= 3, plan.dp, 1)
    shard2 = np.where(plan.zero_stage >= 2, plan.dp, 1)
    shard1 = np.where(plan.zero_stage >= 1, plan.dp, 1)
    gathered = np.where(
        plan.zero_stage >= 3, 2.0 * recipe.weight_bytes * held * plan.pp / shape.n_layers, 0.0
    )
    weights = recipe.weight_bytes * held / shard3 + recipe.trainable_weight_bytes * trainable
    gradients = recipe.gradient_bytes * trainable / shard2
    optimizer = recipe.optimizer_bytes * trainable / shard1
    activations = saved_activation_bytes(shape=shape, plan=plan, recipe=recipe, seq_len=seq_len)
    tokens = plan.micro_batch * seq_len / plan.cp
    logits = recipe.logits_bytes * shape.vocab * tokens / plan.tp
    # pipeline: the first stage holds pp micro-batches and no logits, the last one and the logits
    last_stage = activations / np.minimum(plan.pp, plan.grad_accum) + logits
    at_loss = np.where(plan.pp > 1, np.maximum(activations, last_stage), activations + logits)
    temporaries = at_loss - activations + gathered
    allocated = weights + gradients + optimizer + activations + temporaries
    return Memory(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        activations=activations,
        temporaries=temporaries,
        overhead=(fragmentation - 1.0) * allocated + context_bytes,
    )


def serving_memory(
    *,
    shape: Shape,
    plan: Plan,
    weight_bytes: Any,
    sequences: Any,
    context: Any,
    kv_bytes: Any,
    prefill_tokens: Any,
    context_bytes: Any,
) -> Memory:
    """Need per accelerator [B] to serve `sequences` concurrent sequences of `context` tokens.

    weights / (tp pp) + 1.05 KV / (min(tp, kv heads) pp) + 0.6 * 8 * tokens * h * 2 + context
    (form and constants: feasibility study, section 7; fitted on engines that do not pre-allocate).
    MLA's latent cache is replicated over tp. `weight_bytes` are all weights in their storage format.
    """
    kv_shard = np.where(shape.mla, 1, np.minimum(plan.tp, shape.n_kv_heads)) * plan.pp
    kv = (
        1.05
        * sequences
        / kv_shard
        * kv_bytes_per_sequence(shape=shape, context=context, bytes_per_element=kv_bytes)
    )
    return Memory(
        weights=weight_bytes / (plan.tp * plan.pp),
        kv_cache=kv,
        temporaries=0.6 * 8.0 * prefill_tokens * shape.hidden * 2.0 + 0.0 * plan.tp,
        overhead=context_bytes + 0.0 * plan.tp,
    )
