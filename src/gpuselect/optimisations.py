"""What an optimisation does to a training run: the same estimate without it and with it, one effect each.

Every function takes the run of an answer and returns the effect, or None where the estimate cannot tell
or the run has no use for it. Nothing here decides what is shown: that is `advice`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.effects import Effect, capped, slowed
from gpuselect.estimate.devices import device, peak_tflops
from gpuselect.estimate.memory import Memory, Recipe, block_layers, training_memory
from gpuselect.estimate.memory_recipe import ADAPTERS, WIDE, training_recipe
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.training import Method, StepTime, step_time
from gpuselect.frameworks import Ask, gate, hardware_gate, parallel_needs, rows
from gpuselect.i18n import _
from gpuselect.job import PREFIX_TOKENS, TrainingJob
from gpuselect.names import allowed_licences
from gpuselect.plan import BLOCKS, FULL, ON_THE_HOST, RECOMPUTE, ZERO_BUBBLE, Plan
from gpuselect.search import Site, method_of
from gpuselect.units import GIB
from gpuselect.workload import Workload

COMPRESSION = 2.0  # gradients in half of the bytes: 8 bit instead of 16


@dataclass(frozen=True, slots=True)
class Run:
    """A training run of an answer, with everything that its estimate takes."""

    job: TrainingJob
    site: Site
    plan: Plan
    workload: Workload
    catalog: Catalog
    calibration: Calibration
    usable: float

    def memory(
        self, *, plan: Plan | None = None, recipe: Recipe | None = None, fragmentation: float | None = None
    ) -> Memory:
        """Need per accelerator [B], with something changed."""
        constants = self.calibration.memory
        return training_memory(
            shape=self.job.shape, plan=plan or self.plan, recipe=recipe or self.job.recipe,
            seq_len=self.job.seq_len, fragmentation=fragmentation or float(constants.fragmentation),
            context_bytes=float(constants.training_context_gib) * GIB,
        )  # fmt: skip

    def step(
        self, *, plan: Plan | None = None, recipe: Recipe | None = None, method: Method | None = None,
        device: Device | None = None,
    ) -> StepTime:  # fmt: skip
        """Step time [s], with something changed."""
        return step_time(
            shape=self.job.shape, plan=plan or self.plan, recipe=recipe or self.job.recipe,
            device=device or self.site.device, constants=self.calibration.training, seq_len=self.job.seq_len,
            method=method or method_of(self.job),
        )  # fmt: skip

    def recipe(self, *, precision: str = "", fused: bool | None = None, flash: bool = True) -> Recipe:
        """The recipe of the job in another precision, stack or attention kernel."""
        return training_recipe(
            shape=self.job.shape, method=self.job.method, precision=precision or self.job.precision,
            fused=self.job.fused if fused is None else fused, optimizer=self.workload.optimizer or "adamw",
            lora_rank=self.workload.lora_rank or 16, calibration=self.calibration, flash=flash,
            prefix_tokens=self.workload.prefix_tokens or PREFIX_TOKENS,
        )  # fmt: skip

    def device(self, precision: str) -> Device | None:
        """The card multiplying in another precision, None where it has no rate for it."""
        if peak_tflops(self.site.accelerator, precision) is None:
            return None
        return device(
            self.site.accelerator, self.site.system, precision=precision, serving=False,
            calibration=self.calibration,
        )  # fmt: skip


def total(record: Memory | StepTime) -> float:
    """The sum of a memory or of a step as a plain number."""
    return float(record.total)


def _both(run: Run, code: str, what: str, *, in_use: bool, **changed: Any) -> Effect:
    """The effect of a change of the plan: the answer's plan against the changed one."""
    plan = replace(run.plan, **changed)
    memory = (total(run.memory()), total(run.memory(plan=plan)))
    seconds = (total(run.step()), total(run.step(plan=plan)))
    if in_use:
        memory, seconds = (memory[1], memory[0]), (seconds[1], seconds[0])
    return Effect(
        code,
        what,
        memory=memory,
        seconds=seconds,
        in_use=in_use,
    )


