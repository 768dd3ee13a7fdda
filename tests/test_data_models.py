"""The shipped models and weight formats: every entry is valid, and published counts come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuselect.catalog import Model, WeightFormat

DATA = Path(__file__).parents[1] / "data"


def entries(name: str) -> list[dict[str, Any]]:
    """Raw entries of one data file."""
    loaded: list[dict[str, Any]] = yaml.load((DATA / name).read_text("utf-8"), yaml.CSafeLoader)
    return loaded


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    """All models by id."""
    return {raw["id"]: Model(**raw) for raw in entries("models.yaml")}


@pytest.fixture(scope="module")
def formats() -> dict[str, WeightFormat]:
    """All weight formats by id."""
    return {raw["id"]: WeightFormat(**raw) for raw in entries("formats.yaml")}


def gated_decoder_params_b(model: Model) -> float:
    """Parameters in billions of an untied LLaMA-shaped decoder.

    P = 2 V h + L (2 h A d + 2 h K d + 3 h f + 2 h) + h, with A query heads and K key-value heads of
    size d: embedding and head, query and output, key and value, gated feed-forward, two norms per
    layer, one final norm.
    """
    assert model.n_heads
    assert model.n_kv_heads
    assert model.head_dim
    assert model.ffn_hidden
    assert model.n_layers
    assert model.hidden
    assert model.vocab
    hidden = model.hidden
    attention = 2 * hidden * (model.n_heads + model.n_kv_heads) * model.head_dim
    layer = attention + 3 * hidden * model.ffn_hidden + 2 * hidden
    return (2 * model.vocab * hidden + model.n_layers * layer + hidden) / 1e9


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "llama-2-7b", "mistral-7b-v0.3"]
)
def test_dimensions_give_the_published_count(models: dict[str, Model], name: str) -> None:
    """The count follows from the dimensions within 0.1 %."""
    assert gated_decoder_params_b(models[name]) == pytest.approx(models[name].params_b, rel=1e-3)


def test_llama_3_1_70b_is_the_published_size(models: dict[str, Model]) -> None:
    """The figure that a reader knows by heart."""
    assert models["llama-3.1-70b"].params_b == pytest.approx(70.554, abs=0.001)
    assert models["llama-3.1-70b"].n_kv_heads == 8.0


def test_ids_and_aliases_name_one_model(models: dict[str, Model]) -> None:
    """No alias names two models or hides an id."""
    seen: dict[str, str] = {}
    for model in models.values():
        for name in {model.id.lower(), *(alias.lower() for alias in model.aliases)}:
            assert seen.setdefault(name, model.id) == model.id, name


def test_names_are_unique(models: dict[str, Model]) -> None:
    """Reports show the name alone."""
    assert len({model.name for model in models.values()}) == len(models)


def test_mixture_of_experts_touch_a_part(models: dict[str, Model]) -> None:
    """Active parameters are fewer than all; chosen experts are fewer than all."""
    mixtures = [m for m in models.values() if m.n_experts]
    assert len(mixtures) > 40
    for model in mixtures:
        if model.active_params_b is not None:
            assert 0 < model.active_params_b < model.params_b, model.id
        if model.top_k is not None:
            assert model.top_k < (model.n_experts or 0.0), model.id


def test_no_figure_is_below_zero(models: dict[str, Model]) -> None:
    """Unknown is absent: 0 appears only where it is a value."""
    zero_allowed = {"attention_layers", "n_shared_experts", "first_dense_layers", "sliding_window"}
    for model in models.values():
        for path, figure in model.figures():
            value = float(figure)
            assert value > 0 or (value == 0 and path in zero_allowed), (model.id, path)


def test_cached_layers_of_hybrids_are_a_part(models: dict[str, Model]) -> None:
    """Layers with a KV cache never exceed all layers; pure state-space models have none."""
    for model in models.values():
        if model.attention_layers is not None and model.n_layers is not None:
            assert model.attention_layers <= model.n_layers, model.id
    assert models["mamba-2.8b"].attention_layers == 0.0
    assert models["qwen3-next-80b-a3b"].attention_layers == 12.0


def test_embeddings_follow_from_vocabulary_and_width(models: dict[str, Model]) -> None:
    """One V x h matrix where the head is tied, two where it is not, for the LLaMA line."""
    for model in models.values():
        if model.arch != "llama" or None in (model.vocab, model.hidden, model.embedding_params_b):
            continue
        assert model.vocab is not None
        assert model.hidden is not None
        copies = 1 if model.tied_embeddings else 2
        expected = copies * model.vocab * model.hidden / 1e9
        assert model.embedding_params_b == pytest.approx(expected, rel=1e-6), model.id


def test_format_names_are_unambiguous(formats: dict[str, WeightFormat]) -> None:
    """An alias leads to one format."""
    seen: dict[str, str] = {}
    for entry in formats.values():
        for name in {entry.id, *entry.aliases}:
            assert seen.setdefault(name.lower(), entry.id) == entry.id, name


@pytest.mark.parametrize(
    ("name", "bits"), [("bf16", 16), ("int4-awq", 4.16), ("q4_k_m", 4.9), ("mlx-4bit", 4.5)]
)
def test_bits_per_weight(formats: dict[str, WeightFormat], name: str, bits: float) -> None:
    """Scales are part of the bits."""
    assert formats[name].bits_per_weight == bits


def test_kernel_classes_are_calibrated(formats: dict[str, WeightFormat]) -> None:
    """Each dequantisation class has a constant in the calibration."""
    calibration = yaml.load((DATA / "calibration.yaml").read_text("utf-8"), yaml.CSafeLoader)
    assert {f.kernel_class for f in formats.values()} <= set(calibration["dequantise"])


def test_common_spellings_are_known(formats: dict[str, WeightFormat]) -> None:
    """What people type."""
    names = {alias for f in formats.values() for alias in (f.id, *f.aliases)}
    assert {"awq", "gptq", "int4", "q4_k_m", "w4a16", "4bit", "int8", "fp8", "nf4"} <= names
