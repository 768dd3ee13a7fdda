"""One measured row to what the estimates take: names, sizes, formats, layouts, loads."""

import re
from pathlib import Path

import pytest

import gpuselect.accuracy
from gpuselect.accuracy import (
    SKIP_REASONS,
    Fit,
    Skipped,
    decoder_plans,
    decoder_serving,
    fit_of_row,
    predict_inference,
    predict_reference,
    predict_training,
    serving_cases,
)
from gpuselect.accuracy.decoder_formats import engine_id, format_of, named_format, preallocates
from gpuselect.accuracy.evaluation import Measured, evaluate, interval_of
from gpuselect.accuracy.records import Scored, Skip
from gpuselect.accuracy.rows import accelerator_of, base_model_of, is_decoder, model_of, shape_of_row
from gpuselect.errors import InputError
from gpuselect.estimate.shape import typical_decoder
from gpuselect.names import resolve_model
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog

SERVING = {
    "row_id": "s", "hardware": "l40s-48gb", "engine": "vllm", "model_name": "Llama-3.1-8B",
    "weight_precision": "fp8", "batch_or_concurrency": "16", "input_len": "1000", "output_len": "200",
    "mode": "server",
}  # fmt: skip
TRAINING = {
    "row_id": "t", "hardware": "a100-sxm4-80gb", "n_accel": "8", "model_name": "Llama-2-7B",
    "seq_len": "4096", "global_batch": "64", "micro_batch": "1", "recompute": "full",
    "framework": "Megatron-LM", "compute_precision": "bf16", "method": "pretrain",
}  # fmt: skip


@pytest.fixture(scope="module")
def catalog():
    """The catalog of the checkout."""
    return load_catalog()


@pytest.fixture(scope="module")
def calibration():
    """The shipped constants."""
    return load_calibration()


def by_metric(result):
    """Predicted value of each metric."""
    assert isinstance(result, list), result
    return {one.metric: one.predicted for one in result}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a100-80gb-unspecified", "hardware-unspecified"), ("generic-48gb", "hardware-unspecified"),
        ("gpu-80gb", "hardware-unspecified"), ("", "hardware-unspecified"),
        ("rtx-4090-24gb+rtx-3090-ti-24gb", "hardware-mixed"), ("abacus-9000", "hardware-unknown"),
    ],
)  # fmt: skip
def test_cards_without_an_entry_are_skipped_with_a_code(name, code, catalog):
    """What is not named has another code than what is not known."""
    with pytest.raises(Skip) as skip:
        accelerator_of({"hardware": name}, catalog)
    assert skip.value.code == code


def test_a_card_is_found_by_alias(catalog):
    """People do not write ids."""
    assert accelerator_of({"hardware": "NVIDIA H100 80GB"}, catalog).id == "h100-sxm5-80gb"


@pytest.mark.parametrize(
    "name",
    [
        "Llama-3.1-8B",
        "meta-llama/Llama-3.1-8B-Instruct",
        "Qwen2.5-7B",
        "gpt-oss-120b",
        "no such model",
        "gpt2",
    ],
)
def test_models_resolve_as_everywhere_else(name, catalog):
    """The index for thousands of names agrees with names.resolve_model."""
    try:
        expected = resolve_model(name, catalog).id
    except InputError:
        expected = None
    found = model_of(name, catalog)
    assert (found.id if found else None) == expected


def test_the_format_in_a_checkpoint_name_does_not_hide_the_model(catalog):
    """`-FP8` and `(tokendrop)` are no part of the name."""
    assert base_model_of("GLM-4.6-FP8", catalog).id == base_model_of("GLM-4.6", catalog).id
    assert base_model_of("Llama-3.1-8B (2 nodes)", catalog).id == model_of("Llama-3.1-8B", catalog).id


