"""From an accelerator to the site of a video or scientific job: its codec engines, its DLA, its rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, Codec, Framework, System
from gpuselect.decision import Note
from gpuselect.estimate.devices import device
from gpuselect.hpc_job import hpc_precision
from gpuselect.i18n import _
from gpuselect.network_job import HpcJob, VideoJob
from gpuselect.network_sites import (
    generation_of,
    independent_counts,
    inference_runtime,
    network_site,
    runtime_of,
)
from gpuselect.provenance import Figure
from gpuselect.search import Site, site_counts

STREAM_PIXELS_PER_S = 1920.0 * 1080.0 * 30.0
HPC_SOFTWARE = frozenset({"cuda", "rocm", "oneapi", "cpu", "xpu", "openvino"})
NVDEC_FAMILIES = frozenset({"datacenter", "workstation", "consumer", "superchip"})
# architectures all of whose boards carry at least one decoder of H.264 and HEVC (NVDEC application note)
NVDEC_ARCHITECTURES = frozenset(
    {"pascal", "volta", "turing", "ampere", "ada-lovelace", "hopper", "blackwell"}
)


def decoders_of(accelerator: Accelerator) -> tuple[float | None, bool]:
    """Decode engines of a card, and whether one is assumed because nobody counted them."""
    if accelerator.decode_engines is not None:
        return float(accelerator.decode_engines), False
    known = generation_of(accelerator) in NVDEC_ARCHITECTURES and accelerator.family in NVDEC_FAMILIES
    return (1.0, True) if accelerator.vendor == "nvidia" and known else (None, False)


def _from_counts(counts: Mapping[Codec, Figure], codec: str, rates: Mapping[str, Figure]) -> float | None:
    """Pixel rate of a count of 1080p30 streams; of the other codec, by the ratio of the rates."""
    known = {str(name): float(count) * STREAM_PIXELS_PER_S for name, count in counts.items()}
    if codec in known:
        return known[codec]
    other = next((c for c in ("h265", "h264") if c in known and c in rates and codec in rates), None)
    return None if other is None else known[other] * float(rates[codec]) / float(rates[other])


def decode_pixels_per_s(accelerator: Accelerator, codec: str, calibration: Calibration) -> float | None:
    """Pixels per second that all decode engines manage, None where engines or codec are unknown.

    By engine 2500 MP/s (HEVC) and 1500 MP/s (H.264), Turing at about 0.6 of it. Edge modules: streams seen in
    whole pipelines, else the maker's own count; of the other codec at the ratio of the two rates. The
    counts of server cards are informal upper bounds and are not used.
    """
    rates = calibration.network.decode_pixels_per_s
    if accelerator.family == "edge":
        for counts in (accelerator.decode_measured_1080p30, accelerator.decode_streams_1080p30):
            found = _from_counts(counts, codec, rates)
            if found is not None:
                return found
    engines, _assumed = decoders_of(accelerator)
    if engines is None or codec not in rates:
        return None
    turing = calibration.network.turing_decode if accelerator.architecture == "Turing" else {}
    return engines * float(rates[codec]) * float(turing.get(codec, 1.0))


def encode_pixels_per_s(accelerator: Accelerator, codec: str, calibration: Calibration) -> float | None:
    """Pixels per second that all encode engines manage, 0 without one, None where that is unknown."""
    rates = calibration.video.encode_pixels_per_s
    found = _from_counts(accelerator.encode_streams_1080p30, codec, rates)
    if found is not None:
        return found
    if accelerator.encode_engines is None or codec not in rates:
        return None
    return float(accelerator.encode_engines) * float(rates[codec])


def video_gap(accelerator: Accelerator, job: VideoJob, calibration: Calibration) -> Note | None:
    """Why a card cannot take part in a video pipeline: no engine for a codec, or none known."""
    rate = decode_pixels_per_s(accelerator, job.codec, calibration)
    if rate == 0.0:
        return Note("decoder-missing", _("its share of the card has no decoder"))
    if rate is None:
        text = _("no decode rate for {codec} is known for it").format(codec=job.codec)
        return Note("decoder-unknown", text)
    if job.encode:
        rate = encode_pixels_per_s(accelerator, job.encode, calibration)
        if rate == 0.0:
            return Note("encoder-missing", _("it has no hardware encoder"))
        if rate is None:
            text = _("no encode rate for {codec} is known for it").format(codec=job.encode)
            return Note("encoder-unknown", text)
    return None


def dla_gain(accelerator: Accelerator, precision: str, calibration: Calibration) -> float:
    """Rate of a network on GPU and DLA engines together, against the GPU alone; int8 only."""
    gpu, dla = accelerator.dense_tflops.get("int8"), accelerator.dla_int8_tops
    if precision != "int8" or not gpu or not dla:
        return 1.0
    return 1.0 + float(calibration.video.dla) * float(dla) / float(gpu)


def video_site(
    accelerator: Accelerator, system: System | None, job: VideoJob, able: Sequence[Framework],
    calibration: Calibration, fixed: int | None,
) -> Site | None:  # fmt: skip
    """The site of a video job, None when a figure is unknown; `video_gap` has passed it."""
    site = network_site(accelerator, system, job.detector, able, calibration, fixed)
    decode = decode_pixels_per_s(accelerator, job.codec, calibration)
    if site is None or decode is None:
        return None
    encode = encode_pixels_per_s(accelerator, job.encode, calibration) if job.encode else float("inf")
    factor = float(calibration.video.generation.get(generation_of(accelerator), 1.0))
    engine, _runtime = runtime_of(able, first="deepstream")
    engines, _assumed = decoders_of(accelerator)
    if "cuda" in accelerator.software:  # older modules keep the older releases of TensorRT and DeepStream
        runtime = inference_runtime(
            "tensorrt", site.precision, calibration, kind=job.detector.network.kind,
            edge=accelerator.family == "edge",
        )  # fmt: skip
        site = replace(site, runtime=runtime)
    return replace(
        site, device=replace(site.device, gemm_efficiency=site.device.gemm_efficiency * factor),
        counts=independent_counts(system, max_count=job.max_count, fixed=fixed), engine_id=engine,
        decode_pixels_per_s=decode, decoders=engines or 1.0, encode_pixels_per_s=encode or 0.0,
        dla_gain=dla_gain(accelerator, site.precision, calibration) if job.dla else 1.0,
    )  # fmt: skip


def hpc_site(
    accelerator: Accelerator, system: System | None, job: HpcJob, calibration: Calibration,
    fixed: int | None,
) -> Site | None:  # fmt: skip
    """The site of a scientific code, None when a figure is unknown."""
    precision = hpc_precision(accelerator, job)
    found = device(accelerator, system, precision=precision, serving=False, calibration=calibration)
    if found is None:
        return None
    counts = site_counts(system, max_count=job.max_count, fixed=fixed)
    return Site(accelerator, system, found, counts, precision=precision)
