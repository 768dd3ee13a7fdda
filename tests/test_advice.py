"""Which optimisations are advised: only what the numbers support, with code, effect and risk."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from gpuselect import optimisations as effects
from gpuselect.advice import advice_of, supported
from gpuselect.advisor import estimate, recommend, resolve_job
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.cli import main
from gpuselect.cli.explain_code import catalog_rules
from gpuselect.decision import Advice
from gpuselect.deployment import build_field
from gpuselect.effects import CAP, CAPPED_CLOCK, Effect
from gpuselect.estimate.serving import tokens_per_step
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.network_job import NetworkJob
from gpuselect.optimisations import Run
from gpuselect.optimisations_network import Training, data_loading, network_precision
from gpuselect.optimisations_serving import (
    Service,
    Vision,
    compiled_runtime,
    continuous_batching,
    int8_inference,
    kv_quantisation,
    mig_slices,
    sparsity,
    speculative_decoding,
    split_or_replicas,
    weight_quantisation,
)
from gpuselect.plan import Plan
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.search import Site
from gpuselect.workload import Workload

TODAY = "2026-11-30"
GIGA = 1e9


@cache
def shipped() -> tuple[Catalog, Calibration]:
    """Catalog and constants."""
    return load_catalog(), load_calibration()


def asked(card: str, count: int, **wishes: Any) -> tuple[Any, Site, Workload]:
    """Job and site of a request on given cards."""
    catalog, calibration = shipped()
    request = Workload.from_mapping(wishes)
    job, _notes = resolve_job(request, catalog, calibration)
    job = replace(job, max_count=count)
    field = build_field(request, job, catalog, calibration, fixed={card: count})
    return job, field.sites[0], request


def run_of(card: str, plan: Plan, **wishes: Any) -> Run:
    """A training run with a given plan."""
    job, site, request = asked(card, int(plan.count), **wishes)
    assert isinstance(job, TrainingJob)
    return Run(job, site, plan, request, *shipped(), float(site.device.usable_bytes))


def service_of(card: str, batch: float, *, tp: int = 1, **wishes: Any) -> Service:
    """A service with a given batch per replica."""
    job, site, _request = asked(card, tp, task="inference", **wishes)
    assert isinstance(job, ServingJob)
    return Service(job, site, Plan(count=tp, tp=tp), batch, *shipped())


def vision_of(card: str, batch: float, **wishes: Any) -> Vision:
    """A network on one card with a given batch."""
    job, site, _request = asked(card, 1, task="inference", **wishes)
    assert isinstance(job, NetworkJob)
    return Vision(job, site, batch, *shipped())


def memory(effect: Effect | None) -> float:
    """Need with over need without."""
    assert effect is not None
    assert effect.memory is not None
    return float(effect.memory[1] / effect.memory[0])


def time(effect: Effect | None) -> float:
    """Time with over time without."""
    assert effect is not None
    assert effect.seconds is not None
    return float(effect.seconds[1] / effect.seconds[0])


def pretrained(**plan: Any) -> Run:
    """A 7B pretraining run on eight H100."""
    layout = {"count": 8, "dp": 8, "zero_stage": 1, "micro_batch": 1, "grad_accum": 8, **plan}
    return run_of("h100-sxm5-80gb", Plan(**layout), task="pretrain", params="7B", global_batch=64)


def test_sixteen_bit_is_faster_and_no_half_of_the_memory() -> None:
    """States keep their 16 bytes and more: less than a third of the memory goes."""
    effect = effects.mixed_precision(pretrained())
    assert time(effect) < 0.75
    assert 0.5 < memory(effect) < 1.0


def test_fp8_needs_a_card_and_a_library_that_have_it() -> None:
    """H100 gains, A100 has no rate; adapters keep 16 bit; the library is named."""
    effect = effects.fp8_training(pretrained())
    assert effect is not None
    assert 0.5 < time(effect) < 0.95
    assert "Megatron" in effect.what or "FSDP" in effect.what or "NeMo" in effect.what
    plan = Plan(count=1, micro_batch=1, grad_accum=64)
    older = run_of("a100-sxm4-80gb", plan, task="finetune", method="full", params="1B", global_batch=64)
    assert effects.fp8_training(older) is None
    adapter = run_of("h100-sxm5-80gb", plan, task="finetune", method="lora", params="1B", global_batch=64)
    assert effects.fp8_training(adapter) is None


def test_checkpointing_trades_time_for_memory() -> None:
    """Full costs about a third and keeps least, selective lies between."""
    full, selective = effects.recompute(pretrained()), effects.recompute_selective(pretrained())
    assert 1.1 < time(full) < 1.45
    assert memory(full) < memory(selective) < 1.0
    assert 1.0 < time(selective) < time(full)
    used = effects.recompute(pretrained(recompute=2))
    assert used is not None
    assert used.in_use
    assert used.code == "recompute-full"


def test_square_root_checkpointing_pays_where_inputs_fill_the_memory() -> None:
    """Deep models keep more inputs than layers alive; with few layers one checkpoint each is best."""
    layout = {"count": 8, "dp": 8, "zero_stage": 3, "recompute": 2, "micro_batch": 1, "grad_accum": 8}
    shallow = run_of("h100-sxm5-80gb", Plan(**layout), task="pretrain", params="7B", global_batch=64)
    assert effects.recompute_sqrt(shallow) is None
    run = run_of("h100-sxm5-80gb", Plan(**layout), task="pretrain", params="70B", global_batch=64)
    effect = effects.recompute_sqrt(run)
    assert effect is not None
    assert time(effect) == 1.0
    assert effect.memory is not None
    assert effect.memory[1] < effect.memory[0]
    assert effects.recompute_sqrt(pretrained()) is None


def test_accumulation_holds_one_part_at_a_time() -> None:
    """One pass over the whole batch needs more memory; the global batch stays."""
    effect = effects.accumulation(pretrained())
    assert memory(effect) < 0.7
    bigger = effects.larger_micro_batch(pretrained())
    assert memory(bigger) > 1.0
    assert time(bigger) < 1.01


def test_zero_divides_states_and_offload_moves_them() -> None:
    """Stage 1 frees three quarters of the 16 bytes over eight ranks; stage 3 nearly all; the host is slow."""
    run = pretrained()
    plain = effects.zero_stage(run)
    assert plain is not None
    assert plain.memory is not None
    saved = plain.memory[0] - plain.memory[1]
    states = 12.0 * run.job.shape.params * 7.0 / 8.0
    assert saved == pytest.approx(states * float(run.calibration.memory.fragmentation), rel=0.02)
    assert memory(effects.higher_zero_stage(run)) < 1.0
    offload = effects.optimizer_offload(run)
    assert memory(offload) < 1.0
    assert time(offload) > 1.0


def test_a_pipeline_pays_for_its_bubble() -> None:
    """Interleaving divides the bubble by the stages of a rank; zero bubble keeps a third."""
    layout = {"dp": 2, "pp": 4, "grad_accum": 32}
    plain = effects.pipeline_schedule(pretrained(**layout))
    assert plain is not None
    assert not plain.in_use
    bubble = 3.0 / 32.0 / (1.0 + 3.0 / 32.0)
    assert time(plain) == pytest.approx(1.0 - 2.0 / 3.0 * bubble, abs=0.02)
    interleaved = effects.pipeline_schedule(pretrained(virtual=4, **layout))
    assert interleaved is not None
    assert interleaved.in_use
    assert time(interleaved) == pytest.approx(1.0 - 3.0 / 4.0 * bubble, abs=0.02)


def test_a_split_is_set_against_the_plainest_layout() -> None:
    """One stream of a model that fits a card is faster over two; a copy of a 70B does not fit one."""
    two = split_or_replicas(service_of("h100-sxm5-80gb", 1.0, tp=2, model="llama-3.1-8b", concurrency=1))
    assert time(two) < 1.0
    large = split_or_replicas(service_of("h100-sxm5-80gb", 1.0, tp=2, model="llama-3.1-70b"))
    assert large is not None
    assert large.memory is not None
    assert large.memory[1] < 80e9 < large.memory[0]
    assert split_or_replicas(service_of("h100-sxm5-80gb", 1.0, model="llama-3.1-8b")) is None
    assert effects.parallel_layout(pretrained()) is None
    split = effects.parallel_layout(pretrained(tp=8, dp=1, grad_accum=64))
    assert split is not None
    assert split.in_use


def test_compression_and_rdma_act_on_exposed_traffic_only() -> None:
    """Inside a node of fast links nothing is exposed; between slow cards half of the exposed part goes."""
    assert time(effects.gradient_compression(pretrained())) == pytest.approx(1.0, abs=0.02)
    plan = Plan(count=8, dp=8, zero_stage=1, micro_batch=1, grad_accum=1)
    slow = run_of("rtx-4090-24gb", plan, task="finetune", method="full", params="1B", global_batch=8,
                  seq_len=512)  # fmt: skip
    step = slow.step()
    effect = effects.gradient_compression(slow)
    share = float(step.gradient_sync) / float(step.total)
    assert 1.0 - share < time(effect) < 1.0 - 0.3 * share
    assert effects.rdma(pretrained(), 1) is None
    many = run_of("h100-sxm5-80gb", Plan(count=64, dp=64, zero_stage=3, micro_batch=1, grad_accum=1),
                  task="pretrain", params="7B", global_batch=64)  # fmt: skip
    assert time(effects.rdma(many, 8)) < 0.9


def test_no_fused_attention_where_no_kernel_runs() -> None:
    """FlashAttention 2 stops at compute capability 8.0."""
    plan = Plan(count=1, micro_batch=1, grad_accum=64)
    wishes = {"task": "finetune", "method": "lora", "params": "1B", "global_batch": 64}
    assert effects.fused_attention(run_of("v100-sxm2-32gb", plan, **wishes)) is None
    effect = effects.fused_attention(run_of("a100-sxm4-80gb", plan, **wishes))
    assert time(effect) < 1.0
    assert memory(effect) < 1.0


def test_fragmentation_is_what_an_allocator_could_free() -> None:
    """The fitted share of what is allocated, nothing of the driver's."""
    run = pretrained()
    effect = effects.allocator_settings(run)
    assert effect.memory is not None
    fragmentation = float(run.calibration.memory.fragmentation)
    context = float(run.calibration.memory.training_context_gib) * 2**30
    allocated = effect.memory[1] - context
    assert effect.memory[0] - effect.memory[1] == pytest.approx((fragmentation - 1.0) * allocated)


