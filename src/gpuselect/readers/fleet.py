"""Read a fleet file: many workloads in one YAML, each with the keys of a workload file and a name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gpuselect.errors import CatalogError, InputError
from gpuselect.i18n import _
from gpuselect.readers.limits import read_text_bounded
from gpuselect.readers.yaml_strict import parse_yaml

LIMIT = 20_000_000  # bytes; ten thousand workloads
KEYS = ("defaults", "workloads")


def read_fleet(path: Path) -> list[tuple[str, dict[str, object]]]:
    """Name and keys of each workload; `defaults` are laid under those of each."""
    text = read_text_bounded(path, limit=LIMIT, error=InputError)
    try:
        raw = parse_yaml(text, name=str(path))
    except CatalogError as error:
        raise InputError(str(error)) from None
    return fleet_entries(raw, name=str(path))


def fleet_entries(raw: Any, *, name: str) -> list[tuple[str, dict[str, object]]]:
    """Name and keys of each workload of a parsed file: a list, or `workloads` with their `defaults`.

    >>> fleet_entries([{"name": "chat", "params": "8B"}, {"params": "70B"}], name="fleet.yaml")
    [('chat', {'params': '8B'}), ('2', {'params': '70B'})]
    """
    defaults: Mapping[str, object] = {}
    if isinstance(raw, Mapping):
        for key in raw:
            if key not in KEYS:
                near = get_close_matches(str(key), KEYS, n=1)
                hint = _(", did you mean {name}?").format(name=near[0]) if near else ""
                raise InputError(_("{file}: {key}: no such key").format(file=name, key=key) + hint)
        defaults, raw = raw.get("defaults") or {}, raw.get("workloads")
    if not isinstance(raw, list) or not raw or not isinstance(defaults, Mapping):
        raise InputError(_("{file}: expected a list of workloads, or the key workloads").format(file=name))
    found: dict[str, dict[str, object]] = {}
    for number, entry in enumerate(raw, 1):
        if not isinstance(entry, Mapping):
            text = _("{file}: workload {n}: expected lines such as `task: pretrain`")
            raise InputError(text.format(file=name, n=number))
        title = str(entry.get("name") or number)
        if title in found:
            raise InputError(_("{file}: the name {title} is given twice").format(file=name, title=title))
        keys = {_spelled(k): v for k, v in defaults.items()} | {_spelled(k): v for k, v in entry.items()}
        keys.pop("name", None)
        found[title] = keys
    return list(found.items())


def _spelled(key: object) -> str:
    return str(key).strip().lower().replace("-", "_")
