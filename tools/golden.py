"""Write or compare tests/golden/*.json: six representative decisions with rounded numbers.

Without arguments the stored decisions are compared with new ones and differences are printed (exit 1);
`--write` stores the new ones. Read the difference before you commit it.
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuselect.advisor import recommend
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.report.json import decision_payload
from gpuselect.workload import Workload

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "golden"
TODAY = "2026-11-30"  # the age of a price is part of the answer
DIGITS = 3  # significant ones: smaller changes are no news
REQUESTS: Mapping[str, Mapping[str, object]] = {
    "pretrain-10b": {"task": "pretrain", "params": "10B"},
    "pretrain-deepseek-v3": {"task": "pretrain", "model": "deepseek-v3", "tokens": "1T", "max_count": 2048},
    "qlora-70b": {"task": "finetune", "model": "llama-3.1-70b", "method": "qlora", "samples": "50k"},
    "serve-8b-chat": {"task": "inference", "model": "llama-3.1-8b", "request_rate": "5/s", "tpot": "50ms"},
    "serve-70b-int4-single": {
        "task": "inference", "model": "llama-3.1-70b", "weights": "int4-awq", "single_card": True,
    },
    "edge-3b": {"task": "inference", "params": "3B", "weights": "int4-awq", "edge": True},
}  # fmt: skip


def rounded(value: Any) -> Any:
    """The same structure with floats to a few significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


def brief(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader would compare: options by their numbers, verdicts by their codes."""
    options = [
        {
            "card": option["accelerator"],
            **{key: option.get(key) for key in ("count", "nodes", "plan", "performance", "score")},
            "framework": (option.get("framework") or {}).get("id"),
            "memory_gib": option["memory"]["per_accelerator_gib"],
            "cost": {
                key: option["cost"].get(key) for key in ("per_hour_usd", "per_run_usd", "per_month_usd")
            },
            "warnings": sorted(note["code"] for note in option["warnings"]),
        }
        for option in payload["recommendations"]
    ]
    refused: dict[str, list[str]] = {}
    for verdict in payload["considered"]:
        code = (verdict["rejection"] or {}).get("code", "none")
        refused.setdefault(code, []).append(verdict["accelerator"])
    return {
        "assumptions": sorted(note["code"] for note in payload["assumptions"]),
        "recommendations": options,
        "verdicts": {code: sorted(cards) for code, cards in sorted(refused.items())},
    }


def golden_text(name: str) -> str:
    """The decision of one request, as it is stored."""
    decision = recommend(
        Workload.from_mapping(REQUESTS[name]),
        load_catalog(),
        load_calibration(),
        load_defaults(),
        today=TODAY,
    )
    payload = json.loads(json.dumps(decision_payload(decision)))
    return json.dumps(rounded(brief(payload)), indent=1, ensure_ascii=False) + "\n"


def difference(name: str) -> list[str]:
    """Lines that differ from the stored decision; empty when nothing does."""
    path = FOLDER / f"{name}.json"
    stored = path.read_text("utf-8") if path.exists() else ""
    lines = stored.splitlines(), golden_text(name).splitlines()
    return list(difflib.unified_diff(*lines, f"stored {name}", f"new {name}", n=2, lineterm=""))


def main() -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the new decisions")
    if parser.parse_args().write:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in REQUESTS:
            (FOLDER / f"{name}.json").write_text(golden_text(name), "utf-8")
        print(f"wrote {len(REQUESTS)} decisions")
        return 0
    lines = [line for name in REQUESTS for line in difference(name)]
    print("\n".join(lines) or f"{len(REQUESTS)} decisions as stored")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
