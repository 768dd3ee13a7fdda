"""A measured row of a network of samples, resolved to what the estimates take."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from gpuselect.accuracy.records import Row, Skip
from gpuselect.accuracy.rows import accelerator_of, base_model_of, model_of, number, system_of_card, whole
from gpuselect.calibration import Calibration
from gpuselect.catalog import Accelerator, Catalog, Model
from gpuselect.errors import InputError
from gpuselect.estimate.devices import peak_tflops
from gpuselect.estimate.network import Network, encoder_work, is_network, is_two_stage, network_of
from gpuselect.estimate.roofline import Device
from gpuselect.network_job import CARD_BATCH
from gpuselect.network_sites import CONV_KINDS, TENSOR_PRECISIONS, network_device
from gpuselect.units import TFLOP

STEPS = re.compile(
    r"(\d+) (?:inference |denoising |sampling |ddim )?steps|(?:ddim|euler|pndm) (\d+)", re.IGNORECASE
)
SIZE = re.compile(r"image size (\d+)|(?:at|imgsz|input) (\d{3,4})\b", re.IGNORECASE)
LENGTH = re.compile(r"sequence[- ]length\s*=?\s*(\d+)", re.IGNORECASE)
INPUT_BOUND = ("data-loading bound", "input-bound", "input bound")
MIG_ROW = re.compile(r"-mig-1g\.")  # submissions to MLPerf ran one slice, whatever the system holds
CLIP_TOWER = re.compile(r"clip-vit-(base|large)-patch(\d+)", re.IGNORECASE)
COUNTS = re.compile(r"([\d.]+) GMACs, ([\d.]+) M activations")
BATCH_COLUMN = re.compile(r"batch column '(\d+(?:,\d{3})+)'")
LONGEST_STEP_S = 600.0  # of a training step; a rate that means more is not in samples per second
ONE_STEP = ("one denoising iteration", "time per iteration")
CORES_PER_CHIP = 2  # Inferentia 2 and Trainium 1: two NeuronCores, the batch of a row is per core
OPEN_SAMPLES = ("unet-3d-kits19", "gnmt-v2")  # a scan of any size; a search of several translations
MLPERF_STEPS = 20  # MLPerf inference, stable-diffusion-xl: Euler scheduler, 20 steps
MLPERF_LENGTH = 171  # mean length of a SQuAD sequence: feasibility study, section 4, caveat d
OFFLINE_BATCH = {"diffusion": 4.0, "recsys": 32_768.0, "encoder": 64.0, "rnn": 2048.0}
MLPERF_CLIP_S = 5.4 * 3600.0 / 2703.0  # RNN-T: dev-clean of LibriSpeech, 5.4 h in 2703 utterances
MULTI_STREAM = 8  # samples per query: MLPerf inference rules since v2.0
RUNTIME_WORDS = (
    ("neuron", ("neuron",)),
    ("fastertransformer", ("fastertransformer",)),
    ("tensorrt", ("tensorrt", "trt", "stable-fast", "aitemplate", "oneflow")),  # a graph of fused kernels
    ("compiled", ("torch.compile", "xla", "jax", "habana", "onnxruntime", "openvino")),
    ("tensorflow", ("tensorflow",)),
    ("other", ("ixrt", "xtcl", "macart", "synapse")),
)  # fmt: skip
TRAINING_WORDS = (
    ("compiled", ("mxnet", "paddle", "tensorflow", "torch.compile", "synapse", "habana", "mindspore",
                  "neuron", "xla", "jax")),
)  # fmt: skip
PAIRS_PER_QUERY = 265.0  # MLPerf inference, DLRM: a sample is 100 to 700 user-item pairs; geometric mean
MATRIX_KINDS = frozenset({"encoder", "vit"})
FAMILY_KINDS = {"cnn": "cnn", "vit": "vit", "encoder": "encoder", "encoder-decoder": "encoder",
                "diffusion": "diffusion", "recsys": "recsys"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A row resolved. `batch` counts the samples of one pass on one card."""

    accelerator: Accelerator
    network: Network
    device: Device
    precision: str
    batch: float
    count: int
    split: float  # cards that share one sample: context or tensor parallel
    assumed: bool
    slice_alone: bool = False  # one MIG slice of an idle card, whose power limit does not bind


def is_mlperf(row: Row) -> bool:
    """True for a submission to MLPerf: tuned by the vendor."""
    return row.get("source_id", "").startswith("mlperf")


