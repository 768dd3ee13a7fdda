"""Hand launch files to the real loaders of the tools; runs in the environment that `make launch-check` makes.

python tools/launch_loaders.py DIR              every folder of DIR is one case of launch_cases.py --write
python tools/launch_loaders.py DIR --page FILE  also writes what each loader said as a page

Accelerate, DeepSpeed and SkyPilot read their configuration; torchrun, accelerate launch and deepspeed
parse the arguments that the scripts hand them; manifests are held against the schema of Kubernetes.
Exit 1 with one line for each file that a loader refuses.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

KUBERNETES = "1.37"
STUB = """#!/usr/bin/env bash
printf '%s\\0' "$@" > "$SEEN/$(basename "$0").$RANDOM"
"""
PROGRAMS = ("torchrun", "deepspeed", "accelerate")
ENVIRONMENT = {
    "MASTER_ADDR": "10.0.0.1", "NODE_RANK": "0", "MEGATRON": "/opt/megatron", "MODEL": "model",
    "HOSTFILE": "hostfile", "SCRIPT": "train.py",
}  # fmt: skip


def accelerate_yaml(path: Path) -> str:
    """Accelerate's own reader: unknown keys are an error there."""
    from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file

    config = load_config_from_file(str(path))
    if not isinstance(config, ClusterConfig):
        raise TypeError(type(config))
    return f"{config.distributed_type}, {config.num_processes} processes, {config.mixed_precision}"


def deepspeed_json(path: Path) -> str:
    """DeepSpeed's own configuration, with the widths that its batch equation needs."""
    from deepspeed.runtime import config as reader

    raw = json.loads(path.read_text(encoding="utf-8"))
    if raw["train_batch_size"] == "auto":
        raw |= {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1,
                "gradient_clipping": 1.0}  # fmt: skip  # what the Trainer puts in
    width = raw["train_batch_size"] // (
        raw["train_micro_batch_size_per_gpu"] * raw["gradient_accumulation_steps"]
    )

    class Ranks:
        """What DeepSpeed asks a model-parallel unit."""

        @staticmethod
        def get_data_parallel_world_size() -> int:
            return int(width)

    reader.dist.get_rank = lambda: 0  # no process group here
    config = reader.DeepSpeedConfig(raw, mpu=Ranks())
    return f"batch {config.train_batch_size}, ZeRO {int(config.zero_optimization_stage)}"


def skypilot_yaml(path: Path) -> str:
    """SkyPilot's own task: schema, names of accelerators, ports."""
    import sky

    task = sky.Task.from_yaml(str(path))
    return f"{task.num_nodes} x {min(str(r.accelerators) for r in task.resources)}"


def kubernetes_yaml(path: Path) -> str:
    """Each manifest against the published schema, strictly: unknown keys are an error."""
    from kubernetes_validate import validate

    kinds = []
    for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        validate(manifest, KUBERNETES, strict=True)
        kinds.append(manifest["kind"])
    return ", ".join(kinds)


def parsed(program: str, arguments: list[str]) -> str:
    """Arguments of a program, by its own parser."""
    if program == "torchrun":
        from torch.distributed.run import get_args_parser

        found: Any = get_args_parser().parse_args(arguments)
        return f"nnodes {found.nnodes}, nproc-per-node {found.nproc_per_node}"
    if program == "accelerate":
        from accelerate.commands.launch import launch_command_parser

        found = launch_command_parser().parse_args(arguments[1:])
        return f"config_file {found.config_file}"
    from deepspeed.launcher.runner import parse_args

    found = parse_args(arguments)
    return f"num_nodes {found.num_nodes}, num_gpus {found.num_gpus}"


