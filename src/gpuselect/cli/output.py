"""Where text goes: the terminal, a pipe, or a file that is never half written."""

from __future__ import annotations

import json
import os
import re
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
NON_ASCII = re.compile(r"[^\x00-\x7f]")
COLORS = ("auto", "always", "never")


def terminal_style(arguments: Mapping[str, Any]) -> Style:
    """What standard output can show: width only on a terminal, colour only when wanted."""
    import shutil

    from gpuselect.report.console import Style

    is_terminal = sys.stdout.isatty()
    return Style(
        width=shutil.get_terminal_size((80, 24)).columns if is_terminal else None,
        color=_wants_color(arguments, is_terminal=is_terminal),
        unicode=_shows_signs(getattr(sys.stdout, "encoding", None) or "ascii"),
        wide=bool(arguments.get("wide")),
    )


def _shows_signs(encoding: str) -> bool:
    """Whether an encoding has every typographic sign: UTF-8 and GB18030 do, GBK and Latin-1 do not."""
    from gpuselect.report.format import ASCII_SPELLING

    try:
        "".join(ASCII_SPELLING).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _wants_color(arguments: Mapping[str, Any], *, is_terminal: bool) -> bool:
    environment = os.environ
    wanted = arguments.get("color") or "auto"
    if wanted not in COLORS:
        text = _("--color is one of {names}, not {given!r}")
        raise InputError(text.format(names=_(", ").join(COLORS), given=wanted))
    if wanted != "auto" or arguments.get("no_color"):
        return wanted == "always" and not arguments.get("no_color")
    if environment.get("NO_COLOR"):
        return False
    if environment.get("TERM") == "dumb":
        return False
    return is_terminal or bool(environment.get("FORCE_COLOR") or environment.get("CLICOLOR_FORCE"))


def write_out(text: str) -> None:
    """Text to standard output, in its encoding; what JSON cannot show there is escaped, not lost."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        if text.startswith("{"):
            text = NON_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)
        text = text.encode(encoding, "replace").decode(encoding)
    sys.stdout.write(text)


def note(text: str, arguments: Mapping[str, Any]) -> None:
    """One line on standard error, unless --quiet."""
    if text and not arguments.get("quiet"):
        sys.stderr.write(text + "\n")


def write_file(path: Path, text: str) -> None:
    """Write a text file so that it is there whole or not at all; what was there before stays until then.

    A link is followed, so that the file it leads to is replaced and not the link. A device is written to.
    """
    try:
        target = path.resolve() if path.is_symlink() else path
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8", errors="replace")  # /dev/stdout, a pipe
            return
        _replace_whole(target, text)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = _(getattr(error, "strerror", None) or str(error))
        raise InputError(_("cannot write {path}: {reason}").format(path=path, reason=reason)) from error


def _replace_whole(target: Path, text: str) -> None:
    """Write beside the target, then put it in place; nothing is left behind, whatever happens."""
    with NamedTemporaryFile(
        "w", encoding="utf-8", errors="replace", dir=target.parent, prefix=f".{target.name[:100]}.",
        delete=False,
    ) as temporary:  # fmt: skip
        name = Path(temporary.name)
        try:
            temporary.write(text)
            temporary.flush()
            os.fsync(temporary.fileno())
        except BaseException:
            name.unlink(missing_ok=True)
            raise
    try:
        name.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        name.replace(target)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def output_path(given: str) -> Path:
    """The path of a report, checked before anything is computed."""
    path = Path(given)
    if path.suffix.lower() not in SUFFIXES:
        text = _("cannot tell the form of {path!r}: its suffix must be one of {names}")
        raise InputError(text.format(path=given, names=_(", ").join(SUFFIXES)))
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
