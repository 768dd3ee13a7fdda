"""Calibrated constants and error quantiles: types and look-up. The values are data/calibration.yaml.

Constants have a physical meaning each. `tools/fit_calibration.py` fits the few that the measured
rows identify and writes the residual quantiles from which every answer takes its interval.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from gpuselect.catalog import Accelerator
from gpuselect.provenance import Figure, Status


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
    exposed_tp_legacy: Figure  # of a stack of before 2023
    exposed_tp_tuned: Figure  # of a recipe that the maker of the hardware tuned
    exposed_ep: Figure
    overlap_dp: Figure
    leak_dp: Figure
    scale_loss: Figure
    moe_routing_bytes: Figure
    moe_imbalance: Figure
    head_stage_share: Figure
    eager_gemm: Figure  # matrix rate of a stack without fused kernels, against one with
    legacy_gemm: Figure  # the same of a stack of before 2023
    tuned_gemm: Figure  # the same of a recipe that the maker of the hardware tuned
    gain_8bit: Figure  # power of the step from the 16-bit to the 8-bit peak that is realised
    gain_4bit: Figure  # power of the step from the 8-bit to the 4-bit peak
    cast_bytes: Figure
    score_bytes_fused: Figure  # per token, key and head, without flash attention
    score_bytes_eager: Figure
    accumulate_bytes: Figure  # per local parameter and micro-batch, to add its gradient
    dequantise_bytes: Figure
    adapter_host: Figure  # host time of a layer with adapters, against one without
    pcie_efficiency: Figure
    host_staged: Figure  # rate between consumer cards, which copy through the host, against PCIe peers
    exposed_cp: Figure
    overlap_gather: Figure


class HostConstants(_Section):
    """What the host of an accelerator does for states that are offloaded to it."""

    server_rate: Figure  # byte/s of one node: the traffic of an optimizer on two sockets
    desktop_rate: Figure  # the same of a desktop computer or workstation
    buffers: Figure  # host memory with the buffers of the software, over the states alone


class ServingConstants(_Section):
    """Constants of `estimate.serving`; shares are fractions of 1, times in seconds."""

    kv_efficiency: Figure
    half_efficiency_tokens: Figure
    fp8_relative: Figure
    fp4_relative: Figure
    moe_bandwidth: Figure
    moe_compute: Figure
    moe_routing_bytes: Figure
    link_efficiency: Figure
    layer_overhead_s: Figure
    native_layer_s: Figure
    moe_layer_overhead_s: Figure
    eager_layer_s: Figure
    eager_kv_copies: Figure
    eager_group_copies: Figure
    step_overhead_s: Figure
    sequence_overhead_s: Figure
    server_overhead_s: Figure
    scheduling: Figure
    attention_prefill_efficiency: Figure
    network_latency_s: Figure
    loose_latency_s: Figure  # single machines joined by Thunderbolt or Ethernet
    drain: Figure


class EngineTraits(_Section):
    """How an engine runs a model.

    `host`: `server` (Python scheduler behind HTTP, captured graphs), `native` or `eager`. Most
    sequences at once and most prompt tokens per step, on small and on large cards; absent: no limit.
    """

    host: Literal["server", "native", "eager"]
    mixed: bool = False  # one step decodes and takes in prompts together
    layer_split: bool = False  # several cards hold layers, and wait for each other
    static: bool = False  # compiled for one length, whose cache every step reads
    cores: int = 1  # in a chip that split a model among themselves
    reserves: bool = False  # admits a sequence only when the cache holds its longest answer
    sequences_small: Figure | None = None
    sequences_large: Figure | None = None
    chunk_small: Figure | None = None
    chunk_large: Figure | None = None


class MemoryConstants(_Section):
    """Constants of `estimate.memory`."""

    fragmentation: Figure
    training_context_gib: Figure
    serving_context_gib: Figure
    serving_share: Figure
    serving_limit: Figure  # most of a card that a need may take where the engine allocates ahead
    preallocating: tuple[str, ...] = ()  # engines that take that share of a card whatever the need
    fused_share: Figure  # of what an eager block keeps: stacks of fused kernels keep less
    logits_bytes: Figure
    selective_share: Figure
    unified_share: Figure  # of unified memory that a program can have, by the default limit of macOS
    unified_share_other: Figure  # the same of Jetson, GB10 and Ryzen AI


class BlockBytes(_Section):
    """Bytes that a layer of one style keeps for its backward pass, per token and unit of a width.

    h: hidden; q, kv: widths of queries and of keys; f: FFN; a, k: query and KV heads; one: a token; rank: of
    adapters; q_rank, kv_rank: of compressed attention; routed_h, routed_one: each expert that a token
    meets; experts: their number. `work_h`, `work_f`: gradients alive inside the backward pass of a layer;
    `head` per hidden unit at the head; `loss`, `kept` per vocabulary entry, at the loss and until the
    backward pass is over; `input`: of a checkpointed layer input; `cast`: 16-bit copy of a linear weight.
    """

    h: float
    f: float
    a: float
    one: float
    work_h: float
    work_f: float
    head: float
    loss: float
    kept: float
    input: float
    q: float = 0.0
    kv: float = 0.0
    k: float = 0.0
    rank: float = 0.0
    q_rank: float = 0.0
    kv_rank: float = 0.0
    routed_h: float = 0.0
    routed_one: float = 0.0
    experts: float = 0.0
    cast: float = 0.0
    source: str
    status: Status


class StackTraits(_Section):
    """How a training stack holds memory; `words` in its name tell it.

    `states`: mixed (16-bit weights, fp32 gradients and master copy), sharded (fp32 weights, 16-bit copies of
    gathered layers) or pure (all in 16 bit). `loss`: bytes per token and vocabulary entry. `recompute`: where
    a row does not say, for whole models and for adapters; `adapter_zero`: ZeRO stage of adapters on
    several cards, `zero` that of whole models without tensor parallelism.
    """

    words: tuple[str, ...] = ()
    states: Literal["mixed", "sharded", "pure"] = "mixed"
    fused: bool = False
    loss: float
    recompute: Literal["none", "selective", "full"] = "none"
    recompute_adapters: Literal["none", "selective", "full"] = "full"
    recompute_known: bool = False  # the default is the stack's own, not a guess
    zero: int = 3
    adapter_zero: int = 0
    flash: bool = True
    splits_layers: bool = False  # adapters on a base that is too large for one card
    offloads_checkpoints: bool = False
    frees_gradients: bool = True
    source: str
    status: Status
    note: str = ""


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
    power_need: dict[str, Figure]  # W per TFLOP/s that would hold the peak, by architecture; 0 where absent
    training_generation: dict[str, Figure]
    model: dict[str, Figure]  # by catalog id: operator mix of a network; 1 where absent
    training_model: dict[str, Figure]
    operator_s: dict[str, Figure]
    edge_operator: Figure  # time per operator on an edge module's processor, relative to a server's
    conv_operator: Figure  # launches per convolution with its norm and activation, relative to a product
    training_conv_operator: Figure
    inference_traffic: dict[str, Figure]
    training_traffic: dict[str, Figure]
    bandwidth_efficiency: dict[str, Figure]  # achieved share of the bandwidth, by kind of memory
    training_operator_s: Figure
    link_efficiency: Figure
    overlap: Figure
    scale_loss: Figure
    live_activations: Figure
    eager_memory: Figure  # what PyTorch holds at inference, over the tensors that are counted
    saved_activations: dict[str, Figure]  # copies of each element, by kind; `other` for the rest
    context_gib: Figure
    decode_pixels_per_s: dict[str, Figure]
    turing_decode: dict[str, Figure]  # rate of the older engines of Turing, by codec
    hpc_efficiency: Figure
    hpc_bandwidth: Figure
    trained_cards: tuple[str, ...] = ()  # cards with a measured training row
    served_cards: tuple[str, ...] = ()  # cards with a measured inference row

    def saved_copies(self, kind: str) -> float:
        """How often a network of that kind keeps an element of its activations for the backward pass."""
        return float(self.saved_activations.get(kind, self.saved_activations["other"]))


class VideoConstants(_Section):
    """Constants of `estimate.video`, and the defaults of stages that nobody measured.

    `generation` multiplies the rate of the networks by architecture (1 where absent). `tracker_bytes` is
    the traffic of a correlation filter per object [B], `surfaces` the decoded frames that a stream keeps,
    `encode_pixels_per_s` the rate of one encoder by codec [pixel/s], `dla` the rate of a DLA per TOPS
    against the GPU's, `load` the share of its capacity that a device is planned with.
    """

    generation: dict[str, Figure]
    objects: Figure
    secondary_interval: Figure
    tracker_bytes: Figure
    surfaces: Figure
    encode_pixels_per_s: dict[str, Figure]
    dla: Figure
    load: Figure


class KernelClass(_Section):
    """A kind of scientific code.

    `precision` of its arithmetic; `tensor`: it runs on FP64 matrix units where a card has them;
    `intensity` [flop/byte], `compute` share of the peak, `exchange` share of the traffic that crosses
    between accelerators.
    """

    precision: Literal["fp64", "fp32"]
    tensor: bool = False
    intensity: Figure
    compute: Figure
    exchange: Figure


class SharingConstants(_Section):
    """What sharing a card costs: `mig` and `time_slicing` are shares of the rate that remain."""

    mig: Figure
    time_slicing: Figure


class InterconnectConstants(_Section):
    """Rates [GB/s, one way] where neither the card nor its system states one."""

    default_pcie_gb_s: Figure
    default_network_gb_s: Figure
    host_memory_gb_s: Figure  # of the processor, for layers that stay with it


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
    training_architecture: dict[str, Figure]  # on top of the vendor's factor
    training_card: dict[str, Figure]  # on top of both: every card with a measured training row
    best_gemm: dict[str, Figure]
    serving: ServingConstants
    serving_bandwidth: dict[str, Figure]
    serving_compute: dict[str, Figure]
    serving_kernel: dict[str, Figure]
    dequantise: dict[str, Figure]
    prefill_dequantise: dict[str, Figure]
    link_latency_s: dict[str, Figure]
    engines: dict[str, Figure]
    engine_host: dict[str, Figure]
    launch: dict[str, Figure]
    engine_traits: dict[str, EngineTraits]
    memory: MemoryConstants
    host: HostConstants
    network: NetworkConstants
    video: VideoConstants
    kernels: dict[str, KernelClass]
    sharing: SharingConstants
    interconnect: InterconnectConstants
    activations: dict[str, dict[str, BlockBytes]]  # by style of block, then bf16 | amp-bf16 | fp32
    training_stacks: dict[str, StackTraits]
    quantiles: dict[str, Quantiles]


def training_classes(accelerator: Accelerator) -> tuple[str, str, str]:
    """Vendor, architecture and card: the keys whose factors multiply the matrix rate of training.

    >>> training_classes.__name__
    'training_classes'
    """
    consumer = accelerator.vendor == "nvidia" and accelerator.family == "consumer"
    architecture = (accelerator.architecture or accelerator.vendor).partition(" (")[0]
    return (
        "geforce" if consumer else accelerator.vendor,
        architecture.lower().replace(" ", "-"),
        accelerator.id,
    )


def training_factor(accelerator: Accelerator, calibration: Calibration) -> float:
    """Product of the factors of the vendor, the architecture and the card; an unmeasured level is 1."""
    vendor, architecture, card = training_classes(accelerator)
    return (
        float(calibration.training_vendor.get(vendor, calibration.training_vendor["other"]))
        * float(calibration.training_architecture.get(architecture, 1.0))
        * float(calibration.training_card.get(card, 1.0))
    )


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
