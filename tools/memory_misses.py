"""List every measured row whose fit is decided wrongly, with its cause: docs/memory-misses.md.

Causes are data, tests/cases/memory_misses.yaml. Run with --write after a change of the memory estimate.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from gpuselect.accuracy.dispatch import fit_of_row
from gpuselect.accuracy.records import Fit
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.measurements import default_files, read_measurements

ROOT = Path(__file__).parents[1]
CAUSES = ROOT / "tests" / "cases" / "memory_misses.yaml"
PAGE = ROOT / "docs" / "memory-misses.md"
KINDS = {
    "row": "The row contradicts itself or another one, or infers its outcome",
    "open": "The row leaves open what decides",
    "model": "A term of the estimate is missing or coarse",
    "near": "Near the capacity",
}
MADE = """Made by `python tools/memory_misses.py --write` from the measured rows and the causes in
`tests/cases/memory_misses.yaml`."""
BRACKETS = "In brackets need over usable memory."
LAYOUTS = ("training", "inference")


def causes() -> list[dict[str, Any]]:
    """The causes in the order of the file."""
    found: list[dict[str, Any]] = yaml.safe_load(CAUSES.read_text("utf-8"))
    return found


def cause_of(row_id: str, known: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The first cause whose rows name the id."""
    return next((c for c in known if any(fnmatchcase(row_id, pattern) for pattern in c["rows"])), None)


def decisions() -> list[Fit]:
    """The decision on every row with an outcome."""
    catalog, calibration = load_catalog(), load_calibration()
    found = []
    for path in default_files():
        if path.stem in LAYOUTS:
            for row in read_measurements(path)[1]:
                fit = fit_of_row(row, catalog, calibration, serving=path.stem == "inference")
                if isinstance(fit, Fit):
                    found.append(fit)
    return found


def _line(fit: Fit) -> str:
    return f"{fit.row_id} ({fit.need_gib / fit.usable_gib:.2f})"


def page(fits: list[Fit]) -> str:
    """The page in Markdown."""
    known, wrong = causes(), [fit for fit in fits if fit.measured != fit.predicted]
    ran, failed = ([f for f in fits if f.measured == outcome] for outcome in (True, False))
    score = (
        f"{sum(f.predicted for f in ran)} of {len(ran)} rows that ran are said to fit, "
        f"{sum(not f.predicted for f in failed)} of {len(failed)} rows out of memory are said not to."
    )
    lines = ["# Fit decisions that are wrong, and why", "", MADE, "", f"{score} {BRACKETS}", ""]
    for kind, title in KINDS.items():
        lines += [f"## {title}", ""]
        for cause in (c for c in known if c["kind"] == kind):
            own = [f for f in wrong if cause_of(f.row_id, known) is cause]
            for outcome, label in ((False, "failed, said to fit"), (True, "ran, said not to fit")):
                group = [_line(f) for f in own if f.measured == outcome]
                if group:
                    lines += [f"- {cause['cause']} {len(group)} {label}: {', '.join(group)}."]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Print or write the page; leave with 1 where a row has no cause."""
    fits, known = decisions(), causes()
    bare = [f.row_id for f in fits if f.measured != f.predicted and cause_of(f.row_id, known) is None]
    text = page(fits)
    if "--write" in sys.argv:
        PAGE.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)
    if bare:
        sys.exit(f"without a cause: {', '.join(bare)}")


if __name__ == "__main__":
    main()
