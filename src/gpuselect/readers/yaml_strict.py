"""YAML as this project accepts it: plain data, no duplicate keys, no octal or date surprises."""

from __future__ import annotations

from typing import Any

import yaml

from gpuselect.errors import CatalogError
from gpuselect.i18n import _

_Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictLoader(_Base):  # type: ignore[misc, valid-type]
    """Safe loader that refuses a key given twice."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            key = key_node.value  # 4090: is a name here, like every other key
        if key in seen:
            raise yaml.MarkedYAMLError(
                problem=f"key {key!r} is given twice", problem_mark=key_node.start_mark
            )
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


def _text(loader: Any, node: yaml.ScalarNode) -> str:
    """A date stays text: the catalog has no dates, and JSON knows none."""
    return str(loader.construct_scalar(node))


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_StrictLoader.add_constructor("tag:yaml.org,2002:timestamp", _text)


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
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506  (a safe loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        problem = getattr(error, "problem", None) or str(error)
        raise CatalogError(_("{where}: {problem}").format(where=where, problem=problem)) from None
