"""Time of collectives [s]: steps * latency + volume / bandwidth. Volumes are bytes per rank."""

from __future__ import annotations

from typing import Any


def all_reduce(*, size: Any, ranks: Any, bandwidth: Any, latency: Any = 0.0) -> Any:
    """Ring all-reduce: 2 (n-1)/n size / bandwidth + latency (Thakur 2005, section 4).

    >>> all_reduce(size=1e9, ranks=1, bandwidth=1e9)
    0.0
    """
    return (ranks > 1) * (latency + 2.0 * (ranks - 1) / ranks * size / bandwidth)


def all_gather(*, size: Any, ranks: Any, bandwidth: Any, latency: Any = 0.0) -> Any:
    """Ring all-gather of `size` bytes in all, or the scatter of a reduction: (n-1)/n size / bandwidth.

    >>> all_gather(size=2e9, ranks=2, bandwidth=1e9)
    1.0
    """
    return (ranks > 1) * (latency + (ranks - 1) / ranks * size / bandwidth)


def all_to_all(*, size: Any, ranks: Any, bandwidth: Any, latency: Any = 0.0) -> Any:
    """All-to-all of `size` bytes that a rank sends: (n-1)/n size / bandwidth."""
    return (ranks > 1) * (latency + (ranks - 1) / ranks * size / bandwidth)


def point_to_point(*, size: Any, stages: Any, bandwidth: Any) -> Any:
    """Hand-over of `size` bytes between the stages of a pipeline: size / bandwidth, 0 for one stage.

    >>> point_to_point(size=1e9, stages=1, bandwidth=1e9)
    0.0
    """
    return (stages > 1) * size / bandwidth
