"""One forward pass of one sample through a network that is no decoder: work, traffic, operators.

A sample is an image, a token sequence, a clip of audio, a generated image or a row of a table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpuselect.catalog import Model
from gpuselect.errors import InputError
from gpuselect.i18n import _

KINDS = {
    "cnn": "cnn", "detector": "detector", "vit": "vit", "encoder": "encoder",
    "encoder-decoder": "encoder", "speech": "encoder", "rnn": "rnn", "diffusion-unet": "diffusion",
    "diffusion-dit": "diffusion", "recsys": "recsys", "gnn": "cnn", "multimodal": "encoder",
}  # fmt: skip
ENCODER_OPERATORS = 8  # q, k, v, scores, values, output, two of the feed-forward block
DECODER_OPERATORS = 14  # the same with cross-attention
POOLED_BYTES = 2.0  # pooled rows are exchanged in 16 bit
EMBEDDING_BYTES = 4.0  # tables are kept in fp32 (DLRM, arXiv 1906.00091, section 4)


@dataclass(frozen=True, slots=True)
class Network:
    """What one sample asks of an accelerator; counts are plain numbers, not millions.

    `macs`, `activations`, `operators`: multiply-accumulates, elements written and operators of one
    forward pass. `passes` per sample: denoising steps, each on `guidance` inputs at once (with a prompt and
    without). `once_macs` are spent once per sample (text encoders, image decoder). `decoder_params` are
    read once per generated token.
    """

    kind: str
    params: float
    macs: float
    activations: float
    operators: float
    passes: float = 1.0
    guidance: float = 1.0  # inputs of a pass: classifier-free guidance stacks them into one batch
    once_macs: float = 0.0
    dense_params: float = 0.0  # parameters outside embedding tables
    decoder_params: float = 0.0
    decoder_operators: float = 0.0
    generated: float = 0.0  # tokens per sample
    lookups: float = 0.0  # elements of embedding rows that one sample reads
    pooled_bytes: float = 0.0  # pooled embeddings that one sample sends between sharded tables
    pixels: float = 0.0  # of its input picture; 0 where the catalog does not say
    size: str = ""  # the input that the counts are for, in words
    clip_seconds: float = 0.0
    layers: float = 0.0  # of a transformer; 0 for convolutions
    score_elements: float = 0.0  # of its activations, attention scores, which fused kernels never write
    spared_elements: float = 0.0  # of its activations, what fused kernels never write
    recurrent_macs: float = 0.0  # of its macs, one step after another: each step reads its weights again
    decoded_pixels: float = 0.0  # of the picture that an image decoder makes
    text_params: float = 0.0  # of text encoders beside the network
    id: str = ""  # of the catalog model

    @property
    def table_params(self) -> float:
        """Parameters of embedding tables, which are sharded over the accelerators."""
        return self.params - self.dense_params


def is_network(model: Model) -> bool:
    """True for the families that are estimated per sample rather than per generated token."""
    return model.family in KINDS


def network_of(
    model: Model,
    *,
    image_size: float | None = None,
    seq_len: int | None = None,
    steps: int | None = None,
    generated: int | None = None,
) -> Network:
    """The work of one sample of a catalog model at an input size.

    Images: work and activations grow with the pixels (exact for convolutions, for attention a lower
    bound). Token sequences: with the length, attention with its square. `steps` are denoising
    steps. Raises InputError where the catalog lacks the counts.
    """
    kind = KINDS.get(model.family)
    if kind is None:
        raise InputError(_("{model} is a {family}, no network of samples").format(
            model=model.id, family=model.family))  # fmt: skip
    if kind == "recsys":
        return replace(_recommender(model), id=model.id)
    if model.n_layers and model.hidden and model.gmacs_per_sample is None and kind == "encoder":
        return replace(_token_network(model, seq_len=seq_len, generated=generated), id=model.id)
    if model.gmacs_per_sample is None:
        raise InputError(
            _("{model} has no count of multiply-accumulates in the catalog; name another model").format(
                model=model.id
            )
        )
    if model.clip_seconds is not None or model.family == "speech":
        return replace(_speech(model, kind=kind, generated=generated), id=model.id)
    counted = _counted(model, kind=kind, image_size=image_size, seq_len=seq_len, steps=steps)
    return replace(counted, id=model.id)


TWO_STAGE = ("rcnn", "panoptic")


def is_two_stage(name: str) -> bool:
    """True for detectors whose proposals pass through the host picture by picture, by their catalog id.

    >>> is_two_stage("mask-rcnn-r50-fpn-detectron2"), is_two_stage("retinanet-r50-fpn-detectron2")
    (True, False)
    """
    return any(word in name for word in TWO_STAGE)


USUAL_PIXELS = 640.0**2  # input of the usual detectors, where the catalog has no size


def network_pixels(network: Network) -> float:
    """Pixels of the input picture, or those of a usual detector."""
    return network.pixels or USUAL_PIXELS


def _scale(model: Model, *, image_size: float | None, seq_len: int | None) -> tuple[float, str]:
    """Factor on the counts for another input, and the input in words."""
    if model.image_size is not None:
        size = float(image_size or model.image_size)
        return (size / float(model.image_size)) ** 2, _("{n:.0f} pixels square").format(n=size)
    if model.sequence_length is not None:
        length = float(seq_len or model.sequence_length)
        return length / float(model.sequence_length), _("{n:.0f} steps").format(n=length)
    return 1.0, ""


def _counted(
    model: Model, *, kind: str, image_size: float | None, seq_len: int | None, steps: int | None
) -> Network:
    """A network whose work was counted operator by operator at one input size."""
    factor, size = _scale(model, image_size=image_size, seq_len=seq_len)
    macs = float(model.gmacs_per_sample or 0.0) * 1e9 * factor
    activations = float(model.activations_m or 0.0) * 1e6 * factor or macs / MACS_PER_ACTIVATION[kind]
    passes, guidance, once = 1.0, 1.0, float(model.text_encoder_gmacs or 0.0)
    if kind == "diffusion":
        passes = float(steps or model.usual_steps or USUAL_STEPS)
        guidance = float(model.guidance_passes or 1.0)
        once += float(model.image_decoder_gmacs or 0.0) * factor
    params = float(model.params_b) * 1e9
    counted = Network(
        kind=kind, params=params, dense_params=params, macs=macs, activations=activations,
        operators=float(model.operators or 0.0) or OPERATORS[kind], passes=passes, guidance=guidance,
        once_macs=once * 1e9, recurrent_macs=RECURRENT_SHARE * macs if kind == "rnn" else 0.0, size=size,
        pixels=float(image_size or model.image_size or 0.0) ** 2,
    )  # fmt: skip
    return _with_attention(counted, model)


RECURRENT_SHARE = 0.5  # of an LSTM: the product with the last state is as large as that with the input
LAYER_OPERATORS = {"vit": 6.0, "diffusion-dit": 10.5}  # linear layers and products of activations of a layer
HEAD_WIDTH = 64.0  # of an attention head: Dosovitskiy 2020, table 1
PLAIN_SCORES = (0.4, 1.5)  # of those of a plain transformer: windows and pyramids write other things
LAYER_ELEMENTS = 10.0  # written by a layer per token and unit of width, without scores: 6 h and an FFN of 4 h
PATCH = 16.0  # image pixels per token and side: an image decoder of 8, patches of 2
UNET_MACS = 1550.0  # per element that is no score: counts of Stable Diffusion 1.5, 2 and XL, heads and levels
CLIP_TOKENS, T5_PARAMS = 77.0, 4.7e9  # a CLIP text encoder is its work per token, T5-XXL the largest in use


def _with_attention(network: Network, model: Model) -> Network:
    """The network with its layers and with what fused attention spares.

    Layers L follow from the operators. A ViT of P parameters has the width h = sqrt(P / 12 L) and as many
    tokens s as solve 2 L h s^2 + P s = work; a DiT knows s and has the h that solves
    12 L s h^2 + 2 L s^2 h = work.
    """
    family, macs = model.family, network.macs
    text = 1e9 * float(model.text_encoder_gmacs or 0.0) / CLIP_TOKENS
    decoded = network.pixels if model.image_decoder_gmacs else 0.0
    network = replace(network, decoded_pixels=decoded, text_params=min(text, T5_PARAMS))
    if family == "diffusion-unet":
        scores = max(network.activations - macs / UNET_MACS, 0.0)
        return replace(network, score_elements=scores, spared_elements=scores)
    layers = network.operators / LAYER_OPERATORS.get(family, float("inf"))
    if layers < 1.0:
        return network
    if family == "vit":
        width = math.sqrt(network.params / 12.0 / layers)
        tokens = _positive_root(2.0 * layers * width, network.params, macs)
    else:
        tokens = float(model.sequence_length or 0.0) or network.pixels / PATCH**2
        if not tokens:
            return network
        width = _positive_root(12.0 * layers * tokens, 2.0 * layers * tokens**2, macs)
    others = LAYER_ELEMENTS * width * tokens * layers
    scores = max(network.activations - others, 0.0)
    plain = layers * width / HEAD_WIDTH * tokens**2
    alike = PLAIN_SCORES[0] * plain <= scores <= PLAIN_SCORES[1] * plain
    spared = scores if alike or family != "vit" else 0.0
    return replace(network, layers=layers, score_elements=scores, spared_elements=spared)


def _positive_root(a: float, b: float, c: float) -> float:
    """The positive x of a x^2 + b x = c."""
    return (math.sqrt(b * b + 4.0 * a * c) - b) / (2.0 * a)


# where the catalog has no count: medians of the counted networks of the kind
MACS_PER_ACTIVATION = {
    "cnn": 350.0, "detector": 350.0, "vit": 700.0, "encoder": 800.0, "diffusion": 900.0, "rnn": 1000.0,
}  # fmt: skip
OPERATORS = {
    "cnn": 60.0, "detector": 80.0, "vit": 100.0, "encoder": 200.0, "diffusion": 500.0, "rnn": 200.0,
    "recsys": 20.0,
}  # fmt: skip
USUAL_STEPS = 50  # PNDM and DDIM samplers of Stable Diffusion: model cards, 50 steps
USUAL_SEQUENCE = 384  # SQuAD fine-tuning and MLPerf BERT: maximum sequence length 384


def encoder_work(
    *, n_layers: float, hidden: float, ffn: float, heads: float, seq_len: float, kv_seq: float | None = None
) -> tuple[float, float]:
    """Multiply-accumulates and elements written by transformer layers for one sequence.

    Per layer 4 h^2 + 2 h f multiplies per token and 2 s h for the two attention products; written are
    q, k, v, output and context (5 h), the feed-forward block (f + h) and the scores (a s).

    >>> macs, activations = encoder_work(n_layers=12, hidden=768, ffn=3072, heads=12, seq_len=197)
    >>> round(macs / 1e9, 1), round(activations / 1e6, 1)
    (17.4, 23.7)
    """
    keys = kv_seq or seq_len
    linear = (4.0 * hidden**2 + 2.0 * hidden * ffn) * seq_len
    attention = 2.0 * seq_len * keys * hidden
    written = (6.0 * hidden + ffn) * seq_len + heads * seq_len * keys
    return n_layers * (linear + attention), n_layers * written


def _token_network(model: Model, *, seq_len: int | None, generated: int | None) -> Network:
    """An encoder, or an encoder and a decoder, from its dimensions."""
    length = float(seq_len or USUAL_SEQUENCE)
    hidden, layers = float(model.hidden or 0.0), float(model.n_layers or 0.0)
    heads = float(model.n_heads or hidden / 64.0)
    ffn = float(model.ffn_hidden or 4.0 * hidden)
    inner = heads * float(model.head_dim) if model.head_dim else hidden
    wide = hidden * inner / hidden if hidden else hidden  # T5 projects to heads x head_dim
    macs, written = encoder_work(n_layers=layers, hidden=hidden, ffn=ffn, heads=heads, seq_len=length)
    macs += layers * length * 4.0 * hidden * (wide - hidden)
    operators = ENCODER_OPERATORS * layers
    decoder, tokens, decoder_operators = 0.0, 0.0, 0.0
    if model.decoder_layers:
        depth = float(model.decoder_layers)
        decoder = depth * (8.0 * hidden * wide + 2.0 * hidden * ffn)
        tokens, decoder_operators = float(generated or length), DECODER_OPERATORS * depth
        decoder += float(model.vocab or 0.0) * hidden
    params = float(model.params_b) * 1e9
    return Network(
        kind="encoder", params=params, dense_params=params, macs=macs, activations=written,
        operators=operators, decoder_params=decoder, decoder_operators=decoder_operators,
        generated=tokens, size=_("{n:.0f} tokens").format(n=length), layers=layers,
        score_elements=layers * heads * length * length,
        spared_elements=layers * heads * length * length,
    )  # fmt: skip


USUAL_TRANSCRIPT = 100  # tokens of a 30 s clip: about 150 words a minute, 1.3 tokens a word


def _speech(model: Model, *, kind: str, generated: int | None) -> Network:
    """Encoder pass over one clip, and the transcript token by token where there is a decoder."""
    params, macs = float(model.params_b) * 1e9, float(model.gmacs_per_sample or 0.0) * 1e9
    hidden, depth = float(model.hidden or 0.0), float(model.decoder_layers or 0.0)
    ffn = float(model.ffn_hidden or 4.0 * hidden)
    decoder = depth * (8.0 * hidden**2 + 2.0 * hidden * ffn) + (
        float(model.vocab or 0.0) * hidden if depth else 0.0
    )
    clip = float(model.clip_seconds or 30.0)
    layers, heads = float(model.n_layers or 0.0), float(model.n_heads or 0.0)
    written, scores = float(model.activations_m or 0.0) * 1e6, 0.0
    if layers and hidden and heads and written:  # frames s of 10 L h s + a L s^2 elements
        frames = _positive_root(heads * layers, LAYER_ELEMENTS * layers * hidden, written)
        scores = heads * layers * frames**2
    return Network(
        kind=kind, params=params, dense_params=params, macs=macs,
        activations=float(model.activations_m or 0.0) * 1e6 or macs / MACS_PER_ACTIVATION["encoder"],
        operators=float(model.operators or 0.0) or ENCODER_OPERATORS * float(model.n_layers or 12.0),
        decoder_params=decoder, decoder_operators=DECODER_OPERATORS * depth,
        generated=float(generated or USUAL_TRANSCRIPT) if depth else 0.0,
        recurrent_macs=RECURRENT_SHARE * macs if kind == "rnn" else 0.0,
        layers=layers if scores else 0.0, score_elements=scores, spared_elements=scores,
        size=_("{n:.0f} s of audio").format(n=clip), clip_seconds=clip,
    )  # fmt: skip


def _recommender(model: Model) -> Network:
    """Embedding rows that a sample reads, and its dense layers."""
    if model.gmacs_per_sample is None or model.lookups_per_sample is None or model.embedding_dim is None:
        raise InputError(
            _("{model} has no count of lookups in the catalog; name another model").format(model=model.id)
        )
    params, macs = float(model.params_b) * 1e9, float(model.gmacs_per_sample) * 1e9
    lookups = float(model.lookups_per_sample) * float(model.embedding_dim)
    pooled = float(model.embedding_tables or model.lookups_per_sample) * float(model.embedding_dim)
    written = float(model.activations_m or 0.0) * 1e6 or lookups
    return Network(
        kind="recsys", params=params, dense_params=min(macs, params), macs=macs,
        activations=written, spared_elements=written,  # narrow layers stay in the cache
        operators=float(model.operators or 0.0) or OPERATORS["recsys"],
        lookups=lookups, pooled_bytes=pooled * POOLED_BYTES,
        size=_("{n:.0f} lookups").format(n=float(model.lookups_per_sample)),
    )  # fmt: skip
