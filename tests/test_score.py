"""Normalisation, weights and the Pareto front."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuselect.score import CRITERIA, PROFILES, normalised_log, normalised_low, pareto_front, total

POSITIVE = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=1, max_size=20)
POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20)
SHARES = st.dictionaries(st.sampled_from(CRITERIA), st.floats(min_value=0, max_value=1), min_size=1)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_shares_out_one(name: str) -> None:
    """Weights of every profile are shares of 1 over all criteria, none negative."""
    assert set(PROFILES[name]) == set(CRITERIA)
    assert sum(PROFILES[name].values()) == pytest.approx(1.0)
    assert min(PROFILES[name].values()) >= 0


@pytest.mark.parametrize("name", [n for n in PROFILES if n in CRITERIA])
def test_a_profile_weighs_its_own_criterion_most(name: str) -> None:
    """`--prefer cost` weighs cost most."""
    assert max(PROFILES[name], key=PROFILES[name].__getitem__) == name


@given(POSITIVE)
def test_less_is_better(values: list[float]) -> None:
    """Scores lie in 0..1, the least value has 1, and order is reversed."""
    scores = normalised_low(values)
    assert all(0 < s <= 1 for s in scores)
    assert scores[values.index(min(values))] == 1.0
    assert all(
        (a >= b) for va, a in zip(values, scores, strict=True) for vb, b in zip(values, scores, strict=True)
        if va < vb
    )  # fmt: skip


@given(POSITIVE)
def test_more_is_better(values: list[float]) -> None:
    """Logarithmic scores lie in 0..1, the best has 1, two decades below have 0."""
    scores = normalised_log(values)
    assert all(0 <= s <= 1 for s in scores)
    assert scores[values.index(max(values))] == pytest.approx(1.0)
    assert all(s == 0 for v, s in zip(values, scores, strict=True) if v < 0.0099 * max(values))


@given(SHARES)
def test_a_total_lies_between_its_criteria(criteria: dict[str, float]) -> None:
    """A weighted mean; unknown criteria neither help nor hurt."""
    mean = total(criteria, dict.fromkeys(CRITERIA, 1.0))
    assert min(criteria.values()) - 1e-9 <= mean <= max(criteria.values()) + 1e-9


def test_an_unknown_criterion_is_shared_out() -> None:
    """An option without a price is scored on the rest, not at 0."""
    weights = {"cost": 0.5, "speed": 0.5}
    assert total({"speed": 0.8}, weights) == pytest.approx(0.8)
    assert total({"cost": 0.0, "speed": 0.8}, weights) == pytest.approx(0.4)
    assert total({"energy": 0.8}, weights) == 0.0


@given(POINTS)
def test_the_front_holds_what_nothing_beats(points: list[tuple[float, ...]]) -> None:
    """Nothing on the front is dominated, everything off it is, and it is never empty."""
    marks = pareto_front(points)
    front = [p for p, mark in zip(points, marks, strict=True) if mark]
    assert front
    for point, mark in zip(points, marks, strict=True):
        beaten = any(f != point and f[0] <= point[0] and f[1] <= point[1] for f in front)
        assert beaten != mark
