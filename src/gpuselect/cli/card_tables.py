"""What the flat tables say about one accelerator: measured power by workload, prices over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gpuselect.i18n import _
from gpuselect.report.grid import Column

if TYPE_CHECKING:
    from gpuselect.catalog import MeasuredPower, PastPrice

Rows = list[dict[str, Any]]
LONGEST = 7  # lines of either table in text


def power_columns() -> Sequence[Column]:
    """Columns of the measured power."""
    return (
        Column("workload", _("Workload"), wrapped=True),
        Column("watts", _("W per accelerator")),
        Column("share", _("Share of limit")),
        Column("runs", _("Runs"), 1),
        Column("place", _("Measured")),
    )


def power_summary(rows: Iterable[MeasuredPower]) -> Rows:
    """One row for each workload and place of measuring, the most often measured first.

    `share` is the part of the board limit; absent where the power includes the host.
    """
    groups: dict[tuple[str, str], list[MeasuredPower]] = {}
    for row in rows:
        groups.setdefault((row.workload, place_of(row)), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        {
            "workload": workload,
            "watts": span([r.power_per_accel_w for r in runs], "{:.0f}"),
            "share": span([r.share_of_tdp for r in runs], "{:.0%}"),
            "runs": len(runs),
            "place": place,
        }
        for (workload, place), runs in ordered
    ]


def place_of(row: MeasuredPower) -> str:
    """Where the power was measured, in a word: accelerator, node or system."""
    if row.measured_at.startswith("GPU"):
        return _("accelerator")
    return _("node") if row.measured_at.startswith("node") else _("whole system")


def span(values: Iterable[float | None], form: str) -> str | None:
    """Smallest to largest of the known values, one figure where they print alike, None for none.

    >>> span([0.481, None, 0.974], "{:.0%}"), span([700.2, 699.9], "{:.0f}"), span([None], "{}")
    ('48%–97%', '700', None)
    """
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    low, high = form.format(known[0]), form.format(known[-1])
    return low if low == high else f"{low}–{high}"


def price_changes(rows: Iterable[PastPrice]) -> Rows:
    """First and last on-demand price [USD/h] of each instance that was seen in two months or more.

    Where a month has several prices the lowest counts. The longest series come first.
    """
    series: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row.ondemand is not None:
            months = series.setdefault((row.provider, row.instance_type), {})
            months[row.month] = min(row.ondemand, months.get(row.month, row.ondemand))
    found = []
    for (provider, instance), months in series.items():
        first, last = min(months), max(months)
        if first != last:
            found.append(
                {
                    "provider": provider, "instance": instance, "months": len(months),
                    "first": first, "first_usd_per_hour": months[first],
                    "last": last, "last_usd_per_hour": months[last],
                    "change_pct": 100.0 * (months[last] / months[first] - 1.0),
                }
            )  # fmt: skip
    return sorted(found, key=lambda item: (-item["months"], item["provider"], item["instance"]))


def price_line(change: dict[str, Any]) -> str:
    """One series as a sentence."""
    text = _("{provider} {instance}: ${old:,.2f}/h in {first}, ${new:,.2f}/h in {last} ({change:+.0f} %)")
    return text.format(
        provider=change["provider"], instance=_(change["instance"]), old=change["first_usd_per_hour"],
        first=change["first"], new=change["last_usd_per_hour"], last=change["last"],
        change=change["change_pct"],
    )  # fmt: skip


def in_words(rows: Rows) -> Rows:
    """The rows of measured power with their workload in the user's language."""
    return [{**row, "workload": _(row["workload"])} for row in rows]


def cut(rows: Rows) -> tuple[Rows, str]:
    """The first rows, and what to say about the others."""
    more = len(rows) - LONGEST
    return rows[:LONGEST], _("and {count} more (--json lists all)").format(count=more) if more > 0 else ""
