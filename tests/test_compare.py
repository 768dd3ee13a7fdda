"""Side by side: accelerators, groups, systems and whole options, with ratios and the best marked."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from functools import cache

import pytest

from gpuselect.advisor import estimate
from gpuselect.catalog import Catalog, Price
from gpuselect.cli.app import invoke
from gpuselect.comparison import Cell, Row, compare_groups, compare_specs, compare_systems
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.workload import Workload

JOB = ("--task", "inference", "--model", "llama-3.1-70b", "--concurrency", "32")


@cache
def catalog() -> Catalog:
    """Return the shipped catalog."""
    return load_catalog()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run `compare` and return its code, output and notes."""
    code = invoke(["compare", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("key", "values", "best"),
    [
        ("memory_gb", (80.0, 141.0, 96.0), {1}),
        ("latency_ms", (30.0, 20.0, 20.0), {1, 2}),
        ("rent_usd_per_hour", (2.0, None, 3.0), {0}),
        ("memory_gb", (80.0, 80.0), set()),
        ("memory_gb", (80.0, None), set()),
        ("launch_year", (2020.0, 2022.0), set()),
        ("memory_type", ("HBM2", "HBM3"), set()),
    ],
)
def test_the_best_is_the_least_or_the_most(key: str, values: tuple[object, ...], best: set[int]) -> None:
    """Equal, lonely and unknown figures have no best one; a date and a name never have."""
    cells = tuple(Cell(value) for value in values)  # type: ignore[arg-type]
    assert Row(key, key, "", cells).best == best


def test_a_group_adds_up_what_adds_up() -> None:
    """Eight cards have eight times the memory and rate, and the memory type and the rate per watt of one."""
    card = catalog().accelerators["h100-sxm5-80gb"]
    one = {row.key: row.cells[0] for row in compare_specs([card], catalog()).rows}
    rows = {row.key: row.cells for row in compare_groups([(8, card), (1, card)], catalog()).rows}
    for key in ("memory_gb", "dense_bf16_tflops", "power_w", "rent_usd_per_hour"):
        assert rows[key][0].value == pytest.approx(8.0 * float(one[key].value or 0.0))
        assert rows[key][0].status == "derived"
        assert rows[key][1] == Cell(one[key].value, 0.125, one[key].status, one[key].source)
    assert rows["memory_type"][0] == one["memory_type"]
    assert rows["bf16_tflops_per_w"][0].value == one["bf16_tflops_per_w"].value


def test_a_node_is_its_accelerators_and_its_host() -> None:
    """Memory and power of a node follow from the entries of the catalog."""
    system = catalog().systems["hgx-8-h100"]
    card = catalog().accelerators[system.accelerators[0]]
    assert card.memory_gb is not None
    assert card.power_w is not None
    assert system.host_power_w is not None
    rows = {row.key: row.cells[0] for row in compare_systems([system], catalog()).rows}
    assert rows["node_memory_gb"].value == 8 * card.memory_gb
    assert rows["node_power_w"].value == pytest.approx(8 * card.power_w + system.host_power_w)
    assert rows["node_power_w"].status == "derived"


def test_a_named_count_is_estimated_and_not_the_smallest(capsys: pytest.CaptureFixture[str]) -> None:
    """`8xh100` gives the speed of eight; a bare name that of the smallest count that fits."""
    code, out, _err = run(capsys, "8xh100", "h100", *JOB, "--json")
    assert code == 0
    payload = json.loads(out)
    assert payload["accelerators"] == ["8xh100-sxm5-80gb", "1xh100-sxm5-80gb"]
    rows = {row["key"]: row for row in payload["rows"]}
    counts = [cell["value"] for cell in rows["min_count"]["values"]]
    assert counts[0] == 8
    assert counts[1] < 8
    workload = Workload.from_mapping({"task": "inference", "model": "llama-3.1-70b", "concurrency": 32})
    answer = estimate(workload, [(8, "h100-sxm5-80gb")], catalog(), load_calibration(), load_defaults())
    assert answer.option is not None
    assert rows["output_tok_s"]["values"][0]["value"] == answer.option.performance["output_tok_s"].value
    assert rows["output_tok_s"]["better"] == "more"
    assert rows["per_million_tokens_usd"]["better"] == "less"


def test_an_old_price_says_how_old_it_is() -> None:
    """A price of 2025 is older than half a year by the clock of any machine; undated is said."""
    card = catalog().accelerators["h100-sxm5-80gb"]
    old = Price(card.id, 1, "buy", "list", "shop", "", "", 9000.0, "USD", "2025-08-24", True, "s", "")
    bare = replace(old, kind="rent", term="on-demand", as_of="")
    rows = {
        row.key: row.cells[0] for row in compare_specs([card], replace(catalog(), prices=(old, bare))).rows
    }
    assert re.fullmatch(r"shop list 2025-08-24, \d+ months old", rows["purchase_usd"].source)
    assert rows["rent_usd_per_hour"].source == "shop on-demand undated"


def test_the_rate_per_watt_counts_the_whole_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    """Rate over power, hosts included; more is better."""
    words = "compare 8xa100 8xh100 --task pretrain --params 7B --tokens 10B --json"
    assert invoke(words.split()) == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    for n in range(2):
        rate, watts = (rows[key]["values"][n]["value"] for key in ("tokens_per_s", "power_w"))
        assert rows["work_per_watt"]["values"][n]["value"] == pytest.approx(rate / watts)
    assert rows["work_per_watt"]["unit"] == "tokens/s/W"


def test_what_does_not_fit_says_why_and_has_no_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """One T4 does not hold 70B parameters: no zero, a code."""
    rows = {r["key"]: r["values"] for r in
            json.loads(run(capsys, "1xt4", "8xh100", *JOB, "--json", "-q")[1])["rows"]}  # fmt: skip
    assert rows["state"][0]["value"] == "no [memory-exceeded]"
    assert rows["output_tok_s"][0]["value"] is None
    assert rows["output_tok_s"][1]["best"] is False


def test_marks_need_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    """The best is a word, an assumed estimate a question mark, and a legend says so."""
    out = run(capsys, "l4", "h100", "--task", "pretrain", "--params", "1B", "-q")[1]
    memory = next(line for line in out.splitlines() if line.startswith("Memory [GB]"))
    assert memory.endswith("80 best (3.3x)")
    assert "? rests on an assumption" in out
    assert "\x1b" not in out


def test_csv_holds_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """`--csv` is `--format csv`: plain values, no marks."""
    code, out, _err = run(capsys, "a100", "h100", "--csv", "-q")
    assert code == 0
    assert out == run(capsys, "a100", "h100", "--format", "csv", "-q")[1]
    rows = {row["key"]: row for row in csv.DictReader(io.StringIO(out))}
    assert float(rows["memory_bandwidth_gb_s"]["h100-sxm5-80gb"]) == 3350


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("h100",), "at least two"), (("h100", "nosuchcard"), "nosuchcard"),
        (("h100", "a100", "--csv", "--json"), "exclude each other"), (("0xh100", "a100"), ""),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    """Exit 2, and never a traceback."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_systems_are_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    """Two systems are compared node by node; with a workload, that of a whole node."""
    code, out, _err = run(capsys, "hgx-8-h100", "HGX-8-A100", *JOB, "--json")
    assert code == 0
    rows = {row["key"]: row["values"] for row in json.loads(out)["rows"]}
    assert [cell["value"] for cell in rows["min_count"]] == [8, 8]
    assert rows["node_memory_gb"][0]["value"] == 640
