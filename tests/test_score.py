"""Normalisation, weights, profiles and the Pareto front."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuselect.errors import CatalogError
from gpuselect.readers.profiles import load_judgement, shipped_judgement
from gpuselect.score import CRITERIA, normalised_log, normalised_low, pareto_front, total

PROFILES = shipped_judgement().profiles
POSITIVE = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=1, max_size=20)
POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20)
SHARES = st.dictionaries(st.sampled_from(CRITERIA), st.floats(min_value=0, max_value=1), min_size=1)
SCALES = st.floats(min_value=1e-3, max_value=1e3)


def test_the_profiles_are_those_that_a_request_can_name() -> None:
    """Each word of --prefer has its weights."""
    assert set(PROFILES) == {"balanced", "cost", "speed", "energy", "simplicity", "risk"}


@pytest.mark.parametrize("name", [n for n in PROFILES if n in CRITERIA])
def test_a_profile_weighs_its_own_criterion_most(name: str) -> None:
    """`--prefer cost` weighs cost most."""
    weights = PROFILES[name].weights
    assert max(weights, key=weights.__getitem__) == name


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cost: 0.35", "cost: 0.36", "add up to 1"), ("cost: 0.35, ", "", "weights must name"),
        ("fastest_within: 2", "fastest_within: 0.5", "fastest_within"),
    ],
)  # fmt: skip
def test_a_profile_that_is_wrong_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Weights are shares of 1 over all criteria; the bounds of the fastest set-up are at least 1."""
    text = (Path(__file__).parents[1] / "data" / "profiles.yaml").read_text("utf-8")
    (tmp_path / "profiles.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(CatalogError, match=said):
        load_judgement(overlays=(tmp_path,))


def test_an_overlay_changes_one_profile(tmp_path: Path) -> None:
    """A profile of one's own replaces the shipped one; the others stay."""
    weights = ", ".join(f"{name}: {1.0 if name == 'cost' else 0.0}" for name in CRITERIA)
    (tmp_path / "profiles.yaml").write_text(
        f"profiles:\n  cost: {{about: mine, weights: {{{weights}}}, fastest_within: 1, fastest_cards: 1}}\n"
    )
    found = load_judgement(overlays=(tmp_path,)).profiles
    assert found["cost"].weights["cost"] == 1.0
    assert found["speed"] == PROFILES["speed"]


@given(POSITIVE, SCALES)
def test_less_is_better_and_the_unit_does_not_matter(values: list[float], scale: float) -> None:
    """Scores lie in 0..1, the least value has 1, order is reversed, and dollars score as cents do."""
    scores = normalised_low(values).tolist()
    assert all(0 < s <= 1 for s in scores)
    assert scores[values.index(min(values))] == 1.0
    pairs = list(zip(values, scores, strict=True))
    assert all(a >= b for va, a in pairs for vb, b in pairs if va < vb)
    assert normalised_low([scale * v for v in values]).tolist() == pytest.approx(scores)


@given(POSITIVE, SCALES)
def test_more_is_better_and_the_unit_does_not_matter(values: list[float], scale: float) -> None:
    """Logarithmic scores lie in 0..1, the best has 1, two decades below have 0."""
    scores = normalised_log(values).tolist()
    assert all(0 <= s <= 1 for s in scores)
    assert scores[values.index(max(values))] == pytest.approx(1.0)
    assert all(s == 0 for v, s in zip(values, scores, strict=True) if v < 0.0099 * max(values))
    assert normalised_log([scale * v for v in values]).tolist() == pytest.approx(scores, abs=1e-9)


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
