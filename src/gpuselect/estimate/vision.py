"""Time of networks that work sample by sample: inference of a batch, and a training step.

Roofline per pass: multiply-accumulates at the achieved rate of the kind of network, elements
written at the achieved bandwidth, and a cost per operator of the runtime (feasibility study,
section 2.4, and training study, section 4). All constants are calibration (`NetworkConstants`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.estimate.collectives import all_reduce, all_to_all
from gpuselect.estimate.network import Network
from gpuselect.estimate.roofline import Device, soft_max_time

HIGHEST_SHARE = 0.9  # of a dense peak: no product in the rows reaches more
STREAM_BATCH = 8  # MLPerf inference rules since v2.0: a query of multi-stream has eight samples
OPTIMIZER_BYTES = 26.0  # per parameter: gradient, two states and master copy read, three written in fp32


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime with its precision on one card: factors and cost per operator.

    `compute` multiplies the achieved rate, `operator_s` is the time per operator [s], `eager` says
    that the host launches operators one by one beside the device, `element_bytes` the size of an
    activation, `weight_bytes` of a weight, `traffic` how often an element moves, `fused` the
    share of the spared elements that its kernels keep on the chip (1 with fused attention), `streams`
    that batches larger than a query are in flight side by side, so that launches of one hide behind the
    work of another.
    """

    compute: Any
    operator_s: Any
    eager: Any
    element_bytes: Any
    weight_bytes: Any
    traffic: Any
    fused: Any = 0.0
    streams: Any = False


@dataclass(frozen=True, slots=True)
class Pace:
    """Speed of a data-parallel job. Times are those of one batch (or training step) on one card [s]."""

    batch: Any  # samples per card
    seconds: Any
    compute: Any
    memory: Any
    host: Any
    communication: Any
    rate: Any  # samples per second of all cards


def achieved_rate(device: Device, runtime: Runtime) -> Any:
    """Rate of multiplications and additions [flop/s], never above the highest share of the peak."""
    return device.peak * np.minimum(device.gemm_efficiency * runtime.compute, HIGHEST_SHARE)


def pass_time(*, network: Network, device: Device, runtime: Runtime, batch: Any) -> tuple[Any, Any, Any]:
    """Compute, memory and host time of one forward pass of a batch on one card [s].

    compute = 2 MACs B / (peak * efficiency); memory = (B * activations * bytes * traffic + weights +
    recurrent weights of every time step + lookups) / bandwidth; host = operators * time per operator.
    """
    bandwidth = device.bandwidth * device.bandwidth_efficiency
    compute = 2.0 * network.macs * batch / achieved_rate(device, runtime)
    written = network.activations - runtime.fused * network.spared_elements
    elements = written * runtime.element_bytes * runtime.traffic * batch
    read = network.dense_params + network.recurrent_macs + network.lookups * batch
    memory = (elements + read * runtime.weight_bytes) / bandwidth
    return compute, memory, network.operators * runtime.operator_s


def with_host(*, device_time: Any, host: Any, eager: Any) -> Any:
    """Device and host time together [s].

    A graph adds its cost per operator; an eager host runs beside the device, so the longer counts.
    """
    return np.where(eager, soft_max_time(compute=device_time, memory=host), device_time + host)


def inference_pace(
    *, network: Network, device: Device, runtime: Runtime, batch: Any, count: Any, request_s: Any = 0.0
) -> Pace:
    """Time of one batch and throughput of `count` cards that serve independently.

    Passes repeat the whole; tokens of a transcript or translation come one after another, each
    reading the decoder's weights once per batch. `request_s` is the fixed cost of a request [s].
    """
    compute, memory, host = pass_time(
        network=network, device=device, runtime=runtime, batch=batch * network.guidance
    )
    rate = achieved_rate(device, runtime)
    beside = np.logical_or(runtime.eager, np.logical_and(runtime.streams, batch > STREAM_BATCH))
    bandwidth = device.bandwidth * device.bandwidth_efficiency
    one_pass = with_host(device_time=soft_max_time(compute=compute, memory=memory), host=host, eager=beside)
    once = 2.0 * network.once_macs * batch / rate
    per_token = with_host(
        device_time=soft_max_time(
            compute=2.0 * network.decoder_params * batch / rate,
            memory=network.decoder_params * runtime.weight_bytes / bandwidth,
        ),
        host=network.decoder_operators * runtime.operator_s,
        eager=beside,
    )
    seconds = network.passes * one_pass + once + network.generated * per_token + request_s
    return Pace(
        batch=batch, seconds=seconds, compute=network.passes * compute + once,
        memory=network.passes * memory, host=network.passes * host, communication=0.0 * seconds,
        rate=count * batch / seconds,
    )  # fmt: skip


def ring_bandwidth(device: Device, count: Any) -> Any:
    """One way through the slowest hop of a ring [byte/s]: domain, node (PCIe beyond a bridge), network."""
    across = np.minimum(device.link, device.network * device.per_node)
    inside = np.where(count <= device.per_node, np.minimum(device.link, device.peer), across)
    return np.where(count <= device.domain, device.link, inside)


def training_pace(
    *,
    network: Network,
    device: Device,
    runtime: Runtime,
    batch: Any,
    count: Any,
    accumulate: Any = 1.0,
    sharded: Any = False,
    link_efficiency: Any,
    overlap: Any,
    scale_loss: Any,
    trained_share: float = 1.0,
    recompute: Any = False,
) -> Pace:
    """Time of one optimizer step and throughput of `count` data-parallel cards.

    A training pass costs three forward passes of arithmetic (forward, gradient of the input, gradient of
    the weights, the last for the `trained_share` of them only), four with full recomputation;
    `runtime.traffic` counts all movements of an element. Gradients are reduced in the shadow of the
    backward pass up to `overlap` of the step; embedding tables are sharded and exchanged by an all-to-all
    of their rows.
    """
    forward, memory, host = pass_time(network=network, device=device, runtime=runtime, batch=batch)
    passes = 2.0 + trained_share + np.where(recompute, 1.0, 0.0)
    compute, memory = passes * forward, passes / 3.0 * memory
    decoder = (
        2.0 * passes * network.decoder_params * network.generated * batch / achieved_rate(device, runtime)
    )
    work = compute + decoder + memory
    step = accumulate * with_host(device_time=work, host=3.0 * host, eager=runtime.eager)
    trained = trained_share * network.dense_params
    step = step + OPTIMIZER_BYTES * trained / (device.bandwidth * device.bandwidth_efficiency)
    bandwidth = ring_bandwidth(device, count)
    sync = all_reduce(size=trained * 2.0 * 2.0, ranks=count, bandwidth=bandwidth * link_efficiency)
    rows = all_to_all(
        size=2.0 * network.pooled_bytes * batch * accumulate, ranks=count,
        bandwidth=bandwidth * link_efficiency,
    )  # fmt: skip
    gathers = np.where(sharded, accumulate, 0.0) * sync / trained_share  # ZeRO-3: two a pass, of all weights
    exposed = np.maximum(sync + gathers - overlap * step, 0.0) + rows
    seconds = (step + exposed) * (1.0 + scale_loss * np.log2(np.maximum(count, 1)))
    return Pace(
        batch=batch * accumulate, seconds=seconds, compute=accumulate * (compute + decoder),
        memory=accumulate * memory, host=3.0 * accumulate * host, communication=exposed,
        rate=count * batch * accumulate / seconds,
    )  # fmt: skip
