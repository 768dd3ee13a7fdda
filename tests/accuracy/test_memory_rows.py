"""Memory of measured rows: errors by slice, decisions on fit, and how rows are read."""

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml

from gpuselect.accuracy import inference_memory, training_memory
from gpuselect.accuracy.dispatch import fit_of_row, predict_inference, predict_training
from gpuselect.accuracy.records import Fit, Skip
from gpuselect.accuracy.rows import is_decoder
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.measurements import default_files, read_measurements

CALIBRATION = load_calibration()
LLAMA = {
    "row_id": "x", "model_name": "llama-3.1-8b", "hardware": "a100-sxm4-80gb", "n_accel": "1",
    "seq_len": "2048",
    "micro_batch": "1", "method": "lora", "lora_rank": "16", "recompute": "full", "peak_mem_gb": "20",
    "framework": "transformers",
}  # fmt: skip


@cache
def catalog():
    """The shipped catalog."""
    return load_catalog()


@cache
def rows(layout):
    """The decoder rows of one of the shipped files."""
    return [row for row in every(layout) if is_decoder(row, catalog())]


@cache
def every(layout):
    """The rows of one of the shipped files."""
    (path,) = [path for path in default_files() if path.stem == layout]
    return list(read_measurements(path)[1])


def errors(layout, predict, *, of=rows):
    """Relative errors of the memory rows by slice."""
    found = {}
    for row in of(layout):
        if "peak_mem_gb" not in row:
            continue
        result = predict(row, catalog(), CALIBRATION)
        for scored in result if isinstance(result, list) else ():
            if scored.metric == "peak_mem_gb":
                found.setdefault(scored.slice, []).append(abs(scored.predicted / scored.measured - 1.0))
    return found


def test_training_rows_that_state_recipe_and_lengths_are_met():
    """Median 9 %, 90 % of rows below 30 %; what is assumed is a slice of its own and counts apart."""
    by_slice = errors("training", predict_training)
    stated = np.concatenate([e for name, e in by_slice.items() if name != "training memory assumed"])
    assert len(stated) > 120
    assert np.median(stated) <= 0.09
    assert np.quantile(stated, 0.9) <= 0.3
    assert np.median(by_slice["training memory assumed"]) <= 0.25


def test_inference_rows_of_engines_that_do_not_preallocate_are_met():
    """Median 7 %, 90 % of rows below 25 %."""
    stated = errors("inference", predict_inference)["serving memory"]
    assert len(stated) > 300
    assert np.median(stated) <= 0.07
    assert np.quantile(stated, 0.9) <= 0.25


def networks(layout):
    """The rows of one of the shipped files that are of no decoder."""
    return [row for row in every(layout) if not is_decoder(row, catalog())]


def test_networks_of_samples_are_met():
    """Median 10 %; the tail is footprints of whole cards, and terms that docs/methodology.md lists."""
    training = errors("training", predict_training, of=networks)["training memory of networks"]
    serving = errors("inference", predict_inference, of=networks)["inference memory of networks"]
    assert len(training) > 60
    assert len(serving) > 80
    assert np.median(training) <= 0.1
    assert np.median(serving) <= 0.1
    assert np.quantile(training, 0.9) <= 0.5
    assert np.quantile(serving, 0.9) <= 0.5


@cache
def fits(of):
    """The decisions on rows of a kind."""
    return [
        fit
        for layout in ("training", "inference")
        for row in of(layout)
        if isinstance(fit := fit_of_row(row, catalog(), CALIBRATION, serving=layout == "inference"), Fit)
    ]


def test_decisions_on_fit_of_networks():
    """98 % of what ran is said to fit; failures are few and a third of them inferred by the reader."""
    found = fits(networks)
    assert np.mean([fit.predicted for fit in found if fit.measured]) >= 0.98
    assert np.mean([not fit.predicted for fit in found if not fit.measured]) >= 0.65


def test_decisions_on_fit():
    """97 % of what ran is said to fit; of what ran out of memory nine in ten are said not to."""
    found = fits(rows)
    ran = [fit.predicted for fit in found if fit.measured]
    failed = [not fit.predicted for fit in found if not fit.measured]
    assert len(ran) > 2500
    assert len(failed) > 90
    assert np.mean(ran) >= 0.97
    assert np.mean(failed) >= 0.92


def test_every_wrong_decision_has_a_cause():
    """As tools/memory_misses.py lists them; a new one needs a line in tests/cases/memory_misses.yaml."""
    text = (Path(__file__).parents[1] / "cases" / "memory_misses.yaml").read_text("utf-8")
    patterns = [pattern for cause in yaml.safe_load(text) for pattern in cause["rows"]]
    wrong = [f.row_id for f in (*fits(rows), *fits(networks)) if f.measured != f.predicted]
    assert [row for row in wrong if not any(fnmatchcase(row, pattern) for pattern in patterns)] == []


