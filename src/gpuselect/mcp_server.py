"""The library as a server of the Model Context Protocol: four tools, nothing kept between calls.

Only `gpuselect mcp` imports this module; it needs the extra `[mcp]`.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from gpuselect import api
from gpuselect.errors import GpuselectError, InputError
from gpuselect.i18n import _
from gpuselect.note_texts import note_texts
from gpuselect.report.version import tool_version
from gpuselect.rules import EXPLANATIONS
from gpuselect.stability import EXPLAINED

SHOWN = 3
INSTRUCTIONS = """\
Chooses accelerators for a workload from a sourced catalog, offline. A workload is a mapping with the keys of
`gpuselect recommend --help`, spelled as people write them: {"task": "finetune", "model": "llama-3.1-8b",
"method": "qlora", "budget": "$2/h"}. Tasks are pretrain, finetune, inference, video and hpc. Figures are
estimates with an 80 % interval (low, high); null is unknown, never zero. Say the interval, the assumptions
and the date of the prices when you pass an answer on.
"""


def build() -> MCPServer[Any]:
    """The server with its tools."""
    server: MCPServer[Any] = MCPServer(
        "gpuselect", instructions=INSTRUCTIONS, version=tool_version(), log_level="ERROR"
    )
    for tool in (recommend, estimate, compare, explain):
        server.tool()(told(tool))
    return server


def told(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool, with what a person may get wrong as a sentence for the assistant, not as a crash."""

    @wraps(tool)
    def call(*arguments: Any, **keys: Any) -> Any:
        try:
            return tool(*arguments, **keys)
        except GpuselectError as error:
            raise ToolError(str(error)) from None

    return call


def recommend(workload: dict[str, Any], full: bool = False) -> dict[str, Any]:
    """Which accelerators, how many, with which framework and plan, at what cost, and why.

    Returns the first three options; `full` returns all of them and the verdict on every accelerator.
    """
    return shortened(api.recommend(workload).to_dict(), full=full)


def estimate(on: str, workload: dict[str, Any]) -> dict[str, Any]:
    """Whether a workload fits on given hardware ("8xH100"), its memory, best plan, speed and cost."""
    return api.estimate(on, workload).to_dict()


def compare(cards: list[str], workload: dict[str, Any] | None = None) -> dict[str, Any]:
    """Two or more accelerators side by side: figures of the catalog and cheapest prices.

    With a workload also what each gets from it: plan, memory, speed and cost.
    """
    return api.compare(*cards, workload=workload).to_dict()


def explain(code: str) -> dict[str, str]:
    """The rule or warning behind a code of an answer, its source and how to override it."""
    wanted = code.strip().lower().replace("_", "-")
    known = {**note_texts(), **EXPLAINED, **EXPLANATIONS}
    rule = known.get(wanted)
    if rule is None:
        close = get_close_matches(wanted, list(known), n=1)
        hint = _("; did you mean {name}?").format(name=close[0]) if close else ""
        raise InputError(_("unknown code {given!r}{hint}").format(given=code, hint=hint))
    return {"code": wanted, "text": _(rule.text), "source": _(rule.source), "override": _(rule.override)}


def shortened(payload: dict[str, Any], *, full: bool = False) -> dict[str, Any]:
    """An answer short enough for a conversation; `omitted` says what was left out.

    >>> shortened({"recommendations": list(range(9)), "considered": [1, 2]})["omitted"]
    {'recommendations': 6, 'considered': 2}
    """
    if full:
        return payload
    options, considered = payload["recommendations"], payload.get("considered", [])
    kept = {key: value for key, value in payload.items() if key != "considered"}
    omitted = {"recommendations": max(0, len(options) - SHOWN), "considered": len(considered)}
    return {**kept, "recommendations": options[:SHOWN], "omitted": omitted}
