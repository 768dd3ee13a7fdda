"""What the templates can name: the plan, the job, the hardware and the predictions as plain facts.

A fact that says nothing is absent, never 0: one node, one replica or an unknown model leave their
facts out, and with them the lines that name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import ceil

from gpuselect.catalog import Accelerator, Catalog, Framework, Model
from gpuselect.decision import Option
from gpuselect.estimate.memory import block_layers
from gpuselect.estimate.memory_recipe import ADAPTERS
from gpuselect.job import ServingJob, TrainingJob, native_format
from gpuselect.launch.fill import Value
from gpuselect.names import resolve_model
from gpuselect.network_job import HpcJob, Job, NetworkJob, VideoJob
from gpuselect.plan import BLOCKS, OFFLOADS, RECOMPUTE, Plan, layers_of_stages
from gpuselect.workload import Workload

PLAIN = re.compile(r"[\w./:+-]+")  # a text that no shell, YAML, TOML or JSON reads in a way of its own
WIDTHS = ("tp", "pp", "dp", "ep", "cp", "replicas", "nodes")
BF16_PRECISIONS = ("bf16", "fp8", "mxfp8", "nvfp4")  # narrower ones keep the rest of the step in bf16
SIXTEEN_BIT = ("bf16", "fp16", "fp32")
CONTEXT_STEP = 256  # the limit of a request is rounded up, with room for the tokens that a template adds
CONTEXT_ROOM = 64
WARMUP_SHARE, MOST_WARMUP = 0.01, 2000  # of the steps: a usual schedule, an assumption
PROMPTS_PER_SLOT = 10  # of the acceptance test: enough for the batch to be full most of the time
LEAST_PROMPTS = 100
TIME_RESERVE_S = 3600.0  # start, checkpoints and the last save, on top of the slow end of the prediction


def facts_of(*, option: Option, job: Job, workload: Workload, catalog: Catalog) -> dict[str, Value]:
    """Every fact of an option. Counts, widths and lengths are whole numbers, times seconds."""
    accelerator = catalog.accelerators[option.accelerator]
    framework = None if option.framework is None else catalog.frameworks.get(option.framework.id)
    facts: dict[str, Value | None] = {
        **_flags(_kinds(job)),
        "launch_line": "\n".join(option.framework.launch) or None if option.framework else None,
        "label": _plain(job.label) or "model",
        "name": _slug(job.label),
        "framework": "none" if framework is None else framework.id,
        **_hardware(option, accelerator, framework, workload),
        **_plan(option),
        **_run(option, serving=isinstance(job, ServingJob)),
        **_precision(option),
        **_model(workload, catalog, option),
    }
    match job:
        case TrainingJob():
            facts |= _training(job, workload) | stage_facts(job.shape.n_layers, option.plan)
            facts |= _blocks(job, option.plan)
        case ServingJob():
            facts |= _serving(job, option)
        case NetworkJob():
            facts |= _network(job, option)
        case VideoJob():
            facts |= _video(job, option)
        case HpcJob():
            pass
    facts |= _run_time(option)
    return {key: value for key, value in facts.items() if value is not None}


def kind_of(job: Job) -> str:
    """What a job is called in the templates."""
    match job:
        case TrainingJob():
            return job.method
        case ServingJob():
            return "inference"
        case NetworkJob():
            return "train-network" if job.training else "infer-network"
        case VideoJob():
            return "video"
        case HpcJob():
            return "hpc"


def _kinds(job: Job) -> Iterable[str]:
    kind = kind_of(job).replace("-", "_")
    training = isinstance(job, TrainingJob) or (isinstance(job, NetworkJob) and job.training)
    yield kind
    yield "training" if training else "hpc_run" if kind == "hpc" else "serving"
    if kind in ADAPTERS:
        yield "adapters"
    if kind in ("full", *ADAPTERS):
        yield "finetuning"


def _flags(names: Iterable[str]) -> dict[str, Value | None]:
    """Facts that are only there or not there."""
    return dict.fromkeys(names, True)


def _plain(text: str | None) -> str | None:
    return text if text is not None and PLAIN.fullmatch(text) else None


def _slug(text: str) -> str:
    """A name that Kubernetes, Slurm and SkyPilot accept: letters, digits and dashes, a letter first.

    >>> _slug("Llama 3.1 8B"), _slug("10B")
    ('llama-3-1-8b', 'run-10b')
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "run"
    return name if name[0].isalpha() else f"run-{name}"


def _hardware(
    option: Option, accelerator: Accelerator, framework: Framework | None, workload: Workload
) -> dict[str, Value | None]:
    stacks = [s for s in accelerator.software if framework is None or s in framework.backends]
    stack = next(iter(stacks), next(iter(accelerator.software), "none"))
    return {
        "accelerator": accelerator.id,
        "family": accelerator.family,
        "stack": stack,
        **_flags([stack.replace("-", "_")]),
        "cluster": accelerator.family in ("datacenter", "superchip", "asic", "tpu") or None,
        "unified": accelerator.unified_memory or None,
        "rented": option.cost.offer is not None or None,
        "provider": _plain(option.cost.offer.provider.lower()) if option.cost.offer else None,
        "mig_profile": _mig_profile(accelerator, workload)
        if option.plan.count == option.plan.replicas
        else None,
    }


