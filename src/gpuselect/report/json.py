"""The JSON contract, schema_version 1: fields are only ever added; unknown is null, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuselect.decision import (
    Advice,
    Change,
    Considered,
    Decision,
    Estimate,
    FitAnswer,
    FrameworkChoice,
    Growth,
    MemoryFit,
    Miss,
    Note,
    Option,
    Stability,
)
from gpuselect.money_records import Cost, CostRange, Energy, Offer
from gpuselect.plan import OFFLOADS, RECOMPUTE, Plan
from gpuselect.report.plain import plain
from gpuselect.report.version import tool_version
from gpuselect.tco.ownership import Ledger
from gpuselect.tco.places import Quantity

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
        "advice": _advice(decision.advice),
        "stability": _stability(decision.stability),
        **_outlook(decision),
        "data_date": decision.data_date or None,
        "sources": [{"key": key, "title": title} for key, title in decision.sources_used],
    }


def _outlook(decision: Decision) -> dict[str, Any]:
    """Curves of every answer, and what only a report computes: null or empty elsewhere."""
    return {
        "field": plain(decision.field),
        "scaling": plain(decision.scaling),
        "neighbours": plain(decision.neighbours),
        "growth": _growth(decision.growth),
        "acceptance": plain(decision.acceptance),
        "risks": _notes(decision.risks),
    }


def _growth(growth: Growth | None) -> dict[str, Any] | None:
    if growth is None:
        return None
    return {
        "factor": growth.factor, "text": growth.text, "added": plain(growth.added),
        **{name: None if option is None else {
            "accelerator": option.accelerator, "count": int(option.count), "nodes": int(option.nodes),
            "performance": {key: _estimate(value) for key, value in option.performance.items()},
            "cost": _cost(option.cost),
        } for name, option in (("same", growth.same), ("best", growth.best))},
    }  # fmt: skip


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
        "limits": [{"code": limit.code, "value": limit.value, "text": limit.text} for limit in answer.limits],
        "changes": [_change(change) for change in answer.changes],
        "nearest": _miss(answer.nearest),
        "footprint_gib": plain(answer.footprint_gib),
        "advice": _advice(answer.advice),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "code": change.code, "text": change.text, "need_gib": plain(change.need_gib),
        "usable_gib": plain(change.usable_gib),
    }  # fmt: skip


def _miss(miss: Miss | None) -> dict[str, Any] | None:
    if miss is None:
        return None
    return {
        "accelerator": miss.accelerator, "count": miss.count, "plan": _layout(miss.plan),
        "memory": _memory(miss.memory),
    }  # fmt: skip


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
        "score": {
            "total": option.score.total,
            "criteria": plain(option.score.criteria),
            "low": plain(option.score.low),
            "high": plain(option.score.high),
        },
        "on_pareto_front": bool(option.on_pareto_front),
        "tied_with_winner": bool(option.tied_with_winner),
        "win_share": plain(option.win_share),
        "kind": option.kind or None,
        "variants": [
            {
                "accelerator": v.accelerator,
                "name": v.accelerator_name,
                "count": int(v.count),
                "total": v.total,
                "cost_usd": plain(v.cost_usd),
            }
            for v in option.variants
        ],
        "reasons": _notes(option.reasons),
        "warnings": _notes(option.warnings),
    }


def _layout(plan: Plan) -> dict[str, Any]:
    return {
        **{key: int(getattr(plan, key)) for key in WIDTHS},
        "recompute": RECOMPUTE[int(plan.recompute)],
        **({"offload": OFFLOADS[int(plan.offload)]} if plan.offload else {}),
        **{key: int(getattr(plan, key)) for key in ("micro_batch", "grad_accum", "replicas")},
    }


def _plan(plan: Plan, option: Option) -> dict[str, Any]:
    return {
        **_layout(plan),
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
        "version": choice.version or None,
        "licence": choice.licence or None,
        "why": choice.why,
        "launch": list(choice.launch),
        "score": _choice_score(choice),
        "alternative": choice.alternative_id or None,
        "lost": _notes(choice.lost),
        "vendors": list(choice.vendors),
        "evidence": choice.evidence or None,
        "aged": list(choice.aged),
    }


def _stability(found: Stability | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "draws": found.draws, "seed": found.seed, "shared_error": found.shared_error,
        "others": plain(found.others),
    }  # fmt: skip


def _choice_score(choice: FrameworkChoice) -> dict[str, Any] | None:
    if not choice.criteria:
        return None
    return {"total": plain(choice.total), "criteria": plain(choice.criteria)}


def _advice(items: Sequence[Advice]) -> list[dict[str, Any]]:
    """Optimisations with their effect: pairs are without and with; unknown is null."""
    return [
        {
            "code": item.code, "name": item.name, "text": item.text, "in_use": item.in_use,
            "memory_gib": _pair(item.memory_gib), "seconds": _pair(item.seconds), "usd": _pair(item.usd),
            "usd_per": item.usd_per or None,
            "energy_ratio": plain(item.energy_ratio), "accuracy_risk": item.accuracy_risk or None,
            "how": item.how,
        }
        for item in items
    ]  # fmt: skip


def _pair(values: tuple[float, float] | None) -> dict[str, Any] | None:
    return None if values is None else {"without": plain(values[0]), "with": plain(values[1])}


def _memory(fit: MemoryFit) -> dict[str, Any]:
    return {
        "per_accelerator_gib": plain(fit.per_accelerator_gib),
        "usable_gib": plain(fit.usable_gib),
        "headroom_pct": plain(fit.headroom_pct) if fit.usable_gib else None,
        "state": fit.state,
        "breakdown": plain(fit.breakdown_gib),
        **({"host_gib": plain(fit.host_gib)} if fit.host_gib else {}),
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
        "per_million_input_usd": plain(cost.per_million_input_usd),
        "per_million_output_usd": plain(cost.per_million_output_usd),
        "per_million_blended_usd": plain(cost.per_million_blended_usd),
        "per_thousand_images_usd": plain(cost.per_thousand_images_usd),
        "per_stream_month_usd": plain(cost.per_stream_month_usd),
        "acquisition_usd": plain(cost.acquisition_usd),
        "buy_per_hour_usd": plain(cost.buy_per_hour_usd),
        "rent_per_hour_usd": plain(cost.rent_per_hour_usd),
        "services_per_hour_usd": plain(cost.services_per_hour_usd),
        "paid_hours_per_used_hour": plain(cost.paid_hours_per_used_hour),
        "basis": cost.basis or None,
        "items": [{"what": what, "usd": plain(usd), "per": per} for what, usd, per in cost.items],
        "offer": _offer(cost.offer),
        "purchase": _offer(cost.purchase),
        "terms": [
            {"term": t.term, "per_hour_usd": plain(t.per_hour_usd),
             "per_used_hour_usd": plain(t.per_used_hour_usd), "offer": _offer(t.offer)}
            for t in cost.terms
        ],
        "regions": [
            {"per_hour_usd": plain(r.per_hour_usd), "offer": _offer(r.offer),
             "carbon_g_kwh": plain(r.carbon_g_kwh)}
            for r in cost.regions
        ],
        "breakeven": None if cost.breakeven is None else {
            "utilization": plain(cost.breakeven.utilization),
            "hours_per_day": plain(cost.breakeven.hours_per_day),
            "payback_months": plain(cost.breakeven.payback_months),
        },
        "bought": _ledger(cost.bought),
        "rented": _ledger(cost.rented),
        "by_years": [{"years": years, "per_used_hour_usd": plain(usd)} for years, usd in cost.by_years],
        "range": _range(cost.range),
    }  # fmt: skip


def _ledger(ledger: Ledger | None) -> dict[str, Any] | None:
    """Payments by year: the first amount is day 0, then the end of each year."""
    if ledger is None:
        return None
    return {
        "items": [{"what": what, "usd": list(row)} for what, row in ledger.items],
        "by_year_usd": list(ledger.by_year),
        "cumulative_usd": list(ledger.cumulative),
        "total_usd": ledger.total,
        "present_value_usd": ledger.present_value,
        "cost_of_capital": plain(ledger.rate),
    }


def _range(found: CostRange | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "metric": found.metric, "p10_usd": found.p10, "p50_usd": found.p50, "p90_usd": found.p90,
        "swings": [
            {"input": name, "at_low_usd": low, "at_high_usd": high} for name, low, high in found.swings
        ],
        "draws": found.draws, "seed": found.seed,
    }  # fmt: skip


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
    place = energy.place
    return {
        "power_w": plain(energy.power_w),
        "kwh": plain(energy.kwh),
        "kgco2e": plain(energy.kgco2e),
        "kwh_per_million_tokens": plain(energy.kwh_per_million_tokens),
        "kgco2e_per_million_tokens": plain(energy.kgco2e_per_million_tokens),
        "kwh_per_thousand_images": plain(energy.kwh_per_thousand_images),
        "kgco2e_per_thousand_images": plain(energy.kgco2e_per_thousand_images),
        "embodied": None if energy.embodied_kgco2e is None else {
            "kgco2e": plain(energy.embodied_kgco2e), "low": plain(energy.embodied_low_kgco2e),
            "high": plain(energy.embodied_high_kgco2e), "scope": energy.embodied_scope,
            "per_unit": plain(energy.embodied_kgco2e_per_unit),
        },
        "carbon_g_kwh": None if place is None else _quantity(place.carbon_g_kwh),
        "pue": None if place is None else _quantity(place.pue),
        "electricity_usd_kwh": None if place is None else _quantity(place.electricity_usd_kwh),
    }  # fmt: skip


def _quantity(quantity: Quantity) -> dict[str, Any]:
    """A figure of a place with where it holds, how it was counted and where it was read."""
    return {
        "value": plain(quantity.value), "place": quantity.place or None, "method": quantity.method or None,
        "year": quantity.year or None, "source": quantity.source, "assumed": quantity.assumed,
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
