"""`gpuselect mcp`: the same answers for an assistant."""

from __future__ import annotations

from gpuselect.cli.flags import Arguments, Flag
from gpuselect.errors import InputError
from gpuselect.i18n import _

DETAILS = """\
Speaks the Model Context Protocol on standard input and output, with the tools recommend, estimate,
compare and explain. Needs the extra: pip install 'gpuselect-advisor[mcp]'. Nothing is sent anywhere.

\b
Example, in the configuration of an assistant:
  {"command": "gpuselect", "args": ["mcp"]}
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    return [Flag("debug", _("Show the traceback of an error."), "switch")]


def run(arguments: Arguments) -> int:  # noqa: ARG001  the signature of every command
    """Serve until standard input ends."""
    try:
        from gpuselect.mcp_server import build
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "gpuselect":
            raise
        text = _("`gpuselect mcp` needs the extra: pip install 'gpuselect-advisor[mcp]' (no module {name})")
        raise InputError(text.format(name=error.name)) from None
    build().run("stdio")
    return 0
