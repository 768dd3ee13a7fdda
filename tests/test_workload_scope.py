"""Keys that a kind of work does not read are named, and have no effect."""

import pytest

from gpuselect import recommend
from gpuselect.errors import InputError
from gpuselect.workload import Workload
from gpuselect.workload_scope import SCOPED

WORK = {
    "pretrain": {"task": "pretrain", "params": "3B", "tokens": "1B"},
    "adapters": {"task": "finetune", "model": "llama-3.1-8b", "method": "lora"},
    "serving": {"task": "inference", "model": "llama-3.1-8b"},
    "training of a network": {"task": "pretrain", "model": "resnet-50"},
    "network": {"task": "inference", "model": "resnet-50"},
    "diffusion": {"task": "inference", "model": "sdxl-base-1.0"},
    "speech": {"task": "inference", "model": "whisper-large-v3"},
    "video": {"task": "video", "model": "yolov8s", "streams": 20},
    "scientific": {"task": "hpc", "flops": 1e18, "bytes": "1PB", "memory": "100GB", "precision": "fp64"},
}
ODD = {
    "precision": "fp8", "weights": "int8", "kv": "int8", "tokens": "7B", "samples": "3k", "epochs": 7,
    "mean_len": 900, "seq_len": 700, "global_batch": 96, "optimizer": "sgd", "lora_rank": 128,
    "method": "qlora", "deadline": "1min", "input_tokens": 3000, "output_tokens": 100,
    "concurrency": 400, "users": 7000, "request_rate": "20000/s", "demand": "9B tokens/hour",
    "throughput": "9M tokens/s", "peak_factor": 3, "ttft": "1ms", "tpot": "1ms", "latency": "1ms",
    "percentile": "p99", "batch": 1, "image_size": 1024, "steps": 5, "streams": 9000, "fps": 7,
    "resolution": "4k", "codec": "av1", "interval": 9, "secondary": "resnet-18", "secondary_interval": 1,
    "objects": 90, "tracker": "nvdcf", "encode": "av1", "dla": True, "load": "20%", "fp64": True,
    "flops": 1e22, "bytes": "900PB", "memory": "15TB", "kernel": "dgemm", "exchange": "90%", "tp": 4,
    "pp": 4, "dp": 1, "ep": 2, "cp": 2, "zero_stage": 1, "recompute": "selective", "micro_batch": 1,
    "grad_accum": 7, "replicas": 1, "arrivals": "bursty", "prefix_hits": "60%", "acceptance": "70%",
    "drafted": 3, "tuned": True, "prefix_tokens": 300, "host_memory": "8GB",
}  # fmt: skip


def test_an_odd_value_stands_here_for_every_key():
    """A new key of some kind of work needs a line in `ODD`."""
    assert set(ODD) == SCOPED


def named(keys):
    """The keys that the answer names as having no effect, and the answer."""
    answer = recommend(gpus="h100-sxm5-80gb", **keys)
    notes = [n.text for n in answer.decision.assumptions if n.code == "no-effect"]
    words = notes[0].split(": ")[1].split(", ") if notes else []
    return {word.removeprefix("--").replace("-", "_") for word in words}, answer.decision


@pytest.mark.parametrize("kind", WORK)
def test_what_has_no_effect_changes_nothing(kind):
    """The answer is the same with all keys that have none together; each of them is named."""
    usual = WORK[kind]
    asked = {key: value for key, value in ODD.items() if key not in usual and key != "method"}
    unread, _decision = named({**asked, **usual})
    assert unread, "some of these keys belong to other kinds of work"
    again, decision = named({**{key: ODD[key] for key in unread}, **usual})
    none, plain = named(usual)
    assert (again, none) == (unread, set())
    assert decision.recommendations == plain.recommendations
    assert decision.unpriced == plain.unpriced


def test_a_precision_alone_means_the_weights_of_a_decoder():
    """Nobody who asks for fp8 wants 16-bit weights, and the answer says how it was read."""
    answer = recommend(task="inference", model="llama-3.1-8b", precision="fp8", gpus="h100-sxm5-80gb")
    assert "fp8" in answer.decision.workload_sentence
    assert [n.text for n in answer.decision.assumptions if n.code == "precision-as-weights"]
    both = recommend(task="inference", model="llama-3.1-8b", weights="fp8", gpus="h100-sxm5-80gb")
    assert answer.decision.recommendations == both.decision.recommendations


@pytest.mark.parametrize(
    ("throughput", "other"),
    [
        ("500 tokens/s", {"request_rate": 500 / 256}),
        ("2 requests/s", {"request_rate": "2/s"}),
        ("1280 tok/s", {"demand": 5 * 1280}),
    ],
)
def test_a_throughput_is_a_request_rate(throughput, other):
    """Tokens written count by the length of an answer; requests as they are."""
    work = {"task": "inference", "model": "llama-3.1-8b", "gpus": "h100-sxm5-80gb"}
    asked, meant = recommend(throughput=throughput, **work), recommend(**other, **work)
    assert asked.decision.recommendations == meant.decision.recommendations


def test_a_peak_factor_multiplies_a_request_rate():
    """The rate is the mean; the peak has to be served."""
    work = {"task": "inference", "model": "llama-3.1-8b", "gpus": "h100-sxm5-80gb"}
    peak, plain = recommend(request_rate=2, peak_factor=3, **work), recommend(request_rate=6, **work)
    assert peak.decision.recommendations == plain.decision.recommendations


def test_a_throughput_of_nothing_known_is_refused():
    """The sentence shows two valid forms."""
    with pytest.raises(InputError, match=r"write for example 2000 tokens/s or 100 images/s"):
        Workload.from_mapping({"task": "inference", "throughput": "fast"})


def texts(code, **keys):
    """The assumptions of a code on one card."""
    decision = recommend(gpus="h100-sxm5-80gb", **keys).decision
    return [n.text for n in decision.assumptions if n.code == code]


def test_a_model_with_a_short_context_is_trained_at_that():
    """GPT-2 holds 1,024 positions (its configuration, n_positions)."""
    assert texts("default-seq-len", task="pretrain", model="gpt2") == ["sequences of 1024 tokens"]


def test_a_context_that_the_model_does_not_have_is_named():
    """Nothing is refused: contexts are extended, but the reader is told."""
    asked = {"task": "inference", "model": "gpt2", "output_tokens": 100}
    assert texts("context-exceeded", input_tokens=4000, **asked)[0].startswith("4100 tokens are more")
    assert not texts("context-exceeded", input_tokens=900, **asked)
