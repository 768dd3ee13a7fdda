"""Measure the budgets of the program: start-up, search and memory. Exit 1 when one is missed.

Start-up is a ratio of whole processes (wall-clock, median) to a process that imports typer, rich and
pydantic, taken in turns so that a busy machine slows all alike. Search time is that of one `recommend`
stage in this process, without reading the catalog.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from gpuselect.advisor import resolve_job, search
from gpuselect.deployment import build_field
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.workload import Workload

ROUNDS = 9
PROGRAM = (sys.executable, "-c", "from gpuselect.cli import main; main()")
BASE = (sys.executable, "-c", "import typer, rich, pydantic")
# name -> arguments, most times the base
PROCESSES: Mapping[str, tuple[tuple[str, ...], float]] = {
    "gpuselect --help": (("--help",), 1.6),
    "gpuselect recommend, 10B": (("recommend", "--params", "10B", "--task", "training"), 4.0),
}
SEARCHES: Mapping[str, Mapping[str, object]] = {
    "search, 10B training": {"task": "pretrain", "params": "10B"},
    "search, 70B training": {"task": "pretrain", "params": "70B"},
    "search, deepseek-v3 training": {"task": "pretrain", "model": "deepseek-v3"},
    "search, llama-3.1-70b serving": {"task": "inference", "model": "llama-3.1-70b"},
}
SEARCH_BUDGET_S = 1.0
MEMORY_BUDGET_MB = 400.0
PEAK_CODE = """
import resource, sys
from gpuselect.cli import main
sys.stdout = open(sys.argv.pop(1), "w")
try:
    main(sys.argv[1:])
except SystemExit:
    pass
unit = 1 if sys.platform == "darwin" else 1024
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, file=sys.stderr)
"""
Row = tuple[str, float, float, str]  # what, measured, budget, unit


def seconds(command: Sequence[str]) -> float:
    """Wall-clock time of one process [s]."""
    start = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  our own commands
    return perf_counter() - start


def process_rows() -> list[Row]:
    """Start-up against the base, each round one of each."""
    commands = {"base": BASE, **{name: (*PROGRAM, *words) for name, (words, _most) in PROCESSES.items()}}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _round in range(ROUNDS + 1):
        for name, command in commands.items():
            times[name].append(seconds(command))
    middle = {name: median(values[1:]) for name, values in times.items()}  # the first round fills caches
    print(f"base: import typer, rich, pydantic in {middle['base']:.3f} s, median of {ROUNDS}")
    return [(name, middle[name] / middle["base"], most, "x base") for name, (_w, most) in PROCESSES.items()]


def search_rows() -> list[Row]:
    """Median time of field and search over the whole catalog."""
    catalog, calibration = load_catalog(), load_calibration()
    rows = []
    for name, wish in SEARCHES.items():
        workload = Workload.from_mapping(wish)
        times = []
        for _round in range(3):
            start = perf_counter()
            job, _notes = resolve_job(workload, catalog, calibration)
            field = build_field(workload, job, catalog, calibration)
            search(field.sites, job, workload, calibration)
            times.append(perf_counter() - start)
        rows.append((name, median(times), SEARCH_BUDGET_S, "s"))
    return rows


def memory_rows() -> list[Row]:
    """Peak resident memory of whole processes [MB]."""
    rows = []
    for name, words in (
        ("memory, 10B training", ("--params", "10B", "--task", "training")),
        ("memory, deepseek-v3 training", ("--model", "deepseek-v3", "--task", "training")),
    ):
        command = [sys.executable, "-c", PEAK_CODE, os.devnull, "recommend", *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  the same
        rows.append((name, float(done.stderr.split()[-1]), MEMORY_BUDGET_MB, "MB"))
    return rows


def main() -> int:
    """Measure, print the table, and fail when a budget is missed."""
    os.chdir(Path(__file__).resolve().parents[1])
    rows = [*process_rows(), *search_rows(), *memory_rows()]
    for what, measured, budget, unit in rows:
        verdict = "ok" if measured <= budget else "MISSED"
        print(f"{what:32} {measured:8.2f} of {budget:6.1f} {unit:7} {verdict}")
    return 1 if any(measured > budget for _what, measured, budget, _unit in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
