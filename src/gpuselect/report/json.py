"""The JSON contract, schema_version 1: fields are only ever added; unknown is null, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuselect.decision import (
    Considered,
    Cost,
    Decision,
    Energy,
    Estimate,
    FitAnswer,
    FrameworkChoice,
    MemoryFit,
    Note,
    Offer,
    Option,
)
from gpuselect.plan import RECOMPUTE, Plan
from gpuselect.report.plain import plain
from gpuselect.report.version import tool_version

SCHEMA_VERSION = 1
WIDTHS = ("tp", "pp", "dp", "ep", "cp", "zero_stage")


def decision_payload(decision: Decision) -> dict[str, Any]:
    """The answer to `recommend` in the published shape."""
    return {
        **_head("recommend", decision),
        "recommendations": [option_payload(option) for option in decision.recommendations],
        "unpriced": [option_payload(option) for option in decision.unpriced],
        "considered": [_considered(entry) for entry in decision.considered],
        "near_misses": _notes(decision.near_misses),
        "sensitivity": _notes(decision.sensitivity),
        "next_commands": list(decision.next_commands),
        "data_date": decision.data_date or None,
        "sources": [{"key": key, "title": title} for key, title in decision.sources_used],
    }


def fit_payload(answer: FitAnswer) -> dict[str, Any]:
    """The answer to `estimate` in the published shape."""
    option = answer.option
    best = option_payload(option) if option is not None else dict.fromkeys(OPTION_KEYS)
    fits = option is not None and fits_usable(answer)
    return {
        **_head("estimate", answer),
        "fits": fits,
        "state": answer.state,
        "reasons": _notes(answer.reasons),
        **{key: best[key] for key in OPTION_KEYS},
        "warnings": _notes(option.warnings) if option is not None else [],
        "alternatives": [option_payload(other) for other in answer.alternatives],
        "next_commands": list(answer.next_commands),
    }


OPTION_KEYS = (
    "accelerator", "count", "nodes", "plan", "framework", "memory", "performance",
    "step_breakdown", "cost", "energy",
)  # fmt: skip


def fits_usable(answer: FitAnswer) -> bool:
    """Whether the need is within the usable memory: `tight` lies on both sides of that line."""
    if answer.option is None or answer.state == "no":
        return False
    fit = answer.option.memory
    return answer.state == "fits" or fit.per_accelerator_gib <= fit.usable_gib


def _head(command: str, answer: Decision | FitAnswer) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "version": tool_version(),
        "workload": plain(answer.workload),
        "workload_sentence": answer.workload_sentence,
        "assumptions": _notes(answer.assumptions),
    }


def option_payload(option: Option) -> dict[str, Any]:
    """One option in the published shape."""
    return {
        "rank": option.rank or None,
        "accelerator": option.accelerator,
        "name": option.accelerator_name,
        "count": int(option.count),
        "nodes": int(option.nodes),
        "roles": list(option.roles),
        "plan": _plan(option.plan, option),
        "framework": _framework(option.framework),
        "memory": _memory(option.memory),
        "performance": {key: _estimate(value) for key, value in option.performance.items()},
        "step_breakdown": plain(option.step_breakdown),
        "cost": _cost(option.cost),
        "energy": _energy(option.energy),
        "score": {"total": option.score.total, "criteria": plain(option.score.criteria)},
        "on_pareto_front": bool(option.on_pareto_front),
        "tied_with_winner": bool(option.tied_with_winner),
        "reasons": _notes(option.reasons),
        "warnings": _notes(option.warnings),
    }


def _plan(plan: Plan, option: Option) -> dict[str, Any]:
    return {
        **{key: int(getattr(plan, key)) for key in WIDTHS},
        "recompute": RECOMPUTE[int(plan.recompute)],
        **{key: int(getattr(plan, key)) for key in ("micro_batch", "grad_accum", "replicas")},
        "precision": option.precision,
        "weights": option.weights or None,
        "kv": option.kv or None,
    }


def _framework(choice: FrameworkChoice | None) -> dict[str, Any] | None:
    if choice is None:
        return None
    return {
        "id": choice.id,
        "name": choice.name,
        "version": getattr(choice, "version", None),
        "why": choice.why,
        "launch": list(choice.launch),
    }


def _memory(fit: MemoryFit) -> dict[str, Any]:
    return {
        "per_accelerator_gib": plain(fit.per_accelerator_gib),
        "usable_gib": plain(fit.usable_gib),
        "headroom_pct": plain(fit.headroom_pct) if fit.usable_gib else None,
        "state": fit.state,
        "breakdown": plain(fit.breakdown_gib),
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": plain(estimate.value), "low": plain(estimate.low), "high": plain(estimate.high)
    }  # fmt: skip


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "per_hour_usd": plain(cost.per_hour_usd),
        "per_run_usd": plain(cost.per_run_usd),
        "per_month_usd": plain(cost.per_month_usd),
        "per_million_tokens_usd": plain(cost.per_million_tokens_usd),
        "per_thousand_images_usd": plain(getattr(cost, "per_thousand_images_usd", None)),
        "acquisition_usd": plain(cost.acquisition_usd),
        "buy_per_hour_usd": plain(cost.buy_per_hour_usd),
        "items": [{"what": what, "usd": plain(usd), "per": per} for what, usd, per in cost.items],
        "offer": _offer(cost.offer),
        "purchase": _offer(cost.purchase),
    }


def _offer(offer: Offer | None) -> dict[str, Any] | None:
    if offer is None:
        return None
    return {
        "provider": offer.provider or None,
        "instance": offer.instance or None,
        "region": offer.region or None,
        "term": offer.term or None,
        "as_of": offer.as_of or None,
        "source": offer.source or None,
        "is_offer": bool(offer.is_offer),
    }


def _energy(energy: Energy) -> dict[str, Any]:
    return {
        "power_w": plain(energy.power_w), "kwh": plain(energy.kwh), "kgco2e": plain(energy.kgco2e)
    }  # fmt: skip


def _considered(entry: Considered) -> dict[str, Any]:
    return {
        "accelerator": entry.accelerator,
        "feasible": bool(entry.feasible),
        "min_count": None if entry.min_count is None else int(entry.min_count),
        "rejection": _rejection(entry.rejection),
        "single": {
            "feasible": bool(entry.single_feasible),
            "rejection": _rejection(entry.single_rejection),
        },
    }


def _rejection(note: Note | None) -> dict[str, str] | None:
    return None if note is None else {"code": note.code, "reason": note.text}


def _notes(notes: Sequence[Note]) -> list[dict[str, str]]:
    return [{"code": note.code, "text": note.text} for note in notes]
