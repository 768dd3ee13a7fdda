"""What no run can reach: a measured figure beyond it does not mean what its row says.

A first token from a cached prompt, a count of cards that leaves replicas out, several tokens per step: such
figures pass the dense peak or the bandwidth of the cards that the row names. The bound has no constant but
a margin for clocks above the data sheet's.
"""

from __future__ import annotations

from gpuselect.accuracy.records import Row
from gpuselect.accuracy.rows import number
from gpuselect.accuracy.serving_cases import IN_PROCESS, Case
from gpuselect.estimate.serving import NO_LIMIT
from gpuselect.estimate.shape import kv_bytes_per_sequence

CLOCKS = 1.1  # cards hold clocks up to a tenth above the boost clock that peaks are stated for


def least_times(case: Case, *, batch: float) -> tuple[float, float]:
    """Least time of one prompt, and of one decoded token of `batch` that run at once [s].

    Of mixtures only the experts of one token are read, every weight at the width of the format; the cache
    counts one byte per element, and windows and the vocabulary of a prompt count nothing.
    """
    shape, cards = case.shape, float(case.plan.tp * case.plan.pp * case.plan.dp)
    peak = cards * float(case.device.peak) * CLOCKS
    bandwidth = cards * float(case.device.bandwidth) * CLOCKS
    table = float(shape.embedding_params)
    layers = max(float(shape.active_params) - table * (1.0 if shape.tied else 2.0), 0.0)
    step = float(shape.active_params) - (0.0 if shape.tied else table)
    cache = float(kv_bytes_per_sequence(
        shape=shape, context=case.inputs, bytes_per_element=min(float(case.kv_bytes), 1.0)
    ))  # fmt: skip
    read = step * float(case.engine.expert_bytes) / batch + cache
    return 2.0 * layers * case.inputs / peak, max(2.0 * step / peak, read / bandwidth)


def is_beyond_peak(case: Case, row: Row, metric: str, measured: float) -> bool:
    """True where the cards of the row cannot have produced the figure.

    At most as many sequences run as the row asks for; where it asks for none, any number. A pipeline
    takes in one prompt chunk by chunk, so that a short one uses one stage at a time.
    """
    asked = 1.0 if case.single else number(row, "batch_or_concurrency") or NO_LIMIT
    prompt, token = least_times(case, batch=asked * float(case.beams))
    chunks = max(case.inputs * (case.batch if case.mode in IN_PROCESS else 1.0) / case.engine.chunk, 1.0)
    alone = prompt * float(case.plan.pp) / min(float(case.plan.pp), chunks)
    replicas = float(case.plan.replicas)
    request = case.outputs * token + (0.0 if case.mode == "decode" else prompt)
    most = {
        "prefill_tok_s": replicas * case.inputs / alone,
        "output_tok_s_total": replicas * case.outputs / request,
        "output_tok_s_per_accel": replicas * case.outputs / request / float(case.plan.count),
        "requests_or_images_per_s_total": replicas / request,
        "total_tok_s_total": replicas * (case.inputs + case.outputs) / request,
    }
    if metric in most:
        return bool(measured > most[metric])
    least = {"ttft_ms": alone, "tpot_ms": least_times(case, batch=1.0)[1]}
    return metric in least and bool(measured < 1e3 * least[metric])
