"""`gpuselect explain`: what stands behind a code."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from gpuselect.cli.flags import Arguments, Flag, chosen_format, common_flags
from gpuselect.cli.output import terminal_style, write_out
from gpuselect.errors import InputError
from gpuselect.i18n import _, labelled

if TYPE_CHECKING:
    from gpuselect.rules import Explanation

FORMATS = ("table", "json")
DETAILS = """\
Codes stand behind each reason, warning and rejection; `gpuselect list rules` shows all of them.

\b
Example:
  gpuselect explain memory-exceeded
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    code = Flag("code", _("Code of a rule or warning."), "argument", metavar="CODE", required=True)
    return [code, *common_flags(FORMATS)]


def run(arguments: Arguments) -> int:
    """Print text, source and override of the code."""
    form = chosen_format(arguments, FORMATS)
    code, rule = _rule(arguments)
    if form == "json":
        from gpuselect.report.plain import to_text

        head = {"schema_version": 1, "command": "explain", "code": code}
        payload = {**head, "text": _(rule.text), "source": _(rule.source), "override": _(rule.override)}
        write_out(to_text(payload))
        return 0
    from gpuselect.report.console import Page

    page = Page(terminal_style(arguments))
    page.line(code, style="bold")
    page.line(_(rule.text))
    page.line(_("Override: {text}").format(text=_(rule.override)))
    page.line(_("Source: {text}").format(text=_(rule.source)))
    write_out(page.text())
    return 0


def _rule(arguments: Arguments) -> tuple[str, Explanation]:
    """The code as it is written, and its rule; most codes need neither the catalog nor the model."""
    from gpuselect.rules import EXPLANATIONS

    given = arguments["code"]
    plain = given.strip().lower().replace("_", "-")
    if plain in EXPLANATIONS:
        return plain, EXPLANATIONS[plain]
    from gpuselect.note_texts import note_texts

    notes = note_texts()
    if plain in notes:
        return plain, notes[plain]
    from gpuselect.stability import EXPLAINED

    rules = {**skip_rules(), **EXPLAINED, **notes, **EXPLANATIONS, **catalog_rules(arguments)}
    code = code_named(given, list(rules))
    return code, rules[code]


def skip_rules() -> dict[str, Explanation]:
    """Why `gpuselect validate` leaves a measured row out, in the form of the rules."""
    from gpuselect.accuracy import SKIP_REASONS
    from gpuselect.rules import Explanation

    override = _("Give the missing cell, or leave the row out.")
    return {
        code: Explanation(text, "gpuselect validate", override) for code, text in SKIP_REASONS.items()
    }  # fmt: skip


def catalog_rules(arguments: Arguments) -> dict[str, Explanation]:
    """Optimisations and aged claims of the catalog, in the form of the rules; a claim's code is its text."""
    from gpuselect.cli.load import catalog_of
    from gpuselect.rules import Explanation

    catalog = catalog_of(arguments)
    found = {}
    for entry in catalog.optimisations.values():
        cited = entry.accuracy_risk or entry.needs
        source = catalog.sources[entry.cite(cited)[0]].title if cited is not None else entry.rests_on
        risk = _("Accuracy risk: {risk}.").format(risk=entry.accuracy_risk or _("not known"))
        computed = _("The effect is computed: {how}.").format(how=entry.rests_on)
        text = labelled(entry.name, f"{entry.text} {computed} {risk}")
        found[entry.id] = Explanation(text, source, entry.how)
    for framework in catalog.frameworks.values():
        for claim, now in framework.aged.items():
            code = re.sub(r"[^a-z0-9.]+", "-", claim.lower()).strip("-")
            title = catalog.sources[framework.cite(now)[0]].title
            text = _("Aged claim: {claim}. Now: {now}.").format(claim=claim, now=now)
            found[code] = Explanation(text, title, _("see `gpuselect show {id}`").format(id=framework.id))
    return found


def code_named(given: str, codes: list[str]) -> str:
    """The code, whatever its case and separators.

    >>> code_named("Memory_Exceeded", ["memory-exceeded"])
    'memory-exceeded'
    >>> code_named("tight", ["memory-tight", "tie"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    gpuselect.errors.InputError: unknown code 'tight'; did you mean memory-tight? ...
    """
    text = given.strip().lower().replace("_", "-")
    if text in codes:
        return text
    parts = [code for code in codes if text in code.split("-")]
    close = (parts or get_close_matches(text, codes, n=1))[:3]
    hint = _("; did you mean {name}?").format(name=_(", ").join(close)) if close else ""
    message = _("unknown code {given!r}{hint} (`gpuselect list rules` shows all)")
    raise InputError(message.format(given=given, hint=hint))
