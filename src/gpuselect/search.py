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
from gpuselect.estimate.memory import Memory, training_memory
from gpuselect.estimate.memory_recipe import ADAPTERS
from gpuselect.estimate.offload import cards_of_host
from gpuselect.estimate.queueing import Load
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.serving import (
    Engine,
    Serving,
)
from gpuselect.estimate.training import Method, StepTime, step_time
from gpuselect.estimate.video import Streams
from gpuselect.estimate.vision import Pace, Runtime
from gpuselect.job import TrainingJob
from gpuselect.plan import Plan, node_counts, stack, take, training_plans
from gpuselect.units import GIB

TIGHT_FROM, TIGHT_PENALTY = 0.85, 1.05  # a roomy plan is preferred to a tight one 5 % faster


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
    decoders: float = 1.0
    encode_pixels_per_s: float = float("inf")  # of all encode engines; infinite: nothing is encoded
    share: str = ""  # what one tenant gets of a shared card, in words
    dla_gain: float = 1.0  # rate of the detector with the DLA engines, against without
    host_bytes: float = float("inf")  # memory of the host of a node; infinite where it is not known


FEW_CARDS = 8  # every number of owned cards is tried up to here


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
    load: Load | None = None  # a server with arrivals


@dataclass(frozen=True, slots=True)
class Found:
    """Candidates that fit, and per site the plan that came nearest when none fits: of all, of one card."""

    fitting: tuple[Candidate, ...]
    nearest: Mapping[int, Candidate]
    nearest_single: Mapping[int, Candidate]


def site_counts(
    system: System | None, *, max_count: int, fixed: int | None, owned: bool = False
) -> tuple[int, ...]:  # fmt: skip
    """Counts of a card to try: the fixed one, or those that its system can hold.

    Of `owned` cards some may stay idle: a model may split over two of three, or over four of five.

    >>> site_counts(None, max_count=8, fixed=3, owned=True), site_counts(None, max_count=8, fixed=3)
    ((1, 2, 3), (3,))
    """
    if fixed is not None:
        return tuple(n for n in range(1, fixed + 1) if n <= FEW_CARDS or n == fixed) if owned else (fixed,)
    if system is None:
        return tuple(node_counts(per_node=1, max_nodes=1, max_count=max_count))
    per_node = int(system.accelerators_per_node)
    max_nodes = None if system.max_nodes is None else int(system.max_nodes)
    return tuple(node_counts(per_node=per_node, max_nodes=max_nodes, max_count=max_count))


def widest_tp(site: Site) -> int:
    """Widest tensor parallelism: the fast domain, or the node over PCIe; at most 16."""
    domain = max(int(site.device.domain), int(site.device.per_node))
    return min(16 if site.device.domain >= 16 else 8, domain)


def concatenate(grids: list[Plan]) -> Plan:
    """Grids of plans, one behind the other."""
    return Plan(**{f.name: np.concatenate([getattr(g, f.name) for g in grids]) for f in fields(Plan)})


def training_grid(
    sites: Sequence[Site], job: TrainingJob, pins: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray, Plan] | None:
    """All valid plans of all sites: the site of each, its row among the plans that differ, and those plans.

    Sites of equal width and count share their plans, so that memory is computed once for each.
    """
    rows: dict[tuple[int, int], np.ndarray] = {}
    index, picked, known = [], [], 0
    grids: list[Plan] = []
    for number, site in enumerate(sites):
        for count in site.counts:
            key = (count, 1 if job.method == "qlora" else widest_tp(site))  # 4-bit kernels do not split
            if key not in rows:
                plans = training_plans(
                    count=count, global_batch=job.global_batch, n_layers=job.shape.n_layers,
                    n_heads=job.shape.n_heads, n_experts=job.shape.n_experts, max_tp=key[1],
                    allow_pp=job.method in ("pretrain", "full"), pins=pins,
                )  # fmt: skip
                rows[key] = np.arange(known, known + len(plans))
                known += len(plans)
                grids += plans
            picked.append(rows[key])
            index.append(np.full(len(rows[key]), number))
    if not grids:
        return None
    return np.concatenate(index), np.concatenate(picked), stack(grids)


def method_of(job: TrainingJob) -> Method:
    """What the step time needs to know of the method."""
    return Method(
        fused=job.fused, frozen_base=job.method in ADAPTERS, quantised=job.method == "qlora",
        wide=job.precision in ("fp32", "tf32"),
    )  # fmt: skip


