"""`gpuselect recommend --workloads FILE`: many workloads in one run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpuselect.cli.flags import Arguments, Flag, chosen_format, workload_mapping
from gpuselect.cli.load import catalog_of, overlays_of
from gpuselect.cli.output import terminal_style, write_out
from gpuselect.errors import InputError
from gpuselect.i18n import _, labelled

if TYPE_CHECKING:
    from gpuselect.fleet import Fleet

FORMATS = ("table", "json", "markdown", "csv")
NOT_TOGETHER = ("workload", "output", "launch")
BAR = 24  # signs of the progress bar


def fleet_flags() -> list[Flag]:
    """The flag that names a fleet file."""
    text = _(
        "Many workloads: a YAML list, each with a name and the keys of a workload file; other flags hold "
        "for all of them."
    )
    return [Flag("workloads", text, metavar="FILE")]


def run_fleet(arguments: Arguments) -> int:
    """Answer every workload of the file; exit 1 when one of them has no answer."""
    form = chosen_format(arguments, FORMATS)
    for name in NOT_TOGETHER:
        if arguments.get(name):
            raise InputError(_("--workloads and --{name} exclude each other").format(name=name))
    fleet = _planned(arguments)
    write_out(_rendered(fleet, form, arguments))
    everything = all(member.uses for member in fleet.members)
    return 0 if everything or arguments.get("exit_zero") else 1


def _planned(arguments: Arguments) -> Fleet:
    from gpuselect.advisor import current_date
    from gpuselect.fleet import plan_fleet
    from gpuselect.readers.calibration import load_calibration, load_defaults
    from gpuselect.readers.fleet import read_fleet
    from gpuselect.readers.model_files import with_model_file
    from gpuselect.readers.profiles import load_judgement
    from gpuselect.tco.currency import in_dollars
    from gpuselect.workload import Workload

    given = workload_mapping(arguments)
    workloads = []
    entries = read_fleet(Path(arguments["workloads"]))
    catalog = catalog_of(arguments)
    for name, keys in entries:
        try:
            workload, own = with_model_file(Workload.from_mapping({**keys, **given}), catalog)
            workload = in_dollars(workload, own, today=current_date())
        except InputError as error:
            raise InputError(labelled(labelled(arguments["workloads"], name), error)) from None
        workloads.append((name, workload, own))
    overlays = overlays_of({**arguments, "quiet": True})
    return plan_fleet(
        workloads, load_calibration(), load_defaults(overlays=overlays), load_judgement(overlays=overlays),
        today=current_date(), progress=progress_bar(len(workloads), arguments),
    )  # fmt: skip


def progress_bar(total: int, arguments: Arguments) -> Callable[[int], None]:
    """A bar on standard error when that is a terminal and nobody asked for quiet; nothing otherwise."""
    if arguments.get("quiet") or not sys.stderr.isatty():
        return lambda _done: None
    start = time.monotonic()

    def show(done: int) -> None:
        filled = BAR * done // total
        left = (time.monotonic() - start) / done * (total - done)
        text = _("{done} of {total} workloads, {left:.0f} s left").format(done=done, total=total, left=left)
        end = "\r\x1b[K" if done == total else ""
        sys.stderr.write(f"\r[{'#' * filled}{'.' * (BAR - filled)}] {text}\x1b[K{end}")
        sys.stderr.flush()

    return show


def _rendered(fleet: Fleet, form: str, arguments: Arguments) -> str:
    from gpuselect.report import fleet as report

    if form == "json":
        from gpuselect.report.plain import to_text

        return to_text(report.fleet_payload(fleet))
    if form == "table":
        return report.fleet_text(fleet, terminal_style(arguments))
    from gpuselect.report import grid

    columns, rows = report.listed(fleet)
    if form == "csv":
        return grid.as_csv(columns, rows)
    return "\n\n".join([*report.cover_lines(fleet), grid.as_markdown(columns, rows)])
