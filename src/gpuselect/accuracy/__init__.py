"""Predictions against measured rows: error per slice, coverage of the intervals, fit decisions.

`dispatch` predicts one row with the row's own plan, never the best plan; `evaluation` scores files;
`summary` holds the statistics. What a row leaves open is chosen as for a user.
"""

from gpuselect.accuracy.dispatch import fit_of_row, predict_inference, predict_reference, predict_training
from gpuselect.accuracy.records import SKIP_REASONS, Fit, Row, Scored, Skipped

__all__ = [
    "SKIP_REASONS",
    "Fit",
    "Row",
    "Scored",
    "Skipped",
    "fit_of_row",
    "predict_inference",
    "predict_reference",
    "predict_training",
]
