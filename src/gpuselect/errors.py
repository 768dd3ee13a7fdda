"""Errors a user can meet, one class per kind, each with its exit code.

GpuselectError
 ├── InputError      bad flag, unknown name, bad workload file   (exit 2)
 └── CatalogError    damaged or unsourced data                   (exit 3)

"Nothing fits" is not an error: it is a decision without recommendations (exit 1).
"""


class GpuselectError(Exception):
    """Base of all errors that are shown as one sentence instead of a traceback."""

    exit_code = 4


class InputError(GpuselectError):
    """What the user gave cannot be understood; the message says what is allowed."""

    exit_code = 2


class CatalogError(GpuselectError):
    """A data file breaks the rules of the catalog; the message names file, line and key."""

    exit_code = 3
