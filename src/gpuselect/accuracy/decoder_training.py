"""Decoder training rows: the row's plan, its throughput in every unit, its memory, its fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuselect.accuracy.decoder_memory import fit_for, training_need
from gpuselect.accuracy.records import Fit, Row, Scored, Skip
from gpuselect.accuracy.rows import (
    accelerator_of,
    model_of,
    number,
    present,
    shape_of_row,
    system_of_card,
    whole,
)
from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, Catalog
from gpuselect.deployment import covered
from gpuselect.estimate.devices import device, peak_tflops, usable_bytes
from gpuselect.estimate.memory import Recipe
from gpuselect.estimate.shape import Shape, training_flops
from gpuselect.estimate.training import StepTime, recompute_passes, step_time
from gpuselect.job import DEFAULT_SEQ_LEN, TRAINABLE_BYTES, training_recipe
from gpuselect.plan import RECOMPUTE, Plan
from gpuselect.search import TIGHT_FROM
from gpuselect.units import GB, TFLOP

RATES = ("tokens_per_s_per_accel", "samples_per_s_total", "step_time_s")
TUNING_SEQ_LEN = 2048  # the default of `recommend` for fine-tuning
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
METHODS = ("pretrain", "full", "lora", "qlora")
ADAPTERS = ("lora", "qlora")


@dataclass(frozen=True, slots=True)
class Case:
    """A row resolved to what the estimates take."""

    accelerator: Accelerator
    shape: Shape
    plan: Plan
    recipe: Recipe
    precision: str
    method: str
    fused: bool
    seq_len: float
    assumed: bool

    @property
    def kind(self) -> str:
        """Name of the slice: dense, moe, lora or qlora."""
        return "moe" if self.shape.n_experts else self.method if self.method in ADAPTERS else "dense"

    @property
    def step_tokens(self) -> float:
        """Tokens of one optimizer step."""
        return float(self.plan.micro_batch * self.plan.dp * self.plan.grad_accum * self.seq_len)


def predict(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored]:
    """Throughput metrics and peak memory of a row; a reported TFLOPS only where no rate is given."""
    rates = present(row, RATES) or present(row, ("tflops_per_accel_reported",))
    memory = present(row, ("peak_mem_gb",))
    if row.get("outcome", "ok") != "ok" or not (rates or memory):
        raise Skip("no-metric")
    if row.get("offload", "none") != "none":
        raise Skip("offload-not-covered", row["offload"])
    case = case_of(row, catalog, calibration)
    found = [*_throughput(row, case, rates, catalog, calibration)]
    if memory:
        found.append(_memory(row, case, calibration))
    return found


def case_of(row: Row, catalog: Catalog, calibration: Calibration) -> Case:
    """Resolve a row; what it leaves open gets the usual value and is marked as assumed."""
    accelerator = accelerator_of(row, catalog)
    shape = shape_of_row(row, catalog)
    plan = plan_of(row)
    precision = _precision(row, accelerator)
    method = row.get("method", "pretrain").replace("full-ft", "full")
    method = method if method in METHODS else "pretrain"
    fused = not any(word in row.get("framework", "").lower() for word in EAGER)
    seq_len = number(row, "seq_len")
    usual = DEFAULT_SEQ_LEN if method == "pretrain" else TUNING_SEQ_LEN
    return Case(
        accelerator=accelerator, shape=shape, plan=plan, precision=precision, method=method, fused=fused,
        recipe=training_recipe(
            shape=shape, method=method, precision=precision, fused=fused, optimizer=_optimizer(row),
            lora_rank=whole(row, "lora_rank", 16), calibration=calibration,
        ),
        seq_len=seq_len or float(min(usual, shape.max_context or usual)),
        assumed=not seq_len or not _size_known(row, catalog),
    )  # fmt: skip


def _size_known(row: Row, catalog: Catalog) -> bool:
    return bool(number(row, "params_b")) or model_of(row.get("model_name", ""), catalog) is not None


def _throughput(
    row: Row, case: Case, metrics: list[str], catalog: Catalog, calibration: Calibration
) -> list[Scored]:
    if not metrics:
        return []
    step = _step(case, catalog, calibration)
    seconds = float(step.total)
    adapter = case.method in ADAPTERS
    known = covered(case.accelerator, calibration)
    interval = "training-adapter" if adapter else "training" if known else "training-uncovered"
    values = {
        "tokens_per_s_per_accel": case.step_tokens / seconds / case.plan.count,
        "samples_per_s_total": case.step_tokens / case.seq_len / seconds,
        "step_time_s": seconds,
        "tflops_per_accel_reported": _tflops(row, case, seconds),
    }
    return [
        Scored(
            row.get("row_id", ""), row.get("source_id", ""), f"training {case.kind}", metric,
            number(row, metric), values[metric], interval, case.assumed,
        )
        for metric in metrics
    ]  # fmt: skip


def _step(case: Case, catalog: Catalog, calibration: Calibration) -> StepTime:
    dev = device(
        case.accelerator, system_of_card(case.accelerator, catalog), precision=case.precision,
        serving=False, calibration=calibration,
    )  # fmt: skip
    if dev is None:
        raise Skip("figures-missing", case.accelerator.id)
    return step_time(
        shape=case.shape, plan=case.plan, recipe=case.recipe, device=dev, constants=calibration.training,
        seq_len=case.seq_len, fused=case.fused, frozen_base=case.method in ADAPTERS,
    )  # fmt: skip


def _tflops(row: Row, case: Case, seconds: float) -> float:
    """Model FLOPs per second and accelerator [TFLOP/s]; hardware FLOPs, which count recomputation, where so.

    A forward pass is a third of the model FLOPs.
    """
    flops = float(training_flops(shape=case.shape, tokens=case.step_tokens, seq_len=case.seq_len))
    if row.get("flops_convention") == "hardware":
        flops *= 1.0 + float(recompute_passes(plan=case.plan)) / 3.0
    return flops / seconds / float(case.plan.count) / TFLOP


def _memory(row: Row, case: Case, calibration: Calibration) -> Scored:
    need = training_need(case=case, calibration=calibration, kind=row.get("mem_kind", "unknown"))
    return Scored(
        row.get("row_id", ""), row.get("source_id", ""), f"training memory {case.kind}", "peak_mem_gb",
        number(row, "peak_mem_gb"), need / GB, "memory", case.assumed,
    )  # fmt: skip


def fit(row: Row, catalog: Catalog, calibration: Calibration) -> Fit:
    """The row's need against the usable memory of its card."""
    if row.get("offload", "none") != "none":
        raise Skip("offload-not-covered", row["offload"])
    case = case_of(row, catalog, calibration)
    usable = usable_bytes(case.accelerator, calibration)
    if usable is None:
        raise Skip("figures-missing", case.accelerator.id)
    needs = (
        training_need(case=replace(case, plan=plan), calibration=calibration, kind="unknown")
        for plan in _open_plans(row, case.plan)
    )
    least = float("inf")
    for need in needs:
        least = min(least, need)
        if least <= TIGHT_FROM * usable:
            break
    return fit_for(row, need=least, usable=usable)


