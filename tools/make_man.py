"""Write docs/man/gpuselect.1 from the flags and texts of the program; tools/check_docs.py keeps it fresh.

python tools/make_man.py          print the page
python tools/make_man.py --write  write docs/man/gpuselect.1
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from gpuselect.cli.app import PACKAGE, exit_codes, summaries
from gpuselect.cli.completion import spellings
from gpuselect.cli.config import DETAILS as SETTINGS
from gpuselect.cli.flags import Flag, common_flags, workload_flags

PAGE = Path(__file__).resolve().parents[1] / "docs/man/gpuselect.1"


def roff(text: str) -> str:
    r"""Text without what roff would read as an order.

    >>> roff("a-b\\c")
    'a\\-b\\\\c'
    """
    return text.replace("\\", "\\\\").replace("-", "\\-")


def lines_of(text: str) -> Iterator[str]:
    """A text of several lines; examples (indented, after the mark) stay as they are."""
    plain = True
    for line in text.replace("\b\n", "\b").splitlines():
        if line.startswith("\b"):
            yield from (".PP", roff(line.removeprefix("\b")), ".nf")
            plain = False
        elif not line and not plain:
            yield from (".fi", ".PP")
            plain = True
        else:
            escaped = roff(line)
            yield "\\&" + escaped if escaped.startswith((".", "'")) else escaped or ".PP"
    if not plain:
        yield ".fi"


def flag_lines(flags: Sequence[Flag]) -> Iterator[str]:
    """A paragraph for each option."""
    for flag in flags:
        written = ", ".join(f"\\fB{roff(word)}\\fR" for word in spellings(flag))
        value = {"text": "VALUE", "list": "A,B"}.get(flag.kind)
        metavar = roff(flag.metavar or value or "")
        shown = f"{written} \\fI{metavar}\\fR" if metavar and written else written or f"\\fI{metavar}\\fR"
        yield from (".TP", shown, roff(flag.help))


def page() -> str:
    """The whole manual page."""
    shared = {flag.name for flag in (*workload_flags(), *common_flags(("table", "json")))}
    lines = [
        '.\\" Made by tools/make_man.py; do not edit.', ".TH GPUSELECT 1", ".SH NAME",
        "gpuselect \\- choose accelerators, frameworks and plans: with price, source and why", ".SH SYNOPSIS",
        "\\fBgpuselect\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]", ".SH COMMANDS",
    ]  # fmt: skip
    for name, (module, summary) in summaries().items():
        loaded = import_module(f"{PACKAGE}.{module}")
        own = [flag for flag in loaded.flags() if flag.name not in shared]
        lines += [f".SS {name}", roff(summary), ".PP", *lines_of(loaded.DETAILS), *flag_lines(own)]
    lines += [".SH WORKLOAD FLAGS", "Of recommend, estimate, compare and report."]
    lines += [*flag_lines(workload_flags()), ".SH COMMON FLAGS", *flag_lines(common_flags(("table", "json")))]
    lines += [".SH EXIT STATUS", roff(exit_codes()), ".SH ENVIRONMENT", *lines_of(SETTINGS)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/man/gpuselect.1")
    if parser.parse_args().write:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
