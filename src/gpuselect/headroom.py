"""How far a fitting answer can go, and the smallest change that lets a miss fit; each by a new estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, Catalog
from gpuselect.decision import Change, Limit
from gpuselect.deployment import Field
from gpuselect.estimate.devices import usable_bytes
from gpuselect.estimate.memory import training_memory
from gpuselect.estimate.memory_recipe import ADAPTERS
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.network_job import Job
from gpuselect.plan import Plan
from gpuselect.search import Candidate, Found, Site
from gpuselect.serving_search import (
    MOST_SEQUENCES,
    arrivals,
    closed_loop,
    engine_share,
    engine_table,
    meets_bounds,
    serving_need,
)
from gpuselect.units import GIB
from gpuselect.workload import Workload

MOST = 1 << 26  # no batch or length is searched above
COUNTS = (2, 3, 4, 6, 8, 16, 32, 64, 128, 256, 512, 1024)
SMALLER_WEIGHTS = ("fp8", "int8", "int4-awq")
HALVINGS = 6

Attempt = Callable[[Workload, Mapping[str, int]], tuple[Field, Found]]


def largest(fits: Callable[[int], bool], *, most: int = MOST) -> int:
    """The largest whole number up to `most` that fits, 0 if not even 1 does; the need must grow with it.

    >>> largest(lambda n: n * n <= 1000), largest(lambda n: n < 1), largest(lambda n: True, most=500)
    (31, 0, 500)
    """
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def limits_of(candidate: Candidate, site: Site, job: Job, calibration: Calibration) -> tuple[Limit, ...]:
    """Largest batch, length and concurrency that fit with the plan as it is."""
    if isinstance(job, TrainingJob):
        return _training_limits(candidate, job, calibration)
    if isinstance(job, ServingJob):
        return _serving_limits(candidate, site, job, calibration)
    return ()


def _training_limits(candidate: Candidate, job: TrainingJob, calibration: Calibration) -> tuple[Limit, ...]:
    plan = candidate.plan

    def need(changed: Plan, seq_len: int) -> float:
        return float(training_memory(
            shape=job.shape, plan=changed, recipe=job.recipe, seq_len=seq_len,
            fragmentation=float(calibration.memory.fragmentation),
            context_bytes=float(calibration.memory.training_context_gib) * GIB,
        ).total)  # fmt: skip

    def fits(micro_batch: int, seq_len: int) -> bool:
        return need(replace(plan, micro_batch=micro_batch), seq_len) <= candidate.usable

    batch = largest(lambda n: fits(n, job.seq_len))
    longest = largest(lambda n: fits(int(plan.micro_batch), n), most=job.shape.max_context or MOST)
    limits = [
        Limit("micro-batch", batch, _("largest micro-batch per accelerator: {n}").format(n=batch)),
        Limit("seq-len", longest, _("longest sequence: {n} tokens").format(n=longest)),
    ]
    if plan.zero_stage:
        floor = round(need(replace(plan, dp=MOST), job.seq_len) / GIB)
        text = _(
            "more data-parallel cards lower the need to {n} GiB at most: layers, activations, the runtime"
        )
        limits.append(Limit("zero-floor-gib", floor, text.format(n=floor)))
    return tuple(limits)


def _serving_limits(
    candidate: Candidate, site: Site, job: ServingJob, calibration: Calibration
) -> tuple[Limit, ...]:
    if job.offload:
        return ()
    index, plan = np.zeros(1, dtype=int), candidate.plan
    engine = engine_table([site], index)
    limit = candidate.usable * float(engine_share([site], calibration)[0])

    def fits(sequences: int, context: int) -> bool:
        asked = replace(job, input_tokens=min(job.input_tokens, context), output_tokens=0)
        asked = replace(asked, output_tokens=context - asked.input_tokens)
        memory = serving_need([site], asked, index, plan, engine, np.array([float(sequences)]), calibration)
        return float(np.max(memory.total)) <= limit

    length = job.input_tokens + job.output_tokens
    replica = largest(lambda n: fits(n, length))
    each = max(-(-job.concurrency // int(plan.replicas)), 1)
    longest = largest(lambda n: fits(each, n), most=job.shape.max_context or MOST)
    total = replica * int(plan.replicas)
    return (
        Limit("concurrency", total, _("most sequences at once: {n}").format(n=total)),
        Limit(
            "context", longest,
            _("longest context at {each} sequences per replica: {n} tokens").format(each=each, n=longest),
        ),
        *_load_limits(candidate, site, job, most=replica, calibration=calibration),
    )  # fmt: skip


def _load_limits(
    candidate: Candidate, site: Site, job: ServingJob, *, most: int, calibration: Calibration
) -> Iterator[Limit]:
    """The largest load that keeps the bounds on times: at a concurrency, and with random arrivals."""
    if job.ttft_s is None and job.tpot_s is None and job.latency_s is None:
        return
    index, plan = np.zeros(1, dtype=int), candidate.plan
    engine = engine_table([site], index)
    closed = closed_loop([site], job, index, plan, engine, calibration)
    most = int(min(most, float(engine.sequences[0]), MOST_SEQUENCES))

    def meets(sequences: int) -> bool:
        state = closed(np.array([float(sequences)]))
        return bool(np.all(meets_bounds(replace(job, request_rate=None), state)))

    def sustains(cents: int) -> bool:
        asked = replace(job, request_rate=cents / 100.0)
        batch, load = arrivals(
            [site], asked, index, plan, engine, np.array([float(most)]), closed, calibration
        )
        return bool(np.all(meets_bounds(asked, closed(batch), load)))

    held = largest(meets, most=most) * int(plan.replicas)
    yield Limit(
        "concurrency-in-bounds", held, _("most sequences at once within the bounds: {n}").format(n=held)
    )
    rate = largest(sustains) / 100.0
    text = _("largest load within the bounds: {r:g} requests/s, random arrivals; modelled, not validated")
    yield Limit("requests-per-hour-in-bounds", int(3600 * rate), text.format(r=rate))


def changes_for(
    workload: Workload, job: Job, fixed: Mapping[str, int], attempt: Attempt, catalog: Catalog,
    calibration: Calibration,
) -> tuple[Change, ...]:  # fmt: skip
    """Changes that make a miss fit, the smallest first: settings, then more cards, then a bigger card."""
    found = [
        change
        for code, text, variant in _settings(workload, job)
        if (change := _tried(code, text, attempt(variant, fixed))) is not None
    ]
    kept: dict[str, Change] = {}
    for change in found:
        kept.setdefault(change.code, change)
    more = (
        _more_cards(workload, fixed, attempt),
        _bigger_card(workload, fixed, attempt, catalog, calibration),
    )
    return (*kept.values(), *(change for change in more if change is not None))


def _tried(code: str, text: str, result: tuple[Field, Found]) -> Change | None:
    """The change with its need, None when it does not fit either."""
    _field, found = result
    if not found.fitting:
        return None
    best = min(found.fitting, key=lambda c: float(c.memory.total) / c.usable)
    return Change(code, text, float(best.memory.total) / GIB, best.usable / GIB)


def _settings(workload: Workload, job: Job) -> Iterator[tuple[str, str, Workload]]:
    """Changes of the workload itself, from the least to the most intrusive."""
    if isinstance(job, TrainingJob):
        yield from _training_settings(workload, job)
    elif isinstance(job, ServingJob):
        yield from _serving_settings(workload, job)


def _training_settings(workload: Workload, job: TrainingJob) -> Iterator[tuple[str, str, Workload]]:
    change = workload.model_copy
    if (workload.micro_batch or 1) > 1:
        yield "micro-batch", _("micro-batch 1"), change(update={"micro_batch": 1, "grad_accum": None})
    if workload.recompute not in (None, "full"):
        yield "recompute", _("full recomputation of activations"), change(update={"recompute": "full"})
    if workload.zero_stage is not None and workload.zero_stage < 3:
        yield "zero-stage", _("ZeRO stage 3"), change(update={"zero_stage": 3})
    if job.method not in ADAPTERS and workload.optimizer in (None, "adam", "adamw"):
        yield "optimizer", _("8-bit Adam"), change(update={"optimizer": "adamw-8bit"})
    yield from _offload_settings(workload, job)
    for step in range(1, HALVINGS):
        length = job.seq_len >> step
        if length < 128:
            break
        yield "seq-len", _("sequences of {n} tokens").format(n=length), change(update={"seq_len": length})
    if workload.task == "finetune":
        order = {"full": ("lora", "qlora"), "lora": ("qlora",)}
        for method in order.get(job.method, ()):
            yield method, _("{method} instead of {old}").format(
                method={"lora": "LoRA", "qlora": "QLoRA"}[method],
                old={"full": _("full fine-tuning"), "lora": "LoRA"}[job.method],
            ), change(update={"method": method})  # fmt: skip


def _offload_settings(workload: Workload, job: TrainingJob) -> Iterator[tuple[str, str, Workload]]:
    """States on the host, sharded as they must be: those of the optimizer, then the weights as well."""
    if workload.offload not in (None, "none") or job.method == "qlora":
        return
    free = {"zero_stage": None, "pp": None}
    levels = {
        "optimizer": _("optimizer states on the host"),
        "params": _("weights and optimizer states on the host"),
    }
    for level, text in levels.items():
        if level == "params" or job.method not in ADAPTERS:  # adapters have hardly any states
            yield "offload", text, workload.model_copy(update={"offload": level, **free})


def _serving_settings(workload: Workload, job: ServingJob) -> Iterator[tuple[str, str, Workload]]:
    change = workload.model_copy
    if job.kv_bytes > 1.0:
        yield "kv", _("8-bit KV cache"), change(update={"kv": "fp8"})
    for name in SMALLER_WEIGHTS:
        bits = 8.0 if name.endswith("8") else 4.0
        if float(job.weights.bits_per_weight) > bits + 1.0:
            yield "weights", _("weights in {name}").format(name=name), change(update={"weights": name})
    for step in range(1, HALVINGS):
        fewer = job.concurrency >> step
        if fewer and job.request_rate is None:
            text = _("{n} sequences at once").format(n=fewer)
            yield "concurrency", text, change(update={"concurrency": fewer, "users": None})
        inputs = job.input_tokens >> step
        if inputs:
            yield (
                "context",
                _("prompts of {n} tokens").format(n=inputs),
                change(update={"input_tokens": inputs}),
            )


def _more_cards(workload: Workload, fixed: Mapping[str, int], attempt: Attempt) -> Change | None:
    """The smallest count of the same card that fits."""
    name, have = next(iter(fixed.items()))
    for count in (n for n in COUNTS if n > have):
        text = _("{n} cards instead of {have}").format(n=count, have=have)
        change = _tried("more-cards", text, attempt(workload, {name: count}))
        if change is not None:
            return change
    return None


def _bigger_card(
    workload: Workload, fixed: Mapping[str, int], attempt: Attempt, catalog: Catalog, calibration: Calibration
) -> Change | None:
    """The card with the least memory above this one that fits, of the same vendor if one does."""
    name, count = next(iter(fixed.items()))
    own = catalog.accelerators[name]
    size = usable_bytes(own, calibration) or 0.0

    def order(entry: Accelerator) -> tuple[bool, float]:
        return entry.vendor != own.vendor, usable_bytes(entry, calibration) or 0.0

    bigger = [
        entry
        for entry in catalog.accelerators.values()
        if (usable_bytes(entry, calibration) or 0.0) > size and entry.status != "legacy"
    ]
    field, found = attempt(workload, {entry.id: count for entry in bigger})
    fitting = {field.sites[c.site].accelerator.id: c for c in found.fitting}
    for entry in sorted(bigger, key=order):
        if (chosen := fitting.get(entry.id)) is not None:
            text = _("{n} x {card}").format(n=count, card=entry.name)
            return Change("bigger-card", text, float(chosen.memory.total) / GIB, chosen.usable / GIB)
    return None
