"""What an optimisation does to the training of a network of samples: without it and with it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.effects import Effect, capped, slowed
from gpuselect.estimate.network_memory import network_training_memory
from gpuselect.estimate.roofline import Device
from gpuselect.estimate.vision import Pace, training_pace
from gpuselect.i18n import _
from gpuselect.network_job import NetworkJob
from gpuselect.network_sites import network_device, training_runtime
from gpuselect.plan import Plan
from gpuselect.search import Site
from gpuselect.units import GB, GIB

IMAGE_KINDS = frozenset({"cnn", "vit", "detector", "diffusion"})
CHANNELS = 3.0
WIDE = ("tf32", "fp32")


@dataclass(frozen=True, slots=True)
class Training:
    """Training of a network of samples in an answer."""

    job: NetworkJob
    site: Site
    plan: Plan
    catalog: Catalog
    calibration: Calibration

    def pace(self, *, dev: Device | None = None, precision: str = "") -> Pace:
        """Speed of all cards with something changed."""
        constants = self.calibration.network
        return training_pace(
            network=self.job.network, device=dev or self.site.device,
            runtime=training_runtime(self.job.network, precision or self.site.precision, self.calibration),
            batch=float(self.plan.micro_batch), count=float(self.plan.count),
            accumulate=float(self.plan.grad_accum), sharded=int(self.plan.zero_stage) == 3,
            link_efficiency=float(constants.link_efficiency), overlap=float(constants.overlap),
            scale_loss=float(constants.scale_loss), trained_share=self.job.trained_share,
            recompute=bool(self.plan.recompute),
        )  # fmt: skip

    def need(self, precision: str = "") -> float:
        """Need per card [B]."""
        constants, count = self.calibration.network, float(self.plan.count)
        memory = network_training_memory(
            network=self.job.network, batch=float(self.plan.micro_batch), count=count,
            sharded=count if int(self.plan.zero_stage) == 3 else 1.0,
            precision=precision or self.site.precision, optimizer_bytes=self.job.optimizer_bytes,
            saved_copies=constants.saved_copies(self.job.network.kind), trained_share=self.job.trained_share,
            recompute=bool(self.plan.recompute),
            context_bytes=float(constants.context_gib) * GIB,
        )  # fmt: skip
        return float(memory.total)

    def device(self, precision: str) -> Device | None:
        """The card in another precision."""
        return network_device(
            self.site.accelerator, self.site.system, network=self.job.network, precision=precision,
            training=True, calibration=self.calibration,
        )  # fmt: skip


def seconds(pace: Pace) -> float:
    """Time of a thousand samples [s]."""
    return 1e3 / float(pace.rate)


def network_precision(training: Training) -> Effect | None:
    """16-bit products against fp32 (TF32 where the card has it)."""
    wide = next((p for p in WIDE if training.device(p) is not None), None)
    if wide is None or training.site.precision not in ("fp16", "bf16"):
        return None
    without = training.pace(dev=training.device(wide), precision=wide)
    return Effect(
        "mixed-precision",
        _("{narrow} against {wide}").format(narrow=training.site.precision, wide=wide),
        memory=(training.need(wide), training.need()),
        seconds=(seconds(without), seconds(training.pace())),
        in_use=True,
    )  # fmt: skip


def data_loading(training: Training) -> Effect | None:
    """Decoded images over the slot beside the step, against before it."""
    pixels = training.job.network.pixels
    slot = training.site.accelerator.pcie_one_way_gb_s
    if training.job.network.kind not in IMAGE_KINDS or not pixels or not slot:
        return None
    pace = training.pace()
    each = CHANNELS * float(pixels) * 4.0  # decoded to fp32 on the host
    copied = each * float(pace.batch) / (float(slot) * GB)
    step = float(pace.batch) * float(training.plan.count) / float(pace.rate)
    now = seconds(pace)
    rate = each * float(pace.rate) / float(training.plan.count) / GB
    what = _("{rate:.2g} GB/s of decoded images to each card").format(rate=rate)
    return Effect(
        "data-loading",
        what,
        seconds=(now * (step + copied) / step, now),
        in_use=True,
    )


def training_power_cap(training: Training) -> Effect:
    """A board limit of 80 % of the load."""
    slow = training.pace(dev=slowed(training.site.device))
    return capped(seconds(training.pace()), seconds(slow))


def network_training_effects(training: Training) -> list[Effect]:
    """Every effect that can be computed for the run."""
    found = (network_precision, data_loading, training_power_cap)
    return [effect for make in found if (effect := make(training)) is not None]
