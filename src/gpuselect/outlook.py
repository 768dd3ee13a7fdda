"""What a report adds to a decision: measured neighbours, twice the work, acceptance test and risks.

Each is computed by the engine that made the decision; the report only writes them down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuselect.advisor import Judged, current_date, judge, resolve_job
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.decision import AcceptanceStep, Decision, Growth, Neighbour, Option
from gpuselect.errors import InputError
from gpuselect.estimate.model_shape import DECODER_FAMILIES
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.launch.acceptance import acceptance_steps
from gpuselect.names import resolve_model
from gpuselect.neighbours import Query, nearest_rows, nearest_streams
from gpuselect.network_job import HpcJob, Job, NetworkJob, VideoJob
from gpuselect.quantities import format_count
from gpuselect.readers.launch import load_templates
from gpuselect.readers.measurements import default_files, read_rows, stream_rows
from gpuselect.readers.profiles import shipped_judgement
from gpuselect.risks import risks_of
from gpuselect.selection import in_time
from gpuselect.tco import CostDefaults
from gpuselect.units import DAYS
from gpuselect.workload import Workload

FACTOR = 2.0
ROOM = 4  # as many times the accelerators of the answer may be taken for twice the work
SLACK = 1.05  # of the time of the first option, which twice the cards miss by a little
LOWEST_DEADLINE = 1.0  # [s]
MODES = ("server", "offline")
METHODS = {
    "pretrain": "pretrain",
    "full": "full-ft",
    "lora": "lora",
    "qlora": "qlora",
    "prefix": "lora",
}  # as the rows say it
# families of the catalog that the measured rows name otherwise
ROW_FAMILIES: Mapping[str, Sequence[str]] = {
    "detector": ("cnn", "other"), "diffusion-dit": ("diffusion",), "diffusion-unet": ("diffusion",),
    "speech": ("encoder-decoder", "other"), "rnn": ("other",), "gnn": ("other",), "multimodal": ("other",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Engine:
    """What the engine is called with."""

    catalog: Catalog
    calibration: Calibration
    defaults: CostDefaults
    today: str


def with_outlook(
    decision: Decision, workload: Workload, catalog: Catalog, calibration: Calibration,
    defaults: CostDefaults, *, today: str | None = None,
) -> Decision:  # fmt: skip
    """The decision with what only a report shows. One without an option stays as it is."""
    options = decision.recommendations or decision.unpriced
    if not options:
        return decision
    engine = _Engine(catalog, calibration, defaults, today or current_date())
    work = workload
    if workload.series is not None:
        work = workload.model_copy(update={"series": None, "model": decision.workload["model"]})
    job, _notes = resolve_job(work, catalog, calibration)
    return replace(
        decision,
        neighbours=_neighbours(options[0], job, work, engine),
        growth=_growth(options[0], job, work, engine),
        acceptance=_acceptance(options[0], job, work, engine),
        risks=risks_of(options[0], catalog, today=engine.today),
        data=_data(engine),
        sources_used=_sources(decision, options[0], work, catalog),
    )


def _sources(
    decision: Decision, option: Option, work: Workload, catalog: Catalog
) -> tuple[tuple[str, str], ...]:
    """Sources of the decision, then those of the model, the framework and the place of the machines."""
    framework = None if option.framework is None else catalog.frameworks.get(option.framework.id)
    model = None if work.model in (None, "none") else resolve_model(str(work.model), catalog)
    keys = [cited[0] for entry in (model, framework) if entry is not None for cited in entry.sources.values()]
    place = option.energy.place
    if place is not None:
        keys += [quantity.source for quantity in (place.carbon_g_kwh, place.pue, place.electricity_usd_kwh)]
    known = {key for key, _title in decision.sources_used}
    more = [key for key in dict.fromkeys(keys) if key in catalog.sources and key not in known]
    return (*decision.sources_used, *((key, catalog.sources[key].title) for key in more))


def _data(engine: _Engine) -> tuple[tuple[str, str], ...]:
    """What the run was made with."""
    catalog = engine.catalog
    return (
        (_("date of the run"), engine.today),
        (_("accelerators in the catalog"), f"{len(catalog.accelerators)}"),
        (_("price rows"), f"{len(catalog.prices)}"),
        (_("models"), f"{len(catalog.models)}"),
        (_("frameworks"), f"{len(catalog.frameworks)}"),
    )


def _acceptance(option: Option, job: Job, work: Workload, engine: _Engine) -> tuple[AcceptanceStep, ...]:
    """The steps of the launch files; none where no template fits."""
    return acceptance_steps(
        option=option, job=job, workload=work, catalog=engine.catalog, templates=load_templates()
    )  # fmt: skip


def _neighbours(option: Option, job: Job, work: Workload, engine: _Engine) -> tuple[Neighbour, ...]:
    """The nearest measured rows of the file that holds work of this kind."""
    if isinstance(job, HpcJob):
        return ()
    card = engine.catalog.accelerators[option.accelerator]
    if isinstance(job, VideoJob):
        rows = stream_rows()
        return nearest_streams(rows, card, job, engine.catalog, engine.calibration, engine.defaults)
    query = _query(option, job, work, engine.catalog)
    file = next(path for path in default_files() if path.stem == query.layout)
    rows = read_rows(file) if file.is_file() else []
    return nearest_rows(rows, query, engine.catalog, engine.calibration)


def _query(
    option: Option, job: TrainingJob | ServingJob | NetworkJob, work: Workload, catalog: Catalog
) -> Query:
    """The option as a row of the measured files would say it."""
    model = None if work.model is None else resolve_model(work.model, catalog)
    entry = None if option.framework is None else catalog.frameworks.get(option.framework.id)
    engines = () if entry is None else entry.measured_as
    size = float(model.params_b) if model is not None else 0.0
    words: dict[str, tuple[str, ...]]
    families: Sequence[str] = DECODER_FAMILIES
    match job:
        case TrainingJob():
            words = {"framework": engines, "compute_precision": (option.precision,),
                     "method": (METHODS[job.method],)}  # fmt: skip
            numbers: Mapping[str, float] = {"seq_len": job.seq_len}
            layout, size = "training", job.shape.params / 1e9
        case ServingJob():
            weights = tuple(option.weights.split("-")[:1]) if option.weights else ()
            words = {"engine": engines, "weight_precision": weights, "mode": MODES}
            numbers = {
                "input_len": job.input_tokens, "output_len": job.output_tokens,
                "batch_or_concurrency": job.concurrency,
            }  # fmt: skip
            layout, size = "inference", job.shape.params / 1e9
        case NetworkJob():
            layout = "training" if job.training else "inference"
            key = "compute_precision" if job.training else "weight_precision"
            words = {"framework": engines, "engine": engines, key: (option.precision,)}
            numbers = {} if job.training else {"batch_or_concurrency": option.plan.micro_batch}
            families = ROW_FAMILIES.get(job.family, (job.family,))
    return Query(
        layout=layout, card=catalog.accelerators[option.accelerator], count=option.count, model=model,
        params_b=size, families=tuple(families), words=words, numbers=numbers,
    )  # fmt: skip


def _growth(option: Option, job: Job, work: Workload, engine: _Engine) -> Growth | None:
    """What twice the work takes; None where the request names no amount of work to double."""
    if work.tenants is not None:
        return None
    doubled = _doubled(option, job, work)
    if doubled is None:
        return None
    text, changes = doubled
    free = {"budget": None, "single_card": None, "carbon_budget": None, "dp": None, "replicas": None,
            "grad_accum": None, "max_count": max(ROOM * option.count, job.max_count)}  # fmt: skip
    more = work.model_copy(update={**free, **changes})
    same = _least(more.model_copy(update={"gpus": (option.accelerator,), "have": ()}), engine)
    best = None if work.have else _first(more, engine)
    added = None if same is None else max(0, same.count - option.count)
    return Growth(FACTOR, text, same, best, added)


def _judged(work: Workload, engine: _Engine) -> Judged | None:
    """Another run, None where the request cannot be asked like this."""
    try:
        return judge(
            work, engine.catalog, engine.calibration, engine.defaults, today=engine.today,
            judgement=shipped_judgement(),
        )  # fmt: skip
    except InputError:
        return None


def _first(work: Workload, engine: _Engine) -> Option | None:
    """The first option of another run; None where nothing fits or meets the bounds."""
    judged = _judged(work, engine)
    if judged is None:
        return None
    return next(iter((*judged.ranking.listed, *judged.ranking.unpriced)), None)


def _least(work: Workload, engine: _Engine) -> Option | None:
    """The smallest set-up of another run that is in time."""
    judged = _judged(work, engine)
    able = [] if judged is None else [o for o in judged.options if in_time(o, judged.job)]
    return min(able, key=lambda o: o.count, default=None)


def _doubled(option: Option, job: Job, work: Workload) -> tuple[str, dict[str, object]] | None:
    """In words and as changed keys: twice the work, in the same time where it ends."""
    match job:
        case TrainingJob() | NetworkJob(training=True):
            return _longer(option, job, work)
        case ServingJob(request_rate=None):
            n = int(FACTOR * job.concurrency)
            text = _("{n} concurrent sequences instead of {m}").format(n=n, m=job.concurrency)
            return text, {"concurrency": n, "users": None}
        case ServingJob(request_rate=float(rate)) | NetworkJob(request_rate=float(rate)):
            text = _("{n:,.4g} requests/s instead of {m:,.4g}").format(n=FACTOR * rate, m=rate)
            more: dict[str, object] = {"request_rate": FACTOR * rate, "demand": None, "peak_factor": None}
            if isinstance(job, ServingJob):
                more["concurrency"] = int(FACTOR * job.concurrency)
            return text, more
        case VideoJob():
            n = int(FACTOR * job.streams)
            return _("{n} streams instead of {m}").format(n=n, m=job.streams), {"streams": n}
        case _:
            return None


def _longer(option: Option, job: TrainingJob | NetworkJob, work: Workload) -> tuple[str, dict[str, object]]:
    """Twice the tokens or samples by the deadline, or in the time that the first option takes."""
    time = option.performance.get("time_to_train_days")
    deadline = work.deadline
    if deadline is None:
        deadline = max(LOWEST_DEADLINE, SLACK * (time.value if time is not None else 30.0) * DAYS)
    amount: dict[str, object]
    if isinstance(job, TrainingJob):
        amount = {"tokens": FACTOR * job.tokens, "samples": None, "epochs": None}
        text = _("{n} tokens instead of {m}").format(
            n=format_count(FACTOR * job.tokens, digits=6), m=format_count(job.tokens, digits=6)
        )
    else:
        amount = {"samples": FACTOR * job.samples, "epochs": 1.0}
        text = _("{n} samples instead of {m}").format(
            n=format_count(FACTOR * job.samples, digits=6), m=format_count(job.samples, digits=6)
        )
    text += _(" by the same deadline") if work.deadline else _(" in about the time of the first option")
    return text, {**amount, "deadline": deadline}
