"""What tools/memory_reference.py counts: base shapes, one thing varied at a time, and some unlike shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

NUMBERS = (
    "n_layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "image", "batch", "seq", "lora_rank",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One training step: a shape, a batch and a recipe."""

    arch: str
    n_layers: int
    batch: int
    precision: str
    hidden: int = 0
    heads: int = 0
    kv_heads: int = 0
    ffn: int = 0
    vocab: int = 0
    image: int = 0
    seq: int = 0
    recompute: str = "none"
    optimizer: str = "adamw"
    lora_rank: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)  # what no column says

    def columns(self) -> dict[str, str]:
        """The columns of the reference that describe the case; 0 is absent."""
        return {
            "arch": self.arch, "recompute": self.recompute, "precision": self.precision,
            "optimizer": self.optimizer, "method": "lora" if self.lora_rank else "full",
            **{name: str(getattr(self, name) or "") for name in NUMBERS},
            "note": " ".join(f"{name}={value}" for name, value in self.extra.items()),
        }  # fmt: skip

    @classmethod
    def of_row(cls, row: Mapping[str, str]) -> Case:
        """The case of a row of the reference."""
        words = (word.partition("=") for word in (row.get("note") or "").split())
        return cls(
            arch=row["arch"], recompute=row["recompute"], precision=row["precision"],
            optimizer=row["optimizer"], extra={name: value for name, _, value in words},
            **{name: int(row[name] or 0) for name in NUMBERS},
        )  # fmt: skip


def cases() -> list[Case]:
    """Every case, in the order of its number: new ones go to the end, so that the others keep theirs."""
    return [
        *_adapters(), *_llama(), *_decoders(), *_experts(), *_vision(), *_encoders(), *_convolutions(),
    ]  # fmt: skip


ALL = ("bf16", "amp-bf16", "fp32")
LLAMA = Case(arch="llama", n_layers=4, hidden=2048, heads=16, kv_heads=16, ffn=5632, vocab=32000,
             batch=2, seq=2048, precision="bf16")  # fmt: skip
LLAMA_8B = replace(LLAMA, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256)
LLAMA_70B = replace(LLAMA, n_layers=2, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256, batch=1)
FULL = {"recompute": "full"}


def _vary(base: Case, precisions: Iterable[str], *changes: Mapping[str, Any]) -> list[Case]:
    """The base with each change, in each precision; a key that is no field goes to `extra`."""
    names = {field.name for field in fields(Case)}
    made = []
    for change in changes:
        columns = {name: value for name, value in change.items() if name in names}
        extra = dict(base.extra) | {name: value for name, value in change.items() if name not in names}
        made += [replace(base, precision=precision, extra=extra, **columns) for precision in precisions]
    return made


def _adapters() -> list[Case]:
    """LoRA; the usual trainer runs a bf16 base under autocast."""
    base = replace(LLAMA, lora_rank=16)
    usual = {"base": "bf16"}
    one_thing = ({"kv_heads": 4}, {"ffn": 8192}, {"n_layers": 8}, {"vocab": 128256})
    recipes = ("bf16", "fp32")
    large = replace(LLAMA_8B, lora_rank=16, batch=1)
    small = replace(base, hidden=1024, heads=8, kv_heads=8, ffn=2816)
    return [
        *_vary(base, ALL, {"lora_rank": 8}, {}, {"lora_rank": 64}, FULL, {"lora_dropout": 0.05}),
        *_vary(base, ["amp-bf16"], usual | {"lora_rank": 8}, usual, usual | {"lora_rank": 64}, usual | FULL,
               usual | {"lora_dropout": 0.05}, usual | FULL | {"lora_dropout": 0.05}),
        *_vary(base, recipes, *one_thing),
        *_vary(base, ["amp-bf16"], *[usual | change for change in one_thing], usual | {"mask": "none"}),
        *_vary(base, ["bf16"], {"mask": "none"}, {"mask": "none", "kv_heads": 4}),
        *_vary(large, ["bf16"], {}, FULL, {"seq": 8192} | FULL),
        *_vary(large, ["amp-bf16"], usual, usual | FULL, usual | FULL | {"seq": 8192},
               usual | {"lora_rank": 64}),
        *_vary(replace(LLAMA_70B, lora_rank=16), ["amp-bf16"], usual, usual | FULL),
        *_vary(small, ["amp-bf16"], usual | {"batch": 8}, usual | {"batch": 1, "seq": 8192}),
        *_vary(replace(base, arch="qwen2", kv_heads=4), ["amp-bf16"], usual, usual | FULL),
        *_vary(replace(base, arch="qwen3", kv_heads=4), ["amp-bf16"], usual, usual | FULL),
        *_vary(replace(base, arch="gemma", kv_heads=4, vocab=256000), ["amp-bf16"], usual | {"tied": 1}),
    ]  # fmt: skip


