"""Published rates of networks: each inside the 80 % interval; ratios of formats on one card.

Rows of data/measurements by their id; MLPerf's are closed-division results.
"""

import csv
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from gpuselect.accuracy import predict_inference
from gpuselect.accuracy.evaluation import interval_of
from gpuselect.accuracy.network_cases import attention_is_fused, case_of, network_of_row, runtime_key
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog

ROWS = Path(__file__).parents[2] / "data/measurements/inference.csv"
RATES = ("requests_or_images_per_s_total", "latency_ms")
CASES = {
    "ResNet-50 offline, T4, int8": "mlperf-v0_7-0052",
    "ResNet-50 single stream, T4": "mlperf-v0_7-0053",
    "ResNet-50 server, 8 x T4": "mlperf-v0_5-0038",
    "ResNet-50 offline, A100 PCIe": "mlperf-v0_7-0005",
    "ResNet-50 offline, 8 x A100 SXM": "mlperf-v0_7-0042",
    "ResNet-50 offline, RTX 4090, int8": "mlperf-v5_1-0149",
    "ResNet-50 single stream, RTX 4090, int8": "mlperf-v5_1-0151",
    "BERT offline, T4": "mlperf-v3_1-0151",
    "BERT single stream, T4": "mlperf-v3_1-0155",
    "BERT server, L4": "mlperf-v3_1-0088",
    "BERT single stream, L4": "mlperf-v3_0-0079",
    "BERT offline, A30": "mlperf-v3_0-0034",
    "BERT offline, A100 SXM": "mlperf-v3_0-0018",
    "BERT server, 8 x A100 SXM": "mlperf-v3_1-0020",
    "BERT offline, H100 PCIe": "mlperf-v3_1-0061",
    "BERT offline, AGX Orin": "mlperf-v3_1-0071",
    "BERT single stream, Orin NX": "mlperf-v3_1-0081",
    "RetinaNet offline, T4": "mlperf-v3_1-0159",
    "RetinaNet server, L4": "mlperf-v5_1-0101",
    "RetinaNet offline, A30": "mlperf-v3_1-0038",
    "RetinaNet offline, A100 PCIe": "mlperf-v3_0-0008",
    "RetinaNet offline, H100 PCIe": "mlperf-v3_1-0065",
    "RetinaNet offline, 8 x H100 SXM": "mlperf-v4_1-0075",
    "RetinaNet multi-stream, Orin NX": "mlperf-v3_1-0082",  # offline also runs on DLAs of unknown rate
    "SDXL offline, L4": "mlperf-v5_1-0103",
    "SDXL offline, H100 PCIe": "mlperf-v4_1-0058",
    "Stable Diffusion 1.5, A100, fp16": "lambda-diffusers-0014",
    "Stable Diffusion 1.5, A100, fp32 as TF32": "lambda-diffusers-0013",
    "Stable Diffusion 1.5, RTX 4080, PyTorch": "stable-fast-0001",
    "SDXL, RTX 4080, PyTorch": "stable-fast-0002",
    "SDXL, RTX 4080, a graph of fused kernels": "stable-fast-0014",
}
# (with, without, what the ratio of rates may be off by): the same card, network and load
PAIRS = {
    "ResNet-50 on RTX 4090, int8 against fp32, one stream": ("mlperf-v5_1-0151", "mlperf-v5_1-0150", 2.4),
    "Stable Diffusion 1.5 on A100, fp16 and TF32": ("lambda-diffusers-0014", "lambda-diffusers-0013", 1.4),
    "Stable Diffusion 1.5 on A100, fp16 and TF32, batched": (
        "lambda-diffusers-0020", "lambda-diffusers-0019", 1.4),
    "YOLOv8n on Orin Nano Super, int8 and fp16": (
        "jetson-orin-nano-bench-0004", "jetson-orin-nano-bench-0003", 1.3),
    "ResNet-50 on RTX 3060, int8 and fp16, one image": ("arttrt-0082", "arttrt-0081", 1.3),
    "ResNet-152 on RTX 3060, int8 and fp16, batched": ("arttrt-0092", "arttrt-0091", 1.4),
}  # fmt: skip


