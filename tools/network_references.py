"""Networks of reference scripts by their dimensions, for tools/count_networks.py.

Sources stand in data/models.yaml: NVIDIA DeepLearningExamples and the MLPerf references.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from network_packages import Built, network

CLIP_SECONDS = 16.7  # longest training clip of the speech configurations
SENTENCE = 50  # tokens on each side of a translated sentence pair


def unet(shape: Sequence[int], widths: Sequence[int], inputs: int, classes: int) -> Built:
    """U-Net with padded 3-wide layers, two a level, strided going down: MLPerf's 3D U-Net and nnU-Net."""
    import torch
    from torch import nn

    flat = len(shape) == 2
    layer, lift = (nn.Conv2d, nn.ConvTranspose2d) if flat else (nn.Conv3d, nn.ConvTranspose3d)

    def pair(a: int, b: int, step: int) -> Any:
        return nn.Sequential(layer(a, b, 3, step, 1), layer(b, b, 3, 1, 1))

    down = nn.ModuleList(
        pair(a, b, 1 if a == inputs else 2) for a, b in zip((inputs, *widths), widths, strict=False)
    )
    up = nn.ModuleList(lift(a, b, 2, 2) for a, b in zip(widths[::-1], widths[-2::-1], strict=False))
    merge = nn.ModuleList(pair(2 * b, b, 1) for b in widths[-2::-1])
    last = layer(widths[0], classes, 1)

    def run(x: Any) -> None:
        skips = []
        for level in down:
            x = level(x)
            skips.append(x)
        for raise_, join, skip in zip(up, merge, skips[-2::-1], strict=True):
            x = join(torch.cat([raise_(x), skip], 1))
        last(x)

    return network(run, down, up, merge, last), (torch.rand(1, inputs, *shape),), {}


