"""Hard gates of frameworks: which can run a job on an accelerator, and why another cannot.

Each refusal has a code that `explain` documents and names the nearest alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpuselect.catalog import Accelerator, Framework
from gpuselect.decision import Note
from gpuselect.i18n import _, labelled
from gpuselect.plan import OFFLOADS, Plan

SUPPORT_ORDER = {"yes": 0, "community": 1, "experimental": 2}
TRAINS = frozenset({"pretrain", "full", "lora", "qlora", "prefix", "train-network"})
PRECISION_NAMES = {"tf32": "fp32", "mxfp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4"}
NEXT_FORMATS: Mapping[str, tuple[str, ...]] = {  # what stands in for a format, the nearest first
    "nvfp4": ("mxfp4", "int4-awq", "int4-gptq", "fp8", "q4_k_m", "fp16"),
    "mxfp4": ("nvfp4", "int4-awq", "int4-gptq", "fp8", "q4_k_m", "fp16"),
    "int4-experts": ("nvfp4", "int4-awq", "fp8", "fp16"),
    "int4-awq": ("int4-gptq", "nf4", "q4_k_m", "fp8", "fp16"),
    "int4-gptq": ("int4-awq", "nf4", "q4_k_m", "fp8", "fp16"),
    "nf4": ("int4-awq", "int4-gptq", "q4_k_m", "fp8", "fp16"),
    "fp8": ("int8", "int8-weight-only", "int4-awq", "q8_0", "fp16"),
    "int8": ("fp8", "int8-weight-only", "q8_0", "fp16"),
    "bf16": ("fp16", "fp32"),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """What a job and its plan ask of a framework, resolved. Empty means that nothing is asked."""

    method: str
    family: str = "decoder"
    weights: str = ""  # storage format of an inference of a decoder
    precision: str = ""  # of the arithmetic of training
    parallel: tuple[str, ...] = ()  # dp, zero1, zero3, tp, pp, ep, cp
    tp: int = 1
    heads: int = 0
    deployment: str = ""  # server, cluster, edge, mobile, desktop
    licences: frozenset[str] = frozenset()  # names; those of all its parts must be among them
    wanted: frozenset[str] = frozenset()


def stacks_of(framework: Framework, accelerator: Accelerator) -> list[str]:
    """Software stacks that both have."""
    return [stack for stack in accelerator.software if stack in framework.backends]


def gate(framework: Framework, accelerator: Accelerator, ask: Ask) -> Note | None:
    """First gate that the framework does not pass, None when it passes all.

    In the order of the checks: named by the workload, maintained, method, family, device, precision,
    weight format, parallelism of the plan, licence, deployment target.
    """
    if ask.wanted and framework.id not in ask.wanted:
        return Note("framework-not-asked", _("not among the frameworks named"))
    if framework.replaced_by is not None:
        text = _("{state}; replaced by {other}")
        state = framework.maturity or _("no longer maintained")
        return Note("framework-superseded", text.format(state=state, other=framework.replaced_by))
    if ask.method not in framework.methods or (
        ask.family != "decoder" and ask.family not in framework.families
    ):
        text = _("does not offer {method} of the family {family}")
        return Note("method-unsupported", text.format(method=ask.method, family=ask.family))
    return (
        hardware_gate(framework, accelerator, precision=ask.precision if ask.method in TRAINS else "")
        or _format_gate(framework, accelerator, ask)
        or _plan_gate(framework, ask)
        or _wish_gate(framework, ask)
    )


def hardware_gate(framework: Framework, accelerator: Accelerator, *, precision: str = "") -> Note | None:
    """Device and precision: software stack, compute capability, number format."""
    stacks = stacks_of(framework, accelerator)
    if not stacks:
        text = _("runs on {runs}; the card's stack is {has}")
        has = _(", ").join(accelerator.software) or _("unknown")
        return Note("stack-unsupported", text.format(runs=_(", ").join(framework.backends), has=has))
    has_cc = accelerator.compute_capability_number if "cuda" in stacks else None
    need = framework.min_compute_capability
    if need is not None and has_cc is not None and has_cc < need:
        return Note("capability-too-low", _capability_text("", float(need), has_cc))
    name = PRECISION_NAMES.get(precision, precision)
    if not name:
        return None
    if framework.precisions and name not in framework.precisions:
        text = _("multiplies in {known}, not in {precision}")
        return Note("framework-precision", text.format(known=_names(framework.precisions), precision=name))
    need = framework.precision_min_capability.get(name)
    if need is not None and has_cc is not None and has_cc < need:
        return Note("framework-precision", _capability_text(name, float(need), has_cc))
    return None


def _capability_text(what: str, need: float, has: float) -> str:
    text = _("needs compute capability {need:.1f}, the card has {has:.1f}").format(need=need, has=has)
    return f"{what} {text}" if what else text


def _names(traits: Iterable[str]) -> str:
    return _(", ").join(traits) or _("none")


def _format_gate(framework: Framework, accelerator: Accelerator, ask: Ask) -> Note | None:
    """Weight formats: listed at all, on this stack, from this compute capability on."""
    formats = framework.weight_formats
    if ask.method != "inference" or not formats or not ask.weights:
        return None
    if ask.weights not in formats:
        return Note("format-unsupported", _("does not run {name} weights").format(name=ask.weights))
    stacks = stacks_of(framework, accelerator)
    allowed = framework.format_stacks.get(ask.weights)
    if allowed is not None and not set(allowed.split()) & set(stacks):
        text = _("runs {name} weights on {allowed}, not on {stack}")
        return Note(
            "format-unsupported",
            text.format(name=ask.weights, allowed=_(", ").join(allowed.split()), stack=_(", ").join(stacks)),
        )
    need, has = framework.format_min_capability.get(ask.weights), accelerator.compute_capability_number
    if need is not None and has is not None and "cuda" in stacks and has < need:
        return Note("format-unsupported", _capability_text(ask.weights, float(need), has))
    return None


def _plan_gate(framework: Framework, ask: Ask) -> Note | None:
    """Parallelism that the plan needs, and tensor parallelism that divides the heads."""
    missing = missing_parallelism(framework, ask.parallel)
    if missing:
        text = _("states {known}, not {missing}")
        return Note(
            "parallelism-unsupported",
            text.format(known=_names(framework.parallelism), missing=_(", ").join(missing)),
        )
    if ask.heads and ask.heads % ask.tp and framework.heads_divide is not None:
        text = _("tensor parallelism {tp} does not divide {heads} heads")
        return Note("heads-not-divisible", text.format(tp=ask.tp, heads=ask.heads))
    return None


def missing_parallelism(framework: Framework, needs: Iterable[str]) -> list[str]:
    """What a plan needs and the framework does not state."""
    return [name for name in needs if name not in framework.parallelism]


def _wish_gate(framework: Framework, ask: Ask) -> Note | None:
    """Licence and deployment target."""
    if ask.licences and not (framework.licences and ask.licences.issuperset(framework.licences)):
        return Note("licence-excluded", _("licence: {name}").format(name=framework.licence or _("unknown")))
    if ask.deployment and framework.deployment and ask.deployment not in framework.deployment:
        text = _("is made for {known}, not for {target}")
        return Note(
            "deployment-unsupported", text.format(known=_names(framework.deployment), target=ask.deployment)
        )
    return None


def eligible(
    *,
    frameworks: Iterable[Framework],
    accelerator: Accelerator,
    method: str,
    weights: str,
    wanted: frozenset[str],
    family: str = "decoder",
    precision: str = "",
    tp: int = 1,
    heads: int = 0,
    deployment: str = "",
    licences: frozenset[str] = frozenset(),
) -> list[Framework]:
    """Frameworks that pass the gates known before a plan is: best supported first."""
    ask = Ask(
        method, family, weights, precision, tp=tp, heads=heads, wanted=wanted, deployment=deployment,
        licences=licences,
    )  # fmt: skip
    found = [framework for framework in frameworks if gate(framework, accelerator, ask) is None]
    return sorted(found, key=lambda framework: support(framework, accelerator))


def support(framework: Framework, accelerator: Accelerator) -> int:
    """0 full, 1 by the community, 2 experimental: the best of the stacks that both have."""
    return min(
        (SUPPORT_ORDER.get(framework.backends[s], 3) for s in stacks_of(framework, accelerator)), default=3
    )


def refusal(frameworks: Iterable[Framework], accelerator: Accelerator, ask: Ask) -> Note | None:
    """Why no framework runs the job on the card: the refusal of the one that came furthest.

    With frameworks that the workload names, theirs; the sentence ends with the nearest alternative. None
    where no framework offers the task on the card's software at all.
    """
    everyone = list(frameworks)
    asked = [f for f in everyone if not ask.wanted or f.id in ask.wanted]
    notes = [(f, note) for f in asked if (note := gate(f, accelerator, ask)) is not None]
    shallow = {"method-unsupported"} if ask.wanted else {"method-unsupported", "stack-unsupported"}
    notes = [(f, note) for f, note in notes if note.code not in shallow | {"framework-superseded"}] or (
        notes if ask.wanted else []
    )
    if not notes:
        return None
    framework, note = max(notes, key=lambda item: GATE_DEPTH.get(item[1].code, 0))
    return explained(framework, note, everyone, accelerator, ask)


GATE_DEPTH = {
    "method-unsupported": 1, "framework-superseded": 2, "stack-unsupported": 3, "capability-too-low": 4,
    "framework-precision": 5, "format-unsupported": 6, "parallelism-unsupported": 7,
    "heads-not-divisible": 8, "licence-excluded": 9, "deployment-unsupported": 9,
}  # fmt: skip


def explained(
    framework: Framework, note: Note, frameworks: Iterable[Framework], accelerator: Accelerator, ask: Ask
) -> Note:
    """The refusal as a sentence with the framework's name and the nearest alternative."""
    text = labelled(framework.name, note.text)
    other = alternative(framework, note, frameworks, accelerator, ask)
    return replace(note, text=text + _("; nearest: {other}").format(other=other) if other else text)


