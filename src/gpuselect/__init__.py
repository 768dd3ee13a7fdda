"""Chooses accelerators, frameworks and parallel plans for a workload, with price and reasons.

>>> import gpuselect
>>> isinstance(gpuselect.__version__, str)
True
"""

from __future__ import annotations

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """Read `__version__` from the installed distribution when somebody asks for it."""
    if name != "__version__":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib.metadata import version

    return version("gpuselect-advisor")
