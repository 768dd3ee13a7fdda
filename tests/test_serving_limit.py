"""What an engine that allocates in advance may fill of a card, and the width of a frozen base."""

from __future__ import annotations

from functools import cache

import pytest

from gpuselect.advisor import estimate
from gpuselect.estimate.memory_recipe import training_recipe
from gpuselect.estimate.shape import typical_decoder
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.workload import Workload

MIXTRAL = {"task": "inference", "model": "mixtral-8x7b", "concurrency": 1, "input_tokens": 8000}


@cache
def answer(engine: str, weights: str, count: int, card: str):
    """Mixtral on some cards with an engine."""
    request = Workload.from_mapping({**MIXTRAL, "engine": engine, "weights": weights})
    return estimate(
        request, [(count, card)], load_catalog(), load_calibration(), load_defaults(), today="2026-11-30"
    )


def test_an_engine_that_allocates_in_advance_leaves_room() -> None:
    """93 GB of weights in 96 GB: users of vLLM ran out of memory (issues 2363 and 3285); in 160 GB it ran."""
    limit = float(load_calibration().memory.serving_limit)
    for count, card in ((2, "rtx-a6000-48gb"), (4, "rtx-4090-24gb")):
        found = answer("vllm", "fp16", count, card)
        assert found.state == "no"
        assert f"{limit * usable(card):.1f} GiB usable" in found.reasons[0].text
    assert answer("vllm", "fp16", 2, "a100-sxm4-80gb").option is not None


def usable(card: str) -> float:
    """What the driver shows of a card [GiB]."""
    figure = load_catalog().accelerators[card].usable_memory_gib
    assert figure is not None
    return float(figure)


def test_an_engine_that_does_not_may_fill_the_card() -> None:
    """llama.cpp takes what it needs: a need above the limit of vLLM is tight there, not refused."""
    found = answer("llama.cpp", "q6_k", 1, "a100-sxm4-40gb")
    assert found.state == "tight"
    share = found.option.memory.per_accelerator_gib / found.option.memory.usable_gib
    assert float(load_calibration().memory.serving_limit) < share < 1.0


@pytest.mark.parametrize(("precision", "width"), [("bf16", 2.0), ("fp32", 4.0), ("tf32", 4.0)])
def test_a_frozen_base_has_the_width_of_the_arithmetic(precision: str, width: float) -> None:
    """LoRA in fp32 keeps fp32 weights: 56 GB were measured for 12B (PEFT, table of its README)."""
    shape = typical_decoder(params=12e9)
    recipe = training_recipe(
        shape=shape, method="lora", precision=precision, fused=False, optimizer="adamw", lora_rank=16,
        calibration=load_calibration(),
    )  # fmt: skip
    assert recipe.weight_bytes == width
