"""Read data/profiles.yaml: the weights of the profiles and how sure a ranking is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from gpuselect.errors import CatalogError
from gpuselect.i18n import _
from gpuselect.readers.catalog import data_dir, read_section
from gpuselect.score import Judgement


@cache
def shipped_judgement() -> Judgement:
    """The profiles that come with the package, read once."""
    return load_judgement()


def load_judgement(*, folder: Path | None = None, overlays: Sequence[Path] = ()) -> Judgement:
    """Profiles, with those of each overlay's profiles.yaml on top, profile by profile.

    Raises CatalogError with the key that is wrong.
    """
    raw = dict(read_section(folder or data_dir(), "profiles.yaml"))
    for overlay in overlays:
        if (overlay / "profiles.yaml").exists():
            from gpuselect.readers.yaml_strict import parse_yaml

            path = overlay / "profiles.yaml"
            own = parse_yaml(path.read_text(encoding="utf-8"), name=str(path)) or {}
            raw |= {**own, "profiles": {**raw["profiles"], **own.get("profiles", {})}}
    try:
        return Judgement.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        text = _("profiles.yaml: {key}: {what}")
        raise CatalogError(text.format(key=key, what=first["msg"])) from None
