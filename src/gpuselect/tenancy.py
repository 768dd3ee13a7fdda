"""Search for several tenants side by side: each card is shared as widely as one tenant's work allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, Catalog, Framework
from gpuselect.decision import Note
from gpuselect.deployment import Field, build_field
from gpuselect.i18n import _
from gpuselect.network_job import Job
from gpuselect.search import Candidate, Found, Site
from gpuselect.sharing import Share, cards_for, seen_by_tenant, shares_of
from gpuselect.workload import Workload

Search = Callable[[Sequence[Site], Job], Found]
MOST_ROUNDS = 20


def search_shared(
    workload: Workload, job: Job, catalog: Catalog, calibration: Calibration, search: Search,
    *, fixed: Mapping[str, int] | None = None,
) -> tuple[Field, Found]:  # fmt: skip
    """Field and candidates for `workload.tenants`: performance is that of one tenant, the count of all cards.

    Round by round a card is cut less finely, until one tenant's work fits and meets its bounds.
    """
    tenants = int(workload.tenants or 1)
    cards = catalog.accelerators if fixed is None else {n: catalog.accelerators[n] for n in fixed}
    shares = {
        name: _allowed(
            accelerator, tenants, workload.isolation or "any", calibration,
            job.max_count if fixed is None else fixed[name],
        )
        for name, accelerator in cards.items()
    }  # fmt: skip
    one = replace(job, max_count=1)
    done: dict[str, tuple[Site, Candidate]] = {}
    missed: dict[str, tuple[Site, Candidate | None]] = {}
    frameworks: dict[str, list[Framework]] = {}
    rejections: dict[str, Note] = {}
    for number in range(max(map(len, shares.values()), default=0)):
        level = {name: s[number] for name, s in shares.items() if number < len(s) and name not in done}
        if not level:
            break
        field = _level_field(workload, one, catalog, calibration, level, fixed)
        rejections.update(field.rejections)
        frameworks.update(field.frameworks)
        sites = tuple(s for s in field.sites if s.accelerator.id in level)
        found = search(sites, one)
        for candidate in found.fitting:
            site = sites[candidate.site]
            done[site.accelerator.id] = (site, _for_all(candidate, level[site.accelerator.id], tenants))
        for index, site in enumerate(sites):
            missed[site.accelerator.id] = (site, found.nearest.get(index))
    return _merged(shares, done, missed, frameworks, rejections, tenants)


def _allowed(
    accelerator: Accelerator, tenants: int, isolation: str, calibration: Calibration, most: int
) -> tuple[Share, ...]:
    """The ways to share a card that need no more cards than allowed."""
    found = shares_of(accelerator, tenants, isolation, calibration)
    return tuple(share for share in found if cards_for(share, tenants) <= most)[:MOST_ROUNDS]


def _level_field(
    workload: Workload, job: Job, catalog: Catalog, calibration: Calibration,
    level: Mapping[str, Share], fixed: Mapping[str, int] | None,
) -> Field:  # fmt: skip
    """The field where each card of `level` is what one tenant sees of it."""

    def view(accelerator: Accelerator) -> Accelerator:
        share = level.get(accelerator.id)
        return accelerator if share is None else seen_by_tenant(accelerator, share, calibration)

    cards = None if fixed is None else {name: 1 for name in fixed if name in level}
    field = build_field(workload, job, catalog, calibration, fixed=cards, view=view)
    sites = tuple(
        replace(site, share=level[site.accelerator.id].text) if site.accelerator.id in level else site
        for site in field.sites
    )
    return replace(field, sites=sites)


def _for_all(candidate: Candidate, share: Share, tenants: int) -> Candidate:
    """The candidate of one tenant with the cards of all."""
    cards = cards_for(share, tenants)
    return replace(candidate, plan=replace(candidate.plan, count=cards, replicas=cards))


def _merged(
    shares: Mapping[str, tuple[Share, ...]], done: Mapping[str, tuple[Site, Candidate]],
    missed: Mapping[str, tuple[Site, Candidate | None]], frameworks: Mapping[str, list[Framework]],
    rejections: Mapping[str, Note], tenants: int,
) -> tuple[Field, Found]:  # fmt: skip
    """One site per card: where a tenant fits, else the widest share tried."""
    sites: list[Site] = []
    fitting: list[Candidate] = []
    nearest: dict[int, Candidate] = {}
    out = dict(rejections)
    for name in shares:
        if name in done or name in missed:
            out.pop(name, None)
            site, candidate = done[name] if name in done else missed[name]
            if candidate is not None and name in done:
                fitting.append(replace(candidate, site=len(sites)))
                site = replace(site, counts=(int(candidate.plan.count),))
            elif candidate is not None:
                nearest[len(sites)] = replace(candidate, site=len(sites))
            sites.append(site)
        elif name not in out and not shares[name]:
            text = _("{n} tenants need more cards than are allowed").format(n=tenants)
            out[name] = Note("isolation-missing", text)
    field = Field(tuple(sites), dict(frameworks), out)
    return field, Found(tuple(fitting), nearest, nearest)