def alternative(
    framework: Framework, note: Note, frameworks: Iterable[Framework], accelerator: Accelerator, ask: Ask
) -> str:
    """What comes nearest to the refused choice: another width, format, precision or framework."""
    if note.code == "heads-not-divisible":
        return _nearest_width(framework, frameworks, accelerator, ask)
    if note.code == "format-unsupported":
        for name in NEXT_FORMATS.get(ask.weights, ("fp16",)):
            if gate(framework, accelerator, replace(ask, weights=name)) is None:
                return _("{name} weights").format(name=name)
    if note.code == "framework-precision":
        for name in ("bf16", "fp16", "fp32"):
            if hardware_gate(framework, accelerator, precision=name) is None:
                return name
    free = replace(ask, wanted=frozenset())
    able = [f for f in frameworks if f.id != framework.id and gate(f, accelerator, free) is None]
    if able:
        able.sort(key=lambda f: (support(f, accelerator), f.kind != framework.kind, -rows(f, ask.method)))
        return able[0].name
    return str(framework.fallback or framework.replaced_by or "")


def rows(framework: Framework, method: str) -> float:
    """Measured rows of the method's kind."""
    kind = "finetune" if method in ("full", "lora", "qlora", "prefix") else method
    return float(framework.measured_rows.get(kind, 0.0))


