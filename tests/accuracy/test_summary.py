"""Statistics of predictions on numbers made by hand."""

import pytest

from gpuselect.accuracy.summary import Prediction, quantile, summarise


def prediction(measured, predicted, *, low=None, high=None, name="a", metric="m"):
    """A prediction with an interval or without."""
    return Prediction("r", name, metric, measured, predicted, low, high, in_sample=False)


def test_median_p90_bias_and_coverage():
    """Five rows of 100: predicted 50, 90, 100, 120, 300; two of four intervals hold the measured value."""
    rows = [
        prediction(100, 50, low=40, high=60),
        prediction(100, 90, low=80, high=110),
        prediction(100, 100, low=100, high=101),
        prediction(100, 120, low=101, high=200),
        prediction(100, 300),
    ]
    (line,) = summarise(rows)
    assert line.n == 5
    assert line.median_ape == pytest.approx(0.2)  # 0, 0.1, 0.2, 0.5, 2
    assert line.p90_ape == pytest.approx(0.5 + 0.6 * 1.5)  # between the fourth and the fifth
    assert line.bias == pytest.approx(0.0)
    assert line.coverage == pytest.approx(0.5)


def test_coverage_is_unknown_without_an_interval():
    """No interval is not the same as an interval that misses."""
    (line,) = summarise([prediction(10, 11)])
    assert line.coverage is None


def test_one_line_for_each_slice_and_metric_in_order():
    """Slices and metrics are not mixed."""
    rows = [prediction(1, 1, name=n, metric=m) for n, m in (("b", "x"), ("a", "y"), ("a", "x"), ("a", "x"))]
    assert [(line.slice, line.metric, line.n) for line in summarise(rows)] == [
        ("a", "x", 2), ("a", "y", 1), ("b", "x", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("q", "expected"), [(0.0, 1.0), (0.5, 2.5), (0.9, 3.7), (1.0, 4.0)])
def test_quantiles_are_linear_between_neighbours(q, expected):
    """The convention of most spreadsheets."""
    assert quantile([4.0, 1.0, 3.0, 2.0], q) == pytest.approx(expected)


def test_the_factor_is_the_same_in_both_directions():
    """Half and double are equally far off."""
    assert prediction(100, 50).factor == prediction(100, 200).factor == 2.0
