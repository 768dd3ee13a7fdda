"""What a report adds to a decision: measured neighbours, growth, acceptance test, risks, curves."""

from dataclasses import replace
from functools import cache

import pytest

from gpuselect.advisor import estimate, recommend
from gpuselect.curves import field_of_cards, scaling_of, telling_metric
from gpuselect.decision import Estimate, MemoryFit, Option
from gpuselect.money_records import Cost, Offer
from gpuselect.neighbours import Query, nearest_rows, short
from gpuselect.outlook import with_outlook
from gpuselect.plan import Plan
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.risks import risks_of
from gpuselect.workload import Workload

TODAY = "2026-11-30"
CHAT = {"task": "inference", "model": "llama-3.1-8b", "request_rate": "5/s", "gpus": ["l40s", "a100"]}
TRAIN = {"task": "pretrain", "params": "7B", "tokens": "20B", "gpus": ["h100", "a100"]}


@cache
def known():
    """Catalog, constants and defaults of the package."""
    return load_catalog(), load_calibration(), load_defaults()


def whole(request):
    """The decision of a request with its outlook."""
    workload = Workload.from_mapping(request)
    return with_outlook(recommend(workload, *known(), today=TODAY), workload, *known(), today=TODAY)


@pytest.fixture(scope="module")
def chat():
    """Serving."""
    return whole(CHAT)


@pytest.fixture(scope="module")
def train():
    """Training."""
    return whole(TRAIN)


def query(**fields):
    """A query for an 8B model in training on eight H100."""
    catalog = known()[0]
    given = {
        "layout": "training", "card": catalog.accelerators["h100-sxm5-80gb"], "count": 8,
        "model": catalog.models["llama-3.1-8b"], "params_b": 8.0, "families": ("dense-decoder",),
        "words": {"method": ("pretrain",), "compute_precision": ("bf16",)}, "numbers": {"seq_len": 4096},
    }  # fmt: skip
    return Query(**(given | fields))


def row(number, **cells):
    """A measured row with invented figures."""
    return {
        "row_id": f"r{number}", "source_id": f"s{number}", "source_title": f"Title {number}",
        "hardware": "h100-sxm5-80gb", "n_accel": "8", "model_name": "Llama-3.1-8B", "params_b": "8",
        "family": "dense-decoder", "method": "pretrain", "compute_precision": "bf16", "seq_len": "4096",
        "tokens_per_s_per_accel": "10000",
    } | cells  # fmt: skip


def near(rows, **fields):
    """Ids of the rows that are found, in order."""
    catalog, calibration, _defaults = known()
    return [found.row_id for found in nearest_rows(rows, query(**fields), catalog, calibration)]


def test_nearest_rows_come_in_order_of_what_differs():
    """The same run first; more cards, another model and another card move a row back."""
    rows = [
        row(1, hardware="a100-sxm4-80gb"), row(2, n_accel="64"), row(3),
        row(4, model_name="Llama-2-70B", params_b="70"),
    ]  # fmt: skip
    assert near(rows) == ["r3", "r2", "r1"]


def test_rows_of_other_work_are_no_neighbours():
    """Out of memory, another family, no rate, an unknown card."""
    rows = [
        row(1, outcome="oom"), row(2, family="cnn"), row(3, tokens_per_s_per_accel=""),
        row(4, hardware="generic-80gb"), row(5),
    ]  # fmt: skip
    rows[2].pop("tokens_per_s_per_accel")
    assert near(rows) == ["r5"]


def test_one_source_gives_two_rows_at_most_and_no_run_twice():
    """Three runs of one source: two stay; the same run with another batch counts once."""
    rows = [row(n, source_id="one", n_accel=str(8 * 2**n)) for n in range(3)] + [row(9, source_id="two")]
    assert len(near(rows)) == 3
    assert len(near([row(1, source_id="one"), row(2, source_id="one", seq_len="2048")])) == 1


def test_a_neighbour_says_where_it_differs_and_what_we_predict():
    """Words for each difference; the prediction is that of the row itself."""
    catalog, calibration, _defaults = known()
    found = nearest_rows([row(1, n_accel="16", seq_len="2048")], query(), catalog, calibration)[0]
    assert found.differs == ("16 instead of 8 accelerators", "seq len 2048")
    assert found.same_card
    assert found.measured == 10000.0
    assert 3000 < found.predicted < 30000


def test_versions_leave_the_name_of_a_framework():
    """A name without a version stays whole."""
    assert short("vllm 0.9.2, CUDA 12.8") == "vllm"
    assert short("HF Transformers + DeepSpeed") == "HF Transformers + DeepSpeed"


