"""How each key of a workload is read: its parser, its allowed words, its ambiguity note."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from gpuselect.catalog import PRECISIONS
from gpuselect.errors import InputError
from gpuselect.i18n import _, labelled
from gpuselect.pipeline_keys import PIPELINE_PARSERS
from gpuselect.quantities import (
    Latency,
    Money,
    Params,
    Reading,
    Streams,
    Throughput,
    TrainingSet,
    in_usd,
    parse_accelerators,
    parse_bytes,
    parse_context,
    parse_count,
    parse_demand,
    parse_duration,
    parse_latency,
    parse_money,
    parse_params,
    parse_percent,
    parse_power,
    parse_rate,
    parse_rates,
    parse_resolution,
    parse_samples,
    parse_streams,
    parse_throughput,
    parse_token_time,
)
from gpuselect.workload_words import (
    among,
    choice,
    flag,
    lower_names,
    names,
    positive,
    text_of,
    whole,
    word,
)

_TASKS = {
    "pretrain": "pretrain", "pretraining": "pretrain", "training": "pretrain", "train": "pretrain",
    "训练": "pretrain", "预训练": "pretrain",
    "finetune": "finetune", "finetuning": "finetune", "sft": "finetune", "微调": "finetune",
    "inference": "inference", "infer": "inference", "serving": "inference", "serve": "inference",
    "推理": "inference", "部署": "inference", "video": "video", "videoanalytics": "video",
    "视频": "video", "hpc": "hpc", "scientific": "hpc", "scientificcomputing": "hpc", "科学计算": "hpc",
}  # fmt: skip
_METHODS = {"full": "full", "lora": "lora", "qlora": "qlora", "qlora-int4": "qlora", "prefix": "prefix",
            "prefix-tuning": "prefix",
            "full-parameter": "full", "全参": "full", "全参微调": "full"}  # fmt: skip
_PRECISIONS = {name: name for name in PRECISIONS} | {
    "float64": "fp64", "double": "fp64", "float32": "fp32", "float16": "fp16", "half": "fp16",
    "bfloat16": "bf16",
}  # fmt: skip
_CODECS = {"h264": "h264", "h.264": "h264", "avc": "h264", "h265": "h265", "h.265": "h265", "hevc": "h265",
           "av1": "av1"}  # fmt: skip
_RENT_TERMS = {
    "on-demand": "on-demand", "ondemand": "on-demand", "spot": "spot", "preemptible": "spot",
    "reserved-1y": "reserved-1y", "reserved": "reserved-1y", "1y": "reserved-1y",
    "reserved-3y": "reserved-3y", "3y": "reserved-3y",
}  # fmt: skip
_BARE_SECONDS = ("deadline", "ttft", "tpot", "latency")


def _task(raw: object) -> str:
    return choice(re.sub(r"[\s_-]", "", word(raw)), words=_TASKS)


def _have(raw: object) -> Reading[tuple[tuple[int, str], ...]]:
    """Cards that somebody owns: (count, name as written)."""
    if isinstance(raw, list | tuple) and all(isinstance(item, tuple) for item in raw):
        return Reading(tuple(raw))
    text = ", ".join(text_of(item) for item in raw) if isinstance(raw, list | tuple) else text_of(raw)
    groups = parse_accelerators(text)
    owned = []
    for group in groups:
        if group.name is None:
            raise InputError(_("{raw!r} names no card: write for example 3x3090").format(raw=raw))
        owned.append((group.count, group.name))
    return Reading(tuple(owned), "; ".join(g.note for g in groups if g.note) or None)


def _max_count(raw: object) -> int:
    if re.fullmatch(r"\s*\d+\s*", str(raw)):
        return whole(raw)
    groups = parse_accelerators(raw)
    if len(groups) != 1 or groups[0].name is not None:
        raise InputError(_("{raw!r} is not a number of cards: write for example 8").format(raw=raw))
    return groups[0].count


def _image_size(raw: object) -> int:
    """Side of a square picture [pixels]: "224", "640 px", "512x512"."""
    text = re.sub(r"\s*(?:px|pixels?)$", "", str(raw).strip().lower())
    if match := re.fullmatch(r"(\d+)\s*[x*]\s*(\d+)", text):
        text = str(round((int(match[1]) * int(match[2])) ** 0.5))
    return whole(text, low=8, high=16_384)


def _fps(raw: object) -> float:
    return positive(raw, strip="fps|hz|/s")


def _percentile(raw: object) -> str:
    match = re.fullmatch(r"p?(\d{2}(?:\.\d+)?)(?:th)?", word(raw))
    if match is None:
        raise InputError(_("{raw!r} is not a percentile: write for example p95").format(raw=raw))
    return f"p{match[1]}"


def _budget(raw: object) -> Money:
    money = parse_money(raw)
    if money.per == "kwh" or money.amount <= 0:
        raise InputError(_("{raw!r} is not a budget: write $5000 or $2/h").format(raw=raw))
    return money


def _budget_in_usd(money: Money, rates: Mapping[str, float]) -> tuple[Money, tuple[str, ...]]:
    """The budget in USD at a rate that was given, and how; else as it is, for the rate of the catalog."""
    converted = in_usd(money, rates)
    if converted is None:
        return money, ()
    text = _("budget: {amount:g} {currency} is {usd:g} USD at the rate given")
    note = text.format(amount=money.amount, currency=money.currency, usd=converted.amount)
    return converted, (note,)


def _share(raw: object) -> float:
    """A share above 0: what is never used has no cost per hour."""
    share = parse_percent(raw)
    if share <= 0:
        raise InputError(_("{raw!r} is not a share above 0 %").format(raw=raw))
    return share


def _part(raw: object) -> float:
    """A share below 1."""
    share = parse_percent(raw)
    if share >= 1.0:
        raise InputError(_("{raw!r} is not a share below 100 %").format(raw=raw))
    return share


def _number(raw: object, *, strip: str, example: str, low: float = 0.0, high: float = 1e12) -> float:
    """A number within limits; `strip` is a pattern of units that may stand around it."""
    text = re.sub(rf"^(?:us)?\$|\s*(?:{strip})$", "", str(raw).strip().lower())
    try:
        value = parse_count(text)
    except InputError:
        value = -1.0
    if not low <= value <= high:
        raise InputError(
            _("{raw!r} is not a number from {low:g} to {high:g}: write for example {example}").format(
                raw=raw, low=low, high=high, example=example
            )
        )
    return value


def _per_year(raw: object) -> float:
    """Money a year [USD]; a bare amount is for a year."""
    money = parse_money(raw)
    if money.currency != "USD" or money.per not in {"none", "month", "year"} or money.amount < 0:
        raise InputError(_("{raw!r} is not an amount of USD a year: write $4500/year").format(raw=raw))
    return money.amount * (12.0 if money.per == "month" else 1.0)


def _licence_fee(raw: object) -> float:
    """Fees a year; a word is the licence of a framework, which has a key of its own."""
    if re.fullmatch(r"[a-z][a-z0-9.+ -]*", str(raw).strip().lower()):
        text = _("{raw!r} is no fee such as $4500/year; the licence of a framework is --framework-licence")
        raise InputError(text.format(raw=raw))
    return _per_year(raw)


def _failures(raw: object) -> float:
    """Failures of one accelerator an hour: "2e-5/h", "1/50000h", "1 per 50000 h"."""
    text = re.sub(r"\s+", "", word(raw)).replace("per", "/")
    match = re.fullmatch(r"([\d.]+(?:e-?\d+)?)(?:/([\d.]+)?h(?:ours?|r)?)?", text)
    try:
        value = float(match[1]) / float(match[2] or 1.0) if match else -1.0
    except (ValueError, ZeroDivisionError):
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(_("{raw!r} is no rate of failures: write 2e-5/h or 1/50000h").format(raw=raw))
    return value


def _per_kwh(raw: object) -> float:
    """Price of electricity [USD/kWh]."""
    money = parse_money(raw)
    if money.currency != "USD" or money.per not in {"none", "kwh"} or not 0 <= money.amount <= 10:
        raise InputError(_("{raw!r} is not a price of electricity: write 0.12 USD/kWh").format(raw=raw))
    return money.amount


def _per_month(raw: object) -> Reading[float]:
    """Bytes a month: "5TB", "5TB/month"."""
    return parse_bytes(re.sub(r"\s*(?:/|per )(?:mo|month)$", "", str(raw).strip().lower()))


def _active(raw: object) -> float:
    return parse_params(raw).total


def _criteria(raw: object) -> dict[str, float]:
    """Weights of the criteria, as a mapping or as `cost=0.5,speed=0.3`."""
    if isinstance(raw, Mapping):
        pairs = [(str(key), value) for key, value in raw.items()]
    else:
        pairs = [tuple(part.split("=", 1)) for part in str(raw).split(",")]  # type: ignore[misc]
    weights = {key.strip().lower(): parse_count(value) for key, value in pairs}
    if len(weights) != len(pairs) or not sum(weights.values()) > 0:
        raise InputError(_("{raw!r} gives no weight above 0, or one twice").format(raw=raw))
    return weights


_PARSERS: dict[str, Callable[[object], Any]] = {
    "task": _task, "model": text_of, "series": word, "params": parse_params, "active_params": _active,
    "method": partial(choice, words=_METHODS), "precision": partial(choice, words=_PRECISIONS),
    "weights": word, "kv": word,
    "tokens": positive, "samples": parse_samples, "epochs": positive,
    "mean_len": parse_context, "seq_len": parse_context, "global_batch": whole,
    "optimizer": word, "lora_rank": whole, "deadline": parse_duration,
    "input_tokens": parse_context, "output_tokens": parse_context, "concurrency": whole,
    "users": positive, "request_rate": parse_rate, "demand": parse_demand,
    "throughput": parse_throughput,
    "peak_factor": partial(positive, strip="x"),
    "ttft": parse_latency, "tpot": parse_token_time, "latency": parse_latency,
    "percentile": _percentile, "arrivals": among("poisson", "bursty"), "prefix_hits": _part,
    "acceptance": _part, "drafted": partial(whole, high=64),
    "batch": whole, "image_size": _image_size, "steps": whole, "tuned": flag,
    "streams": parse_streams, "fps": _fps, "resolution": parse_resolution,
    "codec": partial(choice, words=_CODECS), "interval": partial(whole, low=0, high=1000),
    "fp64": flag, "flops": partial(positive, strip="flops?"), "bytes": parse_bytes,
    "memory": parse_bytes,
    "budget": _budget, "exchange_rates": parse_rates, "acquire": among("rent", "buy", "any"),
    "region": word, "carbon_budget": partial(_number, strip="kg(?: ?co2e?)?", example="500 kg"),
    "term": partial(choice, words=_RENT_TERMS),
    "utilization": _share,
    "years": partial(_number, strip=" ?(?:y|years?)", example="3 years", low=0.05, high=100.0),
    "wacc": parse_percent, "residual": parse_percent, "support": parse_percent,
    "spares": parse_percent,
    "licence": _licence_fee, "staff": _per_year,
    "colocation": partial(_number, strip="(?:usd)?(?:/kw[-/ ]month)?", example="$195/kW-month"),
    "electricity": _per_kwh,
    "pue": partial(_number, strip="x", example="1.3", low=1.0, high=3.0),
    "carbon": partial(_number, strip="g(?:/kwh)?", example="50 g/kWh", high=2000.0),
    "carbon_price": partial(_number, strip="(?:usd)?(?:/t(?:onne|on)?)?", example="$80/t"),
    "storage": parse_bytes, "egress": _per_month,
    "interruptions": partial(_number, strip="(?:/|per )(?:d|day)", example="1/day"),
    "checkpoint": parse_duration, "restart": parse_duration,
    "have": _have, "reserve": parse_bytes, "gpus": names, "exclude": names,
    "vendors": lower_names, "max_count": _max_count, "single_card": flag,
    "max_power_w": parse_power, "ecc": flag, "mig": whole, "form_factor": word, "edge": flag,
    "frameworks": lower_names, "framework_licence": lower_names, "engine": word,
    "tp": whole, "pp": whole, "dp": whole, "ep": whole, "cp": whole,
    "zero_stage": partial(whole, low=0, high=3),
    "recompute": among("none", "selective", "full", "blocks"), "micro_batch": whole,
    "grad_accum": whole, "replicas": whole, "offload": among("none", "optimizer", "params", "cpu"),
    "host_memory": parse_bytes, "failures": _failures, "prefix_tokens": whole,
    "prefer": among("balanced", "cost", "speed", "energy", "simplicity", "risk"),
    "criterion_weights": _criteria, "parse_notes": names, **PIPELINE_PARSERS,
}  # fmt: skip


def read_keys(raw: Mapping[str, object], *, known: Sequence[str]) -> dict[str, Any]:
    """Normalise every given key; the notes of ambiguous readings go to `parse_notes`.

    >>> read_keys({"seq-len": "8k"}, known=("seq_len",))["seq_len"]
    8192
    """
    values: dict[str, Any] = {}
    notes: list[str] = []
    for key, value in _spelled(raw, known=known).items():
        try:
            parsed, note, also = _parts(_PARSERS[key](value))
        except InputError as error:
            raise InputError(labelled(key, error)) from None
        notes += [labelled(key, note)] if note else []
        if key in _BARE_SECONDS and re.fullmatch(r"[\d.]+", str(value)):
            notes.append(_("{key}: {value} is read as seconds").format(key=key, value=value))
        for name, said in {key: parsed, **also}.items():
            if values.setdefault(name, said) != said:
                raise InputError(
                    _("{key}: {value!r} contradicts {name} {other!r}").format(
                        key=key, value=value, name=name, other=values[name]
                    )
                )
    budget = values.get("budget")
    if isinstance(budget, Money) and budget.currency != "USD":
        values["budget"], said = _budget_in_usd(budget, values.get("exchange_rates") or {})
        notes += said
    if "task" not in values:
        values["task"] = _likely_task(values)
        notes.append(_("no --task given, read as {task}").format(task=values["task"]))
    values["params"] = _with_active(values)
    values["parse_notes"] = (*values.get("parse_notes", ()), *notes)
    return values


TRAINING_OFFLOADS = ("optimizer", "params")
_TUNING_KEYS = ("method", "lora_rank", "prefix_tokens", "epochs", "samples", "mean_len")
_TRAINING_KEYS = (
    "tokens", "global_batch", "optimizer", "zero_stage", "recompute", "micro_batch",
)  # fmt: skip


_VIDEO_KEYS = ("streams", "fps", "resolution", "codec", "interval", "secondary", "tracker", "encode")
_HPC_KEYS = ("fp64", "flops", "bytes", "kernel")


def _likely_task(values: Mapping[str, Any]) -> str:
    """The task that the given keys belong to: video, hpc, fine-tuning, training, else inference."""
    for task, keys in (("video", _VIDEO_KEYS), ("hpc", _HPC_KEYS)):
        if any(key in values for key in keys):
            return task
    if any(key in values for key in _TUNING_KEYS):
        return "finetune"
    training = any(key in values for key in _TRAINING_KEYS) or values.get("offload") in TRAINING_OFFLOADS
    return "pretrain" if training else "inference"


def _spelled(raw: Mapping[str, object], *, known: Sequence[str]) -> dict[str, object]:
    """The given keys by their canonical spelling; unknown ones are refused."""
    given: dict[str, object] = {}
    for written, value in raw.items():
        key = str(written).strip().lower().replace("-", "_")
        if key == "weights" and (isinstance(value, Mapping) or "=" in str(value)):
            key = "criterion_weights"
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = _(", did you mean {name}?").format(name=close[0]) if close else ""
            raise InputError(_("{key}: no such key").format(key=written) + hint)
        if key in given:
            raise InputError(_("{key}: given twice").format(key=key))
        if value is not None:
            given[key] = value
    return given


def _parts(parsed: Any) -> tuple[Any, str | None, dict[str, Any]]:
    """Value, note, and what the same text said about other keys."""
    value: Any = parsed
    note: str | None = None
    also: dict[str, Any] = {}
    match parsed:
        case Reading(value=value, note=note):
            pass
        case Params(note=note) | Money(note=note):
            pass
        case Latency(seconds=value, percentile=percentile):
            also = {"percentile": percentile}
        case Throughput(per_second=rate, of_tokens=of_tokens):
            value, also = (rate, {}) if of_tokens else (None, {"request_rate": rate})
        case Streams(count=value, resolution=size, fps=fps):
            also = {"resolution": size, "fps": fps}
        case TrainingSet(samples=value, epochs=epochs):
            also = {"epochs": epochs or None}
    return value, note, {name: said for name, said in also.items() if said is not None}


def _with_active(values: Mapping[str, Any]) -> Params | None:
    """The size, with the active part where it is a key of its own."""
    params, active = values.get("params"), values.get("active_params")
    if active is None or not isinstance(params, Params):
        return params
    if active > params.total or params.active not in {None, active}:
        raise InputError(
            _("active_params: {active:.4g} does not go with a size of {total:.4g}").format(
                active=active, total=params.total
            )
        )
    return replace(params, active=active)
