"""Sizes of models, data and contexts: "30B-A3B", "300B tokens", "128k", "24GiB", "60%"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuselect.i18n import _
from gpuselect.quantities.text import (
    COMPARATOR,
    MAGNITUDE,
    PLAIN,
    Reading,
    failure,
    magnitude,
    tidy,
)
from gpuselect.units import GB, GIB, KB, KIB, MB, MIB, PB, TB, TIB

_SMALLEST_MODEL = 1000.0  # a smaller number of parameters is a forgotten suffix
_PARAMS_UNIT = r"\s*-?\s*(?:params?|parameters|参数)?"
_COUNT_UNIT = (
    r"\s*(?:tokens?|tok|samples?|examples?|images?|rows?|steps?|(?:concurrent )?users?|requests?|"
    r"concurrent|cameras?|streams?|epochs?|flops?|flop|bytes?|路|条|张|个)?"
)
_BYTES = {
    "": 1.0, "b": 1.0, "k": KIB, "kb": KB, "kib": KIB, "m": MIB, "mb": MB, "mib": MIB,
    "g": GIB, "gb": GB, "gib": GIB, "t": TIB, "tb": TB, "tib": TIB, "pb": PB,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Params:
    """Size of a network [parameters]. `active` is None for a dense one, or where it is not said.

    `form` keeps a spelling such as `8x7b` that the names of published models use, so that the
    catalog can give their exact size.
    """

    total: float
    active: float | None = None
    experts: int | None = None
    form: str | None = None
    note: str | None = None


def parse_params(raw: object) -> Params:
    """Read the size of a model.

    >>> parse_params("7 billion").total
    7000000000.0
    >>> size = parse_params("30B-A3B")
    >>> size.total, size.active
    (30000000000.0, 3000000000.0)
    >>> parse_params("8x7b").note
    '8x7b is read as at most 56B in total; experts share layers, so name the model or its total'
    """
    if isinstance(raw, Params):
        return raw
    text = re.sub(_PARAMS_UNIT + "$", "", tidy(raw).lower())
    moe = _mixture(text)
    if moe is not None:
        return moe
    total = magnitude(text)
    if total is None or total < _SMALLEST_MODEL:
        raise failure(what=_("a model size"), raw=raw, examples=("7B", "30B-A3B"))
    return Params(total=total)


def _mixture(text: str) -> Params | None:
    """Read the three spellings of a mixture of experts."""
    if match := re.fullmatch(rf"({MAGNITUDE})\s*-?\s*a\s*({MAGNITUDE})", text):
        total, active = magnitude(match[1]), magnitude(match[2])
        if total is None or active is None or not 0 < active <= total:
            raise failure(
                what=_("a model size (active parameters must not exceed the total)"),
                raw=text,
                examples=("30B-A3B", "235B-A22B"),
            )
        return Params(total=total, active=active)
    if match := re.fullmatch(rf"(\d{{1,4}})\s*x\s*({MAGNITUDE})", text):
        experts, size, active = int(match[1]), magnitude(match[2]), None
    elif match := re.fullmatch(rf"({MAGNITUDE})\s*-\s*(\d{{1,4}})e", text):
        experts, size, active = int(match[2]), magnitude(match[1]), magnitude(match[1])
    else:
        return None
    if not size or size < _SMALLEST_MODEL or experts < 1:
        return None
    bound = experts * size
    note = _(
        "{form} is read as at most {bound} in total; experts share layers, so name the model or its total"
    ).format(form=text, bound=format_count(bound))
    return Params(total=bound, active=active, experts=experts, form=text, note=note)


def format_params(params: Params) -> str:
    """Write a size so that `parse_params` reads it back (8x7b is written as its total).

    >>> format_params(Params(total=30e9, active=3e9))
    '30B-A3B'
    """
    total = format_count(params.total)
    return total if params.active is None else f"{total}-A{format_count(params.active)}"


def format_count(count: float, *, digits: int = 15) -> str:
    """Write a number with the largest magnitude below it, exact unless fewer `digits` are asked for.

    >>> format_count(6.7e9), format_count(512), format_count(102_399_999, digits=4)
    ('6.7B', '512', '102.4M')
    """
    for suffix, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if count >= scale:
            return f"{count / scale:.{digits}g}{suffix}"
    return f"{count:.{digits}g}"


def parse_count(raw: object) -> float:
    """Read a number of tokens, samples, users or flop; k is 1000.

    >>> parse_count("300B tokens"), parse_count("50k"), parse_count("100 concurrent users")
    (300000000000.0, 50000.0, 100.0)
    """
    text = re.sub(r"^(?:bs|batch|n)\s*=\s*", "", tidy(raw).lower())
    match = re.fullmatch(rf"{COMPARATOR}({MAGNITUDE}){_COUNT_UNIT}", text)
    count = magnitude(match[1]) if match else None
    if count is None:
        raise failure(what=_("a count"), raw=raw, examples=("300B", "50k"))
    return count


def parse_context(raw: object) -> Reading[int]:
    """Read a context or sequence length [tokens]; k is 1024 there, and the note says so.

    >>> parse_context("8k").value, parse_context("131072")
    (8192, Reading(value=131072, note=None))
    """
    match = re.fullmatch(rf"({PLAIN})\s*([km]?)(?:\s*tokens?)?", tidy(raw).lower())
    scale = {"": 1, "k": KIB, "m": MIB}[match[2]] if match else 0
    tokens = float(match[1]) * scale if match else 0.0
    if match is None or tokens < 1 or tokens != int(tokens):
        raise failure(what=_("a context length"), raw=raw, examples=("8k", "131072"))
    if not match[2]:
        return Reading(int(tokens))
    note = _("{raw} is read as {tokens} tokens (k = 1024 in a context length)")
    return Reading(int(tokens), note.format(raw=tidy(raw), tokens=int(tokens)))


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Number of samples and how often each is seen (None where not said)."""

    samples: float
    epochs: float | None = None


