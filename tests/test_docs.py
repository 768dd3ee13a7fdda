"""The documentation names every command, and what it shows can be typed."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from gpuselect.cli.app import LazyGroup, summaries

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\S*/bin/)?gpuselect (.+)$")


def shown_commands():
    """Every line of README's console blocks that starts the program."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for block in CONSOLE.findall(text):
        for line in block.splitlines():
            for part in line.removeprefix("$ ").split(" && "):
                if found := COMMAND.match(part.strip()):
                    yield found[1]


def test_every_command_is_in_the_reference():
    """The generated reference has a section for each command."""
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert [name for name in summaries() if f"\n## gpuselect {name}\n" not in text] == []


def test_the_readme_shows_commands():
    """There is something to try."""
    assert len(list(shown_commands())) >= 4


@pytest.mark.parametrize("line", list(shown_commands()))
def test_the_commands_of_the_readme_parse(line):
    """Each command line of README is accepted by the parser."""
    name, *arguments = shlex.split(line)
    group = LazyGroup(name="gpuselect")
    command = group.get_command(None, name)
    assert command is not None, f"{name} is no command"
    with command.make_context(name, arguments) as context:
        assert context.params


@pytest.mark.parametrize("name", ["stale_readme", "dead_links", "missing_places", "unused_codes"])
def test_no_fault_in_the_documentation(name):
    """Links, cited places and rule codes hold."""
    tool = runpy.run_path(str(ROOT / "tools/check_docs.py"))
    assert list(tool[name]()) == []


def test_the_draw_of_the_catalog_check_is_reproducible():
    """A seed gives one draw."""
    tool = runpy.run_path(str(ROOT / "tools/draw_figures.py"))
    from gpuselect.readers.catalog import load_catalog

    entries = list(load_catalog().accelerators.values())
    first = [tool["line"](d) for d in tool["draw"](entries, seed=7, count=5)]
    assert first == [tool["line"](d) for d in tool["draw"](entries, seed=7, count=5)]
    assert len(set(first)) == 5
