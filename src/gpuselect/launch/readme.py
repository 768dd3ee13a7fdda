"""The README beside the launch files: what they are for, the order of steps, and the acceptance test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from gpuselect.decision import Estimate, Option
from gpuselect.i18n import _, full_stop
from gpuselect.launch.files import Launch, LaunchFile, fits
from gpuselect.launch.fill import Facts, fill_text
from gpuselect.launch.template import STAGES, Stage

README = "README.md"


def metrics() -> dict[str, tuple[str, bool]]:
    """What each metric of the acceptance test is called, and whether less is better."""
    return {
        "step_time_s": (_("time of a step [s]"), True),
        "tokens_per_s": (_("tokens per second, all accelerators"), False),
        "time_to_train_days": (_("time to train [days]"), True),
        "ttft_ms": (_("time to first token [ms]"), True),
        "tpot_ms": (_("time per output token [ms]"), True),
        "latency_ms": (_("latency [ms]"), True),
        "output_tok_s": (_("output tokens per second, all replicas"), False),
        "requests_per_s": (_("requests per second"), False),
        "images_per_s": (_("images per second, all accelerators"), False),
        "streams": (_("streams carried"), False),
    }


def stages() -> dict[Stage, str]:
    """Heading of each stage of the steps."""
    return {
        "install": _("Install"),
        "prepare": _("Prepare"),
        "start": _("Start"),
        "schedule": _("Or start it through a scheduler"),
        "accept": _("Acceptance test"),
    }


def readme(*, option: Option, sentence: str, launch: Launch, files: Sequence[LaunchFile]) -> str:
    """The text of README.md."""
    engine = launch.templates[0][0]
    title = _("# {count} × {card} with {tool}").format(
        count=option.count, card=option.accelerator_name, tool=engine.name
    )
    parts = [title, "", full_stop(sentence), "", *_plan_lines(option), "", _("## Files"), "", *_table(files)]
    for stage in STAGES:
        steps = list(_steps(launch, stage))
        if stage == "accept":
            steps += ["", *_thresholds(option)]
        if any(steps):
            parts += ["", f"## {stages()[stage]}", "", *steps]
    doubts = [f"- {fill_text(_(d), facts)}" for template, facts in launch.templates for d in template.doubts]
    doubts = [line for line in doubts if line != "- "] + [f"- {note.text}" for note in option.warnings]
    if doubts:
        parts += ["", _("## Before you trust this"), "", *dict.fromkeys(doubts)]
    text = "\n".join(parts).rstrip() + "\n"
    return re.sub(r"\n{3,}", "\n\n", text)


def _plan_lines(option: Option) -> list[str]:
    plan = option.plan
    widths = [f"{name} {getattr(plan, name)}" for name in ("tp", "pp", "dp", "ep", "cp")
              if getattr(plan, name) > 1]  # fmt: skip
    widths += [_("ZeRO stage {n}").format(n=plan.zero_stage)] * bool(plan.zero_stage)
    widths += [_("{n} replicas").format(n=plan.replicas)] * (plan.replicas > 1)
    need, usable = option.memory.per_accelerator_gib, option.memory.usable_gib
    return [
        _("- Plan: {plan}; {nodes} node(s).").format(
            plan=_(", ").join(widths) or _("one accelerator"), nodes=option.nodes
        ),
        _("- Memory predicted: {need:.1f} of {usable:.1f} GiB per accelerator ({state}).").format(
            need=need, usable=usable, state=_(option.memory.state)
        ),
    ]


def _table(files: Sequence[LaunchFile]) -> Iterator[str]:
    yield _("| file | made for | options read from | read on |")
    yield "|---|---|---|---|"
    for file in files:
        template = file.template
        read = _("; ").join(_(", ").join((r.title, r.place)) for r in template.read)
        newest = max(r.as_of for r in template.read)
        yield f"| {file.path} | {template.name} {template.version} | {read} | {newest} |"


def _steps(launch: Launch, stage: Stage) -> Iterator[str]:
    number = 0
    for template, facts in launch.templates:
        for step in template.steps:
            if step.at != stage or not fits(step, facts):
                continue
            number += 1
            yield f"{number}. {_filled(_(step.do), facts)}"
            if step.run is not None:
                yield from ("", "   ```sh", *_indented(fill_text(step.run, facts)), "   ```", "")


def _filled(text: str, facts: Facts) -> str:
    """A sentence; a part that does not hold is a line of its own and is left out."""
    return " ".join(fill_text(text, facts).split())


def _indented(text: str) -> Iterable[str]:
    return (f"   {line}".rstrip() for line in text.strip().splitlines())


def _thresholds(option: Option) -> Iterator[str]:
    yield _("Accept the deployment when the measured figures keep these bounds (80 % interval):")
    yield ""
    yield _("| figure | predicted | interval | accept |")
    yield "|---|---|---|---|"
    for key, (name, less) in metrics().items():
        found = option.performance.get(key)
        if found is not None:
            bound = _("at most {v}") if less else _("at least {v}")
            limit = found.high if less else found.low
            cells = (name, _digits(found.value), _interval(found), bound.format(v=_digits(limit)))
            yield f"| {' | '.join(cells)} |"
    yield ""
    yield _("One result in five is expected outside: measure twice, then look for the cause.")


def _interval(found: Estimate) -> str:
    return f"{_digits(found.low)} – {_digits(found.high)}"


def _digits(value: float) -> str:
    """Three digits, without an exponent.

    >>> _digits(6309.13), _digits(0.0123456), _digits(5.7328)
    ('6310', '0.0123', '5.73')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:.0f}" if abs(rounded) >= 100 else f"{rounded:.10g}"
