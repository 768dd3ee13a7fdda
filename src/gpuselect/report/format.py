"""Numbers as people write them: two or three digits, a unit, and nothing that looks more precise."""

from __future__ import annotations

import math
import re

from gpuselect.i18n import N_, _, language

MINUTE_S, HOUR_S, DAY_S, YEAR_S = 60.0, 3600.0, 86_400.0, 31_557_600.0
UNKNOWN = "?"
# from which amount on, the size of the unit, its letter
THOUSANDS = ((1e9, 1e9, "B"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
TEN_THOUSANDS = ((1e8, 1e8, "亿"), (1e4, 1e4, "万"))
ASCII_SPELLING = {
    "–": "-", "—": "-", "×": "x", "·": "|", "≥": ">=", "≤": "<=", "≈": "~", "…": "...",
    "•": "*", "→": "->", "±": "+/-", "µ": "u", "μ": "u", "₂": "2", "°": " deg", "“": '"',
    "”": '"', "’": "'", "‘": "'", "½": "1/2", "\u00a0": " ", "\u202f": " ", "─": "-", "━": "-",
    "│": "|", "√": "sqrt", "²": "^2", "³": "^3",
}  # fmt: skip

OF_A_TERM = (
    N_("on-demand"), N_("spot"), N_("reserved-1y"), N_("reserved-3y"), N_("list"), N_("retail"), N_("used"),
    N_("server"), N_("system"),
)  # fmt: skip
NEITHER = re.compile(r"[^\x00-\x7f\u2e80-\u9fff\uff00-\uffef]")  # neither ASCII nor Chinese


def significant(value: float | None, digits: int = 3) -> str:
    """The value with `digits` significant digits, thousands separated; `?` when unknown.

    >>> significant(12345.6), significant(0.0123456), significant(80.0), significant(None)
    ('12,300', '0.0123', '80', '?')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    text = f"{rounded:,.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def money(usd: float | None) -> str:
    """An amount of US dollars, in the large units of the language: $48k, $4.8万.

    >>> money(1_234_567), money(48_200), money(2.484), money(0.0042), money(None)
    ('$1.2M', '$48k', '$2.48', '$0.0042', '?')
    """
    if usd is None or not math.isfinite(usd):
        return UNKNOWN
    sign, size = ("-" if usd < 0 else ""), abs(usd)
    for limit, unit, suffix in TEN_THOUSANDS if language() == "zh" else THOUSANDS:
        if size >= limit * 0.9995:
            return f"{sign}${significant(size / unit, 2 if size / unit < 100 else 3)}{suffix}"
    if 1 <= size < 1000:
        return f"{sign}${size:.2f}" if size < 100 else f"{sign}${size:.0f}"
    return f"{sign}${significant(size, 3 if size >= 1 else 2)}"


def time_unit(seconds: float) -> tuple[float, str]:
    """Size [s] and name of the unit in which a time span is handy.

    >>> time_unit(200_000)
    (86400.0, 'days')
    """
    units = (
        (3 * YEAR_S, YEAR_S, _("years")),
        (2 * DAY_S, DAY_S, _("days")),
        (90 * MINUTE_S, HOUR_S, _("h")),
        (100.0, MINUTE_S, _("min")),
        (1.0, 1.0, "s"),
        (1e-3, 1e-3, "ms"),
    )
    return next(((size, name) for limit, size, name in units if seconds >= limit), (1e-6, "us"))


def duration(seconds: float | None) -> str:
    """A time span in the unit that gives a handy number.

    >>> duration(2_937_600), duration(5400), duration(90), duration(0.042), duration(3e-6)
    ('34 days', '1.5 h', '90 s', '42 ms', '3 us')
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    size, name = time_unit(seconds)
    return f"{significant(seconds / size, 2)} {name}"


def gib(value: float | None) -> str:
    """Memory in GiB.

    >>> gib(61.27), gib(0.5)
    ('61.3 GiB', '0.5 GiB')
    """
    return f"{significant(value)} GiB"


def percent(fraction: float | None) -> str:
    """A share of one as whole percents.

    >>> percent(0.4234), percent(None)
    ('42 %', '?')
    """
    if fraction is None or not math.isfinite(fraction):
        return UNKNOWN
    return _("{p:.0f} %").format(p=100 * fraction)


def power(watts: float | None) -> str:
    """Power in W, kW or MW.

    >>> power(700), power(57_600)
    ('700 W', '57.6 kW')
    """
    if watts is None or not math.isfinite(watts):
        return UNKNOWN
    for limit, suffix in ((1e6, "MW"), (1e3, "kW")):
        if watts >= limit:
            return f"{significant(watts / limit)} {suffix}"
    return f"{significant(watts)} W"


def to_ascii(text: str) -> str:
    """Spell typographic signs in ASCII, for terminals that cannot show them; Chinese stays as it is.

    >>> to_ascii("8 × H100, 34 days (28–43)"), to_ascii("é 显存 ≥ 80 GiB")
    ('8 x H100, 34 days (28-43)', '? 显存 >= 80 GiB')
    """
    for sign, spelling in ASCII_SPELLING.items():
        text = text.replace(sign, spelling)
    return NEITHER.sub("?", text)


def count_of(count: int, name: str) -> str:
    """How many of what.

    >>> count_of(8, "NVIDIA H100 SXM5")
    '8 × NVIDIA H100 SXM5'
    """
    return f"{count} × {name}"
