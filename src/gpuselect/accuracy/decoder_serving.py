"""Decoder inference rows: rates and latencies of the row's own load and layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuselect.accuracy.records import Row, Scored, Skip
from gpuselect.accuracy.rows import number, present
from gpuselect.accuracy.serving_bounds import is_beyond_peak
from gpuselect.accuracy.serving_cases import IN_PROCESS, Case, case_of
from gpuselect.calibration import Calibration, ServingConstants
from gpuselect.catalog import Catalog
from gpuselect.estimate.serving import Serving, decode_step_time, prefill_time, steady_state

RATES = (
    "output_tok_s_total", "output_tok_s_per_accel", "total_tok_s_total", "requests_or_images_per_s_total",
    "prefill_tok_s", "ttft_ms", "tpot_ms", "latency_ms",
)  # fmt: skip
TAILS = ("p90", "p95", "p99")
SERVER_SHARE = 0.9  # of the offline rate, MLPerf Server: feasibility study, section 6


def predict(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored]:
    """Every metric of a row that is predicted, else a skip code."""
    stated = present(row, RATES)
    if row.get("outcome", "ok") != "ok" or not stated:
        raise Skip("no-metric")
    _refuse(row)
    case = case_of(row, catalog, calibration)
    found, last = [], Skip("no-metric")
    known = rates(case, calibration.serving)
    for metric in stated:
        try:
            found.append(_scored(row, metric, case, known))
        except Skip as skip:
            last = skip
    if not found:
        raise last
    return found


def _refuse(row: Row) -> None:
    """Leave a row that measures what has no term in the model."""
    notes = row.get("notes", "").lower()
    if "disagg" in notes:
        raise Skip("disaggregated")
    if "flexgen" in row.get("engine", "").lower() or row.get("offload", "none") != "none":
        raise Skip("offload-not-covered")
    if re.search(r"\b(mtp|speculative|eagle)\b", notes) and "no mtp" not in notes:
        raise Skip("technique-not-covered")
    if "-mig-" in row.get("hardware", ""):
        raise Skip("mig-slice", row["hardware"])


def _scored(row: Row, metric: str, case: Case, rates: Mapping[str, Any]) -> Scored:
    if metric == "ttft_ms" and not case.single and case.mode not in IN_PROCESS:
        raise Skip("ttft-under-load")
    if metric in ("ttft_ms", "latency_ms") and row.get("latency_stat") in TAILS:
        raise Skip("tail-latency", row["latency_stat"])
    measured = number(row, metric)
    if is_beyond_peak(case, row, metric, measured):
        raise Skip("beyond-peak", metric)
    cut = slice_of(case, metric)
    return Scored(
        row.get("row_id", ""), row.get("source_id", ""), cut, metric, measured,
        float(rates[metric]), INTERVALS.get(cut, "throughput"), case.assumed,
    )  # fmt: skip


# key of the quantiles that answers use for a slice (performance.serving_performance)
INTERVALS = {
    "serving ttft unloaded": "prefill", "serving prefill": "prefill",
    "serving decode b1": "decode", "serving decode batched": "decode-batched",
    "serving single stream": "single-stream", "serving latency": "tpot",
    "serving tpot loaded": "tpot", "serving throughput": "throughput",
}  # fmt: skip


def slice_of(case: Case, metric: str) -> str:
    """Name of the slice in the report."""
    if metric == "prefill_tok_s" or (case.mode == "prefill" and metric == "latency_ms"):
        return "serving prefill"
    if metric == "ttft_ms":
        return "serving ttft unloaded" if case.single else "serving prefill"
    if case.mode == "decode":
        return "serving decode b1" if case.single else "serving decode batched"
    if metric == "tpot_ms":
        return "serving decode b1" if case.single else "serving tpot loaded"
    if metric == "latency_ms":
        return "serving latency"
    return "serving single stream" if case.single else "serving throughput"


def run_rate(case: Case, state: Serving, constants: ServingConstants) -> Any:
    """Output tokens per second of a run of `sent` requests, from the first arrival to the last answer.

    The last request starts after the arrivals, or after the waves of those before it, and answers differ in
    length: while the last ones run, slots stay empty (`drain`, in times of one sequence).
    """
    service = case.plan.replicas * case.batch / state.requests_per_s
    waves = np.maximum(case.sent / case.most - 1.0, 0.0) * service
    seconds = np.maximum(case.arrival, waves) + (1.0 + constants.drain) * service
    return case.plan.replicas * case.outputs * case.sent / seconds


def rates(case: Case, constants: ServingConstants, modes: Any = None) -> dict[str, Any]:
    """Every rate and time of a case in the units of the columns; of many cases where it holds arrays.

    Alone: prefill, then decode steps, with a server in front unless the phases were timed inside the
    program. A batch there starts and ends together; elsewhere it is batched continuously.
    """
    modes = np.asarray(case.mode if modes is None else modes)
    decoding, offline = modes == "decode", np.isin(modes, IN_PROCESS)
    terms: dict[str, Any] = {
        "shape": case.shape, "plan": case.plan, "device": case.device, "engine": case.engine,
        "constants": constants, "weight_bytes": case.weight_bytes,
    }  # fmt: skip
    state = steady_state(
        **terms, kv_bytes=case.kv_bytes, input_tokens=case.inputs, output_tokens=case.outputs,
        batch=case.batch, beams=case.beams,
    )  # fmt: skip
    step = decode_step_time(
        **terms, kv_bytes=case.kv_bytes, batch=case.batch * case.beams,
        context=case.inputs + case.outputs * np.where(case.engine.static, 1.0, 0.5),
    )  # fmt: skip
    prompts = np.where(offline, case.batch, 1.0)
    prefill = prefill_time(**terms, tokens=case.inputs, prompts=prompts)
    answer = np.where(case.engine.python & ~offline, constants.server_overhead_s, 0.0)
    alone = np.where(decoding, 0.0, prefill + answer) + case.outputs * step
    together = offline | case.single
    output = case.plan.replicas * case.batch * case.outputs / alone
    served = np.where(modes == "server", run_rate(case, state, constants), state.output_tokens_per_s)
    output = np.where(together, output, served)
    share = np.where((modes == "server") & (case.engine.sequences == 4096.0), SERVER_SHARE, 1.0)
    output = output * share
    return {
        "output_tok_s_total": output,
        "output_tok_s_per_accel": output / case.plan.count,
        "total_tok_s_total": output * (case.inputs + case.outputs) / case.outputs,
        "requests_or_images_per_s_total": output / case.outputs,
        "prefill_tok_s": prompts * case.plan.replicas * case.inputs / prefill,
        "ttft_ms": 1e3 * (prefill + answer),
        "tpot_ms": 1e3 * np.where(together, step, state.tpot),
        "latency_ms": 1e3 * np.where(
            modes == "prefill", prefill, np.where(together, alone, state.latency)
        ),
    }  # fmt: skip
