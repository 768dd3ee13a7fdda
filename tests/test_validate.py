"""`gpuselect validate`: layouts, the JSON contract, filters, exit codes, and the rows of the package."""

import csv
import json
import subprocess
import sys
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gpuselect.accuracy.evaluation import Measured, evaluate
from gpuselect.accuracy.records import Skip
from gpuselect.accuracy.rows import accelerator_of, is_decoder
from gpuselect.cli import main
from gpuselect.errors import InputError
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.measurements import (
    LAYOUTS,
    default_files,
    fingerprint,
    layout_of,
    read_measurements,
)

MINE = """\
hardware,model_name,engine,weight_precision,batch_or_concurrency,input_len,output_len,mode,output_tok_s_total,tpot_ms
H100 80GB,meta-llama/Llama-3.1-8B-Instruct,vllm,fp8,64,1024,256,server,4800,11.9
rtx 4090,Qwen2.5-7B,llama.cpp,,1,512,128,single-stream,105,
L40S,Llama-3.1-8B,vllm,fp8,sixteen,512,128,server,900,
"""
KEYS = {
    "rows": {"row_id", "slice", "metric", "measured", "predicted", "low", "high", "ape", "in_sample"},
    "fits": {"row_id", "measured", "predicted", "state", "need_gib", "usable_gib"},
    "skipped": {"row_id", "code", "reason"},
    "summary": {"slice", "metric", "n", "median_ape", "p90_ape", "bias", "coverage"},
}


@pytest.fixture
def mine(tmp_path):
    """A file of three rows that somebody measured, without ids."""
    path = tmp_path / "mine.csv"
    path.write_text(MINE, encoding="utf-8")
    return path


@pytest.fixture
def call(capsys):
    """Call the command in this process: exit code, standard output, standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main(["validate", *map(str, arguments)])
        streams = capsys.readouterr()
        return leaving.value.code, streams.out, streams.err

    return run


@pytest.fixture(scope="module")
def shipped():
    """All rows of the package with their predictions."""
    read = [read_measurements(path) for path in default_files()]
    rows = [Measured(row, layout, in_sample=True) for layout, found in read for row in found]
    return rows, evaluate(rows, load_catalog(), load_calibration())


@pytest.mark.parametrize(
    ("header", "layout"),
    [
        ("hardware,model_name,tokens_per_s_per_accel", "training"),
        ("hardware,method,lora_rank,peak_mem_gb", "training"),
        ("hardware,engine,peak_mem_gb", "inference"),
        ("hardware,tpot_ms", "inference"),
        ("arch,n_layers,peak_gib", "memory"),
    ],
)
def test_a_layout_is_recognised_by_its_header(header, layout):
    """Few columns are enough; a column that only one layout has decides."""
    assert layout_of(header.split(","), Path("x.csv")) == layout


@pytest.mark.parametrize(
    "header", ["", "a,b", "hardware,model_name", "hardware,peak_mem_gb", "tpot_ms,engine"]
)
def test_an_unknown_header_names_the_three_layouts(header):
    """One sentence says what was expected."""
    with pytest.raises(InputError) as error:
        layout_of(header.split(","), Path("x.csv"))
    text = str(error.value)
    assert all(word in text for word in ("x.csv", "training", "inference", "memory reference"))
    assert "\n" not in text


def test_the_files_of_the_package_are_the_three_layouts():
    """Every default file is there and recognised."""
    found = [read_measurements(path)[0] for path in default_files()]
    assert list(dict.fromkeys(found)) == [layout.name for layout in LAYOUTS]
    assert len(found) == len(LAYOUTS) + 1  # the memory reference has two files


def test_the_answer_keeps_contract_and_schema(mine, call):
    """Keys, types and the published schema; ids are made from the lines of the file."""
    code, out, _err = call(mine, "--json")
    payload = json.loads(out)
    assert code == 0
    assert set(payload) == {"schema_version", *KEYS}
    for part, keys in KEYS.items():
        assert payload[part]
        assert all(set(entry) == keys for entry in payload[part])
    text = resources.files("gpuselect.report").joinpath("schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    Draft202012Validator(schema).validate(payload)
    broken = {**payload, "rows": [{**payload["rows"][0], "ape": "12 %"}]}
    assert not Draft202012Validator(schema).is_valid(broken)
    assert {row["row_id"] for row in payload["rows"]} == {"line-2", "line-3"}
    assert not any(row["in_sample"] for row in payload["rows"])
    first = payload["rows"][0]
    assert first["ape"] == pytest.approx(abs(first["predicted"] / first["measured"] - 1))
    assert first["low"] < first["predicted"] < first["high"]


def test_a_malformed_cell_is_named(mine, call):
    """The other rows are predicted all the same."""
    _code, out, _err = call(mine, "--json")
    (skip,) = json.loads(out)["skipped"]
    assert (skip["row_id"], skip["code"]) == ("line-4", "malformed-cell")
    assert "batch_or_concurrency" in skip["reason"]
    assert "sixteen" in skip["reason"]


def test_only_an_unchanged_row_is_in_sample(tmp_path, call):
    """A row of the package with another figure is somebody's own."""
    path = default_files()[1]
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = [row for row in reader if row["engine"] == "llama.cpp" and row["output_tok_s_total"]][:2]
    rows[1]["output_tok_s_total"] = "1.5"
    rows[1]["prefill_tok_s"] = ""
    copy = tmp_path / "copy.csv"
    with copy.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, reader.fieldnames)
        writer.writeheader()
        writer.writerows(rows)
    _code, out, _err = call(copy, "--json")
    seen = {row["row_id"]: row["in_sample"] for row in json.loads(out)["rows"]}
    assert seen == {rows[0]["row_id"]: True, rows[1]["row_id"]: False}
    assert fingerprint({"a": "1"}) != fingerprint({"a": "2"})


