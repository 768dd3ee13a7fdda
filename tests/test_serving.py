"""What must hold for every serving estimate, whatever the constants."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuselect.accuracy.decoder_formats import engine_id
from gpuselect.accuracy.evaluation import Measured, evaluate
from gpuselect.advisor import resolve_job
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.deployment import build_field
from gpuselect.estimate.serving import (
    Engine,
    Serving,
    decode_step_time,
    kv_capacity,
    prefill_time,
    steady_state,
    touched_weight_bytes,
    weight_bytes_per_rank,
)
from gpuselect.job import ServingJob
from gpuselect.plan import Plan, stack
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.measurements import default_files, read_measurements
from gpuselect.search import Found, Site
from gpuselect.serving_search import search_serving
from gpuselect.workload import Workload

CARDS = ("h100-sxm5-80gb", "a100-sxm4-80gb", "mi300x-192gb", "l40s-48gb", "rtx-4090-24gb")
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-v3")


@cache
def shipped() -> tuple[Catalog, Calibration]:
    """The shipped data, read once."""
    return load_catalog(), load_calibration()


@cache
def site_and_job(model: str, card: str, weights: str = "bf16") -> tuple[Site, ServingJob]:
    """One card that serves one model."""
    catalog, calibration = shipped()
    workload = Workload.from_mapping({"task": "inference", "model": model, "weights": weights})
    job, _notes = resolve_job(workload, catalog, calibration)
    assert isinstance(job, ServingJob)
    return build_field(workload, job, catalog, calibration, fixed={card: 8}).sites[0], job


def arguments(site: Site, job: ServingJob, plan: Plan) -> dict[str, Any]:
    """What the formulas of a step have in common."""
    return {
        "shape": job.shape, "plan": plan, "device": site.device, "engine": site.engine,
        "constants": shipped()[1].serving, "weight_bytes": site.weight_bytes,
    }  # fmt: skip


def decode(site: Site, job: ServingJob, *, batch: Any, context: Any, plan: Plan | None = None) -> float:
    """Time of a decode step [s]."""
    common = arguments(site, job, plan or Plan())
    return float(decode_step_time(**common, kv_bytes=job.kv_bytes, batch=batch, context=context))


def state(site: Site, job: ServingJob, *, batch: Any, plan: Plan | None = None) -> Serving:
    """Steady state for 1024 tokens in and 256 out."""
    return steady_state(
        **arguments(site, job, plan or Plan()), kv_bytes=job.kv_bytes, input_tokens=1024.0,
        output_tokens=256.0, batch=batch,
    )  # fmt: skip


CASES = st.tuples(st.sampled_from(MODELS), st.sampled_from(CARDS))


@settings(deadline=None)
@given(case=CASES, batch=st.integers(1, 256), context=st.integers(1, 65_536))
def test_a_step_grows_with_batch_and_context(case: tuple[str, str], batch: int, context: int) -> None:
    """Time is positive, and more sequences or a longer context never shorten it."""
    site, job = site_and_job(*case)
    base = decode(site, job, batch=batch, context=context)
    assert base > 0
    assert decode(site, job, batch=2 * batch, context=context) >= base
    assert decode(site, job, batch=batch, context=2 * context) > base


@settings(deadline=None)
@given(case=CASES, batch=st.integers(1, 128))
def test_tpot_latency_and_rate_of_a_batch(case: tuple[str, str], batch: int) -> None:
    """TPOT and latency grow with the batch, all figures are positive, and the rates belong together."""
    site, job = site_and_job(*case)
    small, large = state(site, job, batch=batch), state(site, job, batch=2 * batch)
    assert all(float(getattr(small, f.name)) > 0 for f in fields(Serving) if f.name != "on_host")
    assert large.tpot >= small.tpot
    assert large.latency >= small.latency
    assert large.ttft_unloaded == pytest.approx(float(small.ttft_unloaded))
    assert small.output_tokens_per_s == pytest.approx(256 * float(small.requests_per_s))


@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-3.1-70b"])
@pytest.mark.parametrize("batch", [1, 8, 32])
def test_fp8_weights_are_not_slower_to_read(model: str, batch: int) -> None:
    """Decode is bound by weight traffic, which 8-bit weights halve."""
    half, full = site_and_job(model, "h100-sxm5-80gb", "fp8"), site_and_job(model, "h100-sxm5-80gb")
    assert decode(*half, batch=batch, context=1024) <= decode(*full, batch=batch, context=1024)


@pytest.mark.parametrize("card", ["h100-sxm5-80gb", "a100-sxm4-80gb"])
def test_tensor_parallelism_shortens_a_token_of_a_70b_model_on_nvlink(card: str) -> None:
    """Each doubling reads half the weights per card; the all-reduces cost less than that."""
    site, job = site_and_job("llama-3.1-70b", card)
    times = [decode(site, job, batch=8, context=1024, plan=Plan(count=tp, tp=tp)) for tp in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    assert times[0] > 2 * times[3]


def test_replicas_multiply_the_rate_and_not_the_time() -> None:
    """Replicas do not talk to each other."""
    site, job = site_and_job("llama-3.1-8b", "h100-sxm5-80gb")
    one = state(site, job, batch=8)
    four = state(site, job, batch=8, plan=Plan(count=4, replicas=4))
    assert float(four.tpot) == pytest.approx(float(one.tpot))
    assert float(four.requests_per_s) == pytest.approx(4 * float(one.requests_per_s))


def test_a_decode_step_is_never_faster_than_reading_the_weights() -> None:
    """Peak bandwidth bounds the time of one sequence: 2 bytes per multiplied parameter."""
    for card in CARDS:
        site, job = site_and_job("llama-3.1-8b", card)
        read = 2.0 * (job.shape.params - job.shape.embedding_params)
        assert decode(site, job, batch=1, context=1) > read / site.device.bandwidth, card


def test_prefill_is_never_faster_than_the_peak() -> None:
    """2 N T flop at the dense peak bound the time of a prompt, and it grows with the prompt."""
    for card in CARDS:
        site, job = site_and_job("llama-3.1-8b", card)
        common = arguments(site, job, Plan())
        times = [float(prefill_time(**common, tokens=float(t))) for t in (128, 1024, 8192, 32_768)]
        assert times == sorted(times)
        flops = 2.0 * (job.shape.params - job.shape.embedding_params) * 8192
        assert times[2] > flops / site.device.peak, card


def test_a_mixture_reads_more_experts_in_a_larger_batch() -> None:
    """One sequence reads little more than the active part, a large batch nearly all."""
    site, job = site_and_job("mixtral-8x7b", "h100-sxm5-80gb")
    dense = replace(job, shape=replace(job.shape, n_experts=0))
    one = decode(site, job, batch=1, context=1) / decode(site, dense, batch=1, context=1)
    many = decode(site, job, batch=64, context=1) / decode(site, dense, batch=64, context=1)
    assert one < many


def test_capacity_follows_memory_context_and_weights() -> None:
    """More memory or shorter sequences hold more of them; weights that do not fit leave none."""
    shape = site_and_job("llama-3.1-8b", "h100-sxm5-80gb")[1].shape
    known: dict[str, Any] = {
        "shape": shape, "plan": Plan(), "engine": Engine(1.0, 1.0, 1.0), "usable_bytes": 80e9,
        "serving_share": 0.9, "weight_bytes": 16e9,
        "kv_bytes": 2.0, "context": 4096, "reserve": 1e9,
    }  # fmt: skip
    base = kv_capacity(**known)
    by_hand = (0.9 * 80e9 - 16e9 - 1e9) / (1.05 * 2 * 8 * 128 * 2 * 32 * 4096)
    assert base == np.floor(by_hand)
    assert kv_capacity(**{**known, "usable_bytes": 160e9}) > 2 * base
    assert kv_capacity(**{**known, "context": 8192}) == pytest.approx(base / 2, abs=1)
    assert kv_capacity(**{**known, "kv_bytes": 1.0}) == pytest.approx(base * 2, abs=1)
    assert kv_capacity(**{**known, "weight_bytes": 100e9}) == 0


def test_tensor_parallelism_holds_more_sequences() -> None:
    """Two cards hold more than twice as many: the weights are kept once; MLA keeps its cache on each."""
    site, job = site_and_job("llama-3.1-8b", "h100-sxm5-80gb")
    one, two = (
        kv_capacity(
            shape=job.shape, plan=Plan(count=n, tp=n), engine=Engine(1.0, 1.0, 1.0),
            usable_bytes=site.device.usable_bytes, serving_share=0.9, weight_bytes=site.weight_bytes,
            kv_bytes=job.kv_bytes, context=4096, reserve=1e9,
        )
        for n in (1, 2)
    )  # fmt: skip
    assert two > 2 * one > 0


@pytest.mark.parametrize("model", MODELS)
def test_scalars_and_arrays_agree(model: str) -> None:
    """One plan at a time gives what all plans at once give."""
    site, job = site_and_job(model, "h100-sxm5-80gb")
    plans = [Plan(count=tp * pp, tp=tp, pp=pp) for tp in (1, 2, 4, 8) for pp in (1, 2)]
    grid = state(site, job, batch=np.full(len(plans), 16.0), plan=stack(plans))
    for number, plan in enumerate(plans):
        alone = state(site, job, batch=16.0, plan=plan)
        for field in fields(Serving):
            array = np.broadcast_to(getattr(grid, field.name), (len(plans),))
            assert float(array[number]) == pytest.approx(float(getattr(alone, field.name)), rel=1e-12)


def test_spread_experts_are_held_once_and_attention_on_every_rank() -> None:
    """With 8 attention ranks a card holds the dense part and an eighth of the experts; nothing is lost."""
    site, job = site_and_job("deepseek-v3", "h100-sxm5-80gb", "fp8")
    assert site.engine is not None
    known: dict[str, Any] = {"shape": job.shape, "engine": site.engine, "weight_bytes": site.weight_bytes}
    split = weight_bytes_per_rank(plan=Plan(count=8, tp=8), **known)
    spread = weight_bytes_per_rank(plan=Plan(count=8, dp=8, ep=8), **known)
    experts = job.shape.expert_params * site.engine.expert_bytes
    assert 8 * split == pytest.approx(site.weight_bytes)
    assert spread == pytest.approx(site.weight_bytes - experts * 7 / 8)


def test_one_token_touches_little_of_a_mixture_and_many_touch_all() -> None:
    """Between the active part of one token and all weights but the input table."""
    site, job = site_and_job("deepseek-v3", "h100-sxm5-80gb", "fp8")
    assert site.engine is not None
    known: dict[str, Any] = {
        "shape": job.shape, "plan": Plan(), "engine": site.engine, "weight_bytes": site.weight_bytes,
        "moe_bandwidth": 1.0,
    }  # fmt: skip
    one, many = (float(touched_weight_bytes(tokens=n, **known)) for n in (1.0, 1e5))
    table = job.shape.embedding_params * site.engine.head_bytes
    assert many == pytest.approx(site.weight_bytes - table, rel=1e-3)
    assert 0.03 < one / many < 0.1  # 37 of 671 billion parameters


def test_mixed_steps_bound_the_wait_of_a_token() -> None:
    """Long prompts, short answers: a token waits for one chunk, not for whole prompts; rates are equal."""
    site, job = site_and_job("llama-3.1-8b", "h100-sxm5-80gb")
    assert site.engine is not None
    mixed, apart = (
        steady_state(
            **{**arguments(site, job, Plan()), "engine": replace(site.engine, mixed=flag, chunk=2048.0)},
            kv_bytes=2.0, input_tokens=32_000.0, output_tokens=100.0, batch=16.0,
        )
        for flag in (True, False)
    )  # fmt: skip
    assert mixed.tpot < 0.6 * apart.tpot
    assert float(mixed.requests_per_s) == pytest.approx(float(apart.requests_per_s))


def test_an_engine_compiled_for_one_length_reads_the_longest_cache() -> None:
    """A static cache costs what a longer context costs, and cores that split KV heads read it more often."""
    site, job = site_and_job("llama-3.1-8b", "h100-sxm5-80gb")
    assert site.engine is not None

    def tpot(output: float, **traits: Any) -> float:
        found = steady_state(
            **{**arguments(site, job, Plan(tp=8)), "engine": replace(site.engine, **traits)},
            kv_bytes=2.0, input_tokens=128.0, output_tokens=output, batch=8.0,
        )  # fmt: skip
        return float(found.tpot)

    assert tpot(8000.0, static=True) > tpot(8000.0)
    assert tpot(1.0, static=True) == pytest.approx(tpot(1.0), rel=0.01)
    assert tpot(8000.0, cores=2.0) > tpot(8000.0)


def test_a_ring_over_nodes_uses_all_their_ports() -> None:
    """Two nodes of eight: slower than one of sixteen, but not by the rate of one port."""
    site, job = site_and_job("llama-3.1-70b", "h100-sxm5-80gb")
    plan = Plan(count=16, tp=16)
    one_port = replace(site.device, network=site.device.network / 8.0)
    slow, fast = (
        float(decode_step_time(**{**arguments(site, job, plan), "device": device}, kv_bytes=2.0, batch=256,
                               context=1024))
        for device in (one_port, site.device)
    )  # fmt: skip
    assert slow > 1.2 * fast
    inside = replace(site.device, domain=16, per_node=16)
    assert fast > float(
        decode_step_time(**{**arguments(site, job, plan), "device": inside}, kv_bytes=2.0, batch=256,
                         context=1024)
    )  # fmt: skip


def test_a_pipeline_works_on_the_chunks_of_a_prompt_at_once() -> None:
    """Four stages and many chunks take nearly a quarter of the time; one chunk gains nothing."""
    site, job = site_and_job("llama-3.1-8b", "h100-sxm5-80gb")
    assert site.engine is not None

    def time(tokens: float, stages: int) -> float:
        common = {**arguments(site, job, Plan(count=stages, pp=stages))}
        common["engine"] = replace(site.engine, chunk=512.0)  # type: ignore[type-var]
        return float(prefill_time(**common, tokens=tokens))

    assert time(512.0, 4) == pytest.approx(time(512.0, 1))
    assert 0.25 < time(32_768.0, 4) / time(32_768.0, 1) < 0.4


def search(wish: dict[str, Any], card: str, count: int | None = None) -> Found:
    """Search of one card."""
    catalog, calibration = shipped()
    workload = Workload.from_mapping({"task": "inference", "gpus": [card], **wish})
    job, _notes = resolve_job(workload, catalog, calibration)
    assert isinstance(job, ServingJob)
    fixed = None if count is None else {card: count}
    sites = build_field(workload, job, catalog, calibration, fixed=fixed).sites
    return search_serving(sites, job, pins={}, calibration=calibration)


def test_one_node_serves_a_70b_model_at_five_requests_per_second() -> None:
    """Llama-3.1-70B, 1k in and 1k out, TTFT 500 ms, TPOT 50 ms: one node of H100 is enough."""
    wish = {"model": "llama-3.1-70b", "input_tokens": 1000, "output_tokens": 1000, "request_rate": "5/s",
            "ttft": "500ms", "tpot": "50ms"}  # fmt: skip
    found = search(wish, "h100-sxm5-80gb")
    least = min(found.fitting, key=lambda c: c.plan.count)
    assert least.plan.count <= 8
    assert least.serving is not None
    assert least.load is not None
    assert least.serving.requests_per_s >= 5.0
    assert least.load.ttft <= 0.5
    assert 0.2 < least.load.utilisation < 0.95


def test_a_percentile_asks_for_more_than_the_mean() -> None:
    """A bound on p99 that lies between mean and p99 is met without the percentile only."""
    wish: dict[str, Any] = {"model": "llama-3.1-8b", "request_rate": "10/s"}
    plain = search({**wish, "ttft": "10s"}, "h100-sxm5-80gb", 1).fitting[0].load
    assert plain is not None
    between = f"{500 * (plain.ttft + plain.ttft_tail):.1f}ms"
    assert search({**wish, "ttft": between}, "h100-sxm5-80gb", 1).fitting
    assert not search({**wish, "ttft": between, "percentile": "p99"}, "h100-sxm5-80gb", 1).fitting


def test_one_sequence_keeps_one_replica_busy() -> None:
    """Two cards and one sequence: the model is split over both, replicas would idle."""
    best = search({"model": "llama-3.1-8b", "concurrency": 1}, "h100-sxm5-80gb", 2).fitting[0]
    assert best.plan.replicas == 1
    assert best.serving is not None
    assert best.serving.output_tokens_per_s == pytest.approx(256 * best.serving.requests_per_s)


def test_a_rate_above_the_capacity_is_refused() -> None:
    """One card cannot complete thousands of requests per second, whatever the bounds."""
    assert not search({"model": "llama-3.1-8b", "request_rate": "5000/s"}, "h100-sxm5-80gb", 1).fitting


# engine, part of the card and of the model, rows at least, share inside the 80 % interval at least
MEASURED = [
    ("llama.cpp", "rtx-4090", "", 5, 0.7), ("llama.cpp", "rtx-3090", "", 5, 0.5),
    ("llama.cpp", "rtx-a6000", "", 3, 0.7), ("llama.cpp", "apple-m2-ultra", "", 3, 0.7),
    ("", "", "mixtral", 20, 0.6), ("", "", "deepseek-v3", 10, 0.5),
    ("vllm", "a100", "qwen2.5", 30, 0.8), ("sglang", "h20-", "qwen3", 20, 0.7),
    ("vendor-tuned", "", "llama-2-70b", 30, 0.8),
]  # fmt: skip


@cache
def validated() -> list[tuple[str, str, str, bool]]:
    """Engine, card, model and whether the interval holds the measured value, of every serving metric."""
    catalog, calibration = shipped()
    rows = [row for path in default_files() for row in read_measurements(path)[1]]
    by_id = {row["row_id"]: row for row in rows if "engine" in row}
    measured = [Measured(row, "inference", in_sample=True) for row in by_id.values()]
    found = evaluate(measured, catalog, calibration).rows
    return [
        (engine_id(by_id[p.row_id]), p.hardware, p.model.lower(), p.low <= p.measured <= p.high)
        for p in found
        if p.slice.startswith("serving") and p.metric != "peak_mem_gb" and p.low and p.high
    ]


@pytest.mark.parametrize(("engine", "card", "model", "least", "share"), MEASURED)
def test_measured_rows_lie_in_the_interval(
    engine: str, card: str, model: str, least: int, share: float
) -> None:
    """The published rows of the best known cards, engines and models."""
    inside = [
        held for e, c, m, held in validated() if (not engine or e == engine) and card in c and model in m
    ]
    assert len(inside) >= least
    assert sum(inside) >= share * len(inside)
