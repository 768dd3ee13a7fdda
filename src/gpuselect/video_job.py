"""A video workload resolved to numbers: streams, codec, and every stage that a frame goes through.

What the user left open is chosen here by a documented default and listed as an assumption. Costs of
stages that nobody measured (objects in view, tracker, classification of tracked objects) are inputs.
"""

from __future__ import annotations

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.decision import Note
from gpuselect.errors import InputError
from gpuselect.estimate.network import Network, is_network, network_of
from gpuselect.i18n import _
from gpuselect.job import DEFAULT_DEADLINE_S
from gpuselect.names import resolve_model
from gpuselect.network_job import NetworkJob, Secondary, VideoJob, network_job
from gpuselect.workload import Workload

DEFAULT_DETECTOR = "yolo11s"
NO_DETECTOR = ("none", "decode")  # names that ask for decoding alone
MOST_DEVICES = 16


def video_job(workload: Workload, catalog: Catalog, calibration: Calibration) -> tuple[VideoJob, list[Note]]:
    """Resolve a video workload: the streams, and what happens to their frames."""
    detector, notes = _detector(workload, catalog)
    width, height = workload.resolution or (1920, 1080)
    fps, codec = workload.fps or 25.0, workload.codec or "h264"
    for given, code, text in (
        (workload.streams, "default-streams", _("one stream")),
        (workload.resolution, "default-resolution", _("1920 x 1080 pixels")),
        (workload.fps, "default-fps", _("25 frames per second")),
        (workload.codec, "default-codec", _("H.264 streams")),
    ):
        if given is None:
            notes.append(Note(code, text))
    constants = calibration.video
    tracked = workload.tracker not in (None, "none")
    objects = workload.objects or float(constants.objects)
    secondaries = _secondaries(workload, catalog, objects, tracked, calibration)
    if workload.objects is None and (secondaries or workload.tracker == "nvdcf"):
        notes.append(Note("default-objects", _("{n:g} objects in view per frame").format(n=objects)))
    notes += _stage_notes(workload, secondaries, tracked, calibration)
    notes.append(Note("not-in-price", _("cameras, switches, cabling and boxes are in no price")))
    load = workload.load or float(constants.load)
    if workload.load is None:
        text = _("devices are chosen so that {p:.0f} % of their capacity is enough").format(p=100 * load)
        notes.append(Note("default-load", text))
    return VideoJob(
        detector=detector, label=detector.label, pipeline=_pipeline(detector, secondaries, workload.tracker),
        streams=workload.streams or 1, fps=fps, width=width, height=height, codec=codec,
        interval=workload.interval or 0,
        max_count=1 if workload.single_card else workload.max_count or MOST_DEVICES,
        secondaries=secondaries, objects=objects,
        tracker_bytes=float(constants.tracker_bytes) if workload.tracker == "nvdcf" else 0.0,
        encode=workload.encode or "", dla=bool(workload.dla), load=load,
    ), notes  # fmt: skip


def _detector(workload: Workload, catalog: Catalog) -> tuple[NetworkJob, list[Note]]:
    """The network that sees whole frames; a network without work where only decoding is asked for."""
    if (workload.model or "").lower() in NO_DETECTOR:
        return _no_detector(workload), []
    name = workload.model or DEFAULT_DETECTOR
    model = resolve_model(name, catalog)
    if not is_network(model):
        raise InputError(_("{model} is no detector; name one, for example yolo11s").format(model=model.id))
    detector, notes = network_job(workload.model_copy(update={"task": "inference", "batch": None}), model)
    if workload.model is None:
        notes.append(Note("default-model", _("detector {name} on every frame").format(name=name)))
    return detector, notes


def _no_detector(workload: Workload) -> NetworkJob:
    idle = Network(kind="cnn", params=1.0, macs=1.0, activations=1.0, operators=0.0)
    return NetworkJob(
        network=idle, label=_("decoding alone"), family="cnn", training=False,
        precision=workload.precision or "fp16", precision_given=workload.precision is not None, batch=None,
        global_batch=None, samples=0.0, deadline_s=DEFAULT_DEADLINE_S, deadline_given=False,
        latency_s=workload.latency, request_rate=None, optimizer_bytes=0.0, max_count=MOST_DEVICES,
    )  # fmt: skip


def _secondaries(
    workload: Workload, catalog: Catalog, objects: float, tracked: bool, calibration: Calibration
) -> tuple[Secondary, ...]:
    """Networks on the objects of a frame.

    With a tracker a classifier looks at an object once in the secondary interval; a detector, or a
    classifier without tracker, at every object of every frame (DeepStream, Gst-nvinfer).
    """
    interval = workload.secondary_interval
    kept = float(calibration.video.secondary_interval) if interval is None else float(interval)
    found = []
    for name in workload.secondary:
        model = resolve_model(name, catalog)
        if not is_network(model):
            raise InputError(_("{model} is no network of images").format(model=model.id))
        caches = tracked and model.family != "detector"
        per_frame = objects / (1.0 + kept) if caches or interval is not None else objects
        found.append(Secondary(network_of(model), model.id, per_frame))
    return tuple(found)


def _stage_notes(
    workload: Workload, secondaries: tuple[Secondary, ...], tracked: bool, calibration: Calibration
) -> list[Note]:
    """Stages whose cost is a default, and stages that are not there."""
    notes = []
    if secondaries and tracked and workload.secondary_interval is None:
        text = _("a tracked object is classified again after {n:.0f} frames").format(
            n=float(calibration.video.secondary_interval)
        )
        notes.append(Note("default-secondary-interval", text))
    if workload.tracker is None:
        notes.append(Note("no-tracker", _("no tracker (--tracker nvdcf costs time on the device)")))
    elif workload.tracker == "nvdcf":
        text = _("the tracker moves {mb:.1f} MB per object and frame: nobody measured it")
        notes.append(Note("tracker-assumed", text.format(mb=float(calibration.video.tracker_bytes) / 1e6)))
    if workload.encode is None:
        notes.append(Note("no-encode", _("nothing is drawn or encoded again (--encode h264)")))
    return notes


def _pipeline(detector: NetworkJob, secondaries: tuple[Secondary, ...], tracker: str | None) -> str:
    """The networks and the tracker in the order of the pipeline."""
    parts = [detector.label, *(item.label for item in secondaries)]
    if tracker not in (None, "none"):
        parts.insert(1, _("{name} tracker").format(name=tracker))
    return " + ".join(parts)
