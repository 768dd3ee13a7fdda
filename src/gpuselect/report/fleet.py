"""The answer for many workloads as a table, as JSON and as CSV rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from gpuselect.fleet import Cover, Fleet, Member
from gpuselect.i18n import _, labelled
from gpuselect.report.console import Page, Style
from gpuselect.report.describe import cost_text, headline, headline_key, metric_label
from gpuselect.report.format import significant
from gpuselect.report.grid import Column, as_grid
from gpuselect.report.json import option_payload
from gpuselect.report.plain import plain
from gpuselect.report.version import tool_version

SHOWN = 40  # workloads on a terminal
KEYS = ("workload", "accelerator", "count", "speed", "cost", "score", "with_fewest", "reason")


def fleet_columns() -> tuple[Column, ...]:
    """Columns of the table."""
    return (
        Column("workload", _("Workload")),
        Column("accelerator", _("Best")),
        Column("count", _("Count")),
        Column("speed", _("Speed or time"), 2),
        Column("cost", _("Cost"), 1),
        Column("score", _("Score"), 4),
        Column("with_fewest", _("With the fewest kinds"), 1),
        Column("reason", _("Why none"), 3),
    )


def fleet_rows(fleet: Fleet) -> list[dict[str, Any]]:
    """One row for each workload."""
    return [_row(member, fleet.cover) for member in fleet.members]


def _row(member: Member, cover: Cover | None) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(KEYS)
    row["workload"] = member.name
    option = member.best
    if option is not None:
        key = headline_key(option)
        row |= {
            "accelerator": option.accelerator, "count": option.count, "cost": cost_text(option),
            "speed": labelled(metric_label(key), headline(option)) if key else None,
            "score": round(option.score.total, 3),
        }  # fmt: skip
    if member.reason is not None:
        row["reason"] = f"{member.reason.text} [{member.reason.code}]"
    if cover is not None and member.name in cover.assigned:
        card, use = cover.assigned[member.name]
        row["with_fewest"] = f"{use.count} x {card}"
    return row


def fleet_text(fleet: Fleet, style: Style | None = None) -> str:
    """The fewest kinds first, then a line for each workload."""
    page = Page(style or Style())
    for line in cover_lines(fleet):
        page.line(line)
    columns, rows = fleet_columns(), fleet_rows(fleet)
    kept = [column for column in columns if any(row[column.key] is not None for row in rows)]
    page.heading(_("Workloads"))
    page.grid(as_grid(kept, rows[:SHOWN]), [column.drop for column in kept])
    if len(rows) > SHOWN:
        more = _("... and {count} more (--format csv and --json list all).")
        page.line(more.format(count=len(rows) - SHOWN), style="dim")
    return page.text()


def cover_lines(fleet: Fleet) -> list[str]:
    """The fewest kinds of cards in words, what they are used for, and what nothing serves."""
    lines = []
    unserved = [member.name for member in fleet.members if not member.uses]
    cover = fleet.cover
    if cover is not None:
        text = _("{n} of {total} workloads can be served. Fewest kinds of accelerators that do: {k}, {cards} "
                 "({method}).")  # fmt: skip
        lines.append(text.format(
            n=len(cover.assigned), total=len(fleet.members), k=len(cover.cards),
            cards=_(", ").join(cover.cards),
            method=_("exact: no fewer do") if cover.method == "exact" else _("greedy: fewer may do"),
        ))  # fmt: skip
        text = _("With these the work costs {x} times what the cheapest accelerator of each workload costs.")
        lines.append(text.format(x=significant(cover.dearer)))
        lines += [
            _("Adding {card} brings that to {x} times.").format(card=card, x=significant(ratio))
            for card, ratio in cover.more
        ]
        lines += [
            _("{card}: {w} workloads, {n} accelerators if all run at once, {most} for the largest").format(
                card=card, **use
            )
            for card, use in card_uses(cover).items()
        ]
    if unserved:
        names = _(", ").join(unserved[:10]) + (", ..." if len(unserved) > 10 else "")
        lines.append(_("Not served: {n} ({names}).").format(n=len(unserved), names=names))
    return lines


def card_uses(cover: Cover) -> dict[str, dict[str, int]]:
    """For each card: workloads (w), accelerators if all run at once (n), and those of the largest (most)."""
    workloads: Counter[str] = Counter()
    together: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    for card, use in cover.assigned.values():
        workloads[card] += 1
        together[card] += use.count
        largest[card] = max(largest[card], use.count)
    return {c: {"w": workloads[c], "n": together[c], "most": largest[c]} for c in cover.cards}


def fleet_payload(fleet: Fleet) -> dict[str, Any]:
    """The answer in JSON: the best option of each workload, and the cover."""
    return {
        "schema_version": 1, "command": "recommend-fleet", "version": tool_version(),
        "workloads": [
            {
                "name": member.name, "workload_sentence": member.workload_sentence,
                "best": None if member.best is None else option_payload(member.best),
                "reason": None if member.reason is None else {
                    "code": member.reason.code, "reason": member.reason.text},
            }
            for member in fleet.members
        ],
        "fewest_kinds": None if fleet.cover is None else _cover(fleet.cover),
        "unserved": [member.name for member in fleet.members if not member.uses],
    }  # fmt: skip


def _cover(cover: Cover) -> dict[str, Any]:
    return {
        "accelerators": list(cover.cards), "method": cover.method, "cost_over_cheapest": plain(cover.dearer),
        "more": [
            {"accelerator": card, "cost_over_cheapest": plain(ratio)} for card, ratio in cover.more
        ],
        "uses": [
            {"accelerator": card, "workloads": use["w"], "count_at_once": use["n"],
             "count_largest": use["most"]}
            for card, use in card_uses(cover).items()
        ],
        "assigned": [
            {"workload": name, "accelerator": card, "count": use.count, "cost_usd": plain(use.cost_usd)}
            for name, (card, use) in cover.assigned.items()
        ],
    }  # fmt: skip


def listed(fleet: Fleet) -> tuple[Sequence[Column], list[dict[str, Any]]]:
    """Columns and rows for CSV and Markdown."""
    return fleet_columns(), fleet_rows(fleet)
