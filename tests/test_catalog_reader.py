"""Reading of the catalog: strictness, overlays, the parsed form."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from gpuselect.errors import CatalogError
from gpuselect.readers import catalog as reader
from gpuselect.readers.catalog import build_parsed, check_catalog, load_catalog
from gpuselect.readers.tables import LAYOUTS

CARD = """\
- id: x1-80gb
  name: Example X1 80 GB
  vendor: example
  family: datacenter
  architecture: X
  form_factor: PCIe
  status: current
  software: [cuda]
  aliases: [x1]
  sources: {ds: [x1-sheet, "p. 2"]}
  memory_gb: [80, ds]
  memory_bandwidth_gb_s: [3000, ds]
  dense_tflops:
    bf16: [900, ds]
    fp8: {value: 1800, source: ds, status: derived, note: half of the sparse figure}
"""
MODEL = """\
- id: tiny
  name: Tiny
  family: dense-decoder
  aliases: ["org/Tiny"]
  sources: {cfg: [x1-sheet, config.json]}
  params_b: [1.5, cfg]
"""
SOURCES = "x1-sheet: {title: Sheet of the X1, address: example.org/x1}\n"
HEADER = "hardware,n_accel,kind,term,provider,instance,region,price,currency,as_of,is_offer,source,note\n"
ROW = "x1-80gb,8,rent,on-demand,cloud,big,eu,20,USD,2026-01-01,yes,list,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small data folder that is right."""
    data = tmp_path / "data"
    data.mkdir()
    for name in ("frameworks.yaml", "formats.yaml", "systems.yaml"):
        (data / name).write_text("[]\n")
    for name in ("calibration.yaml", "defaults.yaml"):
        (data / name).write_text("{}\n")
    (data / "gpus.yaml").write_text(CARD)
    (data / "models.yaml").write_text(MODEL)
    (data / "sources.yaml").write_text(SOURCES)
    (data / "prices.csv").write_text(HEADER + ROW)
    for layout in LAYOUTS:
        (data / layout.file).write_text(",".join(f.name for f in fields(layout.kind)) + "\n")
    return data


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """An empty overlay folder."""
    path = tmp_path / "mine"
    path.mkdir()
    return path


def refusal(folder: Path, *overlays: Path) -> str:
    """The sentence that loading ends with."""
    with pytest.raises(CatalogError) as caught:
        load_catalog(data_dir=folder, overlays=overlays)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_figures_keep_their_source(folder: Path) -> None:
    """Value, short name, citation and status."""
    card = load_catalog(data_dir=folder).accelerators["x1-80gb"]
    assert card.memory_gb == 80
    assert card.cite(card.memory_gb) == ("x1-sheet", "p. 2")
    assert card.dense_tflops["fp8"].status == "derived"
    assert card.power_w is None


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("memory_gb: [80, ds]", "memory_gb: 80", ["gpus.yaml:11", "memory_gb", "source"]),
        ("memory_gb: [80, ds]", 'memory_gb: ["80", ds]', ["gpus.yaml:11", "not a number"]),
        ("memory_gb: [80, ds]", "memory_gb: [80, dz]", ["x1-80gb", "memory_gb", "'dz'"]),
        ("memory_gb: [80, ds]", "memory_gbs: [80, ds]", ["gpus.yaml:11", "did you mean memory_gb"]),
        ("    bf16:", "    bf61:", ["gpus.yaml:14", "dense_tflops.bf61", "did you mean bf16"]),
        ("note: half", "nota: half", ["gpus.yaml:15", "dense_tflops.fp8", "nota"]),
        ("derived, note", "guessed, note", ["gpus.yaml:15", "guessed", "stated, measured"]),
        ("x1-sheet, ", "x1-shet, ", ["gpus.yaml:10", "sources.ds", "did you mean x1-sheet"]),
        ("memory_gb: [80, ds]", "name: Again", ["gpus.yaml:11:3", "'name' is given twice"]),
        ("family: datacenter", "family: toaster", ["gpus.yaml:4", "family", "datacenter"]),
        ("  vendor: example\n", "", ["gpus.yaml:1", "vendor"]),
        ("memory_gb: [80, ds]", "memory_gb: {value: 80, source: ds, low: 90}", ["low 90"]),
        ("- id: x1-80gb\n  name", "- name", ["entry 1 has no id"]),
        ("aliases: [x1]", "aliases: [x1", ["gpus.yaml:"]),
    ],
)
def test_faults_in_an_entry(folder: Path, old: str, new: str, parts: list[str]) -> None:
    """One sentence with file, line, entry and key, and the nearest known name."""
    assert old in CARD
    (folder / "gpus.yaml").write_text(CARD.replace(old, new, 1))
    message = refusal(folder)
    for part in parts:
        assert part in message