def network_of_row(row: Row, catalog: Catalog, *, training: bool) -> Network:
    """The work of one sample: the catalog's counts, else the row's dimensions or stated counts."""
    notes, name = row.get("notes", ""), row.get("model_name", "")
    tower = CLIP_TOWER.search(name) if "frames per second" in notes else None  # frames meet no text
    name = f"vit-{tower[1]}-{tower[2]}" if tower else name
    model = model_of(name, catalog) or base_model_of(name, catalog)
    if model is not None and model.id in OPEN_SAMPLES and not training:
        raise Skip("sample-undefined", name)
    stated = COUNTS.search(notes)
    if model is None or not is_network(model):
        return _stated_network(row, stated)
    try:
        network = network_of(
            model, image_size=_image_size(row, model), seq_len=_length(row, model),
            steps=None if training else _steps(row), generated=int(number(row, "output_len")) or None,
        )  # fmt: skip
    except InputError as error:
        if stated is None:
            raise Skip("counts-missing", str(error)) from None
        return _stated_network(row, stated)
    if training and network.kind == "diffusion":
        return replace(network, passes=1.0, guidance=1.0, once_macs=0.0)
    if any(word in notes.lower() for word in ONE_STEP):
        return replace(network, passes=1.0, once_macs=0.0)
    return network


def _stated_network(row: Row, stated: re.Match[str] | None) -> Network:
    """A network from the dimensions or the counts that the row itself gives."""
    kind = FAMILY_KINDS.get(row.get("family", ""))
    params = number(row, "params_b") * 1e9
    if kind is not None and stated is not None:
        return Network(
            kind=kind, params=params, dense_params=params, macs=float(stated[1]) * 1e9,
            activations=float(stated[2]) * 1e6, operators=100.0,
        )  # fmt: skip
    layers, hidden = number(row, "n_layers"), number(row, "hidden")
    length = number(row, "seq_len") or number(row, "input_len")
    if kind == "encoder" and layers and hidden and length:
        macs, written = encoder_work(
            n_layers=layers, hidden=hidden, ffn=number(row, "ffn_hidden") or 4.0 * hidden,
            heads=number(row, "heads") or hidden / 64.0, seq_len=length,
        )  # fmt: skip
        return Network(kind=kind, params=params or 12.0 * layers * hidden**2,
                       dense_params=params or 12.0 * layers * hidden**2, macs=macs, activations=written,
                       operators=8.0 * layers)  # fmt: skip
    raise Skip("counts-missing", row.get("model_name", ""))


def _image_size(row: Row, model: Model) -> float | None:
    cell = row.get("image_size", "").strip().lower()
    sides = [float(side) for side in re.findall(r"\d+", cell)]
    if len(sides) == 1:
        return sides[0]
    if len(sides) == 2:
        return float((sides[0] * sides[1]) ** 0.5)
    found = SIZE.search(row.get("notes", "")) if model.image_size is not None else None
    return float(found[1] or found[2]) if found else None


def _length(row: Row, model: Model) -> int | None:
    length = int(number(row, "seq_len") or number(row, "input_len"))
    said = LENGTH.search(row.get("notes", ""))
    if not length and said:
        length = int(said[1])
    if not length and is_mlperf(row) and model.family == "encoder" and "mode" in row:
        return MLPERF_LENGTH
    return length or None


def _steps(row: Row) -> int | None:
    found = STEPS.search(row.get("notes", ""))
    if found:
        return int(found[1] or found[2])
    return MLPERF_STEPS if is_mlperf(row) else None


