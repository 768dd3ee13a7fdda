"""Rows of the allocator reference: the peak of a training step, with what its fake CPU tensors keep besides.

Those are artefacts that no accelerator has: the library cannot see that no sequence is packed, so each layer
keeps a mask, and with a mask keys and values are expanded to the width of the queries; CPU dropout keeps its
noise in the type of the input; the optimizer loops over tensors and the logits outlive the backward pass.
"""

from __future__ import annotations

from dataclasses import replace

from gpuselect.accuracy.records import Row, Scored, Skip
from gpuselect.accuracy.reference_blocks import COVERED, STATES, other_peak
from gpuselect.accuracy.rows import number, whole
from gpuselect.calibration import BlockBytes, Calibration
from gpuselect.catalog import Catalog
from gpuselect.estimate.memory import Recipe, training_memory
from gpuselect.estimate.memory_blocks import activation_terms
from gpuselect.estimate.shape import Shape
from gpuselect.plan import RECOMPUTE, Plan
from gpuselect.units import GIB

BLOCK_OF = {
    "llama": "llama", "qwen2": "llama", "qwen3": "qwen3", "gemma": "gemma", "gpt2": "gpt2", "bert": "bert",
    "gpt-neox": "gpt-neox", "opt": "opt", "vit": "bert", "mixtral": "mixtral", "qwen3-moe": "qwen3-moe",
    "deepseek-v3": "deepseek", "falcon": "falcon", "bloom": "bloom",
}  # fmt: skip
UNMASKED = ("opt", "bert", "vit", "deepseek-v3", "falcon", "bloom")
NOT_EXPANDED = ("gpt2", "gpt-neox")
# with a mask, more bytes of queries, of keys, of expanded keys, and of the mask per key
MASKED = {"bf16": (0.0, -4.0, 4.0, 2.0), "amp-bf16": (2.0, -4.0, 2.0, 2.0), "fp32": (0.0, -8.0, 8.0, 4.0)}
DROPOUT = {"bf16": (4.0, 2.0), "amp-bf16": (4.0, 4.0), "fp32": (8.0, 4.0)}  # of a layer, of the embedding
USUAL_DROPOUT = {"bert": "0.1"}
HEADED_DROPOUT = ("bert", "gpt2")
ADAPTER_STATES = (4.0, 4.0, 8.0)
ADAPTER_INPUT = 4.0  # output of the embedding, which requires gradients under recomputation
ADAPTER_DROPOUT = {"bf16": (20.0, 4.0, 4.0), "amp-bf16": (20.0, 4.0, 4.0), "fp32": (32.0, 8.0, 4.0)}
FIRST_LAYER = 12.0  # of its dropped inputs, which need no gradient
QK_NORM = 4.0  # per unit of queries, keys and heads, under autocast
# plain kernel on CPUs, where heads are unlike, keys are expanded or a bias is added: per head and key
PLAIN_SCORES = {"falcon": (4.0, 4.0, 4.0), "bloom": (6.0, 6.0, 4.0)}  # bf16, amp-bf16, fp32
FALCON_HEADS = {"bf16": (10.0, -4.0), "amp-bf16": (10.0, -4.0), "fp32": (8.0, -8.0)}  # of hidden, of keys
SCORES = 4.0  # per head and key: heads of unlike width fall to the plain kernel on CPUs
UPDATE_COPIES = 2.0  # of the largest tensor, in the optimizer that loops
DENSE_LAYER = {"bf16": (16.0, 8.0, 16.0), "amp-bf16": (24.0, 8.0, 16.0), "fp32": (24.0, 16.0, 272.0)}


def predict_reference(row: Row, calibration: Calibration, catalog: Catalog | None = None) -> list[Scored]:
    """Peak of a row of the allocator reference [GiB]; skip code `arch-not-covered` for other networks.

    The catalog counts the activations of convolutional networks.
    """
    arch, precision = row.get("arch", ""), row.get("precision", "")
    words = words_of(row)
    if arch in COVERED and catalog is not None and number(row, "peak_gib") > 0:
        return [_scored(row, other_peak(row, words, catalog))]
    if arch not in BLOCK_OF or precision not in STATES or words.get("experts_kernel") == "eager":
        raise Skip("arch-not-covered", " ".join((arch, precision, words.get("experts_kernel", ""))).strip())
    if number(row, "peak_gib") <= 0:
        raise Skip("no-metric")
    if row.get("recompute", "none") not in RECOMPUTE:
        raise Skip("malformed-cell", f"recompute={row['recompute']}")
    shape = shape_of_row(row, words)
    recipe = recipe_of_row(row, shape, words, calibration)
    need = training_memory(
        shape=shape, recipe=recipe, seq_len=_length(row, words), fragmentation=1.0, context_bytes=0.0,
        plan=Plan(micro_batch=whole(row, "batch"), recompute=RECOMPUTE.index(row.get("recompute", "none"))),
    ).total  # fmt: skip
    return [_scored(row, float(need))]


