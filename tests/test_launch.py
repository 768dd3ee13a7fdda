"""Launch files: which are written, what stands in them, and that nothing is overwritten or left half."""

import configparser
import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from gpuselect.cli import main
from gpuselect.cli.launch_files import checked_folder, write_folder
from gpuselect.errors import CatalogError, InputError
from gpuselect.launch.facts import stage_facts
from gpuselect.launch.files import choose
from gpuselect.launch.fill import MARK, fill_text, fill_tree
from gpuselect.launch.readme import metrics
from gpuselect.launch.template import FileTemplate, Template
from gpuselect.plan import Plan
from gpuselect.readers.catalog import data_dir
from gpuselect.readers.launch import load_templates, options_of

TOOL = Path(__file__).parents[1] / "tools/launch_cases.py"
OPTION = re.compile(r"(?<![\w.:])--?[a-zA-Z][\w.-]*")
TEN = {
    "pretrain-10b-64-h100": "megatron_args.sh",
    "qlora-70b-2-a6000": "axolotl.yaml",
    "lora-8b-4090": "settings.json",
    "resnet-50-8-v100": "accelerate.yaml",
    "deepseek-v3-8-h200": "serve.sh",
    "70b-awq-one-80gb": "llm_options.yaml",
    "llm-orin-nano": "serve.sh",
    "8b-tpu-v5e": "kubernetes.yaml",
    "70b-mi300x": "skypilot.yaml",
    "30-cameras-t4": "deepstream.txt",
}


