"""The launch files of the options in tests/cases/launch.yaml.

python tools/launch_cases.py                fail where a stored file (tests/golden/launch) differs
python tools/launch_cases.py --store        store them anew; read the difference before you commit it
python tools/launch_cases.py --write DIR    write each case into a folder of its own, for real loaders
"""

from __future__ import annotations

import argparse
import difflib
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpuselect.advisor import resolve_job
from gpuselect.catalog import Catalog
from gpuselect.decision import Estimate, FrameworkChoice, MemoryFit, Option
from gpuselect.launch import launch_texts
from gpuselect.launch.template import Template
from gpuselect.money_records import Cost, Offer
from gpuselect.plan import Plan
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.launch import load_templates
from gpuselect.workload import Workload

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "tests/cases/launch.yaml"
STORED = ROOT / "tests/golden/launch"
OFFER = Offer("cloudco", "x", "eu", "on-demand", "2026-07-01", "cloudco", is_offer=True)
Texts = dict[str, tuple[str, bool]]


@cache
def catalog() -> Catalog:
    """The catalog, read once."""
    return load_catalog()


@cache
def templates() -> tuple[Template, ...]:
    """The templates, read once."""
    return load_templates()


@cache
def cases() -> dict[str, dict[str, Any]]:
    """The cases by id."""
    return {case["id"]: case for case in yaml.safe_load(CASES.read_text(encoding="utf-8"))}


def option_of(case: dict[str, Any]) -> Option:
    """The option that a case describes."""
    accelerator = catalog().accelerators[case["accelerator"]]
    framework = catalog().frameworks[case["framework"]]
    return Option(
        accelerator=accelerator.id, accelerator_name=accelerator.name, count=case["plan"]["count"],
        nodes=case["nodes"], plan=Plan(**case["plan"]), precision=case["precision"],
        weights=case.get("weights", ""), kv=case.get("kv", ""),
        framework=FrameworkChoice(framework.id, framework.name, "", framework.launch),
        memory=MemoryFit(40.0, 80.0, {}, "fits"),
        performance={key: Estimate(*values) for key, values in case["performance"].items()},
        cost=Cost(offer=OFFER if case.get("rented") else None),
    )  # fmt: skip


def texts_of(name: str) -> Texts:
    """Text and executable bit of each file of a case."""
    case = cases()[name]
    workload = Workload.from_mapping(case["workload"])
    job, _notes = resolve_job(workload, catalog(), load_calibration())
    return launch_texts(
        option=option_of(case), job=job, workload=workload, catalog=catalog(), templates=templates()
    )


def joined(texts: Texts) -> str:
    """The files of a case as one text, for storing."""
    return "".join(
        f"===== {name}{' (executable)' if executable else ''}\n{text}"
        for name, (text, executable) in texts.items()
    )


def difference(name: str) -> list[str]:
    """Lines in which a case differs from what is stored."""
    path = STORED / f"{name}.txt"
    stored = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return list(
        difflib.unified_diff(stored, joined(texts_of(name)).splitlines(), "stored", "now", "", "", 1, "")
    )


def main() -> int:
    """Compare, store or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", action="store_true", help="store the files anew")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write each case into a folder of its own")
    arguments = parser.parse_args()
    faults = 0
    for name in cases():
        if arguments.store:
            STORED.mkdir(exist_ok=True)
            (STORED / f"{name}.txt").write_text(joined(texts_of(name)), encoding="utf-8")
        elif arguments.write is not None:
            folder = arguments.write / name
            folder.mkdir(parents=True)
            for file, (text, _executable) in texts_of(name).items():
                (folder / file).write_text(text, encoding="utf-8")
        elif lines := difference(name):
            faults += 1
            print(f"{name}:", *lines, sep="\n", file=sys.stderr)
    return min(1, faults)


if __name__ == "__main__":
    sys.exit(main())
