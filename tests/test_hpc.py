"""Scientific codes: kinds of code, the rule on double precision, links, and what ECC does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuselect.advisor import estimate, recommend, resolve_job
from gpuselect.decision import Decision, Option
from gpuselect.errors import InputError
from gpuselect.estimate.hpc import link_rate, run_time
from gpuselect.estimate.roofline import Device
from gpuselect.hpc_job import hpc_precision, slow_fp64
from gpuselect.network_job import HpcJob
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.workload import Workload

CATALOG, CALIBRATION, DEFAULTS = load_catalog(), load_calibration(), load_defaults()
TODAY = "2026-11-30"


def job(**keys: Any) -> tuple[HpcJob, set[str]]:
    """The resolved code and the codes of its assumptions."""
    found, notes = resolve_job(Workload.from_mapping({"task": "hpc", **keys}), CATALOG, CALIBRATION)
    assert isinstance(found, HpcJob)
    return found, {note.code for note in notes}


def ask(**keys: Any) -> Decision:
    """A recommendation."""
    return recommend(
        Workload.from_mapping({"task": "hpc", **keys}), CATALOG, CALIBRATION, DEFAULTS, today=TODAY
    )


def rejection(decision: Decision, card: str) -> str:
    """Code of the rejection of one card, empty when it has none."""
    note = next(item.rejection for item in decision.considered if item.accelerator == card)
    return "" if note is None else note.code


def on(card: str, count: int, **keys: Any) -> Option:
    """The option on given cards."""
    work = Workload.from_mapping({"task": "hpc", **keys})
    option = estimate(work, [(count, card)], CATALOG, CALIBRATION, DEFAULTS, today=TODAY).option
    assert option is not None
    return option


def test_a_kind_of_code_gives_the_missing_side():
    """SpMV: 2 flop for 12 bytes, so 1 PB is 1.67e14 flop; a stencil does 8 flop for 16 bytes."""
    sparse, notes = job(kernel="spmv", bytes="1PB")
    assert sparse.flops == pytest.approx(1.67e14)
    assert "default-intensity" in notes
    assert job(kernel="stencil", flops="1e15")[0].traffic == pytest.approx(2e15)
    given, notes = job(kernel="fft", flops="1e15", bytes="1PB")
    assert (given.flops, given.traffic) == (1e15, 1e15)
    assert "default-intensity" not in notes


def test_precision_of_a_kind():
    """Molecular dynamics is mixed precision and wants no ECC; --fp64 overrides the kind."""
    mixed, notes = job(kernel="gromacs", flops="1e18")
    assert mixed.precision == "fp32"
    assert "default-ecc" not in notes
    double, notes = job(kernel="md", fp64=True, flops="1e18")
    assert double.precision == "fp64"
    assert "default-ecc" in notes
    with pytest.raises(InputError, match="contradicts"):
        job(fp64=True, precision="bf16", flops="1e18")
    with pytest.raises(InputError, match="did you mean dgemm"):
        job(kernel="dgemn", flops="1e18")


def test_dense_products_run_on_matrix_units():
    """A100: 19.5 TFLOPS of FP64 tensor against 9.7; V100 has none."""
    dense, _notes = job(kernel="dgemm", flops="1e18")
    assert hpc_precision(CATALOG.accelerators["a100-pcie-80gb"], dense) == "fp64_tensor"
    assert hpc_precision(CATALOG.accelerators["v100-pcie-16gb"], dense) == "fp64"
    plain, _notes = job(fp64=True, flops="1e18")
    assert hpc_precision(CATALOG.accelerators["a100-pcie-80gb"], plain) == "fp64"


def test_geforce_is_turned_away_only_where_fp64_limits():
    """1/64 of FP32: in the way of dense products, not of sparse ones, not of mixed precision."""
    card = CATALOG.accelerators["rtx-4090-24gb"]
    dense = slow_fp64(card, job(kernel="dgemm", flops="1e18")[0])
    assert dense is not None
    assert "1/64" in dense.text
    assert slow_fp64(card, job(kernel="spmv", bytes="1PB")[0]) is None
    assert slow_fp64(card, job(kernel="md", flops="1e18")[0]) is None
    for name in ("a100-pcie-40gb", "v100-pcie-16gb", "h100-pcie-80gb", "a30-24gb", "mi250x-128gb"):
        assert slow_fp64(CATALOG.accelerators[name], job(kernel="dgemm", flops="1e18")[0]) is None, name


def test_ecc_and_fp64_as_rules():
    """Double precision asks for ECC; without it the FP64 rate still turns GeForce and T4 away."""
    double = ask(fp64=True, flops="1e18", form_factor="pcie")
    assert rejection(double, "rtx-4090-24gb") == "ecc-missing"
    assert rejection(double, "t4-16gb") == "fp64-slow"
    assert rejection(double, "l40s-48gb") == "fp64-slow"
    assert rejection(double, "a100-pcie-80gb") == ""
    assert rejection(ask(fp64=True, flops="1e18", ecc=False), "rtx-4090-24gb") == "fp64-slow"


def test_mixed_precision_prefers_geforce():
    """A consumer card is the cheapest for mixed-precision molecular dynamics (scenario sc-140)."""
    first = ask(kernel="md", flops="1e19").recommendations[0]
    assert CATALOG.accelerators[first.accelerator].family == "consumer"


def test_exchange_over_the_link():
    """Half of 100 TB on two cards over 500 GB/s: 25 s, hidden up to the overlap."""
    base = {"flops": 0.0, "traffic": 1e14, "peak": 1e13, "bandwidth": 1e12, "count": 2, "link": 5e11,
            "compute_efficiency": 1.0, "bandwidth_efficiency": 1.0, "scale_loss": 0.0}  # fmt: skip
    assert float(run_time(**base, exchange=0.5).communication) == pytest.approx(25.0)
    assert float(run_time(**base, exchange=0.5, overlap=0.5).communication) == pytest.approx(0.0)
    assert float(run_time(**base | {"count": 1}, exchange=0.5).communication) == 0.0
    counts = np.array([1, 2, 4])
    many = run_time(**base | {"count": counts}, exchange=0.5).seconds.tolist()
    assert many == [float(run_time(**base | {"count": c}, exchange=0.5).seconds) for c in (1, 2, 4)]


def test_link_is_that_of_the_place():
    """Inside the node the link, across nodes the network of a card."""
    card = Device(1e13, 1e13, 1e12, 8e10, 3e11, 0.0, 8, 8, 2.5e10, 0.8, 0.8)
    assert float(link_rate(card, 8)) == 3e11
    assert float(link_rate(card, 16)) == 2.5e10


def test_fourier_transforms_scale_worse_than_stencils():
    """A transpose crosses the links, a halo hardly does; NVLink scales better than PCIe."""

    def speedup(card: str, kernel: str, count: int) -> float:
        keys = {"kernel": kernel, "bytes": "10PB"}
        one = on(card, 1, **keys).performance["run_time_h"].value
        return one / on(card, count, **keys).performance["run_time_h"].value

    assert speedup("h100-sxm5-80gb", "stencil", 8) > 7
    assert speedup("h100-sxm5-80gb", "fft", 64) < speedup("h100-sxm5-80gb", "stencil", 64)
    assert speedup("a100-sxm4-80gb", "fft", 4) > speedup("a30-24gb", "fft", 4)
