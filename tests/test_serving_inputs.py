"""What a serving request may say of its load and set-up, and what one owns: all of it moves the answer."""

import re
from functools import cache

import pytest

from gpuselect.advisor import estimate, recommend
from gpuselect.errors import InputError
from gpuselect.estimate.serving import tokens_per_step
from gpuselect.plan import serving_plans
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.report.describe import cost_parts
from gpuselect.search import site_counts
from gpuselect.workload import Workload

ASKED = {"task": "inference", "model": "llama-3.1-8b", "input_tokens": 2048, "output_tokens": 256}
CARD = "h100-sxm5-80gb"


@cache
def data():
    """Everything that the advisor is called with."""
    return load_catalog(), load_calibration(), load_defaults()


def answer(asked, count=1, card=CARD):
    """What a workload does on some cards."""
    return estimate(Workload.from_mapping(asked), [(count, card)], *data(), today="2026-11-01")


def figures(asked, **more):
    """Metrics of the best plan on one card."""
    return {k: v.value for k, v in answer(asked, **more).option.performance.items()}


def decided(asked):
    """The decision for a workload."""
    return recommend(Workload.from_mapping(asked), *data(), today="2026-11-01")


def test_cached_prompts_shorten_the_first_token_alone():
    """Nine tenths of the prompt cached: less prefill, the same decode of one sequence."""
    plain = figures(ASKED | {"concurrency": 1})
    cached = figures(ASKED | {"concurrency": 1, "prefix_hits": "90%"})
    assert cached["ttft_ms"] < 0.8 * plain["ttft_ms"]
    assert cached["tpot_ms"] == pytest.approx(plain["tpot_ms"])
    codes = [n.code for n in answer(ASKED | {"prefix_hits": "90%"}).assumptions]
    assert "prefix-cache-given" in codes


def test_drafts_pay_by_their_acceptance():
    """A good draft shortens a token of one sequence, a bad one lengthens it; at most its tokens a step."""
    plain = figures(ASKED | {"concurrency": 1})["tpot_ms"]
    good = figures(ASKED | {"concurrency": 1, "acceptance": "80%"})["tpot_ms"]
    bad = figures(ASKED | {"concurrency": 1, "acceptance": "5%"})["tpot_ms"]
    assert plain / tokens_per_step(0.8, 4) < good < 0.7 * plain
    assert bad > plain
    given = [a.code for a in answer(ASKED | {"concurrency": 1, "acceptance": "80%"}).advice]
    assert "speculative-decoding" not in given
    with pytest.raises(InputError, match="--acceptance"):
        answer(ASKED | {"drafted": 4})


def test_bursts_lengthen_the_wait():
    """The same rate in bursts waits longer, at the percentile more than on average."""

    def wait(arrivals):
        warnings = answer(ASKED | {"request_rate": "4/s", "arrivals": arrivals}).option.warnings
        text = next(warning.text for warning in warnings if warning.code == "queue-stable")
        return [float(n) for n in re.findall(r"([\d.]+) ms", text)]

    random, bursts = wait("poisson"), wait("bursty")
    assert bursts[0] > random[0]
    assert bursts[1] / random[1] > bursts[0] / random[0]


def test_layers_that_do_not_fit_stay_with_the_processor():
    """70B at 4 bits on one 24 GB card: not without, slowly with the host; nothing moves where all fits."""
    asked = ASKED | {"model": "llama-3.1-70b", "weights": "q4_k_m", "concurrency": 1}
    assert answer(asked, card="rtx-4090-24gb").option is None
    helped = answer(asked | {"offload": "cpu"}, card="rtx-4090-24gb")
    option = helped.option
    assert option.framework.id == "llama.cpp"
    assert option.memory.per_accelerator_gib <= option.memory.usable_gib
    assert 0.3 < option.performance["output_tok_s"].value < 6
    assert "layers-on-host" in [w.code for w in option.warnings]
    small = ASKED | {"weights": "q4_k_m", "concurrency": 1, "engine": "llama.cpp"}
    with_host = figures(small | {"offload": "cpu"}, card="rtx-4090-24gb")
    assert with_host == pytest.approx(figures(small, card="rtx-4090-24gb"))


def test_the_largest_load_within_the_bounds_holds_when_it_is_asked_for():
    """What is named is met; a tenth more is not."""
    bounds = {"ttft": "500ms", "tpot": "30ms"}
    limits = {limit.code: limit.value for limit in answer(ASKED | bounds).limits}
    rate, most = limits["requests-per-hour-in-bounds"] / 3600, limits["concurrency-in-bounds"]
    assert answer(ASKED | bounds | {"request_rate": f"{0.98 * rate}/s"}).option is not None
    assert answer(ASKED | bounds | {"request_rate": f"{1.1 * rate}/s"}).option is None
    assert answer(ASKED | bounds | {"concurrency": most}).option is not None
    assert answer(ASKED | bounds | {"concurrency": round(1.1 * most) + 1}).option is None
    assert "requests-per-hour-in-bounds" not in {limit.code for limit in answer(ASKED).limits}


def test_prompt_and_answer_tokens_share_the_cost():
    """Both kinds together pay what the answer tokens paid alone, and a prompt token is the cheaper one."""
    cost = answer(ASKED).option.cost
    together = cost.per_million_input_usd * 2048 + cost.per_million_output_usd * 256
    assert together == pytest.approx(cost.per_million_tokens_usd * 256)
    assert cost.per_million_blended_usd * (2048 + 256) == pytest.approx(together)
    assert cost.per_million_input_usd < cost.per_million_output_usd
    assert any("input tokens" in part for part in cost_parts(cost))


def test_a_user_sees_the_reciprocal_of_the_time_per_token():
    """Tokens per second and user."""
    found = figures(ASKED | {"concurrency": 32})
    assert found["tok_s_per_user"] == pytest.approx(1e3 / found["tpot_ms"])


def test_some_of_the_cards_that_one_owns_may_stay_idle():
    """Three cards: two of them, or layers over all three where the engine can; never thirds of heads."""
    assert site_counts(None, max_count=16, fixed=3, owned=True) == (1, 2, 3)
    for by_layers, more in ((False, set()), (True, {(1, 3, 1)})):
        plans = serving_plans(count=3, n_heads=64, n_layers=80, max_tp=8, pins={}, by_layers=by_layers)
        assert {(p.tp, p.pp, p.replicas) for p in plans} == {(1, 1, 3)} | more
    large = ASKED | {"model": "llama-3.1-70b", "have": "3x3090", "concurrency": 1}
    best = decided(large | {"weights": "int4-awq"})
    assert (best.recommendations[0].count, best.recommendations[0].plan.tp) == (2, 2)
    whole = decided(large | {"weights": "q6_k", "engine": "llama.cpp"})
    assert (whole.recommendations[0].count, whole.recommendations[0].plan.pp) == (3, 3)


def test_narrower_weights_where_the_usual_ones_do_not_fit():
    """A 70B model on three 3090: the widest format that fits is taken and said; a named one stays."""
    found = decided(ASKED | {"model": "llama-3.1-70b", "have": "3x3090", "concurrency": 1})
    assert found.recommendations[0].weights not in ("bf16", "fp16")
    assert found.assumptions[0].code == "weights-stepped-down"
    assert not decided(
        ASKED | {"model": "llama-3.1-70b", "weights": "bf16", "have": "3x3090"}
    ).recommendations
    fits = decided(ASKED | {"have": "3x3090"})
    assert fits.recommendations[0].weights == "bf16"
