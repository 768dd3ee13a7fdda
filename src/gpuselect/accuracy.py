"""Predictions for measured rows: the row's own plan is estimated, never the best plan.

Each row gives a `Scored` prediction or a skip code. Decoder training throughput and decoder serving
rates are covered; the rest of the rows is skipped with `family-not-covered`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, Catalog, WeightFormat
from gpuselect.deployment import engine_of, system_of
from gpuselect.errors import InputError
from gpuselect.estimate.devices import device, peak_tflops
from gpuselect.estimate.model_shape import shape_of
from gpuselect.estimate.serving import decode_step_time, kv_capacity, steady_state
from gpuselect.estimate.shape import Shape, typical_decoder
from gpuselect.estimate.training import step_time
from gpuselect.job import training_recipe, weights_in_format
from gpuselect.names import resolve_accelerator, resolve_format, resolve_model
from gpuselect.plan import RECOMPUTE, Plan
from gpuselect.units import GIB

Row = Mapping[str, str]
EAGER = (
    "transformers",
    "trl",
    "peft",
    "swift",
    "llama-factory",
    "unsloth",
    "axolotl",
    "qwen",
    "fastchat",
)
USUAL_EXPERTS = (128, 8)  # where a row names no experts: Qwen3 MoE, the most frequent in the rows
ENGINE_IDS = {
    "vllm": "vllm", "sglang": "sglang", "tensorrt": "tensorrt-llm", "trt": "tensorrt-llm",
    "llama.cpp": "llama.cpp", "llamacpp": "llama.cpp", "ollama": "llama.cpp", "exllamav2": "exllamav2",
    "exllama": "exllamav2", "mlx": "mlx-lm", "tgi": "tgi", "autoawq": "autoawq",
    "transformers": "transformers", "fastertransformer": "fastertransformer", "neuron": "neuron",
    "gaudi": "gaudi", "jetstream": "tpu", "mlc": "mlc", "autogptq": "transformers",
    "gptq-for-llama": "transformers",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scored:
    """One metric of one row: what was measured and what the engine predicts."""

    row_id: str
    source: str
    slice: str
    metric: str
    measured: float
    predicted: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that is not predicted, and why."""

    row_id: str
    code: str


class _Skip(Exception):  # noqa: N818  (a control-flow signal inside this module)
    pass


def number(row: Row, key: str, default: float = 0.0) -> float:
    """A numeric cell, the default when it is empty or no number."""
    try:
        return float(row.get(key, default))
    except ValueError:
        return default


def accelerator_of(row: Row, catalog: Catalog) -> Accelerator:
    """The card of a row; skip codes `hardware-unspecified`, `hardware-unknown`."""
    name = row.get("hardware", "")
    if "unspecified" in name or name.startswith(("generic", "gpu-")):
        raise _Skip("hardware-unspecified")
    try:
        return resolve_accelerator(name.split("-mig-")[0], catalog)[0]
    except InputError:
        raise _Skip("hardware-unknown") from None


