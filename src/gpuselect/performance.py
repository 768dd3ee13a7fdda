"""What a candidate achieves, metric by metric, each with its 80 % interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from gpuselect.calibration import Calibration, Quantiles
from gpuselect.decision import Estimate, Note
from gpuselect.deployment import covered
from gpuselect.estimate.goodput import goodput
from gpuselect.estimate.hpc import Run
from gpuselect.estimate.memory_recipe import ADAPTERS
from gpuselect.estimate.serving import Serving
from gpuselect.estimate.shape import training_flops
from gpuselect.estimate.training import StepTime, mfu
from gpuselect.estimate.video import Streams, bottleneck
from gpuselect.estimate.vision import Pace
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.network_job import HpcJob, Job, NetworkJob, VideoJob
from gpuselect.search import Candidate, Site
from gpuselect.units import DAYS, GIB, TFLOP
from gpuselect.video_sites import decoders_of, dla_gain

TIGHT_STREAMS = 0.9  # feasibility study, section 8: a tenth of the capacity is kept free
RECURRENT = "transformer-xl"  # a decoder of its own kind: its measured rows scatter more
MOST_STREAMS = 1e5  # a larger limit is none
MEASURED_PIPELINES = ("deepstream", "tensorrt")


def rate(value: float, quantiles: Quantiles) -> Estimate:
    """A rate with its 80 % interval: value * measured/predicted quantiles."""
    return Estimate(value, value * quantiles.low, value * quantiles.high)


def duration(value: float, quantiles: Quantiles) -> Estimate:
    """A time with its 80 % interval: the reciprocal of the rate's."""
    return Estimate(value, value / quantiles.high, value / quantiles.low)


MOST_MEASURED = 1024  # accelerators of a run: beyond, only submissions to MLPerf were measured


def training_performance(
    candidate: Candidate, site: Site, job: TrainingJob, calibration: Calibration
) -> dict[str, Estimate]:
    """Step time, throughput, MFU and time to train with intervals."""
    step = cast("StepTime", candidate.step)
    known = covered(site.accelerator, calibration)
    adapter = job.method in ADAPTERS
    own = "lora" if job.method == "prefix" else job.method  # nobody measured it
    plain = "recurrent" if job.label.startswith(RECURRENT) else "dense"
    kind = "moe" if job.shape.n_experts else own if adapter else plain
    seconds, count = float(step.total), float(candidate.plan.count)
    measured = adapter or (known and count <= MOST_MEASURED)
    quantiles = calibration.quantiles[f"training-{kind if measured else 'uncovered'}"]
    step_tokens = float(job.global_batch * job.seq_len)
    tokens_per_s = step_tokens / seconds
    flops = float(training_flops(shape=job.shape, tokens=step_tokens, seq_len=job.seq_len))
    utilisation = float(mfu(flops=flops, seconds=seconds, count=count, peak=float(site.device.peak)))
    useful = float(goodput(count=count, failures=job.failures, lost=job.lost_h))
    shares = {"goodput": Estimate(useful, useful, useful)} if job.failures else {}
    return {
        "step_time_s": duration(seconds, quantiles),
        "tokens_per_s": rate(tokens_per_s, quantiles),
        "tokens_per_s_per_accelerator": rate(tokens_per_s / count, quantiles),
        "mfu": rate(utilisation, quantiles),
        "time_to_train_days": duration(job.tokens / tokens_per_s / useful / 86_400.0, quantiles), **shares,
    }  # fmt: skip


def serving_performance(candidate: Candidate, calibration: Calibration) -> dict[str, Estimate]:
    """TTFT, TPOT, latency and rates with intervals.

    TTFT is that of an idle server; with arrivals the mean under their load, whose waiting part has no
    validated interval (`load_notes` says so).
    """
    state = cast("Serving", candidate.serving)
    alone = state.batch <= 1
    of = calibration.quantiles
    step, whole, load = (
        (of["decode"], of["single-stream"], of["single-stream"])
        if alone
        else (of["tpot"], of["tpot"], of["throughput"])
    )
    first = state.ttft_unloaded if candidate.load is None else candidate.load.ttft
    wait = max(first - state.ttft_unloaded, 0.0)
    return {
        "ttft_ms": duration(1e3 * first, of["prefill"]),
        "tpot_ms": duration(1e3 * state.tpot, step),
        "latency_ms": duration(1e3 * (state.latency + wait), whole),
        "tok_s_per_user": rate(1.0 / state.tpot, step),
        "output_tok_s": rate(state.output_tokens_per_s, load),
        "requests_per_s": rate(state.requests_per_s, load),
    }


