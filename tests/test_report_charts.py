"""Charts of the report: pictures that say what they show, figures that are those of the decision."""

import re
from html.parser import HTMLParser

import pytest

from gpuselect.decision import (
    Decision,
    Estimate,
    FieldOfCards,
    FieldPoint,
    MemoryFit,
    Option,
    ScalePoint,
    Scaling,
    Stability,
)
from gpuselect.money_records import Cost, CostRange
from gpuselect.plan import Plan
from gpuselect.report import charts
from gpuselect.report.blocks import Chart, Grid, Heading, Lines, PageBreak
from gpuselect.report.document import decision_document
from gpuselect.report.figures import field_chart, memory_chart, scaling_chart, swings_chart, years_chart
from gpuselect.report.first_page import signed_sentence
from gpuselect.report.html import blocks_to_html
from gpuselect.report.markdown import blocks_to_markdown
from gpuselect.report.prospects import limit_of
from gpuselect.tco.ownership import ledger

EVIL = '<img src=x onerror=alert(1)> & "q" \x1b[31m|`* $x$ 显存'
VOID = {"meta", "hr", "br", "path", "use", "rect"}


def option(name="Card A", count=4, usd=100.0, days=10.0):
    """A training option with invented figures."""
    bought = ledger(once=(("cards", 1000.0),), yearly=(("power", 50.0),), resale=("resale", 200.0), years=3,
                    rate=0.05)  # fmt: skip
    rented = ledger(once=(), yearly=(("rent", 500.0),), resale=("", 0.0), years=3, rate=0.05)
    swings = (("speed", 80.0, 150.0), ("resale", 110.0, 95.0), ("PUE", 100.0, 100.0))
    return Option(
        name.lower().replace(" ", "-"), name, count, 1, Plan(count=count, dp=count), "bf16", "bf16", "",
        None, MemoryFit(61.0, 80.0, {"weights": 20.0, "kv_cache": 41.0}, "fits"),
        {"time_to_train_days": Estimate(days, 0.8 * days, 1.3 * days)},
        cost=Cost(
            per_run_usd=usd, basis="rent", bought=bought, rented=rented,
            range=CostRange("per_run_usd", 85.0, 101.0, 140.0, swings, 2000, 1),
        ), rank=1, win_share=0.42,
    )  # fmt: skip


def decision(**fields):
    """A decision made by hand, with a field of cards and a scaling curve."""
    first = option()
    points = tuple(
        FieldPoint(f"card-{n}", f"Card {n}", n + 1, 30.0 - n, 50.0 + 10 * n, n % 2 == 0) for n in range(20)
    )
    field = FieldOfCards("time_to_train_days", "per_run_usd", (
        *points, FieldPoint("card-a", "Card A", 4, 10.0, 100.0, on_front=True)))  # fmt: skip
    counts = tuple(ScalePoint(n, 1, Estimate(40 / n, 32 / n, 52 / n), 100.0 + n, 1.0) for n in (1, 2, 4, 8))
    scale = Scaling("time_to_train_days", "per_run_usd", counts)
    given = {
        "workload": {"task": "pretrain"}, "workload_sentence": "Train it.", "assumptions": (),
        "recommendations": (first, option("Card B", 8, 170.0, 12.0)), "unpriced": (), "considered": (),
        "near_misses": (), "sensitivity": (), "next_commands": (), "data_date": "2026-08-01",
        "sources_used": (), "stability": Stability(2000, 1, 0.5, 0.0), "field": field, "scaling": scale,
    }  # fmt: skip
    return Decision(**(given | fields))


def all_charts():
    """One chart of each kind."""
    answer = decision()
    first = answer.recommendations[0]
    return [
        *memory_chart(answer.recommendations), *field_chart(answer), *scaling_chart(answer),
        *swings_chart(first.cost), *years_chart(first.cost),
    ]  # fmt: skip


