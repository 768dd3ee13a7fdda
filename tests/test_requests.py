"""Whole requests as data (cases/requests.yaml): one runner, no branch per case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import le, lt
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuselect.advisor import estimate, recommend, resolve_job
from gpuselect.catalog import Accelerator, Catalog
from gpuselect.cli.recommend import answer_code
from gpuselect.decision import Decision, FitAnswer
from gpuselect.errors import GpuselectError
from gpuselect.estimate.shape import training_flops
from gpuselect.job import TrainingJob
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.workload import Workload

FILE = Path(__file__).parent / "cases" / "requests.yaml"
CASES = yaml.load(FILE.read_text("utf-8"), yaml.CSafeLoader)
TODAY = "2026-11-30"
ORDERS: Mapping[str, Callable[[float, float], bool]] = {"increasing": lt, "not-decreasing": le}


@dataclass(frozen=True)
class Answer:
    """What came back: exit code and sentence, or a decision, or a fit."""

    catalog: Catalog
    exit: int
    message: str = ""
    decision: Decision | None = None
    fit: FitAnswer | None = None
    flops: float | None = None

    @property
    def top(self) -> Any:
        """The first option, priced or not."""
        if self.fit is not None:
            return self.fit.option
        assert self.decision is not None
        return (*self.decision.recommendations, *self.decision.unpriced)[0]

    @property
    def verdicts(self) -> Mapping[str, Any]:
        """Verdict by card."""
        assert self.decision is not None
        return {verdict.accelerator: verdict for verdict in self.decision.considered}

    @property
    def recommendable(self) -> list[Accelerator]:
        """Cards that fit and meet every wish."""
        return [
            self.catalog.accelerators[name]
            for name, verdict in self.verdicts.items()
            if verdict.feasible and verdict.rejection is None
        ]


def at(record: Any, path: str) -> Any:
    """The value at a dotted path through attributes, keys and positions."""
    for part in path.split("."):
        if isinstance(record, Mapping):
            record = record[part]
        else:
            record = record[int(part)] if isinstance(record, tuple | list) else getattr(record, part)
    return record


def ask(workload: Mapping[str, Any], on: Sequence[Sequence[Any]] | None) -> Answer:
    """Answer one request with the shipped data."""
    catalog, calibration, defaults = load_catalog(), load_calibration(), load_defaults()
    try:
        wish = Workload.from_mapping(workload)
        job, _notes = resolve_job(wish, catalog, calibration)
        flops = None
        if isinstance(job, TrainingJob):
            flops = float(training_flops(shape=job.shape, tokens=job.tokens, seq_len=job.seq_len))
        if on is not None:
            cards = [(int(count), str(name)) for count, name in on]
            fit = estimate(wish, cards, catalog, calibration, defaults, today=TODAY)
            return Answer(catalog, 1 if fit.state == "no" else 0, fit=fit, flops=flops)
        decision = recommend(wish, catalog, calibration, defaults, today=TODAY)
    except GpuselectError as error:
        return Answer(catalog, error.exit_code, message=str(error))
    return Answer(catalog, answer_code(decision), decision=decision, flops=flops)


def inside(value: float, bounds: Sequence[float]) -> bool:
    """True between the bounds."""
    return float(bounds[0]) <= value <= float(bounds[1])


def assumption_codes(answer: Answer) -> set[str]:
    """Codes of the assumptions."""
    given = answer.fit or answer.decision
    assert given is not None
    return {note.code for note in given.assumptions}


def numbers(answer: Answer) -> Mapping[str, float | None]:
    """Numbers of the whole answer."""
    shown = answer.decision.recommendations if answer.decision else ()
    return {"training_flops": answer.flops, "options": len(shown)}


CHECKS: Mapping[str, Callable[[Answer, Any], object]] = {
    "exit": lambda a, code: a.exit == code,
    "message": lambda a, parts: all(part in a.message for part in parts),
    "assumptions": lambda a, codes: set(codes) <= assumption_codes(a),
    "rejections": lambda a, cards: all(
        a.verdicts[c].rejection and a.verdicts[c].rejection.code == code for c, code in cards.items()
    ),
    "single_rejections": lambda a, cards: all(
        a.verdicts[c].single_rejection and a.verdicts[c].single_rejection.code == code
        for c, code in cards.items()
    ),
    "feasible": lambda a, cards: all(a.verdicts[c].feasible for c in cards),
    "infeasible": lambda a, cards: not any(a.verdicts[c].feasible for c in cards),
    "single_feasible": lambda a, cards: all(a.verdicts[c].single_feasible for c in cards),
    "single_infeasible": lambda a, cards: not any(a.verdicts[c].single_feasible for c in cards),
    "least_memory_gb": lambda a, least: all((e.memory_gb or 0) >= least for e in a.recommendable),
    "most_power_w": lambda a, most: all((e.power_w or 1e9) <= most for e in a.recommendable),
    "only": lambda a, traits: all(
        getattr(e, key) in allowed for key, allowed in traits.items() for e in a.recommendable
    ),
    "top": lambda a, paths: all(inside(at(a.top, path), bounds) for path, bounds in paths.items()),
    "top_is": lambda a, paths: all(at(a.top, path) in allowed for path, allowed in paths.items()),
    "numbers": lambda a, wanted: all(inside(numbers(a)[k], bounds) for k, bounds in wanted.items()),
    "reasons": lambda a, codes: set(codes) <= {note.code for note in a.fit.reasons},
    "state": lambda a, states: a.fit.state in states,
}


@pytest.mark.parametrize("case", CASES["requests"], ids=lambda case: case["id"])
def test_request(case: dict[str, Any]) -> None:
    """Every expectation of the case holds; the failed ones are listed with what was seen."""
    answer = ask(case["workload"], case.get("on"))
    failed = {key: value for key, value in case["expect"].items() if not CHECKS[key](answer, value)}
    assert not failed, seen(answer, failed)


def seen(answer: Answer, failed: Mapping[str, Any]) -> str:
    """What was expected and what came back."""
    lines = [f"expected {failed}", f"exit {answer.exit} {answer.message}"]
    if answer.fit is not None:
        lines += [f"{answer.fit.state}: {answer.fit.option}", str(answer.fit.reasons)]
    if answer.decision is not None:
        options = (*answer.decision.recommendations, *answer.decision.unpriced)
        lines += [str(options[:1])]
        for part in ("rejections", "single_rejections"):
            lines += [f"{card}: {answer.verdicts[card]}" for card in failed.get(part, {})]
        for part in ("feasible", "infeasible", "single_feasible", "single_infeasible"):
            lines += [f"{card}: {answer.verdicts[card]}" for card in failed.get(part, [])]
    return "\n".join(lines)


@pytest.mark.parametrize("case", CASES["comparisons"], ids=lambda case: case["id"])
def test_comparison(case: dict[str, Any]) -> None:
    """The quantity runs over the requests as said."""
    values = [float(at(ask(workload, case["on"]).top, case["quantity"])) for workload in case["workloads"]]
    assert all(ORDERS[case["order"]](a, b) for a, b in pairwise(values)), values


def test_every_case_says_why() -> None:
    """An expectation without a reason cannot be judged later; ids are unique."""
    cases = [*CASES["requests"], *CASES["comparisons"]]
    assert all(case["why"].strip() for case in cases)
    assert len({case["id"] for case in cases}) == len(cases)
    assert {key for case in CASES["requests"] for key in case["expect"]} <= CHECKS.keys()