def _llama() -> list[Case]:
    big = {"vocab": 128256}
    return [
        *_vary(LLAMA, ALL, {}, FULL, {"kv_heads": 4}, {"kv_heads": 1}, {"ffn": 8192}, big, big | {"tied": 1},
               big | {"tied": 1} | FULL, {"heads": 32, "kv_heads": 32}, {"mask": "none"},
               {"mask": "none", "kv_heads": 4}),
        *_vary(LLAMA, ALL[:2], {"n_layers": 8}, {"n_layers": 8} | FULL, {"batch": 8, "seq": 512},
               {"batch": 1, "seq": 8192}, {"batch": 16, "seq": 256}, {"vocab": 256000},
               {"mask": "none"} | FULL),
        *_vary(LLAMA, ["bf16"], {"optimizer": "sgd"}, {"optimizer": "sgd"} | FULL),
        *_vary(LLAMA_8B, ["bf16"], {"batch": 16, "seq": 512}, {"batch": 1, "seq": 8192, "mask": "none"},
               {"batch": 1, "seq": 8192, "mask": "none"} | FULL),
        *_vary(LLAMA_70B, ["bf16"], {"seq": 4096}), *_vary(LLAMA_70B, ["amp-bf16"], {"seq": 4096} | FULL),
        *_unlike(),
    ]  # fmt: skip


def _unlike() -> list[Case]:
    """Shapes that no other row is near to."""
    rows = (  # layers, hidden, heads, kv heads, ffn, vocabulary, batch, length, precision, recompute, tied
        (6, 3072, 24, 8, 8192, 128256, 2, 4096, "bf16", "none", 1),
        (3, 512, 8, 2, 1408, 32000, 16, 512, "fp32", "none", 0),
        (8, 1536, 12, 2, 8960, 151936, 4, 1024, "amp-bf16", "none", 1),
        (2, 6144, 48, 8, 16384, 92544, 1, 8192, "bf16", "full", 0),
        (5, 2560, 20, 20, 6912, 50304, 8, 1024, "amp-bf16", "full", 0),
        (7, 896, 14, 2, 4864, 151936, 16, 256, "bf16", "none", 1),
        (2, 7168, 56, 8, 20480, 64000, 2, 2048, "amp-bf16", "none", 0),
        (3, 3584, 28, 4, 18944, 152064, 1, 4096, "fp32", "full", 0),
        (8, 768, 12, 4, 2048, 49152, 16, 1024, "bf16", "full", 1),
        (4, 5120, 32, 8, 14336, 131072, 1, 1024, "bf16", "none", 0),
        (8, 576, 9, 3, 1536, 49152, 4, 2048, "fp32", "none", 1),
        (2, 8192, 64, 64, 22016, 32000, 4, 1024, "bf16", "none", 0),
    )
    return [
        replace(LLAMA, n_layers=n, hidden=h, heads=a, kv_heads=k, ffn=f, vocab=v, batch=b, seq=s, precision=p,
                recompute=r, extra={"tied": t} if t else {})
        for n, h, a, k, f, v, b, s, p, r, t in rows
    ]  # fmt: skip


