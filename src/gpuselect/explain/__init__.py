"""Why a card won or lost, and what would change it: every figure comes from running the engine again."""

from __future__ import annotations

from gpuselect.explain.records import Answer, Change, Gap, Switch
from gpuselect.explain.verdict import explain

__all__ = ["Answer", "Change", "Gap", "Switch", "explain"]
