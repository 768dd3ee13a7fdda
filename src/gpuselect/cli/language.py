"""The language of one call: chosen before anything is parsed, so that help and errors speak it too.

Sentences of the parser (click, or the copy in newer typer) are translated here, and its help is wrapped
by columns, because Chinese has no spaces and takes two columns a sign. English is left alone.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from gpuselect.errors import InputError
from gpuselect.i18n import (
    LANGUAGES,
    N_,
    VARIABLE,
    _,
    flag_language,
    known_language,
    labelled,
    language,
    use_language,
    use_setting,
)

OF_THE_PARSER = (
    N_("Show this message and exit."), N_("Options"), N_("Arguments"), N_("Commands"), N_("required"),
    N_("default: {default}"), N_("env var: {var}"),
)  # fmt: skip
CLOSE = r"(?: Did you mean (?P<close>.*?)\?| \(Possible options: (?P<many>.*)\))?"
ERRORS = (  # what the parser says, as a pattern, and the sentence with its parts by name
    (r"No such option: (?P<name>\S+?)\.?" + CLOSE, N_("no such option: {name}{hint}")),
    (r"No such command '(?P<name>.*?)'\." + CLOSE, N_("no such command: {name}{hint}")),
    (r"Missing (?:argument|option|parameter):? '?(?P<name>.*?)'?\.?", N_("missing: {name}")),
    (r"Got unexpected extra arguments? \((?P<name>.*)\)", N_("not expected here: {name}")),
    (r"Got unexpected extra argument\(s\) \((?P<name>.*)\)", N_("not expected here: {name}")),
    (r"Option '?(?P<name>\S+?)'? requires an argument\.?", N_("option {name} needs a value")),
    (r"Option '?(?P<name>\S+?)'? does not take a value\.?", N_("option {name} takes no value")),
    (r"Invalid value for '?(?P<name>.*?)'?: .*", N_("{name} cannot have this value")),
    (r"Missing command\.", N_("no command given")),
)  # fmt: skip


def speak(arguments: Sequence[str]) -> None:
    """Choose the language by `--lang`, GPUSELECT_LANG or the locale. A locale counts if it can be shown."""
    flag = flag_language(arguments)
    for name, where in ((flag, "--lang"), (os.environ.get(VARIABLE), VARIABLE)):
        checked(name, where)
    use_language(flag)
    if language() != "en":
        if flag is None and not os.environ.get(VARIABLE) and not _shows(_("Options")):
            use_language("en")
        else:
            _teach_parser()


def checked(name: object, where: str) -> str | None:
    """The name of a language that there is, or None."""
    if name in (None, ""):
        return None
    if (found := known_language(str(name))) is None:
        text = _("{where} is one of {names}, not {given!r}")
        raise InputError(text.format(where=where, names=_(", ").join(LANGUAGES), given=name))
    return found


def speak_setting(name: object) -> None:
    """The language of a configuration file; a flag and the environment are stronger."""
    use_setting(checked(name, "lang"))


def _shows(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def show(error: Any) -> None:
    """A usage error on standard error, in the language of the call."""
    if language() == "en" or type(error).__name__ == "NoArgsIsHelpError":  # that one is the help itself
        error.show()
        return
    context = getattr(error, "ctx", None)
    lines = [] if context is None else [context.get_usage()]
    if context is not None:
        lines.append(_("Try '{command} --help' for help.").format(command=context.command_path))
    lines.append(_("error: {message}").format(message=translated_error(error.format_message())))
    sys.stderr.write("\n".join(lines) + "\n")


def translated_error(message: str) -> str:
    """The sentence of the parser in the language of the call.

    >>> translated_error("No such option: --foo Did you mean --for?")
    'no such option: --foo; did you mean --for?'
    """
    for pattern, sentence in ERRORS:
        if found := re.fullmatch(pattern, message):
            parts = found.groupdict()
            close = (parts.get("close") or parts.get("many") or "").replace("'", "")
            hint = _("; did you mean {name}?").format(name=close) if close else ""
            return _(sentence).format(name=parts.get("name", ""), hint=hint)
    return message


@cache
def _teach_parser() -> None:
    """Let the parser ask for its few words here; in English it gets them back as they are."""
    import typer.core

    core: Any = typer.core
    package = core.TyperGroup.format_usage.__module__.rpartition(".")[0]
    formatting: Any = import_module(f"{package}.formatting")
    formatter, plain_wrap = formatting.HelpFormatter, formatting.wrap_text
    usage, definitions = formatter.write_usage, formatter.write_dl

    def write_usage(self: Any, prog: str, args: str = "", prefix: str | None = None) -> None:
        usage(self, prog, args, prefix or _("Usage: "))

    def write_dl(self: Any, rows: Any, *more: Any, **named: Any) -> None:
        definitions(self, [(first, _(second)) for first, second in rows], *more, **named)

    def wrap_text(text: str, width: int = 78, *more: Any, **named: Any) -> str:
        return str((plain_wrap if language() == "en" else wrapped)(text, width, *more, **named))

    core._ = _  # click's own way to a translation wants compiled files of its own domain

    def write_heading(self: Any, heading: str) -> None:
        self.write(" " * self.current_indent + labelled(_(heading), "").rstrip() + "\n")

    formatter.write_heading = write_heading
    formatter.write_usage, formatter.write_dl, formatting.wrap_text = write_usage, write_dl, wrap_text


def wrapped(
    text: str,
    width: int = 78,
    initial_indent: str = "",
    subsequent_indent: str = "",
    preserve_paragraphs: bool = False,
) -> str:
    r"""A text in lines of at most `width` columns; parts that begin with \b stay as they are.

    >>> wrapped("显存 80 GiB，带宽", 10)
    '显存 80\nGiB，带宽'
    """
    from gpuselect.report.console import filled

    parts = text.split("\n\n") if preserve_paragraphs else [text]
    found = []
    for part in parts:
        if part.startswith("\b"):
            found.append("\n".join(initial_indent + line for line in part.split("\n")[1:]))
            continue
        lines = filled(" ".join(part.split()), width - len(initial_indent))
        indents = [initial_indent] + [subsequent_indent or initial_indent] * (len(lines) - 1)
        found.append("\n".join(indent + line for indent, line in zip(indents, lines, strict=True)))
    return "\n\n".join(found)
