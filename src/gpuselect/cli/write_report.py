"""`gpuselect report`: the decision report as a file."""

from __future__ import annotations

from gpuselect.cli.flags import Arguments, Flag, common_flags, workload_flags
from gpuselect.cli.output import decision_file_text, note, output_path, write_file
from gpuselect.cli.recommend import answer_code, decide
from gpuselect.i18n import _

DETAILS = """\
One page to sign, then the detail: memory, measured neighbours, cost, sensitivity, risks, growth, acceptance
test. `gpuselect recommend -o FILE` writes the same file beside its table on the terminal.

\b
Example:
  gpuselect report --task finetune --model llama-3.1-8b --method lora -o decision.md
  gpuselect report --workload job.yaml -o decision.html   (charts: pip install 'gpuselect-advisor[charts]')

Exit codes: 0 a recommendation, 1 nothing meets the requirements (the report says why).
"""


def flags() -> list[Flag]:
    """Flags of the command."""
    output = Flag(
        "output", _("Where to write: the suffix says the form (.md, .html or .json)."),
        spellings=("--output", "-o"), metavar="FILE", required=True,
    )  # fmt: skip
    own = [flag for flag in common_flags(()) if flag.name not in ("format", "wide", "no_color")]
    return [*workload_flags(), output, *own]


def run(arguments: Arguments) -> int:
    """Decide and write the report."""
    path = output_path(arguments["output"])
    decision = decide(arguments)
    write_file(path, decision_file_text(decision, path.suffix.lower()))
    note(_("wrote {path}").format(path=path), arguments)
    return answer_code(decision)
