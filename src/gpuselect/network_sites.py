"""From an accelerator to the site of a search for networks of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuselect.calibration import Calibration, network_class, serving_class
from gpuselect.catalog import Accelerator, Framework, System
from gpuselect.estimate.devices import device, peak_tflops
from gpuselect.estimate.network import Network
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.vision import Runtime
from gpuselect.network_job import NetworkJob
from gpuselect.plan import node_counts
from gpuselect.search import Site, site_counts

# frameworks whose speed is calibrated as a runtime of its own, the fastest first; others are `other`
RUNTIMES = {
    "tensorrt": "tensorrt", "deepstream": "tensorrt", "neuron": "neuron", "pytorch": "compiled",
    "diffusers": "compiled", "torch-inductor": "compiled", "onnx-runtime": "compiled", "openvino": "compiled",
    "xla": "compiled", "jax": "compiled", "optimum-habana": "compiled", "tensorflow": "tensorflow",
    "tf-serving": "tensorflow", "transformers": "pytorch", "torchserve": "pytorch",
}  # fmt: skip
SUBSTITUTES = {"fp16": ("fp16", "bf16", "fp32"), "bf16": ("bf16", "fp16", "fp32"), "tf32": ("tf32", "fp32"),
               "fp32": ("tf32", "fp32")}  # fmt: skip
ELEMENT_BYTES = {"fp32": 4.0, "tf32": 4.0, "int8": 1.0, "fp8": 1.0, "fp4": 0.5, "fp64": 8.0}
EVERY_COUNT = 16
LAUNCHES = {  # the others run a graph
    "pytorch": "eager", "tensorflow": "eager", "compiled": "compiled", "vendor-tuned": "tuned",
    "fastertransformer": "tuned", "neuron": "static",
}  # fmt: skip
HOST_LAUNCHES = frozenset({"eager", "compiled"})
TUNED = "vendor-tuned"
SUMS_16_BIT = frozenset({"tensorrt", TUNED})
TENSOR_PRECISIONS = frozenset({"fp16", "bf16", "tf32", "int8", "fp8", "fp4"})  # of the matrix units
CONV_KINDS = frozenset({"cnn", "detector"})


def network_precision(accelerator: Accelerator, job: NetworkJob) -> str:
    """The precision on this card: a default falls back to what the card has, a given one does not.

    fp32 runs as TF32 where the card has it, as frameworks do by default for convolutions.
    """
    wanted = job.precision
    usual = SUBSTITUTES.get(wanted, (wanted,))
    allowed = usual if not job.precision_given or wanted == "fp32" else usual[:1]
    if wanted in ("fp16", "bf16") and job.precision_given:
        allowed = (wanted,)
    return next((p for p in allowed if peak_tflops(accelerator, p) is not None), wanted)


def generation_of(accelerator: Accelerator) -> str:
    """Key of the generation constants: the architecture in lower case."""
    return accelerator.architecture.lower().replace(" ", "-")


def power_density(accelerator: Accelerator) -> float:
    """Power limit over the peak of the matrix units in 16 bit [W per TFLOP/s]; infinite without a limit.

    Half the 8-bit rate stands for 16 bit where it is higher (GeForce halves the rate of 32-bit sums). Edge
    modules have power modes of their own.
    """
    sixteen = max(peak_tflops(accelerator, "fp16") or 0.0, (peak_tflops(accelerator, "int8") or 0.0) / 2.0)
    if accelerator.vendor != "nvidia" or accelerator.family == "edge" or not sixteen:
        return math.inf
    return float(accelerator.power_w or math.inf) / sixteen


def power_share(*, need: Any, density: Any) -> Any:
    """Share of its clock that a card holds under full load, from what the peak needs and what it has [W].

    >>> round(float(power_share(need=1.0, density=1.0)), 2)
    0.71
    """
    return 1.0 / np.sqrt(1.0 + (need / density) ** 2)


def network_device(
    accelerator: Accelerator, system: System | None, *, network: Network, precision: str, training: bool,
    calibration: Calibration, runtime: str = "", full_load: bool = True,
) -> Device | None:  # fmt: skip
    """The accelerator with the achieved rates of this kind of network.

    `full_load`: all of its units work, so that its power limit binds. TensorRT sums 16-bit products in 16
    bit: ResNet-152 exceeds the rate of 32-bit sums on RTX 3060.
    """
    multiplied = "fp16_acc16" if runtime in SUMS_16_BIT and precision == "fp16" else precision
    base = device(accelerator, system, precision=multiplied, serving=False, calibration=calibration)
    if base is None:
        return None
    constants = calibration.network
    shares = constants.training_efficiency if training else constants.inference_efficiency
    relative = constants.training_precision if training else constants.precision
    classes = constants.training_hardware if training else constants.hardware
    generations = constants.training_generation if training else constants.generation
    models = constants.training_model if training else constants.model
    factor = float(generations.get(generation_of(accelerator), 1.0)) * float(models.get(network.id, 1.0))
    efficiency = (
        float(shares[network.kind]) * float(relative.get(precision, relative["fp8"]))
        * float(classes[network_class(accelerator)])
    )  # fmt: skip
    if full_load and not training and precision in TENSOR_PRECISIONS:
        need = float(constants.power_need.get(generation_of(accelerator), 0.0))
        efficiency *= float(power_share(need=need, density=power_density(accelerator)))
    return replace(
        base, gemm_efficiency=efficiency * factor,
        bandwidth_efficiency=float(constants.bandwidth_efficiency[serving_class(accelerator)]) * factor,
    )  # fmt: skip


def inference_runtime(
    name: str, precision: str, calibration: Calibration, *, kind: str, edge: bool = False, fused: bool = True
) -> Runtime:
    """Constants of a runtime in a precision; `name` is a key of `network.runtime`.

    `fused`: attention keeps its scores on the chip, as PyTorch does since 2.0. On an edge module the
    processor takes longer per operator; eager convolutions launch their norm and activation apart.
    """
    constants = calibration.network
    launch = LAUNCHES.get(name, "graph")
    size = ELEMENT_BYTES.get(precision, 2.0)
    slower = float(constants.edge_operator) if edge else 1.0
    if launch == "eager" and kind in CONV_KINDS:
        slower *= float(constants.conv_operator)
    per_operator = float(constants.operator_s["recurrent" if kind == "rnn" else launch])
    gain = float(constants.tuned.get(kind, 1.0)) if name == TUNED else 1.0
    return Runtime(
        compute=float(constants.runtime[name]) * gain,
        operator_s=slower * per_operator, eager=launch in HOST_LAUNCHES,
        element_bytes=size, weight_bytes=size, traffic=float(constants.inference_traffic[launch]),
        fused=float(fused), streams=name == TUNED,
    )  # fmt: skip


def training_runtime(
    network: Network, precision: str, calibration: Calibration, *, name: str = "pytorch"
) -> Runtime:
    """Constants of a training step in a precision; `name` is a key of `network.training_runtime`.

    A better stack computes faster and moves less by the same factor (fused operators).
    """
    constants = calibration.network
    factor = float(constants.training_runtime[name])
    if name == TUNED:
        factor *= float(constants.training_tuned.get(network.kind, 1.0))
    launches = float(constants.training_conv_operator) if network.kind in CONV_KINDS else 1.0
    graph = name == TUNED  # submissions capture the step in a CUDA graph: no host launches its kernels
    launch = constants.operator_s["tuned"] if graph else constants.training_operator_s
    per_operator = launches * float(launch)
    if network.kind == "rnn":  # time steps run inside one fused kernel
        per_operator = float(constants.operator_s["training-recurrent"])
    size = 4.0 if precision in ("fp32", "tf32") else 2.0
    return Runtime(
        compute=factor, operator_s=per_operator, eager=not graph, element_bytes=size,
        weight_bytes=size, traffic=float(constants.training_traffic[network.kind]) / factor,
    )  # fmt: skip


def runtime_of(able: Sequence[Framework], *, first: str = "") -> tuple[str, str]:
    """Framework and runtime key: `first`, else the first of RUNTIMES that is able, else the best supported.

    >>> runtime_of([])
    ('', 'other')
    """
    ids = [framework.id for framework in able]
    for name in (first, *RUNTIMES):
        if name in ids:
            return name, RUNTIMES[name]
    return (ids[0] if ids else ""), "other"


def independent_counts(system: System | None, *, max_count: int, fixed: int | None) -> tuple[int, ...]:
    """Counts to try where cards work on their own: every one up to 16, then whole nodes.

    >>> independent_counts(None, max_count=5, fixed=None)
    (1, 2, 3, 4, 5)
    """
    if fixed is not None:
        return (fixed,)
    per_node = int(system.accelerators_per_node) if system else 1
    larger = node_counts(per_node=per_node, max_nodes=None, max_count=max_count)
    return (*range(1, min(max_count, EVERY_COUNT) + 1), *(n for n in larger if n > EVERY_COUNT))


def network_site(
    accelerator: Accelerator, system: System | None, job: NetworkJob, able: Sequence[Framework],
    calibration: Calibration, fixed: int | None,
) -> Site | None:  # fmt: skip
    """The site of a network job, None when a figure is unknown."""
    precision = network_precision(accelerator, job)
    engine, name = ("", "pytorch") if job.training else runtime_of(able)
    name = TUNED if job.tuned else name
    found = network_device(
        accelerator, system, network=job.network, precision=precision, training=job.training,
        calibration=calibration, runtime="" if job.training else name,
    )  # fmt: skip
    if found is None:
        return None
    if job.training:
        runtime = training_runtime(job.network, precision, calibration, name=name)
    else:
        runtime = inference_runtime(
            name, precision, calibration, kind=job.network.kind, edge=accelerator.family == "edge"
        )
    find = site_counts if job.training else independent_counts
    counts = find(system, max_count=job.max_count, fixed=fixed)
    return Site(accelerator, system, found, counts, engine_id=engine, precision=precision, runtime=runtime)
