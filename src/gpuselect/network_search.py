"""Search over cards, counts and batches for networks of samples, video streams and codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from gpuselect.calibration import Calibration
from gpuselect.estimate.devices import device_table
from gpuselect.estimate.hpc import link_rate, run_time
from gpuselect.estimate.memory import Memory
from gpuselect.estimate.network import network_pixels
from gpuselect.estimate.network_memory import network_inference_memory, network_training_memory
from gpuselect.estimate.video import (
    NV12_BYTES,
    Streams,
    carried,
    decode_limit,
    latency,
    preprocess_time,
    tracker_time,
)
from gpuselect.estimate.vision import Pace, Runtime, inference_pace, training_pace
from gpuselect.network_job import CARD_BATCH, HpcJob, NetworkJob, VideoJob
from gpuselect.plan import FULL, Plan, take
from gpuselect.search import Found, Site, as_arrays, best_rows, candidates_of, nearest_misses
from gpuselect.units import GIB

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
FEW = (1, 2, 4, 8)  # images of a diffusion model
INPUT_CHANNELS = 3.0
FULL_BATCH = 32  # frames: what batching gains is said for it
LARGEST_SECONDARY_BATCH = 32.0  # objects that a secondary network is given at once


def _grid(sites: Sequence[Site], inner: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Site index, count and inner value (a batch) of every combination."""
    rows = [(n, c, b) for n, site in enumerate(sites) for c in site.counts for b in inner]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _runtime(sites: Sequence[Site], index: np.ndarray) -> Runtime:
    """The runtimes of the sites as arrays."""
    found = [site.runtime for site in sites]
    names = [field.name for field in fields(Runtime)]
    columns = {key: np.array([getattr(item, key) for item in found])[index] for key in names}
    return Runtime(**columns)


def _found(
    index: np.ndarray, plan: Plan, memory: Memory, usable: np.ndarray,
    work: Callable[[np.ndarray], tuple[Any, np.ndarray, np.ndarray]],
) -> Found:  # fmt: skip
    """Keep what fits, time it with `work` (record, cost, whether it is good) and take the best rows."""
    memory = as_arrays(memory, len(index))
    fits = memory.total <= usable
    misses = nearest_misses(index, plan, memory, usable, fits)
    if not fits.any():
        return Found((), *misses)
    record, cost, good = work(fits)
    index, plan, memory, usable = index[fits], take(plan, fits), take(memory, fits), usable[fits]
    best = best_rows(index, plan.count, np.where(good, 0.0, 1e30) + cost)
    best = best[good[best]]
    return Found(
        candidates_of(best, index, plan, memory, usable, pace=as_arrays(record, len(index))), *misses
    )


def _usable(sites: Sequence[Site], index: np.ndarray, reserve: float) -> np.ndarray:
    return np.asarray(np.array([site.device.usable_bytes for site in sites])[index] - reserve)


def search_inference(
    sites: Sequence[Site], job: NetworkJob, *, calibration: Calibration, reserve: float = 0.0
) -> Found:
    """For each site and count the batch of greatest throughput within the latency bound."""
    usual = FEW if job.network.kind == "diffusion" else BATCHES
    if not sites:
        return Found((), {}, {})
    index, count, batch = _grid(sites, [job.batch] if job.batch else usual)
    constants, runtime = calibration.network, _runtime(sites, index)
    memory = network_inference_memory(
        network=job.network, batch=batch, count=count, weight_bytes=runtime.weight_bytes,
        element_bytes=runtime.element_bytes, live_share=float(constants.live_activations),
        context_bytes=float(constants.context_gib) * GIB,
    )  # fmt: skip

    def work(fits: np.ndarray) -> tuple[Pace, np.ndarray, np.ndarray]:
        pace = inference_pace(
            network=job.network, device=device_table([s.device for s in sites], index[fits]),
            runtime=_runtime(sites, index[fits]), batch=batch[fits], count=count[fits],
        )  # fmt: skip
        good = np.ones(len(pace.seconds), dtype=bool)
        if job.latency_s is not None:
            good &= pace.seconds <= job.latency_s
        if job.request_rate is not None:
            good &= pace.rate >= job.request_rate
        return pace, -pace.rate, good

    plan = _plan(count, replicas=count, micro_batch=batch)
    return _found(index, plan, memory, _usable(sites, index, reserve), work)


def _plan(count: np.ndarray, **widths: Any) -> Plan:
    """A plan grid: the counts, the widths given, 1 elsewhere."""
    one = np.ones(len(count), dtype=np.int64)
    zero = np.zeros(len(count), dtype=np.int64)
    plan = Plan(count=count, tp=one, pp=one, dp=one, ep=one, cp=one, zero_stage=zero, recompute=zero,
                micro_batch=one, grad_accum=one, replicas=one)  # fmt: skip
    return replace(plan, **widths)


