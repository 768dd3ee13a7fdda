"""A decoder inference row resolved to what the estimates take: model, layout, card, engine, load."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from gpuselect.accuracy.decoder_formats import engine_id, format_of
from gpuselect.accuracy.records import Row, Skip
from gpuselect.accuracy.rows import accelerator_of, number, shape_of_row, system_of_card, whole
from gpuselect.calibration import Calibration, serving_class
from gpuselect.catalog import Accelerator, Catalog, WeightFormat
from gpuselect.deployment import engine_of, engine_precision, is_large, kernel_of
from gpuselect.estimate.devices import device, peak_tflops
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.serving import NO_LIMIT, Engine, kv_capacity, steady_state
from gpuselect.estimate.shape import Shape
from gpuselect.job import weights_in_format
from gpuselect.plan import Plan
from gpuselect.units import GIB

USUAL_LENGTHS = (512.0, 256.0)  # prompt and answer where a row states none: feasibility study, section 12
SHAREGPT_LENGTHS = (217.0, 200.0)  # means of that data set in the rows that state them (gpustack)
# Mean prompt and answer of the data sets of MLPerf inference: feasibility study, section 4, caveat d.
MLPERF_LENGTHS = {
    "gpt-j": (800.0, 69.0), "gptj": (800.0, 69.0), "llama-2-70b": (294.0, 294.0),
    "llama2-70b": (294.0, 294.0), "mixtral": (300.0, 145.0), "405b": (9428.0, 684.0),
    "llama-3.1-8b": (778.0, 73.0), "deepseek-r1": (800.0, 3654.0),
}  # fmt: skip
MLPERF_BEAMS = {"gpt-j": 4.0, "gptj": 4.0}  # same study, E15
BEAMS = re.compile(r"num_beams=(\d+)")  # each beam is a sequence, and its tokens are counted
IN_PROCESS = ("decode", "prefill", "latency")  # phases timed inside the program: no server answers
SINGLE = ("single-stream", "decode", "prefill", "latency")
FP8_CACHE = ("tensorrt-llm", "vendor-tuned", "gaudi")  # checkpoints in FP8 or FP4 for them bring an FP8 cache
REQUESTS = re.compile(r"\b(\d+) (?:requests|prompts)\b")
TOTALS = (re.compile(r"\btotal input (?:tokens )?(\d+)"), re.compile(r"\btotal output (?:tokens )?(\d+)"))
MOST_TP = 8  # wider layouts of latent attention copy it and spread only the experts
ROUNDS = 20  # of the fixed point between arrival rate and running batch


@dataclass(frozen=True, slots=True)
class Case:
    """A row resolved to what the estimates take. `batch` runs at once on each replica.

    `hardware`, `name`, `kernel` and `precision` are the classes whose constants count.
    """

    shape: Shape
    plan: Plan
    device: Device
    weight_bytes: Any
    kv_bytes: Any
    engine: Engine
    inputs: Any
    outputs: Any
    batch: Any
    beams: Any
    sent: Any  # requests of the run per replica
    most: Any  # sequences that a replica can hold at once
    arrival: Any  # time in which the requests of the run arrive [s], 0 for all at once
    single: Any
    mode: str
    hardware: str
    name: str
    kernel: str
    precision: str
    assumed: bool

    def terms(self, calibration: Calibration) -> dict[str, Any]:
        """The arguments that prefill, decode and steady state share."""
        return {
            "shape": self.shape, "plan": self.plan, "device": self.device, "engine": self.engine,
            "constants": calibration.serving, "weight_bytes": self.weight_bytes,
        }  # fmt: skip


def case_of(row: Row, catalog: Catalog, calibration: Calibration) -> Case:
    """Resolve a row; what it leaves open gets the usual value and is marked as assumed."""
    accelerator = accelerator_of(row, catalog)
    shape = shape_of_row(row, catalog, rounded=True)
    weights, guessed = format_of(row, accelerator, catalog, calibration, params=shape.params)
    name = engine_id(row)
    precision = engine_precision(
        name, _precision(accelerator, weights), weights=weights.id, fp4="fp4" in accelerator.dense_tflops
    )  # fmt: skip
    dev = device(
        accelerator, system_of_card(accelerator, catalog), precision=precision, serving=True,
        calibration=calibration,
    )  # fmt: skip
    if dev is None:
        raise Skip("figures-missing", accelerator.id)
    inputs, outputs, lengths_guessed = _lengths(row)
    weight_bytes = weights_in_format(shape=shape, weights=weights)
    asked, load_guessed = _asked(row)
    engine = engine_of(
        name, weights, calibration, hardware=serving_class(accelerator), precision=precision,
        large=is_large(accelerator, dev),
    )  # fmt: skip
    case = Case(
        shape=shape, device=dev, weight_bytes=weight_bytes, engine=engine, inputs=inputs, outputs=outputs,
        plan=plan_of(row, shape=shape, weight_bytes=weight_bytes, usable=dev.usable_bytes,
                     open_load=asked is None, split=engine.layer_split),
        kv_bytes=_kv_bytes(row, name, precision), batch=1.0, beams=_beams(row), sent=NO_LIMIT,
        most=1.0, arrival=0.0, single=asked == 1.0,
        mode=row.get("mode", ""), hardware=serving_class(accelerator), name=name,
        kernel=kernel_of(weights, precision, engine=name), precision=precision,
        assumed=guessed or lengths_guessed or load_guessed or name not in calibration.engines,
    )  # fmt: skip
    return _with_batch(case, row, asked, calibration)


def _precision(accelerator: Accelerator, weights: WeightFormat) -> str:
    """Precision of the multiplication: the format's, else 16 bit, else fp32."""
    wanted = (weights.compute, "bf16", "fp16", "fp32")
    return next((p for p in wanted if peak_tflops(accelerator, p) is not None), "fp32")


