"""The measured rows that lie nearest to an option: shown beside an answer, never used to correct it.

Distance is a sum of plain terms: another card, model, method, format, number of cards, length or load.
A row that lies further away than `FARTHEST` says nothing of the option and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log2

import numpy as np

from gpuselect.accuracy import Row, Scored, predict_inference, predict_training
from gpuselect.accuracy.records import Skip
from gpuselect.accuracy.rows import accelerator_of, base_model_of, number
from gpuselect.accuracy.streams import request_of, score_streams
from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, Catalog, Model
from gpuselect.decision import Neighbour
from gpuselect.i18n import N_, _
from gpuselect.names import squeeze
from gpuselect.network_job import VideoJob
from gpuselect.ranking import kind_of
from gpuselect.tco import CostDefaults

NEAREST = 3
PER_SOURCE = 2
FARTHEST = 7.0
KIND, GENERATION, MAKER, ELSE = 0.5, 1.5, 2.5, 4.0  # distance of another card, beside that of its bandwidth
TRAINING = ("tokens_per_s_per_accel", "samples_per_s_total", "step_time_s")
INFERENCE = (
    "output_tok_s_total", "output_tok_s_per_accel", "requests_or_images_per_s_total", "tpot_ms", "latency_ms",
)  # fmt: skip
RATES = ("tokens_per_s_per_accel", "samples_per_s_total", "output_tok_s_total", "output_tok_s_per_accel",
         "requests_or_images_per_s_total")  # fmt: skip
VERSION = re.compile(r"[ ,+/-]*\bv?\d+\.\d.*")
LENGTHS = ("seq_len", "input_len", "output_len", "batch_or_concurrency", "image_size")
COLUMNS = (  # of the measured rows, as `_cell_terms` names them
    N_("seq len"), N_("input len"), N_("output len"), N_("batch or concurrency"), N_("image size"),
    N_("method"), N_("mode"), N_("framework"), N_("engine"), N_("compute precision"), N_("weight precision"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for. `words`: column -> texts that may stand there; `numbers`: lengths, load."""

    layout: str  # training | inference
    card: Accelerator
    count: int
    model: Model | None
    params_b: float
    families: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    numbers: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Near:
    distance: float
    row: Row
    metric: str
    differs: tuple[str, ...]
    same_card: bool


def nearest_rows(
    rows: Iterable[Row], query: Query, catalog: Catalog, calibration: Calibration
) -> tuple[Neighbour, ...]:
    """The nearest rows with what the engine predicts for each, at most two of one source."""
    found = sorted(
        (near for row in rows if (near := _measure(row, query, catalog)) is not None),
        key=lambda near: (near.distance, near.row["row_id"]),
    )
    kept: list[_Near] = []
    seen: set[tuple[str, ...]] = set()
    for near in found:
        key = tuple(near.row.get(k, "") for k in ("source_id", "hardware", "n_accel", "model_name"))
        of_source = sum(k.row.get("source_id") == near.row.get("source_id") for k in kept)
        if key not in seen and of_source < PER_SOURCE:
            kept.append(near)
            seen.add(key)
        if len(kept) == NEAREST:
            break
    return tuple(_neighbour(near, query, catalog, calibration) for near in kept)


def _measure(row: Row, query: Query, catalog: Catalog) -> _Near | None:
    """Distance of a row, None where it is another kind of work, holds no rate or lies too far away."""
    if row.get("outcome", "ok") != "ok" or row.get("family", "") not in query.families:
        return None
    metric = next((m for m in (TRAINING if query.layout == "training" else INFERENCE) if m in row), None)
    if metric is None:
        return None
    try:
        card = accelerator_of(row, catalog)
        terms = [_card_term(card, query.card), _model_term(row, query, catalog), *_cell_terms(row, query)]
    except Skip:
        return None
    distance = sum(size for size, _words in terms) + (0.0 if metric in RATES else 1.0)
    if distance > FARTHEST:
        return None
    words = tuple(text for _size, text in sorted(terms, key=lambda term: -term[0]) if text)
    return _Near(distance, row, metric, words, card.id == query.card.id)


def _card_term(card: Accelerator, asked: Accelerator) -> tuple[float, str]:
    if card.id == asked.id:
        return 0.0, ""
    if kind_of(card.id) == kind_of(asked.id):
        return KIND, _("another form of the card ({name})").format(name=card.id)
    same = card.vendor == asked.vendor
    size = GENERATION if same and card.architecture == asked.architecture else MAKER if same else ELSE
    far = 1.0
    if card.memory_bandwidth_gb_s and asked.memory_bandwidth_gb_s:
        far = abs(log2(float(card.memory_bandwidth_gb_s) / float(asked.memory_bandwidth_gb_s)))
    return size + 0.5 * far, _("another card ({name})").format(name=card.id)


def _model_term(row: Row, query: Query, catalog: Catalog) -> tuple[float, str]:
    """Nothing for the same model, else by the ratio of the sizes."""
    name = row.get("model_name", "")
    model = base_model_of(name, catalog)
    if model is not None and query.model is not None and model.id == query.model.id:
        return 0.0, ""
    size = number(row, "params_b") or (float(model.params_b) if model is not None else 0.0)
    far = abs(log2(size / query.params_b)) if size and query.params_b else 3.0
    return 0.5 + far, _("another model ({name})").format(name=name or _("unnamed"))