def _decoders() -> list[Case]:
    plain = replace(LLAMA, ffn=8192)
    gpt2 = replace(plain, arch="gpt2", n_layers=6, hidden=1024, ffn=4096, vocab=50257)
    return [
        *_vary(replace(LLAMA, arch="qwen2", kv_heads=4), ALL, {}, {"vocab": 151936, "tied": 1} | FULL),
        *_vary(replace(LLAMA, arch="qwen3", kv_heads=4), ALL, {}, {"head_dim": 256}),
        *_vary(replace(LLAMA, arch="gemma", kv_heads=1, ffn=16384, vocab=256000, extra={"tied": 1}), ALL,
               {"head_dim": 256, "heads": 8}, {"head_dim": 256, "heads": 8} | FULL),
        *_vary(replace(plain, arch="gpt-neox"), ALL, {}),
        *_vary(replace(plain, arch="gpt-neox"), ["bf16"], FULL),
        *_vary(replace(plain, arch="opt", vocab=50272), ALL, {"dropout": 0.0, "tied": 1}),
        *_vary(replace(plain, arch="opt", vocab=50272), ["amp-bf16"], {"dropout": 0.1, "tied": 1}),
        *_vary(replace(plain, arch="falcon", kv_heads=1, vocab=65024), ALL, {"tied": 1}),
        *_vary(replace(plain, arch="bloom", vocab=250880), ALL, {"tied": 1, "attention": "eager"}),
        *_vary(gpt2, ALL, {"dropout": 0.1}, {"dropout": 0.0}),
        *_vary(gpt2, ["amp-bf16"], {"dropout": 0.1} | FULL),
    ]  # fmt: skip


