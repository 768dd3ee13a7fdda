"""Memory and step time of training: published anchors and properties that always hold."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuselect.calibration import Calibration
from gpuselect.estimate.memory import Recipe, training_memory
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.shape import typical_decoder
from gpuselect.estimate.training import mfu, step_time
from gpuselect.plan import Plan, node_counts, stack, take, training_plans
from gpuselect.readers.calibration import load_calibration

GIB = 2.0**30
RECIPE = Recipe(
    weight_bytes=2, gradient_bytes=4, optimizer_bytes=12, act_hidden=16, act_ffn=6, checkpoint_bytes=2,
    logits_bytes=14, trainable_params=0,
)  # fmt: skip


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    """Return the shipped constants."""
    return load_calibration()


@pytest.fixture
def a100() -> Device:
    """A100 SXM4 80 GB in an 8-card node with 200 Gb/s per card (Megatron-LM 2021, section 5.1)."""
    return Device(
        peak=312e12, peak_16bit=312e12, bandwidth=2039e9, usable_bytes=79 * GIB, link=300e9,
        link_latency=23e-6, domain=8, per_node=8, network=25e9, gemm_efficiency=0.869 * 0.7,
        bandwidth_efficiency=0.8,
    )  # fmt: skip


def memory_of(plan: Plan, params: float = 7e9, seq_len: int = 4096, recipe: Recipe = RECIPE) -> float:
    """Need of a plan [B]."""
    shape = typical_decoder(params=params)
    memory = training_memory(
        shape=shape, plan=plan, recipe=replace(recipe, trainable_params=recipe.trainable_params or params),
        seq_len=seq_len, fragmentation=1.1, context_bytes=2 * GIB,
    )  # fmt: skip
    return float(memory.total)


def test_gpt3_on_1024_a100_takes_about_34_days(a100: Device, calibration: Calibration) -> None:
    """34 days for 300B tokens (arXiv 2104.04473, section 5.1), tp 8, pp 8, batch 1536."""
    shape = typical_decoder(params=175e9)
    plan = Plan(count=1024, tp=8, pp=8, dp=16, recompute=2, micro_batch=1, grad_accum=96)
    step = step_time(
        shape=shape, plan=plan, recipe=replace(RECIPE, trainable_params=175e9), device=a100,
        constants=calibration.training, seq_len=2048,
    )  # fmt: skip
    days = 300e9 / (1536 * 2048) * float(step.total) / 86_400
    assert days == pytest.approx(34.0, rel=0.25)


def test_states_are_eighteen_bytes_per_parameter() -> None:
    """Weights 2, gradients 4, AdamW and master copy 12 bytes (arXiv 1910.02054, section 3.1)."""
    shape = typical_decoder(params=7e9)
    memory = training_memory(
        shape=shape, plan=Plan(), recipe=replace(RECIPE, trainable_params=7e9), seq_len=1024,
        fragmentation=1.0, context_bytes=0.0,
    )  # fmt: skip
    assert memory.weights + memory.gradients + memory.optimizer == pytest.approx(18 * 7e9)


def test_zero_3_shards_a_trillion_parameter_state() -> None:
    """16 TB of states over 1024 ranks are about 16 GB per rank (arXiv 1910.02054, table 1)."""
    shape = typical_decoder(params=1e12)
    recipe = replace(RECIPE, gradient_bytes=2, trainable_params=1e12)
    memory = training_memory(
        shape=shape, plan=Plan(count=1024, dp=1024, zero_stage=3), recipe=recipe, seq_len=1,
        fragmentation=1.0, context_bytes=0.0,
    )  # fmt: skip
    assert float(memory.weights + memory.gradients + memory.optimizer) == pytest.approx(15.6e9, rel=0.02)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]), st.integers(0, 2))
def test_more_sharding_never_needs_more(tp: int, dp: int, recompute: int) -> None:
    """Doubling tp, or ZeRO over more ranks, never raises the need; full recompute is the least."""
    plan = Plan(count=tp * dp, tp=tp, dp=dp, zero_stage=1, recompute=recompute)
    assert memory_of(replace(plan, tp=2 * tp, count=2 * tp * dp)) <= memory_of(plan)
    assert memory_of(replace(plan, dp=2 * dp, count=2 * tp * dp)) <= memory_of(plan)
    assert memory_of(replace(plan, recompute=2)) <= memory_of(plan)


@given(st.sampled_from([1, 2, 4]), st.integers(512, 8192), st.floats(1e9, 70e9))
@settings(max_examples=50)
def test_memory_grows_with_batch_context_and_size(micro: int, seq_len: int, params: float) -> None:
    """Larger batches, contexts and models never need less."""
    plan = Plan(micro_batch=micro)
    here = memory_of(plan, params, seq_len)
    assert memory_of(replace(plan, micro_batch=2 * micro), params, seq_len) > here
    assert memory_of(plan, params, seq_len + 512) > here
    assert memory_of(plan, 2 * params, seq_len) > here


def test_arrays_give_what_numbers_give(a100: Device, calibration: Calibration) -> None:
    """A grid of plans gives the same step times as the plans one by one."""
    shape = typical_decoder(params=13e9)
    recipe = replace(RECIPE, trainable_params=13e9)
    plans = training_plans(
        count=16, global_batch=64, n_layers=shape.n_layers, n_heads=shape.n_heads, n_experts=0, max_tp=8,
        allow_pp=True, pins={},
    )  # fmt: skip
    assert len(plans) > 20
    common = {"shape": shape, "recipe": recipe, "device": a100, "constants": calibration.training,
              "seq_len": 4096}  # fmt: skip
    grid = step_time(plan=stack(plans), **common)
    for i, plan in enumerate(plans):
        alone = step_time(plan=plan, **common)
        for field in fields(alone):
            value = np.broadcast_to(getattr(grid, field.name), (len(plans),))[i]
            assert float(value) == pytest.approx(float(getattr(alone, field.name)), rel=1e-12)


def test_faster_hardware_is_never_slower(a100: Device, calibration: Calibration) -> None:
    """Doubling a rate of the device never lengthens a step."""
    shape, recipe = typical_decoder(params=7e9), replace(RECIPE, trainable_params=7e9)
    plan = Plan(count=8, tp=2, dp=4, zero_stage=1, grad_accum=4)
    common = {"shape": shape, "plan": plan, "recipe": recipe, "constants": calibration.training,
              "seq_len": 4096}  # fmt: skip
    base = float(step_time(device=a100, **common).total)
    for name in ("peak", "bandwidth", "link", "network"):
        faster = replace(a100, **{name: 2 * getattr(a100, name)})
        assert float(step_time(device=faster, **common).total) <= base * 1.02, name


def test_every_plan_uses_all_cards_and_the_whole_batch() -> None:
    """The product tp x pp x dp is the count; micro-batch x dp x accumulation is the global batch."""
    plans = training_plans(
        count=64, global_batch=512, n_layers=40, n_heads=32, n_experts=0, max_tp=8, allow_pp=True,
        pins={"recompute": 0},
    )  # fmt: skip
    for plan in plans:
        assert plan.tp * plan.pp * plan.dp == 64
        assert plan.micro_batch * plan.dp * plan.grad_accum == 512
        assert 40 % plan.pp == 0
        assert 32 % plan.tp == 0


def test_counts_stay_inside_the_system() -> None:
    """A desktop of at most one node offers no count beyond it."""
    assert node_counts(per_node=4, max_nodes=1, max_count=1024) == [1, 2, 4]


def test_take_picks_one_plan_of_a_grid() -> None:
    """Indexing a grid gives the plan that went in."""
    plans = [Plan(count=1), Plan(count=8, tp=8)]
    assert take(stack(plans), 1) == plans[1]


def test_mfu_of_palm() -> None:
    """PaLM 540B: 46.2 % MFU at 238.3k tokens/s on 6144 TPU v4 (arXiv 2204.02311, table 3)."""
    per_token = 6 * 540.35e9 + 12 * 118 * 48 * 256 * 2048
    assert mfu(flops=per_token * 238.3e3, seconds=1.0, count=6144, peak=275e12) == pytest.approx(
        0.462, abs=0.005
    )
