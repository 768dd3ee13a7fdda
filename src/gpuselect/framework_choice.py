"""Which of the frameworks that pass the gates to take: evidence, support, upkeep, portability, ease.

The score is a weighted sum of shares of 1; weights are a judgement, meant to be overridden by naming a
framework. What an estimate rests on decides first: an engine is only named if its constants were used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import log1p

from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, Catalog, Framework
from gpuselect.decision import FrameworkChoice, Note
from gpuselect.frameworks import (
    SUPPORT_ORDER,
    Ask,
    eligible,
    gate,
    missing_parallelism,
    parallel_needs,
    rows,
    support,
)
from gpuselect.i18n import N_, _, labelled
from gpuselect.plan import Plan

WEIGHTS = {
    N_("evidence"): 0.35, N_("fit"): 0.1, N_("support"): 0.15, N_("upkeep"): 0.15, N_("portability"): 0.1,
    N_("ease"): 0.15,
}  # fmt: skip
SERVES = frozenset({"inference", "infer-network"})
OF_ITS_KIND, OTHER_KIND = 1.0, 0.3  # runtimes and serving engines serve, frameworks and libraries train
SUPPORT = (1.0, 0.6, 0.3, 0.0)  # yes, community, experimental, not at all
UPKEEP = {"active": 1.0, "slow": 0.6, "maintenance": 0.3, "dormant": 0.0}
UNCALIBRATED = 0.5  # of the best calibrated engine: orders engines without measurements behind those with
EAGER = 0.6  # share of its rate that an engine keeps that launches each operator from Python: a judgement
MOST_LOST = 6
PLAIN_STACKS = frozenset({"cpu"})  # a processor keeps no vendor of accelerators open
ENGINE_KEYS = {  # framework -> the engine whose measured constants stand for it
    "ollama": "llama.cpp", "vllm-tpu": "tpu", "jetstream": "tpu",
    "vllm-gaudi": "gaudi", "optimum-habana": "gaudi",
}  # fmt: skip
Scores = dict[str, dict[str, float]]


def kind_of(accelerator: Accelerator) -> tuple[object, ...]:
    """What gates and scores know of an accelerator: equal for cards that the same frameworks run on."""
    return (accelerator.software, accelerator.compute_capability, accelerator.family == "cpu")


def able_on(
    accelerator: Accelerator, ask: Ask, catalog: Catalog, calibration: Calibration
) -> list[Framework]:
    """Frameworks that pass the gates known before a plan is, as `eligible`; remembered by kind of card."""
    key = ("able", *kind_of(accelerator), ask)
    if key not in catalog.memo:
        found = eligible(
            frameworks=catalog.frameworks.values(), accelerator=accelerator, method=ask.method,
            weights=ask.weights, wanted=ask.wanted, family=ask.family, precision=ask.precision, tp=ask.tp,
            heads=ask.heads, deployment=ask.deployment, licences=ask.licences,
        )  # fmt: skip
        catalog.memo[key] = made_for(found, accelerator, ask, catalog, calibration)
    return list(catalog.memo[key])


def made_for(
    able: list[Framework], accelerator: Accelerator, ask: Ask, catalog: Catalog, calibration: Calibration
) -> list[Framework]:
    """On a processor a network runs in a runtime made to serve, best first; elsewhere what is able."""
    serving = [f for f in able if f.kind == "runtime"]
    if ask.method != "infer-network" or accelerator.family != "cpu" or not serving:
        return able
    return [framework for framework, _shares in ranked(serving, accelerator, ask, catalog, calibration)]


def vendors_open(framework: Framework, catalog: Catalog) -> tuple[str, ...]:
    """Vendors of accelerators that a choice keeps open: fully supported, or by the community."""
    key = ("vendors-open", framework.id)
    if key not in catalog.memo:
        stacks = {s for s, how in framework.backends.items() if how in ("yes", "community")} - PLAIN_STACKS
        found = {a.vendor for a in catalog.accelerators.values() if stacks & set(a.software)}
        catalog.memo[key] = tuple(sorted(found))
    vendors: tuple[str, ...] = catalog.memo[key]
    return vendors


def evidence_of(framework: Framework, ask: Ask, calibration: Calibration) -> float:
    """Calibrated rate of an engine for decoders; else the logarithm of the measured rows."""
    if ask.method == "inference":
        key = ENGINE_KEYS.get(framework.id, framework.id)
        rate, traits = calibration.engines.get(key), calibration.engine_traits.get(key)
        launches = EAGER if traits is not None and traits.host == "eager" else 1.0
        return UNCALIBRATED if rate is None else float(rate) * launches
    return log1p(rows(framework, ask.method))


def criteria_of(
    able: Sequence[Framework], accelerator: Accelerator, ask: Ask, catalog: Catalog, calibration: Calibration
) -> Scores:
    """Shares of 1 of each framework in each criterion; evidence and portability against the best.

    Evidence counts in full only where the card's stack is fully supported: rows of other stacks are no
    evidence for an experimental one.
    """
    evidence = {f.id: evidence_of(f, ask, calibration) for f in able}
    vendors = {f.id: len(vendors_open(f, catalog)) for f in able}
    most, widest = max(evidence.values()) or 1.0, max(vendors.values()) or 1
    shares = {f.id: min(SUPPORT[support(f, accelerator)], _plan_support(f, ask)) for f in able}
    return {
        f.id: {
            "evidence": evidence[f.id] / most * shares[f.id],
            "fit": fit_of(f, ask),
            "support": shares[f.id],
            "upkeep": UPKEEP.get(f.upkeep or "", 0.5),
            "portability": vendors[f.id] / widest,
            "ease": 0.5 if f.ease is None else (float(f.ease) - 1.0) / 2.0,
        }
        for f in able
    }


def fit_of(framework: Framework, ask: Ask) -> float:
    """Whether the framework is made for the task: to serve, or to train."""
    serves = framework.kind in ("serving", "runtime")
    return OF_ITS_KIND if serves == (ask.method in SERVES) else OTHER_KIND


def _plan_support(framework: Framework, ask: Ask) -> float:
    """How far it supports the parallelism of the plan: the least of its parts; unknown counts as full."""
    known = [framework.parallelism[name] for name in ask.parallel if name in framework.parallelism]
    return min((SUPPORT[SUPPORT_ORDER.get(how, 3)] for how in known), default=1.0)


def total(criteria: Mapping[str, float]) -> float:
    """Weighted sum in 0..1.

    >>> total(dict.fromkeys(WEIGHTS, 1.0))
    1.0
    """
    return round(sum(WEIGHTS[key] * criteria[key] for key in WEIGHTS), 9)


def ranked(
    able: Sequence[Framework], accelerator: Accelerator, ask: Ask, catalog: Catalog, calibration: Calibration
) -> list[tuple[Framework, dict[str, float]]]:
    """Frameworks with their criteria, best first; a tie keeps the order of the catalog."""
    if not able:
        return []
    criteria = criteria_of(able, accelerator, ask, catalog, calibration)
    order = sorted(able, key=lambda f: -total(criteria[f.id]))
    return [(f, criteria[f.id]) for f in order]


def best(
    able: Sequence[Framework], accelerator: Accelerator, ask: Ask, catalog: Catalog, calibration: Calibration
) -> Framework:
    """The framework with the highest score among those that cover most of the plan; remembered.

    Gates and score know an accelerator by its software and its compute capability only.
    """
    key = ("framework", *kind_of(accelerator), ask, tuple(f.id for f in able))
    if key not in catalog.memo:
        fewest = min(len(missing_parallelism(f, ask.parallel)) for f in able)
        covering = [f for f in able if gate(f, accelerator, ask) is None] or [
            f for f in able if len(missing_parallelism(f, ask.parallel)) == fewest
        ]
        catalog.memo[key] = ranked(covering, accelerator, ask, catalog, calibration)[0][0]
    found: Framework = catalog.memo[key]
    return found


def named(framework: Framework, why: str, *, plan: Plan, model_name: str, nodes: int) -> FrameworkChoice:
    """The choice with its launch command; `explained_choice` adds what a reader of the answer needs."""
    return FrameworkChoice(
        id=framework.id, name=framework.name, why=why, launch=_launch(framework, plan, model_name, nodes),
        version=str(framework.version or ""), licence=str(framework.licence or ""),
    )  # fmt: skip


def training_why(framework: Framework, plan: Plan) -> str:
    """Why a library was taken for a plan, or what of the plan no library of the catalog states."""
    needs = parallel_needs(plan)
    missing = missing_parallelism(framework, needs)
    if missing:
        text = _("nearest to the plan; {missing} is not among what it states for this stack")
        return text.format(missing=_(", ").join(missing))
    return _("covers what the plan needs: {used}").format(used=_(", ").join(needs) or _("one accelerator"))


def explained_choice(
    choice: FrameworkChoice, accelerator: Accelerator, ask: Ask, catalog: Catalog, calibration: Calibration
) -> FrameworkChoice:
    """The choice with its criteria, the alternative, why the others lost, and what it keeps open."""
    frameworks = list(catalog.frameworks.values())
    chosen = catalog.frameworks[choice.id]
    able = [f for f in frameworks if gate(f, accelerator, ask) is None]
    able = able if chosen in able else [chosen, *able]
    order = ranked(able, accelerator, ask, catalog, calibration)
    own = next(criteria for f, criteria in order if f.id == choice.id)
    others = [(f, criteria) for f, criteria in order if f.id != choice.id]
    second = others[0][0] if others else None
    lost = [_outscored(f, criteria, own) for f, criteria in others]
    lost += _refused(frameworks, {f.id for f in able}, accelerator, ask)
    return replace(
        choice,
        criteria=own,
        total=total(own),
        alternative_id=second.id if second else "",
        alternative=second.name if second else "",
        lost=tuple(lost[:MOST_LOST]),
        vendors=vendors_open(chosen, catalog),
        evidence=_evidence_text(chosen),
        aged=tuple(labelled(claim, now) for claim, now in chosen.aged.items()),
    )


def _evidence_text(framework: Framework) -> str:
    """Maturity with the date of its evidence."""
    parts = [str(part) for part in (framework.maturity, framework.evidence_date) if part]
    return _(", ").join(parts)


def _outscored(framework: Framework, criteria: Mapping[str, float], own: Mapping[str, float]) -> Note:
    """Where a framework that passes all gates loses most."""
    loss = {key: WEIGHTS[key] * (own[key] - criteria[key]) for key in WEIGHTS}
    worst = max(loss, key=lambda key: loss[key])
    text = _("{name}: score {score:.2f}, behind in {where}").format(
        name=framework.name, score=total(criteria), where=_(worst)
    )
    if loss[worst] <= 0.0:
        text = _("{name}: score {score:.2f}; the estimate rests on the constants of the first").format(
            name=framework.name, score=total(criteria)
        )
    return Note("framework-outscored", text)


SHOWN_GATES = frozenset({
    "capability-too-low", "framework-precision", "format-unsupported", "parallelism-unsupported",
    "heads-not-divisible", "licence-excluded", "deployment-unsupported", "framework-superseded",
})  # fmt: skip


def _refused(
    frameworks: Iterable[Framework], able: set[str], accelerator: Accelerator, ask: Ask
) -> list[Note]:
    """Gates that others of the same method and stack did not pass."""
    free = replace(ask, wanted=frozenset())
    found = []
    for framework in frameworks:
        note = None if framework.id in able else gate(framework, accelerator, free)
        offers = ask.method in framework.methods and ask.family in framework.families
        if note is not None and note.code in SHOWN_GATES and offers:
            found.append(Note(note.code, labelled(framework.name, note.text)))
    return found


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
