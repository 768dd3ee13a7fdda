"""The acceptance test of a deployment: the steps that its launch files name for it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuselect.catalog import Catalog
from gpuselect.decision import AcceptanceStep, Option
from gpuselect.i18n import _
from gpuselect.launch.facts import facts_of, kind_of
from gpuselect.launch.files import choose, fits
from gpuselect.launch.fill import fill_text
from gpuselect.launch.template import Template
from gpuselect.network_job import Job
from gpuselect.workload import Workload


def acceptance_steps(
    *, option: Option, job: Job, workload: Workload, catalog: Catalog, templates: Sequence[Template]
) -> tuple[AcceptanceStep, ...]:
    """Steps of the stage `accept` in the order of the README of the launch files."""
    facts = facts_of(option=option, job=job, workload=workload, catalog=catalog)
    launch = choose(templates, facts, kind=kind_of(job))
    return tuple(
        AcceptanceStep(
            " ".join(fill_text(_(step.do), own).split()),
            "" if step.run is None else fill_text(step.run, own).strip(),
        )
        for template, own in launch.templates
        for step in template.steps
        if step.at == "accept" and fits(step, own)
    )
