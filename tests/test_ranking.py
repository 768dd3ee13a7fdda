"""Budgets, what the runner-up would need, and the launch lines of an option."""

from __future__ import annotations

from functools import cache

import pytest

from gpuselect import advisor
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.decision import Cost, Decision, MemoryFit, Option, Score
from gpuselect.plan import Plan
from gpuselect.ranking import criteria_weights, sensitivity, within_budget
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.tco import CostDefaults
from gpuselect.workload import Workload


@cache
def shipped() -> tuple[Catalog, Calibration, CostDefaults]:
    """Return the shipped catalog and constants."""
    return load_catalog(), load_calibration(), load_defaults()


def decide(**keys: object) -> Decision:
    """Return the decision for a workload on a fixed day."""
    return advisor.recommend(Workload.from_mapping(keys), *shipped(), today="2026-11-30")


def option(name: str, cost: float, *, total: float = 0.0, cheap: float = 0.0, count: int = 8) -> Option:
    """Make an option by hand: run cost [USD], score and cost criterion."""
    return Option(
        name, name, count, 1, Plan(count=count), "bf16", "", "", None, MemoryFit(1.0, 2.0, {}, "fits"), {},
        cost=Cost(per_run_usd=cost, per_hour_usd=16.0), score=Score(total, {"cost": cheap, "speed": 0.5}),
    )  # fmt: skip


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
    weights = criteria_weights(workload)
    mass = weights["cost"] + weights["speed"]

    def total(cost: float, least: float, speed: float) -> float:
        return (weights["cost"] * least / cost + weights["speed"] * speed) / mass

    first = option("a", 100.0, total=total(100.0, 100.0, 0.55), cheap=1.0)
    second = option("b", 105.0, total=total(105.0, 100.0, 0.5), cheap=100.0 / 105.0)
    (note,) = [n for n in sensitivity([first, second], workload) if n.code == "price-of-second"]
    price = 105.0 * float(note.text.split(" at ")[1].split(" %")[0]) / 100.0
    least = min(price, 100.0)
    assert total(price, least, 0.5) == pytest.approx(total(100.0, least, 0.55), abs=0.01)


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
