"""`gpuselect recommend`: what should I use?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuselect.cli.flags import Arguments, Flag, chosen_format, common_flags, workload_flags
from gpuselect.cli.fleet import fleet_flags, run_fleet
from gpuselect.cli.launch_files import checked_folder, launch_flags, write_launch
from gpuselect.cli.load import inputs_of, overlays_of
from gpuselect.cli.output import (
    decision_file_text,
    note,
    output_path,
    terminal_style,
    write_file,
    write_out,
)
from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.decision import Decision

FORMATS = ("table", "json", "markdown")
DETAILS = """\
Every accelerator of the catalog is judged. What is not given is assumed, and the answer lists it.

\b
Examples:
  gpuselect recommend --task pretrain --params 10B --tokens 200B --deadline 30d
  gpuselect recommend --task inference --model llama-3.1-70b --concurrency 32 --budget '$10/h'
  gpuselect recommend --workload job.yaml -o decision.md --launch run
  gpuselect recommend --workloads fleet.yaml --format csv

Exit codes: 0 a recommendation, 1 nothing meets the requirements, 2 usage, 3 damaged catalog.
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    output = Flag(
        "output", _("Also write the decision report to FILE (.md, .html or .json)."),
        spellings=("--output", "-o"), metavar="FILE",
    )  # fmt: skip
    zero = Flag("exit_zero", _("Exit 0 even when nothing meets the requirements."), "switch")
    return [*workload_flags(), *fleet_flags(), output, *launch_flags(), zero, *common_flags(FORMATS)]


def run(arguments: Arguments) -> int:
    """Decide, print, and write the report when asked to."""
    if arguments.get("workloads"):
        return run_fleet(arguments)
    form = chosen_format(arguments, FORMATS)
    path = output_path(arguments["output"]) if arguments.get("output") else None
    folder = checked_folder(arguments)
    decision = decide(arguments)
    if folder is not None:
        chosen = next(iter((*decision.recommendations, *decision.unpriced)), None)
        write_launch(folder, chosen, inputs_of({**arguments, "quiet": True}), arguments)
    if path is not None:
        write_file(path, decision_file_text(decision, path.suffix.lower()))
        note(_("wrote {path}").format(path=path), arguments)
    if form == "table":
        from gpuselect.report.terminal import decision_text

        write_out(decision_text(decision, terminal_style(arguments)))
    else:
        write_out(decision_file_text(decision, ".json" if form == "json" else ".md"))
    return 0 if arguments.get("exit_zero") else answer_code(decision)


def decide(arguments: Arguments) -> Decision:
    """The decision for the workload of the flags; with what only a report shows where one is written."""
    from gpuselect.advisor import recommend
    from gpuselect.readers.profiles import load_judgement

    inputs = inputs_of(arguments)
    asked = (inputs.workload, inputs.catalog, inputs.calibration, inputs.defaults)
    judgement = load_judgement(overlays=overlays_of({**arguments, "quiet": True}))
    decision = recommend(*asked, judgement=judgement)
    if not arguments.get("output"):
        return decision
    from gpuselect.outlook import with_outlook

    return with_outlook(decision, *asked)


def answer_code(decision: Decision) -> int:
    """0 when something can be recommended, priced or not; 1 when nothing fits."""
    return 0 if decision.recommendations or decision.unpriced else 1
