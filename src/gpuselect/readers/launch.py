"""Read the launch templates: data/launch/*.yaml and, on top, launch/*.yaml of each overlay folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from gpuselect.errors import CatalogError
from gpuselect.i18n import _
from gpuselect.launch.template import Template
from gpuselect.readers.catalog import data_dir
from gpuselect.readers.limits import read_text_bounded
from gpuselect.readers.yaml_strict import parse_yaml

FOLDER = "launch"


def load_templates(*, folder: Path | None = None, overlays: Sequence[Path] = ()) -> tuple[Template, ...]:
    """Every template, by file name; a tool of an overlay replaces the one of the same name."""
    found: dict[str, Template] = {}
    for place in (folder or data_dir(), *overlays):
        for path in sorted((place / FOLDER).glob("*.yaml")):
            template = _template(path)
            found[template.tool] = template
    return tuple(found.values())


def options_of(name: str, *, folder: Path | None = None) -> frozenset[str]:
    """The recorded option list of that name: one option a line, `#` starts a comment."""
    path = (folder or data_dir()) / FOLDER / "options" / f"{name}.txt"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise CatalogError(_("there is no option list {name}").format(name=path.name)) from None
    return frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def _template(path: Path) -> Template:
    try:
        raw = parse_yaml(read_text_bounded(path), name=path.name)
        template = Template.model_validate(raw)
    except ValidationError as error:
        what = error.errors()[0]
        place = ".".join(str(part) for part in what["loc"])
        parts = (path.name, place, what["msg"].removeprefix("Value error, "))
        raise CatalogError(": ".join(part for part in parts if part)) from None
    if template.tool != path.stem:
        text = _("{name}: tool is {tool}, which is not the name of the file")
        raise CatalogError(text.format(name=path.name, tool=template.tool))
    return template
