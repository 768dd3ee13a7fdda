"""From catalog and job to the sites that the search evaluates, and to the rejections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpuselect.calibration import Calibration, EngineTraits, serving_class
from gpuselect.catalog import Accelerator, Catalog, Framework, System, WeightFormat
from gpuselect.decision import Note
from gpuselect.estimate.devices import device, peak_tflops
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.serving import NO_LIMIT, Engine
from gpuselect.framework_choice import ENGINE_KEYS, able_on, ranked
from gpuselect.frameworks import Ask, refusal
from gpuselect.hpc_job import hpc_precision, slow_fp64, wants_ecc
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob, asked_weights
from gpuselect.names import allowed_licences, resolve_accelerator, resolve_framework
from gpuselect.network_job import HpcJob, Job, NetworkJob, VideoJob
from gpuselect.network_sites import network_precision, network_site
from gpuselect.power_modes import at_power, mode_missing, whole_card
from gpuselect.rules import Demands, reject
from gpuselect.search import Site, site_counts
from gpuselect.units import GB, GIB
from gpuselect.video_sites import HPC_SOFTWARE, hpc_site, video_gap, video_site
from gpuselect.workload import Workload
from gpuselect.workload_keys import TRAINING_OFFLOADS

ACCUMULATES_16BIT = frozenset(
    {"llama.cpp", "exllamav2", "exllamav3", "mlc"}
)  # feasibility study (inference), E4
LARGE_GIB = 70.0  # engines allow more sequences and longer steps from here on; same study, E14
UNKNOWN_ENGINE = EngineTraits(host="server")
SPLITS_OVER_HOST = "llama.cpp"  # the engine whose layers may stay with the processor
SIXTEEN_BITS = 16.0
HOST_POWER_W = 100.0  # a limit below it says that an edge device is meant
FRAMEWORK_FAMILIES = {  # family of a model -> what frameworks.yaml calls it
    "cnn": "cnn", "detector": "detector", "vit": "vit", "encoder": "encoder", "speech": "speech",
    "encoder-decoder": "encoder-decoder", "diffusion-unet": "diffusion", "diffusion-dit": "diffusion",
    "recsys": "recsys", "rnn": "encoder", "gnn": "encoder", "multimodal": "encoder",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """The sites to search, the frameworks of each, and why the other accelerators are out."""

    sites: tuple[Site, ...]
    frameworks: Mapping[str, list[Framework]]
    rejections: Mapping[str, Note]


def system_of(catalog: Catalog) -> dict[str, System]:
    """The system that each accelerator comes in."""
    return {name: s for s in catalog.systems.values() for name in s.accelerators}


def method_and_family(job: Job) -> tuple[str, str]:
    """What a framework must be able to do for a job, and for which family of networks."""
    match job:
        case NetworkJob():
            return ("train-network" if job.training else "infer-network"), FRAMEWORK_FAMILIES[job.family]
        case VideoJob():
            return "infer-network", FRAMEWORK_FAMILIES[job.detector.family]
        case HpcJob():
            return "hpc", "hpc"
        case ServingJob():
            return "inference", "decoder"
        case TrainingJob():
            return job.method, "decoder"


def demands_of(workload: Workload, catalog: Catalog, job: Job) -> Demands:
    """The workload's hard wishes as plain values."""
    wanted = frozenset(resolve_accelerator(n, catalog)[0].id for n in workload.gpus or ())
    excluded = frozenset(resolve_accelerator(n, catalog)[0].id for n in workload.exclude or ())
    precision = _precision(job)
    method, _family = method_and_family(job)
    return Demands(
        task=workload.task,
        method=method,
        precision=precision,
        weights=job.weights.id if isinstance(job, ServingJob) else "",
        precision_ok={
            a.id: peak_tflops(a, _on_card(a, job, workload)) is not None
            for a in catalog.accelerators.values()
            if a.dense_tflops
        },
        named=wanted,
        gpus=wanted,
        exclude=excluded,
        vendors=frozenset(v.lower() for v in workload.vendors or ()),
        ecc=isinstance(job, HpcJob) and wants_ecc(job.precision) if workload.ecc is None else workload.ecc,
        mig=int(workload.mig or 0),
        form_factor=workload.form_factor or "",
        edge=bool(workload.edge),
        cooling=workload.cooling or "",
        hosts_only=isinstance(job, NetworkJob | HpcJob)
        and not (workload.edge or workload.power_mode)
        and (workload.max_power_w or HOST_POWER_W) >= HOST_POWER_W,
        max_power_w=workload.max_power_w,
    )


