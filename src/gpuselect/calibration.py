"""Calibrated constants and error quantiles: types and look-up. The values are data/calibration.yaml.

Constants have a physical meaning each. `tools/fit_calibration.py` fits the few that the measured
rows identify and writes the residual quantiles from which every answer takes its interval.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from gpuselect.catalog import Accelerator
from gpuselect.provenance import Figure


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrainingConstants(_Section):
    """Constants of `estimate.training`; shares are fractions of 1, times in seconds."""

    sustained_gemm: Figure
    default_best_gemm: Figure
    bandwidth_efficiency: Figure
    shape_loss: Figure
    attention_efficiency: Figure
    elementwise_bytes_fused: Figure
    elementwise_bytes_eager: Figure
    host_fused_s: Figure
    host_eager_s: Figure
    link_efficiency: Figure
    network_efficiency: Figure
    exposed_tp: Figure
    exposed_ep: Figure
    overlap_dp: Figure
    leak_dp: Figure
    scale_loss: Figure
    moe_routing_bytes: Figure
    moe_imbalance: Figure
    head_stage_share: Figure


class ServingConstants(_Section):
    """Constants of `estimate.serving`."""

    kv_efficiency: Figure
    half_efficiency_tokens: Figure
    fp8_relative: Figure
    fp4_relative: Figure
    moe_bandwidth: Figure
    moe_compute: Figure
    link_efficiency: Figure
    layer_overhead_s: Figure
    moe_layer_overhead_s: Figure
    eager_layer_s: Figure
    step_overhead_s: Figure
    sequence_overhead_s: Figure
    server_overhead_s: Figure
    scheduling: Figure
    attention_prefill_efficiency: Figure


class MemoryConstants(_Section):
    """Constants of `estimate.memory`."""

    fragmentation: Figure
    training_context_gib: Figure
    serving_context_gib: Figure
    serving_share: Figure
    act_hidden_fused: Figure
    act_ffn_fused: Figure
    act_hidden_eager: Figure
    act_ffn_eager: Figure
    logits_bytes: Figure
    selective_share: Figure
    unified_share: Figure


class NetworkConstants(_Section):
    """Constants of `estimate.vision`, `estimate.video` and `estimate.hpc`.

    Efficiencies are shares of the dense peak by kind of network; `precision`, `hardware` and
    `runtime` multiply them. `operator_s` is the time per operator [s] by way of launching,
    `traffic` the number of times an element moves, in inference by runtime and in training by kind.
    `decode_pixels_per_s` is the rate of one decode engine by codec [pixel/s].
    """

    inference_efficiency: dict[str, Figure]
    training_efficiency: dict[str, Figure]
    precision: dict[str, Figure]
    training_precision: dict[str, Figure]
    hardware: dict[str, Figure]
    training_hardware: dict[str, Figure]
    runtime: dict[str, Figure]
    tuned: dict[str, Figure]  # what hand tuning gains on top, by kind of network
    training_tuned: dict[str, Figure]
    training_runtime: dict[str, Figure]
    generation: dict[str, Figure]  # by architecture; 1 where absent
    training_generation: dict[str, Figure]
    model: dict[str, Figure]  # by catalog id: operator mix of a network; 1 where absent
    training_model: dict[str, Figure]
    operator_s: dict[str, Figure]
    edge_operator: Figure  # time per operator on an edge module's processor, relative to a server's
    conv_operator: Figure  # launches per convolution with its norm and activation, relative to a product
    training_conv_operator: Figure
    inference_traffic: dict[str, Figure]
    training_traffic: dict[str, Figure]
    bandwidth_efficiency: Figure
    training_operator_s: Figure
    link_efficiency: Figure
    overlap: Figure
    scale_loss: Figure
    live_activations: Figure
    saved_activations: Figure
    context_gib: Figure
    decode_pixels_per_s: dict[str, Figure]
    turing_decode: Figure
    hpc_efficiency: Figure
    hpc_bandwidth: Figure
    trained_cards: tuple[str, ...] = ()  # cards with a measured training row
    served_cards: tuple[str, ...] = ()  # cards with a measured inference row


class InterconnectConstants(_Section):
    """Rates [GB/s, one way] where neither the card nor its system states one."""

    default_pcie_gb_s: Figure
    default_network_gb_s: Figure


class Quantiles(_Section):
    """Factors measured / predicted at 10, 50 and 90 % of a slice, and how they were obtained."""

    low: float
    median: float
    high: float
    rows: int
    sources: int


class Calibration(_Section):
    """The whole of calibration.yaml."""

    sources: dict[str, tuple[str, str]]
    training: TrainingConstants
    training_vendor: dict[str, Figure]
    best_gemm: dict[str, Figure]
    serving: ServingConstants
    serving_bandwidth: dict[str, Figure]
    serving_compute: dict[str, Figure]
    dequantise: dict[str, Figure]
    prefill_dequantise: dict[str, Figure]
    link_latency_s: dict[str, Figure]
    engines: dict[str, Figure]
    memory: MemoryConstants
    network: NetworkConstants
    interconnect: InterconnectConstants
    quantiles: dict[str, Quantiles]


def training_class(accelerator: Accelerator) -> str:
    """Key of `training_vendor` for an accelerator: volta, nvidia, amd, google, intel ...

    >>> training_class.__name__
    'training_class'
    """
    if accelerator.vendor == "nvidia":
        return "volta" if accelerator.architecture == "Volta" else "nvidia"
    return accelerator.vendor


def serving_class(accelerator: Accelerator) -> str:
    """Hardware class of the serving constants: hbm, gddr, unified, amd, apple, other."""
    if accelerator.vendor == "apple":
        return "apple"
    if accelerator.unified_memory:
        return "unified"
    if accelerator.vendor == "nvidia":
        return "hbm" if "HBM" in (accelerator.memory_type or "HBM") else "gddr"
    if accelerator.vendor == "amd":
        return "amd" if accelerator.family == "datacenter" else "gddr"
    return "other"


SLOT_W = 75.0  # power of a PCIe slot: PCI Express card electromechanical specification


def network_class(accelerator: Accelerator) -> str:
    """Hardware class of the network constants: nvidia, slot, geforce, jetson, amd, apple, cpu or other.

    `slot`: NVIDIA cards that live on the power of their slot (75 W at most) cannot hold their peak.
    """
    if accelerator.vendor == "nvidia":
        if accelerator.family == "datacenter" and (accelerator.power_w or SLOT_W + 1) <= SLOT_W:
            return "slot"
        kinds = {"edge": "jetson", "consumer": "geforce", "cpu": "cpu"}
        return kinds.get(accelerator.family, "nvidia")
    if accelerator.family in ("cpu", "apple"):
        return accelerator.family
    return "amd" if accelerator.vendor == "amd" else "other"
