"""From catalog entries to the `Device` arrays that the estimates use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from gpuselect.calibration import Calibration, serving_class, training_factor
from gpuselect.catalog import Accelerator, System
from gpuselect.estimate.roofline import Device
from gpuselect.units import GB, GIB, TFLOP

BF16_CAPABILITY = 8.0  # CUDA C++ programming guide: bfloat16 needs compute capability 8.0


def supports_bf16(accelerator: Accelerator) -> bool:
    """True when the card multiplies bfloat16 in hardware (CUDA: capability 8.0 and later)."""
    capability = accelerator.compute_capability_number
    if capability is not None:
        return capability >= BF16_CAPABILITY
    return "bf16" in accelerator.dense_tflops or accelerator.vendor == "apple"


def has_tf32(accelerator: Accelerator) -> bool:
    """True for NVIDIA's cards from Ampere on: capability 8.0, at half the 16-bit rate on each of them."""
    capability = accelerator.compute_capability_number or 0.0
    return accelerator.vendor == "nvidia" and capability >= BF16_CAPABILITY


def peak_tflops(accelerator: Accelerator, precision: str) -> float | None:
    """Dense peak of a compute precision [TFLOP/s], None where the card has none or it is unknown.

    16-bit formats share one rate on every vendor's matrix units, so either figure serves for the
    other; Apple GPUs run 16-bit at the fp32 rate. `fp16_acc16` sums in 16 bit, which GeForce cards do
    at twice the rate that is printed for 32-bit sums (feasibility study, E4).
    """
    rates = accelerator.dense_tflops
    if precision in ("bf16", "fp16"):
        if precision == "bf16" and not supports_bf16(accelerator):
            return None
        either = rates.get("bf16") or rates.get("fp16")
        return either or (rates.get("fp32") if accelerator.vendor == "apple" else None)
    if precision == "fp16_acc16":
        desktop = accelerator.unified_memory and accelerator.form_factor == "desktop system"
        twice = accelerator.vendor == "nvidia" and (accelerator.family == "consumer" or desktop)
        doubled = 2.0 if twice else 1.0
        sixteen = peak_tflops(accelerator, "fp16")
        return rates.get("fp16_acc16") or (doubled * sixteen if sixteen else None)
    if precision == "tf32" and "tf32" not in rates and has_tf32(accelerator):
        sixteen = peak_tflops(accelerator, "fp16")
        return sixteen / 2.0 if sixteen else None
    named = {"mxfp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4"}.get(precision, precision)
    return rates.get(named)  # type: ignore[call-overload, no-any-return]


def usable_bytes(accelerator: Accelerator, calibration: Calibration) -> float | None:
    """Memory that a program can have [B]: as the driver tells, else the marketed size less a margin.

    Without a driver figure the label is read as decimal GB, the smaller reading; of unified
    memory at most the usable share of the label counts.
    """
    if accelerator.usable_memory_gib is not None:
        total = float(accelerator.usable_memory_gib) * GIB
    elif accelerator.memory_gb is not None:
        total = float(accelerator.memory_gb) * GB
    else:
        return None
    if accelerator.unified_memory and accelerator.memory_gb is not None:
        memory = calibration.memory
        apple = accelerator.vendor == "apple"
        share = memory.unified_share if apple else memory.unified_share_other
        return min(total, float(accelerator.memory_gb) * GB * float(share))
    return total


def link_one_way(accelerator: Accelerator) -> float | None:
    """Accelerator link, one direction [byte/s]; None without a link of its own."""
    if accelerator.link_one_way_gb_s is not None:
        return float(accelerator.link_one_way_gb_s) * GB
    if accelerator.link_both_ways_gb_s is not None:
        return float(accelerator.link_both_ways_gb_s) * GB / 2.0
    return None


def peer_share(accelerator: Accelerator, calibration: Calibration) -> float:
    """Share of the PCIe rate between two cards: consumer cards have no peer access and copy twice."""
    return float(calibration.training.host_staged) if accelerator.family == "consumer" else 1.0


def device(
    accelerator: Accelerator,
    system: System | None,
    *,
    precision: str,
    serving: bool,
    calibration: Calibration,
) -> Device | None:
    """One accelerator in its system as a `Device`, None when a figure that it needs is unknown.

    PCIe peers use the sourced one-way rate of the slot; without any, the default of
    calibration.yaml. A system without a stated network gets the default network.
    """
    peak = peak_tflops(accelerator, precision)
    sixteen = peak_tflops(accelerator, "bf16") or peak_tflops(accelerator, "fp16") or peak
    usable = usable_bytes(accelerator, calibration)
    if not peak or not sixteen or not accelerator.memory_bandwidth_gb_s or usable is None:
        return None
    interconnect = calibration.interconnect
    pcie = float(accelerator.pcie_one_way_gb_s or interconnect.default_pcie_gb_s) * GB
    fast = link_one_way(accelerator)
    domain = int(system.fast_domain) if system else 1
    per_node = int(system.accelerators_per_node) if system else 1
    network = (system.network_one_way_gb_s if system else None) or interconnect.default_network_gb_s
    linked = fast is not None and domain > 1
    if serving:
        kind = serving_class(accelerator)
        gemm = float(calibration.serving_compute[kind])
        bandwidth = float(calibration.serving_bandwidth[kind])
    else:
        constants = calibration.training
        best = calibration.best_gemm.get(accelerator.id, constants.default_best_gemm)
        gemm = float(best) * float(constants.sustained_gemm) * training_factor(accelerator, calibration)
        bandwidth = float(constants.bandwidth_efficiency)
    desktop = accelerator.family in ("consumer", "workstation")
    host = calibration.host
    return Device(
        peak=float(peak) * TFLOP,
        peak_16bit=float(sixteen) * TFLOP,
        bandwidth=float(accelerator.memory_bandwidth_gb_s) * GB,
        usable_bytes=usable,
        link=fast if linked else pcie if serving else pcie * peer_share(accelerator, calibration),
        link_latency=float(calibration.link_latency_s["fast" if linked else "pcie"]),
        domain=domain if linked else 1,
        per_node=per_node,
        network=float(network) * GB,
        gemm_efficiency=gemm,
        bandwidth_efficiency=bandwidth,
        host_link=pcie,
        host_rate=float(host.desktop_rate if desktop else host.server_rate),
        host_shared=1 if desktop else per_node,
        peer=pcie * peer_share(accelerator, calibration),
    )


def device_table(devices: Sequence[Device], index: np.ndarray) -> Device:
    """Gather devices into arrays: element i is devices[index[i]]."""
    return Device(
        **{
            field.name: np.array([getattr(item, field.name) for item in devices])[index]
            for field in fields(Device)
        }
    )