def test_rows_without_lengths_or_recipe_are_assumed():
    """A length that is a maximum, or a batch that is not stated, moves a row to a slice of its own."""
    score = lambda row: training_memory.memory_score(row, catalog(), CALIBRATION).slice  # noqa: E731
    assert score(LLAMA) == "training memory lora"
    assert score(LLAMA | {"notes": "seq_len is the configured maximum"}) == "training memory assumed"
    assert score({k: v for k, v in LLAMA.items() if k != "micro_batch"}) == "training memory assumed"
    assert score({k: v for k, v in LLAMA.items() if k != "recompute"}) == "training memory assumed"


def test_memory_needs_no_card_but_a_known_technique():
    """A row that names no card is predicted; one of a technique without formula is left."""
    unnamed = training_memory.memory_score(LLAMA | {"hardware": "unspecified-gpu"}, catalog(), CALIBRATION)
    assert unnamed.predicted == pytest.approx(
        training_memory.memory_score(LLAMA, catalog(), CALIBRATION).predicted
    )
    with pytest.raises(Skip, match="technique-not-covered"):
        training_memory.memory_score(LLAMA | {"notes": "tuner full, galore_rank=128"}, catalog(), CALIBRATION)


def test_memory_kinds_and_stacks():
    """Allocated is below reserved, reserved below the driver's view; stacks hold states differently."""

    def need(**more):
        return training_memory.memory_score(LLAMA | more, catalog(), CALIBRATION).predicted

    assert need(mem_kind="allocated") < need(mem_kind="reserved") < need(mem_kind="unknown")
    full = {"method": "full-ft", "n_accel": "8", "dp": "8", "zero_stage": "3"}
    assert need(framework="torchtune", **full) < need(framework="torchtitan", **full)
    assert need(offload="cpu", **full) < need(**full)


def test_deepspeed_keeps_small_gradients_and_its_bf16_optimizer_large_ones():
    """2 bytes of gradients beside what ZeRO divides; 4 more in fp32, and then no ZeRO buckets."""
    row = LLAMA | {"method": "pretrain", "n_accel": "8", "dp": "8", "zero_stage": "1", "micro_batch": "1",
                   "framework": "Megatron-DeepSpeed"}  # fmt: skip

    def need(**more):
        return training_memory.memory_score(row | more, catalog(), CALIBRATION).predicted

    more = need(notes="section 'Rebalancing layers'") - need()
    buckets = 2 * 5e8 * 2.0 / 1e9
    assert more == pytest.approx(1.06 * (4.0 * 8.03 - buckets), rel=0.02)


def test_buffers_of_fastertransformer_grow_beyond_the_batch():
    """1.2 times batch and length: the published failures of a 530B model on 16 cards, and its neighbours."""
    found = {f.row_id: f.predicted for f in fits(rows) if f.row_id.startswith("fastertransformer-")}
    wanted = {"0007": True, "0016": False, "0018": True, "0022": True, "0025": False, "0026": False}
    assert {row: found[f"fastertransformer-{row}"] for row in wanted} == wanted


def test_one_device_of_a_machine_shards_nothing():
    """A configuration that takes one of four cards is that of one card."""
    four = LLAMA | {"n_accel": "4", "framework": "LitGPT", "zero_stage": "3"}
    one = training_memory.memory_score(LLAMA | {"framework": "LitGPT"}, catalog(), CALIBRATION)
    noted = training_memory.memory_score(four | {"notes": "yaml devices=1"}, catalog(), CALIBRATION)
    assert noted.predicted == pytest.approx(one.predicted)


def test_the_cache_is_made_for_the_limit_and_copied_by_old_versions():
    """llama.cpp allocates its context limit; transformers before 4.36 concatenated the cache anew."""
    row = {"row_id": "x", "model_name": "llama-3.1-8b", "hardware": "a100-sxm4-80gb", "n_accel": "1",
           "weight_precision": "fp16", "input_len": "512", "output_len": "512", "batch_or_concurrency": "16",
           "mode": "decode", "peak_mem_gb": "20"}  # fmt: skip

    def need(**more):
        return inference_memory.memory_score(row | more, catalog(), CALIBRATION).predicted

    new, old = (
        need(engine="transformers", engine_version="4.46.0"),
        need(engine="transformers", engine_version="4.35.2"),
    )
    assert old - new == pytest.approx(1.05 * 16 * 1024 * 131072 / 1e9, rel=0.01)
    one = {"engine": "llama.cpp", "batch_or_concurrency": "1", "weight_precision": "q4_k_m"}
    assert need(**one, notes="context limit 32768") > need(**one) + 3.0
    with pytest.raises(Skip, match="memory-preallocated"):
        need(engine="vllm")
