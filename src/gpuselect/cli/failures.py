"""What happens when a command fails: one sentence and an exit code, never a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

from gpuselect.errors import GpuselectError
from gpuselect.i18n import _

INTERNAL_ERROR = 4
INTERRUPTED = 130
UNUSABLE_FILE = 2


def exit_code_of(run: Callable[[], int], *, debug: bool) -> int:
    """Exit code of `run`; what it raises becomes a sentence on standard error.

    >>> exit_code_of(lambda: 1, debug=False)
    1
    """
    try:
        code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # whoever read it has left: that is no error
        return 0
    except GpuselectError as error:
        _say(_("error: {message}").format(message=error), debug=debug)
        return error.exit_code
    except OSError as error:  # a disk that is full, a file that may not be read
        what = error.filename or _("the output")
        _say(
            _("error: cannot read or write {what}: {why}").format(
                what=what, why=_(error.strerror or str(error))
            ),
            debug=debug,
        )
        _drop_output()
        return UNUSABLE_FILE
    except Exception as error:  # noqa: BLE001  the last line of defence: see the module docstring
        _say(_internal_error(error), debug=debug)
        return INTERNAL_ERROR
    return code


def _drop_output() -> None:
    """Nothing may be written any more: what is left in the buffers goes nowhere when Python ends."""
    with contextlib.suppress(OSError, ValueError):  # standard output may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _internal_error(error: Exception) -> str:
    from gpuselect.report.version import tool_version

    text = _(
        "internal error in gpuselect {version}: {kind}: {message}; please report it with the "
        "command in the project's issue tracker (--debug shows the traceback)"
    )
    message = " ".join(str(error).split())
    return text.format(version=tool_version(), kind=type(error).__name__, message=message)


def _say(text: str, *, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc(file=sys.stderr)
    print(text, file=sys.stderr)  # noqa: T201  standard error is where this belongs
