"""The commands by name. A command's module is imported when the command is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from gpuselect.cli.flags import as_callback
from gpuselect.i18n import _

PACKAGE = "gpuselect.cli"
CONTEXT = {
    "help_option_names": ["-h", "--help"],
    # --seq_len is read as --seq-len
    "token_normalize_func": lambda token: token.replace("_", "-"),
}


def summaries() -> Mapping[str, tuple[str, str]]:
    """Module and one-line summary of each command."""
    return {
        "recommend": ("recommend", _("What should I use? Ranked options, why, and what is out.")),
        "estimate": ("estimate", _("What would I get on this hardware? Exit 1: does not fit.")),
        "compare": ("compare", _("Accelerators side by side, with ratios to the first.")),
        "report": ("write_report", _("Write the decision report of a recommendation to a file.")),
        "list": ("list_entries", _("Accelerators, models, frameworks, systems, prices, rules.")),
        "show": ("show", _("One entry of the catalog with the source of each figure.")),
        "prices": ("prices", _("How old the prices are, and live ones when asked.")),
        "validate": ("validate", _("Predictions against measured rows: errors per slice.")),
        "explain": ("explain_code", _("The rule or warning behind a code, and its override.")),
    }


class LazyGroup(typer.core.TyperGroup):
    """A group that imports a command only when it is called or asked for its own help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(summaries())  # type: ignore[assignment]  # names for "did you mean"

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  typer's signature
        """The command, built now."""
        found = summaries().get(cmd_name)
        if found is None:
            return None
        module = import_module(f"{PACKAGE}.{found[0]}")
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        text = f"{found[1]}\n\n{module.DETAILS}"
        app.command(cmd_name, help=text, context_settings=CONTEXT)(as_callback(module.run, module.flags()))
        return typer.main.get_command(app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  the same
        """The summaries, without importing a command."""
        with formatter.section(_("Commands")):
            formatter.write_dl([(name, text) for name, (_module, text) in summaries().items()])


def _version(wanted: bool) -> None:
    if wanted:
        from gpuselect.report.version import tool_version

        typer.echo(f"gpuselect {tool_version()}")
        raise typer.Exit


def build() -> typer.Typer:
    """The program `gpuselect`."""
    app = typer.Typer(
        cls=LazyGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True,
        pretty_exceptions_enable=False, context_settings=CONTEXT,
    )  # fmt: skip

    @app.callback(help=_("Choose accelerators, frameworks and plans: with price, source and why."))
    def group(
        version: Annotated[
            bool, typer.Option("--version", help=_("Name and version."), callback=_version, is_eager=True)
        ] = False,
    ) -> None:
        """Options before the command."""

    return app


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line; usage errors leave with code 2.

    Output of the commands is decided by their own flags, so nothing else happens here.
    """
    try:
        build()(list(arguments), prog_name="gpuselect")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    return 0
