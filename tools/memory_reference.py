"""Count the peak memory of one training step of published architectures, to the byte, without an accelerator.

    python tools/memory_reference.py -o FILE.csv           every case of memory_cases.py
    python tools/memory_reference.py -o FILE.csv llama vit      the cases of these architectures
    python tools/memory_reference.py --check 10            recount that many rows of memory_reference.csv

A development tool, not part of the checks: it needs torch (the CPU build does), transformers and peft, and
diffusers for the UNet, which the project does not. They are imported where they are used. Nothing is computed
and nothing is downloaded: tensors are fake (FakeTensorMode), that is they have a shape and no content, and
PyTorch's MemTracker adds up what lives. Cases that need values (`real=1`: an expert loop that looks at the
routing) run on real tensors of small shapes, with a fixed seed.

Conventions, those of data/measurements/memory_reference.csv (`--check` recounts its rows):

- the second step counts: gradients were set to None, optimizer states exist;
- bf16: all in bf16; amp-bf16: fp32 weights, forward and loss under autocast; fp32;
- AdamW one tensor at a time (foreach=False), SGD with momentum 0.9;
- labels are the inputs, no cache of keys and values, no attention mask is given, logits of all tokens; the
  logits live until the backward pass is over; the inputs themselves are not counted;
- recompute full: gradient checkpointing of each layer, without re-entrance;
- SDPA on CPU tensors. Fake tensors make the library keep a mask, and with it expand grouped keys and values;
  steps on real tensors do neither (`mask=none`);
- LoRA: peft, all linear layers but the head, fp32 adapters on a bf16 base (peft's default); inputs require
  gradients under recompute. `base=bf16` under autocast is what the usual trainer runs.

The column `note` holds what the other columns cannot say, as `name=value` words.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import memory_models as models
from memory_cases import Case, cases

DATA = Path(__file__).parents[1] / "data" / "measurements"
GIB = 2.0**30
SIZES = ("peak_gib", "param_gib", "grad_gib", "opt_gib", "act_gib", "temp_gib")
COLUMNS = (
    "ref_id", "arch", "n_layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "image", "batch", "seq",
    "recompute", "precision", "optimizer", "method", "lora_rank", "params_b", "trainable_b", *SIZES,
    "torch", "transformers", "note",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Count:
    """What a step holds [B]: at its peak, by kind, and at the peaks of its phases."""

    params: int
    trainable: int
    kinds: Mapping[str, int]  # at the peak: total, and each kind of MemTracker
    phases: tuple[int, ...]  # what waits for the backward pass; peaks of forward, backward and optimizer


def count(case: Case) -> Count:
    """Build the model of a case, run one step, and count the second one.

    Raises whatever the libraries raise where a model does not run on fake tensors.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.manual_seed(0)
    module = models.module_of(case)
    fake = contextlib.nullcontext() if case.extra.get("real") else FakeTensorMode()
    with models.adapted_library(case), fake:
        models.materialise(module)
        optimizer = _optimizer(case, module)
        step = models.step_of(case, module)
        _run(case, step).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return _second_step(case, module, optimizer, step)


def _optimizer(case: Case, module: Any) -> Any:
    import torch

    trainable = [p for p in module.parameters() if p.requires_grad]
    if case.optimizer == "sgd":
        return torch.optim.SGD(trainable, lr=1e-3, momentum=0.9, foreach=False)
    return torch.optim.AdamW(trainable, lr=1e-5, foreach=False)


def _run(case: Case, step: Callable[[], Any]) -> Any:
    """Forward pass and loss, under autocast where the precision says so."""
    import torch

    with torch.autocast("cpu", torch.bfloat16, enabled=case.precision == "amp-bf16"):
        return step()


def _tracker() -> Any:
    """MemTracker with the peak of a phase, and without those of each module, which take most of its time."""
    from torch.distributed._tools.mem_tracker import MemTracker

    class Tracker(MemTracker):
        """Keeps `peak`, the largest snapshot since it was last emptied."""

        def __init__(self) -> None:
            super().__init__()
            self.peak: dict[str, int] = {}

        def now(self) -> dict[str, int]:
            """Bytes by kind of the one device."""
            (kinds,) = self._curr_mem_snap.values()
            return {getattr(kind, "value", str(kind)): size for kind, size in kinds.items()}

        def _update_peak_stats(self, peak_state: Any) -> None:  # noqa: ARG002  the signature is torch's
            (kinds,) = self._curr_mem_snap.values()
            if kinds["Total"] > self.peak.get("Total", 0):
                self.peak = self.now()

        def take_peak(self) -> dict[str, int]:
            """The peak, which starts anew."""
            taken, self.peak = self.peak, {}
            return taken

    return Tracker()


