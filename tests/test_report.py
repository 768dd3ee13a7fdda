"""The renderers, on answers made by hand: they only read records, so no model runs here."""

import csv
import io
import json
import math
import re
from dataclasses import replace

import pytest

from gpuselect.decision import (
    Considered,
    Cost,
    Decision,
    Energy,
    Estimate,
    FitAnswer,
    FrameworkChoice,
    MemoryFit,
    Note,
    Offer,
    Option,
    Score,
)
from gpuselect.plan import Plan
from gpuselect.report.blocks import Grid
from gpuselect.report.console import Style, grid_text, shown_columns
from gpuselect.report.describe import decision_sentence, fit_sentence, lost_because
from gpuselect.report.document import decision_document
from gpuselect.report.format import duration, money, significant, to_ascii
from gpuselect.report.grid import Column, as_csv, as_grid, as_markdown
from gpuselect.report.html import blocks_to_html
from gpuselect.report.json import decision_payload, fit_payload
from gpuselect.report.markdown import blocks_to_markdown, escape
from gpuselect.report.plain import to_text
from gpuselect.report.terminal import decision_text, fit_text


def make_option(*, name, count, rank, days, usd, roles=(), tied=False):
    """A training option with invented figures."""
    return Option(
        accelerator=name.lower().replace(" ", "-"),
        accelerator_name=name,
        count=count,
        nodes=-(-count // 8),
        plan=Plan(count=count, tp=8, dp=count // 8, zero_stage=1, recompute=1, grad_accum=16),
        precision="bf16",
        weights="bf16",
        kv="bf16",
        framework=FrameworkChoice(
            "fw", "Framework | Core", "it splits tensors", ("fw train --tp 8", "# done")
        ),
        memory=MemoryFit(61.27, 79.6, {"weights": 20.5, "optimizer_states": 40.77}, "fits"),
        performance={
            "time_to_train_days": Estimate(days, days * 0.8, days * 1.3),
            "mfu": Estimate(0.42, 0.36, 0.48),
        },
        cost=Cost(
            per_hour_usd=usd / days / 24,
            per_run_usd=usd,
            items=(("accelerators", usd, "once"),),
            offer=Offer("cloudco", "x8", "eu", "on-demand", "2026-07-01", "cloudco", is_offer=True),
        ),
        energy=Energy(power_w=57_600, kwh=41_000),
        score=Score(0.8 - rank / 10, {"cost": 1 - rank / 5, "speed": 0.5}),
        rank=rank,
        roles=roles,
        tied_with_winner=tied,
        reasons=(Note("cheapest", "It costs the least among those that meet the deadline."),),
        warnings=(Note("old-price", "The price is older than 90 days."),),
    )


@pytest.fixture
def decision():
    """A decision made by hand."""
    rejected = [
        Considered(f"card-{i}", False, None, Note("memory-exceeded", f"card-{i} is | small"),
                   False, Note("memory-exceeded", "small"))
        for i in range(7)
    ]  # fmt: skip
    return Decision(
        workload={"task": "pretrain", "params": 10e9, "tokens": 200e9, "model": None, "gpus": ()},
        workload_sentence="Pretrain a 10B model on 200B tokens within 60 days.",
        assumptions=(Note("seq-len", "Sequence length 4096, because none was given."),),
        recommendations=(
            make_option(name="Example H100", count=64, rank=1, days=34.2, usd=1_234_567,
                        roles=("best", "fastest")),
            make_option(name="Example A100", count=128, rank=2, days=41, usd=1_500_000, tied=True),
            make_option(name="Example L40S", count=256, rank=3, days=55, usd=1_000_000,
                        roles=("cheapest",)),
        ),
        unpriced=(),
        considered=(
            Considered("example-h100", True, 8, None, False, Note("memory-exceeded", "too small")),
            *rejected,
        ),
        near_misses=(Note("deadline", "32 x Example H100 would take 66 days."),),
        sensitivity=(Note("price", "Above $4 per hour the winner is Example A100."),),
        next_commands=("gpuselect report --params 10B -o decision.md",),
        data_date="2026-07-31",
        sources_used=(("h100-ds", "Example H100 datasheet"),),
    )  # fmt: skip


@pytest.fixture
def fit(decision):
    """An answer to `estimate` made by hand."""
    option = decision.recommendations[0]
    return FitAnswer(
        workload=decision.workload,
        workload_sentence=decision.workload_sentence,
        assumptions=decision.assumptions,
        state="fits",
        option=option,
        reasons=(Note("fits", "It fits."),),
        alternatives=(),
        next_commands=(),
    )


def no_answer(decision):
    """The same question with nothing that meets it."""
    return replace(decision, recommendations=())


# --- numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(999.6, "1,000"), (0.00012345, "0.000123"), (-5.5, "-5.5"), (math.nan, "?"), (None, "?")],
)
def test_significant_digits(value, text):
    """Significant digits."""
    assert significant(value) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0, "$0"), (9_999, "$10k"), (9_990, "$9,990"), (999_999, "$1M"), (123_456, "$123k"),
        (12.5, "$12.50"), (150.4, "$150"), (0.123, "$0.12"), (-3e6, "-$3M"), (2.5e9, "$2.5B"),
    ],
)  # fmt: skip
def test_money_has_no_false_precision(usd, text):
    """Money has no false precision."""
    assert money(usd) == text


