"""Models from files: the same model by name, by file and by header has the same size."""

import json
import struct

import pytest

from gpuselect.errors import InputError
from gpuselect.estimate.model_shape import shape_of
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.model_config import ARCHITECTURES, KEYS, NOT_COUNTED, model_of_config
from gpuselect.readers.model_files import read_model, with_model_file
from gpuselect.workload import Workload

LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "tie_word_embeddings": False, "max_position_embeddings": 131072,
}  # fmt: skip
# models whose published count holds what a configuration of these keys does not describe
WITH_TOWER = ("qwen2.5-vl", "qwen3-vl", "gemma-3-4b", "gemma-3-12b", "gemma-3-27b", "gemma-4")
OTHER_WIDTHS = ("opt-350m", "llama-4-maverick-17b-128e", "qwen1.5-moe-a2.7b", "qwen2-57b-a14b")
STRING, UINT32 = 8, 4


@pytest.fixture(scope="module")
def catalog():
    """Return the shipped catalog."""
    return load_catalog()


def config_of(model, feed_forward: str = "relu") -> dict[str, object]:
    """The configuration that a catalog model would have."""
    kinds = [kind for kind, arch in ARCHITECTURES.items() if arch == model.arch]
    kind = model.arch if model.arch in kinds else kinds[0]
    config = {
        names[0]: int(value) for key, names in KEYS.items() if (value := getattr(model, key)) is not None
    }
    tied = bool(model.tied_embeddings)
    return config | {"model_type": kind, "tie_word_embeddings": tied, "multi_query": False,
                     "feed_forward_proj": feed_forward}  # fmt: skip


def test_every_architecture_of_the_catalog_is_read(catalog):
    """Each architecture that a catalog model names has a configuration name; T5 1.1 calls itself T5."""
    known = {*ARCHITECTURES.values(), "t5-v1.1", "stablelm2"}
    assert {model.arch for model in catalog.models.values() if model.arch} <= known


def test_counted_parameters_agree_with_the_catalog(catalog):
    """Within 3 % for every decoder whose layers are all of one kind."""
    checked = 0
    for model in catalog.models.values():
        decoder = model.family in ("dense-decoder", "moe-decoder") and model.arch in ARCHITECTURES.values()
        if not decoder or model.arch in NOT_COUNTED or model.id.startswith((*WITH_TOWER, *OTHER_WIDTHS)):
            continue
        found = model_of_config(config_of(model), name=model.id, catalog=catalog)
        assert float(found.params_b) == pytest.approx(float(model.params_b), rel=0.03), model.id
        checked += 1
    assert checked > 150


@pytest.mark.parametrize(
    "name", ["jamba-v0.1-52b", "mamba-1.4b", "bert-base", "whisper-small", "flan-t5-base"]
)
def test_mixed_layers_take_the_catalog_model_of_the_same_dimensions(name, catalog):
    """Networks that are not counted from dimensions are recognised by them."""
    model = catalog.models[name]
    kind = next(kind for kind, arch in ARCHITECTURES.items() if arch == str(model.arch).removesuffix("-v1.1"))
    feed_forward = "gated-gelu" if model.arch == "t5-v1.1" else "relu"
    config = config_of(model.model_copy(update={"arch": ARCHITECTURES[kind]}), feed_forward)
    found = model_of_config(config, name="mine", catalog=catalog)
    assert (found.arch, found.hidden, found.n_layers) == (model.arch, model.hidden, model.n_layers)


