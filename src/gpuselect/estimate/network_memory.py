"""Memory per accelerator of networks that work sample by sample [B]."""

from __future__ import annotations

from typing import Any

from gpuselect.estimate.memory import Memory
from gpuselect.estimate.network import EMBEDDING_BYTES, Network

TRAINING_WEIGHT_BYTES = {"fp32": 4.0, "tf32": 4.0}  # the others keep an fp32 copy and a 16-bit cast
MIXED_WEIGHT_BYTES = 6.0  # feasibility study, training, section 2.1, AMP
GRADIENT_BYTES = 4.0


def network_inference_memory(
    *, network: Network, batch: Any, count: Any, weight_bytes: Any, element_bytes: Any,
    live_share: Any, context_bytes: Any,
) -> Memory:  # fmt: skip
    """Weights, the activations that live at once, and the runtime [B].

    `live_share` of all activations is held at a time: buffers are reused from layer to layer.
    Embedding tables are fp32 and sharded over the cards.
    """
    tables = EMBEDDING_BYTES * network.table_params / count
    return Memory(
        weights=network.dense_params * weight_bytes + tables,
        activations=network.activations * batch * element_bytes * live_share,
        overhead=context_bytes + 0.0 * batch * count,
    )


def network_training_memory(
    *, network: Network, batch: Any, count: Any, sharded: Any, precision: str, optimizer_bytes: Any,
    saved_copies: Any, context_bytes: Any,
) -> Memory:  # fmt: skip
    """States and saved activations of a data-parallel step [B].

    `saved_copies` counts how often an element of the activations is kept for the backward pass (1.95
    for ResNet-50, exact traces; feasibility study, training, section 2.3). `sharded` is the width
    over which ZeRO-3 divides the states. Tables are sharded over all cards and carry one fp32 state.
    """
    held = network.dense_params / sharded
    wide = precision in TRAINING_WEIGHT_BYTES
    per_weight = TRAINING_WEIGHT_BYTES.get(precision, MIXED_WEIGHT_BYTES)
    tables = network.table_params / count
    return Memory(
        weights=per_weight * held + EMBEDDING_BYTES * tables,
        gradients=GRADIENT_BYTES * held,
        optimizer=optimizer_bytes * held,
        activations=network.activations * batch * (4.0 if wide else 2.0) * saved_copies,
        overhead=context_bytes + 0.0 * batch * count,
    )
