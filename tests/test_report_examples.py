"""The reports of docs/examples are as stored. After a wanted change: `python tools/examples.py --write`."""

import importlib.util
import re
from pathlib import Path

import pytest

from gpuselect.i18n import LANGUAGES, _, use_language
from gpuselect.report import charts

TOOL = Path(__file__).parents[1] / "tools" / "examples.py"


def tool():
    """The script that writes and compares."""
    spec = importlib.util.spec_from_file_location("examples_tool", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLES = tool()


REPORTS = [(name, language) for name in EXAMPLES.REQUESTS for language in LANGUAGES]
TITLES = ("Risks", "Growth: twice the work", "Acceptance test", "Ruled out", "Assumptions")


def stored(name, language, suffix):
    """The text of one file of the folder."""
    stem = name if language == "en" else f"{name}.{language}"
    return (EXAMPLES.FOLDER / f"{stem}{suffix}").read_text("utf-8")


@pytest.mark.parametrize(("name", "language"), REPORTS)
def test_a_report_is_as_stored(name, language, monkeypatch):
    """The difference is the message; pictures are not drawn for it."""
    monkeypatch.setattr(charts, "can_draw", lambda: True)
    monkeypatch.setattr(charts, "svg_of", lambda chart: "<svg></svg>")
    lines = EXAMPLES.difference(name, language)
    assert not lines, "\n".join(lines[:60])


@pytest.mark.parametrize(("name", "language"), REPORTS)
def test_a_stored_page_is_whole(name, language):
    """Pictures are in it, it needs nothing else, says its language, and is small enough to be sent."""
    page = stored(name, language, ".html")
    assert len(re.findall(r"<svg role=", page)) >= 4
    assert not re.search(r"src=|href=\"[^#]|https?://|<script", page)
    assert f'<html lang="{language}">' in page
    assert len(page.encode()) < 300_000


@pytest.mark.parametrize(("name", "language"), REPORTS)
def test_a_stored_text_is_read_as_meant(name, language):
    """As CommonMark: every table has rows of equal length, and no sign of markup is left over."""
    markdown_it = pytest.importorskip("markdown_it")
    text = stored(name, language, ".md")
    page = markdown_it.MarkdownIt("commonmark").enable("table").render(text)
    assert page.count("<h1>") == 1
    assert page.count("<table>") == len(re.findall(r"^\| --", text, re.MULTILINE))
    assert len(re.findall(r"<strong>", page)) == 1
    use_language(language)
    try:
        for title in TITLES:
            assert f"<h2>{_(title)}</h2>" in page, title
    finally:
        use_language()
    for table in re.findall(r"<table>.*?</table>", page, re.DOTALL):
        widths = {len(re.findall("<t[hd][ >]", row)) for row in re.findall("<tr>.*?</tr>", table, re.DOTALL)}
        assert len(widths) == 1


def test_the_folder_holds_nothing_else():
    """No left-overs, and the index names every report."""
    names = {path.name for path in EXAMPLES.FOLDER.iterdir()}
    ends = ("md", "html", "zh.md", "zh.html")
    assert names == {"README.md", *(f"{n}.{end}" for n in EXAMPLES.REQUESTS for end in ends)}
    assert (EXAMPLES.FOLDER / "README.md").read_text("utf-8") == EXAMPLES.index()