def stated_precision(row: Row, accelerator: Accelerator, network: Network, *, training: bool) -> str:
    """Precision of the multiplication: what autocast makes of the stated one, else the usual one.

    MLPerf inference runs vision in int8 and BERT in int8 or, where the card has it, fp8; training in
    fp16 (feasibility study, section 12). "fp32" is TF32 in convolutions and in NVIDIA's training
    containers and in TensorRT; matrix products of PyTorch keep fp32 (its default since 1.12).
    """
    cell = row.get("compute_precision" if training else "weight_precision", "").lower().split("-")[0]
    notes = row.get("notes", "")
    if "AMP fp16" in notes:
        cell = "fp16"
    if "Matmult-BF16" in notes or "autocast by the compiler" in notes:
        cell = "bf16"
    names = {"amp": "fp16", "float16": "fp16", "half": "fp16", "mixed": "fp16", "float32": "fp32",
             "int4": "fp16", "nf4": "fp16", "bnb": "fp16"}  # fmt: skip
    cell = names.get(cell, cell)
    if not cell and "onnxruntime" in row.get("engine", "").lower():
        cell = "fp32"  # it runs the precision of the file, which exporters write in fp32
    if not cell:
        cell = "int8" if is_mlperf(row) and not training else "fp16"
        if cell == "int8" and ("99.9" in notes or "rnnt" in notes):
            cell = "fp8" if "fp8" in accelerator.dense_tflops and "bert" in notes else "fp16"
    order = {"fp32": ("tf32", "fp32"), "tf32": ("tf32", "fp32"), "bf16": ("bf16", "fp16", "fp32"),
             "fp16": ("fp16", "bf16", "fp32"), "int8": ("int8", "fp8", "fp16", "fp32"),
             "fp8": ("fp8", "fp16")}  # fmt: skip
    plain = not training and not is_mlperf(row) and runtime_key(row) != "tensorrt"
    if cell == "fp32" and plain and network.kind in MATRIX_KINDS:
        order["fp32"] = ("fp32",)
    found = next((p for p in order.get(cell, (cell,)) if peak_tflops(accelerator, p) is not None), None)
    if found is None:
        raise Skip("figures-missing", f"{accelerator.id} {cell}")
    return found


def runtime_key(row: Row, *, training: bool = False) -> str:
    """Key of the runtime's constants."""
    engine = row.get("framework" if training else "engine", "")
    text = (engine or row.get("source_id", "")).lower()
    if is_mlperf(row):
        plain = not engine and "onnxruntime" in row.get("engine_version", "").lower()
        return "compiled" if plain else "vendor-tuned"
    if "torch.compile" in row.get("notes", "") or ", compiled," in row.get("notes", ""):
        return "compiled"
    if not training and not engine and row.get("hardware", "").startswith("jetson"):
        return "tensorrt"  # what NVIDIA's pages on Jetson run
    words = TRAINING_WORDS if training else RUNTIME_WORDS
    return next((key for key, names in words if any(name in text for name in names)), "pytorch")


FUSED_WORDS = ("xformers", "sdpa", "flash")
PLAIN_WORDS = ("without xformers",)
FUSED_SINCE = "2023-03"  # PyTorch 2.0: scaled_dot_product_attention, which timm and diffusers call
LAGGING = ("transformers", "tensorflow")  # encoders of Transformers wrote their scores until 2024


def attention_is_fused(row: Row, runtime: str) -> bool:
    """True where the kernels of a row keep attention scores on the chip."""
    text = f"{row.get('notes', '')} {row.get('engine', '')}".lower()
    if any(word in text for word in PLAIN_WORDS):
        return False
    if runtime not in ("pytorch", "tensorflow") or any(word in text for word in FUSED_WORDS):
        return True
    date = row.get("date", "")
    lagging = any(word in row.get("engine", "").lower() for word in LAGGING)
    return date[:4] >= "2024" if lagging else date >= FUSED_SINCE


def case_of(row: Row, catalog: Catalog, calibration: Calibration, *, training: bool) -> Case:
    """Resolve a row; what it leaves open gets the usual value and is marked as assumed."""
    accelerator = accelerator_of(row, catalog)
    network = network_of_row(row, catalog, training=training)
    precision = stated_precision(row, accelerator, network, training=training)
    found = network_device(
        accelerator, system_of_card(accelerator, catalog), network=network, precision=precision,
        training=training, calibration=calibration, runtime="" if training else runtime_key(row),
        full_load="-mig-" not in row.get("hardware", ""),
    )  # fmt: skip
    if found is None:
        raise Skip("figures-missing", accelerator.id)
    if is_mlperf(row) and row.get("mode") == "offline" and precision == "int8" and network.kind in CONV_KINDS:
        extra = float(accelerator.dla_int8_tops or 0.0) * TFLOP  # offline runs on a module's DLAs as well
        found = replace(found, peak=found.peak + extra)
    count = 1 if MIG_ROW.search(row.get("hardware", "")) and is_mlperf(row) else whole(row, "n_accel")
    batch, assumed = _training_batch(row, network, count) if training else _batch(row, network)
    if any(word in row.get("notes", "").lower() for word in INPUT_BOUND):
        raise Skip("input-bound", row.get("row_id", ""))  # the rate of the loader, not of the cards
    if training and batch * count > LONGEST_STEP_S * number(row, "samples_per_s_total", math.inf):
        raise Skip("unit-doubtful", row["samples_per_s_total"])
    if network.kind == "rnn" and network.clip_seconds and is_mlperf(row) and not training:
        network = _shorter(network, MLPERF_CLIP_S / network.clip_seconds)
    if network.kind == "recsys" and is_mlperf(row) and not training:
        network = _query_of_pairs(network)
        batch /= PAIRS_PER_QUERY
    if batch > 1 and not training and is_two_stage(network.id):
        raise Skip("two-stage", network.id)
    cell = "compute_precision" if training else "weight_precision"
    return Case(
        accelerator=accelerator, network=network, device=_slice(row, accelerator, found), precision=precision,
        batch=batch, count=count, split=1.0 if training else _split(row, count, batch),
        assumed=assumed or not row.get(cell), slice_alone="-mig-" in row.get("hardware", ""),
    )  # fmt: skip