def test_duration_of_unknown_length():
    """Duration of unknown length."""
    assert duration(None) == duration(math.inf) == "?"


# --- terminal ----------------------------------------------------------------------------------


def test_decision_is_the_first_line(decision):
    """Decision is the first line."""
    first = decision_text(decision).splitlines()[0]
    assert first == decision_sentence(decision)
    assert first.startswith("Rent 64 × Example H100 in 8 nodes with Framework | Core")
    assert "34 (27–44) days" in first
    assert "$1.2M / run" in first


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_text_fits_the_terminal(decision, width):
    """Text fits the terminal."""
    text = decision_text(decision, Style(width=width))
    commands = {f"  {command}" for command in decision.next_commands}
    assert all(len(line) <= width for line in text.splitlines() if line not in commands)


def test_narrow_terminal_says_what_is_left_out(decision):
    """Narrow terminal says what is left out."""
    narrow = decision_text(decision, Style(width=80))
    assert "Columns left out at this width: Plan" in narrow
    assert "Columns left out" not in decision_text(decision, Style(width=200))


def test_pipe_has_natural_width_and_neither_colour_nor_frames(decision):
    """Pipe has natural width and neither colour nor frames."""
    text = decision_text(decision)
    assert "\x1b" not in text
    assert "…" not in text
    assert "━" not in text
    assert decision.workload_sentence in text.splitlines()
    assert not re.search(r" $", text, re.MULTILINE)


def test_colour_only_when_asked_for(decision):
    """Colour only when asked for."""
    assert "\x1b[" in decision_text(decision, Style(width=80, color=True))


def test_ascii_when_the_terminal_cannot_do_more(decision):
    """ASCII when the terminal cannot do more."""
    text = decision_text(decision, Style(width=80, unicode=False))
    assert text.isascii()
    assert "64 x Example H100" in text


