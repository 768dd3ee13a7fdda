"""Engine and weight format of an inference row, named or meant."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache

from gpuselect.accuracy.records import Row, Skip
from gpuselect.accuracy.rows import Same, base_model_of, number
from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, Catalog, WeightFormat
from gpuselect.errors import InputError
from gpuselect.estimate.devices import usable_bytes
from gpuselect.job import native_format
from gpuselect.names import resolve_format
from gpuselect.provenance import Figure

# The first word found in the engine's name gives the engine whose factors count. Those behind a longer
# word come first: `transformers-neuronx` is Neuron, `ctransformers` is ggml.
ENGINE_IDS = {
    "neuron": "neuron", "ctransformers": "llama.cpp", "vllm-tpu": "tpu", "vllm": "vllm", "sglang": "sglang",
    "tensorrt": "tensorrt-llm", "trt": "tensorrt-llm", "nim": "tensorrt-llm", "llama.cpp": "llama.cpp",
    "llamacpp": "llama.cpp", "ollama": "llama.cpp", "exllamav3": "exllamav3", "exllama": "exllamav2",
    "mlx": "mlx-lm", "tgi": "tgi",
    "text-generation-inference": "tgi", "autoawq": "autoawq", "transformers": "transformers",
    "fastertransformer": "fastertransformer", "gaudi": "gaudi", "jetstream": "tpu", "mlc": "mlc",
    "autogptq": "transformers", "gptq-for-llama": "transformers", "pytorch": "transformers",
    "lightning": "transformers", "lmdeploy": "lmdeploy", "turbomind": "lmdeploy", "ctranslate": "ctranslate",
    "onnx": "onnx",
}  # fmt: skip
# engines that reserve a share of the card for their cache: footprint is not need
PREALLOCATING = ("vllm", "sglang", "tensorrt", "trt", "lmdeploy", "nim", "tgi", "text-generation-inference")
# the format that a word of a checkpoint's name means
WORDS = (
    ("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"), ("gpt-oss", "mxfp4"), ("fp8", "fp8"), ("awq", "int4-awq"),
    ("gptq", "int4-gptq"), ("w4a16", "int4-awq"), ("int4", "int4-awq"), ("w8a8", "int8"), ("int8", "int8"),
    ("4bit", "int4-awq"), ("bf16", "bf16"),
)  # fmt: skip
NAMED_BITS = re.compile(r"^(mlx|exl2|exl3)-(\d+(?:\.\d+)?)(?:bit|bpw)")
SCALE_BITS = {"mlx": 0.5, "exl2": 0.0, "exl3": 0.0}  # feasibility study (inference), E1
SMALLER = ("fp8", "int4-awq")  # what a model is stored in where its 16-bit weights do not fit


def engine_id(row: Row) -> str:
    """Key of the engine's calibrated factors; the name itself, without a factor, for any other engine.

    >>> engine_id({"engine": "transformers-neuronx"}), engine_id({"engine": "mindie"})
    ('neuron', 'mindie')
    """
    if "mlperf inference" in row.get("notes", "").lower():
        return "vendor-tuned-2023" if row.get("date", "9") < "2024" else "vendor-tuned"
    name = row.get("engine", "").lower()
    engine = next((engine for word, engine in ENGINE_IDS.items() if word in name), name)
    if engine == "tensorrt-llm" and (row.get("engine_version", "").startswith("0.") or "nim" in name):
        return "tensorrt-llm-compiled"
    if engine == "autoawq" and "fused" not in row.get("notes", "").lower():
        return "transformers"  # its modules one by one, as any other of that library
    return engine


def preallocates(row: Row) -> bool:
    """True when the engine takes a share of the card whatever the need."""
    name = row.get("engine", "").lower()
    return any(word in name for word in PREALLOCATING)


def format_of(
    row: Row, accelerator: Accelerator, catalog: Catalog, calibration: Calibration, *, params: float
) -> tuple[WeightFormat, bool]:
    """The storage format of the weights, and whether it had to be assumed.

    Stated, else meant by the checkpoint's name, else what the model was published in, else usual for
    the engine: q4_k_m with llama.cpp, FP8 in MLPerf where the card has it, W4A16 on edge devices, 16 bit;
    the next smaller format where 16-bit weights do not fit (feasibility study, section 12, point 1).
    """
    stated = row.get("weight_precision", "").strip()
    if stated:
        return _as_published(named_format(stated, row, catalog), row, catalog), False
    name = row.get("model_name", "").lower()
    word = next((known for part, known in WORDS if part in name), None)
    if word is not None:
        return resolve_format(word, catalog), False
    meant = _usual_format(row, accelerator, catalog)
    if meant:
        return resolve_format(meant, catalog), True
    memory = (usable_bytes(accelerator, calibration) or float("inf")) * max(number(row, "n_accel", 1), 1)
    sizes = [resolve_format(candidate, catalog) for candidate in ("bf16", *SMALLER)]
    fitting = [found for found in sizes if params * float(found.bits_per_weight) / 8.0 <= memory]
    return (fitting or sizes[-1:])[0], True


def _as_published(stated: WeightFormat, row: Row, catalog: Catalog) -> WeightFormat:
    """Weights published in mxfp4 that a row calls fp8 are still mxfp4."""
    model = base_model_of(row.get("model_name", ""), catalog)
    if stated.id == "fp8" and native_format(model) == "mxfp4":
        return resolve_format("mxfp4", catalog)
    return stated


def _usual_format(row: Row, accelerator: Accelerator, catalog: Catalog) -> str:
    """What is usual for the engine, the model or the benchmark; empty where nothing is."""
    if engine_id(row) == "llama.cpp":
        return "q4_k_m"
    model = base_model_of(row.get("model_name", ""), catalog)
    if native := native_format(model):
        return native
    if row.get("source_id", "").startswith("mlperf"):
        return "fp8" if "fp8" in accelerator.dense_tflops else ""
    return "int4-awq" if accelerator.family == "edge" else ""


def named_format(stated: str, row: Row, catalog: Catalog) -> WeightFormat:
    """The format of a spelling: a catalog entry, or one of named bits; skip code `format-unknown`."""
    engine = engine_id(row)
    text = _kernel_of(stated.lower(), row, engine)
    if engine == "llama.cpp" and text in ("int4", "int8"):
        text = {"int4": "q4_k_m", "int8": "q8_0"}[text]
    plain = text.replace("-ud-", "-")
    found = _format(plain.replace("_xl", "_m"), Same(catalog)) or _format(
        plain.replace("_xl", ""), Same(catalog)
    )
    if found is None:
        raise Skip("format-unknown", stated)
    return found


def _kernel_of(text: str, row: Row, engine: str) -> str:
    """The format that "int8" or "int4" means: who quantised, and in what the products are taken.

    GPTQ keeps integer weights and multiplies in 16 bit, as every format with 16-bit activations does;
    bitsandbytes has kernels of its own; transformers alone means LLM.int8.
    """
    notes = row.get("notes", "").lower()
    if text in ("int8", "int4") and "bitsandbytes" in notes:
        return {"int8": "int8-weight-only", "int4": "nf4"}[text]
    if text == "int8" and engine != "llama.cpp":
        if "gptq" in notes or "gptq" in row.get("model_name", "").lower():
            return "int8-gptq"
        if engine == "transformers":
            return "int8-weight-only"
        if row.get("activation_precision", "").lower() in ("bf16", "fp16"):
            return "int8-gptq"
    return text


@lru_cache(maxsize=1024)
def _format(text: str, held: Same) -> WeightFormat | None:
    catalog = held.value
    with suppress(InputError):
        return resolve_format(text, catalog)
    if text == "int3":
        return _with_bits(resolve_format("int4-gptq", catalog), 3.16)  # 4.16 less one bit
    if found := NAMED_BITS.match(text):
        return _with_bits(resolve_format(found[1], catalog), float(found[2]) + SCALE_BITS[found[1]])
    return None


def _with_bits(near: WeightFormat, bits: float) -> WeightFormat:
    """A format of the same kind with another width."""
    width = near.bits_per_weight
    return near.model_copy(update={"bits_per_weight": Figure(bits, source=width.source, status="derived")})