def tool():
    """The script that makes the files of the cases."""
    spec = importlib.util.spec_from_file_location("launch_cases", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = tool()
NAMES = tuple(CASES.cases())
TEMPLATES = {template.tool: template for template in load_templates()}


@pytest.fixture(scope="module")
def texts():
    """The files of a case, made once."""
    made = {}

    def of(name):
        if name not in made:
            made[name] = CASES.texts_of(name)
        return made[name]

    return of


def keys_of(tree, prefix=""):
    """Dotted keys of a mapping; what stands in lists does not count."""
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{key}.")


def used_options(name, text):
    """The options that a file uses, in the form of the recorded lists."""
    if name.endswith(".json"):
        return set(keys_of(json.loads(text))) - {"_made_for"}
    if name.endswith(".toml"):
        return {f"{part}.{key}" for part, keys in tomllib.loads(text).items() for key in keys}
    if name.endswith(".yaml"):
        return set(keys_of(yaml.safe_load(text)))
    if name.endswith(".txt"):
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        parser.read_string(text)
        return {f"{part}.{key}" for part in parser.sections() for key in parser[part]}
    if name == "Modelfile":
        lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
        return {line[0] for line in lines} | {line[1] for line in lines if line[0] == "PARAMETER"}
    lines = [line.strip() for line in text.splitlines()]
    sbatch = {OPTION.match(line[8:])[0] for line in lines if line.startswith("#SBATCH ")}
    lists = {m[0] for line in lines if line.startswith("-") and (m := OPTION.match(line))}
    added = {o for line in lines if line.startswith(("ARGS+=", "exec trtexec")) for o in OPTION.findall(line)}
    overrides = set(re.findall(r"^  ([a-z_]+)=", text, re.MULTILINE))
    exports = set(re.findall(r"^export (OLLAMA_\w+)=", text, re.MULTILINE))
    return sbatch | lists | added | exports | (overrides if "OVERRIDES=(" in text else set())


def launches(name):
    """Templates that a case chooses, with their facts."""
    from gpuselect.advisor import resolve_job
    from gpuselect.launch.facts import facts_of, kind_of
    from gpuselect.readers.calibration import load_calibration
    from gpuselect.workload import Workload

    case = CASES.cases()[name]
    workload = Workload.from_mapping(case["workload"])
    job, _notes = resolve_job(workload, CASES.catalog(), load_calibration())
    option = CASES.option_of(case)
    facts = facts_of(option=option, job=job, workload=workload, catalog=CASES.catalog())
    return choose(CASES.templates(), facts, kind=kind_of(job))


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_as_stored(name):
    """After a wanted change: python tools/launch_cases.py --store."""
    lines = CASES.difference(name)
    assert not lines, "\n".join(lines[:60])


def test_every_stored_case_has_its_case():
    """No left-overs."""
    assert {path.stem for path in CASES.STORED.glob("*.txt")} == set(NAMES)


@pytest.mark.parametrize(("name", "file"), TEN.items())
def test_the_ten_workloads_have_a_readme_with_a_threshold_and_the_file_of_their_tool(name, file, texts):
    """Order of steps, acceptance test, interval."""
    found = texts(name)
    readme = found["README.md"][0]
    assert file in found
    assert readme.index("## Start") < readme.index("## Acceptance test")
    value, low, high = next(iter(CASES.cases()[name]["performance"].values()))
    label, less = metrics()[next(iter(CASES.cases()[name]["performance"]))]
    row = next(line for line in readme.splitlines() if line.startswith(f"| {label}"))
    assert f"{low:g} – {high:g}" in row
    assert row.endswith(f"at most {high:g} |" if less else f"at least {low:g} |")
    assert f"| {value:g} |" in row


@pytest.mark.parametrize("name", NAMES)
def test_no_mark_is_left_and_every_file_names_what_it_was_made_for(name, texts):
    """README holds the versions in its table."""
    for path, (text, _executable) in texts(name).items():
        assert not MARK.search(text), path
        if path != "README.md":
            assert "ade for" in text or "checked against a release" in text or "_made_for" in text, path
            assert f"| {path} |" in texts(name)["README.md"][0]


def test_the_page_tells_what_was_said_of_every_file(texts):
    """docs/launch-check.md holds each file of each case; `make launch-check` writes it anew."""
    page = (TOOL.parents[1] / "docs/launch-check.md").read_text(encoding="utf-8")
    assert "0 refused" in page
    sections = page.split("\n## ")[1:]
    assert len(sections) == len(NAMES)
    told = [sorted(re.findall(r"^\| ([\w.-]+) \| (?!checked)", text, re.MULTILINE)) for text in sections]
    made = [sorted(file for file in texts(name) if file != "README.md") for name in NAMES]
    assert sorted(told) == sorted(made)
    assert page.count("accepted: ") == int(re.search(r"(\d+) files accepted", page)[1]) >= 36


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_in_the_recorded_list(name, texts):
    """Never an invented option."""
    checked = 0
    for file in launches(name).files:
        part = next(p for p in file.template.files if p.path == file.path)
        if part.options is None:
            continue
        known = options_of(part.options)
        used = used_options(file.path, texts(name)[file.path][0])
        allowed = {"training", *(f"training.{k}" for k in json.loads(file.text).get("training", ()))} if (
            part.options == "fully-shard"
        ) else set()  # fmt: skip  # our own block beside PyTorch's arguments
        if part.options in ("accelerate", "axolotl", "llama-factory"):
            used = {key.rpartition(".")[2] for key in used}  # lists of all fields, without a path
        assert used, file.path
        assert used - known - allowed == set(), file.path
        checked += 1
    assert checked or name == "resnet-50-lightning"  # has no list


@pytest.mark.parametrize("name", NAMES)
def test_every_file_parses(name, texts):
    """YAML, JSON, TOML and shell are read by their own parsers."""
    bash = shutil.which("bash")
    for path, (text, executable) in texts(name).items():
        if path.endswith((".yaml", ".yml")):
            assert list(yaml.safe_load_all(text))
        elif path.endswith(".json"):
            assert json.loads(text)
        elif path.endswith(".toml"):
            assert tomllib.loads(text)
        elif path.endswith((".sh", ".sbatch")) and bash:
            done = subprocess.run([bash, "-n"], input=text, text=True, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
        assert executable == (path.endswith(".sh") and path not in ("megatron_args.sh", "maxtext.sh")), path


def test_the_numbers_of_the_plan_reach_the_files(texts):
    """One look at each tool."""
    megatron = texts("pretrain-10b-64-h100")["megatron_args.sh"][0]
    assert "--tensor-model-parallel-size 2\n" in megatron
    assert "--global-batch-size 1024\n" in megatron  # 2 x 32 x 16
    assert "--expert-model-parallel-size" not in megatron
    deepspeed = json.loads(texts("full-8b-deepspeed-two-nodes")["ds_config.json"][0])
    assert deepspeed["train_batch_size"] == 16 * 4 * 1
    assert deepspeed["zero_optimization"]["stage"] == 3
    assert deepspeed["bf16"] == {"enabled": True}
    titan = tomllib.loads(texts("pretrain-8b-torchtitan")["torchtitan.toml"][0])
    assert titan["parallelism"]["data_parallel_shard_degree"] == 4
    assert titan["model"] == {"name": "llama3", "flavor": "8B", "hf_assets_path": "./assets/hf"}
    axolotl = yaml.safe_load(texts("qlora-70b-2-a6000")["axolotl.yaml"][0])
    assert axolotl["adapter"] == "qlora"
    assert (axolotl["micro_batch_size"], axolotl["gradient_accumulation_steps"]) == (2, 16)
    sglang = texts("deepseek-v3-8-h200")["serve.sh"][0]
    assert "--tp-size 8\n" in sglang  # dp attention inside tp x dp ranks
    assert "--dp-size 8\n" in sglang
    assert "--enable-dp-attention\n" in sglang


def test_a_checkpoint_is_named_only_where_it_holds_the_weights_that_were_planned(texts):
    """DeepSeek-V3 is published in fp8; a 4-bit file of Llama has to be given."""
    assert "deepseek-ai/DeepSeek-V3" in texts("deepseek-v3-8-h200")["serve.sh"][0]
    assert (
        'MODEL="${MODEL:?set MODEL to a checkpoint of llama-3.1-70b in int4-awq}"'
        in (texts("70b-awq-one-80gb")["serve.sh"][0])
    )


def test_kubernetes_asks_for_the_device_of_the_card(texts):
    """Plug-in resources by software stack, a MIG slice where slices were asked for."""

    def limits(name):
        deployment = next(yaml.safe_load_all(texts(name)["kubernetes.yaml"][0]))
        return deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]

    assert limits("70b-mi300x") == {"amd.com/gpu": 1}
    assert limits("8b-tpu-v5e") == {"google.com/tpu": 8}
    assert limits("8b-mig") == {"nvidia.com/mig-3g.40gb": 1}
    job = list(yaml.safe_load_all(texts("pretrain-10b-64-h100")["kubernetes.yaml"][0]))[1]
    assert job["spec"]["completions"] == 8
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 8}


