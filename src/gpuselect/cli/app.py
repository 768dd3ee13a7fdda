"""The commands by name. A command's module is imported when the command is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from gpuselect.cli.flags import Arguments, Flag, as_callback
from gpuselect.cli.language import show, speak_setting
from gpuselect.i18n import _, language, paragraphs

PACKAGE = "gpuselect.cli"
CONTEXT = {
    "help_option_names": ["-h", "--help"],
    # --seq_len is read as --seq-len
    "token_normalize_func": lambda token: token.replace("_", "-"),
}


INTERRUPTED = 130
SETTINGS_IGNORED = ("config", "completion", "doctor", "mcp")


def exit_codes() -> str:
    """Exit codes of every command."""
    return _(
        "Exit codes: 0 an answer, 1 a valid question whose answer is no, 2 usage or bad input, "
        "3 damaged catalog, 4 internal error, 130 interrupted."
    )


def summaries() -> Mapping[str, tuple[str, str]]:
    """Module and one-line summary of each command."""
    return {
        "recommend": ("recommend", _("What should I use? Ranked options, why, and what is out.")),
        "estimate": ("estimate", _("What would I get on this hardware? Exit 1: does not fit.")),
        "compare": ("compare", _("Accelerators or frameworks side by side, with ratios to the first.")),
        "report": ("write_report", _("Write the decision report of a recommendation to a file.")),
        "list": ("list_entries", _("Accelerators, models, frameworks, systems, prices, rules.")),
        "show": ("show", _("One entry of the catalog with the source of each figure.")),
        "prices": ("prices", _("How old the prices are, and live ones when asked.")),
        "validate": ("validate", _("Predictions against measured rows: errors per slice.")),
        "explain": ("explain", _("What stands behind a code, or why a card won or lost.")),
        "config": ("config", _("The settings that hold for every call, and where they were made.")),
        "completion": ("completion", _("The script that completes commands and names in a shell.")),
        "doctor": ("doctor", _("Versions, data and environment, without paths: for a report of a fault.")),
        "mcp": ("mcp", _("Serve the same answers to an assistant (extra [mcp]).")),
    }


def command_of(name: str) -> Any:
    """The command of that name; built once in a process and language."""
    return _command(name, language())


@cache
def _command(name: str, _language: str) -> Any:
    file, summary = summaries()[name]
    module = import_module(f"{PACKAGE}.{file}")
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    flags = module.flags()
    run = prepared(name, module.run, flags)
    app.command(name, help=f"{summary}\n\n{paragraphs(module.DETAILS)}", context_settings=CONTEXT)(
        as_callback(run, flags)
    )
    command = typer.main.get_command(app)
    share_readers(command.params)
    return command


def share_readers(options: Sequence[Any]) -> None:
    """Let options of one type share what reads their value.

    Newer typer makes a validator for each option, which costs more than all the rest of the parsing; there
    are five types and a hundred options. Older typer has no such thing and is left alone.
    """
    readers: dict[str, Any] = {}
    for option in options:
        described = getattr(option, "type_descriptor", None)
        if described is None or not hasattr(option, "get_runtime_param"):
            return
        kind = f"{described.annotation} {option.nargs} {getattr(option, 'multiple', False)}"
        option.__dict__["_runtime_param"] = readers.get(kind) or readers.setdefault(
            kind, option.get_runtime_param()
        )


class LazyGroup(typer.core.TyperGroup):
    """A group that imports a command only when it is called or asked for its own help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(summaries())  # type: ignore[assignment]  # names for "did you mean"

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  typer's signature
        """The command, built now."""
        return command_of(cmd_name) if cmd_name in summaries() else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  the same
        """The summaries, without importing a command."""
        with formatter.section(_("Commands")):
            formatter.write_dl([(name, text) for name, (_module, text) in summaries().items()])


def prepared(name: str, run: Callable[[Arguments], int], flags: Sequence[Flag]) -> Callable[[Arguments], int]:
    """The command with the settings of the configuration laid under its flags.

    A bare `recommend` on a terminal asks a few questions first.
    """
    if name in SETTINGS_IGNORED:
        return run

    def with_settings(arguments: Arguments) -> int:
        from gpuselect.cli.config import applied

        arguments = applied(arguments, flags)
        speak_setting(arguments.get("lang"))
        if name == "recommend":
            from gpuselect.cli.questions import asked

            arguments = asked(arguments)
        return run(arguments)

    return with_settings


def _version(wanted: bool) -> None:
    if wanted:
        from gpuselect.report.version import tool_version

        typer.echo(f"gpuselect {tool_version()}")
        raise typer.Exit


def build() -> typer.Typer:
    """The program `gpuselect`."""
    app = typer.Typer(
        cls=LazyGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True, epilog=exit_codes(),
        pretty_exceptions_enable=False, context_settings=CONTEXT,
    )  # fmt: skip

    @app.callback(help=_("Choose accelerators, frameworks and plans: with price, source and why."))
    def group(
        lang: Annotated[  # read before: see `language`
            str | None,
            typer.Option(
                "--lang", metavar="en|zh", help=_("Language of the answer: en or zh (also GPUSELECT_LANG).")
            ),
        ] = None,
        version: Annotated[
            bool, typer.Option("--version", help=_("Name and version."), callback=_version, is_eager=True)
        ] = False,
    ) -> None:
        """Options before the command."""

    return app


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line; usage errors leave with code 2, an interruption while it is read with 130.

    Output of the commands is decided by their own flags, so nothing else happens here.
    """
    try:
        code = build()(list(arguments), prog_name="gpuselect", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:
        # Usage errors show themselves. Their class is that of click, or of the copy that newer typer carries.
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        show(error)
        return int(error.exit_code)
    return code if isinstance(code, int) else 0