@cache
def rows():
    """Measured rows by id, without their empty cells."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        return {row["row_id"]: {k: v for k, v in row.items() if v} for row in csv.DictReader(file)}


catalog, calibration = cache(load_catalog), cache(load_calibration)


@cache
def scored(row_id):
    """Prediction of the first metric of a row that is no memory."""
    found = predict_inference(rows()[row_id], catalog(), calibration())
    assert isinstance(found, list), found
    return next(one for one in found if one.metric != "peak_mem_gb")


@pytest.mark.parametrize("case", CASES)
def test_a_published_rate_lies_in_the_interval(case):
    """Measured within the low and high that an answer would show."""
    one = scored(CASES[case])
    low, high = interval_of(one, calibration())
    assert low <= one.measured <= high, (one.measured, low, one.predicted, high)


@pytest.mark.parametrize("case", PAIRS)
def test_a_ratio_of_formats(case):
    """Predicted against measured speed-up of one format over another; both say which is faster."""
    fast, slow, bound = (*(scored(name) for name in PAIRS[case][:2]), PAIRS[case][2])
    predicted, measured = slow.predicted / fast.predicted, slow.measured / fast.measured
    if fast.metric != "latency_ms":
        predicted, measured = 1 / predicted, 1 / measured
    assert measured > 1 < predicted
    assert 1 / bound <= predicted / measured <= bound, (predicted, measured)


@pytest.mark.parametrize(
    ("source", "engine", "key"),
    [
        ("stable-fast", "vanilla pytorch (2.1.0)", "pytorch"),
        ("stable-fast", "stable-fast (with xformers & triton)", "tensorrt"),
        ("arttrt", "pytorch", "pytorch"),
        ("arttrt", "tensorrt", "tensorrt"),
        ("mlperf-v3_1", "tensorrt", "vendor-tuned"),
        ("aws-neuron", "", "neuron"),
    ],
)
def test_the_runtime_is_what_the_engine_says(source, engine, key):
    """The name of a source counts only where a row names no engine."""
    assert runtime_key({"source_id": source, "engine": engine}) == key


def test_cards_rank_as_in_a_round_of_mlperf():
    """Pairs of cards in one round, benchmark, scenario and precision that differ by more than 10 %."""
    groups = {}
    for row in rows().values():
        if not row["source_id"].startswith("mlperf"):
            continue
        found = predict_inference(row, catalog(), calibration())
        if isinstance(found, list) and found[0].metric in RATES:
            one, number = found[0], float(row["n_accel"])
            key = (one.source, row["model_name"], row.get("mode"), row.get("weight_precision"))
            both = (one.measured, one.predicted)
            rates = [1 / x if one.metric == "latency_ms" else x / number for x in both]
            groups.setdefault(key, {}).setdefault(row["hardware"], rates)
    pairs = [
        (first, second)
        for cards in groups.values()
        for first, second in combinations(cards.values(), 2)
        if max(first[0] / second[0], second[0] / first[0]) > 1.1
    ]
    right = sum((first[0] > second[0]) == (first[1] > second[1]) for first, second in pairs)
    assert len(pairs) > 400
    assert right / len(pairs) >= 0.92


def predicted(row_id, **cells):
    """The prediction of a row with some cells changed."""
    return predict_inference(rows()[row_id] | cells, catalog(), calibration())


def test_a_rate_above_the_peak_is_no_measurement():
    """BERT-large at 171 tokens is 0.106 TFLOP: 60,000 a second need more than the 312 TFLOP/s of an A100."""
    row = "mlperf-v3_0-0018"
    assert isinstance(predicted(row), list)
    assert predicted(row, requests_or_images_per_s_total="60000", n_accel="1").code == "above-peak"


def test_a_two_stage_detector_takes_pictures_one_by_one():
    """Batches of Mask R-CNN in the rows are no faster than single pictures."""
    assert isinstance(predicted("detectron2-0015"), list)
    assert predicted("detectron2-0015", batch_or_concurrency="8").code == "two-stage"


@pytest.mark.parametrize(
    ("row_id", "fused"),
    [
        ("lambda-diffusers-0016", True),  # with xformers
        ("stable-fast-0001", True),  # PyTorch 2.1
        ("hf-torch-compile-0001", False),  # Transformers in 2023
        ("mlperf-v0_7-0052", True),
    ],
)
def test_whose_attention_is_fused(row_id, fused):
    """By what a row says, its stack and its date."""
    assert attention_is_fused(rows()[row_id], runtime_key(rows()[row_id])) is fused


def test_frames_of_clip_are_its_image_tower():
    """Frames a second of CLIP ViT-B/32: 4.4 GMACs of an image, not 7.4 with a text."""
    row = rows()["jetson-ai-lab-0043"]
    assert network_of_row(row, catalog(), training=False).macs / 1e9 == pytest.approx(4.41, rel=0.01)


def test_offline_on_a_module_counts_its_dla():
    """AGX Xavier: 22.6 TOPS of the GPU, 9.4 of two DLAs, which a single stream leaves alone."""
    for row_id, tops in (("mlperf-v0_7-0017", 32.0), ("mlperf-v0_7-0018", 22.6)):
        case = case_of(rows()[row_id], catalog(), calibration(), training=False)
        assert case.device.peak / 1e12 == pytest.approx(tops)


def test_a_mig_row_is_one_slice():
    """Systems of four and eight cards submitted the rate of one slice of one of them."""
    case = case_of(rows()["mlperf-v3_0-0014"], catalog(), calibration(), training=False)
    assert (case.count, case.device.peak / 1e12) == (1, pytest.approx(312 / 7))