def test_a_power_cap_slows_arithmetic_only() -> None:
    """Never more than the clock, and energy is power times time."""
    effect = effects.power_cap(pretrained())
    assert 1.0 < time(effect) < 1.0 / CAPPED_CLOCK
    assert effect.energy_ratio == pytest.approx(CAP * time(effect))
    decoding = service_of("h100-sxm5-80gb", 1.0, model="llama-3.1-8b", concurrency=1)
    from gpuselect.optimisations_serving import service_power_cap

    assert time(service_power_cap(decoding)) < time(effect)


def test_the_format_is_one_that_card_and_engine_run() -> None:
    """AWQ never on ROCm; a single stream takes 4 bit, because it only reads; fp8 is not narrowed."""
    alone = weight_quantisation(service_of("h100-sxm5-80gb", 1.0, model="llama-3.1-8b", concurrency=1))
    assert alone is not None
    assert alone.what.startswith("int4-")
    assert time(alone) < 0.6
    amd = weight_quantisation(service_of("mi300x-192gb", 1.0, model="llama-3.1-8b", concurrency=1))
    assert amd is None or not amd.what.startswith("int4-")
    narrow = service_of("h100-sxm5-80gb", 1.0, model="llama-3.1-8b", concurrency=1, weights="fp8")
    assert weight_quantisation(narrow) is None


