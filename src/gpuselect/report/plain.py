"""Values as what JSON has."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """Any value as what JSON has; a figure loses its source, infinity and NaN become null.

    >>> plain({"a": (1, float("inf")), "b": None})
    {'a': [1, None], 'b': None}
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str | int):
        return str(value) if isinstance(value, str) else int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    """A record by its fields, a NumPy scalar by its value, anything else by its text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    return plain(value.item()) if hasattr(value, "item") else str(value)


def to_text(payload: Any) -> str:
    r"""Indented JSON with a final newline, non-ASCII letters kept.

    >>> to_text({"x": 1})
    '{\n  "x": 1\n}\n'
    """
    return json.dumps(plain(payload), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
