"""`gpuselect explain`: what stands behind a code, or why a card won or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuselect.cli import explain_code
from gpuselect.cli.flags import (
    Arguments,
    Flag,
    chosen_format,
    common_flags,
    workload_flags,
    workload_mapping,
)
from gpuselect.cli.load import accelerator_of, catalog_of, inputs_of, overlays_of
from gpuselect.cli.output import terminal_style, write_out
from gpuselect.errors import InputError
from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.explain import Answer

FORMATS = ("table", "json")
DETAILS = """\
A code of a reason, warning or rejection (`gpuselect list rules`): its text, source and override. With a
workload: why an accelerator won or lost against the first option, by which criterion, and the smallest
change of price, count, bounds, demand or formats that would make it win, each found by asking again.
Without an accelerator: the first option and where its lead ends.

\b
Examples:
  gpuselect explain memory-exceeded
  gpuselect explain h100 --task pretrain --params 10B
  gpuselect explain --task inference --model llama-3.1-8b
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    what = Flag("what", _("Code of a rule or warning, or an accelerator."), "argument", metavar="[WHAT]")
    return [what, *workload_flags(), *common_flags(FORMATS)]


def run(arguments: Arguments) -> int:
    """Explain a code, or a card under a workload. Exit 1: the card is ruled out."""
    form = chosen_format(arguments, FORMATS)
    what = arguments.get("what")
    if not workload_mapping(arguments) or is_code(what):
        return _code(what, arguments)
    answer = _answer(what, arguments)
    if form == "json":
        from gpuselect.report.explanation import explanation_payload
        from gpuselect.report.plain import to_text

        write_out(to_text(explanation_payload(answer)))
    else:
        from gpuselect.report.explanation import explanation_text

        write_out(explanation_text(answer, terminal_style(arguments)))
    return 0 if answer.state in ("wins", "ranked", "unpriced") else 1


def is_code(what: str | None) -> bool:
    """True for the exact code of a rule or note, which needs no workload."""
    from gpuselect.rules import EXPLANATIONS

    if what is None:
        return False
    code = what.strip().lower().replace("_", "-")
    if code in EXPLANATIONS:
        return True
    from gpuselect.note_texts import DEFAULTS, NOTES
    from gpuselect.stability import EXPLAINED

    return code in {**EXPLAINED, **DEFAULTS, **NOTES}


def _answer(what: str | None, arguments: Arguments) -> Answer:
    from gpuselect.advisor import current_date
    from gpuselect.explain import explain
    from gpuselect.explain.engine import Engine
    from gpuselect.readers.profiles import load_judgement

    inputs = inputs_of(arguments)
    card = accelerator_of(what, inputs.catalog, arguments).id if what else None
    judgement = load_judgement(overlays=overlays_of({**arguments, "quiet": True}))
    engine = Engine(inputs.catalog, inputs.calibration, inputs.defaults, judgement, current_date())
    return explain(engine, inputs.workload, card)


def _code(what: str | None, arguments: Arguments) -> int:
    """The rule of a code; an accelerator needs a workload."""
    if not what:
        raise InputError(
            _("name a code, or an accelerator and a workload: `gpuselect explain h100 --params 10B`")
        )
    try:
        return explain_code.run({**arguments, "code": what})
    except InputError as error:
        try:
            card = accelerator_of(what, catalog_of({**arguments, "quiet": True}), {"quiet": True})
        except InputError:
            raise error from None
    text = _(
        "{card} is an accelerator: give a workload too, for example `gpuselect explain {what} --params 10B "
        "--task training` (`gpuselect show {what}` lists its figures)"
    )
    raise InputError(text.format(card=card.id, what=what))