def shape_of_row(row: Row, catalog: Catalog) -> Shape:
    """Dimensions of the row's model: the catalog's, else the row's own, else typical proportions."""
    if "model_name" in row:
        with suppress(InputError):
            shape = shape_of(resolve_model(row["model_name"], catalog))
            stated = number(row, "params_b") * 1e9
            if not stated or 0.9 < shape.params / stated < 1.1:
                return shape
    params = number(row, "params_b") * 1e9
    if not params:
        raise _Skip("size-unknown")
    active = number(row, "active_params_b") * 1e9 or params
    layers, hidden = int(number(row, "n_layers")), int(number(row, "hidden"))
    if not layers or not hidden:
        return typical_decoder(params=params, active_params=active)
    heads = int(number(row, "heads")) or max(hidden // 128, 1)
    kv_heads = int(number(row, "kv_heads")) or heads
    head_dim = int(number(row, "head_dim")) or hidden // heads
    vocab = int(number(row, "vocab")) or 50_304
    experts, top_k = int(number(row, "n_experts")), int(number(row, "top_k"))
    if active < 0.9 * params and not experts:
        experts, top_k = USUAL_EXPERTS
    width = number(row, "ffn_hidden") or 4.0 * hidden
    expert_params = (
        min((params - active) / (1.0 - top_k / experts), 0.97 * params) if experts > top_k else 0.0
    )
    embedding = min(float(vocab * hidden), params / 3)
    return Shape(
        params=params, active_params=active, embedding_params=embedding, tied=params < 2e9,
        n_layers=layers, hidden=hidden, ffn=width * (top_k or 1) if experts else width, n_heads=heads,
        n_kv_heads=kv_heads, head_dim=head_dim, vocab=vocab, kv_width=2.0 * kv_heads * head_dim,
        attention_layers=layers, window=0, windowed_layers=0,
        n_experts=experts if expert_params > 0 else 0, top_k=top_k, expert_params=max(expert_params, 0.0),
    )  # fmt: skip


def _layout(row: Row) -> tuple[int, int, int, int, int]:
    """Count, tp, pp, cp, dp of a row.

    A width that is not stated is 1, but a data-parallel group is never wider than the global batch:
    the rest is tensor parallel inside a node, then pipeline.
    """
    count = int(number(row, "n_accel", 1)) or 1
    tp, pp, cp = (max(int(number(row, k, 1)), 1) for k in ("tp", "pp", "cp"))
    dp = int(number(row, "dp")) or max(count // (tp * pp * cp), 1)
    batch = int(number(row, "global_batch"))
    if "tp" not in row and "dp" not in row and 0 < batch < dp:
        accum = max(int(number(row, "grad_accum", 1)), 1)
        dp = max(batch // accum, 1)
        tp = min(8, max(count // (pp * cp * dp), 1))
        pp = max(count // (tp * cp * dp), 1) if "pp" not in row else pp
    return count, tp, pp, cp, dp


def training_plan(row: Row) -> Plan:
    """The plan that the row states; what it leaves open gets the usual value."""
    count, tp, pp, cp, dp = _layout(row)
    micro = int(number(row, "micro_batch", 1)) or 1
    batch = int(number(row, "global_batch")) or micro * dp * max(int(number(row, "grad_accum", 1)), 1)
    accum = max(round(batch / (micro * dp)), 1)
    if accum == 1:
        micro = max(round(batch / dp), 1)
    usual_zero = 3 if dp > 1 and pp == 1 and tp == 1 else 1
    zero = int(number(row, "zero_stage", usual_zero))
    recompute = RECOMPUTE.index(row["recompute"]) if row.get("recompute") in RECOMPUTE else 0
    if recompute == 1 and "megatron" in row.get("framework", "").lower():
        recompute = 0  # Megatron's "selective" repeats the attention core only
    return Plan(
        count=count, tp=tp, pp=pp, dp=dp, ep=max(int(number(row, "ep", 1)), 1), cp=cp,
        zero_stage=zero, recompute=recompute, micro_batch=micro, grad_accum=accum,
    )  # fmt: skip


TRAINING_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4")


def _training_precision(row: Row, accelerator: Accelerator) -> str:
    """Compute precision of a row; MLPerf submissions run FP8 where the card has it (feasibility study)."""
    usual = (
        "fp8"
        if row.get("source_id", "").startswith("mlperf") and "fp8" in accelerator.dense_tflops
        else "bf16"
    )
    stated = row.get("compute_precision", usual).split("-")[0]
    stated = {"amp": "fp16", "fp8_hybrid": "fp8"}.get(stated, stated)
    for precision in (stated, "bf16", "fp16"):
        if precision in TRAINING_PRECISIONS and peak_tflops(accelerator, precision) is not None:
            return precision
    return "fp32"


def predict_training(row: Row, catalog: Catalog, calibration: Calibration) -> Scored | Skipped:
    """Tokens per second and accelerator of a decoder training row."""
    try:
        return _predict_training(row, catalog, calibration)
    except _Skip as skip:
        return Skipped(row.get("row_id", ""), str(skip))


def _predict_training(row: Row, catalog: Catalog, calibration: Calibration) -> Scored:
    if row.get("family") not in ("dense-decoder", "moe-decoder"):
        raise _Skip("family-not-covered")
    if row.get("outcome", "ok") != "ok" or not number(row, "tokens_per_s_per_accel"):
        raise _Skip("no-rate")
    if row.get("offload", "none") != "none":
        raise _Skip("offload-not-covered")
    if not number(row, "seq_len"):
        raise _Skip("length-unknown")
    accelerator = accelerator_of(row, catalog)
    precision = _training_precision(row, accelerator)
    dev = device(
        accelerator, system_of(catalog).get(accelerator.id), precision=precision, serving=False,
        calibration=calibration,
    )  # fmt: skip
    if dev is None:
        raise _Skip("figures-missing")
    shape, plan = shape_of_row(row, catalog), training_plan(row)
    method = {"full-ft": "full"}.get(row.get("method", "pretrain"), row.get("method", "pretrain"))
    fused = not any(word in row.get("framework", "").lower() for word in EAGER)
    recipe = training_recipe(
        shape=shape, method=method, precision=precision, fused=fused, optimizer="adamw",
        lora_rank=int(number(row, "lora_rank", 16)) or 16, calibration=calibration,
    )  # fmt: skip
    seq_len = number(row, "seq_len")
    step = step_time(
        shape=shape, plan=plan, recipe=recipe, device=dev, constants=calibration.training,
        seq_len=seq_len, fused=fused, frozen_base=method in ("lora", "qlora"),
    )  # fmt: skip
    tokens = plan.micro_batch * plan.dp * plan.grad_accum * seq_len
    rate = tokens / float(step.total) / plan.count
    kind = "moe" if shape.n_experts else method if method in ("lora", "qlora") else "dense"
    return Scored(
        row_id=row["row_id"], source=row.get("source_id", ""), slice=f"training {kind}",
        metric="tokens_per_s_per_accel", measured=number(row, "tokens_per_s_per_accel"), predicted=rate,
    )  # fmt: skip


def predict_serving(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored] | Skipped:
    """TPOT, TTFT and output rate of a decoder serving row, as far as the row holds them."""
    try:
        return _predict_serving(row, catalog, calibration)
    except _Skip as skip:
        return Skipped(row.get("row_id", ""), str(skip))


def _check_serving_row(row: Row) -> None:
    """Leave with a skip code when the row lacks what a prediction needs."""
    if row.get("family") not in ("dense-decoder", "moe-decoder"):
        raise _Skip("family-not-covered")
    if row.get("outcome", "ok") != "ok":
        raise _Skip("no-rate")
    for key, code in (("batch_or_concurrency", "load-unknown"), ("weight_precision", "precision-unknown")):
        if key not in row:
            raise _Skip(code)


def _format_of_row(row: Row, catalog: Catalog) -> WeightFormat:
    """The storage format; transformers runs int8 as weight-only (LLM.int8)."""
    stored = row["weight_precision"].replace("-ud-", "-").replace("_xl", "_m")
    if "transformers" in row.get("engine", "") and stored == "int8":
        stored = "int8-weight-only"
    try:
        return resolve_format(stored, catalog)
    except InputError:
        raise _Skip("format-unknown") from None


def _serving_plan(row: Row) -> Plan:
    """The layout of a row: engines that split by layers get a pipeline, the others tensor parallelism."""
    count = max(int(number(row, "n_accel", 1)), 1)
    tp, pp = (max(int(number(row, k, 1)), 1) for k in ("tp", "pp"))
    if "tp" not in row and count > 1:
        layers_split = any(word in row.get("engine", "") for word in ("llama.cpp", "exllama", "transformers"))
        tp, pp = (1, count) if layers_split else (min(count, 8), pp)
    return Plan(count=count, tp=tp, pp=pp, replicas=max(count // (tp * pp), 1))


def _serving_case(row: Row, catalog: Catalog, calibration: Calibration) -> dict[str, Any]:
    """The arguments that `decode_step_time` and `steady_state` share."""
    accelerator = accelerator_of(row, catalog)
    weights = _format_of_row(row, catalog)
    precision = weights.compute if peak_tflops(accelerator, weights.compute) is not None else "fp16"
    dev = device(
        accelerator, system_of(catalog).get(accelerator.id), precision=precision, serving=True,
        calibration=calibration,
    )  # fmt: skip
    name = next((v for k, v in ENGINE_IDS.items() if k in row.get("engine", "").lower()), "")
    if dev is None or not name:
        raise _Skip("figures-missing" if dev is None else "engine-not-covered")
    shape = shape_of_row(row, catalog)
    return {
        "shape": shape, "plan": _serving_plan(row), "device": dev, "constants": calibration.serving,
        "engine": engine_of(name, weights, calibration),
        "weight_bytes": weights_in_format(shape=shape, weights=weights),
        "kv_bytes": 1.0 if "8" in row.get("kv_precision", "") else 2.0,
    }  # fmt: skip


def _running_batch(row: Row, case: Mapping[str, Any], calibration: Calibration, context: float) -> float:
    """Sequences that run at once on a replica: as asked, or as many as the KV cache holds."""
    asked = max(number(row, "batch_or_concurrency", 1) / case["plan"].replicas, 1.0)
    capacity = kv_capacity(
        shape=case["shape"], plan=case["plan"], usable_bytes=case["device"].usable_bytes,
        serving_share=float(calibration.memory.serving_share), weight_bytes=case["weight_bytes"],
        kv_bytes=case["kv_bytes"], context=context,
        reserve=float(calibration.memory.serving_context_gib) * GIB,
    )  # fmt: skip
    return float(min(asked, max(float(capacity), 1.0)))


def _predict_serving(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored]:
    _check_serving_row(row)
    case = _serving_case(row, catalog, calibration)
    inputs = number(row, "input_len", 512) or 512.0
    outputs = number(row, "output_len", 128) or 128.0
    batch = _running_batch(row, case, calibration, inputs + outputs / 2.0)
    state = steady_state(**case, input_tokens=inputs, output_tokens=outputs, batch=batch)
    decode = decode_step_time(**case, batch=batch, context=inputs + outputs / 2.0)
    pairs = _serving_metrics(row, float(state.output_tokens_per_s), float(state.tpot), float(decode),
                             float(state.ttft_unloaded), batch)  # fmt: skip
    if not pairs:
        raise _Skip("no-rate")
    return [
        Scored(row["row_id"], row.get("source_id", ""), cut, metric, number(row, metric), value)
        for cut, metric, value in pairs
    ]


def _serving_metrics(
    row: Row, output_rate: float, tpot: float, decode: float, ttft: float, batch: float
) -> list[tuple[str, str, float]]:
    single = number(row, "batch_or_concurrency", 1) <= 1
    mode = row.get("mode", "")
    found = []
    if "output_tok_s_total" in row:
        if mode == "decode":
            found.append(("serving decode b1" if single else "serving decode batched",
                          "output_tok_s_total", batch / decode))  # fmt: skip
        elif "batch_or_concurrency" in row:
            cut = "serving single stream" if single else "serving throughput"
            found.append((cut, "output_tok_s_total", output_rate))
    if "tpot_ms" in row:
        cut = "serving decode b1" if single else "serving tpot loaded"
        found.append((cut, "tpot_ms", 1e3 * (decode if single else tpot)))
    if "ttft_ms" in row and single:
        found.append(("serving ttft unloaded", "ttft_ms", 1e3 * ttft))
    return found
