"""The command line: parse, call one function, render."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `gpuselect` and leave with its exit code.

    0 an answer; 1 a valid question whose answer is no; 2 usage or bad input; 3 damaged catalog;
    4 internal error; 130 interrupted.
    """
    from gpuselect.cli.failures import exit_code_of

    given = list(sys.argv[1:] if arguments is None else arguments)

    def run() -> int:
        from gpuselect.cli.app import invoke

        return invoke(given)

    sys.exit(exit_code_of(run, debug="--debug" in given))
