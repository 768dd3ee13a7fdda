"""Cells of a measured row, and the catalog entries that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from math import isfinite

from gpuselect.accuracy.records import Row, Skip
from gpuselect.catalog import Accelerator, Catalog, Model, System
from gpuselect.deployment import system_of
from gpuselect.errors import InputError
from gpuselect.estimate.model_shape import DECODER_FAMILIES, shape_of
from gpuselect.estimate.shape import Shape, typical_decoder
from gpuselect.names import resolve_accelerator, squeeze

USUAL_EXPERTS = (128, 8)  # where a row names no experts: Qwen3 MoE, the most frequent in the rows
USUAL_ACTIVE = 0.094  # and no active parameters: 22 of 235 billion, same report (arXiv 2505.09388, table 2)
USUAL_VOCAB = 50_304  # GPT-2's 50257 rounded up to a multiple of 64, the most frequent in the rows
SAME_SIZE = 0.02
ROUNDED = (0.7, 1.4)  # of the size in a model's name: Gemma 7B has 8.5, Gemma 2 2B has 2.6 billion
LARGEST = 1e12  # no column of the layouts holds more
NO_CARD = ("generic", "gpu-")
# what a checkpoint's name adds to the name of its model
SUFFIX = re.compile(
    r"(?i)[-_ ](fp8|nvfp4|mxfp4|bf16|fp16|fp8-kv|kv|gptq|awq|gguf|int4|int8|w8a8|w4a16|4bit|8bit|bnb|unsloth|"
    r"instruct|chat|it|base|hf|\d{4})$"
)
SIZE = re.compile(r"(?i)(?<![a-z])(?:(\d+)\s?[x×]\s?)?e?(\d+(?:\.\d+)?)\s?([bm])(?![a-z])")
ACTIVE = re.compile(r"(?i)(?<![a-z])a(\d+(?:\.\d+)?)b(?![a-z])")


class Same:
    """A value compared by identity: a key for results that depend on it."""

    __slots__ = ("value",)

    def __init__(self, value: Catalog) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value


def number(row: Row, key: str, default: float = 0.0) -> float:
    """A numeric cell, the default when it is empty; skip code `malformed-cell` when it is no number.

    >>> number({"tp": "8"}, "tp"), number({}, "tp", 1.0)
    (8.0, 1.0)
    """
    text = row.get(key, "")
    if not text.strip():
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or not 0 <= value <= LARGEST:
        raise Skip("malformed-cell", f"{key}: {text[:40]!r}")
    return value


def whole(row: Row, key: str, default: int = 1) -> int:
    """A count of at least 1, the default when the cell is empty or 0."""
    return int(number(row, key, default)) or default


def present(row: Row, keys: Iterable[str]) -> list[str]:
    """The metrics that the row states; a measured 0 is no measurement."""
    return [key for key in keys if number(row, key) > 0]


def accelerator_of(row: Row, catalog: Catalog) -> Accelerator:
    """The card of a row; skip codes `hardware-unspecified`, `hardware-mixed`, `hardware-unknown`.

    A slice of a card (`-mig-`) gives the whole card.
    """
    name = row.get("hardware", "").strip()
    if not name or "unspecified" in name or name.startswith(NO_CARD):
        raise Skip("hardware-unspecified", name)
    if "+" in name:
        raise Skip("hardware-mixed", name)
    found = _accelerator(name.split("-mig-")[0], Same(catalog))
    if found is None:
        raise Skip("hardware-unknown", name)
    return found


@lru_cache(maxsize=4096)
def _accelerator(name: str, catalog: Same) -> Accelerator | None:
    with suppress(InputError):
        return resolve_accelerator(name, catalog.value)[0]
    return None


def system_of_card(accelerator: Accelerator, catalog: Catalog) -> System | None:
    """The system that the card comes in, None when the catalog knows none."""
    return _systems(Same(catalog)).get(accelerator.id)


@lru_cache(maxsize=4)
def _systems(catalog: Same) -> dict[str, System]:
    return system_of(catalog.value)


def model_of(name: str, catalog: Catalog) -> Model | None:
    """The catalog model of exactly that name or alias."""
    return _model(name, Same(catalog)) if name else None


def _model(name: str, held: Same) -> Model | None:
    catalog = held.value
    if name in catalog.models:
        return catalog.models[name]
    whole_names, tails = _spellings(held)
    entry = whole_names.get(squeeze(name)) or tails.get(squeeze(name.rsplit("/", 1)[-1]))
    return None if entry is None else catalog.models[entry]


@lru_cache(maxsize=4)
def _spellings(held: Same) -> tuple[dict[str, str], dict[str, str]]:
    """Model ids by squeezed alias and by its last part: `resolve_model` for thousands of names."""
    aliases: Mapping[str, str] = getattr(held.value.models, "aliases", {})
    whole_names: dict[str, str] = {}
    tails: dict[str, str] = {}
    for spelling, entry in aliases.items():
        whole_names.setdefault(squeeze(spelling), entry)
        tails.setdefault(squeeze(spelling.rsplit("/", 1)[-1]), entry)
    for spelling, entry in aliases.items():
        tails.setdefault(squeeze(SUFFIX.sub("", spelling.rsplit("/", 1)[-1])), entry)
    return whole_names, tails


def is_decoder(row: Row, catalog: Catalog) -> bool:
    """True for a row of a decoder: by its family, else (none, or `other`) by that of its model.

    A row of neither is taken for a decoder where it names no family, because most rows are.
    """
    family = row.get("family", "")
    if family in ("", "other"):
        model = base_model_of(row.get("model_name", ""), catalog)
        family = model.family if model is not None else family or DECODER_FAMILIES[0]
    return family in DECODER_FAMILIES


def base_model_of(name: str, catalog: Catalog) -> Model | None:
    """The catalog model of a checkpoint's name, without what the name says about format and tuning.

    >>> base_model_of.__name__
    'base_model_of'
    """
    text = re.sub(r"\s*\(.*\)$", "", name).rsplit("/", 1)[-1]
    while text:
        if (model := model_of(text, catalog)) is not None:
            return model
        shorter = SUFFIX.sub("", text)
        if shorter == text:
            return None
        text = shorter
    return None


def shape_of_row(row: Row, catalog: Catalog, *, rounded: bool = False) -> Shape:
    """Dimensions of the row's model, else the skip code `size-unknown`.

    The catalog's, unless the row states another size; else the row's own dimensions; else those of
    the model without the format in its name; else usual proportions for the size stated or named. With
    `rounded` a stated size that only repeats the one in the name counts as rounded.
    """
    name = row.get("model_name", "")
    stated = number(row, "params_b") * 1e9
    shape = _decoder_shape(model_of(name, catalog), row, stated, rounded=rounded)
    if shape is None and not _has_dimensions(row, stated):
        shape = _decoder_shape(base_model_of(name, catalog), row, stated, rounded=rounded)
    if shape is not None:
        return shape
    params, active = _sizes(row, stated)
    if not int(number(row, "n_layers")) or not int(number(row, "hidden")):
        if not params:
            raise Skip("size-unknown", name)
        return typical_decoder(params=params, active_params=active)
    return _stated_shape(row, params, active)


def _has_dimensions(row: Row, stated: float) -> bool:
    return bool(stated and number(row, "n_layers") and number(row, "hidden"))


def _decoder_shape(
    model: Model | None, row: Row, stated: float, *, rounded: bool = False
) -> Shape | None:  # fmt: skip
    """The model's shape when it is a decoder of the stated size.

    A stated size that contradicts both the catalog and the name does not count, unless the row has the
    model's width: then it is the model with fewer or more layers.
    """
    if model is None:
        return None
    with suppress(InputError):
        shape = shape_of(model)
        if not stated or 0.9 < shape.params / stated < 1.1:
            return shape
        named = _named_size(row.get("model_name", ""))
        repeated = named and abs(stated / named - 1.0) < SAME_SIZE
        if rounded and repeated and ROUNDED[0] < shape.params / stated < ROUNDED[1]:
            return shape
        if named and 0.9 < shape.params / named < 1.1 and number(row, "hidden") != shape.hidden:
            return shape
    return None


def _sizes(row: Row, stated: float) -> tuple[float, float]:
    """Total and active parameters: stated, else from the dimensions, else from the model's name."""
    active = number(row, "active_params_b") * 1e9
    params = stated or _counted(row)
    name = row.get("model_name", "")
    params = params or _named_size(name)
    if not active and (some := ACTIVE.search(name)) and float(some[1]) * 1e9 < params:
        active = float(some[1]) * 1e9
    if not active and row.get("family") == "moe-decoder" and "n_experts" not in row:
        active = USUAL_ACTIVE * params
    return params, active or params


