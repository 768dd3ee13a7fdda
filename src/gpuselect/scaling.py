"""Strong and weak scaling of a training run over counts of one accelerator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog, System
from gpuselect.decision import Note, Option
from gpuselect.deployment import build_field
from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.job import TrainingJob
from gpuselect.judging import options_of, resolve_job, search
from gpuselect.names import resolve_accelerator
from gpuselect.sentences import sentence
from gpuselect.tco import CostDefaults
from gpuselect.verdicts import memory_note, none_note
from gpuselect.workload import Workload

PAYS = 1.5  # twice the cards must finish in two thirds of the time: half of what is added works


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """One count. `efficiency`: work per card and hour against the least count, failures included."""

    option: Option
    global_batch: int
    efficiency: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Scaling of a run: `strong` at the batch that was asked for, `weak` with one that grows with the count.

    `pays_until`: the largest count that is reached by doublings which each pay.
    """

    accelerator: str
    workload_sentence: str
    strong: tuple[ScaleRow, ...]
    weak: tuple[ScaleRow, ...]
    pays_until: int | None
    cheapest: int | None
    assumptions: tuple[Note, ...]
    reasons: tuple[Note, ...]


def doubling(low: int, high: int) -> tuple[int, ...]:
    """Counts from `low` on, doubling, up to `high`.

    >>> doubling(8, 100)
    (8, 16, 32, 64)
    """
    counts = [low]
    while 2 * counts[-1] <= high:
        counts.append(2 * counts[-1])
    return tuple(counts)


def scale(
    workload: Workload, name: str, counts: Sequence[int], catalog: Catalog, calibration: Calibration,
    defaults: CostDefaults, *, today: str,
) -> Scale:  # fmt: skip
    """Estimate the workload at each count that the card's system holds; plans are searched at each."""
    accelerator, assumed = resolve_accelerator(name, catalog)
    job, notes = resolve_job(workload, catalog, calibration)
    if not isinstance(job, TrainingJob):
        raise InputError(_("--scale is for training decoders: --task pretrain or finetune"))
    system = next((s for s in catalog.systems.values() if accelerator.id in s.accelerators), None)
    held = _held_by(system, counts)
    terms = (accelerator.id, catalog, calibration, defaults, today)
    strong, reasons = _options(workload, job, held, *terms)
    first = strong[0].count if strong else 0
    weak = [
        option
        for count in (o.count for o in strong)
        for option in _options(
            workload.model_copy(update={"global_batch": job.global_batch * count // first}),
            replace(job, global_batch=job.global_batch * count // first), (count,), *terms,
        )[0]
    ]  # fmt: skip
    priced = [o for o in strong if o.cost.per_run_usd is not None]
    said = (Note("variant-assumed", assumed),) if assumed else ()
    return Scale(
        accelerator=accelerator.id,
        workload_sentence=sentence(job),
        strong=_rows(strong, lambda _count: job.global_batch),
        weak=_rows(weak, lambda count: job.global_batch * count // first),
        pays_until=_pays_until(strong),
        cheapest=min(priced, key=lambda o: float(o.cost.per_run_usd or 0.0)).count if priced else None,
        assumptions=(*said, *(n for n in notes if n.code not in ("default-max-count", "default-deadline"))),
        reasons=reasons,
    )  # fmt: skip


def _held_by(system: System | None, counts: Sequence[int]) -> tuple[int, ...]:
    """The counts that the card's system can hold."""
    if system is None:
        most: float = 1
    elif system.max_nodes is None:
        most = float("inf")
    else:
        most = int(system.max_nodes) * int(system.accelerators_per_node)
    return tuple(count for count in counts if count <= most)


def _options(
    workload: Workload, job: TrainingJob, counts: Sequence[int], card: str, catalog: Catalog,
    calibration: Calibration, defaults: CostDefaults, today: str,
) -> tuple[list[Option], tuple[Note, ...]]:  # fmt: skip
    """The best plan at each count as an option, and why there is none at all."""
    if not counts:
        return [], (Note("not-available", _("the card's system holds none of these counts")),)
    job = replace(job, max_count=max(counts))
    field = build_field(workload, job, catalog, calibration, fixed={card: counts[0]})
    if not field.sites:
        return [], tuple(field.rejections.values())
    field = replace(field, sites=(replace(field.sites[0], counts=tuple(counts)),))
    found = search(field.sites, job, workload, calibration)
    options = options_of(field, found, job, workload, catalog, calibration, defaults, today)
    if options:
        return sorted(options, key=lambda o: o.count), ()
    near = [memory_note(c, field.sites[c.site]) for c in found.nearest.values()]
    return [], tuple(near or [none_note(job, workload)])


def _days(option: Option) -> float:
    return option.performance["time_to_train_days"].value


def _rows(options: Sequence[Option], batch: Callable[[int], int]) -> tuple[ScaleRow, ...]:
    """Each option with its batch and its efficiency against the first."""
    return tuple(
        ScaleRow(o, batch(o.count), _days(options[0]) * options[0].count / (_days(o) * o.count))
        for o in options
    )


def _pays_until(options: Sequence[Option]) -> int | None:
    """The last count before the first doubling that is less than 1.5 times as fast."""
    last = options[0].count if options else None
    for before, after in pairwise(options):
        if after.count != 2 * before.count or _days(before) < PAYS * _days(after):
            break
        last = after.count
    return last
