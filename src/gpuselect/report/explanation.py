"""The answer to `explain CARD` as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuselect.explain import Answer, Change, Gap, Switch
from gpuselect.i18n import _, full_stop
from gpuselect.report.blocks import Grid
from gpuselect.report.console import Page, Style
from gpuselect.report.json import option_payload
from gpuselect.report.plain import plain
from gpuselect.report.version import tool_version

COLOURS = {"wins": "bold green", "ranked": "bold yellow", "unpriced": "bold yellow"}


def explanation_text(answer: Answer, style: Style | None = None) -> str:
    """Verdict, criteria, and what would change it."""
    page = Page(style or Style())
    page.line(full_stop(answer.verdict), style=COLOURS.get(answer.state, "bold red"))
    page.line(answer.workload_sentence)
    if answer.gaps and answer.other is not None:
        page.heading(_("Criterion by criterion, against {other}").format(other=answer.other.accelerator))
        page.grid(gap_grid(answer.gaps))
    for note in answer.notes:
        page.bullet(f"{note.text} [{note.code}]")
    _changes(page, answer)
    _switches(page, answer.switches)
    if answer.rejection is not None:
        page.heading(_("Next"))
        page.command(f"gpuselect explain {answer.rejection.code}")
    return page.text()


def gap_grid(gaps: Sequence[Gap]) -> Grid:
    """Weight, both scores and the points that a criterion adds to the lead; losses first."""

    def score(value: float | None) -> str:
        return "?" if value is None else f"{value:.2f}"

    header = (_("Criterion"), _("Weight"), _("Score"), _("Other"), _("Points"))
    rows = tuple(
        (_(gap.criterion), f"{gap.weight:.2f}", score(gap.score), score(gap.other), f"{gap.points:+.3f}")
        for gap in gaps
    )
    total = (_("total"), "", "", "", f"{sum(gap.points for gap in gaps):+.3f}")
    return Grid(header, (*rows, total), frozenset({1, 2, 3, 4}))


def _changes(page: Page, answer: Answer) -> None:
    if answer.state == "wins":
        return
    winning = [change for change in answer.changes if change.wins]
    page.heading(_("What would make it win, each change alone"))
    for change in winning:
        page.bullet(change.text, mark="+")
    if not winning:
        page.bullet(_("none of the changes tried: price, count, bounds, demand, formats"))
    others = [change for change in answer.changes if not change.wins]
    if others:
        page.heading(_("What would help"))
        for change in others:
            page.bullet(change.text)


def _switches(page: Page, switches: Sequence[Switch]) -> None:
    texts = list(dict.fromkeys(switch.text for switch in switches))
    if not texts:
        return
    page.heading(_("Where the first place changes, each input alone"))
    for text in texts:
        page.bullet(text)


def explanation_payload(answer: Answer) -> dict[str, Any]:
    """The answer in JSON; numbers are numbers, unknown is null."""
    return {
        "schema_version": 1, "command": "explain", "version": tool_version(),
        "workload": plain(answer.workload), "workload_sentence": answer.workload_sentence,
        "accelerator": answer.accelerator, "state": answer.state, "verdict": answer.verdict,
        "rejection": None if answer.rejection is None else {
            "code": answer.rejection.code, "reason": answer.rejection.text},
        "rank": answer.rank, "ranked": answer.ranked,
        "option": None if answer.option is None else option_payload(answer.option),
        "other": None if answer.other is None else option_payload(answer.other),
        "gaps": [
            {"criterion": g.criterion, "weight": g.weight, "score": plain(g.score), "other": plain(g.other),
             "points": g.points}
            for g in answer.gaps
        ],
        "changes": [_change(change) for change in answer.changes],
        "switches": [
            {"what": s.what, "base": s.base, "value": plain(s.value), "end": s.end, "unit": s.unit or None,
             "to": s.to or None, "text": s.text}
            for s in answer.switches
        ],
        "notes": [{"code": note.code, "text": note.text} for note in answer.notes],
    }  # fmt: skip


def _change(change: Change) -> dict[str, Any]:
    return {
        "what": change.what, "base": plain(change.base), "value": plain(change.value),
        "unit": change.unit or None, "rank": change.rank, "wins": change.wins, "text": change.text,
    }  # fmt: skip
