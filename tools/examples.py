"""Write or compare docs/examples: the reports of five workloads, as Markdown and as HTML, in each language.

Without arguments the stored reports are compared with new ones and differences are printed (exit 1);
`--write` stores the new ones. The pictures of the HTML are drawn by another project, so that they are
written but not compared. Read the difference before you commit it.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gpuselect.advisor import recommend
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.decision import Decision
from gpuselect.i18n import LANGUAGES, use_language
from gpuselect.outlook import with_outlook
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.report.document import decision_document
from gpuselect.report.html import blocks_to_html
from gpuselect.report.markdown import blocks_to_markdown
from gpuselect.tco.defaults import CostDefaults
from gpuselect.workload import Workload

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "examples"
TODAY = "2026-11-30"  # the age of a price is part of the answer
PICTURE = re.compile(r"<svg .*?</svg>", re.DOTALL)
REQUESTS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "pretrain-10b": (
        "Pretrain a 10B model",
        {"task": "pretrain", "params": "10B", "tokens": "200B", "deadline": "30d"},
    ),
    "serve-8b-chat": (
        "Serve an 8B chat model",
        {"task": "inference", "model": "llama-3.1-8b", "request_rate": "5/s", "tpot": "50ms", "ttft": "1s"},
    ),
    "qlora-70b": (
        "Fine-tune a 70B model with QLoRA",
        {"task": "finetune", "model": "llama-3.1-70b", "method": "qlora", "samples": "50k"},
    ),
    "cameras-16": (
        "Watch 16 cameras",
        {"task": "video", "streams": 16, "fps": 25, "resolution": "1080p", "codec": "h265"},
    ),
    "train-resnet-50": ("Train ResNet-50", {"task": "pretrain", "model": "resnet-50", "deadline": "24h"}),
}


@cache
def known(_language: str) -> tuple[Catalog, Calibration, CostDefaults]:
    """Catalog, calibration and defaults; words of the catalog are in the language in use."""
    return load_catalog(), load_calibration(), load_defaults()


def decision_of(name: str, language: str) -> Decision:
    """The decision of one request with what a report shows; the language must be in use."""
    workload = Workload.from_mapping(REQUESTS[name][1])
    decision = recommend(workload, *known(language), today=TODAY)
    return with_outlook(decision, workload, *known(language), today=TODAY)


@cache
def texts_of(name: str, language: str) -> dict[str, str]:
    """The files of one example in one language by name: `name.md`, `name.zh.md`."""
    stem = name if language == "en" else f"{name}.{language}"
    use_language(language)
    try:
        blocks = decision_document(decision_of(name, language))
        return {f"{stem}.md": blocks_to_markdown(blocks), f"{stem}.html": blocks_to_html(blocks)}
    finally:
        use_language()


def index() -> str:
    """The README of the folder: what each report answers, and the command that writes it."""
    lines = [
        "# Decision reports of five workloads", "",
        "Written by `tools/examples.py`; the HTML files hold the same with charts, in one file each.",
        "Those in Chinese (中文) come with `--lang zh`.", "",
    ]  # fmt: skip
    for name, (title, request) in REQUESTS.items():
        flags = " ".join(f"--{k.replace('_', '-')} {shlex.quote(str(v))}" for k, v in request.items())
        forms = f"[HTML]({name}.html), [中文]({name}.zh.md), [中文 HTML]({name}.zh.html)"
        lines += [f"- [{title}]({name}.md) ({forms}): `gpuselect report {flags} -o {name}.md`"]
    return "\n".join(lines) + "\n"


def difference(name: str, language: str) -> list[str]:
    """Lines that differ from the stored report, pictures aside; empty when nothing does."""
    found = []
    for file, text in texts_of(name, language).items():
        path = FOLDER / file
        stored = path.read_text("utf-8") if path.exists() else ""
        lines = [PICTURE.sub("<svg></svg>", whole).splitlines() for whole in (stored, text)]
        found += difflib.unified_diff(*lines, f"stored {file}", f"new {file}", n=1, lineterm="")
    return found


def main() -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the new reports")
    parser.add_argument("--lang", choices=LANGUAGES, action="append", help="only these languages")
    given = parser.parse_args()
    wanted = [(name, language) for name in REQUESTS for language in given.lang or LANGUAGES]
    if given.write:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name, language in wanted:
            for file, text in texts_of(name, language).items():
                (FOLDER / file).write_text(text, "utf-8")
        (FOLDER / "README.md").write_text(index(), "utf-8")
        print(f"wrote {len(wanted)} reports")
        return 0
    lines = [line for name, language in wanted for line in difference(name, language)]
    print("\n".join(lines) or f"{len(wanted)} reports as stored")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
