"""The answers as JSON against the published schema."""

import json
from importlib import resources

import pytest
from jsonschema import Draft202012Validator

from gpuselect.cli import main

FEW = ("--gpus", "h100,l4,t4,b100")
TRAINING = ("--params", "10B", "--task", "training", "--deadline", "30d")
QUESTIONS = {
    "recommend training": (("recommend", "--params", "10B", "--task", "training"), 0),
    "recommend inference": (
        ("recommend", "--model", "llama-3.1-8b", "--task", "inference", "--concurrency", "16"),
        0,
    ),
    "recommend nothing": (
        ("recommend", "--params", "70B", "--task", "training", "--single-card", "--gpus", "t4"),
        1,
    ),
    "estimate fits": (("estimate", "--model", "llama-3.1-8b", "--task", "serving", "--on", "1xL40S"), 0),
    "estimate no": (("estimate", "--params", "70B", "--task", "training", "--on", "1xT4"), 1),
    "compare cards": (("compare", "a100", "h100", "l4"), 0),
    "compare options": (("compare", "8xh100", "8xmi300x", "--params", "70B", "--task", "serving"), 0),
    "compare frameworks": (("compare", "vllm", "sglang"), 0),
    "explain the first": (("explain", *TRAINING, *FEW), 0),
    "explain another": (("explain", "l4", "--model", "llama-3.1-8b", "--task", "serving", *FEW), 0),
    "explain a rejected one": (("explain", "t4", "--params", "70B", "--task", "training", *FEW), 1),
    "explain one without a price": (("explain", "b100", *TRAINING, *FEW), 0),
    "explain a code": (("explain", "memory-exceeded"), 0),
    "explain an optimisation": (("explain", "mixed-precision"), 0),
}
FLEET = """\
workloads:
  - {name: chat, task: inference, model: llama-3.1-8b, gpus: "h100,l4"}
  - {name: vision, task: inference, model: resnet-50, gpus: "h100,t4"}
  - {name: too-large, task: pretrain, params: 70B, gpus: t4, single_card: true}
"""


@pytest.fixture(scope="module")
def schema():
    """The published schema as the package ships it."""
    text = resources.files("gpuselect.report").joinpath("schema.json").read_text(encoding="utf-8")
    return json.loads(text)


@pytest.fixture
def answer(capsys):
    """Ask the program in this process: exit code and parsed answer."""

    def ask(arguments):
        with pytest.raises(SystemExit) as leaving:
            main([*arguments, "--json", "--quiet"])
        return leaving.value.code, json.loads(capsys.readouterr().out)

    return ask


def test_the_schema_is_valid_and_lets_fields_be_added(schema):
    """A schema of its draft, and no object is closed."""
    Draft202012Validator.check_schema(schema)
    objects = [part for part in schema["$defs"].values() if part.get("type") == "object"]
    assert objects
    assert all(part.get("additionalProperties", True) is not False for part in objects)


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_keep_the_schema(question, schema, answer):
    """Real answers keep the schema of their command."""
    arguments, code = QUESTIONS[question]
    found, payload = answer(arguments)
    assert found == code
    name = "explain_code" if "accelerator" not in payload and arguments[0] == "explain" else arguments[0]
    validator = Draft202012Validator(schema["$defs"][name] | {"$defs": schema["$defs"]})
    assert [error.message for error in validator.iter_errors(payload)] == []
    Draft202012Validator(schema).validate(payload)


def test_a_fleet_keeps_the_schema(schema, answer, tmp_path):
    """With what is served, what is not, and the cover."""
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    _code, payload = answer(["recommend", "--workloads", str(file)])
    assert payload["unserved"] == ["too-large"]
    Draft202012Validator(schema).validate(payload)
    broken = payload | {"fewest_kinds": payload["fewest_kinds"] | {"accelerators": "h100"}}
    assert not Draft202012Validator(schema).is_valid(broken)


def test_the_schema_refuses_a_broken_answer(schema, answer):
    """A wrong type, a missing field and another version are refused."""
    _code, payload = answer(QUESTIONS["estimate fits"][0])
    validator = Draft202012Validator(schema)
    assert not validator.is_valid(payload | {"fits": "yes"})
    assert not validator.is_valid({key: payload[key] for key in payload if key != "memory"})
    assert not validator.is_valid(payload | {"schema_version": 2})


def test_every_accelerator_is_considered(answer):
    """`considered` holds one entry for every accelerator of the catalog."""
    from gpuselect.readers.catalog import load_catalog

    _code, payload = answer(QUESTIONS["recommend training"][0])
    assert {entry["accelerator"] for entry in payload["considered"]} == set(load_catalog().accelerators)
