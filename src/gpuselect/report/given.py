"""What was given, for reading: the workload as flags and values."""

from __future__ import annotations

from collections.abc import Mapping

from gpuselect.i18n import _
from gpuselect.report.format import count_of, duration, gib, percent, significant
from gpuselect.units import GIB


def workload_rows(workload: Mapping[str, object]) -> list[tuple[str, str]]:
    """The workload as (flag, value), without what is not set.

    >>> workload_rows({"task": "pretrain", "deadline": 2_592_000, "utilization": 0.6, "tp": None})
    [('task', 'pretrain'), ('deadline', '30 days'), ('utilization', '60 %')]
    >>> workload_rows({"request_rate": 5.0})
    [('request rate', '5/s')]
    """
    return [
        (key.replace("_", " "), _workload_value(key, value))
        for key, value in workload.items()
        if key != "parse_notes" and is_given(value)
    ]


DURATIONS = frozenset({"deadline", "ttft", "tpot", "latency", "checkpoint", "restart"})
SHARES = frozenset(
    {"utilization", "wacc", "residual", "support", "spares", "load", "prefix_hits", "acceptance", "exchange"}
)
SIZES = frozenset({"reserve", "host_memory", "memory"})
RATES = {"request_rate": "{n}/s", "demand": "{n} tokens/s", "throughput": "{n} tokens/s"}


def _workload_value(key: str, value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if key in DURATIONS:
            return duration(value)
        if key in SHARES:
            return percent(value)
        if key in SIZES:
            return gib(value / GIB)
        if key in RATES:
            return RATES[key].format(n=large_number(float(value)))
    return value_text(value)


def is_given(value: object) -> bool:
    """Whether a value says something: not None, not empty, not a plain False."""
    return value is not None and value is not False and value not in ((), [], {}, "")


def value_text(value: object) -> str:
    """A value of the workload for reading.

    >>> value_text(("h100", "a100")), value_text(10e9), value_text({"cost": 0.5})
    ('h100, a100', '10B', 'cost 0.5')
    >>> value_text([[3, "3090"]]), value_text({"total": 7e9, "active": None})
    ('3 × 3090', '7B')
    """
    if isinstance(value, Mapping):
        given = {key: value_text(item) for key, item in value.items() if is_given(item)}
        alone = list(given) == ["total"]
        return given["total"] if alone else _(", ").join(f"{k} {text}" for k, text in given.items())
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], int):
        return count_of(value[0], str(value[1]))
    if isinstance(value, list | tuple | set | frozenset):
        return _(", ").join(value_text(item) for item in value)
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, int | float):
        return large_number(float(value))
    return str(value)


def large_number(value: float) -> str:
    """A count with M, B or T from a million on.

    >>> large_number(15e12), large_number(4096)
    ('15T', '4,096')
    """
    for limit, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if 1e18 > abs(value) >= limit:
            return f"{significant(value / limit, 4)}{suffix}"
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}"
