"""Denoisers, image decoders and text encoders of generated images and video, for tools/count_networks.py."""

from __future__ import annotations

from typing import Any

from network_packages import Built, tokens


def stable_diffusion(side: int, text_width: int, **config: Any) -> Built:
    """U-Net of Stable Diffusion 1 or 2 on one latent with 77 text tokens."""
    import torch
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(sample_size=side // 8, cross_attention_dim=text_width, **config)
    latent = torch.rand(1, 4, side // 8, side // 8)
    return model, (latent, torch.zeros(1), torch.rand(1, 77, text_width)), {}


def sdxl() -> Built:
    """U-Net of SDXL at 1024."""
    import torch
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=128,
        block_out_channels=(320, 640, 1280),
        transformer_layers_per_block=(1, 2, 10),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=(5, 10, 20),
        cross_attention_dim=2048,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
        use_linear_projection=True,
    )
    extra = {"text_embeds": torch.rand(1, 1280), "time_ids": torch.rand(1, 6)}
    inputs = (torch.rand(1, 4, 128, 128), torch.zeros(1), torch.rand(1, 77, 2048))
    return model, inputs, {"added_cond_kwargs": extra}


def stable_diffusion_3(layers: int, text_tokens: int, **config: Any) -> Built:
    """Transformer of Stable Diffusion 3 at 1024; one head of 64 per layer."""
    import torch
    from diffusers import SD3Transformer2DModel

    model = SD3Transformer2DModel(
        sample_size=128, num_layers=layers, num_attention_heads=layers, joint_attention_dim=4096,
        caption_projection_dim=64 * layers, pooled_projection_dim=2048, pos_embed_max_size=192, **config,
    )  # fmt: skip
    inputs = {
        "hidden_states": torch.rand(1, 16, 128, 128),
        "encoder_hidden_states": torch.rand(1, text_tokens, 4096),
    }
    return model, (), {**inputs, "pooled_projections": torch.rand(1, 2048), "timestep": torch.zeros(1)}


def flux(*, guided: bool) -> Built:
    """Transformer of FLUX.1 at 1024; `guided` has the guidance embedding of the dev model."""
    import torch
    from diffusers import FluxTransformer2DModel

    inputs = {
        "hidden_states": torch.rand(1, 4096, 64),
        "encoder_hidden_states": torch.rand(1, 512, 4096),
        "pooled_projections": torch.rand(1, 768),
        "timestep": torch.zeros(1),
        "img_ids": torch.rand(4096, 3),
        "txt_ids": torch.rand(512, 3),
        "guidance": torch.zeros(1) if guided else None,
    }
    return FluxTransformer2DModel(guidance_embeds=guided), (), inputs


def image_decoder(channels: int, side: int) -> Built:
    """Decoder of the image autoencoder of Stable Diffusion (4 latent channels), SD 3 and FLUX (16)."""
    import torch
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=channels,
        down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
    )  # fmt: skip
    return model.decoder, (torch.rand(1, channels, side // 8, side // 8),), {}


def clip_text(width: int, layers: int) -> Built:
    """Text tower of CLIP or OpenCLIP, 77 tokens."""
    from transformers import CLIPTextConfig, CLIPTextModel

    config = CLIPTextConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
    )
    return CLIPTextModel(config), (tokens(77),), {"attention_mask": None}


def t5_xxl(length: int) -> Built:
    """Encoder of T5 v1.1 XXL."""
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        d_model=4096, d_kv=64, d_ff=10240, num_layers=24, num_heads=64, feed_forward_proj="gated-gelu"
    )
    return T5EncoderModel(config), (tokens(length),), {}


def dit_xl() -> Built:
    """DiT-XL/2 at 256."""
    import torch
    from diffusers import DiTTransformer2DModel

    zero = torch.zeros(1, dtype=torch.long)
    return DiTTransformer2DModel(), (torch.rand(1, 4, 32, 32),), {"timestep": zero, "class_labels": zero}


def pixart(side: int, text_tokens: int) -> Built:
    """PixArt at `side` x `side`, without size conditions."""
    import torch
    from diffusers import PixArtTransformer2DModel

    model = PixArtTransformer2DModel(
        sample_size=side // 8,
        caption_channels=4096,
        cross_attention_dim=1152,
        use_additional_conditions=False,
    )
    sizes = {"resolution": None, "aspect_ratio": None}
    inputs = {"encoder_hidden_states": torch.rand(1, text_tokens, 4096), "timestep": torch.zeros(1)}
    return model, (torch.rand(1, 4, side // 8, side // 8),), {**inputs, "added_cond_kwargs": sizes}


def hunyuan_video() -> Built:
    """HunyuanVideo, 129 frames of 720 x 1280, 256 text tokens."""
    import torch
    from diffusers import HunyuanVideoTransformer3DModel

    inputs = {"hidden_states": torch.rand(1, 16, 33, 90, 160), "timestep": torch.zeros(1),
              "encoder_hidden_states": torch.rand(1, 256, 4096), "encoder_attention_mask": torch.ones(1, 256),
              "pooled_projections": torch.rand(1, 768), "guidance": torch.zeros(1)}  # fmt: skip
    return HunyuanVideoTransformer3DModel(), (), inputs


def cogvideox(frames: int, height: int, width: int, **config: Any) -> Built:
    """CogVideoX on `frames` latent frames."""
    import torch
    from diffusers import CogVideoXTransformer3DModel

    inputs = {"hidden_states": torch.rand(1, frames, 16, height // 8, width // 8), "timestep": torch.zeros(1),
              "encoder_hidden_states": torch.rand(1, 226, 4096)}  # fmt: skip
    if config.get("use_rotary_positional_embeddings"):
        count = frames // (config.get("patch_size_t") or 1) * (height // 16) * (width // 16)
        inputs["image_rotary_emb"] = (torch.rand(count, 64), torch.rand(count, 64))
    return CogVideoXTransformer3DModel(**config), (), inputs


def wan_14b() -> Built:
    """Wan 2.1 14B, 81 frames of 480 x 832."""
    import torch
    from diffusers import WanTransformer3DModel

    return (
        WanTransformer3DModel(),
        (torch.rand(1, 16, 21, 60, 104), torch.zeros(1), torch.rand(1, 512, 4096)),
        {},
    )


def amused() -> Built:
    """AMUSEd at 512: 32 x 32 image tokens and 77 text tokens."""
    import torch
    from diffusers import UVit2DModel

    inputs = (tokens(1024).reshape(1, 32, 32), torch.rand(1, 77, 768), torch.rand(1, 768), torch.rand(1, 5))
    return UVit2DModel(), inputs, {}