def load_notes(candidate: Candidate, job: Job) -> tuple[Note, ...]:
    """State of the queue and the tail of the time to first token, for a server with arrivals."""
    load = candidate.load
    if not isinstance(job, ServingJob):
        return ()
    notes = _host_notes(candidate, job)
    if load is None:
        return notes
    text = _(
        "uses {used:.0f} % of its capacity; time to first token under this load {mean:.0f} ms, "
        "{name} {tail:.0f} ms: modelled, not validated"
    ).format(
        used=100.0 * load.utilisation, mean=1e3 * load.ttft, tail=1e3 * load.ttft_tail,
        name=f"p{100.0 * job.percentile:g}",
    )  # fmt: skip
    return (*notes, Note("queue-stable", text))


def _host_notes(candidate: Candidate, job: ServingJob) -> tuple[Note, ...]:
    """The layers that stay in host memory."""
    share = cast("Serving", candidate.serving).on_host
    if not share:
        return ()
    text = _(
        "{n} of {layers} layers stay in host memory, {gib:.3g} GiB, and the processor reads them at an "
        "assumed rate: modelled, not validated"
    ).format(
        n=round(share * job.shape.n_layers), layers=job.shape.n_layers, gib=share * job.weight_bytes / GIB
    )
    return (Note("layers-on-host", text),)


def step_shares(candidate: Candidate) -> dict[str, float]:
    """Terms of the step time in seconds."""
    step = cast("StepTime", candidate.step)
    away = {"offload": step.offload} if candidate.plan.offload else {}
    return {
        "linear": step.linear, "attention": step.attention, "elementwise": step.elementwise,
        "tensor_parallel": step.tensor_parallel, "expert_parallel": step.expert_parallel,
        "host": step.host, "bubble": step.bubble, "gradient_sync": step.gradient_sync,
        "optimizer": step.optimizer, **away,
    }  # fmt: skip


def network_performance(
    candidate: Candidate, job: NetworkJob, calibration: Calibration
) -> dict[str, Estimate]:
    """Samples per second, latency of a batch or step time, and time to train."""
    pace = cast("Pace", candidate.pace)
    quantiles = calibration.quantiles["network-training" if job.training else "network-inference"]
    rates = {f"{job.unit}_per_s": rate(pace.rate, quantiles)}
    if job.training:
        days = job.samples / pace.rate / DAYS
        return {
            "step_time_s": duration(pace.seconds, quantiles), **rates,
            "time_to_train_days": duration(days, quantiles),
        }  # fmt: skip
    latency = calibration.quantiles["network-latency"]
    found = {**rates, "latency_ms": duration(1e3 * pace.seconds, latency)}
    if job.network.clip_seconds:
        found["realtime_factor"] = rate(pace.rate * job.network.clip_seconds, quantiles)
    return found


def video_performance(candidate: Candidate, job: VideoJob, calibration: Calibration) -> dict[str, Estimate]:
    """Streams that all devices carry, and the time of a batch of frames in the detector."""
    found = cast("Streams", candidate.pace)
    decode, detector = calibration.quantiles["video-decode"], calibration.quantiles["network-inference"]
    limit = detector if bottleneck(found) == "gpu" else decode
    latency = calibration.quantiles["network-latency"]
    metrics = {
        "streams": rate(found.total, limit),
        "frames_per_s": rate(found.total * job.fps, limit),
        "latency_ms": duration(1e3 * found.frame_seconds, latency),
    }
    metrics["batching_gain"] = Estimate(*[float(found.batching_gain)] * 3)
    return metrics


