"""The plan search against brute force, and what must hold for any search."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuselect
from gpuselect.advisor import resolve_job
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.deployment import build_field
from gpuselect.estimate.memory import training_memory
from gpuselect.estimate.training import step_time
from gpuselect.job import TrainingJob
from gpuselect.plan import MICRO_BATCHES, PIPELINE_PARALLEL, TENSOR_PARALLEL, layers_of_stages, training_plans
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.search import (
    TIGHT_FROM,
    TIGHT_PENALTY,
    Found,
    Site,
    method_of,
    search_training,
    site_counts,
    widest_tp,
)
from gpuselect.serving_search import search_serving
from gpuselect.units import GIB
from gpuselect.workload import Workload, pins

CARDS = ("h100-sxm5-80gb", "a100-sxm4-40gb", "rtx-4090-24gb", "mi300x-192gb", "l40s-48gb")
# Small cases: sizes, counts, methods and pins of every kind, on cards with and without a fast link.
CASES: list[tuple[str, int, dict[str, Any]]] = [
    (card, count, wish)
    for card in CARDS
    for count, wish in (
        (1, {"task": "pretrain", "params": "1B"}),
        (2, {"task": "pretrain", "params": "3B", "seq_len": 2048}),
        (4, {"task": "pretrain", "params": "7B", "global_batch": 64}),
        (8, {"task": "pretrain", "params": "13B"}),
        (16, {"task": "pretrain", "params": "30B", "recompute": "full"}),
        (8, {"task": "finetune", "params": "7B", "method": "full"}),
        (4, {"task": "finetune", "params": "7B", "method": "lora", "micro_batch": 2}),
        (2, {"task": "finetune", "params": "13B", "method": "qlora"}),
        (8, {"task": "pretrain", "model": "mixtral-8x7b", "tokens": "1B"}),
        (8, {"task": "pretrain", "params": "7B", "tp": 2, "optimizer": "sgd"}),
    )
]


@cache
def shipped() -> tuple[Catalog, Calibration]:
    """The shipped data, read once."""
    return load_catalog(), load_calibration()


def site_and_job(wish: dict[str, Any], card: str, count: int) -> tuple[Site, Any, Workload]:
    """One card with one count, and the job."""
    catalog, calibration = shipped()
    workload = Workload.from_mapping(wish)
    job, _notes = resolve_job(workload, catalog, calibration)
    field = build_field(workload, job, catalog, calibration, fixed={card: count})
    return field.sites[0], job, workload


def weighed(seconds: float, need: float, usable: float) -> float:
    """Step time as the search weighs it: tight memory counts as slower."""
    return seconds * (TIGHT_PENALTY if need > TIGHT_FROM * usable else 1.0)


def brute_force(site: Site, job: TrainingJob, workload: Workload) -> float | None:
    """Least weighed time over all plans, one at a time with plain numbers; None when none fits."""
    _catalog, calibration = shipped()
    times = []
    for plan in training_plans(
        count=site.counts[0], global_batch=job.global_batch, n_layers=job.shape.n_layers,
        n_heads=job.shape.n_heads, n_experts=job.shape.n_experts,
        max_tp=1 if job.method == "qlora" else widest_tp(site),
        allow_pp=job.method in ("pretrain", "full"), pins=pins(workload),
    ):  # fmt: skip
        memory = training_memory(
            shape=job.shape, plan=plan, recipe=job.recipe, seq_len=job.seq_len,
            fragmentation=float(calibration.memory.fragmentation),
            context_bytes=float(calibration.memory.training_context_gib) * GIB,
        )  # fmt: skip
        if memory.total > site.device.usable_bytes:
            continue
        step = step_time(
            shape=job.shape, plan=plan, recipe=job.recipe, device=site.device,
            constants=calibration.training, seq_len=job.seq_len, method=method_of(job),
        )  # fmt: skip
        times.append(weighed(float(step.total), float(memory.total), site.device.usable_bytes))
    return min(times, default=None)


def searched(sites: list[Site], job: TrainingJob, workload: Workload) -> Found:
    """The search over some sites."""
    return search_training(sites, job, pins=pins(workload), calibration=shipped()[1])


def best_step(site: Site, job: TrainingJob, workload: Workload) -> float | None:
    """Weighed time of the plan that the search returns for one site."""
    for found in searched([site], job, workload).fitting:
        assert found.step is not None
        return weighed(found.step.total, found.memory.total, found.usable)
    return None


@pytest.mark.parametrize(("card", "count", "wish"), CASES)
def test_the_returned_plan_is_the_exhaustive_optimum(card: str, count: int, wish: dict[str, Any]) -> None:
    """Array search and brute force agree on feasibility and on the least weighed time."""
    site, job, workload = site_and_job(wish, card, count)
    expected = brute_force(site, job, workload)
    found = best_step(site, job, workload)
    assert (found is None) == (expected is None)
    assert found is None or found == pytest.approx(expected, rel=1e-9)


def test_fifty_small_cases_of_both_kinds() -> None:
    """Enough cases, some of which fit and some of which do not."""
    fits = [best_step(*site_and_job(wish, card, count)) is not None for card, count, wish in CASES]
    assert len(CASES) == 50
    assert 20 <= sum(fits) <= 48


@given(
    count=st.sampled_from([1, 2, 4, 8, 16, 64]),
    batch=st.integers(min_value=1, max_value=512),
    layers=st.sampled_from([12, 24, 28, 32, 40, 61, 80]),
    heads=st.sampled_from([12, 16, 32, 40, 64]),
    experts=st.sampled_from([0, 8, 64]),
)
def test_every_plan_is_valid(count: int, batch: int, layers: int, heads: int, experts: int) -> None:
    """Widths multiply to the count, the batch splits exactly, heads divide, layers split."""
    for plan in training_plans(
        count=count, global_batch=batch, n_layers=layers, n_heads=heads, n_experts=experts, max_tp=8,
        allow_pp=True, pins={},
    ):  # fmt: skip
        assert plan.tp * plan.pp * plan.cp * plan.dp == count
        assert plan.micro_batch * plan.dp * plan.grad_accum == batch
        assert heads % plan.tp == 0
        assert layers_of_stages(layers, plan.pp) is not None
        assert (plan.dp * plan.tp) % plan.ep == 0
        assert plan.pp == 1 or plan.grad_accum >= plan.pp


def test_no_plan_is_forgotten() -> None:
    """Counting widths by hand gives the same set of (tp, pp, micro-batch)."""
    plans = training_plans(
        count=8, global_batch=64, n_layers=32, n_heads=32, n_experts=0, max_tp=8, allow_pp=True, pins={}
    )
    expected = {
        (tp, pp, micro)
        for tp in TENSOR_PARALLEL
        for pp in PIPELINE_PARALLEL
        for micro in MICRO_BATCHES
        if tp * pp <= 8 and (64 // (8 // (tp * pp))) % micro == 0
        and (pp == 1 or 64 // (8 // (tp * pp)) // micro >= pp)
    }  # fmt: skip
    assert {(p.tp, p.pp, p.micro_batch) for p in plans} == expected


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("params", ["1B", "7B", "13B"])
def test_more_cards_hardly_lengthen_a_step(card: str, params: str) -> None:
    """Doubling inside a node and across nodes: never more than 10 % slower for one batch."""
    times = []
    for count in (1, 2, 4, 8, 16, 32, 64):
        site, job, workload = site_and_job({"task": "pretrain", "params": params}, card, count)
        times.append(best_step(site, job, workload))
    known = [t for t in times if t is not None]
    assert known
    assert all(b <= 1.1 * a for a, b in pairwise(known)), times


def test_what_fits_on_few_fits_on_more() -> None:
    """Once a power of two fits, every larger one up to the batch does."""
    for card in CARDS:
        fits = []
        for count in (1, 2, 4, 8, 16, 32, 64):
            site, job, workload = site_and_job({"task": "pretrain", "params": "7B"}, card, count)
            fits.append(best_step(site, job, workload) is not None)
        assert fits == sorted(fits), (card, fits)


@settings(max_examples=40, deadline=None)
@given(
    quantity=st.sampled_from(["peak", "bandwidth", "link", "network", "usable_bytes"]),
    factor=st.floats(min_value=1.0, max_value=4.0),
    case=st.sampled_from([c for c in CASES if c[1] > 1]),
)
def test_a_better_card_is_not_slower(quantity: str, factor: float, case: tuple[str, int, Any]) -> None:
    """Step time is monotone in rate, bandwidth, links and memory.

    A faster peak raises the machine balance and with it the loss at small matrices, so half of
    a percent is allowed there.
    """
    card, count, wish = case
    site, job, workload = site_and_job(wish, card, count)
    changes = {quantity: getattr(site.device, quantity) * factor}
    if quantity == "peak":
        changes["peak_16bit"] = site.device.peak_16bit * factor
    better = replace(site, device=replace(site.device, **changes))
    before, after = best_step(site, job, workload), best_step(better, job, workload)
    assert before is None or (after is not None and after <= before * 1.005)


def test_a_batch_of_sites_gives_what_each_gives_alone() -> None:
    """Sites do not influence each other; nothing that fits is missed, one candidate per count."""
    pairs = [site_and_job({"task": "pretrain", "params": "7B"}, card, 8) for card in CARDS]
    _site, job, workload = pairs[0]
    sites = [replace(site, counts=(4, 8, 16)) for site, _job, _workload in pairs]
    together = searched(sites, job, workload)
    keys = [(c.site, c.plan.count) for c in together.fitting]
    assert len(keys) == len(set(keys))
    for number, site in enumerate(sites):
        alone = searched([site], job, workload)
        assert [c.plan for c in alone.fitting] == [c.plan for c in together.fitting if c.site == number]
        assert (0 in alone.nearest) == (number in together.nearest)


@pytest.mark.parametrize("pin", [{"tp": 4}, {"pp": 2}, {"dp": 2}, {"micro_batch": 1}, {"recompute": "full"}])
def test_a_pin_is_kept_and_never_helps(pin: dict[str, Any]) -> None:
    """The pinned search is a part of the free one."""
    free = site_and_job({"task": "pretrain", "params": "13B"}, "h100-sxm5-80gb", 8)
    pinned = site_and_job({"task": "pretrain", "params": "13B", **pin}, "h100-sxm5-80gb", 8)
    free_time, pinned_time = best_step(*free), best_step(*pinned)
    assert free_time is not None
    assert pinned_time is None or pinned_time >= free_time * (1 - 1e-12)
    for candidate in searched([pinned[0]], pinned[1], pinned[2]).fitting:
        for key, value in pins(pinned[2]).items():
            assert getattr(candidate.plan, key) == value


def test_serving_counts_and_rates_are_finite() -> None:
    """Every serving candidate has positive times and rates, and memory within the card."""
    site, job, workload = site_and_job({"task": "inference", "model": "llama-3.1-70b"}, "h100-sxm5-80gb", 8)
    site = replace(site, counts=(2, 4, 8))
    found = search_serving([site], job, pins=pins(workload), calibration=shipped()[1])
    assert [c.plan.count for c in found.fitting] == [2, 4, 8]
    for candidate in found.fitting:
        state = candidate.serving
        assert state is not None
        assert all(np.isfinite(v) and v > 0 for v in (state.tpot, state.latency, state.requests_per_s))
        assert candidate.memory.total <= candidate.usable


def test_counts_of_a_system() -> None:
    """Powers of two inside the node, then whole nodes; a fixed count is taken as it is."""
    system = next(s for s in shipped()[0].systems.values() if "h100-sxm5-80gb" in s.accelerators)
    assert site_counts(system, max_count=32, fixed=None) == (1, 2, 4, 8, 16, 32)
    assert site_counts(system, max_count=32, fixed=3) == (3,)


@pytest.mark.parametrize(
    "work",
    [
        {"task": "pretrain", "params": "1B"},
        {"task": "inference", "params": "1B"},
        {"task": "inference", "model": "resnet-50"},
        {"task": "video", "streams": 2},
    ],
)
@pytest.mark.parametrize("reserve", ["10GiB", "12GiB"])
def test_a_card_whose_memory_others_use_whole_is_ruled_out(work: dict[str, Any], reserve: str) -> None:
    """All of it, or more than all: once a division by zero and a negative usable memory."""
    answer = gpuselect.estimate("3080", reserve=reserve, **work)
    assert not answer.fits
    assert [note.code for note in answer.answer.reasons] == ["memory-exceeded"]
    assert "--reserve" in answer.answer.reasons[0].text


def test_heavier_recomputing_is_left_out_only_where_it_cannot_win() -> None:
    """The plan found is the best of all, whether the lighter one is roomy, tight or too large."""
    site, job, _workload = site_and_job({"task": "pretrain", "params": "1B"}, "h100-sxm5-80gb", 4)
    calibration, won = shipped()[1], set()
    for usable in np.linspace(8.0, 90.0, 25) * GIB:
        small = replace(site, device=replace(site.device, usable_bytes=usable))
        levels = [{}, *({"recompute": level} for level in (0, 1, 2))]
        free, *pinned = (
            [
                (weighed(c.step.total, c.memory.total, usable), c.plan.recompute)
                for c in search_training([small], job, pins=fixed, calibration=calibration).fitting
                if c.step is not None
            ]
            for fixed in levels
        )
        assert free == [min(found[0] for found in pinned if found)] if any(pinned) else not free
        won |= {level for _cost, level in free}
    assert won >= {0, 2}
