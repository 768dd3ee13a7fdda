"""A short run of the fuzzer, generated texts for every reader, and the cases that were found."""

import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuselect import recommend
from gpuselect.cli import main
from gpuselect.errors import GpuselectError, InputError
from gpuselect.provenance import Figure
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.model_files import read_model
from gpuselect.readers.workload import parse_workload_text
from gpuselect.readers.yaml_strict import parse_yaml
from gpuselect.workload import Workload

TOOLS = Path(__file__).resolve().parents[2] / "tools"
KEYS = [name for name in Workload.model_fields if name != "parse_notes"]
WORDS = st.sampled_from(
    ["7B", "10B tokens", "p95<200ms", "$2/h", "8xH100", "30d", "60%", "-1", "1e999", "nan", "", "=1", "卡"]
)
VALUES = st.one_of(WORDS, st.text(max_size=30), st.integers(), st.floats(), st.booleans(), st.none(),
                   st.lists(WORDS, max_size=3), st.dictionaries(WORDS, WORDS, max_size=2))  # fmt: skip
LLAMA = (
    '{"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 1000, '
    '"hidden_size": %s, "num_key_value_heads": %s}'
)
whole_catalog = cache(load_catalog)
quick = settings(max_examples=100, deadline=2000, derandomize=True,
                 suppress_health_check=[HealthCheck.too_slow])  # fmt: skip


def test_a_short_run_of_the_fuzzer(monkeypatch):
    """Forty inputs of every kind, in a process of its own state."""
    code = (
        f"import sys; sys.path.insert(0, {str(TOOLS)!r}); import fuzz; "
        "count, faults = fuzz.run(inputs=40, seed=7); print(*faults, sep='\\n'); sys.exit(bool(faults))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr


@quick
@given(st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=12)), VALUES, max_size=5))
def test_any_mapping_is_a_workload_or_a_sentence(mapping):
    """No value of any key makes the parser fall over."""
    try:
        Workload.from_mapping({"task": "inference", **mapping})
    except GpuselectError as error:
        said = str(error)
    else:
        said = "understood"
    assert said


@quick
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_yaml_or_a_sentence(text):
    """Text that is no YAML is refused with its place."""
    for parse in (parse_yaml, parse_workload_text):
        said = "x.yaml"
        try:
            parse(text, name="x.yaml")
        except GpuselectError as error:
            said = str(error)
        assert said.startswith("x.yaml")


@quick
@given(content=st.binary(max_size=300))
@pytest.mark.parametrize("suffix", [".json", ".safetensors", ".gguf"])
def test_any_bytes_are_a_model_or_a_sentence(tmp_path_factory, suffix, content):
    """A damaged model file is refused."""
    path = tmp_path_factory.mktemp("model") / f"x{suffix}"
    path.write_bytes({".gguf": b"GGUF\x03\x00\x00\x00"}.get(suffix, b"") + content)
    with pytest.raises(GpuselectError):
        read_model(path, whole_catalog())


# --- found cases ----------------------------------------------------------------------------------


def code_of(capsys, *arguments):
    """Exit code and standard error of a call."""
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    return leaving.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "task: inference\n? [a, b]\n: 1\n",  # a key that is a list
        "task: 2026-99-99\n",  # a date that is none
        "task: inference\nparams: !!int x\n",  # a tag that lies
        "task: inference\ntokens: 1" + "0" * 5000 + "\n",  # more digits than Python converts
        "task: " + "[" * 5000,
        "task: &a [*a]\n",
        "\ufeff",
    ],
)
def test_workload_files_that_once_fell_over(capsys, tmp_path, text):
    """Each is refused with a sentence."""
    path = tmp_path / "work.yaml"
    path.write_text(text, encoding="utf-8")
    code, err = code_of(capsys, "recommend", "--workload", str(path))
    assert code == 2
    assert err.startswith("error: ")


