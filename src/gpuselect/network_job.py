"""Workloads that run sample by sample, resolved to numbers; the records of video and of codes.

What the user left open is chosen here by a documented default and listed as an assumption.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuselect.catalog import Catalog, Model
from gpuselect.decision import Note
from gpuselect.errors import InputError
from gpuselect.estimate.network import Network, is_network, is_two_stage, network_of
from gpuselect.estimate.network_memory import ADAPTER_RANK, ADAPTER_SHARE
from gpuselect.i18n import _
from gpuselect.job import DEFAULT_DEADLINE_S, ServingJob, TrainingJob
from gpuselect.names import resolve_model
from gpuselect.provenance import Figure
from gpuselect.workload import Workload

IMAGENET = (1_281_167, 90)  # images of ILSVRC-2012, epochs of He 2016 (arXiv 1512.03385, section 3.4)
COCO = (118_287, 12)  # images of COCO 2017 train, epochs of the "1x" schedule (Detectron2 model zoo)
BERT_SEQUENCES = (256_000_000, 1)  # 1M steps of 256 sequences: Devlin 2018, arXiv 1810.04805, A.2
FINETUNE = (100_000, 3)  # 3 epochs: Devlin 2018, A.3; the size is an assumption
CRITEO = (4_195_197_692, 1)  # samples of Criteo 1TB, one epoch: MLPerf DLRM
IMAGE_RUN = (256_000_000, 1)  # no published standard: an assumption
SCHEDULES = {
    "cnn": IMAGENET, "vit": IMAGENET, "detector": COCO, "encoder": BERT_SEQUENCES, "recsys": CRITEO,
    "diffusion": IMAGE_RUN, "rnn": (280_000, 50),
}  # fmt: skip
CARD_BATCH = {  # samples per card and step in the published recipes that the measured rows follow
    "cnn": 256, "vit": 128, "detector": 16, "encoder": 32, "recsys": 8192, "diffusion": 16, "rnn": 64,
}  # fmt: skip
TOKEN_FAMILIES = ("encoder", "rnn")
STATED_FAMILIES = ("cnn", "detector", "vit", "diffusion-unet", "diffusion-dit", *TOKEN_FAMILIES)
UNITS = {"encoder": "requests", "rnn": "requests", "recsys": "requests"}
ADAPTED_KINDS = ("vit", "encoder", "diffusion")  # networks whose linear layers take low-rank adapters
SGD_KINDS = ("cnn", "detector")  # trained with momentum SGD by their authors; the others with AdamW


@dataclass(frozen=True, slots=True)
class NetworkJob:
    """Training or inference of a network whose work counts per sample."""

    network: Network
    label: str
    family: str
    training: bool
    precision: str
    precision_given: bool
    batch: int | None  # per card
    global_batch: int | None
    samples: float  # of the whole training run
    deadline_s: float
    deadline_given: bool
    latency_s: float | None
    request_rate: float | None
    optimizer_bytes: float  # per parameter
    max_count: int
    tuned: bool = False  # as a vendor tunes it for MLPerf
    trained_share: float = 1.0  # of the parameters: adapters train a hundredth or so

    @property
    def unit(self) -> str:
        """What a sample is called: images or requests."""
        return UNITS.get(self.network.kind, "images")


@dataclass(frozen=True, slots=True)
class Secondary:
    """A network that runs on objects: `per_frame` times for each frame, a tracked object not every time."""

    network: Network
    label: str
    per_frame: float


@dataclass(frozen=True, slots=True)
class VideoJob:
    """Camera streams through a decoder, a detector, networks on its objects, a tracker and an encoder."""

    detector: NetworkJob
    label: str
    streams: int
    fps: float
    width: int
    height: int
    codec: str
    interval: int
    max_count: int
    pipeline: str = ""  # the networks and the tracker, in order
    secondaries: tuple[Secondary, ...] = ()
    objects: float = 0.0  # per frame
    tracker_bytes: float = 0.0  # memory traffic of the tracker per object [B]; 0 without one on the device
    encode: str = ""  # codec; empty: nothing is encoded
    dla: bool = False
    load: float = 1.0  # share of a device's capacity that the streams may take


@dataclass(frozen=True, slots=True)
class HpcJob:
    """A code with given arithmetic and memory traffic."""

    label: str
    precision: str
    flops: float
    traffic: float
    memory_bytes: float | None
    deadline_s: float
    deadline_given: bool
    max_count: int
    tensor: bool = False  # runs on FP64 matrix units where the card has them
    compute: float | None = None  # share of the peak that the kind of code reaches; None: the default
    exchange: float = 0.0  # share of the traffic that crosses between accelerators


Job = TrainingJob | ServingJob | NetworkJob | VideoJob | HpcJob


def network_model(workload: Workload, catalog: Catalog) -> Model | None:
    """The network of samples that the workload names or states, else None."""
    if workload.task in ("video", "hpc"):
        return None
    if workload.gmacs is not None:
        return stated_network(workload)
    if workload.model is None:
        return None
    model = resolve_model(workload.model, catalog)
    return model if is_network(model) else None


def stated_network(workload: Workload) -> Model:
    """A network that the workload describes by its counts; InputError where one is missing."""
    if workload.model is not None:
        raise InputError(_("--gmacs describes a network of your own: leave out --model {name}").format(
            name=workload.model))  # fmt: skip
    if workload.params is None:
        raise InputError(_("--gmacs needs the parameters of the network too: --params 25.6M"))
    family = workload.family or "cnn"
    if family not in STATED_FAMILIES:
        text = _("unknown family {name!r}; allowed: {all}")
        raise InputError(text.format(name=family, all=_(", ").join(STATED_FAMILIES)))
    figures = {
        "params_b": workload.params.total / 1e9, "gmacs_per_sample": workload.gmacs,
        "activations_m": workload.activations and workload.activations / 1e6,
        "image_size": workload.image_size if family not in TOKEN_FAMILIES else None,
        "sequence_length": workload.seq_len if family in TOKEN_FAMILIES else None,
    }  # fmt: skip
    return Model(
        id=family, name=family, family=family, sources={"workload": ("workload", "--gmacs")},
        **{key: Figure(float(x), source="workload", status="stated") for key, x in figures.items() if x},
    )  # fmt: skip


def network_job(workload: Workload, model: Model) -> tuple[NetworkJob, list[Note]]:
    """Resolve training or inference of a network of samples; the notes are its assumptions."""
    notes: list[Note] = []
    training = workload.task in ("pretrain", "finetune")
    network = network_of(
        model, image_size=workload.image_size, seq_len=workload.seq_len or workload.input_tokens,
        steps=None if training else workload.steps, generated=workload.output_tokens,
    )  # fmt: skip
    if workload.gmacs is not None:
        notes += _stated_notes(workload, model)
    if network.size and not (workload.image_size or workload.seq_len or workload.input_tokens):
        notes.append(Note("default-input", _("input of {size}").format(size=network.size)))
    if network.passes > 1 and workload.steps is None:
        notes.append(Note("default-steps", _("{n:.0f} denoiser passes an image").format(n=network.passes)))
    if network.generated and workload.output_tokens is None:
        text = _("{n:.0f} tokens written per sample").format(n=network.generated)
        notes.append(Note("default-lengths", text))
    if workload.tuned:
        text = _("tuned as for a submission to MLPerf, kernels by hand: a default installation is slower")
        notes.append(Note("vendor-tuned", text))
    given = workload.precision or (None if training else workload.weights)
    precision = given or "fp16"
    if given is None:
        notes.append(Note("default-precision", _("16-bit arithmetic, fp32 on cards without it")))
    if not training and is_two_stage(network.id):
        text = _("one picture at a time: proposals of a two-stage detector pass through the host")
        notes.append(Note("two-stage", text))
    job = NetworkJob(
        network=network, label=model.id, family=model.family, training=training, precision=precision,
        precision_given=given is not None,
        batch=_batch(workload, network, training=training),
        global_batch=workload.global_batch, samples=_samples(workload, network, training, notes),
        deadline_s=workload.deadline or DEFAULT_DEADLINE_S, deadline_given=workload.deadline is not None,
        latency_s=workload.latency, request_rate=None if training else _rate(workload, network),
        optimizer_bytes=_optimizer_bytes(workload, network, training, notes),
        max_count=1 if workload.single_card else workload.max_count or (64 if training else 16),
        tuned=bool(workload.tuned), trained_share=_trained_share(workload, network, notes),
    )  # fmt: skip
    if training and not (job.batch or job.global_batch):
        text = _("{n} samples per accelerator and step, or as many as fit").format(n=CARD_BATCH[network.kind])
        notes.append(Note("default-batch", text))
    return job, notes


def _trained_share(workload: Workload, network: Network, notes: list[Note]) -> float:
    """Share of the parameters that are trained: low-rank adapters of transformers and diffusion networks."""
    if workload.task != "finetune" or workload.method in (None, "full"):
        return 1.0
    if workload.method != "lora" or network.kind not in ADAPTED_KINDS:
        text = _(
            "--method {m} is not estimated for {model}: decoders take lora, qlora and prefix, transformers "
            "and diffusion networks lora, others none"
        )
        raise InputError(text.format(m=workload.method, model=network.id))
    share = min(ADAPTER_SHARE * (workload.lora_rank or ADAPTER_RANK) / ADAPTER_RANK, 1.0)
    text = _("adapters of rank {r} hold {s:.2g} % of the parameters; no measured row confirms their time")
    notes.append(Note("adapters-modelled", text.format(r=workload.lora_rank or ADAPTER_RANK, s=100 * share)))
    return share


def _stated_notes(workload: Workload, model: Model) -> list[Note]:
    """What was taken for a network that the workload describes."""
    text = _("a {family} of {gmacs:.4g} GMACs and {params:.4g}M parameters a sample, as stated")
    notes = [Note("stated-network", text.format(
        family=model.family, gmacs=workload.gmacs, params=float(model.params_b) * 1e3))]  # fmt: skip
    if workload.family is None:
        notes.append(Note("default-family", _("taken for a CNN: --family says otherwise")))
    if workload.activations is None:
        notes.append(Note("default-activations", _("activations by the usual ratio of its kind")))
    return notes


def _batch(workload: Workload, network: Network, *, training: bool) -> int | None:
    """Samples per card; one where concurrency 1 says so, or where the host takes them one by one."""
    if training:
        return workload.batch or workload.micro_batch
    return 1 if is_two_stage(network.id) else workload.batch or workload.concurrency


def _rate(workload: Workload, network: Network) -> float | None:
    """Samples per second to sustain, at the peak; tokens are turned into sequences."""
    peak = workload.peak_factor or 1.0
    if workload.request_rate is not None:
        return workload.request_rate * peak
    tokens = workload.throughput or workload.demand
    if tokens is not None and network.generated:
        return tokens / network.generated * peak
    return None


def _samples(workload: Workload, network: Network, training: bool, notes: list[Note]) -> float:
    """Samples of the whole run: samples x epochs, else the published schedule of the kind."""
    if not training:
        return 0.0
    usual, epochs = FINETUNE if workload.task == "finetune" else SCHEDULES[network.kind]
    number = float(workload.samples or usual)
    rounds = float(workload.epochs or (1 if workload.samples else epochs))
    if workload.samples is None:
        text = _("{s:,.0f} samples x {e:g} epochs").format(s=number, e=rounds)
        notes.append(Note("default-samples", text))
    return number * rounds


def _optimizer_bytes(workload: Workload, network: Network, training: bool, notes: list[Note]) -> float:
    """Optimizer bytes per parameter: momentum 4, AdamW 8 (both fp32)."""
    if not training:
        return 0.0
    name = workload.optimizer or ("sgd" if network.kind in SGD_KINDS else "adamw")
    known = {"sgd": 4.0, "sgd-momentum": 4.0, "momentum": 4.0, "adamw": 8.0, "adam": 8.0, "lamb": 8.0,
             "adamw-8bit": 2.0}  # fmt: skip
    if name not in known:
        text = _("unknown optimizer {name!r}; allowed: {all}")
        raise InputError(text.format(name=name, all=_(", ").join(known)))
    if workload.optimizer is None:
        notes.append(Note("default-optimizer", _("{name} optimizer").format(name=name)))
    return known[name]
