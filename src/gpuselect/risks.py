"""What can go wrong with an option that no estimate shows: supply, age of price, support, one vendor."""

from __future__ import annotations

from collections.abc import Sequence

from gpuselect.catalog import Accelerator, Catalog, Framework
from gpuselect.decision import Note, Option
from gpuselect.i18n import _
from gpuselect.tco.prices import price_age_months

NAMED = 4
WIDE = 2.0  # an interval whose ends are this far apart is said to be wide


def risks_of(option: Option, catalog: Catalog, *, today: str) -> tuple[Note, ...]:
    """Risks of an option as sentences with codes; every one states the fact that it rests on."""
    card = catalog.accelerators[option.accelerator]
    framework = None if option.framework is None else catalog.frameworks.get(option.framework.id)
    return (
        _supply(card, catalog),
        *_price_age(option, today),
        _support(card),
        *_next_generation(card, catalog),
        _vendor(card, option),
        *_framework(framework),
        *_margin(option),
    )


def _supply(card: Accelerator, catalog: Catalog) -> Note:
    """Who offers the card, by the rows of the price table that are offers."""
    rows = [row for row in catalog.prices_of.get(card.id, ()) if row.is_offer]
    renting = sorted({row.provider or _("unnamed") for row in rows if row.kind == "rent"})
    selling = sorted({row.provider or _("unnamed") for row in rows if row.kind == "buy"})
    parts = [_("rented out by {names}").format(names=_names(renting))] if renting else []
    parts += [_("sold by {names}").format(names=_names(selling))] if selling else []
    if len(renting) + len(selling) == 1:
        parts.append(_("one source only"))
    text = _("supply, by the price table: {parts}; a listed price is no delivery date")
    return Note("supply", text.format(parts=_("; ").join(parts) or _("no offer, market figures at most")))


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return _(", ").join(names[:NAMED]) + (_(" and {n} more").format(n=more) if more > 0 else "")


def _price_age(option: Option, today: str) -> list[Note]:
    """Age of the price that counts."""
    cost = option.cost
    paid = cost.purchase if cost.basis == "buy" else cost.offer
    age = None if paid is None else price_age_months(as_of=paid.as_of, today=today)
    if paid is None or age is None:
        return [Note("price-age", _("no dated price stands behind the cost"))]
    text = _("the price is {months:.0f} months old ({date}); ask for a quotation before you sign")
    return [Note("price-age", text.format(months=age, date=paid.as_of))]


def _support(card: Accelerator) -> Note:
    """Where the card stands in its life."""
    words = {
        "current": _("a current product"), "legacy": _("a product of an earlier generation"),
        "eol": _("a product at the end of its life"), "announced": _("announced, not yet delivered"),
        "research": _("a research device"),
    }  # fmt: skip
    text = _("{name} is {state}").format(name=card.name, state=words[card.status])
    if card.launch_year is not None:
        text += _(", launched in {year:.0f}").format(year=float(card.launch_year))
    return Note("end-of-support", text + _("; no end of support is published in the catalog: ask the maker"))


def _next_generation(card: Accelerator, catalog: Catalog) -> list[Note]:
    """Cards of the same maker and class that are newer."""
    if card.launch_year is None:
        return []
    newer = [
        other for other in catalog.accelerators.values()
        if other.vendor == card.vendor and other.family == card.family and other.id != card.id
        and (other.status == "announced"
             or (other.launch_year is not None and other.launch_year > card.launch_year
                 and other.architecture != card.architecture))
    ]  # fmt: skip
    if not newer:
        return []
    latest = max(float(o.launch_year or 0.0) for o in newer)
    names = [o.name for o in newer if o.status == "announced" or float(o.launch_year or 0.0) == latest]
    text = _("newer cards of the same maker and class: {names}; a long contract outlives this generation")
    return [Note("next-generation", text.format(names=_names(names)))]


def _vendor(card: Accelerator, option: Option) -> Note:
    """How far the choice binds to one maker."""
    vendors = () if option.framework is None else option.framework.vendors
    if option.framework is not None and len(vendors) > 1:
        text = _(
            "{framework} also runs on accelerators of {names}: code can move, kernels must be tested anew"
        )
        others = _names([v for v in vendors if v != card.vendor])
        return Note("single-vendor", text.format(framework=option.framework.name, names=others))
    text = _("single vendor: the software of this plan runs on accelerators of {vendor} only")
    return Note("single-vendor", text.format(vendor=card.vendor))


def _framework(framework: Framework | None) -> list[Note]:
    """A framework that is not developed any more."""
    if framework is None or framework.upkeep in (None, "active"):
        return []
    text = _("{name} is under {upkeep} development").format(name=framework.name, upkeep=framework.upkeep)
    if framework.replaced_by is not None:
        text += _(", replaced by {name}").format(name=framework.replaced_by)
    return [Note("framework-upkeep", text)]


def _margin(option: Option) -> list[Note]:
    """A tight fit, and a wide interval."""
    notes = []
    if option.memory.state == "tight":
        text = _("memory is tight: {free:.0f} % free; a longer input or another version may not fit")
        notes.append(Note("memory-tight", text.format(free=option.memory.headroom_pct)))
    spans = [e.high / e.low for e in option.performance.values() if e.low > 0]
    if spans and max(spans) > WIDE:
        text = _(
            "the widest 80 % interval spans a factor of {x:.1f}: run the acceptance test before you sign"
        )
        notes.append(Note("wide-interval", text.format(x=max(spans))))
    return notes
