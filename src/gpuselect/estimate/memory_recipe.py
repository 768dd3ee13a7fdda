"""From a method, a precision and an optimizer to the bytes of a training recipe."""

from __future__ import annotations

from gpuselect.calibration import Calibration
from gpuselect.errors import InputError
from gpuselect.estimate.memory import Recipe
from gpuselect.estimate.memory_blocks import SCORE_BYTES, activation_terms
from gpuselect.estimate.shape import Shape
from gpuselect.i18n import _

ADAPTERS = ("lora", "qlora", "prefix")  # on a frozen base
WIDE = ("fp32", "tf32")
# weights, gradients, optimizer: mixed precision of arXiv 1910.02054, section 3.1, fp32 gradients
TRAINABLE_BYTES = {
    "bf16": (2.0, 4.0, 12.0), "fp16": (2.0, 4.0, 12.0), "fp8": (2.0, 4.0, 12.0),
    "mxfp8": (2.0, 4.0, 12.0), "nvfp4": (2.0, 4.0, 12.0), "tf32": (4.0, 4.0, 8.0),
    "fp32": (4.0, 4.0, 8.0),
}  # fmt: skip
ADAMW = 8.0  # two fp32 moments
# bytes of moments beside the master copy: Adam in 8 bit arXiv 2110.02861; momentum of SGD and Muon in fp32;
# Adafactor keeps sums of rows and columns (arXiv 1804.04235)
MOMENTS = {
    "adamw": ADAMW, "adam": ADAMW, "adamw-8bit": 2.0, "adamw8bit": 2.0, "adam8bit": 2.0, "adamw-bf16": 4.0,
    "sgd": 4.0, "sgd-momentum": 4.0, "muon": 4.0, "adafactor": 0.0,
}  # fmt: skip
PURE_16_BIT = (2.0, 2.0, 4.0)  # everything in 16 bit, no master copy: `adamw-bf16`
OFFERED = ("adamw", "adamw-8bit", "adamw-bf16", "adafactor", "sgd", "muon")
NF4_BYTES = 0.56  # 4 bits and the scales of blocks of 64: arXiv 2305.14314, section 3


def lora_params(*, shape: Shape, rank: int) -> float:
    """Parameters of adapters on all linear layers: L r [2h + 2(h + d_kv) + 3(h + f)]."""
    kv = shape.n_kv_heads * shape.head_dim
    per_layer = 2 * shape.hidden + 2 * (shape.hidden + kv) + 3 * (shape.hidden + shape.ffn)
    return float(shape.n_layers * rank * per_layer)


def prefix_params(*, shape: Shape, tokens: int) -> float:
    """Parameters of prefix tuning: keys and values of `tokens` virtual tokens in every layer, 2 L n d_kv.

    Prefix-Tuning, arXiv 2101.00190, section 4.2, without the network that may make them during training.
    """
    return float(2 * shape.n_layers * tokens * shape.n_kv_heads * shape.head_dim)


def states_of(*, shape: Shape, precision: str, optimizer: str) -> tuple[float, float, float]:
    """Bytes of weights, gradients and optimizer states per trained parameter.

    Raises InputError for an optimizer that is not known, and for a precision that nobody trains in.
    """
    if optimizer not in MOMENTS:
        text = _("unknown optimizer {name!r}; allowed: {known}")
        raise InputError(text.format(name=optimizer, known=_(", ").join(OFFERED)))
    if precision not in TRAINABLE_BYTES:
        text = _("no recipe to train in {name!r}; allowed: {known}")
        raise InputError(text.format(name=precision, known=_(", ").join(TRAINABLE_BYTES)))
    if optimizer == "adamw-bf16" and precision not in WIDE:
        return PURE_16_BIT
    weights, gradients, states = TRAINABLE_BYTES[precision]
    moments = MOMENTS[optimizer]
    if optimizer == "muon":  # matrices of the layers only; embeddings keep AdamW
        share = shape.embedding_params * (2 - shape.tied) / shape.params
        moments += share * (ADAMW - moments)
    elif optimizer == "adafactor":
        moments = 4.0 * (1.0 / shape.hidden + 1.0 / max(shape.ffn, 1.0))
    return weights, gradients, states - ADAMW + moments


def training_recipe(
    *,
    shape: Shape,
    method: str,
    precision: str,
    fused: bool,
    optimizer: str,
    lora_rank: int,
    calibration: Calibration,
    flash: bool = True,
    prefix_tokens: int = 0,
) -> Recipe:
    """Bytes per parameter and activation of a method, precision and optimizer.

    Mixed precision holds 2 + 4 + 12 bytes per trained parameter (weights, fp32 gradients, AdamW
    moments and master copy). LoRA keeps the base in the width of the arithmetic, 16 or 32 bit, QLoRA in 4.5
    bits with embeddings and head in 16, adapters in fp32 under autocast. Prefix tuning trains keys and values
    of virtual tokens; its activations are counted as those of adapters of rank 0. Activations are those of
    the eager block; stacks of fused kernels keep a share of them. Without a fused kernel the scores are kept
    too.
    """
    weights, gradients, states = states_of(shape=shape, precision=precision, optimizer=optimizer)
    wide = "fp32" if precision in WIDE else "bf16"
    adapted = method in ADAPTERS
    style = ("lora", "fp32" if wide == "fp32" else "amp-bf16") if adapted else (shape.block, wide)
    terms = activation_terms(
        shape=shape, block=calibration.activations[style[0]][style[1]],
        lora_rank=0 if method == "prefix" else lora_rank,
    )  # fmt: skip
    memory = calibration.memory
    if fused:
        share = float(memory.fused_share)
        terms |= {key: share * terms[key] for key in ("act_hidden", "act_ffn", "act_rest")}
    trainable, extra = shape.params, 0.0
    if adapted:
        trainable = lora_params(shape=shape, rank=lora_rank)
        if method == "prefix":
            trainable = prefix_params(shape=shape, tokens=prefix_tokens)
        embeddings = shape.embedding_params * (2 - shape.tied)
        quantised = NF4_BYTES * (shape.params - embeddings) + 2.0 * embeddings
        frozen = 4.0 if precision in WIDE else 2.0
        weights = quantised / shape.params if method == "qlora" else frozen
        gradients, states, extra = 4.0, 8.0, 4.0
    return Recipe(
        weight_bytes=weights, gradient_bytes=gradients, optimizer_bytes=states, trainable_params=trainable,
        trainable_weight_bytes=extra, selective_share=float(memory.selective_share),
        score_bytes=0.0 if flash else SCORE_BYTES, work_scores=0.0 if flash else SCORE_BYTES,
        dequantised_bytes=2.0 if method == "qlora" else 0.0,
        **{**terms, "logits_bytes": min(terms["logits_bytes"], float(memory.logits_bytes))},
    )  # fmt: skip
