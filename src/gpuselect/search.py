"""Plan search: all valid plans of all cards as one batch of arrays, memory first, then time.

For every (card, count) the best fitting plan is kept, and for every card the nearest miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, System
from gpuselect.estimate.devices import device_table
from gpuselect.estimate.hpc import Run
from gpuselect.estimate.memory import Memory, serving_memory, training_memory
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.serving import Engine, Serving, steady_state
from gpuselect.estimate.training import StepTime, step_time
from gpuselect.estimate.video import Streams
from gpuselect.estimate.vision import Pace, Runtime
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.plan import Plan, node_counts, serving_plans, stack, take, training_plans
from gpuselect.units import GIB

TIGHT_FROM, TIGHT_PENALTY = 0.85, 1.05  # a roomy plan is preferred to a tight one 5 % faster
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Site:
    """One accelerator in its system, with the counts to try. `engine` only for serving."""

    accelerator: Accelerator
    system: System | None
    device: Device
    counts: tuple[int, ...]
    engine: Engine | None = None
    engine_id: str = ""
    weight_bytes: float = 0.0
    precision: str = ""  # of the multiplication on this card
    runtime: Runtime | None = None  # networks of samples
    decode_pixels_per_s: float = 0.0  # of all decode engines, for the codec of the workload


@dataclass(frozen=True, slots=True)
class Candidate:
    """The best plan of one site and count: scalars only."""

    site: int
    plan: Plan
    memory: Memory
    usable: float
    step: StepTime | None = None
    serving: Serving | None = None
    pace: Pace | Streams | Run | None = None  # networks of samples, video, scientific codes


@dataclass(frozen=True, slots=True)
class Found:
    """Candidates that fit, and per site the plan that came nearest when none fits: of all, of one card."""

    fitting: tuple[Candidate, ...]
    nearest: Mapping[int, Candidate]
    nearest_single: Mapping[int, Candidate]


def site_counts(system: System | None, *, max_count: int, fixed: int | None) -> tuple[int, ...]:
    """Counts of a card to try: the fixed one, or those that its system can hold."""
    if fixed is not None:
        return (fixed,)
    if system is None:
        return tuple(node_counts(per_node=1, max_nodes=1, max_count=max_count))
    per_node = int(system.accelerators_per_node)
    max_nodes = None if system.max_nodes is None else int(system.max_nodes)
    return tuple(node_counts(per_node=per_node, max_nodes=max_nodes, max_count=max_count))


def _max_tp(site: Site) -> int:
    """Widest tensor parallelism: the fast domain, or the node over PCIe; at most 16."""
    domain = max(int(site.device.domain), int(site.device.per_node))
    return min(16 if site.device.domain >= 16 else 8, domain)


def _concatenate(grids: list[Plan]) -> Plan:
    return Plan(**{f.name: np.concatenate([getattr(g, f.name) for g in grids]) for f in fields(Plan)})


def training_grid(
    sites: Sequence[Site], job: TrainingJob, pins: Mapping[str, int]
) -> tuple[np.ndarray, Plan] | None:
    """All valid plans of all sites: the site index of each, and the plans as arrays."""
    cache: dict[tuple[int, int], Plan | None] = {}
    index, grids = [], []
    for number, site in enumerate(sites):
        for count in site.counts:
            key = (count, 1 if job.method == "qlora" else _max_tp(site))  # 4-bit kernels do not split
            if key not in cache:
                plans = training_plans(
                    count=count, global_batch=job.global_batch, n_layers=job.shape.n_layers,
                    n_heads=job.shape.n_heads, n_experts=job.shape.n_experts, max_tp=key[1],
                    allow_pp=job.method in ("pretrain", "full"), pins=pins,
                )  # fmt: skip
                cache[key] = stack(plans) if plans else None
            grid = cache[key]
            if grid is not None:
                grids.append(grid)
                index.append(np.full(len(grid.count), number))
    if not grids:
        return None
    return np.concatenate(index), _concatenate(grids)


def search_training(
    sites: Sequence[Site], job: TrainingJob, *, pins: Mapping[str, int], calibration: Calibration,
    reserve: float = 0.0,
) -> Found:  # fmt: skip
    """Best plan that fits, for each site and count: least step time, tight memory counted as 5 % slower."""
    grid = training_grid(sites, job, pins)
    if grid is None:
        return Found((), {}, {})
    index, plan = grid
    usable = np.array([s.device.usable_bytes for s in sites])[index] - reserve
    memory = training_memory(
        shape=job.shape, plan=plan, recipe=job.recipe, seq_len=job.seq_len,
        fragmentation=float(calibration.memory.fragmentation),
        context_bytes=float(calibration.memory.training_context_gib) * GIB,
    )  # fmt: skip
    fits = memory.total <= usable
    misses = nearest_misses(index, plan, memory, usable, fits)
    if not fits.any():
        return Found((), *misses)
    index, plan, memory, usable = index[fits], take(plan, fits), take(memory, fits), usable[fits]
    step = step_time(
        shape=job.shape, plan=plan, recipe=job.recipe,
        device=device_table([s.device for s in sites], index),
        constants=calibration.training, seq_len=job.seq_len, fused=job.fused,
        frozen_base=job.method in ("lora", "qlora"),
    )  # fmt: skip
    step = as_arrays(step, len(index))
    tight = memory.total > TIGHT_FROM * usable
    best = best_rows(index, plan.count, step.total * np.where(tight, TIGHT_PENALTY, 1.0))
    return Found(candidates_of(best, index, plan, memory, usable, step=step), *misses)


def best_rows(index: np.ndarray, count: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Row of least cost for each (site, count)."""
    order = np.lexsort((cost, count, index))
    keys = index[order].astype(np.int64) * 10_000_000 + count[order]
    first = np.concatenate([[True], keys[1:] != keys[:-1]])
    return np.asarray(order[first])