def mixed_precision(run: Run) -> Effect | None:
    """16-bit products against fp32 (TF32 where the card has it)."""
    wide = "tf32" if run.device("tf32") else "fp32"
    other = run.device(wide)
    in_use = run.job.precision not in WIDE
    sixteen = run.site.precision if in_use else "bf16" if run.device("bf16") else "fp16"
    narrow = run.device(sixteen)
    if other is None or narrow is None or (in_use and sixteen not in ("bf16", "fp16")):
        return None
    method = method_of(run.job)
    without = run.recipe(precision=wide)
    with_ = run.job.recipe if in_use else run.recipe(precision=sixteen)
    return Effect(
        "mixed-precision",
        _("{narrow} against {wide}").format(narrow=sixteen, wide=wide),
        memory=(total(run.memory(recipe=without)), total(run.memory(recipe=with_))),
        seconds=(
            total(run.step(recipe=without, device=other, method=replace(method, wide=True))),
            total(run.step(recipe=with_, device=narrow, method=replace(method, wide=False))),
        ),
        in_use=in_use,
    )  # fmt: skip


def fp8_training(run: Run) -> Effect | None:
    """8-bit products of the linear layers against 16-bit ones."""
    eight = run.device("fp8")
    in_use = run.job.precision == "fp8"
    if eight is None or run.job.precision in WIDE or run.job.method in ADAPTERS:
        return None
    narrow = run.device("bf16" if in_use else run.site.precision)
    if narrow is None or (not in_use and run.site.precision not in ("bf16", "fp16")):
        return None
    recipe = run.recipe(precision="fp8")
    ask = Ask(
        run.job.method, precision="fp8", parallel=parallel_needs(run.plan), tp=int(run.plan.tp),
        heads=int(run.job.shape.n_heads),
        licences=allowed_licences(run.workload.framework_licence, run.catalog),
    )  # fmt: skip
    card = run.site.accelerator
    able = [f for f in run.catalog.frameworks.values() if f.precisions and gate(f, card, ask) is None]
    if not able:
        return None
    library = max(able, key=lambda f: rows(f, run.job.method)).name
    return Effect(
        "fp8-training",
        _("fp8 products against 16 bit, with {name}").format(name=library),
        memory=(total(run.memory()), total(run.memory(recipe=recipe))),
        seconds=(total(run.step(device=narrow)), total(run.step(recipe=recipe, device=eight))),
        in_use=in_use,
    )  # fmt: skip


def recompute(run: Run) -> Effect | None:
    """The plan's gradient checkpointing against keeping everything; full where none is used."""
    level = int(run.plan.recompute)
    if level:
        code = "recompute-sqrt" if level == BLOCKS else f"recompute-{RECOMPUTE[level]}"
        return _both(run, code, _("{level} recomputation").format(level=_(RECOMPUTE[level])), in_use=True,
                     recompute=0)  # fmt: skip
    return _both(run, "recompute-full", _("full recomputation"), in_use=False, recompute=FULL)


def recompute_selective(run: Run) -> Effect | None:
    """Selective checkpointing where the plan uses none."""
    if int(run.plan.recompute):
        return None
    what = _("selective recomputation")
    return _both(run, "recompute-selective", what, in_use=False, recompute=1)


def recompute_sqrt(run: Run) -> Effect | None:
    """A checkpoint every few layers against one per layer: fewer inputs, more whole layers alive.

    One segment is computed anew at a time (arXiv 1604.06174, section 4); time as with one per layer.
    """
    if int(run.plan.recompute) != FULL:
        return None
    plan = replace(run.plan, recompute=BLOCKS)
    layers = block_layers(shape=run.job.shape, plan=plan, recipe=run.job.recipe, seq_len=run.job.seq_len)
    if layers < 2:
        return None
    what = _("a checkpoint every {n} layers").format(n=int(layers))
    return _both(run, "recompute-sqrt", what, in_use=False, recompute=BLOCKS)


