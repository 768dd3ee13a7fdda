"""The choice of a framework and what pays, as lines of text: for a terminal and for a document."""

from __future__ import annotations

from gpuselect.decision import FrameworkChoice
from gpuselect.i18n import _


def framework_lines(choice: FrameworkChoice | None) -> list[str]:
    """Score, alternative, portability, evidence, rivals and aged claims; empty where none was explained."""
    if choice is None or not choice.criteria:
        return []
    parts = _(", ").join(f"{_(name)} {share:.2f}" for name, share in choice.criteria.items())
    text = _("{name}: score {total:.2f} ({parts})")
    lines = [text.format(name=choice.name, total=choice.total, parts=parts)]
    if choice.alternative:
        lines.append(_("Alternative: {name}").format(name=choice.alternative))
    if choice.vendors:
        text = _("Keeps {n} vendors open: {names}")
        lines.append(text.format(n=len(choice.vendors), names=_(", ").join(choice.vendors)))
    lines.append(_("Licence: {name}").format(name=choice.licence or _("unknown")))
    if choice.evidence:
        lines.append(_("State of the project: {text}").format(text=choice.evidence))
    lines += [_("Not taken: {text} [{code}]").format(text=note.text, code=note.code) for note in choice.lost]
    lines += [_("Aged claim: {text}").format(text=text) for text in choice.aged]
    return lines
