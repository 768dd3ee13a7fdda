"""Where text goes: the terminal, a pipe, or a file that is never half written."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from gpuselect.errors import InputError
from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.decision import Decision
    from gpuselect.report.console import Style

SUFFIXES = (".md", ".html", ".json")


def terminal_style(arguments: Mapping[str, Any]) -> Style:
    """What standard output can show: width only on a terminal, colour only when wanted."""
    import shutil

    from gpuselect.report.console import Style

    is_terminal = sys.stdout.isatty()
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    return Style(
        width=shutil.get_terminal_size((80, 24)).columns if is_terminal else None,
        color=_wants_color(arguments, is_terminal=is_terminal),
        unicode=encoding.startswith("utf"),
        wide=bool(arguments.get("wide")),
    )


def _wants_color(arguments: Mapping[str, Any], *, is_terminal: bool) -> bool:
    environment = os.environ
    if arguments.get("no_color") or environment.get("NO_COLOR"):
        return False
    if environment.get("TERM") == "dumb":
        return False
    return is_terminal or bool(environment.get("FORCE_COLOR") or environment.get("CLICOLOR_FORCE"))


def write_out(text: str) -> None:
    """Text to standard output, in its encoding."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def note(text: str, arguments: Mapping[str, Any]) -> None:
    """One line on standard error, unless --quiet."""
    if text and not arguments.get("quiet"):
        sys.stderr.write(text + "\n")


def write_file(path: Path, text: str) -> None:
    """Write a text file so that it is there whole or not at all."""
    try:
        with NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as temporary:
            name = Path(temporary.name)
            temporary.write(text)
        name.chmod(0o666 & ~_umask())
        name.replace(path)
    except OSError as error:
        if "name" in locals():
            name.unlink(missing_ok=True)
        message = _("cannot write {path}: {reason}").format(path=path, reason=error.strerror)
        raise InputError(message) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def output_path(given: str) -> Path:
    """The path of a report, checked before anything is computed."""
    path = Path(given)
    if path.suffix.lower() not in SUFFIXES:
        text = _("cannot tell the form of {path!r}: its suffix must be one of {names}")
        raise InputError(text.format(path=given, names=", ".join(SUFFIXES)))
    if not path.parent.is_dir():
        raise InputError(_("there is no folder {folder}").format(folder=path.parent))
    return path


def decision_file_text(decision: Decision, suffix: str) -> str:
    """The decision in the form that a file suffix names."""
    if suffix == ".json":
        from gpuselect.report.json import decision_payload
        from gpuselect.report.plain import to_text

        return to_text(decision_payload(decision))
    from gpuselect.report.document import decision_document

    if suffix == ".html":
        from gpuselect.report.html import blocks_to_html

        return blocks_to_html(decision_document(decision))
    from gpuselect.report.markdown import blocks_to_markdown

    return blocks_to_markdown(decision_document(decision))
