"""Detectors put together from torchvision's parts, for tools/count_networks.py.

Dimensions of detectron2's base configurations (Base-RCNN-FPN, -C4, -DilatedC5, Base-RetinaNet,
Base-Panoptic-FPN), of the SSD of NVIDIA DeepLearningExamples and of the MLPerf references.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from network_packages import Built, network, picture

WIDE, HIGH = 1088, 800  # a 4:3 picture with its short side at 800, padded to a multiple of 32
PROPOSALS, DETECTIONS = 1000, 100  # of the two-stage detectors at inference


def resnet_trunk(name: str, *, old_strides: bool, dilate: bool = False) -> Any:
    """A ResNet of torchvision; `old_strides` puts the stride in the first 1 x 1 layer, as detectron2 does."""
    import torch
    from torchvision.models import get_model

    trunk = get_model(name, replace_stride_with_dilation=[False, False, dilate])
    trunk.fc = torch.nn.Identity()
    for stage in (trunk.layer2, trunk.layer3, trunk.layer4):
        if old_strides:
            stage[0].conv1.stride, stage[0].conv2.stride = stage[0].conv2.stride, (1, 1)
    return trunk


def stages(trunk: Any, x: Any) -> list[Any]:
    """Outputs of the four stages of a ResNet."""
    x = trunk.maxpool(trunk.relu(trunk.bn1(trunk.conv1(x))))
    outs = []
    for stage in (trunk.layer1, trunk.layer2, trunk.layer3, trunk.layer4):
        x = stage(x)
        outs.append(x)
    return outs


def pyramid(channels: Sequence[int]) -> tuple[Any, Callable[[Any, list[Any]], list[Any]]]:
    """A feature pyramid of 256 channels and the function that runs it."""
    from torchvision.ops import FeaturePyramidNetwork

    def run(module: Any, maps: list[Any]) -> list[Any]:
        return list(module({str(i): m for i, m in enumerate(maps)}).values())

    return FeaturePyramidNetwork(list(channels), 256), run


def fpn_detector(
    name: str,
    heads: str = "box",
    *,
    convolutions: int = 0,
    cascade: int = 1,
    height: int = HIGH,
    width: int = WIDE,
) -> Built:
    """Two-stage detector on a feature pyramid, dimensions of detectron2's Base-RCNN-FPN.yaml.

    `heads`: any of box, mask, keypoint, panoptic; `given` for proposals that are read from a file.
    `convolutions`: layers of 3 x 3 before one linear layer in the box head (none: two linear layers).
    `cascade`: box heads in a row. The region heads run on PROPOSALS and DETECTIONS regions.
    """
    import torch
    from torch import nn

    trunk = resnet_trunk(name, old_strides="resnext" not in name)
    fpn, run_fpn = pyramid((256, 512, 1024, 2048))
    rpn = nn.ModuleList([nn.Conv2d(256, 256, 3, padding=1), nn.Conv2d(256, 3, 1), nn.Conv2d(256, 12, 1)])
    box = nn.ModuleList(box_head(convolutions, 1 if "keypoint" in heads else 80) for _ in range(cascade))
    regional = region_head(heads)
    semantic = nn.ModuleList(
        nn.Conv2d(256 if i in {0, 1, 2, 4} else 128, 128, 3, padding=1) for i in range(7)
    )
    stuff = nn.Conv2d(128, 54, 1)

    def run(x: Any) -> None:
        maps = run_fpn(fpn, stages(trunk, x))
        for level in (*maps, nn.functional.max_pool2d(maps[-1], 1, 2)) if "given" not in heads else ():
            hidden = rpn[0](level)
            rpn[1](hidden), rpn[2](hidden)
        if "box" in heads:
            for head in box:
                head(torch.rand(PROPOSALS, 256, 7, 7))
        if regional is not None:
            regional(torch.rand(DETECTIONS, 256, 14, 14))
        if "panoptic" in heads:
            run_semantic(semantic, stuff, maps)

    kept = [
        trunk,
        fpn,
        *([] if "given" in heads else [rpn]),
        *([box] if "box" in heads else []),
        *([regional] if regional is not None else []),
    ]
    kept += [semantic, stuff] if "panoptic" in heads else []
    return network(run, *kept), (picture(height, width),), {}


def run_semantic(semantic: Any, stuff: Any, maps: list[Any]) -> None:
    """Semantic head of Panoptic FPN: each level is brought to stride 4 by 3 x 3 layers and doublings."""
    from torch.nn.functional import interpolate

    layers = iter(semantic)
    total = None
    for doublings, level in enumerate(maps):
        x = level
        for _ in range(max(doublings, 1)):
            x = next(layers)(x)
            x = interpolate(x, scale_factor=2) if doublings else x
        total = x if total is None else total + x
    stuff(total)


def box_head(convolutions: int, classes: int) -> Any:
    """Box head on 7 x 7 regions of 256 channels."""
    from torch import nn

    body = [nn.Conv2d(256, 256, 3, padding=1) for _ in range(convolutions)]
    dense = [nn.Linear(256 * 49, 1024)] + ([] if convolutions else [nn.Linear(1024, 1024)])
    return nn.Sequential(*body, nn.Flatten(), *dense, nn.Linear(1024, 5 * classes + 1))


def region_head(heads: str) -> Any:
    """Mask or keypoint head on 14 x 14 regions, or None."""
    from torch import nn

    if "keypoint" in heads:
        widths = [256] + [512] * 8
        body = [nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(widths)]
        return nn.Sequential(*body, nn.ConvTranspose2d(512, 17, 4, 2, 1))
    if "mask" in heads or "panoptic" in heads:
        body = [nn.Conv2d(256, 256, 3, padding=1) for _ in range(4)]
        return nn.Sequential(*body, nn.ConvTranspose2d(256, 256, 2, 2), nn.Conv2d(256, 80, 1))
    return None


def c4_detector(name: str, heads: str = "box", *, dilated: bool = False) -> Built:
    """Two-stage detector without a pyramid, dimensions of detectron2's Base-RCNN-C4.yaml and -DilatedC5.yaml.

    C4: stage 5 runs on each region. DC5: stage 5 is dilated and shared, with linear heads on 7 x 7 regions.
    """
    import torch
    from torch import nn

    trunk = resnet_trunk(name, old_strides=True, dilate=dilated)
    width = 2048 if dilated else 1024
    rpn = nn.ModuleList(
        [nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, 15, 1), nn.Conv2d(width, 60, 1)]
    )
    dense = nn.Sequential(nn.Flatten(), nn.Linear(2048 * 49, 1024), nn.Linear(1024, 1024))
    classes = nn.Linear(1024 if dilated else 2048, 401)
    masks = nn.Sequential(
        *[nn.Conv2d(2048 if i == 0 else 256, 256, 3, padding=1) for i in range(4 * dilated)],
        nn.ConvTranspose2d(256 if dilated else 2048, 256, 2, 2),
        nn.Conv2d(256, 80, 1),
    )
    stage5 = trunk.layer4
    if not dilated:
        trunk.layer4 = nn.Identity()

    def run(x: Any) -> None:
        hidden = rpn[0](stages(trunk, x)[-1])
        rpn[1](hidden), rpn[2](hidden)
        if "box" not in heads:
            return
        regions = torch.rand(PROPOSALS, 2048, 7, 7) if dilated else torch.rand(PROPOSALS, 1024, 14, 14)
        classes(dense(regions) if dilated else stage5(regions).mean((2, 3)))
        if "mask" in heads:
            kept = torch.rand(DETECTIONS, 2048 if dilated else 1024, 14, 14)
            masks(kept if dilated else stage5(kept))

    parts = [trunk, rpn]
    parts += [classes, dense if dilated else stage5] if "box" in heads else []
    return network(run, *parts, *([masks] if "mask" in heads else [])), (picture(HIGH, WIDE),), {}


def retinanet(name: str, classes: int, height: int, width: int, *, old_strides: bool) -> Built:
    """RetinaNet: pyramid levels 3 to 7, two towers of four 3 x 3 layers, nine anchors."""
    from torch import nn

    trunk = resnet_trunk(name, old_strides=old_strides)
    fpn, run_fpn = pyramid((512, 1024, 2048))
    coarse = nn.ModuleList(
        [nn.Conv2d(256 if not old_strides else 2048, 256, 3, 2, 1), nn.Conv2d(256, 256, 3, 2, 1)]
    )
    towers = [
        nn.Sequential(
            *[nn.Conv2d(256, 256, 3, padding=1) for _ in range(4)], nn.Conv2d(256, 9 * out, 3, padding=1)
        )
        for out in (classes, 4)
    ]

    def run(x: Any) -> None:
        outs = stages(trunk, x)
        maps = run_fpn(fpn, outs[1:])
        maps.append(coarse[0](outs[-1] if old_strides else maps[-1]))
        maps.append(coarse[1](maps[-1]))
        for tower in towers:
            for level in maps:
                tower(level)

    return network(run, trunk, fpn, coarse, *towers), (picture(height, width),), {}


def ssd(name: str, side: int, *, stride: int, widths: Sequence[int], steps: Sequence[int]) -> Built:
    """SSD on a ResNet whose third of four stages keeps its resolution, with six maps.

    NVIDIA DeepLearningExamples (300 x 300, ResNet-50) and MLPerf (1200 x 1200, ResNet-34). `stride` of
    the heads, `steps` and `widths` of the extra layers; the last extra layers have no padding.
    """
    from torch import nn

    trunk = resnet_trunk(name, old_strides=False)
    for layer in (trunk.layer3[0].conv1, trunk.layer3[0].conv2, trunk.layer3[0].downsample[0]):
        layer.stride = (1, 1)
    trunk.layer4 = nn.Identity()
    middle = (256, 256, 128, 128, 128)
    extra = nn.ModuleList(
        nn.Sequential(nn.Conv2d(a, m, 1), nn.Conv2d(m, b, 3, step, padding=int(i < 3)))
        for i, (a, m, b, step) in enumerate(zip(widths, middle, widths[1:], steps, strict=False))
    )
    heads = nn.ModuleList(
        nn.Conv2d(w, anchors * 85, 3, stride, 1)
        for w, anchors in zip(widths, (4, 6, 6, 6, 4, 4), strict=True)
    )

    def run(x: Any) -> None:
        maps = [stages(trunk, x)[2]]
        for layer in extra:
            maps.append(layer(maps[-1]))
        for head, level in zip(heads, maps, strict=True):
            head(level)

    return network(run, trunk, extra, heads), (picture(side),), {}


def separable(inner: int, outer: int, step: int) -> list[Any]:
    """Depthwise 3 x 3 and pointwise layer of MobileNet v1."""
    from torch import nn

    return [nn.Conv2d(inner, inner, 3, step, 1, groups=inner), nn.Conv2d(inner, outer, 1)]


def ssd_mobilenet(side: int) -> Built:
    """SSD on MobileNet v1, 91 classes, dimensions of the MLPerf reference."""
    from torch import nn

    plan = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    front = [nn.Conv2d(3, 32, 3, 2, 1)]
    for inner, outer, step in plan + [(512, 512, 1)] * 5:
        front += separable(inner, outer, step)
    parts = [nn.Sequential(*front), nn.Sequential(*separable(512, 1024, 2), *separable(1024, 1024, 1))]
    parts += [
        nn.Sequential(nn.Conv2d(a, m, 1), nn.Conv2d(m, b, 3, 2, 1))
        for a, m, b in ((1024, 256, 512), (512, 128, 256), (256, 128, 256), (256, 64, 128))
    ]
    heads = nn.ModuleList(
        nn.Conv2d(width, anchors * 95, 1)
        for width, anchors in ((512, 3), (1024, 6), (512, 6), (256, 6), (256, 6), (128, 6))
    )

    def run(x: Any) -> None:
        for part, head in zip(parts, heads, strict=True):
            x = part(x)
            head(x)

    return network(run, *parts, heads), (picture(side),), {}


def torchvision_detector(name: str, height: int, width: int) -> Built:
    """Body and head of a one-stage detector of torchvision, without its pre- and postprocessing."""
    from torchvision.models import get_model

    model = get_model(name, weights=None, weights_backbone=None)

    def run(x: Any) -> None:
        model.head(list(model.backbone(x).values()))

    return network(run, model.backbone, model.head), (picture(height, width),), {}
