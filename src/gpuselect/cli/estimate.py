"""`gpuselect estimate`: what would I get on this hardware?"""

from __future__ import annotations

from gpuselect.cli.flags import Arguments, Flag, chosen_format, common_flags, workload_flags
from gpuselect.cli.launch_files import checked_folder, launch_flags, write_launch
from gpuselect.cli.load import inputs_of
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

Exit codes: 0 fits, 1 does not fit, 2 usage.
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    on = Flag("on", _("Hardware: 8xH100, 2x8 H200."), required=True, metavar="HARDWARE")
    return [on, *workload_flags(), *launch_flags(), *common_flags(FORMATS)]


def run(arguments: Arguments) -> int:
    """Estimate and print; the exit code says whether it fits."""
    from gpuselect.advisor import estimate
    from gpuselect.report.json import fit_payload, fits_usable

    form = chosen_format(arguments, FORMATS)
    folder = checked_folder(arguments)
    hardware = hardware_of(arguments["on"], arguments)
    inputs = inputs_of(arguments)
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
