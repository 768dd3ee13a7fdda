"""Memory per accelerator of training and serving a decoder, term by term, in bytes.

Every term says what shards it, and the peak is the largest of the phases of a step. What a layer keeps
comes from `estimate.memory_blocks`; the share of fused stacks is assumed, marked in data/calibration.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.estimate.offload import host_bytes
from gpuselect.estimate.shape import Shape, kv_bytes_per_sequence
from gpuselect.plan import BLOCKS, FULL, OFFLOADED_PARAMS, Plan


@dataclass(frozen=True, slots=True)
class Recipe:
    """Bytes per parameter and per activation of a training recipe.

    `act_hidden`, `act_ffn`, `act_rest`: saved bytes per token and layer, for a unit of hidden width, of FFN
    width, and in all. `work_*`: gradients alive inside the backward pass of one layer. `cast_bytes`: only of
    linear layers. Zero is what a stack does not keep.
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
    act_rest: float = 0.0
    score_bytes: float = 0.0  # per token, key and head, without a fused attention kernel
    mask_bytes: float = 0.0  # per token and key of each layer: only an attention mask that is kept
    mask_once: float = 0.0  # per token and key, once for all layers
    work_hidden: float = 0.0
    work_ffn: float = 0.0
    work_scores: float = 0.0  # per token, key and head, in the backward pass of plain attention
    head_hidden: float = 0.0  # per token and unit of hidden width, at the head
    kept_logits: float = 0.0  # logits that live until the backward pass is over, per vocabulary entry
    cast_bytes: float = 0.0  # copy of a linear weight that autocast keeps until it has been used
    dequantised_bytes: float = 0.0  # per element of the largest matrix, while it is multiplied
    update_bytes: float = 0.0  # temporaries of the optimizer step that is not sharded [B]
    frees_gradients: bool = False  # gradients are dropped after each step, not zeroed in place
    gathered_bytes: float = 0.0  # of a gathered weight, where it is not that of a kept one
    root_unit: bool = False  # FSDP: embeddings and head are one unit, whole from the first layer to the last
    sequence_parallel: bool = True  # tensor parallelism also divides what norms and residuals keep
    deepspeed: bool = False  # fixed buffers of DeepSpeed; plans with offload have them in any case


@dataclass(frozen=True, slots=True)
class Memory:
    """Terms of the peak [B]; `total` is their sum. `host`: what waits in the memory of the host."""

    weights: Any = 0.0
    gradients: Any = 0.0
    optimizer: Any = 0.0
    activations: Any = 0.0
    kv_cache: Any = 0.0
    temporaries: Any = 0.0
    overhead: Any = 0.0
    host: Any = 0.0

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
    """Activations that the first stage keeps for the backward pass [B].

    A = (a_h h + a_f f + a_r) bytes per token and layer; full recompute keeps the layer input only. tp
    (with sequence parallelism) and cp divide all of it.
    """
    tokens = plan.micro_batch * seq_len / plan.cp
    kept = _kept_per_layer(shape=shape, plan=plan, recipe=recipe, seq_len=seq_len)
    return tokens * kept * shape.n_layers * stage_share(shape, plan) * in_flight(plan)


def stage_share(shape: Shape, plan: Plan) -> Any:
    """Share of the layers that the largest stage of a pipeline holds: stages have whole layers."""
    return np.ceil(shape.n_layers / plan.pp) / shape.n_layers


def in_flight(plan: Plan) -> Any:
    """Micro-batches whose activations the first stage of a pipeline holds at once.

    1F1B holds min(pp, micro-batches); with v stages per rank 1 + (pp - 1) / (pp v) times as much
    (interleaved schedule, arXiv 2104.04473, section 2.2).
    """
    interleaved = np.where(plan.virtual > 1, 1.0 + (plan.pp - 1.0) / (plan.pp * plan.virtual), 1.0)
    return np.minimum(plan.pp * interleaved, plan.grad_accum)


def _layer_bytes(*, shape: Shape, plan: Plan, recipe: Recipe, seq_len: Any, scores: bool = True) -> Any:
    """What one layer keeps without recomputation, per token of the rank's share of a sequence [B]."""
    narrow = plan.tp if recipe.sequence_parallel else 1.0
    kept = recipe.act_hidden * shape.hidden / narrow
    kept = kept + (recipe.act_ffn * shape.ffn + recipe.act_rest) / plan.tp
    if scores:
        kept = kept + recipe.score_bytes * shape.n_heads * seq_len / plan.tp
    return kept + recipe.mask_bytes * seq_len / plan.tp