def _cell_terms(row: Row, query: Query) -> list[tuple[float, str]]:
    """Method, format, engine, number of cards, lengths and load."""
    terms = []
    count = int(number(row, "n_accel", 1.0)) or 1
    if count != query.count:
        text = _("{n} instead of {m} accelerators").format(n=count, m=query.count)
        terms.append((0.3 * abs(log2(count / query.count)), text))
    for key, asked in query.words.items():
        given = row.get(key, "")
        if given and asked and not any(word in given.lower() for word in asked):
            size = 1.5 if key in ("method", "mode") else 0.5
            terms.append((size, f"{_(key.replace('_', ' '))} {short(given)}"))
    for key in LENGTHS:
        given_number, wanted = number(row, key), query.numbers.get(key, 0.0)
        if given_number > 0 and wanted > 0 and given_number != wanted:
            text = f"{_(key.replace('_', ' '))} {given_number:g}"
            terms.append((0.3 * abs(log2(given_number / wanted)), text))
    return terms


def nearest_streams(
    rows: Sequence[Row], card: Accelerator, job: VideoJob, catalog: Catalog, calibration: Calibration,
    defaults: CostDefaults,
) -> tuple[Neighbour, ...]:  # fmt: skip
    """The nearest rows of the published stream tables, with the streams that the engine gives each device."""
    near = sorted(
        ((distance, number, row) for number, row in enumerate(rows)
         if (distance := _stream_distance(row, card, job, catalog)) is not None),
        key=lambda found: found[:2],
    )[:NEAREST]  # fmt: skip
    kept = [row for _distance, _number, row in near]
    scores = score_streams(kept, catalog, calibration, defaults)
    return tuple(
        Neighbour(
            row_id=row["row_id"], title=_("DeepStream stream tables"),
            reference=row["source"].split(", quoted")[0], as_of="",
            what=_(", ").join(p for p in (f"1 × {row['hardware']}", row["model"], row["codec"]) if p),
            metric="streams", measured=score.measured, predicted=score.predicted,
            differs=_stream_differs(row, card, job, catalog),
            same_card=accelerator_of(row, catalog).id == card.id,
        )
        for row, score in zip(kept, scores, strict=True)
    )  # fmt: skip


def _stream_distance(row: Row, card: Accelerator, job: VideoJob, catalog: Catalog) -> float | None:
    """Distance of a row of a stream table; None where the engine does not score it."""
    if isinstance(request_of(row, catalog), str):
        return None
    size = _card_term(accelerator_of(row, catalog), card)[0]
    same = squeeze(job.detector.label) in squeeze(row["model"])
    return size + (0.0 if same else 1.0) + (0.0 if row["codec"] in ("", job.codec) else 0.3)


def _stream_differs(row: Row, card: Accelerator, job: VideoJob, catalog: Catalog) -> tuple[str, ...]:
    other = _card_term(accelerator_of(row, catalog), card)[1]
    same = squeeze(job.detector.label) in squeeze(row["model"])
    texts = (other, "" if same else _("another network"))
    return tuple(text for text in texts if text)


def short(text: str) -> str:
    """A framework as a row names it, without its versions.

    >>> short("PyTorch 2.8.0.dev20251001+rocm7.0.0, ROCm 7.0.0"), short("gguf-q4_k_m")
    ('PyTorch', 'gguf-q4_k_m')
    """
    return VERSION.sub("", text)[:40] or text[:40]


def _neighbour(near: _Near, query: Query, catalog: Catalog, calibration: Calibration) -> Neighbour:
    row = near.row
    predict = predict_training if query.layout == "training" else predict_inference
    cards = int(number(row, "n_accel", 1.0)) or 1
    what = [f"{cards} × {row['hardware']}", row.get("model_name", "")]
    what += [
        short(row[key])
        for key in ("framework", "engine", "compute_precision", "weight_precision")
        if key in row
    ]
    return Neighbour(
        row_id=row["row_id"], title=row.get("source_title", ""), reference=row.get("source_ref", ""),
        as_of=row.get("date", ""), what=_(", ").join(part for part in what if part), metric=near.metric,
        measured=number(row, near.metric), predicted=_predicted(predict, near, catalog, calibration),
        differs=near.differs, same_card=near.same_card,
    )  # fmt: skip


def _predicted(
    predict: Callable[[Row, Catalog, Calibration], object], near: _Near, catalog: Catalog,
    calibration: Calibration,
) -> float | None:  # fmt: skip
    """What the engine gives for a row, in the unit of its column; None where it does not predict it."""
    try:
        with np.errstate(all="ignore"):
            found = predict(near.row, catalog, calibration)
    except ArithmeticError:
        return None
    scored: Sequence[Scored] = found if isinstance(found, list) else ()
    value = next((s.predicted for s in scored if s.metric == near.metric), None)
    return value if value is not None and isfinite(value) and value > 0 else None
