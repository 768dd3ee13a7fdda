"""Peak memory of decoder training rows: the recipe of the row's software, on the plan that it states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

from gpuselect.accuracy.decoder_memory import fit_for
from gpuselect.accuracy.decoder_plans import plan_of
from gpuselect.accuracy.records import Fit, Row, Scored, Skip
from gpuselect.accuracy.rows import accelerator_of, model_of, number, present, shape_of_row, whole
from gpuselect.calibration import Calibration, StackTraits
from gpuselect.catalog import Catalog
from gpuselect.estimate.devices import usable_bytes
from gpuselect.estimate.memory import Recipe, training_memory
from gpuselect.estimate.memory_recipe import ADAPTERS, TRAINABLE_BYTES, training_recipe
from gpuselect.estimate.shape import Shape
from gpuselect.plan import RECOMPUTE, Plan
from gpuselect.search import TIGHT_FROM
from gpuselect.units import GB, GIB

USUAL_LENGTH = 2048.0
FLASH_SINCE = "2023"  # FlashAttention (arXiv 2205.14135) reached the usual stacks
FLASH_CAPABILITY = 7.5  # Turing; FlashAttention has no kernel for older cards
GPT = re.compile(r"(?i)\b(gpt|bloom|megatron-lm|opt)\b")
GPT_VOCAB, BLOOM_VOCAB = 50_304, 250_880  # arXiv 2005.14165 section 2.1 padded to 64; BLOOM, arXiv 2211.05100
EMBEDDINGS_TOO = re.compile(r"(?i)lora \(emb\)|embedding|lm_head")
REAL_LENGTH = re.compile(r"(?i)configured|default length|lengths? \d|alpaca")
SET_LENGTH = re.compile(r"(?i)source says (\d+) tokens")
OTHER_RECIPE = re.compile(
    r"(?i)galore|\blisa|aqlm|velora|adapter \(|with adapter|tuner adapter|4-bit optim|ao 4-bit"
)
LAYOUT = {"zero_stage", "tp", "pp", "dp"}
LLAMA_2 = re.compile(r"(?i)llama[- ]?2\b|llama-like")
LLAMA_2_VOCAB = 32_000  # arXiv 2307.09288, section 2.2
LOAD = {"micro_batch", "global_batch", "seq_len"}  # without any of them a row says nothing about memory
NO_ZERO_3 = re.compile(r"(?i)without (deepspeed )?zero[- ]?3")
NAMED_RECOMPUTE = re.compile(r"(?i)recompute=(full|none)")
FP32_GRADIENT = 4.0
ACCUMULATES = re.compile(r"(?i)rebalancing layers|bf16 optimizer")  # the page: with it from that section on
ONE_DEVICE = re.compile(r"(?i)\bdevices=1\b")
PLAIN_FFN = 4.0  # FFN width over hidden width of blocks without a gate
METHODS = {"full-ft": "full", "full": "full", "lora": "lora", "qlora": "qlora"}


@dataclass(frozen=True, slots=True)
class MemoryCase:
    """A row resolved to what the memory estimate takes; `assumed`: recipe or lengths are not stated."""

    shape: Shape
    plan: Plan
    recipe: Recipe
    seq_len: float
    method: str
    assumed: bool
    usable: float | None

    @property
    def cut(self) -> str:
        """Name of the slice."""
        if self.assumed:
            return "training memory assumed"
        kind = "moe" if self.shape.n_experts else self.method if self.method in ADAPTERS else "dense"
        return f"training memory {kind}"


def memory_score(row: Row, catalog: Catalog, calibration: Calibration) -> Scored:
    """Predicted peak of a row [GB], of one accelerator."""
    if row.get("outcome", "ok") != "ok" or not present(row, ("peak_mem_gb",)):
        raise Skip("no-metric")
    case = memory_case(row, catalog, calibration)
    need = need_of(case, calibration, kind=row.get("mem_kind", "unknown"))
    return Scored(
        row.get("row_id", ""), row.get("source_id", ""), case.cut, "peak_mem_gb",
        number(row, "peak_mem_gb"), need / GB, "memory", case.assumed,
    )  # fmt: skip


def memory_case(row: Row, catalog: Catalog, calibration: Calibration) -> MemoryCase:
    """Resolve a row; what it leaves open gets what is usual for its stack."""
    if OTHER_RECIPE.search(row.get("notes", "") + row.get("optimizer", "")):
        raise Skip("technique-not-covered")
    stack = stack_of(row, calibration)
    method = METHODS.get(row.get("method", ""), "pretrain")
    shape = _shape(row, catalog)
    plan, stated = _plan(row, stack, method)
    in_notes = SET_LENGTH.search(row.get("notes", ""))
    usual = float(in_notes[1]) if in_notes else USUAL_LENGTH
    seq_len = number(row, "seq_len") or min(usual, shape.max_context or usual)
    known = "seq_len" in row and stated and not REAL_LENGTH.search(row.get("notes", ""))
    usable, plain = None, row.get("date", "9")[:4] < FLASH_SINCE
    with suppress(Skip):
        card = accelerator_of(row, catalog)
        usable = usable_bytes(card, calibration)
        plain |= 0.0 < float(card.compute_capability or 0.0) < FLASH_CAPABILITY
    recipe = recipe_of(row, shape, stack, method, calibration, plain=plain)
    open_layout = stack.splits_layers and method in ADAPTERS and not LAYOUT & set(row)
    if open_layout and usable and plan.count > 1 and recipe.weight_bytes * shape.params > usable:
        plan = replace(plan, pp=plan.count, dp=1, zero_stage=0)  # layers are spread over the cards
    return MemoryCase(
        shape=shape, plan=plan, recipe=recipe, seq_len=seq_len,
        method=method, assumed=not known, usable=usable,
    )  # fmt: skip


def need_of(case: MemoryCase, calibration: Calibration, *, kind: str) -> float:
    """Predicted peak per accelerator [B] in the sense of `mem_kind`.

    `allocated` counts tensors only, `reserved` what the allocator holds, anything else the driver's
    view: with context and collective buffers (feasibility study, section 2.5).
    """
    constants = calibration.memory
    inside = kind in ("allocated", "reserved")
    return float(training_memory(
        shape=case.shape, plan=case.plan, recipe=case.recipe, seq_len=case.seq_len,
        fragmentation=1.0 if kind == "allocated" else float(constants.fragmentation),
        context_bytes=0.0 if inside else float(constants.training_context_gib) * GIB,
    ).total)  # fmt: skip


def memory_fit(row: Row, catalog: Catalog, calibration: Calibration) -> Fit:
    """The row's least need against the usable memory of its card.

    What the row leaves open is what a user would try next: layout, ZeRO-3, recomputation.
    """
    case = memory_case(row, catalog, calibration)
    if case.usable is None:
        raise Skip("figures-missing", row.get("hardware", ""))
    if not LOAD & set(row) or "n_accel" not in row:
        raise Skip("length-unknown")
    least = float("inf")
    for plan in _open_plans(row, case, calibration):
        need = need_of(replace(case, plan=plan), calibration, kind="unknown")
        least = min(least, need)
        if least <= TIGHT_FROM * case.usable:
            break
    return fit_for(row, need=least, usable=case.usable)


def _open_plans(row: Row, case: MemoryCase, calibration: Calibration) -> Iterator[Plan]:
    """The row's plan, then what else it may have been."""
    plan = case.plan
    yield plan
    stack = stack_of(row, calibration)
    sharded = row.get("zero_stage") == "3" and stack.states == "pure"  # FSDP alone: no tensor parallelism
    stated = bool({"tp", "dp", "pp"} & set(row)) or case.method in ADAPTERS or sharded
    known = "recompute" in row or stack.recompute_known
    kinds = (plan.recompute,) if known else (plan.recompute, 2)
    micro = (plan.micro_batch,) if {"micro_batch", "global_batch"} & set(row) else (1,)
    for tp, kind, batch in product((plan.tp,) if stated else (1, 2, 4, 8), kinds, micro):
        dp, rest = divmod(plan.count, tp * plan.pp * plan.cp)
        if rest:
            continue
        dp = plan.dp if stated else dp
        named = "zero_stage" in row or NO_ZERO_3.search(row.get("notes", ""))
        zero = plan.zero_stage if named else 3 if plan.pp == 1 and dp > 1 else 1
        yield replace(plan, tp=tp, dp=dp, recompute=kind, zero_stage=zero, micro_batch=batch)


