"""Hand launch files to the real loaders of the tools; runs in the environment that `make launch-check` makes.

python tools/launch_loaders.py DIR     every folder of DIR is one case of tools/launch_cases.py --write

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
from collections.abc import Callable, Iterator
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


def main() -> int:
    """Check every file below the folder given."""
    os.environ.setdefault("SKYPILOT_DISABLE_USAGE_COLLECTION", "1")
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    refused = accepted = 0
    for path in sorted(Path(sys.argv[1]).glob("*/*")):
        for good, said in checked(path):
            accepted += good
            refused += not good
            print(f"{'ok  ' if good else 'FAIL'} {path.parent.name}/{path.name}: {said}")
    print(f"{accepted} accepted, {refused} refused")
    return 1 if refused or not accepted else 0


if __name__ == "__main__":
    sys.exit(main())
