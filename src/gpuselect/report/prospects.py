"""What comes after the choice: risks, twice the work, the acceptance test, and what it all rests on."""

from __future__ import annotations

from collections.abc import Mapping

from gpuselect.decision import Decision, Estimate, Neighbour, Option
from gpuselect.i18n import _
from gpuselect.report.blocks import Block, Bullets, Commands, Grid, Heading, Paragraph
from gpuselect.report.describe import (
    HEADLINES,
    SMALLER_IS_BETTER,
    cost_text,
    hardware_text,
    headline_key,
    metric_label,
    metric_text,
    metric_value,
    plan_text,
)
from gpuselect.report.format import UNKNOWN, significant
from gpuselect.report.version import tool_version

TESTED = (*HEADLINES, "ttft_ms", "tpot_ms")
BOUNDS: Mapping[str, tuple[str, float]] = {  # metric -> key of the request that bounds it, units of it
    "ttft_ms": ("ttft", 1e3), "tpot_ms": ("tpot", 1e3), "latency_ms": ("latency", 1e3),
    "time_to_train_days": ("deadline", 1 / 86_400), "requests_per_s": ("request_rate", 1.0),
    "streams": ("streams", 1.0),
}  # fmt: skip


def measured_names() -> dict[str, str]:
    """Columns of the measured rows in words."""
    return {
        "tokens_per_s_per_accel": _("tokens/s per accelerator"), "samples_per_s_total": _("samples/s"),
        "step_time_s": _("s per step"), "output_tok_s_total": _("output tokens/s"),
        "output_tok_s_per_accel": _("output tokens/s per accelerator"), "streams": _("video streams"),
        "requests_or_images_per_s_total": _("requests or images/s"), "tpot_ms": _("ms per output token"),
        "latency_ms": _("ms latency"),
    }  # fmt: skip


def neighbour_blocks(neighbours: tuple[Neighbour, ...]) -> list[Block]:
    """The measured rows that lie nearest, beside what the same engine gives for them."""
    if not neighbours:
        return []
    names = measured_names()
    rows = tuple(
        (
            n.what,
            f"{significant(n.measured)} {names.get(n.metric, n.metric)}",
            significant(n.predicted) if n.predicted is not None else UNKNOWN,
            _("; ").join(n.differs) or _("nothing that the row states"),
            _(", ").join(part for part in (n.title, n.as_of) if part) + f" [{n.row_id}]",
        )
        for n in neighbours
    )
    header = (_("Measured run"), _("Measured"), _("Our prediction of it"), _("Where it differs"), _("Source"))
    text = _(
        "The measured runs that lie nearest, and what the same formulas give for each. They correct nothing; "
        "the constants were fitted to such rows, so docs/accuracy.md leaves each source out in turn."
    )
    if not any(n.same_card for n in neighbours):
        text += _(" None of them ran on this card.")
    return [Paragraph(text), Grid(header, rows, frozenset({2}))]


def risk_blocks(decision: Decision) -> list[Block]:
    """Risks with the fact each rests on, and what to ask a provider."""
    if not decision.risks:
        return []
    questions = (
        _("How soon is a failed accelerator replaced, and who pays for the time?"),
        _("Which price holds until when, and what does leaving the contract early cost?"),
        _("Where do the machines stand, and are all nodes of one run in one place?"),
        _("What was tested before hand-over (burn-in), and what does the service level pay back?"),
        _("When are accelerators and memory delivered, and who guarantees the date?"),
    )
    return [
        Heading(_("Risks")),
        Bullets(tuple(f"{note.text} [{note.code}]" for note in decision.risks)),
        Paragraph(_("Questions to the provider:")),
        Bullets(questions),
    ]


