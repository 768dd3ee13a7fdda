"""Read the catalog: strict YAML, overlays, and the parsed JSON form that makes it fast.

The parsed form is keyed by the content of all files: a stale or damaged one is rebuilt silently.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from gpuselect.catalog import (
    PRECISIONS,
    Accelerator,
    Catalog,
    Entry,
    Framework,
    Model,
    Optimisation,
    Price,
    Source,
    System,
    WeightFormat,
)
from gpuselect.errors import CatalogError
from gpuselect.i18n import _, language
from gpuselect.readers.limits import TABLE_BYTES, read_bounded
from gpuselect.readers.price_rows import (
    PRICES,
    QUOTATIONS,
    parse_prices,
    parse_quotations,
    replace_prices,
)
from gpuselect.readers.tables import EMBODIED, EXCHANGE, POWER, PRICE_HISTORY, REGIONS, LazyTable
from gpuselect.readers.translated import translated

LISTS: Mapping[str, type[Entry]] = {
    "gpus.yaml": Accelerator, "models.yaml": Model, "frameworks.yaml": Framework,
    "formats.yaml": WeightFormat, "systems.yaml": System, "optimisations.yaml": Optimisation,
}  # fmt: skip
OPTIONAL = frozenset({"optimisations.yaml", "profiles.yaml"})  # a folder may lack them
MAPPINGS = ("sources.yaml", "calibration.yaml", "defaults.yaml", "profiles.yaml")
PARSED = "catalog.json"
AnyEntry = TypeVar("AnyEntry", bound=Entry)
Raw = dict[str, Any]


def data_dir() -> Path:
    """The data folder: inside the installed package, or at the top of a checkout."""
    inside = Path(__file__).resolve().parents[1] / "data"
    return inside if inside.is_dir() else Path(__file__).resolve().parents[3] / "data"


_default_dir = data_dir  # `data_dir` is also the name of a parameter below


class LazyModels(Mapping[str, Model]):
    """Models by id, validated when asked for. `aliases` maps every other spelling to an id."""

    def __init__(
        self, raw: Mapping[str, Raw], sources: Mapping[str, Source], folders: Sequence[Path]
    ) -> None:
        self._raw = raw
        self._sources = sources
        self._folders = folders
        self._ready: dict[str, Model] = {}
        self.aliases = {a: i for i, entry in raw.items() for a in entry.get("aliases") or ()}

    def __getitem__(self, key: str) -> Model:
        if key not in self._ready:
            self._ready[key] = _validated(Model, self._raw[key], "models.yaml", self._sources, self._folders)
        return self._ready[key]

    def __contains__(self, key: object) -> bool:
        return key in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def load_catalog(*, data_dir: Path | None = None, overlays: Sequence[Path] = ()) -> Catalog:
    """The catalog of `data_dir` with the files of each overlay folder on top.

    Raises CatalogError (file, line, entry, key) for a figure without source, an undeclared source,
    an unknown or duplicate key, a duplicate id or a name that two entries claim.
    """
    folder = data_dir or _default_dir()
    parsed = _parsed(folder)
    for overlay in overlays:
        parsed = _overlaid(parsed, overlay)
    folders = (*reversed(overlays), folder)
    sources = {key: _source(key, raw) for key, raw in parsed["sources.yaml"].items()}
    for name in LISTS:
        _refuse_shared_names(parsed[name], name)
    entries = {
        name: {i: _validated(kind, raw, name, sources, folders) for i, raw in parsed[name].items()}
        for name, kind in LISTS.items()
        if kind is not Model
    }
    catalog = Catalog(
        accelerators=entries["gpus.yaml"],  # type: ignore[arg-type]
        models=LazyModels(parsed["models.yaml"], sources, folders),
        frameworks=entries["frameworks.yaml"],  # type: ignore[arg-type]
        formats=entries["formats.yaml"],  # type: ignore[arg-type]
        systems=entries["systems.yaml"],  # type: ignore[arg-type]
        prices=tuple(Price(**row) for row in parsed[PRICES]),
        sources=sources,
        power=LazyTable(POWER, (folder, *overlays)),
        regions=LazyTable(REGIONS, (folder, *overlays)),
        price_history=LazyTable(PRICE_HISTORY, (folder, *overlays)),
        embodied=LazyTable(EMBODIED, (folder, *overlays)),
        exchange_rates=LazyTable(EXCHANGE, (folder, *overlays)),
        optimisations=entries["optimisations.yaml"],  # type: ignore[arg-type]
    )
    return catalog if language() == "en" else translated(catalog)


def read_section(folder: Path, name: str) -> Mapping[str, Any]:
    """One of the files that are a mapping (calibration.yaml, defaults.yaml), as written."""
    return _parsed(folder)[name]  # type: ignore[no-any-return]


def parsed_state(folder: Path | None = None) -> tuple[str, str]:
    """The key of the data's content, shortened, and whether the parsed form is fresh, stale or absent.

    >>> len(parsed_state()[0])
    12
    """
    place = folder or _default_dir()
    key = _key(_texts(place))
    try:
        found = json.loads((place / PARSED).read_text(encoding="utf-8"))
    except OSError:
        return key[:12], "absent"
    except (ValueError, RecursionError):
        return key[:12], "stale"
    return key[:12], "fresh" if isinstance(found, dict) and found.get("key") == key else "stale"


def known_names(name: str, *, data_dir: Path | None = None) -> list[str]:
    """Ids of a file's entries, then the names that lead to them; nothing is validated.

    >>> "h100" in known_names("gpus.yaml"), "llama-3.1-8b" in known_names("models.yaml")
    (True, True)
    """
    entries = _parsed(data_dir or _default_dir())[name]
    others = (
        str(spelling)
        for entry in entries.values()
        for field in ("default_for", "aliases")
        for spelling in entry.get(field) or ()
    )
    return list(dict.fromkeys((*entries, *others)))


def check_catalog(data_dir: Path | None = None) -> dict[str, int]:
    """Validate everything, models too; the number of entries, figures and prices."""
    catalog = load_catalog(data_dir=data_dir)
    tables: Sequence[Mapping[str, Entry]] = (
        catalog.accelerators, catalog.models, catalog.frameworks, catalog.formats, catalog.systems,
        catalog.optimisations,
    )  # fmt: skip
    figures = sum(len(list(entry.figures())) for table in tables for entry in table.values())
    used = [(f"systems.yaml: {s.id}", n) for s in catalog.systems.values() for n in s.accelerators]
    used += [(PRICES, price.hardware) for price in catalog.prices]
    used += [(POWER.file, row.hardware) for row in catalog.power]
    used += [(PRICE_HISTORY.file, row.hardware) for row in catalog.price_history]
    used += [(EMBODIED.file, row.hardware) for row in catalog.embodied]
    for where, name in used:
        if name not in catalog.accelerators:
            raise CatalogError(
                _("{where}: unknown accelerator {name}{near}").format(
                    where=where, name=name, near=_near(name, catalog.accelerators)
                )
            )
    return {
        "accelerators": len(catalog.accelerators), "models": len(catalog.models),
        "frameworks": len(catalog.frameworks), "formats": len(catalog.formats),
        "systems": len(catalog.systems), "prices": len(catalog.prices), "figures": figures,
        "sources": len(catalog.sources), "measured powers": len(catalog.power),
        "regions": len(catalog.regions), "past prices": len(catalog.price_history),
    }  # fmt: skip


def build_parsed(data_dir: Path) -> str:
    """The parsed form of a data folder as JSON text, with the key of its content."""
    texts = _texts(data_dir)
    return json.dumps({"key": _key(texts), "data": _parse_texts(texts)}, separators=(",", ":"))


@lru_cache(maxsize=4)
def _parsed(folder: Path) -> dict[str, Any]:
    """The parsed form, from the JSON beside the data when it is fresh, else from the files."""
    texts = _texts(folder)
    key, stored = _key(texts), folder / PARSED
    try:
        found = json.loads(stored.read_text(encoding="utf-8"))
        if found["key"] == key and found["data"].keys() == texts.keys():
            return found["data"]  # type: ignore[no-any-return]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
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
        Path(name).chmod(0o644)  # others may start the program next
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
            if name not in OPTIONAL:
                raise CatalogError(_("the data folder has no {name}").format(name=name)) from None
            texts[name] = b"[]" if name in LISTS else b"{}"
    return texts


def _key(texts: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(texts):
        digest.update(name.encode() + b"\0" + texts[name])
    return digest.hexdigest()


def _parse_texts(texts: Mapping[str, bytes]) -> dict[str, Any]:
    return {name: _parse_text(content, name, name) for name, content in texts.items()}


def _parse_text(content: bytes, name: str, shown: str, *, whole: bool = True) -> Any:
    """One file as plain data; `shown` is how messages name it, `whole` that it is one of the catalog's."""
    from gpuselect.readers.yaml_strict import parse_yaml

    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise CatalogError(_("{name} is not UTF-8 text").format(name=shown)) from None
    if name == PRICES:
        return parse_prices(text, name=shown)
    raw = parse_yaml(text, name=shown)
    if name in LISTS:
        return _by_id(raw, text, shown)
    if whole and not isinstance(raw, dict):
        raise CatalogError(_("{name}: expected keys with values").format(name=shown))
    return raw


