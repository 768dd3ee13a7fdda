"""A command to copy asks the same question: every key of a workload is written as it can be read."""

import shlex

import pytest

from gpuselect.cli.flags import kind_of, listed
from gpuselect.typed import NOT_TYPED, command_flags
from gpuselect.workload import Workload

MONEY = {
    "task": "pretrain", "params": "10B", "tokens": "200B", "acquire": "any", "term": "spot", "region": "eu",
    "spares": "2%", "utilization": "55%", "years": 4, "wacc": "7.5%", "residual": "10%", "support": "5%",
    "licence": "$4500", "staff": "$1.2M/year", "colocation": 0, "electricity": 0.15, "pue": 1.2, "carbon": 50,
    "carbon_price": 80,
    "carbon_budget": "2M kg", "storage": "10TB", "egress": "2.5TB", "interruptions": 2, "checkpoint": "10min",
    "restart": "90s", "budget": "$5000", "deadline": "36h", "exchange_rates": {"EUR": 1.17},
}  # fmt: skip
SERVING = {
    "task": "inference", "params": "30B-A3B", "weights": "int4-awq", "kv": "fp8", "input_tokens": 1000,
    "output_tokens": "1k", "concurrency": 32, "users": 200, "request_rate": "5/s", "demand": "10M tokens/day",
    "peak_factor": 3, "ttft": "p95<500ms", "tpot": "50ms", "latency": "2.5s", "budget": "$2/gpu-hr",
    "have": "3x3090, a100", "reserve": "2GiB", "vendors": ["nvidia", "amd"], "exclude": ["h100"],
    "max_count": 8, "single_card": True, "max_power_w": "300W", "ecc": False, "form_factor": "pcie",
    "frameworks": ["vllm"], "framework_licence": "permissive", "engine": "vllm",
    "criterion_weights": {"cost": 0.5, "speed": 0.25},
    "arrivals": "bursty", "prefix_hits": "60%", "acceptance": "70%", "drafted": 4,
    "tenants": 2, "isolation": "hardware", "cooling": "passive", "replicas": 2,
}  # fmt: skip
OTHERS = (
    {"task": "finetune", "model": "my model.json", "method": "lora", "lora_rank": 16, "samples": "50k",
     "epochs": 3, "mean_len": 512, "optimizer": "adamw", "precision": "bf16", "global_batch": 64,
     "tp": 2, "pp": 1, "dp": 4, "zero_stage": 3, "recompute": "full", "micro_batch": 1, "grad_accum": 16,
     "seq_len": "8k"},
    {"task": "finetune", "params": "7B", "method": "prefix", "prefix_tokens": 20, "offload": "params",
     "host_memory": "512GB", "failures": "1/50000h", "checkpoint": "1h", "restart": "10min"},
    {"task": "video", "streams": "16 cameras 1080p@29.97", "codec": "h265", "interval": 2, "objects": 4.5,
     "secondary": ["resnet-18"], "secondary_interval": 10, "tracker": "iou", "encode": "av1", "dla": True,
     "load": "80%", "power_mode": "15W", "edge": True, "gpus": ["orin"]},
    {"task": "hpc", "flops": 1.23456789e18, "bytes": "1.5PB", "memory": "123456789", "kernel": "fft",
     "exchange": "5%", "fp64": True},
    {"task": "inference", "params": "8x7b", "throughput": "1500 tok/s"},
    {"task": "pretrain", "gmacs": "4.1G", "params": "25.6M", "family": "cnn", "activations": "11M",
     "image_size": 224, "batch": 32, "tuned": True},
)  # fmt: skip


def read_back(text):
    """The workload of a command line, as the program reads one."""
    words, given = shlex.split(text), {}
    while words:
        name = words.pop(0).removeprefix("--").replace("-", "_")
        if name.removeprefix("no_") in Workload.model_fields and (not words or words[0].startswith("--")):
            given[name.removeprefix("no_")] = not name.startswith("no_")
            continue
        value = words.pop(0)
        is_list = kind_of(Workload.model_fields[name].annotation) == "list"
        given[name] = listed([value]) if is_list else value
    return Workload.from_mapping(given)


@pytest.mark.parametrize("given", [MONEY, SERVING, *OTHERS])
def test_a_command_asks_the_same_again(given):
    """Nothing that was given is lost or rounded."""
    work = Workload.from_mapping(given)
    again = read_back(command_flags(work))
    assert again.model_dump(exclude={"parse_notes"}) == work.model_dump(exclude={"parse_notes"})


def test_nearly_every_key_is_tried():
    """A new key gets a value above, unless another one already stands for its kind."""
    tried = {key for given in (MONEY, SERVING, *OTHERS) for key in given} | NOT_TYPED
    assert set(Workload.model_fields) - tried <= {
        "active_params", "series", "percentile", "steps", "fps", "resolution", "mig", "prefer", "ep", "cp",
    }  # fmt: skip