def _experts() -> list[Case]:
    """Mixtures of experts; the grouped kernel is the default of the library, the loop needs real tensors."""
    grouped = {"experts_kernel": "grouped_mm"}
    mixtral = replace(
        LLAMA, arch="mixtral", n_layers=2, kv_heads=4, extra={"experts": 8, "top_k": 2} | grouped
    )
    qwen = replace(LLAMA, arch="qwen3-moe", n_layers=2, kv_heads=4, ffn=768,
                   extra={"experts": 64, "top_k": 8} | grouped)  # fmt: skip
    deepseek = replace(
        LLAMA,
        arch="deepseek-v3",
        n_layers=3,
        ffn=1024,
        extra={"experts": 32, "top_k": 4, "dense_ffn": 5632, "dense_layers": 1, "q_rank": 768, "kv_rank": 512}
        | grouped,
    )
    tiny = {"hidden": 256, "heads": 4, "kv_heads": 2, "batch": 2, "seq": 256, "vocab": 1024, "real": 1,
            "mask": "none"}  # fmt: skip
    loop = tiny | {"experts_kernel": "eager"}
    return [
        *_vary(mixtral, ALL, {}), *_vary(mixtral, ["bf16", "amp-bf16"], FULL, {"top_k": 1}, {"experts": 16}),
        *_vary(mixtral, ["bf16"], {"ffn": 8192}, {"n_layers": 4}, {"batch": 1, "seq": 8192}, {"mask": "none"},
               {"hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "n_layers": 1}),
        *_vary(qwen, ALL, {}), *_vary(qwen, ["bf16"], FULL, {"top_k": 4}, {"experts": 128}, {"ffn": 1536}),
        *_vary(deepseek, ALL, {}),
        *_vary(deepseek, ["bf16"], FULL, {"top_k": 8}, {"n_layers": 4}, {"ffn": 2048}),
        *_vary(mixtral, ["bf16", "fp32"], {"ffn": 512} | tiny, {"ffn": 512} | loop),
        *_vary(qwen, ["bf16"], {"ffn": 128, "experts": 16, "top_k": 4} | loop),
        *_vary(deepseek, ["bf16"], {"ffn": 128, "experts": 16, "kv_heads": 4, "dense_ffn": 512, "q_rank": 96,
                                    "kv_rank": 64} | {k: v for k, v in loop.items() if k != "kv_heads"}),
    ]  # fmt: skip


def _vision() -> list[Case]:
    base = Case(arch="vit", n_layers=12, hidden=768, heads=12, kv_heads=12, ffn=3072, image=224, batch=32,
                precision="bf16", extra={"patch": 16, "dropout": 0.0})  # fmt: skip
    large = {"n_layers": 24, "hidden": 1024, "heads": 16, "kv_heads": 16, "ffn": 4096}
    huge = {"n_layers": 32, "hidden": 1280, "heads": 16, "kv_heads": 16, "ffn": 5120, "patch": 14, "batch": 8}
    clip = Case(arch="clip", n_layers=12, hidden=768, heads=12, kv_heads=12, ffn=3072, vocab=49408, image=224,
                batch=32, seq=77, precision="bf16", extra={"patch": 32, "text_hidden": 512})  # fmt: skip
    return [
        *_vary(base, ALL, {}, {"image": 384, "batch": 8}, large, large | FULL, {"dropout": 0.1}),
        *_vary(base, ALL[:2], {"n_layers": 6}, {"batch": 128}, FULL, huge),
        *_vary(base, ["amp-bf16"], {"patch": 32}, large | {"image": 384, "batch": 16}),
        *_vary(clip, ALL, {}), *_vary(clip, ["amp-bf16"], {"patch": 16}),
    ]  # fmt: skip


def _encoders() -> list[Case]:
    bert = Case(arch="bert", n_layers=6, hidden=768, heads=12, kv_heads=12, ffn=3072, vocab=30522, batch=16,
                seq=512, precision="bf16", extra={"dropout": 0.1})  # fmt: skip
    t5 = Case(arch="t5", n_layers=6, hidden=768, heads=12, kv_heads=12, ffn=3072, vocab=32128, batch=8,
              seq=512, precision="bf16", extra={"dropout": 0.1, "tied": 1})  # fmt: skip
    gated = {"gated": 1, "tied": 0, "ffn": 2048}
    whisper = Case(arch="whisper", n_layers=12, hidden=768, heads=12, kv_heads=12, ffn=3072, vocab=51865,
                   batch=8, seq=224, precision="bf16", extra={"encoder_seq": 1500})  # fmt: skip
    return [
        *_vary(bert, ALL, {}, {"dropout": 0.0}, {"ffn": 4096}, FULL,
               {"hidden": 1024, "heads": 16, "kv_heads": 16}),
        *_vary(bert, ["amp-bf16"], {"n_layers": 12}, {"batch": 64, "seq": 128}, {"batch": 128, "seq": 64},
               {"n_layers": 4, "hidden": 512, "heads": 8, "kv_heads": 8, "ffn": 2048}, {"vocab": 119547}),
        *_vary(t5, ALL, {}, {"dropout": 0.0}, gated),
        *_vary(t5, ["amp-bf16"], FULL, {"n_layers": 12},
               gated | {"hidden": 1024, "heads": 16, "kv_heads": 16}),
        *_vary(whisper, ALL, {}), *_vary(whisper, ["amp-bf16"], FULL, {"n_layers": 6}, {"seq": 448}),
    ]  # fmt: skip


def _convolutions() -> list[Case]:
    resnet = Case(arch="resnet", n_layers=50, image=224, batch=64, precision="bf16", optimizer="sgd")
    depths = [{"n_layers": depth} for depth in (18, 34, 50, 101, 152)]
    convnext = replace(resnet, arch="convnext", n_layers=18, hidden=96, batch=32, optimizer="adamw")
    efficientnet = replace(resnet, arch="efficientnet", n_layers=16, batch=32, extra={"variant": 0})
    unet = Case(arch="unet", n_layers=2, hidden=320, image=512, batch=2, seq=77, precision="bf16")
    return [
        *_vary(resnet, ALL, *depths),
        *_vary(resnet, ["amp-bf16"], {"batch": 256}, {"n_layers": 18, "batch": 256}, {"image": 288},
               {"n_layers": 34, "batch": 16}, {"optimizer": "adamw"}),
        *_vary(convnext, ALL, {}), *_vary(convnext, ["amp-bf16"], {"hidden": 128, "n_layers": 36}),
        *_vary(efficientnet, ALL, {}),
        *_vary(efficientnet, ["amp-bf16"], {"variant": 4, "n_layers": 32, "image": 380}),
        *_vary(unet, ALL, {}), *_vary(unet, ["amp-bf16"], FULL, {"batch": 4}),
    ]  # fmt: skip
