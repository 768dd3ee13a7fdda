"""Draw figures of data/gpus.yaml at random and print each with its source, for a check by hand.

    python tools/draw_figures.py                        the thirty figures of docs/catalog-check.md
    python tools/draw_figures.py --seed 1 --count 50    another draw

The draw is `random.Random(seed).sample` over all sourced values of all accelerators, in file order.
It depends on the catalog as well as on the seed: a figure added or removed gives another draw.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence

from gpuselect.catalog import Accelerator
from gpuselect.provenance import Fact, Figure
from gpuselect.readers.catalog import load_catalog

SEED, COUNT = 20261130, 30
HEAD = "| entry | figure | value | source | place in it |\n|---|---|---|---|---|"
Drawn = tuple[Accelerator, str, Figure | Fact]


def draw(accelerators: Sequence[Accelerator], *, seed: int, count: int) -> list[Drawn]:
    """`count` of all sourced values, sorted by entry and key."""
    pool = [(entry, path, figure) for entry in accelerators for path, figure in entry.figures()]
    chosen = random.Random(seed).sample(pool, count)  # noqa: S311  a draw for a check, no secret
    return sorted(chosen, key=lambda item: (item[0].id, item[1]))


def line(drawn: Drawn) -> str:
    """One row of the table."""
    entry, path, figure = drawn
    key, place = entry.cite(figure)
    value = f"{figure:.10g}" if isinstance(figure, Figure) else str(figure)
    shown = f"{value} ({figure.status})" if figure.status != "stated" else value
    return "| " + " | ".join((entry.id, path, shown, key, place.replace("|", "/"))) + " |"


def main() -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    arguments = parser.parse_args()
    accelerators = list(load_catalog().accelerators.values())
    print(HEAD)
    for drawn in draw(accelerators, seed=arguments.seed, count=arguments.count):
        print(line(drawn))
    return 0


if __name__ == "__main__":
    sys.exit(main())