def _training_batches(job: NetworkJob) -> Sequence[int]:
    """Samples per card and pass to try: the one asked for, else halves of the usual one."""
    if job.batch:
        return [job.batch]
    usual = CARD_BATCH[job.network.kind]
    return [b for k in range(8) if (b := usual >> k) >= 1]


def search_network_training(
    sites: Sequence[Site], job: NetworkJob, *, calibration: Calibration, reserve: float = 0.0,
    pins: Mapping[str, int] | None = None,
) -> Found:  # fmt: skip
    """For each site and count the batch per card (and ZeRO-3 or not) of greatest throughput."""
    if not sites:
        return Found((), {}, {})
    index, count, batch = _grid(sites, _training_batches(job))
    accumulate = np.ones(len(count))
    if job.global_batch:
        accumulate = job.global_batch / (count * batch)
        whole = (accumulate >= 1) & (accumulate == np.floor(accumulate))
        index, count, batch, accumulate = index[whole], count[whole], batch[whole], accumulate[whole]
        if not len(index):
            return Found((), {}, {})
    pins = pins or {}
    levels = [pins["recompute"]] if "recompute" in pins else [0, FULL]
    choices = [(z, r) for z in (0, 3) for r in (levels if job.network.layers else [0])]
    rows = len(index)
    index, count, batch, accumulate = (np.tile(a, len(choices)) for a in (index, count, batch, accumulate))
    zero, recompute = (np.repeat(column, rows) for column in zip(*choices, strict=True))
    kept = zero == pins["zero_stage"] if "zero_stage" in pins else (zero == 0) | (count > 1)
    index, count, batch, accumulate, zero, recompute = (
        a[kept] for a in (index, count, batch, accumulate, zero, recompute)
    )
    constants = calibration.network
    memory = network_training_memory(
        network=job.network, batch=batch, count=count, sharded=np.where(zero == 3, count, 1),
        precision=job.precision, optimizer_bytes=job.optimizer_bytes,
        saved_copies=constants.saved_copies(job.network.kind), trained_share=job.trained_share,
        recompute=recompute > 0, context_bytes=float(constants.context_gib) * GIB,
    )  # fmt: skip

    def work(fits: np.ndarray) -> tuple[Pace, np.ndarray, np.ndarray]:
        pace = training_pace(
            network=job.network, device=device_table([s.device for s in sites], index[fits]),
            runtime=_runtime(sites, index[fits]), batch=batch[fits], count=count[fits],
            accumulate=accumulate[fits], sharded=zero[fits] == 3,
            link_efficiency=float(constants.link_efficiency), overlap=float(constants.overlap),
            scale_loss=float(constants.scale_loss), trained_share=job.trained_share,
            recompute=recompute[fits] > 0,
        )  # fmt: skip
        return pace, -pace.rate, np.ones(len(pace.seconds), dtype=bool)

    plan = _plan(
        count, dp=count, zero_stage=zero, recompute=recompute, micro_batch=batch,
        grad_accum=accumulate.astype(np.int64),
    )  # fmt: skip
    return _found(index, plan, memory, _usable(sites, index, reserve), work)