def parse_samples(raw: object) -> TrainingSet:
    """Read the size of a training set, with its epochs where they are said.

    >>> parse_samples("3 epochs of 50k samples")
    TrainingSet(samples=50000.0, epochs=3.0)
    """
    text = tidy(raw).lower()
    match = re.fullmatch(rf"({PLAIN})\s*(?:epochs?|轮)\s*(?:of|over|x|,)?\s*(.+)", text)
    if match is None:
        return TrainingSet(samples=parse_count(raw))
    return TrainingSet(samples=parse_count(match[2]), epochs=float(match[1]))


def parse_bytes(raw: object) -> Reading[float]:
    """Read an amount of memory [bytes].

    >>> parse_bytes("24GiB")
    Reading(value=25769803776.0, note=None)
    >>> parse_bytes("24GB").note
    '24GB is read as 24 x 10^9 bytes (write GiB for 2^30)'
    """
    text = tidy(raw)
    match = re.fullmatch(rf"{COMPARATOR}({PLAIN})\s*([kmgtp]?i?b?)(?:ytes)?", text.lower())
    unit = match[2] if match else None
    if match is None or unit not in _BYTES:
        raise failure(what=_("an amount of memory"), raw=raw, examples=("24GB", "24GiB"))
    value = float(match[1]) * _BYTES[unit]
    if unit == "g":
        note = _("{text} is read as {number} x 2^30 bytes (write GB for 10^9)")
    elif unit == "gb":
        note = _("{text} is read as {number} x 10^9 bytes (write GiB for 2^30)")
    else:
        return Reading(value)
    return Reading(value, note.format(text=text, number=match[1]))


def parse_percent(raw: object) -> float:
    """Read a share: the result is a fraction; without a sign, above 1 means percent.

    >>> parse_percent("60%"), parse_percent(0.6), parse_percent("60")
    (0.6, 0.6, 0.6)
    """
    match = re.fullmatch(rf"({PLAIN})\s*(%|percent|pct)?", tidy(raw).lower())
    number = float(match[1]) if match else -1.0
    percent = match is not None and (match[2] is not None or number > 1)
    fraction = number / 100 if percent else number
    if not 0 <= fraction <= 1:
        raise failure(what=_("a share between 0 and 100 %"), raw=raw, examples=("60%", "0.6"))
    return fraction
