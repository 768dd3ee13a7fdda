"""The language of the answer: English in the code, other languages in `locale/LANGUAGE.po`.

`_` translates where a sentence is shown; `N_` marks one that stands at module level and is translated
later. A flag decides, else GPUSELECT_LANG or a setting, else the locale. Nothing is read for English.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

LANGUAGES = ("en", "zh")
VARIABLE = "GPUSELECT_LANG"
LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
QUOTED = re.compile(r'^(?:msgid |msgstr )?"(.*)"$')
OF_THE_SYSTEM = (  # reasons that an operating system gives in English
    "No such file or directory", "Permission denied", "Is a directory", "Not a directory",
    "File name too long", "No space left on device", "Read-only file system", "File exists",
    "Too many open files",
)  # fmt: skip
ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_chosen: dict[str, str] = {}  # "flag", "setting": the language that each of them names


def known_language(name: str | None) -> str | None:
    """The language of a tag or a locale; None where there is no catalog for it.

    >>> known_language("zh_CN.UTF-8"), known_language("en-GB"), known_language("fr")
    ('zh', 'en', None)
    """
    first = re.split(r"[-_.@]", (name or "").strip().lower(), maxsplit=1)[0]
    return first if first in LANGUAGES else None


def flag_language(arguments: Sequence[str]) -> str | None:
    """What `--lang` says on a command line, before anything is parsed: help is written in that language.

    >>> flag_language(["--lang", "zh", "list"]), flag_language(["list", "--lang=en"]), flag_language(["list"])
    ('zh', 'en', None)
    """
    found = None
    for index, word in enumerate(arguments):
        if word == "--":
            break
        if word.startswith("--lang="):
            found = word.partition("=")[2]
        elif word == "--lang":
            found = next(iter(arguments[index + 1 : index + 2]), None)
    return found


def use_language(flag: str | None = None, setting: str | None = None) -> None:
    """Speak the language of the flag, else GPUSELECT_LANG, else of the setting, else the locale."""
    _chosen.clear()
    _chosen.update({key: name for key, name in (("flag", flag), ("setting", setting)) if name})
    _messages.cache_clear()


def language() -> str:
    """The language of the answer, one of `LANGUAGES`."""
    environment = os.environ
    asked = [_chosen.get("flag"), environment.get(VARIABLE), _chosen.get("setting")]
    asked.append(next((environment[name] for name in LOCALE_VARIABLES if environment.get(name)), None))
    return next((found for name in asked if (found := known_language(name))), "en")


def use_setting(name: str | None) -> None:
    """Speak the language of a configuration file, unless a flag or the environment names one."""
    if name and name != _chosen.get("setting"):
        use_language(_chosen.get("flag"), name)


@lru_cache(maxsize=1)
def _messages() -> Mapping[str, str]:
    """The sentences of the chosen language by their English form; none for English."""
    chosen = language()
    if chosen == "en":
        return {}
    file = Path(__file__).parent / "locale" / f"{chosen}.po"
    return {key: text for key, text in read_po(file.read_text(encoding="utf-8")).items() if key and text}


def read_po(text: str) -> dict[str, str]:
    r"""Messages and translations of a gettext .po file, without plural forms and contexts.

    >>> read_po('# a comment\nmsgid "two "\n"words\\n"\nmsgstr "两个词\\n"\n')
    {'two words\n': '两个词\n'}
    """
    parts: dict[str, list[list[str]]] = {"msgid": [], "msgstr": []}
    current: list[str] = []
    for line in text.splitlines():
        keyword = line.split(" ", 1)[0]
        if keyword in parts:
            current = []
            parts[keyword].append(current)
        if found := QUOTED.match(line):
            current.append(found[1])
    texts = {keyword: [_unescaped("".join(lines)) for lines in found] for keyword, found in parts.items()}
    return dict(zip(texts["msgid"], texts["msgstr"], strict=True))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), text)


def N_(message: str) -> str:  # noqa: N802  the usual name of the mark
    """Mark a sentence for translation; whoever shows it calls `_`.

    >>> N_("cards")
    'cards'
    """
    return message


def _(message: str) -> str:
    """Translate one sentence; its `{placeholders}` are filled by the caller afterwards.

    >>> _("{count} cards").format(count=2)
    '2 cards'
    """
    return _messages().get(message, message)


def labelled(name: str, text: object) -> str:
    """A name and what it is, in one line.

    >>> labelled("Cost", "$2")
    'Cost: $2'
    """
    return _("{name}: {text}").format(name=name, text=text)


def full_stop(text: str) -> str:
    """A sentence with its full stop.

    >>> full_stop("It fits")
    'It fits.'
    """
    return _("{text}.").format(text=text)


def paragraphs(text: str) -> str:
    r"""Translate a longer text paragraph by paragraph; of examples (after a line \b) only the heading.

    >>> paragraphs("What it does.\n\n\b\nExample:\n  gpuselect list\n")
    'What it does.\n\n\x08\nExample:\n  gpuselect list\n'
    """
    return "\n\n".join(
        "\n".join(_(line) if not line.startswith(" ") else line for line in part.split("\n"))
        if part.startswith("\b\n")
        else _(part)
        for part in text.split("\n\n")
    )