def growth_blocks(decision: Decision, first: Option) -> list[Block]:
    """What twice the work takes, from a second run of the engine."""
    growth = decision.growth
    if growth is None:
        return []
    key = headline_key(first)
    lines = [(_("now"), first)]
    if growth.same is not None:
        lines.append((_("same card"), growth.same))
    if growth.best is not None:
        lines.append((_("free choice"), growth.best))
    rows = tuple(
        (name, hardware_text(o), plan_text(o),
         metric_text(key, o.performance[key]) if key is not None and key in o.performance else UNKNOWN,
         cost_text(o))
        for name, o in lines
    )  # fmt: skip
    if growth.same is None:
        text = _("{what}: this card does not reach it in the systems of the catalog.")
    elif growth.added:
        text = _("{what}: add {n} of the same card.")
    else:
        text = _("{what}: nothing has to be added.")
    header = ("", _("Option"), _("Plan"), metric_label(key) if key else _("Speed"), _("Cost"))
    return [
        Heading(_("Growth: twice the work")),
        Paragraph(text.format(what=growth.text, n=growth.added)),
        Grid(header, rows),
    ]


def limit_of(key: str, estimate: Estimate, workload: Mapping[str, object]) -> tuple[float, str]:
    """The value to accept and where it comes from: the request's own bound, else the end of the interval."""
    asked, unit = BOUNDS.get(key, ("", 1.0))
    bound = workload.get(asked)
    if isinstance(bound, int | float) and not isinstance(bound, bool):
        return float(bound) * unit, _("the requirement")
    if key == "requests_per_s" and workload.get("demand"):
        return estimate.value, _("the demand")
    end = estimate.high if key in SMALLER_IS_BETTER else estimate.low
    return end, _("end of the 80 % interval")


def acceptance_blocks(decision: Decision, first: Option) -> list[Block]:
    """Steps and thresholds that can stand in a tender."""
    given, known = decision.workload, first.performance
    by_rate = "requests_per_s" in known and (given.get("request_rate") or given.get("demand"))
    keys = [key for key in TESTED if key in known and not (by_rate and key == "output_tok_s")]
    if not keys:
        return []
    rows = []
    for key in keys:
        limit, basis = limit_of(key, known[key], given)
        text = _("at most {limit}") if key in SMALLER_IS_BETTER else _("at least {limit}")
        rows.append((
            metric_label(key), metric_text(key, known[key]),
            text.format(limit=metric_value(key, limit)), basis,
        ))  # fmt: skip
    blocks: list[Block] = [
        Heading(_("Acceptance test")),
        Paragraph(_("Run the workload as configured above on the delivered hardware, twice; a figure outside "
                    "its bound in both runs is a defect.")),
    ]  # fmt: skip
    for step in decision.acceptance:
        blocks.append(Paragraph(step.text))
        blocks += [Commands(tuple(step.command.split("\n")))] if step.command else []
    if not decision.acceptance and first.framework is not None and first.framework.launch:
        blocks.append(Commands(first.framework.launch))
    if any("acceptance.sh" in step.command for step in decision.acceptance):
        blocks.append(
            Paragraph(_("The script is one of the launch files: gpuselect recommend, --launch DIR."))
        )
    header = (_("Figure"), _("Predicted"), _("Accept"), _("Basis"))
    return [*blocks, Grid(header, tuple(rows))]


def source_blocks(decision: Decision) -> list[Block]:
    """Sources of this run, versions of tool and data."""
    sources = tuple(f"{title} [{key}]" for key, title in decision.sources_used)
    sources += tuple(f"{n.title}: {n.reference} [{n.row_id}]" for n in decision.neighbours)
    rows = (
        ("gpuselect", tool_version()),
        (_("newest price"), decision.data_date or _("undated")),
        *decision.data,
    )
    stamp = _("Made by gpuselect {version}; newest price of {date}.").format(
        version=tool_version(), date=decision.data_date or _("an unknown date")
    )
    return [
        Heading(_("Sources and version")),
        Bullets(sources),
        *([Grid((_("Version or count"), _("Value")), rows)] if decision.data else [Paragraph(stamp)]),
    ]
