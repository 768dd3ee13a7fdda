"""Help of the workload flags, by the name of the field; a test keeps both in step."""

from __future__ import annotations

from collections.abc import Mapping

from gpuselect.i18n import _


def help_texts() -> Mapping[str, str]:
    """One line for each field of `Workload`."""
    return {
        **_model_helps(), **_training_helps(), **_serving_helps(), **_sample_helps(), **_money_helps(),
        **_hardware_helps(),
    }  # fmt: skip


def _model_helps() -> Mapping[str, str]:
    return {
        "task": _("pretrain, finetune, inference, video or hpc."),
        "model": _("Model of the catalog (gpuselect list models), or config.json, safetensors, GGUF file."),
        "params": _("Size instead of a model: 10B, 30B-A3B, 8x7b."),
        "series": _("Sizes of one network (yolo11, resnet): the most accurate that meets the bounds."),
        "active_params": _("Active parameters of a mixture of experts: 3B."),
        "method": _("full, lora, qlora or prefix (finetune)."),
        "precision": _("Number format of the arithmetic: bf16, fp16, fp8 ..."),
        "weights": _("Storage format of the weights: int4-awq, fp8 ..."),
        "kv": _("Format of the KV cache: fp8 ..."),
    }


def _training_helps() -> Mapping[str, str]:
    return {
        "tokens": _("Training tokens: 200B."),
        "samples": _("Training samples: 50k."),
        "epochs": _("Passes over the samples."),
        "mean_len": _("Mean length of a sample in tokens: 512."),
        "seq_len": _("Sequence length in tokens: 4096, 8k."),
        "global_batch": _("Sequences in one optimizer step: 1024."),
        "optimizer": _("adamw, adamw-8bit, adamw-bf16, adafactor, sgd, muon."),
        "lora_rank": _("Rank of the adapters: 16."),
        "prefix_tokens": _("Virtual tokens of prefix tuning: 20."),
        "deadline": _("The run must end within: 30d, 2 weeks."),
        "tp": _("Pin the tensor-parallel width."),
        "pp": _("Pin the number of pipeline stages."),
        "dp": _("Pin the data-parallel width."),
        "ep": _("Pin the expert-parallel width."),
        "cp": _("Pin the context-parallel width."),
        "zero_stage": _("Pin the ZeRO stage: 0 to 3."),
        "recompute": _(
            "Pin the recompute of activations: none, selective, full, or blocks of about sqrt(L) layers."
        ),
        "micro_batch": _("Pin the sequences of one forward pass."),
        "grad_accum": _("Pin the accumulation steps."),
        "offload": _(
            "Host memory for training states: optimizer or params (weights too); for layers of a served "
            "model that do not fit: cpu (llama.cpp); none."
        ),
        "host_memory": _("Host memory of one node: 512GB."),
        "failures": _("Training: failures of one accelerator: 1/50000h; with --checkpoint and --restart."),
        "replicas": _("Pin the number of serving replicas."),
    }


def _serving_helps() -> Mapping[str, str]:
    return {
        "input_tokens": _("Prompt length in tokens: 1024."),
        "output_tokens": _("Answer length in tokens: 256."),
        "concurrency": _("Requests at the same time: 32."),
        "users": _("Active users: 200."),
        "request_rate": _("Requests: 5/s."),
        "demand": _("Tokens to serve, prompts and answers: 10M tokens/day."),
        "throughput": _("Rate to reach: 2000 tokens/s written, 100 images/s, 5 requests/s."),
        "peak_factor": _("Peak load as a multiple of the mean: 3."),
        "ttft": _("Bound on the time to the first token: 500ms, p95<1s."),
        "tpot": _("Bound on the time per output token: 50ms, 30 tok/s."),
        "latency": _("Bound on the whole request: 200ms."),
        "percentile": _("Percentile of the bounds, p95; they are checked on means, and the answer says so."),
        "arrivals": _("How requests arrive: poisson, or bursty (gaps of twice the spread)."),
        "prefix_hits": _("Share of the prompt tokens that the prefix cache holds: 60%."),
        "acceptance": _("Speculative decoding: share of drafted tokens that are accepted: 70%."),
        "drafted": _("Tokens drafted for one step of speculative decoding: 4."),
    }