def _by_id(raw: Any, text: str, name: str) -> dict[str, Raw]:
    """Entries by id; duplicates are refused."""
    if not isinstance(raw, list):
        raise CatalogError(_("{name}: expected a list of entries").format(name=name))
    found: dict[str, Raw] = {}
    for number, entry in enumerate(raw, 1):
        key = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(key, str):
            raise CatalogError(_("{name}: entry {number} has no id").format(name=name, number=number))
        if key in found:
            lines = [n for n, line in enumerate(text.splitlines(), 1) if _names(line, key)]
            raise CatalogError(
                _("{name}: {key} is given twice, on lines {lines}").format(
                    name=name, key=key, lines=", ".join(map(str, lines))
                )
            )
        found[key] = entry
    return found


def _overlaid(parsed: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The parsed form with an overlay folder's files on top, field by field."""
    if not folder.is_dir():
        raise CatalogError(_("no overlay folder {folder}").format(folder=folder))
    merged = dict(parsed)
    for name in (*LISTS, *MAPPINGS, PRICES):
        path = folder / name
        if not path.exists():
            continue
        over = _parse_text(read_bounded(path, limit=TABLE_BYTES), name, str(path))
        if name in LISTS:
            merged[name] = dict(merged[name])
            for key, entry in over.items():
                merged[name][key] = _merge(merged[name].get(key, {}), entry)
        elif name == PRICES:
            merged[name] = replace_prices(merged[name], over)
        else:
            merged[name] = {**merged[name], **over}
    if (folder / QUOTATIONS).exists():
        merged[PRICES] = replace_prices(merged[PRICES], _quotations(folder, merged["gpus.yaml"]))
    return merged


def _quotations(folder: Path, accelerators: Iterable[str]) -> list[Raw]:
    """Prices that a person wrote in an overlay folder."""
    path = folder / QUOTATIONS
    raw = _parse_text(read_bounded(path), QUOTATIONS, str(path), whole=False)
    return parse_quotations(raw, name=str(path), accelerators=accelerators)


def _merge(base: Raw, over: Raw) -> Raw:
    """Fields of `over` replace those of `base`; tables of figures merge by key."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict) and "value" not in value
        result[key] = {**base[key], **value} if both else value
    return result


def _refuse_shared_names(entries: Mapping[str, Raw], name: str) -> None:
    """No id, alias or loose name leads to two entries; letter case does not count."""
    owner = {key.lower(): key for key in entries}
    for field in ("aliases", "default_for"):
        for key, entry in entries.items():
            for spelling in entry.get(field) or ():
                other = owner.setdefault(str(spelling).lower(), key)
                if other != key:
                    raise CatalogError(
                        _("{name}: {key}: {field}: {spelling} already names {other}").format(
                            name=name, key=key, field=field, spelling=spelling, other=other
                        )
                    )


def _source(key: str, raw: Any) -> Source:
    try:
        return Source.model_validate(raw)
    except ValidationError as error:
        what = error.errors()[0]
        place = ".".join(str(part) for part in what["loc"])
        raise CatalogError(f"sources.yaml: {key}: {place}: {what['msg']}") from None


def _validated(
    kind: type[AnyEntry],
    raw: Raw,
    name: str,
    sources: Mapping[str, Source],
    folders: Sequence[Path],
) -> AnyEntry:
    """One entry as its type; the first fault becomes one sentence."""
    try:
        entry = kind.model_validate(raw)
    except ValidationError as error:
        what = error.errors()[0]
        path = [str(part) for part in what["loc"] if part != "[key]"]
        if what["type"] == "extra_forbidden":
            message = _("unknown key") + _near(path[-1], kind.model_fields)
        elif what["type"] == "literal_error" and path[:1] == ["dense_tflops"]:
            message = _("unknown precision") + _near(path[-1], PRECISIONS)
        else:
            message = what["msg"].removeprefix("Value error, ")
        where = _where(folders, name, str(raw.get("id")), path)
        parts = (where, str(raw.get("id")), ".".join(path), message)
        raise CatalogError(": ".join(part for part in parts if part)) from None
    for short, (key, _place) in entry.sources.items():
        if key not in sources:
            raise CatalogError(
                _("{where}: {id}: sources.{short}: {key} is not in sources.yaml{near}").format(
                    where=_where(folders, name, entry.id, ["sources", short]),
                    id=entry.id, short=short, key=key, near=_near(key, sources),
                )
            )  # fmt: skip
    return entry


def _near(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` with the nearest known name, or nothing."""
    close = get_close_matches(name, list(known), n=1)
    return _("; did you mean {name}?").format(name=close[0]) if close else ""


def _names(line: str, key: str) -> bool:
    return re.fullmatch(rf"""-\s+id:\s*["']?{re.escape(key)}["']?\s*(#.*)?""", line) is not None


def _where(folders: Sequence[Path], name: str, entry_id: str, path: Sequence[str]) -> str:
    """File and line of a key of an entry, from the first folder that has both."""
    first = ""
    for folder in folders:
        try:
            lines = (folder / name).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        start = next((n for n, line in enumerate(lines) if _names(line, entry_id)), None)
        if start is None:
            continue
        number = start
        for key in path:
            for n in range(number, len(lines)):
                if n > start and lines[n].startswith("- "):
                    break
                if re.search(rf"""(^|[\s{{,-])["']?{re.escape(key)}["']?:""", lines[n]):
                    number = n
                    break
        shown = name if folder == folders[-1] else str(folder / name)
        if number > start or not path:
            return f"{shown}:{number + 1}"
        first = first or f"{shown}:{start + 1}"
    return first or name
