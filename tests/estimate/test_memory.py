"""Memory: exact references, properties over random models and plans, published cases."""

from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuselect.accuracy.memory_reference import predict_reference
from gpuselect.accuracy.records import Skip
from gpuselect.errors import InputError
from gpuselect.estimate.memory import (
    Memory,
    block_layers,
    gathered_bytes,
    saved_activation_bytes,
    serving_memory,
    stage_share,
    training_memory,
)
from gpuselect.estimate.memory_blocks import best_segments, checkpointed_bytes
from gpuselect.estimate.memory_recipe import states_of, training_recipe
from gpuselect.estimate.shape import Shape, typical_decoder
from gpuselect.estimate.training import recompute_passes
from gpuselect.plan import RECOMPUTE, Plan
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.measurements import read_measurements

REFERENCE = Path(__file__).parents[2] / "data" / "measurements"
GIB = 2.0**30
CALIBRATION = load_calibration()
SHAPES = st.builds(
    lambda size, moe: typical_decoder(params=size, active_params=size / 5 if moe else None),
    st.floats(1e9, 400e9), st.booleans(),
)  # fmt: skip
METHODS = ("full", "lora", "qlora")


def recipe_of(shape: Shape, method: str = "full", optimizer: str = "adamw", **more):
    """The recipe of a method in bf16."""
    return training_recipe(
        shape=shape, method=method, precision=more.pop("precision", "bf16"), fused=False, optimizer=optimizer,
        lora_rank=16, calibration=CALIBRATION, **more,
    )  # fmt: skip


def need(shape: Shape, plan: Plan, *, seq_len=2048, **recipe) -> Memory:
    """Memory without what the allocator and the driver add."""
    return training_memory(
        shape=shape, plan=plan, recipe=recipe_of(shape, **recipe), seq_len=seq_len, fragmentation=1.0,
        context_bytes=0.0,
    )  # fmt: skip


@cache
def reference_errors() -> np.ndarray:
    """Relative errors of the rows of both files that are covered."""
    errors, catalog = [], load_catalog()
    for name in ("memory_reference.csv", "memory_reference_more.csv"):
        for row in read_measurements(REFERENCE / name)[1]:
            try:
                scored = predict_reference(row, CALIBRATION, catalog)[0]
            except Skip:
                continue
            errors.append(abs(scored.predicted / scored.measured - 1.0))
    return np.array(errors)


def test_exact_peaks_are_met():
    """Both files of peaks counted by PyTorch's tracker: median 0.5 %, 90 % below 2 %, none above 6 %."""
    errors = reference_errors()
    assert len(errors) > 430
    assert np.median(errors) <= 0.005
    assert np.quantile(errors, 0.9) <= 0.02
    assert errors.max() <= 0.06


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.sampled_from([512, 2048, 8192]), st.sampled_from([0, 2]))
def test_qlora_needs_less_than_lora_and_lora_less_than_full(shape, seq_len, recompute):
    """On the same plan, with recomputation as adapters use it or without."""
    needs = [float(need(shape, Plan(recompute=recompute), method=m, seq_len=seq_len).total) for m in METHODS]
    assert needs[0] > needs[1] > needs[2]


@settings(max_examples=60, deadline=None)
@given(
    SHAPES, st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from([2, 4, 8]),
    st.integers(0, 3), st.integers(0, 2),
)  # fmt: skip
def test_more_sharding_never_needs_more(shape, tp, pp, dp, zero, recompute):
    """Wider tp, ep, dp or pp (at full pipelines), and a higher ZeRO stage in states."""
    plan = Plan(count=tp * pp * dp, tp=tp, pp=pp, dp=dp, zero_stage=zero, recompute=recompute, grad_accum=64)
    total = float(need(shape, plan).total)
    slack = 1.0 + 1e-9
    assert float(need(shape, replace(plan, tp=2 * tp)).total) <= total * slack
    assert float(need(shape, replace(plan, dp=2 * dp)).total) <= total * slack
    assert float(need(shape, replace(plan, ep=2)).total) <= total * slack
    states = [need(shape, replace(plan, zero_stage=stage)) for stage in range(4)]
    held = [float(m.weights + m.gradients + m.optimizer) for m in states]
    assert held == sorted(held, reverse=True)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(1, 8), st.sampled_from([256, 1024, 4096]), st.integers(0, 2))
