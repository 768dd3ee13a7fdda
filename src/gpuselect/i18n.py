"""Translation of user-facing sentences: a lazy gettext wrapper for the domain `gpuselect`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gettext import NullTranslations

DOMAIN = "gpuselect"


@lru_cache(maxsize=1)
def _translations() -> NullTranslations:
    """Load the message catalog of the user's language once; English where there is none."""
    import gettext
    from pathlib import Path

    folder = Path(__file__).parent / "locale"
    return gettext.translation(DOMAIN, localedir=str(folder), fallback=True)


def _(message: str) -> str:
    """Translate one sentence; its `{placeholders}` are filled by the caller afterwards.

    >>> _("{count} cards").format(count=2)
    '2 cards'
    """
    return _translations().gettext(message)
