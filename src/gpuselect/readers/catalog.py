"""Read the catalog: strict YAML and CSV, overlays, and the parsed JSON form that makes it fast.

The parsed form is keyed by the content of all files: a stale or damaged one is rebuilt silently.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from gpuselect.catalog import (
    Accelerator,
    Catalog,
    Entry,
    Framework,
    Model,
    Price,
    Source,
    System,
    WeightFormat,
)
from gpuselect.errors import CatalogError
from gpuselect.i18n import _

LISTS: Mapping[str, type[Entry]] = {
    "gpus.yaml": Accelerator, "models.yaml": Model, "frameworks.yaml": Framework,
    "formats.yaml": WeightFormat, "systems.yaml": System,
}  # fmt: skip
MAPPINGS = ("sources.yaml", "calibration.yaml", "defaults.yaml")
PRICES = "prices.csv"
PARSED = "catalog.json"
PRICE_KEY = ("hardware", "n_accel", "kind", "term", "provider", "instance", "region")
KINDS, TERMS = ("rent", "buy"), (
    "on-demand", "spot", "reserved-1y", "reserved-3y", "list", "retail", "used", "server", "system",
)  # fmt: skip
AnyEntry = TypeVar("AnyEntry", bound=Entry)
Raw = dict[str, Any]


def data_dir() -> Path:
    """The data folder: inside the installed package, or at the top of a checkout."""
    inside = Path(__file__).resolve().parents[1] / "data"
    return inside if inside.is_dir() else Path(__file__).resolve().parents[3] / "data"


class LazyModels(Mapping[str, Model]):
    """Models by id, validated when asked for. `aliases` maps every other spelling to an id."""

    def __init__(self, raw: Mapping[str, Raw], sources: Mapping[str, Source]) -> None:
        self._raw = raw
        self._sources = sources
        self._ready: dict[str, Model] = {}
        self.aliases = {a: i for i, entry in raw.items() for a in entry.get("aliases", ())}

    def __getitem__(self, key: str) -> Model:
        if key not in self._ready:
            self._ready[key] = _validated(Model, self._raw[key], "models.yaml", self._sources)
        return self._ready[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def load_catalog(*, folder: Path | None = None, overlays: Sequence[Path] = ()) -> Catalog:
    """The catalog of `folder` with the files of each overlay folder on top.

    Raises CatalogError (file, entry, key) for a figure without source, an undeclared source, an
    unknown or duplicate key, or a duplicate id.
    """
    parsed = _parsed(folder or data_dir())
    for overlay in overlays:
        parsed = _overlaid(parsed, overlay)
    sources = {key: _source(key, raw) for key, raw in parsed["sources.yaml"].items()}
    entries = {
        name: {i: _validated(kind, raw, name, sources) for i, raw in parsed[name].items()}
        for name, kind in LISTS.items()
        if kind is not Model
    }
    return Catalog(
        accelerators=entries["gpus.yaml"],  # type: ignore[arg-type]
        models=LazyModels(parsed["models.yaml"], sources),
        frameworks=entries["frameworks.yaml"],  # type: ignore[arg-type]
        formats=entries["formats.yaml"],  # type: ignore[arg-type]
        systems=entries["systems.yaml"],  # type: ignore[arg-type]
        prices=tuple(Price(**row) for row in parsed[PRICES]),
        sources=sources,
    )


def read_section(folder: Path, name: str) -> Mapping[str, Any]:
    """One of the files that are a mapping (calibration.yaml, defaults.yaml), as written."""
    return _parsed(folder)[name]  # type: ignore[no-any-return]


def check_catalog(folder: Path | None = None) -> dict[str, int]:
    """Validate everything, models too; the number of entries, figures and prices."""
    catalog = load_catalog(folder=folder)
    tables: Sequence[Mapping[str, Entry]] = (
        catalog.accelerators, catalog.models, catalog.frameworks, catalog.formats, catalog.systems,
    )  # fmt: skip
    figures = sum(len(list(entry.figures())) for table in tables for entry in table.values())
    for system in catalog.systems.values():
        for name in system.accelerators:
            if name not in catalog.accelerators:
                raise CatalogError(
                    _("systems.yaml: {system}: unknown accelerator {name}").format(
                        system=system.id, name=name
                    )
                )
    return {
        "accelerators": len(catalog.accelerators), "models": len(catalog.models),
        "frameworks": len(catalog.frameworks), "formats": len(catalog.formats),
        "systems": len(catalog.systems), "prices": len(catalog.prices), "figures": figures,
        "sources": len(catalog.sources),
    }  # fmt: skip


def build_parsed(folder: Path) -> str:
    """The parsed form of a data folder as JSON text, with the key of its content."""
    texts = _texts(folder)
    return json.dumps({"key": _key(texts), "data": _parse_texts(texts)}, separators=(",", ":"))


@lru_cache(maxsize=4)
def _parsed(folder: Path) -> dict[str, Any]:
    """The parsed form, from the JSON beside the data when it is fresh, else from the files."""
    texts = _texts(folder)
    key, stored = _key(texts), folder / PARSED
    try:
        found = json.loads(stored.read_text(encoding="utf-8"))
        if found["key"] == key:
            return found["data"]  # type: ignore[no-any-return]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    data = _parse_texts(texts)
    _write_quietly(stored, json.dumps({"key": key, "data": data}, separators=(",", ":")))
    return data


def _write_quietly(path: Path, text: str) -> None:
    """Write atomically; a folder that cannot be written is no reason to fail."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".catalog-", suffix=".json")
    except OSError:
        return
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)


