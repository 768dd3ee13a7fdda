"""Read measured rows: CSV files in one of three layouts, recognised by their header.

One dictionary per row, empty cells left out. The layouts are described in
data/measurements/SCHEMA.md.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.readers.catalog import data_dir
from gpuselect.readers.limits import TABLE_BYTES, read_bounded

MeasuredRow = dict[str, str]
FILES = ("training.csv", "inference.csv", "memory_reference.csv", "memory_reference_more.csv")


@dataclass(frozen=True, slots=True)
class Layout:
    """What the header of a layout must have: every column of `needed`, and one of `metrics`."""

    name: str
    needed: tuple[str, ...]
    metrics: tuple[str, ...]
    telling: tuple[str, ...]  # columns that the other layouts do not have


LAYOUTS = (
    Layout(
        "training", ("hardware",),
        ("tokens_per_s_per_accel", "samples_per_s_total", "step_time_s", "tflops_per_accel_reported",
         "peak_mem_gb", "outcome"),
        ("tokens_per_s_per_accel", "samples_per_s_total", "step_time_s", "tflops_per_accel_reported",
         "framework", "seq_len", "global_batch", "micro_batch", "grad_accum", "zero_stage", "recompute",
         "offload", "compute_precision", "optimizer", "method", "lora_rank"),
    ),
    Layout(
        "inference", ("hardware",),
        ("output_tok_s_total", "output_tok_s_per_accel", "total_tok_s_total",
         "requests_or_images_per_s_total", "prefill_tok_s", "ttft_ms", "tpot_ms", "latency_ms",
         "peak_mem_gb", "outcome"),
        ("output_tok_s_total", "output_tok_s_per_accel", "total_tok_s_total",
         "requests_or_images_per_s_total", "prefill_tok_s", "ttft_ms", "tpot_ms", "latency_ms", "engine",
         "weight_precision", "kv_precision", "mode", "input_len", "output_len", "batch_or_concurrency",
         "request_rate"),
    ),
    Layout("memory", ("arch",), ("peak_gib",), ("arch", "peak_gib", "ref_id")),
)  # fmt: skip


def default_files() -> list[Path]:
    """The measured rows that the package carries."""
    folder = data_dir() / "measurements"
    return [folder / name for name in FILES]


def stream_rows() -> list[MeasuredRow]:
    """Rows of the published stream tables of video pipelines; an empty cell stays an empty text."""
    path = data_dir() / "deepstream_streams.csv"
    text = read_bounded(path, limit=TABLE_BYTES, error=InputError).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def read_rows(path: Path) -> list[MeasuredRow]:
    """Rows of a measured CSV file; raises InputError when it cannot be read or has an unknown header."""
    return read_measurements(path)[1]


def read_measurements(path: Path) -> tuple[str, list[MeasuredRow]]:
    """Layout (training, inference or memory) and rows of a CSV file.

    An empty cell is not stated by the source and is left out. A row without an id gets `line-N`, the
    line of the file that it stands on.
    """
    try:
        text = read_bounded(path, limit=TABLE_BYTES, error=InputError).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        header = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        layout = layout_of(header, path)
        rows = [_row(raw, f"line-{reader.line_num}") for raw in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        text = _("{file} is no CSV file in UTF-8: {why}")
        raise InputError(text.format(file=path, why=str(error).splitlines()[0])) from None
    return layout, rows


def _row(raw: Mapping[str | None, str | list[str] | None], line: str) -> MeasuredRow:
    row = {
        key: text for key, value in raw.items() if key and isinstance(value, str) and (text := value.strip())
    }
    row.setdefault("row_id", row.get("ref_id", line))
    return row


def layout_of(header: Sequence[str], path: Path) -> str:
    """The layout whose columns the header has; raises InputError that names all three.

    >>> layout_of(["hardware", "engine", "tpot_ms"], Path("mine.csv"))
    'inference'
    """
    columns = frozenset(header)
    able = [
        layout
        for layout in LAYOUTS
        if columns.issuperset(layout.needed) and columns.intersection(layout.metrics)
    ]
    scores = [len(columns.intersection(layout.telling)) for layout in able]
    if scores and max(scores) > 0:
        return able[scores.index(max(scores))].name
    text = _(
        "the header of {file} is none of the three layouts of measured rows: training (hardware and a metric "
        "such as tokens_per_s_per_accel), inference (hardware and a metric such as output_tok_s_total), "
        "memory reference (arch and peak_gib); all columns: data/measurements/SCHEMA.md"
    )
    raise InputError(text.format(file=path))


def fingerprint(row: Mapping[str, str]) -> bytes:
    """A short hash of everything that a row states; a changed row has another one.

    >>> fingerprint({"a": "1", "b": "2"}) == fingerprint({"b": "2", "a": "1"})
    True
    """
    text = "\x1f".join(f"{key}\x1e{row[key]}" for key in sorted(row))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def fingerprints(rows: Iterable[Mapping[str, str]]) -> frozenset[bytes]:
    """Hashes of many rows."""
    return frozenset(fingerprint(row) for row in rows)


@cache
def known_fingerprints() -> frozenset[bytes]:
    """Hashes of every row that the package carries: what the constants may have been fitted to."""
    return frozenset().union(
        *(fingerprints(read_measurements(path)[1]) for path in default_files() if path.is_file())
    )
