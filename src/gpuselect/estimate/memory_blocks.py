"""Activations that a transformer layer keeps for its backward pass, by style of block [B per token].

The coefficients are data (section `activations` of data/calibration.yaml): least squares over exact peaks
of Hugging Face models give integers with residuals below 1e-8 byte. They hold for a fused attention kernel
on an accelerator; `scores` adds what attention without one keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuselect.calibration import BlockBytes
from gpuselect.estimate.shape import Shape

SCORE_BYTES = 5.0  # softmax 2, dropped out 2, mask 1 [B per head, query and key]: arXiv 2205.05198, eq. 1


@dataclass(frozen=True, slots=True)
class Saved:
    """What one layer keeps: bytes per unit of the hidden width, of the FFN width, and per token."""

    hidden: float
    ffn: float
    rest: float

    def per_token(self, shape: Shape) -> float:
        """Bytes per token of one layer."""
        return self.hidden * shape.hidden + self.ffn * shape.ffn + self.rest


def saved_by_layer(*, shape: Shape, block: BlockBytes, lora_rank: int = 0) -> Saved:
    """What a layer of this shape and style keeps.

    A = h H + q Q + kv K + f F + a heads + k kv heads + one, and for routed experts top_k (routed_h H +
    routed_one) + experts E: tokens are not padded to a capacity, so E enters by the router alone. The FFN
    width F is that of all experts that a token meets. Adapters keep `rank` bytes per unit of rank.

    >>> from gpuselect.estimate.shape import typical_decoder
    >>> widths = {"h": 16, "f": 8, "q": 4, "a": 0, "one": 0, "work_h": 0, "work_f": 0, "head": 8, "loss": 14}
    >>> block = BlockBytes(**widths, kept=2, input=2, source="memory-reference", status="measured")
    >>> saved_by_layer(shape=typical_decoder(params=8e9), block=block).rest
    16384.0
    """
    kv_width = shape.n_kv_heads * shape.head_dim
    routed = shape.top_k if shape.n_experts else 0
    latent = shape.kv_width if shape.mla else 0.0
    rest = (
        block.q * shape.q_width + block.kv * kv_width + block.a * shape.n_heads + block.k * shape.n_kv_heads
        + block.one + block.rank * lora_rank + block.q_rank * shape.q_rank + block.kv_rank * latent
        + routed * block.routed_one + block.experts * shape.n_experts
    )  # fmt: skip
    return Saved(hidden=block.h + routed * block.routed_h, ffn=block.f, rest=rest)


def activation_terms(*, shape: Shape, block: BlockBytes, lora_rank: int = 0) -> dict[str, Any]:
    """The terms of a `Recipe` that follow from the style of block and its precision."""
    saved = saved_by_layer(shape=shape, block=block, lora_rank=lora_rank)
    return {
        "act_hidden": saved.hidden, "act_ffn": saved.ffn, "act_rest": saved.rest,
        "checkpoint_bytes": block.input, "logits_bytes": block.loss, "kept_logits": block.kept,
        "head_hidden": block.head, "work_hidden": block.work_h, "work_ffn": block.work_f,
        "cast_bytes": block.cast,
    }  # fmt: skip


def checkpointed_bytes(*, layers: float, layer_bytes: float, input_bytes: float, segments: float) -> float:
    """Saved activations with one checkpoint per segment of layers [B].

    Inputs of all segments, and everything of the one that is computed anew: k i + (L / k) A. One segment per
    layer is what `recompute full` does. Costs one more forward pass, a third more compute.

    >>> checkpointed_bytes(layers=64, layer_bytes=10.0, input_bytes=1.0, segments=64)
    74.0
    """
    return segments * input_bytes + layers / segments * layer_bytes


def best_segments(*, layers: float, layer_bytes: float, input_bytes: float) -> float:
    """Segments that need the least memory: sqrt(L A / i), so that memory grows with the root of depth.

    Training Deep Nets with Sublinear Memory Cost, arXiv 1604.06174, section 4.

    >>> best_segments(layers=100, layer_bytes=4.0, input_bytes=4.0)
    10.0
    """
    return float(min(layers, (layers * layer_bytes / input_bytes) ** 0.5))
