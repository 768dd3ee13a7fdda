"""Six representative decisions are as stored (tests/golden). After a wanted change: `make golden`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "golden.py"


def tool() -> ModuleType:
    """The script that writes and compares."""
    spec = importlib.util.spec_from_file_location("golden_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOLDEN = tool()


@pytest.mark.parametrize("name", GOLDEN.REQUESTS)
def test_a_decision_is_as_stored(name: str) -> None:
    """The difference is the message."""
    lines = GOLDEN.difference(name)
    assert not lines, "\n".join(lines[:60])


def test_every_stored_decision_has_its_request() -> None:
    """No left-overs."""
    assert {path.stem for path in GOLDEN.FOLDER.glob("*.json")} == set(GOLDEN.REQUESTS)
