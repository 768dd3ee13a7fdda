"""How a word, a whole number, a flag or a list of a workload is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial

from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.quantities import parse_count

_TRUTH = {"true": True, "yes": True, "on": True, "1": True,
          "false": False, "no": False, "off": False, "0": False}  # fmt: skip


def text_of(raw: object) -> str:
    """Text of a value that is no truth value, without blanks around it."""
    if not isinstance(raw, str | int | float) or isinstance(raw, bool) or not str(raw).strip():
        raise InputError(_("{raw!r} is not a word").format(raw=raw))
    return str(raw).strip()


def word(raw: object) -> str:
    """The same in lower case."""
    return text_of(raw).lower()


def choice(raw: object, *, words: Mapping[str, str]) -> str:
    """One of the allowed words, by its canonical name."""
    text = word(raw)
    if text in words:
        return words[text]
    allowed = _(", ").join(dict.fromkeys(words.values()))
    close = get_close_matches(text, words, n=1)
    message = _("{raw!r} is not one of {allowed}").format(raw=raw, allowed=allowed)
    if close:
        message += _(", did you mean {name}?").format(name=words[close[0]])
    raise InputError(message)


def among(*words: str) -> Callable[[object], str]:
    """A parser of one of these words."""
    return partial(choice, words={word: word for word in words})


def flag(raw: object) -> bool:
    """True or false, in the usual spellings."""
    text = str(raw).strip().lower()
    if text not in _TRUTH:
        raise InputError(_("{raw!r} is neither true nor false").format(raw=raw))
    return _TRUTH[text]


MOST = 1e15  # no count, width or length comes near it; larger ones overflow in arithmetic


def whole(raw: object, *, low: int = 1, high: float = MOST) -> int:
    """An integer between `low` and `high`."""
    count = parse_count(raw)
    if not low <= count <= high or count != int(count):
        limits = _("{low} or more").format(low=low) if high == MOST and count < low else f"{low}-{high:g}"
        raise InputError(_("{raw!r} is not a whole number ({limits})").format(raw=raw, limits=limits))
    return int(count)


def positive(raw: object, *, strip: str = "") -> float:
    """A number above 0; `strip` is a pattern of units that may follow it."""
    text = re.sub(rf"\s*(?:{strip})$", "", str(raw).strip().lower()) if strip else raw
    number = parse_count(text)
    if number <= 0:
        raise InputError(_("{raw!r} is not above 0").format(raw=raw))
    return number


def names(raw: object) -> tuple[str, ...]:
    """A list, or names separated by commas."""
    items = raw if isinstance(raw, list | tuple) else str(raw).split(",")
    return tuple(text_of(item) for item in items)


def lower_names(raw: object) -> tuple[str, ...]:
    """The same in lower case."""
    return tuple(name.lower() for name in names(raw))