def stack_of(row: Row, calibration: Calibration) -> StackTraits:
    """Traits of the software that the row names; the last entry is for all others."""
    liger = "liger" if "liger" in row.get("notes", "").lower() else ""  # named in the notes only
    text = f"{liger} {row.get('framework', '')}"
    stacks = calibration.training_stacks
    found = next((s for s in stacks.values() if any(w in text.lower() for w in s.words)), None)
    return found or stacks["other"]


def _shape(row: Row, catalog: Catalog) -> Shape:
    """The row's shape; models of the GPT and BLOOM kind have plain FFNs and vocabularies of their own."""
    shape = shape_of_row(row, catalog)
    name = f"{row.get('model_name', '')} {row.get('framework', '')}"
    if model_of(row.get("model_name", ""), catalog) is not None:
        return shape
    if LLAMA_2.search(name) and "vocab" not in row:
        return replace(shape, vocab=LLAMA_2_VOCAB, embedding_params=float(LLAMA_2_VOCAB * shape.hidden))
    plain = number(row, "ffn_hidden") == PLAIN_FFN * number(row, "hidden") > 0
    if plain and not GPT.search(name):
        return replace(shape, block="bert")
    if not GPT.search(name):
        return shape
    vocab = BLOOM_VOCAB if "bloom" in name.lower() else GPT_VOCAB
    if "vocab" in row:
        vocab = shape.vocab
    return replace(
        shape, block="bert", vocab=vocab, embedding_params=float(vocab * shape.hidden), tied=True,
        ffn=number(row, "ffn_hidden") or 4.0 * shape.hidden,
    )  # fmt: skip


