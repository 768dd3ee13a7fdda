"""Why a card won or lost: criteria, changes and switching points, each checked by asking again."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest

from gpuselect.advisor import recommend
from gpuselect.cli.app import invoke
from gpuselect.decision import Decision
from gpuselect.errors import InputError
from gpuselect.explain import Answer, explain
from gpuselect.explain.engine import Engine, boundary
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.profiles import shipped_judgement
from gpuselect.report.explanation import explanation_payload, explanation_text
from gpuselect.workload import Workload

TODAY = "2026-11-30"
# A few cards each, so that an answer takes milliseconds; `test_the_command` asks the whole catalog.
TRAINERS = "h100-sxm5-80gb,mi355x-288gb,gaudi2-96gb,gh200-96gb,a100-sxm4-80gb,b200-sxm-180gb,mi350x-288gb"
SERVERS = "rtx-a5000-24gb,rtx-a4000-16gb,mi300a-128gb"
RUN = {"task": "pretrain", "params": "10B", "tokens": "200B", "gpus": TRAINERS}
CHAT = {"task": "inference", "model": "llama-3.1-8b", "gpus": SERVERS}
BOUND = {"task": "inference", "model": "llama-3.1-70b", "concurrency": 32, "tpot": "20ms",
         "gpus": "l40s-48gb,h100-sxm5-80gb,a100-sxm4-80gb"}  # fmt: skip


@cache
def engine() -> Engine:
    """Return the shipped engine on a fixed day."""
    return Engine(load_catalog(), load_calibration(), load_defaults(), shipped_judgement(), TODAY)


@cache
def asked(card: str | None, **keys: object) -> Answer:
    """Return the explanation of a card."""
    return explain(engine(), Workload.from_mapping(keys), card)


def decide(card: str = "", factor: float = 1.0, **keys: object) -> Decision:
    """Return the recommendation, with the prices of one card multiplied."""
    catalog = engine().catalog
    prices = tuple(replace(p, price=p.price * factor) if p.hardware == card else p for p in catalog.prices)
    workload = Workload.from_mapping(keys)
    return recommend(
        workload, replace(catalog, prices=prices), engine().calibration, engine().defaults, today=TODAY
    )


def test_the_verdict_agrees_with_the_recommendation() -> None:
    """First and total are those that `recommend` shows."""
    winner, found = asked(None, **RUN), decide(**RUN).recommendations[0]
    assert (winner.state, winner.accelerator, winner.rank) == ("wins", found.accelerator, 1)
    assert winner.option is not None
    assert winner.option.score.total == found.score.total
    chance = next(n.text for n in winner.notes if n.code == "stability")
    assert f"first of all in {100 * (found.win_share or 0):.0f} %" in chance


def test_points_of_the_criteria_add_up_to_the_gap() -> None:
    """The difference of the totals is taken apart, not described."""
    for card in ("h100-sxm5-80gb", "gaudi2-96gb", None):
        answer = asked(card, **RUN)
        assert answer.option is not None
        assert answer.other is not None
        gap = answer.option.score.total - answer.other.score.total
        assert sum(g.points for g in answer.gaps) == pytest.approx(gap)


def test_the_price_that_wins_does_win_and_a_little_more_does_not() -> None:
    """Asking the whole engine again at that price, and 4 % above it."""
    card = "h100-sxm5-80gb"
    change = next(c for c in asked(card, **RUN).changes if c.what == "price")
    assert change.wins
    assert isinstance(change.value, float)
    assert isinstance(change.base, float)
    factor = change.value / change.base
    assert decide(card, factor, **RUN).recommendations[0].accelerator == card
    assert decide(card, min(1.04 * factor, 1.0), **RUN).recommendations[0].accelerator != card


def test_the_price_where_the_winner_loses() -> None:
    """Above the switching point the named card leads, 4 % below it the winner still does."""
    answer = asked(None, **RUN)
    (switch,) = [s for s in answer.switches if s.what == "price"]
    assert switch.value is not None
    factor = switch.value / switch.base
    assert factor > 1
    assert decide(answer.accelerator, factor, **RUN).recommendations[0].accelerator == switch.to
    below = decide(answer.accelerator, factor / 1.04, **RUN).recommendations[0]
    assert below.accelerator == answer.accelerator


def test_every_kind_of_switch_is_reported() -> None:
    """Price, deadline, use and electricity for a run; demand for a service."""
    assert {s.what for s in asked(None, **RUN).switches} == {
        "price",
        "deadline",
        "utilization",
        "electricity",
    }
    assert {s.what for s in asked(None, **CHAT).switches} == {"price", "demand", "utilization", "electricity"}


def test_the_demand_where_the_first_place_changes() -> None:
    """Asked again at that number of sequences, the named card leads."""
    found = [s for s in asked(None, **CHAT).switches if s.what == "demand" and s.value is not None]
    assert found
    for switch in found:
        assert switch.value == round(switch.value or 0)
        first = decide(**CHAT, concurrency=int(switch.value or 0)).recommendations[0]
        assert first.accelerator == switch.to


def test_a_bound_that_is_missed_is_loosened_just_enough() -> None:
    """The bound that is named lets the card in, a bound 4 % tighter does not."""
    answer = asked("l40s-48gb", **BOUND)
    assert (answer.state, answer.rejection and answer.rejection.code) == ("rejected", "slo-missed")
    change = next(c for c in answer.changes if c.what == "tpot")
    assert isinstance(change.value, float)
    for bound, fits in ((change.value, True), (change.value / 1.04, False)):
        found = decide(**{**BOUND, "tpot": f"{1000 * bound}ms"}).considered
        assert next(c.feasible for c in found if c.accelerator == "l40s-48gb") is fits


@pytest.mark.parametrize(
    ("keys", "card", "code", "what"),
    [
        ({**RUN, "budget": "$10000"}, "h100-sxm5-80gb", "over-budget", "budget"),
        ({**RUN, "deadline": "5d", "max_count": 16}, "a100-sxm4-80gb", "deadline-missed", "deadline"),
    ],
)
def test_a_missed_bound_names_what_it_would_take(
    keys: dict[str, object], card: str, code: str, what: str
) -> None:
    """With the budget or the deadline that is named, the card is ranked."""
    answer = asked(card, **keys)
    assert answer.state == "missed"
    assert answer.rejection is not None
    assert answer.rejection.code == code
    change = next(c for c in answer.changes if c.what == what)
    assert change.rank is not None
    given = f"${change.value}" if what == "budget" else f"{change.value}s"
    verdict = decide(**{**keys, what: given}).considered
    assert next(c.rejection for c in verdict if c.accelerator == card) is None


def test_a_format_that_makes_a_card_fit_is_found() -> None:
    """A 24 GB card holds a 70B model only when it is tuned by QLoRA."""
    answer = asked("rtx-4090-24gb", task="finetune", model="llama-3.1-70b", gpus="rtx-4090-24gb,h100")
    assert answer.state == "rejected"
    assert any(c.what == "method" and c.value == "qlora" and c.rank for c in answer.changes)


def test_a_restriction_that_keeps_a_card_out_is_lifted() -> None:
    """Without the vendor that was asked for, the card has a place."""
    keys = {"task": "finetune", "params": "8B", "method": "qlora", "vendors": "nvidia", "max_count": 2}
    answer = asked("mi300x-192gb", **keys)
    assert answer.rejection is not None
    assert answer.rejection.code == "not-selected"
    (change,) = [c for c in answer.changes if c.what == "vendors"]
    del keys["vendors"]
    ranked = [o.accelerator for o in decide(**keys).recommendations]
    assert change.rank is not None
    assert (change.rank == 1) is (ranked[0] == "mi300x-192gb")


@pytest.mark.parametrize(
    "keys",
    [
        {"task": "video", "streams": 16, "codec": "h264", "gpus": "t4,l4,jetson-agx-orin-64gb"},
        {"task": "hpc", "flops": 1e18, "bytes": "1PB", "gpus": "h100,v100,a100"},
        {"task": "training", "model": "resnet-50", "gpus": "h100,v100,a100", "max_count": 4},
        {"task": "finetune", "model": "llama-3.1-8b", "method": "qlora", "have": "2x3090"},
        {
            "task": "inference",
            "model": "bert-large",
            "request_rate": "100/s",
            "gpus": "t4,l4",
            "max_count": 4,
        },
    ],
)
def test_every_task_has_switching_points(keys: dict[str, object]) -> None:
    """Values lie between the present one and the last that was tried, and name the card that takes over."""
    answer = asked(None, **keys)
    assert answer.state == "wins"
    assert answer.switches
    for switch in answer.switches:
        if switch.value is None:
            assert switch.to == ""
        else:
            low, high = sorted((switch.base, switch.end))
            assert low <= switch.value <= high
            assert switch.to != answer.accelerator


def test_a_card_without_a_price_is_told_the_price_that_would_win() -> None:
    """No price is no zero: the card is not ranked, and the answer says what it may cost."""
    answer = asked("mi350x-288gb", **RUN)
    assert answer.state == "unpriced"
    assert answer.gaps == ()
    change = next(c for c in answer.changes if c.what == "price")
    assert change.base is None
    assert change.wins


def test_winning_changes_come_first_and_the_smallest_of_them_first_of_all() -> None:
    """What would make it win stands before what only helps."""
    changes = asked("h100-sxm5-80gb", **RUN).changes
    assert [c.wins for c in changes] == sorted((c.wins for c in changes), reverse=True)
    text = explanation_text(asked("h100-sxm5-80gb", **RUN))
    assert text.index("What would make it win") < text.index(
        "ranks first", text.index("What would make it win")
    )


def test_an_impossible_request_needs_the_name_of_a_card() -> None:
    """Nothing leads, so there is no winner to explain."""
    with pytest.raises(InputError, match="name an accelerator"):
        asked(None, **{**BOUND, "tpot": "1us"})


def test_the_edge_of_a_condition_is_found_from_both_sides() -> None:
    """Halving in the logarithm stops within 2 %."""
    assert boundary(lambda x: x <= 7.0, 1.0, 100.0) == pytest.approx(7.0, rel=0.02)
    assert boundary(lambda x: x >= 7.0, 100.0, 1.0) == pytest.approx(7.0, rel=0.02)


def test_the_payload_is_plain_json() -> None:
    """Numbers are numbers, unknown is null."""
    payload = json.loads(json.dumps(explanation_payload(asked("l40s-48gb", **BOUND)), allow_nan=False))
    assert payload["rejection"]["code"] == "slo-missed"
    assert payload["option"] is None
    assert all(isinstance(c["wins"], bool) for c in payload["changes"])


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """A code, a card, the first option; a card without a workload is asked for one."""
    assert invoke(["explain", "memory-exceeded"]) == 0
    assert "Override" in capsys.readouterr().out
    assert (
        invoke(
            ["explain", "h100", "--json", "-q", "--task", "pretrain", "--params", "1B", "--gpus", TRAINERS]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["accelerator"] == "h100-sxm5-80gb"
    job = ["--task", "finetune", "--params", "70B", "--gpus", "t4,h100"]
    assert invoke(["explain", "t4-16gb", "-q", *job]) == 1
    assert "ruled out" in capsys.readouterr().out
    assert invoke(["explain", "h100"]) == 2
    assert "give a workload" in capsys.readouterr().err
    assert invoke(["explain", "memory-exceded"]) == 2
    assert "did you mean memory-exceeded" in capsys.readouterr().err
