"""One measured row to its predictions: which module knows the row's family."""

from __future__ import annotations

from gpuselect.accuracy import decoder_memory, decoder_serving, decoder_training, networks
from gpuselect.accuracy.records import Fit, Row, Scored, Skip, Skipped, skipped
from gpuselect.accuracy.rows import is_decoder
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog


def predict_training(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored] | Skipped:
    """Every metric of a training row that is predicted, else why not."""
    if not is_decoder(row, catalog):
        return networks.predict_training_row(row, catalog, calibration)
    try:
        return decoder_training.predict(row, catalog, calibration)
    except Skip as skip:
        return skipped(row, skip)


def predict_inference(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored] | Skipped:
    """Every metric of an inference row that is predicted, else why not."""
    if not is_decoder(row, catalog):
        return networks.predict_inference_row(row, catalog, calibration)
    try:
        return decoder_serving.predict(row, catalog, calibration)
    except Skip as skip:
        return skipped(row, skip)


def predict_reference(row: Row, catalog: Catalog, calibration: Calibration) -> list[Scored] | Skipped:
    """Peak memory of a row of the allocator reference, else why not."""
    del catalog
    try:
        return decoder_memory.predict_reference(row, calibration)
    except Skip as skip:
        return skipped(row, skip)


def fit_of_row(row: Row, catalog: Catalog, calibration: Calibration, *, serving: bool) -> Fit | Skipped:
    """Whether the row ran and whether its need is predicted to fit; decoders only."""
    if not is_decoder(row, catalog):
        return Skipped(row.get("row_id", ""), "family-not-covered")
    if row.get("outcome", "ok") not in ("ok", "oom"):
        return Skipped(row.get("row_id", ""), "no-metric", row["outcome"])
    find = decoder_serving.fit if serving else decoder_training.fit
    try:
        return find(row, catalog, calibration)
    except Skip as skip:
        return skipped(row, skip)
