"""Questions about networks of samples: tuned submissions, latency, runtimes, two-stage detectors."""

from functools import cache

import pytest

from gpuselect.advisor import estimate
from gpuselect.errors import InputError
from gpuselect.network_sites import RUNTIMES, runtime_of
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.workload import Workload

RESNET = {"task": "inference", "model": "resnet-50", "precision": "int8"}
catalog, calibration, defaults = cache(load_catalog), cache(load_calibration), cache(load_defaults)


def answer(card="t4", **wishes):
    """What one card gives."""
    return estimate(
        Workload.from_mapping(wishes), [(1, card)], catalog(), calibration(), defaults(), today="2026-11-30"
    )


def rate(found):
    """Samples per second of the option."""
    return found.option.performance["images_per_s"].value


@pytest.mark.parametrize("wishes", [RESNET, {"task": "pretrain", "model": "resnet-50"}])
def test_a_tuned_submission_is_faster_and_says_so(wishes):
    """Only where it is asked for."""
    usual, tuned = answer(**wishes), answer(**wishes, tuned=True)
    assert rate(tuned) > 1.2 * rate(usual)
    codes = [[note.code for note in found.assumptions] for found in (usual, tuned)]
    assert ("vendor-tuned" in codes[0], "vendor-tuned" in codes[1]) == (False, True)


def test_the_tuned_rate_is_that_of_mlperf():
    """ResNet-50 offline on T4 in int8: 6036 images/s in round 0.7, 5622 a card in 0.5."""
    assert rate(answer(**RESNET, batch=128, tuned=True)) == pytest.approx(5800, rel=0.25)


@pytest.mark.parametrize("bound_ms", [3, 10, 40])
def test_the_largest_batch_under_a_latency(bound_ms):
    """The batch that is chosen keeps the bound; twice the batch does not."""
    found = answer(**RESNET, latency=f"{bound_ms}ms")
    batch = int(found.option.plan.micro_batch)

    def took(size):
        return answer(**RESNET, batch=size).option.performance["latency_ms"].value

    assert took(batch) <= bound_ms < took(2 * batch)


def test_a_two_stage_detector_is_answered_for_single_pictures():
    """A batch changes nothing, and the answer says why."""
    wishes = {"task": "inference", "model": "mask-rcnn-r50-fpn-detectron2"}
    one, eight = answer("a100-sxm4-80gb", **wishes), answer("a100-sxm4-80gb", **wishes, batch=8)
    assert rate(one) == rate(eight)
    assert "two-stage" in [note.code for note in eight.assumptions]


@pytest.mark.parametrize(
    ("engine", "runtime"),
    [("tensorrt", "tensorrt"), ("onnx-runtime", "compiled"), ("openvino", "compiled"),
     ("tensorflow", "tensorflow"), ("pytorch", "compiled"), ("transformers", "pytorch")],
)  # fmt: skip
def test_the_runtime_of_an_engine(engine, runtime):
    """Each has constants of its own."""
    assert runtime_of([catalog().frameworks[engine]]) == (engine, runtime)
    assert set(RUNTIMES.values()) <= set(calibration().network.runtime)


def tuned(model, card, **keys):
    """Fine-tuning of a network on one card."""
    return answer(card, task="finetune", model=model, **keys)


def test_adapters_of_a_network_need_less_than_full_fine_tuning():
    """SDXL: adapters fit a card of 24 GB that full fine-tuning does not."""
    assert tuned("sdxl-base-1.0", "rtx-4090", method="lora").state != "no"
    assert tuned("sdxl-base-1.0", "rtx-4090", method="full").state == "no"


def test_recomputation_is_found_for_a_network_of_layers():
    """FLUX.1 with adapters fits 48 GB with its layers computed anew, and not with them kept."""
    found = tuned("flux.1-dev", "rtx-a6000", method="lora")
    assert found.state != "no"
    assert found.option.plan.recompute
    assert tuned("flux.1-dev", "rtx-a6000", method="lora", recompute="none").state == "no"


def test_adapters_of_convolutions_are_refused():
    """The sentence says which networks take which method."""
    with pytest.raises(InputError, match="diffusion networks lora, others none"):
        tuned("resnet-50", "rtx-4090", method="lora")
