"""Memory per accelerator of networks that work sample by sample [B].

Attention scores are not kept: kernels of fused attention never write them. Layers of a transformer keep what
the block of `activations` in data/calibration.yaml does, 3.2 to 6.4 bytes an element; of convolutions each
element stands for its own copies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuselect.estimate.memory import Memory
from gpuselect.estimate.network import EMBEDDING_BYTES, LAYER_ELEMENTS, Network

WIDE = ("fp32", "tf32")
WIDE_WEIGHT_BYTES = 4.0
CAST_BYTES = 2.0  # copy of a weight that autocast keeps until it has been used
GRADIENT_BYTES = 4.0
ADAPTER_SHARE = 0.01  # of the parameters, at the usual rank: layers of 1000 to 4000 units
ADAPTER_RANK = 16
FROZEN_BYTES = 2.0  # text encoders that stand by
# bytes that a transformer layer keeps per element that it writes: 32, 40 and 64 h over 10 h (block of ViT)
LAYER_BYTES = {"pure": 3.2, "mixed": 4.0, "wide": 6.4}
CONV_FIRST_SHARE = 1.0 / 3.0  # of the activations, in the layers that the backward pass reaches last
# a decoder of pictures at its widest: 256 channels at full size (AutoencoderKL of Stable Diffusion), eight
# tensors of them with the workspace of the convolution; from rows of Stable Diffusion at batches 1 to 16
DECODER_ELEMENTS = 8.0 * 256.0
UNET_SCORE_LAYERS = (
    5.5  # all scores over those of the widest layer: Stable Diffusion 1.5 and 2, heads and levels
)
SCORE_BYTES = {"pure": 5.0, "mixed": 5.0, "wide": 9.0}  # softmax, dropped out, mask: arXiv 2205.05198, eq. 1


def unfused_elements(network: Network) -> float:
    """Elements that one pass writes where attention is fused: all but the scores."""
    return network.activations - network.score_elements


def live_elements(network: Network, live_share: Any, *, fused: bool = True) -> Any:
    """Elements of a sample that inference holds at once.

    A transformer holds one layer; convolutions, whose layers differ, `live_share` of all, twice where an
    image is guided. Attention that is not fused adds the scores of a layer and their softmax. A decoder of
    pictures runs after the network and may need more.
    """
    written = unfused_elements(network)
    guided = 2.0 if network.decoded_pixels and not network.layers else 1.0
    held = written / network.layers if network.layers else written * live_share * guided
    if not fused:
        held += 2.0 * guided * network.score_elements / (network.layers or UNET_SCORE_LAYERS)
    return np.maximum(held, DECODER_ELEMENTS * network.decoded_pixels)


def network_inference_memory(
    *, network: Network, batch: Any, count: Any, weight_bytes: Any, element_bytes: Any,
    live_share: Any, context_bytes: Any, fused: bool = True,
) -> Memory:  # fmt: skip
    """Weights, the activations that live at once, and the runtime [B].

    Buffers are reused from layer to layer (`live_elements`). Embedding tables are fp32 and sharded over the
    cards; text encoders stay on the card.
    """
    tables = EMBEDDING_BYTES * network.table_params / count
    return Memory(
        weights=(network.dense_params + network.text_params) * weight_bytes + tables,
        activations=live_elements(network, live_share, fused=fused) * batch * element_bytes,
        overhead=context_bytes + 0.0 * batch * count,
    )


def network_training_memory(
    *, network: Network, batch: Any, count: Any, sharded: Any, precision: str, optimizer_bytes: Any,
    saved_copies: Any, context_bytes: Any, trained_share: float = 1.0, states: str = "",
    recompute: Any = False, fused: bool = True,
) -> Memory:  # fmt: skip
    """The largest phase of a data-parallel step [B]: the loss, or the last of the backward pass.

    At the loss everything that was kept is alive, and 16-bit casts of the weights; at the end all gradients,
    with what the first layers kept. `saved_copies`: how often convolutions keep an element (1.95 for
    ResNet-50, exact traces; feasibility study, training, section 2.3). `sharded`: width over which ZeRO-3
    divides the states. Replicas reduce gradients from buckets, another copy (PyTorch, documentation of
    DistributedDataParallel, gradient_as_bucket_view). Tables are sharded over all cards and carry one fp32
    state. `trained_share`: of fp32 adapters over a base frozen in 16 bit; `states`: wide, mixed or pure
    (everything in 16 bit). Without a fused attention kernel the scores are kept too.
    """
    states = states or ("wide" if precision in WIDE else "mixed")
    frozen = trained_share < 1.0 and states == "mixed"
    small = 2.0 if states == "pure" or frozen else WIDE_WEIGHT_BYTES
    held = network.dense_params / sharded
    gradients = (2.0 if states == "pure" else GRADIENT_BYTES) * held * trained_share
    buckets = np.where((np.asarray(count) > 1) & (np.asarray(sharded) == 1), gradients, 0.0)
    cast = CAST_BYTES * held if states == "mixed" and not frozen else 0.0
    kept, first = _kept_per_sample(network, states, saved_copies, recompute=recompute)
    kept += 0.0 if fused else np.where(recompute, 0.0, SCORE_BYTES[states] * network.score_elements)
    loss, end = kept * batch + cast, first * batch + gradients
    late = np.asarray(end > loss)
    return Memory(
        weights=small * held + EMBEDDING_BYTES * network.table_params / count
        + FROZEN_BYTES * network.text_params,
        gradients=buckets + np.where(late, gradients, 0.0),
        optimizer=optimizer_bytes * held * trained_share,
        activations=np.where(late, first, kept) * batch,
        temporaries=np.where(late, 0.0, cast),
        overhead=context_bytes + 0.0 * batch * count,
    )  # fmt: skip


def _kept_per_sample(network: Network, states: str, saved_copies: Any, *, recompute: Any) -> tuple[Any, Any]:
    """Bytes that one sample keeps: at the loss, and when the backward pass reaches the first layers.

    With recomputation the layers of a transformer keep their inputs, and the one at work everything.
    """
    written = unfused_elements(network)
    if not network.layers:
        kept = written * (4.0 if states == "wide" else 2.0) * saved_copies
        return kept, CONV_FIRST_SHARE * kept
    kept = written * LAYER_BYTES[states]
    one = kept / network.layers
    inputs = written / LAYER_ELEMENTS * (2.0 if states == "pure" else 4.0)
    return np.where(recompute, inputs + one, kept), np.where(recompute, inputs / network.layers + one, one)
