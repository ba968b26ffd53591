"""Functions of `nn.functional` that are no single operator, in TorchScript: what a program that calls them takes into itself.

They are ordinary Python over operators (`aten`), written by the emitter from their source under the names that PyTorch's files have
for them. What is an operator itself stands in no list: its call follows the operator's schema.
"""

# ruff: noqa: B006  (defaults are texts here: nobody writes to them)

from __future__ import annotations

import math
from typing import Annotated, Any, TypeAlias

from .._core.dtypes import dtype as Dtype
from .._library.namespaces import ops
from .._tensor import Tensor

aten: Any = ops.aten
# Lists that a single number stands for, as many times as the type says.
Sizes1: TypeAlias = Annotated[list[int], 1]
Sizes2: TypeAlias = Annotated[list[int], 2]
Sizes3: TypeAlias = Annotated[list[int], 3]
Factors1: TypeAlias = Annotated[list[float], 1]
Factors2: TypeAlias = Annotated[list[float], 2]
Factors3: TypeAlias = Annotated[list[float], 3]


# -- activations -----------------------------------------------------------------------------------------------------


def logsigmoid(input: Tensor) -> Tensor:
    return aten.log_sigmoid(input)


def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()


def usual_dim(rank: int) -> int:
    """The dimension that a softmax without one takes."""
    return 0 if rank == 0 or rank == 1 or rank == 3 else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None) -> Tensor:
    along = usual_dim(input.dim()) if dim is None else dim
    return aten.softmax(input, along, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None) -> Tensor:
    along = usual_dim(input.dim()) if dim is None else dim
    return aten.log_softmax(input, along, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None) -> Tensor:
    along = usual_dim(input.dim()) if dim is None else dim
    return aten.softmax(-input, along, dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:  # fmt: skip
    noise = -aten.empty_like(logits).exponential_().log()
    soft = aten.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    places = soft.argmax(dim, keepdim=True)
    chosen = aten.zeros_like(logits).scatter_(dim, places, 1.0)
    return chosen - soft.detach() + soft


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return aten.dropout_(input, p, training) if inplace else aten.dropout(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    return aten.alpha_dropout_(input, p, training) if inplace else aten.alpha_dropout(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    if inplace:
        return aten.feature_alpha_dropout_(input, p, training)
    return aten.feature_alpha_dropout(input, p, training)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return aten.feature_dropout_(input, p, training) if inplace else aten.feature_dropout(input, p, training)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if input.dim() == 2:  # one sample
        return dropout2d(input.unsqueeze(0), p, training, inplace).squeeze(0)
    return dropout2d(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if input.dim() == 4:
        return dropout2d(input.unsqueeze(0), p, training, inplace).squeeze(0)
    return dropout2d(input, p, training, inplace)


# -- norms and tables ------------------------------------------------------------------------------------------------


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    if training and input.numel() == input.size(1):
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
    return aten.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    if use_input_stats and input.numel() == input.size(0) * input.size(1):
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return aten.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:  # fmt: skip
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    # channels are the rows of one plane for each sample, whatever comes behind them
    squares = (input * input).reshape([input.size(0), 1, input.size(1), -1])
    padded = aten.pad(squares, [0, 0, size // 2, (size - 1) // 2])
    mean = aten.avg_pool2d(padded, [size, 1], [1, 1]).reshape(input.size())
    return input / (mean * alpha + k).pow(beta)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    length = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / length if out is None else aten.div(input, length, out=out)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    place = -1
    if padding_idx is not None:
        place = padding_idx + weight.size(0) if padding_idx < 0 else padding_idx
    places = input
    if max_norm is not None:
        places = input.contiguous()
        aten.embedding_renorm_(weight.detach(), places, max_norm, norm_type)
    return aten.embedding(weight, places, place, scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    if mode == "sum":
        kind = 0
    elif mode == "mean":
        kind = 1
    elif mode == "max":
        kind = 2
    else:
        raise ValueError("mode has to be one of sum or mean")
    factors = per_sample_weights
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated as a mini-batch")
        starts = aten.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        if factors is not None:
            factors = factors.reshape([-1])
    elif offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    else:
        starts = offsets
    places = input.reshape([-1])
    if max_norm is not None:
        aten.embedding_renorm_(weight.detach(), places, max_norm, norm_type)
    return aten.embedding_bag(
        weight, places, starts, scale_grad_by_freq, kind, sparse, factors, include_last_offset, padding_idx
    )[0]


# -- images ----------------------------------------------------------------------------------------------------------


def affine_grid(theta: Tensor, size: list[int], align_corners: bool | None = None) -> Tensor:
    return aten.affine_grid_generator(theta, size, False if align_corners is None else align_corners)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    if mode == "bilinear":
        kind = 0
    elif mode == "nearest":
        kind = 1
    elif mode == "bicubic":
        kind = 2
    else:
        raise ValueError(f"grid_sample: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode == "zeros":
        outside = 0
    elif padding_mode == "border":
        outside = 1
    elif padding_mode == "reflection":
        outside = 2
    else:
        raise ValueError(
            f"grid_sample: expected padding_mode to be 'zeros', 'border' or 'reflection', but got: '{padding_mode}'"
        )
    return aten.grid_sampler(input, grid, kind, outside, False if align_corners is None else align_corners)


def interpolate(
    input: Tensor, size: Sizes1 | None = None, scale_factor: Factors1 | None = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    rank = input.dim() - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined")
    sizes: list[int] | None = None
    factors: list[float] | None = None
    if size is not None:
        sizes = size * rank if len(size) == 1 else size
        if len(sizes) != rank:
            raise ValueError(f"Input and output must have the same number of spatial dimensions: {rank}, {sizes}")
    if scale_factor is not None:
        given = scale_factor * rank if len(scale_factor) == 1 else scale_factor
        if len(given) != rank:
            raise ValueError(f"Input and scale_factor must have the same number of spatial dimensions: {rank}, {given}")
        if mode == "area" or (recompute_scale_factor is not None and recompute_scale_factor):
            sizes = [math.floor(float(input.size(i + 2)) * given[i]) for i in range(rank)]
        else:
            factors = given
    corners = False if align_corners is None else align_corners
    if sizes is not None and mode == "area":
        if rank == 1:
            return aten.adaptive_avg_pool1d(input, sizes)
        if rank == 2:
            return aten.adaptive_avg_pool2d(input, sizes)
        return aten.adaptive_avg_pool3d(input, sizes)
    if antialias:
        if rank == 2 and mode == "bilinear":
            return aten._upsample_bilinear2d_aa(input, sizes, corners, factors)
        if rank == 2 and mode == "bicubic":
            return aten._upsample_bicubic2d_aa(input, sizes, corners, factors)
        raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor")
    if mode == "nearest":
        if rank == 1:
            return aten.upsample_nearest1d(input, sizes, factors)
        if rank == 2:
            return aten.upsample_nearest2d(input, sizes, factors)
        return aten.upsample_nearest3d(input, sizes, factors)
    if mode == "nearest-exact":
        if rank == 1:
            return aten._upsample_nearest_exact1d(input, sizes, factors)
        if rank == 2:
            return aten._upsample_nearest_exact2d(input, sizes, factors)
        return aten._upsample_nearest_exact3d(input, sizes, factors)
    if mode == "linear" and rank == 1:
        return aten.upsample_linear1d(input, sizes, corners, factors)
    if mode == "bilinear" and rank == 2:
        return aten.upsample_bilinear2d(input, sizes, corners, factors)
    if mode == "bicubic" and rank == 2:
        return aten.upsample_bicubic2d(input, sizes, corners, factors)
    if mode == "trilinear" and rank == 3:
        return aten.upsample_trilinear3d(input, sizes, corners, factors)
    raise NotImplementedError(f"Got {input.dim()}D input for the interpolation mode {mode}")


def upsample(
    input: Tensor, size: Sizes1 | None = None, scale_factor: Factors1 | None = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Sizes1 | None = None, scale_factor: Factors1 | None = None) -> Tensor:
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Sizes1 | None = None, scale_factor: Factors1 | None = None) -> Tensor:
    return interpolate(input, size, scale_factor, "bilinear", True)


def unfold(
    input: Tensor, kernel_size: Sizes2, dilation: Sizes2 = [1, 1], padding: Sizes2 = [0, 0], stride: Sizes2 = [1, 1]
) -> Tensor:
    return aten.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor, output_size: Sizes2, kernel_size: Sizes2, dilation: Sizes2 = [1, 1], padding: Sizes2 = [0, 0],
    stride: Sizes2 = [1, 1],
) -> Tensor:  # fmt: skip
    return aten.col2im(input, output_size, kernel_size, dilation, padding, stride)


# -- pooling ---------------------------------------------------------------------------------------------------------


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Sizes1) -> tuple[Tensor, Tensor]:
    return aten.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Sizes2) -> tuple[Tensor, Tensor]:
    return aten.adaptive_max_pool2d(input, output_size)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Sizes3) -> tuple[Tensor, Tensor]:
    return aten.adaptive_max_pool3d(input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Sizes1) -> Tensor:
    return aten.adaptive_max_pool1d(input, output_size)[0]


def adaptive_max_pool2d(input: Tensor, output_size: Sizes2) -> Tensor:
    return aten.adaptive_max_pool2d(input, output_size)[0]


def adaptive_max_pool3d(input: Tensor, output_size: Sizes3) -> Tensor:
    return aten.adaptive_max_pool3d(input, output_size)[0]


def root_of_sums(mean: Tensor, count: int, p: float) -> Tensor:
    """What pooling by powers makes of the means of windows of powers."""
    return (mean.sign() * mean.abs().relu() * count).pow(1.0 / p)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Sizes1 | None = None, ceil_mode: bool = False
) -> Tensor:
    steps = [kernel_size] if stride is None else stride
    mean = aten.avg_pool1d(input.pow(norm_type), [kernel_size], steps, [0], ceil_mode)
    return root_of_sums(mean, kernel_size, norm_type)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Sizes2, stride: Sizes2 | None = None, ceil_mode: bool = False
) -> Tensor:
    steps = kernel_size if stride is None else stride
    mean = aten.avg_pool2d(input.pow(norm_type), kernel_size, steps, [0, 0], ceil_mode)
    return root_of_sums(mean, kernel_size[0] * kernel_size[1], norm_type)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Sizes3, stride: Sizes3 | None = None, ceil_mode: bool = False
) -> Tensor:
    steps = kernel_size if stride is None else stride
    mean = aten.avg_pool3d(input.pow(norm_type), kernel_size, steps, [0, 0, 0], ceil_mode)
    return root_of_sums(mean, kernel_size[0] * kernel_size[1] * kernel_size[2], norm_type)


def pooled_sizes(input: Tensor, size: list[int] | None, ratio: list[float] | None, rank: int) -> list[int]:
    """The sizes of a result, which are given or a part of the operand's."""
    if size is not None:
        return size
    if ratio is None:
        raise ValueError("fractional_max_pool requires specifying either an output_size or an output_ratio")
    return [int(input.size(i - rank) * ratio[i]) for i in range(rank)]


def pool_samples(input: Tensor, samples: Tensor | None, rank: int) -> Tensor:
    if samples is not None:
        return samples
    count = 1 if input.dim() == rank + 1 else input.size(0)
    return aten.rand([count, input.size(-rank - 1), rank], dtype=input.dtype, device=input.device)


def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: Sizes2, output_size: Sizes2 | None = None, output_ratio: Factors2 | None = None,
    return_indices: bool = True, _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    sizes = pooled_sizes(input, output_size, output_ratio, 2)
    return aten.fractional_max_pool2d(input, kernel_size, sizes, pool_samples(input, _random_samples, 2))


def fractional_max_pool2d(
    input: Tensor, kernel_size: Sizes2, output_size: Sizes2 | None = None, output_ratio: Factors2 | None = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> Tensor:  # fmt: skip
    sizes = pooled_sizes(input, output_size, output_ratio, 2)
    return aten.fractional_max_pool2d(input, kernel_size, sizes, pool_samples(input, _random_samples, 2))[0]


def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: Sizes3, output_size: Sizes3 | None = None, output_ratio: Factors3 | None = None,
    return_indices: bool = True, _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    sizes = pooled_sizes(input, output_size, output_ratio, 3)
    return aten.fractional_max_pool3d(input, kernel_size, sizes, pool_samples(input, _random_samples, 3))


def fractional_max_pool3d(
    input: Tensor, kernel_size: Sizes3, output_size: Sizes3 | None = None, output_ratio: Factors3 | None = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> Tensor:  # fmt: skip
    sizes = pooled_sizes(input, output_size, output_ratio, 3)
    return aten.fractional_max_pool3d(input, kernel_size, sizes, pool_samples(input, _random_samples, 3))[0]


def unpooled_sizes(
    input: Tensor, kernel_size: list[int], stride: list[int], padding: list[int], output_size: list[int] | None
) -> list[int]:
    """The sizes that windows have come from, or those that are given, without batch and channels."""
    rank = len(kernel_size)
    if output_size is not None:
        return output_size[len(output_size) - rank :]
    return [(input.size(i - rank) - 1) * stride[i] + kernel_size[i] - 2 * padding[i] for i in range(rank)]


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Sizes1, stride: Sizes1 | None = None, padding: Sizes1 = [0],
    output_size: list[int] | None = None,
) -> Tensor:  # fmt: skip
    steps = kernel_size if stride is None else stride
    size = unpooled_sizes(input, kernel_size, steps, padding, output_size)
    return aten.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [size[0], 1]).squeeze(-1)


def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Sizes2, stride: Sizes2 | None = None, padding: Sizes2 = [0, 0],
    output_size: list[int] | None = None,
) -> Tensor:  # fmt: skip
    steps = kernel_size if stride is None else stride
    return aten.max_unpool2d(input, indices, unpooled_sizes(input, kernel_size, steps, padding, output_size))


def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Sizes3, stride: Sizes3 | None = None, padding: Sizes3 = [0, 0, 0],
    output_size: list[int] | None = None,
) -> Tensor:  # fmt: skip
    steps = kernel_size if stride is None else stride
    size = unpooled_sizes(input, kernel_size, steps, padding, output_size)
    return aten.max_unpool3d(input, indices, size, steps, padding)