def _kept_per_layer(*, shape: Shape, plan: Plan, recipe: Recipe, seq_len: Any) -> Any:
    """What one layer keeps per token under the plan's recomputation [B].

    Selective recomputation drops the scores where attention keeps them (arXiv 2205.05198, section 5),
    else all but a share.
    """
    terms: dict[str, Any] = {"shape": shape, "plan": plan, "recipe": recipe, "seq_len": seq_len}
    everything = _layer_bytes(**terms)
    if recipe.score_bytes > 0:
        selective = _layer_bytes(**terms, scores=False)
    else:
        selective = recipe.selective_share * everything
    narrow = plan.tp if recipe.sequence_parallel else 1.0
    full = recipe.checkpoint_bytes * shape.hidden / narrow
    full = full / block_layers(**terms)
    recompute = np.asarray(plan.recompute)
    return np.where(recompute >= FULL, full, np.where(recompute == 1, selective, everything))


def block_layers(*, shape: Shape, plan: Plan, recipe: Recipe, seq_len: Any) -> Any:
    """Layers between two checkpoints of block-wise recomputation, 1 with any other.

    s layers are alive while their segment is computed anew, and l / s inputs for each of F micro-batches in
    flight: s A + F l i / s is least at s = sqrt(F l i / A) (arXiv 1604.06174, section 4, with F = 1).
    """
    if not np.any(plan.recompute == BLOCKS):
        return 1.0
    layers = np.ceil(shape.n_layers / plan.pp)
    narrow = plan.tp if recipe.sequence_parallel else 1.0
    one = _layer_bytes(shape=shape, plan=plan, recipe=recipe, seq_len=seq_len)
    inputs = in_flight(plan) * layers * recipe.checkpoint_bytes * shape.hidden / narrow
    best = np.round(np.sqrt(inputs / np.maximum(one, 1.0)))
    return np.where(np.asarray(plan.recompute) == BLOCKS, np.clip(best, 1, layers), 1.0)


@dataclass(frozen=True, slots=True)
class _Held:
    """Parameters of one rank before ZeRO, and the widths over which ZeRO divides them."""

    dense: Any
    experts: Any
    layer: Any  # of one layer
    embedding: Any  # of one matrix
    dense_width: Any
    expert_width: Any

    def bytes(self, per_parameter: float, sharded: Any) -> Any:
        """Bytes of a state that is divided where `sharded` is true."""
        dense = self.dense / np.where(sharded, self.dense_width, 1)
        return per_parameter * (dense + self.experts / np.where(sharded, self.expert_width, 1))


@dataclass(frozen=True, slots=True)
class _Phase:
    """What a phase of the step holds beside weights and optimizer states [B]."""

    gradients: Any
    activations: Any
    temporaries: Any

    def or_larger(self, other: _Phase) -> _Phase:
        """The phase that needs more, element by element."""
        mine = self.gradients + self.activations + self.temporaries
        theirs = other.gradients + other.activations + other.temporaries
        return _Phase(*(
            np.where(theirs > mine, getattr(other, name), getattr(self, name))
            for name in ("gradients", "activations", "temporaries")
        ))  # fmt: skip


