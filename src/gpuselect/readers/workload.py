"""Reads a workload file: YAML, one key per flag, strict about unknown and duplicate keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.workload import Workload


def read_workload(path: Path) -> Workload:
    """Read one workload; errors name the file, the line and the key."""
    return Workload.from_mapping(read_workload_mapping(path))


def read_workload_mapping(path: Path) -> dict[str, object]:
    """The keys of a workload file as written, already checked, for merging with flags."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or _("it is not UTF-8 text")
        raise InputError(_("cannot read {path}: {reason}").format(path=path, reason=reason)) from None
    return parse_workload_text(text, name=str(path))


def parse_workload_text(text: str, *, name: str) -> dict[str, object]:
    """Parse and check the text of a workload file called `name`.

    >>> parse_workload_text("task: pretrain", name="my.yaml")
    {'task': 'pretrain'}
    >>> parse_workload_text("parms: 7B", name="my.yaml")
    Traceback (most recent call last):
    ...
    gpuselect.errors.InputError: my.yaml, line 1: parms: no such key, did you mean params?
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        lines = _lines(node, name=name)
        mapping: dict[Any, Any] = loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError(
            _("{name}, line {line}: {problem}").format(
                name=name,
                line=mark.line + 1 if mark else 1,
                problem=getattr(error, "problem", None) or error,
            )
        ) from None
    finally:
        loader.dispose()
    _check(mapping, lines=lines, name=name)
    return {str(key): value for key, value in mapping.items()}


def _lines(node: yaml.Node | None, *, name: str) -> dict[str, int]:
    """Line of each key of the file; duplicates at any depth are refused."""
    if not isinstance(node, yaml.MappingNode):
        raise InputError(_("{name}: expected lines such as `task: pretrain`").format(name=name))
    lines: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.value in lines:
            raise InputError(
                _("{name}, line {line}: {key} is given twice, first in line {first}").format(
                    name=name, line=line, key=key.value, first=lines[key.value]
                )
            )
        lines[key.value] = line
        if isinstance(value, yaml.MappingNode):
            _lines(value, name=name)
    return lines


def _check(mapping: dict[Any, Any], *, lines: dict[str, int], name: str) -> None:
    """Validate a file on its own (a missing task may come from a flag), adding the line."""
    try:
        Workload.from_mapping({"task": "inference", **{str(k): v for k, v in mapping.items()}})
    except InputError as error:
        key = str(error).split(":", 1)[0]
        spelled = {written.replace("-", "_"): line for written, line in lines.items()}
        line = lines.get(key) or spelled.get(key) or spelled.get("weights", 1)
        raise InputError(
            _("{name}, line {line}: {problem}").format(name=name, line=line, problem=error)
        ) from None
