"""A Hugging Face `config.json` as a catalog model: names of its keys, architectures, parameters counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuselect.catalog import Catalog, Model
from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.provenance import Figure

# `model_type` of a configuration -> architecture of the catalog
ARCHITECTURES = {
    "llama": "llama", "mistral": "llama", "mistral3": "llama", "ministral": "llama", "baichuan": "llama",
    "internlm2": "llama", "internlm3": "llama", "chatglm": "llama", "phi3": "llama", "mixtral": "llama",
    "gemma": "llama", "yi": "llama", "smollm3": "llama", "granite": "llama", "exaone": "llama",
    "qwen": "qwen2", "qwen2": "qwen2", "qwen2_moe": "qwen2", "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2",
    "qwen3": "qwen3", "qwen3_moe": "qwen3", "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3", "gemma2": "gemma2",
    "gemma3": "gemma3", "gemma3_text": "gemma3", "gemma4": "gemma4", "gemma4_text": "gemma4",
    "deepseek_v2": "deepseek-mla", "deepseek_v3": "deepseek-mla", "kimi_k2": "deepseek-mla",
    "deepseek_v32": "deepseek-mla", "glm4_moe_lite": "deepseek-mla", "mistral4": "deepseek-mla",
    "gpt2": "gpt2", "gpt_neo": "gpt-neo", "gpt_neox": "gpt-neox", "gptj": "gpt-j", "opt": "opt",
    "bloom": "bloom", "falcon": "falcon-2ln", "refinedweb": "falcon-2ln", "refinedwebmodel": "falcon-1ln",
    "mpt": "mpt", "phi": "phi", "phimoe": "phimoe", "phi3small": "phi3-small", "starcoder2": "starcoder2",
    "gpt_bigcode": "gpt-bigcode", "stablelm": "stablelm", "stablelm_epoch": "stablelm", "cohere": "cohere",
    "cohere2": "cohere", "olmo": "olmo1", "olmo2": "olmo2", "olmo3": "olmo2", "olmoe": "olmo2",
    "nemotron": "nemotron", "nemotron_h": "nemotron-h", "jamba": "jamba", "mamba": "mamba1",
    "minimax": "minimax-01", "minimax_text_01": "minimax-01", "minimax_m2": "minimax-m2", "glm": "glm4-0414",
    "glm4": "glm4-0414", "glm4_moe": "glm4-moe", "gpt_oss": "gpt-oss", "llama4": "llama4",
    "llama4_text": "llama4", "dbrx": "dbrx", "grok-1": "grok1", "grok": "grok1", "ernie4_5_moe": "ernie-moe",
    "qwen3_next": "qwen-hybrid", "qwen3_5": "qwen-hybrid", "qwen3_5_moe": "qwen-hybrid", "bert": "bert",
    "roberta": "roberta", "xlm-roberta": "roberta", "distilbert": "distilbert", "modernbert": "modernbert",
    "bart": "bart", "t5": "t5", "clip": "clip", "vit": "vit", "whisper": "whisper", "wav2vec2": "wav2vec2",
    "transfo-xl": "transformer-xl",
}  # fmt: skip
PLAIN = (
    "gpt2",
    "gpt-neo",
    "gpt-neox",
    "gpt-j",
    "opt",
    "bloom",
    "falcon-1ln",
    "falcon-2ln",
    "mpt",
    "phi",
    "starcoder2",
    "gpt-bigcode",
    "nemotron",
)  # fmt: skip  two matrices in the FFN, no gate
# layers of more than one kind, or more than one stack: their weights are not counted from the configuration
NOT_COUNTED = ("nemotron-h", "jamba", "mamba1", "minimax-01", "qwen-hybrid", "bert", "roberta", "distilbert",
               "modernbert", "bart", "t5", "t5-v1.1", "clip", "vit", "whisper", "wav2vec2", "transformer-xl",
               )  # fmt: skip
TIED = (
    "gpt2",
    "gpt-neo",
    "opt",
    "bloom",
    "falcon-1ln",
    "falcon-2ln",
    "mpt",
    "gemma2",
    "gemma3",
    "gemma4",
    "cohere",
    "starcoder2",
    "gpt-bigcode",
)  # fmt: skip  the default of their configuration class
# the names that configurations use for one dimension
KEYS = {
    "n_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim", "hidden_dim"),
    "n_heads": ("num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads"),
    "n_kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "head_dim": ("head_dim", "kv_channels"),
    "ffn_hidden": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size", "decoder_ffn_dim"),
    "vocab": ("padded_vocab_size", "vocab_size"),
    "max_context": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"),
    "n_experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "top_k": ("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_top_k"),
    "n_shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "moe_ffn_hidden": ("moe_intermediate_size",),
    "first_dense_layers": ("first_k_dense_replace", "moe_layer_start_index"),
    "kv_lora_rank": ("kv_lora_rank",), "q_lora_rank": ("q_lora_rank",),
    "qk_rope_head_dim": ("qk_rope_head_dim",), "qk_nope_head_dim": ("qk_nope_head_dim",),
    "v_head_dim": ("v_head_dim",), "sliding_window": ("sliding_window",),
}  # fmt: skip
LARGEST = 1e9
SIZES = (
    *(name for names in KEYS.values() for name in names), "depth", "embed_dim", "mlp_ratio",
    "expansion_ratio",
    "shared_expert_intermediate_size", "intermediate_size_mlp", "word_embed_proj_dim",
    "interleave_moe_layer_step",
)  # fmt: skip
NEEDED = ("n_layers", "hidden", "n_heads", "vocab")


def model_of_config(config: Mapping[str, Any], *, name: str, catalog: Catalog) -> Model:
    """The model that a configuration describes, with its parameters counted.

    Raises InputError for an architecture that the catalog does not know, and names it. Layers of mixed kinds
    cannot be counted: there the catalog model of the same dimensions stands in.
    """
    kind = str(config.get("model_type", "")).lower()
    arch = ARCHITECTURES.get(kind)
    if arch is None:
        shown = kind or _(", ").join(map(str, config.get("architectures") or ())) or _("no model_type")
        text = _("{name}: unknown architecture {kind}; give --params, or a catalog model with --model")
        raise InputError(text.format(name=name, kind=shown))
    flat = _flat(config)
    _refuse_absurd(flat, name)
    _refuse_absurd(config.get("vision_config"), name)
    if arch == "t5" and str(flat.get("feed_forward_proj", "")).startswith("gated"):
        arch = "t5-v1.1"
    dims = _dimensions(flat, arch)
    if arch in NOT_COUNTED:
        return _alike(dims, arch, name=name, catalog=catalog)
    missing = [key for key in NEEDED if not dims.get(key)]
    if missing:
        text = _("{name}: the configuration has no {keys}")
        raise InputError(text.format(name=name, keys=_(", ").join(missing)))
    if min(dims.get("head_dim", dims["hidden"] / dims["n_heads"]), dims.get("ffn_hidden", 1.0)) < 1.0:
        raise InputError(_("{name}: a head or a layer would be less than one wide").format(name=name))
    tied = bool(flat.get("tie_word_embeddings", arch in TIED))
    params = parameters(dims, arch, tied=tied) + _tower(config.get("vision_config"))
    narrow = flat.get("word_embed_proj_dim")
    if isinstance(narrow, int) and narrow < dims["hidden"]:  # embeddings of another width, projected
        params += (narrow - dims["hidden"]) * dims["vocab"] + 2.0 * narrow * dims["hidden"]
    return as_model(dims, params=params, arch=arch, tied=tied, name=name, pattern=_pattern(flat))


def _refuse_absurd(config: Any, name: str) -> None:
    """Refuse a dimension that no network has: infinity, or a number that a later product would not hold."""
    for key in SIZES if isinstance(config, Mapping) else ():
        value = config.get(key)
        if isinstance(value, int | float) and not abs(value) <= LARGEST:
            raise InputError(_("{name}: {key} is larger than any network has").format(name=name, key=key))


def _tower(vision: Any) -> float:
    """Parameters of the vision encoder of a multimodal model: L (4 h^2 + 2 h f), 3 h f with a gate."""
    if not isinstance(vision, Mapping):
        return 0.0
    layers = vision.get("depth") or vision.get("num_hidden_layers") or 0
    hidden = vision.get("embed_dim") or vision.get("hidden_size") or 0
    width = vision.get("intermediate_size") or (vision.get("mlp_ratio") or 4) * hidden
    gated = str(vision.get("hidden_act", "")).startswith("silu")
    return float(layers * (4 * hidden**2 + (3 if gated else 2) * hidden * width))


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with what it nests: the text part of a multimodal model, the blocks of DBRX."""
    flat = dict(config)
    for part in ("text_config", "llm_config", "language_config", "ffn_config", "attn_config"):
        inner = config.get(part)
        if isinstance(inner, Mapping):
            flat |= {key: value for key, value in inner.items() if value is not None}
    return flat


