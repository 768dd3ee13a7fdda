"""Many workloads in one run: the file, the answers, and the fewest kinds of cards."""

from __future__ import annotations

import csv
import io
import itertools
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuselect import fleet
from gpuselect.advisor import current_date, recommend
from gpuselect.cli.app import invoke
from gpuselect.cli.fleet import progress_bar
from gpuselect.errors import InputError
from gpuselect.fleet import Member, Use, cover_of, exact_cover, greedy_cover, plan_fleet
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.fleet import fleet_entries, read_fleet
from gpuselect.readers.profiles import shipped_judgement
from gpuselect.workload import Workload

FILE = """\
defaults: {gpus: "h100,l4,rtx-4090-24gb"}
workloads:
  - {name: chat, task: inference, model: llama-3.1-8b}
  - {name: large, task: inference, model: llama-3.1-70b, gpus: "h100,a100"}
  - {name: tune, task: finetune, params: 8B, method: qlora}
"""
MASKS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 255), min_size=1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A fleet of three."""
    path = tmp_path / "fleet.yaml"
    path.write_text(FILE)
    return path


def member(name: str, **costs: float) -> Member:
    """Make an answer by hand: the cost of the work on each card."""
    return Member(name, name, None, None, {card: Use(1, cost) for card, cost in costs.items()})


def test_each_workload_has_the_answer_that_it_has_alone(file: Path) -> None:
    """The best option of a fleet is that of `recommend`; alike workloads are judged once."""
    catalog, calibration, defaults = load_catalog(), load_calibration(), load_defaults()
    entries = [(n, Workload.from_mapping(k), catalog) for n, k in read_fleet(file)]
    done: list[int] = []
    found = plan_fleet(
        [*entries, ("again", entries[0][1], catalog)], calibration, defaults, shipped_judgement(),
        today=current_date(), progress=done.append,
    )  # fmt: skip
    assert done == [1, 2, 3, 4]
    for (_name, workload, _catalog), answer in zip(entries, found.members, strict=False):
        alone = recommend(workload, catalog, calibration, defaults).recommendations[0]
        assert answer.best is not None
        assert (answer.best.accelerator, answer.best.count) == (alone.accelerator, alone.count)
    assert found.members[3].name == "again"
    assert found.members[3].uses is found.members[0].uses
    assert found.cover is not None
    assert (found.cover.cards, found.cover.method) == (("h100-sxm5-80gb",), "exact")


@settings(max_examples=80, deadline=None)
@given(MASKS)
def test_the_exact_cover_is_the_smallest(masks: dict[str, int]) -> None:
    """Against all subsets: it covers everything and no smaller one does; the greedy one is no smaller."""
    everything = 0
    for mask in masks.values():
        everything |= mask

    def covers(cards: tuple[str, ...]) -> bool:
        held = 0
        for card in cards:
            held |= masks[card]
        return held == everything

    greedy = greedy_cover(masks, everything)
    exact = exact_cover(masks, everything, len(greedy))
    assert exact is not None
    assert covers(greedy)
    assert covers(exact)
    least = next(k for k in range(1, 9) if any(map(covers, itertools.combinations(masks, k))))
    assert len(exact) == least


def test_a_greedy_cover_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the search is cut off, the answer says greedy."""
    members = [member("1", a=1, b=1), member("2", b=1, c=1), member("3", c=1, a=1)]
    found = cover_of(members)
    assert found is not None
    assert (len(found.cards), found.method) == (2, "exact")
    monkeypatch.setattr(fleet, "SEARCH_LIMIT", 0)
    cut = cover_of(members)
    assert cut is not None
    assert cut.method == "greedy"


def test_of_equal_covers_the_cheap_one_is_taken() -> None:
    """Two cards serve both; the one that costs less does. Each workload takes the cheapest of the cover."""
    found = cover_of([member("x", dear=5.0, fair=2.0, best=1.0), member("y", dear=5.0, fair=2.0)])
    assert found is not None
    assert found.cards == ("fair",)
    assert found.dearer == pytest.approx((2.0 + 1.0) / 2)
    assert found.more == (("best", pytest.approx(1.0)),)
    assert found.assigned["x"] == ("fair", Use(1, 2.0))


def test_what_nothing_serves_is_left_out_and_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1, a reason, and the others still have their answer and their cover."""
    file.write_text(FILE + "  - {name: mad, task: inference, model: llama-3.1-70b, tpot: 1us}\n")
    assert invoke(["recommend", "--workloads", str(file), "--json"]) == 1
    payload = json.loads(capsys.readouterr().out)
    assert payload["unserved"] == ["mad"]
    assert [w["reason"] and w["reason"]["code"] for w in payload["workloads"]] == [None] * 3 + ["slo-missed"]
    assert payload["fewest_kinds"]["accelerators"] == ["h100-sxm5-80gb"]
    assert len(payload["fewest_kinds"]["assigned"]) == 3
    assert invoke(["recommend", "--workloads", str(file), "--exit-zero", "-q"]) == 0
    assert "Not served: 1 (mad)" in capsys.readouterr().out


def test_a_flag_holds_for_all_and_nothing_goes_to_standard_error(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--gpus a100` replaces the cards of each; in a pipe there is no progress bar."""
    assert invoke(["recommend", "--workloads", str(file), "--gpus", "a100", "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["workload"] for row in rows] == ["chat", "large", "tune"]
    assert {row["accelerator"] for row in rows} == {"a100-sxm4-80gb"}
    assert err == ""


def test_the_bar_is_for_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of the bar at half of the work, and a clean line at the end; quiet stays quiet."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    show = progress_bar(4, {})
    show(2)
    assert "############............" in capsys.readouterr().err
    show(4)
    assert capsys.readouterr().err.endswith("\r\x1b[K")
    progress_bar(4, {"quiet": True})(2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"workload": []}, "did you mean workloads"), ([], "expected a list"),
        ({"workloads": 3}, "expected a list"),
        (["x"], "workload 1"), ([{"name": "a"}, {"name": "a"}], "given twice"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_refused(raw: object, said: str) -> None:
    """One sentence with the file, the place and what is allowed."""
    with pytest.raises(InputError, match=said):
        fleet_entries(raw, name="fleet.yaml")


def test_a_wrong_workload_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File, name, key."""
    file.write_text("- {name: chat, parms: 8B}\n")
    assert invoke(["recommend", "--workloads", str(file)]) == 2
    assert "chat: parms: no such key, did you mean params?" in capsys.readouterr().err
    assert invoke(["recommend", "--workloads", str(file), "--workload", "x.yaml"]) == 2
    assert "exclude each other" in capsys.readouterr().err
