"""How far a plan goes and what would make a miss fit: every sentence holds when it is asked again."""

from functools import cache

import pytest

from gpuselect.advisor import estimate
from gpuselect.headroom import largest
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.report.console import Style
from gpuselect.report.json import fit_payload
from gpuselect.report.terminal import fit_text
from gpuselect.workload import Workload

FINETUNE = {"task": "finetune", "model": "llama-3.1-8b", "seq_len": 2048}
SERVE = {"task": "inference", "model": "llama-3.1-70b", "input_tokens": 1024, "output_tokens": 256}


@cache
def data():
    """Everything that the advisor is called with."""
    return load_catalog(), load_calibration(), load_defaults()


def answer(asked, count, card):
    """What a workload does on some cards."""
    return estimate(Workload.from_mapping(asked), [(count, card)], *data(), today="2026-11-01")


def test_the_largest_number_is_found():
    """Against a search one by one, with and without a bound."""
    for bound in (0, 1, 2, 7, 64, 65):
        assert largest(lambda n, bound=bound: n <= bound) == bound
    assert largest(lambda _n: True, most=1000) == 1000


def test_limits_hold_and_one_more_does_not():
    """The batch and length that are named fit on the same plan; a little more does not."""
    found = answer(FINETUNE | {"recompute": "full"}, 8, "a100-sxm4-80gb")
    limits = {limit.code: limit.value for limit in found.limits}
    plan = found.option.plan
    pinned = FINETUNE | {
        "recompute": "full", "zero_stage": int(plan.zero_stage), "tp": int(plan.tp), "pp": int(plan.pp),
        "micro_batch": int(plan.micro_batch),
    }  # fmt: skip
    assert answer(pinned | {"seq_len": limits["seq-len"]}, 8, "a100-sxm4-80gb").option is not None
    assert answer(pinned | {"seq_len": limits["seq-len"] + 64}, 8, "a100-sxm4-80gb").option is None
    assert 0 < limits.get("zero-floor-gib", 1) <= found.option.memory.per_accelerator_gib + 1


def test_concurrency_limit_of_a_server_holds():
    """As many sequences as are named fit on one card, and no more."""
    asked = SERVE | {"model": "llama-3.1-8b", "concurrency": 4}
    found = answer(asked, 1, "l40s-48gb")
    most = {limit.code: limit.value for limit in found.limits}["concurrency"]
    assert most > 4
    assert answer(asked | {"concurrency": most}, 1, "l40s-48gb").option is not None
    assert answer(asked | {"concurrency": most + 1}, 1, "l40s-48gb").option is None
    assert found.footprint_gib >= found.option.memory.per_accelerator_gib


@pytest.mark.parametrize(
    ("asked", "count", "card", "codes"),
    [
        (FINETUNE, 1, "rtx-4090-24gb", {"lora", "qlora", "more-cards", "bigger-card"}),
        (FINETUNE | {"method": "lora", "micro_batch": 8}, 1, "rtx-4090-24gb", {"micro-batch"}),
        (SERVE, 1, "a100-sxm4-80gb", {"weights", "more-cards", "bigger-card"}),
    ],
)
def test_changes_make_a_miss_fit(asked, count, card, codes):
    """Each change needs no more than there is, and the expected ones are among them."""
    found = answer(asked, count, card)
    assert found.option is None
    assert found.nearest.memory.per_accelerator_gib > found.nearest.memory.usable_gib
    assert codes <= {change.code for change in found.changes}
    assert all(change.need_gib <= change.usable_gib for change in found.changes)


def test_a_change_holds_when_it_is_asked():
    """QLoRA on one 24 GB card, as the answer to full fine-tuning says."""
    assert "qlora" in {change.code for change in answer(FINETUNE, 1, "rtx-4090-24gb").changes}
    assert answer(FINETUNE | {"method": "qlora"}, 1, "rtx-4090-24gb").option is not None


def test_reports_show_table_bar_and_changes():
    """Eighty ASCII columns on a plain terminal, and the same in JSON."""
    miss = answer(SERVE, 1, "a100-sxm4-80gb")
    text = fit_text(miss, Style(width=80, unicode=False))
    assert text.isascii()
    assert max(len(line) for line in text.splitlines() if "#" in line) <= 80
    assert "missing" in text
    assert "does not fit" in text.splitlines()[0]
    payload = fit_payload(miss)
    assert payload["nearest"]["memory"]["state"] == "no"
    assert [change["code"] for change in payload["changes"]] == [change.code for change in miss.changes]
    fits = fit_text(answer(SERVE | {"model": "llama-3.1-8b"}, 1, "l40s-48gb"), Style(width=80, unicode=False))
    assert "How far this plan goes" in fits
    assert "free" in fits
