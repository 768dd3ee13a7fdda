"""The pages for newcomers, done as they stand there."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from gpuselect.cli import main

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"^```(console|yaml|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs(tmp_path, monkeypatch):
    """Files are written under the name in their first line, commands run in order; each gives an answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUSELECT_NO_CONFIG", "1")
    monkeypatch.setattr("gpuselect.cli.config.user_folder", lambda: tmp_path / "none")
    ran = 0
    for kind, text in BLOCK.findall((DOCS / "tutorial.md").read_text(encoding="utf-8")):
        if kind == "yaml":
            path = tmp_path / text.split("\n", 1)[0].removeprefix("# ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            continue
        for line in (line for line in text.splitlines() if line.startswith("gpuselect ")):
            out, err = io.StringIO(), io.StringIO()
            with (
                pytest.raises(SystemExit) as leaving,
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
            ):
                main(shlex.split(line)[1:])
            assert leaving.value.code == 0, (line, out.getvalue(), err.getvalue())
            ran += 1
    assert ran >= 10
    assert (tmp_path / "decision.md").read_text(encoding="utf-8").startswith("# ")


def test_the_page_of_the_library_runs():
    """The example is one program."""
    text = (DOCS / "how-to/settings-and-library.md").read_text(encoding="utf-8")
    program = next(text for kind, text in BLOCK.findall(text) if kind == "python")
    names = {}
    exec(compile(program, "settings-and-library.md", "exec"), names)  # noqa: S102  our own page
    assert names["answer"].best is not None
    assert names["fit"].fits