def _held(shape: Shape, plan: Plan) -> _Held:
    """The largest stage: its whole layers with one of the two embeddings, or both without a pipeline.

    Optimizer states of experts that ep spreads are divided only over the ranks that hold the same ones.
    """
    layers = (shape.layer_params - shape.expert_params) / plan.tp
    matrix = shape.embedding_params / plan.tp
    experts = shape.expert_params / np.maximum(plan.tp, plan.ep)
    ranks = plan.dp * plan.cp
    return _Held(
        dense=layers * stage_share(shape, plan) + matrix * np.where(plan.pp > 1, 1.0, 2.0 - shape.tied),
        experts=experts * stage_share(shape, plan),
        layer=(layers + experts) / shape.n_layers,
        embedding=matrix,
        dense_width=ranks,
        expert_width=np.maximum(ranks * plan.tp / np.maximum(plan.tp, plan.ep), 1),
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
    """Peak per accelerator [B]: the largest of loss, backward pass of the last and first layer, and step.

    ZeRO-1 shards optimizer states over dp, ZeRO-2 also gradients, ZeRO-3 also weights, which then
    keeps two gathered layers alive (Rajbhandari 2020, arXiv 1910.02054, section 5). Frozen base
    weights of LoRA carry no gradients or states. The logits live on the last pipeline stage, where
    one micro-batch is in flight; the first one holds those of the schedule.

    With offload the states of the optimizer and the gradients wait on the host (ZeRO-Offload, arXiv
    2101.06840), the weights too where the plan says so (ZeRO-Infinity, arXiv 2104.07857).

    `fragmentation` multiplies what is allocated; `context_bytes` is the driver's own share.
    """
    held = _held(shape, plan)
    share = recipe.trainable_params / shape.params
    weights = held.bytes(recipe.weight_bytes, plan.zero_stage >= 3)
    weights = weights + recipe.trainable_weight_bytes * share * (held.dense + held.experts)
    optimizer = held.bytes(recipe.optimizer_bytes, plan.zero_stage >= 1) * share
    host: Any = 0.0
    if np.any(plan.offload):
        whole = held.dense + held.experts
        host = host_bytes(
            plan=plan, weights=recipe.weight_bytes * whole, trained=share * whole,
            optimizer_bytes=recipe.optimizer_bytes,
        )  # fmt: skip
        weights = np.where(np.asarray(plan.offload) == OFFLOADED_PARAMS, 0.0, weights)
        optimizer = np.where(np.asarray(plan.offload) > 0, 0.0, optimizer)
    peak = _peak_phase(shape=shape, plan=plan, recipe=recipe, seq_len=seq_len, held=held)
    allocated = weights + optimizer + peak.gradients + peak.activations + peak.temporaries
    return Memory(
        weights=weights,
        gradients=peak.gradients,
        optimizer=optimizer,
        activations=peak.activations,
        temporaries=peak.temporaries,
        overhead=(fragmentation - 1.0) * allocated + context_bytes,
        host=host,
    )


def _peak_phase(*, shape: Shape, plan: Plan, recipe: Recipe, seq_len: Any, held: _Held) -> _Phase:
    """The phase of a step that holds most.

    At the loss the head's inputs and the logits are alive; in the backward pass of the last layer all
    layers, and what that one works with; in that of the first, under full recomputation, nearly all
    gradients and one layer; at the step all gradients (feasibility study, training, section 2.3).
    """
    tokens = plan.micro_batch * seq_len / plan.cp
    narrow = plan.tp if recipe.sequence_parallel else 1.0
    terms: dict[str, Any] = {"shape": shape, "plan": plan, "recipe": recipe, "seq_len": seq_len}
    kept = saved_activation_bytes(**terms)
    flying = in_flight(plan)
    one = tokens * _layer_bytes(**terms) * block_layers(**terms)
    again = np.where(plan.recompute > 0, one, 0.0)  # the layer, or block, that is computed anew
    working = tokens * np.maximum(
        recipe.work_hidden * shape.hidden / narrow + recipe.work_ffn * shape.ffn / plan.tp,
        recipe.work_scores * shape.n_heads * seq_len / plan.tp,
    )
    logits = shape.vocab * tokens / plan.tp
    head = recipe.head_hidden * shape.hidden * tokens / narrow + recipe.logits_bytes * logits
    mask = recipe.mask_once * seq_len * tokens
    gradients = held.bytes(recipe.gradient_bytes, plan.zero_stage >= 2) * (
        recipe.trainable_params / shape.params
    )  # fmt: skip
    gradients = np.where(np.asarray(plan.offload) > 0, 0.0, gradients)  # they leave as they are computed
    freed = recipe.frees_gradients & (np.asarray(plan.grad_accum) == 1)
    before = np.where(freed, 0.0, gradients)
    always = gathered_bytes(plan=plan, recipe=recipe, held_layer=held.layer, embedding=held.embedding)
    always = always + buffer_bytes(
        plan=plan, recipe=recipe, parameters=held.dense + held.experts, gathered=always
    )  # fmt: skip
    copies = _cast_bytes(shape, plan, recipe, held)
    matrix = shape.hidden * shape.ffn / max(shape.top_k, 1) / plan.tp
    late = _last_layer_gradients(recipe, matrix)
    loss = _Phase(before, kept / flying, head + mask + copies)
    last = _Phase(before, kept + again, working + late + recipe.kept_logits * logits + mask + copies)
    graded = np.where(freed, _graded(shape, recipe, held, matrix), 1.0)
    deep = (flying - 1.0) / flying * kept + one
    fully = np.asarray(plan.recompute) >= FULL
    layer_copy = recipe.cast_bytes * (held.layer - matrix)
    first = _Phase(
        gradients * graded,
        np.where(fully, deep, 0.0),
        np.where(fully, working + recipe.kept_logits * logits + mask + layer_copy, 0.0),
    )
    step = _Phase(gradients, 0.0, recipe.update_bytes)
    peak = loss.or_larger(last).or_larger(first).or_larger(step)
    return _Phase(peak.gradients, peak.activations, peak.temporaries + always)


def gathered_bytes(*, plan: Plan, recipe: Recipe, held_layer: Any, embedding: Any) -> Any:
    """What ZeRO keeps whole for a moment [B]: its floor, which no width divides.

    ZeRO-3: two layers, or a layer and an embedding; from ZeRO-2 on also the gradients of one layer
    before they are reduced. FSDP does not free its root unit, the parameters outside the wrapped layers,
    between forward and backward pass (PyTorch, FullyShardedDataParallel, reshard after forward).
    """
    wide = (np.asarray(plan.dp) > 1) | (np.asarray(plan.offload) > 0)
    each = recipe.gathered_bytes or recipe.weight_bytes
    root = 2.0 * embedding if recipe.root_unit else 0.0
    weights = each * np.where(
        root > 0, 2.0 * held_layer + root, held_layer + np.maximum(held_layer, embedding)
    )
    whole = recipe.trainable_weight_bytes == 0
    gradient = (each if recipe.gathered_bytes else recipe.gradient_bytes) * held_layer if whole else 0.0
    return np.where((plan.zero_stage >= 3) & wide, weights, 0.0) + np.where(
        (plan.zero_stage >= 2) & wide, gradient, 0.0
    )


BUCKET, LIVE = 5e8, 1e9  # elements: reduce_bucket_size, stage3_max_live_parameters; DeepSpeed, configuration
BUCKET_BYTES = 2.0  # of an element


def buffer_bytes(*, plan: Plan, recipe: Recipe, parameters: Any, gathered: Any) -> Any:
    """Fixed buffers of DeepSpeed's ZeRO [B], no larger than the `parameters` of the rank.

    Stages 1 and 2: a bucket of gradients that is filled while the last one is reduced. Stage 3: one bucket,
    and parameters that stay gathered until so many are alive, the layers in `gathered` among them.
    """
    if not (recipe.deepspeed or np.any(plan.offload)):
        return 0.0
    bucket = BUCKET_BYTES * np.minimum(BUCKET, parameters) * (recipe.trainable_weight_bytes == 0)
    live = np.maximum(BUCKET_BYTES * np.minimum(LIVE, parameters) - gathered, 0.0)
    used = (np.asarray(plan.zero_stage) >= 1) & (recipe.deepspeed | (np.asarray(plan.offload) > 0))
    return np.where(used, np.where(plan.zero_stage >= 3, live + bucket, 2.0 * bucket), 0.0)


def _cast_bytes(shape: Shape, plan: Plan, recipe: Recipe, held: _Held) -> Any:
    """16-bit copies of linear weights at the loss: of all, under full recomputation of the head only."""
    linear = held.dense - np.where((plan.pp > 1) | shape.tied, 0.0, held.embedding)
    return recipe.cast_bytes * np.where(np.asarray(plan.recompute) >= FULL, held.embedding, linear)


def _last_layer_gradients(recipe: Recipe, matrix: Any) -> Any:
    """Gradient of the first weight that the backward pass reaches, and a matrix that is dequantised [B]."""
    trained = recipe.gradient_bytes if recipe.trainable_weight_bytes == 0 and recipe.frees_gradients else 0.0
    return (trained + recipe.dequantised_bytes) * matrix


def _graded(shape: Shape, recipe: Recipe, held: _Held, matrix: Any) -> Any:
    """Share of the gradients that exist when the first layer's backward pass reaches its FFN."""
    if recipe.trainable_weight_bytes:
        return 1.0
    missing = held.layer - matrix + (0.0 if shape.tied else held.embedding)
    return 1.0 - missing / (held.dense + held.experts)


ELEMENT = 2.0  # 16-bit activations [B]
FFN_LIVE, HIDDEN_LIVE = 3.0, 2.0  # widths alive in a gated FFN: gate, up and product; input and residual


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
    kv_copies: Any = 1.0,
) -> Memory:
    """Need per accelerator [B] to serve `sequences` concurrent sequences of `context` tokens.

    weights / (tp pp) + 1.05 KV / (min(tp, kv heads) pp) + 2 tokens (3 f / tp + 2 h) + context (form and
    share of the cache: feasibility study, section 7). The temporaries of a prompt are those of its FFN: gate,
    up and their product beside input and residual.
    Windowed layers keep their window, layers without attention nothing, and MLA's latent cache is
    replicated over tp. `weight_bytes` are all weights in their storage format, `kv_copies` how often an
    engine holds the cache at once, `context_bytes` driver, runtime and captured graphs.
    """
    kv_shard = np.where(shape.mla, 1, np.minimum(plan.tp, shape.n_kv_heads)) * plan.pp
    kv = (
        1.05
        * kv_copies
        * sequences
        / kv_shard
        * kv_bytes_per_sequence(shape=shape, context=context, bytes_per_element=kv_bytes)
    )
    return Memory(
        weights=weight_bytes / (plan.tp * plan.pp),
        kv_cache=kv,
        temporaries=ELEMENT * prefill_tokens * (FFN_LIVE * shape.ffn / plan.tp + HIDDEN_LIVE * shape.hidden),
        overhead=context_bytes + 0.0 * plan.tp,
    )