class Page(HTMLParser):
    """Tags that are open at the end, and every id."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.wrong = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note an opened tag."""
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Note its id."""
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        """Note what closes out of turn."""
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)


def test_every_chart_has_its_figures_as_a_table():
    """Five charts; no table is empty, and the words tell the first figures."""
    found = all_charts()
    assert [chart.key for chart in found] == ["memory", "front", "scaling", "swings", "years"]
    assert all(chart.grid.rows and chart.title and chart.text for chart in found)
    memory, front, scaling, swings, years = found
    assert memory.grid.rows[1] == ("kv cache", "41 GiB", "41 GiB")
    assert ("4 × Card A", "10 days", "$100.00"[:4], "chosen") in [
        (row[0], row[1], row[2][:4], row[3]) for row in front.grid.rows
    ]
    assert len(front.grid.rows) == 21
    assert len(front.brief.rows) == 11
    assert scaling.grid.rows[2][:3] == ("4", "1", "10 (8–13) days")
    assert swings.grid.rows == (("speed", "$80.00", "$150"), ("resale", "$95.00", "$110"))
    assert years.grid.rows[-1] == ("3", "950.00", "1,500.00")


def test_pictures_say_what_they_show_in_the_colours_of_the_page():
    """Title and description, text as text, no colour of its own, no name twice, nothing from elsewhere."""
    pytest.importorskip("matplotlib")
    page = blocks_to_html(decision_document(decision()))
    pictures = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    assert len(pictures) == 5
    for picture in pictures:
        assert 'role="img"' in picture
        key = re.search(r'aria-labelledby="(\S+) (\S+)"', picture)
        assert f'<title id="{key[1]}">' in picture
        assert f'<desc id="{key[2]}">' in picture
        assert "<text" in picture
        assert not re.search(r"#[0-9a-f]{6}", picture)
        assert "metadata" not in picture
    found = Page(page)
    assert found.open == found.wrong == []
    assert len(found.ids) == len(set(found.ids))
    assert not re.search(r"src=|href=\"[^#]|https?://|@import|url\([^#]|<script", page)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(found.ids)
    assert len(page.encode()) < 300_000


def test_pictures_are_the_same_each_time():
    """No date, no random name."""
    pytest.importorskip("matplotlib")
    chart = all_charts()[1]
    assert charts.svg_of(chart) == charts.svg_of(chart)


def test_without_the_extra_tables_stand_in_and_one_sentence_says_how(monkeypatch):
    """No matplotlib: every table is open, and pip is named once."""
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    page = blocks_to_html(decision_document(decision()))
    assert "<svg" not in page
    assert page.count("pip install") == 1
    assert page.count("<figure>") == 5
    assert "<details" not in page
    assert "950.00" in page


def test_strings_of_others_are_escaped_everywhere(monkeypatch):
    """Names, sentences and labels with markup in them stay text in both forms, and in pictures."""
    answer = decision(
        recommendations=(option(EVIL),), workload_sentence=EVIL, workload={"task": EVIL},
        sources_used=((EVIL, EVIL),), next_commands=(EVIL,),
    )  # fmt: skip
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    page = blocks_to_html(decision_document(answer))
    assert "<img" not in page
    assert "\x1b" not in page
    assert Page(page).open == []
    lines = Chart(
        "k", EVIL, EVIL, Lines((0.0, 1.0), ((EVIL, (1.0, 2.0)),), EVIL, EVIL), Grid((EVIL,), ()), None
    )
    if charts.find_spec("matplotlib"):
        assert "<img" not in charts.svg_of(lines)
    markdown_it = pytest.importorskip("markdown_it")
    text = blocks_to_markdown(decision_document(answer))
    assert "<img" not in markdown_it.MarkdownIt("commonmark").enable("table").render(text)


def test_the_first_page_ends_before_the_detail():
    """Decision, requirements, shortlist, signatures; then the page ends, and links lead to the rest."""
    blocks = decision_document(decision())
    end = next(n for n, block in enumerate(blocks) if isinstance(block, PageBreak))
    first = [block.text for block in blocks[:end] if isinstance(block, Heading)]
    assert first == ["Accelerator decision", "Requirements as understood", "Shortlist", "Signatures"]
    page = blocks_to_html(blocks)
    assert '<a href="#memory-per-accelerator">' in page


def test_the_decision_is_one_sentence_with_its_certainty():
    """Count, card, plan, cost and the share of the draws."""
    text = signed_sentence(decision())
    assert text.startswith("Use 4 × Card A (dp 4, bf16): time to train 10 (8–13) days, $100")
    assert text.endswith("; it ranks first in 42 % of 2,000 draws of speed and price.")
    assert text.count(". ") == 0


@pytest.mark.parametrize(
    ("key", "workload", "limit", "basis"),
    [
        ("tpot_ms", {"tpot": 0.05}, 50.0, "the requirement"),
        ("tpot_ms", {}, 88.0, "end of the 80 % interval"),
        ("streams", {"streams": 16}, 16.0, "the requirement"),
        ("output_tok_s", {}, 23.0, "end of the 80 % interval"),
    ],
)
def test_a_requirement_goes_before_the_interval_in_the_acceptance_test(key, workload, limit, basis):
    """A tender asks for what was asked; the interval stands in where nothing was."""
    found, why = limit_of(key, Estimate(41.0, 23.0, 88.0), workload)
    assert found == pytest.approx(limit)
    assert why == basis


def test_a_decision_without_options_has_no_charts():
    """Nothing fits: the page says so and shows no picture."""
    answer = decision(recommendations=(), field=None, scaling=None)
    blocks = decision_document(answer)
    assert not [block for block in blocks if isinstance(block, Chart)]
    assert "No accelerator in the catalog meets" in blocks_to_html(blocks)