def _texts(folder: Path) -> dict[str, bytes]:
    """Content of every file of the catalog."""
    texts = {}
    for name in (*LISTS, *MAPPINGS, PRICES):
        try:
            texts[name] = (folder / name).read_bytes()
        except OSError:
            raise CatalogError(_("the data folder has no {name}").format(name=name)) from None
    return texts


def _key(texts: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(texts):
        digest.update(name.encode() + b"\0" + texts[name])
    return digest.hexdigest()


def _parse_texts(texts: Mapping[str, bytes]) -> dict[str, Any]:
    from gpuselect.readers.yaml_strict import parse_yaml

    data: dict[str, Any] = {}
    for name in texts:
        try:
            text = texts[name].decode("utf-8")
        except UnicodeDecodeError:
            raise CatalogError(_("{name} is not UTF-8 text").format(name=name)) from None
        if name in LISTS:
            data[name] = _by_id(parse_yaml(text, name=name), name)
        elif name in MAPPINGS:
            data[name] = parse_yaml(text, name=name)
        else:
            data[name] = _price_rows(text, name)
    return data


def _by_id(raw: Any, name: str) -> dict[str, Raw]:
    """Entries by id; duplicates are refused."""
    if not isinstance(raw, list):
        raise CatalogError(_("{name}: expected a list of entries").format(name=name))
    found: dict[str, Raw] = {}
    for entry in raw:
        key = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(key, str):
            raise CatalogError(_("{name}: an entry has no id").format(name=name))
        if key in found:
            raise CatalogError(_("{name}: {key} is given twice").format(name=name, key=key))
        found[key] = entry
    return found


def _price_rows(text: str, name: str) -> list[Raw]:
    """Rows of prices.csv with numbers as numbers; each needs a source, a positive price and a term."""
    rows = []
    for line, row in enumerate(csv.DictReader(io.StringIO(text)), 2):
        try:
            fields: Raw = {key: row[key] for key in Price.__dataclass_fields__}
            fields["n_accel"], fields["price"] = int(row["n_accel"]), float(row["price"])
        except (KeyError, ValueError, TypeError) as error:
            raise CatalogError(_("{name}:{line}: {why}").format(name=name, line=line, why=error)) from None
        fields["is_offer"] = row["is_offer"] == "yes"
        right = fields["source"] and fields["price"] > 0 and fields["kind"] in KINDS
        if not right or fields["term"] not in TERMS:
            raise CatalogError(
                _("{name}:{line}: a price needs a source, a positive price, a kind of {kinds}, "
                  "a term of {terms}").format(
                    name=name, line=line, kinds=", ".join(KINDS), terms=", ".join(TERMS)
                )
            )  # fmt: skip
        rows.append(fields)
    return rows


def _overlaid(parsed: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The parsed form with an overlay folder's files on top, field by field."""
    from gpuselect.readers.yaml_strict import parse_yaml

    if not folder.is_dir():
        raise CatalogError(_("no overlay folder {folder}").format(folder=folder))
    merged = dict(parsed)
    for name in (*LISTS, *MAPPINGS, PRICES):
        path = folder / name
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        if name in LISTS:
            merged[name] = dict(merged[name])
            for key, entry in _by_id(parse_yaml(text, name=str(path)), str(path)).items():
                merged[name][key] = _merge(merged[name].get(key, {}), entry)
        elif name in MAPPINGS:
            merged[name] = {**merged[name], **parse_yaml(text, name=str(path))}
        else:
            rows = {tuple(row[k] for k in PRICE_KEY): row for row in merged[name]}
            rows.update({tuple(r[k] for k in PRICE_KEY): r for r in _price_rows(text, str(path))})
            merged[name] = list(rows.values())
    return merged


def _merge(base: Raw, over: Raw) -> Raw:
    """Fields of `over` replace those of `base`; tables of figures merge by key."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict) and "value" not in value
        result[key] = {**base[key], **value} if both else value
    return result


def _source(key: str, raw: Any) -> Source:
    try:
        return Source.model_validate(raw)
    except ValidationError as error:
        what = error.errors()[0]
        place = ".".join(str(part) for part in what["loc"])
        raise CatalogError(f"sources.yaml: {key}: {place}: {what['msg']}") from None


def _validated(kind: type[AnyEntry], raw: Raw, name: str, sources: Mapping[str, Source]) -> AnyEntry:
    """One entry as its type; the first fault becomes one sentence."""
    try:
        entry = kind.model_validate(raw)
    except ValidationError as error:
        what = error.errors()[0]
        place = ".".join(str(part) for part in what["loc"])
        near = ""
        if what["type"] == "extra_forbidden":
            close = get_close_matches(str(what["loc"][-1]), kind.model_fields, n=1)
            near = _("; did you mean {key}?").format(key=close[0]) if close else ""
        message = what["msg"].removeprefix("Value error, ")
        raise CatalogError(f"{name}: {raw.get('id')}: {place}: {message}{near}") from None
    for key, _place in entry.sources.values():
        if key not in sources:
            close = get_close_matches(key, sources, n=1)
            near = _("; did you mean {key}?").format(key=close[0]) if close else ""
            raise CatalogError(
                _("{name}: {id}: source {key} is not in sources.yaml{near}").format(
                    name=name, id=entry.id, key=key, near=near
                )
            )
    return entry