def _scored(row: Row, need: float) -> Scored:
    return Scored(
        row.get("row_id", ""), "memory-reference", f"memory reference {row['arch']}", "peak_gib",
        number(row, "peak_gib"), need / GIB, "memory",
    )  # fmt: skip


def words_of(row: Row) -> dict[str, str]:
    """The `name=value` words of the note.

    >>> words_of({"note": "tied=1 mask=none"})
    {'tied': '1', 'mask': 'none'}
    """
    pairs = (word.partition("=") for word in row.get("note", "").split())
    return {name: value for name, _sign, value in pairs}


def _length(row: Row, words: dict[str, str]) -> float:
    """Tokens of a sequence: patches and the class token of an image."""
    if "image" not in row:
        return number(row, "seq")
    return float((whole(row, "image") // int(words.get("patch", "16"))) ** 2 + 1)


def shape_of_row(row: Row, words: dict[str, str]) -> Shape:
    """Dimensions of a row; adapters do not count among its parameters."""
    hidden, vocab, heads = whole(row, "hidden"), int(number(row, "vocab")), whole(row, "heads")
    params, kv_heads = number(row, "params_b") * 1e9, whole(row, "kv_heads", heads)
    if not params:
        raise Skip("size-unknown", row.get("row_id", ""))
    if row.get("method") == "lora":
        params -= number(row, "trainable_b") * 1e9
    layers, ffn = whole(row, "n_layers"), number(row, "ffn")
    width = int(words.get("head_dim", hidden // heads))
    experts, top_k = int(words.get("experts", "0")), int(words.get("top_k", "0"))
    moe_layers = layers - int(words.get("dense_layers", "0"))
    tied = words.get("tied") == "1" or row["arch"] in ("gpt2", "bert") or not vocab
    latent = int(words.get("kv_rank", "0"))
    return Shape(
        params=params, active_params=params, embedding_params=float(vocab * hidden), tied=tied,
        n_layers=layers, hidden=hidden, ffn=ffn * max(top_k, 1), n_heads=heads, n_kv_heads=kv_heads,
        head_dim=width, vocab=vocab, kv_width=float(latent or 2.0 * kv_heads * width),
        attention_layers=layers, window=0, windowed_layers=0, n_experts=experts, top_k=top_k,
        expert_params=3.0 * hidden * ffn * experts * moe_layers, mla=latent > 0,
        q_rank=int(words.get("q_rank", "0")), block=BLOCK_OF[row["arch"]],
    )  # fmt: skip


def recipe_of_row(row: Row, shape: Shape, words: dict[str, str], calibration: Calibration) -> Recipe:
    """The recipe of a row: bytes of its block, of its states, and the artefacts."""
    precision, lora = row["precision"], row.get("method") == "lora"
    block = calibration.activations["lora" if lora else shape.block][precision]
    terms = activation_terms(shape=shape, block=block, lora_rank=whole(row, "lora_rank"))
    weights, gradients, adam, momentum = STATES[precision]
    moments = momentum if "sgd" in row.get("optimizer", "").lower() else adam
    recipe = Recipe(
        weight_bytes=weights, gradient_bytes=gradients, optimizer_bytes=moments,
        trainable_params=shape.params, frees_gradients=True, **terms,
        update_bytes=UPDATE_COPIES * weights * _largest_tensor(shape),
    )  # fmt: skip
    if lora:
        recipe = _adapted(recipe, row, shape, words)
    recipe = _with_dropout(recipe, row, words)
    recipe = _with_mask(recipe, row, shape, words)
    if row["arch"] in PLAIN_SCORES:
        recipe = _with_plain_attention(recipe, row, shape)
    if row["arch"] == "deepseek-v3":
        recipe = _with_dense_layers(recipe, row, shape, words, block)
    return recipe


def _largest_tensor(shape: Shape) -> float:
    """Elements of the largest parameter: an embedding, or gate and up matrices of all experts of a layer."""
    one = 2.0 * shape.hidden * shape.ffn / shape.top_k if shape.n_experts else shape.hidden * shape.ffn
    return max(shape.embedding_params, one * max(shape.n_experts, 1))


def _adapted(recipe: Recipe, row: Row, shape: Shape, words: dict[str, str]) -> Recipe:
    """Frozen base with fp32 adapters; the usual trainer holds it in 16 bit under autocast."""
    precision, full = row["precision"], row.get("recompute") == "full"
    small = words.get("base") == "bf16"
    adapters = number(row, "trainable_b") * 1e9
    weights, gradients, moments = ADAPTER_STATES
    rest, hidden = recipe.act_rest, recipe.head_hidden + (ADAPTER_INPUT if full else 0.0)
    if row["arch"] == "qwen3":
        keys = shape.n_kv_heads * (shape.head_dim + 1)
        rest += QK_NORM * (shape.q_width + keys + shape.n_heads)
    act_hidden, act_ffn = recipe.act_hidden, recipe.act_ffn
    if float(words.get("lora_dropout", "0")):
        of_hidden, of_queries, of_ffn = ADAPTER_DROPOUT[precision]
        rest += of_queries * shape.q_width
        act_hidden, act_ffn = act_hidden + of_hidden, act_ffn + of_ffn
        hidden -= 0.0 if full else FIRST_LAYER
    return replace(
        recipe, act_rest=rest, act_hidden=act_hidden, act_ffn=act_ffn, head_hidden=hidden,
        weight_bytes=2.0 if small else recipe.weight_bytes, trainable_params=adapters,
        trainable_weight_bytes=weights, gradient_bytes=gradients, optimizer_bytes=moments, update_bytes=0.0,
        checkpoint_bytes=4.0 if precision == "fp32" or (precision == "amp-bf16" and not small) else 2.0,
        cast_bytes=2.0 if precision == "amp-bf16" and not small else 0.0,
    )  # fmt: skip


def _with_dropout(recipe: Recipe, row: Row, words: dict[str, str]) -> Recipe:
    arch = row["arch"]
    if not float(words.get("dropout", USUAL_DROPOUT.get(arch, "0"))):
        return recipe
    layer, embedding = DROPOUT[row["precision"]]
    return replace(
        recipe, act_hidden=recipe.act_hidden + layer,
        head_hidden=recipe.head_hidden + (embedding if arch in HEADED_DROPOUT else 0.0),
        work_hidden=recipe.work_hidden + (layer / 2.0 if arch == "vit" else 0.0),
    )  # fmt: skip


def _with_mask(recipe: Recipe, row: Row, shape: Shape, words: dict[str, str]) -> Recipe:
    if row["arch"] in UNMASKED or words.get("mask") == "none":
        return recipe
    queries, keys, expanded, mask = MASKED[row["precision"]]
    width = shape.n_kv_heads * shape.head_dim
    if row.get("method") == "lora" and words.get("base") == "bf16":
        queries, keys, expanded, mask = MASKED["bf16"]
    wide = width if shape.n_kv_heads == 1 else shape.q_width
    more = queries * shape.q_width + keys * width + expanded * wide
    return replace(
        recipe, act_rest=recipe.act_rest + (0.0 if row["arch"] in NOT_EXPANDED else more), mask_bytes=mask,
        mask_once=1.0 if row.get("recompute") == "full" else 0.0,
    )  # fmt: skip


def _with_plain_attention(recipe: Recipe, row: Row, shape: Shape) -> Recipe:
    """The plain kernel keeps scores; that of Falcon also takes queries, keys and values in fp32, as wide."""
    precision = row["precision"]
    scores = PLAIN_SCORES[row["arch"]][list(STATES).index(precision)]
    of_hidden, of_keys = FALCON_HEADS[precision] if row["arch"] == "falcon" else (0.0, 0.0)
    keys = of_keys * shape.n_kv_heads * shape.head_dim
    return replace(recipe, score_bytes=scores, act_hidden=recipe.act_hidden + of_hidden,
                   act_rest=recipe.act_rest + keys)  # fmt: skip


def _with_dense_layers(
    recipe: Recipe, row: Row, shape: Shape, words: dict[str, str], block: BlockBytes
) -> Recipe:
    """Mean over layers of which the first are dense; the first one alone under full recomputation."""
    of_hidden, of_ffn, one = DENSE_LAYER[row["precision"]]
    shared = block.f * whole(row, "ffn")
    routed = recipe.act_hidden * shape.hidden + recipe.act_ffn * shape.ffn + recipe.act_rest + shared
    latent = block.q_rank * shape.q_rank + block.kv_rank * shape.kv_width + block.a * shape.n_heads
    dense = of_hidden * shape.hidden + of_ffn * int(words["dense_ffn"]) + one + latent
    first = int(words["dense_layers"]) if row.get("recompute") != "full" else shape.n_layers
    mean = (first * dense + (shape.n_layers - first) * routed) / shape.n_layers
    return replace(recipe, act_hidden=0.0, act_ffn=0.0, act_rest=mean, score_bytes=SCORES,
                   work_scores=2.0 * SCORES)  # fmt: skip