def test_the_cache_halves_where_the_engine_offers_it() -> None:
    """An fp8 cache in vLLM; llama.cpp says nothing of one."""
    wishes: dict[str, Any] = {"model": "llama-3.1-8b", "concurrency": 64}
    service = service_of("h100-sxm5-80gb", 64.0, **wishes)
    effect = kv_quantisation(service)
    assert effect is not None
    assert effect.memory is not None
    half = 0.5 * 1.05 * 64 * 1280 * 131_072.0  # 32 layers, 8 heads of 128, keys and values of 2 bytes
    assert effect.memory[0] - effect.memory[1] == pytest.approx(half, rel=0.01)
    assert kv_quantisation(service_of("h100-sxm5-80gb", 64.0, engine="llama.cpp", **wishes)) is None


def test_batching_shares_the_reading_of_weights() -> None:
    """Thirty-two together are over ten times as fast as one after the other; one alone has no effect."""
    wishes: dict[str, Any] = {"model": "llama-3.1-8b", "concurrency": 32}
    assert time(continuous_batching(service_of("h100-sxm5-80gb", 32.0, **wishes))) < 0.1
    assert continuous_batching(service_of("h100-sxm5-80gb", 1.0, **wishes)) is None


def test_drafts_pay_while_the_check_waits_for_memory() -> None:
    """The acceptance from which it pays rises with the batch; the expectation is that of the paper."""
    assert tokens_per_step(0.8, 4) == pytest.approx(3.3616)
    alone = speculative_decoding(service_of("h100-sxm5-80gb", 1.0, model="llama-3.1-70b", tp=2))
    busy = speculative_decoding(service_of("h100-sxm5-80gb", 256.0, model="llama-3.1-8b", concurrency=256))
    assert alone is not None
    assert time(alone) < 0.65
    assert busy is None or time(busy) > time(alone)


