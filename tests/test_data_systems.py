"""The shipped frameworks, systems, prices and sources agree with each other."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuselect.catalog import Framework, Price, Source, System

DATA = Path(__file__).parents[1] / "data"
TERMS = {
    "rent": {"on-demand", "spot", "reserved-1y", "reserved-3y"},
    "buy": {"list", "retail", "used", "server"},
}


def read(name: str) -> Any:
    """One data file, or skip where this checkout does not have it."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not in this checkout")
    return yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)


@pytest.fixture(scope="module")
def systems() -> list[System]:
    """All systems."""
    return [System(**raw) for raw in read("systems.yaml")]


@pytest.fixture(scope="module")
def frameworks() -> list[Framework]:
    """All frameworks."""
    return [Framework(**raw) for raw in read("frameworks.yaml")]


@pytest.fixture(scope="module")
def prices() -> list[dict[str, str]]:
    """Raw rows of prices.csv."""
    with (DATA / "prices.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_frameworks_name_known_formats(frameworks: list[Framework]) -> None:
    """Each weight format that a framework lists exists."""
    formats = {raw["id"] for raw in read("formats.yaml")}
    for framework in frameworks:
        assert set(framework.weight_formats) <= formats, framework.id


def test_framework_words_are_from_closed_lists(frameworks: list[Framework]) -> None:
    """Methods, parallelism and support are spelled one way; a successor exists."""
    ids = {framework.id for framework in frameworks}
    for entry in frameworks:
        assert set(entry.methods) <= {
            "pretrain", "full", "lora", "qlora", "prefix", "inference", "train-network", "infer-network"
        }, entry.id  # fmt: skip
        assert set(entry.parallelism) <= {
            "dp", "zero1", "zero2", "zero3", "tp", "pp", "ep", "cp", "offload-optimizer", "offload-params",
        }, entry.id  # fmt: skip
        words = {*entry.backends.values(), *entry.weight_formats.values()}
        assert words <= {"yes", "experimental", "community"}, entry.id
        assert entry.replaced_by is None or entry.replaced_by in ids, entry.id


def test_launch_lines_use_known_placeholders(frameworks: list[Framework]) -> None:
    """Only placeholders that the launch writer fills."""
    known = {"n_gpus", "gpus_per_node", "nodes", "tp", "pp", "model", "replicas"}
    for framework in frameworks:
        for line in framework.launch:
            assert set(re.findall(r"\{(\w+)\}", line)) <= known, (framework.id, line)


def test_framework_spellings_are_unambiguous(frameworks: list[Framework]) -> None:
    """An alias leads to one framework."""
    names = Counter(n for f in frameworks for n in {f.id, *f.aliases})
    assert [name for name, count in names.items() if count > 1] == []


def test_an_accelerator_is_in_one_system(systems: list[System]) -> None:
    """Otherwise the node of a card would depend on the order of the file."""
    counts = Counter(name for system in systems for name in system.accelerators)
    assert [name for name, count in counts.items() if count > 1] == []


def test_system_accelerators_exist(systems: list[System]) -> None:
    """Each accelerator of a system is in the catalog."""
    known = {raw["id"] for raw in read("gpus.yaml")}
    unknown = {name for system in systems for name in system.accelerators} - known
    assert unknown == set()


def test_systems_are_plausible(systems: list[System]) -> None:
    """Counts are at least one; a PCIe card in somebody's host is peripheral."""
    for system in systems:
        assert system.accelerators_per_node >= 1, system.id
        assert system.fast_domain >= 1, system.id
        assert system.max_nodes is None or system.max_nodes >= 1, system.id
    by_id = {system.id: system for system in systems}
    assert by_id["nvl72-gb200"].fast_domain == 72.0
    assert by_id["hgx-8-h100"].network_one_way_gb_s == 50.0
    assert by_id["desktop-4"].peripheral
    assert not by_id["mac"].peripheral


def test_price_columns_are_those_of_the_type(prices: list[dict[str, str]]) -> None:
    """The file is read without a mapping."""
    assert list(prices[0]) == list(Price.__dataclass_fields__)


def test_prices_are_positive_dated_or_undated(prices: list[dict[str, str]]) -> None:
    """Price above 0, known term, date in ISO form or empty, an explicit word for offers."""
    for row in prices:
        assert float(row["price"]) > 0, row
        assert int(row["n_accel"]) >= 1, row
        assert row["term"] in TERMS[row["kind"]], row
        assert re.fullmatch(r"(\d{4}(-\d\d(-\d\d)?)?)?", row["as_of"]), row
        assert row["is_offer"] in ("yes", "no"), row
        assert row["currency"] == "USD", row
        assert row["source"], row


def test_medians_and_estimates_are_no_offers(prices: list[dict[str, str]]) -> None:
    """Nobody sells at a median."""
    marked = re.compile("median per GPU")
    assert all(row["is_offer"] == "no" for row in prices if marked.search(row["instance"]))


def test_spot_is_not_above_on_demand(prices: list[dict[str, str]]) -> None:
    """Such rows are errors of their sources."""
    key = ("hardware", "provider", "instance", "region")
    demand = {tuple(r[k] for k in key): float(r["price"]) for r in prices if r["term"] == "on-demand"}
    for row in prices:
        place = tuple(row[k] for k in key)
        if row["term"] == "spot" and place in demand:
            assert float(row["price"]) <= demand[place], row


def test_price_of_the_8_gpu_h100_instance(prices: list[dict[str, str]]) -> None:
    """p5.48xlarge in us-east-1 on demand, as read in the provider's price file of 2026-07-20."""
    rows = [
        r for r in prices
        if (r["instance"], r["region"], r["term"]) == ("p5.48xlarge", "us-east-1", "on-demand")
    ]  # fmt: skip
    assert [(r["hardware"], r["n_accel"], r["price"], r["as_of"]) for r in rows] == [
        ("h100-sxm5-80gb", "8", "55.04", "2026-07-20")
    ]


def test_priced_hardware_exists(prices: list[dict[str, str]]) -> None:
    """A price belongs to a catalog entry."""
    known = {raw["id"] for raw in read("gpus.yaml")}
    assert {row["hardware"] for row in prices} - known == set()


def test_sources_are_declared() -> None:
    """Each citation of these files leads to a source."""
    declared: dict[str, Any] = {}
    for name in ("sources.yaml", "sources_more.yaml"):
        if (DATA / name).exists():
            declared |= read(name)
    for raw in declared.values():
        Source(**raw)
    for name in ("models.yaml", "formats.yaml", "frameworks.yaml", "systems.yaml"):
        cited = {key for raw in read(name) for key, _place in raw["sources"].values()}
        assert cited - set(declared) == set(), name
