"""How a decoder training row was run, as far as time depends on it: kernels, age, tuning of its stack."""

from __future__ import annotations

import re

from gpuselect.accuracy.records import Row
from gpuselect.accuracy.rows import model_of
from gpuselect.catalog import Accelerator, Catalog
from gpuselect.estimate.training import Method

EAGER = (
    "fsdp_qlora",
    "transformers",
    "trl",
    "peft",
    "swift",
    "llama-factory",
    "unsloth",
    "axolotl",
    "qwen",
    "fastchat",
)
TUNED = {  # stacks that the maker of the hardware tunes
    "nemo": "nvidia", "megatron-bridge": "nvidia", "nvidia release": "nvidia", "ngc ": "nvidia",
    "primus": "amd", "maxtext": "google",
}  # fmt: skip
FLASH_SINCE = 2023
RELATIVE_ATTENTION = "transformer-xl"
RELATIVE_SPAN = 4.0  # as many tokens of memory as of text, and scores by content and by position
VARIANT = re.compile(r"(?i)\bsection '(\w+) model'")


def way_of(row: Row, catalog: Catalog, accelerator: Accelerator, *, adapter: str, wide: bool) -> Method:
    """What the step time needs to know of a row's method; `adapter` is lora, qlora or empty."""
    relative, legacy = is_relative(row, catalog), _is_legacy(row)
    return Method(
        fused=_is_fused(row) and not relative, frozen_base=bool(adapter), quantised=adapter == "qlora",
        flash=not legacy and not relative, legacy=legacy, tuned=_is_tuned(row, accelerator), wide=wide,
        span=RELATIVE_SPAN if relative else 1.0,
    )  # fmt: skip


def _is_tuned(row: Row, accelerator: Accelerator) -> bool:
    """True where the maker of the card tuned the stack for it; NeMo AutoModel is plain PyTorch."""
    text = row.get("framework", "").lower()
    named = any(word in text and accelerator.vendor == vendor for word, vendor in TUNED.items())
    return named and "automodel" not in text


def _is_legacy(row: Row) -> bool:
    """True for rows before 2023, when FlashAttention (arXiv 2205.14135) reached the usual stacks."""
    year = row.get("date", "")[:4]
    return year.isdigit() and int(year) < FLASH_SINCE and "flash" not in row.get("framework", "").lower()


def is_relative(row: Row, catalog: Catalog) -> bool:
    """True for attention over relative positions: no flash kernel, no fused stack."""
    model = model_of(row.get("model_name", ""), catalog)
    return model is not None and model.arch == RELATIVE_ATTENTION


def named_variant(row: Row, catalog: Catalog) -> Row:
    """The row with the variant in its model's name, where a table of variants names it in its heading."""
    found = VARIANT.search(row.get("notes", ""))
    name = f"{row.get('model_name', '').rsplit('/', 1)[-1]} {found[1].lower()}" if found else ""
    return {**row, "model_name": name} if model_of(name, catalog) is not None else row


def _is_fused(row: Row) -> bool:
    """True for stacks of fused kernels: all but those that run a model's operators one by one."""
    text = row.get("framework", "").lower()
    if "megatron" in text:
        return True
    return not (any(word in text for word in EAGER) or "eager" in text or "eager" in row.get("notes", ""))
