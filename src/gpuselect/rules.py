"""Hard rules: why an accelerator cannot serve a workload, each with a stable code.

Rules know traits only; a rejection for memory is made in `advisor`, where the need is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuselect.catalog import Accelerator
from gpuselect.decision import Note
from gpuselect.i18n import _


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


EXPLANATIONS: Mapping[str, Explanation] = {
    "precision-unsupported": Explanation(
        "The card has no hardware for this number format. BF16 needs CUDA compute capability 8.0, FP8 "
        "8.9, FP4 10.0; other vendors: the catalog holds no rate for the format.",
        "framework traits: vLLM issues 946 and 1157, Transformer Engine support matrix",
        "Choose another --precision or --weights; the message names the nearest workable one.",
    ),
    "memory-exceeded": Explanation(
        "No valid plan within the allowed count fits the memory that the driver shows. The message "
        "holds the arithmetic of the plan that came nearest.",
        "docs/methodology.md, memory",
        "More accelerators (--max-count), --recompute full, --method lora or qlora, a smaller format.",
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
    "legacy-part": Explanation(
        "The part is still sold or rented but superseded: supply and spare parts end, and new releases of "
        "CUDA, TensorRT or ROCm drop the oldest generations first.",
        "`status: legacy` of the catalog entry, a judgement", "Exclude it with --exclude.",
    ),
    "assumed-figure": Explanation(
        "The answer rests on a figure that the catalog marks as assumed.",
        "`status: assumed` in the catalog", "Correct the figure in an overlay.",
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
    for rule in (_selection, _availability, _traits, _precision):
        note = rule(accelerator, demands)
        if note is not None:
            return note
    if not runs:
        stack = ", ".join(accelerator.software) or _("unknown")
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


def _availability(accelerator: Accelerator, demands: Demands) -> Note | None:
    if accelerator.id in demands.named or accelerator.id in demands.gpus:
        return None
    if accelerator.status in ("announced", "research", "eol"):
        return Note(
            "not-available",
            _("{status}: ranked only when named").format(status=accelerator.status),
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


def _precision(accelerator: Accelerator, demands: Demands) -> Note | None:
    if demands.precision_ok.get(accelerator.id, True):
        return None
    capability = accelerator.compute_capability
    if demands.precision == "bf16" and capability is not None:
        return Note(
            "precision-unsupported",
            _("BF16 needs compute capability 8.0, the card has {cc}; use fp16").format(cc=capability),
        )
    known = ", ".join(sorted(accelerator.dense_tflops)) or _("none")
    return Note(
        "precision-unsupported",
        _("no {precision} rate for this card; it has: {known}").format(
            precision=demands.precision, known=known
        ),
    )
