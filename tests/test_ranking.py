"""Budgets, kinds of cards, roles, ties, stability, and what the runner-up would need."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuselect import advisor
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.decision import Decision, Estimate, MemoryFit, Option, Score
from gpuselect.errors import InputError
from gpuselect.money_records import Cost
from gpuselect.plan import Plan
from gpuselect.ranking import criteria_weights, kind_of
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.profiles import shipped_judgement
from gpuselect.score import CRITERIA, total
from gpuselect.selection import fastest, order_key, run_cost, speed, undominated, within_budget
from gpuselect.stability import draw_totals, irrelevant, price_of_second, rescored, settle
from gpuselect.tco import CostDefaults
from gpuselect.workload import Workload

JUDGEMENT = shipped_judgement()
BALANCED = JUDGEMENT.profiles["balanced"].weights


@cache
def shipped() -> tuple[Catalog, Calibration, CostDefaults]:
    """Return the shipped catalog and constants."""
    return load_catalog(), load_calibration(), load_defaults()


@cache
def decide(**keys: object) -> Decision:
    """Return the decision for a workload on a fixed day."""
    return advisor.recommend(Workload.from_mapping(keys), *shipped(), today="2026-11-30")


def option(
    name: str, cost: float, *, total: float = 0.0, cheap: float = 0.0, count: int = 8, rate: float = 100.0,
    spread: float = 1.3, **criteria: float,
) -> Option:  # fmt: skip
    """Make an option by hand: run cost [USD], score, cost criterion, speed and its interval."""
    return Option(
        name, name, count, 1, Plan(count=count), "bf16", "", "", None, MemoryFit(1.0, 2.0, {}, "fits"),
        {"tokens_per_s": Estimate(rate, rate / spread, rate * spread)},
        cost=Cost(per_run_usd=cost, per_hour_usd=16.0),
        score=Score(total, {"cost": cheap, "speed": 0.5, **criteria}),
    )  # fmt: skip


def field_of(*options: Option) -> list[Option]:
    """Options with the scores that they have among each other, best first."""
    filled = [
        replace(o, score=Score(0.0, {"headroom": 0.5, "ecosystem": 1.0, "scalability": 1.0, "risk": 1.0}
                               | o.score.criteria))
        for o in options
    ]  # fmt: skip
    return sorted(rescored(filled, BALANCED), key=order_key)


@pytest.mark.parametrize(
    ("budget", "inside"),
    [
        ("$16/h", True), ("$15/h", False), ("$2/gpu-hr", True), ("$1.9/gpu-hr", False),
        ("$12k/month", True), ("$11k/month", False), ("$141k/year", True), ("$140k/year", False),
        ("$100", True), ("$99", False),
    ],
)  # fmt: skip
def test_a_budget_counts_for_its_period_and_for_a_card_where_it_says_so(budget: str, inside: bool) -> None:
    """Eight cards at 16 USD per hour together; the run costs 100 USD."""
    workload = Workload.from_mapping({"task": "pretrain", "params": "7B", "budget": budget})
    assert within_budget(option("a", 100.0), workload) is inside


@pytest.mark.parametrize("prefer", ["balanced", "cost", "speed"])
def test_the_price_that_would_win_makes_the_scores_equal(prefer: str) -> None:
    """Scoring again at the price that the note names gives a tie."""
    workload = Workload.from_mapping({"task": "pretrain", "params": "7B", "prefer": prefer})
    weights = criteria_weights(workload, JUDGEMENT)
    mass = weights["cost"] + weights["speed"]

    def total(cost: float, least: float, speed: float) -> float:
        return (weights["cost"] * least / cost + weights["speed"] * speed) / mass

    first = option("a", 100.0, total=total(100.0, 100.0, 0.55), cheap=1.0)
    second = option("b", 105.0, total=total(105.0, 100.0, 0.5), cheap=100.0 / 105.0)
    (note,) = price_of_second([first, second], weights)
    price = 105.0 * float(note.text.split(" at ")[1].split(" %")[0]) / 100.0
    least = min(price, 100.0)
    assert total(price, least, 0.5) == pytest.approx(total(100.0, least, 0.55), abs=0.01)


def test_a_weight_of_no_criterion_is_refused_with_a_near_match() -> None:
    """`--weights sped=1` names what was meant."""
    workload = Workload.from_mapping({"task": "pretrain", "params": "7B", "weights": "sped=1"})
    with pytest.raises(InputError, match="did you mean speed"):
        criteria_weights(workload, JUDGEMENT)


def test_the_form_factor_and_the_memory_do_not_make_a_kind() -> None:
    """Variants of one card are one kind; another chip is not."""
    for name in ("h100-sxm5-80gb", "h100-pcie-80gb", "h100-nvl-94gb", "h100-96gb-hbm2e"):
        assert kind_of(name) == "h100"
    assert {kind_of(n) for n in ("rtx-4080-16gb", "rtx-4080-super-16gb", "h800-sxm-80gb")} == {
        "rtx-4080", "rtx-4080-super", "h800"}  # fmt: skip
    assert kind_of("ascend-910b") == "ascend-910b"


def test_fewer_cards_of_the_same_kind_that_are_no_worse_rule_an_option_out() -> None:
    """Never more than needed; another kind of card rules nothing out."""
    few, many = option("a", 100.0, count=8), option("a", 100.0, count=16)
    faster, other = option("a", 120.0, count=32, rate=150.0), option("b", 90.0, count=1)
    assert undominated([many, faster, few, other]) == [other, few, faster]


def test_the_fastest_stays_within_its_cost() -> None:
    """The largest cluster is not the answer to everything."""
    small, large, huge = (option("a", c, count=n, rate=r) for c, n, r in
                          ((100.0, 8, 1.0), (180.0, 64, 6.0), (300.0, 512, 30.0)))  # fmt: skip
    assert fastest([small, large, huge], within=2.0) is large
    assert fastest([small, large, huge], within=4.0) is huge


def test_a_run_is_compared_as_an_hour_at_least() -> None:
    """A rack for two minutes is no cheap answer; its own price and a budget stay those of two minutes."""

    def lasting(hours: float, usd: float) -> Option:
        made = option("a", usd)
        days = Estimate(hours / 24.0, hours / 24.0, hours / 24.0)
        return replace(made, performance={**made.performance, "time_to_train_days": days})

    short, long = lasting(0.05, 4.0), lasting(2.0, 5.0)
    assert run_cost(short) == pytest.approx(80.0)
    assert run_cost(long) == pytest.approx(5.0)
    workload = Workload.from_mapping({"task": "finetune", "params": "7B", "budget": "$4.5"})
    assert within_budget(short, workload)
    assert not within_budget(long, workload)


def test_the_top_list_has_one_option_of_a_kind() -> None:
    """H100 SXM, PCIe and NVL are one line with two variants; cards that were named are all listed."""
    decision = decide(task="pretrain", params="10B")
    ranked = [o for o in decision.recommendations if o.win_share is not None]
    assert len({o.kind for o in ranked}) == len(ranked)
    assert all(v.total <= o.score.total + 5e-4 for o in ranked for v in o.variants)
    named = decide(task="pretrain", params="10B", gpus="h100-sxm5-80gb,h100-pcie-80gb")
    assert {"h100-sxm5-80gb", "h100-pcie-80gb"} <= {o.accelerator for o in named.recommendations}


@pytest.mark.parametrize("keys", [{"task": "pretrain", "params": "10B"},
                                  {"task": "inference", "model": "llama-3.1-8b"}])  # fmt: skip
def test_a_role_costs_no_multiple_and_takes_no_cluster(keys: dict[str, str]) -> None:
    """The fastest of a 10B run is no thousand accelerators, that of an 8B chat no rack."""
    decision = decide(**keys)
    by_role = {role: o for o in decision.recommendations for role in o.roles}
    profile = JUDGEMENT.profiles["balanced"]
    least, top = run_cost(by_role["cheapest"]), run_cost(by_role["fastest"])
    assert least is not None
    assert top is not None
    assert top <= profile.fastest_within * least
    assert by_role["fastest"].count <= profile.fastest_cards * decision.recommendations[0].count
    assert any(n.code == "fastest-bounds" for n in decision.sensitivity)


def test_speed_buys_more_cards() -> None:
    """`--prefer speed` picks a faster count of the same card, within its bound on cost."""
    usual, quick = (decide(task="pretrain", params="10B", gpus="h100-sxm5-80gb", prefer=p).recommendations[0]
                    for p in ("balanced", "speed"))  # fmt: skip
    assert speed(quick) > speed(usual)
    assert (run_cost(quick) or 0.0) <= JUDGEMENT.profiles["speed"].fastest_within * (run_cost(usual) or 0.0)


PRICES = st.lists(st.floats(min_value=10, max_value=1000), min_size=2, max_size=6)
RATES = st.lists(st.floats(min_value=1, max_value=1000), min_size=6, max_size=6)


def made(prices: list[float], rates: list[float]) -> list[Option]:
    """A field of options from prices and speeds."""
    return [option(f"card-{i}", p, rate=r) for i, (p, r) in enumerate(zip(prices, rates, strict=False))]


@settings(max_examples=60, deadline=None)
@given(PRICES, RATES, st.floats(min_value=0.3, max_value=0.99), st.integers(0, 5))
def test_cheaper_never_ranks_lower(prices: list[float], rates: list[float], cut: float, which: int) -> None:
    """A lower price of one card does not move it down."""
    name = f"card-{which % len(prices)}"
    before = [o.accelerator for o in field_of(*made(prices, rates))]
    lower = [p * cut if f"card-{i}" == name else p for i, p in enumerate(prices)]
    after = [o.accelerator for o in field_of(*made(lower, rates))]
    assert after.index(name) <= before.index(name)


@settings(max_examples=60, deadline=None)
@given(PRICES, RATES, st.floats(min_value=1.01, max_value=4), st.integers(0, 5))
def test_faster_never_ranks_lower(prices: list[float], rates: list[float], gain: float, which: int) -> None:
    """A higher speed of one card, at the same cost, does not move it down."""
    name = f"card-{which % len(prices)}"
    before = [o.accelerator for o in field_of(*made(prices, rates))]
    higher = [r * gain if f"card-{i}" == name else r for i, r in enumerate(rates)]
    after = [o.accelerator for o in field_of(*made(prices, higher))]
    assert after.index(name) <= before.index(name)


@settings(max_examples=60, deadline=None)
@given(PRICES, RATES, st.floats(min_value=0.01, max_value=100), st.floats(min_value=0.01, max_value=100))
def test_units_do_not_move_the_ranking(prices: list[float], rates: list[float], a: float, b: float) -> None:
    """All prices times a and all speeds times b: the same totals."""
    plain = {o.accelerator: o.score.total for o in field_of(*made(prices, rates))}
    scaled = field_of(*made([a * p for p in prices], [b * r for r in rates]))
    assert {o.accelerator: o.score.total for o in scaled} == pytest.approx(plain)


@settings(max_examples=60, deadline=None)
@given(PRICES, RATES, st.sampled_from(["cost", "speed"]), st.floats(min_value=1.1, max_value=10))
def test_more_weight_never_makes_the_first_worse_in_it(
    prices: list[float], rates: list[float], criterion: str, times: float
) -> None:
    """With more weight on a criterion, the first option scores at least as high in it."""
    field = field_of(*made(prices, rates))
    heavier = {key: value * (times if key == criterion else 1.0) for key, value in BALANCED.items()}
    after = max(rescored(field, heavier), key=lambda o: o.score.total)
    before = max(field, key=lambda o: o.score.total)
    assert after.score.criteria[criterion] >= before.score.criteria[criterion] - 1e-9


def test_each_profile_moves_the_answer_its_own_way() -> None:
    """`cost` costs no more, `speed` is no slower, `energy` takes no more than the balanced answer."""
    found = {p: decide(task="pretrain", params="10B", prefer=p).recommendations[0]
             for p in ("balanced", "cost", "speed", "energy", "risk")}  # fmt: skip
    usual = found["balanced"]
    assert (run_cost(found["cost"]) or 0.0) <= (run_cost(usual) or 0.0)
    assert speed(found["speed"]) >= speed(usual)
    assert (found["energy"].energy.kwh or 0.0) <= (usual.energy.kwh or 0.0)
    assert len(found["risk"].warnings) <= len(usual.warnings)


def test_unpriced_cards_do_not_crowd_out_the_draws() -> None:
    """With many cards of unknown price ahead, the first with a price is still drawn."""
    free = [replace(option(f"free-{i}", 0.0, rate=500.0), cost=Cost()) for i in range(60)]
    priced = field_of(option("a", 100.0), option("b", 105.0))
    pool = [*free, *priced]
    settled, _stability, _notes = settle(priced, pool, BALANCED, JUDGEMENT)
    assert settled[0].win_share is not None
    assert settled[0].win_share > 0.5


def test_an_order_that_hangs_on_a_third_option_is_reported() -> None:
    """A cheap, slow and risky option sets the scale of cost; without it the cheaper of two others leads."""
    slow = option("slow", 10.0, rate=0.1, ecosystem=0.1, risk=0.0, scalability=0.1)
    dear, fair = option("dear", 200.0, rate=150.0), option("fair", 100.0, rate=75.0)
    assert field_of(dear, fair)[0].accelerator == "fair"
    field = field_of(slow, dear, fair)
    assert field[0].accelerator == "dear"
    (note,) = irrelevant(field, BALANCED)
    assert note.code == "depends-on-alternative"
    assert "without it fair would rank first, not dear" in note.text


@settings(max_examples=40, deadline=None)
@given(PRICES, RATES)
def test_a_report_of_dependence_is_right(prices: list[float], rates: list[float]) -> None:
    """Each note names an option without which the first is another; no note means that none is."""
    field = field_of(*made(prices, rates))
    noted = {n.text.split("hangs on ")[1].split(":")[0] for n in irrelevant(field, BALANCED)}
    for left_out in field[1:]:
        rest = field_of(*[o for o in field if o is not left_out])
        assert (rest[0].accelerator != field[0].accelerator) is (
            left_out.accelerator in noted
        ) or len(field) < 3  # fmt: skip


def test_shares_of_the_draws_add_up_and_repeat() -> None:
    """Seeded: the same question has the same answer; every draw has one winner."""
    field = field_of(option("a", 100.0), option("b", 105.0), option("c", 300.0))
    drawn = draw_totals(field, BALANCED, JUDGEMENT)
    assert sum(drawn.win_shares.values()) == pytest.approx(1.0)
    assert drawn.win_shares == draw_totals(field, BALANCED, JUDGEMENT).win_shares
    assert drawn.win_shares["a"] > drawn.win_shares["b"] > drawn.win_shares["c"]


def test_draws_of_a_card_do_not_change_when_another_joins() -> None:
    """Totals of two cards are drawn alike whether or not a third one, worse in all, is there."""
    two = [option("a", 100.0), option("b", 105.0)]
    small = draw_totals(field_of(*two), BALANCED, JUDGEMENT)
    large = draw_totals(field_of(*two, option("c", 400.0, rate=20.0)), BALANCED, JUDGEMENT)
    assert large.beats("a", "b") == pytest.approx(small.beats("a", "b"), abs=0.01)


def test_narrow_intervals_make_a_sure_winner_and_wide_ones_a_tie() -> None:
    """A lead of a tenth is certain at 2 % and a tie at a factor of 2."""
    for spread, tied in ((1.02, False), (2.0, True)):
        field = field_of(option("a", 100.0, spread=spread), option("b", 111.0, spread=spread))
        (first, second), stability, notes = settle(field, field, BALANCED, JUDGEMENT)
        assert second.tied_with_winner is tied
        assert (first.win_share == 1.0) is not tied
        assert any(n.code == "tie" for n in notes) is tied
        assert stability is not None
        assert first.score.low is not None
        assert first.score.high is not None
        assert first.score.low < first.score.high
        assert first.score.low <= first.score.total <= first.score.high + 1e-9


def test_an_error_that_all_share_decides_nothing() -> None:
    """Fully shared errors of equal width leave the order alone; errors of its own do not."""
    field = field_of(option("a", 100.0, spread=2.0), option("b", 103.0, spread=2.0))
    shared = JUDGEMENT.shared_error.model_copy(update={"value": 1.0})
    alike = draw_totals(field, BALANCED, JUDGEMENT.model_copy(update={"shared_error": shared}))
    assert alike.win_shares["a"] == pytest.approx(1.0)
    assert draw_totals(field, BALANCED, JUDGEMENT).win_shares["a"] < 0.9


def test_equal_totals_go_to_the_lower_cost_then_to_fewer_cards() -> None:
    """The tie-breaker that the note names."""
    a, b = option("a", 100.0, total=0.7004, count=4), option("b", 90.0, total=0.7, count=8)
    c = option("c", 90.0, total=0.7002, count=2)
    assert [o.accelerator for o in sorted([a, b, c], key=order_key)] == ["c", "b", "a"]


def test_a_total_is_the_weighted_mean_of_what_is_shown() -> None:
    """Totals of an answer follow from its criteria and the weights of the profile."""
    for found in decide(task="pretrain", params="10B").recommendations:
        assert set(found.score.criteria) <= set(CRITERIA)
        assert found.score.total == pytest.approx(total(found.score.criteria, BALANCED))


def test_launch_lines_count_the_cards_of_one_node() -> None:
    """Sixteen GH200 stand in sixteen nodes, sixteen H100 in two of eight."""
    decision = decide(task="pretrain", params="10B", gpus="gh200-96gb,h100-sxm5-80gb")
    lines = {o.accelerator: (o.nodes, o.framework.launch[0]) for o in decision.recommendations if o.framework}
    assert lines
    for name, (nodes, line) in lines.items():
        if "--nproc-per-node" in line:
            per_node = 1 if name.startswith("gh200") else 8
            assert f"--nnodes {nodes} " in line
            assert f"--nproc-per-node {per_node} " in line


def test_the_engine_that_is_named_is_the_engine_that_was_estimated() -> None:
    """Tensor-parallel plans never name an engine that cannot split a model."""
    catalog = shipped()[0]
    decision = decide(task="inference", model="llama-3.1-70b", concurrency=64)
    for found in (*decision.recommendations, *decision.unpriced):
        assert found.framework is not None
        if found.plan.tp > 1:
            assert "tp" in catalog.frameworks[found.framework.id].parallelism