def script(path: Path) -> str:
    """Run a start script with stand-ins for the programs, and parse what they were given."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        for program in PROGRAMS:
            (place / program).write_text(STUB, encoding="utf-8")
            (place / program).chmod(0o755)
        seen = place / "seen"
        seen.mkdir()
        path_of = f"{scratch}:{os.environ['PATH']}"
        environment = {**os.environ, **ENVIRONMENT, "PATH": path_of, "SEEN": str(seen)}
        subprocess.run(["bash", str(path)], check=True, env=environment, capture_output=True)  # noqa: S603, S607
        said = []
        for call in sorted(seen.iterdir()):
            arguments = call.read_text(encoding="utf-8").split("\0")[:-1]
            said.append(f"{call.stem}: {parsed(call.stem, arguments)}")
        return "; ".join(said)


LOADERS: dict[str, Callable[[Path], str]] = {
    "accelerate.yaml": accelerate_yaml,
    "ds_config.json": deepspeed_json,
    "llama_factory_ds.json": deepspeed_json,
    "skypilot.yaml": skypilot_yaml,
    "kubernetes.yaml": kubernetes_yaml,
    "launch.sh": script,
    "accelerate.sh": script,
}


def checked(path: Path) -> Iterator[tuple[bool, str]]:
    """Whether the loader of a file accepts it, and what it said."""
    loader = LOADERS.get(path.name)
    starts = any(f"exec {program} " in path.read_text(encoding="utf-8") for program in PROGRAMS)
    if loader is None or (loader is script and not starts):
        return
    noise = io.StringIO()
    try:
        with contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
            said = loader(path)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a loader may fail in any way
        yield False, f"{type(error).__name__}: {str(error)[:300]}; {noise.getvalue()[-300:]}"
    else:
        yield True, said


TEN = {
    "pretrain-10b-64-h100": "Pretraining of a 10B model on 64 H100",
    "qlora-70b-2-a6000": "QLoRA of a 70B model on two cards of 48 GB",
    "lora-8b-4090": "LoRA of an 8B model on one RTX 4090",
    "resnet-50-8-v100": "Training of ResNet-50 on eight V100",
    "deepseek-v3-8-h200": "Serving of DeepSeek-V3 on eight H200",
    "70b-awq-one-80gb": "Serving of a 70B model in AWQ on one card of 80 GB",
    "llm-orin-nano": "A small model on an Orin Nano",
    "8b-tpu-v5e": "Serving of an 8B model on TPU v5e",
    "70b-mi300x": "Serving of a 70B model on MI300X",
    "30-cameras-t4": "Thirty cameras on T4",
}
TEMPLATES = Path(__file__).resolve().parents[1] / "data/launch"
PACKAGES = ("accelerate", "deepspeed", "skypilot", "kubernetes-validate", "torch")
NAMES = {
    accelerate_yaml: "Accelerate, `load_config_from_file`", deepspeed_json: "DeepSpeed, `DeepSpeedConfig`",
    skypilot_yaml: "SkyPilot, `Task.from_yaml`",
    kubernetes_yaml: f"schema of Kubernetes {KUBERNETES}, strict",
    script: "parser of the program that the script starts",
}  # fmt: skip
INTRO = """# What the loaders said

Written by `make launch-check`. The launch files of the cases in `tests/cases/launch.yaml` went through the
tools' own readers on {day}: {packages} (CPU).
**{accepted} files accepted, {refused} refused.** Nothing was started on accelerators.

A file whose tool is not installed there is held, option by option, against a list that was read in the tool
at the version and on the day shown (`data/launch/options`); every test run does that, and refuses an option
that is not in the list. "Syntax only" is a short script that starts another file of its folder.
"""
Verdict = tuple[bool, str]


def listed() -> set[tuple[str, str]]:
    """Tool with version, and file, of the templates whose options are held against a recorded list."""
    found = set()
    for path in sorted(TEMPLATES.glob("*.yaml")):
        template = yaml.safe_load(path.read_text(encoding="utf-8"))
        tool = f"{template['name']} {template['version']}"
        found |= {(tool, part["path"]) for part in template["files"] if part.get("options")}
    return found


def recorded(folder: Path, lists: set[tuple[str, str]]) -> dict[str, str]:
    """Where the options of each file were read, from the table of the README in its folder."""
    found = {}
    for line in (folder / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 4 and (cells[1], cells[0]) in lists:
            found[cells[0]] = f"recorded options of {cells[1]}, read {cells[3]}"
    return found


def page(folders: Sequence[Path], verdicts: dict[Path, Verdict]) -> str:
    """What was said of every file, the ten workloads first."""
    good = sum(accepted for accepted, _said in verdicts.values())
    packages = ", ".join(f"{name} {version(name).partition('+')[0]}" for name in PACKAGES)
    day = datetime.now(tz=UTC).date().isoformat()
    parts = [INTRO.format(packages=packages, day=day, accepted=good, refused=len(verdicts) - good)]
    known = listed()
    order = [*TEN, *sorted(folder.name for folder in folders if folder.name not in TEN)]
    for name in order:
        folder = next(folder for folder in folders if folder.name == name)
        lists = recorded(folder, known)
        lines = [f"\n## {TEN.get(name, name)}\n", "| file | checked against | said |", "|---|---|---|"]
        for path in sorted(folder.iterdir()):
            if path.name == "README.md":
                continue
            if path in verdicts:
                accepted, said = verdicts[path]
                shown = ("accepted: " if accepted else "**refused**: ") + said
                lines.append(f"| {path.name} | {NAMES[LOADERS[path.name]]} | {shown.replace('|', '/')} |")
            else:
                lines.append(f"| {path.name} | {lists.get(path.name, 'syntax only')} | |")
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def main() -> int:
    """Check every file below the folder given."""
    os.environ.setdefault("SKYPILOT_DISABLE_USAGE_COLLECTION", "1")
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    root, *rest = sys.argv[1:]
    folders = sorted(path for path in Path(root).iterdir() if path.is_dir())
    verdicts: dict[Path, Verdict] = {}
    for path in (path for folder in folders for path in sorted(folder.iterdir())):
        for good, said in checked(path):
            verdicts[path] = good, said
            print(f"{'ok  ' if good else 'FAIL'} {path.parent.name}/{path.name}: {said}")
    accepted = sum(good for good, _said in verdicts.values())
    print(f"{accepted} accepted, {len(verdicts) - accepted} refused")
    if rest[:1] == ["--page"]:
        Path(rest[1]).write_text(page(folders, verdicts), encoding="utf-8")
    return 1 if accepted < len(verdicts) or not accepted else 0


if __name__ == "__main__":
    sys.exit(main())
