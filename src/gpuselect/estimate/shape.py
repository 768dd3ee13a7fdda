"""Dimensions of a decoder-only transformer and what follows from them: parameters, FLOPs, bytes."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

LLAMA3_VOCAB = 128_256  # Llama 3 herd of models, arXiv 2407.21783, table 3
LLAMA3_FFN_RATIO = 3.5  # 14336 / 4096, same table
LLAMA3_KV_HEADS = 8  # same table
ASPECT_RATIO = 128  # hidden / layers: 4096/32 (same table), 12288/96 (GPT-3, arXiv 2005.14165 table 2.1)
HEAD_DIM = 128  # both tables
MOE_EXPERTS = (128, 8)  # experts, active experts: Qwen3, arXiv 2505.09388, table 2


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder as the estimates see it. Counts of parameters are plain numbers, not billions.

    `kv_width` is the number of cached elements per token and attention layer: 2 * kv_heads *
    head_dim, or kv_lora_rank + rope dimension for MLA. `ffn` is the width that one token meets in a
    dense layer. `expert_params` counts the routed experts of all layers.
    """

    params: float
    active_params: float
    embedding_params: float  # one V x h matrix
    tied: bool
    n_layers: int
    hidden: int
    ffn: float
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab: int
    kv_width: float
    attention_layers: int
    window: int  # 0: no sliding window
    windowed_layers: int
    n_experts: int = 0
    top_k: int = 0
    expert_params: float = 0.0
    mla: bool = False
    max_context: int = 0
    block: str = "llama"  # style of the layers: key of `activations` in data/calibration.yaml
    q_rank: int = 0  # of compressed queries (MLA)
    global_kv_width: float = 0.0  # `kv_width` of the layers without a window, where it is another

    @property
    def q_width(self) -> int:
        """Width of the queries, heads * head_dim."""
        return self.n_heads * self.head_dim

    @property
    def head_params(self) -> float:
        """Parameters of the output projection, shared with the embedding or not."""
        return self.embedding_params

    @property
    def layer_params(self) -> float:
        """Parameters of all layers together, without embedding and head."""
        return self.params - self.embedding_params * (2 - self.tied)

    @property
    def active_layer_params(self) -> float:
        """Layer parameters that one token multiplies."""
        return self.layer_params - (self.params - self.active_params)


def typical_decoder(*, params: float, active_params: float | None = None) -> Shape:
    """A decoder of the field's usual proportions for a bare parameter count.

    Proportions of Llama 3 (arXiv 2407.21783, table 3): FFN 3.5 h gated, 8 KV heads, head
    dimension 128, vocabulary 128256 untied (tied below 3B), hidden / layers near 128. The count that
    was asked for is kept; layers and width are the nearest usual ones. With `active_params` a
    mixture of experts whose token meets a dense decoder of that size: 128 experts, 8 of them active
    (Qwen3, arXiv 2505.09388, table 2).

    >>> shape = typical_decoder(params=8e9)
    >>> shape.hidden, shape.n_layers
    (4096, 32)
    """
    active = active_params or params
    hidden, layers, kv_heads = _usual_proportions(active)
    heads = hidden // HEAD_DIM
    experts, top_k = MOE_EXPERTS if active < params else (0, 0)
    return Shape(
        params=params,
        active_params=active,
        embedding_params=min(LLAMA3_VOCAB * hidden, active / 3),
        tied=active < 3e9,
        n_layers=layers,
        hidden=hidden,
        ffn=LLAMA3_FFN_RATIO * hidden,
        n_heads=heads,
        n_kv_heads=min(kv_heads, heads),
        head_dim=HEAD_DIM,
        vocab=LLAMA3_VOCAB,
        kv_width=2.0 * min(kv_heads, heads) * HEAD_DIM,
        attention_layers=layers,
        window=0,
        windowed_layers=0,
        n_experts=experts,
        top_k=top_k,
        expert_params=(params - active) / (1.0 - top_k / experts) if experts else 0.0,
        max_context=131_072,
    )


def _usual_proportions(params: float) -> tuple[int, int, int]:
    """Width, layers and KV heads of a dense decoder of this size."""
    tied = params < 3e9
    step, layer_step = (1024, 4) if params >= 3e9 else (128, 1)
    kv_heads = LLAMA3_KV_HEADS if params >= 3e9 else 4
    best: tuple[float, int, int] | None = None
    for hidden in range(step, 32 * 1024 + 1, step):
        embeddings = LLAMA3_VOCAB * hidden * (1 if tied else 2)
        per_layer = hidden * (2 * hidden + 2 * kv_heads * HEAD_DIM + 3 * LLAMA3_FFN_RATIO * hidden)
        layers = round((params - embeddings) / per_layer / layer_step) * layer_step
        if layers < 4:
            continue
        miss = abs(log(hidden / layers / ASPECT_RATIO))
        if best is None or miss < best[0]:
            best = (miss, hidden, layers)
    return (best[1], best[2], kv_heads) if best else (256, 4, kv_heads)


def attention_flops_per_token(*, shape: Shape, seq_len: Any) -> Any:
    """Forward FLOPs of scores and values per token, causal half counted: 2 s q L."""
    return 2.0 * seq_len * shape.q_width * shape.attention_layers


def training_flops(*, shape: Shape, tokens: Any, seq_len: Any) -> Any:
    """Model FLOPs of a training run: 6 N D + 6 s q L D (arXiv 2001.08361, plus causal attention).

    N counts the active parameters.

    >>> shape = typical_decoder(params=10e9)
    >>> round(training_flops(shape=shape, tokens=200e9, seq_len=0) / (6 * 10e9 * 200e9), 3)
    1.0
    """
    per_token = 6.0 * shape.active_params + 3.0 * attention_flops_per_token(shape=shape, seq_len=seq_len)
    return per_token * tokens


def kv_bytes_per_token(*, shape: Shape, bytes_per_element: Any) -> Any:
    """Bytes of KV cache per token over all layers: width * attention layers * bytes."""
    return shape.kv_width * shape.attention_layers * bytes_per_element


def kv_bytes_per_sequence(*, shape: Shape, context: Any, bytes_per_element: Any) -> Any:
    """KV bytes of one sequence; sliding-window layers keep at most `window` tokens [B]."""
    import numpy as np

    full_layers = shape.attention_layers - shape.windowed_layers
    windowed = np.minimum(context, shape.window)
    wide = np.where(shape.global_kv_width, shape.global_kv_width, shape.kv_width)
    elements = wide * full_layers * context + shape.kv_width * shape.windowed_layers * windowed
    return elements * bytes_per_element


def expected_active_experts(*, n_experts: Any, top_k: Any, tokens: Any) -> Any:
    """Expected number of distinct experts that `tokens` tokens touch in a layer: E (1 - (1 - k/E)^T).

    Uniform independent routing is assumed.

    >>> round(expected_active_experts(n_experts=8, top_k=2, tokens=1), 6)
    2.0
    """
    return n_experts * (1.0 - (1.0 - top_k / n_experts) ** tokens)
