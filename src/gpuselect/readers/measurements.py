"""Read measured rows (data/measurements): one dictionary per row, empty cells left out."""

from __future__ import annotations

import csv
from pathlib import Path

from gpuselect.errors import InputError
from gpuselect.i18n import _


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a measured CSV file; an empty cell is not stated by the source and is left out.

    Raises InputError when the file cannot be read or has no `row_id` column.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [{k: v for k, v in row.items() if v} for row in csv.DictReader(file)]
    except OSError as error:
        raise InputError(_("cannot read {file}: {why}").format(file=path, why=error.strerror)) from None
    if rows and "row_id" not in rows[0]:
        raise InputError(_("{file} has no column row_id").format(file=path))
    return rows