def _precision(job: Job) -> str:
    if isinstance(job, VideoJob):
        return job.detector.precision
    if not isinstance(job, ServingJob):
        return job.precision
    return job.weights.compute if job.weights.id not in ("bf16", "fp16", "fp32") else job.weights.id


def _on_card(accelerator: Accelerator, job: Job, workload: Workload) -> str:
    """The compute precision of a job on a card, with the fallbacks that the job allows."""
    if isinstance(job, VideoJob):
        job = job.detector
    if isinstance(job, NetworkJob):
        return network_precision(accelerator, job)
    if isinstance(job, HpcJob):
        return hpc_precision(accelerator, job)
    return card_precision(accelerator, _precision(job), workload)


def card_precision(accelerator: Accelerator, precision: str, workload: Workload) -> str:
    """The compute precision on this card: defaults fall back to 16 bit, and to fp16 where bf16 is missing."""
    chosen = asked_weights(workload) if workload.task == "inference" else workload.precision
    narrow = workload.task == "inference" and precision in ("fp8", "fp4")
    if narrow and chosen is None and peak_tflops(accelerator, precision) is None:
        precision = "bf16"
    if precision == "bf16" and chosen is None and peak_tflops(accelerator, "bf16") is None:
        return "fp16"
    return precision


def build_field(
    workload: Workload,
    job: Job,
    catalog: Catalog,
    calibration: Calibration,
    *,
    fixed: Mapping[str, int] | None = None,
    view: Callable[[Accelerator], Accelerator] = whole_card,
) -> Field:
    """Apply the hard rules to every accelerator; what passes becomes a site with its counts.

    `fixed` (id -> count) restricts the field to these cards and counts and sets aside the rules on
    selection and availability, as for `estimate --on`. `view` gives what a tenant sees of a card.
    """
    demands = demands_of(workload, catalog, job)
    if fixed is not None:
        names = frozenset(fixed)
        demands = _renamed(demands, names)
    systems = system_of(catalog)
    _method, family = method_and_family(job)
    wanted = frozenset(resolve_framework(n, catalog).id for n in _wanted_frameworks(workload))
    licences = allowed_licences(workload.framework_licence, catalog)
    sites, frameworks, rejections = [], {}, {}
    for entry in catalog.accelerators.values():
        if fixed is not None and entry.id not in fixed:
            continue
        accelerator = view(at_power(entry, workload.power_mode, workload.max_power_w))
        ask = Ask(
            demands.method, family, demands.weights, _on_card(accelerator, job, workload), wanted=wanted,
            tp=int(workload.tp or 1), heads=_heads(job), deployment=target_of(workload), licences=licences,
        )  # fmt: skip
        able = able_on(accelerator, ask, catalog, calibration)
        own_code = isinstance(job, HpcJob) and bool(HPC_SOFTWARE & set(accelerator.software))
        note = reject(accelerator, demands, runs=bool(able) or own_code)
        if note is not None and note.code == "software-missing":
            note = refusal(catalog.frameworks.values(), accelerator, ask) or note
        if note is None:
            note = _task_rule(accelerator, workload, job, calibration)
        if note is None:
            site = _site(
                accelerator, systems.get(accelerator.id), workload, job, demands, able, catalog, calibration,
                fixed.get(accelerator.id) if fixed else None,
            )  # fmt: skip
            left_out = _missing(job) if site is None else _nothing_left(site, workload)
            if site is not None and left_out is None:
                sites.append(site)
                frameworks[accelerator.id] = able
                continue
            note = left_out or _missing(job)
        rejections[accelerator.id] = note
    return Field(tuple(sites), frameworks, rejections)