def video_notes(candidate: Candidate, job: Job, site: Site, calibration: Calibration) -> tuple[Note, ...]:
    """The limit of every stage, which one decides, and how full the devices are."""
    found = candidate.pace
    if not isinstance(found, Streams) or not isinstance(job, VideoJob):
        return ()
    limits = {
        "decode": (_("decoder"), found.decode_limit), "gpu": (_("GPU"), found.inference_limit),
        "encode": (_("encoder"), found.encode_limit), "memory": (_("memory"), found.memory_limit),
    }  # fmt: skip
    first = bottleneck(found)
    others = _(", ").join(f"{n} {v:.0f}" for k, (n, v) in limits.items() if k != first and v < MOST_STREAMS)
    text = _("the {stage} limits a device to {n:.0f} streams ({others})").format(
        stage=limits[first][0], n=limits[first][1], others=others
    )
    idle = dla_gain(site.accelerator, site.precision, calibration)
    if first == "gpu" and idle > 1.0 and not job.dla:
        text += _("; its DLA engines would speed the detector up by {p:.0f} % (--dla)").format(
            p=100 * (idle - 1.0)
        )
    notes = [Note("bottleneck", text)]
    used = job.streams / found.total if found.total else 0.0
    if TIGHT_STREAMS < used <= 1.0:
        text = _("uses {p:.0f} % of the capacity of its devices").format(p=100 * used)
        notes.append(Note("streams-tight", text))
    if decoders_of(site.accelerator)[1] and site.accelerator.family != "edge":
        text = _("its decode engines were not counted: one is assumed")
        notes.append(Note("decoder-assumed", text))
    if "cuda" in site.accelerator.software and site.engine_id not in MEASURED_PIPELINES:
        text = _("the rates are those of pipelines in TensorRT: none in {name} was measured")
        notes.append(Note("pipeline-unmeasured", text.format(name=site.engine_id or _("another framework"))))
    return tuple(notes)


def hpc_performance(candidate: Candidate, job: HpcJob, calibration: Calibration) -> dict[str, Estimate]:
    """Time of the run and achieved arithmetic; the interval is an assumption, no code was measured."""
    run = cast("Run", candidate.pace)
    quantiles = calibration.quantiles["hpc"]
    found = {"run_time_h": duration(run.seconds / 3600.0, quantiles)}
    if job.flops:
        found["tflops"] = rate(run.flops_per_s / TFLOP, quantiles)
    return found


def performance_of(
    candidate: Candidate, site: Site, job: Job, calibration: Calibration
) -> dict[str, Estimate]:
    """The metrics that the task has."""
    match job:
        case ServingJob():
            return serving_performance(candidate, calibration)
        case TrainingJob():
            return training_performance(candidate, site, job, calibration)
        case NetworkJob():
            return network_performance(candidate, job, calibration)
        case VideoJob():
            return video_performance(candidate, job, calibration)
        case HpcJob():
            return hpc_performance(candidate, job, calibration)


def breakdown_of(candidate: Candidate, job: Job) -> dict[str, float]:
    """Terms of the time in seconds, where the task has them."""
    if isinstance(job, TrainingJob):
        return step_shares(candidate)
    pace = candidate.pace
    if isinstance(pace, Pace):
        return {"compute": pace.compute, "memory": pace.memory, "host": pace.host,
                "communication": pace.communication}  # fmt: skip
    if isinstance(pace, Streams):
        return {"preprocess": pace.preprocess, "detector": pace.detector, "secondary": pace.secondary,
                "tracker": pace.tracker}  # fmt: skip
    if isinstance(pace, Run):
        return {"compute": pace.compute, "memory": pace.memory, "communication": pace.communication}
    return {}


def run_hours(performance: Mapping[str, Estimate]) -> float | None:
    """Length of a run that ends [h], None for a service."""
    if "time_to_train_days" in performance:
        return performance["time_to_train_days"].value * 24.0
    return performance["run_time_h"].value if "run_time_h" in performance else None
