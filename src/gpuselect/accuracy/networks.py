"""Rows of networks that work sample by sample: their training and inference, with the row's own batch."""

from __future__ import annotations

from dataclasses import replace

from gpuselect.accuracy.network_cases import (
    Case,
    attention_is_fused,
    case_of,
    check_peak,
    is_mlperf,
    runtime_key,
)
from gpuselect.accuracy.network_memory_rows import inference_memory_gb, states_memory, training_memory_gb
from gpuselect.accuracy.records import Row, Scored, Skip, Skipped, skipped
from gpuselect.accuracy.rows import number, present
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.estimate.network import Network
from gpuselect.estimate.vision import Pace, inference_pace, training_pace
from gpuselect.network_sites import inference_runtime, training_runtime

TRAINING_RATES = ("samples_per_s_total", "step_time_s", "tokens_per_s_per_accel")
INFERENCE_RATES = ("requests_or_images_per_s_total", "latency_ms", "output_tok_s_total")
SERVER_SHARE = 0.9  # MLPerf Server against Offline, median: feasibility study, section 6
RECORDING_S = 9000.0  # "150 minutes of audio" of the rows that time a whole recording


def predict_training_row(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored] | Skipped:
    """Throughput in the row's units, and peak memory."""
    try:
        return _training(row, catalog, calibration)
    except Skip as skip:
        return skipped(row, skip)


def predict_inference_row(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored] | Skipped:
    """Rate, latency and peak memory of the row's batch."""
    try:
        return _inference(row, catalog, calibration)
    except Skip as skip:
        return skipped(row, skip)


def _training(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored]:
    metrics = present(row, (*TRAINING_RATES, "peak_mem_gb"))
    if row.get("outcome", "ok") != "ok" or not metrics:
        raise Skip("no-metric")
    case = case_of(row, catalog, calibration, training=True)
    accumulate = max(number(row, "grad_accum", 1.0), 1.0)
    pace = training_pace_of(
        case, calibration, name=runtime_key(row, training=True), accumulate=accumulate,
        hosts=case.count if "DataParallel" in row.get("framework", "") else 1,
    )  # fmt: skip
    rate = float(pace.rate)
    length = number(row, "seq_len") or case.network.generated or 1.0
    values = {
        "samples_per_s_total": rate, "step_time_s": float(pace.seconds),
        "tokens_per_s_per_accel": rate * length / case.count,
        "peak_mem_gb": training_memory_gb(case, row, calibration),
    }  # fmt: skip
    if "tokens_per_s_per_accel" in metrics and length == 1.0:
        metrics.remove("tokens_per_s_per_accel")
    if not metrics:
        raise Skip("length-unknown")
    return [_scored(row, key, values[key], f"training {case.network.kind}", case, "network-training")
            for key in metrics]  # fmt: skip


def training_pace_of(
    case: Case, calibration: Calibration, *, name: str, accumulate: float = 1.0, hosts: float = 1.0
) -> Pace:
    """The pace of a training row; `hosts` cards are launched by one process, one after another."""
    constants = calibration.network
    runtime = training_runtime(case.network, case.precision, calibration, name=name)
    return training_pace(
        network=case.network, device=case.device,
        runtime=replace(runtime, operator_s=runtime.operator_s * hosts), batch=case.batch,
        count=case.count, accumulate=accumulate, link_efficiency=float(constants.link_efficiency),
        overlap=float(constants.overlap),
        scale_loss=float(constants.scale_loss),
    )  # fmt: skip


def _inference(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored]:
    metrics = present(row, (*INFERENCE_RATES, "peak_mem_gb"))
    if row.get("outcome", "ok") != "ok" or not metrics:
        raise Skip("no-metric")
    case = case_of(row, catalog, calibration, training=False)
    check_peak(case, stated_rate(row, case))
    name = runtime_key(row)
    if "peak_mem_gb" in metrics and not states_memory(row, name):
        metrics.remove("peak_mem_gb")
    if not metrics:
        raise Skip("memory-preallocated", row.get("engine", ""))
    pace = inference_pace_of(case, name, calibration, fused=attention_is_fused(row, name))
    rate, seconds = float(pace.rate), float(pace.seconds)
    if row.get("mode") == "server":
        rate *= SERVER_SHARE
    if "150 minutes of audio" in row.get("notes", "") and case.network.clip_seconds:
        seconds *= RECORDING_S / case.network.clip_seconds / case.batch
    values = {
        "requests_or_images_per_s_total": rate, "latency_ms": 1e3 * seconds,
        "output_tok_s_total": rate * (case.network.generated or 1.0),
        "peak_mem_gb": inference_memory_gb(case, row, name, calibration),
    }  # fmt: skip
    family = "vendor-tuned" if is_mlperf(row) else case.network.kind
    single = case.batch <= 1
    cut = f"inference {family} {'batch 1' if single else 'batched'}"
    interval = "network-latency" if single else "network-inference"
    return [_scored(row, key, values[key], cut, case, interval) for key in metrics]


def stated_rate(row: Row, case: Case) -> float:
    """Samples per second of all cards that a row of inference states, 0 where it states none."""
    if "150 minutes of audio" in row.get("notes", ""):
        return 0.0
    rate, latency = number(row, "requests_or_images_per_s_total"), number(row, "latency_ms")
    batches = case.count / case.split / latency * 1e3 if latency else 0.0
    return batches if case.batch <= 1 and latency else rate or batches * case.batch


def inference_pace_of(case: Case, runtime: str, calibration: Calibration, *, fused: bool = True) -> Pace:
    """The pace of an inference row with a runtime."""
    return inference_pace(
        network=share_of(case.network, case.split), device=case.device,
        runtime=inference_runtime(
            runtime, case.precision, calibration, kind=case.network.kind,
            edge=case.accelerator.family == "edge", fused=fused,
        ),
        batch=case.batch, count=case.count / case.split,
    )  # fmt: skip


def share_of(network: Network, cards: float) -> Network:
    """The part of a sample's work that each of several cards does; the operators stay."""
    return replace(
        network, macs=network.macs / cards, activations=network.activations / cards,
        spared_elements=network.spared_elements / cards,
        dense_params=network.dense_params / cards, decoder_params=network.decoder_params / cards,
        once_macs=network.once_macs / cards,
    )  # fmt: skip


def _scored(row: Row, metric: str, value: float, cut: str, case: Case, interval: str) -> Scored:
    if metric == "peak_mem_gb":
        said = " assumed" if case.assumed else ""
        cut, interval = f"{cut.split(maxsplit=1)[0]} memory of networks{said}", "memory"
    return Scored(
        row.get("row_id", ""), row.get("source_id", ""), cut, metric, number(row, metric), value, interval,
        case.assumed,
    )  # fmt: skip