def _plan(row: Row, stack: StackTraits, method: str) -> tuple[Plan, bool]:
    """The plan, and whether the row states recomputation and batch."""
    plan = plan_of(row)
    named = NAMED_RECOMPUTE.search(row.get("notes", ""))
    recompute = named[1].lower() if named else row.get("recompute")
    if named:
        plan = replace(plan, recompute=RECOMPUTE.index(str(recompute)))
    adapters = method in ADAPTERS
    if ONE_DEVICE.search(row.get("notes", "")):  # of the cards of the machine
        plan = replace(plan, count=1, dp=1, zero_stage=0, micro_batch=whole(row, "micro_batch"))
    if "zero_stage" not in row:
        alone = plan.tp == plan.pp == 1 and plan.dp > 1
        usual_zero = stack.zero if alone else plan.zero_stage
        plan = replace(plan, zero_stage=stack.adapter_zero if adapters else usual_zero)
    if recompute not in RECOMPUTE:
        usual = stack.recompute_adapters if adapters else stack.recompute
        plan = replace(plan, recompute=RECOMPUTE.index(usual))
    micro = whole(row, "micro_batch")
    if "micro_batch" in row:
        plan = replace(plan, micro_batch=micro)
    batch = "micro_batch" in row or ("global_batch" in row and plan.grad_accum == 1)
    return plan, (recompute in RECOMPUTE or stack.recompute_known) and batch


def recipe_of(
    row: Row, shape: Shape, stack: StackTraits, method: str, calibration: Calibration, *, plain: bool
) -> Recipe:
    """The recipe of a method in the row's stack.

    `plain`: attention keeps its scores, and tensor parallelism does not split norms and residuals.
    """
    precision = row.get("compute_precision", "bf16").split("-")[0]
    precision = precision if precision in TRAINABLE_BYTES else "bf16"
    recipe = training_recipe(
        shape=shape, method=method, precision=precision, fused=stack.fused and not plain,
        optimizer=optimizer_of(row), lora_rank=whole(row, "lora_rank", 16), calibration=calibration,
        flash=stack.flash and not plain,
    )  # fmt: skip
    name = row.get("framework", "").lower()
    weights, gradients, states = recipe.weight_bytes, recipe.gradient_bytes, recipe.optimizer_bytes
    extra, trained = recipe.trainable_weight_bytes, recipe.trainable_params
    if method not in ADAPTERS and precision not in ("fp32", "tf32"):
        moments = states - 12.0 + 8.0
        if stack.states == "pure":
            weights, gradients, states = 2.0, 2.0, moments / 2.0 if moments > 4.0 else moments
        elif stack.states == "sharded":
            weights, gradients, states = 4.0, 4.0, moments
        elif "deepspeed" in name:
            gradients, states = _deepspeed_bytes(row, states)
    elif method in ADAPTERS and stack.states == "pure":
        extra, gradients, states = 2.0, 2.0, states / 2.0
    if method in ADAPTERS and EMBEDDINGS_TOO.search(row.get("notes", "")):
        trained += shape.embedding_params * (2 - shape.tied)
    return replace(
        recipe, weight_bytes=weights, gradient_bytes=gradients, optimizer_bytes=states,
        trainable_weight_bytes=extra, trainable_params=trained, logits_bytes=stack.loss,
        checkpoint_bytes=0.0 if stack.offloads_checkpoints else recipe.checkpoint_bytes,
        sequence_parallel=not plain or _partitions(row), frees_gradients=stack.frees_gradients,
        kept_logits=min(recipe.kept_logits, stack.loss), root_unit="deepspeed" not in name,
        gathered_bytes=2.0 if stack.states == "sharded" else 0.0,
        deepspeed="deepspeed" in name and not ACCUMULATES.search(row.get("notes", "")),
    )  # fmt: skip


def _deepspeed_bytes(row: Row, states: float) -> tuple[float, float]:
    """Bytes of gradients and of optimizer states.

    ZeRO keeps 16-bit gradients and, beside moments and master copy, the fp32 gradients of its share: 4 P and
    16 P over the ranks, with stage 3 18 P over the ranks (DeepSpeed documentation, Memory Requirements). Its
    bf16 optimizer also accumulates in fp32, which it does not shard (BigScience, chronicles of tr11-176B).
    """
    if row.get("zero_stage") == "3":
        return 0.0, states + FP32_GRADIENT
    accumulates = FP32_GRADIENT if ACCUMULATES.search(row.get("notes", "")) else 0.0
    return 2.0 + accumulates, states + FP32_GRADIENT


def _partitions(row: Row) -> bool:
    """DeepSpeed's ZeRO-3 also divides saved activations over tp (ZeRO-R, arXiv 1910.02054, section 6.1)."""
    return "deepspeed" in row.get("framework", "").lower() and row.get("zero_stage") == "3"


def optimizer_of(row: Row) -> str:
    """The optimizer in the words of `training_recipe`."""
    text = row.get("optimizer", "").lower()
    if "8bit" in text or "8-bit" in text or "4-bit" in text:
        return "adamw-8bit"
    for name in ("muon", "adafactor", "sgd"):
        if name in text and "adam" not in text:
            return name
    return "adamw"