@pytest.mark.parametrize(
    "config",
    [
        LLAMA % ("Infinity", "8"),
        LLAMA % ("4096", "1" + "0" * 400),
        LLAMA % ("1.5", "8"),
        "[" * 100_000,
    ],
)
def test_model_configurations_that_once_fell_over(capsys, tmp_path, config):
    """A dimension that no network has, and a file of brackets."""
    path = tmp_path / "config.json"
    path.write_text(config, encoding="utf-8")
    code, err = code_of(capsys, "recommend", "--task", "pretrain", "--model", str(path))
    assert code == 2
    assert err.startswith("error: ")


def test_a_hundred_thousand_years_are_refused(capsys):
    """The present value of the resale had no number for them."""
    code, err = code_of(capsys, "recommend", "--task", "inference", "--params", "7B", "--years", "99999")
    assert code == 2
    assert "from 0.05 to 100" in err


def test_a_row_with_another_word_for_recompute_is_skipped(capsys, tmp_path):
    """A measured row is left out with a code, the others are predicted."""
    path = tmp_path / "rows.csv"
    path.write_text(
        "arch,precision,params_b,n_layers,hidden,heads,kv_heads,ffn,vocab,seq,batch,optimizer,recompute,peak_gib\n"
        "llama,bf16,1,16,2048,32,8,8192,128256,1024,1,adamw,perhaps,12\n"
        "resnet,,0.04,101,,,,,,,8,sgd,none,15\n"
    )
    code, err = code_of(capsys, "validate", str(path), "--json")
    assert code == 0, err


def test_reference_rows_without_their_cells_are_skipped(capsys, tmp_path):
    """Networks of convolutions without a depth, a T5 of an unknown dropout, patches that are no number."""
    path = tmp_path / "rows.csv"
    path.write_text(
        "row_id,arch,precision,params_b,hidden,heads,ffn,vocab,seq,image,batch,optimizer,recompute,peak_gib,note\n"
        "a,resnet,bf16,0.04,,,,,,224,8,sgd,none,15,\n"
        "b,t5,bf16,0.2,512,8,2048,32128,512,,8,adamw,none,15,dropout=lots\n"
        "c,clip,bf16,0.2,512,8,2048,49408,77,224,8,adamw,none,15,text_hidden=512 patch=none\n"
    )
    code, err = code_of(capsys, "validate", str(path), "--json")
    assert code == 0, err


def test_draws_without_end_are_refused(capsys, tmp_path):
    """A number of draws that fills the memory."""
    (tmp_path / "profiles.yaml").write_text("draws: 9000000000000\n")
    code, err = code_of(
        capsys, "recommend", "--task", "inference", "--params", "7B", "--catalog", str(tmp_path)
    )
    assert code == 3
    assert "draws" in err


def test_a_tensor_parallelism_of_billions_is_no_search(capsys):
    """The nearest width that divides the heads is looked for below the heads, not below the pin."""
    began = time.process_time()
    code, _err = code_of(
        capsys, "recommend", "--task", "inference", "--model", "llama-3.1-8b", "--tp", "70亿",
        "--gpus", "h100,l4",
    )  # fmt: skip
    assert code == 1
    assert time.process_time() - began < 4.0


@pytest.mark.parametrize(
    "work",
    [
        {"task": "hpc", "flops": "1e15", "streams": int("1" + "0" * 400)},
        {"task": "hpc", "flops": "5e-324"},
        {"task": "pretrain", "params": "1B", "global_batch": "1e30"},
    ],
)
def test_a_number_that_arithmetic_does_not_hold_is_one_sentence(work):
    """Found by the fuzzer: a run of no work, and counts that no float holds."""
    with pytest.raises(InputError):
        recommend(gpus="h100", **work)


def test_bounds_of_a_figure_that_are_no_numbers_are_one_sentence():
    """Found by the fuzzer: a default of an overlay whose low bound is a text."""
    with pytest.raises(ValueError, match="'1' is not a number"):
        Figure.parse({"value": 2.0, "source": "s", "low": "1"})
