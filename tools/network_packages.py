"""Networks that packages build, for tools/count_networks.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Built = tuple[Any, tuple[Any, ...], dict[str, Any]]  # module, arguments, keyword arguments


def picture(height: int, width: int | None = None) -> Any:
    """One RGB picture."""
    import torch

    return torch.rand(1, 3, height, width or height)


def network(run: Callable[..., Any], *parts: Any) -> Any:
    """A module that owns `parts` and whose forward pass is `run(*inputs)`."""
    from torch import nn

    class Network(nn.Module):
        """Named parts and a function."""

        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(parts)

        def forward(self, *inputs: Any) -> Any:
            """Run the parts."""
            return run(*inputs)

    return Network()


def timm_model(name: str, side: int) -> Built:
    """A network of timm."""
    import timm

    extra = {"img_size": side} if "dinov2" in name else {}  # built for 518 pixels otherwise
    return timm.create_model(name, **extra), (picture(side),), {}


def torchvision_model(name: str, side: int) -> Built:
    """A classifier or segmentation network of torchvision."""
    import torchvision

    extra: dict[str, Any] = {"weights_backbone": None} if "deeplab" in name else {}
    if name.startswith("vit_"):
        extra = {"image_size": side}
    return torchvision.models.get_model(name, **extra), (picture(side),), {}


def ultralytics_model(name: str, side: int) -> Built:
    """A detector of ultralytics, on the processor: its head needs real tensors."""
    import torch
    from ultralytics.nn.tasks import DetectionModel

    with torch.device("cpu"):
        return DetectionModel(f"{name}.yaml", verbose=False), (picture(side),), {}


def yolov5_model(name: str, side: int) -> Built:
    """A network of the yolov5 package; `-cls` is cut from the detector as its own script does."""
    import torch
    import yolov5.models.yolo as zoo

    folder = Path(zoo.__file__).parent
    base = name.removesuffix("-cls")
    files = [folder / f"{base}.yaml", folder / "hub" / f"{base}.yaml", folder / "segment" / f"{base}.yaml"]
    kind = zoo.SegmentationModel if name.endswith("-seg") else zoo.DetectionModel
    with torch.device("cpu"):
        model = kind(str(next(path for path in files if path.exists())))
        if name.endswith("-cls"):
            model = zoo.ClassificationModel(model=model, nc=1000, cutoff=10)
        return model, (picture(side),), {}


def rfdetr_model(name: str, side: int) -> Built:
    """A detector of rfdetr, from the configuration class of that name."""
    import rfdetr.config
    from rfdetr.models.lwdetr import build_model_from_config

    config = getattr(rfdetr.config, name)(pretrain_weights=None, device="cpu")
    return build_model_from_config(config), (picture(side),), {}


def effdet_model(name: str, side: int) -> Built:
    """EfficientDet of effdet."""
    import effdet

    config = effdet.get_efficientdet_config(name)
    return effdet.EfficientDet(config, pretrained_backbone=False), (picture(side),), {}


def tokens(length: int) -> Any:
    """One sequence of token ids."""
    import torch

    return torch.zeros(1, length, dtype=torch.long)


def efficientnet_wide_squeeze(name: str, side: int) -> Built:
    """EfficientNet whose squeeze layers take a quarter of the expanded width (NVIDIA's widese)."""
    import timm
    from timm.models import _efficientnet_builder as builder

    plain = builder.EfficientNetBuilder.__init__

    def wide(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **{**kwargs, "se_from_exp": True})

    builder.EfficientNetBuilder.__init__ = wide
    try:
        return timm.create_model(name), (picture(side),), {}
    finally:
        builder.EfficientNetBuilder.__init__ = plain


# transformers


def encoder(kind: str, length: int, **config: Any) -> Built:
    """A text encoder of transformers."""
    import transformers

    settings = getattr(transformers, f"{kind}Config")(**config)
    return getattr(transformers, f"{kind}Model")(settings), (tokens(length),), {}


def text_to_text(kind: str, length: int, **config: Any) -> Built:
    """An encoder-decoder of transformers, the same length on both sides."""
    import transformers

    settings = getattr(transformers, f"{kind}Config")(**config)
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(settings)
    return model, (), {"input_ids": tokens(length), "decoder_input_ids": tokens(length)}


def whisper(width: int, layers: int, heads: int, mels: int = 80) -> Built:
    """The encoder of Whisper on 30 s."""
    import torch
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=width,
        encoder_layers=layers,
        encoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        num_mel_bins=mels,
    )
    return WhisperEncoder(config), (torch.rand(1, mels, 3000),), {}


def wav2vec2(seconds: float, **config: Any) -> Built:
    """wav2vec 2.0 without a head, 16 kHz."""
    import torch
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    return Wav2Vec2Model(Wav2Vec2Config(**config)), (torch.rand(1, round(seconds * 16000)),), {}


def detr(depths: list[int], kind: str = "Detr") -> Built:
    """DETR or Conditional DETR on a ResNet, 800 x 1066."""
    import transformers

    trunk = transformers.ResNetConfig(depths=depths, out_features=["stage4"])
    config = getattr(transformers, f"{kind}Config")(
        use_timm_backbone=False, backbone=None, use_pretrained_backbone=False, backbone_config=trunk
    )
    return getattr(transformers, f"{kind}ForObjectDetection")(config), (picture(800, 1066),), {}


