"""Measured rows of decoder serving: lengths, formats, sizes, runs that end, figures that cannot be."""

import pytest

from gpuselect.accuracy import Skipped, predict_inference
from gpuselect.accuracy.decoder_formats import engine_id, named_format
from gpuselect.accuracy.rows import shape_of_row
from gpuselect.accuracy.serving_bounds import is_beyond_peak, least_times
from gpuselect.accuracy.serving_cases import case_of, running_of_run
from gpuselect.deployment import kernel_of
from gpuselect.estimate.model_shape import attention_layers_of, shape_of
from gpuselect.estimate.shape import kv_bytes_per_sequence
from gpuselect.names import resolve_format
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog

ROW = {
    "row_id": "s", "hardware": "h100-sxm5-80gb", "n_accel": "1", "engine": "vllm", "mode": "server",
    "model_name": "Llama-3.1-8B", "weight_precision": "bf16", "batch_or_concurrency": "16",
    "input_len": "1000", "output_len": "200",
}  # fmt: skip


@pytest.fixture(scope="module")
def catalog():
    """The catalog of the checkout."""
    return load_catalog()


@pytest.fixture(scope="module")
def calibration():
    """The shipped constants."""
    return load_calibration()


def open_row(**cells):
    """The row without lengths."""
    return {k: v for k, v in ROW.items() if k not in ("input_len", "output_len")} | cells


@pytest.mark.parametrize(
    ("cells", "lengths", "assumed"),
    [
        ({"output_tok_s_total": "300", "total_tok_s_total": "900", "requests_or_images_per_s_total": "3"},
         (200.0, 100.0), False),
        ({"notes": "1000 prompts, total input 215000 tokens, total output 120000"}, (215.0, 120.0), False),
        ({"output_tok_s_total": "300"}, (512.0, 256.0), True),
        ({"output_tok_s_total": "300", "notes": "ShareGPT, 1000 requests at once"}, (217.0, 200.0), True),
    ],
)  # fmt: skip
def test_lengths_that_the_rates_or_totals_tell(cells, lengths, assumed, catalog, calibration):
    """Tokens over requests are the load's mean lengths; only where nothing tells are they assumed."""
    case = case_of(open_row(**cells), catalog, calibration)
    assert (case.inputs, case.outputs) == lengths
    assert case.assumed is assumed


@pytest.mark.parametrize(
    ("stated", "engine", "extra", "expected"),
    [
        ("int8", "transformers", {"notes": "quantization GPTQ-Int8"}, "int8-gptq"),
        ("int8", "transformers", {}, "int8-weight-only"),
        ("int8", "transformers", {"notes": "bitsandbytes-style low-bit loading"}, "int8-weight-only"),
        ("int4", "transformers", {"notes": "bitsandbytes-style low-bit loading"}, "nf4"),
        ("int4", "vllm", {}, "int4-awq"),
        ("int8", "vllm", {"model_name": "Qwen2.5-7B-Instruct-GPTQ-Int8"}, "int8-gptq"),
        ("int8", "tensorrt-llm", {"activation_precision": "int8"}, "int8"),
        ("int8", "transformers-neuronx", {"activation_precision": "bf16"}, "int8-gptq"),
        ("int8", "llama.cpp", {}, "q8_0"),
    ],
)
def test_what_a_width_means(stated, engine, extra, expected, catalog):
    """Who quantised decides how the product is taken: three populations of "int8" differ sixfold."""
    assert named_format(stated, {"engine": engine, **extra}, catalog).id == expected


def test_narrow_floats_on_cards_without_them_are_unpacked(catalog):
    """FP8 on an A100 runs as GPTQ does; 16-bit weights never; ExLlamaV2 has kernels of its own."""
    formats = {
        name: resolve_format(name, catalog) for name in ("fp8", "bf16", "mxfp4", "int4-gptq", "q4_k_m")
    }
    assert kernel_of(formats["fp8"], "bf16") == "w4"
    assert kernel_of(formats["fp8"], "fp8") == "none"
    assert kernel_of(formats["bf16"], "bf16") == "none"
    assert kernel_of(formats["mxfp4"], "fp16") == "w4"
    assert kernel_of(formats["int4-gptq"], "fp16", engine="exllamav2") == "exl"
    assert kernel_of(formats["q4_k_m"], "fp16", engine="llama.cpp") == "gguf"


def test_exllama_generations_are_apart():
    """ExLlamaV3 has other kernels; ExLlama and ExLlamaV2 share constants."""
    names = ("exllama", "exllamav2", "exllamav3")
    assert [engine_id({"engine": name}) for name in names] == ["exllamav2", "exllamav2", "exllamav3"]