def test_duplicate_id(folder: Path) -> None:
    """Both lines are named."""
    (folder / "gpus.yaml").write_text(CARD + CARD)
    assert refusal(folder) == "gpus.yaml: x1-80gb is given twice, on lines 1, 16"


def test_alias_collision(folder: Path) -> None:
    """An alias may not be the id or alias of another entry, in any case of letters."""
    other = CARD.replace("id: x1-80gb", "id: x2").replace("[x1]", "[X1]")
    (folder / "gpus.yaml").write_text(CARD + other)
    assert "x2: aliases: X1 already names x1-80gb" in refusal(folder)


@pytest.mark.parametrize("name", ["gpus.yaml", "models.yaml", "sources.yaml", "prices.csv"])
def test_missing_file(folder: Path, name: str) -> None:
    """A data folder is complete or refused."""
    (folder / name).unlink()
    assert name in refusal(folder)


def test_not_text(folder: Path) -> None:
    """A binary file is refused in words."""
    (folder / "gpus.yaml").write_bytes(b"\xff\xfe\x00")
    assert refusal(folder) == "gpus.yaml is not UTF-8 text"


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        (",20,USD", ",0,USD", "prices.csv:2: price '0' is not a number above 0"),
        (",20,USD", ",nan,USD", "prices.csv:2: price 'nan'"),
        (",20,USD", ",cheap,USD", "prices.csv:2: price 'cheap'"),
        ("yes,list,", "maybe,list,", "is_offer 'maybe' is none of yes, no"),
        ("yes,list,", "yes,,", "needs its hardware and its source"),
        (",8,rent", ",0,rent", "n_accel '0'"),
        ("on-demand", "on demand", "term 'on demand' is none of on-demand"),
        ("rent", "lease", "kind 'lease' is none of rent, buy"),
        ("2026-01-01,yes,list,\n", "2026-01-01\n", "the row has not 13 cells"),
    ],
)
def test_faults_in_a_price(folder: Path, old: str, new: str, part: str) -> None:
    """File, line and what is allowed."""
    (folder / "prices.csv").write_text(HEADER + ROW.replace(old, new, 1))
    assert part in refusal(folder)


def test_price_columns(folder: Path) -> None:
    """The header is the contract."""
    (folder / "prices.csv").write_text(HEADER.replace(",note", "") + ROW)
    assert "the columns must be hardware, n_accel" in refusal(folder)


def test_models_are_validated_on_access(folder: Path) -> None:
    """A faulty model stops only those who ask for it, and check_catalog."""
    bad = MODEL.replace("tiny", "bad").replace("1.5, cfg", "x, cfg").replace("org/Tiny", "org/Bad")
    (folder / "models.yaml").write_text(MODEL + bad)
    catalog = load_catalog(data_dir=folder)
    assert catalog.models["tiny"] is catalog.models["tiny"]
    assert catalog.models.aliases["org/Bad"] == "bad"  # type: ignore[attr-defined]
    assert "bad" in catalog.models
    assert "none" not in catalog.models
    with pytest.raises(CatalogError, match=r"models\.yaml:12: bad: params_b: 'x' is not a number"):
        catalog.models["bad"]
    with pytest.raises(CatalogError, match="params_b"):
        check_catalog(folder)
    with pytest.raises(KeyError):
        catalog.models["none"]


def test_check_counts_and_looks_across_files(folder: Path) -> None:
    """Counts of everything; a price without its card is refused."""
    counts = check_catalog(folder)
    assert (counts["accelerators"], counts["models"], counts["prices"]) == (1, 1, 1)
    assert counts["figures"] == 5
    (folder / "prices.csv").write_text(HEADER + ROW.replace("x1-80gb", "x1-8gb"))
    reader._parsed.cache_clear()
    with pytest.raises(CatalogError, match="unknown accelerator x1-8gb; did you mean x1-80gb"):
        check_catalog(folder)