def _task_rule(
    accelerator: Accelerator, workload: Workload, job: Job, calibration: Calibration
) -> Note | None:
    """The rules that need the numbers of the job."""
    note = mode_missing(accelerator, workload.power_mode)
    if note is None and isinstance(job, VideoJob):
        note = video_gap(accelerator, job, calibration)
    if note is None and isinstance(job, HpcJob):
        note = slow_fp64(accelerator, job)
    if note is None and workload.offload in TRAINING_OFFLOADS and accelerator.unified_memory:
        text = _("card and host share one memory: moving states frees nothing")
        note = Note("offload-unified", text)
    return note


def _nothing_left(site: Site, workload: Workload) -> Note | None:
    """The rejection of a card whose memory others use whole."""
    usable, reserve = float(site.device.usable_bytes), float(workload.reserve or 0.0)
    if usable > reserve:
        return None
    text = _("{usable:.1f} GiB usable, of which --reserve takes {reserve:.1f} GiB")
    return Note("memory-exceeded", text.format(usable=usable / GIB, reserve=reserve / GIB))


def _missing(job: Job) -> Note:
    if isinstance(job, VideoJob):
        return Note("figures-missing", _("memory, bandwidth, rate or video decoder unknown"))
    return Note("figures-missing", _("memory, bandwidth or rate unknown"))


def _wanted_frameworks(workload: Workload) -> tuple[str, ...]:
    engine = (workload.engine,) if workload.engine else ()
    if workload.offload == "cpu" and not engine and not workload.frameworks:
        return (SPLITS_OVER_HOST,)
    return tuple(workload.frameworks or ()) + engine


def _renamed(demands: Demands, names: frozenset[str]) -> Demands:
    return replace(demands, gpus=names, named=names, exclude=frozenset(), vendors=frozenset())


def _site(
    accelerator: Accelerator,
    system: System | None,
    workload: Workload,
    job: Job,
    demands: Demands,
    able: list[Framework],
    catalog: Catalog,
    calibration: Calibration,
    fixed: int | None,
) -> Site | None:
    match job:
        case NetworkJob():
            return network_site(accelerator, system, job, able, calibration, fixed)
        case VideoJob():
            return video_site(accelerator, system, job, able, calibration, fixed)
        case HpcJob():
            return hpc_site(accelerator, system, job, calibration, fixed)
    precision = card_precision(accelerator, demands.precision, workload)
    owned = isinstance(job, ServingJob) and bool(workload.have)
    counts = site_counts(system, max_count=job.max_count, fixed=fixed, owned=owned)
    if isinstance(job, TrainingJob):
        dev = device(accelerator, system, precision=precision, serving=False, calibration=calibration)
        return None if dev is None else _training_site(accelerator, system, dev, counts, precision, workload)
    engine = best_engine(able, accelerator, catalog, calibration, several=max(counts) > 1)
    rate = engine_precision(
        engine, precision, weights=job.weights.id, fp4="fp4" in accelerator.dense_tflops
    )  # fmt: skip
    dev = device(accelerator, system, precision=rate, serving=True, calibration=calibration)
    if dev is None:
        return None
    return Site(
        accelerator, system, dev, counts,
        engine=engine_of(
            engine, job.weights, calibration, hardware=serving_class(accelerator), precision=rate,
            large=is_large(accelerator, dev),
        ),
        engine_id=engine,
        weight_bytes=job.weight_bytes,
        precision=precision,
    )  # fmt: skip


def _training_site(
    accelerator: Accelerator, system: System | None, dev: Device, counts: tuple[int, ...], precision: str,
    workload: Workload,
) -> Site:  # fmt: skip
    """The site with the memory of its hosts, infinite where nobody says; one's own is no slice."""
    known = system.host_memory_gb if system is not None else None
    limit = float("inf") if known is None else float(known) * GB
    if workload.host_memory is not None:
        limit, dev = workload.host_memory, replace(dev, host_shared=1)
    return Site(accelerator, system, dev, counts, precision=precision, host_bytes=limit)


def best_engine(
    able: list[Framework], accelerator: Accelerator, catalog: Catalog, calibration: Calibration, *,
    several: bool,
) -> str:  # fmt: skip
    """Id of the eligible engine with the highest score, in which the calibrated rate weighs most.

    For `several` cards an engine that splits a model over them is preferred.
    """
    splitting = [f for f in able if "tp" in f.parallelism] if several else []
    order = ranked(splitting or able, accelerator, Ask("inference"), catalog, calibration)
    return order[0][0].id