def _dimensions(flat: Mapping[str, Any], arch: str) -> dict[str, float]:
    """Dimensions by the names of the catalog; what the configuration does not say is absent."""
    dims = {}
    for key, names in KEYS.items():
        value = next((flat[name] for name in names if flat.get(name) is not None), None)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            dims[key] = float(value)
    may_share = arch.startswith("falcon") or arch == "gpt-bigcode"
    if may_share and not flat.get("new_decoder_architecture") and flat.get("multi_query", True):
        dims["n_kv_heads"] = 1.0  # one for all queries
    if arch in PLAIN:
        dims.setdefault("ffn_hidden", float(flat.get("expansion_ratio") or 4) * dims.get("hidden", 0.0))
    if flat.get("model_type") == "qwen" and "ffn_hidden" in dims:
        dims["ffn_hidden"] /= 2.0  # that configuration counts gate and up together
    if flat.get("use_sliding_window") is False:
        dims.pop("sliding_window", None)
    return dims | _experts(dims, flat)


def _experts(dims: Mapping[str, float], flat: Mapping[str, Any]) -> dict[str, float]:
    """What mixtures say in ways of their own: one wide shared expert, experts in every second layer."""
    found = {}
    shared, step = flat.get("shared_expert_intermediate_size"), flat.get("interleave_moe_layer_step")
    if shared and dims.get("moe_ffn_hidden"):
        found["n_shared_experts"] = float(shared) / dims["moe_ffn_hidden"]
    if str(flat.get("model_type", "")).startswith("llama4") and dims.get("n_experts"):
        width = dims.get("moe_ffn_hidden") or dims.get("ffn_hidden", 0.0)
        found |= {"n_shared_experts": 1.0, "moe_ffn_hidden": width}
    if isinstance(step, int) and step > 1:
        found["first_dense_layers"] = dims.get("n_layers", 0.0) * (1.0 - 1.0 / step)
        found["ffn_hidden"] = float(flat.get("intermediate_size_mlp") or dims.get("ffn_hidden", 0.0))
    return found


