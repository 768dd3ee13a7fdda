"""Hard rules: why an accelerator cannot serve a workload, each with a stable code.

Rules know traits only; a rejection for memory is made in `advisor`, where the need is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuselect.catalog import Accelerator
from gpuselect.decision import Note
from gpuselect.i18n import N_, _


@dataclass(frozen=True, slots=True)
class Explanation:
    """What stands behind a code: the rule, its source, and how to get round it."""

    text: str
    source: str
    override: str


@dataclass(frozen=True, slots=True)
class Demands:
    """What a workload asks of a card, already resolved to plain values."""

    task: str
    method: str
    precision: str
    weights: str
    precision_ok: Mapping[str, bool]  # accelerator id -> the precision runs on it
    named: frozenset[str]
    gpus: frozenset[str]
    exclude: frozenset[str]
    vendors: frozenset[str]
    ecc: bool = False
    mig: int = 0
    form_factor: str = ""
    edge: bool = False
    hosts_only: bool = False  # edge modules are left out unless they are asked for
    max_power_w: float | None = None
    cooling: str = ""


EXPLANATIONS: Mapping[str, Explanation] = {
    "precision-unsupported": Explanation(
        "The card has no hardware for this number format. BF16 needs CUDA compute capability 8.0, FP8 "
        "8.9, FP4 10.0; other vendors: the catalog holds no rate for the format.",
        "framework traits: vLLM issues 946 and 1157, Transformer Engine support matrix",
        "Choose another --precision or --weights; the message names the nearest workable one.",
    ),
    "memory-exceeded": Explanation(
        "No valid plan within the allowed count fits the memory that the driver shows, less the part that "
        "engines leave free which allocate in advance (vLLM and its kin). The message holds the arithmetic "
        "of the plan that came nearest.",
        "docs/methodology.md, memory",
        "More accelerators (--max-count), --recompute full, --method lora or qlora, a smaller format.",
    ),
    "host-memory-exceeded": Explanation(
        "With --offload, states of the optimizer (16 bytes per parameter, 18 with the weights) wait on the "
        "host: the host of the system, or the share of it that is rented with the cards, does not hold them.",
        "DeepSpeed documentation, Memory Requirements; `host_memory_gb` of data/systems.yaml",
        "More cards or nodes, --optimizer sgd, or the real size with --host-memory.",
    ),
    "host-memory-tight": Explanation(
        "The host holds the states that are offloaded, but not half as much again: DeepSpeed's documentation "
        "adds that factor for buffers and calls it conservative.",
        "DeepSpeed documentation, Memory Requirements, general RAM",
        "More nodes, or a host with more memory.",
    ),
    "offload": Explanation(
        "What waits on the host, the memory that each node needs for it with half as much again for buffers, "
        "and its share of the step: the update on the host's processors, and transfers that nothing hides. "
        "The rate of the host is that of a two-socket node, or of a desktop.",
        "arXiv 2101.06840 and 2104.07857; docs/methodology.md, memory",
        "Leave --offload out, or --host-memory for the memory of your own machine.",
    ),
    "offload-unified": Explanation(
        "Card and host share one memory, so that states which move to the host free nothing.",
        "`unified_memory` of the catalog entry", "Leave --offload out.",
    ),
    "no-valid-plan": Explanation(
        "No layout divides heads, layers and batch evenly over the allowed accelerators with the pins given.",
        "docs/methodology.md, plans",
        "Drop a pin (--tp, --pp, --dp, --micro-batch) or change --global-batch.",
    ),
    "deadline-missed": Explanation(
        "The fastest fitting plan within the allowed count takes longer than the deadline.",
        "docs/methodology.md, training time",
        "A later --deadline or a larger --max-count.",
    ),
    "slo-missed": Explanation(
        "No batch meets the bounds given for TTFT, TPOT or latency, or the demand needs more accelerators.",
        "docs/methodology.md, serving",
        "A looser bound, a faster format, or a larger --max-count.",
    ),
    "over-budget": Explanation(
        "Every fitting plan costs more than the budget at the prices of the catalog.",
        "data/prices.csv",
        "A larger --budget, or a price of your own in an overlay.",
    ),
    "not-selected": Explanation(
        "The workload names accelerators or vendors, and this one is not among them.",
        "the workload", "Change --gpus, --vendors or --exclude.",
    ),
    "not-available": Explanation(
        "The part is announced, a research device or no longer supported; it is ranked only when named.",
        "`status` of the catalog entry", "Name it with --gpus.",
    ),
    "figures-missing": Explanation(
        "Memory size, bandwidth or the rate of the precision is unknown, so nothing can be estimated.",
        "the catalog entry: unknown is absent, never guessed",
        "Add the figure, with its source, in an overlay.",
    ),
    "software-missing": Explanation(
        "No framework in the catalog runs this task on the accelerator's software stack.",
        "data/frameworks.yaml", "Name another --frameworks, or add an entry in an overlay.",
    ),
    "ecc-missing": Explanation(
        "The workload asks for ECC memory and the catalog does not say that the card has it.",
        "`ecc` of the catalog entry", "Drop --ecc.",
    ),
    "mig-missing": Explanation(
        "The card cannot be partitioned into that many instances.",
        "NVIDIA MIG user guide, supported GPUs", "Fewer --mig instances.",
    ),
    "form-factor": Explanation(
        "The card does not come in the form factor asked for.",
        "`form_factor` of the catalog entry", "Drop --form-factor.",
    ),
    "not-edge": Explanation(
        "The workload asks for an edge device and this one needs a host computer.",
        "`family` of the catalog entry", "Drop --edge.",
    ),
    "edge-module": Explanation(
        "Edge modules run single jobs beside a camera or a machine. They are ranked for video, for decoder "
        "models, and where the workload asks for an edge device, a power limit of 100 W or less, or names "
        "them; not for training, codes or services of other networks.",
        "`family` of the catalog entry", "Add --edge, or name it with --gpus.",
    ),
    "power-limit": Explanation(
        "The board power is above the limit, or unknown.",
        "`power_w` of the catalog entry", "Raise --max-power-w.",
    ),
    "power-mode": Explanation(
        "The module has no power mode that low, or its modes are not in the catalog.",
        "`power_modes` of the catalog entry, from the nvpmodel configurations", "Another --power-mode.",
    ),
    "decoder-unknown": Explanation(
        "No decode engine or no decode rate of the codec is known for the device: unknown is not guessed.",
        "`decode_engines` and `decode_streams_1080p30` of the catalog entry",
        "Another --codec, or add the figure in an overlay.",
    ),
    "decoder-missing": Explanation(
        "A slice of a card keeps whole decode engines only, and the smallest slices of some cards keep none.",
        "NVIDIA MIG user guide, profiles", "A larger slice (fewer --tenants on a card).",
    ),
    "decoder-assumed": Explanation(
        "Nobody counted the decode engines of this card; one is assumed, the least that its generation has.",
        "NVDEC application note: capabilities by generation", "Add `decode_engines` in an overlay.",
    ),
    "encoder-missing": Explanation(
        "The streams are to be encoded again, and the device has no hardware encoder.",
        "`encode_engines` of the catalog entry", "Drop --encode, or encode on the host.",
    ),
    "encoder-unknown": Explanation(
        "The streams are to be encoded again, and no encode rate of the codec is known for the device.",
        "`encode_engines` and `encode_streams_1080p30` of the catalog entry",
        "Another codec for --encode, or add the figure in an overlay.",
    ),
    "bottleneck": Explanation(
        "Decoder, GPU, encoder and memory work side by side; the one with the smallest limit decides.",
        "docs/video.md", "Relieve that stage: --interval, a smaller detector, --dla, another codec.",
    ),
    "streams-tight": Explanation(
        "The streams take more than the share of the device's capacity that is planned with.",
        "docs/video.md", "One more device, a lower frame rate, or a larger --interval.",
    ),
    "fp64-slow": Explanation(
        "The code is limited by double-precision arithmetic, and the card runs it at a small share of its "
        "single-precision rate. A code that memory limits, or in mixed precision, is not turned away.",
        "`dense_tflops` of the catalog entry; docs/methodology.md, scientific codes",
        "--kernel md, or --precision fp32, if the code is in mixed precision; --bytes if memory limits it.",
    ),
    "tenants": Explanation(
        "What one tenant gets: a MIG slice with its own units and memory, or a share of the time of a card.",
        "NVIDIA MIG user guide; docs/methodology.md, shared cards",
        "--isolation hardware wants slices or a card each; --isolation software allows time slicing.",
    ),
    "isolation-missing": Explanation(
        "Hardware isolation is asked for, and the card can neither be split nor given to each tenant within "
        "the allowed count.",
        "NVIDIA MIG user guide, supported GPUs", "--isolation software, or a larger --max-count.",
    ),
    "cooling": Explanation(
        "The card is not cooled as asked for, or nobody says how. Modules count as passive.",
        "`cooling` of the catalog entry", "Drop --cooling.",
    ),
    "price-undated": Explanation(
        "The price row behind the cost carries no date.", "data/prices.csv",
        "Ask the provider, and give the quotation in an overlay.",
    ),
    "price-stale": Explanation(
        "The price row behind the cost is older than six months.", "data/prices.csv",
        "Ask the provider, and give the quotation in an overlay.",
    ),
    "over-carbon": Explanation(
        "Every fitting plan emits more than the carbon budget, where its machines stand.",
        "data/regions.csv", "A larger --carbon-budget, or a region with cleaner electricity.",
    ),
    "services-unknown": Explanation(
        "The catalog has no rate for storage or egress of the provider that is cheapest.",
        "data/defaults.yaml, storage_usd_gb_month and egress_usd_gb",
        "Ask the provider, and give the rate in an overlay (defaults.yaml).",
    ),
    "spot-interruptions": Explanation(
        "Spot machines can be taken away. Lost work and restarts are counted as hours paid for nothing; how "
        "often that happens is an assumption, because no table by accelerator was found.",
        "data/defaults.yaml, interruptions_per_day, checkpoint_min, restart_min",
        "Give your own --interruptions, --checkpoint and --restart.",
    ),
    "reserved-commitment": Explanation(
        "A reserved machine is paid for all hours of its term, also those in which it stands idle.",
        "data/prices.csv", "A higher --utilization, or --term on-demand.",
    ),
    "breakeven": Explanation(
        "The share of all hours from which owning costs less than renting, with purchase, interest, resale, "
        "rack and energy on one side and the rent of used hours on the other.",
        "docs/methodology.md, cost",
        "--acquire rent or buy decides; --years, --utilization and --wacc move it.",
    ),
    "price-not-an-offer": Explanation(
        "The price is a market median or a list price that somebody reported, not an offer.",
        "data/prices.csv, column is_offer",
        "Ask a provider, and give the quotation in an overlay.",
    ),
    "memory-tight": Explanation(
        "The need is between 85 and 100 % of the usable memory: allocator luck decides.",
        "feasibility study, section 7: within 15 % of capacity only 75 % of fit decisions are right",
        "Take the next larger count or card.",
    ),
    "class-estimate": Explanation(
        "No measurement of this accelerator is behind the constants; its class predicts it.",
        "data/calibration.yaml", "Measure one run and compare.",
    ),
    "pipeline-unmeasured": Explanation(
        "Cameras were measured with DeepStream and TensorRT only; another framework is taken to be as fast.",
        "data/deepstream_streams.csv", "Measure one pipeline, or allow DeepStream.",
    ),
    "legacy-part": Explanation(
        "The part is still sold or rented but superseded: supply and spare parts end, and new releases of "
        "CUDA, TensorRT or ROCm drop the oldest generations first.",
        "`status: legacy` of the catalog entry, a judgement", "Exclude it with --exclude.",
    ),
    "assumed-figure": Explanation(
        "The answer rests on a figure that the catalog marks as assumed.",
        "`status: assumed` in the catalog", "Correct the figure in an overlay.",
    ),
    "framework-superseded": Explanation(
        "The project is no longer developed, and another has taken its place.",
        "`maturity` and `replaced_by` of data/frameworks.yaml", "Take the one that replaced it.",
    ),
    "method-unsupported": Explanation(
        "The framework does not offer the task (pretraining, adapters, serving) for this family of networks.",
        "`methods` and `families` of data/frameworks.yaml", "Name another --frameworks, or none.",
    ),
    "stack-unsupported": Explanation(
        "The framework has no back-end for the accelerator's software stack.",
        "`backends` of data/frameworks.yaml", "Another framework, or another accelerator.",
    ),
    "capability-too-low": Explanation(
        "The framework needs a newer CUDA compute capability than the card has: vLLM 7.0, TensorRT-LLM and "
        "FlashAttention 2 8.0.",
        "`min_compute_capability` of data/frameworks.yaml", "The nearest alternative stands in the message.",
    ),
    "framework-precision": Explanation(
        "The framework does not multiply in this number format, or not on this compute capability.",
        "`precisions` and `precision_min_capability` of data/frameworks.yaml", "Another --precision.",
    ),
    "format-unsupported": Explanation(
        "The engine does not run this weight format at all, on this software stack, or on this compute "
        "capability: AWQ on ROCm, INT8 below Turing.",
        "`weight_formats`, `format_stacks` and `format_min_capability` of data/frameworks.yaml",
        "Another --weights or --engine; the message names the nearest.",
    ),
    "parallelism-unsupported": Explanation(
        "The plan needs parallelism that the framework does not state.",
        "`parallelism` of data/frameworks.yaml", "Another framework, or pins that leave it out.",
    ),
    "heads-not-divisible": Explanation(
        "The engine splits attention by heads, so the tensor-parallel width must divide their number.",
        "`heads_divide` of data/frameworks.yaml", "Another --tp, or an engine that splits by layers.",
    ),
    "licence-excluded": Explanation(
        "The licence is not among those asked for, or unknown.",
        "`licence` of data/frameworks.yaml, from licence files",
        "Allow it with --framework-licence, or take another framework.",
    ),
    "deployment-unsupported": Explanation(
        "The framework is not made for this deployment target.",
        "`deployment` of data/frameworks.yaml", "Another framework.",
    ),
    "framework-outscored": Explanation(
        "The framework passes all gates and scores lower in evidence, support, upkeep, portability and ease, "
        "or the estimate rests on the constants of another.",
        "docs/frameworks.md, the choice", "Name it with --frameworks or --engine.",
    ),
    "framework-not-asked": Explanation(
        "The workload names frameworks, and this one is not among them.",
        "the workload", "Change --frameworks or --engine.",
    ),
    "layout-near-best": Explanation(
        "The plan is valid and near-best; the model cannot tell apart layouts that differ by under 10 %.",
        "feasibility study, section 5", "Try the neighbours of the plan in a short run.",
    ),
}  # fmt: skip


def reject(accelerator: Accelerator, demands: Demands, *, runs: bool) -> Note | None:
    """First hard rule that the accelerator breaks, None when it may be estimated.

    `runs`: some framework of the catalog, or code of one's own, runs the task on the card.
    """
    for rule in (_selection, _availability, _traits, _cooling, _precision):
        note = rule(accelerator, demands)
        if note is not None:
            return note
    if not runs:
        stack = _(", ").join(accelerator.software) or _("unknown")
        return Note(
            "software-missing",
            _("no framework for {task} on {stack} in the catalog").format(task=demands.task, stack=stack),
        )
    return None


def _selection(accelerator: Accelerator, demands: Demands) -> Note | None:
    if demands.gpus and accelerator.id not in demands.gpus:
        return Note("not-selected", _("not among the accelerators named"))
    if accelerator.id in demands.exclude:
        return Note("not-selected", _("excluded by the workload"))
    if demands.vendors and accelerator.vendor not in demands.vendors:
        return Note("not-selected", _("vendor {v} not asked for").format(v=accelerator.vendor))
    return None


NOT_SOLD = (N_("announced"), N_("research"), N_("eol"))


def _availability(accelerator: Accelerator, demands: Demands) -> Note | None:
    if accelerator.id in demands.named or accelerator.id in demands.gpus:
        return None
    if accelerator.status in NOT_SOLD:
        return Note(
            "not-available",
            _("{status}: ranked only when named").format(status=_(accelerator.status)),
        )
    if demands.hosts_only and accelerator.family == "edge":
        return Note("edge-module", _("an edge module: ranked with --edge, a power limit, or by name"))
    return None


def _traits(accelerator: Accelerator, demands: Demands) -> Note | None:
    if demands.ecc and (accelerator.ecc or "no") == "no":
        return Note("ecc-missing", _("ECC memory not stated for this card"))
    slices = int(accelerator.mig_max_instances or 0)
    if demands.mig > slices:
        return Note(
            "mig-missing",
            _("{n} MIG instances asked for, the card offers {m}").format(n=demands.mig, m=slices),
        )
    form = accelerator.form_factor.lower()
    if demands.form_factor and demands.form_factor.lower() not in form:
        workstation = accelerator.family in ("workstation", "consumer")
        if not (demands.form_factor.lower() in ("workstation", "desktop") and workstation):
            return Note("form-factor", _("comes as {form}").format(form=accelerator.form_factor))
    if demands.edge and accelerator.family != "edge":
        return Note("not-edge", _("needs a host computer"))
    if demands.max_power_w is not None:
        power = accelerator.power_w
        if power is None or power > demands.max_power_w:
            drawn = _("unknown power") if power is None else f"{power:.0f} W"
            return Note(
                "power-limit",
                _("{drawn}, limit {limit:.0f} W").format(drawn=drawn, limit=demands.max_power_w),
            )
    return None


NEXT_PRECISIONS = {  # what stands in for a number format, the nearest first
    "fp4": ("fp8", "int8", "bf16", "fp16", "fp32"), "nvfp4": ("fp8", "int8", "bf16", "fp16", "fp32"),
    "mxfp4": ("fp8", "int8", "bf16", "fp16", "fp32"), "fp8": ("int8", "bf16", "fp16", "fp32"),
    "mxfp8": ("fp8", "int8", "bf16", "fp16", "fp32"), "int4": ("int8", "fp8", "fp16", "fp32"),
    "int8": ("fp8", "fp16", "fp32"), "bf16": ("fp16", "fp32"), "fp16": ("bf16", "fp32"),
    "tf32": ("fp32",), "fp64": ("fp32",),
}  # fmt: skip
TRAINED_WITHOUT = frozenset({"int8", "int4"})  # no format to train in


def nearest_precision(accelerator: Accelerator, precision: str, *, training: bool) -> str:
    """The nearest number format that the catalog states a rate of; empty where there is none."""
    options = NEXT_PRECISIONS.get(precision, ())
    usable = (p for p in options if p in accelerator.dense_tflops and not (training and p in TRAINED_WITHOUT))
    old = (accelerator.compute_capability_number or 8.0) < 8.0
    return next((p for p in usable if not (p == "bf16" and old)), "")


def _cooling(accelerator: Accelerator, demands: Demands) -> Note | None:
    cooled = "passive" if accelerator.cooling == "embedded" else accelerator.cooling
    if not demands.cooling or cooled == demands.cooling:
        return None
    return Note("cooling", _("cooling: {how}").format(how=accelerator.cooling or _("not known")))


def _precision(accelerator: Accelerator, demands: Demands) -> Note | None:
    if demands.precision_ok.get(accelerator.id, True):
        return None
    capability = accelerator.compute_capability
    if demands.precision == "bf16" and capability is not None:
        return Note(
            "precision-unsupported",
            _("BF16 needs compute capability 8.0, the card has {cc}; use fp16").format(cc=capability),
        )
    known = _(", ").join(sorted(accelerator.dense_tflops)) or _("none")
    training = demands.task not in ("inference", "video")
    near = nearest_precision(accelerator, demands.precision, training=training)
    text = _("no {precision} rate for this card; it has: {known}").format(
        precision=demands.precision, known=known
    )
    return Note("precision-unsupported", text + (_("; nearest: {p}").format(p=near) if near else ""))
