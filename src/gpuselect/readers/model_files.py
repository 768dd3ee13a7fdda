"""Models from files that people have: config.json, a safetensors header or index, a GGUF header, ONNX.

Only the headers are read, never the weights, and nothing outside the named file and the configuration beside
it. Formats: https://github.com/huggingface/safetensors#format (8 bytes with the length of the header, then
JSON) and https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import json
import re
import struct
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast

from gpuselect.catalog import Catalog, Model
from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.provenance import Figure
from gpuselect.readers.model_config import ARCHITECTURES, as_model, model_of_config
from gpuselect.readers.onnx_model import read_onnx
from gpuselect.workload import Workload

SUFFIXES = (".json", ".safetensors", ".gguf", ".onnx")
LARGEST_HEADER = 256 * 2**20
LONGEST = 2**24  # of a string or an array in a header
HEAD_DIM = 128.0  # where neither tensors nor a configuration say it
# GGUF value types: struct format by number; 8 is a string, 9 an array
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
GGUF_ARCHITECTURES = {"deepseek2": "deepseek-mla", "phi2": "phi", "qwen2moe": "qwen2", "qwen3moe": "qwen3",
                      "gptneox": "gpt-neox", "gpt-oss": "gpt-oss", "command-r": "cohere",
                      "starcoder": "gpt-bigcode", "glm4moe": "glm4-moe",
                      "minimax-m2": "minimax-m2"}  # fmt: skip
# GGUF keys after the architecture -> dimension
GGUF_KEYS = {
    "block_count": "n_layers", "embedding_length": "hidden", "feed_forward_length": "ffn_hidden",
    "attention.head_count": "n_heads", "attention.head_count_kv": "n_kv_heads",
    "attention.key_length": "head_dim", "context_length": "max_context", "expert_count": "n_experts",
    "expert_used_count": "top_k", "expert_feed_forward_length": "moe_ffn_hidden",
    "expert_shared_count": "n_shared_experts", "leading_dense_block_count": "first_dense_layers",
    "attention.kv_lora_rank": "kv_lora_rank", "attention.q_lora_rank": "q_lora_rank",
    "rope.dimension_count": "qk_rope_head_dim", "vocab_size": "vocab",
    "attention.sliding_window": "sliding_window",
}  # fmt: skip


def is_model_file(name: str) -> bool:
    """True where `--model` names a file rather than a model.

    >>> is_model_file("models/config.json"), is_model_file("llama-3.1-8b")
    (True, False)
    """
    return name.lower().endswith(SUFFIXES)


def with_model_file(workload: Workload, catalog: Catalog) -> tuple[Workload, Catalog]:
    """The workload and the catalog with the model of the file that `model` names, if it names one."""
    if workload.model is None or not is_model_file(workload.model):
        return workload, catalog
    model = read_model(Path(workload.model), catalog)
    models = ChainMap({model.id: model}, cast("dict[str, Model]", catalog.models))  # which is only read
    return workload.model_copy(update={"model": model.id}), replace(catalog, models=models)


def read_model(path: Path, catalog: Catalog) -> Model:
    """The model that a file describes; InputError where it cannot be read or its architecture is unknown."""
    try:
        if path.name.endswith(".gguf"):
            return _from_gguf(path)
        if path.name.endswith(".onnx"):
            return read_onnx(path)
        if path.name.endswith(".safetensors"):
            return _from_tensors(path, _safetensors_header(path), catalog)
        content = _json(path)
        if "weight_map" in content:
            return _from_index(path, content, catalog)
        return model_of_config(content, name=_name(path, content), catalog=catalog)
    except OSError as error:
        text = _("cannot read {file}: {why}")
        raise InputError(text.format(file=path, why=_(error.strerror or ""))) from None
    except (struct.error, KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        text = _("{file} is no {kind} that can be read: {why}")
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(text.format(file=path, kind=path.suffix.lstrip("."), why=why[:120])) from None


def _json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > LARGEST_HEADER:
        raise ValueError(_("it is too large"))
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise TypeError(_("it holds no object"))
    return content


def _name(path: Path, content: Mapping[str, Any] | None = None) -> str:
    """A name for the answer: what the configuration calls itself, else the folder or the file."""
    stated = str((content or {}).get("_name_or_path") or "").rstrip("/").rsplit("/", 1)[-1]
    folder = path.resolve().parent.name if path.name == "config.json" else path.stem
    return stated or folder or path.stem


def _safetensors_header(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors of a safetensors file."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > LARGEST_HEADER:
            raise ValueError(_("its header is too large"))
        header = json.loads(file.read(length))
    return {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def _beside(path: Path, catalog: Catalog) -> Model | None:
    config = path.parent / "config.json"
    return read_model(config, catalog) if config.is_file() else None


def _from_index(path: Path, content: Mapping[str, Any], catalog: Catalog) -> Model:
    """An index names tensors and the size of all: shapes are those of the configuration beside it."""
    model = _beside(path, catalog)
    if model is None:
        text = _("{file}: an index holds no shapes; put the config.json of the model beside it")
        raise InputError(text.format(file=path))
    shards = {path.parent / name for name in content["weight_map"].values()}
    if all(shard.is_file() for shard in shards):
        shapes: dict[str, tuple[int, ...]] = {}
        for shard in sorted(shards):
            shapes |= _safetensors_header(shard)
        return _counted(model, shapes)
    return model


def _counted(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    """The model with the parameters that its file holds."""
    params = float(sum(prod(shape) for shape in shapes.values()))
    return model.model_copy(update={"params_b": Figure(params / 1e9, source="file", status="stated")})


def _from_tensors(path: Path, shapes: Mapping[str, tuple[int, ...]], catalog: Catalog) -> Model:
    """From the configuration beside the file, else from the names and shapes of the tensors."""
    model = _beside(path, catalog)
    if model is not None and not re.search(r"-\d+-of-\d+", path.name):
        return _counted(model, shapes)
    if model is not None:
        return model  # one of several files: the configuration counts
    dims, tied = _tensor_dimensions(shapes, path)
    params = float(sum(prod(shape) for shape in shapes.values()))
    return as_model(dims, params=params, arch="llama", tied=tied, name=_name(path))


def _tensor_dimensions(shapes: Mapping[str, tuple[int, ...]], path: Path) -> tuple[dict[str, float], bool]:
    """Dimensions of a decoder with the usual names of tensors, and whether head and embedding are one."""

    def first(pattern: str) -> tuple[int, ...] | None:
        return next((shape for name, shape in shapes.items() if re.search(pattern, name)), None)

    embedding, queries = first(r"embed_tokens\.weight$"), first(r"q_proj\.weight$")
    keys, up = first(r"k_proj\.weight$"), first(r"(up_proj|w3)\.weight$")
    if embedding is None or queries is None or keys is None or up is None:
        text = _(
            "{file}: the names of its tensors are not those of a known decoder; put config.json beside it"
        )
        raise InputError(text.format(file=path))
    layers = {found[1] for name in shapes if (found := re.search(r"layers\.(\d+)\.", name))}
    experts = {found[1] for name in shapes if (found := re.search(r"experts\.(\d+)\.", name))}
    norm = first(r"q_norm\.weight$")
    width = float(norm[0]) if norm else HEAD_DIM
    dims = {
        "vocab": float(embedding[0]), "hidden": float(embedding[1]), "n_layers": float(len(layers)),
        "n_heads": queries[0] / width, "n_kv_heads": max(keys[0] / width, 1.0), "head_dim": width,
        "moe_ffn_hidden" if experts else "ffn_hidden": float(up[0]),
    }  # fmt: skip
    if experts:
        dims |= {"n_experts": float(len(experts)), "top_k": 2.0 if len(experts) <= 16 else 8.0}
    return dims, first(r"lm_head\.weight$") is None


def _from_gguf(path: Path) -> Model:
    """Keys and tensor shapes of a GGUF header."""
    with path.open("rb") as file:
        magic, version, tensors, pairs = struct.unpack("<4sIQQ", file.read(24))
        if magic != b"GGUF" or version < 2 or max(tensors, pairs) > LONGEST:
            raise ValueError(_("it has no GGUF header of version 2 or newer"))
        keys = dict(_pair(file) for _number in range(pairs))
        shapes = dict(_tensor(file) for _number in range(tensors))
    kind = str(keys.get("general.architecture", ""))
    arch = (
        GGUF_ARCHITECTURES.get(kind) or ARCHITECTURES.get(kind.replace("-", "_")) or ARCHITECTURES.get(kind)
    )
    if arch is None:
        text = _("{name}: unknown architecture {kind}; give --params, or a catalog model with --model")
        raise InputError(text.format(name=path.name, kind=kind or _("none")))
    dims = {dim: _number_of(keys.get(f"{kind}.{key}")) for key, dim in GGUF_KEYS.items()}
    dims["vocab"] = dims["vocab"] or float(shapes.get("token_embd.weight", (0, 0))[-1])
    if not dims["kv_lora_rank"]:
        dims["qk_rope_head_dim"] = 0.0
    params = float(sum(prod(shape) for shape in shapes.values()))
    name = str(keys.get("general.name") or path.stem)
    return as_model(dims, params=params, arch=arch, tied="output.weight" not in shapes, name=name)


def _number_of(value: Any) -> float:
    """A number of the header; of a list, one per layer, the largest."""
    if isinstance(value, list):
        return float(max(value, default=0))
    return float(value or 0)


def _pair(file: BinaryIO) -> tuple[str, Any]:
    name = _string(file)
    (kind,) = struct.unpack("<I", file.read(4))
    return name, _value(file, kind)


def _value(file: BinaryIO, kind: int) -> Any:
    """One value; of long lists (the vocabulary) nothing is kept."""
    if kind == STRING:
        return _string(file)
    if kind != ARRAY:
        layout = f"<{SCALARS[kind]}"
        return struct.unpack(layout, file.read(struct.calcsize(layout)))[0]
    inner, count = struct.unpack("<IQ", file.read(12))
    if count > LONGEST:
        raise ValueError(_("a list of its header is too long"))
    values = [_value(file, inner) for _number in range(count)]
    return values if len(values) <= 4096 and inner in SCALARS else []


def _string(file: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > LONGEST:
        raise ValueError(_("a text of its header is too long"))
    return file.read(length).decode("utf-8", "replace")


def _tensor(file: BinaryIO) -> tuple[str, tuple[int, ...]]:
    """Name and shape of one tensor; type and offset are passed over."""
    name = _string(file)
    (rank,) = struct.unpack("<I", file.read(4))
    if rank > 8:
        raise ValueError(_("a tensor has too many dimensions"))
    shape = struct.unpack(f"<{rank}Q", file.read(8 * rank))
    file.read(12)
    return name, shape