def _second_step(case: Case, module: Any, optimizer: Any, step: Callable[[], Any]) -> Count:
    tracker = _tracker()
    tracker.track_external(module, optimizer)
    _spare_frozen(tracker, module)
    peaks = []
    with tracker:
        outputs = _run(case, step)  # the logits live until the backward pass is over
        waiting = tracker.now()["Total"]
        peaks.append(tracker.take_peak())
        outputs.loss.backward()
        del outputs
        peaks.append(tracker.take_peak())
        optimizer.step()
        peaks.append(tracker.take_peak())
    params = {id(p): p for p in module.parameters()}.values()
    return Count(
        params=sum(p.numel() for p in params), trainable=sum(p.numel() for p in params if p.requires_grad),
        kinds=max(peaks, key=lambda peak: peak["Total"]),
        phases=(waiting, *(peak["Total"] for peak in peaks)),
    )  # fmt: skip


def _spare_frozen(tracker: Any, module: Any) -> None:
    """Let the tracker believe that frozen parameters have their hooks: it fails where it sets them."""
    nothing = SimpleNamespace(remove=lambda: None)
    for parameter in module.parameters():
        if not parameter.requires_grad:
            tracker._param_to_grad_hook_handles[parameter] = (nothing, nothing)  # noqa: SLF001  no public way


def row(ref_id: str, case: Case, counted: Count) -> dict[str, str]:
    """A case and what was counted, as a row of the reference."""
    import torch
    import transformers

    names = ("Total", "Parameter", "Gradient", "Optstate", "Activation", "Temp")
    sizes = {column: f"{counted.kinds[name] / GIB:.5f}" for column, name in zip(SIZES, names, strict=True)}
    return {
        "ref_id": ref_id, **case.columns(), **sizes,
        "params_b": f"{counted.params / 1e9:.5f}", "trainable_b": f"{counted.trainable / 1e9:.5f}",
        "torch": torch.__version__, "transformers": transformers.__version__,
    }  # fmt: skip


def check(number: int) -> float:
    """Recount rows of the first reference, spread over it; the largest relative error of the peak."""
    with (DATA / "memory_reference.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows.sort(key=lambda old: (old["arch"], old["precision"], old["recompute"], old["ref_id"]))
    worst = 0.0
    for old in rows[:: max(1, len(rows) // number)]:
        new = row(old["ref_id"], Case.of_row(old), count(Case.of_row(old)))
        error = float(new["peak_gib"]) / float(old["peak_gib"]) - 1
        worst = max(worst, abs(error))
        kinds = " ".join(f"{name} {new[name]} ({old[name]})" for name in SIZES)
        print(f"{old['ref_id']} {old['arch']} {old['precision']} {old['recompute']}: {error:+.5%}; {kinds}")
    return worst


def _selected(architectures: Iterable[str]) -> list[tuple[str, Case]]:
    wanted = set(architectures)
    numbered = [(f"r{number:03d}", case) for number, case in enumerate(cases(), start=1)]
    return [(ref_id, case) for ref_id, case in numbered if not wanted or case.arch in wanted]


def write(path: Path, architectures: Sequence[str]) -> None:
    """Count the cases and write their rows; a case that does not run is named and left out.

    Prints what waits for the backward pass and the peaks of forward, backward and optimizer [GiB].
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for ref_id, case in _selected(architectures):
            try:
                counted = count(case)
                writer.writerow(row(ref_id, case, counted))
                print(ref_id, *(f"{size / GIB:.5f}" for size in counted.phases), flush=True)
            except (RuntimeError, ValueError, TypeError, NotImplementedError, AttributeError) as error:
                print(f"{ref_id} {case}: {type(error).__name__}: {error}"[:400], file=sys.stderr)
            file.flush()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("architectures", nargs="*")
    parser.add_argument("-o", "--output", type=Path, default=DATA / "memory_reference_more.csv")
    parser.add_argument("--check", type=int, metavar="N")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.check:
        print(f"largest error {check(options.check):.5%}")
    else:
        write(options.output, options.architectures)


if __name__ == "__main__":
    main()