def test_an_unknown_architecture_is_refused_by_name(tmp_path, catalog):
    """The sentence names what stands in the file."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_8B | {"model_type": "retnet"}), encoding="utf-8")
    with pytest.raises(InputError, match="unknown architecture retnet"):
        read_model(path, catalog)


def header(shapes: dict[str, list[int]]) -> bytes:
    """A safetensors file with a header and no weights."""
    text = json.dumps({name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]}
                       for name, shape in shapes.items()}).encode()  # fmt: skip
    return struct.pack("<Q", len(text)) + text


def llama_tensors() -> dict[str, list[int]]:
    """Shapes of the tensors of Llama 3.1 8B."""
    shapes = {"model.embed_tokens.weight": [128256, 4096], "lm_head.weight": [128256, 4096],
              "model.norm.weight": [4096]}  # fmt: skip
    for layer in range(32):
        start = f"model.layers.{layer}."
        shapes |= {
            f"{start}self_attn.q_proj.weight": [4096, 4096], f"{start}self_attn.k_proj.weight": [1024, 4096],
            f"{start}self_attn.v_proj.weight": [1024, 4096], f"{start}self_attn.o_proj.weight": [4096, 4096],
            f"{start}mlp.gate_proj.weight": [14336, 4096], f"{start}mlp.up_proj.weight": [14336, 4096],
            f"{start}mlp.down_proj.weight": [4096, 14336], f"{start}input_layernorm.weight": [4096],
            f"{start}post_attention_layernorm.weight": [4096],
        }  # fmt: skip
    return shapes


def text(value: str) -> bytes:
    """A string as GGUF writes it."""
    return struct.pack("<Q", len(value)) + value.encode()


def gguf() -> bytes:
    """A GGUF header of Llama 3.1 8B, with its vocabulary as a list of strings."""
    numbers = {"block_count": 32, "embedding_length": 4096, "feed_forward_length": 14336,
               "attention.head_count": 32, "attention.head_count_kv": 8,
               "context_length": 131072}  # fmt: skip
    tokens = struct.pack("<IQ", STRING, 3) + text("a") + text("b") + text("c")
    pairs = [text("general.architecture") + struct.pack("<I", STRING) + text("llama")]
    pairs += [text(f"llama.{key}") + struct.pack("<II", UINT32, value) for key, value in numbers.items()]
    pairs += [text("tokenizer.ggml.tokens") + struct.pack("<I", 9) + tokens]
    tensors = [
        text(name.replace("model.embed_tokens", "token_embd").replace("lm_head", "output"))
        + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), 0, 0)
        for name, shape in llama_tensors().items()
    ]
    return b"".join(
        [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs)), *pairs, *tensors]
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["config.json", "model.safetensors", "model.gguf", "index"])
def test_a_file_agrees_with_the_catalog_model(kind, tmp_path, catalog):
    """Llama 3.1 8B by configuration, header, index and GGUF header: shape and size within 3 %."""
    path = tmp_path / ("model.safetensors.index.json" if kind == "index" else kind)
    shards = {
        "metadata": {"total_size": 16060522496},
        "weight_map": {"lm_head.weight": "model-1.safetensors"},
    }
    content = {
        "config.json": json.dumps(LLAMA_8B).encode(), "model.safetensors": header(llama_tensors()),
        "model.gguf": gguf(), "index": json.dumps(shards).encode(),
    }[kind]  # fmt: skip
    path.write_bytes(content)
    if kind == "index":
        (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B), encoding="utf-8")
    workload, found = with_model_file(Workload(task="inference", model=str(path)), catalog)
    shape, known = shape_of(found.models[workload.model]), shape_of(catalog.models["llama-3.1-8b"])
    assert shape.params == pytest.approx(known.params, rel=0.03)
    for name in (
        "n_layers",
        "hidden",
        "ffn",
        "n_heads",
        "n_kv_heads",
        "head_dim",
        "vocab",
        "kv_width",
        "tied",
    ):
        assert getattr(shape, name) == getattr(known, name), name


@pytest.mark.parametrize(
    ("name", "content"),
    [("config.json", b"[1]"), ("config.json", b"{"), ("a.safetensors", b"\xff" * 9), ("b.gguf", b"GGUF"),
     ("c.gguf", struct.pack("<4sIQQ", b"GGUF", 3, 2**60, 1)), ("d.json", b"\x80")],
)  # fmt: skip
def test_damaged_files_give_one_sentence(name, content, tmp_path, catalog):
    """No traceback, whatever the bytes."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"\S"):
        read_model(path, catalog)


def test_an_index_without_its_configuration_says_what_is_missing(tmp_path, catalog):
    """An index holds no shapes."""
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": "x.safetensors"}}), encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json"):
        read_model(path, catalog)