def test_only_what_fits_is_written(texts):
    """Nothing for a cluster on a desktop card, no rental where nothing is rented, no wrong tool."""
    assert not {"slurm.sbatch", "kubernetes.yaml", "skypilot.yaml"} & set(texts("lora-8b-4090"))
    assert "skypilot.yaml" not in texts("8b-mig")
    assert "ds_config.json" not in texts("qlora-70b-2-a6000")
    assert set(texts("8b-ollama")) == {"README.md", "Modelfile", "serve.sh"}
    assert "launch line" in texts("resnet-50-lightning")["README.md"][0]
    mpi = texts("405b-trt-two-nodes")["slurm.sbatch"][0]
    assert "#SBATCH --ntasks-per-node=8" in mpi
    assert "kubernetes.yaml" not in texts("405b-trt-two-nodes")


@pytest.mark.skipif(shutil.which("bash") is None, reason="the scripts are for bash")
def test_a_replica_gets_its_own_devices_and_port(texts, tmp_path):
    """The script is run with a stand-in for the engine."""
    (tmp_path / "vllm").write_text('#!/bin/sh\necho "$HIP_VISIBLE_DEVICES" "$@"\n')
    (tmp_path / "vllm").chmod(0o755)
    (tmp_path / "serve.sh").write_text(texts("70b-mi300x")["serve.sh"][0])
    done = subprocess.run(
        [shutil.which("bash"), str(tmp_path / "serve.sh")], capture_output=True, text=True, check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "REPLICA": "1"},
    )  # fmt: skip
    words = done.stdout.split()
    assert words[0] == "1"
    assert words[words.index("--port") + 1] == "8001"
    assert words[words.index("--kv-cache-dtype") + 1] == "fp8"


