"""Models that tools/memory_reference.py trains: built from a configuration, with inputs.

A family differs from the next by the names of its configuration; what a case does not say is the family's
default. Dropout is that of the residual stream. Attention has none: the CPU kernel with dropout keeps all
scores, which no fused kernel of a GPU does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from memory_cases import Case

POSITIONS = 8192  # learned positions of GPT-2, as in the first reference
CLASSES = 1000
MEL_BINS, MEL_FRAMES = 80, 3000  # Whisper: 30 s of sound

CAUSAL = {
    "llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma": "Gemma", "gpt-neox": "GPTNeoX",
    "opt": "OPT", "falcon": "Falcon", "bloom": "Bloom", "mixtral": "Mixtral", "qwen3-moe": "Qwen3Moe",
    "deepseek-v3": "DeepseekV3",
}  # fmt: skip
RESNETS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
CONVNEXTS = {96: (3, 3, 9, 3), 128: (3, 3, 27, 3), 192: (3, 3, 27, 3)}  # tiny, base, large, by first width
EFFICIENTNETS = {0: (1.0, 1.0), 4: (1.4, 1.8)}  # b0, b4: width and depth coefficients


def module_of(case: Case) -> Any:
    """The network of a case, in training mode; on the meta device if it runs on fake tensors."""
    import torch

    with torch.device("cpu" if case.extra.get("real") else "meta"):
        module = _unet(case) if case.arch == "unet" else _from_transformers(case)
        if case.recompute == "full":
            _checkpoint(case, module)
        if case.lora_rank:
            module = _with_adapters(case, module)
    return module.train()


def _from_transformers(case: Case) -> Any:
    import transformers

    build = _CONFIGURATIONS.get(case.arch, _causal)
    name, keywords = build(case)
    family, _, _ = name.partition("For")
    config = getattr(transformers, f"{family.removesuffix('LMHeadModel').removesuffix('Model')}Config")(
        **keywords
    )
    more = {"experts_implementation": case.extra["experts_kernel"]} if "experts_kernel" in case.extra else {}
    attention = {"attn_implementation": case.extra.get("attention", "sdpa")} if case.heads else {}
    return getattr(transformers, name)._from_config(config, dtype=_dtype(case), **attention, **more)  # noqa: SLF001


def _dtype(case: Case) -> Any:
    import torch

    return torch.bfloat16 if "bf16" in {case.precision, case.extra.get("base")} else torch.float32


def _checkpoint(case: Case, module: Any) -> None:
    if case.arch == "unet":
        module.enable_gradient_checkpointing()
        return
    module.gradient_checkpointing_enable({"use_reentrant": False})
    if case.lora_rank:
        module.enable_input_require_grads()


def _with_adapters(case: Case, module: Any) -> Any:
    import peft

    dropout = float(case.extra.get("lora_dropout", 0.0))
    config = peft.LoraConfig(
        r=case.lora_rank, lora_dropout=dropout, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return peft.get_peft_model(module, config)


def materialise(module: Any) -> None:
    """Replace parameters and buffers on the meta device by empty ones; shared ones stay shared.

    Under FakeTensorMode these are fake. `Module.to` cannot do it: fake tensors refuse to be swapped, and that
    is what building adapters directly on fake tensors fails with.
    """
    import torch

    made: dict[int, Any] = {}
    for part in module.modules():
        for table in (part._parameters, part._buffers):  # noqa: SLF001  there is no public way
            for name, old in table.items():
                if old is None or not old.is_meta:
                    continue
                if id(old) not in made:
                    new = torch.empty(old.shape, dtype=old.dtype)
                    kept = isinstance(old, torch.nn.Parameter)
                    made[id(old)] = torch.nn.Parameter(new, old.requires_grad) if kept else new
                table[name] = made[id(old)]


def step_of(case: Case, module: Any) -> Callable[[], Any]:
    """The forward pass of a case on its inputs; what it returns has a `loss`."""
    inputs = _inputs(case)
    if case.arch == "unet":
        return lambda: _denoise(module, inputs)
    return lambda: module(**inputs)


@contextmanager
def adapted_library(case: Case) -> Iterator[None]:
    """The library as the case wants it.

    `mask=none`: as on real tensors, where it sees that no sequences are packed. Grouped experts in fp32 on
    fake tensors: torch checks for bf16 there only, so the library's own fallback runs, which keeps the same.
    """
    with ExitStack() as stack:
        if case.extra.get("mask") == "none":
            name = "transformers.masking_utils.find_packed_sequence_indices"
            stack.enter_context(patch(name, lambda *_args, **_more: None))
        grouped = case.extra.get("experts_kernel") == "grouped_mm"
        if grouped and _dtype(case) != _dtype(replace(case, precision="bf16")) and not case.extra.get("real"):
            name = "transformers.integrations.moe._can_use_grouped_mm"
            stack.enter_context(patch(name, lambda *_args: False))
        yield


def _denoise(module: Any, inputs: Mapping[str, Any]) -> Any:
    import torch

    out = module(**inputs)
    return SimpleNamespace(
        loss=torch.nn.functional.mse_loss(out.sample.float(), inputs["sample"].float()), out=out
    )


def _inputs(case: Case) -> dict[str, Any]:
    import torch

    def integers(limit: int, *shape: int) -> Any:
        return torch.randint(0, limit, shape)

    def numbers(*shape: int) -> Any:
        return torch.randn(shape, dtype=_dtype(case))

    if case.arch == "unet":
        return {
            "sample": numbers(case.batch, 4, case.image // 8, case.image // 8),
            "timestep": integers(1000, case.batch),
            "encoder_hidden_states": numbers(case.batch, case.seq, 768),
        }
    if case.arch == "clip":
        ids = integers(case.vocab, case.batch, case.seq)
        pixels = numbers(case.batch, 3, case.image, case.image)
        return {"input_ids": ids, "pixel_values": pixels, "return_loss": True}
    if case.image:
        pixels = numbers(case.batch, 3, case.image, case.image)
        return {"pixel_values": pixels, "labels": integers(CLASSES, case.batch)}
    ids = integers(case.vocab, case.batch, case.seq)
    if case.arch == "whisper":
        return {"input_features": numbers(case.batch, MEL_BINS, MEL_FRAMES), "labels": ids}
    return {"input_ids": ids, "labels": ids}


def _causal(case: Case) -> tuple[str, dict[str, Any]]:
    extra = case.extra
    keywords: dict[str, Any] = {
        "hidden_size": case.hidden, "num_hidden_layers": case.n_layers, "num_attention_heads": case.heads,
        "num_key_value_heads": case.kv_heads, "intermediate_size": case.ffn, "vocab_size": case.vocab,
        "max_position_embeddings": POSITIONS, "use_cache": False, "pad_token_id": None,
        "bos_token_id": None, "eos_token_id": None, "tie_word_embeddings": bool(extra.get("tied")),
    }  # fmt: skip
    if case.arch != "llama":
        keywords |= _family(case)
    elif "head_dim" in extra:
        keywords["head_dim"] = int(extra["head_dim"])
    return f"{CAUSAL[case.arch]}ForCausalLM", keywords


def _family(case: Case) -> dict[str, Any]:
    """What a family of decoders names otherwise or has besides."""
    extra, width = case.extra, int(case.extra.get("head_dim", case.hidden // max(case.heads, 1)))
    experts = {"num_experts_per_tok": int(extra.get("top_k", 0))}
    families: dict[str, Callable[[], dict[str, Any]]] = {
        "qwen3": lambda: {"head_dim": width}, "gemma": lambda: {"head_dim": width},
        "opt": lambda: {
            "ffn_dim": case.ffn, "word_embed_proj_dim": case.hidden, "dropout": float(extra["dropout"])},
        "falcon": lambda: {"multi_query": case.kv_heads == 1, "ffn_hidden_size": case.ffn},
        "mixtral": lambda: experts | {"num_local_experts": int(extra["experts"])},
        "qwen3-moe": lambda: experts | {
            "num_experts": int(extra["experts"]), "moe_intermediate_size": case.ffn, "head_dim": width},
        "deepseek-v3": lambda: experts | {
            "n_routed_experts": int(extra["experts"]), "moe_intermediate_size": case.ffn, "n_group": 4,
            "topk_group": 2, "intermediate_size": int(extra["dense_ffn"]),
            "first_k_dense_replace": int(extra["dense_layers"]), "q_lora_rank": int(extra["q_rank"]),
            "kv_lora_rank": int(extra["kv_rank"])},
    }  # fmt: skip
    return families.get(case.arch, dict)()


def _gpt2(case: Case) -> tuple[str, dict[str, Any]]:
    dropout = float(case.extra.get("dropout", 0.0))
    return "GPT2LMHeadModel", {
        "n_embd": case.hidden, "n_layer": case.n_layers, "n_head": case.heads, "n_inner": case.ffn,
        "vocab_size": case.vocab, "n_positions": POSITIONS, "use_cache": False,
        "resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": 0.0,
    }  # fmt: skip


def _encoder(case: Case) -> tuple[str, dict[str, Any]]:
    keywords: dict[str, Any] = {
        "hidden_size": case.hidden, "num_hidden_layers": case.n_layers, "num_attention_heads": case.heads,
        "intermediate_size": case.ffn, "attention_probs_dropout_prob": 0.0,
        "hidden_dropout_prob": float(case.extra.get("dropout", 0.1)),
    }  # fmt: skip
    if case.arch == "bert":
        return "BertForMaskedLM", keywords | {"vocab_size": case.vocab}
    patch_size = {"image_size": case.image, "patch_size": int(case.extra["patch"]), "num_labels": CLASSES}
    return "ViTForImageClassification", keywords | patch_size


def _t5(case: Case) -> tuple[str, dict[str, Any]]:
    return "T5ForConditionalGeneration", {
        "d_model": case.hidden, "num_layers": case.n_layers, "num_heads": case.heads, "d_ff": case.ffn,
        "d_kv": case.hidden // case.heads, "vocab_size": case.vocab, "use_cache": False,
        "feed_forward_proj": "gated-gelu" if case.extra.get("gated") else "relu",
        "tie_word_embeddings": not case.extra.get("gated"), "dropout_rate": float(case.extra["dropout"]),
        "decoder_start_token_id": 0,
    }  # fmt: skip


def _whisper(case: Case) -> tuple[str, dict[str, Any]]:
    both = {"layers": case.n_layers, "attention_heads": case.heads, "ffn_dim": case.ffn}
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in both.items()}
    vocabulary = {"vocab_size": case.vocab, "d_model": case.hidden, "use_cache": False}
    return "WhisperForConditionalGeneration", sides | vocabulary


def _clip(case: Case) -> tuple[str, dict[str, Any]]:
    vision = {
        "hidden_size": case.hidden, "num_hidden_layers": case.n_layers, "num_attention_heads": case.heads,
        "intermediate_size": case.ffn, "image_size": case.image, "patch_size": int(case.extra["patch"]),
    }  # fmt: skip
    width = int(case.extra["text_hidden"])
    text = {
        "hidden_size": width, "num_hidden_layers": 12, "num_attention_heads": width // 64,
        "intermediate_size": 4 * width, "vocab_size": case.vocab, "max_position_embeddings": case.seq,
    }  # fmt: skip
    return "CLIPModel", {"vision_config": vision, "text_config": text}


def _resnet(case: Case) -> tuple[str, dict[str, Any]]:
    basic = case.n_layers < 50
    widths = [64, 128, 256, 512] if basic else [256, 512, 1024, 2048]
    kind = "basic" if basic else "bottleneck"
    depths = list(RESNETS[case.n_layers])
    return "ResNetForImageClassification", {
        "depths": depths, "layer_type": kind, "hidden_sizes": widths, "num_labels": CLASSES,
    }  # fmt: skip


def _convnext(case: Case) -> tuple[str, dict[str, Any]]:
    widths = [case.hidden * 2**stage for stage in range(4)]
    depths = list(CONVNEXTS[case.hidden])
    return "ConvNextForImageClassification", {"depths": depths, "hidden_sizes": widths, "num_labels": CLASSES}


def _efficientnet(case: Case) -> tuple[str, dict[str, Any]]:
    width, depth = EFFICIENTNETS[int(case.extra["variant"])]
    return "EfficientNetForImageClassification", {
        "width_coefficient": width, "depth_coefficient": depth, "image_size": case.image,
        "num_labels": CLASSES, "hidden_dim": int(1280 * width), "dropout_rate": 0.0,
    }  # fmt: skip


def _unet(case: Case) -> Any:
    """The network of Stable Diffusion 1.5, or one with fewer channels."""
    import diffusers

    widths = tuple(case.hidden * factor for factor in (1, 2, 4, 4))
    module = diffusers.UNet2DConditionModel(
        block_out_channels=widths, cross_attention_dim=768, attention_head_dim=8
    )
    return module.to(_dtype(case))


_CONFIGURATIONS: Mapping[str, Callable[[Case], tuple[str, dict[str, Any]]]] = {
    "gpt2": _gpt2, "bert": _encoder, "vit": _encoder, "t5": _t5, "whisper": _whisper, "clip": _clip,
    "resnet": _resnet, "convnext": _convnext, "efficientnet": _efficientnet,
}  # fmt: skip
