"""Build hook: the wheel carries data/ as gpuselect/data, and the catalog already parsed.

The file is written to a temporary folder, so that building leaves the source tree clean.
An editable installation reads the YAML in the checkout and needs no parsed form.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ParsedCatalogHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the data folder and the parsed catalog to a standard wheel."""

    PLUGIN_NAME = "custom"
    _scratch: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Parse the data folder and add the result to the files of the wheel."""
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "src"))
        try:
            from gpuselect.readers.catalog import build_parsed

            text = build_parsed(root / "data")
        finally:
            sys.path.remove(str(root / "src"))
        self._scratch = Path(tempfile.mkdtemp(prefix="gpuselect-build-"))
        parsed = self._scratch / "catalog.json"
        parsed.write_text(text, encoding="utf-8")
        included = build_data["force_include"]
        for file in sorted((root / "data").rglob("*")):
            if file.is_file() and file != root / "data" / parsed.name:  # a checkout's own copy
                included[str(file)] = f"gpuselect/{file.relative_to(root).as_posix()}"
        included[str(parsed)] = f"gpuselect/data/{parsed.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