def test_overlay_changes_fields_and_adds_entries(folder: Path, overlay: Path) -> None:
    """Field by field; tables of figures and sources merge by key."""
    (overlay / "gpus.yaml").write_text(
        "- id: x1-80gb\n  sources: {me: [my-test, log]}\n"
        "  power_w: [300, me]\n  dense_tflops: {bf16: [850, me]}\n"
        + CARD.replace("x1-80gb", "x3").replace("[x1]", "[]")
    )
    (overlay / "sources.yaml").write_text("my-test: {title: My test, address: here}\n")
    catalog = load_catalog(data_dir=folder, overlays=[overlay])
    card = catalog.accelerators["x1-80gb"]
    assert (card.power_w, card.memory_gb) == (300, 80)
    assert card.dense_tflops == {"bf16": 850, "fp8": 1800}
    assert card.cite(card.dense_tflops["bf16"])[0] == "my-test"
    assert "x3" in catalog.accelerators
    plain = load_catalog(data_dir=folder).accelerators["x1-80gb"]
    assert plain.power_w is None
    assert plain.dense_tflops["bf16"] == 900


def test_overlay_replaces_a_price_or_adds_one(folder: Path, overlay: Path) -> None:
    """A negotiated price takes the place of the listed one."""
    rows = ROW.replace(",20,", ",15,") + ROW.replace(",eu,", ",us,")
    (overlay / "prices.csv").write_text(HEADER + rows)
    prices = load_catalog(data_dir=folder, overlays=[overlay]).prices
    assert sorted((price.region, price.price) for price in prices) == [("eu", 15.0), ("us", 20.0)]


def test_faults_in_an_overlay_name_its_file(folder: Path, overlay: Path) -> None:
    """The user sees the line in the file that they wrote."""
    (overlay / "gpus.yaml").write_text("- id: x1-80gb\n  powr_w: [300, ds]\n")
    message = refusal(folder, overlay)
    assert message.startswith(f"{overlay / 'gpus.yaml'}:2: x1-80gb: powr_w: unknown key")
    assert "did you mean power_w" in message
    assert "no overlay folder" in refusal(folder, overlay / "none")


def test_parsed_form_is_written_used_and_replaced(folder: Path) -> None:
    """Fresh: used. Stale or damaged: rebuilt without a word."""
    load_catalog(data_dir=folder)
    stored = folder / "catalog.json"
    assert stored.read_text() == build_parsed(folder)

    reader._parsed.cache_clear()
    content = json.loads(stored.read_text())
    content["data"]["gpus.yaml"]["x1-80gb"]["name"] = "from the parsed form"
    stored.write_text(json.dumps(content))
    card = load_catalog(data_dir=folder).accelerators["x1-80gb"]
    assert card.name == "from the parsed form"

    (folder / "gpus.yaml").write_text(CARD.replace("[80, ds]", "[81, ds]"))
    reader._parsed.cache_clear()
    assert load_catalog(data_dir=folder).accelerators["x1-80gb"].memory_gb == 81


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"key": 1}', "\x00"])
def test_damaged_parsed_form_is_ignored(folder: Path, text: str) -> None:
    """Nobody has to delete a cache by hand."""
    (folder / "catalog.json").write_text(text)
    assert len(load_catalog(data_dir=folder).accelerators) == 1
    assert (folder / "catalog.json").read_text() == build_parsed(folder)


def test_parsed_form_without_a_file_is_ignored(folder: Path) -> None:
    """The right key alone is not enough."""
    content = json.loads(build_parsed(folder))
    del content["data"]["prices.csv"]
    (folder / "catalog.json").write_text(json.dumps(content))
    assert len(load_catalog(data_dir=folder).prices) == 1


def test_unwritable_folder_is_no_reason_to_fail(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation may be read-only; nothing is left behind."""

    def refuse(*_args: Any, **_more: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(reader.tempfile, "mkstemp", refuse)
    assert len(load_catalog(data_dir=folder).accelerators) == 1
    assert list(folder.glob("*.json")) == []


def test_fresh_parsed_form_needs_no_yaml(folder: Path) -> None:
    """Start-up does not pay for YAML."""
    load_catalog(data_dir=folder)
    code = (
        "import sys; from pathlib import Path; from gpuselect.readers.catalog import load_catalog; "
        f"load_catalog(data_dir=Path({str(folder)!r})); print('yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
