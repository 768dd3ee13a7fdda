"""Reading a workload: names, spellings, notes, and refusals that show the way."""

from pathlib import Path

import pytest

from gpuselect.errors import InputError
from gpuselect.quantities import Money, Params
from gpuselect.readers.workload import parse_workload_text, read_workload
from gpuselect.workload import RECOMPUTE_LEVELS, Workload, pins


def read(**keys):
    """A workload with the given keys."""
    return Workload.from_mapping({"task": "inference", **keys})


@pytest.mark.parametrize(
    ("word", "task"),
    [
        ("training", "pretrain"),
        ("Pre-Training", "pretrain"),
        ("serving", "inference"),
        ("fine-tuning", "finetune"),
        ("fine tune", "finetune"),
        ("推理", "inference"),
    ],
)
def test_task_names(word, task):
    """Usual words mean the three tasks."""
    assert Workload.from_mapping({"task": word}).task == task


def test_unknown_tasks_are_refused_with_the_list():
    """A task that does not exist is refused with those that do."""
    with pytest.raises(InputError, match="pretrain, finetune, inference, video, hpc"):
        Workload.from_mapping({"task": "rendering"})


def test_cameras_in_one_word():
    """Streams carry their resolution and rate, and make the task video."""
    work = Workload.from_mapping({"streams": "16 cameras 1080p@25", "codec": "HEVC"})
    assert (work.task, work.streams, tuple(work.resolution), work.fps, work.codec) == (
        "video", 16, (1920, 1080), 25.0, "h265",
    )  # fmt: skip


def test_contradicting_stream_rates_are_refused():
    """A rate given twice with two values is an error, not the last one."""
    with pytest.raises(InputError, match="contradicts"):
        Workload.from_mapping({"streams": "16 @25", "fps": 30})


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("params", "30B-A3B", Params(30e9, 3e9)),
        ("tokens", "200B", 200e9),
        ("seq_len", 4096, 4096),
        ("global_batch", "1024", 1024),
        ("deadline", "30d", 2_592_000.0),
        ("request_rate", "5/s", 5.0),
        ("ttft", "500ms", 0.5),
        ("tpot", "50ms", 0.05),
        ("budget", "$10k/month", Money(10e3, "month")),
        ("utilization", "60%", 0.6),
        ("years", "3 years", 3.0),
        ("peak_factor", "3x", 3.0),
        ("have", "3x3090", ((3, "3090"),)),
        ("have", ["3x3090", "8xH100"], ((3, "3090"), (8, "H100"))),
        ("gpus", "h100, a100", ("h100", "a100")),
        ("gpus", ["h100", 4090], ("h100", "4090")),
        ("vendors", "NVIDIA", ("nvidia",)),
        ("max_count", "单机8卡", 8),
        ("max_power_w", "<=75W", 75.0),
        ("single_card", "yes", True),
        ("ecc", False, False),
        ("method", "QLoRA", "qlora"),
        ("precision", "bfloat16", "bf16"),
        ("weights", "int4-awq", "int4-awq"),
        ("recompute", "full", "full"),
        ("zero_stage", 0, 0),
        ("params", None, None),
    ],
)
def test_values_are_normalised(key, text, value):
    """Flags and files accept what people write; the field holds the number."""
    assert getattr(read(**{key: text}), key) == value


@pytest.mark.parametrize(
    ("key", "text", "other", "value"),
    [
        ("latency", "p95<200ms", "percentile", "p95"),
        ("samples", "3 epochs of 50k samples", "epochs", 3.0),
        ("weights", {"cost": 0.5, "speed": 0.5}, "criterion_weights", {"cost": 0.5, "speed": 0.5}),
        ("weights", "cost=0.7,speed=0.3", "criterion_weights", {"cost": 0.7, "speed": 0.3}),
    ],
)
def test_one_text_may_say_two_keys(key, text, other, value):
    """What a value says about another key is kept."""
    assert getattr(read(**{key: text}), other) == value


def test_active_params_join_the_size():
    """`active_params` and the A form are one thing."""
    assert read(params="30B", active_params="3B").params == Params(30e9, 3e9)


@pytest.mark.parametrize(
    "keys",
    [
        {"params": "30B-A3B", "active_params": "4B"},
        {"params": "3B", "active_params": "30B"},
        {"latency": "p95<1s", "percentile": "p99"},
        {"samples": "3 epochs of 50k", "epochs": 2},
    ],
)
def test_contradictions_are_refused(keys):
    """Two keys may not say different things."""
    with pytest.raises(InputError):
        read(**keys)


