"""Files that somebody sent: large, deep, repeated, and with more in them than data."""

import os

import pytest

from gpuselect.errors import CatalogError, InputError
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.limits import read_bounded
from gpuselect.readers.measurements import read_rows
from gpuselect.readers.workload import parse_workload_text, read_workload_mapping
from gpuselect.readers.yaml_strict import DEEPEST, parse_yaml
from gpuselect.report.grid import Column, as_csv

LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "x.yaml:1:4: anchors and aliases are not accepted"),
        ("a: *b\n", "anchors and aliases"),
        ("a: !!python/object/apply:os.system [x]\n", "the tag tag:yaml.org,2002:python"),
        ("a: !!binary aGk=\n", "is not accepted"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "levels deep"),
        ("{a: " * 200, "levels deep"),
        ("? [a]\n: 1\n", "a key must be a word"),
        ("a: 1\na: 2\n", "x.yaml:2:1: key 'a' is given twice"),
    ],
)
def test_yaml_is_plain_data(text, message):
    """Refused with the place, before anything is built."""
    with pytest.raises(CatalogError) as error:
        parse_yaml(text, name="x.yaml")
    assert message in str(error.value)


def test_a_million_keys_are_refused_soon():
    """As a catalog file and as a workload."""
    text = "".join(f"k{n}: 1\n" for n in range(410_000))
    with pytest.raises(CatalogError, match="more than 400000 values"):
        parse_yaml(text, name="x.yaml")


def test_large_files_are_not_read(tmp_path):
    """A sparse gigabyte, and a device that never ends."""
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(1_000_000_000)
    with pytest.raises(InputError, match="larger than"):
        read_workload_mapping(path)
    with pytest.raises(CatalogError, match="larger than"):
        read_bounded(path)
    (tmp_path / "gpus.yaml").symlink_to(path)
    with pytest.raises(CatalogError):
        load_catalog(overlays=[tmp_path])
    if os.path.exists("/dev/zero"):  # noqa: PTH110  a device
        with pytest.raises(InputError, match="larger than"):
            read_workload_mapping(type(path)("/dev/zero"))


def test_what_is_no_file_is_refused(tmp_path):
    """A folder, a name with a NUL, rows that are no text."""
    for path in (tmp_path, tmp_path / "no", type(tmp_path)("a\x00b")):
        with pytest.raises(InputError, match="cannot read"):
            read_workload_mapping(path)
        with pytest.raises(InputError, match="cannot read"):
            read_rows(path)
    (tmp_path / "x.csv").write_bytes(b"hardware,tpot_ms\n\xff\xfe,1\n")
    with pytest.raises(InputError, match="no CSV file in UTF-8"):
        read_rows(tmp_path / "x.csv")


def test_values_stay_what_a_person_wrote():
    """No octal, no sexagesimal, no date: the parsers of sizes decide."""
    text = "a: 2026-11-30\nb: 1:30\nc: 0x10\nd: 010\ne: 1_000\nf: 12\n"
    assert parse_yaml(text, name="x") == {
        "a": "2026-11-30", "b": "1:30", "c": "0x10", "d": 10, "e": 1000, "f": 12,
    }  # fmt: skip
    assert parse_workload_text("task: inference\nttft: 500ms", name="w") == {
        "task": "inference",
        "ttft": "500ms",
    }


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_csv_holds_no_formula(start):
    """A spreadsheet shows the text; numbers stay numbers."""
    rows = [{"name": f"{start}HYPERLINK(1)", "n": -1.5, "many": [f"{start}x", "y"]}]
    line = as_csv([Column("name", ""), Column("n", ""), Column("many", "")], rows).splitlines(keepends=True)[
        1:
    ]
    cells = "".join(line)
    assert cells.lstrip('"').startswith("'")
    assert ",-1.5," in cells
    assert f",'{start}x;y" in cells or f",\"'{start}x;y" in cells


def test_tables_with_old_line_ends_and_huge_cells(tmp_path):
    """A price list from an old spreadsheet is read, a cell of a megabyte refused."""
    from gpuselect.readers.price_rows import COLUMNS, parse_prices

    head = ",".join(COLUMNS)
    with pytest.raises(CatalogError, match="columns must be"):
        parse_prices("a,b\r1,2\r", name="x.csv")
    with pytest.raises(CatalogError, match=r"x\.csv: field larger"):
        parse_prices(f'{head}\n"{"x" * 1_000_000}"\n', name="x.csv")
