"""The audit of dependencies: what is asked for, and what an answer or none makes of it."""

import json
import runpy
import stat
from pathlib import Path

import pytest

TOOL = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "audit.py"))
ANSWER = {
    "dependencies": [
        {"name": "numpy", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]},
        {"name": "rich", "version": "14.0", "vulns": []},
    ]
}


def program(tmp_path, script):
    """A stand-in for pip-audit."""
    path = tmp_path / "pip-audit"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_what_runs_is_audited_and_what_only_develops_is_not():
    """Direct needs, what they need, and nothing of the extra for development."""
    needed = TOOL["needed"]()
    assert {"numpy", "pydantic", "pydantic-core", "typer", "pandas"} <= set(needed)
    assert not {"pytest", "ruff", "mypy", "hypothesis"} & set(needed)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (f"echo '{json.dumps(ANSWER)}'; exit 1", ["numpy"]),
        ("echo '{\"dependencies\": []}'", []),
        ("echo 'could not connect' >&2; exit 1", None),
        ("echo '[]'", None),
    ],
)
def test_an_answer_is_told_from_none(tmp_path, script, found):
    """Only what is vulnerable is kept; no answer is None, whatever the exit code."""
    answer = TOOL["advisories"](program(tmp_path, script), {"numpy": "1.0"})
    assert answer is None if found is None else [item["name"] for item in answer] == found