def search_video(
    sites: Sequence[Site], job: VideoJob, *, calibration: Calibration, reserve: float = 0.0
) -> Found:
    """For each site and count the batch with most streams; enough of them for the cameras asked for."""
    if not sites:
        return Found((), {}, {})
    index, count, batch = _grid(sites, BATCHES)
    memory = _video_memory(sites, index, count, batch, job, calibration)

    def work(fits: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        found = _streams(sites, index[fits], count[fits], batch[fits], job, calibration, reserve)
        bound = job.detector.latency_s
        good = (job.load * found.total >= job.streams) & (batch[fits] <= np.maximum(found.per_device, 1.0))
        if bound is not None:
            good &= found.frame_seconds <= bound
        return found, -found.total + 1e-6 * found.frame_seconds, good

    plan = _plan(count, replicas=count, micro_batch=batch)
    return _found(index, plan, memory, _usable(sites, index, reserve), work)


def _surface_bytes(job: VideoJob, calibration: Calibration) -> float:
    """Decoded frames that one stream keeps [B]."""
    return float(calibration.video.surfaces) * NV12_BYTES * job.width * job.height


def _video_memory(
    sites: Sequence[Site], index: np.ndarray, count: np.ndarray, batch: np.ndarray, job: VideoJob,
    calibration: Calibration,
) -> Memory:  # fmt: skip
    """Networks, their activations, and the frames of the streams that a device gets of those asked for."""
    constants, runtime = calibration.network, _runtime(sites, index)
    parts = [
        network_inference_memory(
            network=network, batch=batch, count=count, weight_bytes=runtime.weight_bytes,
            element_bytes=runtime.element_bytes, live_share=float(constants.live_activations),
            context_bytes=0.0,
        )
        for network in (job.detector.network, *(item.network for item in job.secondaries))
    ]  # fmt: skip
    rates = np.array([site.decode_pixels_per_s for site in sites])[index]
    held = np.minimum(np.ceil(job.streams / count), rates / (job.width * job.height * job.fps))
    return Memory(
        weights=sum(part.weights for part in parts),
        activations=sum(part.activations for part in parts) + held * _surface_bytes(job, calibration),
        overhead=float(constants.context_gib) * GIB + 0.0 * held,
    )


def _streams(
    sites: Sequence[Site], index: np.ndarray, count: np.ndarray, batch: np.ndarray, job: VideoJob,
    calibration: Calibration, reserve: float,
) -> Streams:  # fmt: skip
    """Every stage of the pipeline, and what it limits."""
    device, runtime = device_table([s.device for s in sites], index), _runtime(sites, index)
    column = {
        key: np.array([getattr(site, key) for site in sites])[index]
        for key in ("decode_pixels_per_s", "decoders", "encode_pixels_per_s", "dla_gain")
    }
    network, size = job.detector.network, {"width": job.width, "height": job.height, "fps": job.fps}
    pace, single, full = (
        inference_pace(network=network, device=device, runtime=runtime, batch=b, count=1)
        for b in (batch, np.ones_like(batch), np.full_like(batch, FULL_BATCH))
    )
    pixels = job.width * job.height
    resized = preprocess_time(
        pixels=pixels, input_elements=INPUT_CHANNELS * np.minimum(network_pixels(network), pixels),
        element_bytes=runtime.element_bytes, device=device,
    )  # fmt: skip
    on_gpu = np.array([site.accelerator.family != "edge" for site in sites])[index]  # modules: an engine
    resized = np.where(on_gpu & bool(network.operators), resized, 0.0)
    scaled = resized / (1.0 + job.interval)
    secondary = 0.0 * scaled
    for item in job.secondaries:
        together = np.clip(np.round(batch * item.per_frame), 1.0, LARGEST_SECONDARY_BATCH)
        rate = inference_pace(
            network=item.network, device=device, runtime=runtime, batch=together, count=1
        ).rate
        secondary = secondary + item.per_frame / rate
    tracker = tracker_time(objects=job.objects, bytes_per_object=job.tracker_bytes, device=device)
    fixed = _video_memory(sites, index, count, batch, replace(job, streams=0), calibration)
    return carried(
        decode=decode_limit(pixel_rate=column["decode_pixels_per_s"], engines=1, **size),
        encode=decode_limit(pixel_rate=column["encode_pixels_per_s"], engines=1, **size),
        memory=(device.usable_bytes - reserve - fixed.total) / _surface_bytes(job, calibration),
        fps=job.fps, interval=job.interval, count=count, pace=pace, preprocess=scaled,
        gain=full.rate / single.rate, secondary=secondary, tracker=tracker, dla_gain=column["dla_gain"],
        frame_seconds=latency(
            decode_rate=column["decode_pixels_per_s"] / column["decoders"], pixels=pixels, batch=batch,
            active=np.ceil(job.streams / count), fps=job.fps, seconds=pace.seconds,
            extra=resized + secondary + tracker,
        ),
    )  # fmt: skip


def search_hpc(
    sites: Sequence[Site], job: HpcJob, *, calibration: Calibration, reserve: float = 0.0
) -> Found:
    """For each site and count the roofline time of the code."""
    if not sites:
        return Found((), {}, {})
    index, count, _one = _grid(sites, [1])
    constants = calibration.network
    share = (job.memory_bytes or 0.0) / count
    memory = Memory(activations=share, overhead=float(constants.context_gib) * GIB + 0.0 * share)

    def work(fits: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        device = device_table([s.device for s in sites], index[fits])
        run = run_time(
            flops=job.flops, traffic=job.traffic, peak=device.peak, bandwidth=device.bandwidth,
            count=count[fits], compute_efficiency=job.compute or float(constants.hpc_efficiency),
            bandwidth_efficiency=float(constants.hpc_bandwidth), scale_loss=float(constants.scale_loss),
            exchange=job.exchange, overlap=float(constants.overlap),
            link=float(constants.link_efficiency) * link_rate(device, count[fits]),
        )  # fmt: skip
        return run, run.seconds, np.ones(len(run.seconds), dtype=bool)

    return _found(index, _plan(count, dp=count), memory, _usable(sites, index, reserve), work)
