"""The command line: parsing, exit codes, streams and files. Answers are made by hand here."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from gpuselect.catalog import Accelerator, Catalog, Framework, Model, Price, Source, WeightFormat
from gpuselect.cli import main, output
from gpuselect.cli.flags import Flag, kind_of, listed, workload_mapping
from gpuselect.comparison import cheapest, compare_specs
from gpuselect.decision import Decision, Estimate, FitAnswer, MemoryFit, Note, Option
from gpuselect.errors import CatalogError, InputError
from gpuselect.plan import Plan
from gpuselect.workload import Workload

COMMANDS = ("recommend", "estimate", "compare", "report", "list", "show", "explain")


def python(code):
    """Run Python in a process of its own, which imports nothing before."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )


@pytest.fixture
def call(capsys):
    """Call `gpuselect` in this process: exit code, standard output, standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        streams = capsys.readouterr()
        return leaving.value.code, streams.out, streams.err

    return run


def card(name, **fields):
    """An accelerator with invented figures."""
    raw = {
        "id": name, "name": name.upper(), "vendor": "acme", "family": "datacenter",
        "architecture": "a", "form_factor": "pcie", "status": "current",
        "sources": {"ds": ["acme-ds", "p. 2"]}, "memory_gb": [80, "ds"], "power_w": [400, "ds"],
        "dense_tflops": {"bf16": [800, "ds"]},
    }  # fmt: skip
    return Accelerator.model_validate(raw | fields)


def price(hardware, amount, *, n_accel=1, term="on-demand", is_offer=True):
    """A price row with invented figures."""
    kind = "rent" if term in ("on-demand", "spot") else "buy"
    return Price(hardware, n_accel, kind, term, "cloudco", "x", "eu", amount, "USD", "2026-07-01",
                 is_offer, "cloudco", "")  # fmt: skip


@pytest.fixture
def catalog():
    """A catalog of two cards."""
    sources = {"ds": ("acme-ds", "p. 1")}
    return Catalog(
        accelerators={
            "card-a": card("card-a"),
            "card-b": card("card-b", memory_gb=[160, "ds"], ecc=["yes", "ds"], vendor="other",
                           dense_tflops={"bf16": {"value": 1200, "source": "ds",
                                                  "status": "derived"}}),
        },
        models={"m": Model(id="m", name="M", sources=sources, family="f", params_b=[7, "ds"])},
        frameworks={"fw": Framework(id="fw", name="FW", sources=sources, kind="serving",
                                    backends={"cuda": ["yes", "ds"]})},
        formats={"int4": WeightFormat(id="int4", name="INT4", sources=sources,
                                      bits_per_weight=[4.25, "ds"], compute="fp16",
                                      kernel_class="w4")},
        systems={},
        prices=(price("card-a", 24.0, n_accel=8), price("card-a", 2.0, is_offer=False),
                price("card-b", 9.0), price("card-b", 4.0, term="spot")),
        sources={"acme-ds": Source(title="Acme datasheet", address="acme.example/ds")},
    )  # fmt: skip


@pytest.fixture
def offline(catalog, monkeypatch):
    """Commands that get the catalog above."""
    for module in ("list_entries", "show", "compare"):
        monkeypatch.setattr(f"gpuselect.cli.{module}.catalog_of", lambda arguments: catalog)


@pytest.fixture
def decision():
    """A decision made by hand."""
    option = Option(
        "card-a", "Card A", 2, 1, Plan(count=2, tp=2), "bf16", "bf16", "bf16", None,
        MemoryFit(60.0, 79.6, {"weights": 60.0}, "fits"), {"output_tok_s": Estimate(900, 700, 1100)},
        rank=1,
    )  # fmt: skip
    return Decision(
        workload={"task": "inference"}, workload_sentence="Serve it.", assumptions=(),
        recommendations=(option,), unpriced=(), considered=(),
        near_misses=(Note("near", "One more card would do."),), sensitivity=(), next_commands=(),
        data_date="", sources_used=(),
    )  # fmt: skip


@pytest.fixture
def decided(decision, monkeypatch):
    """The commands that decide get the decision above; `decided(x)` gives another one."""

    def use(answer):
        for module in ("recommend", "write_report"):
            monkeypatch.setattr(f"gpuselect.cli.{module}.decide", lambda arguments: answer)

    use(decision)
    return use


# --- start-up and help ------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["explain", "--help"]])
def test_start_up_imports_nothing_heavy(arguments):
    """Start up imports nothing heavy."""
    heavy = ["numpy", "pandas", "yaml", "rich"]
    result = python(
        "import sys\nfrom gpuselect.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as leaving:\n"
        f"    found = [m for m in {heavy!r} if m in sys.modules]\n"
        "    print(found, leaving.code, file=sys.stderr)"
    )
    assert result.stderr.strip().splitlines()[-1] == "[] 0", result.stderr


def test_help_names_every_command(call):
    """Help names every command."""
    code, out, _err = call("--help")
    assert code == 0
    assert all(f"\n  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(call, command):
    """Each command has help with an example."""
    code, out, _err = call(command, "--help")
    assert code == 0
    assert f"    gpuselect {command} " in out


@pytest.mark.parametrize("command", ["recommend", "estimate", "compare", "report"])
def test_each_field_of_the_workload_is_a_flag_with_help(call, command):
    """Each field of the workload is a flag with help."""
    _code, out, _err = call(command, "--help")
    for name in Workload.model_fields:
        if name != "parse_notes":
            assert f"--{name.replace('_', '-')}" in out


def test_help_texts_and_fields_are_in_step():
    """Help texts and fields are in step."""
    from gpuselect.cli.workload_help import help_texts

    assert set(help_texts()) == set(Workload.model_fields) - {"parse_notes"}
    assert all(help_texts().values())


def test_version_is_one_line(call):
    """Version is one line."""
    code, out, _err = call("--version")
    assert code == 0
    assert out.startswith("gpuselect ")
    assert out.count("\n") == 1


# --- exit codes and errors ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"], ["recommend", "--nonsense"], ["list"], ["recommend"],
        ["recommend", "--task", "x"], ["recommend", "--format", "yaml"],
        ["recommend", "--json", "--format", "markdown"], ["recommend", "-o", "report.pdf"],
        ["recommend", "-o", "no/such/folder/x.md"], ["report", "--task", "pretrain"],
        ["recommend", "--workload", "no-such-file.yaml"], ["explain", "no-such-code"],
        ["compare", "one"], ["list", "cards"], ["list", "models", "--catalog", "no/such/folder"],
        ["estimate", "--on", "8", "--task", "pretrain"],
    ],
)  # fmt: skip
def test_bad_input_is_code_2_and_one_sentence(call, arguments):
    """Bad input is code 2 and one sentence."""
    code, out, err = call(*arguments)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert "rror" in err


def test_unknown_command_names_the_nearest(call):
    """Unknown command names the nearest."""
    assert "'recommend'" in call("recomend")[2]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("bad"), 2), (CatalogError("bad"), 3), (ValueError("bad"), 4),
        (KeyboardInterrupt(), 130), (BrokenPipeError(), 0),
    ],
)  # fmt: skip
def test_errors_have_their_codes(call, monkeypatch, error, code):
    """Errors have their codes."""

    def fail(arguments):
        raise error

    monkeypatch.setattr("gpuselect.cli.recommend.decide", fail)
    got, out, err = call("recommend", "--task", "pretrain")
    assert got == code
    assert out == ""
    assert "Traceback" not in err


def test_internal_error_says_version_and_where_to_report(call, monkeypatch):
    """Internal error says version and where to report."""
    monkeypatch.setattr("gpuselect.cli.recommend.decide", lambda arguments: 1 / 0)
    _code, _out, err = call("recommend")
    assert err.startswith("internal error in gpuselect ")
    assert "ZeroDivisionError" in err
    assert "report it" in err
    assert err.count("\n") == 1


def test_debug_shows_the_traceback(call, monkeypatch):
    """Debug shows the traceback."""
    monkeypatch.setattr("gpuselect.cli.recommend.decide", lambda arguments: 1 / 0)
    assert "Traceback" in call("recommend", "--debug")[2]


def test_closed_pipe_is_silent():
    """Closed pipe is silent."""
    code = "import sys; from gpuselect.cli import main; main(['list', 'rules', '--json'])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        result = subprocess.run([sys.executable, "-c", code], stdout=closed, env=environment,
                                stderr=subprocess.PIPE, text=True, check=False)  # fmt: skip
    assert result.returncode == 0
    assert result.stderr == ""


# --- recommend and report ------------------------------------------------------------------------


@pytest.mark.usefixtures("decided")
def test_recommend_prints_the_decision(call):
    """Recommend prints the decision."""
    code, out, err = call("recommend")
    assert code == 0
    assert out.startswith("Use 2 × Card A")
    assert err == ""


@pytest.mark.usefixtures("decided")
def test_recommend_json_is_only_the_payload(call, tmp_path):
    """Recommend JSON is only the payload."""
    code, out, err = call("recommend", "--json", "-o", str(tmp_path / "d.md"))
    assert code == 0
    assert json.loads(out)["recommendations"][0]["accelerator"] == "card-a"
    assert err.startswith("wrote ")


def test_nothing_fits_is_code_1_with_near_misses(call, decided, decision):
    """Nothing fits is code 1 with near misses."""
    decided(replace(decision, recommendations=()))
    code, out, _err = call("recommend")
    assert code == 1
    assert "One more card would do." in out
    assert call("recommend", "--exit-zero")[0] == 0


@pytest.mark.usefixtures("decided")
@pytest.mark.parametrize(
    ("suffix", "start"), [("md", "# Accelerator"), ("html", "<!doctype"), ("json", "{"), ("MD", "#")]
)
def test_report_form_follows_the_suffix(call, tmp_path, suffix, start):
    """Report form follows the suffix."""
    path = tmp_path / f"decision.{suffix}"
    assert call("report", "-o", str(path), "--quiet") == (0, "", "")
    assert path.read_text(encoding="utf-8").startswith(start)


def test_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    """File is replaced whole or not at all."""
    path = tmp_path / "decision.md"
    output.write_file(path, "old")

    def fail(self, target):
        raise OSError(28, "no space left")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(InputError, match="no space left"):
        output.write_file(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("environment", "arguments", "color"),
    [
        ({}, {}, True), ({"NO_COLOR": "1"}, {}, False), ({"TERM": "dumb"}, {}, False),
        ({}, {"no_color": True}, False),
    ],
)  # fmt: skip
def test_colour_on_a_terminal(monkeypatch, environment, arguments, color):
    """Colour on a terminal."""
    for name in ("NO_COLOR", "TERM", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert output.terminal_style(arguments).color is color


def test_pipe_has_no_width():
    """Pipe has no width."""
    assert output.terminal_style({}).width is None


# --- estimate ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("need", "state", "code"), [(60, "fits", 0), (75, "tight", 0),
                                                     (85, "tight", 1), (200, "no", 1)])  # fmt: skip
def test_estimate_says_with_its_code_whether_it_fits(call, monkeypatch, decision, catalog, need, state, code):
    """Estimate says with its code whether it fits."""
    option = replace(decision.recommendations[0], memory=MemoryFit(need, 79.6, {}, state))
    answer = FitAnswer({}, "Serve it.", (), state, option, (), (), ())
    asked = []

    def estimate(workload, accelerators, *rest):
        asked.append((workload.task, accelerators))
        return answer

    monkeypatch.setattr("gpuselect.advisor.estimate", estimate)
    monkeypatch.setattr("gpuselect.cli.load.catalog_of", lambda arguments: catalog)
    for name in ("load_calibration", "load_defaults"):
        monkeypatch.setattr(f"gpuselect.readers.calibration.{name}", lambda **_: None)
    flags = ("--on", "2x8 H200 + 1xA100", "--task", "inference", "--params", "7B")
    got, out, _err = call("estimate", *flags, "--json", "-q")
    assert got == code
    assert json.loads(out)["state"] == state
    assert asked == [("inference", [(16, "H200"), (1, "A100")])]
    assert call("estimate", *flags)[0] == code


# --- flags ---------------------------------------------------------------------------------------


def test_flags_override_the_file(tmp_path):
    """Flags override the file."""
    path = tmp_path / "job.yaml"
    path.write_text("task: training\nseq-len: 8k\nparams: 7B\n", encoding="utf-8")
    mapping = workload_mapping({"workload": str(path), "seq_len": "4k", "gpus": ["a,b"], "ecc": None})
    assert mapping == {"task": "training", "seq_len": "4k", "params": "7B", "gpus": ["a", "b"]}


def test_underscores_are_read_as_hyphens(call, monkeypatch):
    """Underscores are read as hyphens."""
    seen = []

    def decide(arguments):
        seen.append(workload_mapping(arguments))
        raise InputError("enough")

    monkeypatch.setattr("gpuselect.cli.recommend.decide", decide)
    call("recommend", "--task", "pretrain", "--seq_len", "4k", "--no-ecc", "--gpus", "a,b",
         "--gpus", "c", "--criterion-weights", "cost=1,speed=2")  # fmt: skip
    assert seen == [{"task": "pretrain", "seq_len": "4k", "ecc": False, "gpus": ["a", "b", "c"],
                     "criterion_weights": {"cost": "1", "speed": "2"}}]  # fmt: skip


def test_kinds_of_flags():
    """Kinds of flags."""
    fields = Workload.model_fields
    kinds = {name: kind_of(fields[name].annotation) for name in ("params", "ecc", "gpus", "have", "budget")}
    assert kinds == {"params": "text", "ecc": "pair", "gpus": "list", "have": "list", "budget": "text"}
    assert listed(["a, b", ""]) == ["a", "b"]
    assert Flag("seq_len", "x").parameter().name == "seq_len"


# --- list, show, explain, compare ------------------------------------------------------------------


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("kind", ["accelerators", "models", "frameworks", "formats", "prices", "rules"])
@pytest.mark.parametrize("form", ["table", "json", "markdown", "csv"])
def test_every_kind_is_listed_in_every_form(call, kind, form):
    """Every kind is listed in every form."""
    code, out, err = call("list", kind, "--format", form)
    assert code == 0
    assert err == ""
    assert out.endswith("\n")
    if form == "json":
        assert json.loads(out)[kind]


@pytest.mark.usefixtures("offline")
def test_list_filters(call):
    """List filters."""
    assert "card-b" not in call("list", "accelerators", "--vendor", "ACME")[1]
    assert call("list", "accelerators", "--filter", "zzz")[0] == 1
    code, _out, err = call("list", "accelerators", "--vendor", "zzz")
    assert (code, "acme, other" in err) == (2, True)
    assert call("list", "models", "--vendor", "acme")[0] == 2
    assert call("list", "accelerator")[0] == 0


@pytest.mark.usefixtures("offline")
def test_show_names_the_source_of_each_figure(call):
    """Show names the source of each figure."""
    code, out, _err = call("show", "card-b", "--json")
    assert code == 0
    figures = {row["key"]: row for row in json.loads(out)["figures"]}
    assert figures["dense_tflops.bf16"]["status"] == "derived"
    assert figures["memory_gb"]["source"] == "Acme datasheet"
    assert figures["memory_gb"]["value"] == 160
    text = call("show", "card-b")[1]
    assert "Acme datasheet" in text
    assert "p. 2" in text
    assert call("show", "card-b", "--format", "markdown")[1].startswith("# CARD-B")
    assert call("show", "card-b", "--format", "csv")[1].startswith("key,value,status")


@pytest.mark.usefixtures("offline")
def test_show_refuses_an_unknown_kind(call):
    """Show refuses an unknown kind."""
    assert call("show", "card-a", "--kind", "tree")[0] == 2


def test_explain_prints_text_source_and_override(call):
    """Explain prints text source and override."""
    code, out, _err = call("explain", "MEMORY_EXCEEDED", "--json")
    assert code == 0
    payload = json.loads(out)
    assert payload["code"] == "memory-exceeded"
    assert payload["text"]
    assert payload["source"]
    assert payload["override"]
    assert "did you mean memory-exceeded" in call("explain", "memory-exceded")[2]


def test_comparison_has_ratios_status_and_prices(catalog):
    """Comparison has ratios status and prices."""
    comparison = compare_specs(list(catalog.accelerators.values()), catalog)
    rows = {row.key: row.cells for row in comparison.rows}
    assert [cell.ratio for cell in rows["memory_gb"]] == [1.0, 2.0]
    assert rows["dense_bf16_tflops"][1].status == "derived"
    assert rows["bf16_tflops_per_w"][0].value == 2.0
    assert [cell.value for cell in rows["rent_usd_per_hour"]] == [3.0, 9.0]
    assert rows["rent_usd_per_hour"][0].source == "cloudco on-demand 2026-07-01"
    assert rows["spot_usd_per_hour"][0].value is None
    assert rows["ecc"][0].value is None
    assert "usable_memory_gib" not in rows
    assert cheapest("card-c", catalog.prices, frozenset({"spot"})) is None


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("form", ["table", "json", "markdown", "csv"])
def test_compare_in_every_form(call, form):
    """Compare in every form."""
    code, out, _err = call("compare", "card-a", "card-b", "--format", form, "-q")
    assert code == 0
    assert "160" in out
    if form == "json":
        assert json.loads(out)["accelerators"] == ["card-a", "card-b"]


# --- end to end, with the catalog of the package --------------------------------------------------

JOB = ("--task", "inference", "--params", "8B", "--concurrency", "4", "--max-count", "2")


def test_recommend_end_to_end(call):
    """Recommend judges every accelerator of the catalog and keeps the JSON contract."""
    from gpuselect.readers.catalog import load_catalog

    code, out, _err = call("recommend", *JOB, "--json")
    payload = json.loads(out)
    assert code == 0
    assert payload["recommendations"][0]["rank"] == 1
    judged = [entry["accelerator"] for entry in payload["considered"]]
    assert sorted(judged) == sorted(load_catalog().accelerators)


def test_what_was_recommended_fits(call):
    """The first recommendation fits when it is estimated on its own."""
    best = json.loads(call("recommend", *JOB, "--json")[1])["recommendations"][0]
    hardware = f"{best['count']}x{best['accelerator']}"
    assert call("estimate", "--on", hardware, *JOB, "--json")[0] == 0


def test_too_large_a_model_is_code_1(call):
    """A model that is larger than the hardware is a no, not an error."""
    code, out, _err = call(
        "estimate", "--on", "1xrtx-4090-24gb", "--task", "inference", "--params", "405B", "--json"
    )
    assert code == 1
    assert json.loads(out)["fits"] is False


def test_compare_end_to_end(call):
    """Compare adds count, speed and cost of the workload; a loose name is said on stderr."""
    code, out, err = call("compare", "h100", "a100-sxm4-80gb", *JOB, "--json")
    keys = {row["key"] for row in json.loads(out)["rows"]}
    assert code == 0
    assert keys >= {"memory_gb", "min_count", "output_tok_s", "per_hour_usd"}
    assert "h100" in err


def test_output_is_ascii_where_the_encoding_is():
    """Output is ASCII where the encoding of standard output is no more."""
    result = python(
        "import sys; sys.stdout.reconfigure(encoding='ascii')\nfrom gpuselect.cli import main\n"
        f"main({['recommend', *JOB]!r})"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.isascii()
    assert " x " in result.stdout.splitlines()[0]


def test_figures_of_an_overlay_folder_win(tmp_path, call):
    """A negotiated price and a default of the user's own change the answer."""
    (tmp_path / "prices.csv").write_text(
        "hardware,n_accel,kind,term,provider,instance,region,price,currency,as_of,is_offer,source,note\n"
        "h100-sxm5-80gb,8,rent,on-demand,ourdeal,8xh100,eu,1.0,USD,2026-11-01,yes,quotation,negotiated\n",
        encoding="utf-8",
    )
    (tmp_path / "defaults.yaml").write_text("carbon_g_kwh: {value: 0.5, source: own}\n", encoding="utf-8")
    asked = ("recommend", "--params", "10B", "--task", "training", "--json")
    plain = json.loads(call(*asked)[1])["recommendations"][0]
    best = json.loads(call(*asked, "--catalog", str(tmp_path))[1])["recommendations"][0]
    assert best["accelerator"] == "h100-sxm5-80gb"
    assert best["cost"]["offer"]["provider"] == "ourdeal"
    assert best["energy"]["kgco2e"] < plain["energy"]["kgco2e"] / 100


def test_the_users_own_folder_is_laid_over_the_catalog_and_said(tmp_path, call, monkeypatch):
    """Files in the configuration folder count without a flag; standard error names the folder."""
    monkeypatch.setattr("gpuselect.cli.config.user_folder", lambda: tmp_path)
    folder = tmp_path / "catalog"
    folder.mkdir()
    (folder / "gpus.yaml").write_text(
        "- id: t4-16gb\n  sources: {us: [editorial, ours]}\n"
        "  usable_memory_gib: {value: 14.0, source: us, status: measured}\n",
        encoding="utf-8",
    )
    code, out, err = call("estimate", "--params", "3B", "--on", "t4", "--json")
    assert code == 0
    assert json.loads(out)["memory"]["usable_gib"] == 14.0
    assert str(folder) in err
