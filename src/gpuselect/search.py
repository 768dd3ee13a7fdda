"""Plan search: all valid plans of all cards as one batch of arrays, memory first, then time.

For every (card, count) the best fitting plan is kept, and for every card the nearest miss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, System
from gpuselect.estimate.devices import device_table
from gpuselect.estimate.hpc import Run
from gpuselect.estimate.memory import Memory, serving_memory, training_memory
from gpuselect.estimate.memory_recipe import ADAPTERS
from gpuselect.estimate.offload import cards_of_host
from gpuselect.estimate.queueing import Load, load_of, running_batch
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.serving import (
    Engine,
    Serving,
    helped_prefill,
    helped_step,
    prefill_time,
    steady_state,
    weight_bytes_per_rank,
)
from gpuselect.estimate.training import Method, StepTime, step_time
from gpuselect.estimate.video import Streams
from gpuselect.estimate.vision import Pace, Runtime
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.plan import Plan, node_counts, serving_plans, stack, take, training_plans
from gpuselect.units import GB, GIB

TIGHT_FROM, TIGHT_PENALTY = 0.85, 1.05  # a roomy plan is preferred to a tight one 5 % faster
MOST_SEQUENCES = 1024.0  # that a replica is asked to run at once, whatever memory and engine allow


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


def _max_tp(site: Site) -> int:
    """Widest tensor parallelism: the fast domain, or the node over PCIe; at most 16."""
    domain = max(int(site.device.domain), int(site.device.per_node))
    return min(16 if site.device.domain >= 16 else 8, domain)


def _concatenate(grids: list[Plan]) -> Plan:
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
            key = (count, 1 if job.method == "qlora" else _max_tp(site))  # 4-bit kernels do not split
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


def serving_grid(
    sites: Sequence[Site], job: ServingJob, pins: Mapping[str, int]
) -> tuple[np.ndarray, Plan] | None:
    """All plans of all sites: the site index of each, and the plans as arrays."""
    index, grids = [], []
    cache: dict[tuple[int, int, int, bool], Plan | None] = {}
    for number, site in enumerate(sites):
        for count in site.counts:
            by_layers = site.engine is not None and bool(site.engine.layer_split)
            key = (count, _max_tp(site), int(site.device.domain), by_layers)
            if key not in cache:
                plans = serving_plans(
                    count=count, n_heads=job.shape.n_heads, n_layers=job.shape.n_layers,
                    n_experts=job.shape.n_experts, max_tp=key[1], max_ep=key[2], pins=pins,
                    by_layers=by_layers,
                )  # fmt: skip
                cache[key] = stack(plans) if plans else None
            grid = cache[key]
            if grid is not None:
                grids.append(grid)
                index.append(np.full(len(grid.count), number))
    if not grids:
        return None
    return np.concatenate(index), _concatenate(grids)


def search_serving(
    sites: Sequence[Site], job: ServingJob, *, pins: Mapping[str, int], calibration: Calibration,
    reserve: float = 0.0,
) -> Found:  # fmt: skip
    """Best plan that fits and meets the bounds, for each site and count.

    With a request rate: plans must sustain it, and the shortest latency wins; without one the
    output rate at the given concurrency decides.
    """
    grid = serving_grid(sites, job, pins)
    if grid is None:
        return Found((), {}, {})
    index, plan = grid
    usable = np.array([s.device.usable_bytes for s in sites])[index] - reserve
    engine = engine_table(sites, index)
    batch = np.ones(len(index)) if job.request_rate else np.ceil(job.concurrency / plan.replicas)
    memory = serving_need(sites, job, index, plan, engine, batch, calibration)
    limit = usable * engine_share(sites, calibration)[index]
    host = on_host(job, plan, memory, limit)
    memory = replace(memory, weights=memory.weights * (1.0 - host))
    fits = memory.total <= limit
    misses = nearest_misses(index, plan, memory, limit, fits)
    if not fits.any():
        return Found((), *misses)
    index, plan, memory, engine = index[fits], take(plan, fits), take(memory, fits), take(engine, fits)
    usable, batch, host, load = usable[fits], batch[fits], host[fits], None
    if job.offload:
        bandwidth = float(calibration.interconnect.host_memory_gb_s) * GB
        job = replace(job, helped=replace(job.helped, on_host=host, host_bandwidth=bandwidth))
    closed = closed_loop(sites, job, index, plan, engine, calibration)
    if job.request_rate:
        most = most_sequences(memory, usable, engine)
        batch, load = arrivals(sites, job, index, plan, engine, most, closed, calibration)
        memory = serving_need(sites, job, index, plan, engine, batch, calibration)
        memory = replace(memory, weights=memory.weights * (1.0 - host))
    state = as_arrays(closed(batch), len(index))
    if not job.request_rate:  # replicas that get fewer sequences, or none, do not count in full
        used = job.concurrency / (plan.replicas * batch)
        state = replace(
            state, requests_per_s=state.requests_per_s * used,
            output_tokens_per_s=state.output_tokens_per_s * used,
        )  # fmt: skip
    good = meets_bounds(job, state, load)
    cost = np.where(good, 0.0, 1e12) + (state.latency if load is not None else -state.output_tokens_per_s)
    best = best_rows(index, plan.count, cost)
    best = best[good[best]]
    return Found(candidates_of(best, index, plan, memory, usable, serving=state, load=load), *misses)


def on_host(job: ServingJob, plan: Plan, memory: Memory, limit: np.ndarray) -> np.ndarray:
    """Share of the layers that must stay in host memory, in whole layers; 0 where that was not asked for.

    At least one layer stays on the card, and a model that is split into tensors does not do it.
    """
    if not job.offload:
        return np.zeros(len(limit))
    layers = job.shape.n_layers
    missing = np.maximum(memory.total - limit, 0.0) / np.maximum(memory.weights, 1.0)
    share = np.ceil(missing * layers) / layers
    return np.asarray(np.where((plan.tp == 1) & (share < 1.0), share, 0.0))


def engine_share(sites: Sequence[Site], calibration: Calibration) -> np.ndarray:
    """Share of a card's usable memory that each site's engine fills: not all where it allocates ahead."""
    share, kinds = float(calibration.memory.serving_limit), calibration.memory.preallocating
    return np.array([share if site.engine_id in kinds else 1.0 for site in sites])


def engine_table(sites: Sequence[Site], index: np.ndarray) -> Engine:
    """Engines of the sites as arrays, one element per candidate."""
    engines = [s.engine or Engine(1.0, 1.0, 1.0) for s in sites]
    return Engine(**{f.name: np.array([getattr(e, f.name) for e in engines])[index] for f in fields(Engine)})


def serving_need(
    sites: Sequence[Site], job: ServingJob, index: np.ndarray, plan: Plan, engine: Engine,
    batch: np.ndarray, calibration: Calibration,
) -> Memory:  # fmt: skip
    """Need per accelerator [B] of `batch` sequences per replica, each with its whole context."""
    weights = np.array([s.weight_bytes for s in sites])[index]
    held = weight_bytes_per_rank(shape=job.shape, plan=plan, engine=engine, weight_bytes=weights)
    return serving_memory(
        shape=job.shape, plan=plan, weight_bytes=held * plan.tp * plan.pp, sequences=batch / plan.dp,
        context=job.input_tokens + job.output_tokens, kv_bytes=job.kv_bytes,
        prefill_tokens=min(job.input_tokens, 8192),
        context_bytes=float(calibration.memory.serving_context_gib) * GIB,
    )  # fmt: skip


def most_sequences(memory: Memory, usable: np.ndarray, engine: Engine) -> np.ndarray:
    """Sequences per replica that memory and engine allow; `memory` is the need of one."""
    per_sequence = memory.kv_cache
    free = np.floor((usable - memory.total) / per_sequence + 1.0)
    return np.asarray(np.clip(free, 1.0, np.minimum(engine.sequences, MOST_SEQUENCES)))


def closed_loop(
    sites: Sequence[Site], job: ServingJob, index: np.ndarray, plan: Plan, engine: Engine,
    calibration: Calibration,
) -> Callable[[np.ndarray], Serving]:  # fmt: skip
    """Steady state of every candidate as a function of the batch per replica."""
    device = device_table([s.device for s in sites], index)
    weights = np.array([s.weight_bytes for s in sites])[index]

    def state(batch: np.ndarray) -> Serving:
        return steady_state(
            shape=job.shape, plan=plan, device=device, engine=engine, constants=calibration.serving,
            weight_bytes=weights, kv_bytes=job.kv_bytes, input_tokens=float(job.input_tokens),
            output_tokens=float(job.output_tokens), batch=batch, helped=job.helped,
        )  # fmt: skip

    return state


def arrivals(
    sites: Sequence[Site], job: ServingJob, index: np.ndarray, plan: Plan, engine: Engine,
    most: np.ndarray, closed: Callable[[np.ndarray], Serving], calibration: Calibration,
) -> tuple[np.ndarray, Load]:  # fmt: skip
    """Batch that the arrivals keep running on each replica, and the wait for the first token."""
    device = device_table([s.device for s in sites], index)
    weights = np.array([s.weight_bytes for s in sites])[index]
    rate = (job.request_rate or 0.0) / plan.replicas
    batch = running_batch(
        rate=rate, requests_per_s=lambda b: closed(b).requests_per_s / plan.replicas, most=most
    )
    terms: dict[str, Any] = {
        "shape": job.shape, "plan": plan, "device": device, "engine": engine,
        "constants": calibration.serving, "weight_bytes": weights,
    }  # fmt: skip
    fresh = max(job.input_tokens * (1.0 - job.helped.cached), 1.0)
    prefill = helped_prefill(prefill_time(**terms, tokens=fresh), tokens=fresh, helped=job.helped, **terms)
    step = helped_step(
        **terms, kv_bytes=job.kv_bytes, batch=batch, context=job.input_tokens + job.output_tokens / 2.0,
        helped=job.helped,
    )  # fmt: skip
    load = load_of(
        rate=rate, capacity=closed(most).requests_per_s / plan.replicas, prefill=prefill, step=step,
        chunks=np.maximum(np.ceil(fresh / engine.chunk), 1.0), service=closed(batch).latency,
        slots=most, overhead=calibration.serving.server_overhead_s * engine.python,
        percentile=job.percentile, burstiness=job.burstiness,
    )  # fmt: skip
    return batch, as_arrays(load, len(index))


def meets_bounds(job: ServingJob, state: Serving, load: Load | None = None) -> np.ndarray:
    """True where TTFT, TPOT, latency and the request rate hold.

    With arrivals: TTFT under load at the asked percentile (else the mean), and a queue that does not grow.
    """
    good = np.ones(np.shape(state.tpot), dtype=bool)
    wait = np.zeros(np.shape(state.tpot))
    if load is not None:
        first = load.ttft_tail if job.percentile_given else load.ttft
        good &= load.stable
        wait = np.maximum(first - state.ttft_unloaded, 0.0)
    if job.ttft_s is not None:
        good &= state.ttft_unloaded + wait <= job.ttft_s
    if job.tpot_s is not None:
        good &= state.tpot <= job.tpot_s
    if job.latency_s is not None:
        good &= state.latency + wait <= job.latency_s
    if job.request_rate is not None:
        good &= state.requests_per_s >= job.request_rate
    return good