WORK = {
    "pretrain": {"task": "pretrain", "params": "7B"},
    "full": {"task": "finetune", "params": "7B"},
    "lora": {"task": "finetune", "model": "llama-3.1-8b", "method": "lora"},
    "qlora": {"task": "finetune", "model": "llama-3.1-8b", "method": "qlora"},
    "prefix": {"task": "finetune", "model": "llama-3.1-8b", "method": "prefix"},
    "inference": {"task": "inference", "model": "mixtral-8x7b", "request_rate": "3/s"},
    "train-network": {"task": "pretrain", "model": "resnet-50"},
    "infer-network": {"task": "inference", "model": "resnet-50"},
}
PLANS = {
    "one": {"count": 1},
    "wide": {"count": 32, "tp": 2, "pp": 2, "dp": 8, "zero_stage": 1, "grad_accum": 4},
    "sharded": {"count": 16, "dp": 16, "zero_stage": 3, "recompute": 1},
    "replicas": {"count": 16, "tp": 4, "replicas": 4},
    "experts": {"count": 16, "dp": 16, "ep": 16},
}


@pytest.mark.parametrize("plan", PLANS)
def test_any_framework_and_card_gives_files_that_parse(plan):
    """Every framework, on the first card of each of its software stacks, for each of its methods."""
    from gpuselect.advisor import resolve_job
    from gpuselect.launch import launch_texts
    from gpuselect.readers.calibration import load_calibration
    from gpuselect.workload import Workload

    catalog, made = CASES.catalog(), 0
    first_card = {stack: card.id for card in reversed(list(catalog.accelerators.values()))
                  for stack in card.software}  # fmt: skip
    jobs = {}
    for method, raw in WORK.items():
        workload = Workload.from_mapping(raw)
        jobs[method] = workload, resolve_job(workload, catalog, load_calibration())[0]
    for framework in catalog.frameworks.values():
        for stack in framework.backends:
            if stack not in first_card:
                continue
            nodes = 1 if PLANS[plan]["count"] == 1 else 2
            case = {"accelerator": first_card[stack], "framework": framework.id, "plan": PLANS[plan],
                    "nodes": nodes, "precision": "bf16", "weights": "bf16", "performance": {},
                    "rented": True}  # fmt: skip
            option = CASES.option_of(case)
            for method in framework.methods:
                workload, job = jobs[method]
                texts = launch_texts(option=option, job=job, workload=workload, catalog=catalog,
                                     templates=CASES.templates())  # fmt: skip
                assert len(texts) >= 2
                for path, (text, _executable) in texts.items():
                    assert "<<" not in text.replace("<<<", ""), (framework.id, path)
                    if path.endswith(".yaml"):
                        assert all(isinstance(part, dict) for part in yaml.safe_load_all(text)), text
                    elif path.endswith(".json"):
                        json.loads(text)
                    elif path.endswith(".toml"):
                        tomllib.loads(text)
                made += 1
    assert made > 100


# the templates as data


@pytest.mark.parametrize("tool_name", TEMPLATES)
def test_a_template_names_what_exists(tool_name):
    """Frameworks of the catalog, cards and models in tables, option lists, ISO dates."""
    template = TEMPLATES[tool_name]
    catalog = CASES.catalog()
    assert set(template.frameworks) <= set(catalog.frameworks)
    owners = {
        "accelerator": catalog.accelerators,
        "model_id": catalog.models,
        "framework": catalog.frameworks,
    }
    for table in template.tables.values():
        if table.of in owners:
            assert set(table.values) <= set(owners[table.of])
    for file in template.files:
        assert file.options is None or options_of(file.options)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", read.as_of) for read in template.read)


