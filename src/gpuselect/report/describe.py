"""An option in words: its plan, its headline speed, its cost, and why another one lost to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuselect.decision import Considered, Decision, Estimate, FitAnswer, Option
from gpuselect.i18n import N_, _, full_stop
from gpuselect.money_records import Cost, Offer
from gpuselect.plan import ON_THE_HOST, RECOMPUTE
from gpuselect.report.format import (
    DAY_S,
    HOUR_S,
    count_of,
    duration,
    gib,
    money,
    percent,
    significant,
    time_unit,
)

HEADLINES = (
    "time_to_train_days", "run_time_h", "streams", "images_per_s", "output_tok_s", "tokens_per_s",
    "requests_per_s", "latency_ms", "step_time_s",
)  # fmt: skip
SECONDS: Mapping[str, float] = {  # the metrics that are times, and their unit [s]
    "time_to_train_days": DAY_S,
    "run_time_h": HOUR_S,
    "step_time_s": 1.0,
    "ttft_ms": 1e-3,
    "tpot_ms": 1e-3,
    "latency_ms": 1e-3,
}
SMALLER_IS_BETTER = frozenset(SECONDS)


NAMED_BY_UNIT = ("images_per_s", "requests_per_s", "frames_per_s")  # "1,700 images/s" says what it is


def metric_label(key: str) -> str:
    """Name of a performance metric without its unit.

    >>> metric_label("ttft_ms")
    'Time to first token'
    """
    labels = {
        "step_time_s": _("Step time"),
        "tokens_per_s": _("Throughput"),
        "tokens_per_s_per_accelerator": _("Throughput per accelerator"),
        "mfu": _("Model FLOP utilisation"),
        "goodput": _("Goodput: share of the time that failures leave"),
        "time_to_train_days": _("Time to train"),
        "ttft_ms": _("Time to first token"),
        "tpot_ms": _("Time per output token"),
        "latency_ms": _("Latency"),
        "tok_s_per_user": _("Seen by one user"),
        "output_tok_s": _("Output"),
        "requests_per_s": _("Requests"),
        "images_per_s": _("Images"),
        "streams": _("Streams"),
        "frames_per_s": _("Frames"),
        "batching_gain": _("Gain of batching"),
        "watts_per_stream": _("Power per stream asked for"),
        "realtime_factor": _("Faster than real time"),
        "run_time_h": _("Run time"),
        "tflops": _("Achieved arithmetic"),
    }
    return labels.get(key, key.replace("_", " "))


def metric_unit(key: str) -> str:
    """Unit of the values of a metric as they are held; empty for a share."""
    units = {
        "tokens_per_s": _("tokens/s"),
        "tokens_per_s_per_accelerator": _("tokens/s"),
        "output_tok_s": _("tokens/s"),
        "tok_s_per_user": _("tokens/s"),
        "requests_per_s": _("requests/s"),
        "images_per_s": _("images/s"),
        "frames_per_s": _("frames/s"),
        "realtime_factor": _("times"),
        "batching_gain": _("times"),
        "watts_per_stream": "W",
        "tflops": "TFLOPS",
        "run_time_h": _("h"),
        "time_to_train_days": _("days"),
        "step_time_s": "s",
        "ttft_ms": "ms",
        "tpot_ms": "ms",
        "latency_ms": "ms",
    }
    return units.get(key, "")


def metric_text(key: str, estimate: Estimate) -> str:
    """A metric with its interval and unit.

    >>> metric_text("output_tok_s", Estimate(value=1234, low=900, high=1500))
    '1,200 (900–1,500) tokens/s'
    >>> metric_text("mfu", Estimate(value=0.42, low=0.36, high=0.48))
    '42 % (36 %–48 %)'
    """
    seconds, unit = SECONDS.get(key), metric_unit(key)
    if key == "goodput":
        return f"{100.0 * estimate.value:.3g} %"
    if estimate.low == estimate.value == estimate.high and not seconds:  # a ratio without an interval
        return f"{significant(estimate.value)} {unit}"
    if seconds:
        return spread_duration(estimate, seconds)
    if key == "mfu":
        low, high = percent(estimate.low), percent(estimate.high)
        return f"{percent(estimate.value)} ({low}–{high})"
    return spread(estimate, unit)


def metric_value(key: str, value: float) -> str:
    """One value of a metric with its unit.

    >>> metric_value("time_to_train_days", 44.46), metric_value("images_per_s", 812.4)
    ('44 days', '810 images/s')
    """
    seconds, unit = SECONDS.get(key), metric_unit(key)
    if seconds:
        return duration(value * seconds)
    return percent(value) if key == "mfu" else f"{significant(value, 2)} {unit}".rstrip()


def spread(estimate: Estimate, unit: str = "") -> str:
    """Value and 80 % interval with one unit at the end.

    >>> spread(Estimate(value=1234, low=980, high=1510), "tokens/s")
    '1,200 (980–1,500) tokens/s'
    """
    low, high = significant(estimate.low, 2), significant(estimate.high, 2)
    text = f"{significant(estimate.value, 2)} ({low}–{high})"
    return f"{text} {unit}".rstrip()


def spread_duration(estimate: Estimate, seconds_per_unit: float) -> str:
    """Value and interval of a time, in the unit that suits the value.

    >>> spread_duration(Estimate(value=34.2, low=28, high=43), 86_400)
    '34 (28–43) days'
    """
    size, name = time_unit(estimate.value * seconds_per_unit)
    value, low, high = (
        bound * seconds_per_unit / size for bound in (estimate.value, estimate.low, estimate.high)
    )
    return spread(Estimate(value=value, low=low, high=high), name)


def headline_key(option: Option) -> str | None:
    """The metric that a reader asks for first, among those that the option has."""
    return next((key for key in HEADLINES if key in option.performance), None)


def headline(option: Option) -> str:
    """The headline metric with its interval, `?` when nothing is known."""
    key = headline_key(option)
    return "?" if key is None else metric_text(key, option.performance[key])


def plan_text(option: Option) -> str:
    """The plan in one short line; widths of 1 are left out.

    >>> from gpuselect.plan import Plan
    >>> from gpuselect.decision import MemoryFit
    >>> fit = MemoryFit(60, 79.6, {}, "fits")
    >>> plan = Plan(count=16, tp=8, dp=2, zero_stage=1, recompute=2, grad_accum=4)
    >>> plan_text(Option("h", "H", 16, 2, plan, "bf16", "bf16", "bf16", None, fit, {}))
    'tp 8 dp 2, ZeRO-1, full recompute, 4 accumulation steps, bf16'
    """
    plan = option.plan
    widths = " ".join(
        f"{axis} {value}" for axis in ("tp", "pp", "dp", "ep", "cp") if (value := getattr(plan, axis)) != 1
    )
    parts = [widths or _("no split")]
    if plan.virtual != 1:
        parts.append(_("{n} interleaved stages each").format(n=plan.virtual))
    if plan.zero_stage:
        parts.append(f"ZeRO-{plan.zero_stage}")
    if plan.recompute:
        parts.append(_("{kind} recompute").format(kind=_(RECOMPUTE[plan.recompute])))
    if plan.offload:
        parts.append(_("{what} on the host").format(what=_(ON_THE_HOST[plan.offload])))
    if plan.micro_batch != 1:
        steps = plan.grad_accum != 1 or plan.dp != 1 or "step_time_s" in option.performance
        name = _("micro-batch {size}") if steps else _("batch {size}")
        parts.append(name.format(size=plan.micro_batch))
    if plan.grad_accum != 1:
        parts.append(_("{steps} accumulation steps").format(steps=plan.grad_accum))
    if plan.replicas != 1:
        parts.append(_("{count} replicas").format(count=plan.replicas))
    parts.append(formats_text(option))
    return _(", ").join(parts)


def formats_text(option: Option) -> str:
    """Number formats: compute, and weights and KV cache where they differ from it."""
    text = option.precision
    if option.weights and option.weights != option.precision:
        text += _(" with {weights} weights").format(weights=option.weights)
    if option.kv and option.kv != option.precision:
        text += _(" and {kv} cache").format(kv=option.kv)
    return text


def memory_text(option: Option) -> str:
    """Need against usable memory per accelerator.

    >>> from gpuselect.plan import Plan
    >>> from gpuselect.decision import MemoryFit
    >>> fit = MemoryFit(60, 79.6, {}, "fits")
    >>> memory_text(Option("h", "H", 1, 1, Plan(), "bf16", "bf16", "bf16", None, fit, {}))
    '60 / 79.6 GiB'
    """
    fit = option.memory
    return f"{significant(fit.per_accelerator_gib)} / {gib(fit.usable_gib)}"


def cost_parts(cost: Cost) -> list[str]:
    """Every known cost with what it is for, the one that matters most first.

    >>> cost_parts(Cost(per_hour_usd=19.9, per_million_tokens_usd=0.42, acquisition_usd=4e5))
    ['$19.90 / hour', '$0.42 / million tokens', '$400k to buy']
    """
    candidates = (
        (cost.per_run_usd, _("{usd} / run")),
        (cost.per_month_usd, _("{usd} / month")),
        (cost.per_hour_usd, _("{usd} / hour")),
        (cost.per_million_tokens_usd, _("{usd} / million tokens")),
        (cost.per_million_input_usd, _("{usd} / million input tokens")),
        (cost.per_million_output_usd, _("{usd} / million output tokens")),
        (cost.per_million_blended_usd, _("{usd} / million of both")),
        (cost.per_thousand_images_usd, _("{usd} / thousand")),
        (cost.per_stream_month_usd, _("{usd} / stream and month")),
        (cost.acquisition_usd, _("{usd} to buy")),
        (cost.buy_per_hour_usd, _("{usd} / hour when bought")),
    )
    return [text.format(usd=money(usd)) for usd, text in candidates if usd is not None]


def cost_text(option: Option) -> str:
    """The most telling cost, or a word that none is known."""
    parts = cost_parts(option.cost)
    return parts[0] if parts else _("no price known")


def unit_cost_text(option: Option) -> str:
    """Cost per million tokens or thousand samples, empty when the task has neither."""
    cost = option.cost
    if cost.per_million_tokens_usd is not None:
        return f"{money(cost.per_million_tokens_usd)} / M"
    return "" if cost.per_thousand_images_usd is None else f"{money(cost.per_thousand_images_usd)} / k"


OF_THE_PRICE_TABLE = (N_("market median per GPU"), N_("list price per GPU"))
OF_A_PLACE = (N_("default"), N_("global"))


def part_label(name: str) -> str:
    """What a part of the memory is called.

    >>> part_label("kv_cache")
    'kv cache'
    """
    return _(name).replace("_", " ")


def offer_text(offer: Offer) -> str:
    """Where a price comes from: provider, instance, region, term and date.

    >>> offer_text(Offer("cloudco", "x8", "eu", "on-demand", "2026-07-01", "s", True))
    'cloudco, x8, eu, on-demand, 2026-07-01'
    >>> offer_text(Offer("median", "", "", "spot", "", "s", False))
    'median, spot, undated (market figure, not an offer)'
    """
    words = (offer.provider, offer.instance, offer.region, offer.term, offer.as_of or N_("undated"))
    text = _(", ").join(_(word) for word in words if word)
    return text if offer.is_offer else _("{text} (market figure, not an offer)").format(text=text)


def hardware_text(option: Option) -> str:
    """Count and name, with the number of nodes where there are several."""
    text = count_of(option.count, option.accelerator_name)
    if option.nodes > 1:
        text = _("{hardware} in {nodes} nodes").format(hardware=text, nodes=option.nodes)
    return text


def _verb(decision: Decision, option: Option) -> str:
    wanted = decision.workload.get("acquire")
    cost = option.cost
    if decision.workload.get("have"):
        return _("Use {hardware}")
    if cost.basis == "buy" or (cost.acquisition_usd is not None and (wanted == "buy" or cost.offer is None)):
        return _("Buy {hardware}")
    return _("Rent {hardware}") if cost.offer is not None else _("Use {hardware}")


def decision_sentence(decision: Decision) -> str:
    """The answer in one sentence: what, with which framework and plan, how fast, for how much."""
    if not decision.recommendations:
        if decision.unpriced:
            return _("Nothing with a known price fits; without a price, {hardware} does.").format(
                hardware=hardware_text(decision.unpriced[0])
            )
        return _("No accelerator in the catalog meets these requirements.")
    option = decision.recommendations[0]
    parts = [_verb(decision, option).format(hardware=hardware_text(option))]
    if option.framework is not None:
        parts.append(_(" with {framework}").format(framework=option.framework.name))
    parts.append(_(" ({plan})").format(plan=plan_text(option)))
    key = headline_key(option)
    if key is not None:
        said = _(": {value}") if key in NAMED_BY_UNIT else _(": {metric} {value}")
        parts.append(said.format(metric=metric_label(key).lower(), value=headline(option)))
    if option.cost != Cost():
        parts.append(_(", {cost}").format(cost=cost_text(option)))
    if option.cost.per_million_tokens_usd is not None and option.cost.per_run_usd is None:
        parts.append(_(", {usd} per million tokens").format(usd=money(option.cost.per_million_tokens_usd)))
    return full_stop("".join(parts))


def fit_sentence(answer: FitAnswer) -> str:
    """The answer to `estimate` in one sentence."""
    if answer.option is None and answer.nearest is not None:
        miss = answer.nearest
        if miss.memory.per_accelerator_gib <= miss.memory.usable_gib:
            text = _("No: on {hardware} the host does not hold what is offloaded.")
            return text.format(hardware=count_of(miss.count, miss.accelerator))
        text = _("No: does not fit on {hardware}: needs {need} of {usable} usable per accelerator.")
        return text.format(
            hardware=count_of(miss.count, miss.accelerator), need=gib(miss.memory.per_accelerator_gib),
            usable=gib(miss.memory.usable_gib),
        )  # fmt: skip
    if answer.option is None:
        return _("No: no plan for this workload exists on this hardware.")
    option, fit = answer.option, answer.option.memory
    texts = {
        "fits": _("Yes: fits on {hardware}, {need} of {usable} usable per accelerator."),
        "tight": _("Tight: {hardware} needs {need} of {usable} usable per accelerator."),
        "no": _("No: does not fit on {hardware}: needs {need} of {usable} usable per accelerator."),
    }
    return texts[answer.state].format(
        hardware=hardware_text(option), need=gib(fit.per_accelerator_gib), usable=gib(fit.usable_gib)
    )


def role_label(role: str) -> str:
    """What a role of an option means."""
    labels = {
        "best": _("Best overall"),
        "smallest": _("Smallest that fits"),
        "cheapest": _("Cheapest"),
        "fastest": _("Fastest"),
        "no-price": _("Without a known price"),
    }
    return labels.get(role, role)


def roles(options: Sequence[Option]) -> list[tuple[str, Option]]:
    """Each role with the option that has it, in the order that a reader expects."""
    found = {role: option for option in reversed(options) for role in option.roles}
    found.setdefault("best", options[0])
    known = ("best", "smallest", "cheapest", "fastest", "no-price")
    order = [role for role in known if role in found] + [r for r in found if r not in known]
    return [(role, found[role]) for role in order]


def lost_because(option: Option, winner: Option) -> str:
    """Why an option ranks behind the winner, in ratios of what both have."""
    parts = []
    if option.tied_with_winner:
        parts.append(_("tied within the uncertainty"))
    mine, best = _comparable_cost(option, winner)
    if mine is not None and best:
        parts.append(_ratio(mine / best, more=_("costs {x} times as much"), less=_("costs {x} as much")))
    key = headline_key(winner)
    if key is not None and key in option.performance and winner.performance[key].value:
        ratio = option.performance[key].value / winner.performance[key].value
        ratio = 1 / ratio if key in SMALLER_IS_BETTER and ratio else ratio
        parts.append(_ratio(ratio, more=_("{x} times as fast"), less=_("{x} of the speed")))
    weaker = [
        name
        for name, value in option.score.criteria.items()
        if value < winner.score.criteria.get(name, value) - 0.1
    ]
    if weaker:
        parts.append(_("scores lower on {criteria}").format(criteria=_(", ").join(map(_, weaker))))
    return _("; ").join(part for part in parts if part) or _("lower total score")


def _comparable_cost(option: Option, winner: Option) -> tuple[float | None, float | None]:
    for name in ("per_run_usd", "per_month_usd", "per_million_tokens_usd", "per_thousand_images_usd",
                 "per_hour_usd", "acquisition_usd"):  # fmt: skip
        mine, best = getattr(option.cost, name), getattr(winner.cost, name)
        if mine is not None and best is not None:
            return mine, best
    return None, None


def _ratio(ratio: float, *, more: str, less: str) -> str:
    if 0.97 < ratio < 1.03:
        return ""
    if ratio > 1:
        return more.format(x=significant(ratio, 2))
    return less.format(x=percent(ratio))


def ruled_out(considered: Sequence[Considered]) -> list[tuple[str, list[Considered]]]:
    """Rejected accelerators grouped by the code of the rule, the largest group first."""
    groups: dict[str, list[Considered]] = {}
    for entry in considered:
        if entry.rejection is not None:
            groups.setdefault(entry.rejection.code, []).append(entry)
    return sorted(groups.items(), key=lambda group: -len(group[1]))