def mask_former(kind: str, **swin: Any) -> Built:
    """MaskFormer or Mask2Former on a Swin, 800 x 1088."""
    import transformers

    trunk = transformers.SwinConfig(out_features=["stage1", "stage2", "stage3", "stage4"], **swin)
    config = getattr(transformers, f"{kind}Config")(backbone_config=trunk)
    model = "ForInstanceSegmentation" if kind == "MaskFormer" else "ForUniversalSegmentation"
    return getattr(transformers, kind + model)(config), (picture(800, 1088),), {}


def segformer_b0() -> Built:
    """SegFormer-B0 with the 150 classes of ADE20K."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    return SegformerForSemanticSegmentation(SegformerConfig(num_labels=150)), (picture(512),), {}


def deeplab_mobilenet() -> Built:
    """DeepLabV3+ on MobileNetV2, output stride 8, the 21 classes of Pascal VOC."""
    from transformers import MobileNetV2Config, MobileNetV2ForSemanticSegmentation

    config = MobileNetV2Config(num_labels=21, output_stride=8, image_size=513)
    return MobileNetV2ForSemanticSegmentation(config), (picture(513),), {}


def sam_huge() -> Built:
    """SAM on ViT-H with one point."""
    import torch
    from transformers import SamConfig, SamModel

    vision = {"hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 16, "mlp_dim": 5120,
              "global_attn_indexes": [7, 15, 23, 31]}  # fmt: skip
    inputs = {"pixel_values": picture(1024), "input_points": torch.zeros(1, 1, 1, 2)}
    return SamModel(SamConfig(vision_config=vision)), (), inputs


def sam2_base() -> Built:
    """SAM 2.1 on Hiera B+ with one point, one picture (no memory)."""
    import torch
    from transformers import Sam2Config, Sam2Model

    trunk = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": 112,
        "num_attention_heads": 2,
        "blocks_per_stage": [2, 3, 16, 3],
        "embed_dim_per_stage": [112, 224, 448, 896],
        "num_attention_heads_per_stage": [2, 4, 8, 16],
        "window_size_per_stage": [8, 4, 14, 7],
        "global_attention_blocks": [12, 16, 20],
        "window_positional_embedding_background_size": [14, 14],
    }
    vision = {"backbone_config": trunk, "backbone_channel_list": [896, 448, 224, 112]}
    points = {"input_points": torch.zeros(1, 1, 1, 2), "input_labels": torch.ones(1, 1, 1, dtype=torch.int32)}
    return Sam2Model(Sam2Config(vision_config=vision)), (), {"pixel_values": picture(1024), **points}


def clip(patch: int, width: int, layers: int, text_width: int = 512) -> Built:
    """Both towers of CLIP: one picture and one text of 77 tokens."""
    from transformers import CLIPConfig, CLIPModel

    vision = {
        "patch_size": patch,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "intermediate_size": 4 * width,
        "num_attention_heads": width // 64,
    }
    text = {
        "hidden_size": text_width,
        "num_attention_heads": text_width // 64,
        "intermediate_size": 4 * text_width,
    }
    model = CLIPModel(CLIPConfig(vision_config=vision, text_config=text, projection_dim=text_width))
    return model, (), {"pixel_values": picture(224), "input_ids": tokens(77), "attention_mask": None}


def owl_vit() -> Built:
    """OWL-ViT B/32 with one query of 16 tokens."""
    from transformers import OwlViTConfig, OwlViTForObjectDetection

    inputs = {"pixel_values": picture(768), "input_ids": tokens(16), "attention_mask": None}
    return OwlViTForObjectDetection(OwlViTConfig()), (), inputs


def grounding_dino() -> Built:
    """Grounding DINO as the package's defaults build it, 800 x 1066, eight text tokens."""
    from transformers import GroundingDinoConfig, GroundingDinoForObjectDetection

    model = GroundingDinoForObjectDetection(GroundingDinoConfig())
    return model, (), {"pixel_values": picture(800, 1066), "input_ids": tokens(8)}


def bridge_tower(width: int, layers: int, patch: int, side: int) -> Built:
    """BridgeTower with six cross layers and a text of 50 tokens."""
    import torch
    from transformers import BridgeTowerConfig, BridgeTowerModel

    shape = {"hidden_size": width, "num_attention_heads": width // 64, "intermediate_size": 4 * width}
    vision = {"hidden_size": width, "num_hidden_layers": layers, "patch_size": patch, "image_size": side}
    config = BridgeTowerConfig(
        vision_config=vision, text_config={**shape, "num_hidden_layers": layers}, **shape
    )
    inputs = {"input_ids": tokens(50), "attention_mask": torch.ones(1, 50), "pixel_values": picture(side)}
    return BridgeTowerModel(config), (), {**inputs, "pixel_mask": torch.ones(1, side, side)}


def perceiver(kind: str, width: int) -> Built:
    """Perceiver IO for ImageNet, dimensions of the conversion script of transformers."""
    import transformers

    config = transformers.PerceiverConfig(
        image_size=224, num_latents=512, d_latents=1024, d_model=width, num_blocks=8,
        num_self_attends_per_block=6, num_self_attention_heads=8, num_cross_attention_heads=1,
        num_labels=1000,
    )  # fmt: skip
    return getattr(transformers, f"PerceiverForImageClassification{kind}")(config), (picture(224),), {}
