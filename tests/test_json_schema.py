"""The answers as JSON against the published schema."""

import json
from importlib import resources

import pytest
from jsonschema import Draft202012Validator

from gpuselect.cli import main

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
}


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
    validator = Draft202012Validator(schema["$defs"][arguments[0]] | {"$defs": schema["$defs"]})
    assert [error.message for error in validator.iter_errors(payload)] == []
    Draft202012Validator(schema).validate(payload)


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
