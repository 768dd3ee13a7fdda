"""Names as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuselect.catalog import Catalog
from gpuselect.errors import InputError
from gpuselect.names import resolve_accelerator, resolve_framework, resolve_model, squeeze
from gpuselect.readers.catalog import load_catalog

EXACT = [
    ("A100-SXM4-80GB", "a100-sxm4-80gb"),
    ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
    ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
    ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
    ("Tesla T4", "t4-16gb"),
    ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
    ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
    ("H100 NVL", "h100-nvl-94gb"),
    ("h100-sxm", "h100-sxm5-80gb"),
    ("H20-3e", "h20-141gb"),
    ("A10G", "a10g-24gb"),
    ("A10", "a10-24gb"),
    ("L40S", "l40s-48gb"),
    ("4090", "rtx-4090-24gb"),
    ("RTX4090", "rtx-4090-24gb"),
    ("rtx_4090", "rtx-4090-24gb"),
    ("NVIDIA GeForce RTX 4090", "rtx-4090-24gb"),
    ("3090 Ti", "rtx-3090-ti-24gb"),
    ("4060ti 16G", "rtx-4060-ti-16gb"),
    ("3080 12gb", "rtx-3080-12gb"),
    ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada-48gb"),
    ("MI300X", "mi300x-192gb"),
    ("AMD Instinct MI300X", "mi300x-192gb"),
    ("7900 XTX", "rx-7900-xtx-24gb"),
    ("Orin NX 16G", "jetson-orin-nx-16gb"),
    ("Spark", "dgx-spark-128gb"),
    ("GB10", "dgx-spark-128gb"),
    ("v6e", "tpu-v6e"),
    ("Trillium", "tpu-v6e"),
    ("TPU v5e", "tpu-v5e"),
    ("rtx-pro-6000-blackwell-max-q-96gb", "rtx-pro-6000-blackwell-maxq-96gb"),
    ("qualcomm-ai100-pro", "qualcomm-ai100-pro-32gb"),
]
ASSUMED = [
    ("a100", "a100-sxm4-80gb"),
    ("A100-80", "a100-sxm4-80gb"),
    ("A100 80G", "a100-sxm4-80gb"),
    ("a100-40gb", "a100-sxm4-40gb"),
    ("H100", "h100-sxm5-80gb"),
    ("V100", "v100-sxm2-16gb"),
    ("H20", "h20-96gb"),
    ("910B", "ascend-910b3-64gb"),
    ("昇腾910B", "ascend-910b3-64gb"),
    ("orin", "jetson-agx-orin-64gb"),
    ("jetson-agx-orin", "jetson-agx-orin-64gb"),
    ("jetson-orin-nx", "jetson-orin-nx-16gb"),
    ("m2-ultra", "apple-m2-ultra-192gb"),
    ("Apple M3 Max", "apple-m3-max-128gb"),
]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """The shipped catalog."""
    return load_catalog()


@pytest.mark.parametrize(("name", "expected"), EXACT)
def test_exact_names(catalog: Catalog, name: str, expected: str) -> None:
    """A name of one variant is read without a remark."""
    found, sentence = resolve_accelerator(name, catalog)
    assert (found.id, sentence) == (expected, None)


@pytest.mark.parametrize(("name", "expected"), ASSUMED)
def test_loose_names_are_said_to_be(catalog: Catalog, name: str, expected: str) -> None:
    """A name of several variants is read as the declared one, and the answer says so."""
    found, sentence = resolve_accelerator(name, catalog)
    assert found.id == expected
    assert sentence is not None
    assert name in sentence
    assert expected in sentence


def test_every_id_and_alias_resolves_to_its_entry(catalog: Catalog) -> None:
    """In any case, with spaces or underscores."""
    for card in catalog.accelerators.values():
        for spelling in (card.id, *card.aliases):
            for written in (spelling, spelling.upper(), spelling.replace("-", " ")):
                assert resolve_accelerator(written, catalog)[0].id == card.id, written


@pytest.mark.parametrize("name", ["h100-sxn", "rtx 4091", "T4-24GB", "", "  ", "gb", "nvidia"])
def test_unknown_accelerator(catalog: Catalog, name: str) -> None:
    """One sentence, at most three near matches, and where the list is."""
    with pytest.raises(InputError) as caught:
        resolve_accelerator(name, catalog)
    message = str(caught.value)
    assert "gpuselect list accelerators" in message
    assert message.count(",") <= 2
    assert "\n" not in message


def test_near_match_of_an_accelerator(catalog: Catalog) -> None:
    """A slip of the finger is recognised, in loose names too."""
    with pytest.raises(InputError, match="h100"):
        resolve_accelerator("h10O", catalog)
    with pytest.raises(InputError, match="did you mean h100-sxm"):
        resolve_accelerator("h100-sxn", catalog)


def test_models(catalog: Catalog) -> None:
    """By id and by Hugging Face name, whatever the case."""
    model = next(m for m in (catalog.models[i] for i in catalog.models) if m.aliases)
    assert resolve_model(model.id, catalog) is model
    assert resolve_model(model.id.upper(), catalog) is model
    for alias in model.aliases:
        assert resolve_model(alias, catalog) is model


def test_unknown_model(catalog: Catalog) -> None:
    """Near matches and where the list is."""
    with pytest.raises(InputError, match=r"llama-3\.1-8b.*gpuselect list models"):
        resolve_model("lama-3.1-8b", catalog)


def test_frameworks(catalog: Catalog) -> None:
    """By id, whatever the case."""
    assert resolve_framework("vLLM", catalog).id == "vllm"
    with pytest.raises(InputError, match=r"vllm.*gpuselect list frameworks"):
        resolve_framework("vlm", catalog)


@given(st.text(max_size=40))
def test_squeezing_twice_changes_nothing_for_signs(text: str) -> None:
    """Case and signs do not matter."""
    assert squeeze(text.replace(" ", "-")) == squeeze(text.replace(" ", "_"))


def test_a_bare_number_after_a_slash_is_no_name(catalog):
    """The 16 of ViT-B/16 is a patch size: an unknown network must not become a vision transformer."""
    with pytest.raises(InputError):
        resolve_model("Unheard-Of/16", catalog)