def test_memory_grows_with_batch_length_and_parameters(shape, batch, length, recompute):
    """Strictly with what it holds, never less."""
    plan = Plan(micro_batch=batch, recompute=recompute)
    total = float(need(shape, plan, seq_len=length).total)
    assert float(need(shape, replace(plan, micro_batch=batch + 1), seq_len=length).total) >= total
    assert float(need(shape, plan, seq_len=2 * length).total) >= total
    larger = replace(shape, params=1.5 * shape.params)
    assert float(need(larger, plan, seq_len=length).total) > total


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.sampled_from([1, 4]), st.integers(0, 3), st.integers(0, 2), st.floats(1.0, 1.3))
def test_terms_sum_to_the_total_and_arrays_equal_numbers(shape, dp, zero, recompute, fragmentation):
    """For one plan, and for the same plan twice as an array."""
    plan = Plan(count=dp, dp=dp, zero_stage=zero, recompute=recompute)
    arguments = {
        "shape": shape, "recipe": recipe_of(shape), "seq_len": 2048, "fragmentation": fragmentation,
        "context_bytes": GIB,
    }  # fmt: skip
    memory = training_memory(plan=plan, **arguments)
    terms = [float(getattr(memory, field.name)) for field in fields(Memory)]
    assert sum(terms) == pytest.approx(float(memory.total))
    assert all(term >= 0 for term in terms)
    twice = Plan(**{field.name: np.array([getattr(plan, field.name)] * 2) for field in fields(Plan)})
    assert training_memory(plan=twice, **arguments).total == pytest.approx([float(memory.total)] * 2)


def cache_of(shape: Shape, *, sequences=4, context=4096, tp=1) -> float:
    """KV cache per accelerator [B]."""
    return float(serving_memory(
        shape=shape, plan=Plan(count=tp, tp=tp), weight_bytes=0.0, sequences=sequences, context=context,
        kv_bytes=2.0, prefill_tokens=1, context_bytes=0.0,
    ).kv_cache)  # fmt: skip


