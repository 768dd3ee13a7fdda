"""Durations, latency targets, rates and demand: "30d", "p95<200ms", "50 rps", "10M tokens/day"."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.quantities.text import COMPARATOR, MAGNITUDE, PLAIN, failure, magnitude, tidy
from gpuselect.units import DAYS, HOURS, MICROSECOND, MILLISECOND, MINUTE, MONTHS, WEEKS, YEARS

_SECONDS = {
    "us": MICROSECOND, "µs": MICROSECOND, "μs": MICROSECOND, "微秒": MICROSECOND,
    "ms": MILLISECOND, "msec": MILLISECOND, "millisecond": MILLISECOND, "毫秒": MILLISECOND,
    "s": 1.0, "sec": 1.0, "second": 1.0, "秒": 1.0,
    "m": MINUTE, "min": MINUTE, "minute": MINUTE, "分": MINUTE, "分钟": MINUTE,
    "h": HOURS, "hr": HOURS, "hour": HOURS, "小时": HOURS,
    "d": DAYS, "day": DAYS, "天": DAYS, "日": DAYS,
    "w": WEEKS, "wk": WEEKS, "week": WEEKS, "周": WEEKS, "星期": WEEKS,
    "mo": MONTHS, "month": MONTHS, "月": MONTHS, "个月": MONTHS,
    "y": YEARS, "yr": YEARS, "year": YEARS, "年": YEARS,
}  # fmt: skip
_SAMPLES = r"(?:requests?|reqs?|queries|images?|frames?|samples?|sentences?|sequences?|clips?|次|请求)?"
_UNIT = r"(?:" + "|".join(sorted(_SECONDS, key=len, reverse=True)) + r")"
_PART = rf"({PLAIN}|an?(?= )|one(?= )|[一两二三])\s*({_UNIT})s?(?![a-z])"
_WORD_NUMBERS = {"a": 1.0, "an": 1.0, "one": 1.0, "一": 1.0, "两": 2.0, "二": 2.0, "三": 3.0}
_PERCENTILE = r"(p\d{2}(?:\.\d)?|p100|median|mean|avg)"
_METRIC = r"(?:ttft|tpot|itl|e2e|latency|延迟)?"


class Latency(NamedTuple):
    """A target [s] and the percentile it holds for (None where not said)."""

    seconds: float
    percentile: str | None = None


class Throughput(NamedTuple):
    """A rate [1/s], of tokens that are written or of samples."""

    per_second: float
    of_tokens: bool = True


def parse_duration(raw: object) -> float:
    """Read a duration [s]; a number without a unit is in seconds.

    >>> parse_duration("72h"), parse_duration("within a week"), parse_duration("500ms")
    (259200.0, 604800.0, 0.5)
    """
    text = re.sub(rf"^{COMPARATOR}", "", tidy(raw).lower())
    if re.fullmatch(PLAIN, text):
        return float(text)
    text = re.sub(r"^(?:the )?(?:next )?(?=week|month|day|hour|year)", "a ", text)
    parts = re.findall(_PART, text)
    rest = re.sub(_PART, "", text).strip(" ,")
    if not parts or rest not in {"", "内", "以内", "之内"}:
        raise failure(what=_("a duration"), raw=raw, examples=("30d", "500ms"))
    return sum(_amount(number) * _SECONDS[unit] for number, unit in parts)


def _amount(number: str) -> float:
    return _WORD_NUMBERS[number] if number in _WORD_NUMBERS else float(number)


def format_duration(seconds: float) -> str:
    """Write a duration [s] in the largest unit it fills, so that `parse_duration` reads it back.

    >>> format_duration(259200), format_duration(0.25)
    ('3d', '250ms')
    """
    for unit in ("d", "h", "min", "s"):
        if seconds >= _SECONDS[unit]:
            return f"{seconds / _SECONDS[unit]:.15g}{unit}"
    return f"{seconds / MILLISECOND:.15g}ms"


def parse_latency(raw: object) -> Latency:
    """Read a latency target; the percentile stands before or after it.

    >>> tuple(parse_latency("p95<200ms"))
    (0.2, 'p95')
    >>> parse_latency("TTFT < 1s").seconds
    1.0
    """
    text = tidy(raw).lower()
    percentile = re.search(rf"(?:^|[\s@(]){_PERCENTILE}|{_PERCENTILE}(?=\s*[<=])", text)
    name = (percentile[1] or percentile[2]) if percentile else None
    bare = text.replace(name, "", 1) if name else text
    bare = re.sub(rf"^\s*{_METRIC}\s*", "", bare).strip(" @()")
    if bare.startswith(">"):
        raise failure(what=_("an upper limit of latency"), raw=raw, examples=("p95<200ms", "1s"))
    try:
        return Latency(parse_duration(bare), name)
    except InputError:
        raise failure(what=_("a latency"), raw=raw, examples=("p95<200ms", "1s")) from None


def parse_token_time(raw: object) -> Latency:
    """Read a time per output token [s]; a speed per user such as 30 tok/s is turned over.

    >>> parse_token_time("50ms").seconds, parse_token_time(">=20 tok/s/user").seconds
    (0.05, 0.05)
    """
    pattern = rf"(?:>=|>|at least)?\s*({PLAIN})\s*(?:tokens?|tok|t)\s*/\s*s(?:ec)?\s*(?:/\s*user)?"
    match = re.fullmatch(pattern, tidy(raw).lower())
    if match is None or float(match[1]) <= 0:
        return parse_latency(raw)
    return Latency(1.0 / float(match[1]))


def parse_rate(raw: object) -> float:
    """Read a rate of requests [1/s]; a bare number is per second.

    >>> parse_rate("5/s"), parse_rate("50 rps"), parse_rate("300/min")
    (5.0, 50.0, 5.0)
    """
    text = tidy(raw).lower()
    short = re.fullmatch(rf"{COMPARATOR}({MAGNITUDE})\s*(?:rps|qps|req/s|hz)?", text)
    rate = magnitude(short[1]) if short else _per_second(text, what=_SAMPLES)
    if rate is None:
        raise failure(what=_("a request rate"), raw=raw, examples=("5/s", "300/min"))
    return rate


def parse_demand(raw: object) -> float:
    """Read a demand of tokens per time [tokens/s]; a bare number is per second.

    >>> parse_demand("8.64M tokens/day")
    100.0
    """
    text = tidy(raw).lower()
    demand = magnitude(text) if re.fullmatch(PLAIN, text) else None
    if demand is None:
        demand = _per_second(text, what=r"(?:tokens?|tok)?")
    if demand is None:
        raise failure(
            what=_("a demand of tokens (requests are given as a request rate)"),
            raw=raw,
            examples=("10M tokens/day", "500 tok/s"),
        )
    return demand


def parse_throughput(raw: object) -> Throughput:
    """Read a rate of tokens that are written [tokens/s], or of samples or requests [1/s]; bare: tokens.

    >>> tuple(parse_throughput("2k tok/s")), tuple(parse_throughput("100 images/s"))
    ((2000.0, True), (100.0, False))
    """
    text = tidy(raw).lower()
    tokens = magnitude(text) if re.fullmatch(PLAIN, text) else None
    if tokens is None:
        tokens = _per_second(text, what=r"(?:output\s*)?(?:tokens?|tok|t)")
    rate = _per_second(text, what=_SAMPLES) if tokens is None else tokens
    if rate is None:
        raise failure(what=_("a throughput"), raw=raw, examples=("2000 tokens/s", "100 images/s"))
    return Throughput(rate, of_tokens=tokens is not None)


def _per_second(text: str, *, what: str) -> float | None:
    """Number of things per second in "N things/time" or "N things per time"."""
    match = re.fullmatch(rf"{COMPARATOR}({MAGNITUDE})\s*{what}\s*(?:/|per|a|每)\s*({_UNIT})s?", text)
    count = magnitude(match[1]) if match else None
    return None if match is None or count is None else count / _SECONDS[match[2]]