def _mig_profile(accelerator: Accelerator, workload: Workload) -> str | None:
    """The largest profile of which the card holds as many as were asked for."""
    if not workload.mig or workload.mig < 2:
        return None
    fits = [s for s in accelerator.mig_slices if s.compute_fraction * workload.mig <= 1.0 + 1e-9]
    best = max(fits, key=lambda s: (s.compute_fraction, s.memory_gb), default=None)
    return None if best is None else best.name


def _plan(option: Option) -> dict[str, Value | None]:
    plan = option.plan
    group = plan.count // plan.replicas
    per_node = ceil(plan.count / option.nodes)
    widths = {name: int(option.nodes if name == "nodes" else getattr(plan, name)) for name in WIDTHS}
    return {
        **widths,
        **{f"{name}_many": width if width > 1 else None for name, width in widths.items()},
        "count": plan.count,
        "count_many": plan.count if plan.count > 1 else None,
        "per_node": per_node,
        "group": group,
        "group_many": group if group > 1 else None,
        "group_per_node": min(group, per_node),
        "replicas_per_node": max(1, per_node // group),
        "zero_stage": plan.zero_stage,
        **_flags([f"zero{plan.zero_stage}"]),
        "zero_any": plan.zero_stage or None,
        "recompute": RECOMPUTE[plan.recompute],
        **_flags([f"recompute_{RECOMPUTE[plan.recompute]}"] + ["recompute_any"] * bool(plan.recompute)),
        **_flags(["offload_any", f"offload_{OFFLOADS[plan.offload]}"] * bool(plan.offload)),
        "micro_batch": plan.micro_batch,
        "grad_accum": plan.grad_accum,
        "batch_of_step": plan.micro_batch * plan.dp * plan.grad_accum,
        "pipeline_batch": plan.micro_batch * (plan.grad_accum if plan.pp > 1 else 1),
        "device_batch": plan.micro_batch * plan.dp / plan.count,
        "tp_dp": plan.tp * plan.dp,
        **_sharding(plan),
    }


def _sharding(plan: Plan) -> dict[str, Value | None]:
    """How the weights lie: sharded over the data-parallel ranks, copied to each of them, or on one card."""
    sharded = plan.zero_stage == 3 or plan.tp > 1
    return {
        "sharded": True if sharded else None,
        "sharding": "sharded" if sharded else "copied" if plan.dp > 1 else "one",
        "dp_shard": plan.dp if plan.zero_stage == 3 else 1,
        "dp_replicate": 1 if plan.zero_stage == 3 else plan.dp,
    }


def _run(option: Option, *, serving: bool) -> dict[str, Value | None]:
    """Nodes and accelerators of each that one start takes: one replica, or the whole training run."""
    plan = option.plan
    per_node = ceil(plan.count / option.nodes)
    group = plan.count // plan.replicas if serving else plan.count
    nodes = max(1, ceil(group / per_node))
    return {
        "run_nodes": nodes,
        "run_gpus": min(group, per_node),
        "nodes_per_replica": nodes if serving else None,
        "nodes_per_replica_many": nodes if serving and nodes > 1 else None,
    }


def _precision(option: Option) -> dict[str, Value | None]:
    precision = option.precision
    names = [name for name in ("fp32", "tf32", "fp16", "bf16", "fp8") if name == precision]
    return {
        "precision": precision,
        **_flags(names),
        "is_bf16": precision in BF16_PRECISIONS,
        "is_fp16": precision == "fp16",
        "bf16_run": True if precision in BF16_PRECISIONS else None,
        "weights": option.weights or None,
        "kv": option.kv or None,
        "kv_fp8": True if option.kv == "fp8" else None,
        "kv_int8": True if option.kv == "int8" else None,
    }


def _model(workload: Workload, catalog: Catalog, option: Option) -> dict[str, Value | None]:
    """The repository of the weights where the catalog knows it; `checkpoint` where it is the right one."""
    if workload.model is None:
        return {"size": f"{workload.params.total / 1e9:.4g}B" if workload.params else None}
    model = resolve_model(workload.model, catalog)
    repository = next((a for a in model.aliases if a.count("/") == 1 and PLAIN.fullmatch(a)), None)
    published = (native_format(model),) if native_format(model) else SIXTEEN_BIT
    right = not option.weights or option.weights in published
    return {
        "model_id": model.id,
        "repository": repository,
        "checkpoint": repository if right else None,
        **_shape(model),
    }


def _shape(model: Model) -> dict[str, Value | None]:
    names = ("n_layers", "hidden", "ffn_hidden", "n_heads", "n_kv_heads", "head_dim", "vocab", "n_experts")
    found = {name: getattr(model, name) for name in names}
    return {name: None if value is None else int(value) for name, value in found.items()}


def _training(job: TrainingJob, workload: Workload) -> dict[str, Value | None]:
    shape = job.shape
    steps = max(1, round(job.tokens / (job.global_batch * job.seq_len)))
    return {
        "seq_len": job.seq_len,
        "global_batch": job.global_batch,
        "steps": steps,
        "warmup_steps": min(MOST_WARMUP, ceil(WARMUP_SHARE * steps)),
        "tokens": round(job.tokens),
        "optimizer": workload.optimizer or "adamw",
        "lora_rank": (workload.lora_rank or 16) if job.method in ("lora", "qlora") else None,
        "lora_alpha": 2 * (workload.lora_rank or 16) if job.method in ("lora", "qlora") else None,
        "n_layers": shape.n_layers,
        "hidden": shape.hidden,
        "ffn_hidden": int(shape.ffn),
        "n_heads": shape.n_heads,
        "n_kv_heads": shape.n_kv_heads,
        "grouped": True if shape.n_kv_heads != shape.n_heads else None,
        "head_dim": int(shape.head_dim),
        "vocab": shape.vocab,
        "n_experts_many": int(shape.n_experts) if shape.n_experts else None,
        "top_k": int(shape.top_k) if shape.n_experts else None,
        "tied": True if shape.tied else None,
    }


def stage_facts(n_layers: int, plan: Plan) -> dict[str, Value | None]:
    """Interleaved stages of a rank, and how layers that do not divide are laid out.

    `ends_as_layers`: with embedding and head counted as layers they divide; else the layers of both ends.
    """
    first, middle, last = layers_of_stages(n_layers, plan.pp) or (None, None, None)
    uneven = plan.pp > 1 and first != middle
    as_layers = uneven and (n_layers + 2) % (plan.pp * plan.virtual) == 0
    interleaved = plan.virtual > 1
    return {
        "virtual_many": plan.virtual if interleaved else None,
        "virtual_layers": (n_layers + 2 * as_layers) // (plan.pp * plan.virtual) if interleaved else None,
        "virtual_even": True if interleaved and not as_layers else None,
        "ends_as_layers": True if as_layers else None,
        "first_layers": first if uneven and not as_layers else None,
        "last_layers": last if uneven and not as_layers else None,
    }


def _blocks(job: TrainingJob, plan: Plan) -> dict[str, Value | None]:
    """Layers between two checkpoints, where blocks of layers are computed anew."""
    layers = block_layers(shape=job.shape, plan=plan, recipe=job.recipe, seq_len=job.seq_len)
    return {"recompute_layers": int(layers) if plan.recompute == BLOCKS else None}


def _serving(job: ServingJob, option: Option) -> dict[str, Value | None]:
    slots = max(1, ceil(job.concurrency / option.plan.replicas))
    context = ceil((job.input_tokens + job.output_tokens + CONTEXT_ROOM) / CONTEXT_STEP) * CONTEXT_STEP
    return {
        "input_tokens": job.input_tokens,
        "output_tokens": job.output_tokens,
        "context_limit": context,
        "concurrency": job.concurrency,
        "slots": slots,
        "slots_many": slots if slots > 1 else None,
        "context_of_slots": context * slots,
        "replica_rate": job.request_rate / option.plan.replicas if job.request_rate else None,
        "prompts": max(LEAST_PROMPTS, PROMPTS_PER_SLOT * slots),
        "mixture": True if job.shape.n_experts else None,
        **_flags([f"weights_{job.weights.id.replace('-', '_')}", f"kernel_{job.weights.kernel_class}"]),
    }


def _network(job: NetworkJob, option: Option) -> dict[str, Value | None]:
    return {
        "batch": option.plan.micro_batch,
        "global_batch": option.plan.micro_batch * option.plan.dp * option.plan.grad_accum,
        "steps": max(1, round(job.samples / max(1, option.plan.micro_batch * option.plan.dp)))
        if job.training
        else None,
        "unit": job.unit,
    }


def _video(job: VideoJob, option: Option) -> dict[str, Value | None]:
    per_card = ceil(job.streams / option.plan.count)
    return {
        "streams": job.streams,
        "streams_per_card": per_card,
        "fps": job.fps,
        "width": job.width,
        "height": job.height,
        "codec": job.codec,
        "interval": job.interval,
        "frame_us": round(1e6 / job.fps),
    }


def _run_time(option: Option) -> dict[str, Value | None]:
    """A time limit for a scheduler: the slow end of the predicted run, as days-hours:minutes:00."""
    days = option.performance.get("time_to_train_days")
    if days is None:
        return {}
    minutes = ceil((days.high * 86_400 + TIME_RESERVE_S) / 60)
    return {"time_limit": f"{minutes // 1440}-{minutes % 1440 // 60:02d}:{minutes % 60:02d}:00"}
