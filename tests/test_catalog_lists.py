"""What `list` and `show` say of accelerators, regions and past prices; families of the frameworks."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import get_args

import pytest

from gpuselect.catalog import Catalog, NetworkFamily
from gpuselect.cli import main
from gpuselect.cli.listings import FAMILIES, count_columns, count_rows, region_columns
from gpuselect.frameworks import eligible
from gpuselect.readers.catalog import load_catalog
from gpuselect.report import grid
from gpuselect.report.console import Style, grid_text

NETWORK_RUNTIMES = (
    "tensorrt",
    "onnx-runtime",
    "openvino",
    "pytorch",
    "tensorflow",
    "diffusers",
    "deepstream",
)
LLM_ENGINES = ("vllm", "sglang", "tensorrt-llm", "llama.cpp", "lmdeploy", "tgi", "exllamav3", "mlx-lm")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """The shipped catalog."""
    return load_catalog()


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as leaving, redirect_stdout(out), redirect_stderr(err):
        main(arguments)
    return int(leaving.value.code or 0), out.getvalue(), err.getvalue()


def cards() -> list[dict[str, str]]:
    """Three accelerators as the list has them."""
    return [
        {"vendor": "nvidia", "family": "consumer"},
        {"vendor": "nvidia", "family": "datacenter"},
        {"vendor": "amd", "family": "consumer"},
    ]


def test_counts_add_up() -> None:
    """Vendors by size, families as columns, the total last; what nobody makes is absent."""
    rows = count_rows(cards())
    assert [(r["vendor"], r["consumer"], r["datacenter"], r["total"]) for r in rows] == [
        ("nvidia", 1, 1, 2), ("amd", 1, None, 1), ("total", 2, 1, 3),
    ]  # fmt: skip
    assert count_rows([]) == []


def test_counts_of_the_catalog(catalog: Catalog) -> None:
    """Every accelerator is counted once, every family has a column."""
    rows = count_rows([{"vendor": c.vendor, "family": c.family} for c in catalog.accelerators.values()])
    assert rows[-1]["total"] == len(catalog.accelerators)
    assert sum(row["total"] for row in rows[:-1]) == rows[-1]["total"]
    assert {card.family for card in catalog.accelerators.values()} <= set(FAMILIES)
    assert sum(rows[-1][family] or 0 for family in FAMILIES) == rows[-1]["total"]


@pytest.mark.parametrize("width", [80, None])
def test_counts_fit_a_terminal(catalog: Catalog, width: int | None) -> None:
    """No column goes and no name is broken at 80 columns."""
    rows = count_rows([{"vendor": c.vendor, "family": c.family} for c in catalog.accelerators.values()])
    columns = count_columns()
    text = grid_text(grid.as_grid(columns, rows), [c.drop for c in columns], Style(width=width))
    lines = text.splitlines()
    assert len(lines) == len(rows) + (2 if width else 1)
    assert max(map(len, lines)) <= 80
    assert "moore-threads" in text


def test_counts_as_json() -> None:
    """Full names of the families, null for none."""
    code, out, _err = run("list", "accelerators", "--counts", "--vendor", "google", "--json")
    payload = json.loads(out)
    assert code == 0
    assert [row["vendor"] for row in payload["counts"]] == ["google", "total"]
    assert payload["counts"][0]["tpu"] == payload["counts"][1]["total"] > 5
    assert payload["counts"][0]["datacenter"] is None


def test_counts_are_of_accelerators() -> None:
    """One sentence, exit code 2."""
    code, _out, err = run("list", "models", "--counts")
    assert code == 2
    assert "--counts does not apply to models" in err


def test_regions_can_be_listed() -> None:
    """By name, with method and source; unknown is empty."""
    code, out, _err = run("list", "regions", "--filter", "germany", "--json")
    rows = json.loads(out)["regions"]
    assert code == 0
    assert {row["region"] for row in rows} == {"DE"}
    assert {"carbon_g_kwh", "carbon_method", "source", "pue"} <= set(rows[0])
    assert all(row["carbon_method"] for row in rows if row["carbon_g_kwh"] is not None)
    assert run("list", "regions", "--filter", "atlantis")[0] == 1
    assert {column.key for column in region_columns()} == set(rows[0])


def test_a_card_shows_its_measured_power_and_past_prices() -> None:
    """Both in text and JSON; a card without either shows neither."""
    _code, out, _err = run("show", "b200-sxm-180gb")
    assert "Measured power" in out
    assert "LLM inference, chat" in out
    assert "aws p6-b200.48xlarge: $" in out
    payload = json.loads(run("show", "b200-sxm-180gb", "--json")[1])
    assert payload["measured_power"][0]["runs"] >= 10
    assert {"first", "last", "change_pct"} <= set(payload["price_history"][0])
    _code, out, _err = run("show", "hailo-8")
    assert "Measured power" not in out
    assert "Prices over time" not in out


def test_a_processor_is_shown(catalog: Catalog) -> None:
    """By a loose name, with the arithmetic of its rates."""
    code, out, _err = run("show", "xeon")
    assert code == 0
    assert "56 cores x 1024 x 2.0 GHz" in out
    assert "memory_gb" in out


def test_every_framework_says_its_families(catalog: Catalog) -> None:
    """From the closed list, decoder where decoder models are served or trained."""
    known = set(get_args(NetworkFamily))
    for entry in catalog.frameworks.values():
        assert entry.families, entry.id
        assert set(entry.families) <= known, entry.id
        if {"pretrain", "full", "lora", "qlora", "inference"} & set(entry.methods):
            assert "decoder" in entry.families, entry.id
        if {"train-network", "infer-network"} & set(entry.methods):
            assert set(entry.families) - {"decoder"}, entry.id


@pytest.mark.parametrize("name", LLM_ENGINES)
def test_engines_for_language_models_run_nothing_else(catalog: Catalog, name: str) -> None:
    """They are never offered for a network of another family."""
    assert catalog.frameworks[name].families == ("decoder",)
    assert "infer-network" not in catalog.frameworks[name].methods


@pytest.mark.parametrize("name", NETWORK_RUNTIMES)
def test_runtimes_of_other_networks_exist(catalog: Catalog, name: str) -> None:
    """With back-ends, and a method of their own."""
    entry = catalog.frameworks[name]
    assert entry.backends
    assert "infer-network" in entry.methods
    assert len(set(entry.families) - {"decoder"}) >= 1


def test_a_vision_runtime_is_not_offered_for_language_models(catalog: Catalog) -> None:
    """TensorRT, DeepStream and Diffusers do not serve decoders; kernel libraries are never chosen."""
    able = eligible(
        frameworks=catalog.frameworks.values(), accelerator=catalog.accelerators["l4-24gb"],
        method="inference", weights="fp16", wanted=frozenset(),
    )  # fmt: skip
    names = {framework.id for framework in able}
    assert "vllm" in names
    assert not names & {"tensorrt", "deepstream", "diffusers", "tf-serving", "tvm", "flash-attention", "xla"}


@pytest.mark.parametrize(
    ("framework", "licence"),
    [
        ("llama.cpp", "MIT"), ("onnx-runtime", "MIT"), ("openvino", "Apache-2.0"),
        ("tensorflow", "Apache-2.0"), ("triton-inference-server", "BSD-3-Clause"), ("sglang", "Apache-2.0"),
    ],
)  # fmt: skip
def test_licences_that_were_read(catalog: Catalog, framework: str, licence: str) -> None:
    """Of the licence file or the README of the project."""
    assert catalog.frameworks[framework].licence == licence


def test_what_was_not_verified_is_marked(catalog: Catalog) -> None:
    """PyTorch on Apple and TPU was read in other projects only."""
    backends = catalog.frameworks["pytorch"].backends
    assert {backends[stack].status for stack in ("mlx", "metal", "xla")} == {"assumed"}
    assert backends["cuda"].status == "stated"
