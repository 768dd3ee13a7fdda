"""Shared cards: the ways to give a card to several tenants, and what one tenant sees of it.

A MIG slice has units, memory, bandwidth and decoders of its own; time slicing (or MPS) gives a share of the
time and of the memory without a wall between tenants; a card each is the strongest wall of all.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator
from gpuselect.i18n import _
from gpuselect.power_modes import scaled
from gpuselect.provenance import Figure

PROFILE = re.compile(r"(?P<name>\d+g\.\d+gb) x(?P<count>\d+)(?: \((?P<gib>[\d.]+) GiB)?")
MOST_TIME_SLICES = 16  # tenants of one card by time slicing; more wait too long for their turn


@dataclass(frozen=True, slots=True)
class Share:
    """One way to share a card: `kind` mig, time or card; the shares are of the whole card."""

    kind: str
    per_card: int
    compute: float
    memory: float
    profile: str = ""
    memory_gib: float | None = None  # as a driver listed it

    @property
    def text(self) -> str:
        """What a tenant gets, in words."""
        if self.kind == "card":
            return _("a card each")
        if self.kind == "mig":
            return _("a MIG slice {name} each, {n} to a card, isolated in hardware").format(
                name=self.profile, n=self.per_card
            )
        return _("{n} tenants take turns on a card: nothing isolates their memory and time").format(
            n=self.per_card
        )


def mig_shares(accelerator: Accelerator) -> tuple[Share, ...]:
    """The MIG profiles of a card, smallest slices first; instances beyond the card's limit are cut.

    >>> mig_shares.__name__
    'mig_shares'
    """
    slices = {item.name: item for item in accelerator.mig_slices}
    size = float(accelerator.memory_gb or 0.0)
    most = int(accelerator.mig_max_instances or 0)
    found = []
    for match in PROFILE.finditer(str(accelerator.mig_profiles or "")):
        item = slices.get(match["name"])
        if item is None or not size or int(match["count"]) < 2:
            continue
        found.append(
            Share(
                "mig",
                min(int(match["count"]), most),
                item.compute_fraction,
                item.memory_gb / size,
                item.name,
                float(match["gib"]) if match["gib"] else None,
            )
        )
    return tuple(sorted(found, key=lambda s: (-s.per_card, s.memory)))


def shares_of(
    accelerator: Accelerator, tenants: int, isolation: str, calibration: Calibration
) -> tuple[Share, ...]:
    """The ways to share a card, most tenants per card first.

    Hardware isolation allows slices and a card each; software adds time slicing where a card has no MIG;
    `software` takes time slicing on every card.
    """
    whole = Share("card", 1, 1.0, 1.0)
    slices = mig_shares(accelerator) if isolation != "software" else ()
    if slices or isolation == "hardware":
        return (*slices, whole)
    left = float(calibration.sharing.time_slicing)
    turns = tuple(Share("time", n, left / n, 1.0 / n) for n in range(min(tenants, MOST_TIME_SLICES), 1, -1))
    return (*turns, whole)


def cards_for(share: Share, tenants: int) -> int:
    """Cards for so many tenants.

    >>> cards_for(Share("mig", 7, 1 / 7, 1 / 8), 10)
    2
    """
    return math.ceil(tenants / share.per_card)


def seen_by_tenant(accelerator: Accelerator, share: Share, calibration: Calibration) -> Accelerator:
    """The card as one tenant sees it: rates, memory, bandwidth and decoders of the share.

    Bandwidth goes with the memory of a slice. Slices have no peer-to-peer. The power stays that
    of the card, which all its tenants draw together.
    """
    if share.kind == "card":
        return accelerator
    rate = share.compute * (float(calibration.sharing.mig) if share.kind == "mig" else 1.0)
    bandwidth = share.memory if share.kind == "mig" else share.compute
    usable, marketed = accelerator.usable_memory_gib, accelerator.memory_gb
    update: dict[str, object] = {
        "dense_tflops": {key: scaled(value, rate) for key, value in accelerator.dense_tflops.items()},
        "memory_gb": scaled(marketed, share.memory) if marketed else None,
        "usable_memory_gib": scaled(usable, share.memory) if usable else None,
        "link_one_way_gb_s": None, "link_both_ways_gb_s": None,
    }  # fmt: skip
    if share.memory_gib is not None and marketed:
        update["usable_memory_gib"] = Figure(
            share.memory_gib, source=accelerator.mig_profiles.source if accelerator.mig_profiles else "",
            status="measured",
        )  # fmt: skip
    if accelerator.memory_bandwidth_gb_s:
        update["memory_bandwidth_gb_s"] = scaled(accelerator.memory_bandwidth_gb_s, bandwidth)
    for key in ("decode_engines", "encode_engines"):
        engines = getattr(accelerator, key)
        if engines is not None:
            kept = math.floor(float(engines) * share.compute + 1e-9) if share.kind == "mig" else None
            update[key] = scaled(engines, share.compute) if kept is None else _whole(engines, kept)
    for key in ("decode_streams_1080p30", "decode_measured_1080p30", "encode_streams_1080p30"):
        update[key] = {c: scaled(v, share.compute) for c, v in getattr(accelerator, key).items()}
    return accelerator.model_copy(update=update)


def _whole(engines: Figure, kept: int) -> Figure:
    """The engines that a slice keeps: whole ones (MIG user guide)."""
    return Figure(kept, source=engines.source, status="derived", note="whole engines of a slice")
