"""The exact memory reference: both files hold the same columns, and what they say hangs together."""

from __future__ import annotations

import csv
import runpy
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FIRST, MORE = "memory_reference.csv", "memory_reference_more.csv"
RESULTS = {"ref_id", "params_b", "trainable_b", "torch", "transformers"}
GIB = 2**30
ROUNDING = 2e-5  # the files keep five decimals of a GiB


@cache
def rows(name: str) -> list[dict[str, str]]:
    """Rows of one file of the reference."""
    with (ROOT / "data/measurements" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def one(**wanted: str) -> dict[str, str]:
    """The one row of the second file with these cells."""
    base = {"arch": "llama", "n_layers": "4", "hidden": "2048", "heads": "16", "kv_heads": "16",
            "ffn": "5632", "vocab": "32000", "batch": "2", "seq": "2048", "recompute": "none",
            "precision": "bf16", "optimizer": "adamw", "lora_rank": "", "note": ""}  # fmt: skip
    cells = (base | wanted).items()
    (found,) = [row for row in rows(MORE) if all(row[key] == value for key, value in cells)]
    return found


def gib(row: dict[str, str], name: str) -> float:
    """One size of a row [GiB]."""
    return float(row[f"{name}_gib"])


def described(row: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """What a row says of the run, without what came out."""
    return tuple(
        (key, value) for key, value in row.items() if key not in RESULTS and not key.endswith("_gib")
    )


def test_columns_are_those_of_the_first_file() -> None:
    """The second file only adds a note."""
    assert [*rows(FIRST)[0], "note"] == list(rows(MORE)[0])


def test_ids_are_unique_over_both_files() -> None:
    """An id names one row, and rows stand in the order of their ids."""
    ids = [row["ref_id"] for name in (FIRST, MORE) for row in rows(name)]
    assert len(ids) == len(set(ids))
    assert [row["ref_id"] for row in rows(MORE)] == sorted(row["ref_id"] for row in rows(MORE))


def test_no_configuration_stands_twice() -> None:
    """No run was counted twice."""
    first = [described({**row, "note": ""}) for row in rows(FIRST)]
    every = first + [described(row) for row in rows(MORE)]
    assert len(every) == len(set(every))


def test_rows_are_the_cases_of_the_tool() -> None:
    """A row says what the tool would count under its id."""
    cases = {f"r{number:03d}": case for number, case in enumerate(_cases(), start=1)}
    for row in rows(MORE):
        told = cases[row["ref_id"]].columns()
        assert {key: row[key] for key in told} == told


def _cases() -> list:
    return runpy.run_path(str(ROOT / "tools/memory_cases.py"))["cases"]()


def test_what_was_missing_is_there() -> None:
    """The first file had no adapters, no mixtures of experts and no ViT."""
    archs = {row["arch"] for row in rows(MORE)}
    assert archs >= {"llama", "vit", "bert", "mixtral", "deepseek-v3", "t5", "resnet"}
    assert sum(row["method"] == "lora" for row in rows(MORE)) >= 30


def test_weights_follow_from_the_counts() -> None:
    """Two or four bytes a parameter; adapters have four; the router of DeepSeek keeps fp32 under bf16."""
    for row in rows(MORE):
        weights, trainable = counts(row)
        held = base_bytes(row) * (weights - trainable) + trained_bytes(row) * trainable
        allowed = 2 * ROUNDING + (3e-4 * held if row["arch"] == "deepseek-v3" else 0.0)
        assert gib(row, "param") == pytest.approx(held, abs=allowed), row["ref_id"]


def test_a_peak_holds_weights_states_and_its_parts() -> None:
    """Kinds add up to the peak, but for buffers of the model."""
    for row in rows(MORE):
        states = (2 if row["optimizer"] == "adamw" else 1) * trained_bytes(row) * counts(row)[1]
        parts = sum(gib(row, name) for name in ("param", "grad", "opt", "act", "temp"))
        assert gib(row, "opt") >= states - 2 * ROUNDING, row["ref_id"]
        assert 0.98 * gib(row, "peak") <= parts <= gib(row, "peak") + 5 * ROUNDING, row["ref_id"]


def counts(row: dict[str, str]) -> tuple[float, float]:
    """Parameters, and trainable ones [2^30]."""
    return float(row["params_b"]) * 1e9 / GIB, float(row["trainable_b"]) * 1e9 / GIB


def base_bytes(row: dict[str, str]) -> int:
    """Bytes of a frozen parameter."""
    return 2 if "bf16" in {row["precision"], *row["note"].replace("base=", "").split()} else 4


def trained_bytes(row: dict[str, str]) -> int:
    """Bytes of a parameter that is trained."""
    return 4 if row["method"] == "lora" else base_bytes(row)


def test_recompute_never_costs_memory() -> None:
    """Every row with full recompute against its twin without."""
    by_run = {described(row): row for row in rows(MORE)}
    twins = [
        (row, by_run[key])
        for run, row in by_run.items()
        if (key := tuple((k, "none" if k == "recompute" else v) for k, v in run)) in by_run
        and row["recompute"] == "full"
    ]
    assert len(twins) > 15
    for full, none in twins:
        assert gib(full, "peak") <= gib(none, "peak") + ROUNDING, full["ref_id"]


def test_saved_bytes_of_a_feed_forward_layer() -> None:
    """A bf16 SwiGLU layer keeps 8 bytes per token and unit of its width."""
    narrow, wide = one(), one(ffn="8192")
    saved = 8 * (8192 - 5632) * 4 * 2 * 2048 / GIB
    assert gib(wide, "act") - gib(narrow, "act") == pytest.approx(saved, abs=ROUNDING)


def test_saved_bytes_of_grouped_keys_and_values() -> None:
    """Without a mask 4 bytes per token and unit of key width are kept; with one they are expanded first."""
    many, few = one(note="mask=none"), one(note="mask=none", kv_heads="4")
    saved = 4 * (2048 - 512) * 4 * 2 * 2048 / GIB
    assert gib(many, "act") - gib(few, "act") == pytest.approx(saved, abs=ROUNDING)
    assert gib(one(), "act") == pytest.approx(gib(one(kv_heads="4"), "act"), abs=ROUNDING)


def test_saved_bytes_of_adapters() -> None:
    """Seven adapters a layer keep their inner product and a cast of their weights: 2 bytes under autocast.

    Less a few bytes: at the peak the backward pass has begun.
    """
    thin = one(lora_rank="8", precision="amp-bf16", note="base=bf16")
    thick = one(lora_rank="64", precision="amp-bf16", note="base=bf16")
    saved = 7 * 2 * (64 - 8) * 4 * 2 * 2048 / GIB
    casts = 2 * (float(thick["trainable_b"]) - float(thin["trainable_b"])) * 1e9 / GIB
    assert gib(thick, "act") - gib(thin, "act") == pytest.approx(saved + casts, rel=0.03)