@pytest.mark.parametrize("fixture", ["chat", "train"])
def test_growth_is_what_the_engine_says_of_twice_the_work(fixture, request):
    """The same count on the same card, asked again on its own, does twice the work."""
    decision = request.getfixturevalue(fixture)
    growth, first = decision.growth, decision.recommendations[0]
    assert growth.same.accelerator == first.accelerator
    assert growth.added == growth.same.count - first.count >= 0
    if fixture == "chat":
        assert growth.same.performance["requests_per_s"].value == pytest.approx(10.0, rel=0.01)
        asked = Workload.from_mapping({**CHAT, "request_rate": "10/s", "concurrency": 16, "gpus": ()})
        cards = [(growth.same.count, growth.same.accelerator)]
        assert estimate(asked, cards, *known(), today=TODAY).state != "no"
    else:
        now = first.performance["time_to_train_days"].value
        assert growth.same.performance["time_to_train_days"].value <= 1.06 * now


def test_work_without_an_amount_has_no_growth():
    """A network without a rate names nothing to double."""
    decision = whole({"task": "inference", "model": "resnet-50", "gpus": ["l4"]})
    assert decision.growth is None


def test_acceptance_steps_are_those_of_the_launch_files(chat):
    """The command that the launch folder carries."""
    assert any(step.command == "./acceptance.sh" for step in chat.acceptance)


def test_curves_hold_what_the_options_hold(train):
    """The chosen card stands in both with the figures of the decision; efficiency begins at one."""
    first = train.recommendations[0]
    chosen = next(p for p in train.scaling.points if p.count == first.count)
    assert chosen.estimate == first.performance["time_to_train_days"]
    assert chosen.cost_usd == pytest.approx(first.cost.per_run_usd)
    assert train.scaling.points[0].efficiency == 1.0
    point = next(p for p in train.field.points if p.accelerator == first.accelerator)
    assert point.cost_usd == pytest.approx(first.cost.per_run_usd)
    front = [p for p in train.field.points if p.on_front]
    assert front
    for a in train.field.points:
        assert a.on_front != any(
            b.value <= a.value and b.cost_usd <= a.cost_usd and (b.value, b.cost_usd) != (a.value, a.cost_usd)
            for b in train.field.points
        )


def made(count, usd, **metrics):
    """An option with invented metrics."""
    return Option(
        "card", "Card", count, 1, Plan(count=count), "bf16", "", "", None, MemoryFit(1, 2, {}, "fits"),
        {key: Estimate(value, value, value) for key, value in metrics.items()}, cost=Cost(per_month_usd=usd),
    )  # fmt: skip


def test_services_that_meet_one_demand_are_told_apart_by_their_wait():
    """The rate is the demand at every count, so the curve is that of the latency."""
    options = [made(n, 10.0 * n, output_tok_s=1300.0, latency_ms=8000.0 / n) for n in (1, 2, 4)]
    assert telling_metric(options) == "latency_ms"
    assert scaling_of(options[0], options).points[0].efficiency is None
    assert telling_metric([made(1, 1.0, streams=9.0), made(2, 2.0, streams=18.0)]) == "streams"
    assert field_of_cards(options[:1]) is None


def test_risks_state_the_facts_they_rest_on(train):
    """Supply, age of price, support and vendor are always said; each holds its figure."""
    catalog = known()[0]
    codes = {note.code: note.text for note in train.risks}
    assert {"supply", "price-age", "end-of-support", "single-vendor"} <= set(codes)
    first = train.recommendations[0]
    old = Offer("cloudco", "x8", "eu", "on-demand", "2024-11-30", "s", is_offer=True)
    aged = replace(first, cost=replace(first.cost, offer=old, basis="rent"))
    text = next(n.text for n in risks_of(aged, catalog, today=TODAY) if n.code == "price-age")
    assert text.startswith("the price is 24 months old (2024-11-30)")
    tight = replace(first, memory=replace(first.memory, state="tight"))
    assert "memory-tight" in {n.code for n in risks_of(tight, catalog, today=TODAY)}
    assert "memory-tight" not in {n.code for n in risks_of(replace(
        first, memory=replace(first.memory, state="fits")), catalog, today=TODAY)}  # fmt: skip


def test_a_question_without_an_answer_keeps_its_decision():
    """Nothing fits: nothing is added."""
    request = {"task": "pretrain", "params": "70B", "gpus": ["t4"], "single_card": True}
    decision = whole(request)
    assert decision.recommendations == ()
    assert decision.growth is None
    assert decision.risks == ()
