"""Peak memory of decoder inference rows: what the engine allocates for the row's own load, and the fit."""

from __future__ import annotations

import re

from gpuselect.accuracy.decoder_formats import engine_id, preallocates
from gpuselect.accuracy.decoder_memory import fit_for
from gpuselect.accuracy.records import Fit, Row, Scored, Skip
from gpuselect.accuracy.rows import number, present
from gpuselect.accuracy.serving_cases import Case, case_of
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.estimate.memory import serving_memory
from gpuselect.estimate.serving import weight_bytes_per_rank
from gpuselect.units import GB, GIB, MIB

# 72.7 B parameters in 16 bit, 145.4 GB, are printed as 136.2: GiB; 32.8 B, 65.5 GB, as 62751: MiB
BINARY, THOUSANDS = ("qwen2_5-speed",), "memory reported in MB, divided by 1000"
WHOLE_MACHINE = re.compile(r"over (all|both|the|gpus|\d+) ?(cards|gpus|accelerators)?|total over")
CONTEXT_LIMIT = re.compile(r"(?i)context limit (\d+)")
DYNAMIC_CACHE_SINCE = "2024"  # transformers 4.36 (December 2023) replaced tuples of keys and values
OLD_VERSION = re.compile(r"^4\.(?:[0-9]|[12]\d|3[0-5])\.")
DRIVER_VIEW = re.compile(r"(?i)nvidia-smi|whole process|vram peak")
BEAMS = re.compile(r"(?i)(?:num_beams ?=|beam width) ?(\d+)")
STATIC = ("fastertransformer", "transformers")  # a batch is prefilled as one
CHUNK = {"llama.cpp": 512.0, "mlx-lm": 2048.0}  # tokens of a prompt at a time: n_ubatch, prefill_step_size
UNFUSED = ("fastertransformer",)  # its buffers of scores: layers of ParallelGptContextDecoder
SCORE_BYTES = 2.0
# FasterTransformer makes its buffers for 1.2 times the batch and 1.2 times the length, and holds five of the
# hidden width for a prompt (ParallelGpt.cc, isValidBatchSize and isValidSeqLen; ParallelGptContextDecoder.cc)
GROWTH, PROMPT_BUFFERS, COUNTED_BUFFERS = 1.2, 5.0, 2.0
IN_ONE_PROCESS = "transformers"  # pages that print its version print the peak of the allocator, too


def memory_score(row: Row, catalog: Catalog, calibration: Calibration) -> Scored:
    """Predicted peak [GB] in the sense of the row: of one card, or of the machine where its notes say so."""
    if row.get("outcome", "ok") != "ok" or not present(row, ("peak_mem_gb",)):
        raise Skip("no-metric")
    _refuse(row)
    if preallocates(row):
        raise Skip("memory-preallocated", row.get("engine", ""))
    case = case_of(row, catalog, calibration)
    sequences = max(number(row, "batch_or_concurrency", 1), 1.0)
    need = need_of(row, case, calibration, sequences=sequences)
    notes = row.get("notes", "").lower()
    whole_machine = WHOLE_MACHINE.search(notes) and "divided" not in notes
    cut = "serving memory assumed" if case.assumed else "serving memory"
    return Scored(
        row.get("row_id", ""), row.get("source_id", ""), cut, "peak_mem_gb", measured_gb(row),
        need * (float(case.plan.count) if whole_machine else 1.0) / GB, "memory", case.assumed,
    )  # fmt: skip


def measured_gb(row: Row) -> float:
    """The row's peak in decimal GB; pages that print binary units under decimal names are converted.

    >>> round(measured_gb({"peak_mem_gb": "136.2", "source_id": "qwen2_5-speed"}), 1)
    146.2
    """
    value = number(row, "peak_mem_gb")
    if row.get("source_id") in BINARY:
        return value * GIB / GB
    return value * MIB * 1000.0 / GB if THOUSANDS in row.get("notes", "") else value


def memory_fit(row: Row, catalog: Catalog, calibration: Calibration) -> Fit:
    """The row's need against the usable memory: of one sequence where the engine queues the others.

    An engine that allocates ahead leaves a share of the card alone.
    """
    _refuse(row)
    case = case_of(row, catalog, calibration)
    queues = preallocates(row) or row.get("mode") in ("server", "offline")
    sequences = 1.0 if queues else max(number(row, "batch_or_concurrency", 1), 1.0) / case.plan.replicas
    need = need_of(row, case, calibration, sequences=max(sequences, 1.0), driver=True)
    limit = float(calibration.memory.serving_limit) if preallocates(row) else 1.0
    return fit_for(row, need=need, usable=limit * case.device.usable_bytes)


def need_of(
    row: Row, case: Case, calibration: Calibration, *, sequences: float, driver: bool = False
) -> float:
    """Need per accelerator [B] with the context allocated in full."""
    prompt = 0.0 if row.get("mode") == "decode" else case.inputs
    if engine_id(row) in STATIC:  # all prompts at once
        prompt *= max(sequences, 1.0) / case.plan.dp
    prompt = min(prompt, CHUNK.get(engine_id(row), prompt))
    beams = BEAMS.search(row.get("notes", ""))
    sequences *= float(beams[1]) if beams else 1.0
    held = weight_bytes_per_rank(
        shape=case.shape, plan=case.plan, engine=case.engine, weight_bytes=case.weight_bytes
    )  # fmt: skip
    held = held * case.plan.tp * case.plan.pp
    counted = "engine_version" in row or "allocated" in row.get("notes", "")
    in_process = engine_id(row) == IN_ONE_PROCESS and counted and not DRIVER_VIEW.search(row.get("notes", ""))
    context, sequences = _allocated(row, case, sequences)
    extra = 0.0
    if engine_id(row) in UNFUSED:
        extra = SCORE_BYTES * case.shape.n_heads * prompt * case.inputs / case.plan.tp  # of one layer
        context, sequences, prompt = GROWTH * context, GROWTH * sequences, GROWTH**2 * prompt
        extra += SCORE_BYTES * (PROMPT_BUFFERS - COUNTED_BUFFERS) * case.shape.hidden * prompt
    return extra + float(serving_memory(
        shape=case.shape, plan=case.plan, weight_bytes=held, sequences=sequences / case.plan.dp,
        context=context, kv_bytes=case.kv_bytes, prefill_tokens=prompt, kv_copies=_copies(row),
        context_bytes=0.0
        if in_process and not driver
        else float(calibration.memory.serving_context_gib) * GIB,
    ).total)  # fmt: skip


def _allocated(row: Row, case: Case, sequences: float) -> tuple[float, float]:
    """Length and number of the sequences that the cache is made for: all of the limit where one is set."""
    limit = CONTEXT_LIMIT.search(row.get("notes", ""))
    if limit is None or engine_id(row) != "llama.cpp":
        return case.inputs + case.outputs, sequences
    return float(limit[1]), 1.0  # the slots share the limit


def _copies(row: Row) -> float:
    """Copies of the cache: tuples of keys and values are concatenated to new ones at every token."""
    if engine_id(row) != IN_ONE_PROCESS or row.get("mode") == "prefill":
        return 1.0
    version = row.get("engine_version", "")
    old = OLD_VERSION.match(version) or (not version and row.get("date", "9") < DYNAMIC_CACHE_SINCE)
    return 2.0 if old else 1.0


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