def test_sizes_come_from_dimensions_or_from_the_name(catalog):
    """Mixtral by its dimensions, a DeepSeek of 7B by its name; otherwise the size is unknown."""
    mixtral = {
        "model_name": "Mixtral 8X7B of somebody", "n_layers": "32", "hidden": "4096", "ffn_hidden": "14336",
        "heads": "32", "kv_heads": "8", "head_dim": "128", "vocab": "32000", "n_experts": "8", "top_k": "2",
    }  # fmt: skip
    shape = shape_of_row(mixtral, catalog)
    assert shape.params == pytest.approx(46.7e9, rel=0.01)
    assert shape.active_params == pytest.approx(12.9e9, rel=0.02)
    assert shape_of_row({"model_name": "Something-7B"}, catalog).params == pytest.approx(7e9, rel=0.02)
    with pytest.raises(Skip, match="size-unknown"):
        shape_of_row({"model_name": "Something large"}, catalog)


def test_a_stated_size_that_contradicts_name_and_catalog_does_not_count(catalog):
    """72B in the name and in the catalog outweigh a 7 in the column; a changed model keeps its size."""
    shape = shape_of_row({"model_name": "Qwen2.5-72B", "params_b": "7"}, catalog)
    assert shape.params == pytest.approx(72.7e9, rel=0.01)
    cut = shape_of_row(
        {"model_name": "Llama-3.1-8B", "params_b": "4", "n_layers": "16", "hidden": "4096"}, catalog
    )
    assert (cut.n_layers, cut.params) == (16, 4e9)


def test_an_unknown_mixture_of_experts_is_not_taken_as_dense(catalog):
    """The family says that a token meets a part of it only."""
    shape = shape_of_row({"model_name": "Some-140B", "params_b": "140", "family": "moe-decoder"}, catalog)
    assert shape.active_params < 0.2 * shape.params


@pytest.mark.parametrize(
    ("stated", "engine", "bits"),
    [
        ("mlx-6bit", "mlx-lm", 6.5), ("exl2-2.5bpw", "exllamav2", 2.5), ("int3", "gptq-for-llama", 3.16),
        ("gguf-ud-q4_k_xl", "llama.cpp", 4.9), ("gguf-ud-q6_k_xl", "llama.cpp", 6.56),
        ("int4", "llama.cpp", 4.9), ("int4", "vllm", 4.16), ("fp8", "vllm", 8.0),
    ],
)  # fmt: skip
def test_spellings_of_formats(stated, engine, bits, catalog):
    """Formats with their bits in the name need no entry of their own."""
    assert named_format(stated, {"engine": engine}, catalog).bits_per_weight == pytest.approx(bits)


@pytest.mark.parametrize(
    ("row", "expected", "assumed"),
    [
        ({"engine": "llama.cpp/ollama", "model_name": "Llama-3.1-8B"}, "q4_k_m", True),
        ({"engine": "vllm", "model_name": "Qwen3-8B-FP8"}, "fp8", False),
        ({"engine": "vllm", "model_name": "Llama-3.1-8B"}, "bf16", True),
        ({"engine": "sglang", "model_name": "DeepSeek-R1"}, "fp8", True),
        ({"engine": "vllm", "weight_precision": "int8", "model_name": "x"}, "int8", False),
    ],
)
def test_what_an_unstated_precision_means(row, expected, assumed, catalog, calibration):
    """The name, the engine, what the model was published in, 16 bit: in this order."""
    card = accelerator_of({"hardware": "h200-sxm-141gb"}, catalog)
    found, guessed = format_of({**row, "n_accel": "8"}, card, catalog, calibration, params=8e9)
    assert (found.id, guessed) == (expected, assumed)


def test_weights_that_do_not_fit_in_16_bit_are_taken_as_smaller(catalog, calibration):
    """70B on one Orin can only have been 4 bit."""
    card = accelerator_of({"hardware": "jetson-agx-orin-64gb"}, catalog)
    found, guessed = format_of({"engine": "vllm", "model_name": "x"}, card, catalog, calibration, params=70e9)
    assert (found.id, guessed) == ("int4-awq", True)


