"""Start-up: what a process imports before it must, and what that would cost."""

import os
import subprocess
import sys

import pytest

HEAVY = ["numpy", "pandas", "yaml", "rich", "mcp", "matplotlib", "onnx", "platformdirs", "tomllib"]


def imported(code, *, among):
    """Which of `among` a process of its own has imported after `code`."""
    text = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {among!r} if m in sys.modules], file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GPUSELECT_NO_CONFIG": "1"}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, env=environment
    )
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["recommend", "--help"], ["completion", "bash"], ["__complete", "reco"],
     ["nonsense"]],
)  # fmt: skip
def test_what_needs_no_data_imports_nothing_heavy(arguments):
    """Help, versions and completion of commands are for the fingers."""
    code = f"from gpuselect.cli import main; main({arguments!r})"
    assert imported(code, among=HEAVY) == "[]"


def test_names_are_completed_without_the_model():
    """Completing a card reads names only."""
    code = "from gpuselect.cli import main; main(['__complete', 'compare', 'h1'])"
    assert imported(code, among=[m for m in HEAVY if m != "yaml"]) == "[]"


def test_an_answer_in_a_pipe_imports_neither_pandas_nor_rich():
    """A table in a pipe is made without the library for terminals, and nothing here needs data frames."""
    words = ["estimate", "--on", "l4", "--task", "inference", "--params", "1B"]
    code = f"from gpuselect.cli import main; main({words!r})"
    assert imported(code, among=["pandas", "rich", "mcp", "matplotlib", "onnx"]) == "[]"


def test_the_library_is_imported_when_used():
    """`import gpuselect` is free."""
    assert imported("import gpuselect; gpuselect.__all__", among=[*HEAVY, "pydantic", "typer"]) == "[]"


def test_the_settings_of_a_process_are_not_those_of_a_caller(monkeypatch):
    """A program that calls `main(arguments)` keeps its own collector of garbage and environment."""
    import gc

    from gpuselect.cli import main

    monkeypatch.delenv("PYDANTIC_DISABLE_PLUGINS", raising=False)
    before = gc.get_threshold()
    with pytest.raises(SystemExit):
        main(["--version"])
    assert gc.get_threshold() == before
    assert "PYDANTIC_DISABLE_PLUGINS" not in os.environ
