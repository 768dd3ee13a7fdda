"""Figures and facts that carry their source.

A `Figure` is a float, a `Fact` is a string; both remember where they were read. Formulas use them
as plain numbers, reports ask for `.source`, `.status` and `.note`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from gpuselect.i18n import _

Status = Literal["stated", "measured", "derived", "assumed"]
STATUSES: tuple[str, ...] = get_args(Status)
NUMBERS = (int, float)  # exactly: a bool is none
LONG_FORM_KEYS = frozenset({"value", "source", "status", "note", "low", "high"})


class Figure(float):
    """A number with its source.

    `source` is the short name that the entry's `sources` table declares. `low` and `high` bound the
    value where the source gives a range.

    >>> bandwidth = Figure(3350, source="ds")
    >>> bandwidth * 2, bandwidth.source, bandwidth.status
    (6700.0, 'ds', 'stated')
    """

    __slots__ = ("high", "low", "note", "source", "status")
    source: str
    status: Status
    note: str | None
    low: float | None
    high: float | None

    def __new__(
        cls,
        value: float,
        *,
        source: str,
        status: Status = "stated",
        note: str | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> Self:
        """Make a number with its source."""
        self = super().__new__(cls, value)
        self.source = source
        self.status = status
        self.note = note
        self.low = low
        self.high = high
        return self

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Read `[value, source]` or the long form; raise ValueError with what is wrong.

        >>> Figure.parse([80, "ds"]).source
        'ds'
        >>> Figure.parse(80)
        Traceback (most recent call last):
        ...
        ValueError: a figure needs its source: write [80, source]
        """
        if isinstance(raw, cls):
            return raw
        if type(raw) is list and len(raw) == 2 and type(raw[0]) in NUMBERS and type(raw[1]) is str:
            return cls(raw[0], source=raw[1])  # nine of ten figures
        fields = _long_form(raw)
        value, low, high = fields["value"], fields.get("low"), fields.get("high")
        for number in (value, *(bound for bound in (low, high) if bound is not None)):
            if type(number) not in NUMBERS:
                text = _("{value!r} is not a number (a quoted number is refused)")
                raise ValueError(text.format(value=number))
        if (low is not None and low > value) or (high is not None and high < value):
            text = _("low {low} <= value {value} <= high {high} does not hold")
            raise ValueError(text.format(low=low, value=value, high=high))
        return cls(value, **{key: fields[key] for key in fields if key != "value"})

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source_type: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Let pydantic read figures with `parse`."""
        return core_schema.no_info_plain_validator_function(cls.parse)


class Fact(str):
    """A word with its source, written like a figure: `[yes-or-word, source]`.

    >>> Fact.parse(["9.0", "cc"]).source
    'cc'
    """

    __slots__ = ("note", "source", "status")
    source: str
    status: Status
    note: str | None

    def __new__(cls, value: str, *, source: str, status: Status = "stated", note: str | None = None) -> Self:
        """Make a word with its source."""
        self = super().__new__(cls, value)
        self.source = source
        self.status = status
        self.note = note
        return self

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Read `[word, source]` or the long form; raise ValueError with what is wrong."""
        if isinstance(raw, cls):
            return raw
        if type(raw) is list and len(raw) == 2 and type(raw[0]) is str and type(raw[1]) is str:
            return cls(raw[0], source=raw[1])
        fields = _long_form(raw)
        if not isinstance(fields["value"], str):
            raise ValueError(_("{value!r} is not text: quote it").format(value=fields["value"]))
        if extra := {"low", "high"} & set(fields):
            raise ValueError(_("text has no {keys}").format(keys=_(", ").join(sorted(extra))))
        return cls(fields["value"], **{key: fields[key] for key in fields if key != "value"})

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source_type: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Let pydantic read figures with `parse`."""
        return core_schema.no_info_plain_validator_function(cls.parse)


def _long_form(raw: Any) -> Mapping[str, Any]:
    """Bring both spellings of a sourced value to the long one and check its keys."""
    if isinstance(raw, list | tuple) and len(raw) == 2:
        raw = {"value": raw[0], "source": raw[1]}
    if not isinstance(raw, Mapping) or "source" not in raw or "value" not in raw:
        raise ValueError(_("a figure needs its source: write [{value}, source]").format(value=raw))
    if unknown := set(raw) - LONG_FORM_KEYS:
        text = _("unknown key {keys} in a figure")
        raise ValueError(text.format(keys=_(", ").join(sorted(unknown))))
    if not isinstance(raw["source"], str):
        raise ValueError(_("source {name!r} is not the name of a source").format(name=raw["source"]))
    if raw.get("status", "stated") not in STATUSES:
        text = _("status {name!r} is none of {names}")
        raise ValueError(text.format(name=raw["status"], names=_(", ").join(STATUSES)))
    return raw
