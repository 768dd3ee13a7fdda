"""Measure the budgets of the program: start-up, search and memory. Exit 1 when one is missed.

Times are processor seconds as a ratio to those of a process that imports typer, rich and pydantic, taken in
turns, so that neither a slow nor a busy machine changes the verdict. Search is one stage of `recommend` in
this process, without reading the catalog; its budget of a second is ten times the base.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import process_time

from gpuselect.advisor import resolve_job, search
from gpuselect.deployment import build_field
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.workload import Workload

ROUNDS = 5
PROGRAM = (sys.executable, "-c", "from gpuselect.cli import main; main()")
BASE = (sys.executable, "-c", "import typer, rich, pydantic")
# name -> arguments, most times the base; None: measured and shown, without a budget
PROCESSES: Mapping[str, tuple[tuple[str, ...], float | None]] = {
    "gpuselect --version": (("--version",), 1.6),
    "gpuselect --help": (("--help",), 1.6),
    "gpuselect __complete": (("__complete", "compare", "h1"), 3.0),
    "gpuselect recommend, 10B": (("recommend", "--params", "10B", "--task", "training"), 4.0),
    "gpuselect estimate, 10B": (
        ("estimate", "--on", "8xH100", "--params", "10B", "--task", "training"),
        None,
    ),
    "gpuselect compare": (("compare", "a100", "h100"), None),
    "gpuselect list": (("list", "accelerators"), None),
    "gpuselect explain": (("explain", "memory-exceeded"), None),
}
SEARCHES: Mapping[str, Mapping[str, object]] = {
    "search, 10B training": {"task": "pretrain", "params": "10B"},
    "search, 70B training": {"task": "pretrain", "params": "70B"},
    "search, deepseek-v3 training": {"task": "pretrain", "model": "deepseek-v3"},
    "search, llama-3.1-70b serving": {"task": "inference", "model": "llama-3.1-70b"},
}
HEAVY = ("gpuselect recommend, 10B", "gpuselect estimate, 10B")  # a child counts no less than this process
SEARCH_BUDGET = 10.0  # times the base: one second
MEMORY_BUDGET_MB = 400.0
Row = tuple[str, float, float | None, str]  # what, measured, budget, unit


def cost(command: Sequence[str]) -> tuple[float, float]:
    """Processor time [s] and peak memory [MB] of one process."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        _pid, _status, used = os.wait4(process.pid, 0)
        process.returncode = 0
    unit = 1 if sys.platform == "darwin" else 1024
    return used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 1e6


def process_rows() -> tuple[float, list[Row]]:
    """The base [s], and start-up against it, each round one of each; peak memory of the same processes."""
    commands = {"base": BASE, **{name: (*PROGRAM, *words) for name, (words, _most) in PROCESSES.items()}}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _round in range(ROUNDS + 1):
        for name, command in commands.items():
            found[name].append(cost(command))
    middle = {name: median(s for s, _mb in values[1:]) for name, values in found.items()}
    base = middle["base"]
    print(f"base: import typer, rich, pydantic in {base:.3f} s of processor time, median of {ROUNDS}")
    rows: list[Row] = []
    for name, (_words, most) in PROCESSES.items():
        rows.append((name, middle[name] / base, most, "x base"))
    rows += [(f"{name}, memory", max(mb for _s, mb in found[name]), MEMORY_BUDGET_MB, "MB") for name in HEAVY]
    return base, rows


def search_rows(base: float) -> list[Row]:
    """Median time of field and search over the whole catalog, against the base."""
    catalog, calibration = load_catalog(), load_calibration()
    rows: list[Row] = []
    for name, wish in SEARCHES.items():
        workload = Workload.from_mapping(wish)
        times = []
        for _round in range(3):
            start = process_time()
            job, _notes = resolve_job(workload, catalog, calibration)
            field = build_field(workload, job, catalog, calibration)
            search(field.sites, job, workload, calibration)
            times.append(process_time() - start)
        rows.append((name, median(times) / base, SEARCH_BUDGET, "x base"))
    return rows


def memory_rows() -> list[Row]:
    """Peak resident memory of the heaviest question [MB]."""
    _s, peak = cost((*PROGRAM, "recommend", "--model", "deepseek-v3", "--task", "training"))
    return [("memory, deepseek-v3 training", peak, MEMORY_BUDGET_MB, "MB")]


def main() -> int:
    """Measure, print the table, and fail when a budget is missed."""
    os.chdir(Path(__file__).resolve().parents[1])
    base, rows = process_rows()
    rows += [*search_rows(base), *memory_rows()]
    missed = 0
    for what, measured, budget, unit in rows:
        if budget is None:
            print(f"{what:40} {measured:8.2f}           {unit}")
            continue
        missed += measured > budget
        print(
            f"{what:40} {measured:8.2f} of {budget:6.1f} {unit:7} {'ok' if measured <= budget else 'MISSED'}"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
