"""Ask for known vulnerabilities of what the package needs to run, extras included; exit 1 when there are any.

pip-audit (in an environment of its own, .audit-venv) asks the open database of vulnerabilities. Where it
cannot be installed or the database cannot be reached nothing is audited: that is said, and the exit code is
0, because a missing network is no fault of a change. Tools of development are not audited.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".audit-venv"
PACKAGE, EXTRAS = "gpuselect-advisor", frozenset({"onnx", "mcp", "charts", "prices"})
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
PATIENCE_S = 240.0  # for one step


def needed(name: str = PACKAGE, extras: frozenset[str] = EXTRAS) -> dict[str, str]:
    """Installed distributions that the package needs, with their versions; those of other extras are not."""
    found: dict[str, str] = {}
    waiting = [(name, extras)]
    while waiting:
        who, wanted = waiting.pop()
        for line in distribution(who).requires or ():
            text, _, marker = line.partition(";")
            named = EXTRA.findall(marker)
            match = NAME.match(text.strip())
            if match is None or (named and not wanted & set(named)):
                continue
            key = match[0].lower().replace("_", "-")
            try:
                version = distribution(key).version
            except PackageNotFoundError:  # for another platform, or an extra that is not installed
                continue
            if key not in found:
                found[key] = version
                waiting.append((key, frozenset()))
    return dict(sorted(found.items()))


def auditor() -> Path:
    """pip-audit in its environment, made where it is missing."""
    program = PLACE / "bin" / "pip-audit"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", PLACE], check=True, timeout=PATIENCE_S)  # noqa: S603
        command = [PLACE / "bin" / "pip", "install", "--quiet", "pip-audit>=2.7"]
        subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True)  # noqa: S603
    return program


def advisories(program: Path, pins: Mapping[str, str]) -> Sequence[Mapping[str, object]] | None:
    """What the database knows of each distribution; None where it did not answer."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "pins.txt"
        listed.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()), "utf-8")
        command = [
            program, "--requirement", listed, "--no-deps", "--disable-pip", "--format", "json",
            "--vulnerability-service", "osv", "--progress-spinner", "off", "--timeout", "15",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)  # noqa: S603
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return [item for item in found if item.get("vulns")]


def main() -> int:
    """Print what was found, or why nothing could be asked."""
    pins = needed()
    try:
        found = advisories(auditor(), pins)
    except (OSError, subprocess.SubprocessError) as fault:
        print(f"not audited: pip-audit could not be installed or run ({type(fault).__name__})")
        return 0
    if found is None:
        print("not audited: the database of vulnerabilities could not be reached")
        return 0
    for item in found:
        for advisory in item["vulns"]:  # type: ignore[attr-defined]
            fixed = ", ".join(advisory.get("fix_versions", ())) or "no fixed version yet"
            print(f"{item['name']} {item['version']}: {advisory['id']}, fixed in {fixed}")
    print(f"{len(pins)} distributions audited, {len(found)} with known vulnerabilities")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
