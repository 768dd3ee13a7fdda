"""Video analytics: how many camera streams one device carries, stage by stage.

A frame is decoded on an engine of its own, scaled and converted, seen by the detector (all frames, or
one in `interval + 1`), its objects tracked and looked at by secondary networks, and encoded again where
that is asked for, on another engine. Engines work side by side, so the slowest limits:

streams = min(decode, GPU, encode, memory)

The GPU takes its stages one after another. Feasibility study, section 8: the decode limit was 20 %
off in the median on published stream tables, the detector limit 15-20 % with a constant per class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuselect.estimate.roofline import Device
from gpuselect.estimate.vision import Pace

NV12_BYTES = 1.5  # per pixel of a decoded frame: 8-bit luma, chroma of a quarter of the pixels twice
STAGES = ("decode", "gpu", "encode", "memory")  # the order of `Streams.bottleneck`


@dataclass(frozen=True, slots=True)
class Streams:
    """Streams that all devices together carry, and the limits of one device.

    Limits are infinite where a stage is not there. Stage times are those of one frame on one device [s].
    """

    per_device: Any
    decode_limit: Any  # streams
    inference_limit: Any  # streams: everything that the GPU does
    encode_limit: Any  # streams
    memory_limit: Any  # streams
    total: Any
    frame_seconds: Any  # from the last pixel received to the result
    batch: Any
    preprocess: Any
    detector: Any  # share of a frame: a skipped one costs nothing
    secondary: Any
    tracker: Any
    batching_gain: Any  # rate of the detector with full batches against frames one by one
    dla_gain: Any  # detector rate with the DLA engines against without; 1 where they are not used


def decode_limit(*, pixel_rate: Any, engines: Any, width: Any, height: Any, fps: Any) -> Any:
    """Streams that the decode (or encode) engines carry: engines * pixel rate / pixels of a stream.

    `pixel_rate` of one engine [pixel/s]: about 2500 million for HEVC and 1500 million for H.264.

    >>> round(float(decode_limit(pixel_rate=2.5e9, engines=2, width=1920, height=1080, fps=30)), 1)
    80.4
    """
    return engines * pixel_rate / (width * height * fps)


def inference_limit(*, images_per_s: Any, fps: Any, interval: Any = 0.0) -> Any:
    """Streams that a detector alone carries; `interval` frames are skipped after each one that it sees.

    >>> inference_limit(images_per_s=600.0, fps=25.0, interval=1.0)
    48.0
    """
    return images_per_s / fps * (1.0 + interval)


def preprocess_time(*, pixels: Any, input_elements: Any, element_bytes: Any, device: Device) -> Any:
    """Colour conversion and scaling of one frame [s]: it is read once, the network's input written.

    >>> from gpuselect.estimate.roofline import Device
    >>> card = Device(1e13, 1e13, 3e11, 1e10, 0, 0, 1, 1, 0, 0.5, 0.7)
    >>> time = preprocess_time(pixels=1920 * 1080, input_elements=3 * 640 * 640, element_bytes=2, device=card)
    >>> round(1e6 * time, 1)
    26.5
    """
    traffic = NV12_BYTES * pixels + input_elements * element_bytes
    return traffic / (device.bandwidth * device.bandwidth_efficiency)


def tracker_time(*, objects: Any, bytes_per_object: Any, device: Device) -> Any:
    """Correlation filters of one frame [s]: traffic of crops, features and spectra of each object."""
    return objects * bytes_per_object / (device.bandwidth * device.bandwidth_efficiency)


def latency(
    *, decode_rate: Any, pixels: Any, batch: Any, active: Any, fps: Any, seconds: Any, extra: Any
) -> Any:
    """Time from the last pixel of a frame to its result [s].

    One frame through one decoder; the wait until `batch` frames of `active` streams are there, half of it on
    average; the batch in the detector; the other stages of the frames of the batch.
    """
    waiting = np.minimum((batch - 1.0) / np.maximum(active, 1.0), 1.0) / (2.0 * fps)
    return pixels / decode_rate + waiting + seconds + extra * batch


def carried(
    *, decode: Any, encode: Any, memory: Any, fps: Any, interval: Any, count: Any, pace: Pace, gain: Any,
    preprocess: Any, secondary: Any, tracker: Any, dla_gain: Any, frame_seconds: Any,
) -> Streams:  # fmt: skip
    """Whole streams of `count` devices, each limited by its slowest engine.

    `pace` is the detector at its batch, `gain` what batches gain it at most. `secondary` and `tracker`
    are per frame [s]; the detector sees one frame in `interval + 1`.
    """
    detector = 1.0 / (pace.rate * dla_gain * (1.0 + interval))
    gpu = 1.0 / (fps * (preprocess + detector + secondary + tracker))
    per_device = np.floor(np.minimum(np.minimum(decode, gpu), np.minimum(encode, memory)) + 1e-9)
    return Streams(
        per_device=per_device, decode_limit=decode, inference_limit=gpu, encode_limit=encode,
        memory_limit=memory, total=count * per_device, frame_seconds=frame_seconds, batch=pace.batch,
        preprocess=preprocess, detector=detector, secondary=secondary, tracker=tracker,
        batching_gain=gain, dla_gain=dla_gain,
    )  # fmt: skip


def bottleneck(found: Streams) -> str:
    """Name of the stage that limits one device.

    >>> one = dict.fromkeys(Streams.__slots__, 1.0)
    >>> bottleneck(Streams(**(one | {"decode_limit": 20.0, "inference_limit": 12.0,
    ...                              "encode_limit": 1e9, "memory_limit": 90.0})))
    'gpu'
    """
    limits = (found.decode_limit, found.inference_limit, found.encode_limit, found.memory_limit)
    return STAGES[int(np.argmin(limits))]
