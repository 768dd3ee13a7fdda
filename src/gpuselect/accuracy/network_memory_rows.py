"""Peak memory of rows of networks that work sample by sample: the recipe and the runtime of the row."""

from __future__ import annotations

import re
from dataclasses import replace

from gpuselect.accuracy.decoder_memory import fit_for
from gpuselect.accuracy.network_cases import Case, case_of, runtime_key
from gpuselect.accuracy.records import Fit, Row, Skip
from gpuselect.accuracy.rows import number
from gpuselect.accuracy.training_memory import FLASH_SINCE
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.estimate.network import Network
from gpuselect.estimate.network_memory import (
    ADAPTER_SHARE,
    network_inference_memory,
    network_training_memory,
)
from gpuselect.network_job import SGD_KINDS
from gpuselect.network_sites import inference_runtime
from gpuselect.units import GB, GIB

BATCH = {"micro_batch", "global_batch", "batch_or_concurrency"}  # without one a row says nothing of memory
ADAPTERS = ("lora", "qlora")
BUILDERS = ("tensorrt", "other")  # engines that claim memory ahead: workspaces of their builder, pools
EAGER = "pytorch"  # its allocator holds a little more than the tensors that are counted
OWN_COUNT = ("diffusers",)  # engines whose pages print the peak of the allocator, without the driver's share
CHECKPOINTS = ("swissarmytransformer",)  # its configurations of CogVideoX checkpoint activations
DOUBTFUL = re.compile(r"(?i)reported memory falls")  # the page's own words
FOUR_BIT = 0.56  # with scales: arXiv 2305.14314, section 3
UNSTATED = re.compile(r"(?i)may be in tokens|lengths? not (fixed|stated)|card memory not stated")
NORMS = re.compile(r"(?i)_gn\b|_gn_|syncbn")  # norms that are trained keep their input
# regions of interest that the last stage of a C4 detector takes, when tested and when trained (Detectron2,
# defaults), and the elements that it writes for one: 3 bottlenecks of 512, 512 and 2048 channels, 7 x 7
TESTED_ROIS, TRAINED_ROIS, ROI_ELEMENTS = 1000.0, 512.0, 7.0 * 7.0 * (3.0 * 3072.0 + 2048.0)
CITYSCAPES = (1024.0 * 2048.0) / (800.0 * 1088.0)  # its pictures, against those that the counts are for


def memory_fit(row: Row, catalog: Catalog, calibration: Calibration, *, serving: bool) -> Fit:
    """The row's need, with driver and runtime, against the usable memory of its card or slice."""
    if not BATCH & set(row):
        raise Skip("length-unknown")
    if serving and DOUBTFUL.search(row.get("notes", "")):
        raise Skip("figure-doubtful")
    if UNSTATED.search(row.get("notes", "")):
        raise Skip("length-unknown")
    case = case_of(row, catalog, calibration, training=not serving)
    if case.network.kind == "encoder" and not {"seq_len", "input_len"} & set(row):
        raise Skip("length-unknown")
    whole = {**row, "mem_kind": "unknown", "engine": ""}
    if serving:
        need = inference_memory_gb(case, whole, runtime_key(row), calibration)
    else:
        need = training_memory_gb(case, whole, calibration)
    return fit_for(row, need=need * GB, usable=case.device.usable_bytes)


def training_memory_gb(case: Case, row: Row, calibration: Calibration) -> float:
    """Predicted peak of a training row [GB] in the sense of its `mem_kind`."""
    text = f"{row.get('notes', '')} {row.get('framework', '')}".lower()
    network = _as_trained(case.network, row)
    sgd = "sgd" in row.get("optimizer", "").lower() or (
        not row.get("optimizer") and network.kind in SGD_KINDS
    )
    states, moments = "", moment_bytes(row, sgd=sgd)
    if "full bf16" in text:
        states, moments = "pure", moments / 2.0
    elif not row.get("compute_precision") and "transformers" in text:
        states = "wide"  # the library's default
    if "offload" in text and "offload none" not in text:
        moments = 0.0
    kind = "cnn" if NORMS.search(row.get("model_name", "")) else network.kind
    zero = number(row, "zero_stage")
    memory = network_training_memory(
        network=network, batch=case.batch, count=case.count, precision=case.precision,
        sharded=case.count if zero >= 3 else 1, optimizer_bytes=moments / (case.count if zero >= 1 else 1),
        saved_copies=calibration.network.saved_copies(kind),
        trained_share=ADAPTER_SHARE if row.get("method") in ADAPTERS else 1.0,
        states=states, recompute=row.get("recompute") == "full" or any(word in text for word in CHECKPOINTS),
        fused=fused_attention(row),
        context_bytes=0.0
        if row.get("mem_kind") in ("allocated", "reserved")
        else float(calibration.network.context_gib) * GIB,
    )  # fmt: skip
    return float(memory.total) / GB


def _as_trained(network: Network, row: Row) -> Network:
    """The network of a detector row as it is trained: fewer regions, or larger pictures."""
    name, notes = row.get("model_name", ""), row.get("notes", "")
    if network.kind != "detector":
        return network
    if "_C4" in name and not name.startswith("rpn"):
        fewer = (TESTED_ROIS - TRAINED_ROIS) * ROI_ELEMENTS
        return replace(network, activations=max(network.activations - fewer, 0.5 * network.activations))
    if "Cityscapes" in notes and name.startswith("mask_rcnn"):
        return replace(network, activations=CITYSCAPES * network.activations)
    return network


def moment_bytes(row: Row, *, sgd: bool) -> float:
    """Bytes of optimizer states per parameter: two fp32 moments, or two of 8 or 4 bits, or one."""
    text = row.get("optimizer", "").lower()
    if "4-bit" in text or "4bit" in text:
        return 1.0
    if "8-bit" in text or "8bit" in text or "fp8" in text:
        return 2.0
    return 4.0 if sgd else 8.0


def fused_attention(row: Row) -> bool:
    """Whether the row's software has a fused kernel: the usual one since 2023, or one that its notes name."""
    notes = row.get("notes", "").lower()
    if "xformers" in notes:
        return "without xformers" not in notes
    return row.get("date", "9")[:4] >= FLASH_SINCE


def states_memory(row: Row, runtime: str) -> bool:
    """Whether the row's figure is what the network needs: no pool, none that its page doubts."""
    return runtime not in BUILDERS and not DOUBTFUL.search(row.get("notes", ""))


def inference_memory_gb(case: Case, row: Row, runtime: str, calibration: Calibration) -> float:
    """Predicted peak of an inference row [GB], with driver and runtime."""
    sizes = inference_runtime(runtime, case.precision, calibration, kind=case.network.kind)
    network, weight_bytes = case.network, sizes.weight_bytes
    if row.get("weight_precision", "") in ("int4", "nf4"):
        weight_bytes = FOUR_BIT
    if "offload" in row.get("notes", "").lower():  # one part of the pipeline is on the card at a time
        network = replace(network, text_params=0.0)
    memory = network_inference_memory(
        network=network, batch=case.batch, count=case.count, weight_bytes=weight_bytes,
        element_bytes=sizes.element_bytes, live_share=float(calibration.network.live_activations),
        fused=fused_attention(row),
        context_bytes=0.0
        if row.get("engine") in OWN_COUNT
        else float(calibration.network.context_gib) * GIB,
    )  # fmt: skip
    more = float(calibration.network.eager_memory) - 1.0 if runtime == EAGER else 0.0
    return float(memory.total + more * (memory.total - memory.overhead)) / GB
