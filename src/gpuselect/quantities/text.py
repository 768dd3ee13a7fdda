"""What all parsers share: tidy text, one number with a magnitude, one form of failure.

English and Chinese magnitudes are read alike: `7B`, `7 billion` and `70亿` are one number.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

from gpuselect.errors import InputError
from gpuselect.i18n import _

T = TypeVar("T")

_SUFFIXES = {
    "": 0, "k": 3, "thousand": 3, "m": 6, "mn": 6, "mio": 6, "million": 6, "millions": 6,
    "b": 9, "bn": 9, "billion": 9, "billions": 9, "t": 12, "tn": 12, "trillion": 12,
    "trillions": 12, "十": 1, "百": 2, "千": 3, "万": 4, "亿": 8,
}  # fmt: skip
_DIGITS = {"单": 1, "一": 1, "双": 2, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6,
           "七": 7, "八": 8, "九": 9, "十": 10}  # fmt: skip
_REPLACED = str.maketrans({"×": "x", "✕": "x", "≤": "<=", "≥": ">=", "–": "-", "−": "-"})

PLAIN = r"\d{1,24}(?:\.\d{1,24})?(?:e[+-]?\d{1,2})?"  # bounded: no number overflows
CHINESE_DIGIT = "[单一双两二三四五六七八九十]"
_WORD = r"thousand|millions?|mio|mn|billions?|bn|trillions?|tn|[kmbt]"
MAGNITUDE = (
    rf"(?:{PLAIN}\s*(?:(?:{_WORD})(?![b-z]|a(?!\d))|[十百千]?万?亿?)"
    rf"|{CHINESE_DIGIT}?[十百千]?万?亿|{CHINESE_DIGIT}?[十百千]?万)"
)
COMPARATOR = r"(?:<=|>=|<|>|=|~|at most|at least|under|below|up to|within|in|max\.?|不超过|以内)?\s*"


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A value, and the note that says which reading was taken where there are two."""

    value: T
    note: str | None = None


MOST_DIGITS = 60  # of a number; longer ones overflow
_TOO_LONG = re.compile(rf"\d{{{MOST_DIGITS + 1}}}")


def tidy(raw: object) -> str:
    """One spelling per sign: full-width forms, thousands separators and spaces removed.

    >>> tidy(" ８×Ｈ100 "), tidy("131,072")
    ('8xH100', '131072')

    Raises InputError for a number that no arithmetic holds.
    """
    text = unicodedata.normalize("NFKC", str(raw).translate(_REPLACED)).strip()
    if _TOO_LONG.search(text):
        raise InputError(_("a number of more than {n} digits is no quantity").format(n=MOST_DIGITS))
    text = re.sub(r"(?<=\d)[,_](?=\d{3}(?!\d))", "", text)
    return re.sub(r"\s+", " ", text)


def magnitude(text: str) -> float | None:
    """The number that `MAGNITUDE` matches, None where the text is not one.

    >>> magnitude("6.7B"), magnitude("千亿"), magnitude("30万"), magnitude("seven")
    (6700000000.0, 100000000000.0, 300000.0, None)
    """
    compact = text.strip().lower()
    if not re.fullmatch(MAGNITUDE, compact):
        return None
    match = re.match(PLAIN, compact)
    if match:
        head, tail = Decimal(match[0]), compact[match.end() :].strip()
    elif compact[0] in "百千万亿十":
        head, tail = Decimal(1), compact
    else:
        head, tail = Decimal(_DIGITS[compact[0]]), compact[1:]
    if tail in _SUFFIXES:
        return float(head.scaleb(_SUFFIXES[tail]))
    return float(head.scaleb(sum(_SUFFIXES[sign] for sign in tail)))


def small_integer(text: str) -> int:
    """A count written in digits or as one Chinese numeral.

    >>> small_integer("16"), small_integer("双")
    (16, 2)
    """
    return _DIGITS[text] if text in _DIGITS else int(text)


def failure(*, what: str, raw: object, examples: tuple[str, str]) -> InputError:
    """The one sentence for text that is not understood: what it should be, two valid forms.

    >>> str(failure(what="a size", raw="big", examples=("7B", "30B-A3B")))
    "'big' is not a size: write for example 7B or 30B-A3B"
    """
    return InputError(
        _("{raw!r} is not {what}: write for example {first} or {second}").format(
            raw=raw, what=what, first=examples[0], second=examples[1]
        )
    )
