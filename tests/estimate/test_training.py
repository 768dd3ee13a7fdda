"""Memory and step time of training: published anchors and properties that always hold."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.estimate.devices import device
from gpuselect.estimate.memory import Recipe, training_memory
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.shape import Shape, training_flops, typical_decoder
from gpuselect.estimate.training import Method, StepTime, mfu, step_time
from gpuselect.performance import MOST_MEASURED
from gpuselect.plan import Plan, layers_of_stages, node_counts, stack, take, training_plans
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog

GIB = 2.0**30
RECIPE = Recipe(
    weight_bytes=2, gradient_bytes=4, optimizer_bytes=12, act_hidden=16, act_ffn=6, checkpoint_bytes=2,
    logits_bytes=14, trainable_params=0,
)  # fmt: skip


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    """Return the shipped constants."""
    return load_calibration()


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """Return the shipped catalog."""
    return load_catalog()


def card(name: str, catalog: Catalog, calibration: Calibration, precision: str = "bf16") -> Device:
    """A card of the catalog in its system."""
    system = next(s for s in catalog.systems.values() if name in s.accelerators)
    found = device(
        catalog.accelerators[name], system, precision=precision, serving=False, calibration=calibration
    )
    assert found is not None
    return found


@pytest.fixture
def a100(catalog: Catalog, calibration: Calibration) -> Device:
    """A100 SXM4 80 GB in an 8-card node with 200 Gb/s per card (Megatron-LM 2021, section 5.1)."""
    return card("a100-sxm4-80gb", catalog, calibration)


@dataclass(frozen=True)
class Anchor:
    """A published run: what ran where, and the model FLOP/s per accelerator that it reached."""

    shape: Shape
    plan: Plan
    card: str
    seq_len: int
    method: Method
    tflops: float


def shape_of_gpt(params: float, layers: int, hidden: int, heads: int, vocab: int) -> Shape:
    """A GPT of the given dimensions: plain FFN of 4 h, no grouped heads, tied embedding."""
    return replace(
        typical_decoder(params=params), embedding_params=float(vocab * hidden), tied=True, n_layers=layers,
        attention_layers=layers, hidden=hidden, ffn=4.0 * hidden, n_heads=heads, n_kv_heads=heads,
        head_dim=hidden // heads, vocab=vocab, kv_width=2.0 * hidden,
    )  # fmt: skip


GPT3 = shape_of_gpt(174.6e9, 96, 12288, 96, 51200)
BLOOM = shape_of_gpt(176.2e9, 70, 14336, 112, 250880)
LLAMA_405B = replace(
    typical_decoder(params=405.85e9), n_layers=126, attention_layers=126, hidden=16384, ffn=53248.0,
    n_heads=128, n_kv_heads=8, embedding_params=128256.0 * 16384,
)  # fmt: skip
OLD = Method(flash=False, legacy=True)
# Published figures. With full recomputation the hardware does 4/3 of the model's work, which Megatron's
# TFLOP/s count: 140 and 150 are 105 and 112.5 of the model.
ANCHORS = {
    # arXiv 2104.04473, table 1 and section 5.1: 140 TFLOP/s per GPU, batch 1536, by the maker of the card
    "GPT-3 175B on 1024 A100": Anchor(
        GPT3, Plan(count=1024, tp=8, pp=8, dp=16, zero_stage=0, recompute=2, grad_accum=96), "a100-sxm4-80gb",
        2048, replace(OLD, tuned=True), 140.0 * 3 / 4),
    # bigscience tr11-176B chronicles: about 150 TFLOP/s per GPU, batch 2048
    "BLOOM-176B on 384 A100": Anchor(
        BLOOM, Plan(count=384, tp=4, pp=12, dp=8, zero_stage=1, recompute=2, micro_batch=2, grad_accum=128),
        "a100-sxm4-80gb", 2048, OLD, 150.0 * 3 / 4),
    # arXiv 2407.21783, table 4: 430 and 400 TFLOP/s per GPU, 43 and 41 % of the bf16 peak
    "Llama 3 405B on 8192 H100": Anchor(
        LLAMA_405B, Plan(count=8192, tp=8, pp=16, dp=64, zero_stage=1, grad_accum=32, virtual=4),
        "h100-sxm5-80gb", 8192, Method(), 430.0),
    "Llama 3 405B on 16384 H100": Anchor(
        LLAMA_405B, Plan(count=16384, tp=8, pp=16, dp=128, zero_stage=1, grad_accum=16, virtual=4),
        "h100-sxm5-80gb", 8192, Method(), 400.0),
}  # fmt: skip


def run(anchor: Anchor, catalog: Catalog, calibration: Calibration) -> StepTime:
    """Step of a published run."""
    return step_time(
        shape=anchor.shape, plan=anchor.plan, seq_len=anchor.seq_len, method=anchor.method,
        recipe=replace(RECIPE, trainable_params=anchor.shape.params),
        device=card(anchor.card, catalog, calibration), constants=calibration.training,
    )  # fmt: skip


@pytest.mark.parametrize("name", ANCHORS)
def test_published_runs_lie_in_the_stated_interval(
    name: str, catalog: Catalog, calibration: Calibration
) -> None:
    """The published rate is inside the 80 % interval of the predicted one."""
    anchor = ANCHORS[name]
    plan = anchor.plan
    tokens = plan.micro_batch * plan.dp * plan.grad_accum * anchor.seq_len
    flops = float(training_flops(shape=anchor.shape, tokens=tokens, seq_len=anchor.seq_len))
    predicted = flops / float(run(anchor, catalog, calibration).total) / plan.count / 1e12
    interval = calibration.quantiles[
        "training-dense" if plan.count <= MOST_MEASURED else "training-uncovered"
    ]
    assert interval.low * predicted <= anchor.tflops <= interval.high * predicted, predicted


def test_gpt3_in_three_days_on_eight_cards_is_a_few_hundred_million_tokens(
    a100: Device, calibration: Calibration
) -> None:
    """A GPT-3-class model "trained on 8 A100 in 72 hours" has seen a thousandth of its 300B tokens."""
    plan = Plan(count=8, tp=8, dp=1, zero_stage=1, recompute=2, grad_accum=1536)
    step = step_time(
        shape=GPT3, plan=plan, recipe=replace(RECIPE, trainable_params=GPT3.params), device=a100,
        constants=calibration.training, seq_len=2048,
    )  # fmt: skip
    tokens = 1536 * 2048 * 72 * 3600 / float(step.total)
    assert 1e8 < tokens < 5e8


def pipeline(micro_batches: int, **changes: int) -> Plan:
    """Eight stages with the given number of micro-batches."""
    return replace(Plan(count=8, pp=8, grad_accum=micro_batches), **changes)


def bubble_share(plan: Plan, device: Device, calibration: Calibration) -> float:
    """Idle share of a step of BERT-Large-like width."""
    shape = shape_of_gpt(0.34e9, 24, 1024, 16, 30522)
    step = step_time(
        shape=shape, plan=plan, recipe=replace(RECIPE, trainable_params=shape.params), device=device,
        constants=calibration.training, seq_len=512,
    )  # fmt: skip
    return float(step.bubble / step.total)


def test_more_micro_batches_fill_the_pipeline(a100: Device, calibration: Calibration) -> None:
    """Eight stages: 30 % idle with 16 micro-batches fall below 10 % with 64 (GPipe, arXiv 1811.06965)."""
    assert bubble_share(pipeline(16), a100, calibration) == pytest.approx(0.30, abs=0.03)
    assert bubble_share(pipeline(64), a100, calibration) < 0.10


def test_interleaving_and_zero_bubble_shorten_it(a100: Device, calibration: Calibration) -> None:
    """Interleaved stages divide the bubble, ZB-H1 keeps a third (arXiv 2104.04473 and 2401.10241)."""
    plain = bubble_share(pipeline(16), a100, calibration)
    assert bubble_share(pipeline(16, virtual=3), a100, calibration) < 0.5 * plain
    assert bubble_share(pipeline(16, schedule=1), a100, calibration) < 0.5 * plain


def test_a100_over_v100(catalog: Catalog, calibration: Calibration) -> None:
    """The step of from twice to three times a V100: the ratio of peaks is 2.5, that of bandwidths 2.3."""
    shape = typical_decoder(params=1e9)
    recipe = replace(RECIPE, trainable_params=1e9)
    v100, a100 = (
        float(step_time(
            shape=shape, plan=Plan(micro_batch=4, grad_accum=8), recipe=recipe, seq_len=2048,
            device=card(name, catalog, calibration, "fp16"), constants=calibration.training,
        ).total)
        for name in ("v100-sxm2-32gb", "a100-sxm4-80gb")
    )  # fmt: skip
    assert 1.8 < v100 / a100 < 3.0


def test_adapters_save_the_weight_gradients(a100: Device, calibration: Calibration) -> None:
    """LoRA is faster than full fine-tuning, but not by more than a third pass; QLoRA pays for expansion."""
    shape, plan = typical_decoder(params=8e9), Plan(micro_batch=8, grad_accum=4, recompute=2)
    times = {}
    for name, trained, method in (
        ("full", 8e9, Method()), ("lora", 4e7, Method(frozen_base=True)),
        ("qlora", 4e7, Method(frozen_base=True, quantised=True)),
    ):  # fmt: skip
        times[name] = float(step_time(
            shape=shape, plan=plan, recipe=replace(RECIPE, trainable_params=trained), device=a100,
            constants=calibration.training, seq_len=2048, method=method,
        ).total)  # fmt: skip
    assert 0.6 < times["lora"] / times["full"] < 0.9
    assert times["lora"] < times["qlora"] < times["full"]


def test_older_stacks_and_wider_numbers_take_longer(a100: Device, calibration: Calibration) -> None:
    """Each flag that says less of a stack lengthens the step, a tuned one shortens it."""
    shape, plan = typical_decoder(params=3e9), Plan(count=8, tp=8, micro_batch=2, grad_accum=4, zero_stage=1)

    def seconds(method: Method) -> float:
        return float(step_time(
            shape=shape, plan=plan, recipe=replace(RECIPE, trainable_params=3e9), device=a100,
            constants=calibration.training, seq_len=2048, method=method,
        ).total)  # fmt: skip

    usual = seconds(Method())
    assert seconds(Method(tuned=True)) < usual
    for slower in (Method(flash=False), Method(legacy=True), Method(fused=False), Method(wide=True)):
        assert seconds(slower) > usual


def test_context_parallelism_pays_for_its_traffic(a100: Device, calibration: Calibration) -> None:
    """Splitting a long sequence over two cards is faster, by less than twice."""
    shape = typical_decoder(params=8e9)
    common = {"shape": shape, "recipe": replace(RECIPE, trainable_params=8e9), "device": a100,
              "constants": calibration.training, "seq_len": 65536}  # fmt: skip
    alone = step_time(plan=Plan(count=4, tp=4, grad_accum=4), **common)
    split = step_time(plan=Plan(count=8, tp=4, cp=2, grad_accum=4), **common)
    assert float(split.context_parallel) > 0.0
    assert 1.0 < float(alone.total / split.total) < 2.0


def test_flags_may_be_arrays(a100: Device, calibration: Calibration) -> None:
    """An array of methods gives what each method gives."""
    shape = typical_decoder(params=3e9)
    flags = [(True, False, False), (False, True, False), (False, True, True), (True, True, False)]
    common = {"shape": shape, "plan": Plan(micro_batch=2, grad_accum=2), "device": a100, "seq_len": 1024,
              "recipe": replace(RECIPE, trainable_params=3e7), "constants": calibration.training}  # fmt: skip
    together = step_time(method=Method(*(np.array(column) for column in zip(*flags, strict=True))), **common)
    for place, one in enumerate(flags):
        alone = step_time(method=Method(*one), **common)
        assert float(together.total[place]) == pytest.approx(float(alone.total), rel=1e-12)


def memory_of(plan: Plan, params: float = 7e9, seq_len: int = 4096, recipe: Recipe = RECIPE) -> float:
    """Need of a plan [B]."""
    shape = typical_decoder(params=params)
    memory = training_memory(
        shape=shape, plan=plan, recipe=replace(recipe, trainable_params=recipe.trainable_params or params),
        seq_len=seq_len, fragmentation=1.1, context_bytes=2 * GIB,
    )  # fmt: skip
    return float(memory.total)


def test_gpt3_on_1024_a100_takes_about_34_days(catalog: Catalog, calibration: Calibration) -> None:
    """34 days for 300B tokens (arXiv 2104.04473, section 5.1), inside the stated interval."""
    step = run(ANCHORS["GPT-3 175B on 1024 A100"], catalog, calibration)
    days = 300e9 / (1536 * 2048) * float(step.total) / 86_400
    interval = calibration.quantiles["training-dense"]
    assert days / interval.high <= 34.0 <= days / interval.low


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


def test_the_published_layout_of_llama_405b_is_among_the_plans() -> None:
    """126 layers on 16 stages, the ends with one less (arXiv 2407.21783, sections 3.3.2 and table 4)."""
    plans = training_plans(
        count=16384, global_batch=2048, n_layers=126, n_heads=128, n_experts=0, max_tp=8, allow_pp=True,
        pins={"tp": 8, "pp": 16},
    )  # fmt: skip
    assert any((p.dp, p.virtual) == (128, 4) for p in plans)
    assert layers_of_stages(126, 16) == (7, 8, 7)


@given(layers=st.integers(2, 200), pp=st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_stages_hold_all_layers(layers: int, pp: int) -> None:
    """First, middle and last sum to the model; none is empty or larger than the middle."""
    split = layers_of_stages(layers, pp)
    if split is None:
        assert layers % pp
    elif pp > 1:
        first, middle, last = split
        assert first + middle * (pp - 2) + last == layers
        assert 1 <= last <= first <= middle


def test_uneven_stages_cost_what_the_largest_holds(a100: Device, calibration: Calibration) -> None:
    """62 layers on eight stages take about as long as 64: every stage waits for the largest."""

    def time_of(layers: int) -> float:
        shape = shape_of_gpt(layers * 12 * 4096.0**2 + 4096 * 51200, layers, 4096, 32, 51200)
        step = step_time(
            shape=shape, plan=pipeline(64), recipe=replace(RECIPE, trainable_params=shape.params),
            device=a100, constants=calibration.training, seq_len=2048,
        )  # fmt: skip
        return float(step.attention)

    assert time_of(62) == pytest.approx(time_of(64), rel=0.01)
