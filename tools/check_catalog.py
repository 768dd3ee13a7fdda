"""Validate every file of data/ and print what it holds; exit 1 with one sentence when it is damaged.

python tools/check_catalog.py
"""

from __future__ import annotations

import sys

from gpuselect.errors import CatalogError
from gpuselect.readers.catalog import check_catalog


def main() -> int:
    """Run the check; returns the exit code."""
    try:
        counts = check_catalog()
    except CatalogError as damage:
        print(damage, file=sys.stderr)
        return 1
    print(", ".join(f"{number} {what}" for what, number in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