@given(st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_a_grouped_cache_is_one_part_of_the_full_one(group):
    """Eight queries to a key make an eighth of the cache; one key for all a part of all heads."""
    full = replace(typical_decoder(params=8e9), n_heads=32, n_kv_heads=32, kv_width=2.0 * 32 * 128)
    grouped = replace(full, n_kv_heads=32 // group, kv_width=2.0 * (32 // group) * 128)
    assert cache_of(grouped) == pytest.approx(cache_of(full) / group)


def test_caches_of_windows_hybrids_and_encoders():
    """A window bounds its layers, layers without attention hold nothing, an encoder has no cache at all."""
    shape = typical_decoder(params=8e9)
    windowed = replace(shape, window=1024, windowed_layers=shape.attention_layers // 2)
    assert cache_of(windowed, context=8192) == pytest.approx(cache_of(shape, context=8192) * (1 + 1 / 8) / 2)
    assert cache_of(windowed, context=512) == pytest.approx(cache_of(shape, context=512))
    hybrid = replace(shape, attention_layers=shape.attention_layers // 4)
    assert cache_of(hybrid) == pytest.approx(cache_of(shape) / 4)
    assert cache_of(replace(shape, attention_layers=0, windowed_layers=0)) == 0.0


def test_a_latent_cache_is_copied_by_tensor_parallelism():
    """The compressed cache of MLA has no heads to split."""
    latent = replace(typical_decoder(params=8e9), mla=True, kv_width=576.0)
    assert cache_of(latent, tp=8) == pytest.approx(cache_of(latent))
    grouped = typical_decoder(params=8e9)
    assert cache_of(grouped, tp=8) == pytest.approx(cache_of(grouped) / 8)


def test_zero_3_takes_a_trillion_parameters_to_tens_of_gigabytes():
    """16 TB of states over 1024 ranks (arXiv 1910.02054, section 8.1); gathered layers stay whole."""
    shape = typical_decoder(params=1e12)
    alone = need(shape, Plan(recompute=2), seq_len=1024)
    states = float(alone.weights + alone.gradients + alone.optimizer)
    assert states == pytest.approx(18e12, rel=0.05)
    plan = Plan(count=1024, dp=1024, zero_stage=3, recompute=2)
    total = float(need(shape, plan, seq_len=1024).total)
    assert 18e9 < total < 100e9


def test_zero_3_has_a_floor():
    """What is gathered does not shrink with the number of ranks."""
    shape = typical_decoder(params=70e9)
    recipe = recipe_of(shape)

    def total(dp: int) -> float:
        return float(need(shape, Plan(count=dp, dp=dp, zero_stage=3, recompute=2), seq_len=512).total)

    layer = shape.layer_params / shape.n_layers
    plan = Plan(count=4096, dp=4096, zero_stage=3)
    floor = float(gathered_bytes(plan=plan, recipe=recipe, held_layer=layer,
                                 embedding=shape.embedding_params))  # fmt: skip
    assert floor >= recipe.weight_bytes * (layer + shape.embedding_params)
    assert total(1 << 20) > floor
    assert total(1 << 20) > 0.9 * total(1 << 16)


def test_fsdp_keeps_its_root_unit_and_gathers_in_16_bit():
    """Embeddings and head stay whole beside two layers; fp32 shards are gathered as 2 bytes."""
    shape = typical_decoder(params=8e9)
    sizes = {"held_layer": 2e8, "embedding": shape.embedding_params}
    plan = Plan(count=8, dp=8, zero_stage=3)
    plain = replace(recipe_of(shape), gradient_bytes=0.0)
    whole = gathered_bytes(plan=plan, recipe=replace(plain, root_unit=True), **sizes)
    least = gathered_bytes(plan=plan, recipe=plain, **sizes)
    larger = max(2e8, shape.embedding_params)
    assert float(whole - least) == pytest.approx(2.0 * (2e8 + 2 * shape.embedding_params - larger))
    wide = replace(plain, weight_bytes=4.0, gathered_bytes=2.0)
    small = gathered_bytes(plan=plan, recipe=wide, **sizes)
    assert float(small) == pytest.approx(float(least) + 2.0 * 2e8)
    assert float(gathered_bytes(plan=replace(plan, zero_stage=0), recipe=wide, **sizes)) == 0.0


def test_stages_of_a_pipeline_hold_whole_layers():
    """78 layers over 12 stages: seven of them, not 6.5."""
    shape = replace(typical_decoder(params=70e9), n_layers=78, attention_layers=78)
    even, uneven = (float(stage_share(shape, Plan(count=n, pp=n))) for n in (13, 12))
    assert (even, uneven) == (pytest.approx(6 / 78), pytest.approx(7 / 78))


def test_checkpointing_keeps_a_layer_and_the_inputs_of_all():
    """Memory grows by 2 h bytes per token and layer, not by the layer (arXiv 1604.06174, section 4)."""
    shape = replace(typical_decoder(params=8e9), vocab=1, embedding_params=4096.0)
    deep = replace(shape, n_layers=4 * shape.n_layers, attention_layers=4 * shape.n_layers)
    tokens = 16 * 4096

    def kept(one: Shape, recompute: int) -> float:
        plan = Plan(micro_batch=16, recompute=recompute)
        return float(need(one, plan, seq_len=4096, method="lora").activations)

    more = kept(deep, 2) - kept(shape, 2)
    assert more == pytest.approx(2.0 * shape.hidden * tokens * 3 * shape.n_layers)
    assert kept(deep, 0) - kept(shape, 0) > 8 * more


def test_prefix_tuning_trains_keys_and_values_of_virtual_tokens():
    """2 L n d_kv parameters (arXiv 2101.00190); a frozen base, so hardly more memory than its weights."""
    shape = typical_decoder(params=8e9)
    recipe = recipe_of(shape, "prefix", prefix_tokens=20)
    assert recipe.trainable_params == 2 * shape.n_layers * 20 * shape.n_kv_heads * shape.head_dim
    plan = Plan(recompute=2)
    prefix = float(need(shape, plan, method="prefix", prefix_tokens=20).total)
    assert prefix <= float(need(shape, plan, method="lora").total)
    assert prefix >= 2.0 * shape.params
    assert float(need(shape, plan, method="prefix", prefix_tokens=2000).total) > prefix


def test_blocks_of_layers_need_less_where_inputs_fill_the_memory():
    """80 thin layers: fewer inputs are kept than with one per layer, and the search for the best holds."""
    shape = replace(typical_decoder(params=70e9), vocab=1, embedding_params=4096.0, n_layers=400)
    plan = Plan(micro_batch=8, recompute=RECOMPUTE.index("blocks"))
    recipe = recipe_of(shape)
    layers = int(block_layers(shape=shape, plan=plan, recipe=recipe, seq_len=4096))
    assert layers > 1
    each = float(saved_activation_bytes(shape=shape, plan=replace(plan, recompute=0), recipe=recipe,
                                        seq_len=4096)) / 400  # fmt: skip
    inputs = float(saved_activation_bytes(shape=shape, plan=replace(plan, recompute=2), recipe=recipe,
                                          seq_len=4096))  # fmt: skip
    blocks = float(need(shape, plan, seq_len=4096).activations)
    assert blocks == pytest.approx(inputs / layers + layers * each)
    assert blocks <= min(inputs / n + n * each for n in range(1, 401)) * 1.02
    assert blocks < float(need(shape, replace(plan, recompute=2), seq_len=4096).activations)
    both = need(shape, replace(plan, recompute=np.array([2, 3])), seq_len=4096).activations
    assert float(np.asarray(both)[1]) == pytest.approx(blocks)
    assert float(recompute_passes(plan=plan)) == 1.0  # a third more compute, as with one per layer


def test_segments_of_layers_grow_with_the_root_of_depth():
    """Four times the layers keep twice as much (arXiv 1604.06174, section 4)."""

    def least(layers: float) -> float:
        sizes = {"layers": layers, "layer_bytes": 16.0, "input_bytes": 16.0}
        return checkpointed_bytes(segments=best_segments(**sizes), **sizes)

    assert least(400) == pytest.approx(2 * least(100))
    assert least(100) <= min(
        checkpointed_bytes(layers=100, layer_bytes=16.0, input_bytes=16.0, segments=k) for k in range(1, 101)
    )


def test_a_pipeline_holds_the_micro_batches_of_its_schedule():
    """1F1B holds pp micro-batches of L / pp layers; interleaving holds (pp - 1) / (pp v) more."""
    shape = typical_decoder(params=70e9)
    plan = Plan(count=8, pp=8, grad_accum=64)
    one, few = need(shape, plan).activations, need(shape, replace(plan, grad_accum=2)).activations
    assert float(one) == pytest.approx(4 * float(few))
    woven = need(shape, replace(plan, virtual=2)).activations
    assert float(woven) == pytest.approx(float(one) * (1 + 7 / 16))


def test_plain_attention_keeps_its_scores_and_selective_recomputation_drops_them():
    """5 a s bytes per token and layer (arXiv 2205.05198, eq. 2)."""
    shape = typical_decoder(params=8e9)
    fused = float(need(shape, Plan(micro_batch=4), seq_len=4096).activations)
    plain = float(need(shape, Plan(micro_batch=4), seq_len=4096, flash=False).activations)
    scores = 5.0 * shape.n_heads * 4096 * 4 * 4096 * shape.n_layers
    assert plain - fused == pytest.approx(scores)
    dropped = need(shape, Plan(micro_batch=4, recompute=1), seq_len=4096, flash=False)
    assert float(dropped.activations) < fused + 2 * scores / shape.n_layers


def test_optimizers():
    """Bytes of states beside the master copy; an unknown name is refused with those that are known."""
    shape = typical_decoder(params=8e9)
    states = {name: states_of(shape=shape, precision="bf16", optimizer=name)[2]
              for name in ("adamw", "adamw-8bit", "adamw-bf16", "sgd", "muon", "adafactor")}  # fmt: skip
    assert states["adamw"] == 12.0
    assert states["adamw-8bit"] == 6.0
    assert states["adamw-bf16"] == 4.0
    assert states["sgd"] == 8.0 < states["muon"] < states["adamw"]
    assert 4.0 < states["adafactor"] < 4.01
    assert states_of(shape=shape, precision="fp32", optimizer="adamw")[2] == 8.0
    with pytest.raises(InputError, match="adafactor"):
        states_of(shape=shape, precision="bf16", optimizer="lamb")
