"""From an option to the files that run it: templates are data, this package only fills them in."""

from __future__ import annotations

from collections.abc import Sequence

from gpuselect.catalog import Catalog
from gpuselect.decision import Option
from gpuselect.launch.facts import facts_of, kind_of
from gpuselect.launch.files import choose
from gpuselect.launch.readme import README, readme
from gpuselect.launch.template import Template
from gpuselect.network_job import Job
from gpuselect.sentences import sentence
from gpuselect.workload import Workload

__all__ = ["launch_texts"]


def launch_texts(
    *, option: Option, job: Job, workload: Workload, catalog: Catalog, templates: Sequence[Template]
) -> dict[str, tuple[str, bool]]:
    """Text of every launch file of an option, and whether it is executable, by name; README.md first.

    `job` is the workload resolved to numbers. Empty where no template fits, which the generic one of the
    data folder prevents.
    """
    facts = facts_of(option=option, job=job, workload=workload, catalog=catalog)
    launch = choose(templates, facts, kind=kind_of(job))
    if not launch.templates:
        return {}
    files = launch.files
    text = readme(option=option, sentence=sentence(job), launch=launch, files=files)
    return {README: (text, False), **{file.path: (file.text, file.executable) for file in files}}
