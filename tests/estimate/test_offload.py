"""States on the host: published tables, measured rows, and what always holds."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuselect.accuracy.decoder_training import predict
from gpuselect.advisor import estimate
from gpuselect.cli import main
from gpuselect.errors import InputError
from gpuselect.estimate.memory import training_memory
from gpuselect.estimate.memory_recipe import training_recipe
from gpuselect.estimate.offload import cards_of_host, host_bytes, host_work
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.shape import typical_decoder
from gpuselect.plan import OFFLOADS, Plan, training_plans
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.measurements import default_files, read_measurements
from gpuselect.workload import Workload

GIB = 2.0**30
FINETUNE = {"task": "finetune", "params": "7B", "seq_len": 2048}
SHAPE = typical_decoder(params=7e9)


@cache
def data():
    """Everything that the advisor is called with."""
    return load_catalog(), load_calibration(), load_defaults()


def answer(asked, count, card):
    """What a workload does on some cards."""
    return estimate(Workload.from_mapping(FINETUNE | asked), [(count, card)], *data(), today="2026-11-01")


def need(plan, method="full"):
    """Memory of a plan, without what allocator and driver add."""
    recipe = training_recipe(
        shape=SHAPE, method=method, precision="bf16", fused=False, optimizer="adamw", lora_rank=16,
        calibration=load_calibration(),
    )  # fmt: skip
    return training_memory(
        shape=SHAPE, plan=plan, recipe=recipe, seq_len=2048, fragmentation=1.0, context_bytes=0.0
    )


@pytest.mark.parametrize(("level", "printed"), [(1, 63.72), (2, 71.69)])
def test_host_memory_is_that_of_the_estimator_of_deepspeed(level, printed):
    """2851 million parameters on one node of 8 cards, with zero.Init (DeepSpeed, Memory Requirements)."""
    plan = Plan(count=8, dp=8, zero_stage=3, offload=level)
    each = host_bytes(plan=plan, weights=2 * 2851e6, trained=2851e6, optimizer_bytes=12.0)
    buffers = float(load_calibration().host.buffers)
    assert 8 * float(each) * buffers / GIB == pytest.approx(printed, abs=0.01)


def test_ten_billion_parameters_train_on_one_v100():
    """The size of ZeRO-Offload's tutorial on its card of 32 GB; without offload it does not fit."""
    asked = {"params": "10B", "seq_len": 1024, "precision": "fp16", "recompute": "full", "micro_batch": 1,
             "global_batch": 10}  # fmt: skip
    assert answer(asked, 1, "v100-sxm3-32gb").option is None
    found = answer(asked | {"offload": "optimizer"}, 1, "v100-sxm3-32gb")
    assert found.option is not None
    assert "offload" in found.option.step_breakdown


def test_steps_that_the_host_dominates_are_met():
    """8192 tokens on each of 8 cards, AdamW on the host: most of the step is the update."""
    catalog, calibration, _defaults = data()
    path = next(p for p in default_files() if p.stem == "training")
    wanted = ("stas-upgrade-0001", "stas-upgrade-0002")
    rows = [row for row in read_measurements(path)[1] if row["row_id"] in wanted]
    assert len(rows) == 2
    for row in rows:
        scored = predict(row, catalog, calibration)[0]
        assert scored.predicted == pytest.approx(scored.measured, rel=0.1)


@settings(max_examples=30, deadline=None)
@given(
    dp=st.sampled_from((1, 2, 8)), recompute=st.sampled_from((0, 1, 2)), micro=st.sampled_from((1, 4)),
    method=st.sampled_from(("full", "lora")),
)  # fmt: skip
def test_what_leaves_the_card_waits_on_the_host(dp, recompute, micro, method):
    """More offload never needs more of the card, nor less of the host."""
    plan = Plan(count=dp, dp=dp, zero_stage=3, recompute=recompute, micro_batch=micro)
    levels = [need(replace(plan, offload=level), method) for level in range(len(OFFLOADS))]
    cards = [float(memory.total) for memory in levels]
    hosts = [float(memory.host) for memory in levels]
    assert cards[2] <= cards[1]
    if method == "full":  # adapters have hardly any states, and DeepSpeed's buffers cost more
        assert cards[1] < cards[0]
    assert hosts[0] == 0.0 < hosts[1] < hosts[2]
    together = need(replace(plan, offload=np.arange(3), dp=np.full(3, dp)), method)
    assert together.total == pytest.approx(cards)


