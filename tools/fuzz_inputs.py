"""Inputs for tools/fuzz.py: flags, workload files, overlays, measured rows, models and settings.

Each generator takes a seeded source of chance and an empty folder, and gives a command line.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
CARDS = (
    "t4-16gb", "a100-sxm4-80gb", "rtx-3090-24gb", "h100-sxm5-80gb", "l4-24gb", "jetson-agx-orin-64gb",
    "mi300x-192gb", "gaudi3-128gb", "tpu-v5e", "apple-m3-max-128gb", "ascend-910b1-64gb",
)  # fmt: skip
COMMANDS = ("recommend", "estimate", "compare", "report", "list", "show", "explain", "config", "completion")
FORMS = ("table", "json", "markdown", "csv")
TASKS = ("pretrain", "finetune", "inference", "video", "hpc", "training", "serving")
USUAL = (
    "7B", "10B", "30B-A3B", "8x7b", "70亿", "200B", "4096", "8k", "1024", "30d", "2 weeks", "500ms",
    "p95<200ms",
    "$2/h", "$10k/month", "€500", "2x3090", "8xH100", "8卡A100", "h100,a100", "bf16", "fp8", "int4-awq",
    "lora", "qlora", "full", "rent", "buy", "any", "eu", "60%", "0.6", "3", "16 cameras 1080p@25", "h265",
    "1e18", "1PB", "cost", "balanced", "llama-3.1-8b", "resnet-50", "bert-large", "yolo11", "true", "no",
    "none", "selective", "cost=0.5,speed=0.5", "vllm", "adamw", "2GiB", "5/s", "10M tokens/day", "nvidia",
)  # fmt: skip
ODD = (
    "", " ", "0", "-1", "1e400", "nan", "inf", "-inf", "1e-300", "9" * 40, "0.0", "0xH100", "100000xH100",
    "💥", "0x10", "\x00", "\x1b[31m", "\r\n",
    "卡", "=1+1", "../../etc/passwd", "/dev/null", "[]", "{}", "a=b=c",
    ",,,", "=", "%s", "{0}", "{x!r}", "--", "-", "-h", "x" * 5000, "\udcff", "½B", "１０Ｂ", "1,000", "1.5.2",
    "1/0", "p101<1s", "p-1<1s", "$-5/h", "$/h", "0d", "1e30d", "0x0", "None", "null", "~", "1__0", "²",
)  # fmt: skip
OUTPUTS = (*["out.md"] * 9, *["out.json"] * 9, "out.html", "no/out.md", "out.txt")
FILES = (
    "gpus.yaml", "models.yaml", "frameworks.yaml", "prices.csv", "prices.yaml", "defaults.yaml",
    "sources.yaml", "regions.csv", "systems.yaml", "profiles.yaml",
)  # fmt: skip
YAML_BITS = (
    "&a",
    "*a", "!!python/object:os.system", "!!set", "!x", "? ", "- ", "{", "[", "]", "}", "|", ">", "\t", ": ",
    "\x00", "---\n", "...\n", "%YAML 9.9\n", "<<: *a\n", "2026-99-99", "1e999", "0o17", "1:30:00", "'", '"',
    "#", "\u2028", "\ufeff", "[" * 200, "yes", "~", "\n  ", "\n", "task", "!!binary aGk=", ".nan", "-.inf",
)  # fmt: skip


def value(rng: random.Random) -> str:
    """A value as a person, a program or a cat would type it."""
    text = rng.choice(USUAL if rng.random() < 0.7 else ODD)
    return mutated(text, rng, ODD) if rng.random() < 0.15 else text


def mutated(text: str, rng: random.Random, bits: Sequence[str]) -> str:
    """A text with one to four changes: cut, doubled, swapped, or with a bit of something else in it."""
    for _change in range(rng.randint(1, 4)):
        at, to = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
        match rng.randrange(4):
            case 0:
                text = text[:at] + text[to:]
            case 1:
                text = text[:to] + text[at:to][:200] + text[to:]
            case 2:
                text = text[:at] + rng.choice(bits) + text[at:]
            case _:
                text = text[:at] + chr(rng.randint(1, 0x2FF)) + text[at + 1 :]
    return text


def workload_keys() -> list[str]:
    """Names of the keys of a workload."""
    from gpuselect.workload import Workload

    return [name for name in Workload.model_fields if name != "parse_notes"]


def sensible(rng: random.Random) -> dict[str, str]:
    """A workload that is mostly right: the way to the code behind the parser."""
    task = rng.choice(TASKS)
    work = {"task": task}
    if task == "video":
        work |= {"streams": rng.choice(("4", "16 cameras 1080p@25"))}
    elif task == "hpc":
        work |= {"flops": rng.choice(("1e18", "1e15")), "bytes": rng.choice(("1PB", "1TB"))}
    elif rng.random() < 0.6:
        work["params"] = rng.choice(("7B", "70B", "30B-A3B", "1B", "0.1B", "400B"))
    else:
        work["model"] = rng.choice(("llama-3.1-8b", "deepseek-v3", "resnet-50", "bert-large", "sdxl", "nope"))
    for key in rng.sample(workload_keys(), rng.randint(0, 3)):
        work[key] = value(rng)
    return work


def flag_case(rng: random.Random, where: Path) -> tuple[str, ...]:
    """A command line: mostly a sensible question with some odd flags."""
    command = rng.choice(("recommend", "recommend", "estimate", "report", "compare"))
    work = sensible(rng)
    words = [w for key, text in work.items() for w in (f"--{key.replace('_', '-')}", text)]
    if command == "estimate":
        words += ["--on", rng.choice(("8xH100", "a100", "2x8 h100", "4xt4", value(rng)))]
    if command == "compare":
        words = [*rng.choices((*CARDS, "h100", "a100", value(rng)), k=rng.randint(0, 3)), *words]
    if (command in ("recommend", "report") and rng.random() < 0.5) or command == "report":
        words += [
            "-o",
            str(where / rng.choice(OUTPUTS)),
        ]
    if rng.random() < 0.5 and command != "report":
        words += ["--format", rng.choice((*FORMS, value(rng)))]
    if rng.random() < 0.05 and command in ("recommend", "estimate"):
        words += ["--launch", str(where / "run")]
    if rng.random() < 0.1:
        words.insert(rng.randint(0, len(words)), value(rng))
    return (command, *words)


def other_case(rng: random.Random, where: Path) -> tuple[str, ...]:  # noqa: ARG001  one form for all
    """Any command with any words."""
    words = [rng.choice((*COMMANDS, "doctor", "nonsense")), *(value(rng) for _n in range(rng.randint(0, 3)))]
    names = ("accelerators", "models", "rules", "h100", "show", "bash", "memory-exceeded", "prices")
    words += rng.choices(names, k=rng.randint(0, 2))
    if rng.random() < 0.5:
        words += [rng.choice(("--filter", "--format", "--kind", "--vendor", "--color", "-h")), value(rng)]
    return tuple(words)


def workload_case(rng: random.Random, where: Path) -> tuple[str, ...]:
    """A workload file, often damaged."""
    work: dict[str, Any] = dict(sensible(rng))
    if rng.random() < 0.3:
        work[rng.choice(workload_keys())] = rng.choice(
            ([], {}, None, True, 0, -1, 1.5, float("nan"), ["a", 1], {"a": {"b": []}}, 10**400)
        )
    text = yaml.safe_dump(work, allow_unicode=True)
    if rng.random() < 0.5:
        text = mutated(text, rng, YAML_BITS)
    path = where / "work.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass") if rng.random() < 0.95 else rng.randbytes(200))
    return ("recommend", "--workload", str(path), "--format", rng.choice(("table", "json")))


def overlay_case(rng: random.Random, where: Path) -> tuple[str, ...]:
    """A folder of figures and prices of one's own, often damaged."""
    folder = where / "mine"
    folder.mkdir()
    name = rng.choice(FILES)
    text = _sample(name, rng)
    bits = (*YAML_BITS, *ODD, ",", '"')
    for _time in range(rng.randint(0, 2)):
        text = mutated(text, rng, bits)
    (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    command = rng.choice((
        ("list", "accelerators"), ("list", "prices"), ("list", "models"), ("list", "regions"),
        ("show", "h100"),
        ("recommend", "--task", "inference", "--params", "7B"), ("doctor",),
    ))  # fmt: skip
    return (*command, "--catalog", str(folder), "--format", "json")


def _sample(name: str, rng: random.Random) -> str:
    """A few entries or rows of a real file."""
    if name == "prices.yaml":
        return "- {hardware: t4-16gb, kind: rent, price: 0.4, as_of: 2026-11-01, source: letter}\n"
    path = ROOT / "data" / name
    text = path.read_text(encoding="utf-8") if path.is_file() else "a: 1\n"
    if name.endswith(".csv"):
        lines = text.splitlines(keepends=True)
        return lines[0] + "".join(rng.sample(lines[1:], 3))
    if text.startswith("- ") or "\n- id:" in text:
        entries = ("\n" + text).split("\n- ")[1:]
        return "- " + "\n- ".join(rng.sample(entries, min(2, len(entries)))) + "\n"
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    return "".join(lines[at : at + 30])


def csv_case(rng: random.Random, where: Path) -> tuple[str, ...]:
    """Measured rows, often damaged."""
    path = ROOT / "data/measurements" / rng.choice(("training.csv", "inference.csv", "memory_reference.csv"))
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        header = next(reader)
        rows = [row for number, row in enumerate(reader) if number < 300]
    chosen = [list(row) for row in rng.sample(rows, 3)]
    for _cell in range(rng.randint(0, 6)):
        rng.choice(chosen)[rng.randrange(len(header))] = value(rng)
    text = io.StringIO()
    csv.writer(text).writerows([header, *chosen])
    raw = text.getvalue()
    if rng.random() < 0.3:
        raw = mutated(raw, rng, (*ODD, ",", '"', "\n", "\x00", '"""'))
    (where / "rows.csv").write_bytes(raw.encode("utf-8", "surrogatepass"))
    return ("validate", str(where / "rows.csv"), "--csv", str(where / "out.csv"), "--json")


def model_case(rng: random.Random, where: Path) -> tuple[str, ...]:
    """A model's configuration or weights, often damaged."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16",
        "tie_word_embeddings": False, "max_position_embeddings": 8192,
    }  # fmt: skip
    for _change in range(rng.randint(0, 3)):
        key = rng.choice([*config, "num_local_experts", "quantization_config", "head_dim", "text_config"])
        config[key] = rng.choice((0, -1, None, "x", 1e308, 10**30, [], {}, [1], True, 1.5, float("inf")))
    raw = json.dumps(config).encode()
    suffix = rng.choice((".json", ".json", ".safetensors", ".gguf", ".onnx"))
    if suffix == ".safetensors":
        head = json.dumps(
            {"a": {"dtype": "BF16", "shape": [4096, 4096], "data_offsets": [0, 33554432]}}
        ).encode()
        raw = len(head).to_bytes(8, "little") + head
    if suffix == ".gguf":
        raw = b"GGUF" + (3).to_bytes(4, "little") + rng.randbytes(60)
    if rng.random() < 0.5:
        at = rng.randrange(len(raw))
        raw = raw[:at] + rng.randbytes(rng.randint(0, 8)) + raw[at + rng.randint(0, 8) :]
    path = where / f"config{suffix}"
    path.write_bytes(raw)
    return ("recommend", "--task", rng.choice(TASKS), "--model", str(path), "--format", "json")


def config_case(rng: random.Random, where: Path) -> tuple[str, ...]:
    """A file of settings, often damaged."""
    key = rng.choice([*workload_keys(), "format", "color", "wide", "catalog", "nonsense"])
    literal = rng.choice(
        (json.dumps(value(rng)), "1", "true", "[1, 2]", "{a = 1}", "1e999", "nan", "2026-01-01")
    )
    text = (
        mutated(f"{key} = {literal}\n", rng, ('"', "[", "=", "\n"))
        if rng.random() < 0.3
        else f"{key} = {literal}\n"
    )
    (where / "settings.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    os.environ["GPUSELECT_CONFIG"] = str(where / "settings.toml")
    return rng.choice((("config", "show"), ("recommend", "--task", "inference", "--params", "7B")))


KINDS: dict[str, tuple[Callable[[random.Random, Path], tuple[str, ...]], int]] = {  # with their share
    "flags": (flag_case, 8), "workload": (workload_case, 5), "overlay": (overlay_case, 3),
    "csv": (csv_case, 2), "model": (model_case, 2), "other": (other_case, 3), "config": (config_case, 1),
}  # fmt: skip
