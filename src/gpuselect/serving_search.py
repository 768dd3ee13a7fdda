"""Search of serving plans: memory first, then the steady state or the load, then the bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from gpuselect.calibration import Calibration
from gpuselect.estimate.devices import device_table
from gpuselect.estimate.memory import Memory, serving_memory
from gpuselect.estimate.queueing import Load, load_of, running_batch
from gpuselect.estimate.serving import (
    Engine,
    Serving,
    helped_prefill,
    helped_step,
    prefill_time,
    steady_state,
    weight_bytes_per_rank,
)
from gpuselect.job import ServingJob
from gpuselect.plan import Plan, serving_plans, stack, take
from gpuselect.search import (
    Found,
    Site,
    as_arrays,
    best_rows,
    candidates_of,
    concatenate,
    nearest_misses,
    widest_tp,
)
from gpuselect.units import GB, GIB

MOST_SEQUENCES = 1024.0  # that a replica is asked to run at once, whatever memory and engine allow


def serving_grid(
    sites: Sequence[Site], job: ServingJob, pins: Mapping[str, int]
) -> tuple[np.ndarray, Plan] | None:
    """All plans of all sites: the site index of each, and the plans as arrays."""
    index, grids = [], []
    cache: dict[tuple[int, int, int, bool], Plan | None] = {}
    for number, site in enumerate(sites):
        for count in site.counts:
            by_layers = site.engine is not None and bool(site.engine.layer_split)
            key = (count, widest_tp(site), int(site.device.domain), by_layers)
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
    return np.concatenate(index), concatenate(grids)


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
