"""The library: the same answers as the command line, as objects, tables and notebook cells."""

import json

import pytest

import gpuselect
from gpuselect.cli import main
from gpuselect.errors import InputError
from gpuselect.workload import Workload

ASKED = {"task": "inference", "model": "llama-3.1-8b", "concurrency": 8, "gpus": ["l4", "l40s", "h100"]}
FLAGS = ("--task", "inference", "--model", "llama-3.1-8b", "--concurrency", "8", "--gpus", "l4,l40s,h100")


@pytest.fixture(scope="module")
def answer():
    """One recommendation."""
    return gpuselect.recommend(**ASKED)


def said(capsys, *arguments):
    """The JSON of the command line."""
    with pytest.raises(SystemExit):
        main([*arguments, "--json", "--quiet"])
    return json.loads(capsys.readouterr().out)


def test_recommend_is_what_the_command_line_says(capsys, monkeypatch, tmp_path, answer):
    """Field for field."""
    monkeypatch.setattr("gpuselect.cli.config.user_folder", lambda: tmp_path)
    assert answer.to_dict() == said(capsys, "recommend", *FLAGS)
    assert answer.best is answer.options[0]


def test_estimate_is_what_the_command_line_says(capsys, monkeypatch, tmp_path):
    """Also when it does not fit."""
    monkeypatch.setattr("gpuselect.cli.config.user_folder", lambda: tmp_path)
    big = gpuselect.estimate("1xl4", task="inference", model="llama-3.1-70b")
    assert not big.fits
    words = ("--on", "1xl4", "--task", "inference", "--model", "llama-3.1-70b")
    assert big.to_dict() == said(capsys, "estimate", *words)


def test_a_workload_may_be_an_object_or_a_mapping(answer):
    """Three ways to say one thing."""
    work = Workload.from_mapping(ASKED)
    assert gpuselect.recommend(work).to_dict() == answer.to_dict()
    assert gpuselect.recommend(ASKED).best == answer.best
    with pytest.raises(InputError, match="not both"):
        gpuselect.recommend(work, task="inference")


def test_frames_have_units_and_no_invented_zero(answer):
    """One row for each option."""
    frame = answer.to_frame()
    assert len(frame) == len(answer.options)
    assert {"accelerator", "count", "memory_gib", "per_hour_usd", "output_tok_s", "output_tok_s_low"} <= set(
        frame
    )
    assert (frame["memory_gib"] > 0).all()
    assert gpuselect.estimate("l4", ASKED).to_frame()["accelerator"][0] == "l4-24gb"
    assert gpuselect.compare("a100", "h100").to_frame().loc["memory_gb", "h100-sxm5-80gb"] == 80
    assert gpuselect.compare("8xh100", "4xmi300x").rows()
    assert gpuselect.compare("pytorch", "jax").rows()
    assert gpuselect.compare("hgx-8-h100", "nvl72-gb200").rows()


def test_compare_with_a_workload_says_what_estimate_says():
    """The same rate as `estimate` on the same card; frameworks get rows of their own."""
    work = {"task": "inference", "model": "llama-3.1-8b", "concurrency": 16}
    table = gpuselect.compare("1xl4", "1xl40s", workload=work).to_frame()
    columns = [name for name in table.columns if name != "unit"]
    for column, card in zip(columns, ("1xl4", "1xl40s"), strict=True):
        rate = gpuselect.estimate(card, work).to_dict()["performance"]["output_tok_s"]["value"]
        assert table.loc["output_tok_s", column] == pytest.approx(rate, rel=1e-3)
    frameworks = gpuselect.compare("vllm", "sglang", task="inference", model="llama-3.1-8b", gpus=["h100"])
    assert "best_option" in frameworks.to_frame().index


def test_notebook_cells_are_escaped_tables(answer):
    """Each answer shows itself."""
    for shown in (answer, gpuselect.estimate("l4", ASKED), gpuselect.compare("a100", "h100")):
        html = shown._repr_html_()
        assert "<table>" in html
        assert "<script" not in html


def test_reports_are_those_of_the_command_line(answer):
    """Markdown; the page is made of the same blocks."""
    assert answer.to_markdown().startswith("# ")


def test_what_cannot_be_understood_is_an_input_error():
    """The sentences of the command line."""
    with pytest.raises(InputError, match="did you mean params"):
        gpuselect.recommend(task="inference", parms="7B")
    with pytest.raises(InputError, match="8xH100"):
        gpuselect.estimate("8", ASKED)
    with pytest.raises(InputError, match="at least two"):
        gpuselect.compare("a100")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        gpuselect.nonsense  # noqa: B018  the access is the test


def test_estimate_is_a_function_and_a_package():
    """The name is both, in whatever order they are imported."""
    import gpuselect.estimate.memory as module
    from gpuselect import estimate

    assert callable(estimate)
    assert module.__name__ == "gpuselect.estimate.memory"


def test_overlays_and_a_catalog_of_ones_own(tmp_path):
    """A price of one's own counts; without overlays nothing of the user is read."""
    (tmp_path / "prices.yaml").write_text(
        "- {hardware: l4-24gb, kind: rent, price: 0.01, as_of: 2026-11-01, source: letter}\n"
    )
    cheap = gpuselect.recommend(ASKED, overlays=[tmp_path])
    assert cheap.best.accelerator == "l4-24gb"
    catalog = gpuselect.load_catalog()
    assert gpuselect.compare("a100", "h100", catalog=catalog).rows()