def _pattern(flat: Mapping[str, Any]) -> str | None:
    """Which layers have a window, in the words of the catalog."""
    kinds = flat.get("layer_types")
    if isinstance(kinds, list) and kinds:
        windowed = sum("sliding" in str(kind) for kind in kinds)
        full = len(kinds) - windowed
        if not full or not windowed:
            return "all" if windowed else None
        return "alternating" if windowed <= 1.5 * full else "3:1" if windowed <= 4 * full else "5:1"
    step = flat.get("sliding_window_pattern")
    return {2: "alternating", 4: "3:1", 6: "5:1"}.get(step) if isinstance(step, int) else None


def parameters(dims: Mapping[str, float], arch: str, *, tied: bool) -> float:
    """Parameters of a decoder: matrices of attention, FFN and experts, and the embeddings.

    V h (1 or 2) + L (h q + 2 h kv + q h) + 3 h f (or 2 h f without a gate) per layer or expert. Norms, biases
    and learned positions are below 1 %.

    >>> dims = {"n_layers": 32, "hidden": 4096, "n_heads": 32, "n_kv_heads": 8, "ffn_hidden": 14336}
    >>> round(parameters(dims | {"vocab": 128256}, "llama", tied=False) / 1e9, 2)
    8.03
    """
    layers, hidden = dims["n_layers"], dims["hidden"]
    matrices = 2.0 if arch in PLAIN else 3.0
    experts = dims.get("n_experts", 0.0)
    dense_layers = dims.get("first_dense_layers", 0.0) if experts else layers
    width = dims.get("moe_ffn_hidden") or dims.get("ffn_hidden", 4.0 * hidden)
    per_expert = matrices * hidden * width
    routed = (layers - dense_layers) * (
        per_expert * (experts + dims.get("n_shared_experts", 0.0)) + hidden * experts
    )
    dense = dense_layers * matrices * hidden * dims.get("ffn_hidden", 4.0 * hidden)
    embeddings = dims["vocab"] * hidden * (1.0 if tied else 2.0)
    return embeddings + layers * _attention(dims) + dense + (routed if experts else 0.0)


def _attention(dims: Mapping[str, float]) -> float:
    hidden, heads = dims["hidden"], dims["n_heads"]
    latent = dims.get("kv_lora_rank")
    if latent:
        rope, nope = dims.get("qk_rope_head_dim", 0.0), dims.get("qk_nope_head_dim", 0.0)
        value = dims.get("v_head_dim", nope)
        rank = dims.get("q_lora_rank")
        queries = heads * (nope + rope)
        into = hidden * rank + rank * queries if rank else hidden * queries
        return into + hidden * (latent + rope) + latent * heads * (nope + value) + heads * value * hidden
    width = dims.get("head_dim", hidden / heads)
    return 2.0 * hidden * heads * width + 2.0 * hidden * dims.get("n_kv_heads", heads) * width


def _alike(dims: Mapping[str, float], arch: str, *, name: str, catalog: Catalog) -> Model:
    """The catalog model with the same dimensions."""
    keys = ("n_layers", "hidden", "vocab")
    for model in catalog.models.values():
        if model.arch == arch and all(
            getattr(model, key) is None or key not in dims or float(getattr(model, key)) == dims[key]
            for key in keys
        ):  # fmt: skip
            return model
    text = _("{name}: no catalog model of the architecture {arch} has these dimensions; give --params")
    raise InputError(text.format(name=name, arch=arch))


def as_model(
    dims: Mapping[str, float], *, params: float, arch: str, tied: bool, name: str, pattern: str | None = None
) -> Model:
    """Dimensions from a file as a model of the catalog."""
    figures = {key: Figure(value, source="file", status="stated") for key, value in dims.items() if value}
    return Model(
        id=name, name=name, sources={"file": ("local-file", name)},
        family="moe-decoder" if dims.get("n_experts") else "dense-decoder", arch=arch, tied_embeddings=tied,
        sliding_pattern=pattern, params_b=Figure(params / 1e9, source="file", status="derived"), **figures,
    )  # fmt: skip