def test_awq_alone_fuses_nothing():
    """AutoAWQ runs module by module as Transformers does, unless the row says that its modules are fused."""
    assert engine_id({"engine": "AutoAWQ"}) == "transformers"
    assert engine_id({"engine": "autoawq", "notes": "AWQ GEMM kernels, fused modules"}) == "autoawq"


def test_a_size_that_repeats_the_name_is_rounded(catalog):
    """A row that says 4 of Qwen3.5-4B means the model of 4.66; without that reading it is another model."""
    row = {"model_name": "Qwen3.5-4B", "params_b": "4"}
    assert shape_of_row(row, catalog, rounded=True).params == pytest.approx(4.66e9, rel=0.01)
    assert shape_of_row(row, catalog).params == pytest.approx(4e9)
    far = {"model_name": "Qwen3.5-4B", "params_b": "9"}
    assert shape_of_row(far, catalog, rounded=True).params == pytest.approx(9e9)


def test_windows_follow_the_words_of_the_catalog(catalog):
    """Five local layers to one global: 5/6 of the layers look back over the window only."""
    gemma = shape_of(catalog.models["gemma-3-27b"])
    assert (gemma.attention_layers, gemma.windowed_layers) == (62, 51)
    assert attention_layers_of(catalog.models["gemma-4-31b"], 60) == (60, 50)
    assert attention_layers_of(catalog.models["qwen3.5-27b"], 64) == (16, 0)
    assert attention_layers_of(catalog.models["gpt-oss-120b"], 36) == (36, 18)


def test_global_layers_may_cache_another_width(catalog):
    """Gemma 4: 50 windows of 1024 tokens at 2 x 16 x 256, and 10 layers with 2048 elements a token."""
    shape = shape_of(catalog.models["gemma-4-31b"])
    held = kv_bytes_per_sequence(shape=shape, context=4096, bytes_per_element=2)
    assert held == pytest.approx(2 * (50 * 1024 * 8192 + 10 * 4096 * 2048))


def test_a_run_that_ends_fills_its_server_for_a_while():
    """Long against the latency it is Little's law; all at once everything runs together."""
    assert running_of_run(rate=2.0, arrival=1e6, latency=3.0) == pytest.approx(6.0, rel=1e-4)
    assert running_of_run(rate=1e6, arrival=50 / 1e6, latency=30.0) == pytest.approx(50.0, rel=1e-4)
    between = running_of_run(rate=0.2, arrival=250.0, latency=260.0)
    assert 25 < between < 50


def test_a_short_run_has_a_lower_rate_than_a_long_one(catalog, calibration):
    """Fifty requests over 250 s: ramp and tail count; ten times as many come closer to the arrivals."""
    row = ROW | {"batch_or_concurrency": "", "request_rate": "0.2", "output_len": "4000",
                 "requests_or_images_per_s_total": "1"}  # fmt: skip
    rates = [
        predict_inference(row | {"notes": f"workload x, {n} requests"}, catalog, calibration)[0].predicted
        for n in (50, 500)
    ]
    assert rates[0] < rates[1] < 0.2


@pytest.mark.parametrize(
    ("cells", "beyond"),
    [
        ({"ttft_ms": "1", "batch_or_concurrency": "1"}, True),  # 1000 tokens of 8B: 15 ms at the peak
        ({"ttft_ms": "30", "batch_or_concurrency": "1"}, False),
        ({"tpot_ms": "1"}, True),  # 16 GB are not read in 1 ms
        ({"tpot_ms": "9"}, False),
        ({"output_tok_s_total": "90000"}, True),
        ({"output_tok_s_total": "2000"}, False),
    ],
)
def test_figures_beyond_the_peak_are_left_with_a_code(cells, beyond, catalog, calibration):
    """A cached prompt or a forgotten replica passes the peak; nothing that the cards can do is left out."""
    result = predict_inference(ROW | cells, catalog, calibration)
    assert (isinstance(result, Skipped) and result.code == "beyond-peak") is beyond


def test_the_bound_is_the_peak_alone(catalog, calibration):
    """Twice the card, half the least time; and no constant of the fit moves it."""
    one = case_of(ROW, catalog, calibration)
    two = case_of(ROW | {"n_accel": "2", "tp": "2"}, catalog, calibration)
    assert least_times(two, batch=1.0)[0] == pytest.approx(least_times(one, batch=1.0)[0] / 2)
    rates = {k: v.__class__(0.1, source=v.source) for k, v in calibration.serving_compute.items()}
    slow = calibration.model_copy(update={"serving_compute": rates})
    assert least_times(case_of(ROW, catalog, slow), batch=1.0) == least_times(one, batch=1.0)
    assert not is_beyond_peak(one, ROW, "latency_ms", 1e-6)
