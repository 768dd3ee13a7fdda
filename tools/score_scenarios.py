"""Score the published decisions of tests/cases/scenarios.yaml and write docs/scenarios.md.

python tools/score_scenarios.py            print the shares and what differs
python tools/score_scenarios.py --write    write docs/scenarios.md as well
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpuselect.advisor import estimate, recommend
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.decision import Decision, FitAnswer, Option
from gpuselect.errors import GpuselectError
from gpuselect.names import resolve_model
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.tco import CostDefaults
from gpuselect.workload import Workload

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "tests/cases/scenarios.yaml"
PAGE = ROOT / "docs/scenarios.md"
TODAY = "2026-11-30"  # the age of a price is part of the answer
TOP = 3
EDGE = "edge"
MOST_SERVING = 16  # cards that a service may take where nothing is said
SAME_MEMORY = 0.75  # of the larger one: 24 and 32 GB, 80 and 96 GB, 141 and 180 GB are one class
DAY_S, HOURS_PER_DAY = 86_400.0, 24.0


@dataclass(frozen=True)
class Check:
    """One thing that a source says, and what we say.

    `kind`: fits | fails | pick (by class) | card (the very one) | field (among the source's cards) |
    framework | plan | figure.
    """

    kind: str
    asked: str
    agrees: bool
    seen: str


@dataclass(frozen=True)
class Scored:
    """A scenario with its checks; `unasked` says why it cannot be asked, empty when it was."""

    case: Mapping[str, Any]
    checks: tuple[Check, ...] = ()
    unasked: str = ""

    def of(self, *kinds: str) -> list[Check]:
        """The checks of these kinds."""
        return [check for check in self.checks if check.kind in kinds]

    def agrees(self, *kinds: str) -> bool:
        """True when every check of these kinds agrees."""
        return all(check.agrees for check in self.of(*kinds))

    @property
    def differs(self) -> bool:
        """True when it cannot be asked, or a statement other than the two strict ones on cards differs."""
        return bool(self.unasked) or not self.agrees("fits", "fails", "pick", "framework", "plan", "figure")

    @property
    def cause(self) -> str:
        """Whose fault a difference is, as the case says."""
        return str(self.case.get("differs", {}).get("cause", ""))

    @property
    def why(self) -> str:
        """What a difference comes from, as the case says."""
        return str(self.case.get("differs", {}).get("why", ""))


@dataclass(frozen=True)
class Data:
    """What an answer rests on."""

    catalog: Catalog = field(default_factory=load_catalog)
    calibration: Calibration = field(default_factory=load_calibration)
    defaults: CostDefaults = field(default_factory=load_defaults)

    def fit(self, request: Workload, places: Sequence[tuple[int, str]]) -> FitAnswer:
        """Our answer on given hardware."""
        return estimate(request, places, self.catalog, self.calibration, self.defaults, today=TODAY)

    def choice(self, request: Workload) -> Decision:
        """Our answer over the whole catalog."""
        return recommend(request, self.catalog, self.calibration, self.defaults, today=TODAY)


def load_cases() -> list[dict[str, Any]]:
    """All scenarios, scorable or not."""
    cases: list[dict[str, Any]] = yaml.load(CASES.read_text("utf-8"), yaml.CSafeLoader)
    return cases


def placement(text: str) -> tuple[int, str]:
    """Count and accelerator of `2xa100-sxm4-80gb`."""
    count, _x, name = text.partition("x")
    return int(count), name


def request_of(case: Mapping[str, Any], catalog: Catalog) -> Workload:
    """The request of a scenario: the model by its name, or by its size where the catalog lacks it."""
    keys = dict(case["workload"])
    if "params" in keys and "model" in keys:
        try:
            resolve_model(keys["model"], catalog)
            del keys["params"]
            keys.pop("active_params", None)
        except GpuselectError:
            del keys["model"]
    return Workload.from_mapping(keys)


def placements(case: Mapping[str, Any], request: Workload, data: Data) -> Iterator[Check]:
    """Our verdict on every placement that the source names."""
    for kind in ("fits", "fails"):
        for text in case.get(kind, ()):
            answer = data.fit(request, [placement(text)])
            days = answer.option and answer.option.performance.get("time_to_train_days")
            late = bool(days and request.deadline and days.value * DAY_S > request.deadline)
            found = answer.state != "no" and not late
            why = answer.reasons[0].text if answer.reasons else "too late" if late else answer.state
            yield Check(kind, text, found is (kind == "fits"), why)


def picks(case: Mapping[str, Any], request: Workload, data: Data, field: Sequence[str]) -> Iterator[Check]:
    """Whether what the source recommends is among our first options: its class, its card, its framework."""
    if not {"picks", "framework"} & case.keys():
        return
    largest = max(placement(text)[0] for text in case.get("picks", ("1x",)))
    if largest > MOST_SERVING and request.task == "inference":
        request = request.model_copy(update={"max_count": largest})
    options = ranked(data.choice(request))
    if "framework" in case:
        chosen = options[0].framework if options else None
        name = chosen.id if chosen else "none"
        yield Check("framework", " or ".join(case["framework"]), name in case["framework"], name)
    if "picks" in case:
        most = 1 if case.get("first") else TOP
        asked = ", ".join(case["picks"])
        wanted = {placement(text)[1] for text in case["picks"]}
        first = cards(options)[:most]
        alike = any(same_class(data.catalog, ours, theirs) for ours in first for theirs in wanted)
        the_card = bool(wanted & set(first))
        seen = ", ".join(cards(options)[:TOP]) or "nothing"
        yield Check("pick", asked, the_card if case.get("first") else alike, seen)
        yield Check("card", asked, the_card, seen)
        within = cards(ranked(data.choice(request.model_copy(update={"gpus": tuple(field)}))))[:most]
        yield Check("field", asked, bool(wanted & set(within)), ", ".join(within) or "nothing")


def cards(options: Sequence[Option]) -> list[str]:
    """The accelerators of options, each once, in order."""
    return list(dict.fromkeys(option.accelerator for option in options))


def same_class(catalog: Catalog, ours: str, theirs: str) -> bool:
    """True for about the same memory, both edge modules or both cards; the request sees to the precision."""
    a, b = catalog.accelerators[ours], catalog.accelerators[theirs]
    if (a.family == EDGE) != (b.family == EDGE) or not (a.memory_gb and b.memory_gb):
        return ours == theirs
    small, large = sorted((float(a.memory_gb), float(b.memory_gb)))
    return small >= SAME_MEMORY * large


def ranked(decision: Decision) -> tuple[Option, ...]:
    """The options of a decision in order, those without a price last."""
    return (*decision.recommendations, *decision.unpriced)


def source_name(case: Mapping[str, Any]) -> str:
    """The document or repository that a scenario comes from."""
    return re.split(r"@|,| issue | pull ", case["source"])[0]


def fields_of(cases: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The accelerators that each source names anywhere: the market that it looks at."""
    found: dict[str, set[str]] = {}
    for case in cases:
        named = [text for key in ("fits", "fails", "picks") for text in case.get(key, ())]
        found.setdefault(source_name(case), set()).update(placement(text)[1] for text in named)
    return {source: sorted(names) for source, names in found.items()}


def plan_value(option: Option, key: str) -> object:
    """A key of the plan; `sharded`: no accelerator holds the whole model."""
    plan = option.plan
    if key == "sharded":
        return plan.zero_stage == 3 or plan.tp * plan.pp * plan.ep > 1  # stage 3 cuts weights
    return int(getattr(plan, key))


def plans(case: Mapping[str, Any], request: Workload, data: Data) -> Iterator[Check]:
    """Whether our plan on the source's hardware is of its kind, and our figure near its own."""
    if "plan" in case:
        wanted = {key: value for key, value in case["plan"].items() if key != "on"}
        option = data.fit(request, [placement(case["plan"]["on"])]).option
        seen = {key: plan_value(option, key) if option else None for key in wanted}
        asked = f"plan on {case['plan']['on']}: " + ", ".join(f"{k} {v}" for k, v in wanted.items())
        yield Check("plan", asked, all(seen[key] in wanted[key] for key in wanted), str(seen))
    if "figure" in case:
        figure = case["figure"]
        count, name = placement(figure["on"])
        option = data.fit(request, [(count, name)]).option
        days = option.performance["time_to_train_days"].value if option else 0.0
        ratio = days * HOURS_PER_DAY * count / figure["value"]
        near = 1 / figure["factor"] <= ratio <= figure["factor"]
        yield Check("figure", f"{figure['quantity']} {figure['value']:.3g}", near, f"{ratio:.2f} times it")


def score(case: Mapping[str, Any], data: Data, field: Sequence[str]) -> Scored:
    """Every statement of a scenario against our answer."""
    if "outside" in case:
        return Scored(case, unasked=case["outside"])
    try:
        request = request_of(case, data.catalog)
        checks = [
            *placements(case, request, data),
            *picks(case, request, data, field),
            *plans(case, request, data),
        ]
    except GpuselectError as error:
        return Scored(case, unasked=re.sub(r"\s+", " ", str(error)))
    return Scored(case, tuple(checks))


def score_all(data: Data | None = None) -> list[Scored]:
    """All scorable scenarios, in the order of the file."""
    data = data or Data()
    cases = load_cases()
    fields = fields_of(cases)
    return [score(case, data, fields[source_name(case)]) for case in cases if "unscorable" not in case]


@dataclass(frozen=True)
class Share:
    """How many agree, of how many."""

    agree: int
    of: int

    @property
    def percent(self) -> float:
        """The share [%]."""
        return 100.0 * self.agree / self.of if self.of else 0.0

    def __str__(self) -> str:
        return f"{self.percent:.1f} % ({self.agree} of {self.of})"


def of_scenarios(results: Sequence[Scored], *kinds: str) -> Share:
    """Scenarios in which every check of these kinds agrees; one that cannot be asked does not agree."""
    keys = {"pick": "picks", "card": "picks", "field": "picks"}
    said = [keys.get(kind, kind) for kind in kinds]
    with_any = [r for r in results if r.of(*kinds) or (r.unasked and any(key in r.case for key in said))]
    return Share(sum(not r.unasked and r.agrees(*kinds) for r in with_any), len(with_any))


def of_checks(results: Sequence[Scored], *kinds: str) -> Share:
    """Single checks that agree, of those that could be asked."""
    checks = [check for result in results for check in result.of(*kinds)]
    return Share(sum(check.agrees for check in checks), len(checks))


CAUSES: Mapping[str, str] = {
    "engine": "our estimate or rule is at fault, or too coarse",
    "data": "a fact is missing from the catalog",
    "source dated": "the answer was right in its time; newer cards or software change it",
    "source rule": "the source gives a rule of thumb or a vendor minimum, no measurement",
    "source setup": "the source measured one setup, and others need less",
    "market": "at today's prices another card does the same for less",
    "question open": "the source leaves open what decides",
    "outside": "the request cannot say it",
}
HEAD = """\
# Agreement with published decisions

Generated by `python tools/score_scenarios.py --write`; do not edit. `tests/cases/scenarios.yaml` holds
{total} decisions that issues, vendor guides, model cards, papers and selection articles published, as facts
with their source; {scorable} can be scored. Each is asked as a user would ask it, by the same few rules for
all; no answer is written into the program.

| what is compared | scenarios that agree | of those that can be asked | single statements |
|---|---|---|---|
| feasible sets: what fits and what does not | {sets} | {asked} | {places} |
| the source's pick, by class, in our first {top} | {pick} | | |
| the very card of the source in our first {top} of the whole catalog | {card} | | |
| the very card in our first {top} of the cards that the same source names | {field} | | |
| framework, plan or figure of the source | {other} | | |

A scenario agrees when every statement of the kind does; in the first column one that cannot be asked counts
as not agreeing. A placement that we call `tight` counts as fitting.

The pick is compared by class because sources name the usual card of a class at their time: another card
agrees when the smaller of the two memories is at least three quarters of the larger, the request's number
format runs on both, and both are edge modules or neither is. The two lines below it are stricter and show
how far prices decide: among some three hundred accelerators that do the work, cost comes first.

## How a scenario is read

- The network by its name, else a decoder of usual proportions by its size.
- The context of a serving scenario is the prompt; one sequence at a time where no number is given.
- What a placement says (card, count) is no wish of the request; a service may take as many cards as the
  source's largest pick.
- What is said in other words is read as noted in the field `read` of the case.

## Where we differ

| cause | scenarios | meaning |
|---|---|---|
"""


def report(results: Sequence[Scored]) -> str:
    """Text of docs/scenarios.md."""
    cases = load_cases()
    other = of_scenarios(results, "framework", "plan", "figure")
    text = HEAD.format(
        total=len(cases), scorable=len(results), top=TOP, sets=of_scenarios(results, "fits", "fails"),
        asked=of_scenarios([r for r in results if not r.unasked], "fits", "fails"),
        places=of_checks(results, "fits", "fails"), pick=of_scenarios(results, "pick"),
        card=of_scenarios(results, "card"), field=of_scenarios(results, "field"), other=other,
    )  # fmt: skip
    differing = [result for result in results if result.differs]
    counted = [result.cause for result in differing]
    known = [cause for cause in CAUSES if cause in counted]
    text += "\n".join(f"| {cause} | {counted.count(cause)} | {CAUSES[cause]} |" for cause in known)
    rows = [row for result in differing for row in difference_rows(result)]
    text += (
        "\n\nOf one scenario several statements can differ; the cause is given once.\n\n"
        "| scenario | source | statement | we say | cause | why |\n|---|---|---|---|---|---|\n"
    ) + "\n".join(rows)
    apart = [
        f"| {c['id']} | {c['source']} | {c['ask']} | {c['unscorable']} |" for c in cases if "unscorable" in c
    ]
    return (
        f"{text}\n\n## Kept out of the score\n\n| scenario | source | question | why |\n|---|---|---|---|\n"
        + "\n".join(apart) + "\n"
    )  # fmt: skip


SAID = {"fits": "fits", "fails": "does not fit", "pick": "picks", "framework": "takes", "plan": "",
        "figure": ""}  # fmt: skip


def difference_rows(result: Scored) -> Iterator[str]:
    """Rows of the table of differences, one for each kind of statement."""
    first = f"| {result.case['id']} | {result.case['source']} "
    last = f"| {result.cause} | {result.why} |"
    if result.unasked:
        yield f"{first}| {result.case['ask']} | cannot be asked {last}"
    for kind, word in SAID.items():
        wrong = [check for check in result.of(kind) if not check.agrees]
        if wrong:
            asked = ", ".join(check.asked for check in wrong)
            seen = "; ".join(dict.fromkeys(brief(check) for check in wrong))
            yield f"{first}| {f'{word} {asked}'.strip()} | {seen} {last}"
            first, last = "| | ", "| | |"


def brief(check: Check) -> str:
    """What we say, in a few words."""
    if check.kind == "fits":
        return "needs too much" if "GiB" in check.seen else check.seen.partition(": ")[2] or check.seen
    return check.seen


def main() -> int:
    """Print, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/scenarios.md as well")
    write = parser.parse_args().write
    results = score_all()
    text = report(results)
    print(text.partition("## Kept out")[0])
    unexplained = [result.case["id"] for result in results if result.differs and not result.why]
    if unexplained:
        print("without a cause in tests/cases/scenarios.yaml:", *unexplained)
    if write:
        PAGE.write_text(text, "utf-8")
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main())
