"""Rows of the allocator reference with two stacks, or of convolutions: what their blocks keep.

Counted tensor by tensor (saved tensors of models of two and of three layers, on CPU): a plain kernel of
attention where a position bias is added, noise of dropout in the type of its input. Bytes per token and
unit of hidden width, of FFN width, per head and key, and per token.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuselect.accuracy.records import Row, Skip
from gpuselect.accuracy.rows import number, whole
from gpuselect.catalog import Catalog
from gpuselect.estimate.network import network_of
from gpuselect.estimate.network_memory import CONV_FIRST_SHARE, unfused_elements

# weights, gradients, AdamW moments, SGD momentum [B per parameter]
STATES = {"bf16": (2.0, 2.0, 4.0, 2.0), "amp-bf16": (4.0, 4.0, 8.0, 4.0), "fp32": (4.0, 4.0, 8.0, 4.0)}
CAST = {"amp-bf16": 2.0}  # 16-bit copies of the linear weights
LOSS = {"bf16": 8.0, "amp-bf16": 14.0, "fp32": 16.0}  # per token and vocabulary entry
CHECKPOINT = {"bf16": 2.0, "amp-bf16": 4.0, "fp32": 4.0}


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a layer keeps per token: of hidden and FFN width, per head and key, per token; `head` once."""

    hidden: float
    ffn: float
    scores: float = 0.0
    one: float = 0.0
    head: float = 0.0


# an encoder and a decoder layer together, by dropout and gate
T5 = {
    ("bf16", "0.1", ""): _Kept(102, 12, 36, 20, 28), ("bf16", "0.0", ""): _Kept(86, 4, 8, 20, 20),
    ("amp-bf16", "0.1", ""): _Kept(114, 12, 36, 20, 34), ("amp-bf16", "0.0", ""): _Kept(98, 8, 8, 20, 18),
    ("fp32", "0.1", ""): _Kept(128, 24, 36, 20, 40), ("fp32", "0.0", ""): _Kept(108, 8, 8, 20, 24),
    ("bf16", "0.1", "1"): _Kept(102, 32, 36, 20, 28), ("amp-bf16", "0.1", "1"): _Kept(118, 32, 36, 20, 34),
    ("fp32", "0.1", "1"): _Kept(128, 64, 36, 20, 40),
}  # fmt: skip
# the encoder with the keys and values that each decoder layer makes of its output; the decoder
WHISPER = {
    "bf16": (_Kept(22, 4, 0, 24, 14), _Kept(28, 4, 0, 60, 4)),
    "amp-bf16": (_Kept(34, 4, 0, 32, 14), _Kept(38, 4, 0, 68, 6)),
    "fp32": (_Kept(44, 8, 0, 32, 28), _Kept(56, 8, 0, 68, 8)),
}  # fmt: skip
CLIP = {"bf16": _Kept(16, 6, 0, 8, 4), "amp-bf16": _Kept(24, 6, 0, 24, 8), "fp32": _Kept(32, 12, 0, 14, 8)}
CLIP_LAYERS, CLIP_GATES = 12, {"bf16": 4.0, "amp-bf16": 4.0, "fp32": 8.0}  # of the text; gradients of a gate
# bytes kept per element that a convolution or linear layer writes; basic and bottleneck blocks are ResNet's
ELEMENTS = {
    "basic": {"bf16": 4.60, "amp-bf16": 4.66, "fp32": 8.66},
    "bottleneck": {"bf16": 3.96, "amp-bf16": 3.96, "fp32": 7.81},
    "convnext": {"bf16": 4.08, "amp-bf16": 4.15, "fp32": 8.16},
    "efficientnet": {"bf16": 6.6, "amp-bf16": 6.6, "fp32": 13.2},
    "unet": {"bf16": 3.6, "amp-bf16": 3.6, "fp32": 7.2},
}
NOTED = {"t5": ("dropout",), "whisper": ("encoder_seq",), "clip": ("text_hidden", "patch")}
CONVNEXTS = {"18": "convnext-tiny", "36": "convnext-base"}
BOTTLENECK_FROM = 50  # layers; smaller ResNets have basic blocks
COVERED = ("t5", "whisper", "clip", "resnet", "convnext", "efficientnet", "unet")


def other_peak(row: Row, words: dict[str, str], catalog: Catalog) -> float:
    """Peak of a row [B]: weights, states, what waits for the backward pass, and the loss."""
    arch, precision = row["arch"], row.get("precision", "")
    if precision not in STATES or (row.get("recompute", "none") != "none" and arch == "unet"):
        raise Skip("arch-not-covered", f"{arch} {precision}")
    missing = [word for word in NOTED.get(arch, ()) if word not in words]
    if missing:
        raise Skip("arch-not-covered", f"{arch} without {missing[0]}")
    if arch in NOTED:
        return _held(row) + _waiting(row, words)
    return _convolutions(row, words, catalog)


