"""The middle of the pipeline: workload to job, search, costs and ranking, before anything is put in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.costs import terms_of
from gpuselect.decision import Note, Option
from gpuselect.deployment import Field, build_field
from gpuselect.errors import InputError
from gpuselect.hpc_job import hpc_job
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob, serving_job, training_job
from gpuselect.names import resolve_accelerator
from gpuselect.network_job import (
    HpcJob,
    Job,
    NetworkJob,
    VideoJob,
    network_job,
    network_model,
)
from gpuselect.network_search import (
    search_hpc,
    search_inference,
    search_network_training,
    search_video,
)
from gpuselect.options import build_option
from gpuselect.ranking import Ranking, rank, stretch_of
from gpuselect.score import Judgement
from gpuselect.search import Found, Site, search_training
from gpuselect.selection import ends, select
from gpuselect.serving_search import search_serving
from gpuselect.tco import CostDefaults
from gpuselect.tco.currency import in_dollars
from gpuselect.tenancy import search_shared
from gpuselect.video_job import video_job
from gpuselect.workload import Workload, pins
from gpuselect.workload_keys import TRAINING_OFFLOADS
from gpuselect.workload_scope import unread_keys


def resolve_job(workload: Workload, catalog: Catalog, calibration: Calibration) -> tuple[Job, list[Note]]:
    """The workload in numbers, with the assumptions that were made and the keys that it does not read."""
    job, notes = _job(workload, catalog, calibration)
    return job, [*unread_keys(workload, job), *notes]


def _job(workload: Workload, catalog: Catalog, calibration: Calibration) -> tuple[Job, list[Note]]:
    training = workload.task in ("pretrain", "finetune")
    if workload.offload in TRAINING_OFFLOADS and not training:
        text = _("--offload {what} moves training states: it goes with --task pretrain or finetune")
        raise InputError(text.format(what=workload.offload))
    if workload.offload == "cpu" and workload.task != "inference":
        raise InputError(_("--offload cpu is for served models: training takes optimizer or params"))
    if workload.failures and workload.task not in ("pretrain", "finetune"):
        raise InputError(_("--failures is about training runs: it goes with --task pretrain or finetune"))
    if workload.task == "video":
        return video_job(workload, catalog, calibration)
    if workload.task == "hpc":
        return hpc_job(workload, calibration)
    network = network_model(workload, catalog)
    if network is not None:
        if workload.failures:
            raise InputError(_("--failures is for decoders, not for {model}").format(model=network.id))
        if workload.offload not in (None, "none"):
            raise InputError(_("--offload is for decoders, not for {model}").format(model=network.id))
        return network_job(workload, network)
    if workload.task == "inference":
        return serving_job(workload, catalog)
    return training_job(workload, catalog, calibration)


def search(
    sites: Sequence[Site],
    job: Job,
    workload: Workload,
    calibration: Calibration,
) -> Found:
    """Search plans for the task."""
    reserve = float(workload.reserve or 0.0)
    match job:
        case ServingJob():
            return search_serving(sites, job, pins=pins(workload), calibration=calibration, reserve=reserve)
        case TrainingJob():
            return search_training(sites, job, pins=pins(workload), calibration=calibration, reserve=reserve)
        case NetworkJob(training=True):
            return search_network_training(
                sites, job, calibration=calibration, reserve=reserve, pins=pins(workload)
            )
        case NetworkJob():
            return search_inference(sites, job, calibration=calibration, reserve=reserve)
        case VideoJob():
            return search_video(sites, job, calibration=calibration, reserve=reserve)
        case HpcJob():
            return search_hpc(sites, job, calibration=calibration, reserve=reserve)


def searched(
    workload: Workload, job: Job, catalog: Catalog, calibration: Calibration,
    fixed: Mapping[str, int] | None,
) -> tuple[Field, Found]:  # fmt: skip
    """The field after the hard rules, and the plans found in it; tenants share its cards."""
    if workload.isolation and workload.tenants is None:
        raise InputError(_("--isolation says how tenants are kept apart: give --tenants too"))
    if workload.tenants is None:
        field = build_field(workload, job, catalog, calibration, fixed=fixed)
        return field, search(field.sites, job, workload, calibration)

    def one_tenant(sites: Sequence[Site], alone: Job) -> Found:
        return search(sites, alone, workload, calibration)

    return search_shared(workload, job, catalog, calibration, one_tenant, fixed=fixed)


def options_of(
    field: Field, found: Found, job: Job, workload: Workload, catalog: Catalog,
    calibration: Calibration, defaults: CostDefaults, today: str,
) -> list[Option]:  # fmt: skip
    """Every fitting candidate as a complete option."""
    terms = terms_of(workload, defaults, service=not ends(job))
    return [
        build_option(
            candidate, field.sites[candidate.site], job=job, workload=workload, catalog=catalog,
            calibration=calibration, defaults=defaults, terms=terms, today=today,
            frameworks=field.frameworks[field.sites[candidate.site].accelerator.id],
        )
        for candidate in found.fitting
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """A workload after the search, the costs and the scores, before anything is put in words."""

    job: Job
    assumptions: Sequence[Note]
    field: Field
    found: Found
    options: Sequence[Option]  # every fitting count of every card
    missed: Mapping[str, Note]  # cards that miss the deadline or the budget
    ranking: Ranking


def judge(
    workload: Workload, catalog: Catalog, calibration: Calibration, defaults: CostDefaults, *, today: str,
    judgement: Judgement, before: Judged | None = None,
) -> Judged:  # fmt: skip
    """Search, cost and rank. `before` is an earlier run that differs in money only: its search is reused."""
    assumptions: Sequence[Note]
    workload = in_dollars(workload, catalog, today=today)
    if before is None:
        job, assumptions = resolve_job(workload, catalog, calibration)
        fixed = {resolve_accelerator(n, catalog)[0].id: count for count, n in workload.have or ()}
        field, found = searched(workload, job, catalog, calibration, fixed or None)
    else:
        job, assumptions, field, found = before.job, before.assumptions, before.field, before.found
    options = options_of(field, found, job, workload, catalog, calibration, defaults, today)
    return ranked_from(
        workload, options, job, assumptions, field, found, catalog=catalog, judgement=judgement
    )


def ranked_from(
    workload: Workload, options: Sequence[Option], job: Job, assumptions: Sequence[Note], field: Field,
    found: Found, *, catalog: Catalog, judgement: Judgement,
) -> Judged:  # fmt: skip
    """Which count stands for each card, and the ranking."""
    chosen, missed = select(options, workload=workload, job=job, stretch=stretch_of(workload, judgement))
    ranking = rank(chosen, options, workload=workload, catalog=catalog, job=job, judgement=judgement)
    return Judged(job, assumptions, field, found, options, missed, ranking)
