"""`gpuselect doctor`: what a report of a fault needs, without a path or a name of the user."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuselect.cli.flags import Arguments, Flag, chosen_format, common_flags
from gpuselect.cli.output import terminal_style, write_out
from gpuselect.errors import GpuselectError
from gpuselect.i18n import _

FORMATS = ("table", "json")
LIBRARIES = ("numpy", "pandas", "pydantic", "pyyaml", "rich", "typer", "platformdirs", "mcp", "gpuhunt")
DETAILS = """\
Checks that the catalog can be read with your own figures over it, and prints what a report of a fault
needs. No path and no name of yours is printed, so the output can be pasted as it is.

\b
Examples:
  gpuselect doctor
  gpuselect doctor --json

Exit codes: 0 everything can be read, 3 the catalog or your own figures are damaged.
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    return common_flags(FORMATS)


def run(arguments: Arguments) -> int:
    """Print what there is; exit 3 when the data cannot be read."""
    form = chosen_format(arguments, FORMATS)
    data, code = _data(arguments)
    found = {"program": _program(), "data": data, "settings": _settings(), "terminal": _terminal(arguments)}
    if form == "json":
        from gpuselect.report.plain import to_text

        write_out(to_text({"schema_version": 1, "command": "doctor", **found, "ok": code == 0}))
        return code
    from gpuselect.report.console import Page

    page = Page(terminal_style(arguments))
    for name, entries in found.items():
        page.heading(name)
        for key, value in entries.items():
            page.line(f"{key}: {_shown(value)}", indent=2)
    write_out(page.text())
    return code


def _shown(value: Any) -> str:
    if value is None or value in ([], {}):
        return _("none")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, Mapping):
        return _(", ").join(f"{key} {item}" for key, item in value.items())
    return _(", ").join(map(str, value)) if isinstance(value, list) else str(value)


def _program() -> dict[str, Any]:
    """Versions of the program, of Python and of the libraries."""
    from importlib.metadata import PackageNotFoundError, version

    from gpuselect.report.version import tool_version

    libraries = {}
    for name in LIBRARIES:
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "gpuselect": tool_version(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "libraries": libraries,
    }


def _data(arguments: Arguments) -> tuple[dict[str, Any], int]:
    """What the catalog holds, its overlays and its cache; exit code 3 when it cannot be read."""
    from gpuselect.cli.load import overlays_of
    from gpuselect.readers.catalog import data_dir, load_catalog, parsed_state
    from gpuselect.readers.price_rows import PRICES

    facts: dict[str, Any] = dict(zip(("key", "cache"), parsed_state(), strict=True))
    facts["kind"] = "package" if data_dir().parent.name == "gpuselect" else "checkout"
    try:
        overlays = overlays_of({**arguments, "quiet": True})
        facts["overlays"] = [f"{n}: {_files(folder)}" for n, folder in enumerate(overlays, 1)]
        catalog = load_catalog(overlays=overlays)
    except GpuselectError as error:
        return {**facts, "fault": _without_home(str(error))}, error.exit_code
    counts = {
        "accelerators": len(catalog.accelerators), "models": len(catalog.models),
        "frameworks": len(catalog.frameworks), "systems": len(catalog.systems), "prices": len(catalog.prices),
    }  # fmt: skip
    newest = max((row.as_of for row in catalog.prices), default="") or None
    return {**facts, **counts, f"newest row of {PRICES}": newest, "fault": None}, 0


def _files(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".yaml", ".csv"))
    return _("{n} files").format(n=len(names)) + f" ({', '.join(names)})" if names else _("empty")


def _settings() -> dict[str, Any]:
    """Names of the settings that are made, and the kind of place; not their values."""
    from gpuselect.cli.config import settings

    try:
        made = settings()
    except GpuselectError as error:
        return {"fault": _without_home(str(error))}
    return {name: Path(setting.origin).name for name, setting in made.items()} or {"made": None}


def _without_home(text: str) -> str:
    """A message without the folder of the user and without the folder one is in."""
    for folder in (str(Path.cwd()), os.path.expanduser("~")):  # noqa: PTH111  Path.home() may raise
        text = text.replace(folder, "...") if len(folder) > 1 else text
    return text


def _terminal(arguments: Arguments) -> dict[str, Any]:
    """How output is shaped here."""
    style = terminal_style(arguments)
    return {
        "stdout": "terminal" if sys.stdout.isatty() else "pipe",
        "width": style.width,
        "encoding": getattr(sys.stdout, "encoding", None),
        "color": style.color,
        "TERM": os.environ.get("TERM"),
        "variables": [n for n in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS") if n in os.environ],
    }
