"""Count published networks: parameters, multiply-accumulates, outputs and operators of one forward pass.

    python tools/count_networks.py                       every network that can be built
    python tools/count_networks.py resnet-50 sam-vit-h   these ones
    python tools/count_networks.py --compare             what differs from data/models.yaml by over 5 %

A development tool, not part of the checks: it needs torch, torchvision, timm, transformers, diffusers,
ultralytics, yolov5, effdet and rfdetr, which the project does not. They are imported where they are used.
Networks have no trained weights and nearly all stand on the meta device: nothing is computed and nothing
is downloaded. An entry of data/models.yaml with an alias `timm/NAME`, `torchvision/NAME`,
`ultralytics/NAME`, `yolov5/NAME`, `effdet/NAME` or `rfdetr/CONFIGURATION` is built by that package at the
entry's `image_size`; the others stand in the tables below.

Conventions, those of timm's benchmark files:

- one multiply-add is one; only convolutions, linear layers and products of activations are counted;
- `activations_m` is what these write, in millions of elements; `operators` is how many there are;
- a fused attention counts as its two products; each step of a recurrent layer is an operator;
- one sample, evaluation mode, no dropout, no auxiliary heads.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import network_detectors as detectors
import network_diffusion as diffusion
import network_packages as packages
import network_references as references

Builder = Callable[[], packages.Built]
MODELS = Path(__file__).parents[1] / "data" / "models.yaml"

BY_ALIAS: Mapping[str, Callable[[str, int], packages.Built]] = {
    "timm": packages.timm_model,
    "torchvision": packages.torchvision_model,
    "yolov5": packages.yolov5_model,
    "ultralytics": packages.ultralytics_model,
    "effdet": packages.effdet_model,
    "rfdetr": packages.rfdetr_model,
}
RESNET_50, RESNET_101 = [3, 4, 6, 3], [3, 4, 23, 3]
COGVIDEOX_5B = {"num_attention_heads": 48, "num_layers": 42, "use_rotary_positional_embeddings": True}

# Need real tensors: they look at the values of a mask or at positions.
REAL = {
    "dinov3-large-16",
    "detr-r50",
    "detr-r101",
    "conditional-detr-r50",
    "mask2former-swin-tiny",
    "bridgetower-base",
    "bridgetower-large",
    "perceiver-fourier",
    "perceiver-learned",
    "perceiver-conv",
    "bart-base",
    "bart-large",
    "sam2-hiera-base",
    "grounding-dino-tiny",
}


def table() -> dict[str, Builder]:
    """Networks that are not named by a package alias, by id of data/models.yaml."""
    rows = _detector_rows() | _reference_rows() | _transformer_rows() | _diffusion_rows()
    return {name: partial(*spec) if isinstance(spec, tuple) else spec for name, spec in rows.items()}


def _detector_rows() -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for short, name in (("r50", "resnet50"), ("r101", "resnet101"), ("x101", "resnext101_32x8d")):
        for kind, heads in (
            ("faster", "box"),
            ("mask", "box mask"),
            ("keypoint", "box keypoint"),
            ("panoptic", "box panoptic"),
        ):
            label = f"panoptic-fpn-{short}" if kind == "panoptic" else f"{kind}-rcnn-{short}-fpn-detectron2"
            rows[label] = (detectors.fpn_detector, name, heads)
    for short, name in (("r50", "resnet50"), ("r101", "resnet101")):
        for kind, heads in (("faster", "box"), ("mask", "box mask")):
            rows[f"{kind}-rcnn-{short}-c4"] = (detectors.c4_detector, name, heads)
            rows[f"{kind}-rcnn-{short}-dc5"] = partial(detectors.c4_detector, name, heads, dilated=True)
        rows[f"retinanet-{short}-fpn-detectron2"] = partial(
            detectors.retinanet, name, 80, 800, 1088, old_strides=True
        )
        rows[f"mask-rcnn-{short}-fpn-4conv1fc"] = partial(
            detectors.fpn_detector, name, "box mask", convolutions=4
        )
    extra = (1024, 512, 512, 256, 256, 256)
    return rows | {
        "fast-rcnn-r50-fpn": (detectors.fpn_detector, "resnet50", "box given"),
        "rpn-r50-fpn": (detectors.fpn_detector, "resnet50", ""),
        "rpn-r50-c4": (detectors.c4_detector, "resnet50", ""),
        "cascade-mask-rcnn-r50-fpn": partial(detectors.fpn_detector, "resnet50", "box mask", cascade=3),
        "cascade-panoptic-fpn-r101": partial(detectors.fpn_detector, "resnet101", "box panoptic", cascade=3),
        "mask-rcnn-r50-fpn-cityscapes": partial(
            detectors.fpn_detector, "resnet50", "box mask", height=1024, width=2048
        ),
        "retinanet-resnext50-fpn": partial(
            detectors.retinanet, "resnext50_32x4d", 264, 800, 800, old_strides=False
        ),
        "ssd300-r50": partial(detectors.ssd, "resnet50", 300, stride=1, widths=extra, steps=(2, 2, 2, 1, 1)),
        "ssd-r34-1200": partial(
            detectors.ssd, "resnet34", 1200, stride=3, widths=(256, *extra[1:]), steps=(2, 2, 2, 2, 1)
        ),
        "ssd-r34-300": partial(
            detectors.ssd, "resnet34", 300, stride=1, widths=(256, *extra[1:]), steps=(2, 2, 2, 1, 1)
        ),
        "ssd-mobilenet-v1": (detectors.ssd_mobilenet, 300),
        "ssd300-vgg16": (detectors.torchvision_detector, "ssd300_vgg16", 300, 300),
        "ssdlite320-mobilenet-v3": (
            detectors.torchvision_detector,
            "ssdlite320_mobilenet_v3_large",
            320,
            320,
        ),
    }


def _reference_rows() -> dict[str, Any]:
    deep = (32, 64, 128, 256, 320, 320)
    return {
        "unet-3d-kits19": (references.unet, (128, 128, 128), deep, 1, 3),
        "unet-3d-brats": (references.unet, (128, 128, 128), deep, 4, 4),
        "nnunet-3d": (references.unet, (128, 128, 128), deep, 4, 4),
        "nnunet-2d": (references.unet, (192, 160), (32, 64, 128, 256, 512, 512), 4, 4),
        "vnet": references.vnet,
        "unet-2d-medical": (references.unet_2d, 572),
        "jasper-10x5dr": partial(references.speech_convolutions, references.JASPER, apart=False, dense=True),
        "quartznet-15x5": partial(
            references.speech_convolutions, references.QUARTZNET, apart=True, dense=False
        ),
        "rnn-t": references.rnn_t,
        "gnmt-v2": (references.gnmt, 32320),
        "dlrm": partial(references.dlrm, crossed=False),
        "dlrm-v2": partial(references.dlrm, crossed=True),
        "ncf": references.ncf,
        "wide-and-deep": references.wide_and_deep,
        "efficientnet-widese-b0": (packages.efficientnet_wide_squeeze, "efficientnet_b0", 224),
        "efficientnet-widese-b4": (packages.efficientnet_wide_squeeze, "efficientnet_b4", 380),
    }


def _transformer_rows() -> dict[str, Any]:
    large = {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    }
    seconds = references.CLIP_SECONDS
    base_text = {"d_kv": 64, "num_layers": 12, "num_heads": 12, "d_model": 768, "d_ff": 3072}
    bart = {
        "d_model": 768,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "encoder_ffn_dim": 3072,
        "decoder_ffn_dim": 3072,
        "encoder_attention_heads": 12,
        "decoder_attention_heads": 12,
    }
    albert = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
    rows: dict[str, Any] = {
        "bert-base": (packages.encoder, "Bert", 128),
        "bert-large": partial(packages.encoder, "Bert", 128, **large),
        "roberta-base": (packages.encoder, "Roberta", 128),
        "distilbert-base": (packages.encoder, "DistilBert", 128),
        "roberta-large": partial(packages.encoder, "Roberta", 128, **large),
        "xlm-roberta-base": partial(
            packages.encoder,
            "XLMRoberta",
            128,
            vocab_size=250002,
            max_position_embeddings=514,
            type_vocab_size=1,
        ),
        "albert-base-v2": partial(packages.encoder, "Albert", 128, **albert),
        "t5-base": partial(packages.text_to_text, "T5", 128, **base_text),
        "bart-base": partial(packages.text_to_text, "Bart", 128, **bart),
        "bart-large": (packages.text_to_text, "Bart", 128),
        "wav2vec2-base": (packages.wav2vec2, seconds),
        "wav2vec2-large": partial(packages.wav2vec2, seconds, **large),
        "detr-r50": (packages.detr, RESNET_50),
        "detr-r101": (packages.detr, RESNET_101),
        "conditional-detr-r50": (packages.detr, RESNET_50, "ConditionalDetr"),
        "maskformer-swin-base": partial(
            packages.mask_former,
            "MaskFormer",
            embed_dim=128,
            depths=[2, 2, 18, 2],
            num_heads=[4, 8, 16, 32],
            window_size=12,
        ),
        "mask2former-swin-tiny": (packages.mask_former, "Mask2Former"),
        "segformer-b0": packages.segformer_b0,
        "deeplab-v3-mobilenet-v2": packages.deeplab_mobilenet,
        "sam-vit-h": packages.sam_huge,
        "sam2-hiera-base": packages.sam2_base,
        "owl-vit-base-32": packages.owl_vit,
        "clip-vit-base-32": (packages.clip, 32, 768, 12),
        "clip-vit-base-16": (packages.clip, 16, 768, 12),
        "clip-vit-large-14": (packages.clip, 14, 1024, 24, 768),
        "grounding-dino-tiny": packages.grounding_dino,
        "bridgetower-base": (packages.bridge_tower, 768, 12, 16, 288),
        "bridgetower-large": (packages.bridge_tower, 1024, 24, 14, 294),
        "yolov3-tiny": (packages.yolov5_model, "yolov3-tiny", 416),
        "perceiver-learned": (packages.perceiver, "Learned", 512),
        "perceiver-fourier": (packages.perceiver, "Fourier", 261),
        "perceiver-conv": (packages.perceiver, "ConvProcessing", 322),
    }
    sizes = {
        "tiny": (384, 4, 6),
        "base": (512, 6, 8),
        "small": (768, 12, 12),
        "medium": (1024, 24, 16),
        "large-v2": (1280, 32, 20),
        "large-v3": (1280, 32, 20, 128),
        "large-v3-turbo": (1280, 32, 20, 128),
    }
    return (
        rows
        | {f"whisper-{name}": (packages.whisper, *size) for name, size in sizes.items()}
        | {"distil-whisper-large-v2": (packages.whisper, 1280, 32, 20)}
    )


def _diffusion_rows() -> dict[str, Any]:
    second = {"attention_head_dim": (5, 10, 20, 20), "use_linear_projection": True}
    return {
        "stable-diffusion-1.5": (diffusion.stable_diffusion, 512, 768),
        "stable-diffusion-2.1": partial(diffusion.stable_diffusion, 768, 1024, **second),
        "stable-diffusion-2-base": partial(diffusion.stable_diffusion, 512, 1024, **second),
        "stable-diffusion-2-256": partial(diffusion.stable_diffusion, 256, 1024, **second),
        "sdxl-base-1.0": diffusion.sdxl,
        "stable-diffusion-3-medium": (diffusion.stable_diffusion_3, 24, 154),
        "stable-diffusion-3.5-large": partial(diffusion.stable_diffusion_3, 38, 333, qk_norm="rms_norm"),
        "flux.1-dev": partial(diffusion.flux, guided=True),
        "flux.1-schnell": partial(diffusion.flux, guided=False),
        "dit-xl-2-256": diffusion.dit_xl,
        "pixart-alpha": (diffusion.pixart, 512, 120),
        "amused-512": diffusion.amused,
        "pixart-sigma": (diffusion.pixart, 512, 300),
        "hunyuanvideo": diffusion.hunyuan_video,
        "cogvideox-2b": (diffusion.cogvideox, 13, 480, 720),
        "wan-2.1-14b": diffusion.wan_14b,
        "cogvideox-5b": partial(
            diffusion.cogvideox, 13, 480, 720, **COGVIDEOX_5B, use_learned_positional_embeddings=False
        ),
        "cogvideox-1.5-5b": partial(
            diffusion.cogvideox,
            22,
            768,
            1360,
            **COGVIDEOX_5B,
            patch_size_t=2,
            use_learned_positional_embeddings=False,
            sample_height=300,
            sample_width=300,
            patch_bias=False,
        ),
        # parts of pipelines, printed only
        "decoder-4ch-512": (diffusion.image_decoder, 4, 512),
        "decoder-4ch-768": (diffusion.image_decoder, 4, 768),
        "decoder-4ch-1024": (diffusion.image_decoder, 4, 1024),
        "decoder-4ch-256": (diffusion.image_decoder, 4, 256),
        "decoder-16ch-1024": (diffusion.image_decoder, 16, 1024),
        "clip-l-text": (diffusion.clip_text, 768, 12),
        "openclip-h-text": (diffusion.clip_text, 1024, 23),
        "openclip-bigg-text": (diffusion.clip_text, 1280, 32),
        "t5-xxl-77": (diffusion.t5_xxl, 77),
        "t5-xxl-120": (diffusion.t5_xxl, 120),
        "t5-xxl-226": (diffusion.t5_xxl, 226),
        "t5-xxl-256": (diffusion.t5_xxl, 256),
        "t5-xxl-300": (diffusion.t5_xxl, 300),
        "t5-xxl-512": (diffusion.t5_xxl, 512),
    }


@dataclass(frozen=True, slots=True)
class Count:
    """What one forward pass of one sample takes."""

    params_b: float
    gmacs_per_sample: float
    activations_m: float
    operators: int


def work_of(name: str, args: Sequence[Any], out: Any) -> tuple[float, float, int]:
    """Multiply-adds, output elements and operators of one call of the operator `name`."""
    if name == "convolution":
        source = args[0] if args[6] else out  # transposed: one product per input element
        return source.numel() * args[1].numel() / args[1].shape[0], out.numel(), 1
    if name in {"mm", "bmm"}:
        return out.numel() * args[0].shape[-1], out.numel(), 1
    if name in {"addmm", "baddbmm", "_addmm_activation"}:
        return out.numel() * args[1].shape[-1], out.numel(), 1
    if "scaled_dot_product" in name:
        query, key, value = args[:3]
        rows = query.numel() // query.shape[-1]
        scores = rows * key.shape[-2]
        return scores * (query.shape[-1] + value.shape[-1]), scores + rows * value.shape[-1], 2
    return 0.0, 0.0, 0


def count(module: Any, *args: Any, **kwargs: Any) -> Count:
    """Run `module` once and add up its operators."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    total = [0.0, 0.0, 0]

    class Counter(TorchDispatchMode):
        """Sees each operator that the module calls."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            for index, part in enumerate(work_of(func.overloadpacket.__name__, args, out)):
                total[index] += part
            return out

    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad(), Counter():
        module.eval()(*args, **kwargs)
    params = sum({id(p): p.numel() for p in module.parameters()}.values())
    return Count(params / 1e9, total[0] / 1e9, total[1] / 1e6, int(total[2]))


def count_one(name: str, build: Builder) -> Count:
    """Build a network on the right device and count it."""
    import torch

    with torch.device("cpu" if name in REAL or name.startswith("regnet-y") else "meta"):
        module, args, kwargs = build()
    with torch.device(next(module.parameters()).device):
        return count(module, *args, **kwargs)


def builders(entries: Sequence[Mapping[str, Any]]) -> dict[str, Builder]:
    """Builders by id: TABLE first, then package aliases of the entries."""
    found = table()
    for entry in entries:
        side = entry.get("image_size")
        for alias in entry.get("aliases", ()):
            package, _, name = alias.partition("/")
            if package == "torchvision" and entry["family"] == "detector":
                continue  # their RoI heads need real pictures: TABLE has them by parts
            if package in BY_ALIAS and name and side and entry["id"] not in found:
                number = side[0] if isinstance(side, list) else side["value"]
                found[entry["id"]] = partial(BY_ALIAS[package], name, number)
    return found


def plain(figure: Any) -> float | None:
    """Value of a figure as it is written in the file."""
    if figure is None:
        return None
    return float(figure["value"] if isinstance(figure, dict) else figure[0])


def main(argv: Sequence[str] | None = None) -> int:
    """Print the counts; the exit code."""
    parser = argparse.ArgumentParser(description="Count published networks.")
    parser.add_argument("ids", nargs="*", help="ids of data/models.yaml (all without)")
    parser.add_argument("--compare", action="store_true", help="print only what differs by more than 5 %%")
    chosen = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    entries = yaml.load(MODELS.read_text("utf-8"), yaml.CSafeLoader)
    known = builders(entries)
    stated = {entry["id"]: entry for entry in entries}
    if unknown := [name for name in chosen.ids if name not in known]:
        print(f"no way to build {', '.join(unknown)}", file=sys.stderr)
        return 2
    for name in chosen.ids or known:
        result = count_one(name, known[name])
        for key in Count.__slots__:
            value = getattr(result, key)
            before = plain(stated.get(name, {}).get(key))
            if not chosen.compare:
                print(f"{name}: {key}: {value:.9g}", flush=True)
            elif before and abs(value / before - 1) > 0.05:
                print(f"{name}: {key}: counted {value:.4g}, stated {before:.4g}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
