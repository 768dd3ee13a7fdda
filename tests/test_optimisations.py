"""Effects of optimisations against measured rows in pairs that differ in one of them only.

A pair agrees in every column but the one that varies and what was measured. Ratios are with over without:
times as they are, rates inverted, so that below 1 is faster; memory as it is.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import pytest

from gpuselect import optimisations as effects
from gpuselect.accuracy import dispatch
from gpuselect.accuracy.records import TIMES, Scored
from gpuselect.advisor import resolve_job
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.deployment import build_field
from gpuselect.effects import Effect
from gpuselect.job import TrainingJob
from gpuselect.optimisations import Run
from gpuselect.plan import Plan
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.workload import Workload

SIXTEEN_BIT = ("fp16", "bf16")
SERVERS = ("llama.cpp", "sglang", "vllm")


@cache
def shipped() -> tuple[Catalog, Calibration]:
    """Catalog and constants."""
    return load_catalog(), load_calibration()


def run_of(card: str, plan: Plan, **wishes: Any) -> Run:
    """A training run with a given plan on a given card."""
    catalog, calibration = shipped()
    request = Workload.from_mapping(wishes)
    job, _notes = resolve_job(request, catalog, calibration)
    assert isinstance(job, TrainingJob)
    job = replace(job, max_count=int(plan.count))
    field = build_field(request, job, catalog, calibration, fixed={card: int(plan.count)})
    site = field.sites[0]
    return Run(job, site, plan, request, catalog, calibration, float(site.device.usable_bytes))


def ratio(effect: Effect | None, what: str) -> float:
    """With over without of the memory or the seconds of an effect."""
    assert effect is not None
    pair = getattr(effect, what)
    assert pair is not None
    return float(pair[1] / pair[0])


Row = Mapping[str, str]
FOLDER = Path(__file__).parents[1] / "data" / "measurements"
MEASURED = frozenset({
    "tokens_per_s_per_accel", "samples_per_s_total", "tflops_per_accel_reported", "mfu_reported_pct",
    "step_time_s", "peak_mem_gb", "time_to_train_min", "output_tok_s_total", "total_tok_s_total",
    "output_tok_s_per_accel", "requests_or_images_per_s_total", "prefill_tok_s", "ttft_ms", "tpot_ms",
    "latency_ms",
})  # fmt: skip
NAMES = frozenset({"row_id", "notes", "source_ref", "source_title"})
MEMORY = "peak_mem_gb"


@dataclass(frozen=True)
class Ratio:
    """One metric of one pair: with the optimisation over without it."""

    rows: tuple[str, str]
    source: str
    metric: str
    measured: float
    predicted: float


def table(name: str) -> list[Row]:
    """A table of measurements."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def pairs(
    rows: list[Row], varies: frozenset[str], without: Callable[[Row], bool], with_: Callable[[Row], bool]
) -> list[tuple[Row, Row]]:
    """Rows without and with, equal in all other columns; the first of each kind."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(v for k, v in row.items() if k not in varies | MEASURED | NAMES)].append(row)
    found = []
    for group in groups.values():
        plain = next((row for row in group if without(row)), None)
        better = next((row for row in group if with_(row)), None)
        if plain is not None and better is not None:
            found.append((plain, better))
    return found


def ratios(
    found: list[tuple[Row, Row]], catalog: Catalog, calibration: Calibration, *, memory: bool,
    training: bool,
) -> list[Ratio]:  # fmt: skip
    """Measured and predicted ratio of one metric of each pair that both rows have; memory, or the speed."""
    predict = dispatch.predict_training if training else dispatch.predict_inference
    result = []
    for plain, better in found:
        scored = [
            _by_metric(predict({k: v for k, v in row.items() if v}, catalog, calibration), memory=memory)
            for row in (plain, better)
        ]
        shared = [metric for metric in scored[0] if metric in scored[1]]
        if shared:
            result.append(_ratio(scored[0][shared[0]], scored[1][shared[0]]))
    return result


def _by_metric(scored: object, *, memory: bool) -> dict[str, Scored]:
    if not isinstance(scored, list):
        return {}
    return {s.metric: s for s in scored if (s.metric == MEMORY) == memory}


def _ratio(plain: Scored, better: Scored) -> Ratio:
    measured, predicted = better.measured / plain.measured, better.predicted / plain.predicted
    if plain.metric != MEMORY and plain.metric not in TIMES:
        measured, predicted = 1.0 / measured, 1.0 / predicted
    return Ratio((plain.row_id, better.row_id), plain.source, plain.metric, measured, predicted)


@dataclass(frozen=True)
class Summary:
    """Pairs of one optimisation: geometric means, and the middle error of the predicted ratio."""

    pairs: int
    sources: int
    measured: float
    predicted: float
    median_error: float


def summary(found: list[Ratio]) -> Summary:
    """Geometric means of the ratios and the median of |predicted / measured - 1|."""
    return Summary(
        pairs=len(found), sources=len({r.source for r in found}),
        measured=geometric_mean([r.measured for r in found]),
        predicted=geometric_mean([r.predicted for r in found]),
        median_error=median(abs(r.predicted / r.measured - 1.0) for r in found),
    )  # fmt: skip


# Six effects against measured rows.
@cache
def measured() -> dict[str, Summary]:
    """Pairs of measured rows that differ in one optimisation, by effect."""
    catalog, calibration = shipped()
    training, inference = table("training"), table("inference")

    def of(found: list[tuple[Row, Row]], *, memory: bool = False, trains: bool = True) -> Summary:
        return summary(ratios(found, catalog, calibration, memory=memory, training=trains))

    fp8 = pairs(
        training, frozenset({"compute_precision", "micro_batch", "grad_accum"}),
        lambda r: r["compute_precision"] == "bf16", lambda r: r["compute_precision"] == "fp8",
    )  # fmt: skip
    weights = frozenset({"weight_precision", "activation_precision"})
    decode = [r for r in inference if r["engine"] in SERVERS and r["mode"] in ("decode", "single-stream")]
    int4 = pairs(
        decode, weights, lambda r: r["weight_precision"] in (*SIXTEEN_BIT, "gguf-f16"),
        lambda r: r["weight_precision"] in ("int4", "gguf-q4_k_m"),
    )  # fmt: skip
    vision = [r for r in inference if "decoder" not in r["family"]]
    int8 = pairs(
        vision, weights, lambda r: r["weight_precision"] == "fp16", lambda r: r["weight_precision"] == "int8"
    )
    zero3 = pairs(
        training,
        frozenset({"zero_stage"}),
        lambda r: r["zero_stage"] == "0",
        lambda r: r["zero_stage"] == "3",
    )
    return {
        "fp8 over bf16, time": of(fp8),
        "int4 over 16 bit, decode time": of(int4, trains=False),
        "int8 over fp16, time of a network": of(int8, trains=False),
        "ZeRO-3 over DDP, memory": of(zero3, memory=True),
        "recomputation, memory of the allocator": summary(checkpointed()),
    }  # fmt: skip


def checkpointed() -> list[Ratio]:
    """Exact peaks of the reference allocator with full recomputation over none."""
    catalog, calibration = shipped()
    results = {"ref_id", "peak_gib", "param_gib", "grad_gib", "opt_gib", "act_gib", "temp_gib", "recompute"}
    groups: dict[tuple[tuple[str, str], ...], dict[str, Row]] = defaultdict(dict)
    for row in (*table("memory_reference"), *table("memory_reference_more")):
        groups[tuple((k, v) for k, v in row.items() if k not in results)][row["recompute"]] = row
    found = []
    for group in groups.values():
        if not {"none", "full"} <= set(group):
            continue
        scored = [
            dispatch.predict_reference({k: v for k, v in group[level].items() if v}, catalog, calibration)
            for level in ("none", "full")
        ]
        if all(isinstance(each, list) for each in scored):
            plain, full = (next(s for s in each if "peak" in s.metric) for each in scored)  # type: ignore[union-attr]
            found.append(
                Ratio((plain.row_id, full.row_id), "allocator", "peak", full.measured / plain.measured,
                      full.predicted / plain.predicted)
            )  # fmt: skip
    return found


# ms-swift, LoRA of Qwen-7B at up to 2048 tokens on an A100 80 GB: flash attention x checkpointing
# (rows swift-0082 to swift-0085): samples per second, GiB. Texts of 3234 +- 2548 tokens, cut at 2048.
SWIFT = {
    (True, True): (4.31, 27.74), (True, False): (6.19, 37.70),
    (False, True): (3.13, 27.71), (False, False): (4.45, 57.67),
}  # fmt: skip
PAIRS = {  # effect: least pairs, bound on the median of |predicted ratio / measured ratio - 1|
    "fp8 over bf16, time": (15, 0.10),
    "int4 over 16 bit, decode time": (20, 0.12),
    "int8 over fp16, time of a network": (20, 0.15),
    "ZeRO-3 over DDP, memory": (3, 0.35),
    "recomputation, memory of the allocator": (90, 0.01),
}


@pytest.mark.parametrize("name", PAIRS)
def test_an_effect_is_that_of_measured_pairs(name: str) -> None:
    """Pairs that differ in the optimisation only: the ratio that we predict is the one measured."""
    least, bound = PAIRS[name]
    found = measured()[name]
    print(name, found)  # noqa: T201  for docs/frameworks.md: pytest -s
    assert found.pairs >= least
    assert found.median_error <= bound
    assert (found.measured < 1.0) == (found.predicted < 1.0)


def swift(*, recompute: int = 0) -> Run:
    """The run of the swift rows."""
    plan = Plan(count=1, micro_batch=1, grad_accum=16, recompute=recompute)
    return run_of(
        "a100-sxm4-80gb", plan, task="finetune", method="lora", model="qwen-7b", seq_len=2048,
        global_batch=16, lora_rank=8,
    )  # fmt: skip


def swift_cases() -> dict[str, tuple[float, float]]:
    """Measured and predicted ratio of the four effects that the two by two table holds."""
    attention, kept = effects.fused_attention(swift()), effects.recompute(swift(recompute=2))
    speed = {key: 1.0 / rate for key, (rate, _size) in SWIFT.items()}
    size = {key: gib for key, (_rate, gib) in SWIFT.items()}
    return {
        "fused attention, time": (speed[True, False] / speed[False, False], ratio(attention, "seconds")),
        "fused attention, memory": (size[True, False] / size[False, False], ratio(attention, "memory")),
        "recomputation, time": (speed[True, True] / speed[True, False], ratio(kept, "seconds")),
        "recomputation, memory": (size[True, True] / size[True, False], ratio(kept, "memory")),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("fused attention, time", 0.2), ("fused attention, memory", 0.15),
        ("recomputation, time", 0.1), ("recomputation, memory", 0.2),
    ],
)  # fmt: skip
def test_an_effect_is_that_of_the_two_by_two_table(name: str, bound: float) -> None:
    """Flash attention and checkpointing, alone and together, on one stack and card."""
    seen, predicted = swift_cases()[name]
    print(name, f"{seen:.3f} {predicted:.3f}")  # noqa: T201  for docs/frameworks.md
    assert abs(predicted / seen - 1.0) <= bound
    assert (seen < 1.0) == (predicted < 1.0)
