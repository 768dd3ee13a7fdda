"""The workload in one sentence, as it was understood."""

from __future__ import annotations

from gpuselect.i18n import N_, _
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.network_job import HpcJob, Job, NetworkJob, VideoJob
from gpuselect.quantities import format_count

METHODS = {
    "pretrain": N_("Pretraining"), "full": N_("Full fine-tuning of"), "lora": N_("LoRA fine-tuning of"),
    "qlora": N_("QLoRA fine-tuning of"), "prefix": N_("Prefix tuning of"),
}  # fmt: skip


def sentence(job: Job) -> str:
    """What is to be done, with the numbers that matter."""
    match job:
        case TrainingJob():
            return _(
                "{what} a {label} model on {tokens} tokens, sequences of {seq}, {batch} per step, "
                "{precision}"
            ).format(
                what=_(METHODS[job.method]), label=job.label, tokens=format_count(job.tokens, digits=4),
                seq=job.seq_len, batch=job.global_batch, precision=job.precision,
            )  # fmt: skip
        case ServingJob():
            return _serving(job)
        case NetworkJob():
            return _network(job)
        case VideoJob():
            return _(
                "{n} streams of {w} x {h} at {fps:g} frames per second ({codec}) through {model}"
            ).format(
                n=job.streams, w=job.width, h=job.height, fps=job.fps, codec=job.codec,
                model=job.pipeline or job.label,
            )  # fmt: skip
        case HpcJob():
            return _("Running {label}: {flops:.3g} flop and {bytes:.3g} bytes of memory traffic").format(
                label=job.label, flops=job.flops, bytes=job.traffic
            )


def _serving(job: ServingJob) -> str:
    text = _("Serving a {label} model with {weights} weights, {i} tokens in and {o} out").format(
        label=job.label, weights=job.weights.id, i=job.input_tokens, o=job.output_tokens
    )
    if job.request_rate is not None:
        return text + _(", {rate} requests/s").format(rate=format_count(job.request_rate, digits=3))
    return text + _(", {n} concurrent sequences").format(n=job.concurrency)


def _network(job: NetworkJob) -> str:
    size = f" ({job.network.size})" if job.network.size else ""
    if job.training:
        said = (
            _("Training {label}{size} on {n} samples, {precision}")
            if job.trained_share == 1.0
            else _("Training adapters of {label}{size} on {n} samples, {precision}")
        )
        return said.format(
            label=job.label, size=size, n=format_count(job.samples, digits=4), precision=job.precision
        )
    text = _("Serving {label}{size}, {precision}").format(label=job.label, size=size, precision=job.precision)
    if job.request_rate is not None:
        text += _(", {rate} {unit}/s").format(rate=format_count(job.request_rate, digits=3), unit=job.unit)
    if job.latency_s is not None:
        text += _(", within {ms:.3g} ms").format(ms=1e3 * job.latency_s)
    return text