def test_dumb_terminal_keeps_the_given_width(decision, monkeypatch):
    """Dumb terminal keeps the given width."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, decision_text(decision).splitlines())) > 100


def test_rejections_are_grouped_with_five_examples(decision):
    """Rejections are grouped with five examples."""
    text = decision_text(decision)
    assert "memory-exceeded (7): card-0, card-1, card-2, card-3, card-4, ..." in text


def test_no_recommendation_shows_near_misses(decision):
    """No recommendation shows near misses."""
    text = decision_text(no_answer(decision))
    assert text.startswith("No accelerator in the catalog meets these requirements.")
    assert "32 x Example H100 would take 66 days." in text


def test_unpriced_options_are_named(decision):
    """Unpriced options are named."""
    option = replace(decision.recommendations[0], cost=Cost(), roles=("no-price",))
    answer = replace(decision, recommendations=(), unpriced=(option,))
    text = decision_text(answer)
    assert "without a price, 64 × Example H100 in 8 nodes does" in text
    assert "No price known" in text
    assert "$0" not in text


def test_sign_of_markup_in_names_is_left_alone(decision):
    """Sign of markup in names is left alone."""
    option = replace(decision.recommendations[0], accelerator_name="X[bold]1[/bold]")
    answer = replace(decision, recommendations=(option,))
    assert "X[bold]1[/bold]" in decision_text(answer)


@pytest.mark.parametrize(("state", "word"), [("fits", "Yes"), ("tight", "Tight"), ("no", "No")])
def test_fit_answer_begins_with_its_state(fit, state, word):
    """Fit answer begins with its state."""
    answer = replace(fit, state=state)
    assert fit_text(answer).startswith(word)
    assert fit_text(answer).splitlines()[0] == fit_sentence(answer)


def test_fit_answer_without_a_plan(fit):
    """Fit answer without a plan."""
    assert fit_text(replace(fit, state="no", option=None)).startswith("No: no plan")


def test_columns_go_in_the_declared_order():
    """Columns go in the declared order."""
    grid = Grid(("a", "b", "c"), (("1" * 10, "2" * 10, "3" * 10),))
    assert shown_columns(grid, (0, 2, 1), Style(width=36)) == [0, 1, 2]
    assert shown_columns(grid, (0, 2, 1), Style(width=35)) == [0, 2]
    assert shown_columns(grid, (0, 2, 1), Style(width=5)) == [0]
    assert shown_columns(grid, (0, 2, 1), Style(width=5, wide=True)) == [0, 1, 2]


def test_columns_are_wrapped_before_one_goes_and_nothing_is_cut():
    """Columns are wrapped before one goes and nothing is cut."""
    grid = Grid(("name", "b"), (("alpha beta gamma delta", "0123456789"),))
    assert shown_columns(grid, (0, 1), Style(width=24), {0: 11}) == [0, 1]
    for width in (12, 18, 24, 40):
        text = grid_text(grid, (0, 0), Style(width=width), wrapped={0: 11})
        assert "".join(c for c in text if c.isdigit()) == "0123456789"
        assert all(len(line) <= width for line in text.splitlines())


def test_loser_says_why(decision):
    """Loser says why."""
    winner, second, third = decision.recommendations
    assert "tied within the uncertainty" in lost_because(second, winner)
    assert "costs 1.2 times as much" in lost_because(second, winner)
    assert "62 % of the speed" in lost_because(third, winner)
    assert "scores lower on cost" in lost_because(third, winner)


def test_buying_and_owning_are_said(decision):
    """Buying and owning are said."""
    option = decision.recommendations[0]
    bought = replace(option, cost=Cost(acquisition_usd=2e6))
    assert decision_sentence(replace(decision, recommendations=(bought,))).startswith("Buy 64")
    owned = replace(decision, workload={"have": "64xh100"})
    assert decision_sentence(owned).startswith("Use 64")


# --- Markdown and HTML ---------------------------------------------------------------------------


def test_report_has_every_section(decision):
    """Report has every section."""
    text = blocks_to_markdown(decision_document(decision))
    for title in (
        "Accelerator decision", "Requirements as understood", "Shortlist", "Warnings",
        "Recommended configuration", "Memory per accelerator", "Performance", "Cost and break-even",
        "What would change this answer", "Energy and carbon", "Near misses", "Ruled out", "Assumptions",
        "Acceptance test", "Next commands", "Sources and version",
    ):  # fmt: skip
        assert re.search(rf"^#+ {re.escape(title)}$", text, re.MULTILINE), title
    assert "Approved by:" in text
    assert "newest price of 2026-07-31" in text
    assert "| Time to train | 34 (27–44) days | at most 44 days | end of the 80 % interval |" in text


def test_report_without_recommendation(decision):
    """Report without recommendation."""
    text = blocks_to_markdown(decision_document(no_answer(decision)))
    assert "No accelerator in the catalog meets these requirements." in text
    assert "## Near misses" in text
    assert "## Cost" not in text


def test_markdown_tables_have_equal_rows(decision):
    """Markdown tables have equal rows."""
    text = blocks_to_markdown(decision_document(decision))
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table


def test_markdown_is_read_as_meant(decision):
    """Markdown is read as meant."""
    markdown_it = pytest.importorskip("markdown_it")
    text = blocks_to_markdown(decision_document(decision))
    page = markdown_it.MarkdownIt("commonmark").enable("table").render(text)
    assert "<h1>Accelerator decision</h1>" in page
    assert "card-0 is | small" in page
    assert "Framework | Core" in page


@pytest.mark.parametrize("text", ["# x", "1. x", "- x", "+ x", "a_b*c", "<b>", "`x`", "a\nb"])
def test_markdown_escape_keeps_the_text(text):
    """Markdown escape keeps the text."""
    markdown_it = pytest.importorskip("markdown_it")
    page = markdown_it.MarkdownIt("commonmark").render(escape(text))
    plain = re.sub(r"</?p>", "", page).strip()
    expected = " ".join(text.split()).replace("<", "&lt;").replace(">", "&gt;")
    assert plain == expected


def test_html_is_complete_and_needs_nothing_else(decision):
    """HTML is complete and needs nothing else."""
    option = replace(decision.recommendations[0], accelerator_name="<script>x</script>")
    page = blocks_to_html(decision_document(replace(decision, recommendations=(option,))))
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    assert not re.search(r"src=|href=\"[^#]|https?://|@import|url\([^#]", page)
    for tag in ("table", "ul", "li", "pre", "h2", "p", "tr", "td", "th"):
        assert len(re.findall(rf"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag


# --- JSON ----------------------------------------------------------------------------------------


def test_json_contract_of_recommend(decision):
    """JSON contract of recommend."""
    payload = json.loads(to_text(decision_payload(decision)))
    assert payload["schema_version"] == 1
    option = payload["recommendations"][0]
    assert set(option) >= {
        "rank", "accelerator", "count", "nodes", "plan", "framework", "memory", "performance",
        "cost", "energy", "score", "reasons", "warnings",
    }  # fmt: skip
    assert set(option["plan"]) == {
        "tp", "pp", "dp", "ep", "cp", "zero_stage", "recompute", "micro_batch", "grad_accum",
        "replicas", "precision", "weights", "kv",
    }  # fmt: skip
    assert option["plan"]["recompute"] == "selective"
    assert set(option["framework"]) >= {"id", "version", "why", "launch"}
    assert set(option["cost"]) >= {
        "per_hour_usd", "per_run_usd", "per_month_usd", "per_million_tokens_usd",
        "per_thousand_images_usd", "acquisition_usd", "items", "offer",
    }  # fmt: skip
    assert option["cost"]["per_month_usd"] is None
    assert option["memory"]["headroom_pct"] == pytest.approx(100 * (1 - 61.27 / 79.6))
    assert payload["considered"][1] == {
        "accelerator": "card-0",
        "feasible": False,
        "min_count": None,
        "rejection": {"code": "memory-exceeded", "reason": "card-0 is | small"},
        "single": {
            "feasible": False,
            "rejection": {"code": "memory-exceeded", "reason": "small"},
        },
    }


def test_json_has_neither_infinity_nor_zero_for_unknown(decision):
    """JSON has neither infinity nor zero for unknown."""
    option = replace(
        decision.recommendations[0],
        performance={"streams": Estimate(math.inf, math.nan, 3.0)},
        cost=Cost(),
    )
    text = to_text(decision_payload(replace(decision, recommendations=(option,))))
    payload = json.loads(text, parse_constant=pytest.fail)
    assert payload["recommendations"][0]["performance"]["streams"] == {
        "value": None, "low": None, "high": 3.0,
    }  # fmt: skip
    assert payload["recommendations"][0]["cost"]["per_hour_usd"] is None


@pytest.mark.parametrize(
    ("state", "need", "fits"),
    [("fits", 60, True), ("tight", 75, True), ("tight", 85, False), ("no", 200, False)],
)
def test_json_contract_of_estimate(fit, state, need, fits):
    """JSON contract of estimate."""
    option = replace(fit.option, memory=MemoryFit(need, 79.6, {}, state))
    payload = json.loads(to_text(fit_payload(replace(fit, state=state, option=option))))
    assert payload["fits"] is fits
    assert payload["state"] == state
    for key in ("reasons", "plan", "memory", "performance", "cost", "energy", "alternatives"):
        assert key in payload


def test_json_of_estimate_without_a_plan(fit):
    """JSON of estimate without a plan."""
    payload = fit_payload(replace(fit, state="no", option=None))
    assert payload["fits"] is False
    assert payload["plan"] is None


# --- lists ---------------------------------------------------------------------------------------


def test_grid_in_every_format():
    """Grid in every format."""
    columns = [Column("id", "Id"), Column("gb", "Memory GB", 1), Column("tags", "Tags", 2)]
    rows = [{"id": "a|b", "gb": 80.0, "tags": ("x", "y")}, {"id": "c", "gb": None, "tags": ()}]
    assert as_grid(columns, rows).numeric == {1}
    assert as_markdown(columns, rows).splitlines()[2] == "| a\\|b | 80 | x, y |"
    assert next(csv.DictReader(io.StringIO(as_csv(columns, rows)))) == {
        "id": "a|b", "gb": "80.0", "tags": "x;y",
    }  # fmt: skip


def test_ascii_spelling_replaces_what_it_does_not_know():
    """ASCII spelling replaces what it does not know, but for Chinese, which a Chinese encoding has."""
    assert to_ascii("4 × ☃ 昇") == "4 x ? 昇"
