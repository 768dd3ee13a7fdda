"""Networks of samples, video streams and scientific codes: worked values and laws."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuselect.catalog import Catalog
from gpuselect.errors import InputError
from gpuselect.estimate.hpc import run_time
from gpuselect.estimate.network import Network, encoder_work, network_of
from gpuselect.estimate.network_memory import network_inference_memory, network_training_memory
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.vision import Runtime, inference_pace, ring_bandwidth, training_pace
from gpuselect.names import resolve_model
from gpuselect.network_sites import power_density, power_share
from gpuselect.readers.catalog import load_catalog

RESNET = Network(
    kind="cnn", params=25.6e6, dense_params=25.6e6, macs=4.11e9, activations=11.1e6, operators=54.0
)
CARD = Device(
    peak=312e12, peak_16bit=312e12, bandwidth=2.0e12, usable_bytes=80e9, link=300e9, link_latency=2e-5,
    domain=8, per_node=8, network=25e9, gemm_efficiency=0.5, bandwidth_efficiency=0.7,
)  # fmt: skip
GRAPH = Runtime(compute=1.0, operator_s=1e-5, eager=False, element_bytes=2.0, weight_bytes=2.0, traffic=1.2)
EAGER = replace(GRAPH, operator_s=6e-5, eager=True, traffic=5.0)
STEP = {"link_efficiency": 0.65, "overlap": 0.6, "scale_loss": 0.0}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """Return the shipped catalog."""
    return load_catalog()


@pytest.mark.parametrize(
    ("model", "keys", "gmacs", "place"),
    [
        (
            "resnet-50",
            {},
            4.1,
            "He 2016, arXiv 1512.03385, table 1: 3.8e9 (v1), 4.1e9 with stride in the 3x3",
        ),
        ("resnet-50", {"image_size": 448}, 16.4, "four times the pixels"),
        ("vit-base-16", {}, 17.6, "Dosovitskiy 2020 via torchvision: 17.56 GFLOPS at 224"),
        ("bert-base", {"seq_len": 512}, 48.3, "12 layers x (7.08M x 512 + 2 x 512^2 x 768)"),
        ("bert-large", {"seq_len": 384}, 123.2, "24 layers x (12.58M x 384 + 2 x 384^2 x 1024)"),
    ],
)
def test_work_of_one_sample(catalog: Catalog, model: str, keys: dict[str, int], gmacs: float, place: str):
    """Multiply-accumulates of published networks at an input size."""
    network = network_of(resolve_model(model, catalog), **keys)
    assert network.macs / 1e9 == pytest.approx(gmacs, rel=0.01), place


def test_denoising_repeats_the_pass(catalog: Catalog):
    """A pass for each step, on two inputs where a prompt guides: they go through as one batch."""
    network = network_of(resolve_model("sdxl-base-1.0", catalog), steps=20)
    assert (network.passes, network.guidance) == (20, 2)
    assert network.macs / 1e9 == pytest.approx(3380.6, rel=1e-3)


def test_guidance_is_a_batch_of_two():
    """Weights and launches are paid once for both inputs, arithmetic twice."""
    one, two = (
        inference_pace(network=replace(RESNET, guidance=n), device=CARD, runtime=GRAPH, batch=1, count=1)
        for n in (1.0, 2.0)
    )
    assert two.compute == pytest.approx(2 * one.compute)
    assert two.host == one.host
    assert two.memory < 2 * one.memory


def test_fused_attention_spares_the_scores(catalog: Catalog):
    """ViT-B/16 writes 12 x 12 x 197^2 scores of 23.9 M elements; Swin has windows and none to spare."""
    vit, swin = (network_of(resolve_model(name, catalog)) for name in ("vit-base-16", "swin-tiny"))
    assert vit.spared_elements == pytest.approx(12 * 12 * 197**2, rel=0.05)
    assert swin.spared_elements == 0
    plain, fused = (
        inference_pace(network=vit, device=CARD, runtime=replace(GRAPH, fused=share), batch=64, count=1)
        for share in (0.0, 1.0)
    )
    assert fused.memory < 0.8 * plain.memory


def test_a_recurrent_network_reads_its_weights_at_every_step(catalog: Catalog):
    """Half the arithmetic of an LSTM is the product with its last state: a batch of 1 reuses no weight."""
    network = network_of(resolve_model("rnn-t", catalog))
    pace = inference_pace(network=network, device=CARD, runtime=GRAPH, batch=1, count=1)
    assert pace.memory > network.macs / 2 * GRAPH.weight_bytes / CARD.bandwidth


def test_batches_in_flight_hide_launches():
    """Side by side, launches cost what a graph adds only where the device waits for them."""
    deep = replace(RESNET, operators=2000.0)
    alone, beside = (
        inference_pace(network=deep, device=CARD, runtime=replace(GRAPH, streams=way), batch=256, count=1)
        for way in (False, True)
    )
    assert beside.seconds < alone.seconds - 0.5 * beside.host
    single = [
        inference_pace(network=deep, device=CARD, runtime=replace(GRAPH, streams=way), batch=1, count=1)
        for way in (False, True)
    ]
    assert single[0].seconds == single[1].seconds


def test_no_kernel_exceeds_the_highest_share():
    """Factors above one end at 0.9 of the peak."""
    fast = replace(GRAPH, compute=3.0)
    pace = inference_pace(network=RESNET, device=CARD, runtime=fast, batch=64, count=1)
    assert pace.compute == pytest.approx(2 * 4.11e9 * 64 / (0.9 * 312e12))


@pytest.mark.parametrize(
    ("card", "least", "most"),
    [("h100-sxm5-80gb", 0.6, 0.8), ("h100-pcie-80gb", 0.4, 0.5), ("a100-sxm4-80gb", 1.2, 1.4),
     ("rtx-4090-24gb", 1.3, 1.4), ("jetson-agx-orin-64gb", float("inf"), float("inf")),
     ("mi300x-192gb", float("inf"), float("inf"))],
)  # fmt: skip
def test_power_density(catalog: Catalog, card: str, least: float, most: float):
    """Board power over the 16-bit peak: 700 W / 989 TFLOP/s; half of int8 for GeForce; not for modules."""
    assert least <= power_density(catalog.accelerators[card]) <= most


@given(st.floats(0.05, 5.0), st.floats(0.1, 10.0))
def test_more_power_never_slows(need: float, density: float):
    """The share of the clock grows with the power and stays below 1."""
    assert 0 < power_share(need=need, density=density) <= power_share(need=need, density=2 * density) <= 1


def test_a_decoder_is_no_network_of_samples(catalog: Catalog):
    """The families are kept apart with a sentence."""
    with pytest.raises(InputError, match="dense-decoder"):
        network_of(resolve_model("llama-3.1-8b", catalog))


def test_encoder_activations_match_a_counted_network():
    """ViT-B/16: the formula against the operator count of the same convention (23.9 M)."""
    _macs, written = encoder_work(n_layers=12, hidden=768, ffn=3072, heads=12, seq_len=197)
    assert written / 1e6 == pytest.approx(23.9, rel=0.02)


@given(st.integers(1, 512), st.integers(1, 512))
def test_larger_batches_are_never_slower_per_sample(first: int, second: int):
    """Weights and operators are paid once per batch."""
    small, large = sorted((first, second))
    paces = [
        inference_pace(network=RESNET, device=CARD, runtime=GRAPH, batch=b, count=1) for b in (small, large)
    ]
    assert paces[1].rate >= paces[0].rate * (1 - 1e-9)
    assert paces[1].seconds >= paces[0].seconds


def test_batch_one_on_an_eager_host_is_bound_by_launches():
    """54 operators of 60 us: the host needs 3.24 ms, the device far less."""
    pace = inference_pace(network=RESNET, device=CARD, runtime=EAGER, batch=1, count=1)
    assert 3.24e-3 <= pace.seconds < 3.5e-3


def test_rate_counts_all_cards():
    """Cards serve independently."""
    one, four = (inference_pace(network=RESNET, device=CARD, runtime=GRAPH, batch=8, count=n) for n in (1, 4))
    assert four.rate == pytest.approx(4 * one.rate)
    assert four.seconds == one.seconds


def test_a_transcript_is_written_token_by_token():
    """100 tokens read 0.9 G parameters each: at least 100 x 1.8 GB over the bandwidth."""
    speech = replace(RESNET, kind="encoder", decoder_params=0.9e9, decoder_operators=448.0, generated=100.0)
    pace = inference_pace(network=speech, device=CARD, runtime=GRAPH, batch=1, count=1)
    assert pace.seconds > 100 * 1.8e9 / (2.0e12 * 0.7)


@pytest.mark.parametrize("count", [2, 8, 64])
def test_data_parallel_training_scales_below_linear(count: int):
    """More cards are faster, and never more than proportionally."""
    constants = {**STEP, "scale_loss": 0.015}
    one, many = (
        training_pace(network=RESNET, device=CARD, runtime=EAGER, batch=256, count=n, **constants)
        for n in (1, count)
    )
    assert one.rate < many.rate <= count * one.rate * (1 + 1e-9)


def test_a_training_pass_costs_three_forward_passes():
    """Arithmetic of a step: 6 MACs per sample at the achieved rate."""
    pace = training_pace(network=RESNET, device=CARD, runtime=EAGER, batch=256, count=1, **STEP)
    assert pace.compute == pytest.approx(6 * 4.11e9 * 256 / (312e12 * 0.5))


@pytest.mark.parametrize(("count", "rate"), [(2, 300e9), (8, 20e9), (16, 20e9), (64, 12.5e9)])
def test_the_slowest_hop_of_a_ring(count: int, rate: float):
    """Pairs have a bridge, a node PCIe between them, machines the network."""
    pairs = replace(CARD, domain=2, per_node=16, peer=20e9, network=12.5e9 / 16)
    assert float(ring_bandwidth(pairs, count)) == rate


def test_arrays_give_what_numbers_give():
    """Every formula takes either."""
    batch, count = np.array([1, 8, 64]), np.array([1, 2, 16])
    for pace in (
        lambda b, n: inference_pace(network=RESNET, device=CARD, runtime=GRAPH, batch=b, count=n),
        lambda b, n: training_pace(network=RESNET, device=CARD, runtime=EAGER, batch=b, count=n, **STEP),
    ):
        together = pace(batch, count)
        for i, (b, n) in enumerate(zip(batch, count, strict=True)):
            alone = pace(int(b), int(n))
            for field in fields(alone):
                both = np.broadcast_to(getattr(together, field.name), batch.shape)
                assert float(both[i]) == pytest.approx(float(getattr(alone, field.name)))


def test_training_memory_of_resnet_50():
    """The allocator reference saves 1.95 copies of 11.1 M elements per image (study, section 2.3)."""
    memory = network_training_memory(
        network=RESNET, batch=128, count=1, sharded=1, precision="fp32", optimizer_bytes=4.0,
        saved_copies=1.95, context_bytes=0.0,
    )  # fmt: skip
    # weights and momentum: gradients come as the activations go
    assert memory.total / 2**30 == pytest.approx((8 * 25.6e6 + 128 * 11.1e6 * 4 * 1.95) / 2**30)
    assert memory.activations / 2**30 == pytest.approx(10.3, rel=0.01)


def test_embedding_tables_are_sharded():
    """A recommender's tables divide over the cards, its dense layers do not."""
    dlrm = replace(RESNET, kind="recsys", params=24e9, dense_params=5e6)
    one, eight = (
        network_inference_memory(network=dlrm, batch=1, count=n, weight_bytes=2.0, element_bytes=2.0,
                                 live_share=0.2, context_bytes=0.0).weights
        for n in (1, 8)
    )  # fmt: skip
    assert one / 1e9 == pytest.approx(96.0, rel=0.01)
    assert eight == pytest.approx(one / 8, rel=0.01)


