"""How the keys of own networks, video pipelines, shared cards, power modes and codes are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.quantities import parse_percent, parse_power
from gpuselect.workload_words import choice, flag, names, positive, whole, word

_CODECS = {"h264": "h264", "h.264": "h264", "avc": "h264", "h265": "h265", "h.265": "h265", "hevc": "h265",
           "av1": "av1"}  # fmt: skip
_TRACKERS = {"none": "none", "no": "none", "iou": "iou", "nvsort": "iou", "sort": "iou", "nvdcf": "nvdcf",
             "dcf": "nvdcf", "correlation": "nvdcf"}  # fmt: skip
_ISOLATION = {"any": "any", "hardware": "hardware", "mig": "hardware", "hard": "hardware",
              "software": "software", "mps": "software", "time-slicing": "software"}  # fmt: skip
_COOLING = {"passive": "passive", "fanless": "passive", "active": "active", "fan": "active",
            "liquid": "liquid", "water": "liquid"}  # fmt: skip
_KERNELS = {
    "dgemm": "dgemm", "gemm": "dgemm", "matmul": "dgemm", "linpack": "dgemm", "hpl": "dgemm",
    "fft": "fft", "3d-fft": "fft", "stencil": "stencil", "cfd": "stencil",
    "spmv": "spmv", "sparse": "spmv", "cg": "spmv", "hpcg": "spmv",
    "md": "md", "molecular-dynamics": "md", "gromacs": "md", "openmm": "md", "amber": "md", "namd": "md",
}  # fmt: skip


def _up_to_all(raw: object) -> float:
    """A share above 0 and at most 1."""
    share = parse_percent(raw)
    if not 0 < share <= 1:
        raise InputError(_("{raw!r} is not a share between 0 and 100 %").format(raw=raw))
    return share


def _share(raw: object) -> float:
    """A share from 0 to 1."""
    share = parse_percent(raw)
    if not 0 <= share <= 1:
        raise InputError(_("{raw!r} is not a share between 0 and 100 %").format(raw=raw))
    return share


PIPELINE_PARSERS: Mapping[str, Callable[[object], Any]] = {
    "gmacs": partial(positive, strip="g(?:macs?)?"), "activations": positive, "family": word,
    "secondary": names, "objects": partial(positive, strip="objects?"),
    "secondary_interval": partial(whole, low=0, high=1000),
    "tracker": partial(choice, words=_TRACKERS), "encode": partial(choice, words=_CODECS), "dla": flag,
    "load": _up_to_all, "power_mode": parse_power,
    "tenants": partial(whole, high=1000), "isolation": partial(choice, words=_ISOLATION),
    "kernel": partial(choice, words=_KERNELS), "exchange": _share,
    "cooling": partial(choice, words=_COOLING),
}  # fmt: skip
