"""From names as people write them to catalog entries, with near matches when nothing fits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from gpuselect.catalog import Accelerator, Catalog, Framework, Model, WeightFormat
from gpuselect.errors import InputError
from gpuselect.i18n import _

PREFIXES = ("nvidia", "geforce", "tesla", "amd", "instinct", "radeon", "intel", "google", "aws", "huawei")


def squeeze(name: str) -> str:
    """A name without case, spaces, signs, vendor words and the unit of its memory size.

    >>> squeeze("NVIDIA A100 80 GB"), squeeze("rtx-4090-24gb")
    ('a10080', 'rtx409024')
    """
    text = name.lower().strip()
    words = [w for w in re.split(r"[\s_/-]+", text) if w and w not in PREFIXES]
    joined = "".join(words)
    return re.sub(r"(\d+)g(i?b)?(?=$|\D)", r"\1", joined)


def _unknown(what: str, name: str, known: Iterable[str], listing: str) -> InputError:
    names = list(known)
    wanted = name.lower().strip()
    near = [k for k in names if wanted and k.startswith(wanted)][:3]
    near += [k for k in names if squeeze(wanted) and squeeze(wanted) in squeeze(k) and k not in near]
    near += [k for k in get_close_matches(wanted, names, n=3, cutoff=0.5) if k not in near]
    hint = _("; did you mean {near}?").format(near=", ".join(near[:3])) if near else ""
    return InputError(
        _("unknown {what} {name!r}{hint} (gpuselect list {listing})").format(
            what=what, name=name, hint=hint, listing=listing
        )
    )


def resolve_accelerator(name: str, catalog: Catalog) -> tuple[Accelerator, str | None]:
    """The accelerator of a name, and a sentence when a variant had to be assumed.

    Ids and aliases first, then ids without signs, then the declared default of a loose name. Raises
    InputError with near matches.
    """
    key = squeeze(name)
    exact: dict[str, Accelerator] = {}
    loose: dict[str, Accelerator] = {}
    for entry in catalog.accelerators.values():
        for spelling in (entry.id, entry.name, *entry.aliases):
            exact.setdefault(squeeze(spelling), entry)
        for spelling in entry.default_for:
            loose.setdefault(squeeze(spelling), entry)
    if name in catalog.accelerators:
        return catalog.accelerators[name], None
    for wanted in (key, key.removeprefix("rtx")):
        if wanted in exact:
            return exact[wanted], None
        if wanted in loose:
            entry = loose[wanted]
            return entry, _("{name} was read as {id}").format(name=name, id=entry.id)
    raise _unknown(_("accelerator"), name, catalog.accelerators, "accelerators")


def resolve_model(name: str, catalog: Catalog) -> Model:
    """The model of an id, alias or Hugging Face name; InputError with near matches."""
    key = squeeze(name)
    if name in catalog.models:
        return catalog.models[name]
    tail = squeeze(name.rsplit("/", 1)[-1])
    aliases = catalog.models.aliases if hasattr(catalog.models, "aliases") else {}
    for spelling, entry in aliases.items():
        if squeeze(spelling) == key:
            return catalog.models[entry]
    for spelling, entry in aliases.items():
        if squeeze(spelling.rsplit("/", 1)[-1]) == tail:
            return catalog.models[entry]
    raise _unknown(_("model"), name, catalog.models, "models")


def resolve_framework(name: str, catalog: Catalog) -> Framework:
    """The framework of an id or alias; InputError with near matches."""
    return _by_alias(_("framework"), name, catalog.frameworks, "frameworks")  # type: ignore[return-value]


def resolve_format(name: str, catalog: Catalog) -> WeightFormat:
    """The weight format of an id or alias; InputError with near matches."""
    return _by_alias(_("weight format"), name, catalog.formats, "formats")  # type: ignore[return-value]


def _by_alias(what: str, name: str, entries: object, listing: str) -> object:
    key = squeeze(name)
    for entry in entries.values():  # type: ignore[attr-defined]
        if key in {squeeze(s) for s in (entry.id, entry.name, *entry.aliases)}:
            return entry
    raise _unknown(what, name, entries, listing)  # type: ignore[arg-type]
