"""From a catalog model to the `Shape` that the estimates use."""

from __future__ import annotations

import re

from gpuselect.catalog import Model
from gpuselect.errors import InputError
from gpuselect.estimate.shape import Shape
from gpuselect.i18n import _

DECODER_FAMILIES = ("dense-decoder", "moe-decoder", "hybrid-ssm")
# style of block whose kept bytes count, by architecture; the others are as llama's
BLOCKS = {
    "qwen3": "qwen3", "olmo2": "qwen3", "gemma2": "gemma", "gemma3": "gemma", "gemma4": "gemma",
    "gpt2": "gpt2", "gpt-neo": "gpt2", "gpt-bigcode": "gpt2", "bloom": "gpt2", "starcoder2": "gpt2",
    "gpt-neox": "gpt-neox", "gpt-j": "gpt-neox", "falcon-1ln": "gpt-neox", "falcon-2ln": "gpt-neox",
    "phi": "gpt2", "opt": "opt", "mpt": "bert", "bert": "bert", "roberta": "bert", "vit": "bert",
}  # fmt: skip
MIXTURES = {"llama": "mixtral", "qwen3": "qwen3-moe"}
LOCAL_TO_GLOBAL = re.compile(r"(\d+) local layers? to (\d+) global")
NEEDED = ("n_layers", "hidden", "n_heads", "vocab")


def shape_of(model: Model) -> Shape:
    """Dimensions of a catalog decoder as a `Shape`.

    Experts: 3 h f_moe parameters each (gated MLP) in the layers after `first_dense_layers`. Raises
    InputError for a model that is no decoder or lacks a dimension.
    """
    if model.family not in DECODER_FAMILIES:
        raise InputError(
            _("{model} is a {family}; this version estimates decoder models only").format(
                model=model.id, family=model.family
            )
        )
    missing = [key for key in NEEDED if getattr(model, key) is None]
    if missing:
        raise InputError(
            _("{model} has no {keys} in the catalog; give --params instead").format(
                model=model.id, keys=_(", ").join(missing)
            )
        )
    layers, hidden = _whole(model.n_layers), _whole(model.hidden)
    heads = _whole(model.n_heads)
    kv_heads = _whole(model.n_kv_heads) or heads
    head_dim = _whole(model.head_dim) or _whole(model.v_head_dim) or hidden // heads
    attention_layers, windowed = attention_layers_of(model, layers)
    params = model.params_b * 1e9
    expert_params, active = _experts(model, params=params, layers=layers, hidden=hidden)
    mla = model.kv_lora_rank is not None
    vocab = _whole(model.vocab)
    return Shape(
        params=params,
        active_params=active,
        embedding_params=float(vocab * hidden),
        tied=bool(model.tied_embeddings),
        n_layers=layers,
        hidden=hidden,
        ffn=_active_ffn(model, hidden=hidden),
        n_heads=heads,
        n_kv_heads=kv_heads,
        head_dim=head_dim,
        vocab=vocab,
        kv_width=float((model.kv_lora_rank or 0) + (model.qk_rope_head_dim or 0))
        if mla
        else 2.0 * kv_heads * head_dim,
        attention_layers=attention_layers,
        window=_whole(model.sliding_window) if windowed else 0,
        windowed_layers=windowed,
        n_experts=_whole(model.n_experts),
        top_k=_whole(model.top_k),
        expert_params=expert_params,
        mla=mla,
        max_context=_whole(model.max_context),
        block=_block(model, mla=mla),
        q_rank=_whole(model.q_lora_rank),
        global_kv_width=float(model.global_kv_width or 0.0),
    )


def _block(model: Model, *, mla: bool) -> str:
    """Style of the model's layers: key of `activations` in the calibration."""
    if mla:
        return "deepseek"
    style = BLOCKS.get(model.arch or "", "llama")
    return MIXTURES.get(style, "mixtral") if model.n_experts else style


def _whole(value: float | None) -> int:
    return 0 if value is None else int(value)


def _active_ffn(model: Model, *, hidden: int) -> float:
    """FFN width one token meets: the dense width, or top_k plus shared expert widths."""
    if model.n_experts and model.moe_ffn_hidden:
        return float(model.moe_ffn_hidden * ((model.top_k or 0) + (model.n_shared_experts or 0)))
    if model.n_experts and model.ffn_hidden:
        return float(model.ffn_hidden * (model.top_k or 1))
    return float(model.ffn_hidden or 4 * hidden)


def _experts(model: Model, *, params: float, layers: int, hidden: int) -> tuple[float, float]:
    """Parameters of all routed experts, and active parameters of the model."""
    if not model.n_experts:
        return 0.0, params
    width = model.moe_ffn_hidden or model.ffn_hidden or 0.0
    moe_layers = layers - (model.first_dense_layers or 0.0)
    experts = min(3.0 * hidden * width * model.n_experts * moe_layers, 0.98 * params)
    if model.active_params_b is not None:
        return experts, model.active_params_b * 1e9
    return experts, params - experts * (1.0 - (model.top_k or 1.0) / model.n_experts)


def attention_layers_of(model: Model, layers: int) -> tuple[int, int]:
    """Layers that keep a KV cache, and how many of them look back over a sliding window only.

    By the stated number of full layers, else by the pattern in words; all where no pattern is given. A
    hybrid keeps a cache in its attention layers alone.
    """
    full = _whole(model.attention_layers)
    if model.family == "hybrid-ssm" or not model.sliding_window:
        return full or layers, 0
    if full:
        return layers, layers - full
    return layers, _windowed_layers(model, layers)


def _windowed_layers(model: Model, layers: int) -> int:
    """Layers with a sliding window, from the pattern in words; all when no pattern is given."""
    pattern = (model.sliding_pattern or "").lower()
    if "second" in pattern or "alternat" in pattern:
        return layers // 2
    if ratio := LOCAL_TO_GLOBAL.search(pattern):
        near, far = int(ratio[1]), int(ratio[2])
        return layers * near // (near + far)
    return layers if "all" in pattern or not pattern else layers // 2