def candidates_of(
    rows: np.ndarray, index: np.ndarray, plan: Plan, memory: Memory, usable: np.ndarray,
    *, step: StepTime | None = None, serving: Serving | None = None,
    pace: Pace | Streams | Run | None = None,
) -> tuple[Candidate, ...]:  # fmt: skip
    """The chosen rows of a search as candidates of plain numbers."""
    columns = zip(
        index[rows].tolist(),
        _records(plan, rows),
        _records(memory, rows),
        usable[rows].tolist(),
        _records(step, rows) if step is not None else [None] * len(rows),
        _records(serving, rows) if serving is not None else [None] * len(rows),
        _records(pace, rows) if pace is not None else [None] * len(rows),
        strict=True,
    )
    return tuple(Candidate(*values) for values in columns)


def _records(record: Any, rows: np.ndarray) -> list[Any]:
    """Some rows of a record of arrays, each as a record of plain numbers."""
    columns = []
    for field in fields(record):
        value = getattr(record, field.name)
        columns.append(value[rows].tolist() if np.ndim(value) else [value] * len(rows))
    return [type(record)(*values) for values in zip(*columns, strict=True)]


def _nearest(
    index: np.ndarray, plan: Plan, memory: Memory, usable: np.ndarray, fits: np.ndarray
) -> dict[int, Candidate]:  # fmt: skip
    """For sites where nothing fits: the plan with the smallest need over capacity."""
    rows = np.flatnonzero(~np.isin(index, np.unique(index[fits])))
    order = rows[np.lexsort(((memory.total / usable)[rows], index[rows]))]
    first = order[np.flatnonzero(np.diff(index[order], prepend=-1))]
    return {candidate.site: candidate for candidate in candidates_of(first, index, plan, memory, usable)}


def nearest_misses(
    index: np.ndarray, plan: Plan, memory: Memory, usable: np.ndarray, fits: np.ndarray
) -> tuple[dict[int, Candidate], dict[int, Candidate]]:
    """Nearest misses of all counts, and those of a single card."""
    one = plan.count == 1
    alone = _nearest(index[one], take(plan, one), take(memory, one), usable[one], fits[one])
    return _nearest(index, plan, memory, usable, fits), alone


def as_arrays(record: Any, size: int) -> Any:
    """Bring terms that came out as single numbers to full arrays."""
    return type(record)(
        **{
            f.name: np.broadcast_to(np.asarray(getattr(record, f.name), dtype=float), (size,))
            for f in fields(record)
        }
    )


