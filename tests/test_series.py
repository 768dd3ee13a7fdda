"""Sizes of one network: the most accurate that meets the bounds; published latencies of detectors."""

from __future__ import annotations

import pytest

from gpuselect.advisor import estimate, recommend
from gpuselect.catalog import Catalog
from gpuselect.errors import InputError
from gpuselect.names import accuracy_of, series_of
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.workload import Workload

TODAY = "2026-11-30"
# Ultralytics documentation, detection (COCO), batch 1 at 640: T4 TensorRT 10 fp16 and A100 TensorRT [ms]
T4_MS = {"yolo11n": 1.5, "yolo11s": 2.5, "yolo11m": 4.7, "yolo11l": 6.2, "yolo11x": 11.3, "yolo26m": 4.7}
A100_MS = {"yolov8s": 1.20, "yolov8m": 1.83, "yolov8l": 2.39, "yolov8x": 3.53}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """Return the shipped catalog."""
    return load_catalog()


def asked(catalog, card, **keys):
    """The answer of `estimate` for one card."""
    return estimate(
        Workload.from_mapping(keys), [(1, card)], catalog, load_calibration(), load_defaults(), today=TODAY
    )


@pytest.mark.parametrize(
    ("card", "model", "published"),
    [("t4", name, ms) for name, ms in T4_MS.items()] + [("a100", name, ms) for name, ms in A100_MS.items()],
)
def test_latency_of_a_detector(catalog, card, model, published):
    """Published latencies lie in the 80 % interval widened by a tenth."""
    answer = asked(catalog, card, task="inference", model=model, batch=1, precision="fp16")
    latency = answer.option.performance["latency_ms"]
    assert latency.low / 1.1 <= published <= latency.high * 1.1, latency


def test_sizes_come_in_order_of_accuracy(catalog):
    """COCO mAP of YOLO11: 54.7, 53.4, 51.5, 47.0, 39.5."""
    found = series_of("yolo11", catalog)
    assert [model.id for model in found] == ["yolo11x", "yolo11l", "yolo11m", "yolo11s", "yolo11n"]
    assert [accuracy_of(model) for model in found] == [54.7, 53.4, 51.5, 47.0, 39.5]


def test_a_tighter_bound_never_gives_a_more_accurate_size(catalog):
    """The chosen size shrinks with the bound, and the note names those that miss it."""
    accuracies = []
    for bound in ("50ms", "6ms", "3ms", "1.9ms"):
        answer = asked(catalog, "t4", task="inference", series="yolo11", batch=1, latency=bound)
        note = next(note for note in answer.assumptions if note.code == "variant-chosen")
        chosen = next(m for m in series_of("yolo11", catalog) if note.text.startswith(m.id))
        accuracies.append(accuracy_of(chosen))
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[0] > accuracies[-1]


def test_an_impossible_bound_is_answered_for_the_smallest(catalog):
    """No size meets 1 us: the answer is no, for the smallest one."""
    answer = asked(catalog, "t4", task="inference", series="yolo11", batch=1, latency="1us")
    assert answer.state == "no"
    assert any(n.code == "variant-chosen" and n.text.startswith("yolo11n") for n in answer.assumptions)


def test_a_series_over_cards(catalog):
    """`recommend` takes the most accurate size that some card can serve."""
    work = Workload.from_mapping({"task": "video", "series": "yolo11", "streams": 16, "gpus": "t4"})
    decision = recommend(work, catalog, load_calibration(), load_defaults(), today=TODAY)
    assert decision.recommendations
    assert any(note.code == "variant-chosen" for note in decision.assumptions)


def test_unknown_series(catalog):
    """A near name is offered."""
    with pytest.raises(InputError, match="yolo11"):
        series_of("yolo-11x", catalog)
