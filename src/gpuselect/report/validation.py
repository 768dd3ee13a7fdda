"""Predictions against measured rows: as text, JSON and CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuselect.i18n import _, labelled
from gpuselect.report.blocks import Grid
from gpuselect.report.console import Page, Style
from gpuselect.report.format import UNKNOWN, percent, significant
from gpuselect.report.grid import Column, as_csv

if TYPE_CHECKING:
    from gpuselect.accuracy.evaluation import Validation
    from gpuselect.accuracy.records import Fit
    from gpuselect.accuracy.summary import Line, Prediction

CSV_KEYS = ("row_id", "slice", "metric", "measured", "predicted", "low", "high", "ape", "in_sample")
NARROW, NAME_WIDTH = 100, 18  # below this width longer names of metrics are broken at an underscore


def validation_payload(validation: Validation) -> dict[str, Any]:
    """The answer to `validate --json`."""
    return {
        "schema_version": 1,
        "rows": [_row(prediction) for prediction in validation.rows],
        "fits": [_fit(fit) for fit in validation.fits],
        "skipped": [
            {"row_id": skip.row_id, "code": skip.code, "reason": skip.reason} for skip in validation.skipped
        ],
        "summary": [_line(line) for line in validation.summary],
    }


def _row(prediction: Prediction) -> dict[str, Any]:
    return {key: getattr(prediction, key) for key in CSV_KEYS}


def _fit(fit: Fit) -> dict[str, Any]:
    keys = ("row_id", "measured", "predicted", "state", "need_gib", "usable_gib")
    return {key: getattr(fit, key) for key in keys}


def _line(line: Line) -> dict[str, Any]:
    keys = ("slice", "metric", "n", "median_ape", "p90_ape", "bias", "coverage")
    return {key: getattr(line, key) for key in keys}


def validation_csv(validation: Validation) -> str:
    """The predictions, one line each, with the columns of the JSON rows."""
    return as_csv([Column(key, key) for key in CSV_KEYS], [_row(row) for row in validation.rows])


def validation_text(validation: Validation, style: Style | None = None, *, worst: int = 0) -> str:
    """Summary, fits and skips as text; with `worst` the rows that are furthest off."""
    page = Page(style or Style())
    _heading(page, validation)
    if validation.summary:
        page.grid(_summary_grid(validation.summary, page.style), (), {0: 12, 1: NAME_WIDTH})
        page.line(
            _("APE: |predicted / measured - 1|; bias: median of predicted / measured - 1; cover: share of "
              "measured values inside the 80 % interval."), style="dim",
        )  # fmt: skip
    if validation.fits:
        page.heading(_("Fits in memory"))
        _fits(page, validation.fits)
    if validation.skipped:
        page.heading(_("Not predicted"))
        _skips(page, validation)
    if worst and validation.rows:
        page.heading(_("Furthest off"))
        _worst(page, validation.rows, worst)
    return page.text()


def _heading(page: Page, validation: Validation) -> None:
    rows = len({row.row_id for row in validation.rows})
    seen = sum(row.in_sample for row in validation.rows)
    text = _("{n} predictions of {rows} rows; {seen} of them are of rows that the calibration has seen.")
    page.line(text.format(n=len(validation.rows), rows=rows, seen=seen), style="bold")


def _summary_grid(lines: Sequence[Line], style: Style) -> Grid:
    header = (_("Slice"), _("Metric"), "n", _("Median"), "p90", _("Bias"), _("Cover"))
    rows = tuple(
        (
            line.slice, broken(line.metric, style), str(line.n), percent(line.median_ape),
            percent(line.p90_ape), signed_percent(line.bias), percent(line.coverage),
        )
        for line in lines
    )  # fmt: skip
    return Grid(header, rows, frozenset(range(2, 7)))


def broken(name: str, style: Style) -> str:
    r"""A metric's name, in two lines where the terminal is narrow and the name long.

    >>> broken("requests_or_images_per_s_total", Style(width=80))
    'requests_or_\nimages_per_s_total'
    """
    if style.width is None or style.width >= NARROW or len(name) <= NAME_WIDTH:
        return name
    cut = name.rfind("_", 0, NAME_WIDTH - 1) + 1
    return f"{name[:cut]}\n{name[cut:]}" if cut else name


def signed_percent(fraction: float | None) -> str:
    """A deviation as whole percents with its sign.

    >>> signed_percent(0.124), signed_percent(-0.3), signed_percent(None)
    ('+12 %', '-30 %', '?')
    """
    return UNKNOWN if fraction is None else _("{p:+.0f} %").format(p=100 * fraction)


def _fits(page: Page, fits: Sequence[Fit]) -> None:
    """Right and wrong decisions, for rows that ran and rows that ran out of memory."""
    for ran, right, wrong in (
        (True, _("{right} of {n} rows that ran are predicted to fit{tight}."), "no"),
        (False, _("{right} of {n} rows out of memory are predicted not to fit{tight}."), "fits"),
    ):
        group = [fit for fit in fits if fit.measured == ran]
        if not group:
            continue
        correct = sum(fit.predicted == ran for fit in group)
        near = sum(fit.state == "tight" and fit.predicted != ran for fit in group)
        far = sum(fit.state == wrong for fit in group)
        tight = _(", {near} are wrong within 15 % of the capacity, {far} beyond").format(near=near, far=far)
        page.bullet(right.format(right=correct, n=len(group), tight=tight))


def _skips(page: Page, validation: Validation) -> None:
    from gpuselect.accuracy.records import SKIP_REASONS

    counts = Counter(skip.code for skip in validation.skipped)
    for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        name = f"{code} ({count})"
        page.bullet(labelled(name, _(SKIP_REASONS[code])) if code in SKIP_REASONS else name)


def _worst(page: Page, rows: Sequence[Prediction], count: int) -> None:
    text = _("{row} ({card}, {model}): {metric} {measured}, predicted {predicted}, factor {factor}")
    for row in sorted(rows, key=lambda row: (-row.factor, row.row_id, row.metric))[:count]:
        page.bullet(
            text.format(
                row=row.row_id, card=row.hardware or UNKNOWN, model=row.model or UNKNOWN, metric=row.metric,
                measured=significant(row.measured), predicted=significant(row.predicted),
                factor=significant(row.predicted / row.measured, 2),
            )
        )  # fmt: skip
