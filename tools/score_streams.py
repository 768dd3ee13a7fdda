"""Print the published stream tables against our streams, row by row, and why rows are not scored."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

from gpuselect.accuracy.streams import SKIPPED, score_streams
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog

FILE = Path(__file__).parents[1] / "data" / "deepstream_streams.csv"


def main() -> None:
    """Score every row of data/deepstream_streams.csv."""
    rows = list(csv.DictReader(FILE.read_text("utf-8").splitlines()))
    scores = score_streams(rows, load_catalog(), load_calibration(), load_defaults())
    for row, score in zip(rows, scores, strict=True):
        verdict = score.code or ("right" if score.right else "WRONG")
        print(
            f"{score.row_id} {row['hardware']:28} {row['model'][:44]:44} {row['codec']:4} "
            f"{score.measured:6.0f} {score.predicted:6.0f} {verdict}"
        )
    scored = [score for score in scores if not score.code]
    print(f"{sum(s.right for s in scored)} of {len(scored)} within 25 % or one stream")
    print(f"{sum(s.within_a_quarter for s in scored)} of {len(scored)} within 25 %")
    for code, number in Counter(s.code for s in scores if s.code).most_common():
        print(f"not scored: {number} {code}: {SKIPPED[code]}")


if __name__ == "__main__":
    main()
