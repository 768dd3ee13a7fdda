"""Edge modules in their power modes: the same module with the rates that a mode leaves it."""

from __future__ import annotations

import re

from gpuselect.catalog import Accelerator
from gpuselect.decision import Note
from gpuselect.i18n import _
from gpuselect.provenance import Figure, Status

MODE = re.compile(r"(\d+(?:\.\d+)?)\s*W", re.IGNORECASE)


def modes_of(accelerator: Accelerator) -> dict[float, str]:
    """Power of each mode [W] and its name, smallest first."""
    found = {float(match[1]): name for name in accelerator.power_modes if (match := MODE.match(name))}
    return dict(sorted(found.items()))


def at_power(accelerator: Accelerator, watts: float | None, limit: float | None = None) -> Accelerator:
    """The module in the largest mode of at most `watts`; without `watts`, below a `limit` that it is above.

    Matrix rates go with units and clock of the GPU, the bandwidth with the memory clock. Decoders keep
    their clock in every mode (nvpmodel configurations). A card without a fitting mode comes back as it is.
    """
    if watts is None and (limit is None or (accelerator.power_w or 0.0) <= limit):
        return accelerator
    wanted = limit if watts is None else watts
    fitting = [power for power in modes_of(accelerator) if power <= float(wanted or 0.0)]
    if not fitting:
        return accelerator
    power = fitting[-1]
    name = modes_of(accelerator)[power]
    share = float(accelerator.power_modes[name])
    bandwidth = accelerator.memory_bandwidth_gb_s
    slower = accelerator.power_mode_bandwidth.get(name)
    return accelerator.model_copy(
        update={
            "dense_tflops": {key: scaled(rate, share) for key, rate in accelerator.dense_tflops.items()},
            "memory_bandwidth_gb_s": scaled(bandwidth, float(slower)) if bandwidth and slower else bandwidth,
            "power_w": Figure(power, source=accelerator.power_modes[name].source, status="stated"),
            "name": f"{accelerator.name} ({name})" if share < 1.0 else accelerator.name,
        }
    )


def scaled(figure: Figure, share: float) -> Figure:
    """A figure times a share of it, marked as derived."""
    if share == 1.0:
        return figure
    status: Status = "assumed" if figure.status == "assumed" else "derived"
    return Figure(float(figure) * share, source=figure.source, status=status, note=figure.note)


def mode_missing(accelerator: Accelerator, watts: float | None) -> Note | None:
    """Rejection of what has no power mode of at most so many watts."""
    if watts is None:
        return None
    modes = modes_of(accelerator)
    if any(power <= watts for power in modes):
        return None
    known = _(", ").join(modes.values()) or _("none in the catalog")
    text = _("no power mode of {w:.0f} W or less; modes: {all}")
    return Note("power-mode", text.format(w=watts, all=known))


def whole_card(accelerator: Accelerator) -> Accelerator:
    """A card as one user sees it."""
    return accelerator