def test_names_of_rented_accelerators_are_those_of_skypilot():
    """From the list that SkyPilot publishes."""
    names = set(TEMPLATES["skypilot"].tables["sky_name"].values.values())
    assert names <= options_of("skypilot-accelerators")


def test_every_option_list_says_where_and_when_it_was_read():
    """The header of the file."""
    for path in (data_dir() / "launch/options").glob("*.txt"):
        head = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
        assert len(head) >= 2, path.name
        assert re.fullmatch(r"# read \d{4}-\d\d-\d\d", head[-1]), path.name


def test_a_new_tool_is_one_file(tmp_path):
    """An overlay folder adds a tool; nothing else changes."""
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch/mine.yaml").write_text(
        "tool: mine\nname: Mine\nversion: '1'\nrole: engine\nframeworks: [vllm]\njobs: [inference]\n"
        "order: -1\nentry: go.sh\nread: [{title: t, address: a, place: p, as_of: '2026-01-01'}]\n"
        "files:\n  - {path: go.sh, text: 'mine --tp <<tp>>'}\n"
    )
    found = {template.tool for template in load_templates(overlays=(tmp_path,))}
    assert found == {*TEMPLATES, "mine"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("entry: other.sh", "the entry 'other.sh' is none of the files"),
        ("role: settings", "an engine, and only an engine, has an entry"),
        ("bogus: 1", "bogus"),
        ("files: [{path: ../x, text: a}]", "plain name"),
        ("files: [{path: x}]", "either a text or a tree"),
        ("tool: twine", "not the name of the file"),
    ],
)
def test_a_damaged_template_is_one_sentence(tmp_path, line, message):
    """Exit code 3, with file and key."""
    good = {
        "tool": "mine", "name": "Mine", "version": "1", "role": "engine", "entry": "go.sh",
        "read": [{"title": "t", "address": "a", "place": "p", "as_of": "2026-01-01"}],
        "files": [{"path": "go.sh", "text": "a"}],
    }  # fmt: skip
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch/mine.yaml").write_text(yaml.safe_dump(good | yaml.safe_load(line)))
    with pytest.raises(CatalogError, match=r"mine\.yaml") as caught:
        load_templates(folder=tmp_path)
    assert message in str(caught.value)


def test_lines_with_absent_facts_are_left_out():
    """Text and tree alike; a value that is one mark keeps its type."""
    assert fill_text("a <<x>>\nb <<y>>\n<<!y>>c\n<<?x>>d\n", {"x": 1}) == "a 1\nc\nd\n"
    assert fill_tree({"a": "<<x>>", "b": ["<<y>>", "<<x>>!"]}, {"x": 1.5}) == {"a": 1.5, "b": ["1.5!"]}


def test_an_engine_without_its_facts_leaves_the_generic_one():
    """The stand-in is chosen only where nothing else fits."""
    read = [{"title": "t", "address": "a", "place": "p", "as_of": "2026-01-01"}]
    common = {"name": "n", "version": "1", "role": "engine", "entry": "go.sh", "read": read}
    file = FileTemplate(path="go.sh", text="x")
    one = Template(tool="one", frameworks=("vllm",), needs=("tpu",), files=(file,), **common)
    generic = Template(tool="generic", order=99, files=(file,), **common)
    chosen = choose([one, generic], {"framework": "vllm"}, kind="inference")
    assert [template.tool for template, _facts in chosen.templates] == ["generic"]
    chosen = choose([one, generic], {"framework": "vllm", "tpu": True}, kind="inference")
    assert [template.tool for template, _facts in chosen.templates] == ["one"]


# writing


