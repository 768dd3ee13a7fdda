"""Our errors beside those of other tools, on the rows that each of them predicted.

`data/measurements/peer_predictions.csv` holds what the feasibility study got out of five calculators and one
table of measured kernels, run on the measured rows that each of them can express.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from gpuselect.accuracy import Scored
from gpuselect.accuracy.records import TIMES
from gpuselect.accuracy.summary import quantile

FILE = Path(__file__).resolve().parents[1] / "data/measurements/peer_predictions.csv"
HEAD = """\
| tool | metric | rows | its median error | ours | within 25 %: it | ours |
|---|---|---|---|---|---|---|"""
NOTE = (
    "On the rows that the other tool predicted. Ours are the left-out predictions of the tables above; "
    "memory is in-sample. Predictions of the other tools are those of the feasibility study, some months old."
)
CLOSE = 0.25  # an error below it counts as close


def error_of(row: Scored, residual: float) -> float:
    """|predicted / measured - 1| of a row of ours; `residual` is the logarithm of how much faster it ran."""
    return abs(math.exp(residual if row.metric in TIMES else -residual) - 1.0)


def peer_lines(pairs: Sequence[tuple[Scored, float]]) -> list[str]:
    """One line for each tool and metric with at least ten common rows."""
    ours = {(row.row_id, row.metric): error_of(row, residual) for row, residual in pairs}
    both: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    with FILE.open(encoding="utf-8", newline="") as table:
        for line in csv.DictReader(table):
            key = (line["row_id"], line["metric"])
            if key in ours:
                theirs = abs(float(line["predicted"]) / float(line["measured"]) - 1.0)
                both[line["peer"], line["metric"]].append((theirs, ours[key]))
    lines = [HEAD]
    for (peer, metric), errors in sorted(both.items()):
        if len(errors) < 10:
            continue
        medians = [f"{100 * quantile([pair[side] for pair in errors], 0.5):.0f} %" for side in (0, 1)]
        close = [f"{100 * sum(pair[side] < CLOSE for pair in errors) / len(errors):.0f} %" for side in (0, 1)]
        cells = (peer, metric, len(errors), *medians, *close)
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return lines
