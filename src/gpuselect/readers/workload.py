"""Reads a workload file: YAML, one key per flag, strict about unknown and duplicate keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.readers.limits import read_text_bounded
from gpuselect.readers.yaml_strict import StrictLoader, place_of, refuse_excess
from gpuselect.workload import Workload

LIMIT = 1_000_000  # bytes; a workload has a few dozen lines


def read_workload(path: Path) -> Workload:
    """Read one workload; errors name the file, the line, the column and the key."""
    return Workload.from_mapping(read_workload_mapping(path))


def read_workload_mapping(path: Path) -> dict[str, object]:
    """The keys of a workload file as written, already checked, for merging with flags."""
    return parse_workload_text(read_text_bounded(path, limit=LIMIT, error=InputError), name=str(path))


def parse_workload_text(text: str, *, name: str) -> dict[str, object]:
    """Parse and check the text of a workload file called `name`.

    >>> parse_workload_text("task: pretrain", name="my.yaml")
    {'task': 'pretrain'}
    >>> parse_workload_text("parms: 7B", name="my.yaml")
    Traceback (most recent call last):
    ...
    gpuselect.errors.InputError: my.yaml:1:1: parms: no such key, did you mean params?
    """
    try:
        refuse_excess(text)
        loader = StrictLoader(text)
        try:
            node = loader.get_single_node()
            places = _places(node, name=name)
            mapping: dict[str, Any] = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        line, column, problem = place_of(error)
        raise InputError(f"{name}:{line or 1}:{column or 1}: {problem}") from None
    except ValueError as error:  # a value that YAML types and Python does not take
        raise InputError(f"{name}: {error}") from None
    _check(mapping, places=places, name=name)
    return mapping


def _places(node: yaml.Node | None, *, name: str) -> dict[str, tuple[int, int]]:
    """Line and column of each key of the file; duplicates at any depth are refused."""
    if not isinstance(node, yaml.MappingNode):
        raise InputError(_("{name}: expected lines such as `task: pretrain`").format(name=name))
    places: dict[str, tuple[int, int]] = {}
    for key, value in node.value:
        line, column = key.start_mark.line + 1, key.start_mark.column + 1
        if not isinstance(key, yaml.ScalarNode):
            raise InputError(f"{name}:{line}:{column}: " + _("a key must be a word"))
        if key.value in places:
            raise InputError(
                _("{name}:{line}:{column}: {key} is given twice, first in line {first}").format(
                    name=name, line=line, column=column, key=key.value, first=places[key.value][0]
                )
            )
        places[key.value] = (line, column)
        if isinstance(value, yaml.MappingNode):
            _places(value, name=name)
    return places


def _check(mapping: dict[str, Any], *, places: dict[str, tuple[int, int]], name: str) -> None:
    """Validate a file on its own (a missing task may come from a flag), adding line and column."""
    try:
        Workload.from_mapping({"task": "inference", **mapping})
    except InputError as error:
        key = str(error).split(":", 1)[0]
        spelled = {written.replace("-", "_"): place for written, place in places.items()}
        line, column = places.get(key) or spelled.get(key) or spelled.get("weights") or (1, 1)
        raise InputError(f"{name}:{line}:{column}: {error}") from None
