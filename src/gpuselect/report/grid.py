"""One table for lists and comparisons: as text, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuselect.i18n import N_, _
from gpuselect.report.blocks import Grid
from gpuselect.report.format import significant
from gpuselect.report.markdown import grid_lines
from gpuselect.report.plain import plain, to_text

LONGEST_LIST = 6
WORDS = frozenset({N_("yes"), N_("no")})  # of facts: the other words are ids
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: key in the rows, heading, and how early it goes when the terminal is narrow.

    Columns with a higher `drop` go first; 0 stays always. A `wrapped` one is broken into lines.
    """

    key: str
    heading: str
    drop: int = 0
    wrapped: bool = False


def cell(value: Any) -> str:
    """A value for reading; unknown is an empty cell.

    A year has four digits and no comma, so no number below 10,000 has one.

    >>> cell(989.4), cell(1979.5), cell(17300), cell(None), cell(("cuda", "xla")), cell(True)
    ('989', '1980', '17,300', '', 'cuda, xla', 'yes')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list | tuple):
        return _(", ").join(cell(item) for item in value)
    if isinstance(value, int | float):
        number = float(value)
        if number.is_integer() and abs(number) < 1e6:
            return f"{number:.0f}" if abs(number) < 1e4 else f"{number:,.0f}"
        return significant(number) if abs(number) >= 1e4 else significant(number).replace(",", "")
    return _(value) if isinstance(value, str) and value in WORDS else str(value)


def as_grid(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> Grid:
    """The rows as text cells; a column whose values are all numbers is set to the right.

    Of a long list the first names and the number of the others are shown.
    """
    numeric = frozenset(
        index
        for index, column in enumerate(columns)
        if any(_is_number(row.get(column.key)) for row in rows)
        and all(_is_number(row.get(column.key)) or row.get(column.key) is None for row in rows)
    )
    return Grid(
        header=tuple(column.heading for column in columns),
        rows=tuple(tuple(_short(row.get(column.key)) for column in columns) for row in rows),
        numeric=numeric,
    )


def wrapped_columns(columns: Sequence[Column]) -> dict[int, int]:
    """The columns that may be broken into lines, with the width that they need at least."""
    return {index: 16 for index, column in enumerate(columns) if column.wrapped}


def _short(value: Any) -> str:
    if isinstance(value, list | tuple) and len(value) > LONGEST_LIST:
        text = _("{names} and {count} more")
        shown = value[: LONGEST_LIST - 1]
        return text.format(names=cell(shown), count=len(value) - len(shown))
    return cell(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_json(key: str, rows: Sequence[Mapping[str, Any]], **extra: Any) -> str:
    """The rows under `key`, with the schema version; unknown is null."""
    return to_text({"schema_version": 1, **extra, key: list(rows)})


def as_csv(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> str:
    r"""The rows as CSV with the keys as header; unknown is empty.

    >>> as_csv([Column("id", "Id"), Column("gb", "GB")], [{"id": "a,b", "gb": None}])
    'id,gb\n"a,b",\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.key for column in columns])
    for row in rows:
        writer.writerow([_csv_value(plain(row.get(column.key))) for column in columns])
    return text.getvalue()


def _csv_value(value: Any) -> Any:
    if isinstance(value, list):
        value = ";".join(str(item) for item in value)
    return "" if value is None else harmless(value)


def harmless(value: Any) -> Any:
    """A text that a spreadsheet would compute, marked as text; numbers stay.

    >>> harmless("=HYPERLINK(1)"), harmless("h100"), harmless(-1.5)
    ("'=HYPERLINK(1)", 'h100', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def as_markdown(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table."""
    return "\n".join(grid_lines(as_grid(columns, rows))) + "\n"
