"""Memory of networks of samples: what attention spares, phases of a step, and the decoder of pictures."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuselect.estimate.network import Network, network_of
from gpuselect.estimate.network_memory import (
    live_elements,
    network_inference_memory,
    network_training_memory,
    unfused_elements,
)
from gpuselect.readers.catalog import load_catalog


@cache
def network(name: str) -> Network:
    """A network of the catalog at its usual input."""
    return network_of(load_catalog().models[name])


def training(of: Network, **more):
    """A step on one card in mixed precision with AdamW."""
    arguments = {"batch": 8, "count": 1, "sharded": 1, "precision": "fp16", "optimizer_bytes": 8.0,
                 "saved_copies": 1.95, "context_bytes": 0.0}  # fmt: skip
    return network_training_memory(network=of, **(arguments | more))


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "tokens"),
    [("vit-large-16", 24, 1024, 197), ("vit-huge-14", 32, 1280, 257), ("cogvideox-2b", 30, 1920, 17776),
     ("cogvideox-5b", 42, 3072, 17776), ("whisper-large-v3", 32, 1280, 1500)],
)  # fmt: skip
def test_elements_outside_scores_are_those_of_the_layers(name, layers, hidden, tokens):
    """10 L s h, found from work, parameters and operators alone; published widths and lengths."""
    assert unfused_elements(network(name)) == pytest.approx(10.0 * layers * hidden * tokens, rel=0.08)
    assert network(name).layers == pytest.approx(layers, rel=0.05)


def test_scores_of_a_unet():
    """Stable Diffusion 1.5: 8 heads, 5 layers at each of 64, 32 and 16 squared."""
    own = 8 * 5 * (4096.0**2 + 1024.0**2 + 256.0**2)
    assert network("stable-diffusion-1.5").score_elements == pytest.approx(own, rel=0.05)


def test_inference_holds_a_layer_or_the_decoder_of_pictures():
    """A transformer one of its layers; a generator of pictures eight times 256 channels at full size."""
    vit = network("vit-large-16")
    assert live_elements(vit, 0.2) == pytest.approx(unfused_elements(vit) / vit.layers)
    assert live_elements(vit, 0.2, fused=False) > live_elements(vit, 0.2)
    assert live_elements(network("stable-diffusion-1.5"), 0.2) == pytest.approx(8 * 256 * 512**2)
    assert live_elements(network("resnet-50"), 0.2) == pytest.approx(0.2 * network("resnet-50").activations)


def test_text_encoders_stand_by():
    """FLUX.1 has T5-XXL beside it, 4.7 B parameters; a text encoder of CLIP 0.09 B."""
    assert network("flux.1-dev").text_params == pytest.approx(4.7e9, rel=0.02)
    assert network("stable-diffusion-1.5").text_params == pytest.approx(0.086e9, rel=0.02)
    memory = network_inference_memory(
        network=network("flux.1-dev"), batch=1, count=1, weight_bytes=2.0, element_bytes=2.0, live_share=0.2,
        context_bytes=0.0,
    )  # fmt: skip
    assert float(memory.weights) == pytest.approx(2.0 * (11.9e9 + 4.7e9), rel=0.01)


def test_the_larger_phase_of_a_step_counts():
    """Many samples: what is kept, and casts; few: all gradients and the first layers."""
    vit = network("vit-huge-14")
    many, few = training(vit, batch=64), training(vit, batch=1)
    assert float(many.gradients) == 0.0
    assert float(many.temporaries) == pytest.approx(2.0 * vit.params)
    assert float(many.activations) == pytest.approx(64 * 4.0 * unfused_elements(vit))
    assert float(few.gradients) == pytest.approx(4.0 * vit.params)
    assert float(few.activations) == pytest.approx(4.0 * unfused_elements(vit) / vit.layers)


def test_replicas_reduce_from_buckets_and_shards_do_not():
    """Another copy of the gradients where they are not sharded."""
    vit = network("vit-huge-14")
    alone, two = training(vit), training(vit, count=2)
    assert float(two.total - alone.total) == pytest.approx(4.0 * vit.params)
    assert float(training(vit, count=2, sharded=2).total) < float(alone.total)


@given(st.integers(1, 64), st.sampled_from(["fp32", "fp16"]), st.sampled_from(["vit-huge-14", "resnet-50"]))
def test_what_needs_less(batch, precision, name):
    """Recomputation, adapters, shards and pure 16 bit never need more; more samples never less."""
    of = network(name)
    total = float(training(of, batch=batch, precision=precision).total)
    slack = 1.001  # the input of the layer that is computed anew
    assert float(training(of, batch=batch, precision=precision, recompute=True).total) <= slack * total
    assert float(training(of, batch=batch, precision=precision, trained_share=0.01).total) < total
    assert float(training(of, batch=batch, precision=precision, states="pure").total) <= total
    assert float(training(of, batch=batch + 1, precision=precision).total) > total
    assert float(training(of, batch=batch, precision=precision, fused=False).total) >= total


def test_video_transformers_fit_a_card():
    """Without fused attention the scores of 17776 tokens would need a terabyte."""
    video = replace(network("cogvideox-2b"), passes=1.0)
    assert float(training(video, batch=1, recompute=True).total) < 80e9
    assert float(training(video, batch=1, fused=False).total) > 1e12
