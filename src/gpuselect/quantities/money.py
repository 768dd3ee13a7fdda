"""Money with its currency and its term: "$2.50/gpu-hr", "<$3000", "30万", "0.12 USD/kWh"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gpuselect.i18n import _
from gpuselect.quantities.text import COMPARATOR, MAGNITUDE, failure, magnitude, tidy

Per = Literal["none", "hour", "month", "year", "million-tokens", "kwh"]

_SYMBOLS = {"$": "USD", "us$": "USD", "€": "EUR", "£": "GBP", "¥": "CNY", "元": "CNY",
            "rmb": "CNY", "人民币": "CNY", "美元": "USD", "美金": "USD", "dollars": "USD",
            "dollar": "USD", "euros": "EUR", "euro": "EUR"}  # fmt: skip
_CODES = "usd eur gbp cny jpy inr chf cad aud krw sgd".split()  # noqa: SIM905
_CURRENCY = "|".join(re.escape(name) for name in sorted([*_SYMBOLS, *_CODES], key=len, reverse=True))
_GPU = r"(?:gpus?|cards?|accelerators?|卡)"
_TERMS: tuple[tuple[str, Per, float], ...] = (
    (r"h|hr|hour|小时|时", "hour", 1.0),
    (r"d|day|天|日", "hour", 1 / 24),
    (r"mo|mon|month|月|个月", "month", 1.0),
    (r"y|yr|year|annum|年", "year", 1.0),
    (r"kwh|度", "kwh", 1.0),
    (r"mwh", "kwh", 1e-3),
    (r"(?:1 ?)?m(?:illion)? ?tok(?:en)?s?|百万 ?tokens?", "million-tokens", 1.0),
    (r"(?:1 ?)?k ?tok(?:en)?s?|1000 tokens", "million-tokens", 1e3),
)


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in `currency` (ISO code) for one `per`; `per_accelerator` where a card is named."""

    amount: float
    per: Per = "none"
    currency: str = "USD"
    per_accelerator: bool = False
    note: str | None = None


def parse_money(raw: object) -> Money:
    """Read a price, a rate or a budget.

    >>> parse_money("$2.50/gpu-hr")
    Money(amount=2.5, per='hour', currency='USD', per_accelerator=True, note=None)
    >>> parse_money("30万").note
    '30万 is read as CNY (write USD or another currency to change it)'
    """
    if isinstance(raw, Money):
        return raw
    text = tidy(raw).lower()
    match = re.fullmatch(
        rf"{COMPARATOR}({_CURRENCY})?\s*({MAGNITUDE})\s*({_CURRENCY})?"
        r"(?:\s*(?:/|per |a |每)\s*(.+))?",
        text,
    )
    amount = magnitude(match[2]) if match else None
    term = _term(match[4]) if match else None
    if match is None or amount is None or term is None or (match[1] and match[3]):
        raise failure(what=_("an amount of money"), raw=raw, examples=("$2/h", "$20k/month"))
    per, scale, per_accelerator = term
    currency, note = _currency(match[1] or match[3], text=tidy(raw))
    return Money(amount * scale, per, currency, per_accelerator, note)


def _term(text: str | None) -> tuple[Per, float, bool] | None:
    """What the amount is for, the factor to that term, and whether it is for one card."""
    if text is None:
        return "none", 1.0, False
    match = re.fullmatch(rf"(?:{_GPU}(?:$|[\s\-/]*))?(?:per )?(.*?)(?:[\s\-/]*(?:per )?{_GPU})?", text)
    per_accelerator = re.search(_GPU, text) is not None
    inner = match[1] if match else text
    if not inner and per_accelerator:
        return "none", 1.0, True
    for pattern, per, scale in _TERMS:
        if re.fullmatch(f"(?:{pattern})s?", inner):
            return per, scale, per_accelerator
    return None


def _currency(name: str | None, *, text: str) -> tuple[str, str | None]:
    """ISO code, and the note where the text leaves it open."""
    if name and name != "¥":
        return _SYMBOLS.get(name, name.upper()), None
    code = "CNY" if name == "¥" or re.search("[万亿千百]", text) else "USD"
    note = _("{text} is read as {code} (write {other} or another currency to change it)")
    other = "JPY" if name == "¥" else "USD" if code == "CNY" else "EUR"
    return code, note.format(text=text, code=code, other=other)


def parse_rates(raw: object) -> dict[str, float]:
    """Exchange rates in USD for one unit of a currency: `EUR=1.08, CNY=0.14`.

    >>> parse_rates("EUR=1.08")
    {'EUR': 1.08}
    """
    pairs = raw.items() if isinstance(raw, Mapping) else _pairs(raw)
    rates = {}
    for name, value in pairs:
        code = _SYMBOLS.get(str(name).strip().lower(), str(name).strip().upper())
        rate = magnitude(str(value).strip())
        if code.lower() not in _CODES or code == "USD" or rate is None or rate <= 0:
            what = _("USD for one unit of a currency")
            raise failure(what=what, raw=raw, examples=("EUR=1.08", "CNY=0.14"))
        rates[code] = rate
    return rates


def _pairs(raw: object) -> list[tuple[str, str]]:
    parts = raw if isinstance(raw, list | tuple) else str(raw).split(",")
    return [(name, value) for name, _sign, value in (str(part).partition("=") for part in parts)]


def in_usd(money: Money, rates: Mapping[str, float]) -> Money | None:
    """The amount in USD at the given rates, None where there is none for its currency.

    >>> in_usd(Money(1000.0, "month", "EUR"), {"EUR": 1.08}).amount
    1080.0
    """
    if money.currency == "USD":
        return money
    rate = rates.get(money.currency)
    return None if rate is None else replace(money, amount=money.amount * rate, currency="USD")


def format_money(money: Money) -> str:
    """Write an amount so that `parse_money` reads it back.

    >>> format_money(Money(2.5, "hour", "USD", per_accelerator=True))
    '2.5 USD/gpu-hour'
    """
    term = {"none": "", "million-tokens": "M tokens", "kwh": "kWh"}.get(money.per, money.per)
    card = "gpu" if money.per_accelerator else ""
    per = "-".join(part for part in (card, term) if part)
    return f"{money.amount:.15g} {money.currency}" + (f"/{per}" if per else "")
