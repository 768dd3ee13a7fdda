"""Read data/calibration.yaml and data/defaults.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpuselect.calibration import Calibration
from gpuselect.errors import CatalogError
from gpuselect.i18n import _
from gpuselect.readers.catalog import data_dir, read_section
from gpuselect.readers.limits import read_text_bounded
from gpuselect.tco import CostDefaults


def load_calibration(*, folder: Path | None = None) -> Calibration:
    """Calibrated constants and quantiles; raises CatalogError with the key that is wrong."""
    return _validated(Calibration, "calibration.yaml", folder)  # type: ignore[no-any-return]


def load_defaults(*, folder: Path | None = None, overlays: Sequence[Path] = ()) -> CostDefaults:
    """Defaults of the cost model, with the keys of each overlay's defaults.yaml on top.

    Raises CatalogError with the key that is wrong.
    """
    return _validated(CostDefaults, "defaults.yaml", folder, overlays)  # type: ignore[no-any-return]


def _validated(kind: Any, name: str, folder: Path | None, overlays: Sequence[Path] = ()) -> Any:
    raw = dict(read_section(folder or data_dir(), name))
    for overlay in overlays:
        if (overlay / name).exists():
            from gpuselect.readers.yaml_strict import parse_yaml

            text = read_text_bounded(overlay / name)
            own = parse_yaml(text, name=str(overlay / name)) or {}
            if not isinstance(own, dict):
                raise CatalogError(_("{name}: expected keys with values").format(name=overlay / name))
            raw |= own
    if kind is CostDefaults:
        raw.pop("sources", None)
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise CatalogError(_("{file}: {key}: {what}").format(file=name, key=key, what=first["msg"])) from None
