"""The library: ask from Python what the command line asks, and get the same answers.

>>> from gpuselect import estimate
>>> answer = estimate("8xH100", task="inference", model="llama-3.1-8b")
>>> answer.fits, answer.to_dict()["state"]
(True, 'fits')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuselect import advisor, comparison
from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, Catalog, Framework
from gpuselect.comparison import Row
from gpuselect.decision import Decision, FitAnswer, Option
from gpuselect.errors import InputError
from gpuselect.framework_comparison import compare_frameworks
from gpuselect.i18n import _
from gpuselect.names import resolve_accelerator, resolve_frameworks
from gpuselect.outlook import with_outlook
from gpuselect.quantities import parse_accelerators
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.model_files import with_model_file
from gpuselect.readers.profiles import load_judgement
from gpuselect.tco import CostDefaults
from gpuselect.tco.currency import in_dollars
from gpuselect.workload import Workload
from gpuselect.workload_comparison import framework_rows, workload_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "Fit", "Recommendation", "compare", "estimate", "load_catalog", "recommend"]
Folders = Sequence[Path | str]
Asked = tuple[Workload, Catalog, Calibration, CostDefaults]
COUNTED = re.compile(r"\s*\d+\s*[x*×卡]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer to `recommend`: what to use, ranked, with reasons. Shows itself in a notebook."""

    decision: Decision
    asked: Asked = field(repr=False, compare=False)

    @property
    def options(self) -> tuple[Option, ...]:
        """The ranked options, the best first; then those without a known price."""
        return (*self.decision.recommendations, *self.decision.unpriced)

    @property
    def best(self) -> Option | None:
        """The first option, None when nothing meets the requirements."""
        return next(iter(self.options), None)

    def to_dict(self) -> dict[str, Any]:
        """The payload of `gpuselect recommend --json`."""
        from gpuselect.report.json import decision_payload
        from gpuselect.report.plain import plain

        return plain(decision_payload(self.decision))  # type: ignore[no-any-return]

    def to_markdown(self) -> str:
        """The decision report as Markdown."""
        from gpuselect.report.document import decision_document
        from gpuselect.report.markdown import blocks_to_markdown

        return blocks_to_markdown(decision_document(with_outlook(self.decision, *self.asked)))

    def to_html(self) -> str:
        """The decision report as a page of its own."""
        from gpuselect.report.document import decision_document
        from gpuselect.report.html import blocks_to_html

        return blocks_to_html(decision_document(with_outlook(self.decision, *self.asked)))

    def to_frame(self) -> pd.DataFrame:
        """One row for each option; units stand in the names of the columns, unknown is NaN."""
        return _frame([option_row(option) for option in self.options])

    def _repr_html_(self) -> str:
        from gpuselect.report.blocks import Grid, Paragraph
        from gpuselect.report.document import decision_document
        from gpuselect.report.html import blocks_to_fragment

        blocks = decision_document(self.decision)
        strong = [block for block in blocks if isinstance(block, Paragraph) and block.strong]
        grids = [block for block in blocks if isinstance(block, Grid)]
        widest = sorted(grids, key=lambda grid: -len(grid.header))[:1]  # the options
        return blocks_to_fragment([*strong[:1], *widest])


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer to `estimate`: whether it fits, the best plan, its speed and cost."""

    answer: FitAnswer

    @property
    def fits(self) -> bool:
        """Whether the workload runs on this hardware."""
        from gpuselect.report.json import fits_usable

        return self.answer.option is not None and fits_usable(self.answer)

    @property
    def option(self) -> Option | None:
        """The best plan, or the nearest miss."""
        return self.answer.option

    def to_dict(self) -> dict[str, Any]:
        """The payload of `gpuselect estimate --json`."""
        from gpuselect.report.json import fit_payload
        from gpuselect.report.plain import plain

        return plain(fit_payload(self.answer))  # type: ignore[no-any-return]

    def to_frame(self) -> pd.DataFrame:
        """The best plan and its alternatives, one row each."""
        options = (self.answer.option, *self.answer.alternatives)
        return _frame([option_row(option) for option in options if option is not None])

    def _repr_html_(self) -> str:
        return _html_table([option_row(self.option)] if self.option is not None else [])


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer to `compare`: one row per figure, one column per accelerator."""

    comparison: comparison.Comparison

    def rows(self) -> list[dict[str, Any]]:
        """Key, unit and the value of each accelerator; unknown is None."""
        ids = self.comparison.accelerators
        return [
            {
                "key": row.key,
                "unit": row.unit,
                **{card: cell.value for card, cell in zip(ids, row.cells, strict=True)},
            }
            for row in self.comparison.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Accelerators and rows as plain data."""
        return {"accelerators": list(self.comparison.accelerators), "rows": self.rows()}

    def to_frame(self) -> pd.DataFrame:
        """One row per figure, its key as the index."""
        frame = _frame(self.rows())
        return frame.set_index("key") if len(frame) else frame

    def _repr_html_(self) -> str:
        return _html_table(self.rows())


def recommend(
    workload: Workload | Mapping[str, object] | None = None,
    *,
    catalog: Catalog | None = None,
    overlays: Folders = (),
    **keys: object,
) -> Recommendation:
    """What to use for a workload: the keys of a workload file, as a mapping or by name.

    `overlays` are folders with figures and prices of your own, laid over the catalog. Nothing is read
    from the user's configuration. Raises InputError for what cannot be understood.

    >>> recommend(task="finetune", params="7B", gpus=["l40s", "h100"]).best is not None
    True
    """
    asked, paths = _inputs(workload, keys, catalog, overlays)
    return Recommendation(advisor.recommend(*asked, judgement=load_judgement(overlays=paths)), asked)


def estimate(
    on: str,
    workload: Workload | Mapping[str, object] | None = None,
    *,
    catalog: Catalog | None = None,
    overlays: Folders = (),
    **keys: object,
) -> Fit:
    """What a workload gets on given hardware, for example `estimate("2x3090", task=..., params=...)`."""
    groups = parse_accelerators(on)
    hardware = [(group.count, group.name) for group in groups if group.name is not None]
    if not hardware or len(hardware) < len(groups):
        raise InputError(_("{given!r} names no accelerator: write for example 8xH100").format(given=on))
    (work, cards, calibration, defaults), _folders = _inputs(workload, keys, catalog, overlays)
    return Fit(advisor.estimate(work, hardware, cards, calibration, defaults))


def compare(
    *names: str,
    catalog: Catalog | None = None,
    overlays: Folders = (),
    workload: Workload | Mapping[str, object] | None = None,
    **keys: object,
) -> Comparison:
    """Figures of two or more accelerators (or groups such as 8xh100, systems, frameworks) side by side.

    With a workload (a mapping, or its keys by name), also what each gets from it.

    >>> compare("a100", "h100").to_dict()["accelerators"]
    ['a100-sxm4-80gb', 'h100-sxm5-80gb']
    """
    if len(names) < 2:
        raise InputError(_("compare needs at least two accelerators, for example: a100 h100"))
    known = catalog or load_catalog(overlays=_paths(overlays))
    asked = _inputs(workload, keys, known, overlays)[0] if workload is not None or keys else None
    if frameworks := resolve_frameworks(names, known):
        table = compare_frameworks(frameworks, known)
        return Comparison(replace(table, rows=(*table.rows, *_of_frameworks(frameworks, asked))))
    if all(name.lower() in known.systems for name in names):
        systems = [known.systems[name.lower()] for name in names]
        table = comparison.compare_systems(systems, known)
        groups: list[tuple[int | None, Accelerator]] = [
            (int(s.accelerators_per_node), known.accelerators[s.accelerators[0]]) for s in systems
        ]
    else:
        groups = [_group(name, known) for name in names]
        if all(count is None for count, _card in groups):
            table = comparison.compare_specs([card for _count, card in groups], known)
        else:
            table = comparison.compare_groups([(count or 1, card) for count, card in groups], known)
    return Comparison(replace(table, rows=(*table.rows, *_of_groups(groups, asked))))


def _of_groups(groups: Sequence[tuple[int | None, Accelerator]], asked: Asked | None) -> list[Row]:
    """What a workload gets from each group."""
    if asked is None:
        return []
    work, catalog, calibration, defaults = asked

    def ask(count: int, card: str) -> FitAnswer:
        return advisor.estimate(work, [(count, card)], catalog, calibration, defaults)

    return workload_rows(groups, ask=ask, most=work.max_count)


def _of_frameworks(frameworks: Sequence[Framework], asked: Asked | None) -> list[Row]:
    """What a workload gets from each framework."""
    if asked is None:
        return []
    work, catalog, calibration, defaults = asked

    def ask(framework: Framework) -> Decision:
        one = work.model_copy(update={"frameworks": (framework.id,)})
        return advisor.recommend(one, catalog, calibration, defaults)

    return framework_rows(frameworks, ask=ask)


def _group(name: str, catalog: Catalog) -> tuple[int | None, Accelerator]:
    """Count, where one is written, and accelerator."""
    if COUNTED.match(name):
        (group, *others) = parse_accelerators(name)
        if not others and group.name is not None:
            return group.count, resolve_accelerator(group.name, catalog)[0]
    return None, resolve_accelerator(name, catalog)[0]


def option_row(option: Option) -> dict[str, Any]:
    """One option as a flat row of numbers and words; None is unknown."""
    row: dict[str, Any] = {
        "rank": option.rank or None, "accelerator": option.accelerator, "name": option.accelerator_name,
        "count": option.count, "nodes": option.nodes, "precision": option.precision,
        "framework": option.framework.id if option.framework else None,
        "memory_gib": option.memory.per_accelerator_gib, "usable_gib": option.memory.usable_gib,
    }  # fmt: skip
    for key, value in option.performance.items():
        row |= {key: value.value, f"{key}_low": value.low, f"{key}_high": value.high}
    cost, energy = option.cost, option.energy
    row |= {
        "per_hour_usd": cost.per_hour_usd, "per_run_usd": cost.per_run_usd,
        "per_month_usd": cost.per_month_usd, "per_million_tokens_usd": cost.per_million_tokens_usd,
        "power_w": energy.power_w, "kwh": energy.kwh, "kgco2e": energy.kgco2e,
        "score": option.score.total, "tied_with_winner": option.tied_with_winner,
    }  # fmt: skip
    return row


def _inputs(
    workload: Workload | Mapping[str, object] | None,
    keys: Mapping[str, object],
    catalog: Catalog | None,
    overlays: Folders,
) -> tuple[Asked, tuple[Path, ...]]:
    """What the advisor is asked with, and the overlay folders."""
    paths = _paths(overlays)
    if isinstance(workload, Workload):
        if keys:
            raise InputError(_("give a Workload or keys, not both"))
        work = workload
    else:
        work = Workload.from_mapping({**(workload or {}), **keys})
    work, known = with_model_file(work, catalog or load_catalog(overlays=paths))
    work = in_dollars(work, known, today=advisor.current_date())
    return (work, known, load_calibration(), load_defaults(overlays=paths)), paths


def _paths(folders: Iterable[Path | str]) -> tuple[Path, ...]:
    return tuple(Path(folder) for folder in folders)


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([dict(row) for row in rows])


def _html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    from gpuselect.report.grid import Column, as_grid
    from gpuselect.report.html import blocks_to_fragment

    names = list(dict.fromkeys(name for row in rows for name in row))
    return blocks_to_fragment([as_grid([Column(name, name) for name in names], rows)])