def test_ambiguity_is_noted_once_with_its_key():
    """Each reading that could have been another is a note."""
    notes = read(seq_len="8k", params="8x7b", budget="3000", ttft=1, have="2x8 H200").parse_notes
    assert [note.split(":")[0] for note in notes] == ["seq_len", "params", "budget", "ttft", "have"]
    assert read(params="7B", seq_len=8192).parse_notes == ()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"parms": "7B"}, "parms: no such key, did you mean params?"),
        ({"prefer": "balance"}, "did you mean balanced?"),
        ({"precision": "bf61"}, "did you mean bf16?"),
        ({"method": "loar"}, "did you mean lora?"),
        ({"params": "big"}, "params: 'big' is not a model size"),
        ({"tp": 0}, "tp: 0 is not a whole number"),
        ({"tp": True}, "tp: True is not a count"),
        ({"zero_stage": 4}, "0-3"),
        ({"ecc": "maybe"}, "ecc: 'maybe' is neither true nor false"),
        ({"have": "单机8卡"}, "names no card"),
        ({"budget": "0.12 USD/kWh"}, "not a budget"),
        ({"seq-len": 1, "seq_len": 2}, "seq_len: given twice"),
        ({"weights": {"cost": 0}}, "no weight above 0"),
        ({"weights": "cost=,speed"}, "criterion_weights"),
        ({"params": ["7B"]}, "params"),
    ],
)
def test_refusals(keys, message):
    """The message names the key and what is allowed."""
    with pytest.raises(InputError) as error:
        read(**keys)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("given", "task"),
    [
        ({"params": "7B"}, "inference"),
        ({"params": "7B", "tokens": "1B"}, "pretrain"),
        ({"params": "7B", "method": "lora", "tokens": "1B"}, "finetune"),
    ],
)
def test_a_missing_task_is_read_from_the_other_keys_and_said(given, task):
    """Without a task the keys that belong to one decide, and the answer says so."""
    workload = Workload.from_mapping(given)
    assert workload.task == task
    assert any(task in note for note in workload.parse_notes)


def test_pins_are_what_was_given():
    """Only given parts of the plan are fixed; recompute is its level."""
    assert pins(read()) == {}
    assert pins(read(tp=8, zero_stage=0, recompute="selective")) == {
        "tp": 8,
        "zero_stage": 0,
        "recompute": 1,
    }


def test_recompute_levels_agree_with_the_plan():
    """Workload and plan count the levels alike."""
    plan = pytest.importorskip("gpuselect.plan")
    assert plan.RECOMPUTE == RECOMPUTE_LEVELS


def test_a_workload_is_frozen():
    """Nobody changes what was asked."""
    with pytest.raises(ValueError, match="frozen"):
        read().task = "pretrain"


def test_file_is_read_like_flags(tmp_path: Path):
    """A file has one key per flag, with the same spellings."""
    path = tmp_path / "work.yaml"
    path.write_text("task: training\nparams: 10B\nseq_len: 4k\nhave: [8xH100]\n", encoding="utf-8")
    work = read_workload(path)
    assert work == Workload.from_mapping(
        {"task": "training", "params": "10B", "seq_len": "4k", "have": "8xH100"}
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: training\nparams: 7B\nparams: 8B\n", "w.yaml:3:1: params is given twice"),
        ("task: training\n\nparms: 7B\n", "w.yaml:3:1: parms: no such key"),
        ("task: training\nseq-len: long\n", "w.yaml:2:1: seq_len: 'long'"),
        ("task: training\nweights: {cost: 1, cost: 2}\n", "w.yaml:2:20: cost is given twice"),
        ("task: [\n", "w.yaml:"),
        ("- a\n", "expected lines such as `task: pretrain`"),
        ("", "expected lines such as `task: pretrain`"),
        ("task: &a !!python/object:os.system x\n", "w.yaml:1:"),
    ],
)
def test_file_errors_name_the_line(text, message):
    """Where a file is wrong is said with file, line and key."""
    with pytest.raises(InputError) as error:
        parse_workload_text(text, name="w.yaml")
    assert message in str(error.value)


def test_missing_file():
    """A file that cannot be read is an input error."""
    with pytest.raises(InputError, match="cannot read"):
        read_workload(Path("no-such-file.yaml"))
