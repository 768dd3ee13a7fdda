"""Memory of decoder rows: need against measured peak, fit decisions, and the allocator reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuselect.accuracy.records import Fit, Row, Scored, Skip
from gpuselect.accuracy.rows import number, whole
from gpuselect.calibration import Calibration
from gpuselect.estimate.memory import Recipe, training_memory
from gpuselect.estimate.shape import Shape
from gpuselect.options import CLOSE_ABOVE
from gpuselect.plan import Plan
from gpuselect.search import TIGHT_FROM
from gpuselect.units import GIB

if TYPE_CHECKING:
    from gpuselect.accuracy.decoder_training import Case

# Saved bytes per token and layer: (per hidden unit, per FFN unit); head term per hidden unit; loss term
# per vocabulary entry; bytes per saved layer input. Feasibility study (training), section 2.2 and 2.3.
REFERENCE_ACTIVATIONS = {
    ("llama", "bf16"): (24.0, 8.0, 8.0, 14.0, 2.0),
    ("llama", "amp-bf16"): (34.0, 8.0, 10.0, 14.0, 4.0),
    ("llama", "fp32"): (40.0, 16.0, 12.0, 16.0, 4.0),
    ("gpt2", "bf16"): (24.0, 8.0, 3.0, 14.0, 2.0),
    ("gpt2", "amp-bf16"): (28.0, 8.0, 8.0, 14.0, 4.0),
    ("gpt2", "fp32"): (48.0, 16.0, 7.0, 16.0, 4.0),
}
# weights, gradients, AdamW moments, SGD momentum [bytes per parameter]; same study, section 2.1
REFERENCE_STATES = {"bf16": (2.0, 2.0, 4.0, 2.0), "amp-bf16": (4.0, 4.0, 8.0, 4.0),
                    "fp32": (4.0, 4.0, 8.0, 4.0)}  # fmt: skip
AUTOCAST_COPY = 2.0  # bytes per linear weight that autocast caches; same study, section 2.2
MASK_BYTES = {"bf16": 2.0, "amp-bf16": 2.0, "fp32": 4.0}  # per token, key and layer: CPU attention only


def training_need(*, case: Case, calibration: Calibration, kind: str) -> float:
    """Predicted peak per accelerator [B] in the sense of `mem_kind`.

    `allocated` counts tensors only, `reserved` what the allocator holds, anything else the driver's
    view: with context and collective buffers (feasibility study, section 2.5).
    """
    constants = calibration.memory
    need = training_memory(
        shape=case.shape, plan=case.plan, recipe=case.recipe, seq_len=case.seq_len,
        fragmentation=1.0 if kind == "allocated" else float(constants.fragmentation),
        context_bytes=0.0
        if kind in ("allocated", "reserved")
        else float(constants.training_context_gib) * GIB,
    )  # fmt: skip
    return float(need.total)


def fit_for(row: Row, *, need: float, usable: float) -> Fit:
    """The fit record of a need and a usable size [B]: `tight` is 0.85 to 1.15 of the usable memory."""
    share = need / usable
    state = "fits" if share <= TIGHT_FROM else "tight" if share <= CLOSE_ABOVE else "no"
    return Fit(
        row_id=row.get("row_id", ""), measured=row.get("outcome", "ok") == "ok", predicted=need <= usable,
        state=state, need_gib=need / GIB, usable_gib=usable / GIB,
    )  # fmt: skip


def predict_reference(row: Row, calibration: Calibration) -> list[Scored]:
    """Peak of a row of the allocator reference [GiB]: the largest of three events of a step.

    At the loss gradients are freed; with full recomputation the first layer's backward pass holds one
    layer's activations beside nearly all gradients; at the optimizer step activations are freed, and the
    looping optimizer holds two copies of its largest tensor (feasibility study, section 2.3).
    """
    key = (row.get("arch", ""), row.get("precision", ""))
    if key not in REFERENCE_ACTIVATIONS or row.get("method", "full") != "full":
        raise Skip("arch-not-covered", " ".join((*key, row.get("method", ""))))
    if number(row, "peak_gib") <= 0:
        raise Skip("no-metric")
    shape, recipe = _reference_case(row, calibration)
    states = recipe.weight_bytes + recipe.gradient_bytes + recipe.optimizer_bytes
    at_step = states * shape.params + 2.0 * recipe.weight_bytes * shape.embedding_params
    events = (_at_loss(row, shape, recipe), _at_backward(row, shape, recipe), at_step)
    return [
        Scored(
            row.get("row_id", ""), "memory-reference", f"memory reference {key[0]}", "peak_gib",
            number(row, "peak_gib"), max(events) / GIB, "memory",
        )
    ]  # fmt: skip


def _at_loss(row: Row, shape: Shape, recipe: Recipe) -> float:
    """Allocated at the loss [B]; with full recomputation layer inputs and one attention mask are held."""
    full = row.get("recompute", "none") == "full"
    if full:
        mask = MASK_BYTES[row["precision"]] * number(row, "seq") / shape.hidden
        recipe = replace(recipe, act_hidden=mask, act_ffn=0.0)
    held = training_memory(
        shape=shape, plan=Plan(micro_batch=whole(row, "batch"), recompute=2 if full else 0),
        recipe=replace(recipe, gradient_bytes=0.0), seq_len=number(row, "seq"), fragmentation=1.0,
        context_bytes=0.0,
    ).total  # fmt: skip
    copied = 0.0
    if row["precision"] == "amp-bf16":
        linear = shape.params if shape.tied else shape.params - shape.embedding_params
        copied = shape.embedding_params if full else linear
    return float(held) + AUTOCAST_COPY * copied


def _at_backward(row: Row, shape: Shape, recipe: Recipe) -> float:
    """Allocated in the backward pass of the first layer [B]; 0 without full recomputation."""
    if row.get("recompute", "none") != "full":
        return 0.0
    tokens = whole(row, "batch") * number(row, "seq")
    layer = shape.layer_params / shape.n_layers
    graded = shape.params - layer - (0.0 if shape.tied else shape.embedding_params)
    width = 2.0 if row["precision"] == "bf16" else 4.0
    activations = recipe.act_hidden * shape.hidden + recipe.act_ffn * shape.ffn
    working = width * (2.5 * shape.ffn + 6.0 * shape.hidden) + recipe.checkpoint_bytes * shape.hidden
    copied = AUTOCAST_COPY * layer if row["precision"] == "amp-bf16" else 0.0
    held = (recipe.weight_bytes + recipe.optimizer_bytes) * shape.params + recipe.gradient_bytes * graded
    return held + tokens * (activations + working) + copied


def _reference_case(row: Row, calibration: Calibration) -> tuple[Shape, Recipe]:
    """Shape and recipe of a reference row; the mask of CPU attention counts as part of the hidden width."""
    arch, precision = row["arch"], row["precision"]
    hidden, vocab, heads = whole(row, "hidden"), whole(row, "vocab"), whole(row, "heads")
    params, kv_heads = number(row, "params_b") * 1e9, whole(row, "kv_heads", heads)
    if not params:
        raise Skip("size-unknown", row.get("row_id", ""))
    per_hidden, per_ffn, head, loss, checkpoint = REFERENCE_ACTIVATIONS[arch, precision]
    weights, gradients, adam, momentum = REFERENCE_STATES[precision]
    shape = Shape(
        params=params, active_params=params, embedding_params=float(vocab * hidden), tied=arch == "gpt2",
        n_layers=whole(row, "n_layers"), hidden=hidden, ffn=number(row, "ffn"), n_heads=heads,
        n_kv_heads=kv_heads, head_dim=hidden // heads, vocab=vocab,
        kv_width=2.0 * kv_heads * (hidden // heads), attention_layers=whole(row, "n_layers"), window=0,
        windowed_layers=0,
    )  # fmt: skip
    recipe = Recipe(
        weight_bytes=weights, gradient_bytes=gradients,
        optimizer_bytes=momentum if "sgd" in row.get("optimizer", "").lower() else adam,
        act_hidden=per_hidden + MASK_BYTES[precision] * number(row, "seq") / hidden, act_ffn=per_ffn,
        checkpoint_bytes=checkpoint,
        logits_bytes=loss + head * hidden / vocab, trainable_params=params,
        selective_share=float(calibration.memory.selective_share),
    )  # fmt: skip
    return shape, recipe
