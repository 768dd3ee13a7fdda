"""Scaling over counts, and what failures leave of a run."""

import json
from functools import cache
from importlib import resources
from itertools import pairwise

import pytest
from jsonschema import Draft202012Validator

from gpuselect.advisor import estimate
from gpuselect.cli import main
from gpuselect.cli.estimate import counts_of
from gpuselect.errors import InputError
from gpuselect.estimate.goodput import goodput
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.report.scale import scale_text
from gpuselect.scaling import scale
from gpuselect.workload import Workload

TRAIN = {"task": "pretrain", "params": "10B"}
FAILING = {"failures": "1/50000h", "checkpoint": "30min", "restart": "15min"}


@cache
def data():
    """Everything that the advisor is called with."""
    return load_catalog(), load_calibration(), load_defaults()


@cache
def scaled(*, failing=False, low=8, high=4096):
    """The scaling of a 10B run on H100."""
    asked = TRAIN | (FAILING if failing else {})
    return scale(
        Workload.from_mapping(asked), "h100", counts_of(f"{low}..{high}"), *data(), today="2026-11-01"
    )


def days(option):
    """Time to train of an option [d]."""
    return option.performance["time_to_train_days"].value


def test_each_count_is_what_estimate_says():
    """The same plan and time as one estimate at that count."""
    found = {row.option.count: row.option for row in scaled(high=32).strong}
    assert set(found) == {8, 16, 32}
    alone = estimate(
        Workload.from_mapping(TRAIN), [(16, "h100-sxm5-80gb")], *data(), today="2026-11-01"
    ).option
    assert found[16].plan == alone.plan
    assert days(found[16]) == pytest.approx(days(alone))
    assert found[16].cost.per_run_usd == pytest.approx(alone.cost.per_run_usd)


def test_strong_scaling_loses_and_weak_scaling_loses_less():
    """Efficiency falls at a fixed batch; a batch that grows with the cards keeps more of it."""
    found = scaled()
    strong = {row.option.count: row.efficiency for row in found.strong}
    weak = {row.option.count: row.efficiency for row in found.weak}
    assert strong[4096 if 4096 in strong else max(strong)] < strong[8] == 1.0
    assert weak[1024] > strong[1024]
    assert [row.global_batch for row in found.weak][:2] == [1024, 2048]


def test_where_it_stops_to_pay_is_where_a_doubling_gains_too_little():
    """Twice the cards are 1.5 times as fast up to there, and not beyond."""
    found = scaled()
    options = [row.option for row in found.strong]
    at = next(i for i, option in enumerate(options) if option.count == found.pays_until)
    for before, after in pairwise(options[: at + 1]):
        assert days(before) >= 1.5 * days(after)
    if at + 1 < len(options):
        assert days(options[at]) < 1.5 * days(options[at + 1])
    assert found.cheapest in {option.count for option in options}


def test_failures_stretch_large_runs():
    """Published: 419 interruptions of 16,384 cards in 54 days, more than 90 % of the time effective."""
    rate = 419 / (54 * 24 * 16_384)
    assert 0.9 < goodput(count=16_384, failures=rate, lost=0.25) < 0.95
    sound, failing = scaled(), scaled(failing=True)
    for one, other in zip(sound.strong, failing.strong, strict=True):
        share = other.option.performance["goodput"].value
        assert share == pytest.approx(1.0 / (1.0 + one.option.count * 0.5 / 50_000))
        assert days(other.option) == pytest.approx(days(one.option) / share)
    assert failing.strong[-1].efficiency < sound.strong[-1].efficiency
    assert "goodput" not in sound.strong[0].option.performance


@pytest.mark.parametrize(
    ("written", "rate"),
    [("2e-5/h", 2e-5), ("1/50000h", 2e-5), ("1 per 50000 hours", 2e-5), ("0.00002", 2e-5)],
)
def test_rates_of_failure_as_people_write_them(written, rate):
    """Per accelerator and hour."""
    assert Workload.from_mapping(TRAIN | {"failures": written}).failures == pytest.approx(rate)


@pytest.mark.parametrize("asked", [{"failures": "often"}, {"failures": "1/0h"}, {"failures": "3/h"}])
def test_other_rates_are_refused(asked):
    """With an example."""
    with pytest.raises(InputError, match="1/50000h"):
        Workload.from_mapping(TRAIN | asked)


def test_what_failures_cost_has_to_be_said():
    """No default stands in for a checkpoint interval."""
    with pytest.raises(InputError, match="--checkpoint"):
        estimate(Workload.from_mapping(TRAIN | {"failures": "2e-5"}), [(8, "h100")], *data())
    served = {"task": "inference", "params": "8B", "failures": "2e-5"}
    with pytest.raises(InputError, match="training runs"):
        estimate(Workload.from_mapping(served), [(8, "h100")], *data())


@pytest.mark.parametrize("given", ["8", "64..8", "a..b", "0..8"])
def test_a_range_is_two_counts(given):
    """One sentence with an example."""
    with pytest.raises(InputError, match=r"8\.\.4096"):
        counts_of(given)


def test_what_does_not_scale_says_so(capsys):
    """Nothing fits one small card; a service has no scaling."""
    small = scale(Workload.from_mapping(TRAIN), "t4", (1, 2), *data(), today="2026-11-01")
    assert small.strong == ()
    assert {note.code for note in small.reasons}
    assert small.reasons[0].code in scale_text(small)
    with pytest.raises(SystemExit) as leaving:
        main(["estimate", "--on", "h100", "--scale", "1..8", "--task", "inference", "--params", "8B"])
    assert leaving.value.code == 2
    assert "--scale" in capsys.readouterr().err


def test_the_table_and_the_json(capsys):
    """A row for each count with its bar; the JSON keeps the published schema."""
    text = scale_text(scaled())
    assert text.count("####") >= len(scaled().strong)
    with pytest.raises(SystemExit) as leaving:
        main(["estimate", "--on", "h100", "--scale", "8..32", "--task", "pretrain", "--params", "10B",
              "--json", "--quiet"])  # fmt: skip
    assert leaving.value.code == 0
    payload = json.loads(capsys.readouterr().out)
    schema = json.loads(resources.files("gpuselect.report").joinpath("schema.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(payload)
    assert [row["count"] for row in payload["strong"]] == [8, 16, 32]