def _sample_helps() -> Mapping[str, str]:
    return {
        "batch": _("Samples in one batch on each accelerator: 32."),
        "gmacs": _("Multiply-accumulates of one sample of your own network: 4.1G; goes with --params."),
        "activations": _("Elements that its layers write for one sample: 11M."),
        "family": _("What it is: cnn, detector, vit, encoder, diffusion-unet, rnn ..."),
        "image_size": _("Side of the input image in pixels: 224, 640."),
        "steps": _("Denoising steps of a diffusion model: 30."),
        "tuned": _("A network as vendors tune it for MLPerf: an upper bound, not a default installation."),
        "streams": _("Camera streams to carry: 16, '16 cameras 1080p@25'."),
        "fps": _("Frames per second of a stream: 25."),
        "resolution": _("Size of a stream: 1080p, 1920x1080."),
        "codec": _("Codec of the streams: h264, h265, av1."),
        "interval": _("Frames without detection after each frame with one: 2."),
        "secondary": _("Models that run on each object: vehiclemakenet,resnet-18."),
        "secondary_interval": _("Frames until a tracked object is classified again: 10."),
        "objects": _("Objects in view, per frame: 4."),
        "tracker": _("none, iou (no work for the device) or nvdcf."),
        "encode": _("Streams are encoded again: h264, h265, av1."),
        "dla": _("Run the detector also on the DLA of an edge module (int8)."),
        "load": _("Share of a device's capacity that cameras may use: 90%."),
        "fp64": _("The code needs double precision (hpc)."),
        "flops": _("Arithmetic of the whole run: 1e18."),
        "bytes": _("Memory traffic of the whole run: 1e15, 1PB."),
        "memory": _("Memory of the whole run, over all accelerators: 200GB."),
        "kernel": _("Kind of code: dgemm, fft, stencil, spmv or md (mixed precision)."),
        "exchange": _("Share of the traffic that crosses between accelerators: 5%."),
    }


def _money_helps() -> Mapping[str, str]:
    return {
        "budget": _("At most: $5000, $2/h, $10k/month."),
        "exchange_rates": _("USD for one unit of the budget's currency: EUR=1.08."),
        "carbon_budget": _("At most so much CO2e in the run, or in a month of service: 500kg."),
        "acquire": _("rent, buy or any: the cheaper of both."),
        "term": _("Of the rent: on-demand, reserved-1y, reserved-3y or spot."),
        "region": _("Region of prices, electricity and carbon: eu, us-east-1, DE."),
        "utilization": _("Share of the time in use: 60%."),
        "years": _("Years of use when bought: 3."),
        "wacc": _("Cost of capital a year: 6%."),
        "residual": _("Resale at the end, share of the purchase: 20%."),
        "support": _("Support and maintenance a year, share of the purchase: 5%."),
        "spares": _("Spare parts and machines when bought, share of the purchase: 3%."),
        "licence": _("Software licences for each accelerator and year: $4500."),
        "staff": _("Staff for this deployment a year: $50k."),
        "colocation": _("Rack space when bought, per kW and month: $195; 0 in rooms of your own."),
        "electricity": _("Price of electricity when bought: 0.12 USD/kWh."),
        "pue": _("Power usage effectiveness of the building: 1.3."),
        "carbon": _("Carbon of the grid: 50 g/kWh."),
        "carbon_price": _("Price of carbon: $80/t."),
        "storage": _("Data kept in a rented cloud, or on storage that is bought: 10TB."),
        "egress": _("Data out of a rented cloud a month: 2TB."),
        "interruptions": _("How often one spot machine is taken away: 1/day."),
        "checkpoint": _("Time between checkpoints (spot machines, --failures): 30min."),
        "restart": _("Time to start again after an interruption: 15min."),
    }


def _hardware_helps() -> Mapping[str, str]:
    return {
        "have": _("Only these cards, which you own: 3x3090."),
        "reserve": _("Memory on each card that others use: 2GiB."),
        "gpus": _("Only these accelerators: h100,a100."),
        "exclude": _("Not these accelerators."),
        "vendors": _("Only these vendors: nvidia,amd."),
        "max_count": _("At most so many accelerators: 8."),
        "single_card": _("Exactly one accelerator."),
        "max_power_w": _("Power of one accelerator at most: 150, 75W."),
        "ecc": _("Error-correcting memory is required."),
        "mig": _("Instances that one card must split into: 4."),
        "tenants": _("Users that run this workload side by side, each on a share of a card: 7."),
        "isolation": _("Of the tenants: hardware (MIG, or a card each), software, any."),
        "power_mode": _("Power mode of an edge module: 30W."),
        "cooling": _("passive (no fan on the card), active or liquid."),
        "form_factor": _("pcie, sxm ..."),
        "edge": _("Only edge modules."),
        "frameworks": _("Only these frameworks: pytorch."),
        "framework_licence": _("Licences of the framework: permissive, any, or names: apache-2.0,mit."),
        "engine": _("Serving engine: vllm."),
        "prefer": _("balanced, cost, speed, energy, simplicity or risk."),
        "criterion_weights": _("Weights of the criteria: cost=0.5,speed=0.3."),
    }