def _nearest_width(
    framework: Framework, frameworks: Iterable[Framework], accelerator: Accelerator, ask: Ask
) -> str:
    """The nearest width below that divides the heads, and an engine that splits by layers."""
    width = next((n for n in range(min(ask.tp - 1, ask.heads or ask.tp), 0, -1) if ask.heads % n == 0), 1)
    free = replace(ask, wanted=frozenset(), weights="", tp=1)
    layers = [
        f.name
        for f in frameworks
        if f.heads_divide is None and "pp" in f.parallelism and f.kind == framework.kind
        and gate(f, accelerator, free) is None
    ]  # fmt: skip
    text = _("tp {width}").format(width=width)
    return text + _(", or {name}, which splits layers").format(name=layers[0]) if layers else text


def parallel_needs(plan: Plan) -> tuple[str, ...]:
    """Names of the parallelism that a plan uses: dp, zero1, zero3, tp, pp, ep, cp, and what it offloads."""
    needs = [name for name in ("tp", "pp", "ep", "cp", "dp") if getattr(plan, name) > 1]
    if plan.zero_stage and plan.dp > 1:
        needs.append(f"zero{plan.zero_stage}")
    if plan.offload:
        needs.append(f"offload-{OFFLOADS[plan.offload]}")
    return tuple(needs)
