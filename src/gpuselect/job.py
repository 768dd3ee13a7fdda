"""A workload resolved to numbers: the model's shape, bytes per parameter, batch, lengths.

What the user left open is chosen here by a documented default and listed as an assumption.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog, Model, WeightFormat
from gpuselect.decision import Note
from gpuselect.errors import InputError
from gpuselect.estimate.memory import Recipe
from gpuselect.estimate.memory_recipe import training_recipe
from gpuselect.estimate.model_shape import shape_of
from gpuselect.estimate.serving import DRAFT_COST, NO_HELP, Help
from gpuselect.estimate.shape import Shape, typical_decoder
from gpuselect.i18n import _
from gpuselect.names import resolve_format, resolve_model
from gpuselect.quantities import format_count
from gpuselect.units import HOURS
from gpuselect.workload import Workload

TOKENS_PER_PARAMETER = 20.0  # Hoffmann 2022 (Chinchilla), arXiv 2203.15556, table 3
BURSTY = 4.0  # squared coefficient of variation of the gaps of bursty arrivals: judgement
DRAFTED = 4  # tokens of a draft where none is given
DEFAULT_SEQ_LEN = 4096
LARGE_MODEL = 1e11  # parameters
PREFIX_TOKENS = 20  # as usual examples have; an assumption that the answer lists
DEFAULT_DEADLINE_S = 30 * 86_400.0
# words of a model's native precision -> weight format; experts, which are most of a mixture, come first
NATIVE_FORMATS = (
    ("mxfp4", "mxfp4"), ("nvfp4", "nvfp4"), ("int4 experts", "int4-experts"), ("int4", "int4-awq"),
    ("fp8", "fp8"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """Everything a training estimate needs."""

    shape: Shape
    recipe: Recipe
    method: str
    precision: str
    seq_len: int
    global_batch: int  # sequences per optimizer step
    tokens: float
    fused: bool
    deadline_s: float
    deadline_given: bool
    max_count: int
    label: str
    failures: float = 0.0  # of one accelerator, an hour
    lost_h: float = 0.0  # for each failure [h]


@dataclass(frozen=True, slots=True)
class ServingJob:
    """Everything a serving estimate needs."""

    shape: Shape
    weights: WeightFormat
    weight_bytes: float
    kv: str
    kv_bytes: float
    input_tokens: int
    output_tokens: int
    concurrency: int
    request_rate: float | None
    ttft_s: float | None
    tpot_s: float | None
    latency_s: float | None
    max_count: int
    label: str
    percentile: float = 0.95  # of the time to first token under random arrivals
    percentile_given: bool = False
    burstiness: float = 1.0  # squared coefficient of variation of the gaps between arrivals
    helped: Help = NO_HELP
    offload: bool = False  # layers that do not fit stay with the processor


def model_shape(workload: Workload, catalog: Catalog) -> tuple[Shape, str, list[Note]]:
    """Shape and label of the model, from its name or from a bare parameter count."""
    if workload.model is not None:
        model = resolve_model(workload.model, catalog)
        return shape_of(model), model.id, []
    if workload.params is None:
        raise InputError(_("give the model: --model llama-3.1-8b, or a size: --params 10B"))
    params = workload.params
    if not 1e6 <= params.total <= 1e15:
        raise InputError(_("params: {n:.3g} is outside 1M to 1000T parameters").format(n=params.total))
    shape = typical_decoder(params=params.total, active_params=params.active)
    kind = (
        _("mixture of experts (128, 8 active) around a dense decoder")
        if params.active
        else _("dense decoder")
    )
    text = _(
        "{kind} of usual proportions (Llama 3): {layers} layers, width {hidden}, {heads} heads, "
        "8 KV heads, vocabulary {vocab}"
    ).format(
        kind=kind, layers=shape.n_layers, hidden=shape.hidden, heads=shape.n_heads,
        vocab=shape.vocab,
    )  # fmt: skip
    return shape, f"{params.total / 1e9:.4g}B", [Note("typical-shape", text)]


def context_notes(shape: Shape, length: int) -> list[Note]:
    """A note where sequences are longer than the model was made for; none where that is not known.

    >>> from gpuselect.estimate.shape import typical_decoder
    >>> [n.text for n in context_notes(typical_decoder(params=7e9), 200_000)]
    ['200000 tokens are more than the context of the model, 131072: it needs training for that']
    """
    if not 0 < shape.max_context < length:
        return []
    text = _("{n} tokens are more than the context of the model, {most}: it needs training for that")
    return [Note("context-exceeded", text.format(n=length, most=shape.max_context))]


def training_job(
    workload: Workload, catalog: Catalog, calibration: Calibration
) -> tuple[TrainingJob, list[Note]]:
    """Resolve a pretrain or finetune workload; the notes are its assumptions."""
    shape, label, notes = model_shape(workload, catalog)
    pretrain = workload.task == "pretrain"
    method = "pretrain" if pretrain else (workload.method or "full")
    if not pretrain and workload.method is None:
        notes.append(Note("default-method", _("full fine-tuning (--method lora or qlora is cheaper)")))
    if method == "qlora" and workload.offload == "params":
        raise InputError(_("4-bit weights stay on the card: --method lora, or --offload optimizer"))
    precision = workload.precision or "bf16"
    if workload.precision is None:
        notes.append(Note("default-precision", _("bf16 mixed precision with fp32 master weights")))
    if workload.optimizer is None:
        notes.append(Note("default-optimizer", _("AdamW optimizer")))
    seq_len = workload.seq_len or _default_seq_len(workload, shape, pretrain, notes)
    tokens = _tokens(workload, shape, seq_len, pretrain, notes)
    global_batch = workload.global_batch or _default_batch(shape, seq_len, pretrain, notes)
    if not pretrain and workload.model is not None:
        notes += context_notes(shape, seq_len)
    job = TrainingJob(
        shape=shape,
        recipe=training_recipe(
            shape=shape, method=method, precision=precision, fused=pretrain,
            optimizer=workload.optimizer or "adamw", lora_rank=workload.lora_rank or 16,
            calibration=calibration, prefix_tokens=_prefix_tokens(workload, method, notes),
        ),
        method=method,
        precision=precision,
        seq_len=seq_len,
        global_batch=global_batch,
        tokens=tokens,
        fused=pretrain,
        deadline_s=workload.deadline or DEFAULT_DEADLINE_S,
        deadline_given=workload.deadline is not None,
        max_count=workload.max_count or (1 if workload.single_card else 1024 if pretrain else 64),
        label=label,
        failures=workload.failures or 0.0,
        lost_h=_lost_hours(workload),
    )  # fmt: skip
    if workload.max_count is None and not workload.single_card:
        notes.append(Note("default-max-count", _("at most {n} accelerators").format(n=job.max_count)))
    if not job.deadline_given:
        notes.append(Note("default-deadline", _("clusters that finish within 30 days are preferred")))
    notes.append(
        Note(
            "layout-near-best",
            _("plans are valid and near-best: layouts within 10 % of each other cannot be told apart"),
        )
    )
    return job, notes


def _prefix_tokens(workload: Workload, method: str, notes: list[Note]) -> int:
    """Virtual tokens of prefix tuning; 20 by default."""
    if method == "prefix" and workload.prefix_tokens is None:
        notes.append(Note("default-prefix", _("{n} virtual tokens in each layer").format(n=PREFIX_TOKENS)))
    return workload.prefix_tokens or PREFIX_TOKENS


def _lost_hours(workload: Workload) -> float:
    """What a failure costs [h]: half a checkpoint interval and the restart."""
    if not workload.failures:
        return 0.0
    if workload.checkpoint is None or workload.restart is None:
        raise InputError(_("--failures goes with --checkpoint and --restart: what a failure costs"))
    return (workload.checkpoint / 2.0 + workload.restart) / HOURS


def _default_seq_len(workload: Workload, shape: Shape, pretrain: bool, notes: list[Note]) -> int:
    usual = DEFAULT_SEQ_LEN if pretrain else 2048
    length = int(workload.mean_len or min(usual, shape.max_context or usual))
    notes.append(Note("default-seq-len", _("sequences of {n} tokens").format(n=length)))
    return length


def _tokens(workload: Workload, shape: Shape, seq_len: int, pretrain: bool, notes: list[Note]) -> float:
    if workload.tokens is not None:
        return float(workload.tokens)
    if workload.samples is not None:
        epochs = workload.epochs or 1
        length = workload.mean_len or seq_len
        notes.append(
            Note(
                "tokens-from-samples",
                _("{s:,.0f} samples x {e:g} epochs x {n:.0f} tokens").format(
                    s=workload.samples, e=epochs, n=length
                ),
            )
        )
        return float(workload.samples * epochs * length)
    if pretrain:
        tokens = TOKENS_PER_PARAMETER * shape.active_params
        notes.append(
            Note(
                "default-tokens",
                _("20 tokens per parameter (Chinchilla): {t} tokens").format(
                    t=format_count(tokens, digits=4)
                ),
            )
        )
        return tokens
    notes.append(Note("default-tokens", _("a fine-tuning run of 100M tokens")))
    return 1e8


def _default_batch(shape: Shape, seq_len: int, pretrain: bool, notes: list[Note]) -> int:
    if not pretrain:
        notes.append(Note("default-batch", _("64 sequences per optimizer step")))
        return 64
    batch = default_batch(shape, seq_len, pretrain=True)
    notes.append(
        Note(
            "default-batch",
            _("{n} sequences ({m} tokens) per optimizer step").format(
                n=batch, m=format_count(batch * seq_len, digits=2)
            ),
        )
    )
    return int(batch)


def default_batch(shape: Shape, seq_len: int, *, pretrain: bool) -> int:
    """Sequences per optimizer step where none is given: 0.5 to 4 million tokens by size, or 64.

    16 million from a hundred billion parameters on: Llama 3 405B (arXiv 2407.21783, section 3.4.1);
    DeepSeek-V3 took up to 63 million (arXiv 2412.19437, section 4.2).

    >>> from gpuselect.estimate.shape import typical_decoder
    >>> default_batch(typical_decoder(params=7e9), 4096, pretrain=True)
    1024
    """
    if not pretrain:
        return 64
    size = shape.active_params
    tokens = 0.5e6 if size < 1e9 else 1e6 if size < 3e9 else 2e6 if size < 7e9 else 4e6
    if shape.params >= LARGE_MODEL:
        tokens = 16e6
    return int(2 ** (ceil(tokens * 1.0486 / seq_len).bit_length() - 1))


def weights_in_format(*, shape: Shape, weights: WeightFormat) -> float:
    """Bytes of all weights in a format; embeddings and head stay 16 bit where it says so.

    Four-bit floats of a mixture hold the routed experts; what every token meets stays 16 bit.
    """
    bits = float(weights.bits_per_weight)
    if weights.experts_only and shape.n_experts:
        return (shape.expert_params * bits + (shape.params - shape.expert_params) * 16.0) / 8.0
    if weights.keeps_embeddings_16bit and bits < 16:
        embeddings = shape.embedding_params * (1 if shape.tied else 2)
        return ((shape.params - embeddings) * bits + embeddings * 16.0) / 8.0
    return shape.params * bits / 8.0


def native_format(model: Model | None) -> str:
    """Weight format that a model was published in when it is narrower than 16 bit, else empty."""
    words = "" if model is None else str(model.native_precision or "")
    return next((name for word, name in NATIVE_FORMATS if word in words), "")


STORED_AS = {"tf32": "fp32", "fp16_acc16": "fp16", "fp4": "nvfp4"}  # arithmetic -> format of the weights


def asked_weights(workload: Workload) -> str | None:
    """Weight format that a served decoder is asked for: a --precision alone means the weights, too.

    >>> asked_weights(Workload(task="inference", precision="fp8"))
    'fp8'
    """
    if workload.weights is not None or workload.precision is None:
        return workload.weights
    return STORED_AS.get(workload.precision, workload.precision)


def _weights(workload: Workload, catalog: Catalog, notes: list[Note]) -> WeightFormat:
    """The format asked for, else the one the model was published in, else bf16."""
    asked = asked_weights(workload)
    if asked is not None and workload.weights is None:
        text = _("--precision {p} is read as weights in {format}").format(p=workload.precision, format=asked)
        notes.append(Note("precision-as-weights", text))
    elif workload.precision is not None:
        text = _("the format of the weights decides the arithmetic: --precision {p} is not used")
        notes.append(Note("precision-as-weights", text.format(p=workload.precision)))
    native = native_format(resolve_model(workload.model, catalog)) if workload.model else ""
    meant = asked == "int4" and native == "int4-experts"  # a width alone: as published
    if asked is not None and not meant:
        return resolve_format(asked, catalog)
    if native:
        found = resolve_format(native, catalog)
        text = _("{name} weights, as the model was published").format(name=found.name)
        notes.append(Note("native-weights", text))
        return found
    notes.append(Note("default-weights", _("bf16 weights (fp16 where the card lacks bf16)")))
    return resolve_format("bf16", catalog)


def serving_job(workload: Workload, catalog: Catalog) -> tuple[ServingJob, list[Note]]:
    """Resolve an inference workload; the notes are its assumptions."""
    shape, label, notes = model_shape(workload, catalog)
    weights = _weights(workload, catalog, notes)
    kv = workload.kv or "fp16"
    if workload.kv is None:
        notes.append(Note("default-kv", _("16-bit KV cache")))
    input_tokens = int(workload.input_tokens or 1024)
    output_tokens = int(workload.output_tokens or 256)
    if workload.input_tokens is None or workload.output_tokens is None:
        notes.append(
            Note(
                "default-lengths",
                _("{i} input and {o} output tokens").format(i=input_tokens, o=output_tokens),
            )
        )
    if workload.model is not None:
        notes += context_notes(shape, input_tokens + output_tokens)
    rate = _request_rate(workload, input_tokens=input_tokens, output_tokens=output_tokens)
    concurrency = int(workload.concurrency or ceil(workload.users or 0) or 8)
    if rate is None and workload.concurrency is None and not workload.users:
        notes.append(Note("default-concurrency", _("8 concurrent sequences")))
    if workload.percentile is not None and rate is None:
        text = _("bounds are checked on means: {p} tails are not modelled").format(p=workload.percentile)
        notes.append(Note("percentile-not-modelled", text))
    elif rate is not None:
        notes.append(_arrival_note(workload))
    helped, said = _helped(workload)
    notes += said
    job = ServingJob(
        shape=shape, weights=weights, weight_bytes=weights_in_format(shape=shape, weights=weights),
        kv=kv, kv_bytes={"fp8": 1.0, "int8": 1.0, "int4": 0.5, "fp32": 4.0}.get(kv, 2.0),
        input_tokens=input_tokens, output_tokens=output_tokens, concurrency=concurrency,
        request_rate=rate, ttft_s=workload.ttft, tpot_s=workload.tpot, latency_s=workload.latency,
        max_count=1 if workload.single_card else workload.max_count or 16, label=label,
        percentile=_percentile(workload.percentile), percentile_given=workload.percentile is not None,
        burstiness=BURSTY if workload.arrivals == "bursty" else 1.0, helped=helped,
        offload=workload.offload == "cpu",
    )  # fmt: skip
    return job, notes


def _request_rate(workload: Workload, *, input_tokens: int, output_tokens: int) -> float | None:
    """Requests per second at the peak: as given, or from tokens in and out, or from tokens written."""
    rate = workload.request_rate
    if rate is None and workload.throughput is not None:
        rate = workload.throughput / output_tokens
    if rate is None and workload.demand is not None:
        rate = workload.demand / (input_tokens + output_tokens)
    return None if rate is None else rate * (workload.peak_factor or 1.0)


def _arrival_note(workload: Workload) -> Note:
    """How requests are taken to arrive."""
    if workload.arrivals == "bursty":
        text = _("requests arrive in bursts (gaps of twice the spread of random ones), lengths do not vary; "
                 "waiting is modelled, not validated")  # fmt: skip
    else:
        text = _(
            "requests arrive at random (Poisson), lengths do not vary; waiting is modelled, not validated"
        )
    return Note("arrivals-modelled", text)


def _helped(workload: Workload) -> tuple[Help, list[Note]]:
    """Prefix cache and speculative decoding as given, and that no measured row confirms them."""
    notes = []
    if workload.drafted and workload.acceptance is None:
        raise InputError(_("drafted: give the accepted share with it: --acceptance 70%"))
    if workload.prefix_hits:
        text = _("{p:.0%} of the prompt tokens come from the prefix cache: modelled, not validated")
        notes.append(Note("prefix-cache-given", text.format(p=workload.prefix_hits)))
    if workload.acceptance is None:
        return Help(cached=workload.prefix_hits or 0.0), notes
    drafted = workload.drafted or DRAFTED
    text = _(
        "speculative decoding: {n} drafted tokens a step, {p:.0%} of them accepted, {c:.0%} of a step to "
        "draft one; the memory of the draft model is not counted: modelled, not validated"
    ).format(n=drafted, p=workload.acceptance, c=DRAFT_COST)
    notes.append(Note("speculation-given", text))
    found = Help(cached=workload.prefix_hits or 0.0, drafted=drafted, acceptance=workload.acceptance)
    return found, notes


def _percentile(text: str | None) -> float:
    """The percentile as a fraction; 0.95 where none is given.

    >>> _percentile("p99"), _percentile(None)
    (0.99, 0.95)
    """
    digits = (text or "p95").lstrip("pP")
    return float(f"0.{digits}") if digits.isdigit() else 0.95