def test_engines_by_their_longest_word():
    """A word inside another engine's name does not decide."""
    assert engine_id({"engine": "transformers-neuronx"}) == "neuron"
    assert engine_id({"engine": "ctransformers"}) == "llama.cpp"
    assert preallocates({"engine": "vLLM 0.9"})
    assert not preallocates({"engine": "llama.cpp"})


def test_the_metrics_of_a_training_row_say_the_same(catalog, calibration):
    """Tokens per second, samples per second and step time are one prediction in three units."""
    row = TRAINING | {"tokens_per_s_per_accel": "1", "samples_per_s_total": "1", "step_time_s": "1"}
    found = by_metric(predict_training(row, catalog, calibration))
    assert found["samples_per_s_total"] == pytest.approx(64 / found["step_time_s"])
    assert found["tokens_per_s_per_accel"] == pytest.approx(found["samples_per_s_total"] * 4096 / 8)


def test_reported_tflops_only_where_no_rate_is_given(catalog, calibration):
    """Hardware FLOPs of full recomputation are a third more than model FLOPs."""
    row = TRAINING | {"tflops_per_accel_reported": "150"}
    model = by_metric(predict_training(row, catalog, calibration))
    hardware = by_metric(predict_training(row | {"flops_convention": "hardware"}, catalog, calibration))
    assert hardware["tflops_per_accel_reported"] == pytest.approx(4 / 3 * model["tflops_per_accel_reported"])
    assert 50 < model["tflops_per_accel_reported"] < 312
    both = by_metric(predict_training(row | {"step_time_s": "1"}, catalog, calibration))
    assert set(both) == {"step_time_s"}


def test_allocated_is_less_than_reserved_is_less_than_the_drivers_view(catalog, calibration):
    """The kind of memory decides what is compared."""
    kinds = ("allocated", "reserved", "unknown")
    needs = [
        by_metric(predict_training(TRAINING | {"peak_mem_gb": "60", "mem_kind": kind}, catalog, calibration))
        for kind in kinds
    ]
    values = [need["peak_mem_gb"] for need in needs]
    assert values == sorted(values)
    assert len(set(values)) == 3


def test_the_metrics_of_a_serving_row_agree(catalog, calibration):
    """Output, total and request rates are one prediction in several units."""
    row = SERVING | {
        "n_accel": "2", "tp": "2", "output_tok_s_total": "1", "output_tok_s_per_accel": "1",
        "total_tok_s_total": "1", "requests_or_images_per_s_total": "1",
    }  # fmt: skip
    found = by_metric(predict_inference(row, catalog, calibration))
    assert found["output_tok_s_total"] == pytest.approx(2 * found["output_tok_s_per_accel"])
    assert found["total_tok_s_total"] == pytest.approx(6 * found["output_tok_s_total"])
    assert found["requests_or_images_per_s_total"] == pytest.approx(found["output_tok_s_total"] / 200)


def test_a_loaded_ttft_is_not_predicted_but_the_rest_of_its_row_is(catalog, calibration):
    """Queueing is no estimate; alone it is the reason for the skip."""
    both = predict_inference(SERVING | {"ttft_ms": "900", "tpot_ms": "20"}, catalog, calibration)
    assert set(by_metric(both)) == {"tpot_ms"}
    alone = predict_inference(SERVING | {"ttft_ms": "900"}, catalog, calibration)
    assert isinstance(alone, Skipped)
    assert alone.code == "ttft-under-load"
    idle = SERVING | {"ttft_ms": "90", "batch_or_concurrency": "1"}
    assert set(by_metric(predict_inference(idle, catalog, calibration))) == {"ttft_ms"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"latency_ms": "5", "latency_stat": "p99"}, "tail-latency"),
        ({"peak_mem_gb": "40"}, "memory-preallocated"),
        ({"output_tok_s_total": "9", "notes": "disagg: 2 prefill pools"}, "disaggregated"),
        ({"output_tok_s_total": "9", "weight_precision": "int2-odd"}, "format-unknown"),
        ({"output_tok_s_total": "9", "model_name": "unheard of"}, "size-unknown"),
        ({"output_tok_s_total": "9", "input_len": "2k"}, "malformed-cell"),
        ({"output_tok_s_total": "nan"}, "malformed-cell"),
        ({"output_tok_s_total": "-3"}, "malformed-cell"),
        ({}, "no-metric"),
    ],
)
def test_why_a_serving_row_is_not_predicted(change, code, catalog, calibration):
    """Each obstacle has its own code, with a sentence that names the cell where one is at fault."""
    result = predict_inference(SERVING | change, catalog, calibration)
    assert isinstance(result, Skipped)
    assert result.code == code
    assert SKIP_REASONS[code] in result.reason
    if code == "malformed-cell":
        assert set(result.detail.split(":")[0].split()) & set(change)


