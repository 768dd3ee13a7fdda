"""From an accelerator to the site of a search for networks of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuselect.calibration import Calibration, network_class
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
    "diffusers": "compiled",
}  # fmt: skip
SUBSTITUTES = {"fp16": ("fp16", "bf16", "fp32"), "bf16": ("bf16", "fp16", "fp32"), "tf32": ("tf32", "fp32"),
               "fp32": ("tf32", "fp32")}  # fmt: skip
ELEMENT_BYTES = {"fp32": 4.0, "tf32": 4.0, "int8": 1.0, "fp8": 1.0, "fp4": 0.5, "fp64": 8.0}
EVERY_COUNT = 16
LAUNCHES = {  # the others run a graph
    "pytorch": "eager", "tensorflow": "eager", "compiled": "compiled", "vendor-tuned": "tuned",
    "fastertransformer": "tuned",
}  # fmt: skip
HOST_LAUNCHES = frozenset({"eager", "compiled"})
TUNED = "vendor-tuned"
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


def network_device(
    accelerator: Accelerator, system: System | None, *, network: Network, precision: str, training: bool,
    calibration: Calibration,
) -> Device | None:  # fmt: skip
    """The accelerator with the achieved rates of this kind of network."""
    base = device(accelerator, system, precision=precision, serving=False, calibration=calibration)
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
    return replace(
        base, gemm_efficiency=efficiency * factor,
        bandwidth_efficiency=float(constants.bandwidth_efficiency) * factor,
    )  # fmt: skip


def inference_runtime(
    name: str, precision: str, calibration: Calibration, *, kind: str, edge: bool = False
) -> Runtime:
    """Constants of a runtime in a precision; `name` is a key of `network.runtime`.

    On an edge module the processor takes longer per operator; eager convolutions launch their norm
    and activation apart.
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
    per_operator = launches * float(constants.training_operator_s)
    if network.kind == "rnn":  # time steps run inside one fused kernel
        per_operator = float(constants.operator_s["recurrent"])
    size = 4.0 if precision in ("fp32", "tf32") else 2.0
    return Runtime(
        compute=factor, operator_s=per_operator, eager=True, element_bytes=size,
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
    found = network_device(
        accelerator, system, network=job.network, precision=precision, training=job.training,
        calibration=calibration,
    )  # fmt: skip
    if found is None:
        return None
    if job.training:
        engine, runtime = "", training_runtime(job.network, precision, calibration)
    else:
        engine, name = runtime_of(able)
        runtime = inference_runtime(
            name, precision, calibration, kind=job.network.kind, edge=accelerator.family == "edge"
        )
    find = site_counts if job.training else independent_counts
    counts = find(system, max_count=job.max_count, fixed=fixed)
    return Site(accelerator, system, found, counts, engine_id=engine, precision=precision, runtime=runtime)