def test_runtimes_and_integers_of_a_network() -> None:
    """TensorRT beats eager PyTorch at batch 1; int8 and sparse weights gain less than peaks."""
    vision = vision_of("t4-16gb", 1.0, model="resnet-50")
    assert time(compiled_runtime(vision)) < 0.7
    full = vision_of("a100-sxm4-80gb", 64.0, model="resnet-50")
    assert 0.5 < time(int8_inference(full)) < 1.0
    assert 0.5 < time(sparsity(full)) < 1.0
    assert sparsity(vision_of("t4-16gb", 64.0, model="resnet-50")) is None


def test_slices_pay_for_a_network_that_does_not_fill_the_card() -> None:
    """At batch 1 launches rule, and seven slices do several times the work; a bound can forbid them."""
    small = mig_slices(vision_of("a100-sxm4-80gb", 1.0, model="resnet-50"))
    large = mig_slices(vision_of("a100-sxm4-80gb", 256.0, model="resnet-50"))
    assert time(small) < 0.5
    assert large is None or time(large) > 0.85
    assert mig_slices(vision_of("l4-24gb", 1.0, model="resnet-50")) is None
    bound = vision_of("a100-sxm4-80gb", 64.0, model="resnet-50", latency="1ms")
    assert mig_slices(bound) is None


def test_input_of_a_network_is_counted_against_the_step() -> None:
    """Decoded images over the slot: bytes of a batch by rate; a decoder of text has no such effect."""
    catalog, calibration = shipped()
    job, site, _request = asked("a100-pcie-80gb", 1, task="pretrain", model="resnet-50", batch=256)
    training = Training(job, site, Plan(micro_batch=256), catalog, calibration)
    effect = data_loading(training)
    assert effect is not None
    assert effect.seconds is not None
    copied = 1000 * 3 * 224**2 * 4.0 / (float(site.accelerator.pcie_one_way_gb_s or 0.0) * GIGA)
    assert effect.seconds[0] - effect.seconds[1] == pytest.approx(copied)
    assert time(network_precision(training)) < 1.0


def test_only_what_numbers_support_is_advised() -> None:
    """Slower, no gain, or a need beyond the memory: no advice. Upper bounds must promise more."""
    usable = 80.0 * GIGA
    slower = Effect("zero-stage", "", in_use=False, memory=(60e9, 50e9), seconds=(1.0, 1.2))
    assert not supported(slower, usable=usable, short=False)
    assert supported(slower, usable=usable, short=True)
    assert not supported(replace(slower, memory=(99e9, 90e9)), usable=usable, short=True)
    assert not supported(replace(slower, code="fused-kernels"), usable=usable, short=True)
    faster = Effect("fp8-training", "", in_use=False, memory=(60e9, 60e9), seconds=(1.0, 0.9))
    assert supported(faster, usable=usable, short=False)
    assert not supported(replace(faster, seconds=(1.0, 0.99)), usable=usable, short=False)
    assert not supported(replace(faster, memory=(60e9, 81e9)), usable=usable, short=False)
    assert not supported(replace(faster, code="sparsity-2-4"), usable=usable, short=False)
    idle = Effect("power-cap", "", in_use=False, seconds=(1.0, 1.12), energy_ratio=0.9)
    assert not supported(idle, usable=usable, short=False)
    assert supported(replace(idle, seconds=(1.0, 1.02), energy_ratio=0.82), usable=usable, short=False)