def test_the_update_goes_with_the_share_and_transfers_hide_under_compute():
    """Twice the ranks halve the update; without compute nothing hides."""
    terms = {"weights": 2e10, "trained": 1e10, "optimizer_bytes": 12.0, "link": 2e10, "rate": 1e11,
             "overlap": 0.5}  # fmt: skip
    one = host_work(plan=Plan(offload=1, zero_stage=2), compute=0.0, **terms)
    assert float(one.update) == pytest.approx(1e10 * 30 / 1e11)
    assert float(one.exposed) == pytest.approx(4e10 / 2e10)  # gradients down, weights up
    two = host_work(plan=Plan(count=2, dp=2, offload=1, zero_stage=2), compute=0.0, **terms)
    assert float(two.update) == pytest.approx(float(one.update) / 2)
    hidden = host_work(plan=Plan(offload=1, zero_stage=2), compute=10.0, **terms)
    assert float(hidden.exposed) == pytest.approx(1.0)  # the way up
    away = host_work(plan=Plan(offload=2, zero_stage=3, recompute=2), compute=0.0, **terms)
    assert float(away.exposed) == pytest.approx((3 * 2e10 + 2e10) / 2e10)  # three passes, gradients


def test_a_server_is_rented_with_its_share_of_the_host():
    """One card of a server of 8 has an eighth of its host; a desktop has all of it."""
    card = Device(1e14, 1e14, 1e12, 8e10, 0.0, 0.0, 1, 8, 1e10, 0.8, 0.8, host_shared=8)
    assert int(cards_of_host(plan=Plan(count=1), device=card)) == 8
    assert int(cards_of_host(plan=Plan(count=4), device=replace(card, per_node=4, host_shared=1))) == 4


def test_offloaded_plans_are_sharded_and_have_no_pipeline():
    """ZeRO-2 or 3, weights with ZeRO-3 only."""
    common = {"count": 8, "global_batch": 64, "n_layers": 32, "n_heads": 32, "n_experts": 0, "max_tp": 8,
              "allow_pp": True}  # fmt: skip
    for level, stages in ((1, {2, 3}), (2, {3})):
        plans = training_plans(**common, pins={"offload": level})
        assert {(p.pp, p.tp) for p in plans} == {(1, 1)}
        assert {p.zero_stage for p in plans} == stages
    assert training_plans(**common, pins={"offload": 2, "zero_stage": 1}) == []
    assert {p.tp for p in training_plans(**common, pins={"offload": 1, "tp": 2})} == {2}


def test_the_memory_of_the_host_rules_out():
    """A small host is refused with a code, a somewhat larger one is called tight, a large one is not."""
    small = answer({"offload": "optimizer", "host_memory": "64GB"}, 1, "rtx-4090-24gb")
    assert small.option is None
    assert {note.code for note in small.reasons} == {"host-memory-exceeded"}
    middle = answer({"offload": "optimizer", "host_memory": "128GB"}, 1, "rtx-4090-24gb")
    assert "host-memory-tight" in {note.code for note in middle.option.warnings}
    large = answer({"offload": "optimizer", "host_memory": "256GB"}, 1, "rtx-4090-24gb")
    assert not {"host-memory-tight"} & {note.code for note in large.option.warnings}
    shared = answer({"offload": "optimizer"}, 1, "apple-m4-max-128gb")
    assert {note.code for note in shared.reasons} == {"offload-unified"}


def test_a_miss_proposes_the_host_and_the_proposal_holds():
    """Full fine-tuning of 7B on one 24 GB card."""
    miss = answer({}, 1, "rtx-4090-24gb")
    assert "offload" in {change.code for change in miss.changes}
    assert answer({"offload": "optimizer"}, 1, "rtx-4090-24gb").option is not None


@pytest.mark.parametrize(
    "asked",
    [
        {"method": "qlora", "offload": "params"}, {"task": "inference", "offload": "params"},
        {"model": "resnet-50", "params": None, "offload": "optimizer"}, {"offload": "paramz"},
    ],
)  # fmt: skip
def test_what_cannot_be_offloaded_is_refused(asked):
    """One sentence, no traceback."""
    with pytest.raises(InputError):
        answer(asked, 1, "rtx-4090-24gb")


def test_launch_files_switch_it_on(tmp_path, capsys):
    """DeepSpeed's configuration names the host for states and weights."""
    with pytest.raises(SystemExit) as leaving:
        main(["estimate", "--on", "8xA100", "--params", "13B", "--task", "finetune", "--offload", "params",
              "--frameworks", "deepspeed", "--launch", str(tmp_path / "run"), "-q", "--json"])  # fmt: skip
    assert leaving.value.code == 0
    payload = json.loads(capsys.readouterr().out)
    assert payload["plan"]["offload"] == "params"
    assert payload["memory"]["host_gib"] > 0
    config = json.loads((tmp_path / "run" / "ds_config.json").read_text())["zero_optimization"]
    assert config["stage"] == 3
    assert config["offload_optimizer"]["device"] == config["offload_param"]["device"] == "cpu"
