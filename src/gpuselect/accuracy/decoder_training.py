"""Decoder training rows: the row's plan and its throughput in every unit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuselect.accuracy.decoder_plans import Setting, joined, offload_of, settled_plan
from gpuselect.accuracy.decoder_ways import is_relative, named_variant, way_of
from gpuselect.accuracy.records import Row, Scored, Skip
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
from gpuselect.estimate.devices import device, peak_tflops
from gpuselect.estimate.memory import Recipe
from gpuselect.estimate.memory_recipe import TRAINABLE_BYTES, training_recipe
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.shape import Shape, training_flops
from gpuselect.estimate.training import Method, StepTime, recompute_passes, step_time
from gpuselect.job import DEFAULT_SEQ_LEN
from gpuselect.plan import Plan
from gpuselect.units import TFLOP

RATES = ("tokens_per_s_per_accel", "samples_per_s_total", "step_time_s")
TUNING_SEQ_LEN = 2048  # the default of `recommend` for fine-tuning
METHODS = ("pretrain", "full", "lora", "qlora")
ADAPTERS = ("lora", "qlora")


@dataclass(frozen=True, slots=True)
class Case:
    """A row resolved to what the estimates take."""

    accelerator: Accelerator
    device: Device | None
    shape: Shape
    plan: Plan
    recipe: Recipe
    precision: str
    method: str
    way: Method
    seq_len: float
    assumed: bool

    @property
    def kind(self) -> str:
        """Name of the slice: dense, moe, lora, qlora, or recurrent (Transformer-XL)."""
        if self.shape.n_experts:
            return "moe"
        if self.method in ADAPTERS:
            return self.method
        return "recurrent" if float(self.way.span) > 1.0 else "dense"

    @property
    def step_tokens(self) -> float:
        """Tokens of one optimizer step."""
        return float(self.plan.micro_batch * self.plan.dp * self.plan.grad_accum * self.seq_len)


def predict(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored]:
    """Throughput metrics of a row; a reported TFLOPS only where no rate is given."""
    rates = present(row, RATES) or present(row, ("tflops_per_accel_reported",))
    if row.get("outcome", "ok") != "ok" or not rates:
        raise Skip("no-metric")
    if row.get("offload", "none") not in ("none", "cpu"):
        raise Skip("offload-not-covered", row["offload"])
    return _throughput(row, case_of(row, catalog, calibration), rates, calibration)


def case_of(row: Row, catalog: Catalog, calibration: Calibration) -> Case:
    """Resolve a row; what it leaves open gets the usual value and is marked as assumed."""
    accelerator = accelerator_of(row, catalog)
    row = named_variant(row, catalog)
    shape = shape_of_row(row, catalog)
    precision = _precision(row, accelerator)
    method = row.get("method", "pretrain").replace("full-ft", "full")
    method = method if method in METHODS else "pretrain"
    way = way_of(row, catalog, accelerator, adapter=method if method in ADAPTERS else "",
                 wide=precision in ("fp32", "tf32"))  # fmt: skip
    stated = number(row, "seq_len")
    usual = DEFAULT_SEQ_LEN if method == "pretrain" else TUNING_SEQ_LEN
    setting = Setting(
        shape=shape, seq_len=stated or float(min(usual, shape.max_context or usual)),
        recipe=training_recipe(
            shape=shape, method=method, precision=precision, fused=bool(way.fused),
            optimizer=_optimizer(row), lora_rank=whole(row, "lora_rank", 16), calibration=calibration,
        ),
        device=_device(row, accelerator, precision, catalog, calibration), method=way,
        tuned=method != "pretrain",
    )  # fmt: skip
    known = (stated or is_relative(row, catalog)) and _size_known(row, catalog)
    return Case(
        accelerator=accelerator, device=setting.device, shape=shape,
        plan=settled_plan(row, setting, calibration), recipe=setting.recipe, precision=precision,
        method=method, way=way, seq_len=setting.seq_len, assumed=not known or bool(offload_of(row)),
    )  # fmt: skip


def _device(
    row: Row, accelerator: Accelerator, precision: str, catalog: Catalog, calibration: Calibration
) -> Device | None:
    """The card in its system, with what the row says of its nodes."""
    found = device(
        accelerator, system_of_card(accelerator, catalog), precision=precision, serving=False,
        calibration=calibration,
    )  # fmt: skip
    return None if found is None else replace(found, **joined(row, per_node=int(found.per_node)))


def _size_known(row: Row, catalog: Catalog) -> bool:
    return bool(number(row, "params_b")) or model_of(row.get("model_name", ""), catalog) is not None


def _throughput(row: Row, case: Case, metrics: list[str], calibration: Calibration) -> list[Scored]:
    seconds = float(_step(case, calibration).total)
    known = covered(case.accelerator, calibration)
    interval = f"training-{case.kind if known or case.method in ADAPTERS else 'uncovered'}"
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


def _step(case: Case, calibration: Calibration) -> StepTime:
    if case.device is None:
        raise Skip("figures-missing", case.accelerator.id)
    return step_time(
        shape=case.shape, plan=case.plan, recipe=case.recipe, device=case.device,
        constants=calibration.training, seq_len=case.seq_len, method=case.way,
    )  # fmt: skip


def _tflops(row: Row, case: Case, seconds: float) -> float:
    """Model FLOPs per second and accelerator [TFLOP/s]; hardware FLOPs, which count recomputation, where so.

    A forward pass is a third of the model FLOPs.
    """
    flops = float(training_flops(shape=case.shape, tokens=case.step_tokens, seq_len=case.seq_len))
    if row.get("flops_convention") == "hardware":
        flops *= 1.0 + float(recompute_passes(plan=case.plan)) / 3.0
    return flops / seconds / float(case.plan.count) / TFLOP


def _precision(row: Row, accelerator: Accelerator) -> str:
    """Compute precision of a row; MLPerf submissions run FP8 where the card has it (feasibility study)."""
    mlperf = row.get("source_id", "").startswith("mlperf") and "fp8" in accelerator.dense_tflops
    stated = row.get("compute_precision", "fp8" if mlperf else "bf16").split("-")[0]
    stated = {"amp": "fp16", "fp8_hybrid": "fp8"}.get(stated, stated)
    if stated == "fp32" and "tf32" in accelerator.dense_tflops:
        stated = "tf32"  # what frameworks multiply fp32 in where the card can
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
