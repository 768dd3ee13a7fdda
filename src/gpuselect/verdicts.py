"""Verdicts on single accelerators: which rule, memory or bound keeps one out, and what came nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.decision import Considered, Note
from gpuselect.deployment import Field
from gpuselect.estimate.offload import cards_of_host
from gpuselect.i18n import _
from gpuselect.judging import Judged, search
from gpuselect.network_job import (
    Job,
    NetworkJob,
    VideoJob,
)
from gpuselect.options import CLOSE_ABOVE, memory_fit
from gpuselect.search import Candidate, Found, Site
from gpuselect.units import GIB
from gpuselect.workload import Workload, pins


def none_note(job: Job, workload: Workload) -> Note:
    """Why no plan exists although memory is not the reason: bounds, batch, or the layout."""
    if isinstance(job, VideoJob):
        text = _("{n} accelerators carry fewer than {s} streams, or the latency bound is missed")
        return Note("slo-missed", text.format(n=job.max_count, s=job.streams))
    bounds = [getattr(job, key, None) for key in ("request_rate", "ttft_s", "tpot_s", "latency_s")]
    if any(bounds):
        return Note("slo-missed", _("no plan meets the latency bounds or the demand"))
    if isinstance(job, NetworkJob):
        return Note("no-valid-plan", _("no batch per accelerator divides the global batch evenly"))
    given = _(", ").join(f"{k}={v}" for k, v in pins(workload).items()) or _("none")
    return Note(
        "no-valid-plan",
        _("no layout divides heads, layers, experts and batch evenly (pins: {pins})").format(pins=given),
    )


def memory_note(candidate: Candidate, site: Site) -> Note:
    """Rejection for memory with its arithmetic."""
    fit = memory_fit(candidate)
    if fit.per_accelerator_gib <= fit.usable_gib:
        return _host_note(candidate, site)
    terms = " + ".join(f"{_(key)} {value:.1f}" for key, value in fit.breakdown_gib.items())
    text = _("{n} x {name}: {terms} = {need:.1f} GiB per card, {usable:.1f} GiB usable").format(
        n=candidate.plan.count, name=site.accelerator.id, terms=terms,
        need=fit.per_accelerator_gib, usable=fit.usable_gib,
    )  # fmt: skip
    return Note("memory-exceeded", text)


def _host_note(candidate: Candidate, site: Site) -> Note:
    """Rejection for the memory of the host, where the cards would hold their part."""
    cards = float(cards_of_host(plan=candidate.plan, device=site.device))
    text = _(
        "{n} x {name}: offloaded states take {need:.0f} GiB of host memory for each card; the host has "
        "{has:.0f} GiB for each"
    )
    return Note("host-memory-exceeded", text.format(
        n=candidate.plan.count, name=site.accelerator.id, need=float(candidate.memory.host) / GIB,
        has=site.host_bytes / cards / GIB,
    ))  # fmt: skip


def considered(
    field: Field,
    found: Found,
    missed: Mapping[str, Note],
    job: Job,
    workload: Workload,
    catalog: Catalog,
    calibration: Calibration,
) -> tuple[Considered, ...]:
    """One verdict for every accelerator of the catalog, and one for a single card of each."""
    if workload.tenants is None and not all(1 in site.counts for site in field.sites):
        found_single = search([replace(s, counts=(1,)) for s in field.sites], job, workload, calibration)
    else:
        found_single = found
    single_fit = {c.site for c in found_single.fitting if c.plan.count == 1}
    least: dict[int, int] = {}
    for candidate in found.fitting:
        least[candidate.site] = min(least.get(candidate.site, 1 << 30), int(candidate.plan.count))
    number_of = {site.accelerator.id: n for n, site in enumerate(field.sites)}
    verdicts = []
    for name in catalog.accelerators:
        number = number_of.get(name)
        if number is None:
            note = field.rejections.get(name, Note("not-selected", _("not among what you have")))
            verdicts.append(_refused(name, note))
            continue
        rejection = missed.get(name) or _limit_note(number, field, found, least, job, workload)
        single_note = None
        if number not in single_fit:
            near = found_single.nearest_single.get(number)
            single_note = memory_note(near, field.sites[number]) if near else none_note(job, workload)
        verdicts.append(
            Considered(name, number in least, least.get(number), rejection, number in single_fit,
                       single_note)
        )  # fmt: skip
    return tuple(verdicts)


def rejection_of(card: str, judged: Judged, workload: Workload) -> Note | None:
    """Why a card is not ranked: a rule, memory, a bound, the deadline or the budget; None when it fits."""
    number = next((n for n, s in enumerate(judged.field.sites) if s.accelerator.id == card), None)
    if number is None:
        return judged.field.rejections.get(card, Note("not-selected", _("not among what you have")))
    least = {c.site: 1 for c in judged.found.fitting}
    return judged.missed.get(card) or _limit_note(
        number, judged.field, judged.found, least, judged.job, workload
    )


def _refused(name: str, note: Note) -> Considered:
    """Verdict on a card that a hard rule rejects: for one as for many."""
    return Considered(
        name, feasible=False, min_count=None, rejection=note, single_feasible=False, single_rejection=note
    )


def _limit_note(
    number: int, field: Field, found: Found, least: Mapping[int, int],
    job: Job, workload: Workload,
) -> Note | None:  # fmt: skip
    if number in least:
        return None
    near = found.nearest.get(number)
    return memory_note(near, field.sites[number]) if near else none_note(job, workload)


def near_misses(field: Field, found: Found) -> tuple[Note, ...]:
    """The five cards that came nearest to fitting."""
    order = sorted(found.nearest.values(), key=lambda c: float(c.memory.total) / c.usable)
    notes = []
    for candidate in order[:5]:
        note = memory_note(candidate, field.sites[candidate.site])
        if note.code == "host-memory-exceeded":
            notes.append(note)
            continue
        share = float(candidate.memory.total) / candidate.usable
        close = _(" (close)") if share <= CLOSE_ABOVE else ""
        short = (float(candidate.memory.total) - candidate.usable) / GIB
        notes.append(replace(note, text=note.text + _("; {s:.1f} GiB short").format(s=short) + close))
    return tuple(notes)
