"""Fill a text or a tree with facts. Pure: no file is read and none is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Value = str | int | float | bool
Facts = Mapping[str, Value]
MARK = re.compile(r"<<([?!]?)([a-z][a-z0-9_]*)>>")


def holds(line: str, facts: Facts) -> bool:
    """Whether a line stays: every fact it names is known, or absent where the mark says so.

    >>> holds("tp: <<tp>>", {"tp": 8}), holds("tp: <<tp>>", {}), holds("<<!tp>>one", {})
    (True, False, True)
    """
    return all((name in facts) != (kind == "!") for kind, name in MARK.findall(line))


def written(value: Value) -> str:
    """A value as YAML, TOML, JSON and a shell read it alike.

    >>> written(True), written(8), written(0.5), written("a")
    ('true', '8', '0.5', 'a')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def fill_line(line: str, facts: Facts) -> str:
    """One line with its marks replaced; `holds` must be true."""
    return MARK.sub(lambda mark: "" if mark[1] else written(facts[mark[2]]), line)


def fill_text(text: str, facts: Facts) -> str:
    r"""A text without the lines that do not hold.

    >>> fill_text("a\n--tp <<tp>>\n--pp <<pp>>\n", {"tp": 2})
    'a\n--tp 2\n'
    """
    return "".join(fill_line(line, facts) for line in text.splitlines(keepends=True) if holds(line, facts))


def fill_tree(tree: Any, facts: Facts) -> Any:
    """A tree without the keys and items that do not hold; a value that is one mark keeps its type.

    >>> fill_tree({"a": "<<n>>", "b": "<<m>>", "<<?n>>c": {"d": 1}}, {"n": 4})
    {'a': 4, 'c': {'d': 1}}
    """
    if isinstance(tree, dict):
        return {
            fill_line(key, facts): fill_tree(value, facts)
            for key, value in tree.items()
            if holds(key, facts) and _stays(value, facts)
        }
    if isinstance(tree, list):
        return [fill_tree(item, facts) for item in tree if _stays(item, facts)]
    if isinstance(tree, str):
        alone = MARK.fullmatch(tree)
        return facts[alone[2]] if alone and not alone[1] else fill_line(tree, facts)
    return tree


def _stays(value: Any, facts: Facts) -> bool:
    return not isinstance(value, str) or holds(value, facts)