def vnet() -> Built:
    """V-Net of DeepLearningExamples on 32 x 32 x 32 (Medical Decathlon hippocampus)."""
    import torch
    from torch import nn

    def conv(a: int, b: int, kernel: int = 3, step: int = 1) -> Any:
        return nn.Conv3d(a, b, kernel, step, kernel // 2 if kernel == 3 else 0)

    first = conv(1, 16)
    down = nn.ModuleList(
        nn.Sequential(conv(w, 2 * w, 2, 2), *[conv(2 * w, 2 * w) for _ in range(3)]) for w in (16, 32, 64)
    )
    up = nn.ModuleList(nn.ConvTranspose3d(a, b, 2, 2) for a, b in ((128, 64), (128, 32), (64, 16)))
    merge = nn.ModuleList(nn.Sequential(*[conv(2 * w, 2 * w) for _ in range(3)]) for w in (64, 32))
    last = conv(16, 3)

    def run(x: Any) -> None:
        skips = [first(x)]
        for layer in down:
            skips.append(layer(skips[-1]))
        x = skips.pop()
        for raise_, join in zip(up, merge, strict=False):
            x = join(torch.cat([raise_(x), skips.pop()], 1))
        last(up[-1](x))

    return network(run, first, down, up, merge, last), (torch.rand(1, 1, 32, 32, 32),), {}


def unet_2d(side: int) -> Built:
    """U-Net of 2015 with unpadded layers: one channel in, two classes out (572 x 572 in its paper)."""
    import torch
    from torch import nn

    widths = (64, 128, 256, 512, 1024)
    down = nn.ModuleList(
        nn.Sequential(nn.Conv2d(a, b, 3), nn.Conv2d(b, b, 3))
        for a, b in zip((1, *widths), widths, strict=False)
    )
    up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
    merge = nn.ModuleList(nn.Sequential(nn.Conv2d(2 * w, w, 3), nn.Conv2d(w, w, 3)) for w in widths[-2::-1])
    last = nn.Conv2d(64, 2, 1)

    def run(x: Any) -> None:
        skips = []
        for layer in down:
            x = layer(nn.functional.max_pool2d(x, 2) if skips else x)
            skips.append(x)
        for raise_, join, skip in zip(up, merge, skips[-2::-1], strict=True):
            x = raise_(x)
            x = join(torch.cat([x, skip[:, :, : x.shape[2], : x.shape[3]]], 1))
        last(x)

    return network(run, down, up, merge, last), (torch.rand(1, 1, side, side),), {}


def speech_convolutions(blocks: Sequence[tuple[int, int, int, bool]], *, apart: bool, dense: bool) -> Built:
    """Jasper (`dense` residuals) or QuartzNet (layers split into depthwise and pointwise, `apart`).

    `blocks`: filters, kernel, repeats, residual. 64 features every 10 ms; the first layer halves the
    frames; 29 symbols come out.
    """
    import torch
    from torch import nn

    def layer(a: int, b: int, kernel: int, step: int, dilation: int) -> Any:
        options = {"stride": step, "dilation": dilation, "padding": (kernel - 1) // 2 * dilation}
        if apart and kernel > 1:
            return nn.Sequential(nn.Conv1d(a, a, kernel, groups=a, **options), nn.Conv1d(a, b, 1))
        return nn.Conv1d(a, b, kernel, **options)

    bodies, joints, width, widths = nn.ModuleList(), nn.ModuleList(), 64, []
    for index, (filters, kernel, repeats, residual) in enumerate(blocks):
        widths = ([*widths, width] if dense else [width]) if residual else []
        step, dilation = (2 if index == 0 else 1), (2 if kernel in {29, 87} else 1)
        joints.append(nn.ModuleList(nn.Conv1d(w, filters, 1) for w in widths))
        bodies.append(nn.Sequential(
            *[layer(width if i == 0 else filters, filters, kernel, step, dilation) for i in range(repeats)]
        ))  # fmt: skip
        width = filters
    last = nn.Conv1d(width, 29, 1)

    def run(x: Any) -> None:
        seen: list[Any] = []
        for body, joint in zip(bodies, joints, strict=True):
            seen = ([*seen, x] if dense else [x]) if len(joint) else []
            for project, earlier in zip(joint, seen, strict=True):
                project(earlier)
            x = body(x)
        last(x)

    return network(run, bodies, joints, last), (torch.rand(1, 64, int(CLIP_SECONDS * 100)),), {}


JASPER = (
    (256, 11, 1, False),
    *[(f, k, 5, True) for f, k in ((256, 11), (384, 13), (512, 17), (640, 21), (768, 25)) for _ in range(2)],
    (896, 29, 1, False),
    (1024, 1, 1, False),
)
QUARTZNET = (
    (256, 33, 1, False),
    *[(f, k, 5, True) for f, k in ((256, 33), (256, 39), (512, 51), (512, 63), (512, 75)) for _ in range(3)],
    (512, 87, 1, False),
    (1024, 1, 1, False),
)


def lstm(inner: int, hidden: int, *, both: bool = False) -> Any:
    """Weights of one LSTM layer; `both` reads in both directions."""
    from torch import nn

    return nn.LSTM(inner, hidden, bidirectional=both)


def run_lstm(layer: Any, x: Any) -> Any:
    """The products of an LSTM on `x` (steps, features): the inputs at once, the state step by step."""
    import torch

    for suffix in ("", "_reverse")[: 1 + layer.bidirectional]:
        torch.mm(x, getattr(layer, f"weight_ih_l0{suffix}").T)
        for _ in range(x.shape[0]):
            torch.mm(x.new_empty(1, layer.hidden_size), getattr(layer, f"weight_hh_l0{suffix}").T)
    return x.new_empty(x.shape[0], layer.hidden_size * (1 + layer.bidirectional))


def rnn_t() -> Built:
    """RNN-T of MLPerf: greedy decoding's products, with one symbol for each of 125 labels and each frame."""
    import torch
    from torch import nn

    frames, labels = int(CLIP_SECONDS * 100) // 3, 125
    before = nn.ModuleList([lstm(240, 1024), lstm(1024, 1024)])
    after = nn.ModuleList([lstm(2048, 1024), lstm(1024, 1024), lstm(1024, 1024)])
    predict = nn.ModuleList([lstm(512, 512), lstm(512, 512)])
    embed = nn.Embedding(1023, 512)
    joint = nn.ModuleList([nn.Linear(1024, 512), nn.Linear(512, 512), nn.Linear(512, 1024)])

    def run(x: Any) -> None:
        for layer in before:
            x = run_lstm(layer, x)
        x = x[: frames // 2 * 2].reshape(frames // 2, 2048)
        for layer in after:
            x = run_lstm(layer, x)
        y = torch.rand(labels, 512)
        for layer in predict:
            y = run_lstm(layer, y)
        joint[0](x), joint[1](y), joint[2](torch.rand(frames // 2 + labels, 512))

    return network(run, before, after, predict, embed, joint), (torch.rand(frames, 240),), {}


def gnmt(vocabulary: int) -> Built:
    """GNMT v2 of DeepLearningExamples and MLPerf: 4 + 4 layers of 1024, shared embedding, one attention."""
    import torch
    from torch import nn

    encoder = nn.ModuleList(
        [lstm(1024, 1024, both=True), lstm(2048, 1024), lstm(1024, 1024), lstm(1024, 1024)]
    )
    decoder = nn.ModuleList([lstm(1024, 1024), *[lstm(2048, 1024) for _ in range(3)]])
    keys = nn.ModuleList([nn.Linear(1024, 1024, bias=False), nn.Linear(1024, 1024, bias=False)])
    embed, last = nn.Embedding(vocabulary, 1024), nn.Linear(1024, vocabulary)

    def run(x: Any) -> None:
        for layer in encoder:
            x = run_lstm(layer, x)
        y = run_lstm(decoder[0], torch.rand(SENTENCE, 1024))
        keys[0](y), keys[1](x)
        torch.mm(torch.mm(y, x.T), x)
        for layer in decoder[1:]:
            y = run_lstm(layer, torch.cat([y, x], 1))
        last(y)

    return network(run, encoder, decoder, keys, embed, last), (torch.rand(SENTENCE, 1024),), {}


def dense_stack(*widths: int) -> Any:
    """Linear layers of these widths."""
    from torch import nn

    return nn.Sequential(*[nn.Linear(a, b) for a, b in pairwise(widths)])


DLRM_TABLES = (
    40000000,
    39060,
    17295,
    7424,
    20265,
    3,
    7122,
    1543,
    63,
    40000000,
    3067956,
    405282,
    10,
    2209,
    11938,
    155,
    4,
    976,
    14,
    40000000,
    40000000,
    40000000,
    590152,
    12973,
    108,
    36,
)


def dlrm(*, crossed: bool) -> Built:
    """DLRM on Criteo, tables of width 128: dot interaction, or (`crossed`) three cross layers of rank 512."""
    import torch
    from torch import nn

    width = 27 * 128
    bottom = dense_stack(13, 512, 256, 128)
    top = dense_stack(width if crossed else 128 + 27 * 26 // 2, 1024, 1024, 512, 256, 1)
    cross = nn.ModuleList(
        nn.Sequential(nn.Linear(width, 512, bias=False), nn.Linear(512, width)) for _ in range(3 * crossed)
    )
    tables = nn.ModuleList(nn.Embedding(rows, 128) for rows in DLRM_TABLES)

    def run(x: Any) -> None:
        bottom(x)
        vectors = torch.rand(1, 27, 128)
        if not crossed:
            torch.bmm(vectors, vectors.transpose(1, 2))
            top(torch.rand(1, 128 + 27 * 26 // 2))
            return
        for layer in cross:
            layer(vectors.reshape(1, width))
        top(vectors.reshape(1, width))

    return network(run, bottom, top, cross, tables), (torch.rand(1, 13),), {}


def ncf() -> Built:
    """Neural collaborative filtering on MovieLens-20M: 64 factors, layers 256, 256, 128, 64."""
    import torch
    from torch import nn

    tables = nn.ModuleList(nn.Embedding(rows, 64 + 128) for rows in (138493, 26744))
    deep, last = dense_stack(256, 256, 128, 64), nn.Linear(128, 1)

    def run(x: Any) -> None:
        last(torch.cat([deep(x), torch.rand(1, 64)], 1))

    return network(run, tables, deep, last), (torch.rand(1, 256),), {}


def wide_and_deep() -> Built:
    """Wide & Deep of DeepLearningExamples on Outbrain: 13 tables, 13 numbers, five layers of 1024."""
    import torch
    from torch import nn

    tables = [
        (128, 300000),
        (16, 4),
        (128, 100000),
        (64, 4000),
        (64, 1000),
        (64, 2500),
        (64, 300),
        (64, 2000),
        (128, 250000),
        (64, 2500),
        (64, 4000),
        (64, 1000),
        (64, 5000),
    ]
    embedded = nn.ModuleList(nn.Embedding(rows, width + 1) for width, rows in tables)
    deep = dense_stack(sum(width for width, _ in tables) + 13, 1024, 1024, 1024, 1024, 1024, 1)

    def run(x: Any) -> None:
        deep(x)

    return network(run, embedded, deep), (torch.rand(1, sum(w for w, _ in tables) + 13),), {}