def is_mlperf(row: Row) -> bool:
    """True for a submission to MLPerf inference: lengths and load are those of the benchmark."""
    return "mlperf inference" in row.get("notes", "").lower() or row.get("source_id", "").startswith("mlperf")


def _lengths(row: Row) -> tuple[float, float, bool]:
    """Prompt and answer [tokens], and whether one had to be assumed; an empty prompt counts as one token."""
    usual = SHAREGPT_LENGTHS if "sharegpt" in row.get("notes", "").lower() else USUAL_LENGTHS
    if is_mlperf(row):
        name = row.get("model_name", "").lower()
        usual = next((pair for part, pair in MLPERF_LENGTHS.items() if part in name), usual)
    needs_output = row.get("mode") not in ("prefill", "decode")
    meant = _counted_lengths(row)
    inputs = number(row, "input_len") or meant[0]
    outputs = number(row, "output_len") or meant[1]
    open_cells = not (inputs or "input_len" in row) or (not outputs and needs_output)
    if "input_len" not in row:
        inputs = inputs or usual[0]
    return max(inputs, 1.0), max(outputs or usual[1], 1.0), open_cells


def _counted_lengths(row: Row) -> tuple[float, float]:
    """Mean prompt and answer by the row's own totals, 0 where they do not tell.

    Tokens over requests: of the totals in the notes, else of the rates, whose ratio is the load's and not
    the card's.

    >>> _counted_lengths({"output_tok_s_total": "300", "total_tok_s_total": "900",
    ...                   "requests_or_images_per_s_total": "3"})
    (200.0, 100.0)
    """
    notes = row.get("notes", "")
    sent, *totals = (pattern.search(notes) for pattern in (REQUESTS, *TOTALS))
    if sent and all(totals):
        return tuple(float(found[1]) / float(sent[1]) for found in totals if found)  # type: ignore[return-value]
    requests = number(row, "requests_or_images_per_s_total")
    made, both = number(row, "output_tok_s_total"), number(row, "total_tok_s_total")
    if not requests or not made:
        return 0.0, 0.0
    return max(both - made, 0.0) / requests, made / requests


def _beams(row: Row) -> float:
    """Beams of the search, 1 without."""
    name = row.get("model_name", "").lower()
    return next((n for part, n in MLPERF_BEAMS.items() if part in name), 1.0) if is_mlperf(row) else 1.0


def _kv_bytes(row: Row, name: str, precision: str) -> float:
    """Bytes of a cached element: stated, else 1 where a checkpoint brings an FP8 cache, else 2."""
    stated = row.get("kv_precision", "")
    small = precision in ("fp8", "fp4") and name.startswith(FP8_CACHE)
    return 1.0 if "8" in stated or (not stated and small) else 2.0


def _asked(row: Row) -> tuple[float | None, bool]:
    """Sequences asked for at once over all replicas, None for as many as run; and whether assumed."""
    asked = number(row, "batch_or_concurrency")
    beams = BEAMS.search(row.get("notes", ""))
    if asked:
        return asked * (float(beams[1]) if beams else 1.0), False
    if row.get("mode") in SINGLE:
        return 1.0, True
    return None, True


