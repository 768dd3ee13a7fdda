"""Values and inputs in words."""

from __future__ import annotations

from gpuselect.i18n import N_, _

TIMES = ((86_400.0, N_("days")), (3600.0, N_("h")), (1.0, "s"), (1e-3, "ms"))


def lever_name(what: str) -> str:
    """Name of an input.

    >>> lever_name("ttft")
    'time to first token'
    """
    names = {
        "price": _("price of one accelerator"), "deadline": _("deadline"), "demand": _("demand"),
        "streams": _("streams"), "ttft": _("time to first token"), "tpot": _("time per output token"),
        "latency": _("latency"), "utilization": _("utilisation"), "electricity": _("electricity"),
        "count": _("number of accelerators"), "budget": _("budget"), "max-count": _("largest count"),
        "weights": _("format of the weights"), "precision": _("precision"), "method": _("method"),
    }  # fmt: skip
    return names.get(what, what)


def value_text(value: float, unit: str) -> str:
    """A value with its unit, to three digits.

    >>> value_text(2.499, "USD/h"), value_text(0.6, "share"), value_text(86400.0, "s")
    ('$2.5 / h', '60 %', '1 days')
    """
    if unit == "share":
        return _("{p:.3g} %").format(p=100.0 * value)
    if unit == "s":
        size, name = next((s, n) for s, n in TIMES if value >= s or s == TIMES[-1][0])
        return f"{value / size:.3g} {_(name)}"
    number = f"{value:,.0f}" if value >= 1000.0 else f"{value:.3g}"
    if unit.startswith("USD"):
        per = unit.removeprefix("USD").removeprefix("/")
        return f"${number} / {_(per)}" if per else f"${number}"
    if unit == "streams":
        return _("{n} streams").format(n=number)
    return f"{number} {_(unit)}".rstrip()