def test_an_open_load_runs_as_much_as_fits(catalog, calibration):
    """Without a concurrency the replica is filled; with an arrival rate it is filled less."""
    row = {k: v for k, v in SERVING.items() if k != "batch_or_concurrency"}
    full = decoder_serving.case_of(row, catalog, calibration)
    slow = decoder_serving.case_of(row | {"request_rate": "0.5"}, catalog, calibration)
    assert full.batch > 16
    assert 1 <= slow.batch < full.batch
    few = decoder_serving.case_of(row | {"notes": "8 requests submitted at once"}, catalog, calibration)
    assert few.batch == 8
    assert full.assumed
    assert not decoder_serving.case_of(SERVING, catalog, calibration).assumed


def test_layouts_that_a_row_leaves_open():
    """llama.cpp splits layers; a maximum-throughput run takes the smallest replica that holds the weights."""
    shape = typical_decoder(params=8e9)

    def plan(row, *, weights, open_load, split):
        return serving_cases.plan_of(
            row, shape=shape, weight_bytes=weights, usable=80e9, open_load=open_load, split=split
        )

    layers = plan({"n_accel": "4", "engine": "llama.cpp"}, weights=4e9, open_load=False, split=True)
    assert (layers.tp, layers.pp, layers.replicas) == (1, 4, 1)
    stated = {"n_accel": "4", "tp": "4", "engine": "llama.cpp"}
    called = plan(stated, weights=4e9, open_load=False, split=True)
    assert called == layers
    piped = plan({"n_accel": "4", "pp": "4", "engine": "mlx-lm"}, weights=4e9, open_load=False, split=False)
    assert (piped.tp, piped.pp) == (1, 4)
    offline = {"n_accel": "8", "engine": "tensorrt"}
    small = plan(offline, weights=8e9, open_load=True, split=False)
    large = plan(offline, weights=140e9, open_load=True, split=False)
    assert (small.tp, small.replicas) == (1, 8)
    assert (large.tp, large.replicas) == (4, 2)


def test_a_data_parallel_group_is_never_wider_than_its_batch():
    """The rest of 256 cards and a batch of 32 is tensor parallel, then pipeline."""
    plan = decoder_plans.plan_of({"n_accel": "256", "global_batch": "32"})
    assert (plan.dp, plan.tp) == (32, 8)


def test_fit_states_follow_the_contract(catalog, calibration):
    """`tight` is 0.85 to 1.15 of the usable memory; out of memory is a measured no."""
    fit = fit_of_row(SERVING, catalog, calibration, serving=True)
    assert isinstance(fit, Fit)
    assert (fit.measured, fit.predicted, fit.state) == (True, True, "fits")
    big = SERVING | {"model_name": "Llama-3.1-70B", "outcome": "oom"}
    missed = fit_of_row(big, catalog, calibration, serving=True)
    assert (missed.measured, missed.predicted, missed.state) == (False, False, "no")
    assert missed.need_gib > 1.15 * missed.usable_gib