def test_existing_files_are_kept_and_nothing_is_written_beside_them(tmp_path):
    """All or nothing, unless forced."""
    (tmp_path / "b").write_text("mine")
    with pytest.raises(InputError, match="already holds b; --force overwrites"):
        write_folder(tmp_path, {"a": ("1", False), "b": ("2", True)}, force=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b"]
    assert (tmp_path / "b").read_text() == "mine"
    write_folder(tmp_path, {"a": ("1", False), "b": ("2", True)}, force=True)
    assert (tmp_path / "b").read_text() == "2"
    assert (tmp_path / "b").stat().st_mode & 0o111
    assert not (tmp_path / "a").stat().st_mode & 0o111


def test_a_failure_leaves_nothing_behind(tmp_path):
    """A name that cannot be written stops the whole folder."""
    folder = tmp_path / "run"
    with pytest.raises(InputError, match="cannot write"):
        write_folder(folder, {"a": ("1", False), "no/such": ("2", False)}, force=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_way_is_said(tmp_path):
    """--force does not remove folders."""
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        write_folder(tmp_path, {"a": ("1", False)}, force=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"force": True}, "goes with --launch"), ({"launch": "no/such/run"}, "there is no folder")],
)
def test_the_folder_is_checked_first(arguments, message):
    """Before anything is computed."""
    with pytest.raises(InputError, match=message):
        checked_folder(arguments)


def call(capsys, *arguments):
    """The command line in this process."""
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    return leaving.value.code, capsys.readouterr()


def test_estimate_writes_the_files_and_keeps_them(tmp_path, capsys):
    """The flag from end to end; the second run refuses, --force overwrites."""
    workload = ("--task", "finetune", "--model", "llama-3.1-8b", "--method", "lora")
    command = ("estimate", "--on", "4090", *workload, "--launch", str(tmp_path / "run"))
    code, streams = call(capsys, *command)
    assert code == 0
    assert "README.md" in streams.err
    readme = (tmp_path / "run/README.md").read_text(encoding="utf-8")
    assert "Acceptance test" in readme
    code, streams = call(capsys, *command)
    assert code == 2
    assert "already holds README.md" in streams.err
    assert call(capsys, *command, "--force")[0] == 0


def test_nothing_is_written_when_nothing_fits(tmp_path, capsys):
    """Exit 1, and a note."""
    code, streams = call(
        capsys, "estimate", "--on", "4090", "--task", "pretrain", "--params", "70B", "--launch",
        str(tmp_path / "run"),
    )  # fmt: skip
    assert code == 1
    assert "no launch files" in streams.err
    assert not (tmp_path / "run").exists()


def test_recommend_writes_the_first_option(tmp_path, capsys):
    """Its count and card head the README."""
    code, streams = call(
        capsys, "recommend", "--task", "finetune", "--model", "llama-3.1-8b", "--method", "lora", "--gpus",
        "l40s,4090", "--max-count", "1", "--json", "--launch", str(tmp_path / "run"),
    )  # fmt: skip
    assert code == 0
    first = json.loads(streams.out)["recommendations"][0]
    head = (tmp_path / "run/README.md").read_text(encoding="utf-8").splitlines()[0]
    assert head.startswith(f"# {first['count']} × ")
    assert CASES.catalog().accelerators[first["accelerator"]].name in head


def test_stages_that_do_not_divide_are_laid_out_for_megatron():
    """126 layers on 16 stages count embedding and head as layers; 61 on 8 give the layers of both ends."""
    plan = Plan(count=128, tp=1, pp=16, dp=8, virtual=4)
    assert stage_facts(126, plan) == {
        "virtual_many": 4, "virtual_layers": 2, "virtual_even": None, "ends_as_layers": True,
        "first_layers": None, "last_layers": None,
    }  # fmt: skip
    even = stage_facts(32, Plan(count=16, pp=4, dp=4, virtual=4))
    assert (even["virtual_layers"], even["virtual_even"], even["ends_as_layers"]) == (2, True, None)
    plan = Plan(count=64, tp=1, pp=8, dp=8)
    assert stage_facts(61, plan) == {
        "virtual_many": None, "virtual_layers": None, "virtual_even": None, "ends_as_layers": None,
        "first_layers": 7, "last_layers": 6,
    }  # fmt: skip
