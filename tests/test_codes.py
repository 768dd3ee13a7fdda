"""Every code that an answer can carry can be looked up."""

import ast
from pathlib import Path

import pytest

from gpuselect.cli import main
from gpuselect.cli.explain_code import catalog_rules, skip_rules
from gpuselect.note_texts import DEFAULTS, NOTES, note_texts
from gpuselect.rules import EXPLANATIONS
from gpuselect.stability import EXPLAINED
from gpuselect.workload import Workload

SOURCE = Path(__file__).parents[1] / "src" / "gpuselect"
MADE = ("Note", "Limit", "Change", "Advice", "Rejection")


def written_codes():
    """The codes that stand in the program as the first argument of a note."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in MADE or not node.args:
                continue
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_every_code_is_explained():
    """Rules, order, notes, optimisations and skipped rows together leave none out."""
    known = {**skip_rules(), **EXPLAINED, **note_texts(), **EXPLANATIONS, **catalog_rules({"quiet": True})}
    codes = set(written_codes())
    assert len(codes) > 100
    assert codes - set(known) == set()
    assert not set(NOTES) & (set(EXPLANATIONS) | set(EXPLAINED) | set(DEFAULTS))


def test_the_flags_that_replace_a_default_are_flags():
    """Each of them is a key of the workload."""
    named = {flag for flags, _source in DEFAULTS.values() for flag in flags}
    keys = {flag.removeprefix("--").removeprefix("no-").replace("-", "_") for flag in named}
    assert keys <= set(Workload.model_fields)


@pytest.mark.parametrize("code", ["default-energy", "Price_Age", "tie", "memory-exceeded", "mixed-precision"])
def test_a_code_is_looked_up_in_any_case(code, capsys):
    """Of every kind, whatever its case and separators."""
    with pytest.raises(SystemExit) as leaving:
        main(["explain", code])
    assert leaving.value.code == 0
    assert "Source:" in capsys.readouterr().out
