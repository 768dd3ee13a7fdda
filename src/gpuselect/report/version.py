"""The version that an answer names."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError


def tool_version() -> str:
    """Version of the installed package; `0+checkout` where the source runs without being installed.

    >>> tool_version() != ""
    True
    """
    import gpuselect

    try:
        return gpuselect.__version__
    except PackageNotFoundError:
        return "0+checkout"