def test_the_text_has_summary_fits_skips_and_worst(mine, call):
    """Worst rows carry id, card, model, both figures and the factor."""
    code, out, _err = call(mine, "--worst", "1")
    assert code == 0
    assert "Slice" in out
    assert "rows that ran are predicted to fit" in out
    assert "malformed-cell (1)" in out
    (line,) = [text for text in out.splitlines() if "factor" in text]
    assert "line-2 (H100 80GB, meta-llama/Llama-3.1-8B-Instruct)" in line or "line-3" in line


def test_filters_keep_the_rows_asked_for(mine, call):
    """Metric and slice cut rows and summary alike."""
    _code, out, _err = call(mine, "--metric", "tpot_ms", "--json")
    payload = json.loads(out)
    assert {row["metric"] for row in payload["rows"]} == {"tpot_ms"}
    assert [line["n"] for line in payload["summary"]] == [1]
    _code, out, _err = call(mine, "--slice", "serving single stream", "--json")
    assert {row["row_id"] for row in json.loads(out)["rows"]} == {"line-3"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--metric", "tpot"], "tpot_ms"), (["--slice", "serving throughputs"], "serving throughput"),
        (["--worst", "many"], "--worst"), (["--format", "yaml"], "csv"),
    ],
)  # fmt: skip
def test_bad_flags_are_said_in_one_sentence(arguments, words, mine, call):
    """Exit code 2, and what is allowed."""
    code, _out, err = call(mine, *arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


def test_the_predictions_as_csv(mine, call, tmp_path):
    """On standard output with `-`, else in a file beside the summary."""
    _code, out, _err = call(mine, "--csv", "-")
    rows = list(csv.DictReader(out.splitlines()))
    assert set(rows[0]) == KEYS["rows"]
    assert len(rows) == 3
    target = tmp_path / "out.csv"
    code, text, err = call(mine, "--csv", target)
    assert code == 0
    assert "Slice" in text
    assert str(target) in err
    assert target.read_text(encoding="utf-8") == out


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("good.csv", MINE, 0),
        ("header.csv", "a,b\n1,2\n", 2),
        ("empty.csv", "", 2),
        ("missing.csv", None, 2),
        ("binary.csv", b"\xff\xfe\x00\x01", 2),
    ],
)
def test_exit_codes_of_the_program(name, content, code, tmp_path):
    """The program itself: an answer is 0, a file that cannot be read is 2 and one sentence."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    words = [sys.executable, "-m", "gpuselect", "validate", str(path), "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert (done.stderr.count("\n") == 1 and name in done.stderr) is (code == 2)


def test_nine_of_ten_decoder_rows_are_predicted(shipped):
    """Of the decoder rows with a metric and a named card."""
    rows, validation = shipped
    catalog = load_catalog()
    predicted = {row.row_id for row in validation.rows}
    metrics = {layout.name: [m for m in layout.metrics if m != "outcome"] for layout in LAYOUTS}
    asked, found = Counter(), Counter()
    for measured in rows:
        row = measured.row
        if measured.layout == "memory" or row.get("outcome", "ok") != "ok" or not is_decoder(row, catalog):
            continue
        if not any(float(row.get(metric, 0)) > 0 for metric in metrics[measured.layout]):
            continue
        if _unnamed(row, catalog):
            continue
        asked[measured.layout] += 1
        found[measured.layout] += row["row_id"] in predicted
    assert found.total() >= 0.9 * asked.total()
    assert found["inference"] >= 0.95 * asked["inference"]
    assert found["training"] >= 0.8 * asked["training"]


def _unnamed(row, catalog):
    """Whether the row does not name its card."""
    try:
        accelerator_of(row, catalog)
    except Skip as skip:
        return skip.code == "hardware-unspecified"
    return False


def test_what_the_shipped_rows_say(shipped):
    """Every prediction is a finite positive number; the references of the allocator are met."""
    _rows, validation = shipped
    assert all(0 < row.predicted < float("inf") and row.measured > 0 for row in validation.rows)
    lines = {(line.slice, line.metric): line for line in validation.summary}
    assert lines["memory reference llama", "peak_gib"].p90_ape < 0.06
    assert lines["memory reference gpt2", "peak_gib"].p90_ape < 0.06
    assert lines["training dense", "tokens_per_s_per_accel"].median_ape < 0.2
    assert lines["serving decode b1", "output_tok_s_total"].median_ape < 0.25
    ran = [fit.predicted for fit in validation.fits if fit.measured]
    failed = [not fit.predicted for fit in validation.fits if not fit.measured]
    assert sum(ran) > 0.85 * len(ran)
    assert sum(failed) > 0.7 * len(failed)