def target_of(workload: Workload) -> str:
    """Deployment target that a workload asks for: an edge device, or none in particular."""
    return "edge" if workload.edge else ""


def _heads(job: Job) -> int:
    """Attention heads, 0 where the plan is not about them."""
    return int(job.shape.n_heads) if isinstance(job, TrainingJob | ServingJob) else 0


def engine_precision(name: str, precision: str, *, weights: str = "", fp4: bool = False) -> str:
    """The rate that an engine multiplies at on a card (feasibility study, E4).

    llama.cpp and its kin sum 16-bit products in 16 bit; TensorRT-LLM multiplies mxfp4 weights in fp8
    where the card has `fp4`.

    >>> engine_precision("ollama", "fp16"), engine_precision("vllm", "fp16")
    ('fp16_acc16', 'fp16')
    """
    if weights == "mxfp4" and fp4 and name in ("tensorrt-llm", "vendor-tuned"):
        return "fp8"
    sums = ENGINE_KEYS.get(name, name) in ACCUMULATES_16BIT
    return "fp16_acc16" if sums and precision in ("fp16", "bf16") else precision


def kernel_of(weights: WeightFormat, precision: str, *, engine: str = "") -> str:
    """The class of the multiplication's kernel: that of the format, weight-only where the rate is wider.

    FP8, FP4 and MXFP4 weights that a card multiplies in 16 bit are unpacked inside the product, as GPTQ's
    are. ExLlamaV2 has kernels of its own for GPTQ and EXL2.
    """
    if engine == "exllamav2" and weights.kernel_class == "w4":
        return "exl"
    narrow = float(weights.bits_per_weight) < SIXTEEN_BITS
    unpacked = weights.kernel_class == "none" and narrow and precision in ("bf16", "fp16")
    return "w4" if unpacked else weights.kernel_class


def is_large(accelerator: Accelerator, dev: Device) -> bool:
    """True for cards that engines give their large defaults: from 70 GB on, A100 left out."""
    return float(dev.usable_bytes) >= LARGE_GIB * GIB and not accelerator.id.startswith("a100")


def engine_of(
    name: str, weights: WeightFormat, calibration: Calibration, *, hardware: str = "hbm",
    precision: str = "", large: bool = True,
) -> Engine:  # fmt: skip
    """Calibrated factors of an engine with a weight format on a class of cards, multiplied at `precision`."""
    serving = calibration.serving
    key = ENGINE_KEYS.get(name, name)
    relative = {
        "fp8": serving.fp8_relative, "int8": serving.fp8_relative, "fp4": serving.fp4_relative,
    }.get(precision or weights.compute, 1.0)  # fmt: skip
    kernel = kernel_of(weights, precision or weights.compute, engine=key)
    launch = "fp8" if (kernel, precision) == ("none", "fp8") else kernel
    traits = calibration.engine_traits.get(key, UNKNOWN_ENGINE)
    size = "large" if large else "small"
    return Engine(
        compute=float(calibration.engines.get(key, 1.0)) * float(relative),
        memory=float(calibration.dequantise[kernel]),
        prefill=float(calibration.prefill_dequantise[kernel]),
        mixed=traits.mixed,
        layer_split=traits.layer_split,
        static=traits.static,
        cores=float(traits.cores),
        kernel=float(calibration.serving_kernel[hardware]),
        python=traits.host == "server",
        eager=traits.host == "eager",
        host=float(calibration.launch[launch])
        if traits.host == "eager"
        else float(calibration.engine_host.get(key, 1.0)),
        head_bytes=2.0 if weights.keeps_embeddings_16bit else float(weights.bits_per_weight) / 8.0,
        expert_bytes=float(weights.bits_per_weight) / 8.0,
        sequences=float(getattr(traits, f"sequences_{size}") or NO_LIMIT),
        chunk=float(getattr(traits, f"chunk_{size}") or NO_LIMIT),
    )


def covered(accelerator: Accelerator, calibration: Calibration) -> bool:
    """True when measurements of this very card are behind the constants."""
    return accelerator.id in calibration.training_card
