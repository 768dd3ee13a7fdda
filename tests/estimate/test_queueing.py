"""The queueing formulas against a discrete-event simulation of the same server, and their limits."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from gpuselect.estimate.queueing import Load, load_of, running_batch, waiting_for_a_slot

REQUESTS = 4000
# prefill [s], decode step of a batch b: first + second * b [s], answer [tokens], slots
SERVERS = {
    "long prompts": (0.3, 0.03, 0.0005, 150, 256),
    "usual": (0.05, 0.02, 0.0002, 100, 256),
    "short prompts": (0.01, 0.02, 0.0002, 200, 256),
    "few slots": (0.02, 0.03, 0.0001, 100, 16),
}


def gaps(rate: float, burstiness: float) -> np.ndarray:
    """Gaps between arrivals [s]: exponential, or of two exponentials with that squared variation."""
    draw = np.random.default_rng(1)
    if burstiness == 1.0:
        return draw.exponential(1.0 / rate, REQUESTS)
    often = 0.5 * (1.0 + np.sqrt((burstiness - 1.0) / (burstiness + 1.0)))  # balanced means
    first = draw.random(REQUESTS) < often
    return draw.exponential(1.0, REQUESTS) / (2.0 * rate * np.where(first, often, 1.0 - often))


def simulated(
    *, rate: float, prefill: float, fixed: float, each: float, answer: int, slots: int,
    burstiness: float = 1.0,
) -> np.ndarray:  # fmt: skip
    """Times to first token [s] of a server that takes in what waits and decodes, step by step."""
    arrivals = np.cumsum(gaps(rate, burstiness))
    now, number = 0.0, 0
    waiting: deque[float] = deque()
    running: list[int] = []  # tokens that each sequence still needs
    times: list[float] = []
    while number < REQUESTS or waiting or running:
        while number < REQUESTS and arrivals[number] <= now:
            waiting.append(float(arrivals[number]))
            number += 1
        if not waiting and not running:
            now = float(arrivals[number])
            continue
        taken = [waiting.popleft() for _ in range(min(len(waiting), slots - len(running), 16))]
        now += prefill * len(taken) + (fixed + each * len(running) if running else 0.0)
        times += [now - arrival for arrival in taken]
        running = [left - 1 for left in running if left > 1] + [answer - 1] * len(taken)
    return np.array(times[REQUESTS // 5 :])


def modelled(
    *,
    share: float,
    prefill: float,
    fixed: float,
    each: float,
    answer: int,
    slots: int,
    burstiness: float = 1.0,
) -> tuple[float, Load]:
    """Arrival rate at a share of the capacity, and what the formulas say of it."""

    def cycle(batch: float) -> float:
        return answer * (fixed + each * batch) + batch * prefill

    capacity = slots / cycle(slots)
    rate = share * capacity
    batch = float(running_batch(rate=rate, requests_per_s=lambda b: b / cycle(b), most=float(slots)))
    load = load_of(
        rate=rate, capacity=capacity, prefill=prefill, step=fixed + each * batch, chunks=1.0,
        service=cycle(batch), slots=float(slots), overhead=0.0, percentile=0.95, burstiness=burstiness,
    )  # fmt: skip
    return rate, load


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
def test_mean_and_percentile_agree_with_the_simulation(server: str, share: float) -> None:
    """Mean within 20 %; p95 within 25 %, where the slots are not what is waited for."""
    prefill, fixed, each, answer, slots = SERVERS[server]
    rate, load = modelled(share=share, prefill=prefill, fixed=fixed, each=each, answer=answer, slots=slots)
    times = simulated(rate=rate, prefill=prefill, fixed=fixed, each=each, answer=answer, slots=slots)
    assert load.stable
    assert float(load.ttft) == pytest.approx(times.mean(), rel=0.2)
    if server != "few slots":
        assert float(load.ttft_tail) == pytest.approx(np.quantile(times, 0.95), rel=0.25)


@pytest.mark.parametrize("server", ["long prompts", "usual", "short prompts"])
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_bursts_agree_with_the_simulation(server: str, share: float) -> None:
    """Gaps of four times the variance: mean within 15 %, p95 within 25 %, and above those of random ones."""
    prefill, fixed, each, answer, slots = SERVERS[server]
    terms = {"prefill": prefill, "fixed": fixed, "each": each, "answer": answer, "slots": slots}
    rate, load = modelled(share=share, **terms, burstiness=4.0)
    times = simulated(rate=rate, **terms, burstiness=4.0)
    assert float(load.ttft) == pytest.approx(times.mean(), rel=0.15)
    assert float(load.ttft_tail) == pytest.approx(np.quantile(times, 0.95), rel=0.25)
    assert load.ttft > modelled(share=share, **terms)[1].ttft


def test_a_queue_above_the_capacity_is_not_stable() -> None:
    """Near and above the capacity the state is saturated, whatever the formula gives."""
    prefill, fixed, each, answer, slots = SERVERS["usual"]
    for share, stable in ((0.5, True), (0.97, False), (1.3, False)):
        _rate, load = modelled(
            share=share, prefill=prefill, fixed=fixed, each=each, answer=answer, slots=slots
        )
        assert bool(load.stable) == stable


def test_the_running_batch_sustains_the_rate_and_no_more() -> None:
    """Little's law: at the batch the closed system completes the rate; a lower batch does not."""

    def completes(batch: float) -> float:
        return batch / (1.0 + 0.05 * batch)

    batch = float(running_batch(rate=10.0, requests_per_s=completes, most=500.0))
    assert completes(batch) >= 10.0 > completes(batch / 1.01)
    assert float(running_batch(rate=0.01, requests_per_s=completes, most=500.0)) == 1.0
    assert float(running_batch(rate=99.0, requests_per_s=completes, most=500.0)) == 500.0


def test_one_slot_is_the_queue_of_one_server() -> None:
    """M/M/1: W = rho / (1 - rho) service times."""
    for busy in (0.2, 0.5, 0.9):
        wait = float(waiting_for_a_slot(utilisation=busy, slots=1.0, service=2.0))
        assert wait == pytest.approx(2.0 * busy / (1.0 - busy))


def test_arrays_and_numbers_agree() -> None:
    """One load at a time gives what all at once give."""
    rates = np.array([0.5, 1.0, 2.0])
    known = {"capacity": 4.0, "prefill": 0.1, "step": 0.03, "chunks": 2.0, "service": 5.0, "slots": 32.0,
             "overhead": 0.05, "percentile": 0.99}  # fmt: skip
    grid = load_of(rate=rates, **known)
    for place, rate in enumerate(rates):
        alone = load_of(rate=float(rate), **known)
        assert float(grid.ttft[place]) == pytest.approx(float(alone.ttft))
        assert float(grid.ttft_tail[place]) == pytest.approx(float(alone.ttft_tail))
