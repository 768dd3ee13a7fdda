"""YAML as this project accepts it: plain data, no duplicate keys, no octal or date surprises.

Anchors, aliases and tags are refused, and depth and size are bounded before anything is built: a short
file cannot become a large object (the "billion laughs"), and none can name a class.
"""

from __future__ import annotations

from typing import Any

import yaml

from gpuselect.errors import CatalogError
from gpuselect.i18n import _

DEEPEST = 40
MOST_NODES = 400_000
PLAIN_TAGS = frozenset({None, "!", *(f"tag:yaml.org,2002:{t}" for t in ("str", "seq", "map"))})
_Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class StrictLoader(_Base):  # type: ignore[misc, valid-type]
    """Safe loader that refuses a key given twice."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem=_("a key must be a word"), problem_mark=key_node.start_mark)
        key = key_node.value  # 4090: is a name here, like every other key
        if key in seen:
            raise yaml.MarkedYAMLError(
                problem=_("key {key!r} is given twice").format(key=key), problem_mark=key_node.start_mark
            )
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


def _text(loader: Any, node: yaml.ScalarNode) -> str:
    """A date stays text: the catalog has no dates, and JSON knows none."""
    return str(loader.construct_scalar(node))


def _integer(loader: Any, node: yaml.ScalarNode) -> int | str:
    """A whole number in decimal. `0x1f`, `1:30` and forty digits stay text: a parser of sizes decides."""
    text = str(loader.construct_scalar(node)).replace("_", "")
    return int(text) if text.lstrip("+-").isdecimal() and len(text) < 40 else str(node.value)


StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
StrictLoader.add_constructor("tag:yaml.org,2002:timestamp", _text)
StrictLoader.add_constructor("tag:yaml.org,2002:int", _integer)


def refuse_excess(text: str) -> None:
    """Refuse what plain data does not need; raises yaml.MarkedYAMLError at the place of the fault.

    >>> refuse_excess("a: &x 1")
    Traceback (most recent call last):
    ...
    yaml.error.MarkedYAMLError: anchors and aliases are not accepted: write the value out
    ...
    """
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not isinstance(event, yaml.NodeEvent):
            continue
        nodes += 1
        depth += isinstance(event, yaml.CollectionStartEvent)
        problem = ""
        if event.anchor is not None:  # an alias has one too
            problem = _("anchors and aliases are not accepted: write the value out")
        elif getattr(event, "tag", None) not in PLAIN_TAGS:
            problem = _("the tag {tag} is not accepted: write the plain value").format(tag=event.tag)  # type: ignore[attr-defined]
        elif depth > DEEPEST:
            problem = _("more than {n} levels deep").format(n=DEEPEST)
        elif nodes > MOST_NODES:
            problem = _("more than {n} values").format(n=MOST_NODES)
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]


def place_of(error: yaml.YAMLError) -> tuple[int, int, str]:
    """Line and column (from 1; 0 when unknown) of a YAML fault, and what is wrong in one line."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    where = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    return *where, " ".join(str(problem).split())


def parse_yaml(text: str, *, name: str) -> Any:
    r"""Parse the text of a data file; raises CatalogError with file, line and column.

    >>> parse_yaml("a: 1", name="x.yaml")
    {'a': 1}
    >>> parse_yaml("a: 1\na: 2", name="x.yaml")
    Traceback (most recent call last):
    ...
    gpuselect.errors.CatalogError: x.yaml:2:1: key 'a' is given twice
    """
    try:
        refuse_excess(text)
        return yaml.load(text, Loader=StrictLoader)  # noqa: S506  (a safe loader)
    except yaml.YAMLError as error:
        line, column, problem = place_of(error)
        where = f"{name}:{line}:{column}" if line else name
        raise CatalogError(_("{where}: {problem}").format(where=where, problem=problem)) from None
    except ValueError as error:  # a value that YAML types and Python does not take
        raise CatalogError(f"{name}: {error}") from None
