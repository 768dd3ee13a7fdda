"""Switching points of the first option: how far one input may move alone before another card leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuselect.explain.engine import Engine, boundary, first
from gpuselect.explain.levers import Lever, leads, levers
from gpuselect.explain.records import Switch
from gpuselect.explain.wording import lever_name, value_text
from gpuselect.i18n import _
from gpuselect.judging import Judged
from gpuselect.workload import Workload


def switches_of(engine: Engine, workload: Workload, judged: Judged) -> tuple[Switch, ...]:
    """For each input, up and down: the value at which the first place passes on, or that it stays."""
    card = first(judged)
    found: list[Switch] = []
    for lever in levers(engine, workload, judged, card):
        ways = [lever.up] if lever.what == "price" else [lever.down, lever.up]  # cheaper takes nothing away
        both = [s for values in ways if (s := switch_of(lever, card, values)) is not None]
        if len(both) == 2 and all(s.value is None for s in both):
            text = _("{name}: no switch from {low} to {high} (now {base})").format(
                name=lever_name(lever.what), low=value_text(both[0].end, lever.unit),
                high=value_text(both[1].end, lever.unit), base=value_text(lever.base, lever.unit),
            )  # fmt: skip
            both = [replace(s, text=text) for s in both]
        found += both
    return tuple(found)


def switch_of(lever: Lever, card: str, values: Sequence[float]) -> Switch | None:
    """The first of the values at which the card does not lead, then the point before it; to 2 %."""
    if not values:
        return None
    stays, before = leads(lever, card), lever.base
    name, unit = lever_name(lever.what), lever.unit
    for value in values:
        if stays(value):
            before = value
            continue
        edge = boundary(lambda x: not stays(x), value, before)
        edge = float(round(edge)) if lever.whole else edge
        other = first(lever.judge_at(edge)) or first(lever.judge_at(value))
        ranks, none = (
            _("{name}: at {value} rather than {base} {other} would rank first"),
            _("{name}: at {value} rather than {base} nothing meets the request"),
        )
        words = {"name": name, "value": value_text(edge, unit), "base": value_text(lever.base, unit)}
        text = (ranks if other else none).format(other=other, **words)
        return Switch(lever.what, lever.base, edge, value, unit, other, text)
    text = _("{name}: no switch from {base} to {end}")
    return Switch(
        lever.what, lever.base, None, values[-1], unit, "",
        text.format(name=name, base=value_text(lever.base, unit), end=value_text(values[-1], unit)),
    )  # fmt: skip
