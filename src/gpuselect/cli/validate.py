"""`gpuselect validate`: predictions against measured rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuselect.cli.flags import Arguments, Flag, chosen_format, common_flags, listed
from gpuselect.cli.load import catalog_of
from gpuselect.cli.output import note, terminal_style, write_file, write_out
from gpuselect.errors import InputError
from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.accuracy.evaluation import Measured, Validation

FORMATS = ("table", "json", "csv")
DETAILS = """\
Each row is predicted with its own plan, engine and lengths. Without a file the rows that the package
carries are used; those were seen by the calibration and are marked in_sample. docs/accuracy.md has the
errors with each source left out of the fit.

\b
Examples:
  gpuselect validate
  gpuselect validate my-runs.csv --worst 20
  gpuselect validate my-runs.csv --metric tpot_ms --json
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    files = Flag(
        "files", _("CSV files in the layout of data/measurements; default: those of the package."),
        "arguments", metavar="FILE",
    )  # fmt: skip
    return [
        files,
        Flag("metric", _("Only these metrics (names of the measured columns)."), "list"),
        Flag("slice", _("Only these slices, for example 'training dense'."), "list"),
        Flag("worst", _("List the N predictions that are furthest off."), metavar="N"),
        Flag("csv", _("Write the predictions to this CSV file; - is standard output."), metavar="PATH"),
        *common_flags(FORMATS),
    ]


def run(arguments: Arguments) -> int:
    """Predict every row and print the errors."""
    form = chosen_format(arguments, FORMATS)
    if arguments.get("csv") == "-":
        if form == "json":
            raise InputError(_("--csv - and --json exclude each other"))
        form = "csv"
    worst = _worst(arguments)
    metrics = _metrics(arguments)
    validation = _validation(arguments)
    validation = validation.only(metrics=metrics, slices=_slices(arguments, validation))
    target = arguments.get("csv")
    if target and target != "-":
        from gpuselect.report.validation import validation_csv

        write_file(Path(target), validation_csv(validation))
        note(_("{n} predictions written to {path}").format(n=len(validation.rows), path=target), arguments)
    write_out(_rendered(validation, form, arguments, worst))
    return 0


def _validation(arguments: Arguments) -> Validation:
    from gpuselect.accuracy.evaluation import evaluate
    from gpuselect.readers.calibration import load_calibration

    rows = _measured([Path(name) for name in arguments.get("files") or ()])
    catalog = catalog_of(arguments)
    return evaluate(_with_progress(rows, arguments), catalog, load_calibration())


def _measured(files: Sequence[Path]) -> list[Measured]:
    from gpuselect.accuracy.evaluation import Measured
    from gpuselect.readers.measurements import (
        default_files,
        fingerprint,
        known_fingerprints,
        read_measurements,
    )

    read = [read_measurements(path) for path in files or default_files()]
    known = known_fingerprints()
    return [
        Measured(row, layout, in_sample=fingerprint(row) in known) for layout, rows in read for row in rows
    ]


def _with_progress(rows: Sequence[Measured], arguments: Arguments) -> Iterator[Measured]:
    """The rows, with a progress bar on standard error when that is a terminal."""
    if arguments.get("quiet") or not sys.stderr.isatty():
        yield from rows
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(rows, description=_("Predicting"), console=Console(stderr=True), transient=True)


def _worst(arguments: Arguments) -> int:
    given = arguments.get("worst")
    if given is None:
        return 0
    if not str(given).isascii() or not str(given).isdigit():
        raise InputError(_("--worst takes a whole number, not {given!r}").format(given=given))
    return int(given)


def _metrics(arguments: Arguments) -> list[str]:
    from gpuselect.readers.measurements import LAYOUTS

    known = {metric for layout in LAYOUTS for metric in layout.metrics} - {"outcome"}
    return [_one_of(name, sorted(known), "metric") for name in listed(arguments.get("metric") or ())]


def _slices(arguments: Arguments, validation: Validation) -> list[str]:
    known = sorted({row.slice for row in validation.rows})
    return [_one_of(name, known, "slice") for name in listed(arguments.get("slice") or ())]


def _one_of(name: str, known: Sequence[str], flag: str) -> str:
    if name in known:
        return name
    near = get_close_matches(name, known, n=1)
    hint = _("; did you mean {name!r}?").format(name=near[0]) if near else ""
    text = _("--{flag}: no {flag} {name!r} here{hint} (there are {known})")
    raise InputError(text.format(flag=flag, name=name, hint=hint, known=_(", ").join(known) or _("none")))


def _rendered(validation: Any, form: str, arguments: Arguments, worst: int) -> str:
    from gpuselect.report.validation import validation_csv, validation_payload, validation_text

    if form == "json":
        from gpuselect.report.plain import to_text

        return to_text(validation_payload(validation))
    if form == "csv":
        return validation_csv(validation)
    return validation_text(validation, terminal_style(arguments), worst=worst)
