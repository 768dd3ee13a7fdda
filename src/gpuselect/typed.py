"""A workload as the flags that a person would type: each command to copy asks the same question again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from gpuselect.quantities import (
    Money,
    Params,
    Resolution,
    format_count,
    format_duration,
    format_money,
    format_params,
)
from gpuselect.workload import Workload

IN_SECONDS = frozenset({"deadline", "ttft", "tpot", "latency", "checkpoint", "restart"})
IN_BYTES = frozenset({"reserve", "bytes", "memory", "storage", "egress"})
BYTES = (("TiB", 2**40), ("GiB", 2**30), ("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6))
COUNTED = frozenset({"tokens", "samples", "active_params"})  # large numbers with a letter
NOT_TYPED = frozenset({"parse_notes"})


def command_flags(workload: Workload) -> str:
    """Every key that was given as a flag, quoted for a shell.

    >>> command_flags(Workload.from_mapping({"task": "training", "params": "10B", "deadline": "30d"}))
    '--task pretrain --params 10B --deadline 30d'
    >>> command_flags(Workload.from_mapping({"model": "llama-3.1-8b", "budget": "<$2/h", "ecc": False}))
    "--task inference --model llama-3.1-8b --budget '$2/hour' --no-ecc"
    """
    words: list[str] = []
    for key in type(workload).model_fields:
        value = getattr(workload, key)
        if value is None or value in ((), {}) or key in NOT_TYPED:
            continue
        flag = f"--{key.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, shlex.quote(_word(key, value))]
    return " ".join(words)


def _word(key: str, value: Any) -> str:  # noqa: PLR0911  one for each kind of value
    match value:
        case Params():
            return value.form or format_params(value)
        case Money():
            text = format_money(value)
            return f"${text.replace(' USD', '')}" if value.currency == "USD" else text
        case Resolution():
            return f"{value.width}x{value.height}"
        case Mapping():
            return ",".join(f"{name}={_number(share)}" for name, share in value.items())
        case tuple():
            return ",".join(f"{item[0]}x{item[1]}" if isinstance(item, tuple) else item for item in value)
        case float() if key in IN_SECONDS:
            return format_duration(value)
        case float() if key in IN_BYTES:
            return next((f"{value / size:g}{unit}" for unit, size in BYTES if value and value % size == 0),
                        _number(value))  # fmt: skip
        case float() | int():
            return format_count(value) if key in COUNTED else _number(value)
    return str(value)


def _number(value: float) -> str:
    """The shortest form that reads back as the same number.

    >>> _number(3.0), _number(0.1), _number(2e15)
    ('3', '0.1', '2e+15')
    """
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value)).removesuffix(".0")
