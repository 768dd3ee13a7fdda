"""From names as people write them to catalog entries, with near matches when nothing fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from gpuselect.catalog import Accelerator, Catalog, Framework, Model, WeightFormat
from gpuselect.errors import InputError
from gpuselect.i18n import _, labelled

PREFIXES = frozenset({
    "nvidia", "geforce", "tesla", "amd", "instinct", "radeon", "intel", "google", "aws", "huawei",
    "cloud",
})  # fmt: skip
PERMISSIVE = ("Apache-", "MIT", "BSD-")  # beginnings of licences that ask for little more than a notice
FAMILIES = ("rtx", "gtx", "rx", "jetson", "apple", "quadro", "tpu", "ascend")


def squeeze(name: str) -> str:
    """A name without case, spaces, signs, vendor words and the unit of its memory size.

    >>> squeeze("NVIDIA A100 80 GB"), squeeze("rtx-4090-24gb"), squeeze("A10G")
    ('a10080', 'rtx409024', 'a10g')
    """
    words = [w for w in re.split(r"[\s_/-]+", name.lower()) if w and w not in PREFIXES]
    joined = ""
    for word in words:
        size = re.fullmatch(r"(\d+)g(i?b)?", word)
        if size:
            joined += size[1]
        elif not (word in ("g", "gb", "gib") and joined[-1:].isdigit()):
            joined += re.sub(r"(?<=\d)gi?b$", "", word)
    return joined


def _unknown(
    what: str, name: str, known: Iterable[str], listing: str, spellings: Iterable[str] = ()
) -> InputError:
    """The error for an unknown name: ids that contain it, one near spelling, near ids."""
    names = list(known)
    wanted = re.sub(r"(?<=\d)o+|o+(?=\d)", lambda hit: "0" * len(hit[0]), name.lower().strip())
    inside = [k for k in names if wanted and k.startswith(wanted)]
    inside += [k for k in names if squeeze(wanted) and squeeze(wanted) in squeeze(k)]
    near = get_close_matches(wanted, names, n=3, cutoff=0.5)
    spelled = get_close_matches(wanted, list(spellings), n=1, cutoff=0.8)
    near = list(dict.fromkeys([*spelled, *inside, *near]))
    hint = _("; did you mean {near}?").format(near=_(", ").join(near[:3])) if near else ""
    return InputError(
        _("unknown {what} {name!r}{hint} (gpuselect list {listing})").format(
            what=what, name=name, hint=hint, listing=listing
        )
    )


def resolve_accelerator(name: str, catalog: Catalog) -> tuple[Accelerator, str | None]:
    """The accelerator of a name, and a sentence when a variant had to be assumed.

    Ids and aliases first, then the declared default of a loose name, then marketing names; each
    also without or with the family word (`4090`, `rtx-4090`). Raises InputError with near matches.
    """
    if name in catalog.accelerators:
        return catalog.accelerators[name], None
    exact, loose, titles = _spellings(catalog.accelerators.values())
    key = squeeze(name)
    for wanted in (key, *(key.removeprefix(f) for f in FAMILIES), *(f + key for f in FAMILIES)):
        if wanted in exact:
            return exact[wanted], None
        if wanted in loose:
            entry = loose[wanted]
            return entry, _("{name} was read as {id}").format(name=name, id=entry.id)
        if wanted in titles:
            return titles[wanted], None
    entries = catalog.accelerators.values()
    spellings = [s for entry in entries for s in (*entry.default_for, *entry.aliases)]
    raise _unknown(_("accelerator"), name, catalog.accelerators, "accelerators", spellings)


def _spellings(
    entries: Iterable[Accelerator],
) -> tuple[dict[str, Accelerator], dict[str, Accelerator], dict[str, Accelerator]]:
    """Squeezed ids and aliases, loose names, and marketing names, each with its accelerator."""
    exact: dict[str, Accelerator] = {}
    loose: dict[str, Accelerator] = {}
    titles: dict[str, Accelerator] = {}
    for entry in entries:
        for spelling in (entry.id, *entry.aliases):
            exact.setdefault(squeeze(spelling), entry)
        for spelling in entry.default_for:
            loose.setdefault(squeeze(spelling), entry)
        titles.setdefault(squeeze(entry.name), entry)
    return exact, loose, titles


def resolve_model(name: str, catalog: Catalog) -> Model:
    """The model of an id, alias or Hugging Face name; InputError with near matches.

    A name also counts without its owner (`meta-llama/...`), but not a bare number, as in ViT-B/16.
    """
    key = squeeze(name)
    if name in catalog.models:
        return catalog.models[name]
    tail = squeeze(name.rsplit("/", 1)[-1])
    aliases = catalog.models.aliases if hasattr(catalog.models, "aliases") else {}
    for spelling, entry in aliases.items():
        if squeeze(spelling) == key:
            return catalog.models[entry]
    for spelling, entry in aliases.items():
        if not tail.isdigit() and squeeze(spelling.rsplit("/", 1)[-1]) == tail:
            return catalog.models[entry]
    raise _unknown(_("model"), name, catalog.models, "models")


def series_of(name: str, catalog: Catalog) -> list[Model]:
    """The sizes of one network, the most accurate first; InputError with near matches.

    Sizes without a sourced accuracy are left out.
    """
    wanted, found, known = squeeze(name), [], set()
    for model in catalog.models.values():
        if model.series is None or accuracy_of(model) is None:
            continue
        known.add(model.series)
        if squeeze(model.series) == wanted:
            found.append(model)
    if not found:
        raise _unknown(_("series"), name, sorted(known), "models")
    return sorted(found, key=lambda model: -(accuracy_of(model) or 0.0))


def accuracy_of(model: Model) -> float | None:
    """ImageNet top-1 or COCO mAP 50-95 of a network [%], None where no source states one."""
    figure = model.top1_pct if model.top1_pct is not None else model.map_pct
    return None if figure is None else float(figure)


def accuracy_text(model: Model) -> str:
    """The accuracy with the name of its measure."""
    measure = _("ImageNet top-1") if model.top1_pct is not None else _("COCO mAP 50-95")
    return f"{accuracy_of(model):.1f} % {measure}"


def resolve_framework(name: str, catalog: Catalog) -> Framework:
    """The framework of an id or alias; InputError with near matches."""
    return _by_alias(_("framework"), name, catalog.frameworks, "frameworks")  # type: ignore[return-value]


def resolve_frameworks(names: Sequence[str], catalog: Catalog) -> list[Framework]:
    """The frameworks of these names; empty unless every name is one and none is an accelerator."""
    if any(name.lower() in catalog.accelerators for name in names):
        return []
    try:
        return [resolve_framework(name, catalog) for name in names]
    except InputError:
        return []


def allowed_licences(names: Iterable[str], catalog: Catalog) -> frozenset[str]:
    """Licences that a requirement allows, as the catalog writes them; empty where every one is allowed.

    `permissive` stands for Apache-2.0, MIT and BSD. The beginning of a name is enough; InputError with near
    matches.
    """
    key = ("licences", tuple(names))
    if key not in catalog.memo:
        known = sorted({name for f in catalog.frameworks.values() for name in f.licences})
        found: set[str] = set()
        for name in key[1]:
            found |= set() if name == "any" else _licences_of(name, known)
        catalog.memo[key] = frozenset() if "any" in key[1] else frozenset(found)
    allowed: frozenset[str] = catalog.memo[key]
    return allowed


def _licences_of(name: str, known: Sequence[str]) -> set[str]:
    if name == "permissive":
        return {licence for licence in known if licence.startswith(PERMISSIVE)}
    wanted = re.sub(r"[^a-z0-9]", "", name)
    matching = {licence for licence in known if re.sub(r"[^a-z0-9]", "", licence.lower()).startswith(wanted)}
    if not wanted or not matching:
        spelled = {licence.lower(): licence for licence in ("any", "permissive", *known)}
        near = get_close_matches(name, spelled, n=1, cutoff=0.5)
        hint = _("; did you mean {near}?").format(near=spelled[near[0]]) if near else ""
        text = _("unknown licence {name!r}{hint} (known: {known})")
        listed = _(", ").join(spelled.values())
        raise InputError(labelled("framework_licence", text.format(name=name, hint=hint, known=listed)))
    return matching


def resolve_format(name: str, catalog: Catalog) -> WeightFormat:
    """The weight format of an id or alias; InputError with near matches."""
    return _by_alias(_("weight format"), name, catalog.formats, "formats")  # type: ignore[return-value]


def _by_alias(what: str, name: str, entries: object, listing: str) -> object:
    key = squeeze(name)
    for entry in entries.values():  # type: ignore[attr-defined]
        if key in {squeeze(s) for s in (entry.id, entry.name, *entry.aliases)}:
            return entry
    raise _unknown(what, name, entries, listing)  # type: ignore[arg-type]
