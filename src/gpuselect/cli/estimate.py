"""`gpuselect estimate`: what would I get on this hardware?"""

from __future__ import annotations

import re

from gpuselect.cli.flags import Arguments, Flag, chosen_format, common_flags, workload_flags
from gpuselect.cli.launch_files import checked_folder, launch_flags, write_launch
from gpuselect.cli.load import Inputs, inputs_of
from gpuselect.cli.output import note, terminal_style, write_out
from gpuselect.errors import InputError
from gpuselect.i18n import _

FORMATS = ("table", "json")
DETAILS = """\
Says whether the workload fits, what the memory holds, the best plan, its speed and its cost.

\b
Examples:
  gpuselect estimate --on 8xH100 --task inference --model llama-3.1-70b
  gpuselect estimate --on 2x3090 --task finetune --params 7B --method qlora --launch run
  gpuselect estimate --on h100 --task pretrain --params 70B --scale 8..4096

Exit codes: 0 fits, 1 does not fit, 2 usage.
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    on = Flag("on", _("Hardware: 8xH100, 2x8 H200."), required=True, metavar="HARDWARE")
    text = _("Training: strong and weak scaling over these counts of the card, doubling: 8..4096.")
    over = Flag("scale", text, metavar="LOW..HIGH")
    return [on, over, *workload_flags(), *launch_flags(), *common_flags(FORMATS)]


def run(arguments: Arguments) -> int:
    """Estimate and print; the exit code says whether it fits."""
    from gpuselect.advisor import estimate
    from gpuselect.report.json import fit_payload, fits_usable

    form = chosen_format(arguments, FORMATS)
    folder = checked_folder(arguments)
    hardware = hardware_of(arguments["on"], arguments)
    inputs = inputs_of(arguments)
    if arguments.get("scale"):
        return _scale(hardware, counts_of(arguments["scale"]), inputs, arguments, form)
    answer = estimate(inputs.workload, hardware, inputs.catalog, inputs.calibration, inputs.defaults)
    if folder is not None:
        write_launch(folder, answer.option if fits_usable(answer) else None, inputs, arguments)
    if form == "json":
        from gpuselect.report.plain import to_text

        write_out(to_text(fit_payload(answer)))
    else:
        from gpuselect.report.terminal import fit_text

        write_out(fit_text(answer, terminal_style(arguments)))
    return 0 if fits_usable(answer) else 1


def counts_of(given: str) -> tuple[int, ...]:
    """Counts of `--scale`.

    >>> counts_of("8..64")
    (8, 16, 32, 64)
    """
    from gpuselect.scaling import doubling

    match = re.fullmatch(r"\s*(\d{1,7})\s*(?:\.\.|-|to)\s*(\d{1,7})\s*", given)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(_("--scale {given!r} is no range of counts: write 8..4096").format(given=given))
    return doubling(int(match[1]), int(match[2]))


def _scale(
    hardware: list[tuple[int, str]], counts: tuple[int, ...], inputs: Inputs, arguments: Arguments, form: str
) -> int:
    """Print the scaling of one card; the exit code says whether any count runs it."""
    from gpuselect.advisor import current_date
    from gpuselect.report.plain import to_text
    from gpuselect.report.scale import scale_payload, scale_text
    from gpuselect.scaling import scale

    if len(hardware) != 1:
        raise InputError(_("--scale takes one accelerator: --on h100"))
    found = scale(
        inputs.workload, hardware[0][1], counts, inputs.catalog, inputs.calibration, inputs.defaults,
        today=current_date(),
    )  # fmt: skip
    if form == "json":
        write_out(to_text(scale_payload(found)))
    else:
        write_out(scale_text(found, terminal_style(arguments)))
    return 0 if found.strong else 1


def hardware_of(given: str, arguments: Arguments) -> list[tuple[int, str]]:
    """Counts and names of `--on`."""
    from gpuselect.quantities import parse_accelerators

    found = []
    for group in parse_accelerators(given):
        if group.name is None:
            text = _("--on {given!r} names no accelerator: write for example 8xH100")
            raise InputError(text.format(given=given))
        note(group.note or "", arguments)
        found.append((group.count, group.name))
    return found