def check_peak(case: Case, rate: float) -> None:
    """Skip a measured rate [samples/s of all cards] whose work the matrix units cannot do.

    Then padding was left out, the input was smaller or the figure means something else.
    """
    network = case.network
    work = 2.0 * (network.macs * network.passes * network.guidance + network.once_macs)
    most = float(case.device.peak) * case.count
    products = case.precision in TENSOR_PRECISIONS or network.kind in MATRIX_KINDS  # no Winograd there
    if products and rate * work > most:
        raise Skip("above-peak", f"{rate * work / most:.2f}")


def _shorter(network: Network, share: float) -> Network:
    """The work of a shorter clip: everything is proportional to its length."""
    return replace(
        network, macs=network.macs * share, activations=network.activations * share,
        operators=network.operators * share, generated=network.generated * share,
        recurrent_macs=network.recurrent_macs * share,
    )  # fmt: skip


def _query_of_pairs(network: Network) -> Network:
    """A sample of MLPerf inference: many rows for one user."""
    factor = PAIRS_PER_QUERY
    return replace(
        network, macs=network.macs * factor, activations=network.activations * factor,
        spared_elements=network.spared_elements * factor, lookups=network.lookups * factor,
        pooled_bytes=network.pooled_bytes * factor,
    )  # fmt: skip


def _split(row: Row, count: int, batch: float) -> float:
    """Cards that work on one sample: the row's tensor-parallel width, or all where one request has them."""
    stated = number(row, "tp", 1.0)
    alone = row.get("mode") == "latency" and batch <= 1
    return float(count) if alone and count > 1 else max(stated, 1.0)


def _slice(row: Row, accelerator: Accelerator, device: Device) -> Device:
    """The share of a card that a MIG slice has: of the compute units, and of the memory."""
    name = row.get("hardware", "")
    if "-mig-" not in name:
        return device
    profile = next((s for s in accelerator.mig_slices if s.name == name.split("-mig-")[1]), None)
    if profile is None or accelerator.memory_gb is None:
        raise Skip("mig-slice", name)
    share = profile.memory_gb / float(accelerator.memory_gb)
    return replace(
        device, peak=device.peak * profile.compute_fraction, bandwidth=device.bandwidth * share,
        usable_bytes=device.usable_bytes * share,
    )  # fmt: skip


def _training_batch(row: Row, network: Network, count: int) -> tuple[float, bool]:
    """Samples per card and pass, and whether they had to be assumed."""
    micro = number(row, "micro_batch")
    printed = BATCH_COLUMN.search(row.get("notes", ""))
    if printed and (not micro or micro in {float(part) for part in printed[1].split(",")}):  # cut at a comma
        micro = float(printed[1].replace(",", ""))
    if not micro and number(row, "global_batch"):
        micro = number(row, "global_batch") / count / max(number(row, "grad_accum", 1.0), 1.0)
    return (micro, False) if micro else (float(CARD_BATCH[network.kind]), True)


def _batch(row: Row, network: Network) -> tuple[float, bool]:
    """Samples of one pass on one card, and whether they had to be assumed."""
    stated = number(row, "batch_or_concurrency")
    if "NeuronCores" in row.get("notes", ""):
        return max(stated, 1.0) * CORES_PER_CHIP, False
    if stated:
        return stated, False
    mode = row.get("mode", "")
    if mode in ("single-stream", "latency"):
        return 1.0, False
    if mode == "multi-stream":
        return float(MULTI_STREAM), False
    return OFFLINE_BATCH.get(network.kind, 128.0), True