def search_training(
    sites: Sequence[Site], job: TrainingJob, *, pins: Mapping[str, int], calibration: Calibration,
    reserve: float = 0.0,
) -> Found:  # fmt: skip
    """Best plan that fits, for each site and count: least step time, tight memory counted as 5 % slower."""
    grid = training_grid(sites, job, pins)
    if grid is None:
        return Found((), {}, {})
    index, picked, plans = grid
    usable = np.array([s.device.usable_bytes for s in sites])[index] - reserve
    memory = training_memory(
        shape=job.shape, plan=plans, recipe=job.recipe, seq_len=job.seq_len,
        fragmentation=float(calibration.memory.fragmentation),
        context_bytes=float(calibration.memory.training_context_gib) * GIB,
    )  # fmt: skip
    memory = as_arrays(memory, len(plans.count))
    fits = memory.total[picked] <= usable
    if pins.get("offload"):
        fits &= host_fits(sites, index, take(plans, picked), take(memory, picked))
    misses = nearest_misses(index, plans, memory, usable, fits, picked)
    if not fits.any():
        return Found((), *misses)
    fits &= lighter_need(plans, memory.total)[picked] > TIGHT_FROM * usable
    index, picked, usable = index[fits], picked[fits], usable[fits]
    plan, memory = take(plans, picked), take(memory, picked)
    step = step_time(
        shape=job.shape, plan=plan, recipe=job.recipe,
        device=device_table([s.device for s in sites], index),
        constants=calibration.training, seq_len=job.seq_len, method=method_of(job),
    )  # fmt: skip
    step = as_arrays(step, len(index))
    tight = memory.total > TIGHT_FROM * usable
    best = best_rows(index, plan.count, step.total * np.where(tight, TIGHT_PENALTY, 1.0))
    return Found(candidates_of(best, index, plan, memory, usable, step=step), *misses)


def lighter_need(plans: Plan, need: np.ndarray) -> np.ndarray:
    """Need of each plan with one level less of recomputing [B]; infinite where there is none.

    Recomputing costs time and saves memory only: where the lighter plan is roomy, the heavier one cannot win.
    """
    level = np.asarray(plans.recompute)
    same = np.concatenate([[False], level[1:] == level[:-1] + 1])
    return np.where(same, np.concatenate([[np.inf], need[:-1]]), np.inf)


def host_fits(sites: Sequence[Site], index: np.ndarray, plan: Plan, memory: Memory) -> np.ndarray:
    """True where what waits on the host fits its memory, or where that memory is not known."""
    cards = cards_of_host(plan=plan, device=device_table([s.device for s in sites], index))
    limit = np.array([s.host_bytes for s in sites])[index]
    return np.asarray(memory.host * cards <= limit)


def best_rows(index: np.ndarray, count: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Row of least cost for each (site, count), the first of several, in the order of site and count.

    >>> best_rows(np.array([2, 0, 0, 0]), np.array([1, 1, 2, 1]), np.array([4.0, 3.0, 9.0, 2.0])).tolist()
    [3, 2, 0]
    """
    keys = index.astype(np.int64) * 10_000_000 + count.astype(np.int64)
    order = np.arange(len(keys))
    if np.any(keys[1:] < keys[:-1]):  # most grids come in order, and sorting takes longer than all the rest
        order = np.argsort(keys, kind="stable")
        keys, cost = keys[order], cost[order]
    first = np.concatenate([[True], keys[1:] != keys[:-1]])
    group = np.cumsum(first) - 1
    rows = np.flatnonzero(cost == np.fmin.reduceat(cost, np.flatnonzero(first))[group])
    return np.asarray(order[rows[np.concatenate([[True], group[rows[1:]] != group[rows[:-1]]])]])


def candidates_of(
    rows: np.ndarray, index: np.ndarray, plan: Plan, memory: Memory, usable: np.ndarray,
    *, step: StepTime | None = None, serving: Serving | None = None,
    pace: Pace | Streams | Run | None = None, load: Load | None = None,
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
        _records(load, rows) if load is not None else [None] * len(rows),
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


def nearest_misses(
    index: np.ndarray, plan: Plan, memory: Memory, usable: np.ndarray, fits: np.ndarray,
    picked: np.ndarray | None = None,
) -> tuple[dict[int, Candidate], dict[int, Candidate]]:  # fmt: skip
    """Where nothing fits: the plan with the smallest need over capacity, of all counts and of a single card.

    `picked` is the row of each candidate in `plan` and `memory`; without it they have a row for each.
    """
    picked = np.arange(len(index)) if picked is None else picked

    def nearest(rows: np.ndarray) -> dict[int, Candidate]:
        served = np.zeros(int(index.max(initial=0)) + 1, dtype=bool)
        served[index[rows][fits[rows]]] = True
        rows = rows[~served[index[rows]]]
        order = rows[np.lexsort(((memory.total[picked[rows]] / usable[rows]), index[rows]))]
        first = order[np.flatnonzero(np.diff(index[order], prepend=-1))]
        near = (take(plan, picked[first]), take(memory, picked[first]))
        found = candidates_of(np.arange(len(first)), index[first], *near, usable[first])
        return {candidate.site: candidate for candidate in found}

    return nearest(np.arange(len(index))), nearest(np.flatnonzero((plan.count == 1)[picked]))


def as_arrays(record: Any, size: int) -> Any:
    """Bring terms that came out as single numbers to full arrays."""
    return type(record)(
        **{
            f.name: np.broadcast_to(np.asarray(getattr(record, f.name), dtype=float), (size,))
            for f in fields(record)
        }
    )