def plan_of(row: Row, *, shape: Shape, weight_bytes: float, usable: float, open_load: bool, split: bool
            ) -> Plan:  # fmt: skip
    """The layout of a row.

    Unstated: engines that split by layers get a pipeline, the others tensor parallelism; a run for
    maximum throughput the smallest replica whose weights leave 30 % of the memory. llama.cpp splits
    layers whatever the row calls it, and so does transformers. More shares than accelerators are cores of
    one chip. Data parallel width together with experts that are spread over it is one replica of a mixture.
    """
    count = whole(row, "n_accel")
    tp, pp = (whole(row, key) for key in ("tp", "pp"))
    spread = shape.n_experts > 0 and whole(row, "ep") > 1
    dp = whole(row, "dp") if spread else 1
    engine = engine_id(row)
    if engine in ("llama.cpp", "transformers") and tp > 1:
        tp, pp = 1, tp * pp
    elif "tp" not in row and "pp" in row:
        tp = max(count // (pp * dp), 1)
    elif "tp" not in row and count > 1:
        if split:
            tp, pp = 1, count
        else:
            tp = min(max(count // dp, 1), 8)
            while open_load and tp > 1 and weight_bytes / (tp // 2) < 0.7 * usable:
                tp //= 2
    if shape.mla and tp > MOST_TP:
        tp, dp = 1, tp  # heads of a latent cache are not split so far: attention is data parallel
    pp = min(pp, count)
    tp = max(min(tp, count // pp), 1)
    dp = max(min(dp, count // (tp * pp)), 1)
    return Plan(count=count, tp=tp, pp=pp, dp=dp, replicas=max(count // (tp * pp * dp), 1))


def _with_batch(case: Case, row: Row, asked: float | None, calibration: Calibration) -> Case:
    """The case with the batch that runs: as asked, as arrivals keep it, or what the KV cache holds."""
    traits = calibration.engine_traits.get(case.name)
    length = case.outputs * (1.0 if traits and traits.reserves else 0.5)
    capacity = max(float(kv_capacity(
        shape=case.shape, plan=case.plan, engine=case.engine, usable_bytes=case.device.usable_bytes,
        serving_share=float(calibration.memory.serving_share), weight_bytes=case.weight_bytes,
        kv_bytes=case.kv_bytes * case.beams, context=case.inputs + length,
        reserve=float(calibration.memory.serving_context_gib) * GIB,
    )), 1.0)  # fmt: skip
    sent = REQUESTS.search(row.get("notes", ""))
    if sent:
        case = replace(case, sent=max(float(sent[1]) / case.plan.replicas, 1.0))
    served = asked is None or row.get("mode") == "server"
    most = min(capacity, case.engine.sequences) if served else capacity
    if asked is not None:
        most = min(most, max(asked / case.plan.replicas, 1.0))
    most = max(min(most, case.sent), 1.0)
    rate = number(row, "request_rate") / case.plan.replicas
    if not rate:
        return replace(case, batch=most, most=most)
    arrival = case.sent / rate
    batch = 1.0
    for _round in range(ROUNDS):
        state = steady_state(
            **case.terms(calibration), kv_bytes=case.kv_bytes, input_tokens=case.inputs,
            output_tokens=case.outputs, batch=batch,
        )  # fmt: skip
        running = running_of_run(rate=rate, arrival=arrival, latency=float(state.latency))
        batch = 0.5 * (batch + min(max(running, 1.0), most))
    return replace(case, batch=batch, most=most, arrival=arrival)


def running_of_run(*, rate: float, arrival: float, latency: float) -> float:
    """Sequences that run beside each other, as a sequence of the run meets them on average.

    Requests arrive at `rate` [1/s] for `arrival` seconds and stay `latency` seconds: the number that runs
    rises for the shorter of the two times, stays, and falls as long. Weighted with itself.

    >>> round(running_of_run(rate=2.0, arrival=1e9, latency=3.0), 3), running_of_run(
    ...     rate=2.0, arrival=3.0, latency=3.0)
    (6.0, 4.0)
    """
    ramp, level = min(latency, arrival), abs(arrival - latency)
    return rate * ramp * (level + 2.0 * ramp / 3.0) / (level + ramp)