def test_another_outcome_is_no_fit_decision(catalog, calibration):
    """Only a run and an out-of-memory say something about memory."""
    result = fit_of_row(SERVING | {"outcome": "crashed"}, catalog, calibration, serving=True)
    assert isinstance(result, Skipped)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"family": "cnn", "model_name": "Llama-3.1-8B"}, False), ({"model_name": "Llama-3.1-8B"}, True),
        ({"model_name": "resnet-50"}, False), ({"family": "other", "model_name": "qwen2.5-vl-7b"}, True),
        ({"family": "other", "model_name": "unheard of"}, False), ({"model_name": "unheard of"}, True),
    ],
)  # fmt: skip
def test_which_rows_are_of_decoders(row, expected, catalog):
    """The row's family counts; without one that of the model."""
    assert is_decoder(row, catalog) is expected


def test_the_allocator_reference_is_met(calibration, catalog):
    """Row m000 of memory_reference.csv, by the events of a step."""
    row = {
        "row_id": "m000", "arch": "llama", "n_layers": "4", "hidden": "4096", "heads": "32", "kv_heads": "8",
        "ffn": "14336", "vocab": "128256", "batch": "1", "seq": "2048", "recompute": "full",
        "precision": "bf16", "optimizer": "adamw", "method": "full", "params_b": "1.92313",
        "peak_gib": "16.28544",
    }  # fmt: skip
    assert by_metric(predict_reference(row, catalog, calibration))["peak_gib"] == pytest.approx(
        16.28544, rel=0.02
    )
    other = predict_reference(row | {"arch": "whisper"}, catalog, calibration)
    assert isinstance(other, Skipped)
    assert other.code == "arch-not-covered"


def test_intervals_of_times_are_the_reciprocal_of_those_of_rates(calibration):
    """A rate of low to high is a time of 1 / high to 1 / low."""
    rate = Scored("r", "", "x", "output_tok_s_total", 1.0, 2.0, "throughput")
    time = Scored("r", "", "x", "tpot_ms", 1.0, 2.0, "throughput")
    low, high = interval_of(rate, calibration)
    assert low < 2.0 < high
    assert interval_of(time, calibration) == (pytest.approx(4.0 / high), pytest.approx(4.0 / low))
    assert interval_of(Scored("r", "", "unheard", "x", 1.0, 2.0), calibration) == (None, None)


def test_absurd_figures_are_skipped(catalog, calibration):
    """A row can not stop the others."""
    row = TRAINING | {"step_time_s": "1", "n_layers": "1e12", "hidden": "1e12", "params_b": "1e12"}
    result = evaluate([Measured(row, "training", in_sample=False)], catalog, calibration)
    assert result.rows == () or all(0 < r.predicted < float("inf") for r in result.rows)


def test_every_skip_code_has_a_sentence():
    """Codes are read from the sources of the package, so that a new one cannot be forgotten."""
    text = "\n".join(
        p.read_text(encoding="utf-8") for p in Path(gpuselect.accuracy.__file__).parent.glob("*.py")
    )
    used = set(re.findall(r"""\bSkip(?:ped)?\((?:[^()"]|\([^()]*\))*"([a-z-]+)\"""", text))
    assert len(used) > 15
    assert used - set(SKIP_REASONS) == set()
    assert all(sentence.endswith(".") for sentence in SKIP_REASONS.values())


def test_transformer_xl_is_a_slice_of_its_own():
    """Attention over a memory: two publishers of one benchmark differ more than other decoders."""
    catalog, calibration = load_catalog(), load_calibration()
    row = {"row_id": "x", "source_id": "s", "model_name": "transformer-xl-base", "hardware": "a100-sxm4-40gb",
           "n_accel": "1", "micro_batch": "32", "method": "pretrain", "compute_precision": "fp16",
           "framework": "PyTorch", "tokens_per_s_per_accel": "40000", "date": "2021"}  # fmt: skip
    found = predict_training(row, catalog, calibration)
    assert {scored.slice for scored in found} == {"training recurrent"}
    assert {scored.interval for scored in found} <= {"training-recurrent", "training-uncovered"}
    wide, dense = calibration.quantiles["training-recurrent"], calibration.quantiles["training-dense"]
    assert wide.low < dense.low < dense.high < wide.high
