"""Shared cards: MIG slices as data, what one tenant gets, isolation, and measured slices."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from gpuselect.accuracy.networks import predict_inference_row
from gpuselect.advisor import estimate, recommend
from gpuselect.decision import Decision, Option
from gpuselect.errors import InputError
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.sharing import cards_for, mig_shares, seen_by_tenant, shares_of
from gpuselect.workload import Workload

CATALOG, CALIBRATION, DEFAULTS = load_catalog(), load_calibration(), load_defaults()
TODAY = "2026-11-30"
MEASURED = Path(__file__).parents[1] / "data" / "measurements" / "inference.csv"


def shares(card: str, tenants: int = 7, isolation: str = "any") -> list[tuple[str, int, str]]:
    """Kind, tenants per card and profile of each way to share a card."""
    found = shares_of(CATALOG.accelerators[card], tenants, isolation, CALIBRATION)
    return [(share.kind, share.per_card, share.profile) for share in found]


def on(card: str, count: int, **keys: Any) -> Option | None:
    """The option on given cards."""
    work = Workload.from_mapping({"task": "inference"} | keys)
    return estimate(work, [(count, card)], CATALOG, CALIBRATION, DEFAULTS, today=TODAY).option


def ask(**keys: Any) -> Decision:
    """A recommendation."""
    work = Workload.from_mapping({"task": "inference", **keys})
    return recommend(work, CATALOG, CALIBRATION, DEFAULTS, today=TODAY)


def test_slices_of_cards():
    """MIG user guide: 7 slices on A100 and H100, 4 on A30; T4 has none."""
    assert shares("a100-sxm4-80gb")[0] == ("mig", 7, "1g.10gb")
    assert ("mig", 3, "2g.20gb") in shares("h100-sxm5-80gb")
    assert shares("a30-24gb")[:2] == [("mig", 4, "1g.6gb"), ("mig", 2, "2g.12gb")]
    assert mig_shares(CATALOG.accelerators["t4-16gb"]) == ()


def test_isolation_decides_the_ways():
    """Hardware: slices or a card each. Any: time slicing where there is no MIG. Software: everywhere."""
    assert shares("t4-16gb", isolation="hardware") == [("card", 1, "")]
    assert [kind for kind, _n, _p in shares("t4-16gb", 3)] == ["time", "time", "card"]
    assert {kind for kind, _n, _p in shares("a100-sxm4-80gb", isolation="software")} == {"time", "card"}
    assert {kind for kind, _n, _p in shares("a100-sxm4-80gb")} == {"mig", "card"}


def test_what_a_tenant_sees():
    """A100 80 GB, 1g.10gb: a seventh of the rate, an eighth of memory and bandwidth, no decoder, no link."""
    card = CATALOG.accelerators["a100-sxm4-80gb"]
    share = shares_of(card, 7, "hardware", CALIBRATION)[0]
    seen = seen_by_tenant(card, share, CALIBRATION)
    assert seen.dense_tflops["fp16"] == pytest.approx(card.dense_tflops["fp16"] / 7)
    assert card.memory_bandwidth_gb_s is not None
    assert seen.memory_bandwidth_gb_s == pytest.approx(card.memory_bandwidth_gb_s / 8)
    assert (seen.memory_gb, seen.decode_engines, seen.link_one_way_gb_s) == (10, 0, None)
    hopper = CATALOG.accelerators["h100-sxm5-80gb"]
    slice_ = seen_by_tenant(hopper, shares_of(hopper, 7, "hardware", CALIBRATION)[0], CALIBRATION)
    assert slice_.decode_engines == 1
    assert cards_for(share, 15) == 3


def test_listed_slice_memory_is_used():
    """nvidia-smi lists 5.81 GiB for 1g.6gb of an A30, less than a quarter of 24."""
    card = CATALOG.accelerators["a30-24gb"]
    seen = seen_by_tenant(card, shares_of(card, 4, "hardware", CALIBRATION)[0], CALIBRATION)
    assert seen.usable_memory_gib == pytest.approx(5.81)


def test_seven_tenants_on_one_card():
    """Each of seven gets about a seventh of what one alone gets; the card is paid once."""
    keys = {"model": "bert-large", "precision": "int8", "batch": 32}
    alone = on("a100-sxm4-80gb", 1, **keys)
    shared = on("a100-sxm4-80gb", 1, **keys, tenants=7, isolation="hardware")
    assert alone is not None
    assert shared is not None
    ratio = shared.performance["requests_per_s"].value / alone.performance["requests_per_s"].value
    assert ratio == pytest.approx(1 / 7, rel=0.2)
    assert shared.count == 1
    assert shared.cost.per_hour_usd == alone.cost.per_hour_usd
    assert any("1g.10gb" in note.text for note in shared.warnings if note.code == "tenants")


def test_a_tenant_that_is_too_large_gets_a_larger_slice():
    """8 B parameters at 16 bit are 15 GiB: three slices 2g.20gb on a card, so three cards for seven."""
    option = on("a100-sxm4-80gb", 3, model="llama-3.1-8b", weights="bf16", concurrency=1, tenants=7)
    assert option is not None
    assert any("20gb" in note.text for note in option.warnings if note.code == "tenants")


def test_time_slicing_without_a_wall():
    """T4 shares its time by default, and is given to each tenant where hardware isolation is asked for."""
    keys = {"model": "resnet-50", "batch": 1, "gpus": ["t4"], "tenants": 4}
    any_way = ask(**keys).recommendations[0]
    assert any_way.count == 1
    assert any("take turns" in note.text for note in any_way.warnings)
    assert ask(**keys, isolation="hardware").recommendations[0].count == 4
    none = ask(**keys, isolation="hardware", max_count=2)
    codes = {c.accelerator: c.rejection.code for c in none.considered if c.rejection is not None}
    assert codes["t4-16gb"] == "isolation-missing"


def test_cameras_need_a_slice_with_a_decoder():
    """1g slices of A100 have no decoder, 2g have one: three tenants with cameras share a card, not seven."""
    keys = {"task": "video", "model": "peoplenet", "precision": "int8", "codec": "h265", "fps": 30,
            "streams": 8}  # fmt: skip
    three = on("a100-pcie-80gb", 1, **keys, tenants=3)
    assert three is not None
    assert any("2g.20gb" in note.text for note in three.warnings if note.code == "tenants")
    work = Workload.from_mapping(keys | {"tenants": 7})
    answer = estimate(work, [(1, "a100-pcie-80gb")], CATALOG, CALIBRATION, DEFAULTS, today=TODAY)
    assert [note.code for note in answer.reasons] == ["decoder-missing"]


def test_isolation_needs_tenants():
    """One sentence says what is missing."""
    with pytest.raises(InputError, match="give --tenants"):
        ask(params="3B", isolation="hardware")


def test_measured_slices():
    """BERT on one slice of A100 and A30 (MLPerf v2.0, v2.1 offline): within 10 % of what is predicted."""
    rows = [
        row for row in csv.DictReader(MEASURED.read_text("utf-8").splitlines())
        if "-mig-1g" in row["hardware"] and row["model_name"] == "BERT-Large" and row["mode"] == "offline"
    ]  # fmt: skip
    assert len(rows) >= 3
    for row in rows:
        found = predict_inference_row(row, CATALOG, CALIBRATION)
        assert isinstance(found, list)
        assert found[0].predicted == pytest.approx(found[0].measured, rel=0.1), row["row_id"]
