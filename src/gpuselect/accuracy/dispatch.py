"""One measured row to its predictions: which module knows the row's family."""

from __future__ import annotations

from collections.abc import Callable

from gpuselect.accuracy import (
    decoder_serving,
    decoder_training,
    inference_memory,
    memory_reference,
    network_memory_rows,
    networks,
    training_memory,
)
from gpuselect.accuracy.records import Fit, Row, Scored, Skip, Skipped, skipped
from gpuselect.accuracy.rows import is_decoder
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog


def predict_training(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored] | Skipped:
    """Every metric of a training row that is predicted, else why not."""
    if not is_decoder(row, catalog):
        return networks.predict_training_row(row, catalog, calibration)
    return _both(row, catalog, calibration, decoder_training.predict, training_memory.memory_score)


def predict_inference(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored] | Skipped:
    """Every metric of an inference row that is predicted, else why not."""
    if not is_decoder(row, catalog):
        return networks.predict_inference_row(row, catalog, calibration)
    return _both(row, catalog, calibration, decoder_serving.predict, inference_memory.memory_score)


def _both(
    row: Row, catalog: Catalog, calibration: Calibration,
    rates: Callable[[Row, Catalog, Calibration], list[Scored]],
    memory: Callable[[Row, Catalog, Calibration], Scored],
) -> list[Scored] | Skipped:  # fmt: skip
    """Rates and memory of a row, which need not both be predictable: memory needs no rate of a card."""
    found: list[Scored] = []
    why = Skip("no-metric")
    try:
        found = rates(row, catalog, calibration)
    except Skip as skip:
        why = skip
    try:
        found.append(memory(row, catalog, calibration))
    except Skip as skip:
        why = skip if why.code == "no-metric" else why
    return found or skipped(row, why)


def predict_reference(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored] | Skipped:
    """Peak memory of a row of the allocator reference, else why not."""
    try:
        return memory_reference.predict_reference(row, calibration, catalog)
    except Skip as skip:
        return skipped(row, skip)


def fit_of_row(row: Row, catalog: Catalog, calibration: Calibration, *, serving: bool) -> Fit | Skipped:
    """Whether the row ran and whether its need is predicted to fit."""
    if row.get("outcome", "ok") not in ("ok", "oom"):
        return Skipped(row.get("row_id", ""), "no-metric", row["outcome"])
    find = inference_memory.memory_fit if serving else training_memory.memory_fit
    try:
        if not is_decoder(row, catalog):
            return network_memory_rows.memory_fit(row, catalog, calibration, serving=serving)
        return find(row, catalog, calibration)
    except Skip as skip:
        return skipped(row, skip)
