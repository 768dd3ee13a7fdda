"""Types of the catalog and look-up in it. Files are read by `gpuselect.readers.catalog`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpuselect.i18n import _
from gpuselect.provenance import Fact, Figure

Precision = Literal[
    "fp64", "fp64_tensor", "fp32", "tf32", "fp16", "fp16_acc16", "bf16", "fp8", "fp6", "fp4",
    "int8", "int4",
]  # fmt: skip
PRECISIONS: tuple[str, ...] = get_args(Precision)
Codec = Literal["h264", "h265", "av1"]
NetworkFamily = Literal[
    "decoder", "encoder", "encoder-decoder", "vit", "cnn", "detector", "diffusion", "speech",
    "recsys", "video", "hpc",
]  # fmt: skip
MIG_SLICE = re.compile(r"(?P<slices>\d+)g\.(?P<memory>\d+)gb")
EntryStatus = Literal["current", "legacy", "eol", "announced", "research"]
Citation = tuple[str, str]  # key in sources.yaml, place in that source


SOURCED = (Figure, Fact)


def empty() -> Any:
    """No entries, made for each entry of the catalog: pydantic copies a plain `{}`, which takes longer."""
    return Field(default_factory=dict)


class Entry(BaseModel):
    """What every catalog entry has: an id, a name and the sources of its figures."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    id: str
    name: str
    sources: dict[str, Citation]
    notes: str | None = None

    @model_validator(mode="after")
    def _sources_declared(self) -> Entry:
        declared = self.sources
        for value in self.__dict__.values():  # `figures` would do, but this runs on each figure at each start
            if isinstance(value, SOURCED):
                if value.source not in declared:
                    raise ValueError(self._undeclared())
            elif isinstance(value, dict):
                for item in value.values():
                    if isinstance(item, SOURCED) and item.source not in declared:
                        raise ValueError(self._undeclared())
        return self

    def _undeclared(self) -> str:
        path, figure = next((p, f) for p, f in self.figures() if f.source not in self.sources)
        text = _("{path}: source {name!r} is not declared in `sources`")
        return text.format(path=path, name=figure.source)

    def figures(self) -> Iterator[tuple[str, Figure | Fact]]:
        """Every sourced value of the entry with its key path, e.g. `dense_tflops.bf16`."""
        for key, value in self.__dict__.items():
            if isinstance(value, Figure | Fact):
                yield key, value
            elif isinstance(value, dict):
                for inner, item in value.items():
                    if isinstance(item, Figure | Fact):
                        yield f"{key}.{inner}", item

    @cached_property
    def assumed(self) -> tuple[str, ...]:
        """Key paths of the figures that are assumptions."""
        return tuple(key for key, figure in self.figures() if figure.status == "assumed")

    def cite(self, figure: Figure | Fact) -> Citation:
        """Key and place of the source of one of this entry's figures."""
        return self.sources[figure.source]


