"""Vision transformers: an image as a sequence of patches."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ... import _assert, cat, nn
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F
from ..ops.misc import MLP, Conv2dNormActivation
from ._api import builder, entry, override, weights_enum

__all__ = [
    "ViT_B_16_Weights", "ViT_B_32_Weights", "ViT_H_14_Weights", "ViT_L_16_Weights", "ViT_L_32_Weights",
    "VisionTransformer", "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32",
]  # fmt: skip

Norm = Callable[..., nn.Module]
_NORM = partial(nn.LayerNorm, eps=1e-6)


class ConvStemConfig(NamedTuple):
    """One convolution of a stem that takes the place of the cut into patches."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Norm = nn.BatchNorm2d
    activation_layer: Norm = nn.ReLU


class MLPBlock(MLP):
    """The perceptron of an encoder layer; files of version 1 call its layers linear_1 and linear_2."""

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.normal_(m.bias, std=1e-6)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        if (local_metadata.get("version") or 1) < 2:
            for old, new in (("linear_1", "0"), ("linear_2", "3")):
                for kind in ("weight", "bias"):
                    if f"{prefix}{old}.{kind}" in state_dict:
                        state_dict[f"{prefix}{new}.{kind}"] = state_dict.pop(f"{prefix}{old}.{kind}")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class EncoderBlock(nn.Module):
    """Self-attention, then a perceptron, each after a norm and beside a shortcut."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Norm = _NORM,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:  # (N, S, E)
        _assert(input.dim() == 3, f"Expected (batch_size, seq_length, hidden_dim) got {input.shape}")
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Position embeddings and the encoder layers."""

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Norm = _NORM,
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(ops.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        block = partial(EncoderBlock, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        self.layers = nn.Sequential(OrderedDict((f"encoder_layer_{i}", block()) for i in range(num_layers)))
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        _assert(input.dim() == 3, f"Expected (batch_size, seq_length, hidden_dim) got {input.shape}")
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """A transformer over the patches of an image, with a class token in front of them.

    >>> import flambeau as torch
    >>> VisionTransformer(8, 4, 1, 2, 8, 16, num_classes=3)(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Norm = _NORM,
        conv_stem_configs: list[ConvStemConfig] | None = None,
    ) -> None:
        super().__init__()
        _assert(image_size % patch_size == 0, "Input shape indivisible by patch size!")
        self.image_size = image_size
        self.patch_size = patch_size
        self.hidden_dim = hidden_dim
        self.mlp_dim = mlp_dim
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.num_classes = num_classes
        self.representation_size = representation_size
        self.norm_layer = norm_layer
        if conv_stem_configs is None:
            self.conv_proj: nn.Module = nn.Conv2d(3, hidden_dim, patch_size, stride=patch_size)
        else:
            self.conv_proj = _stem(conv_stem_configs, hidden_dim)
        seq_length = (image_size // patch_size) ** 2 + 1
        self.class_token = nn.Parameter(ops.zeros(1, 1, hidden_dim))
        self.encoder = Encoder(
            seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
        )
        self.seq_length = seq_length
        heads: OrderedDict[str, nn.Module] = OrderedDict()
        if representation_size is None:
            heads["head"] = nn.Linear(hidden_dim, num_classes)
        else:
            heads["pre_logits"] = nn.Linear(hidden_dim, representation_size)
            heads["act"] = nn.Tanh()
            heads["head"] = nn.Linear(representation_size, num_classes)
        self.heads = nn.Sequential(heads)
        self._initialise()

    def _initialise(self) -> None:
        last = self.conv_proj
        if isinstance(last, nn.Conv2d):  # as the linear map of a patch that it is
            fan_in = last.in_channels * last.kernel_size[0] * last.kernel_size[1]
            nn.init.trunc_normal_(last.weight, std=math.sqrt(1 / fan_in))
        else:
            last = last.conv_last
            nn.init.normal_(last.weight, mean=0.0, std=math.sqrt(2.0 / last.out_channels))
        if last.bias is not None:
            nn.init.zeros_(last.bias)
        if hasattr(self.heads, "pre_logits"):
            fan_in = self.heads.pre_logits.in_features
            nn.init.trunc_normal_(self.heads.pre_logits.weight, std=math.sqrt(1 / fan_in))
            nn.init.zeros_(self.heads.pre_logits.bias)
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def _process_input(self, x: Tensor) -> Tensor:
        n, _, height, width = x.shape
        size, patch = self.image_size, self.patch_size
        _assert(height == size, f"Wrong image height! Expected {size} but got {height}!")
        _assert(width == size, f"Wrong image width! Expected {size} but got {width}!")
        x = self.conv_proj(x).reshape(n, self.hidden_dim, (height // patch) * (width // patch))
        return x.permute(0, 2, 1)  # (N, S, E)

    def forward(self, x: Tensor) -> Tensor:
        x = self._process_input(x)
        token = self.class_token.expand(x.shape[0], -1, -1)
        return self.heads(self.encoder(cat([token, x], 1))[:, 0])


def _stem(configs: list[ConvStemConfig], hidden_dim: int) -> nn.Sequential:
    stem = nn.Sequential()
    channels = 3
    for i, cnf in enumerate(configs):
        layer = Conv2dNormActivation(
            channels,
            cnf.out_channels,
            cnf.kernel_size,
            cnf.stride,
            norm_layer=cnf.norm_layer,
            activation_layer=cnf.activation_layer,
        )
        stem.add_module(f"conv_bn_relu_{i}", layer)
        channels = cnf.out_channels
    stem.add_module("conv_last", nn.Conv2d(channels, hidden_dim, 1))
    return stem


def _vit(image_size: int = 224, **kwargs: Any) -> VisionTransformer:
    return VisionTransformer(image_size, **kwargs)


def _image_size(chosen: Any, kwargs: dict[str, Any]) -> None:
    override(kwargs, "image_size", chosen.meta["min_size"][0])


def interpolate_embeddings(
    image_size: int,
    patch_size: int,
    model_state: Mapping[str, Tensor],
    interpolation_mode: str = "bicubic",
    reset_heads: bool = False,
) -> Mapping[str, Tensor]:
    """The weights of a vision transformer for another image size: its position embeddings are resized."""
    embedding = model_state["encoder.pos_embedding"]
    n, seq_length, hidden_dim = embedding.shape
    if n != 1:
        raise ValueError(f"Unexpected position embedding shape: {embedding.shape}")
    wanted = (image_size // patch_size) ** 2 + 1
    if wanted == seq_length:
        return model_state
    side, new_side = math.isqrt(seq_length - 1), image_size // patch_size
    if side * side != seq_length - 1:
        raise ValueError(f"seq_length is not a perfect square! Instead got seq_length = {seq_length - 1}")
    token, image = embedding[:, :1], embedding[:, 1:].permute(0, 2, 1).reshape(1, hidden_dim, side, side)
    image = F.interpolate(image, size=new_side, mode=interpolation_mode, align_corners=True)
    image = image.reshape(1, hidden_dim, new_side * new_side).permute(0, 2, 1)
    state = {k: v for k, v in model_state.items() if not (reset_heads and k.startswith("heads"))}
    state["encoder.pos_embedding"] = cat([token, image], 1)
    return state


ViT_B_16_Weights = weights_enum(
    "ViT_B_16_Weights",
    IMAGENET1K_V1=entry("vit_b_16-c867db91.pth", 86567656, 81.072, 95.318, smallest=224),
    IMAGENET1K_SWAG_E2E_V1=entry(
        "vit_b_16_swag-9ac1b537.pth",
        86859496,
        85.304,
        97.65,
        smallest=384,
        crop_size=384,
        resize_size=384,
        interpolation="bicubic",
    ),
    IMAGENET1K_SWAG_LINEAR_V1=entry(
        "vit_b_16_lc_swag-4e70ced5.pth", 86567656, 81.886, 96.18, smallest=224, resize_size=224, interpolation="bicubic"
    ),
    default="IMAGENET1K_V1",
)
ViT_B_32_Weights = weights_enum(
    "ViT_B_32_Weights", IMAGENET1K_V1=entry("vit_b_32-d86f8d99.pth", 88224232, 75.912, 92.466, smallest=224)
)
ViT_L_16_Weights = weights_enum(
    "ViT_L_16_Weights",
    IMAGENET1K_V1=entry("vit_l_16-852ce7e3.pth", 304326632, 79.662, 94.638, smallest=224, resize_size=242),
    IMAGENET1K_SWAG_E2E_V1=entry(
        "vit_l_16_swag-4f3808c9.pth",
        305174504,
        88.064,
        98.512,
        smallest=512,
        crop_size=512,
        resize_size=512,
        interpolation="bicubic",
    ),
    IMAGENET1K_SWAG_LINEAR_V1=entry(
        "vit_l_16_lc_swag-4d563306.pth",
        304326632,
        85.146,
        97.422,
        smallest=224,
        resize_size=224,
        interpolation="bicubic",
    ),
    default="IMAGENET1K_V1",
)
ViT_L_32_Weights = weights_enum(
    "ViT_L_32_Weights", IMAGENET1K_V1=entry("vit_l_32-c7638314.pth", 306535400, 76.972, 93.07, smallest=224)
)
ViT_H_14_Weights = weights_enum(
    "ViT_H_14_Weights",
    IMAGENET1K_SWAG_E2E_V1=entry(
        "vit_h_14_swag-80465313.pth",
        633470440,
        88.552,
        98.694,
        smallest=518,
        crop_size=518,
        resize_size=518,
        interpolation="bicubic",
    ),
    IMAGENET1K_SWAG_LINEAR_V1=entry(
        "vit_h_14_lc_swag-c1eb923e.pth",
        632045800,
        85.708,
        97.73,
        smallest=224,
        resize_size=224,
        interpolation="bicubic",
    ),
    default="IMAGENET1K_SWAG_E2E_V1",
)

_BASE = {"num_layers": 12, "num_heads": 12, "hidden_dim": 768, "mlp_dim": 3072}
_LARGE = {"num_layers": 24, "num_heads": 16, "hidden_dim": 1024, "mlp_dim": 4096}
_HUGE = {"num_layers": 32, "num_heads": 16, "hidden_dim": 1280, "mlp_dim": 5120}
vit_b_16 = builder("vit_b_16", ViT_B_16_Weights, _vit, adapt=_image_size, patch_size=16, **_BASE)
vit_b_32 = builder("vit_b_32", ViT_B_32_Weights, _vit, adapt=_image_size, patch_size=32, **_BASE)
vit_l_16 = builder("vit_l_16", ViT_L_16_Weights, _vit, adapt=_image_size, patch_size=16, **_LARGE)
vit_l_32 = builder("vit_l_32", ViT_L_32_Weights, _vit, adapt=_image_size, patch_size=32, **_LARGE)
vit_h_14 = builder("vit_h_14", ViT_H_14_Weights, _vit, adapt=_image_size, patch_size=14, **_HUGE)
