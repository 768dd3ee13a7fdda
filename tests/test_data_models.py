"""The shipped models and weight formats: every entry is valid, and published counts come out."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuselect.catalog import Catalog, Model, WeightFormat
from gpuselect.names import resolve_model, squeeze
from gpuselect.readers.catalog import load_catalog

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


# Networks: counts of one forward pass -----------------------------------------------------------------

NETWORK_FAMILIES = {"cnn", "vit", "encoder", "encoder-decoder", "diffusion", "recsys", "other"}
COUNTED = {
    "cnn", "detector", "vit", "speech", "diffusion-unet", "diffusion-dit", "recsys", "rnn", "multimodal",
}  # fmt: skip

# Measured names that lead to no entry: the source names no variant, or nothing gives the dimensions.
UNRESOLVED = {
    "Classification/ConvNets/efficientnet_v1", "Classification/GPUNet (GPUNet-0)",
    "Classification/GPUNet (GPUNet-1)", "Classification/GPUNet (GPUNet-2)",
    "Classification/GPUNet (GPUNet-D1)",
    "Stable Diffusion v1.5/2.1 (page benchmark)", "Stable Diffusion XL Base & Refiner",
    "diffusion transformer (script of the docs)", "Swin Transformer", "YOLOv5", "YOLOX", "UNet",
    "pose_estimation", "BART fine-tuning", "deepmind/multimodal-perceiver",
    "rfdetr-xlarge", "rfdetr-2xlarge", "YOLOv7-X", "YOLOv7-W6", "YOLOv7-E6", "YOLOv7-D6", "YOLOv7-E6E",
    "cascade_mask_rcnn_X_152_32x8d_FPN_IN5k_gn_dconv", "Other Settings Mask R-CNN X152",
    "New baselines using Large-Scale Jitter and Longer Training Schedule regnetx_4gf_",
    "New baselines using Large-Scale Jitter and Longer Training Schedule regnety_4gf_",
    "all-MiniLM-L6-v2", "embeddinggemma-300m",
    # language and speech models that the rows file under "other"
    "Cosmos-Reason2-2B", "Gated DeltaNet 300M", "DeepSeek-OCR", "DeepSeek-OCR-2", "deepseek_ocr2",
    "LLaDA2.1-mini", "LLaDA2.1-flash", "Step3-VL-10B", "LFM2.5-VL-1.6B", "Llama-OuteTTS-1.0-1B",
    "Pixtral-12B-2409", "Qwen2-VL-7B-Instruct", "csm-1b",
}  # fmt: skip
UNCOUNTED = {"r-gat"}  # the work of a sample depends on the neighbours that were drawn


@pytest.fixture(scope="module")
def spellings(models: dict[str, Model]) -> Mapping[str, str]:
    """Ids by every spelling that `resolve_model` knows: ids, aliases, and the part after a slash."""
    found: dict[str, str] = {}
    for model in models.values():
        for alias in model.aliases:
            found.setdefault(squeeze(alias.rsplit("/", 1)[-1]), model.id)
    for model in models.values():
        found |= {squeeze(alias): model.id for alias in model.aliases}
    return found | {name: name for name in models}


@pytest.fixture(scope="module")
def measured() -> set[str]:
    """Names of networks in the measured rows."""
    names: set[str] = set()
    for table in ("training", "inference"):
        with (DATA / "measurements" / f"{table}.csv").open(encoding="utf-8", newline="") as rows:
            names |= {r["model_name"] for r in csv.DictReader(rows) if r["family"] in NETWORK_FAMILIES}
    return names


def entry_of(name: str, spellings: Mapping[str, str]) -> str | None:
    """Id of a measured name, or None."""
    known = (name, squeeze(name), squeeze(name.rsplit("/", 1)[-1]))
    return next((spellings[key] for key in known if key in spellings), None)


def test_measured_networks_have_an_entry(measured: set[str], spellings: Mapping[str, str]) -> None:
    """Every name leads to an entry, except those listed here with a reason."""
    assert {name for name in measured if entry_of(name, spellings) is None} == UNRESOLVED


def test_measured_networks_are_counted(
    measured: set[str], spellings: Mapping[str, str], models: dict[str, Model]
) -> None:
    """What a speed estimate needs is there for every measured network that is not a text encoder."""
    ids = {i for name in measured if (i := entry_of(name, spellings)) is not None}
    found = [models[i] for i in ids]
    bare = {
        m.id
        for m in found
        if m.family in COUNTED | {"gnn"} and None in (m.gmacs_per_sample, m.activations_m, m.operators)
    }
    assert bare == UNCOUNTED
    assert len([m for m in found if m.family in COUNTED]) > 150


# one multiply-add is one; published in the paper named
PUBLISHED = [
    ("resnet-50", 3.8, 4.15, "He 2016, table 1: 3.8; the stride in the 3 x 3 layer makes it 4.1"),
    ("resnet-152", 11.3, 11.6, "He 2016, table 1: 11.3"),
    ("vgg-16", 15.3, 15.5, "He 2016, section 3.3: 15.3"),
    ("vgg-19", 19.6, 19.7, "He 2016, section 3.3: 19.6"),
    ("mobilenet-v1", 0.56, 0.58, "Howard 2017, table 4: 569 M"),
    ("mobilenet-v2", 0.30, 0.32, "Sandler 2018, table 4: 300 M"),
    ("efficientnet-b0", 0.38, 0.40, "Tan 2019, table 2: 0.39"),
    ("efficientnet-b7", 37.0, 38.4, "Tan 2019, table 2: 37"),
    ("efficientdet-d0", 2.4, 2.6, "Tan 2020, table 2: 2.5"),
    ("vit-base-16", 17.5, 17.7, "Liu 2021, table 1: DeiT-B 17.5"),
    ("swin-tiny", 4.4, 4.6, "Liu 2021, table 1: 4.5"),
    ("swin-base", 15.3, 15.5, "Liu 2021, table 1: 15.4"),
    ("dit-xl-2-256", 118.5, 118.7, "Peebles 2023, table 9: 118.64"),
    ("ssd-r34-1200", 216.0, 217.5, "open_model_zoo: 433.4 GFLOPs, two per multiply-add"),
    ("ssd-mobilenet-v1", 1.23, 1.25, "open_model_zoo: 2.494 GFLOPs, two per multiply-add"),
]


@pytest.mark.parametrize(("name", "low", "high", "paper"), PUBLISHED)
def test_counts_are_the_published_ones(
    models: dict[str, Model], name: str, low: float, high: float, paper: str
) -> None:
    """Multiply-adds of one sample as the authors print them."""
    assert low <= (models[name].gmacs_per_sample or 0.0) <= high, paper


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("resnet-50", 25.6), ("bert-large", 335), ("jasper-10x5dr", 333), ("quartznet-15x5", 18.9),
        ("mask-rcnn-r50-fpn-detectron2", 44.4), ("faster-rcnn-r50-dc5", 165.7), ("detr-r50", 41.5),
        ("retinanet-resnext50-fpn", 37.1), ("gnmt-v2", 160.7), ("ssd-mobilenet-v1", 6.8),
    ],
)  # fmt: skip
def test_parameters_of_networks(models: dict[str, Model], name: str, millions: float) -> None:
    """Sizes as their authors and model zoos print them."""
    assert models[name].params_b * 1e3 == pytest.approx(millions, rel=0.01)


def test_work_per_output_is_sane(models: dict[str, Model]) -> None:
    """Multiply-adds per element written, the depth of the products: 40 in MobileNet, 5400 in Jasper."""
    counted = [m for m in models.values() if m.gmacs_per_sample and m.activations_m]
    assert len(counted) > 200
    for model in counted:
        ratio = (model.gmacs_per_sample or 0.0) * 1e3 / (model.activations_m or 1.0)
        assert 30 < ratio < (6000 if model.family == "speech" else 2000), (model.id, ratio)


def test_operators_are_few_and_whole(models: dict[str, Model]) -> None:
    """Between four layers and a recurrent network that steps through its clip."""
    for model in models.values():
        if model.operators is not None:
            assert 4 <= model.operators <= 2500, model.id
            assert float(model.operators).is_integer(), model.id


def test_pipelines_name_their_parts(models: dict[str, Model]) -> None:
    """Denoisers of images say their steps and passes; guidance-distilled ones pass once."""
    denoisers = [m for m in models.values() if m.family.startswith("diffusion")]
    assert len(denoisers) > 15
    for model in denoisers:
        assert model.usual_steps, model.id
        assert model.guidance_passes in (1.0, 2.0), model.id
    assert models["flux.1-dev"].guidance_passes == 1.0
    assert models["sdxl-base-1.0"].guidance_passes == 2.0


def test_recommenders_say_their_lookups(models: dict[str, Model]) -> None:
    """DLRM reads one row of 26 tables, its multi-hot successor 214."""
    for model in (m for m in models.values() if m.family == "recsys"):
        assert model.lookups_per_sample, model.id
        assert model.embedding_dim, model.id
    assert models["dlrm"].lookups_per_sample == 26.0
    assert models["dlrm-v2"].lookups_per_sample == 214.0


def test_spellings_of_the_measured_rows_resolve() -> None:
    """The index above and the function that users meet agree."""
    catalog: Catalog = load_catalog()
    pairs = {
        "ResNet-50 v1.5": "resnet-50", "BERT-large SQuAD fine-tune": "bert-large", "SDXL": "sdxl-base-1.0",
        "LanguageModeling/BERT": "bert-large", "Mask R-CNN": "mask-rcnn-r50-fpn-detectron2",
        "OWL-ViT B/32": "owl-vit-base-32", "Stable Diffusion v1": "stable-diffusion-1.5",
        "BEiT-B/16": "beit-base-16", "3D-UNet": "unet-3d-kits19",
    }  # fmt: skip
    assert {name: resolve_model(name, catalog).id for name in pairs} == pairs