class Source(BaseModel):
    """One entry of sources.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    title: str
    publisher: str | None = None
    address: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class MigSlice:
    """One kind of slice that a card can be split into."""

    name: str  # as the driver prints it: 1g.10gb
    memory_gb: float
    compute_fraction: float  # of the whole card


class Accelerator(Entry):
    """One exact variant of an accelerator. Rates are dense; absent means unknown.

    `link_*` is the accelerator-to-accelerator link (NVLink, Infinity Fabric, ICI ...), one direction
    or both as the key says. `memory_gb` is the marketed size, `usable_memory_gib` what a program
    can have.
    """

    vendor: str
    family: Literal[
        "datacenter", "superchip", "workstation", "consumer", "edge", "apple", "tpu", "asic", "cpu"
    ]
    architecture: str
    form_factor: str
    status: EntryStatus
    cooling: str | None = None
    software: tuple[str, ...] = ()  # cuda, rocm, xla, neuron, gaudi, mlx ...
    aliases: tuple[str, ...] = ()  # other spellings of exactly this variant
    default_for: tuple[str, ...] = ()  # loose names that are read as this variant, and said to be
    unified_memory: bool = False
    launch_year: Figure | None = None
    compute_capability: Fact | None = None
    memory_type: Fact | None = None
    memory_gb: Figure | None = None
    usable_memory_gib: Figure | None = None
    memory_bandwidth_gb_s: Figure | None = None
    l2_cache_mb: Figure | None = None
    dense_tflops: dict[Precision, Figure] = empty()
    sparsity_multiplier: Figure | None = None
    link_name: Fact | None = None
    link_one_way_gb_s: Figure | None = None
    link_both_ways_gb_s: Figure | None = None
    max_linked: Figure | None = None
    pcie_generation: Figure | None = None
    pcie_lanes: Figure | None = None
    pcie_one_way_gb_s: Figure | None = None
    peer_to_peer_over_pcie: Fact | None = None
    ecc: Fact | None = None
    ecc_memory_cost_pct: Figure | None = None  # share of the memory that ECC takes while it is on
    mig_max_instances: Figure | None = None
    mig_profiles: Fact | None = None
    decode_engines: Figure | None = None
    encode_engines: Figure | None = None
    decode_streams_1080p30: dict[Codec, Figure] = empty()  # upper bounds
    decode_measured_1080p30: dict[Codec, Figure] = empty()  # streams seen to be decoded, where they differ
    encode_streams_1080p30: dict[Codec, Figure] = empty()  # of all encoders together
    dla_engines: Figure | None = None
    dla_int8_tops: Figure | None = None  # dense, all DLA engines together, beside the GPU
    power_modes: dict[str, Figure] = empty()  # "15W" -> share of the full GPU rate
    power_mode_bandwidth: dict[str, Figure] = empty()  # the same of the memory bandwidth, where it is below 1
    power_w: Figure | None = None
    power_min_w: Figure | None = None

    @property
    def compute_capability_number(self) -> float | None:
        """CUDA compute capability as a number, None where the vendor has none."""
        return None if self.compute_capability is None else float(self.compute_capability)

    @property
    def mig_slices(self) -> tuple[MigSlice, ...]:
        """The plain profiles of `mig_profiles`, in its order; empty where the card has none.

        The share of the compute units is the profile's slices over those of the largest profile:
        sevenths on most cards, quarters on A30 and RTX PRO. Profiles with additions (-me, +gfx) are
        left out.
        """
        names = (part.split()[0] for part in str(self.mig_profiles or "").split(";") if part.strip())
        found = [m for name in names if (m := MIG_SLICE.fullmatch(name))]
        whole = max((int(m["slices"]) for m in found), default=1)
        return tuple(MigSlice(m[0], float(m["memory"]), int(m["slices"]) / whole) for m in found)


class Model(Entry):
    """Dimensions of one published network. Parameter counts in billions."""

    family: str
    developer: str | None = None
    licence: str | None = None
    release_date: str | None = None
    modality: str | None = None
    aliases: tuple[str, ...] = ()
    arch: str | None = None
    attention: str | None = None
    native_precision: str | None = None
    tied_embeddings: bool | None = None
    sliding_pattern: str | None = None
    params_b: Figure
    active_params_b: Figure | None = None
    embedding_params_b: Figure | None = None
    n_layers: Figure | None = None
    hidden: Figure | None = None
    ffn_hidden: Figure | None = None
    n_heads: Figure | None = None
    n_kv_heads: Figure | None = None
    head_dim: Figure | None = None
    vocab: Figure | None = None
    max_context: Figure | None = None
    kv_lora_rank: Figure | None = None
    q_lora_rank: Figure | None = None
    qk_rope_head_dim: Figure | None = None
    qk_nope_head_dim: Figure | None = None
    v_head_dim: Figure | None = None
    sliding_window: Figure | None = None
    # hybrids: layers that keep a KV cache; beside a sliding window: those that look at the whole context
    attention_layers: Figure | None = None
    global_kv_width: Figure | None = None  # cached elements per token in those, where it is another
    n_experts: Figure | None = None
    top_k: Figure | None = None
    n_shared_experts: Figure | None = None
    moe_ffn_hidden: Figure | None = None
    first_dense_layers: Figure | None = None
    image_size: Figure | None = None
    gmacs_per_sample: Figure | None = None
    activations_m: Figure | None = None
    operators: Figure | None = None  # convolutions, linear layers and products of one forward pass
    sequence_length: Figure | None = None  # at which a sequence model was counted
    decoder_layers: Figure | None = None
    clip_seconds: Figure | None = None  # audio of one sample
    image_decoder_gmacs: Figure | None = None
    text_encoder_gmacs: Figure | None = None
    guidance_passes: Figure | None = None  # denoiser passes per step: 2 with classifier-free guidance
    usual_steps: Figure | None = None
    lookups_per_sample: Figure | None = None
    embedding_dim: Figure | None = None
    embedding_tables: Figure | None = None
    series: str | None = None  # sizes of one network: yolo11, resnet
    top1_pct: Figure | None = None  # ImageNet-1k validation, at `image_size`
    map_pct: Figure | None = None  # COCO val mAP 50-95, at `image_size`


class Framework(Entry):
    """A training library, serving engine or runtime with its hard gates.

    `kind`: framework | training | serving | runtime. `backends` are software stacks of
    accelerators. `min_compute_capability` counts for CUDA only.
    """

    kind: Literal["framework", "training", "serving", "runtime"]
    backends: dict[str, Fact]  # software stack -> yes | experimental | community
    aliases: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()  # pretrain, full, lora, qlora, inference: decoder models;
    # train-network, infer-network: every other family
    families: tuple[NetworkFamily, ...] = ()
    version: Fact | None = None
    licence: Fact | None = None  # "A AND B" where parts differ; "other" is one that was not named
    min_compute_capability: Figure | None = None
    precisions: dict[str, Fact] = empty()
    weight_formats: dict[str, Fact] = empty()
    parallelism: dict[str, Fact] = empty()  # dp, zero1, zero2, zero3, tp, pp, ep, cp
    precision_min_capability: dict[str, Figure] = empty()  # CUDA compute capability of a precision
    format_min_capability: dict[str, Figure] = empty()  # the same of a weight format
    format_stacks: dict[str, Fact] = (
        empty()
    )  # software stacks of a weight format; absent: those of `backends`
    kv_formats: dict[str, Fact] = empty()  # formats of the KV cache beside 16 bit
    heads_divide: Fact | None = None  # yes: tensor parallelism must divide the attention heads
    execution: dict[str, Fact] = empty()  # eager, graph
    deployment: dict[str, Fact] = empty()  # server, cluster, edge, mobile, desktop
    maturity: Fact | None = None
    upkeep: Fact | None = None  # active | slow | maintenance | dormant
    evidence_date: Fact | None = None  # of maturity and version, as far as the source tells: YYYY[-MM[-DD]]
    users: Fact | None = None  # who typically uses it
    ease: Figure | None = None  # 1 write your own integration .. 3 one command or file
    measured_as: tuple[str, ...] = ()  # words that name it in the measured rows
    measured_rows: dict[str, Figure] = (
        empty()
    )  # by pretrain, finetune, inference, train-network, infer-network
    fallback: Fact | None = None  # what serves where it does not run
    aged: dict[str, Fact] = empty()  # a claim that still circulates -> what holds now
    launch: tuple[str, ...] = ()
    good_for: Fact | None = None
    replaced_by: Fact | None = None

    @property
    def licences(self) -> tuple[str, ...]:
        """Licences of all its parts; empty where none is known."""
        return () if self.licence is None else tuple(str(self.licence).split(" AND "))


class Optimisation(Entry):
    """An optimisation with its code (`id`); `advice` computes what it does for a workload."""

    text: str  # what it is
    how: str  # what to set
    rests_on: str  # which estimate computes the effect
    accuracy_risk: Fact | None = None  # absent: not known
    needs: Fact | None = None  # hardware or software it needs


class WeightFormat(Entry):
    """A storage format of weights: real bits per weight and what multiplies it."""

    aliases: tuple[str, ...] = ()
    bits_per_weight: Figure
    compute: str  # precision of the multiplication: fp16, fp8, int8, fp4 ...
    keeps_embeddings_16bit: bool = True
    experts_only: bool = False  # of a mixture, the format holds the routed experts; the rest stays 16 bit
    kernel_class: str  # calibration key of the dequantisation cost: none, w4, gguf, mlx, int8, bnb


class System(Entry):
    """A node or rack that accelerators come in: links, counts, host power and price."""

    accelerators: tuple[str, ...]
    accelerators_per_node: Figure
    fast_domain: Figure  # accelerators joined by their own link; 1 = none
    max_nodes: Figure | None = None
    network_one_way_gb_s: Figure | None = None  # per accelerator, across nodes
    host_power_w: Figure | None = None  # host, fans and NICs of one node at load, without accelerators
    host_price_usd: Figure | None = None
    host_memory_gb: Figure | None = None  # of one node
    peripheral: bool = False  # a card in somebody's host (true) or a system of its own (false)


@dataclass(frozen=True, slots=True)
class Price:
    """One row of prices.csv: what somebody asked for `n_accel` accelerators on a date."""

    hardware: str
    n_accel: int
    kind: str  # rent | buy
    term: str  # on-demand | spot | reserved-1y | reserved-3y | list | retail | used | server
    provider: str
    instance: str
    region: str
    price: float  # USD per hour (rent) or USD (buy), for all n_accel together
    currency: str
    as_of: str  # ISO date, empty when the source gives none
    is_offer: bool  # False for market medians and averages
    source: str
    note: str


@dataclass(frozen=True, slots=True)
class MeasuredPower:
    """One row of power_measured.csv: electrical power [W] of a run, and its share of the board limit."""

    hardware: str
    n_accel: int
    workload: str
    mean_power_w: float | None
    power_per_accel_w: float | None
    share_of_tdp: float | None  # absent where the power includes the host
    measured_at: str  # GPU (NVML) | node ... | whole system at the wall ...
    configuration: str
    as_of: str  # ISO date, empty when the source gives none
    source: str
    note: str


@dataclass(frozen=True, slots=True)
class Region:
    """One row of regions.csv: carbon by one method, or an electricity price, or a PUE.

    All carbon figures are location-based; methods differ, twofold for some places, so a figure never
    stands without its method.
    """

    region: str
    name: str
    kind: str  # country | zone | group | cloud region | provider | facility
    carbon_g_kwh: float | None
    carbon_method: str
    electricity_usd_kwh: float | None
    price_kind: str  # commercial | industrial | business | empty
    pue: float | None
    year: str  # of the figures: a year, a month or a day
    source: str


@dataclass(frozen=True, slots=True)
class PastPrice:
    """One row of price_history.csv: what an instance cost per hour in a month."""

    provider: str
    instance_type: str  # of the whole instance; per GPU where it says "per chip" or "market median"
    hardware: str
    month: str  # YYYY-MM
    ondemand: float | None
    spot: float | None
    currency: str
    source: str


@dataclass(frozen=True, slots=True)
class ExchangeRate:
    """One row of exchange_rates.csv: units of a currency for one euro on a day."""

    currency: str
    per_eur: float
    as_of: str
    source: str


@dataclass(frozen=True, slots=True)
class EmbodiedCarbon:
    """One row of embodied_carbon.csv: carbon of making hardware [kg CO2e], for `n_accel` accelerators.

    `scope`: card, the rest of the server, or the server with its cards (also a cloud instance).
    """

    hardware: str
    n_accel: int
    scope: str  # card | server-without-cards | server
    kgco2e: float | None
    source: str
    note: str


@dataclass(frozen=True)
class Catalog:
    """Everything that the data folder says. Models and the last tables are read when asked for."""

    accelerators: Mapping[str, Accelerator]
    models: Mapping[str, Model]
    frameworks: Mapping[str, Framework]
    formats: Mapping[str, WeightFormat]
    systems: Mapping[str, System]
    prices: tuple[Price, ...]
    sources: Mapping[str, Source]
    power: Sequence[MeasuredPower] = ()
    regions: Sequence[Region] = ()
    price_history: Sequence[PastPrice] = ()
    embodied: Sequence[EmbodiedCarbon] = ()
    optimisations: Mapping[str, Optimisation] = field(default_factory=dict)
    exchange_rates: Sequence[ExchangeRate] = ()

    @cached_property
    def prices_of(self) -> Mapping[str, tuple[Price, ...]]:
        """Price rows by accelerator id."""
        found: dict[str, list[Price]] = {}
        for row in self.prices:
            found.setdefault(row.hardware, []).append(row)
        return {name: tuple(rows) for name, rows in found.items()}

    @cached_property
    def memo(self) -> dict[tuple[object, ...], Any]:
        """Look-ups that repeat within a request, by what was asked; `costs` fills it."""
        return {}
