"""A scientific code resolved to numbers: its arithmetic, traffic and precision, or a named kind of code.

Also the rule on double precision: a card that runs FP64 at a small share of its FP32 rate is no card for a
code that FP64 arithmetic limits, and no worse than others for one that memory or FP32 limits.
"""

from __future__ import annotations

from gpuselect.calibration import Calibration, KernelClass
from gpuselect.catalog import Accelerator
from gpuselect.decision import Note
from gpuselect.errors import InputError
from gpuselect.estimate.devices import peak_tflops
from gpuselect.i18n import _
from gpuselect.job import DEFAULT_DEADLINE_S
from gpuselect.network_job import HpcJob
from gpuselect.units import GB, TFLOP
from gpuselect.workload import Workload

SLOW_FP64 = 1.0 / 8.0  # of the FP32 rate: HPC cards have 1/2 (or 1), graphics cards 1/16 to 1/64
DOUBLE = ("fp64", "fp64_tensor")
MOST_CARDS = 64
LEAST_WORK = 1e3  # operations or bytes; a run of less is a slip of the pen


def hpc_job(workload: Workload, calibration: Calibration) -> tuple[HpcJob, list[Note]]:
    """Resolve a scientific code; the notes are its assumptions.

    A named kind gives the side of the roofline that is missing, its precision and its share of the peak.
    """
    kernel = calibration.kernels[workload.kernel] if workload.kernel else None
    if workload.flops is None and workload.bytes is None:
        raise InputError(_("give the work of the run: --flops 1e18, --bytes 1e15, or both"))
    notes: list[Note] = []
    precision = _precision(workload, kernel, notes)
    flops, traffic = _work(workload, kernel, notes)
    if max(flops, traffic) < LEAST_WORK:
        raise InputError(_("--flops and --bytes are of the whole run: write for example 1e18 and 1PB"))
    if workload.ecc is None and wants_ecc(precision):
        notes.append(Note("default-ecc", _("error-correcting memory is asked for (--no-ecc to drop)")))
    if workload.memory is None:
        notes.append(Note("memory-unknown", _("the data is taken to fit; --memory checks it")))
    exchange = workload.exchange
    if exchange is None:
        exchange = float(kernel.exchange) if kernel else 0.0
        if exchange:
            text = _("{p:.0f} % of the memory traffic crosses between accelerators (--exchange)")
            notes.append(Note("default-exchange", text.format(p=100 * exchange)))
    return HpcJob(
        label=_label(workload, precision), precision=precision, flops=flops, traffic=traffic,
        memory_bytes=workload.memory,
        deadline_s=workload.deadline or DEFAULT_DEADLINE_S, deadline_given=workload.deadline is not None,
        max_count=1 if workload.single_card else workload.max_count or MOST_CARDS,
        tensor=bool(kernel and kernel.tensor and precision == "fp64"),
        compute=float(kernel.compute) if kernel else None, exchange=exchange,
    ), notes  # fmt: skip


def wants_ecc(precision: str) -> bool:
    """ECC is asked for by default where results must hold to double precision."""
    return precision in DOUBLE


def _label(workload: Workload, precision: str) -> str:
    kinds = {
        "dgemm": _("dense matrix products"), "fft": _("Fourier transforms"), "stencil": _("a stencil code"),
        "spmv": _("sparse matrix products"), "md": _("mixed-precision molecular dynamics"),
    }  # fmt: skip
    if workload.kernel:
        return _("{kind} in {precision}").format(kind=kinds[workload.kernel], precision=precision)
    return _("a {precision} code").format(precision=precision)


def _precision(workload: Workload, kernel: KernelClass | None, notes: list[Note]) -> str:
    """What the arithmetic is done in: as given, as the kind of code does, else double."""
    if workload.fp64 and workload.precision not in (None, *DOUBLE):
        raise InputError(_("--fp64 contradicts --precision {p}").format(p=workload.precision))
    if workload.precision:
        return workload.precision
    if workload.fp64 is not None:
        return "fp64" if workload.fp64 else "fp32"
    if kernel:
        return kernel.precision
    notes.append(Note("default-precision", _("double precision (--no-fp64 for single)")))
    return "fp64"


def _work(workload: Workload, kernel: KernelClass | None, notes: list[Note]) -> tuple[float, float]:
    """Arithmetic [flop] and traffic [B]; a kind of code gives the one that is missing by its intensity."""
    flops, traffic = workload.flops, workload.bytes
    if flops is not None and traffic is not None:
        return flops, traffic
    if kernel:
        intensity = float(kernel.intensity)
        text = _("{i:.3g} flop per byte of memory traffic, usual for this kind of code")
        notes.append(Note("default-intensity", text.format(i=intensity)))
        if flops is not None:
            return flops, flops / intensity
        return float(traffic or 0.0) * intensity, float(traffic or 0.0)
    known = "flops" if traffic is None else "bytes"
    text = _("only --{known} is given: the other side of the roofline is taken as free")
    notes.append(Note("one-sided", text.format(known=known)))
    return flops or 0.0, traffic or 0.0


def hpc_precision(accelerator: Accelerator, job: HpcJob) -> str:
    """The rate that a code runs at on a card: matrix units for dense products, where the card has them."""
    if job.tensor and peak_tflops(accelerator, "fp64_tensor"):
        return "fp64_tensor"
    return job.precision


def slow_fp64(accelerator: Accelerator, job: HpcJob) -> Note | None:
    """Rejection of a card whose FP64 rate limits the code; None where memory limits, or FP32 suffices."""
    if job.precision not in DOUBLE or not job.flops:
        return None
    peak = peak_tflops(accelerator, hpc_precision(accelerator, job))
    single = accelerator.dense_tflops.get("fp32")
    if not peak or not single or peak / single > SLOW_FP64:
        return None
    bandwidth = accelerator.memory_bandwidth_gb_s
    if bandwidth and job.traffic / (float(bandwidth) * GB) >= job.flops / (float(peak) * TFLOP):
        return None
    text = _("FP64 runs at 1/{r:.0f} of FP32, {peak:.2g} TFLOPS, and limits this code")
    return Note("fp64-slow", text.format(r=float(single) / peak, peak=peak))
