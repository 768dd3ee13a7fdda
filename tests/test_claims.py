"""Statements of selection guides (data/claims.yaml): verdicts rest on figures that are computed here."""

from __future__ import annotations

import math
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from gpuselect.cli import main

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools/check_claims.py"))
CLAIMS = TOOL["load_claims"]()
VERDICTS = ("right", "wrong", "depends")


def test_verdicts_stand_and_the_page_is_fresh() -> None:
    """Every bounded figure is within its bounds, every sentence can be filled, docs/claims.md holds it."""
    known = {claim["id"]: TOOL["figures"](claim) for claim in CLAIMS}
    faults = [fault for claim in CLAIMS for fault in TOOL["drifted"](claim, known[claim["id"]])]
    assert not faults, "\n".join(faults)
    text = TOOL["page"](CLAIMS, known)
    assert "nan" not in text.split()
    stored = (ROOT / "docs/claims.md").read_text("utf-8")
    assert stored == text, "run python tools/check_claims.py --write"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["id"])
def test_command_shows_it(claim: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """The command that the page names runs, with an answer or with a reasoned no."""
    words = shlex.split(claim["command"])
    assert words[0] == "gpuselect"
    with pytest.raises(SystemExit) as leaving:
        main(words[1:])
    streams = capsys.readouterr()
    assert leaving.value.code in (0, 1), streams.err
    assert streams.out.strip()


def test_a_figure_that_drifts_is_reported() -> None:
    """A figure outside its bounds, or one that cannot be computed, is a fault."""
    claim = {"id": "x", "within": {"a": [1, 2]}}
    assert not list(TOOL["drifted"](claim, {"a": 2.0}))
    assert list(TOOL["drifted"](claim, {"a": 2.1}))
    assert list(TOOL["drifted"](claim, {"a": math.nan}))


def test_every_statement_is_judged_once() -> None:
    """Ids are unique; each statement has a verdict, a reason unless it is right, bounds on its figures."""
    assert all(claim["verdict"] in VERDICTS for claim in CLAIMS)
    assert all(claim["within"].keys() <= claim["figures"].keys() for claim in CLAIMS)
    assert len({claim["id"] for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim["why"] or claim["verdict"] == "right" for claim in CLAIMS)
    assert all(claim["within"] for claim in CLAIMS)