def advised(count: int, card: str, **wishes: Any) -> tuple[Advice, ...]:
    """What is advised on given hardware."""
    catalog, calibration = shipped()
    request = Workload.from_mapping(wishes)
    return estimate(request, [(count, card)], catalog, calibration, load_defaults(), today=TODAY).advice


REQUESTS = (
    (8, "h100-sxm5-80gb", {"task": "pretrain", "params": "7B"}),
    (1, "l40s-48gb", {"task": "inference", "model": "llama-3.1-8b", "concurrency": 16}),
    (1, "t4-16gb", {"task": "inference", "model": "resnet-50"}),
    (1, "rtx-4090-24gb", {"task": "pretrain", "model": "resnet-50"}),
    (1, "a100-sxm4-80gb", {"task": "finetune", "model": "llama-3.1-8b"}),
)


@pytest.mark.parametrize(("count", "card", "wishes"), REQUESTS)
def test_advice_has_code_effect_and_risk(count: int, card: str, wishes: dict[str, Any]) -> None:
    """Every item names a documented code, moves time, memory or energy, and says what the risk is."""
    catalog = shipped()[0]
    found = advised(count, card, **wishes)
    assert found
    for item in found:
        assert item.code in catalog.optimisations
        assert "accuracy risk: " in item.text
        without, with_ = item.seconds or (1.0, 1.0)
        before, after = item.memory_gib or (0.0, 0.0)
        assert with_ < without or after < before or (item.energy_ratio or 1.0) < 1.0
        if item.usd is not None and item.seconds is not None:
            assert item.usd[1] / item.usd[0] == pytest.approx(with_ / without)


def test_a_miss_is_told_what_lets_it_fit() -> None:
    """Full fine-tuning of 8B on one 80 GB card: the optimizer must leave the card."""
    found = {item.code: item for item in advised(1, "a100-sxm4-80gb", task="finetune", model="llama-3.1-8b")}
    assert set(found) == {"optimizer-offload"}
    pair = found["optimizer-offload"].memory_gib
    assert pair is not None
    assert pair[1] < 80.0 < pair[0]


def test_a_risk_without_a_source_is_not_known() -> None:
    """A format that the study of formats did not test says so."""
    catalog = shipped()[0]
    effect = Effect("weight-quantisation", "nvfp4", in_use=False, seconds=(1.0, 0.5), risk_known=False)
    assert "accuracy risk: not known" in advice_of(effect, None, catalog).text
    assert "lossless" in advice_of(replace(effect, risk_known=True), None, catalog).text


def test_every_optimisation_is_explained() -> None:
    """`explain` knows each code: what it is, which estimate computes it, and the risk."""
    rules = catalog_rules({"quiet": True})
    for code in shipped()[0].optimisations:
        assert "The effect is computed" in rules[code].text
        assert "Accuracy risk" in rules[code].text
    out = io.StringIO()
    with pytest.raises(SystemExit) as leaving, redirect_stdout(out):
        main(["explain", "kv-quantisation"])
    assert leaving.value.code in (0, None)
    assert rules["kv-quantisation"].override in out.getvalue()


def test_every_computed_code_is_in_the_catalog() -> None:
    """Codes of effects and entries of data/optimisations.yaml are the same."""
    import re
    from pathlib import Path

    folder = Path(__file__).parents[1] / "src" / "gpuselect"
    text = "".join((folder / name).read_text("utf-8") for name in (
        "effects.py", "optimisations.py", "optimisations_serving.py", "optimisations_network.py",
    ))  # fmt: skip
    codes = set(re.findall(r'(?:Effect\(|_both\(\s*run,|\.effect\()\s*"([a-z0-9-]+)"', text))
    codes |= {"recompute-full", "recompute-selective"}
    assert codes == set(shipped()[0].optimisations)


def test_a_recommendation_shows_what_pays() -> None:
    """In the decision, for the first option only, strongest first; what is in use comes last."""
    catalog, calibration = shipped()
    request = Workload.from_mapping({"task": "pretrain", "params": "7B", "gpus": "h100"})
    decision = recommend(request, catalog, calibration, load_defaults(), today=TODAY)
    used = [item.in_use for item in decision.advice]
    assert used == sorted(used)
    assert "fp8-training" in {item.code for item in decision.advice}
