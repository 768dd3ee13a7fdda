"""What an optimisation does to a service: the same estimate without it and with it, one effect each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuselect.calibration import Calibration, serving_class
from gpuselect.catalog import Accelerator, Catalog, MigSlice, WeightFormat
from gpuselect.deployment import engine_of, engine_precision, is_large
from gpuselect.effects import Effect, capped, slowed
from gpuselect.estimate.devices import device, peak_tflops
from gpuselect.estimate.network_memory import network_inference_memory
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.serving import DRAFT_COST, Engine, Serving, decode_step_time, tokens_per_step
from gpuselect.estimate.vision import Pace, Runtime, inference_pace
from gpuselect.frameworks import Ask, gate
from gpuselect.i18n import _
from gpuselect.job import ServingJob, weights_in_format
from gpuselect.network_job import NetworkJob
from gpuselect.network_sites import RUNTIMES, inference_runtime, network_device
from gpuselect.plan import Plan
from gpuselect.search import Site
from gpuselect.serving_search import closed_loop, engine_table, serving_need
from gpuselect.units import GIB

FORMATS = ("fp8", "int8", "int8-weight-only", "q8_0", "mlx-8bit", "nvfp4", "int4-awq", "int4-gptq", "q4_k_m",
           "mlx-4bit")  # fmt: skip
GGUF_ENGINES = ("llama.cpp", "ollama")  # on which the cost of expanding these formats was measured
STUDIED = frozenset({"fp8", "int8", "int4-awq", "int4-gptq"})  # by the source of the accuracy risk
DRAFT = 4  # proposed tokens a step
USUAL_ACCEPTANCE = 0.7  # an assumption; the acceptance from which it pays is computed beside it
WIDE_FORMATS = 15.0  # bits per weight from which narrower formats are compared


@dataclass(frozen=True, slots=True)
class Service:
    """A serving deployment of an answer, with everything that its estimate takes."""

    job: ServingJob
    site: Site
    plan: Plan
    batch: float  # sequences per replica
    catalog: Catalog
    calibration: Calibration

    def at(self, batch: float, *, site: Site | None = None, job: ServingJob | None = None) -> Serving:
        """Steady state with something changed."""
        index = np.zeros(1, dtype=int)
        sites, asked = [site or self.site], job or self.job
        return closed_loop(
            sites, asked, index, self.plan, engine_table(sites, index), self.calibration
        )(np.array([batch]))  # fmt: skip

    def need(self, batch: float, *, site: Site | None = None, job: ServingJob | None = None) -> float:
        """Need per accelerator [B] with something changed."""
        index = np.zeros(1, dtype=int)
        sites = [site or self.site]
        memory = serving_need(
            sites, job or self.job, index, self.plan, engine_table(sites, index), np.array([batch]),
            self.calibration,
        )  # fmt: skip
        return float(np.max(memory.total))

    def seconds(self, state: Serving) -> float:
        """Time for a million output tokens [s]."""
        return 1e6 / float(np.max(state.output_tokens_per_s))

    def effect(
        self, code: str, what: str, *, site: Site | None = None, job: ServingJob | None = None,
        in_use: bool = False,
    ) -> Effect:  # fmt: skip
        """The answer against the answer with another site or job."""
        memory = (self.need(self.batch), self.need(self.batch, site=site, job=job))
        state = self.at(self.batch, site=site, job=job)
        return Effect(
            code,
            what,
            memory=memory,
            seconds=(self.seconds(self.at(self.batch)), self.seconds(state)),
            in_use=in_use,
        )


def with_weights(service: Service, weights: WeightFormat) -> tuple[Site, ServingJob] | None:
    """Site and job with other weights; None where card or engine does not run the format."""
    card, engine = service.site.accelerator, service.site.engine_id
    ask = Ask(
        "inference", "decoder", weights.id, tp=int(service.plan.tp), heads=int(service.job.shape.n_heads)
    )  # fmt: skip
    precision = weights.compute if weights.compute in ("fp8", "int8", "fp4") else service.site.precision
    rate = engine_precision(engine, precision, weights=weights.id, fp4="fp4" in card.dense_tflops)
    if gate(service.catalog.frameworks[engine], card, ask) is not None or peak_tflops(card, rate) is None:
        return None
    dev = device(
        card, service.site.system, precision=rate, serving=True, calibration=service.calibration
    )  # fmt: skip
    if dev is None:
        return None
    size = weights_in_format(shape=service.job.shape, weights=weights)
    made = engine_of(
        engine, weights, service.calibration, hardware=serving_class(card), precision=rate,
        large=is_large(card, dev),
    )  # fmt: skip
    site = replace(service.site, device=dev, engine=made, weight_bytes=size, precision=precision)
    return site, replace(service.job, weights=weights, weight_bytes=size)


def weight_quantisation(service: Service) -> Effect | None:
    """The narrower format that gains most on this card with this engine."""
    if float(service.job.weights.bits_per_weight) < WIDE_FORMATS:
        return None
    effects, engine = [], service.site.engine_id
    for name in FORMATS:
        weights = service.catalog.formats.get(name)
        if weights is None or (weights.kernel_class == "gguf" and engine not in GGUF_ENGINES):
            continue
        if (changed := with_weights(service, weights)) is None:
            continue
        site, job = changed
        how = (
            _("multiplied in {p} by the card").format(p=weights.compute)
            if weights.compute in ("fp8", "int8", "fp4")
            else _("expanded to 16 bit for the product")
        )
        effect = service.effect("weight-quantisation", _(", ").join((name, how)), site=site, job=job)
        effects.append(replace(effect, risk_known=name in STUDIED))
    return min(effects, key=lambda e: e.seconds[1] if e.seconds else 0.0, default=None)


def kv_quantisation(service: Service) -> Effect | None:
    """The cache with one byte per element, where the engine offers it."""
    offered = service.catalog.frameworks[service.site.engine_id].kv_formats
    narrow = next((name for name in ("fp8", "int8") if name in offered), None)
    if narrow is None or service.job.kv_bytes <= 1.0:
        return None
    job = replace(service.job, kv=narrow, kv_bytes=1.0)
    return service.effect("kv-quantisation", _("{name} cache").format(name=narrow), job=job)


def continuous_batching(service: Service) -> Effect | None:
    """Sequences together against one after the other."""
    if service.batch < 2:
        return None
    alone = service.at(1.0)
    return Effect(
        "continuous-batching",
        _("{n:.0f} sequences at once per replica").format(n=service.batch),
        seconds=(service.seconds(alone), service.seconds(service.at(service.batch))),
        in_use=True,
    )  # fmt: skip


def split_or_replicas(service: Service) -> Effect | None:
    """One model over several cards against a copy on each, where a copy fits."""
    plan = service.plan
    if int(plan.tp) < 2 or int(plan.pp) * int(plan.dp) > 1:
        return None
    copies = int(plan.replicas) * int(plan.tp)
    alone = replace(service, plan=replace(plan, tp=1, ep=1, replicas=copies))
    batch = max(service.batch * float(plan.replicas) / copies, 1.0)
    share = min(service.batch * float(plan.replicas) / copies, 1.0)  # copies without a sequence are idle
    return Effect(
        "parallel-layout",
        _("tp {tp} against {n} replicas").format(tp=plan.tp, n=copies),
        memory=(alone.need(batch), service.need(service.batch)),
        seconds=(alone.seconds(alone.at(batch)) / share, service.seconds(service.at(service.batch))),
        in_use=True,
    )


def speculative_decoding(service: Service) -> Effect | None:
    """A step that checks drafted tokens against plain steps, and the acceptance from which it pays.

    The checked step computes `DRAFT` + 1 tokens per sequence and reads weights and cache once. None where
    the request already has it.
    """
    if service.job.helped.drafted:
        return None
    plain = _step(service, 1)
    checked = _step(service, DRAFT + 1) + DRAFT * DRAFT_COST * plain
    pays = next(
        (a / 100.0 for a in range(1, 100) if tokens_per_step(a / 100.0, DRAFT) * plain > checked), None
    )
    if pays is None:
        return None
    what = _("{n} drafted tokens; pays from an acceptance of {a:.0%}, shown for {u:.0%}").format(
        n=DRAFT, a=pays, u=USUAL_ACCEPTANCE
    )
    now = service.seconds(service.at(service.batch))
    factor = checked / plain / tokens_per_step(USUAL_ACCEPTANCE, DRAFT)
    return Effect(
        "speculative-decoding",
        what,
        seconds=(now, now * factor),
        in_use=False,
    )


def _engine(site: Site) -> Engine:
    """The engine of a serving site."""
    return site.engine or Engine(1.0, 1.0, 1.0)


def _step(service: Service, tokens: int) -> float:
    """Time of a decode step with several tokens per sequence [s]: the cache is read once per sequence."""
    site, job = service.site, service.job
    context = job.input_tokens + job.output_tokens / 2.0
    return float(
        decode_step_time(
            shape=job.shape, plan=service.plan, device=site.device, engine=_engine(site),
            constants=service.calibration.serving, weight_bytes=site.weight_bytes, kv_bytes=job.kv_bytes,
            batch=service.batch * tokens, context=context / tokens,
        )
    )  # fmt: skip


def service_power_cap(service: Service) -> Effect:
    """A board limit of 80 % of the load; decoding waits for memory and loses little."""
    slow = replace(service.site, device=slowed(service.site.device))
    now = service.seconds(service.at(service.batch))
    return capped(now, service.seconds(service.at(service.batch, site=slow)))


def serving_effects(service: Service) -> list[Effect]:
    """Every effect that can be computed for the service."""
    found = (
        weight_quantisation, kv_quantisation, continuous_batching, split_or_replicas,
        speculative_decoding, service_power_cap,
    )  # fmt: skip
    return [effect for make in found if (effect := make(service)) is not None]


@dataclass(frozen=True, slots=True)
class Vision:
    """Inference of a network of samples on one card of an answer. Every card works on its own."""

    job: NetworkJob
    site: Site
    batch: float
    catalog: Catalog
    calibration: Calibration

    def pace(
        self, *, runtime: Runtime | None = None, dev: Device | None = None, batch: float | None = None
    ) -> Pace:
        """Speed of one card with something changed."""
        return inference_pace(
            network=self.job.network, device=dev or self.site.device, runtime=runtime or self._runtime(),
            batch=batch or self.batch, count=1,
        )  # fmt: skip

    def _runtime(self) -> Runtime:
        name = RUNTIMES.get(self.site.engine_id, "other")
        return self.site.runtime or self.runtime(name, self.site.precision)

    def runtime(self, name: str, precision: str) -> Runtime:
        """Constants of a runtime on this card."""
        return inference_runtime(
            name, precision, self.calibration, kind=self.job.network.kind,
            edge=self.site.accelerator.family == "edge",
        )  # fmt: skip

    def device(self, precision: str) -> Device | None:
        """The card multiplying in another precision."""
        return network_device(
            self.site.accelerator, self.site.system, network=self.job.network, precision=precision,
            training=False, calibration=self.calibration,
        )  # fmt: skip

    def need(self, *, runtime: Runtime | None = None, batch: float | None = None) -> float:
        """Need of the card [B]."""
        kind, constants = runtime or self._runtime(), self.calibration.network
        memory = network_inference_memory(
            network=self.job.network, batch=batch or self.batch, count=1, weight_bytes=kind.weight_bytes,
            element_bytes=kind.element_bytes, live_share=float(constants.live_activations),
            context_bytes=float(constants.context_gib) * GIB,
        )  # fmt: skip
        return float(memory.total)

    def seconds(self, pace: Pace, cards: float = 1.0) -> float:
        """Time for a thousand samples on one card [s]."""
        return 1e3 / (float(pace.rate) * cards)


def compiled_runtime(vision: Vision) -> Effect | None:
    """The graph runtime of the answer against operators launched from Python, or the reverse."""
    name = RUNTIMES.get(vision.site.engine_id, "other")
    if name not in ("tensorrt", "compiled"):
        return None
    eager = vision.runtime("pytorch", vision.site.precision)
    memory = (vision.need(runtime=eager), vision.need())
    shown = "TensorRT" if name == "tensorrt" else "torch.compile"
    what = _("{name} against eager PyTorch").format(name=shown)
    seconds = (vision.seconds(vision.pace(runtime=eager)), vision.seconds(vision.pace()))
    return Effect(
        "compiled-runtime",
        what,
        memory=memory,
        seconds=seconds,
        in_use=True,
    )


def int8_inference(vision: Vision) -> Effect | None:
    """8-bit integers against the precision of the answer."""
    eight = vision.device("int8")
    name = RUNTIMES.get(vision.site.engine_id, "other")
    if eight is None or vision.site.precision == "int8" or name != "tensorrt":
        return None
    runtime = vision.runtime(name, "int8")
    return Effect(
        "int8-inference",
        _("int8 against {p}").format(p=vision.site.precision),
        memory=(vision.need(), vision.need(runtime=runtime)),
        seconds=(vision.seconds(vision.pace()), vision.seconds(vision.pace(runtime=runtime, dev=eight))),
        in_use=False,
    )  # fmt: skip


def sample_batching(vision: Vision) -> Effect | None:
    """Samples together against one at a time."""
    if vision.batch < 2:
        return None
    return Effect(
        "continuous-batching",
        _("{n:.0f} samples at once").format(n=vision.batch),
        memory=(vision.need(batch=1.0), vision.need()),
        seconds=(vision.seconds(vision.pace(batch=1.0)), vision.seconds(vision.pace())),
        in_use=True,
    )  # fmt: skip


def sparsity(vision: Vision) -> Effect | None:
    """The sparse peak of the card, everything else as it is: an upper bound."""
    factor = float(vision.site.accelerator.sparsity_multiplier or 1.0)
    if factor <= 1.0 or RUNTIMES.get(vision.site.engine_id) != "tensorrt":
        return None
    dev = replace(vision.site.device, peak=vision.site.device.peak * factor)
    return Effect(
        "sparsity-2-4",
        _("two of four weights zero, at most"),
        seconds=(vision.seconds(vision.pace()), vision.seconds(vision.pace(dev=dev))),
        in_use=False,
    )  # fmt: skip


def best_slice(card: Accelerator) -> MigSlice | None:
    """The smallest plain slice of the card, None where it has none."""
    return min(card.mig_slices, key=lambda s: s.compute_fraction, default=None)


def mig_slices(vision: Vision) -> Effect | None:
    """The card as its smallest slices, each with its own copy, at the batch of the answer."""
    piece = best_slice(vision.site.accelerator)
    if piece is None or vision.need() > piece.memory_gb * 1e9:
        return None
    count = int(vision.site.accelerator.mig_max_instances or 1)
    whole = vision.site.device
    memory = float(vision.site.accelerator.memory_gb or 0.0)
    share = min(piece.memory_gb / memory, 1.0) if memory else piece.compute_fraction
    dev = replace(
        whole, peak=whole.peak * piece.compute_fraction, peak_16bit=whole.peak_16bit * piece.compute_fraction,
        bandwidth=whole.bandwidth * share,
    )  # fmt: skip
    small = vision.pace(dev=dev)
    if vision.job.latency_s is not None and float(small.seconds) > vision.job.latency_s:
        return None
    return Effect(
        "mig-slices",
        _("{n} slices {name}").format(n=count, name=piece.name),
        seconds=(vision.seconds(vision.pace()), vision.seconds(small, count)),
        in_use=False,
    )  # fmt: skip


def vision_power_cap(vision: Vision) -> Effect:
    """A board limit of 80 % of the load."""
    slow = vision.pace(dev=slowed(vision.site.device))
    return capped(vision.seconds(vision.pace()), vision.seconds(slow))


def vision_effects(vision: Vision) -> list[Effect]:
    """Every effect that can be computed for the network."""
    found = (
        compiled_runtime, int8_inference, sample_batching, sparsity, mig_slices, vision_power_cap,
    )  # fmt: skip
    return [effect for make in found if (effect := make(vision)) is not None]