@given(st.floats(1e12, 1e21), st.floats(1e9, 1e18), st.integers(1, 64))
def test_a_code_takes_the_longer_of_arithmetic_and_traffic(flops: float, traffic: float, count: int):
    """Roofline: no faster than either side alone, and scale-invariant in the work."""
    constants = {"peak": 9.7e12, "bandwidth": 1.9e12, "compute_efficiency": 0.85,
                 "bandwidth_efficiency": 0.8, "scale_loss": 0.0, "count": count}  # fmt: skip
    run = run_time(flops=flops, traffic=traffic, **constants)
    assert run.seconds == pytest.approx(max(run.compute, run.memory))
    twice = run_time(flops=2 * flops, traffic=2 * traffic, **constants)
    assert twice.seconds == pytest.approx(2 * run.seconds)


def test_adapters_cost_two_passes_and_recomputation_one_more():
    """Of three passes the gradients of the weights fall away; recomputation adds a forward pass."""
    pace = {
        (share, again): float(training_pace(
            network=RESNET, device=CARD, runtime=EAGER, batch=256, count=1, trained_share=share,
            recompute=again, **STEP,
        ).compute)
        for share in (1.0, 0.01) for again in (False, True)
    }  # fmt: skip
    assert pace[0.01, False] / pace[1.0, False] == pytest.approx(2.01 / 3)
    assert pace[1.0, True] / pace[1.0, False] == pytest.approx(4 / 3)
