"""The reports of docs/examples are as stored. After a wanted change: `python tools/examples.py --write`."""

import importlib.util
import re
from pathlib import Path

import pytest

from gpuselect.report import charts

TOOL = Path(__file__).parents[1] / "tools" / "examples.py"


def tool():
    """The script that writes and compares."""
    spec = importlib.util.spec_from_file_location("examples_tool", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLES = tool()


@pytest.mark.parametrize("name", EXAMPLES.REQUESTS)
def test_a_report_is_as_stored(name, monkeypatch):
    """The difference is the message; pictures are not drawn for it."""
    monkeypatch.setattr(charts, "can_draw", lambda: True)
    monkeypatch.setattr(charts, "svg_of", lambda chart: "<svg></svg>")
    lines = EXAMPLES.difference(name)
    assert not lines, "\n".join(lines[:60])


@pytest.mark.parametrize("name", EXAMPLES.REQUESTS)
def test_a_stored_page_is_whole(name):
    """Pictures are in it, it needs nothing else, and it is small enough to be sent."""
    page = (EXAMPLES.FOLDER / f"{name}.html").read_text("utf-8")
    assert len(re.findall(r"<svg role=", page)) >= 4
    assert not re.search(r"src=|href=\"[^#]|https?://|<script", page)
    assert len(page.encode()) < 300_000


@pytest.mark.parametrize("name", EXAMPLES.REQUESTS)
def test_a_stored_text_is_read_as_meant(name):
    """As CommonMark: every table has rows of equal length, and no sign of markup is left over."""
    markdown_it = pytest.importorskip("markdown_it")
    text = (EXAMPLES.FOLDER / f"{name}.md").read_text("utf-8")
    page = markdown_it.MarkdownIt("commonmark").enable("table").render(text)
    assert page.count("<h1>") == 1
    assert page.count("<table>") == len(re.findall(r"^\| --", text, re.MULTILINE))
    assert len(re.findall(r"<strong>", page)) == 1
    for title in ("Risks", "Growth: twice the work", "Acceptance test", "Ruled out", "Assumptions"):
        assert f"<h2>{title}</h2>" in page, title
    for table in re.findall(r"<table>.*?</table>", page, re.DOTALL):
        widths = {len(re.findall("<t[hd][ >]", row)) for row in re.findall("<tr>.*?</tr>", table, re.DOTALL)}
        assert len(widths) == 1


def test_the_folder_holds_nothing_else():
    """No left-overs, and the index names every report."""
    names = {path.name for path in EXAMPLES.FOLDER.iterdir()}
    assert names == {"README.md", *(f"{n}.{end}" for n in EXAMPLES.REQUESTS for end in ("md", "html"))}
    assert (EXAMPLES.FOLDER / "README.md").read_text("utf-8") == EXAMPLES.index()