def serving_grid(
    sites: Sequence[Site], job: ServingJob, pins: Mapping[str, int]
) -> tuple[np.ndarray, Plan, np.ndarray] | None:
    """All plans of all sites with the batch per replica as a further dimension."""
    index, grids, batches = [], [], []
    cache: dict[tuple[int, int], Plan | None] = {}
    for number, site in enumerate(sites):
        for count in site.counts:
            key = (count, _max_tp(site))
            if key not in cache:
                plans = serving_plans(
                    count=count, n_heads=job.shape.n_heads, n_layers=job.shape.n_layers,
                    max_tp=key[1], pins=pins,
                )  # fmt: skip
                cache[key] = stack(plans) if plans else None
            grid = cache[key]
            if grid is None:
                continue
            if job.request_rate is None:
                sizes = [np.ceil(job.concurrency / grid.replicas)]
            else:
                sizes = [np.full(len(grid.count), float(b)) for b in BATCHES]
            for size in sizes:
                grids.append(grid)
                index.append(np.full(len(grid.count), number))
                batches.append(size)
    if not grids:
        return None
    return np.concatenate(index), _concatenate(grids), np.concatenate(batches)


def search_serving(
    sites: Sequence[Site], job: ServingJob, *, pins: Mapping[str, int], calibration: Calibration,
    reserve: float = 0.0,
) -> Found:  # fmt: skip
    """Best plan that fits and meets the bounds, for each site and count.

    With a request rate: plans must sustain it, and the fastest per token wins; without one the
    output rate at the given concurrency decides.
    """
    grid = serving_grid(sites, job, pins)
    if grid is None:
        return Found((), {}, {})
    index, plan, batch = grid
    usable = np.array([s.device.usable_bytes for s in sites])[index] - reserve
    weights = np.array([s.weight_bytes for s in sites])[index]
    memory = serving_memory(
        shape=job.shape, plan=plan, weight_bytes=weights, sequences=batch,
        context=job.input_tokens + job.output_tokens, kv_bytes=job.kv_bytes,
        prefill_tokens=min(job.input_tokens, 8192),
        context_bytes=float(calibration.memory.serving_context_gib) * GIB,
    )  # fmt: skip
    fits = memory.total <= usable
    misses = nearest_misses(index, plan, memory, usable, fits)
    if not fits.any():
        return Found((), *misses)
    index, plan, memory = index[fits], take(plan, fits), take(memory, fits)
    usable, weights, batch = usable[fits], weights[fits], batch[fits]
    state = _serving_state(sites, job, index, plan, weights, batch, calibration)
    good = meets_bounds(job, state)
    cost = np.where(good, 0.0, 1e12) - state.output_tokens_per_s
    best = best_rows(index, plan.count, cost)
    best = best[good[best]]
    return Found(candidates_of(best, index, plan, memory, usable, serving=state), *misses)


def _serving_state(
    sites: Sequence[Site], job: ServingJob, index: np.ndarray, plan: Plan, weights: np.ndarray,
    batch: np.ndarray, calibration: Calibration,
) -> Serving:  # fmt: skip
    engines = [s.engine for s in sites]
    engine = Engine(
        compute=np.array([e.compute if e else 1.0 for e in engines])[index],
        memory=np.array([e.memory if e else 1.0 for e in engines])[index],
        prefill=np.array([e.prefill if e else 1.0 for e in engines])[index],
        python=np.array([e.python if e else True for e in engines])[index],
        eager=np.array([e.eager if e else False for e in engines])[index],
    )
    state = steady_state(
        shape=job.shape, plan=plan, device=device_table([s.device for s in sites], index),
        engine=engine, constants=calibration.serving, weight_bytes=weights, kv_bytes=job.kv_bytes,
        input_tokens=float(job.input_tokens), output_tokens=float(job.output_tokens), batch=batch,
    )  # fmt: skip
    return as_arrays(state, len(index))  # type: ignore[no-any-return]


def meets_bounds(job: ServingJob, state: Serving) -> np.ndarray:
    """True where TTFT, TPOT, latency and the request rate hold."""
    good = np.ones(np.shape(state.tpot), dtype=bool)
    if job.ttft_s is not None:
        good &= state.ttft_unloaded <= job.ttft_s
    if job.tpot_s is not None:
        good &= state.tpot <= job.tpot_s
    if job.latency_s is not None:
        good &= state.latency <= job.latency_s
    if job.request_rate is not None:
        good &= state.requests_per_s >= job.request_rate
    return good
