"""Published stream tables (data/deepstream_streams.csv) against the streams that we give the same device.

A row counts as right within a quarter, or within one stream. What a row leaves open is read as said beside
each pipeline; rows whose pipeline, network or device is not stated are not scored, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuselect.advisor import estimate
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.errors import GpuselectError
from gpuselect.estimate.devices import peak_tflops
from gpuselect.names import resolve_accelerator
from gpuselect.tco import CostDefaults
from gpuselect.workload import Workload

Row = Mapping[str, str]
USUAL_FPS = 30.0  # rows that give frames per second of all streams: streams of 30
SHARE, WHOLE = 0.25, 1.0  # a row is right within a quarter or one stream
TODAY = "2026-11-30"

# Why a row is not scored: one sentence for each code.
SKIPPED: Mapping[str, str] = {
    "pipeline-not-stated": "The row names an application, not its networks.",
    "network-not-stated": "The row does not say which size of the network ran, or at which input.",
    "network-not-counted": "The catalog has no count of the network's operations.",
    "no-device": "The row gives a rule for one engine, or does not name the device.",
    "no-rate": "The row gives the latency of one picture, no rate.",
    "other-runtime": "Darknet or eager PyTorch: no runtime of a video pipeline.",
    "device-doubtful": "The headings of the table are lost, and these rows contradict their order.",
}
TRACKED = {"tracker": "nvdcf"}
PIPELINES: Sequence[tuple[str, Mapping[str, Any]]] = (  # start of the row's text -> keys of the request
    ("deepstream-app: detector + 2 classifiers",
     {"model": "trafficcamnet", "secondary": "vehiclemakenet,vehicletypenet", **TRACKED}),
    ("TrafficCamNet + LPDNet + LPRNet", {"model": "trafficcamnet", "secondary": "lpdnet,lprnet", **TRACKED}),
    ("RT-DETR ResNet50", {"model": "rtdetr-r50", "image_size": "960x544", **TRACKED}),
    ("PeopleNet-", {"model": "peoplenet"}),
    ("TrafficCamNet-", {"model": "trafficcamnet"}),
    ("DashCamNet-", {"model": "dashcamnet"}),
    ("FaceDetect-IR", {"model": "facedetect-ir"}),
    ("decode only", {"model": "none"}),
    ("fcn-resnet18", {"model": "fcn-resnet18", "precision": "fp16"}),
    ("inception_v4", {"model": "inception-v4", "dla": True}),
    ("vgg19", {"model": "vgg-19", "dla": True}),
    ("resnet50", {"model": "resnet-50", "dla": True}),
    ("ssd-mobilenet-v1", {"model": "ssd-mobilenet-v1", "dla": True}),
    ("yolov3-tiny", {"model": "yolov3-tiny", "dla": True}),
)  # fmt: skip
REASONS: Sequence[tuple[str, str]] = (  # start of the row's text -> why it is not scored
    ("RT-DETR EfficientViT", "device-doubtful"), ("Grounding DINO", "device-doubtful"),
    ("RTSP ingest", "no-device"), ("super_resolution", "network-not-counted"),
    ("unet 256", "network-not-counted"), ("openpose", "network-not-counted"),
    ("YOLOv8 (size not stated)", "network-not-stated"), ("YOLOv5s PyTorch", "other-runtime"),
    ("Tiny YOLO", "network-not-stated"), ("YOLO-", "network-not-stated"),
    ("YOLOv3 416, two cameras", "other-runtime"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamScore:
    """One row: streams published and given, whole numbers; `code` says why it is not scored."""

    row_id: str
    measured: float = 0.0
    predicted: float = 0.0
    code: str = ""

    @property
    def right(self) -> bool:
        """Within a quarter of the published streams, or within one stream."""
        return abs(self.predicted - self.measured) <= max(WHOLE, SHARE * self.measured)

    @property
    def within_a_quarter(self) -> bool:
        """Within a quarter, without the allowance of one stream."""
        return abs(self.predicted - self.measured) <= SHARE * self.measured


def score_streams(
    rows: Sequence[Row], catalog: Catalog, calibration: Calibration, defaults: CostDefaults
) -> list[StreamScore]:
    """Every row, scored or with the reason why not."""
    return [_score(row, catalog, calibration, defaults) for row in rows]


def _score(row: Row, catalog: Catalog, calibration: Calibration, defaults: CostDefaults) -> StreamScore:
    request = request_of(row, catalog)
    if isinstance(request, str):
        return StreamScore(row["row_id"], code=request)
    workload = Workload.from_mapping(request)
    answer = estimate(workload, [(1, row["hardware"])], catalog, calibration, defaults, today=TODAY)
    carried = float(answer.option.performance["streams"].value) if answer.option else 0.0
    fps = float(row["stream_fps"] or USUAL_FPS)
    measured = float(row["total_fps"]) / fps if row["total_fps"] else float(row["streams"])
    return StreamScore(row["row_id"], float(int(measured + 1e-9)), carried)


def request_of(row: Row, catalog: Catalog) -> dict[str, Any] | str:
    """The request of a row, or the code of why there is none.

    One stream is asked for, so that the answer is what the device carries. A precision that is not stated is
    int8, or fp16 where the device has no int8; rows of a network alone are asked with frames of its input.
    """
    text = row["model"]
    code = next((code for start, code in REASONS if text.startswith(start)), None)
    keys = next((keys for start, keys in PIPELINES if text.startswith(start)), None)
    if code or not (row["streams"] or row["total_fps"]):
        return code or "no-rate"
    if keys is None:
        return "pipeline-not-stated"
    try:
        card, _note = resolve_accelerator(row["hardware"], catalog)
    except GpuselectError:
        return "no-device"
    usual = "int8" if peak_tflops(card, "int8") else "fp16"
    request = {
        "task": "video", "streams": 1, "fps": float(row["stream_fps"] or USUAL_FPS), "precision": usual,
        "codec": row["codec"] or "h265", "resolution": row["resolution"] or "640x480",
    } | dict(keys)  # fmt: skip
    if keys["model"] == "fcn-resnet18":
        request["image_size"] = row["resolution"]
    if row["precision"]:
        request["precision"] = row["precision"]
    return request
