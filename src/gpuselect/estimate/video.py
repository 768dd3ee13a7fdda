"""Video analytics: how many camera streams one device carries.

streams = floor(0.9 * min(decode, detector)), the rule of the feasibility study, section 8: the
decode limit was 20 % off in the median on published stream tables, the detector limit 15-20 % with
a class constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SAFETY = 0.9  # feasibility study, section 8: the share of the smaller limit that is planned with


@dataclass(frozen=True, slots=True)
class Streams:
    """Streams that all devices together carry, and the limits of one device."""

    per_device: Any
    decode_limit: Any  # streams; infinite where the codec is decoded elsewhere
    inference_limit: Any  # streams
    total: Any
    frame_seconds: Any  # time of a batch in the detector: part of a frame's latency
    batch: Any


def decode_limit(*, pixel_rate: Any, engines: Any, width: Any, height: Any, fps: Any) -> Any:
    """Streams that the decode engines carry: engines * pixels per second / pixels of a stream.

    `pixel_rate` of one engine [pixel/s]: about 2500 million for HEVC and 1250 million for H.264.

    >>> round(float(decode_limit(pixel_rate=2.5e9, engines=2, width=1920, height=1080, fps=30)), 1)
    80.4
    """
    return engines * pixel_rate / (width * height * fps)


def inference_limit(*, images_per_s: Any, fps: Any, interval: Any = 0.0) -> Any:
    """Streams that the detector carries; `interval` frames are skipped after each one that it sees.

    >>> inference_limit(images_per_s=600.0, fps=25.0, interval=1.0)
    48.0
    """
    return images_per_s / fps * (1.0 + interval)


def streams(*, decode: Any, inference: Any, count: Any, frame_seconds: Any, batch: Any) -> Streams:
    """Whole streams of `count` devices, a tenth of the smaller limit kept free."""
    per_device = np.floor(SAFETY * np.minimum(decode, inference))
    return Streams(
        per_device=per_device, decode_limit=decode, inference_limit=inference, total=count * per_device,
        frame_seconds=frame_seconds, batch=batch,
    )  # fmt: skip
