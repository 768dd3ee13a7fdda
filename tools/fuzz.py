"""Feed the program flags, files and faults that nobody would write; exit 1 with the cases that it gets wrong.

python tools/fuzz.py --inputs 50000 --seed 1      all kinds in turn, in this process

Wrong is: exit code 4 or another one that is not documented, an exception that escapes, the word Traceback,
more than five seconds, or an output file that is neither the old one nor a whole new one. The catalog is a
small copy of the real one, so that an answer takes milliseconds. A fault prints the kind and the number of
the input; `--only KIND:NUMBER` with the same seed runs it again.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from fuzz_inputs import CARDS, KINDS

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 5
MODELS = ("llama-3", "deepseek", "resnet", "bert", "yolo11", "stable", "sdxl", "qwen2.5")  # how ids begin


TIMERS = (
    (signal.SIGPROF, signal.ITIMER_PROF, LIMIT_S),  # work, on a machine that is busy too
    (signal.SIGALRM, signal.ITIMER_REAL, 12 * LIMIT_S),  # waiting for what never comes
)
SAY = partial(print, flush=True)


class TooSlowError(Exception):
    """An input took longer than the limit."""


def small_data(folder: Path) -> None:
    """A copy of the data with a dozen cards and what names no other."""
    shutil.copytree(ROOT / "data", folder, ignore=shutil.ignore_patterns("catalog.json", "measurements"))
    (folder / "measurements").mkdir()

    def keep(name: str, wanted: Callable[[str], bool]) -> None:
        head, *entries = ("\n" + (folder / name).read_text(encoding="utf-8")).split("\n- id:")
        kept = [text for text in entries if wanted(text)]
        (folder / name).write_text("\n- id:".join([head, *kept]), encoding="utf-8")

    keep("gpus.yaml", lambda text: first_word(text) in CARDS)
    keep("systems.yaml", lambda text: set(entry_of(text)["accelerators"]) <= set(CARDS))
    keep("models.yaml", lambda text: first_word(text).startswith(MODELS))
    for name in ("prices.csv", "power_measured.csv", "price_history.csv", "embodied_carbon.csv"):
        with (folder / name).open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        column = header.index("hardware")
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [header, *(row for row in rows if row[column] in CARDS)]
            )


def first_word(text: str) -> str:
    """The id of an entry whose text begins after `- id:`."""
    return text.split(maxsplit=1)[0].strip("\"'")


def entry_of(text: str) -> dict[str, Any]:
    """An entry whose text begins after `- id:`."""
    return yaml.safe_load(f"- id:{text}")[0]  # type: ignore[no-any-return]


def use_data(folder: Path) -> None:
    """Let every module of the program that knows the data folder take this one."""
    import gpuselect.readers.catalog as reader

    for module in ("calibration", "launch", "measurements", "profiles", "model_files"):
        with contextlib.suppress(ImportError):
            __import__(f"gpuselect.readers.{module}")
    old = reader.data_dir
    for module in [m for name, m in sys.modules.items() if name.startswith("gpuselect.")]:
        for name in ("data_dir", "_default_dir"):
            if getattr(module, name, None) is old:
                setattr(module, name, lambda: folder)


def cases(seed: int, count: int, kinds: Sequence[str] = ()) -> Iterator[tuple[str, int]]:
    """Kind and number of each input."""
    wanted = {kind: share for kind, (_make, share) in KINDS.items() if not kinds or kind in kinds}
    order = [kind for kind, share in wanted.items() for _n in range(share)]
    random.Random(seed).shuffle(order)  # noqa: S311  no secret
    for number in range(count):
        yield order[number % len(order)], number


def wrong(kind: str, number: int, seed: int) -> str:
    """Run one input; what is wrong with the result, or nothing."""
    rng = random.Random(f"{seed}:{kind}:{number}")  # noqa: S311  the same
    os.environ.pop("GPUSELECT_CONFIG", None)
    with tempfile.TemporaryDirectory(prefix="gpuselect-fuzz-") as name:
        where = Path(name)
        for old in ("out.md", "out.html", "out.json", "out.csv"):
            (where / old).write_text("old\n", encoding="utf-8")
        arguments = KINDS[kind][0](rng, where)
        with failing_disk(rng.random() < 0.1):
            fault, output = outcome(arguments)
        fault = fault or damaged_files(where)
        if not fault:
            return ""
        shown = shlex.join(arguments)[:300]
        return f"{kind}:{number} {fault}\n  gpuselect {shown}\n{output[-2500:]}"


@contextlib.contextmanager
def failing_disk(wanted: bool) -> Iterator[None]:
    """A disk that is full when a file is put in place."""
    true = Path.replace

    def fail(*_arguments: Any) -> Any:
        raise OSError(28, "No space left on device")

    if wanted:
        Path.replace = fail  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Path.replace = true  # type: ignore[method-assign]


def outcome(arguments: Sequence[str]) -> tuple[str, str]:
    """What is wrong with a call, and what it printed."""
    from gpuselect.cli import failures, main

    seen: list[str] = []
    plain = failures._internal_error  # noqa: SLF001

    def remembered(error: Exception) -> str:
        seen.append("".join(traceback.format_exception(error)))
        return plain(error)

    failures._internal_error = remembered  # noqa: SLF001
    out, err, code, fault = io.StringIO(), io.StringIO(), None, ""
    for name, timer, most in TIMERS:
        signal.signal(name, _too_slow)
        signal.setitimer(timer, most)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(arguments)
    except SystemExit as leaving:
        code = leaving.code
    except BaseException as error:  # noqa: BLE001  that is what is looked for
        fault = f"{type(error).__name__} escaped"
        seen.append(traceback.format_exc())
    finally:
        for _name, timer, _most in TIMERS:
            signal.setitimer(timer, 0)
        failures._internal_error = plain  # noqa: SLF001
    if not fault and code not in (0, 1, 2, 3):
        fault = f"exit code {code}"
    if not fault and "Traceback" in err.getvalue():
        fault = "a traceback"
    if "TooSlowError" in "".join(seen):
        fault = f"more than {LIMIT_S} s of work, or {12 * LIMIT_S} s"
    if (
        not fault
        and code in (0, 1)
        and "json" in arguments
        and not {"-h", "--help"} & {*arguments}
        and "--format" in arguments
        and out.getvalue()
    ):
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(out.getvalue())
            return "", ""
        fault = "no JSON"
    return fault, "".join(seen) or err.getvalue() or out.getvalue()[:500]


def _too_slow(_signal: int, _frame: Any) -> None:
    raise TooSlowError


def damaged_files(where: Path) -> str:
    """What is wrong with the output files: half a file, or something left behind."""
    for path in where.rglob("*"):
        if path.name.startswith("."):
            return f"{path.name} was left behind"
        if path.name.startswith("out.") and path.is_file():
            text = path.read_text(encoding="utf-8")
            if text == "old\n":
                continue
            if not text.endswith("\n") or (path.suffix == ".html" and not text.endswith("</html>\n")):
                return f"{path.name} is half written"
            if path.suffix == ".json":
                json.loads(text)
    return ""


def run(
    *, inputs: int, seed: int, only: str = "", kinds: Sequence[str] = (), say: Callable[[str], None] = SAY
) -> tuple[int, list[str]]:
    """Run inputs; how many ran, and the faults, one for each place in the program."""
    os.environ |= {"GPUSELECT_NO_CONFIG": "", "NO_COLOR": "1"}
    faults: dict[str, str] = {}
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="gpuselect-data-") as name:
        folder = Path(name) / "data"
        small_data(folder)
        use_data(folder)
        wanted = (
            [(only.split(":", maxsplit=1)[0], int(only.split(":")[1]))]
            if only
            else cases(seed, inputs, kinds)
        )
        for kind, number in wanted:
            counts[kind] += 1
            if found := wrong(kind, number, seed):
                place = "\n".join(found.splitlines()[-4:]) if "exit code" in found else found.split("\n")[0]
                if place not in faults:
                    say(found)
                faults.setdefault(place, found)
            if (done := sum(counts.values())) % 5000 == 0:
                say(f"{done} inputs, {len(faults)} faults, {time.perf_counter() - start:.0f} s")
    say(f"{sum(counts.values())} inputs in {time.perf_counter() - start:.0f} s: {dict(counts)}")
    return sum(counts.values()), list(faults.values())


def main() -> int:
    """Read the flags, run, and fail when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="", help="only these, for example csv,model")
    parser.add_argument("--only", default="", metavar="KIND:NUMBER")
    given = parser.parse_args()
    kinds = [kind for kind in given.kinds.split(",") if kind]
    _count, faults = run(inputs=given.inputs, seed=given.seed, only=given.only, kinds=kinds)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
