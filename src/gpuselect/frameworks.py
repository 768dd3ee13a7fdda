"""Which frameworks can run a job on an accelerator, and which one to take."""

from __future__ import annotations

from collections.abc import Iterable

from gpuselect.catalog import Accelerator, Framework
from gpuselect.decision import FrameworkChoice
from gpuselect.i18n import _
from gpuselect.plan import Plan

SUPPORT_ORDER = {"yes": 0, "community": 1, "experimental": 2}
SHARDING_ORDER = (
    "megatron-lm",
    "pytorch-fsdp",
    "torchtitan",
    "pytorch",
    "maxtext",
    "deepspeed",
    "jax",
)


def eligible(
    *,
    frameworks: Iterable[Framework],
    accelerator: Accelerator,
    method: str,
    weights: str,
    wanted: frozenset[str],
    family: str = "decoder",
) -> list[Framework]:
    """Frameworks that pass the hard gates for this card and method, best supported first.

    Gates: software stack, CUDA compute capability, method (pretrain, full, lora, qlora, inference,
    train-network, infer-network), for the last two the family of networks, and, for serving engines
    that list formats, the weight format.
    """
    found = []
    for framework in frameworks:
        if wanted and framework.id not in wanted:
            continue
        if method not in framework.methods or framework.replaced_by is not None:
            continue
        if family != "decoder" and family not in framework.families:
            continue
        stacks = [s for s in accelerator.software if s in framework.backends]
        if not stacks:
            continue
        need, has = framework.min_compute_capability, accelerator.compute_capability_number
        if "cuda" in stacks and need is not None and has is not None and has < need:
            continue
        formats = framework.weight_formats
        if method == "inference" and formats and weights not in formats:
            continue
        support = min(SUPPORT_ORDER.get(framework.backends[s], 3) for s in stacks)
        found.append((support, framework))
    return [framework for _support, framework in sorted(found, key=lambda item: item[0])]


def parallel_needs(plan: Plan) -> tuple[str, ...]:
    """Names of the parallelism that a plan uses: dp, zero1, zero3, tp, pp, ep, cp."""
    needs = [name for name in ("tp", "pp", "ep", "cp", "dp") if getattr(plan, name) > 1]
    if plan.zero_stage and plan.dp > 1:
        needs.append(f"zero{plan.zero_stage}")
    return tuple(needs)


def choose_engine(
    *, candidates: list[Framework], engine: str, rate: float, plan: Plan, model_name: str, nodes: int
) -> FrameworkChoice:
    """The serving engine whose constants the estimate used, with its launch command."""
    best = next(f for f in candidates if f.id == engine)
    why = _("serving engine with support for this card and format, calibrated rate {rate:.2f}").format(
        rate=rate
    )
    return FrameworkChoice(id=best.id, name=best.name, why=why, launch=_launch(best, plan, model_name, nodes))


def choose_runtime(*, candidates: list[Framework], runtime: str, model_name: str) -> FrameworkChoice:
    """The runtime whose constants the estimate of a network used."""
    best = next((f for f in candidates if f.id == runtime), candidates[0])
    why = _("runs this family of networks on the card's software stack")
    return FrameworkChoice(id=best.id, name=best.name, why=why, launch=_launch(best, Plan(), model_name, 1))


def choose_library(
    *, candidates: list[Framework], plan: Plan, model_name: str, nodes: int
) -> FrameworkChoice:
    """The training library for a plan: it must offer the plan's parallelism.

    The one that covers the plan with the fewest parts comes first: Megatron-LM for tp x pp, FSDP for
    ZeRO-3, plain PyTorch for one card.
    """
    needs = parallel_needs(plan)
    able = [f for f in candidates if not f.parallelism or all(n in f.parallelism for n in needs)]
    order = SHARDING_ORDER if plan.tp * plan.pp * plan.ep > 1 else SHARDING_ORDER[1:]
    best = min(able or candidates, key=lambda f: order.index(f.id) if f.id in order else len(order))
    used = ", ".join(needs) or _("one accelerator")
    why = _("covers what the plan needs: {used}").format(used=used)
    return FrameworkChoice(id=best.id, name=best.name, why=why, launch=_launch(best, plan, model_name, nodes))


def _launch(framework: Framework, plan: Plan, model_name: str, nodes: int) -> tuple[str, ...]:
    """The launch lines with the plan's numbers; {n_gpus} counts all, {gpus_per_node} those of one node."""
    values = {
        "{n_gpus}": str(plan.count), "{nodes}": str(nodes),
        "{gpus_per_node}": str(-(-plan.count // nodes)), "{tp}": str(plan.tp),
        "{pp}": str(plan.pp), "{model}": model_name, "{replicas}": str(plan.replicas),
    }  # fmt: skip
    lines = []
    for template in framework.launch:
        line = template
        for key, value in values.items():
            line = line.replace(key, value)
        lines.append(line)
    return tuple(lines)