def accumulation(run: Run) -> Effect | None:
    """Gradient accumulation of the plan against one pass over the same global batch."""
    accum = int(run.plan.grad_accum)
    if accum < 2 or int(run.plan.pp) > 1:
        return None
    what = _("{n} accumulation steps against one").format(n=accum)
    return _both(run, "gradient-accumulation", what, in_use=True,
                 micro_batch=int(run.plan.micro_batch) * accum, grad_accum=1)  # fmt: skip


def larger_micro_batch(run: Run) -> Effect | None:
    """Twice the micro-batch with half of the accumulation steps."""
    accum = int(run.plan.grad_accum)
    if accum % 2 or accum // 2 < int(run.plan.pp):
        return None
    size = 2 * int(run.plan.micro_batch)
    what = _("micro-batch {n}").format(n=size)
    return _both(run, "gradient-accumulation", what, in_use=False, micro_batch=size, grad_accum=accum // 2)


def zero_stage(run: Run) -> Effect | None:
    """The plan's ZeRO stage against plain data parallelism."""
    stage = int(run.plan.zero_stage)
    if int(run.plan.dp) < 2 or not stage:
        return None
    what = _("stage {n}").format(n=stage)
    return _both(run, "zero-stage", what, in_use=True, zero_stage=0)


def higher_zero_stage(run: Run) -> Effect | None:
    """ZeRO-3 where the plan uses less."""
    if int(run.plan.dp) < 2 or int(run.plan.zero_stage) >= 3 or int(run.plan.pp) > 1:
        return None
    return _both(run, "zero-stage", _("stage 3"), in_use=False, zero_stage=3)


def optimizer_offload(run: Run) -> Effect | None:
    """Optimizer states in host memory: their bytes leave the card, the host updates them."""
    card = run.site.accelerator
    if run.job.method in ADAPTERS or int(run.plan.pp) > 1 or card.unified_memory:
        return None
    level = int(run.plan.offload)
    if level:
        what = _("{what} on the host").format(what=_(ON_THE_HOST[level]))
        return _both(run, "optimizer-offload", what, in_use=True, offload=0)
    what = _("optimizer states on the host")
    stage = max(int(run.plan.zero_stage), 2)
    return _both(run, "optimizer-offload", what, in_use=False, offload=1, zero_stage=stage)


def parallel_layout(run: Run) -> Effect | None:
    """Tensor and pipeline parallelism of the plan against ZeRO-3 over the same cards."""
    count, width = int(run.plan.count), int(run.plan.tp) * int(run.plan.pp)
    accum, rest = divmod(run.job.global_batch, count)
    if width < 2 or rest or not accum or int(run.plan.cp) > 1:
        return None
    what = _("tp {tp}, pp {pp} against ZeRO-3 over {n} cards").format(tp=run.plan.tp, pp=run.plan.pp, n=count)
    return _both(
        run, "parallel-layout", what, in_use=True, tp=1, pp=1, dp=count, ep=1, zero_stage=3, virtual=1,
        micro_batch=1, grad_accum=accum,
    )  # fmt: skip


def pipeline_schedule(run: Run) -> Effect | None:
    """Interleaved stages of the plan against plain ones; a zero-bubble schedule where it has none."""
    if int(run.plan.pp) < 2 or int(run.plan.schedule) == ZERO_BUBBLE:
        return None
    share = float(run.step().bubble) / total(run.step())
    if int(run.plan.virtual) > 1:
        what = _("{v} stages per rank, bubble {share:.0%} of the step").format(
            v=run.plan.virtual, share=share
        )
        return _both(run, "pipeline-schedule", what, in_use=True, virtual=1)
    what = _("a zero-bubble schedule; the bubble is {share:.0%} of the step").format(share=share)
    return _both(run, "pipeline-schedule", what, in_use=False, schedule=ZERO_BUBBLE)


def gradient_compression(run: Run) -> Effect | None:
    """The exposed gradient exchange over a link of twice the rate: half of the bytes."""
    if int(run.plan.dp) < 2 or int(run.plan.zero_stage) >= 3:
        return None
    own = run.site.device
    faster = replace(own, link=own.link * COMPRESSION, network=own.network * COMPRESSION)
    step = run.step()
    gained = float(step.gradient_sync) - float(run.step(device=faster).gradient_sync)
    return Effect(
        "gradient-compression",
        _("gradients in half of the bytes"),
        seconds=(total(step), total(step) - gained),
        in_use=False,
    )  # fmt: skip


def fused_kernels(run: Run) -> Effect:
    """A stack of fused kernels against one that launches operators one by one."""
    method = method_of(run.job)
    eager, fused = run.recipe(fused=False), run.recipe(fused=True)
    return Effect(
        "fused-kernels",
        _("fused stack against eager"),
        memory=(total(run.memory(recipe=eager)), total(run.memory(recipe=fused))),
        seconds=(
            total(run.step(recipe=eager, method=replace(method, fused=False))),
            total(run.step(recipe=fused, method=replace(method, fused=True))),
        ),
        in_use=bool(run.job.fused),
    )  # fmt: skip


def fused_attention(run: Run) -> Effect | None:
    """Attention that never writes its scores, against plain attention; None where no kernel runs."""
    kernel = run.catalog.frameworks.get("flash-attention")
    if kernel is not None and hardware_gate(kernel, run.site.accelerator) is not None:
        return None
    plain = run.recipe(flash=False)
    slow = run.step(recipe=plain, method=replace(method_of(run.job), flash=False))
    return Effect(
        "fused-attention",
        _("scores are not written to memory"),
        memory=(total(run.memory(recipe=plain)), total(run.memory())),
        seconds=(total(slow), total(run.step())),
        in_use=True,
    )  # fmt: skip


def allocator_settings(run: Run) -> Effect:
    """The fitted fragmentation against none: an upper bound."""
    seconds = total(run.step())
    return Effect(
        "allocator-settings",
        _("an allocator without fragmentation"),
        memory=(total(run.memory()), total(run.memory(fragmentation=1.0))),
        seconds=(seconds, seconds),
        in_use=False,
    )  # fmt: skip


def rdma(run: Run, nodes: int) -> Effect | None:
    """The network's rate against that of cards whose traffic is copied through the host."""
    if nodes < 2:
        return None
    staged = replace(
        run.site.device,
        network=run.site.device.network * float(run.calibration.training.host_staged),
    )
    return Effect(
        "rdma",
        _("traffic between {n} nodes").format(n=nodes),
        seconds=(total(run.step(device=staged)), total(run.step())),
        in_use=True,
    )  # fmt: skip


def power_cap(run: Run) -> Effect:
    """A board limit of 80 % of the load: arithmetic slows with the clock, traffic does not."""
    return capped(total(run.step()), total(run.step(device=slowed(run.site.device))))


def profile_first(run: Run) -> Effect:
    """The largest term of the step that is no matrix product, and the step without it."""
    step = run.step()
    names = ("elementwise", "tensor_parallel", "expert_parallel", "context_parallel", "host", "bubble",
             "gradient_sync", "optimizer")  # fmt: skip
    largest = max(names, key=lambda name: float(getattr(step, name)))
    seconds = total(step)
    what = _("{term} is {share:.0%} of the step").format(
        term=largest.replace("_", " "), share=float(getattr(step, largest)) / seconds
    )
    return Effect(
        "profile-first",
        what,
        seconds=(seconds, max(seconds - float(getattr(step, largest)), 0.0)),
        in_use=False,
    )


TRAINING: tuple[Callable[[Run], Effect | None], ...] = (
    mixed_precision, fp8_training, recompute, recompute_selective, recompute_sqrt, accumulation,
    larger_micro_batch, zero_stage, higher_zero_stage, optimizer_offload, parallel_layout, pipeline_schedule,
    gradient_compression, fused_kernels, fused_attention, allocator_settings, profile_first, power_cap,
)  # fmt: skip


def training_effects(run: Run, nodes: int) -> list[Effect]:
    """Every effect that can be computed for the run."""
    found = [effect(run) for effect in TRAINING] + [rdma(run, nodes)]
    return [effect for effect in found if effect is not None]