def _open_plans(row: Row, plan: Plan) -> Iterator[Plan]:
    """The row's plan, then what a user would try where it leaves something open: layout, recomputation.

    A fine-tuning row that does not name recomputation is taken to do none.
    """
    yield plan
    named = "recompute" in row or row.get("method", "pretrain") != "pretrain"
    kinds = (plan.recompute,) if named else (0, 2)
    stated = "tp" in row or "dp" in row or "pp" in row
    for tp in (plan.tp,) if stated else (1, 2, 4, 8):
        for kind in kinds:
            if plan.count % (tp * plan.pp * plan.cp) == 0:
                dp = plan.dp if stated else plan.count // (tp * plan.pp * plan.cp)
                zero = plan.zero_stage if "zero_stage" in row else 3 if plan.pp == 1 and dp > 1 else 1
                yield replace(plan, tp=tp, dp=dp, recompute=kind, zero_stage=zero)


def plan_of(row: Row) -> Plan:
    """The plan that the row states; what it leaves open gets the usual value.

    >>> plan_of({"n_accel": "8", "global_batch": "64", "micro_batch": "2"}).grad_accum
    4
    """
    count, tp, pp, cp, dp = _layout(row)
    micro = whole(row, "micro_batch")
    batch = int(number(row, "global_batch")) or micro * dp * whole(row, "grad_accum")
    accum = max(round(batch / (micro * dp)), 1)
    if accum == 1:
        micro = max(round(batch / dp), 1)
    usual_zero = 3 if dp > 1 and pp == 1 and tp == 1 else 1
    recompute = RECOMPUTE.index(row["recompute"]) if row.get("recompute") in RECOMPUTE else 0
    if recompute == 1 and "megatron" in row.get("framework", "").lower():
        recompute = 0  # Megatron's "selective" repeats the attention core only
    return Plan(
        count=count, tp=tp, pp=pp, dp=dp, ep=whole(row, "ep"), cp=cp,
        zero_stage=int(number(row, "zero_stage", usual_zero)), recompute=recompute, micro_batch=micro,
        grad_accum=accum,
    )  # fmt: skip


def _layout(row: Row) -> tuple[int, int, int, int, int]:
    """Count, tp, pp, cp, dp of a row.

    A width that is not stated is 1, but a data-parallel group is never wider than the global batch:
    the rest is tensor parallel inside a node, then pipeline.
    """
    count = whole(row, "n_accel")
    tp, pp, cp = (whole(row, key) for key in ("tp", "pp", "cp"))
    dp = int(number(row, "dp")) or max(count // (tp * pp * cp), 1)
    batch = int(number(row, "global_batch"))
    if "tp" not in row and "dp" not in row and 0 < batch < dp:
        dp = max(batch // whole(row, "grad_accum"), 1)
        tp = min(8, max(count // (pp * cp * dp), 1))
        pp = max(count // (tp * cp * dp), 1) if "pp" not in row else pp
    return count, tp, pp, cp, dp


def _precision(row: Row, accelerator: Accelerator) -> str:
    """Compute precision of a row; MLPerf submissions run FP8 where the card has it (feasibility study)."""
    mlperf = row.get("source_id", "").startswith("mlperf") and "fp8" in accelerator.dense_tflops
    stated = row.get("compute_precision", "fp8" if mlperf else "bf16").split("-")[0]
    stated = {"amp": "fp16", "fp8_hybrid": "fp8"}.get(stated, stated)
    for precision in (stated, "bf16", "fp16"):
        if precision in TRAINABLE_BYTES and peak_tflops(accelerator, precision) is not None:
            return precision
    return "fp32"


def _optimizer(row: Row) -> str:
    """The optimizer in the words of `training_recipe`; Muon keeps one momentum, as SGD does."""
    text = row.get("optimizer", "").lower()
    if "8bit" in text or "8-bit" in text:
        return "adamw-8bit"
    if "adam" not in text and ("sgd" in text or "muon" in text):
        return "sgd"
    return "adamw"
