"""Chooses accelerators, frameworks and parallel plans for a workload, with price and reasons.

>>> import gpuselect
>>> isinstance(gpuselect.__version__, str)
True
>>> sorted(gpuselect.__all__)
['__version__', 'compare', 'estimate', 'load_catalog', 'recommend']
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuselect.api import compare, estimate, load_catalog, recommend

    __version__: str

__all__ = ["__version__", "compare", "estimate", "load_catalog", "recommend"]


class _CallableModule(ModuleType):
    """The package `gpuselect.estimate`, which shares its name with a function of the library."""

    def __call__(self, *arguments: Any, **keys: Any) -> Any:
        """The function `gpuselect.api.estimate`."""
        from gpuselect.api import estimate as function

        return function(*arguments, **keys)


class _Package(ModuleType):
    """This package: when Python hangs `gpuselect.estimate` into it, that stays callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "estimate" and type(value) is ModuleType:
            value.__class__ = _CallableModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Import a function when it is asked for: start-up pays for none of them."""
    if name == "__version__":
        from importlib.metadata import version

        return version("gpuselect-advisor")
    if name in __all__:
        from gpuselect import api

        return getattr(api, name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