def _held(row: Row) -> float:
    weights, _gradients, adam, momentum = STATES[row["precision"]]
    states = momentum if "sgd" in row.get("optimizer", "").lower() else adam
    return (weights + states) * number(row, "params_b") * 1e9


def _stack(kept: _Kept, row: Row, *, tokens: float, hidden: float, ffn: float, layers: float) -> float:
    """What a stack keeps [B]; with full recomputation the inputs of its layers."""
    each = kept.hidden * hidden + kept.ffn * ffn + kept.one
    each += kept.scores * number(row, "heads") * number(row, "seq")
    if row.get("recompute") == "full":
        each = CHECKPOINT[row["precision"]] * hidden
    return tokens * (layers * each + kept.head * hidden)


def _waiting(row: Row, words: dict[str, str]) -> float:
    precision, hidden, ffn = row["precision"], number(row, "hidden"), number(row, "ffn")
    layers, batch = whole(row, "n_layers"), whole(row, "batch")
    tokens, embedding = batch * number(row, "seq"), number(row, "vocab") * hidden
    sizes = {"hidden": hidden, "ffn": ffn, "layers": float(layers)}
    cast = CAST.get(precision, 0.0) * number(row, "params_b") * 1e9
    full = row.get("recompute") == "full"
    if row["arch"] == "clip":
        return _clip(row, words, cast)
    if row["arch"] == "t5":
        layout = (precision, words["dropout"], words.get("gated", ""))
        if layout not in T5:
            raise Skip("arch-not-covered", " ".join(("t5", *layout)).strip())
        kept = T5[layout]
        saved = _stack(kept, row, tokens=tokens, **sizes)
        saved += tokens * CHECKPOINT[precision] * hidden * layers if full else 0.0
        untied = 0.0 if words.get("tied") == "1" else embedding
    else:
        encoder, decoder = WHISPER[precision]
        frames = batch * number({"n": words["encoder_seq"]}, "n")
        saved = _stack(encoder, row, tokens=frames, **sizes) + _stack(decoder, row, tokens=tokens, **sizes)
        untied = 0.0
    if full:
        cast = CAST.get(precision, 0.0) * embedding
        untied = 0.0
    logits = LOSS[precision] * number(row, "vocab") * tokens
    return saved + cast - CAST.get(precision, 0.0) * untied + logits


def _clip(row: Row, words: dict[str, str], cast: float) -> float:
    """Two towers; the logits are those of pairs of a batch, so no vocabulary is kept."""
    precision, batch, width = row["precision"], whole(row, "batch"), number({"n": words["text_hidden"]}, "n")
    kept, patches = CLIP[precision], (whole(row, "image") // whole(words, "patch")) ** 2 + 1
    text, images = batch * number(row, "seq"), float(batch * patches)
    saved = _stack(kept, row, tokens=images, hidden=number(row, "hidden"), ffn=number(row, "ffn"),
                   layers=float(whole(row, "n_layers")))  # fmt: skip
    saved += _stack(kept, row, tokens=text, hidden=width, ffn=4.0 * width, layers=float(CLIP_LAYERS))
    positions = (number(row, "vocab") + number(row, "seq")) * width
    return saved + cast - CAST.get(precision, 0.0) * positions + CLIP_GATES[precision] * 4.0 * width * text


def _convolutions(row: Row, words: dict[str, str], catalog: Catalog) -> float:
    """Networks of convolutions: what each element that a layer writes is kept as.

    The first layers of a UNet are as large as its last: when the backward pass reaches them all gradients
    exist beside a third of the activations.
    """
    arch, depth, precision = row["arch"], row.get("n_layers", ""), row["precision"]
    names = {
        "resnet": f"resnet-{depth}", "convnext": CONVNEXTS.get(depth, depth),
        "unet": "stable-diffusion-1.5", "efficientnet": f"efficientnet-b{words.get('variant', '')}",
    }  # fmt: skip
    model = catalog.models.get(names[arch])
    if model is None or not model.activations_m or not model.image_size:
        raise Skip("counts-missing", names[arch])
    kind = arch if arch != "resnet" else "bottleneck" if int(depth) >= BOTTLENECK_FROM else "basic"
    network = network_of(model, image_size=number(row, "image"))
    written = unfused_elements(network) if kind == "unet" else network.activations
    kept = ELEMENTS[kind][precision] * written * whole(row, "batch")
    params = number(row, "params_b") * 1e9
    copies = kept + CAST.get(precision, 0.0) * params
    graded = STATES[precision][1] * params + CONV_FIRST_SHARE * kept
    return _held(row) + (max(copies, graded) if kind == "unet" else copies)
