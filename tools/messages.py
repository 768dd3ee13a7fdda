"""Collect the sentences that a user can see and keep the catalogs of `src/gpuselect/locale` in step.

`python tools/messages.py update` adds new messages, drops those that are gone and keeps translations;
`python tools/messages.py check` (the default) lists what is missing or stale and leaves with 1.
Messages come from `_()` and `N_()`, from the explanations of rules, from the texts of the commands, and from
the words of the data files. A translation whose placeholders differ counts as missing.
"""

from __future__ import annotations

import argparse
import ast
import csv
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import yaml

from gpuselect.i18n import ESCAPES, LANGUAGES, read_po
from gpuselect.readers.translated import FRAMEWORK_WORDS, OPTIMISATION_WORDS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "gpuselect"
DATA = ROOT / "data"
LOCALE = SOURCE / "locale"
KEYWORDS = ("_", "N_", "Explanation")  # calls whose text arguments are messages
# texts of a module that are translated where they are shown
CONSTANTS = ("DETAILS", "SKIP_REASONS", "OF_THE_SYSTEM")
PLACEHOLDER = re.compile(r"(?:\{[a-z_0-9]*(?:![rs])?(?::[^{}]*)?\}|<<\??[a-z_0-9]+>>)", re.IGNORECASE)


def in_code(path: Path) -> Iterator[str]:
    """Messages of one module, in the order of the text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KEYWORDS:
            yield from _texts(node.args)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and any(isinstance(t, ast.Name) and t.id in CONSTANTS for t in targets):
                yield from _of_constant(node.value)


def _texts(values: Iterable[ast.expr]) -> Iterator[str]:
    return (v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str))


def _of_constant(value: ast.expr) -> Iterator[str]:
    """Texts of a tuple or a dictionary, or paragraphs of a longer text; of examples the heading only."""
    if isinstance(value, ast.Tuple):
        yield from _texts(value.elts)
    elif isinstance(value, ast.Dict):
        yield from _texts(value.values)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        for part in value.value.split("\n\n"):
            if part.startswith("\b\n"):
                yield from (line for line in part.split("\n")[1:] if line and not line.startswith(" "))
            else:
                yield part


def in_data() -> Iterator[tuple[str, str]]:
    """Words of the data files: (file, message)."""
    for name, keys in (("optimisations.yaml", OPTIMISATION_WORDS), ("frameworks.yaml", FRAMEWORK_WORDS)):
        for entry in yaml.safe_load((DATA / name).read_text(encoding="utf-8")):
            for key in keys:
                yield from ((name, text) for text in _words(entry.get(key)))
    with (DATA / "power_measured.csv").open(encoding="utf-8", newline="") as table:
        yield from (("power_measured.csv", row["workload"]) for row in csv.DictReader(table))
    for path in sorted((DATA / "launch").glob("*.yaml")):
        template = yaml.safe_load(path.read_text(encoding="utf-8"))
        for step in template.get("steps", ()):
            yield f"launch/{path.name}", step["do"]
        yield from ((f"launch/{path.name}", doubt) for doubt in template.get("doubts", ()))


def _words(value: object) -> Iterator[str]:
    """The text of a word or of a sourced fact; of a mapping, its keys and their facts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield value[0]
    elif isinstance(value, Mapping) and "value" in value:
        yield str(value["value"])
    elif isinstance(value, Mapping):
        for key, fact in value.items():
            yield key
            yield from _words(fact)


def extracted() -> dict[str, list[str]]:
    """Every message with the files it comes from."""
    found: dict[str, list[str]] = {}
    places = [(str(p.relative_to(SOURCE)), m) for p in sorted(SOURCE.rglob("*.py")) for m in in_code(p)]
    for place, message in (*places, *((f"data/{file}", text) for file, text in in_data())):
        if message.strip() and place not in found.setdefault(message, []):
            found[message].append(place)
    return found


def placeholders(text: str) -> list[str]:
    """Names between braces, sorted: a translation has the same ones."""
    return sorted(PLACEHOLDER.findall(text))


def faults(translations: Mapping[str, str], messages: Mapping[str, list[str]]) -> list[str]:
    """What keeps a catalog from being complete."""
    missing = [message for message in messages if not translations.get(message)]
    found = [f"not translated: {message!r} ({messages[message][0]})" for message in missing]
    found += [f"no longer used: {m!r}" for m in translations if m and m not in messages]
    for message in messages:
        text = translations.get(message, "")
        if text and placeholders(text) != placeholders(message):
            found.append(f"other placeholders: {message!r} -> {text!r}")
    return found


def po_text(header: str, translations: Mapping[str, str], messages: Mapping[str, list[str]]) -> str:
    """The catalog as a .po file: `header` is everything before the first message."""
    parts = [header.rstrip("\n")]
    for message, places in messages.items():
        lines = [f"#: {' '.join(places)}", *_entry("msgid", message)]
        parts.append("\n".join([*lines, *_entry("msgstr", translations.get(message, ""))]))
    return "\n\n".join(parts) + "\n"


def _entry(keyword: str, text: str) -> list[str]:
    signs = {sign: f"\\{letter}" for letter, sign in ESCAPES.items()}
    lines = ["".join(signs.get(sign, sign) for sign in line) for line in text.splitlines(keepends=True)]
    if len(lines) < 2:
        return [f'{keyword} "{"".join(lines)}"']
    return [f'{keyword} ""', *(f'"{line}"' for line in lines)]


def main() -> int:
    """Update or check every catalog."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", nargs="?", choices=("check", "update"), default="check")
    action = parser.parse_args().action
    messages, missing = extracted(), 0
    for language in LANGUAGES[1:]:
        path = LOCALE / f"{language}.po"
        text = path.read_text(encoding="utf-8")
        translations = read_po(text)
        if action == "update":
            header = text.split("\n\n#: ", 1)[0]
            path.write_text(po_text(header, translations, messages), encoding="utf-8")
            translations = read_po(path.read_text(encoding="utf-8"))
        found = faults(translations, messages)
        missing += len(found)
        print(*found, f"{language}: {len(messages)} messages, {len(found)} faults", sep="\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