def _named_size(name: str) -> float:
    """Parameters by the model's name, 0 when it holds no size.

    >>> _named_size("Mixtral-8x7B"), _named_size("GPT-2 124M"), _named_size("gpt-4")
    (56000000000.0, 124000000.0, 0.0)
    """
    size = SIZE.search(name)
    if size is None:
        return 0.0
    return float(size[1] or 1) * float(size[2]) * (1e9 if size[3].lower() == "b" else 1e6)


def _counted(row: Row) -> float:
    """Parameters counted from the dimensions (gated MLP, untied embeddings), 0 when some are missing."""
    layers, hidden, ffn = (number(row, key) for key in ("n_layers", "hidden", "ffn_hidden"))
    if not layers or not hidden or not ffn:
        return 0.0
    heads = number(row, "heads") or max(hidden // 128, 1)
    head_dim = number(row, "head_dim") or hidden // heads
    attention = 2.0 * hidden * head_dim * (heads + (number(row, "kv_heads") or heads))
    experts = number(row, "n_experts") or 1.0
    return 2.0 * hidden * (number(row, "vocab") or USUAL_VOCAB) + layers * (
        attention + 3.0 * hidden * ffn * experts
    )


def _stated_shape(row: Row, params: float, active: float) -> Shape:
    """A decoder of the row's own dimensions."""
    layers, hidden = int(number(row, "n_layers")), int(number(row, "hidden"))
    if not params:
        params = active = 12.0 * layers * hidden**2 + 2.0 * hidden * (number(row, "vocab") or USUAL_VOCAB)
    heads = whole(row, "heads", max(hidden // 128, 1))
    kv_heads = whole(row, "kv_heads", heads)
    head_dim = whole(row, "head_dim", max(hidden // heads, 1))
    vocab = whole(row, "vocab", USUAL_VOCAB)
    experts, top_k = int(number(row, "n_experts")), int(number(row, "top_k"))
    width = number(row, "ffn_hidden") or 4.0 * hidden
    if experts and top_k and active == params:
        active = params - 3.0 * hidden * width * layers * (experts - top_k)
        active = active if active > 0 else params
    if active < 0.9 * params and not experts:
        experts, top_k = USUAL_EXPERTS
    expert_params = (
        min((params - active) / (1.0 - top_k / experts), 0.97 * params) if experts > top_k else 0.0
    )
    return Shape(
        params=params, active_params=active, embedding_params=min(float(vocab * hidden), params / 3),
        tied=params < 2e9, n_layers=layers, hidden=hidden, ffn=width * (top_k or 1) if experts else width,
        n_heads=heads, n_kv_heads=kv_heads, head_dim=head_dim, vocab=vocab,
        kv_width=2.0 * kv_heads * head_dim, attention_layers=layers, window=0, windowed_layers=0,
        n_experts=experts if expert_params > 0 else 0, top_k=top_k, expert_params=max(expert_params, 0.0),
    )  # fmt: skip
