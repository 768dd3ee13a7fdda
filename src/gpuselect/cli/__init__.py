"""The command line: parse, call one function, render."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

GARBAGE_AFTER = 1_000_000  # new objects; a short process builds many and drops few


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `gpuselect` and leave with its exit code.

    0 an answer; 1 a valid question whose answer is no; 2 usage or bad input; 3 damaged catalog;
    4 internal error; 130 interrupted.
    """
    from gpuselect.cli.failures import exit_code_of

    if arguments is None:
        _start_light()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["__complete"]:  # called by the script of `gpuselect completion`
        from gpuselect.cli.completion import complete

        sys.exit(complete(given[1:]))

    def run() -> int:
        from gpuselect.cli.language import speak

        speak(given)
        from gpuselect.cli.app import invoke

        return invoke(given)

    sys.exit(exit_code_of(run, debug="--debug" in given))


def _start_light() -> None:
    """Settings of a process of our own that save a tenth of its time; none changes a result.

    The collector of cycles runs rarely, pydantic does not look for plug-ins in every installed
    distribution, and NumPy starts no threads for linear algebra, which nothing here uses.
    """
    gc.set_threshold(GARBAGE_AFTER, 50, 100)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
