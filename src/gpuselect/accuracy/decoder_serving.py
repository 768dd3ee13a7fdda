"""Decoder inference rows: rates, latencies, memory and fit of the row's own load and layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuselect.accuracy.decoder_formats import engine_id, format_of, preallocates
from gpuselect.accuracy.decoder_memory import fit_for
from gpuselect.accuracy.records import Fit, Row, Scored, Skip
from gpuselect.accuracy.rows import accelerator_of, number, present, shape_of_row, system_of_card, whole
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.deployment import engine_of
from gpuselect.estimate.devices import device, peak_tflops
from gpuselect.estimate.memory import serving_memory
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.serving import decode_step_time, kv_capacity, prefill_time, steady_state
from gpuselect.estimate.shape import Shape
from gpuselect.job import weights_in_format
from gpuselect.plan import Plan
from gpuselect.units import GB, GIB

RATES = (
    "output_tok_s_total", "output_tok_s_per_accel", "total_tok_s_total", "requests_or_images_per_s_total",
    "prefill_tok_s", "ttft_ms", "tpot_ms", "latency_ms",
)  # fmt: skip
METRICS = (*RATES, "peak_mem_gb")
USUAL_LENGTHS = (512.0, 256.0)  # prompt and answer where a row states none: feasibility study, section 12
# Mean prompt and answer of the data sets of MLPerf inference: feasibility study, section 4, caveat d.
MLPERF_LENGTHS = {
    "gpt-j": (800.0, 69.0), "gptj": (800.0, 69.0), "llama-2-70b": (294.0, 294.0),
    "llama2-70b": (294.0, 294.0), "mixtral": (300.0, 145.0), "405b": (9428.0, 684.0),
    "llama-3.1-8b": (778.0, 73.0),
}  # fmt: skip
# Most sequences that an engine runs at once: TensorRT-LLM as MLPerf submits it, vLLM on small cards, and
# on large ones; same study, E14.
MOST_SEQUENCES = {"tensorrt-llm": 4096.0}
MOST_ON_SMALL, MOST_ON_LARGE, LARGE_GIB = 256.0, 1024.0, 70.0
PREFILL_TOKENS = 2048.0  # up to here attention is small beside the linear layers
LAYER_SPLIT = ("llama.cpp", "exllamav2", "transformers")  # several cards hold layers, not shares of them
IN_PROCESS = ("decode", "prefill", "latency")  # phases timed inside the program: no server answers
SINGLE = ("single-stream", "decode", "prefill", "latency")
TAILS = ("p90", "p95", "p99")
WHOLE_MACHINE = re.compile(r"over (all|both|the|gpus|\d+) ?(cards|gpus|accelerators)?|total over")
REQUESTS = re.compile(r"\b(\d+) requests\b")
ROUNDS = 20  # of the fixed point between arrival rate and running batch


@dataclass(frozen=True, slots=True)
class Case:
    """A row resolved to what the estimates take. `batch` runs at once on each replica."""

    shape: Shape
    plan: Plan
    device: Device
    weight_bytes: float
    kv_bytes: float
    engine: Any
    inputs: float
    outputs: float
    batch: float
    single: bool
    assumed: bool

    def terms(self, calibration: Calibration) -> dict[str, Any]:
        """The arguments that prefill, decode and steady state share."""
        return {
            "shape": self.shape, "plan": self.plan, "device": self.device, "engine": self.engine,
            "constants": calibration.serving, "weight_bytes": self.weight_bytes,
        }  # fmt: skip


def predict(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored]:
    """Every metric of a row that is predicted, else a skip code."""
    stated = present(row, METRICS)
    if row.get("outcome", "ok") != "ok" or not stated:
        raise Skip("no-metric")
    _refuse(row)
    case = case_of(row, catalog, calibration)
    found, last = [], Skip("no-metric")
    rates = _rates(row, case, calibration)
    for metric in stated:
        try:
            found.append(_scored(row, metric, case, rates, calibration))
        except Skip as skip:
            last = skip
    if not found:
        raise last
    return found


def _refuse(row: Row) -> None:
    """Leave a row that measures what has no term in the model."""
    notes = row.get("notes", "").lower()
    if "disagg" in notes:
        raise Skip("disaggregated")
    if "flexgen" in row.get("engine", "").lower() or row.get("offload", "none") != "none":
        raise Skip("offload-not-covered")
    if re.search(r"\b(mtp|speculative|eagle)\b", notes) and "no mtp" not in notes:
        raise Skip("technique-not-covered")
    if "-mig-" in row.get("hardware", ""):
        raise Skip("mig-slice", row["hardware"])


def _scored(
    row: Row, metric: str, case: Case, rates: Mapping[str, tuple[str, float]], calibration: Calibration
) -> Scored:
    if metric == "peak_mem_gb":
        cut, value = "serving memory", _memory_gb(row, case, calibration)
    elif metric == "ttft_ms" and not case.single:
        raise Skip("ttft-under-load")
    elif metric in ("ttft_ms", "latency_ms") and row.get("latency_stat") in TAILS:
        raise Skip("tail-latency", row["latency_stat"])
    else:
        cut, value = rates[metric]
    return Scored(
        row.get("row_id", ""), row.get("source_id", ""), cut, metric, number(row, metric), value,
        _interval(cut, single=case.single), case.assumed,
    )  # fmt: skip


def _interval(cut: str, *, single: bool) -> str:
    """Key of the quantiles that answers use for a slice (options.serving_performance)."""
    if cut == "serving memory":
        return "memory"
    if cut in ("serving ttft unloaded", "serving prefill"):
        return "prefill"
    return "decode" if single and cut in ("serving decode b1", "serving latency") else "throughput"


def _rates(row: Row, case: Case, calibration: Calibration) -> dict[str, tuple[str, float]]:
    """Slice and value of every rate and time, in the units of the columns."""
    terms = case.terms(calibration)
    context = case.inputs + case.outputs / 2.0
    state = steady_state(
        **terms, kv_bytes=case.kv_bytes, input_tokens=case.inputs, output_tokens=case.outputs,
        batch=case.batch,
    )  # fmt: skip
    decode = float(decode_step_time(**terms, kv_bytes=case.kv_bytes, batch=case.batch, context=context))
    mode = row.get("mode", "")
    prefill_s = _prefill_seconds(case, calibration)
    output, cut = float(state.output_tokens_per_s), "serving throughput"
    if mode == "decode":
        output = case.plan.replicas * case.batch / decode
        cut = "serving decode b1" if case.single else "serving decode batched"
    elif case.single:
        cut = "serving single stream"
    server_s = (
        float(calibration.serving.server_overhead_s * case.engine.python) if mode in IN_PROCESS else 0.0
    )
    latency = prefill_s if mode == "prefill" else float(state.latency) - server_s
    step = "serving decode b1" if case.single else "serving tpot loaded"
    ratio = (case.inputs + case.outputs) / case.outputs
    return {
        "output_tok_s_total": (cut, output),
        "output_tok_s_per_accel": (cut, output / float(case.plan.count)),
        "total_tok_s_total": (cut, output * ratio),
        "requests_or_images_per_s_total": (cut, output / case.outputs),
        "prefill_tok_s": ("serving prefill", case.batch * case.plan.replicas * case.inputs / prefill_s),
        "ttft_ms": ("serving ttft unloaded", 1e3 * (float(state.ttft_unloaded) - server_s)),
        "tpot_ms": (step, 1e3 * (decode if case.single or mode == "decode" else float(state.tpot))),
        "latency_ms": ("serving prefill" if mode == "prefill" else "serving latency", 1e3 * latency),
    }  # fmt: skip


def _prefill_seconds(case: Case, calibration: Calibration) -> float:
    """Time to process the prompts of the batch [s]: together while they are short, else one by one."""
    terms = case.terms(calibration)
    alone = case.batch * float(prefill_time(**terms, tokens=case.inputs))
    if case.batch * case.inputs > PREFILL_TOKENS:
        return alone
    return min(alone, float(prefill_time(**terms, tokens=case.batch * case.inputs)))


def case_of(row: Row, catalog: Catalog, calibration: Calibration) -> Case:
    """Resolve a row; what it leaves open gets the usual value and is marked as assumed."""
    accelerator = accelerator_of(row, catalog)
    shape = shape_of_row(row, catalog)
    weights, guessed = format_of(row, accelerator, catalog, calibration, params=shape.params)
    precision = weights.compute if peak_tflops(accelerator, weights.compute) is not None else "fp16"
    if peak_tflops(accelerator, precision) is None:
        precision = "fp32"
    dev = device(
        accelerator, system_of_card(accelerator, catalog), precision=precision, serving=True,
        calibration=calibration,
    )  # fmt: skip
    if dev is None:
        raise Skip("figures-missing", accelerator.id)
    inputs, outputs, lengths_guessed = _lengths(row)
    weight_bytes = weights_in_format(shape=shape, weights=weights)
    asked, load_guessed = _asked(row)
    plan = plan_of(row, weight_bytes=weight_bytes, usable=dev.usable_bytes, open_load=asked is None)
    name = engine_id(row)
    case = Case(
        shape=shape, plan=plan, device=dev, weight_bytes=weight_bytes,
        kv_bytes=1.0 if "8" in row.get("kv_precision", "") else 2.0,
        engine=engine_of(name, weights, calibration), inputs=inputs, outputs=outputs, batch=1.0,
        single=asked == 1.0,
        assumed=guessed or lengths_guessed or load_guessed or name not in calibration.engines,
    )  # fmt: skip
    return _with_batch(case, row, asked, calibration)


def _lengths(row: Row) -> tuple[float, float, bool]:
    """Prompt and answer [tokens], and whether one had to be assumed; an empty prompt counts as one token."""
    usual = USUAL_LENGTHS
    if row.get("source_id", "").startswith("mlperf"):
        name = row.get("model_name", "").lower()
        usual = next((pair for part, pair in MLPERF_LENGTHS.items() if part in name), usual)
    needs_output = row.get("mode") not in ("prefill", "decode")
    open_cells = "input_len" not in row or ("output_len" not in row and needs_output)
    inputs, outputs = number(row, "input_len", usual[0]), number(row, "output_len", usual[1])
    return max(inputs, 1.0), max(outputs, 1.0), open_cells


def _asked(row: Row) -> tuple[float | None, bool]:
    """Sequences asked for at once over all replicas, None for as many as run; and whether assumed."""
    asked = number(row, "batch_or_concurrency")
    if asked:
        return asked, False
    if row.get("mode") in SINGLE:
        return 1.0, True
    return None, True


def plan_of(row: Row, *, weight_bytes: float, usable: float, open_load: bool) -> Plan:
    """The layout of a row.

    Unstated: engines that split by layers get a pipeline, the others tensor parallelism; a run for
    maximum throughput the smallest replica whose weights leave 30 % of the memory. llama.cpp splits
    layers whatever the row calls it.
    """
    count = whole(row, "n_accel")
    tp, pp = (whole(row, key) for key in ("tp", "pp"))
    engine = engine_id(row)
    if engine == "llama.cpp" and tp > 1:
        tp, pp = 1, tp * pp
    elif "tp" not in row and "pp" in row:
        tp = max(count // pp, 1)
    elif "tp" not in row and count > 1:
        if engine in LAYER_SPLIT:
            tp, pp = 1, count
        else:
            tp = min(count, 8)
            while open_load and tp > 1 and weight_bytes / (tp // 2) < 0.7 * usable:
                tp //= 2
    return Plan(count=count, tp=tp, pp=pp, replicas=max(count // (tp * pp), 1))


def _with_batch(case: Case, row: Row, asked: float | None, calibration: Calibration) -> Case:
    """The case with the batch that runs: as asked, as arrivals keep it, or what the KV cache holds."""
    capacity = max(float(kv_capacity(
        shape=case.shape, plan=case.plan, usable_bytes=case.device.usable_bytes,
        serving_share=float(calibration.memory.serving_share), weight_bytes=case.weight_bytes,
        kv_bytes=case.kv_bytes, context=case.inputs + case.outputs / 2.0,
        reserve=float(calibration.memory.serving_context_gib) * GIB,
    )), 1.0)  # fmt: skip
    if asked is not None:
        return replace(case, batch=min(max(asked / case.plan.replicas, 1.0), capacity))
    large = case.device.usable_bytes >= LARGE_GIB * GIB
    most = min(capacity, MOST_SEQUENCES.get(engine_id(row), MOST_ON_LARGE if large else MOST_ON_SMALL))
    if sent := REQUESTS.search(row.get("notes", "")):
        most = max(min(most, float(sent[1]) / case.plan.replicas), 1.0)  # no more than were sent
    rate = number(row, "request_rate") / case.plan.replicas
    if not rate:
        return replace(case, batch=most)
    batch = 1.0
    for _round in range(ROUNDS):
        state = steady_state(
            **case.terms(calibration), kv_bytes=case.kv_bytes, input_tokens=case.inputs,
            output_tokens=case.outputs, batch=batch,
        )  # fmt: skip
        batch = min(max(rate * float(state.latency), 1.0), most)
    return replace(case, batch=batch)


def _need(row: Row, case: Case, calibration: Calibration, *, sequences: float) -> float:
    """Need per accelerator [B] with the context allocated in full."""
    prompt = 0.0 if row.get("mode") == "decode" else case.inputs
    return float(serving_memory(
        shape=case.shape, plan=case.plan, weight_bytes=case.weight_bytes, sequences=sequences,
        context=case.inputs + case.outputs, kv_bytes=case.kv_bytes, prefill_tokens=prompt,
        context_bytes=float(calibration.memory.serving_context_gib) * GIB,
    ).total)  # fmt: skip


def _memory_gb(row: Row, case: Case, calibration: Calibration) -> float:
    """Need [GB] in the sense of the row: of one card, or of the whole machine where its notes say so."""
    if preallocates(row):
        raise Skip("memory-preallocated", row.get("engine", ""))
    need = _need(row, case, calibration, sequences=max(number(row, "batch_or_concurrency", 1), 1.0))
    notes = row.get("notes", "").lower()
    whole_machine = WHOLE_MACHINE.search(notes) and "divided" not in notes
    return need * (float(case.plan.count) if whole_machine else 1.0) / GB


def fit(row: Row, catalog: Catalog, calibration: Calibration) -> Fit:
    """The row's need against the usable memory: of one sequence where the engine queues the others."""
    _refuse(row)
    case = case_of(row, catalog, calibration)
    queues = preallocates(row) or row.get("mode") in ("server", "offline")
    sequences = 1.0 if queues else max(number(row, "batch_or_concurrency", 1), 1.0) / case.plan.replicas
    need = _need(row, case, calibration, sequences=max(sequences, 1.0))
    return fit_for(row, need=need, usable=case.device.usable_bytes)
