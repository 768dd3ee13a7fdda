"""Published rates of networks: each inside the 80 % interval; ratios of formats on one card.

Rows of data/measurements by their id; MLPerf's are closed-division results.
"""

import csv
from functools import cache
from pathlib import Path

import pytest

from gpuselect.accuracy import predict_inference
from gpuselect.accuracy.evaluation import interval_of
from gpuselect.accuracy.networks import runtime_key
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog

ROWS = Path(__file__).parents[2] / "data/measurements/inference.csv"
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
    "RetinaNet offline, Orin NX": "mlperf-v3_1-0083",
    "SDXL offline, L4": "mlperf-v5_1-0103",
    "SDXL offline, H100 PCIe": "mlperf-v4_1-0058",
    "Stable Diffusion 1.5, A100, fp16": "lambda-diffusers-0014",
    "Stable Diffusion 1.5, A100, fp32 as TF32": "lambda-diffusers-0013",
    "Stable Diffusion 1.5, RTX 4090, PyTorch": "stable-fast-0001",
}
# (with, without, what the ratio of rates may be off by): the same card, network and load
PAIRS = {
    "ResNet-50 on RTX 4090, int8 against fp32, one stream": ("mlperf-v5_1-0151", "mlperf-v5_1-0150", 2.4),
    "Stable Diffusion 1.5 on A100, fp16 and TF32": ("lambda-diffusers-0014", "lambda-diffusers-0013", 1.4),
    "Stable Diffusion 1.5 on A100, fp16 and TF32, batched": (
        "lambda-diffusers-0016", "lambda-diffusers-0015", 1.4),
}  # fmt: skip


@cache
def rows():
    """Measured rows by id, without their empty cells."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        return {row["row_id"]: {k: v for k, v in row.items() if v} for row in csv.DictReader(file)}


@cache
def scored(row_id):
    """Prediction of the first metric of a row that is no memory."""
    found = predict_inference(rows()[row_id], load_catalog(), load_calibration())
    assert isinstance(found, list), found
    return next(one for one in found if one.metric != "peak_mem_gb")


@pytest.mark.parametrize("case", CASES)
def test_a_published_rate_lies_in_the_interval(case):
    """Measured within the low and high that an answer would show."""
    one = scored(CASES[case])
    low, high = interval_of(one, load_calibration())
    assert low <= one.measured <= high, (one.measured, low, one.predicted, high)


@pytest.mark.parametrize("case", PAIRS)
def test_a_ratio_of_formats(case):
    """Predicted against measured speed-up of one format over another; both say which is faster."""
    fast, slow, bound = (*(scored(name) for name in PAIRS[case][:2]), PAIRS[case][2])
    predicted, measured = slow.predicted / fast.predicted, slow.measured / fast.measured
    assert measured > 1 < predicted
    assert 1 / bound <= predicted / measured <= bound, (predicted, measured)


@pytest.mark.parametrize(
    ("source", "engine", "key"),
    [
        ("stable-fast", "vanilla pytorch (2.1.0)", "pytorch"),
        ("stable-fast", "stable-fast (with xformers & triton)", "compiled"),
        ("arttrt", "pytorch", "pytorch"),
        ("arttrt", "tensorrt", "tensorrt"),
        ("mlperf-v3_1", "tensorrt", "vendor-tuned"),
        ("aws-neuron", "", "neuron"),
    ],
)
def test_the_runtime_is_what_the_engine_says(source, engine, key):
    """The name of a source counts only where a row names no engine."""
    assert runtime_key({"source_id": source, "engine": engine}) == key
